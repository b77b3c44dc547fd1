//! The cache of a job that follows the available memory, if the user gave no size.

use crate::datadir::DataDir;
use crate::pipeline::engine::Engine;
use crate::pipeline::machine_memory::{MachineMemory, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two measurements of memory.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The memory budget of a job's engine, and the watch that adapts it.
pub(crate) struct FollowingCache {
    /// `None` if the user gave a size.
    watch: Option<Watch>,
    budget: Arc<AtomicUsize>,
    /// Bytes of the cache that do not belong to the engine.
    beside: usize,
    last: Instant,
}

impl FollowingCache {
    /// The cache of an engine, starting with the size in the options.
    pub(crate) fn of(datadir: &DataDir<'_>, engine: &Engine<'_>) -> FollowingCache {
        let options = datadir.options;
        let budget = engine.pipeline.budget();
        let watch = || Watch::new(MachineMemory::default(), options.dbcache_bytes as u64);
        FollowingCache {
            watch: options.sizes.dbcache_follows.then(watch),
            beside: options.dbcache_bytes.saturating_sub(budget.load(Relaxed)),
            budget,
            last: Instant::now(),
        }
    }

    /// Adapts the cache to the available memory, about once a second. The caller calls it more often than that.
    pub(crate) fn look(&mut self, datadir: &DataDir<'_>) {
        let Some(watch) = self.watch.as_mut().filter(|_| self.last.elapsed() >= LOOK_INTERVAL) else { return };
        self.last = Instant::now();
        let Some(bytes) = watch.look() else { return };
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.budget.store(bytes.saturating_sub(self.beside).max(bytes / 2), Relaxed);
        datadir
            .reporter
            .log()
            .line(&format!("The cache has {} MiB from now on, by the memory that is left", bytes >> 20));
    }
}
