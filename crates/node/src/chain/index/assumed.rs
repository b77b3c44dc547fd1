//! Blocks up to a loaded snapshot: they count as connected, and their bodies arrive later.
//!
//! Source: Bitcoin Core b88bffe, `PopulateAndValidateSnapshot` (the flag `BLOCK_OPT_WITNESS` of headers),
//! `TryAddBlockIndexCandidate` (blocks towards a target).

use super::{BlockIndex, Validity};
use crate::chain::tree::{Fate, GENESIS, NodeId};

/// Maximum number of blocks examined ahead of the tip.
const TOWARDS_MAX: u32 = 4096;

impl BlockIndex {
    /// Sets the base block of a loaded snapshot.
    pub fn assume(&mut self, base: NodeId) {
        self.assumed = Some(base);
    }

    /// Whether a block is an ancestor of a snapshot's base, or the base itself; the genesis block is not counted.
    pub(super) fn is_assumed(&self, id: NodeId) -> bool {
        id != GENESIS && self.assumed.is_some_and(|base| self.headers.is_ancestor(id, base))
    }

    /// Lists the blocks up to the snapshot with the flags that Core requires to start on such a chain.
    pub fn list_assumed(&mut self) {
        let Some(base) = self.assumed else { return };
        self.list(base);
        for id in self.headers.path(GENESIS, base) {
            self.change(id);
        }
    }

    /// The last block on the way from `tip` to `goal` up to which all bodies above `tip` are stored; `tip` itself if
    /// the next one is missing. Looks at a limited number of blocks. Bodies up to `tip` may be pruned.
    pub fn stored_towards(&self, tip: NodeId, goal: NodeId) -> NodeId {
        let fork = self.headers.fork(tip, goal);
        let end = self.headers.height(goal).min(self.headers.height(fork).saturating_add(TOWARDS_MAX));
        let path = self.headers.path(fork, self.headers.ancestor(goal, end));
        path.into_iter().take_while(|&id| self.place(id).is_some()).last().unwrap_or(tip)
    }

    /// Records that a block at or below a snapshot's base was connected with coins that began at genesis; `undo` is the
    /// offset of its undo data, if that was written. The active chain is the snapshot's, and contains the block
    /// already.
    pub fn validated(&mut self, id: NodeId, transactions: u32, undo: Option<u32>) {
        self.list(id);
        let body = self.change(id);
        body.set_checked(Validity::Scripts, transactions);
        undo.into_iter().for_each(|offset| body.set_undo(offset));
    }

    /// Ends the special treatment of blocks below the snapshot, which is validated.
    pub fn end_assumption(&mut self) {
        self.assumed = None;
    }

    /// Whether a block counts as connected because of a snapshot, even without its body.
    pub(super) fn counts_without_body(&self, id: NodeId) -> bool {
        self.is_active(id) && self.is_assumed(id)
    }

    /// Removes the invalid marks of blocks above an unvalidated snapshot that broke a rule when they were connected,
    /// because their coins may have been wrong. These blocks and their descendants are validated again. The descendants
    /// are included because the index on disk does not distinguish a block's own mark from an ancestor's.
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

    /// Handles a snapshot that proved invalid: no block above it counts as connected any more, and undo data made from
    /// its coins is dropped.
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
