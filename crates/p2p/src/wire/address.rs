//! Addresses of peers: their forms on the wire (`addr`, BIP155's `addrv2`), and as text. Their groups are in `group`.
//!
//! Entry v1:  time u32 LE | services u64 LE | address [u8; 16] (IPv4 mapped) | port u16 BE
//! Entry v2:  time u32 LE | services CompactSize | network u8 | length CompactSize | address | port u16 BE

use super::onion;
use super::parse_error::ParseError;
use primitives::Reader;
use primitives::encode::put_compact_size;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Address of a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NetAddress {
    /// IPv4.
    V4([u8; 4]),
    /// IPv6, never a mapped IPv4.
    V6([u8; 16]),
    /// Key of a Tor version 3 service.
    TorV3([u8; 32]),
    /// Hash of an I2P destination: stored and relayed, not connected to.
    I2p([u8; 32]),
    /// CJDNS: stored and relayed, not connected to.
    Cjdns([u8; 16]),
}

/// An address with its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PeerAddress {
    /// The address.
    pub address: NetAddress,
    /// The port; 0 for I2P.
    pub port: u16,
}

/// An address in gossip.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressEntry {
    /// The address.
    pub peer: PeerAddress,
    /// The announced services.
    pub services: u64,
    /// When it was last seen, as announced: seconds since 1970.
    pub time: u32,
}

impl NetAddress {
    /// Converts from the operating system's form; a mapped IPv4 address becomes IPv4, fc00::/8 stays IPv6.
    pub fn from_ip(ip: IpAddr) -> NetAddress {
        match ip.to_canonical() {
            IpAddr::V4(v4) => NetAddress::V4(v4.octets()),
            IpAddr::V6(v6) => NetAddress::V6(v6.octets()),
        }
    }

    /// The operating system's form, if there is one.
    pub fn to_ip(self) -> Option<IpAddr> {
        match self {
            NetAddress::V4(bytes) => Some(IpAddr::V4(Ipv4Addr::from(bytes))),
            NetAddress::V6(bytes) => Some(IpAddr::V6(Ipv6Addr::from(bytes))),
            NetAddress::TorV3(_) | NetAddress::I2p(_) | NetAddress::Cjdns(_) => None,
        }
    }

    /// Whether the old `addr` message can carry it.
    pub fn is_ip(self) -> bool {
        matches!(self, NetAddress::V4(_) | NetAddress::V6(_))
    }

    /// BIP155 number of its network.
    pub fn network(self) -> u8 {
        match self {
            NetAddress::V4(_) => 1,
            NetAddress::V6(_) => 2,
            NetAddress::TorV3(_) => 4,
            NetAddress::I2p(_) => 5,
            NetAddress::Cjdns(_) => 6,
        }
    }

