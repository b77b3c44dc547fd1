//! Permissions of peers, by `-whitelist` and `-whitebind`.
//!
//! Of Core's permissions, those that matter without transactions: `noban`, `download`, `addr`. `bloomfilter`,
//! `relay`, `forcerelay` and `mempool` are accepted, and have no effect here.
//!
//! Source: Bitcoin Core b88bffe, net_permissions.cpp. [`crate::hub`] applies them.

use crate::wire::NetAddress;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A set of permissions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Permissions(u8);

impl Permissions {
    /// No permission.
    pub const NONE: Permissions = Permissions(0);
    /// It gets headers even while our chain has less than minimum work.
    pub const DOWNLOAD: Permissions = Permissions(1);
    /// It is not disconnected for misbehaviour nor evicted, its headers are trusted to have work, and a pruned node
    /// serves it older blocks.
    pub const NOBAN: Permissions = Permissions(2 | 1);
    /// Its addresses are not rate-limited.
    pub const ADDR: Permissions = Permissions(4);
    /// The permissions that `-whitebind` without names grants, as far as they matter here. Core's `Implicit`.
    pub const IMPLICIT: Permissions = Permissions(8 | Permissions::NOBAN.0);
    /// All permissions.
    pub const ALL: Permissions = Permissions(7);

    /// The union of both sets.
    #[must_use]
    pub fn and(self, other: Permissions) -> Permissions {
        Permissions(self.0 | other.0)
    }

    /// Whether all of these are in the set.
    pub fn has(self, these: Permissions) -> bool {
        self.0 & these.0 == these.0
    }

    /// Whether the address of a `-whitebind` with these permissions is announced: not if the user named `noban`.
    /// Source: Bitcoin Core b88bffe, net.cpp, `CConnman::Bind`, `GetListenPort`.
    pub fn is_announced(self) -> bool {
        !self.has(Permissions::NOBAN) || self.has(Permissions::IMPLICIT)
    }

    /// Core's names, in its order. Source: Bitcoin Core b88bffe, net_permissions.cpp, `NetPermissions::ToStrings`.
    pub fn names(self) -> Vec<&'static str> {
        let all = [(Permissions::NOBAN, "noban"), (Permissions::DOWNLOAD, "download"), (Permissions::ADDR, "addr")];
        all.into_iter().filter(|(these, _)| self.has(*these)).map(|(_, name)| name).collect()
    }

    /// The permission with this name; [`Permissions::NONE`] for those without effect here.
    fn of_name(name: &str) -> Result<Permissions, String> {
        match name {
            "noban" => Ok(Permissions::NOBAN),
            "download" => Ok(Permissions::DOWNLOAD),
            "addr" => Ok(Permissions::ADDR),
            "all" => Ok(Permissions::ALL),
            "bloomfilter" | "bloom" | "forcerelay" | "relay" | "mempool" | "" => Ok(Permissions::NONE),
            _ => Err(format!("Invalid P2P permission: '{name}'")),
        }
    }
}

/// Permissions, the connections that they apply to, and the rest of the text.
struct Prefix<'a> {
    permissions: Permissions,
    inbound: bool,
    outbound: bool,
    rest: &'a str,
}

/// Parses `noban,in@rest`; without `@` the permissions are Core's implicit ones, of which `noban` matters here.
fn prefix(text: &str) -> Result<Prefix<'_>, String> {
    let Some((names, rest)) = text.split_once('@') else {
        return Ok(Prefix { permissions: Permissions::NOBAN, inbound: true, outbound: false, rest: text });
    };
    let mut out = Prefix { permissions: Permissions::NONE, inbound: false, outbound: false, rest };
    let mut is_named = false;
    for name in names.split(',') {
        match name {
            "in" => out.inbound = true,
            "out" => out.outbound = true,
            name => {
                out.permissions = out.permissions.and(Permissions::of_name(name)?);
                is_named |= !name.is_empty();
            }
        }
    }
    if (out.inbound || out.outbound) && !is_named {
        return Err(format!("Only direction was set, no permissions: '{text}'"));
    }
    // By default it applies to incoming connections.
    out.inbound |= !out.outbound;
    Ok(out)
}

/// `-whitelist`: permissions of the peers of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PermittedNet {
    permissions: Permissions,
    inbound: bool,
    outbound: bool,
    address: IpAddr,
    prefix_bits: u32,
}

impl PermittedNet {
    /// Parses `[permissions@]IP`, optionally followed by `/BITS` or `/NETMASK`.
    ///
    /// # Errors
    ///
    /// Core's message.
    pub fn parse(text: &str) -> Result<PermittedNet, String> {
        let Prefix { permissions, inbound, outbound, rest } = prefix(text)?;
        let invalid = || format!("Invalid netmask specified in -whitelist: '{rest}'");
        let (address, mask) = rest.split_once('/').map_or((rest, None), |(address, mask)| (address, Some(mask)));
        let address: IpAddr = address.trim_matches(['[', ']']).parse().map_err(|_| invalid())?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = match mask {
            None => bits,
            Some(mask) => mask_bits(mask, address.is_ipv4()).filter(|&have| have <= bits).ok_or_else(invalid)?,
        };
        Ok(PermittedNet { permissions, inbound, outbound, address, prefix_bits })
    }

