//! Memory that inbound peers hold: who gives it back when a bound is reached.
//!
//! - Unfinished messages: a peer may begin a message of 4 MB and never end it. While those of all inbound peers take more
//!   than [`UNFINISHED_BYTES_MAX`], the one with the largest is disconnected. Core bounds each peer (`-maxreceivebuffer`,
//!   5 MB), and not all together.
//! - Answers that are not read: while the send queues are full ([`super::dispatch::SEND_TOTAL_BYTES_MAX`]), the one with the
//!   longest queue of those that have taken nothing for [`UNREAD_TIMEOUT`] is disconnected. Core waits for 20 minutes.
//!
//! Peers that we connected to are few, and blocks that a peer was asked for are of the window: neither is touched here.

use super::Hub;
use super::dispatch::SEND_TOTAL_BYTES_MAX;
use crate::api::PeerId;
use crate::peer::Peer;
use crate::reason::Reason;
use crate::time::Now;
use std::cmp::Reverse;
use std::time::Duration;

/// Bytes of unfinished messages of all inbound peers. A block of 4 MB from each of sixteen.
pub const UNFINISHED_BYTES_MAX: usize = 64_000_000;
/// Without taking a byte for this time a peer is disconnected while the send queues are full.
pub const UNREAD_TIMEOUT: Duration = Duration::from_secs(20);

impl Hub {
    /// Sees whether a bound is reached, and disconnects who holds most until it is not.
    pub(super) fn tick_memory(&mut self, now: Now) {
        while self.unfinished_bytes() > UNFINISHED_BYTES_MAX {
            let Some((id, bytes)) = self.most_of(unfinished) else { break };
            self.drop_peer(id, Reason::Unfinished(bytes), now);
        }
        while self.queued_bytes() >= SEND_TOTAL_BYTES_MAX {
            let unread =
                |peer: &Peer| if peer.takes_nothing(UNREAD_TIMEOUT, now) { peer.transport.out_bytes() } else { 0 };
            let Some((id, _)) = self.most_of(unread) else { break };
            self.drop_peer(id, Reason::SendTimeout(UNREAD_TIMEOUT), now);
        }
    }

    /// Bytes of unfinished messages that no peer was asked for.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.peers.values().map(unfinished).sum()
    }

    /// The inbound peer of which there is most, if there is any; of several the youngest.
    fn most_of(&self, bytes: impl Fn(&Peer) -> usize) -> Option<(PeerId, usize)> {
        let inbound = self.peers.values().filter(|peer| !peer.is_outbound());
        let held = inbound.map(|peer| (peer, bytes(peer))).filter(|(_, held)| *held > 0);
        held.max_by_key(|(peer, held)| (*held, peer.connected_at(), Reverse(peer.id)))
            .map(|(peer, held)| (peer.id, held))
    }
}

/// Bytes that a peer's unfinished message takes, if it is inbound and was not asked for a block.
fn unfinished(peer: &Peer) -> usize {
    if peer.is_outbound() { 0 } else { peer.transport.unfinished_bytes() }
}
