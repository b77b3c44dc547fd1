//! The cache of a job that follows the memory that is left, where no size was asked for.

use crate::datadir::DataDir;
use crate::pipeline::engine::Engine;
use crate::pipeline::machine_memory::{MachineMemory, Watch};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time between two looks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The budget of a job's engine, and what it follows.
pub(crate) struct FollowingCache {
    /// None where the size was given.
    watch: Option<Watch>,
    budget: Arc<AtomicUsize>,
    /// Bytes of the cache that the engine does not have.
    beside: usize,
    last: Instant,
}

impl FollowingCache {
    /// The cache of an engine, from what the options say on.
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

    /// Looks whether more or less memory is left, about once a second. To be called more often.
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
