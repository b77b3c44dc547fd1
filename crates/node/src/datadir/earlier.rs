//! What an earlier run left, and what of it decides this one: it is said when the data directory is opened, and while it holds.
//!
//! Absent on purpose: an unfinished reindex, which is said where it is finished (`offline::open`), and a chainstate from a
//! snapshot (`session`).

use super::{DataDir, Mode};
use crate::chain::index::{BlockIndex, OfferedHeaders};
use crate::chain::pruned_fork::PrunedFork;
use crate::chain::tree::NodeId;
use crate::fault::Message;
use crate::reporting::alerts::AlertKind;
use crate::reporting::assumed::AssumedElsewhere;
use crate::reporting::state::ShutOut;
use primitives::Height;

impl DataDir<'_> {
    /// Says what an earlier run left, where the chain ends at `tip`.
    pub(crate) fn say_earlier_state(&self, tip: NodeId) {
        let (height, shut_out, prune_height) = {
            let index = self.index.read();
            let tree = index.headers();
            let prune_height = self.writer.is_pruned().then(|| index.prune_height());
            (tree.height(tip), shut_out(&index, tip, &[]), prune_height)
        };
        self.reporter.say_while(AlertKind::ChainShutOut, shut_out.map(|shut_out| shut_out.message()));
        self.say_assumed_elsewhere();
        self.reporter.say_while(AlertKind::PrunedFork, self.pruned_fork(tip).map(|fork| fork.message()));
        if let Some(first) = prune_height.filter(|&first| first > Height::GENESIS) {
            self.reporter.note(format!(
                "An earlier run pruned the blocks below height {first}: no better chain can begin there. To have them again: \
                 ffwd sync into an empty data directory, without --prune"
            ));
        }
        let stop = self.options.stop_at_height.filter(|&stop| stop < height);
        let above = stop.map(|stop| {
            Message::new(
                format!("The chain is at height {height}, already above --stopatheight {stop}: no block is added"),
                "Leave --stopatheight out, or name a greater height",
            )
        });
        self.reporter.say_while(AlertKind::AboveStopHeight, above);
    }

    /// What was said of an earlier run and no longer holds is no warning any more, where the chain ends at `tip`.
    pub(crate) fn end_earlier_state(&self, tip: NodeId) {
        let is_shut_out = shut_out(&self.index.read(), tip, &[]).is_some();
        if !is_shut_out {
            self.reporter.say_while(AlertKind::ChainShutOut, None);
        }
        if self.pruned_fork(tip).is_none() {
            self.reporter.say_while(AlertKind::PrunedFork, None);
        }
    }

    /// A better chain than that up to `tip` that begins below the pruned blocks.
    pub(crate) fn pruned_fork(&self, tip: NodeId) -> Option<PrunedFork> {
        // What begins below a snapshot is another matter: see `session::finish::is_suspect`.
        if self.assumed.is_some() {
            return None;
        }
        let index = self.index.read();
        let tree = index.headers();
        PrunedFork::find(tree, tip, tree.best(), || index.prune_height())
    }

    /// Why the chain ends at `tip`, if a mark shuts out a better one.
    pub(crate) fn shut_out_reason(&self, index: &BlockIndex, tip: NodeId) -> Option<Message> {
        // A rebuild of the coins is of the connected chain, whatever is beside it.
        let shut_out = shut_out(index, tip, &[]).filter(|_| self.mode == Mode::Work)?;
        Some(shut_out.message())
    }

    /// Says where the assumed-valid block is known and not on the best header chain, or no longer so.
    pub(crate) fn say_assumed_elsewhere(&self) {
        let found = AssumedElsewhere::find(&self.headers(), &self.options.assumevalid);
        self.reporter.say_while(AlertKind::AssumedElsewhere, found.map(|found| found.message()));
    }
}

/// The chain with more work than that of `tip` that a mark shuts out, for displays: see [`BlockIndex::shut_out`].
pub(crate) fn shut_out(index: &BlockIndex, tip: NodeId, offered: &[OfferedHeaders]) -> Option<ShutOut> {
    let chain = index.shut_out(tip, offered)?;
    let tree = index.headers();
    Some(ShutOut { hash: tree.hash(chain.mark), height: tree.height(chain.mark), blocks: chain.blocks })
}