    /// The address bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            NetAddress::V4(bytes) => bytes,
            NetAddress::V6(bytes) | NetAddress::Cjdns(bytes) => bytes,
            NetAddress::TorV3(bytes) | NetAddress::I2p(bytes) => bytes,
        }
    }

    /// Parses BIP155's number and bytes: `Ok(None)` for a network, or a kind of address, that is not stored.
    ///
    /// # Errors
    ///
    /// [`ParseError::AddressBytes`] if the address of a known network has another length.
    pub fn from_bip155(network: u8, bytes: &[u8]) -> Result<Option<NetAddress>, ParseError> {
        let wrong = |_| ParseError::AddressBytes { network, have: bytes.len() };
        Ok(match network {
            1 => Some(NetAddress::V4(bytes.try_into().map_err(wrong)?)),
            2 => {
                let bytes: [u8; 16] = bytes.try_into().map_err(wrong)?;
                let onion_cat = bytes.starts_with(&[0xfd, 0x87, 0xd8, 0x7e, 0xeb, 0x43]);
                let mapped = Ipv6Addr::from(bytes).to_ipv4_mapped().is_some();
                (!onion_cat && !mapped).then_some(NetAddress::V6(bytes))
            }
            4 => Some(NetAddress::TorV3(bytes.try_into().map_err(wrong)?)),
            5 => Some(NetAddress::I2p(bytes.try_into().map_err(wrong)?)),
            6 => {
                let bytes: [u8; 16] = bytes.try_into().map_err(wrong)?;
                (bytes[0] == 0xfc).then_some(NetAddress::Cjdns(bytes))
            }
            _ => None,
        })
    }

    /// Converts an IPv6 address of fc00::/8 to a CJDNS address; other addresses are unchanged. Source: Bitcoin Core
    /// b88bffe, `MaybeFlipIPv6toCJDNS`.
    pub fn or_cjdns(self) -> NetAddress {
        match self {
            NetAddress::V6(bytes) if bytes[0] == 0xfc => NetAddress::Cjdns(bytes),
            other => other,
        }
    }

    /// Core's name of its network. Source: Bitcoin Core b88bffe, netbase.cpp, `GetNetworkName`;
    /// `CNetAddr::GetNetClass`.
    pub fn network_name(self) -> &'static str {
        match self {
            _ if !self.is_routable() => "not_publicly_routable",
            NetAddress::V4(_) => "ipv4",
            NetAddress::V6(_) => "ipv6",
            NetAddress::TorV3(_) => "onion",
            NetAddress::I2p(_) => "i2p",
            NetAddress::Cjdns(_) => "cjdns",
        }
    }

    /// Whether it is this machine's own.
    pub fn is_loopback(self) -> bool {
        match self {
            NetAddress::V4(bytes) => Ipv4Addr::from(bytes).is_loopback(),
            NetAddress::V6(bytes) => Ipv6Addr::from(bytes).is_loopback(),
            NetAddress::TorV3(_) | NetAddress::I2p(_) | NetAddress::Cjdns(_) => false,
        }
    }

    /// Whether it is this machine's own, as Core sees it. Source: Bitcoin Core b88bffe, `CNetAddr::IsLocal`.
    pub fn is_local(self) -> bool {
        self.is_loopback() || matches!(self, NetAddress::V4([0, ..]))
    }
}

impl fmt::Display for NetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetAddress::V4(bytes) => Ipv4Addr::from(*bytes).fmt(f),
            NetAddress::V6(bytes) | NetAddress::Cjdns(bytes) => match self.internal() {
                // Source of the form: Core's `CNetAddr::ToStringAddr`.
                Some(name) => write!(f, "{}.internal", onion::base32(name)),
                None => Ipv6Addr::from(*bytes).fmt(f),
            },
            NetAddress::TorV3(key) => f.write_str(&onion::name(key)),
            NetAddress::I2p(hash) => write!(f, "{}.b32.i2p", onion::base32(hash)),
        }
    }
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> PeerAddress {
        PeerAddress { address: NetAddress::from_ip(address.ip()), port: address.port() }
    }
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            NetAddress::V6(_) | NetAddress::Cjdns(_) => write!(f, "[{}]:{}", self.address, self.port),
            _ => write!(f, "{}:{}", self.address, self.port),
        }
    }
}

/// Target of a connection: an address, or a name to be looked up.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// An address.
    Peer(PeerAddress),
    /// A host name and port.
    Name(String, u16),
}

/// Text that is not the address of a peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetError {
    text: String,
    is_port_zero: bool,
}

impl fmt::Display for TargetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_port_zero {
            return write!(
                f,
                "{:?} names port 0, and no peer listens on port 0: name another port, or none",
                self.text
            );
        }
        write!(f, "{:?} is not an address: wanted HOST, HOST:PORT, [IPV6]:PORT or NAME.onion:PORT", self.text)
    }
}

impl std::error::Error for TargetError {}

