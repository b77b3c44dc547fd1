//! The number of transactions of the chain up to a block: computed once, then updated for the blocks above.

use super::BlockIndex;
use crate::chain::tree::NodeId;
use primitives::BlockHash;

/// A cached result of [`BlockIndex::transactions_up_to`], for frequent callers. The block is named by its hash, because
/// node ids are valid only for one opening of the data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransactionCount {
    /// The block of the last query, and its result; `None` before the first.
    known: Option<(BlockHash, u64)>,
}

impl BlockIndex {
    /// Number of transactions of the chain up to a block, from genesis to the block itself.
    pub fn transactions_up_to(&self, id: NodeId) -> u64 {
        let chain = std::iter::successors(Some(id), |&id| self.headers.parent(id));
        chain.map(|id| u64::from(self.body(id).transactions())).sum()
    }

    /// Like [`BlockIndex::transactions_up_to`], but only looks at blocks above that of the last query, if it is an
    /// ancestor. A counted block keeps its number of transactions.
    pub fn transactions_since(&self, id: NodeId, seen: &mut TransactionCount) -> u64 {
        let known = seen.known.and_then(|(hash, count)| Some((self.headers.find(&hash)?, count)));
        let count = match known.filter(|&(from, _)| self.headers.is_ancestor(from, id)) {
            Some((from, below)) => {
                let above = self.headers.path(from, id);
                below + above.into_iter().map(|id| u64::from(self.body(id).transactions())).sum::<u64>()
            }
            None => self.transactions_up_to(id),
        };
        seen.known = Some((self.headers.hash(id), count));
        count
    }
}
