//! State for calls.

mod pool;
pub mod registry;

use crate::ban_file::BanFile;
use crate::error::RpcError;
#[cfg(feature = "descriptors")]
use crate::scan::Scan;
use crate::settings::{THREADS, WORK_QUEUE};
use indexes::IndexKind;
use node::Fault;
use node::chain::index::{PruneHeight, TransactionCount};
use node::chain::tree::NodeId;
use node::handle::{Handle, Live, Quiet};
use p2p::Peers;
use pool::Pool;
use primitives::{BlockHash, Height};
use registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;
use watch::Board;

/// Data and functions of the program, in addition to the job's handle.
pub struct Program {
    /// Whether the program is to end: the flag of the job's options, which Ctrl-C and SIGTERM set too.
    pub stop: Arc<AtomicBool>,
    /// Sets the job's clock, on regtest; 0 for the machine's.
    pub set_mock_time: Option<fn(u64)>,
    /// The complete path of debug.log.
    pub log_path: PathBuf,
    /// Whether a data directory is served without peers.
    pub is_served: bool,
    /// State for the page and the metrics.
    pub board: Arc<Board>,
    /// The connections.
    pub peers: Arc<Peers>,
    /// The file of bans.
    pub bans: BanFile,
    /// Output of `--version`.
    pub version: &'static str,
}

/// State for calls.
pub struct Context {
    /// The job.
    pub handle: Arc<Handle>,
    /// All calls.
    pub registry: Registry,
    /// Data and functions of the program.
    pub program: Program,
    /// The running search of the coins.
    #[cfg(feature = "descriptors")]
    pub scan: Scan,
    /// The running search of the blocks.
    #[cfg(feature = "descriptors")]
    pub block_scan: Scan,
    active: Mutex<BTreeMap<u64, (String, Instant)>>,
    next_active: AtomicU64,
    /// Whether the server has ended.
    ended: AtomicBool,
    /// Log categories that were switched since the start.
    logging: Mutex<BTreeMap<&'static str, bool>>,
    /// Last known lowest height from which on all blocks are stored.
    prune_height: Mutex<PruneHeight>,
    /// Indexes that were seen at the tip.
    synced: Mutex<BTreeSet<IndexKind>>,
    /// Held while the UTXO set is dumped to a file, and to a pipe.
    dumps: [Mutex<()>; 2],
    /// Last result of the number of transactions up to a block.
    counted: Mutex<TransactionCount>,
    /// Permits for threads.
    pub(crate) pool: Pool,
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
            ended: AtomicBool::new(false),
            logging: Mutex::default(),
            prune_height: Mutex::default(),
            synced: Mutex::default(),
            dumps: Default::default(),
            counted: Mutex::default(),
            pool: Pool::new(THREADS, WORK_QUEUE),
        }
    }

    /// Allows at most `threads` running calls, and `work_queue` waiting ones.
    #[must_use]
    pub fn with_room(self, threads: usize, work_queue: usize) -> Context {
        Context { pool: Pool::new(threads, work_queue), ..self }
    }

    /// Read access to the job.
    ///
    /// # Errors
    ///
    /// The data directory is not open yet: Core's -28 with the current action.
    pub fn live(&self) -> Result<Arc<Live>, RpcError> {
        Ok(self.handle.live()?)
    }

    /// Runs an action in the job's thread when no block is in flight, and waits for the result: see [`Handle::ask`].
    ///
    /// # Errors
    ///
    /// The data directory is not open yet, or the job has ended.
    pub fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Quiet<'_, '_, '_>) -> Result<R, Fault> + Send + 'static,
    ) -> Result<R, RpcError> {
        Ok(self.handle.ask(work)?)
    }

    /// Commits the connected blocks; returns the last of them.
    ///
    /// # Errors
    ///
    /// Those of [`Context::ask`], and an I/O error.
    pub(crate) fn committed_tip(&self) -> Result<NodeId, RpcError> {
        self.ask(|quiet| {
            quiet.flush()?;
            Ok(quiet.tip().0)
        })
    }

    /// Lowest height from which on all blocks of the connected chain are stored. Cheap if it was computed before.
    pub(crate) fn prune_height(&self, live: &Live) -> Height {
        let mut seen = self.prune_height.lock().unwrap_or_else(PoisonError::into_inner);
        live.index.read().prune_height_since(&mut seen)
    }

    /// Number of transactions up to a block, genesis and itself included. Cheap if the block of the last call is near
    /// below it, or is it: otherwise every block up to it is counted.
    pub(crate) fn transactions_up_to(&self, live: &Live, hash: &BlockHash) -> u64 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let index = live.index.read();
        index.headers().find(hash).map_or(0, |id| index.transactions_since(id, &mut counted))
    }

    /// Whether an index has reached the tip since the start: as in Core, it counts as synced from then on, also while a new
    /// block is connected.
    pub(crate) fn has_synced(&self, kind: IndexKind, is_at_tip: bool) -> bool {
        let mut synced = self.synced.lock().unwrap_or_else(PoisonError::into_inner);
        if is_at_tip {
            synced.insert(kind);
        }
        synced.contains(&kind)
    }

    /// Begins a dump of the UTXO set, which lasts until the result is dropped; `None` if another one is in progress. A
    /// dump to a pipe, which may wait for a reader, holds up none to a file.
    pub(crate) fn begin_dump(&self, is_pipe: bool) -> Option<MutexGuard<'_, ()>> {
        match self.dumps[usize::from(is_pipe)].try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(why)) => Some(why.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Switches a category of the log.
    pub fn set_logging(&self, category: &'static str, on: bool) {
        self.logging.lock().unwrap_or_else(PoisonError::into_inner).insert(category, on);
    }

    /// Whether a category was switched on or off.
    pub(crate) fn is_logging(&self, category: &str) -> Option<bool> {
        self.logging.lock().unwrap_or_else(PoisonError::into_inner).get(category).copied()
    }

    /// Ends the program, as the first Ctrl-C does.
    pub fn stop(&self) {
        self.program.stop.store(true, SeqCst);
    }

    /// Whether the program is to end, or the server has ended: waiting calls return.
    pub fn is_stopping(&self) -> bool {
        self.program.stop.load(Relaxed) || self.has_ended()
    }

    /// The server ends.
    pub(crate) fn end(&self) {
        self.ended.store(true, Relaxed);
    }

    /// Whether the server has ended, which it does after the job.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Records a running call until the result is dropped.
    pub(crate) fn begin(&self, method: &str) -> ActiveCall<'_> {
        let id = self.next_active.fetch_add(1, Relaxed);
        self.lock().insert(id, (method.to_owned(), Instant::now()));
        ActiveCall { context: self, id }
    }

    /// Running calls, the earliest first, with their start times.
    pub fn active_calls(&self) -> Vec<(String, Instant)> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, (String, Instant)>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running call.
pub(crate) struct ActiveCall<'c> {
    context: &'c Context,
    id: u64,
}

impl Drop for ActiveCall<'_> {
    fn drop(&mut self) {
        self.context.lock().remove(&self.id);
    }
}
