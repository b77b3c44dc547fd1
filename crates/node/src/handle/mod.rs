//! A handle to a running sync, with which other threads read its state and request changes.
//!
//! [`Handle::live`] returns the state that any thread may read while the job works: the block index behind its lock,
//! files, counters. [`Handle::ask`] runs a closure on the job's own thread at a point where no block is in flight. Only
//! there do the coins match the tip, and only there may the chain be changed. `datadir::turn` decides when such a point
//! is made.
//!
//! Absent on purpose: request and response formats (crate `server`).

mod change;
mod download_switch;
mod live;
mod look_up;
mod quiet;
mod verify;

pub use change::Submitted;
pub use download_switch::DownloadSwitch;
pub use live::Live;
pub use look_up::{decode_coin, set_info, walk_coins};
pub use quiet::Quiet;
pub use verify::Verified;

use crate::datadir::DataDir;
use crate::datadir::turn::Turn;
use crate::fault::Fault;
use crate::mempool::Mempool;
use crate::threads::atomic_height::AtomicHeight;
use crate::threads::locks::lock;
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Pause between two checks whether other threads have released the databases.
const READERS_PAUSE: Duration = Duration::from_millis(5);

/// A closure that another thread runs on the job's thread.
type Task = Box<dyn FnOnce(&mut Quiet<'_, '_, '_>) -> Result<(), Fault> + Send>;

/// Why a request has no result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// The data directory is still being opened: the current step.
    Opening(String),
    /// The job ended.
    Ended,
}

/// The handle: created before the job and passed to it ([`crate::session::options::SyncOptions`]).
pub struct Handle {
    started: Instant,
    state: Mutex<HandleState>,
    turn: Arc<Turn>,
    /// Core's latch: set once the tip was recent, which ends the initial block download.
    is_current: AtomicBool,
    /// Height of the validated chain below a snapshot.
    past_height: AtomicHeight,
    /// Weight and transaction count of the last block assembled here.
    last_made: Mutex<Option<(u64, u64)>>,
    mempool: Arc<Mempool>,
    download: Arc<DownloadSwitch>,
    /// A requested snapshot: the job interrupts its work to load it.
    load: Mutex<Option<LoadRequest>>,
}

/// A requested snapshot, and the channel for the result.
pub(crate) struct LoadRequest {
    pub(crate) path: PathBuf,
    pub(crate) answer: SyncSender<LoadResult>,
}

/// The result of loading a snapshot.
type LoadResult = Result<Loaded, NotLoaded>;

/// Why a snapshot was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotLoaded {
    /// The file cannot be opened.
    Unopened,
    /// It does not begin like a snapshot of this network.
    Metadata(String),
    /// It does not fit the chain, or is incomplete.
    Refused(String),
}

/// A snapshot that was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Number of coins in it.
    pub coins: u64,
    /// Hash of its base block.
    pub base: BlockHash,
    /// Height of its base block.
    pub height: Height,
}

struct HandleState {
    live: Option<Arc<Live>>,
    /// The last published state: callers may hold it longer than the job does.
    last: Weak<Live>,
    /// The result of a snapshot, sent to the waiting caller once other requests are answered again.
    loaded: Option<(SyncSender<LoadResult>, LoadResult)>,
    /// The current step while the data directory is being opened.
    opening: String,
    tasks: VecDeque<Task>,
}

