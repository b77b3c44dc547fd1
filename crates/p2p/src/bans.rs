//! Banned addresses: addresses or subnets that the user bans, each until a time.
//!
//! Source: Bitcoin Core b88bffe, banman.cpp, netaddress.cpp (`CSubNet`), netbase.cpp (`LookupSubNet`).
//! Absent on purpose: the file of bans, and discouraged addresses, which are in [`crate::addresses`].

use crate::wire::NetAddress;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Default ban duration in seconds. Source: Bitcoin Core b88bffe, banman.h, `DEFAULT_MISBEHAVING_BANTIME`.
pub const BAN_SECONDS_DEFAULT: i64 = 24 * 3600;
/// Maximum number of bans: the user sets them one by one.
pub const BAN_COUNT_MAX: usize = 100_000;

/// An address, or all addresses with the same prefix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subnet {
    address: NetAddress,
    /// Length of the prefix in bits; the whole length for an address outside IP networks.
    bits: u8,
}

impl Subnet {
    /// A single address.
    pub fn single(address: NetAddress) -> Subnet {
        let bits = address.bytes().len() * 8;
        Subnet { address, bits: u8::try_from(bits.min(255)).expect("at most 255") }
    }

    /// Parses `IP`, `IP/BITS`, `IP/NETMASK` or a Tor address; `None` for any other text.
    pub fn parse(text: &str) -> Option<Subnet> {
        let (host, mask) = text.rsplit_once('/').map_or((text, None), |(host, mask)| (host, Some(mask)));
        let address = NetAddress::parse(host)?;
        let Some(mask) = mask else { return Some(Subnet::single(address)) };
        let width = match address {
            NetAddress::V4(_) => 32,
            NetAddress::V6(_) => 128,
            _ => return None,
        };
        let bits = match mask.parse::<u8>() {
            Ok(bits) => bits,
            Err(_) => mask_bits(address, mask)?,
        };
        (bits <= width).then(|| Subnet { address: truncated(address, bits), bits })
    }

    /// Whether the subnet includes this address.
    pub fn has(&self, address: &NetAddress) -> bool {
        self.address.network() == address.network() && truncated(*address, self.bits) == self.address
    }

    /// Whether the address can be banned: Core's `CNetAddr::IsValid`.
    pub fn is_valid(&self) -> bool {
        match self.address {
            NetAddress::V4(bytes) => self.bits < 32 || (bytes != [0; 4] && bytes != [255; 4]),
            NetAddress::V6(bytes) => self.bits < 128 || (bytes != [0; 16] && !bytes.starts_with(&[0x20, 1, 0xd, 0xb8])),
            _ => true,
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            NetAddress::V4(_) | NetAddress::V6(_) => write!(f, "{}/{}", self.address, self.bits),
            _ => self.address.fmt(f),
        }
    }
}

/// Leading bits of a netmask; address and netmask must both be IPv4 or both IPv6.
fn mask_bits(address: NetAddress, mask: &str) -> Option<u8> {
    let (ones, zeros, width) = match (address, NetAddress::parse(mask)?) {
        (NetAddress::V4(_), NetAddress::V4(bytes)) => {
            let mask = u32::from_be_bytes(bytes);
            (mask.leading_ones(), mask.trailing_zeros(), 32)
        }
        (NetAddress::V6(_), NetAddress::V6(bytes)) => {
            let mask = u128::from_be_bytes(bytes);
            (mask.leading_ones(), mask.trailing_zeros(), 128)
        }
        _ => return None,
    };
    u8::try_from(ones).ok().filter(|_| ones + zeros == width)
}

/// An address with all bits after the prefix set to zero; unchanged outside IP networks.
fn truncated(address: NetAddress, bits: u8) -> NetAddress {
    match address {
        NetAddress::V4(bytes) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits.into())).unwrap_or(0);
            NetAddress::V4(Ipv4Addr::from_bits(u32::from_be_bytes(bytes) & mask).octets())
        }
        NetAddress::V6(bytes) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits.into())).unwrap_or(0);
            NetAddress::V6(Ipv6Addr::from_bits(u128::from_be_bytes(bytes) & mask).octets())
        }
        other => other,
    }
}

impl NetAddress {
    /// Parses an IP address, `[IPv6]`, a Tor or an I2P address.
    pub fn parse(text: &str) -> Option<NetAddress> {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(ip) = inner.parse::<IpAddr>() {
            return Some(NetAddress::from_ip(ip));
        }
        let text = text.to_ascii_lowercase();
        crate::wire::onion_key(&text)
            .map(NetAddress::TorV3)
            .or_else(|| crate::wire::i2p_hash(&text).map(NetAddress::I2p))
    }
}

/// Start and end of a ban: seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ban {
    /// When it was made.
    pub created: i64,
    /// When it ends.
    pub until: i64,
}

/// The bans.
#[derive(Clone, Debug, Default)]
pub struct BanList {
    bans: BTreeMap<Subnet, Ban>,
    /// `-bantime`.
    seconds_default: Option<i64>,
}

impl BanList {
    /// Sets the default ban duration, in seconds.
    pub fn set_default(&mut self, seconds: i64) {
        self.seconds_default = Some(seconds);
    }

