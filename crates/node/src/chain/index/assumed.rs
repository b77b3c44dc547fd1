//! Blocks that a snapshot stands for: they count as connected, and their bodies come later.
//!
//! Source: Bitcoin Core b88bffe, `PopulateAndValidateSnapshot` (the flag `BLOCK_OPT_WITNESS` of headers),
//! `TryAddBlockIndexCandidate` (blocks towards a target).

use super::{BlockIndex, Validity};
use crate::chain::tree::{Fate, GENESIS, NodeId};

/// Blocks that are looked at ahead of the tip.
const TOWARDS_MAX: u32 = 4096;

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

    /// The last block on the way from `tip` to `goal` up to which all bodies above are there, a number of blocks ahead at most:
    /// `tip` where the next one is missing. The blocks up to `tip` count as they are: they were connected, or pruned since.
    pub fn stored_towards(&self, tip: NodeId, goal: NodeId) -> NodeId {
        let fork = self.headers.fork(tip, goal);
        let end = self.headers.height(goal).min(self.headers.height(fork).saturating_add(TOWARDS_MAX));
        let path = self.headers.path(fork, self.headers.ancestor(goal, end));
        path.into_iter().take_while(|&id| self.place(id).is_some()).last().unwrap_or(tip)
    }

    /// A block at or below the base of a snapshot was connected with coins that began at genesis; `undo` is the offset of undo
    /// data that was written for it. The chain that counts as connected is that of the snapshot, and has it already.
    pub fn validated(&mut self, id: NodeId, transactions: u32, undo: Option<u32>) {
        self.list(id);
        let body = self.change(id);
        body.set_checked(Validity::Scripts, transactions);
        undo.into_iter().for_each(|offset| body.set_undo(offset));
    }

    /// The snapshot is validated: its blocks are as all others.
    pub fn end_assumption(&mut self) {
        self.assumed = None;
    }

    /// Whether a block counts as connected because of a snapshot, wherever its body is.
    pub(super) fn counts_without_body(&self, id: NodeId) -> bool {
        self.is_active(id) && self.is_assumed(id)
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
            self.refused.remove(&id);
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
