//! Blocks whose coins were built with hints: they passed the checks that need no coins, and were never stored.

use super::{BlockIndex, Validity};
use crate::chain::tree::{GENESIS, NodeId};

impl BlockIndex {
    /// Whether no body is stored or pruned, except for the genesis block's.
    pub fn is_without_bodies(&self) -> bool {
        self.headers.ids().all(|id| id == GENESIS || (self.place(id).is_none() && !self.has_body(id)))
    }

    /// Marks these blocks, each given with its number of transactions, as connected and pruned. They are not on the
    /// active chain before [`BlockIndex::set_active`].
    pub fn pruned_with_hints(&mut self, blocks: impl Iterator<Item = (NodeId, u32)>) {
        for (id, transactions) in blocks {
            self.list(id);
            let body = self.change(id);
            body.set_checked(Validity::Scripts, transactions);
        }
    }
}