impl Target {
    /// Parses `host`, `host:port`, `v6`, `[v6]`, `[v6]:port`, `name.onion:port`.
    ///
    /// # Errors
    ///
    /// [`TargetError`] with the text.
    pub fn parse(text: &str, default_port: u16) -> Result<Target, TargetError> {
        let target = Target::parse_any(text, default_port)?;
        let (Target::Peer(PeerAddress { port, .. }) | Target::Name(_, port)) = &target;
        // Port 0 cannot be connected to: it would be tried indefinitely.
        if *port == 0 { Err(TargetError { text: text.to_owned(), is_port_zero: true }) } else { Ok(target) }
    }

    /// Whether a proxy is used for it: as in Core, proxies are not used for addresses of this machine or a local
    /// network. Source: Bitcoin Core b88bffe, netbase.cpp, `GetProxy` of `NET_UNROUTABLE`.
    pub fn is_proxied(&self) -> bool {
        match self {
            Target::Peer(peer) => peer.address.to_ip().is_none() || peer.address.is_routable(),
            Target::Name(..) => true,
        }
    }

    /// Core's name of its network; for a host name, which is not looked up here, that of the networks it may be in.
    pub fn network_name(&self) -> &'static str {
        match self {
            Target::Peer(peer) => peer.address.network_name(),
            Target::Name(..) => "not_publicly_routable",
        }
    }

    fn parse_any(text: &str, default_port: u16) -> Result<Target, TargetError> {
        let wrong = || TargetError { text: text.to_owned(), is_port_zero: false };
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Target::Peer(PeerAddress { address: NetAddress::from_ip(ip), port: default_port }));
        }
        if let Some(rest) = text.strip_prefix('[') {
            let (ip, rest) = rest.split_once(']').ok_or_else(wrong)?;
            let ip: Ipv6Addr = ip.parse().map_err(|_| wrong())?;
            let port = match rest {
                "" => default_port,
                _ => rest.strip_prefix(':').and_then(|p| p.parse().ok()).ok_or_else(wrong)?,
            };
            return Ok(Target::Peer(PeerAddress { address: NetAddress::from_ip(IpAddr::V6(ip)), port }));
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (text, default_port),
        };
        if let Some(octets) = numeric_v4(host) {
            return Ok(Target::Peer(PeerAddress { address: NetAddress::V4(octets), port }));
        }
        if host.to_ascii_lowercase().ends_with(".onion") {
            let key = onion::key(&host.to_ascii_lowercase()).ok_or_else(wrong)?;
            return Ok(Target::Peer(PeerAddress { address: NetAddress::TorV3(key), port }));
        }
        let sound = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_');
        if host.is_empty() || host.len() > 253 || !host.bytes().all(sound) {
            return Err(wrong());
        }
        Ok(Target::Name(host.to_owned(), port))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Peer(peer) => peer.fmt(f),
            Target::Name(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// The bytes of a numeric IPv4 address. Core takes every form of the C library's `inet_aton`: one to four numbers with
/// dots, decimal, octal (`0`) or hexadecimal (`0x`), of which the last has all remaining bytes.
/// Source: Bitcoin Core b88bffe, `LookupNumeric`; POSIX, `inet_addr`.
fn numeric_v4(host: &str) -> Option<[u8; 4]> {
    let parts: Vec<&str> = host.split('.').collect();
    let (last, first) = parts.split_last().filter(|(_, first)| first.len() < 4)?;
    let mut octets = [0; 4];
    for (octet, part) in octets.iter_mut().zip(first) {
        *octet = u8::try_from(number_of_c(part)?).ok()?;
    }
    let rest = number_of_c(last)?.to_be_bytes();
    let (above, below) = rest.split_at(first.len());
    octets[first.len()..].copy_from_slice(below);
    above.iter().all(|byte| *byte == 0).then_some(octets)
}

/// A number in the notation of C.
fn number_of_c(text: &str) -> Option<u32> {
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if text.len() > 1 && text.starts_with('0') => (text, 8),
        None => (text, 10),
    };
    // `from_str_radix` would accept a sign.
    let is_number = digits.chars().all(|digit| digit.is_digit(radix));
    u32::from_str_radix(digits, radix).ok().filter(|_| is_number)
}