    /// The permissions of a peer at this address, inbound or outbound.
    pub(crate) fn of(&self, remote: &NetAddress, is_inbound: bool) -> Permissions {
        let is_meant = if is_inbound { self.inbound } else { self.outbound };
        let covers = match (self.address, remote.to_ip()) {
            (IpAddr::V4(net), Some(IpAddr::V4(ip))) => {
                let mask = u32::MAX.checked_shl(32 - self.prefix_bits).unwrap_or(0);
                (net.to_bits() ^ ip.to_bits()) & mask == 0
            }
            (IpAddr::V6(net), Some(IpAddr::V6(ip))) => {
                let mask = u128::MAX.checked_shl(128 - self.prefix_bits).unwrap_or(0);
                (net.to_bits() ^ ip.to_bits()) & mask == 0
            }
            _ => false,
        };
        if is_meant && covers { self.permissions } else { Permissions::NONE }
    }
}

/// Bits of `/24` or `/255.255.255.0`.
fn mask_bits(mask: &str, is_v4: bool) -> Option<u32> {
    if let Ok(bits) = mask.parse::<u8>() {
        return Some(bits.into());
    }
    let mask = mask.parse::<Ipv4Addr>().ok().filter(|_| is_v4)?.to_bits();
    (mask.leading_ones() + mask.trailing_zeros() == 32).then(|| mask.leading_ones())
}

/// Parses `-whitebind`, `[permissions@]IP:PORT`: where to listen, and the permissions of peers that connect there.
///
/// # Errors
///
/// Core's message.
pub fn parse_whitebind(text: &str) -> Result<(SocketAddr, Permissions), String> {
    let Prefix { permissions, outbound, rest, .. } = prefix(text)?;
    if outbound {
        return Err("whitebind may only be used for incoming connections (\"out\" was passed)".to_owned());
    }
    let permissions = if rest == text { Permissions::IMPLICIT } else { permissions };
    let has_port = || rest.trim_matches(['[', ']']).parse::<IpAddr>().is_err();
    match rest.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok((address, permissions)),
        Err(_) if has_port() => Err(format!("Cannot resolve -whitebind address: '{rest}'")),
        _ => Err(format!("Need to specify a port with -whitebind: '{rest}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitelist_is_read_as_in_core() {
        let (none, noban, download, addr) =
            (Permissions::NONE, Permissions::NOBAN, Permissions::DOWNLOAD, Permissions::ADDR);
        for (text, remote, inbound, outbound) in [
            ("1.2.3.4", "1.2.3.4", noban, none),
            ("1.2.3.4", "1.2.3.5", none, none),
            ("1.2.3.0/24", "1.2.3.5", noban, none),
            ("1.2.3.0/255.255.255.0", "1.2.4.5", none, none),
            ("0.0.0.0/0", "9.9.9.9", noban, none),
            ("0.0.0.0/0", "2a01::1", none, none),
            ("addr,download@2a01::/16", "2a01:5::1", addr.and(download), none),
            ("noban,out@1.2.3.4", "1.2.3.4", none, noban),
            ("noban,in,out@1.2.3.4", "1.2.3.4", noban, noban),
            ("relay@1.2.3.4", "1.2.3.4", none, none),
            ("all@1.2.3.4", "1.2.3.4", Permissions::ALL, none),
            ("@1.2.3.4", "1.2.3.4", none, none),
        ] {
            let net = PermittedNet::parse(text).unwrap();
            let remote = NetAddress::from_ip(remote.parse().unwrap());
            assert_eq!((net.of(&remote, true), net.of(&remote, false)), (inbound, outbound), "{text}");
        }
        for (text, want) in [
            ("1.2.3.4/33", "Invalid netmask specified in -whitelist: '1.2.3.4/33'"),
            ("1.2.3.4/255.0.255.0", "Invalid netmask"),
            ("here", "Invalid netmask"),
            ("oopsie@1.2.3.4", "Invalid P2P permission: 'oopsie'"),
            ("in@1.2.3.4", "Only direction was set, no permissions: 'in@1.2.3.4'"),
        ] {
            let why = PermittedNet::parse(text).unwrap_err();
            assert!(why.contains(want), "{text}: {why}");
        }
        assert!(noban.has(download) && !download.has(noban), "noban implies download");
        assert!(Permissions::IMPLICIT.has(noban) && Permissions::IMPLICIT.names() == noban.names());
    }

    #[test]
    fn whitebind_is_read_as_in_core() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        for (text, want) in [
            ("127.0.0.1:5", Ok((at("127.0.0.1:5"), Permissions::IMPLICIT))),
            ("noban@127.0.0.1:5", Ok((at("127.0.0.1:5"), Permissions::NOBAN))),
            ("addr@[::1]:5", Ok((at("[::1]:5"), Permissions::ADDR))),
            ("127.0.0.1", Err("Need to specify a port with -whitebind: '127.0.0.1'")),
            ("noban,out@127.0.0.1:5", Err("whitebind may only be used for incoming connections")),
            ("noban@here:5", Err("Cannot resolve -whitebind address: 'here:5'")),
        ] {
            match (parse_whitebind(text), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(why), Err(want)) => assert!(why.contains(want), "{text}: {why}"),
                (got, want) => panic!("{text}: {got:?}, want {want:?}"),
            }
        }
    }
}
