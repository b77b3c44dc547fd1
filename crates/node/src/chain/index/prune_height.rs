//! The lowest height from which on all blocks of the connected chain are stored: computed once, then updated for
//! changes.

use super::BlockIndex;
use crate::chain::tree::{GENESIS, NodeId};
use primitives::Height;

/// A cached result of [`BlockIndex::prune_height`], for frequent callers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PruneHeight {
    /// [`BlockIndex`]'s count of changes of connected bodies.
    moved_count: u64,
    /// Number of blocks of the chain and its tip at the last query; `None` before the first.
    looked: Option<(usize, NodeId)>,
    /// Height of the result: number of blocks up to and including the last missing one.
    absent: usize,
}

impl BlockIndex {
    /// The lowest height from which on all blocks of the connected chain are stored, with their undo data.
    pub fn prune_height(&self) -> Height {
        Height::from_index(self.active.len() - self.there_above(0))
    }

    /// Like [`BlockIndex::prune_height`], but only looks at blocks added since `seen`, unless an earlier one changed.
    pub fn prune_height_since(&self, seen: &mut PruneHeight) -> Height {
        let is_known = |&(count, tip): &(usize, NodeId)| {
            seen.moved_count == self.moved_count && self.active.get(count - 1) == Some(&tip)
        };
        let known = seen.looked.filter(is_known).map_or(0, |(count, _)| count);
        let there = self.there_above(known);
        let is_all = known > 0 && there == self.active.len() - known;
        let absent = if is_all { seen.absent } else { self.active.len() - there };
        let looked = Some((self.active.len(), self.tip()));
        *seen = PruneHeight { moved_count: self.moved_count, looked, absent };
        Height::from_index(absent)
    }

    /// Number of blocks from the tip down to `height` that are stored with their undo data, without a gap. A block that
    /// was fetched from a peer again has no undo data. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp,
    /// `GetPruneHeight`.
    fn there_above(&self, height: usize) -> usize {
        let is_whole = |id: NodeId| {
            let body = self.body(id);
            body.location().is_some() && (id == GENESIS || body.undo().is_some())
        };
        self.active[height..].iter().rev().take_while(|&&id| is_whole(id)).count()
    }
}