pub(super) fn get_entry_v1(reader: &mut Reader<'_>) -> Result<AddressEntry, ParseError> {
    let time = reader.u32()?;
    let services = reader.u64()?;
    let ip = IpAddr::V6(Ipv6Addr::from(*reader.array::<16>()?));
    let port = u16::from_be_bytes(*reader.array()?);
    Ok(AddressEntry { peer: PeerAddress { address: NetAddress::from_ip(ip), port }, services, time })
}

pub(super) fn put_entry_v1(out: &mut Vec<u8>, entry: &AddressEntry) {
    let ip = match entry.peer.address.to_ip() {
        Some(IpAddr::V4(v4)) => v4.to_ipv6_mapped(),
        Some(IpAddr::V6(v6)) => v6,
        None => Ipv6Addr::UNSPECIFIED,
    };
    out.extend_from_slice(&entry.time.to_le_bytes());
    out.extend_from_slice(&entry.services.to_le_bytes());
    out.extend_from_slice(&ip.octets());
    out.extend_from_slice(&entry.peer.port.to_be_bytes());
}

/// Greatest length of an address. Source: BIP155.
const ADDRESS_BYTES_MAX: usize = 512;

pub(super) fn get_entry_v2(reader: &mut Reader<'_>) -> Result<Option<AddressEntry>, ParseError> {
    let time = reader.u32()?;
    let services = compact_u64(reader)?;
    let network = reader.u8()?;
    let have = reader.compact_size()?;
    if have > ADDRESS_BYTES_MAX {
        return Err(ParseError::AddressBytes { network, have });
    }
    let address = NetAddress::from_bip155(network, reader.take(have)?)?;
    let port = u16::from_be_bytes(*reader.array()?);
    Ok(address.map(|address| AddressEntry { peer: PeerAddress { address, port }, services, time }))
}

pub(super) fn put_entry_v2(out: &mut Vec<u8>, entry: &AddressEntry) {
    out.extend_from_slice(&entry.time.to_le_bytes());
    put_compact_size(out, entry.services);
    out.push(entry.peer.address.network());
    let bytes = entry.peer.address.bytes();
    put_compact_size(out, u64::try_from(bytes.len()).expect("at most 32"));
    out.extend_from_slice(bytes);
    out.extend_from_slice(&entry.peer.port.to_be_bytes());
}

