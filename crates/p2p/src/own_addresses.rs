//! Our own addresses, which are announced to peers, and the choice of the one that a peer receives.
//!
//! Source: Bitcoin Core b88bffe, net.cpp, `AddLocal`, `GetLocal`. Absent on purpose: finding our addresses
//! (`hub::own`), and addresses that peers report as ours.

use crate::wire::{NetAddress, PeerAddress};

/// Origin of an address. The scores are Core's: `LOCAL_IF`, `LOCAL_BIND`, `LOCAL_MANUAL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An interface of the machine.
    Interface,
    /// A socket that listens at this address only.
    Listening,
    /// The user.
    User,
}

impl Origin {
    fn score(self) -> u32 {
        match self {
            Origin::Interface => 1,
            Origin::Listening => 2,
            Origin::User => 4,
        }
    }
}

/// One of our addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// The address and the port.
    pub peer: PeerAddress,
    /// Core's score: the address with the highest one is announced.
    pub score: u32,
}

/// Adds a routable address; a known one becomes more credible, unless its origin is a better one.
pub(crate) fn add(own: &mut Vec<OwnAddress>, peer: PeerAddress, origin: Origin) {
    if !peer.address.is_routable() {
        return;
    }
    match own.iter_mut().find(|known| known.peer.address == peer.address) {
        None => own.push(OwnAddress { peer, score: origin.score() }),
        Some(known) if origin.score() >= known.score => *known = OwnAddress { peer, score: origin.score() + 1 },
        Some(_) => {}
    }
}

/// Our address for a peer of this network; `may` returns whether one is allowed.
pub(crate) fn best(own: &[OwnAddress], remote: Option<u8>, may: impl Fn(NetAddress) -> bool) -> Option<PeerAddress> {
    let allowed = own.iter().filter(|own| may(own.peer.address));
    allowed.max_by_key(|own| (Some(own.peer.address.network()) == remote, own.score)).map(|own| own.peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn best_own_address_is_of_the_network_of_the_peer() {
        let own = |text: &str, score| OwnAddress { peer: text.parse::<SocketAddr>().unwrap().into(), score };
        let list = [own("1.1.1.5:7", 1), own("[1111:1111::5]:7", 4), own("2.2.2.2:7", 3)];
        let best = |remote| super::best(&list, remote, |_| true).map(|peer| peer.to_string());
        assert_eq!(best(Some(1)).as_deref(), Some("2.2.2.2:7"), "IPv4");
        assert_eq!(best(Some(2)).as_deref(), Some("[1111:1111::5]:7"), "IPv6");
        assert_eq!(best(None).as_deref(), Some("[1111:1111::5]:7"), "the most credible");
        assert_eq!(super::best(&list, Some(1), |_| false), None);
    }
}
