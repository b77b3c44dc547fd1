//! Which addresses are our own: those of `-externalip` and, with `-discover`, those of the machine's interfaces and of
//! listening sockets.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `Discover`, `CConnman::Bind`; init.cpp, `should_discover`.
//! Absent on purpose: the calls of the operating system (`sys::interfaces`).

use super::outbound::can_reach;
use crate::api::Config;
use crate::own_addresses::{Origin, OwnAddress, add};
use crate::permissions::Permissions;
use crate::wire::PeerAddress;
use std::net::{IpAddr, SocketAddr};

/// With `-discover`: the port of addresses that have none, and the addresses of the machine's interfaces.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Our listening port.
    pub port: u16,
    /// See `sys::interfaces`.
    pub interfaces: &'a [IpAddr],
}

/// The listening addresses that may be announced; the port of the first one is our port. `listen` and `whitebind` are
/// those of [`Config`]. Source: Bitcoin Core b88bffe, net.cpp, `GetListenPort`, `CConnman::Bind`.
pub fn announced<'a>(
    listen: &'a [SocketAddr],
    whitebind: &'a [(SocketAddr, Permissions)],
) -> impl Iterator<Item = SocketAddr> + 'a {
    let public = whitebind.iter().filter(|(_, permissions)| permissions.is_announced());
    listen.iter().chain(public.map(|(address, _)| address)).copied()
}

/// Our addresses: `named` by the user, and those of `machine`, if addresses are discovered.
pub fn own_addresses(config: &Config, named: &[PeerAddress], machine: Option<Machine<'_>>) -> Vec<OwnAddress> {
    let mut own = Vec::new();
    named.iter().for_each(|peer| add(&mut own, *peer, Origin::User));
    let Some(Machine { port, interfaces }) = machine else { return own };
    let all = config.listen.iter().chain(config.whitebind.iter().map(|(address, _)| address));
    // Addresses of interfaces can be reached only if a socket listens on all of them.
    if all.into_iter().any(|address| address.ip().is_unspecified()) {
        for ip in interfaces {
            add_reachable(&mut own, config, (*ip, port).into(), Origin::Interface);
        }
    }
    for address in announced(&config.listen, &config.whitebind) {
        add_reachable(&mut own, config, address, Origin::Listening);
    }
    own
}

fn add_reachable(own: &mut Vec<OwnAddress>, config: &Config, address: SocketAddr, origin: Origin) {
    let peer = PeerAddress::from(address);
    if can_reach(config, peer.address) {
        add(own, peer, origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Reachable;
    use crate::params::MAIN;

    fn texts(own: &[OwnAddress]) -> Vec<String> {
        own.iter().map(|own| format!("{} {}", own.peer, own.score)).collect()
    }

    /// The rows of Core's feature_bind_port_discover and feature_bind_port_externalip, and more.
    #[test]
    fn own_addresses_are_cores() {
        let interfaces = ["1.1.1.5", "1111:1111::5", "10.0.0.1", "fe80::1"].map(|text| text.parse::<IpAddr>().unwrap());
        let named: PeerAddress = "2.2.2.2:9".parse::<SocketAddr>().unwrap().into();
        let again: PeerAddress = "1.1.1.5:9".parse::<SocketAddr>().unwrap().into();
        let local: PeerAddress = "127.0.0.1:9".parse::<SocketAddr>().unwrap().into();
        let whitebind = |text: &str, permissions| vec![(text.parse().unwrap(), permissions)];
        let listen = |text: &str| vec![text.parse().unwrap()];
        let config = || Config::new(MAIN);
        let machine = Some(Machine { port: 7, interfaces: &interfaces });
        let all = ["1.1.1.5:7 1", "[1111:1111::5]:7 1"];
        for (row, config, named, machine, want) in [
            ("everywhere", Config { listen: listen("[::]:7"), ..config() }, vec![], machine, &all[..]),
            ("IPv4", Config { listen: listen("0.0.0.0:7"), ..config() }, vec![], machine, &all),
            (
                "everywhere, with permissions",
                Config { whitebind: whitebind("0.0.0.0:7", Permissions::NOBAN), ..config() },
                vec![],
                machine,
                &all,
            ),
            ("one", Config { listen: listen("1.1.1.5:8"), ..config() }, vec![], machine, &["1.1.1.5:8 2"]),
            ("a private one", Config { listen: listen("10.0.0.1:8"), ..config() }, vec![], machine, &[]),
            (
                "one, with Core's implicit permissions",
                Config { whitebind: whitebind("1.1.1.5:8", Permissions::IMPLICIT), ..config() },
                vec![],
                machine,
                &["1.1.1.5:8 2"],
            ),
            (
                "one, with the permission noban",
                Config { whitebind: whitebind("1.1.1.5:8", Permissions::NOBAN), ..config() },
                vec![],
                machine,
                &[],
            ),
            (
                "all and one",
                Config { listen: [listen("0.0.0.0:7"), listen("1.1.1.5:8")].concat(), ..config() },
                vec![],
                machine,
                &["1.1.1.5:8 3", "[1111:1111::5]:7 1"],
            ),
            (
                "only IPv6",
                Config { listen: listen("[::]:7"), only_networks: vec![Reachable::Ipv6], ..config() },
                vec![],
                machine,
                &["[1111:1111::5]:7 1"],
            ),
            ("not listening", config(), vec![], machine, &[]),
            ("named", Config { listen: listen("[::]:7"), ..config() }, vec![named, local], None, &["2.2.2.2:9 4"]),
            (
                "named, and discovered",
                Config { listen: listen("[::]:7"), ..config() },
                vec![again],
                machine,
                &["1.1.1.5:9 4", "[1111:1111::5]:7 1"],
            ),
        ] {
            assert_eq!(texts(&own_addresses(&config, &named, machine)), want, "{row}");
        }
    }
}
