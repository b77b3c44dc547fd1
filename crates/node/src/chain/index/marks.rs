//! Invalid marks: which of them ffwd set because a block broke a rule, and which better chain is excluded by another
//! mark.
//!
//! The index on disk uses the same mark for a broken rule and for `invalidateblock`. A chain with a block that ffwd
//! found invalid is not a better chain. A mark set by the user or by bitcoind may be wrong.

use super::BlockIndex;
use crate::chain::tree::{Fate, NodeId, Tree};
use primitives::{BlockHash, Work};
use std::collections::BTreeSet;

/// The end of a chain: a known header, or headers that a peer offered on top of an invalid block and that are not
/// stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OfferedHeaders {
    /// The block that is marked, or has a marked ancestor.
    pub(crate) on: NodeId,
    /// Number of offered headers above it.
    pub(crate) blocks: u32,
    /// Work of the chain including these headers.
    pub(crate) work: Work,
}

/// A chain with more work than the connected one that an invalid mark excludes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MarkedChain {
    /// The lowest marked block.
    pub(crate) mark: NodeId,
    /// Number of known blocks from it to the end of the chain.
    pub(crate) blocks: u32,
}

impl BlockIndex {
    /// Marks a block invalid because it broke a rule, like [`BlockIndex::invalid`]. Without a prior
    /// [`BlockIndex::checked`] its entry names no body, because Core stores no body that is refused on arrival.
    pub fn refuse(&mut self, id: NodeId) {
        self.invalid(id);
        self.refused.insert(id);
    }

    /// The blocks that ffwd found invalid, in this run or an earlier one.
    pub fn refused(&self) -> &BTreeSet<NodeId> {
        &self.refused
    }

    /// Loads a block that an earlier run found invalid; ignored if it is no longer marked.
    pub fn load_refused(&mut self, hash: &BlockHash) {
        let marked = self.headers.find(hash).filter(|&id| self.headers.fate(id) == Fate::Failed);
        self.refused.extend(marked);
    }

    /// The excluded chain with the most work, among those with more work than `tip` and the best valid header. Chains
    /// whose lowest mark ffwd set for a broken rule do not count. `offered` are headers that peers sent and that are
    /// not stored.
    pub(crate) fn shut_out(&self, tip: NodeId, offered: &[OfferedHeaders]) -> Option<MarkedChain> {
        let tree = &self.headers;
        if tree.shut_out_end().is_none() && offered.is_empty() {
            return None;
        }
        let least = tree.work(tip).max(tree.work(tree.best()));
        // One pass over the headers, however many of them descend from a mark.
        let mut marked: Vec<NodeId> = tree.ids().filter(|&id| is_lowest_mark(tree, id)).collect();
        marked.retain(|mark| !self.refused.contains(mark));
        marked.extend(tree.descendants(&marked));
        let known = marked.into_iter().map(|id| OfferedHeaders { on: id, blocks: 0, work: tree.work(id) });
        let is_ours = |end: &OfferedHeaders| lowest_mark(tree, end.on).is_none_or(|mark| self.refused.contains(&mark));
        let offered = offered.iter().copied().filter(|end| !is_ours(end));
        let best = known.chain(offered).filter(|end| end.work > least).max_by_key(|end| end.work)?;
        let mark = lowest_mark(tree, best.on)?;
        let end = tree.height(best.on).saturating_add(best.blocks);
        Some(MarkedChain { mark, blocks: end.blocks_above(tree.height(mark)) + 1 })
    }
}

/// Whether a block is marked but its parent is not.
fn is_lowest_mark(tree: &Tree, id: NodeId) -> bool {
    tree.fate(id) != Fate::Open && tree.parent(id).is_none_or(|parent| tree.fate(parent) == Fate::Open)
}

/// The lowest mark at or below a block: the block itself, or an ancestor.
fn lowest_mark(tree: &Tree, id: NodeId) -> Option<NodeId> {
    std::iter::successors(Some(id), |&id| tree.parent(id)).take_while(|&id| tree.fate(id) != Fate::Open).last()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::testing::Chains;
    use std::time::Instant;

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
    fn a_marked_chain_with_less_work_than_the_best_header_is_no_better_one() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 20);
        let side = chains.grow(Some(main[3]), 6);
        chains.mark(side[1]);
        let found = chains.index().shut_out(main[5], &[]);
        assert_eq!(found, None, "the blocks of a better chain are still to come");
        let offered = [OfferedHeaders { on: side[5], blocks: 1, work: chains.work(main[10]) }];
        assert_eq!(chains.index().shut_out(main[5], &offered), None, "and an offer of less work changes nothing");
        let offered = [OfferedHeaders {
            on: side[5],
            blocks: 11,
            work: chains.work(main[19]).saturating_add(chains.work(main[0])),
        }];
        let found = chains.index().shut_out(main[5], &offered);
        assert_eq!(found, Some(MarkedChain { mark: side[1], blocks: 16 }));
    }

    /// Walking down to the mark from each of the headers on it would take 1,250 million steps.
    #[test]
    fn a_mark_far_below_the_tip_is_found_in_a_few_passes() {
        let mut chains = Chains::new();
        let main = chains.grow(None, 50_000);
        chains.mark(main[9]);
        let least_time = |what: &dyn Fn()| {
            let times = (0..3).map(|_| {
                let begin = Instant::now();
                what();
                begin.elapsed()
            });
            times.min().unwrap()
        };
        let tree = chains.index().headers();
        let pass =
            least_time(&|| assert_eq!(tree.ids().map(|id| tree.work(id)).max(), Some(chains.work(main[49_999]))));
        let search = least_time(&|| {
            let want = MarkedChain { mark: main[9], blocks: 49_991 };
            assert_eq!(chains.index().shut_out(main[8], &[]), Some(want));
        });
        assert!(search < 100 * pass, "{search:?}, one pass {pass:?}");
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
