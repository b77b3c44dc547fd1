//! Settings of the server, with the names of Core's options.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of running calls. Source: Bitcoin Core b88bffe, httpserver.h, `DEFAULT_HTTP_THREADS`.
pub const THREADS: usize = 16;
/// Maximum number of calls that wait for a thread. Source: `DEFAULT_HTTP_WORKQUEUE`.
pub const WORK_QUEUE: usize = 64;
/// Maximum number of connected clients. Source: Bitcoin Core 32.0, `-rpcmaxconnections`.
pub const MAX_CONNECTIONS: usize = 16;
/// Timeout for a client to send a request. Source: `DEFAULT_HTTP_SERVER_TIMEOUT`.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of the server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses to listen on; one of them must be free.
    pub bind: Vec<SocketAddr>,
    /// `-rpcallowip`: networks that may connect in addition to this machine.
    pub allow: Vec<Subnet>,
    /// `-rpcuser`.
    pub user: String,
    /// `-rpcpassword`; empty: a cookie is used.
    pub password: String,
    /// `-rpcauth`: `USER:SALT$HASH`.
    pub auth: Vec<String>,
    /// `-rpcwhitelist`: `USER:CALL,CALL`.
    pub whitelist: Vec<String>,
    /// `-rpcwhitelistdefault`.
    pub whitelist_default: Option<bool>,
    /// `-rpccookiefile`, the complete path; `None`: no cookie.
    pub cookie_file: Option<PathBuf>,
    /// `-rpccookieperms`.
    pub cookie_permissions: CookiePermissions,
    /// `-rpcthreads`.
    pub threads: usize,
    /// `-rpcworkqueue`.
    pub work_queue: usize,
    /// `-rpcmaxconnections`.
    pub max_connections: usize,
    /// `-rpcservertimeout`.
    pub timeout: Duration,
    /// `-rest`.
    pub rest: bool,
    /// `-acceptnonstdtxn`: submitted transactions need not be standard.
    pub accepts_nonstandard: bool,
    /// `-mempoolexpiry`: time after which a transaction leaves the mempool, if it was given.
    pub mempool_expiry: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bind: Vec::new(),
            allow: Vec::new(),
            user: String::new(),
            password: String::new(),
            auth: Vec::new(),
            whitelist: Vec::new(),
            whitelist_default: None,
            cookie_file: None,
            cookie_permissions: CookiePermissions::Owner,
            threads: THREADS,
            work_queue: WORK_QUEUE,
            max_connections: MAX_CONNECTIONS,
            timeout: TIMEOUT,
            rest: false,
            accepts_nonstandard: false,
            mempool_expiry: None,
        }
    }
}

impl Settings {
    /// Whether a client may connect from this address.
    /// Source: Bitcoin Core b88bffe, httpserver.cpp, `ClientAllowed`.
    pub fn is_allowed(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_loopback() || self.allow.iter().any(|net| net.contains(address))
    }
}

/// Loopback addresses. Source: Core's `GetBindAddresses`.
pub fn loopback(port: u16) -> Vec<SocketAddr> {
    vec![(Ipv6Addr::LOCALHOST, port).into(), (Ipv4Addr::LOCALHOST, port).into()]
}

/// Users that may read the cookie. Source: Core's `InterpretPermString`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookiePermissions {
    /// The user of this process.
    Owner,
    /// The user and the group.
    Group,
    /// Everyone.
    All,
}

impl CookiePermissions {
    /// The permissions with Core's name for them.
    pub fn parse(name: &str) -> Option<CookiePermissions> {
        match name {
            "owner" => Some(CookiePermissions::Owner),
            "group" => Some(CookiePermissions::Group),
            "all" => Some(CookiePermissions::All),
            _ => None,
        }
    }

    /// The mode of the file.
    pub fn mode(self) -> u32 {
        match self {
            CookiePermissions::Owner => 0o600,
            CookiePermissions::Group => 0o640,
            CookiePermissions::All => 0o644,
        }
    }
}

/// Addresses with the same prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subnet {
    address: IpAddr,
    bits: u8,
}

impl Subnet {
    /// Parses an address, optionally followed by `/BITS` or `/NETMASK`.
    ///
    /// # Errors
    ///
    /// Core's text.
    pub fn parse(text: &str) -> Result<Subnet, String> {
        let why = || Subnet::refusal(text);
        let (address, mask) = text.split_once('/').map_or((text, None), |(address, mask)| (address, Some(mask)));
        let address: IpAddr = address.parse().map_err(|_| why())?;
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        let bits = match mask {
            None => bits_max,
            Some(mask) => match (mask.parse::<u8>(), mask.parse::<Ipv4Addr>()) {
                (Ok(bits), _) if bits <= bits_max => bits,
                (_, Ok(mask))
                    if address.is_ipv4() && mask.to_bits().count_zeros() == mask.to_bits().trailing_zeros() =>
                {
                    mask.to_bits().leading_ones() as u8
                }
                _ => return Err(why()),
            },
        };
        Ok(Subnet { address, bits })
    }

    /// Core's words about text that names no subnet.
    pub fn refusal(text: &str) -> String {
        format!(
            "Invalid -rpcallowip subnet specification: {text}. Valid values are a single IP (e.g. 1.2.3.4), a network/netmask (e.g. 1.2.3.4/255.255.255.0), a network/CIDR (e.g. 1.2.3.4/24), all ipv4 (0.0.0.0/0), or all ipv6 (::/0)."
        )
    }

    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(net), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                net.to_bits().checked_shr(shift).unwrap_or(0) == other.to_bits().checked_shr(shift).unwrap_or(0)
            }
            (IpAddr::V6(net), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                net.to_bits().checked_shr(shift).unwrap_or(0) == other.to_bits().checked_shr(shift).unwrap_or(0)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnets_hold_their_addresses() {
        for (net, inside, outside) in [
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.0.0/16", "10.1.255.255", "10.2.0.0"),
            ("10.1.0.0/255.255.0.0", "10.1.3.4", "11.1.3.4"),
            ("0.0.0.0/0", "1.2.3.4", "::2"),
            ("::/0", "fe80::1", "1.2.3.4"),
            ("fd00::/8", "fdff::1", "fe00::1"),
        ] {
            let settings = Settings { allow: vec![Subnet::parse(net).unwrap()], ..Settings::default() };
            assert!(settings.is_allowed(inside.parse().unwrap()), "{net} {inside}");
            assert!(!settings.is_allowed(outside.parse().unwrap()), "{net} {outside}");
            assert!(settings.is_allowed("127.4.5.6".parse().unwrap()), "this machine always");
            assert!(settings.is_allowed("::ffff:127.0.0.1".parse().unwrap()), "in either form");
        }
        for wrong in ["", "host", "1.2.3.4/33", "1.2.3.4/255.0.255.0", "::/129", "::/255.0.0.0", "1.2.3.4/"] {
            assert!(Subnet::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
