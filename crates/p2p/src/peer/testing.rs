//! A peer for the unit tests of this folder.

use super::{Greeting, Kind, Peer};
use crate::api::PeerId;
use crate::journal::Journal;
use crate::rng::Rng;
use crate::time::Now;
use crate::transport::Transport;
use crate::wire::{NetAddress, PeerAddress, Target};
use std::time::Duration;

pub(super) fn at(seconds: u64) -> Now {
    Now { since_start: Duration::from_secs(seconds), unix: 1_700_000_000 + seconds }
}

/// An inbound peer before its handshake, with a journal.
pub(super) fn peer() -> Peer {
    let target = Target::Peer(PeerAddress { address: NetAddress::V4([127, 0, 0, 1]), port: 7 });
    let greeting = Greeting { services: 0, agent: "/x/".to_owned(), height: 0, utxo_sets: false };
    let transport = Transport::v1([1, 2, 3, 4]);
    let mut peer = Peer::new(PeerId(3), Kind::Inbound, target, transport, greeting, at(0), &mut Rng::Seeded(1));
    peer.journal = Journal::new(true);
    peer
}