    /// Replaces these bans with those of another list.
    pub fn replace(&mut self, other: BanList) {
        self.bans = other.bans;
    }

    /// Bans a subnet for `seconds` from `now` on, or until the time `seconds` if `is_absolute`. Zero or less is the
    /// default duration. Returns whether the ban lasts longer than the previous one.
    pub fn ban(&mut self, subnet: Subnet, seconds: i64, is_absolute: bool, now: i64) -> bool {
        let until = match (seconds, is_absolute) {
            (..=0, _) => now.saturating_add(self.seconds_default.unwrap_or(BAN_SECONDS_DEFAULT)),
            (_, true) => seconds,
            (_, false) => now.saturating_add(seconds),
        };
        self.put(subnet, Ban { created: now, until })
    }

    /// Stores a ban as it was made; returns whether it lasts longer than the previous one.
    pub fn put(&mut self, subnet: Subnet, ban: Ban) -> bool {
        let is_longer = self.bans.get(&subnet).is_none_or(|old| old.until < ban.until);
        let has_room = self.bans.len() < BAN_COUNT_MAX || self.bans.contains_key(&subnet);
        if is_longer && has_room {
            self.bans.insert(subnet, ban);
        }
        is_longer && has_room
    }

    /// Ends a ban; returns whether there was one of exactly this subnet.
    pub fn unban(&mut self, subnet: &Subnet) -> bool {
        self.bans.remove(subnet).is_some()
    }

    /// Ends all bans.
    pub fn clear(&mut self) {
        self.bans.clear();
    }

    /// Whether exactly this subnet is banned.
    pub fn has(&self, subnet: &Subnet, now: i64) -> bool {
        self.bans.get(subnet).is_some_and(|ban| now < ban.until)
    }

    /// Whether an address is in a banned subnet.
    pub fn is_banned(&self, address: &NetAddress, now: i64) -> bool {
        self.bans.iter().any(|(subnet, ban)| now < ban.until && subnet.has(address))
    }

    /// The bans that have not ended, in Core's order; expired ones are removed.
    pub fn list(&mut self, now: i64) -> Vec<(Subnet, Ban)> {
        self.bans.retain(|_, ban| now <= ban.until);
        self.bans.iter().map(|(subnet, ban)| (*subnet, *ban)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was given to bitcoind's setban, and is what listbanned showed, or was refused there.
    #[test]
    fn subnets_are_read_and_shown_as_in_core() {
        let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
        for (text, want) in [
            ("192.0.2.0/24", Some("192.0.2.0/24")),
            ("10.0.0.1", Some("10.0.0.1/32")),
            ("10.0.0.1/255.255.255.0", Some("10.0.0.0/24")),
            ("10.0.0.1/0", Some("0.0.0.0/0")),
            ("2001:db9::/32", Some("2001:db9::/32")),
            ("[2001:db9::1]", Some("2001:db9::1/128")),
            (onion, Some(onion)),
            ("10.0.0.1/33", None),
            ("10.0.0.1/255.0.255.0", None),
            ("nonsense", None),
            ("10.0.0.1/", None),
            ("", None),
        ] {
            assert_eq!(Subnet::parse(text).map(|subnet| subnet.to_string()).as_deref(), want, "{text}");
        }
        for (text, want) in [("0.0.0.0", false), ("255.255.255.255", false), ("0.0.0.0/0", true), ("1.2.3.4", true)] {
            assert_eq!(Subnet::parse(text).unwrap().is_valid(), want, "{text}");
        }
    }

    #[test]
    fn bans_end_and_are_listed_in_order() {
        let subnet = |text: &str| Subnet::parse(text).unwrap();
        let address = |text: &str| NetAddress::parse(text).unwrap();
        let mut bans = BanList::default();
        assert!(bans.ban(subnet("192.0.2.0/24"), 1000, false, 5));
        assert!(!bans.ban(subnet("192.0.2.0/24"), 10, false, 5), "a shorter one changes nothing");
        assert!(bans.ban(subnet("10.0.0.1"), 0, false, 5) && bans.ban(subnet("10.0.0.0/24"), 50, true, 5));
        for (row, text, now, want) in [
            ("in the subnet", "192.0.2.77", 1004, true),
            ("at its end", "192.0.2.77", 1005, false),
            ("beside it", "192.0.3.1", 6, false),
            ("the default day", "10.0.0.1", 5 + BAN_SECONDS_DEFAULT - 1, true),
            ("an absolute end", "10.0.0.2", 50, false),
        ] {
            assert_eq!(bans.is_banned(&address(text), now), want, "{row}");
        }
        let shown: Vec<String> = bans.list(6).iter().map(|(subnet, _)| subnet.to_string()).collect();
        assert_eq!(shown, ["10.0.0.0/24", "10.0.0.1/32", "192.0.2.0/24"]);
        assert_eq!(bans.list(2000).len(), 1, "those that ended are forgotten");
        assert!(bans.unban(&subnet("10.0.0.1")) && !bans.unban(&subnet("10.0.0.1")));
    }
}
