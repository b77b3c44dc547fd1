//! Writes everything to disk, between runs.

use super::{Pipeline, Tip};
use crate::fault::Fault;
use crate::threads::locks::lock;
use std::time::Instant;

impl Pipeline<'_> {
    /// Seals all generations, writes them with all workers, and waits for the workers.
    pub(super) fn flush_everything(&self, tip: Tip) -> Result<(), Fault> {
        self.finish_background()?;
        let parts = std::array::from_fn(|group| {
            let mut shards = lock(&self.groups[group]);
            let part = shards.seal();
            self.stats.set_group(group, &shards);
            part
        });
        self.scheduler().seal_everything(tip, parts, Instant::now());
        self.finish_background()
    }

    /// Runs the workers until no generation and no compaction is waiting.
    fn finish_background(&self) -> Result<(), Fault> {
        self.scheduler().begin_background_run();
        match self.order {
            Some(_) => self.run_background_single_threaded(),
            None => self.run_background_threads(),
        }
        self.scheduler().take_fault()
    }
}
