//! Blocks whose coins were made with hints: each was checked alone, and was never stored.

use super::{BlockIndex, Validity};
use crate::chain::tree::{GENESIS, NodeId};

impl BlockIndex {
    /// Whether no body is there, and none was pruned, but the genesis block's.
    pub fn is_without_bodies(&self) -> bool {
        self.headers.ids().all(|id| id == GENESIS || (self.place(id).is_none() && !self.has_body(id)))
    }

    /// These blocks count as connected and pruned; each comes with the number of its transactions. They are not on the
    /// connected chain before [`BlockIndex::set_active`].
    pub fn pruned_with_hints(&mut self, blocks: impl Iterator<Item = (NodeId, u32)>) {
        for (id, transactions) in blocks {
            self.list(id);
            let body = self.change(id);
            body.set_checked(Validity::Scripts, transactions);
        }
    }
}
