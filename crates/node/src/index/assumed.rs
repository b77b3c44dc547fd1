//! Blocks that a snapshot stands for: they count as connected, and their bodies come later.
//!
//! Source: Bitcoin Core b88bffe, `PopulateAndValidateSnapshot` (the flag `BLOCK_OPT_WITNESS` of headers),
//! `TryAddBlockIndexCandidate` (blocks towards a target).

use super::{BlockIndex, Validity};
use crate::tree::{Fate, GENESIS, NodeId};
use primitives::Height;

impl BlockIndex {
    /// The UTXO set of this block came from a snapshot.
    pub fn assume(&mut self, base: NodeId) {
        self.assumed = Some(base);
    }

    /// Whether a block is at or below the base of a snapshot, on its chain; the genesis block is as in any index.
    pub(super) fn is_assumed(&self, id: NodeId) -> bool {
        id != GENESIS && self.assumed.is_some_and(|base| self.headers.is_ancestor(id, base))
    }

    /// The blocks that a snapshot stands for get entries that say so: Core does not start on a chain without.
    pub fn list_assumed(&mut self) {
        let Some(base) = self.assumed else { return };
        self.list(base);
        for id in self.headers.path(GENESIS, base) {
            self.change(id);
        }
    }

    /// The highest block on the way to `goal` that is complete.
    pub fn complete_towards(&self, goal: NodeId) -> NodeId {
        let (mut low, mut high) = (Height::GENESIS, self.headers.height(goal));
        // On one chain what is complete stands on what is complete.
        while low < high {
            let middle = low + high.blocks_above(low).div_ceil(2);
            if self.candidates.is_complete(self.headers.ancestor(goal, middle)) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        self.headers.ancestor(goal, low)
    }

    /// What a chain that stands on an unvalidated snapshot said of the blocks above it is forgotten: marks of those that
    /// broke a rule when they were connected, for their coins may have been false. They are judged again, and so are those
    /// that stand on them: an index on disk does not tell a mark that a block has for its ancestor from one of its own.
    pub fn reopen_above(&mut self, base: NodeId) {
        let mut failed = self.headers.descendants(&[base]);
        failed
            .retain(|&id| self.headers.fate(id) == Fate::Failed && self.body(id).validity() >= Validity::Transactions);
        if failed.is_empty() {
            return;
        }
        failed.extend(self.headers.descendants(&failed));
        failed.retain(|&id| self.headers.fate(id) == Fate::Failed);
        for id in self.headers.reopen(&failed) {
            self.change(id);
        }
        self.candidates.reopened(&self.headers);
    }

    /// A snapshot proved false: no block above it counts as connected, and undo data that was made of its coins is not
    /// this chain's.
    pub fn distrust(&mut self, base: NodeId) {
        self.reopen_above(base);
        self.assumed = None;
        for id in self.headers.descendants(&[base]) {
            if self.body(id).validity() > Validity::Transactions || self.body(id).undo().is_some() {
                let body = self.change(id);
                body.set_validity(body.validity().min(Validity::Transactions));
                body.set_undo(0);
            }
        }
    }
}
