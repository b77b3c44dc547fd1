//! Whether what a peer said is dealt with: its pings are answered then, as Core's are, in order.

use super::Hub;
use crate::api::{Event, PeerId};
use crate::time::Now;
use crate::wire::Message;

/// With more blocks than these in flight there is a bulk of them, which no pong waits for. Source: Bitcoin Core b88bffe,
/// `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
pub const BULK_COUNT_MIN: usize = 16;

impl Hub {
    /// A peer pings.
    pub(super) fn on_ping(&mut self, id: PeerId, nonce: u64, now: Now) {
        if let Some(peer) = self.context.peers.get_mut(&id)
            && peer.pongs.ping(nonce, now.since_start)
        {
            peer.send(&Message::Pong(nonce));
        }
    }

    /// Gives out what there is to say of the connections.
    pub(super) fn tell_journals(&mut self) {
        if self.context.config.debug_net {
            let lines: Vec<String> = self.context.peers.values_mut().flat_map(|peer| peer.journal.take()).collect();
            lines.into_iter().for_each(|line| self.context.event(Event::Debug(line)));
        }
    }

    /// Answers pings that waited.
    pub(super) fn answer_pings(&mut self, now: Now) {
        if self.context.peers.values().all(|peer| !peer.pongs.is_waiting()) {
            return;
        }
        let is_bulk = self.download.in_flight_count() > BULK_COUNT_MIN;
        let is_asking = self.targets.is_told || self.context.chain.is_connecting();
        for (id, peer) in &mut self.context.peers {
            if peer.pongs.is_waiting() {
                let is_settled = is_bulk || !(is_asking || self.download.is_judging(*id));
                let nonces = peer.pongs.take(is_settled, now.since_start);
                nonces.into_iter().for_each(|nonce| peer.send(&Message::Pong(nonce)));
            }
        }
    }
}