impl HandleState {
    fn tell_loaded(&mut self) {
        if let Some((answer, result)) = self.loaded.take() {
            // The caller may have disconnected: the snapshot stays loaded.
            let _ = answer.send(result);
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Default for Handle {
    fn default() -> Handle {
        let opening = "Loading block index…".to_owned();
        let state = HandleState { live: None, last: Weak::new(), loaded: None, opening, tasks: VecDeque::new() };
        Handle {
            started: Instant::now(),
            state: Mutex::new(state),
            turn: Arc::default(),
            is_current: AtomicBool::new(false),
            past_height: AtomicHeight::default(),
            last_made: Mutex::default(),
            mempool: Arc::default(),
            download: Arc::default(),
            load: Mutex::default(),
        }
    }
}

impl Handle {
    /// Time since the handle was created at program start.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The state of the job that other threads may read.
    ///
    /// # Errors
    ///
    /// [`Unanswered::Opening`] before the job has opened the data directory.
    pub fn live(&self) -> Result<Arc<Live>, Unanswered> {
        let state = lock(&self.state);
        state.live.clone().ok_or_else(|| Unanswered::Opening(state.opening.clone()))
    }

    /// Sets the current step of opening the data directory, for requests that arrive meanwhile.
    pub fn opening(&self, what: &str) {
        what.clone_into(&mut lock(&self.state).opening);
    }

    /// Runs `work` on the job's thread and waits for its result. The caller must hold no lock. A fault that `work`
    /// returns ends the job: return errors other than faults of the disk or the program in `R`.
    ///
    /// # Errors
    ///
    /// [`Unanswered`].
    pub fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Quiet<'_, '_, '_>) -> Result<R, Fault> + Send + 'static,
    ) -> Result<R, Unanswered> {
        let (sender, answer) = sync_channel(1);
        let task: Task = Box::new(move |quiet| {
            // The caller may have disconnected: the work stays done.
            work(quiet).map(|result| drop(sender.send(result)))
        });
        let live = {
            let mut state = lock(&self.state);
            let live = state.live.clone().ok_or_else(|| Unanswered::Opening(state.opening.clone()))?;
            state.tasks.push_back(task);
            self.turn.asked();
            live
        };
        live.wake();
        answer.recv().map_err(|_| Unanswered::Ended)
    }

    /// Whether this handle's sync is in Core's initial block download. When it has ended once, the result stays false.
    /// Source: Bitcoin Core b88bffe, `ChainstateManager::UpdateIBDStatus`.
    pub fn is_initial_download(&self, live: &Live) -> bool {
        if !self.is_current.load(Relaxed) && live.is_tip_current() {
            self.is_current.store(true, Relaxed);
        }
        !self.is_current.load(Relaxed)
    }

    /// Makes the job load a UTXO snapshot, and waits for the result. `live` is the state on which
    /// [`crate::snapshot::check_snapshot`] found that the snapshot can be loaded. It is dropped before the wait because
    /// the job reopens the data directory.
    ///
    /// # Errors
    ///
    /// [`Unanswered`].
    pub fn load_snapshot(&self, live: Arc<Live>, path: PathBuf) -> Result<LoadResult, Unanswered> {
        let (answer, loaded) = sync_channel(1);
        {
            let state = lock(&self.state);
            if !state.live.as_ref().is_some_and(|now| Arc::ptr_eq(now, &live)) {
                return Err(Unanswered::Opening(state.opening.clone()));
            }
            let mut load = lock(&self.load);
            if load.is_some() {
                return Ok(Err(NotLoaded::Refused("Another snapshot is being loaded".to_owned())));
            }
            *load = Some(LoadRequest { path, answer });
        }
        live.wake();
        drop(live);
        // This task ends the current run, after which the job sees the request. If the job has ended, `recv` returns an
        // error.
        let _ = self.ask(|_| Ok(()));
        loaded.recv().map_err(|_| Unanswered::Ended)
    }

    /// Whether loading a snapshot was requested.
    pub(crate) fn wants_load(&self) -> bool {
        lock(&self.load).is_some()
    }

    /// Takes the requested snapshot; the caller must answer the request.
    pub(crate) fn take_load(&self) -> Option<LoadRequest> {
        lock(&self.load).take()
    }

    /// Sets the answer to the request, which is sent when the data directory is open again.
    pub(crate) fn answer_load(&self, request: LoadRequest, result: LoadResult) {
        lock(&self.state).loaded = Some((request.answer, result));
    }

    /// Detaches the job: a caller that still waits for a snapshot gets the result, or [`Unanswered::Ended`].
    pub(crate) fn end_load(&self) {
        drop(self.take_load());
        lock(&self.state).tell_loaded();
    }

    /// Height of the validated chain below a snapshot.
    pub fn past_height(&self) -> Height {
        self.past_height.load(Relaxed)
    }

    /// Sets the height of the validated chain below a snapshot.
    pub(crate) fn set_past_height(&self, height: Height) {
        self.past_height.store(height, Relaxed);
    }

    /// Weight and transaction count of the last block assembled here.
    pub fn last_made(&self) -> Option<(u64, u64)> {
        *lock(&self.last_made)
    }

    /// Stores weight and transaction count of a block assembled here.
    pub fn set_last_made(&self, weight: u64, transactions: u64) {
        *lock(&self.last_made) = Some((weight, transactions));
    }

    /// The mempool: transactions of disconnected blocks, until another block contains them.
    pub fn mempool(&self) -> &Arc<Mempool> {
        &self.mempool
    }

    /// The switch that pauses and resumes the download of the sync that has this handle.
    pub fn download(&self) -> &Arc<DownloadSwitch> {
        &self.download
    }

    /// Attaches a job's data directory: the job runs this handle's tasks from now on, and the mempool is cleared
    /// because the coins are new.
    pub(crate) fn attach(&self, datadir: &mut DataDir<'_>) {
        datadir.turn = self.turn.clone();
        #[cfg(feature = "regtest-tools")]
        {
            self.mempool.clear();
            datadir.mempool = Some(self.mempool.clone());
        }
    }

    /// Publishes the state that other threads may read, until the returned value is dropped.
    pub(crate) fn publish(&self, live: Arc<Live>) -> Published<'_> {
        self.replace(live);
        Published(self)
    }

    /// Replaces the published state, with no gap in which requests fail.
    pub(crate) fn replace(&self, live: Arc<Live>) {
        let mut state = lock(&self.state);
        state.last = Arc::downgrade(&live);
        state.live = Some(live);
        state.tell_loaded();
    }

    /// Waits until no caller holds the last published state. That state keeps the databases open and locked, so the job
    /// may reopen them only afterwards. Returns early if `is_stopping`: then the databases are not reopened.
    pub(crate) fn wait_for_readers(&self, is_stopping: impl Fn() -> bool) {
        let last = lock(&self.state).last.clone();
        while last.strong_count() > 0 && !is_stopping() {
            std::thread::sleep(READERS_PAUSE);
        }
    }

    /// Runs the tasks of other threads that are waiting.
    ///
    /// # Errors
    ///
    /// A fault of the disk or of the program.
    pub(crate) fn serve(&self, quiet: &mut Quiet<'_, '_, '_>) -> Result<(), Fault> {
        let tasks = std::mem::take(&mut lock(&self.state).tasks);
        let count = tasks.len();
        if count > 0 {
            self.turn.begun();
        }
        let done = tasks.into_iter().try_for_each(|task| task(quiet));
        if count > 0 {
            self.turn.ended(count);
        }
        done
    }
}

/// A job that accepts requests until this is dropped.
pub(crate) struct Published<'h>(&'h Handle);

impl Drop for Published<'_> {
    fn drop(&mut self) {
        // Also runs while the job unwinds, so that waiting callers get `Ended`.
        let Ok(mut state) = self.0.state.lock() else { return };
        let tasks = std::mem::take(&mut state.tasks);
        state.live = None;
        drop(state);
        self.0.turn.ended(tasks.len());
    }
}