/// A CompactSize without the bound on sizes: services are a set of 64 bits.
fn compact_u64(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    Ok(match reader.u8()? {
        253 => u64::from(reader.u16()?),
        254 => u64::from(reader.u32()?),
        255 => reader.u64()?,
        small => u64::from(small),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn address_text_round_trips() {
        let tor = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";
        for (text, want) in [
            ("1.2.3.4", "1.2.3.4:8333".to_owned()),
            ("1.2.3.4:5", "1.2.3.4:5".to_owned()),
            ("2001:db8::1", "[2001:db8::1]:8333".to_owned()),
            ("[2001:db8::1]", "[2001:db8::1]:8333".to_owned()),
            ("[2001:db8::1]:7", "[2001:db8::1]:7".to_owned()),
            ("::ffff:1.2.3.4", "1.2.3.4:8333".to_owned()),
            ("node.example.org", "node.example.org:8333".to_owned()),
            ("node.example.org:9", "node.example.org:9".to_owned()),
            (tor, format!("{tor}:8333")),
        ] {
            assert_eq!(Target::parse(text, 8333).unwrap().to_string(), want, "{text}");
        }
        for bad in ["", ":1", "a b", "host:port", "host:65536", "[::1", "[::1]x", "[1.2.3.4]:5", "abc.onion", "a:b:c"] {
            let why = Target::parse(bad, 8333).unwrap_err().to_string();
            assert!(why.contains("is not an address"), "{bad}: {why}");
        }
        for bad in ["1.2.3.4:0", "[::1]:0", "node.example.org:0"] {
            let why = Target::parse(bad, 8333).unwrap_err().to_string();
            assert!(why.contains("no peer listens on port 0"), "{bad}: {why}");
        }
    }

    /// Expected values: `inet_aton` of glibc 2.36.
    #[test]
    fn numeric_ipv4_addresses_are_those_of_the_c_library() {
        for (text, want) in [
            ("1.2.3.4", Some([1, 2, 3, 4])),
            ("127.1", Some([127, 0, 0, 1])),
            ("127.0.1", Some([127, 0, 0, 1])),
            ("1.2.3", Some([1, 2, 0, 3])),
            ("0x7f.1", Some([127, 0, 0, 1])),
            ("0X7F000001", Some([127, 0, 0, 1])),
            ("0177.0.0.1", Some([127, 0, 0, 1])),
            ("2130706433", Some([127, 0, 0, 1])),
            ("00.0.0.01", Some([0, 0, 0, 1])),
            ("1.2.3.256", None),
            ("256.1", None),
            ("1.16777216", None),
            ("4294967296", None),
            ("08.1", None),
            ("0x", None),
            ("1..2", None),
            ("1.2.", None),
            ("1.2.3.4.5", None),
            ("+1.2", None),
            ("", None),
        ] {
            assert_eq!(numeric_v4(text), want, "{text}");
        }
        assert_eq!(Target::parse("127.1:5", 8333), Target::parse("127.0.0.1:5", 8333));
    }

    #[test]
    fn only_public_addresses_are_routable() {
        for (text, want) in [
            ("8.8.8.8", true),
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("192.168.1.1", false),
            ("172.16.0.1", false),
            ("169.254.1.1", false),
            ("100.64.0.1", false),
            ("198.18.0.1", false),
            ("192.0.2.1", false),
            ("0.1.2.3", false),
            ("255.255.255.255", false),
            ("192.0.0.8", true),
            ("192.0.2.8", false),
            ("2a01:4f8::1", true),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fc00::1", false),
            ("2001:db8::1", false),
            ("2001:10::1", false),
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(NetAddress::from_ip(ip).is_routable(), want, "{text}");
        }
    }

    /// BIP155's own rules: what is dropped without offence, and what is an error.
    #[test]
    fn addrv2_entries_decode_by_network() {
        for (row, network, address, want) in [
            ("ipv4", 1, "01020304", Ok(true)),
            ("ipv4 of another length", 1, "010203", Err(())),
            ("ipv6", 2, "20010db8000000000000000000000001", Ok(true)),
            ("ipv6 that is a mapped ipv4", 2, "00000000000000000000ffff01020304", Ok(false)),
            ("ipv6 that is an onioncat", 2, "fd87d87eeb4301010101010101010101", Ok(false)),
            ("tor v2", 3, "01020304050607080900", Ok(false)),
            ("tor v3 of another length", 4, "01", Err(())),
            ("cjdns", 6, "fc000000000000000000000000000001", Ok(true)),
            ("cjdns of another range", 6, "20010db8000000000000000000000001", Ok(false)),
            ("a network of the future", 99, "0102030405", Ok(false)),
        ] {
            let got = NetAddress::from_bip155(network, &hex::decode(address).unwrap());
            assert_eq!(got.map(|address| address.is_some()).map_err(|_| ()), want, "{row}");
        }
        // Services beyond the bound of sizes are kept.
        let entry = AddressEntry {
            peer: PeerAddress { address: NetAddress::V4([8; 4]), port: 1 },
            services: 1 << 60 | 9,
            time: 3,
        };
        let mut bytes = Vec::new();
        put_entry_v2(&mut bytes, &entry);
        assert_eq!(get_entry_v2(&mut Reader::new(&bytes)).unwrap(), Some(entry));
        let long = [&[0, 0, 0, 0, 0, 1, 0xfd, 1, 2][..], &[0; 600]].concat();
        assert!(get_entry_v2(&mut Reader::new(&long)).is_err(), "513 bytes of address");
    }
}
