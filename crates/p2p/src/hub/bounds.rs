//! The memory of peers together: ends connections until its bounds ([`memory`]) are met.

use super::Hub;
use super::serving::memory;
use crate::api::PeerId;
use crate::time::Now;

impl Hub {
    /// After bytes of a peer arrived: its message may have begun or grown, and memory reserved for it counts.
    pub(super) fn bound_unfinished(&mut self, id: PeerId, now: Now) {
        let block_bytes = self.blocks.mean_block_bytes();
        if self.context.peers.get(&id).is_some_and(|peer| memory::is_large(peer, block_bytes)) {
            self.drop_who_holds_most(0, now);
        }
    }

    /// Disconnects peers until all unfinished messages, and `more` additional bytes, fit the bound.
    pub(super) fn drop_who_holds_most(&mut self, more: usize, now: Now) {
        let block_bytes = self.blocks.mean_block_bytes();
        while let Some((id, reason)) = memory::who_holds_most(&self.context, more, block_bytes) {
            self.drop_peer(id, reason, now);
        }
    }

    /// Checks the memory bounds, and disconnects the peers that hold most until they are met.
    pub(super) fn tick_memory(&mut self, now: Now) {
        self.drop_who_holds_most(0, now);
        self.serving.look_at_memory(&self.context, self.blocks.mean_block_bytes(), now);
        while let Some((id, reason)) = self.serving.who_reads_little(&self.context) {
            self.drop_peer(id, reason, now);
        }
    }
}
