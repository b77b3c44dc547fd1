//! Network groups: addresses of one group may belong to one operator.
//!
//! Group: class u8 | up to 10 bytes. Without a map of autonomous systems it is the /16 of IPv4, the /32 of IPv6 (/36 of
//! Hurricane Electric's), the first four bits of a Tor or I2P key, and for CJDNS the four bits after the first byte.
//!
//! Source: Bitcoin Core b88bffe, netgroup.cpp, `NetGroupManager::GetGroup`. The bytes are Core's because its tables
//! follow from them. Absent on purpose: the map ([`crate::addresses::groups`]).

use super::address::NetAddress;
use kernels::sha256::sha256;

/// Greatest length: class and ten bytes that represent a name.
const GROUP_BYTES_MAX: usize = 11;
/// Classes. Source: Core's `enum Network`.
const IPV6: u8 = 2;
const INTERNAL: u8 = 6;
/// Prefix of addresses that represent a name. Source: Core's `INTERNAL_IN_IPV6_PREFIX`.
const INTERNAL_PREFIX: [u8; 6] = [0xfd, 0x6b, 0x88, 0xc0, 0x87, 0x24];

/// Network group for the choice of peers: addresses of one group may belong to one operator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Group {
    bytes: [u8; GROUP_BYTES_MAX],
    length: u8,
}

impl Group {
    fn of(class: u8, rest: &[u8]) -> Group {
        let mut bytes = [0; GROUP_BYTES_MAX];
        bytes[0] = class;
        bytes[1..=rest.len()].copy_from_slice(rest);
        Group { bytes, length: u8::try_from(1 + rest.len()).expect("at most 11") }
    }

    /// The group of a host name, which represents unknown addresses.
    pub fn of_name(name: &str) -> Group {
        NetAddress::of_name(name).group()
    }

    /// The group of all addresses of an autonomous system, IPv4 and IPv6.
    pub fn of_system(number: u32) -> Group {
        Group::of(IPV6, &number.to_le_bytes())
    }

    /// Its bytes, to be hashed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length.into()]
    }
}

impl NetAddress {
    /// The address that represents a name as source of addresses. Source: Core's `CNetAddr::SetInternal`.
    pub fn of_name(name: &str) -> NetAddress {
        let mut out = [0; 16];
        out[..6].copy_from_slice(&INTERNAL_PREFIX);
        out[6..].copy_from_slice(&sha256(name.as_bytes())[..10]);
        NetAddress::V6(out)
    }

    /// The ten bytes of an address that represents a name.
    pub fn internal(&self) -> Option<&[u8]> {
        if let NetAddress::V6(bytes) = self { bytes.strip_prefix(&INTERNAL_PREFIX) } else { None }
    }

    /// Whether it can be the address of a machine. Source: Bitcoin Core b88bffe, `CNetAddr::IsValid`.
    pub fn is_valid(self) -> bool {
        match self {
            NetAddress::V4(bytes) => bytes != [0; 4] && bytes != [255; 4],
            NetAddress::V6(bytes) => {
                bytes != [0; 16] && !bytes.starts_with(&[0x20, 1, 0xd, 0xb8]) && self.internal().is_none()
            }
            NetAddress::Cjdns(bytes) => bytes[0] == 0xfc,
            NetAddress::TorV3(_) | NetAddress::I2p(_) => true,
        }
    }

