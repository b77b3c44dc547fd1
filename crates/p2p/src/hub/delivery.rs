//! What peers announce and do not deliver.
//!
//! A block that a peer was asked for, and that no peer has delivered [`crate::download::DELIVERY_TIMEOUT`] later, is noted
//! here. A chain with such a block counts for nothing when the tip that the peers have is sought, nor does anything that
//! the same peer announces; both do again when it is delivered. The peer is disconnected, unless a person named it: then
//! it is still asked, and loses its say only. So does a peer that keeps its last blocks alone, while the lowest missing one is
//! below them; and a peer that serves no blocks has none.

use super::Hub;
use crate::api::{PeerId, Want};
use crate::chain::HeaderInfo;
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use primitives::BlockHash;

/// Undelivered blocks that are remembered; the oldest is forgotten first.
pub const UNDELIVERED_COUNT_MAX: usize = 64;

impl Hub {
    /// Sees which peers owe a block for too long.
    pub(super) fn tick_delivery(&mut self, now: Now) {
        for (id, want, keeps) in self.download.overdue(now.since_start) {
            if !self.undelivered.contains(&want) {
                if self.undelivered.len() >= UNDELIVERED_COUNT_MAX {
                    self.undelivered.remove(0);
                }
                self.undelivered.push(want);
            }
            let Some(peer) = self.context.peers.get_mut(&id) else { continue };
            peer.withholds = true;
            self.outbound.set_withholds(peer.kind, true);
            if keeps && !matches!(peer.kind, Kind::Manual(_)) {
                self.drop_peer(id, Reason::BlockTimeout(want.hash), now);
            }
        }
    }

    /// A block came from this peer.
    pub(super) fn note_delivered(&mut self, id: PeerId, hash: &BlockHash, now: Now) {
        if let Some(peer) = self.context.peers.get_mut(&id) {
            peer.last_block_at = Some(now.since_start);
        }
        let before = self.undelivered.len();
        self.undelivered.retain(|want| want.hash != *hash);
        if before != self.undelivered.len()
            && let Some(peer) = self.context.peers.get_mut(&id)
        {
            peer.withholds = false;
            self.outbound.set_withholds(peer.kind, false);
        }
    }

    /// Blocks that are not on a refused chain any more, and that no peer delivered.
    pub(super) fn undelivered(&self) -> Vec<Want> {
        let is_open = |want: &&Want| self.context.chain.header(&want.hash).is_some_and(|info| !info.invalid);
        self.undelivered.iter().filter(is_open).copied().collect()
    }

    /// The block of most work that a peer to which we connected has, of those that deliver.
    pub(super) fn best_claim(&self) -> Option<HeaderInfo> {
        let has_say = |peer: &&Peer| {
            let serves = peer.kind != Kind::AddressFetch && peer.kind != Kind::Feeler && peer.serves_blocks();
            peer.is_outbound() && peer.ready && serves && !peer.withholds
        };
        let peers = self.context.peers.values().filter(has_say);
        let is_delivered = |best: &HeaderInfo| {
            let lacks = |want: &Want| self.context.chain.ancestor(&best.hash, want.height) == Some(want.hash);
            !self.undelivered.iter().any(lacks)
                && self.context.chain.header(&best.hash).is_some_and(|known| !known.invalid)
        };
        peers.filter_map(|peer| self.headers.best_known(peer.id)).filter(is_delivered).max_by_key(|best| best.work)
    }
}
