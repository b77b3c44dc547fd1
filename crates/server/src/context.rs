//! What a call may touch.

pub mod registry;

use crate::ban_file::BanFile;
use crate::error::RpcError;
#[cfg(feature = "descriptors")]
use crate::scan::Scan;
use crate::settings::{THREADS, WORK_QUEUE};
use node::Fault;
use node::chain::index::PruneHeight;
use node::handle::{Handle, Live, Quiet};
use p2p::Peers;
use primitives::{BlockHash, Height};
use registry::Registry;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::{Semaphore, SemaphorePermit};
use watch::Board;

/// What the program gives beside the job's handle.
pub struct Program {
    /// What ends the program, as the first Ctrl-C does.
    pub stop: Box<dyn Fn() + Send + Sync>,
    /// Sets the time of the job's clock, on regtest; 0 for the machine's.
    pub set_mock_time: Option<fn(u64)>,
    /// The complete path of debug.log.
    pub log_path: PathBuf,
    /// The data directory has no peers: it is served, not synced.
    pub is_served: bool,
    /// What the page and the metrics show.
    pub board: Arc<Board>,
    /// The connections.
    pub peers: Arc<Peers>,
    /// Where bans are kept.
    pub bans: BanFile,
    /// What `--version` says.
    pub version: &'static str,
}

/// What a call may touch.
pub struct Context {
    /// The job.
    pub handle: Arc<Handle>,
    /// All calls.
    pub registry: Registry,
    /// What the program gives.
    pub program: Program,
    /// The search of the coins that runs.
    #[cfg(feature = "descriptors")]
    pub scan: Scan,
    /// The search of the blocks that runs.
    #[cfg(feature = "descriptors")]
    pub block_scan: Scan,
    active: Mutex<BTreeMap<u64, (String, Instant)>>,
    next_active: AtomicU64,
    stopping: AtomicBool,
    /// Categories of the log, as they were switched since the start.
    logging: Mutex<BTreeMap<&'static str, bool>>,
    /// From which height on blocks are there, as it was found last.
    prune_height: Mutex<PruneHeight>,
    /// Transactions up to a block at which a chain stands still.
    counted: Mutex<Option<(BlockHash, u64)>>,
    /// Calls that may still be taken: those that run, and those that wait for a thread.
    room: Semaphore,
}

impl Context {
    /// The context of a program's server.
    pub fn new(handle: Arc<Handle>, registry: Registry, program: Program) -> Context {
        Context {
            handle,
            registry,
            program,
            #[cfg(feature = "descriptors")]
            scan: Scan::default(),
            #[cfg(feature = "descriptors")]
            block_scan: Scan::default(),
            active: Mutex::default(),
            next_active: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            logging: Mutex::default(),
            prune_height: Mutex::default(),
            counted: Mutex::default(),
            room: Semaphore::new(THREADS + WORK_QUEUE),
        }
    }

    /// At most `threads` calls run, and `work_queue` calls wait.
    #[must_use]
    pub fn with_room(self, threads: usize, work_queue: usize) -> Context {
        Context { room: Semaphore::new(threads.max(1) + work_queue.max(1)), ..self }
    }

    /// Whether no more calls can be taken.
    pub(crate) fn is_crowded(&self) -> bool {
        self.room.available_permits() == 0
    }

    /// A place for a call that takes a thread.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        // It is never closed.
        self.room.acquire().await.ok()
    }

    /// What may be read of the job.
    ///
    /// # Errors
    ///
    /// The data directory is not open yet: Core's -28 with what is done meanwhile.
    pub fn live(&self) -> Result<Arc<Live>, RpcError> {
        Ok(self.handle.live()?)
    }

    /// Has the job's thread do something at a point where no block is in flight, and waits for that: see [`Handle::ask`].
    ///
    /// # Errors
    ///
    /// The job is not open yet, or ended.
    pub fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Quiet<'_, '_, '_>) -> Result<R, Fault> + Send + 'static,
    ) -> Result<R, RpcError> {
        Ok(self.handle.ask(work)?)
    }

    /// Lowest height from which on all blocks of the connected chain are there. Cheap where it was asked before.
    pub(crate) fn prune_height(&self, live: &Live) -> Height {
        let mut seen = self.prune_height.lock().unwrap_or_else(PoisonError::into_inner);
        live.index.read().prune_height_since(&mut seen)
    }

    /// Transactions up to a block, genesis and itself included. Cheap where the same was asked before: else every block up to
    /// it is looked at.
    pub(crate) fn transactions_up_to(&self, live: &Live, hash: &BlockHash) -> u64 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, count)) = *counted
            && of == *hash
        {
            return count;
        }
        let index = live.index.read();
        let count = index.headers().find(hash).map_or(0, |id| index.transactions_up_to(id));
        *counted = Some((*hash, count));
        count
    }

    /// Switches a category of the log.
    pub fn set_logging(&self, category: &'static str, on: bool) {
        self.logging.lock().unwrap_or_else(PoisonError::into_inner).insert(category, on);
    }

    /// Whether a category was switched on or off.
    pub(crate) fn is_logging(&self, category: &str) -> Option<bool> {
        self.logging.lock().unwrap_or_else(PoisonError::into_inner).get(category).copied()
    }

    /// The program is to end.
    pub fn stop(&self) {
        self.stopping.store(true, Relaxed);
        (self.program.stop)();
    }

    /// Whether it is to.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Relaxed)
    }

    /// The server ends: who waits hears of it.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Notes that a call runs, until that is dropped.
    pub(crate) fn begin(&self, method: &str) -> ActiveCall<'_> {
        let id = self.next_active.fetch_add(1, Relaxed);
        self.lock().insert(id, (method.to_owned(), Instant::now()));
        ActiveCall { context: self, id }
    }

    /// Calls that run, the earliest first, and since when.
    pub fn active_calls(&self) -> Vec<(String, Instant)> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (String, Instant)>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs.
pub(crate) struct ActiveCall<'c> {
    context: &'c Context,
    id: u64,
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        self.context.lock().remove(&self.id);
    }
}
