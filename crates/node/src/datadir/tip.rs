//! What follows from the tip of a data directory: whether the initial download goes on, what counts as complete, when to commit.

use super::DataDir;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::options::unix_seconds;
use crate::tree::{NodeId, Tree};
use std::sync::atomic::Ordering::Relaxed;

impl DataDir<'_> {
    /// Core's Initial Block Download state, were `tip` the last connected block.
    pub(crate) fn is_initial(&self, tree: &Tree, tip: NodeId) -> bool {
        let (options, now) = (self.options, unix_seconds(self.options.clock));
        let (work, time) = (tree.work(tip), tree.time(tip));
        crate::headers::is_initial(work, time, options.minimum_chain_work, options.sizes.tip_age_max_s, now)
    }

    /// The chain up to `tip` is connected, and counts as complete: its bodies there or pruned.
    pub(crate) fn set_active(&self, tip: NodeId) {
        let is_from_snapshot = self.assumed.is_some_and(|assumed| !assumed.is_past);
        let counts_whole = self.writer.is_pruned() || is_from_snapshot;
        let mut index = self.index.write();
        index.set_active(tip);
        if counts_whole {
            index.complete_active();
        }
        self.reporter.height.store(index.headers().height(tip), Relaxed);
    }

    /// Commits what is in memory when that is due by time or memory, or makes room on the disk.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn commit_if_due(&self, engine: &mut Engine<'_>) -> Result<(), Fault> {
        let is_wanted = self.coins.is_commit_late(self.options.commit_interval) || engine.pipeline.is_full();
        if (is_wanted && engine.pipeline.has_changes()) || self.prune_is_due() {
            engine.pipeline.flush(engine.tip_and_hash())?;
        }
        Ok(())
    }
}
