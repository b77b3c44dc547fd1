//! What an earlier run left, and what of it decides this one: it is said when the data directory is opened, and while it holds.
//!
//! Absent on purpose: an unfinished reindex, which is said where it is finished (`offline::open`), and a chainstate from a
//! snapshot (`session`).

use super::{DataDir, Mode};
use crate::chain::index::{BlockIndex, OfferedHeaders};
use crate::chain::tree::{NodeId, Tree};
use crate::fault::Message;
use crate::reporting::state::{SHUT_OUT_ADVICE, ShutOut};
use primitives::{BlockHash, Height};

impl DataDir<'_> {
    /// Says what an earlier run left, where the chain ends at `tip`.
    pub(crate) fn say_earlier_state(&self, tip: NodeId) {
        let (height, shut_out, prune_height, assumed_elsewhere) = {
            let index = self.index.read();
            let tree = index.headers();
            let prune_height = self.writer.is_pruned().then(|| index.prune_height());
            (tree.height(tip), shut_out(&index, tip, &[]), prune_height, self.assumed_elsewhere(tree))
        };
        self.reporter.shut_out(shut_out);
        self.reporter.assumed_elsewhere(assumed_elsewhere);
        if let Some(first) = prune_height.filter(|&first| first > Height::GENESIS) {
            self.reporter.note(format!(
                "An earlier run pruned the blocks below height {first}: no better chain can begin there. To have them again: \
                 ffwd sync into an empty data directory, without --prune"
            ));
        }
        if let Some(stop) = self.options.stop_at_height.filter(|&stop| stop < height) {
            self.reporter.warn(Message::new(
                format!("The chain is at height {height}, already above --stopatheight {stop}: no block is added"),
                "Leave --stopatheight out, or name a greater height",
            ));
        }
    }

    /// The block of `--assumevalid`, where it is known and not on the best chain: then every script is run.
    pub(crate) fn assumed_elsewhere(&self, tree: &Tree) -> Option<BlockHash> {
        let id = tree.find(&self.options.assumevalid)?;
        (!tree.is_ancestor(id, tree.best())).then_some(self.options.assumevalid)
    }

    /// Why the chain ends at `tip`, if a mark shuts out a better one.
    pub(crate) fn shut_out_reason(&self, index: &BlockIndex, tip: NodeId) -> Option<Message> {
        // A rebuild of the coins is of the connected chain, whatever is beside it.
        let shut_out = shut_out(index, tip, &[]).filter(|_| self.mode == Mode::Work)?;
        Some(Message::new(shut_out.what(), SHUT_OUT_ADVICE))
    }
}

/// The chain with more work than that of `tip` that a mark shuts out, for displays: see [`BlockIndex::shut_out`].
pub(crate) fn shut_out(index: &BlockIndex, tip: NodeId, offered: &[OfferedHeaders]) -> Option<ShutOut> {
    let chain = index.shut_out(tip, offered)?;
    let tree = index.headers();
    Some(ShutOut { hash: tree.hash(chain.mark), height: tree.height(chain.mark), blocks: chain.blocks })
}
