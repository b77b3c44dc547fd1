//! State left by an earlier run that affects this one: reported when the data directory is opened, and for as long as
//! it applies.
//!
//! Absent on purpose: an unfinished reindex, which `offline::open` reports when finishing it, and a chainstate from a
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
    /// Reports the state that an earlier run left; the chain ends at `tip`.
    pub(crate) fn say_earlier_state(&self, tip: NodeId) {
        let (height, shut_out, prune_height) = {
            let index = self.index.read();
            let tree = index.headers();
            let prune_height = self.writer.is_pruned().then(|| index.prune_height());
            (tree.height(tip), shut_out(&index, tip, &[]), prune_height)
        };
        self.reporter.say_while(AlertKind::ChainShutOut, shut_out.map(|shut_out| shut_out.message()));
        self.say_assumed_elsewhere();
        self.say_pruned_fork();
        if let Some(first) = prune_height.filter(|&first| first > Height::GENESIS) {
            self.reporter.note(format!(
                "An earlier run pruned the blocks below height {first}: no better chain can begin there. To have them again: \
                 ffwd sync --prune 0"
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

    /// Ends warnings about state of an earlier run that no longer apply; the chain ends at `tip`.
    pub(crate) fn end_earlier_state(&self, tip: NodeId) {
        let is_shut_out = shut_out(&self.index.read(), tip, &[]).is_some();
        if !is_shut_out {
            self.reporter.say_while(AlertKind::ChainShutOut, None);
        }
        if self.pruned_fork().is_none() {
            self.reporter.say_while(AlertKind::PrunedFork, None);
        }
    }

    /// Warns if a better chain than the connected one forks off below the pruned blocks, or ends that warning.
    pub(crate) fn say_pruned_fork(&self) {
        self.reporter.say_while(AlertKind::PrunedFork, self.pruned_fork().map(|fork| fork.message()));
    }

    /// A better chain than the connected one that forks off below the pruned blocks.
    pub(crate) fn pruned_fork(&self) -> Option<PrunedFork> {
        // A chain that forks off below a snapshot is handled differently: see `session::finish::is_suspect`.
        if self.assumed.is_some() {
            return None;
        }
        let index = self.index.read();
        let tree = index.headers();
        PrunedFork::find(tree, index.tip(), tree.best(), || index.prune_height())
    }

    /// Why the chain ends at `tip`, if an invalid mark excludes a better one.
    pub(crate) fn shut_out_reason(&self, index: &BlockIndex, tip: NodeId) -> Option<Message> {
        // A rebuild of the coins uses the connected chain, regardless of others.
        let shut_out = shut_out(index, tip, &[]).filter(|_| self.mode == Mode::Work)?;
        Some(shut_out.message())
    }

    /// Warns if the assumed-valid block is known but not on the best header chain, or ends that warning.
    pub(crate) fn say_assumed_elsewhere(&self) {
        let found = AssumedElsewhere::find(&self.headers(), &self.options.assumevalid);
        self.reporter.say_while(AlertKind::AssumedElsewhere, found.map(|found| found.message()));
    }
}

/// The chain with more work than that of `tip` that an invalid mark excludes, for displays: see
/// [`BlockIndex::shut_out`].
pub(crate) fn shut_out(index: &BlockIndex, tip: NodeId, offered: &[OfferedHeaders]) -> Option<ShutOut> {
    let chain = index.shut_out(tip, offered)?;
    let tree = index.headers();
    Some(ShutOut { hash: tree.hash(chain.mark), height: tree.height(chain.mark), blocks: chain.blocks })
}
