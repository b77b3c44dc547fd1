//! The addresses at which peers may connect, including the ones for a Tor onion service.
//!
//! Absent on purpose: the options that enable listening (`sync_settings`), and the sockets (`p2p`).

use crate::Failure;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The listening addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Listening {
    pub(crate) addresses: Vec<SocketAddr>,
    /// Addresses for connections from a Tor onion service.
    pub(crate) onion: Vec<SocketAddr>,
    pub(crate) onion_default: Option<SocketAddr>,
}

impl Listening {
    /// All addresses of the machine; for Tor the next port on localhost, as in Core, whose torrc examples name that
    /// port.
    /// Source: Bitcoin Core b88bffe, init.cpp, `default_bind_port_onion`; torcontrol.cpp, `DefaultOnionServiceTarget`.
    pub(crate) fn everywhere(port: u16) -> Listening {
        let onion_default = port.checked_add(1).map(|port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port));
        Listening { addresses: every_address(port), onion: Vec::new(), onion_default }
    }

    /// Adds an address of `-bind`, which may end with `=onion`.
    pub(crate) fn take(&mut self, text: &str, port: u16) -> Result<(), String> {
        match text.rsplit_once('=') {
            Some((address, "onion")) => self.onion.push(listen_address(address, port.saturating_add(1))?),
            _ => self.addresses.push(listen_address(text, port)?),
        }
        Ok(())
    }
}

/// Rejects duplicate listening addresses. Source: Bitcoin Core b88bffe, init.cpp, `CheckBindingConflicts`.
pub(crate) fn check_duplicates<'a>(mut all: impl Iterator<Item = &'a SocketAddr>) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    match all.find(|address| !seen.insert(**address)) {
        None => Ok(()),
        Some(address) => Err(Failure::Usage(format!(
            "Duplicate binding configuration for address {address}. Please check your -bind, -bind=...=onion and -whitebind \
             settings."
        ))),
    }
}

/// The wildcard addresses of this machine. One socket suffices if IPv6 sockets also accept IPv4 connections.
fn every_address(port: u16) -> Vec<SocketAddr> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let has_v6 = !read("/proc/net/if_inet6").is_empty();
    let v6_only = read("/proc/sys/net/ipv6/bindv6only").trim() == "1";
    let v4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
    let v6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port);
    match (has_v6, v6_only) {
        (false, _) => vec![v4],
        (true, false) => vec![v6],
        (true, true) => vec![v6, v4],
    }
}

fn listen_address(text: &str, port: u16) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().ok();
    let bare = || text.trim_matches(['[', ']']).parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port));
    let why = || format!("cannot listen on {text}: expected IP or IP:PORT, with [] around IPv6");
    address.or_else(bare).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_line::sync_options as sync;

    #[test]
    fn listen_addresses_follow_cores_switches() {
        let any = every_address(8333);
        let one = vec!["127.0.0.1:8333".parse().unwrap()];
        let moved = vec!["127.0.0.1:5".parse().unwrap()];
        for (row, conf, line, want) in [
            ("by default", "", "", Ok(vec![])),
            ("switched on", "", "--listen 1", Ok(any.clone())),
            ("switched on by the file", "listen=1", "", Ok(any)),
            ("off above the file", "listen=1", "--listen 0", Ok(vec![])),
            ("bind", "", "--bind 127.0.0.1", Ok(one.clone())),
            ("bind of the file", "bind=127.0.0.1", "", Ok(one.clone())),
            ("bind and port of the file", "bind=127.0.0.1\nport=5", "", Ok(moved.clone())),
            ("the command line's port", "bind=127.0.0.1\nport=6", "--port 5", Ok(moved.clone())),
            ("bind and that of the file", "bind=127.0.0.1", "--bind 127.0.0.1:5", Ok([&moved[..], &one[..]].concat())),
            ("off, and bind of the file", "bind=127.0.0.1", "--listen 0", Err("Cannot set -bind")),
            ("bind, and off", "listen=0", "--bind 127.0.0.1", Err("Cannot set -bind")),
            (
                "twice",
                "",
                "--bind 127.0.0.1 --bind 127.0.0.1:8333",
                Err("Duplicate binding configuration for address 127"),
            ),
            ("twice, with permissions", "", "--bind [::1]:5 --whitebind noban@[::1]:5", Err("Duplicate binding")),
            ("a port alone", "", "--port 5", Ok(vec![])),
            ("a wrong port", "port=0\nlisten=1", "", Err("Invalid port specified in -port: '0'")),
            ("a name", "bind=here", "", Err("bind=here in the configuration")),
        ] {
            match (sync(conf, line).map(|options| options.listen), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{row}"),
                (Err(why), Err(want)) => assert!(why.to_string().contains(want), "{row}: {why}"),
                (got, want) => panic!("{row}: got {got:?}, want {want:?}"),
            }
        }
    }

    /// Core's feature_port, and init.cpp: the port above, unless one is named.
    #[test]
    fn tor_service_connects_to_the_port_above() {
        for (row, line, onion, by_default) in [
            ("everywhere", "--listen 1", &[][..], Some("127.0.0.1:8334")),
            ("with a port", "--listen 1 --port 5", &[], Some("127.0.0.1:6")),
            ("the last port", "--listen 1 --port 65535", &[], None),
            ("an address", "--bind 127.0.0.1", &[], None),
            ("one for Tor", "--bind 127.0.0.1=onion", &["127.0.0.1:8334"], None),
            ("one for Tor, with a port", "--bind 127.0.0.1:7=onion --port 5", &["127.0.0.1:7"], None),
            ("one for Tor, and another's port", "--listen 1 --bind 127.0.0.1=onion --port 5", &["127.0.0.1:6"], None),
            ("none", "", &[], None),
        ] {
            let peers = sync("", line).unwrap().peers;
            assert_eq!(peers.onion.iter().map(ToString::to_string).collect::<Vec<_>>(), onion, "{row}");
            assert_eq!(peers.onion_default.map(|address| address.to_string()).as_deref(), by_default, "{row}");
        }
        let twice = sync("", "--bind 127.0.0.1:5 --bind 127.0.0.1:5=onion").unwrap_err().to_string();
        assert!(twice.contains("Duplicate binding configuration for address 127.0.0.1:5"), "{twice}");
        assert_eq!(sync("", "--bind 127.0.0.1:5=onion").unwrap().listen, []);
    }
}
