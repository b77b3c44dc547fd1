//! Marks of invalid blocks: which of them ffwd made itself because a block broke a rule, and which better chain a mark of
//! someone else shuts out.
//!
//! The index on disk has one mark for both: `invalidateblock` sets the same as a broken rule. A chain with a block that
//! ffwd found to break a rule is no better chain. A mark of a person, or one that bitcoind left, may be wrong.

use super::BlockIndex;
use crate::chain::tree::{Fate, GENESIS, NodeId, Tree};
use primitives::{BlockHash, Work};
use std::collections::BTreeSet;

/// Headers on top of a marked block that a peer offered and that are not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OfferedHeaders {
    /// The block that is marked, or that stands on a marked one.
    pub(crate) on: NodeId,
    /// Headers above it.
    pub(crate) blocks: u32,
    /// Work of the chain with them.
    pub(crate) work: Work,
}

/// A chain with more work than the connected one that a mark shuts out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MarkedChain {
    /// The lowest marked block.
    pub(crate) mark: NodeId,
    /// Known blocks from it to the end of the chain.
    pub(crate) blocks: u32,
}

impl BlockIndex {
    /// A block broke a rule: it is marked, as by [`BlockIndex::invalid`]. Where it was not [`BlockIndex::checked`] before,
    /// its entry names no body: Core stores none that is refused on arrival.
    pub fn refuse(&mut self, id: NodeId) {
        self.invalid(id);
        self.refused.insert(id);
    }

    /// The blocks that ffwd found to break a rule, in this run or an earlier one.
    pub fn refused(&self) -> &BTreeSet<NodeId> {
        &self.refused
    }

    /// An earlier run found that this block breaks a rule: of no effect where it is not marked any more.
    pub fn load_refused(&mut self, hash: &BlockHash) {
        let marked = self.headers.find(hash).filter(|&id| self.headers.fate(id) == Fate::Failed);
        self.refused.extend(marked);
    }

    /// The chain of most work, above that of `tip`, that only a mark shuts out which ffwd did not make for a broken rule.
    /// `offered` are headers that peers sent and the tree does not keep.
    pub(crate) fn shut_out(&self, tip: NodeId, offered: &[OfferedHeaders]) -> Option<MarkedChain> {
        let tree = &self.headers;
        if tree.shut_out_end().is_none() && offered.is_empty() {
            return None;
        }
        let least = tree.work(tip);
        let marked = |id: &NodeId| tree.fate(*id) != Fate::Open && tree.work(*id) > least;
        let known = tree.ids().filter(marked).map(|id| OfferedHeaders { on: id, blocks: 0, work: tree.work(id) });
        let offered = offered.iter().copied().filter(|offered| offered.work > least);
        let of_mark = |end: OfferedHeaders| Some((end, lowest_marked(tree, end.on)?));
        let all = known.chain(offered).filter_map(of_mark).filter(|(_, mark)| !self.refused.contains(mark));
        let (best, mark) = all.max_by_key(|(end, _)| end.work)?;
        let end = tree.height(best.on).saturating_add(best.blocks);
        Some(MarkedChain { mark, blocks: end.blocks_above(tree.height(mark)) + 1 })
    }
}

/// The lowest ancestor of a marked block that is marked.
fn lowest_marked(tree: &Tree, mut id: NodeId) -> Option<NodeId> {
    if tree.fate(id) == Fate::Open {
        return None;
    }
    while let Some(parent) = tree.parent(id).filter(|&parent| parent != GENESIS && tree.fate(parent) != Fate::Open) {
        id = parent;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::testing::Chains;

    #[test]
    fn a_mark_shuts_out_a_better_chain_unless_the_block_broke_a_rule() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 10);
        chains.mark(main[5]);
        let found = chains.index().shut_out(main[4], &[]);
        assert_eq!(found, Some(MarkedChain { mark: main[5], blocks: 5 }));
        assert_eq!(chains.index().shut_out(main[9], &[]), None, "it has less work");
        chains.refuse(main[5]);
        assert_eq!(chains.index().shut_out(main[4], &[]), None, "it is no better chain");
        chains.mark(main[2]);
        let found = chains.index().shut_out(main[1], &[]);
        assert_eq!(found, Some(MarkedChain { mark: main[2], blocks: 8 }), "what a person marked below it counts");
    }

    #[test]
    fn a_mark_beside_a_refused_chain_of_more_work_is_found() {
        let mut chains = Chains::new();
        let (main, side) = (chains.grow(None, 10), chains.grow(None, 7));
        chains.refuse(main[3]);
        chains.mark(side[4]);
        let found = chains.index().shut_out(main[2], &[]);
        assert_eq!(found, Some(MarkedChain { mark: side[4], blocks: 3 }));
    }

    #[test]
    fn headers_that_a_peer_offers_on_a_mark_count() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 6);
        chains.mark(main[5]);
        let one = chains.work(main[0]);
        let work = (0..100).fold(chains.work(main[5]), |sum, _| sum.saturating_add(one));
        let offered = [OfferedHeaders { on: main[5], blocks: 100, work }];
        let found = chains.index().shut_out(main[4], &offered);
        assert_eq!(found, Some(MarkedChain { mark: main[5], blocks: 101 }));
    }

    #[test]
    fn a_marks_cause_is_forgotten_with_the_mark_and_loads_with_it_alone() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 3);
        let hash = chains.hash(main[1]);
        chains.index_mut().load_refused(&hash);
        assert!(chains.index().refused().is_empty(), "it is not marked");
        chains.mark(main[1]);
        chains.index_mut().load_refused(&hash);
        assert!(chains.index().refused().contains(&main[1]));
        chains.index_mut().reconsider(main[1]);
        assert!(chains.index().refused().is_empty());
    }
}
