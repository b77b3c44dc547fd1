//! What is different where a data directory stands on a snapshot that is not validated.

use super::{Assumed, DataDir};
use crate::tree::NodeId;

impl<'e> DataDir<'e> {
    /// The indexes that are kept with the chain; none on top of a snapshot, for they begin with the genesis block: they
    /// grow with the past. Core does the same.
    pub(crate) fn kept_indexes(&self) -> &'e [indexes::IndexKind] {
        let on_snapshot = self.assumed.is_some_and(|assumed| !assumed.is_past);
        if on_snapshot { &[] } else { &self.options.indexes }
    }

    /// Transactions of the chain up to a block, as far as they are known: those up to the base of a snapshot are Core's word
    /// while its blocks are absent.
    pub(crate) fn transactions_up_to(&self, tip: NodeId) -> u64 {
        let index = self.index.read();
        let Some(Assumed { base, is_past: false }) = self.assumed else { return index.transactions_up_to(tip) };
        let (headers, hash) = (index.headers(), index.headers().hash(base));
        let known = self.params.assumeutxo.iter().find(|known| known.block_hash == hash);
        let above = if headers.is_ancestor(base, tip) { headers.path(base, tip) } else { Vec::new() };
        let above: u64 = above.into_iter().map(|id| u64::from(index.body(id).transactions())).sum();
        known.map_or(0, |known| known.chain_tx_count) + above
    }
}
