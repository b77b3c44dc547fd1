//! From which height on all blocks of the connected chain are there: looked at as a whole, and again at what changed since.

use super::BlockIndex;
use crate::chain::tree::{GENESIS, NodeId};
use primitives::Height;

/// What [`BlockIndex::prune_height`] was, and of which chain: for who asks often.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PruneHeight {
    /// [`BlockIndex`]'s number of connected blocks that came or went.
    moved_count: u64,
    /// Blocks of the chain, and the last of them; the block alone says nothing before the first look.
    looked: Option<(usize, NodeId)>,
    /// Blocks at its beginning below the last one that was absent, that one included.
    absent: usize,
}

impl BlockIndex {
    /// Lowest height from which on all blocks of the connected chain are there, with their undo data.
    pub fn prune_height(&self) -> Height {
        Height::from_index(self.active.len() - self.there_above(0))
    }

    /// The same; of the blocks that `seen` knows none is looked at again unless one of them came or went.
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

    /// Blocks from the tip down that are there with their undo data, at most down to a height: a block that was asked of a peer
    /// again has none. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `GetPruneHeight`.
    fn there_above(&self, height: usize) -> usize {
        let is_whole = |id: NodeId| {
            let body = self.body(id);
            body.location().is_some() && (id == GENESIS || body.undo().is_some())
        };
        self.active[height..].iter().rev().take_while(|&&id| is_whole(id)).count()
    }
}