    /// Whether the address is publicly routable: others are ignored in gossip.
    ///
    /// Source: Bitcoin Core b88bffe, `CNetAddr::IsRoutable`.
    pub fn is_routable(self) -> bool {
        let is_private = match self {
            NetAddress::V4([a, b, c, _]) => matches!(
                (a, b, c),
                (0 | 10 | 127, ..)
                    | (169, 254, _)
                    | (192, 168, _)
                    | (198, 18 | 19, _)
                    | (172, 16..=31, _)
                    | (100, 64..=127, _)
                    | (192, 0, 2)
                    | (198, 51, 100)
                    | (203, 0, 113)
            ),
            NetAddress::V6(bytes) => {
                let is_local = bytes.starts_with(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0]) || bytes[0] & 0xfe == 0xfc;
                let is_orchid = bytes.starts_with(&[0x20, 1, 0]) && matches!(bytes[3] & 0xf0, 0x10 | 0x20);
                is_local || is_orchid || self.is_loopback()
            }
            NetAddress::TorV3(_) | NetAddress::I2p(_) | NetAddress::Cjdns(_) => false,
        };
        self.is_valid() && !is_private
    }

    /// The IPv4 address itself, or the one embedded in it. Source: Bitcoin Core b88bffe, `HasLinkedIPv4`,
    /// `GetLinkedIPv4`.
    pub fn linked_v4(self) -> Option<[u8; 4]> {
        const TRANSLATED: [[u8; 12]; 2] =
            [[0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]];
        if !self.is_routable() {
            return None;
        }
        match self {
            NetAddress::V4(bytes) => Some(bytes),
            NetAddress::V6(bytes) => {
                let [_, _, a, b, c, d, ..] = bytes;
                let (start, last) = bytes.split_last_chunk::<4>().expect("16 bytes");
                match start {
                    start if TRANSLATED.iter().any(|prefix| start == prefix) => Some(*last),
                    [0x20, 2, ..] => Some([a, b, c, d]),
                    [0x20, 1, 0, 0, ..] => Some(last.map(|byte| !byte)),
                    _ => None,
                }
            }
            NetAddress::TorV3(_) | NetAddress::I2p(_) | NetAddress::Cjdns(_) => None,
        }
    }

    /// Its class in Core: 0 if it is not routable. Source: Bitcoin Core b88bffe, `CNetAddr::GetNetClass`.
    fn class(self) -> u8 {
        match self {
            _ if self.internal().is_some() => INTERNAL,
            _ if !self.is_routable() => 0,
            _ if self.linked_v4().is_some() => 1,
            NetAddress::V4(_) => 1,
            NetAddress::V6(_) => IPV6,
            NetAddress::TorV3(_) => 3,
            NetAddress::I2p(_) => 4,
            NetAddress::Cjdns(_) => 5,
        }
    }

    /// BIP155 number of its class: that of IPv4 if one is embedded, 0 if it is not routable.
    pub fn class_network(self) -> u8 {
        [0, 1, 2, 4, 5, 6, 0][usize::from(self.class())]
    }

    /// Core's name of its class. Source: Bitcoin Core b88bffe, netbase.cpp, `GetNetworkName`.
    pub fn class_name(self) -> &'static str {
        ["not_publicly_routable", "ipv4", "ipv6", "onion", "i2p", "cjdns", "internal"][usize::from(self.class())]
    }

    /// Whether a map of autonomous systems can have an entry for it.
    pub fn is_mappable(self) -> bool {
        matches!(self.class(), 1 | IPV6)
    }

    /// Its group, without a map.
    pub fn group(self) -> Group {
        let class = self.class();
        if let Some(internal) = self.internal() {
            return Group::of(class, internal);
        }
        if class == 0 {
            return Group::of(class, &[]);
        }
        if let Some([a, b, ..]) = self.linked_v4() {
            return Group::of(class, &[a, b]);
        }
        match self {
            NetAddress::V6([0x20, 1, 4, 0x70, a, ..]) => Group::of(class, &[0x20, 1, 4, 0x70, a | 0x0f]),
            NetAddress::V6([a, b, c, d, ..]) => Group::of(class, &[a, b, c, d]),
            NetAddress::Cjdns([a, b, ..]) => Group::of(class, &[a, b | 0x0f]),
            NetAddress::TorV3([a, ..]) | NetAddress::I2p([a, ..]) => Group::of(class, &[a | 0x0f]),
            NetAddress::V4([a, b, ..]) => Group::of(class, &[a, b]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Target;

    fn address(text: &str) -> NetAddress {
        match Target::parse(text, 1).unwrap() {
            Target::Peer(peer) => peer.address,
            Target::Name(..) => panic!("{text} is an address"),
        }
    }

    /// The cases of Bitcoin Core b88bffe, src/test/netbase_tests.cpp, `netbase_getgroup`, and the networks of keys.
    #[test]
    fn groups_are_cores() {
        for (text, want) in [
            ("127.0.0.1", vec![0]),
            ("10.0.0.1", vec![0]),
            ("169.254.1.1", vec![0]),
            ("1.2.3.4", vec![1, 1, 2]),
            ("::ffff:0:102:304", vec![1, 1, 2]),
            ("64:ff9b::102:304", vec![1, 1, 2]),
            ("2002:102:304:9999:9999:9999:9999:9999", vec![1, 1, 2]),
            ("2001:0:9999:9999:9999:9999:fefd:fcfb", vec![1, 1, 2]),
            ("2001:470:abcd:9999:9999:9999:9999:9999", vec![2, 32, 1, 4, 112, 175]),
            ("2001:2001:9999:9999:9999:9999:9999:9999", vec![2, 32, 1, 32, 1]),
        ] {
            assert_eq!(address(text).group().bytes(), want, "{text}");
        }
        assert_eq!(NetAddress::TorV3([0x15; 32]).group().bytes(), [3, 0x1f]);
        assert_eq!(NetAddress::I2p([0xa0; 32]).group().bytes(), [4, 0xaf]);
        assert_eq!(NetAddress::Cjdns([0xfc; 16]).group().bytes(), [5, 0xfc, 0xff]);
        let name = NetAddress::of_name("esffpp");
        // Bitcoin Core b88bffe, src/test/net_tests.cpp: "esffpvrt3wpeaygy.internal".
        assert_eq!(primitives::hex::encode(name.internal().unwrap()), "248a57d633dd9e4060d8");
        assert_eq!((name.group().bytes().len(), name.group().bytes()[0]), (11, 6));
        assert_ne!(Group::of_name("a"), Group::of_name("b"));
        assert_eq!(Group::of_system(0x0403_0201).bytes(), [2, 1, 2, 3, 4]);
    }
}
