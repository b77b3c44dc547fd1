//! A handle into a running sync: what others may see of it, and what they may ask it to do.
//!
//! [`Handle::live`] gives what any thread may read while the job works: the block index behind its lock, files, counters.
//! [`Handle::ask`] has the job's own thread do something at a point where no block is in flight: only there coins are those
//! of the tip, and only there the chain may be changed. `turn` says when that is.
//!
//! Absent on purpose: the form of questions and answers (crate `server`).

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

/// Time between two looks whether calls of others have ended.
const READERS_PAUSE: Duration = Duration::from_millis(5);

/// What the job's thread does for another one.
type Task = Box<dyn FnOnce(&mut Quiet<'_, '_, '_>) -> Result<(), Fault> + Send>;

/// Why a question has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// The data directory is being opened: this is what is done at the moment.
    Opening(String),
    /// The job ended.
    Ended,
}

/// The handle: made before the job, and given to it ([`crate::session::options::SyncOptions`]).
pub struct Handle {
    started: Instant,
    state: Mutex<HandleState>,
    turn: Arc<Turn>,
    /// Core's latch: once the tip was recent, the initial block download is over.
    is_current: AtomicBool,
    /// Where the chain below a snapshot stands.
    past_height: AtomicHeight,
    /// Weight and transactions of the last block that was made here.
    last_made: Mutex<Option<(u64, u64)>>,
    mempool: Arc<Mempool>,
    download: Arc<DownloadSwitch>,
    /// A snapshot that is to be loaded, for which the job leaves its work.
    load: Mutex<Option<LoadRequest>>,
}

/// A snapshot that is to be loaded, and who is told.
pub(crate) struct LoadRequest {
    pub(crate) path: PathBuf,
    pub(crate) answer: SyncSender<LoadResult>,
}

/// What became of a snapshot.
type LoadResult = Result<Loaded, NotLoaded>;

/// Why a snapshot was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotLoaded {
    /// The file cannot be opened.
    Unopened,
    /// It does not begin as a snapshot of this network does.
    Metadata(String),
    /// It does not go together with the chain, or is not whole.
    Refused(String),
}

/// A snapshot that was loaded.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Its coins.
    pub coins: u64,
    /// Hash of its base block.
    pub base: BlockHash,
    /// Height of it.
    pub height: Height,
}

struct HandleState {
    live: Option<Arc<Live>>,
    /// The last one that was published: calls may hold it longer than the job.
    last: Weak<Live>,
    /// What became of a snapshot, for the call that waits: it is told when other calls are answered again.
    loaded: Option<(SyncSender<LoadResult>, LoadResult)>,
    /// What is done before there is one.
    opening: String,
    tasks: VecDeque<Task>,
}

impl HandleState {
    fn tell_loaded(&mut self) {
        if let Some((answer, result)) = self.loaded.take() {
            // The caller may be gone: what was loaded stands.
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
    /// Time since the handle was made, at the start of the program.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// What may be read of the job.
    ///
    /// # Errors
    ///
    /// [`Unanswered::Opening`] before the job has opened the data directory.
    pub fn live(&self) -> Result<Arc<Live>, Unanswered> {
        let state = lock(&self.state);
        state.live.clone().ok_or_else(|| Unanswered::Opening(state.opening.clone()))
    }

    /// What is done before the data directory is open, for who asks meanwhile.
    pub fn opening(&self, what: &str) {
        what.clone_into(&mut lock(&self.state).opening);
    }

    /// Has the job's thread do `work`, and waits for that. The caller must hold no lock. A fault of `work` ends the job: what is
    /// no fault of the disk or of the program belongs into `R`.
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
            // Who asked may be gone: what was done stands.
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

    /// Whether a sync of this handle is in Core's initial block download. Once it is over it stays over.
    /// Source: Bitcoin Core b88bffe, `ChainstateManager::UpdateIBDStatus`.
    pub fn is_initial_download(&self, live: &Live) -> bool {
        if !self.is_current.load(Relaxed) && live.is_tip_current() {
            self.is_current.store(true, Relaxed);
        }
        !self.is_current.load(Relaxed)
    }

    /// Has the job load a snapshot of the UTXO set, and waits for that. `live` is what was looked at to find that it can be
    /// loaded ([`crate::snapshot::check_snapshot`]). The job opens the data directory anew, so it is let go before the wait.
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
        // A question ends the run that is under way; behind it the request is seen. If the job is over, the answer says so.
        let _ = self.ask(|_| Ok(()));
        loaded.recv().map_err(|_| Unanswered::Ended)
    }

    /// Whether a snapshot is to be loaded.
    pub(crate) fn wants_load(&self) -> bool {
        lock(&self.load).is_some()
    }

    /// The snapshot that is to be loaded; it is the caller's to answer.
    pub(crate) fn take_load(&self) -> Option<LoadRequest> {
        lock(&self.load).take()
    }

    /// Answers it once the data directory is open again.
    pub(crate) fn answer_load(&self, request: LoadRequest, result: LoadResult) {
        lock(&self.state).loaded = Some((request.answer, result));
    }

    /// The job ends: a call that still waits for a snapshot hears of it, or what became of that.
    pub(crate) fn end_load(&self) {
        drop(self.take_load());
        lock(&self.state).tell_loaded();
    }

    /// Height of the chain below a snapshot.
    pub fn past_height(&self) -> Height {
        self.past_height.load(Relaxed)
    }

    /// That chain was left there.
    pub(crate) fn set_past_height(&self, height: Height) {
        self.past_height.store(height, Relaxed);
    }

    /// Weight and number of transactions of the last block that was made here.
    pub fn last_made(&self) -> Option<(u64, u64)> {
        *lock(&self.last_made)
    }

    /// A block was made here.
    pub fn set_last_made(&self, weight: u64, transactions: u64) {
        *lock(&self.last_made) = Some((weight, transactions));
    }

    /// Transactions of blocks that were disconnected, which wait for another block.
    pub fn mempool(&self) -> &Arc<Mempool> {
        &self.mempool
    }

    /// What pauses and resumes the download of a sync that was given it.
    pub fn download(&self) -> &Arc<DownloadSwitch> {
        &self.download
    }

    /// A job begins on a data directory: it has its turn for others by this, and its coins are new.
    pub(crate) fn attach(&self, datadir: &mut DataDir<'_>) {
        datadir.turn = self.turn.clone();
        #[cfg(feature = "regtest-tools")]
        {
            self.mempool.clear();
            datadir.mempool = Some(self.mempool.clone());
        }
    }

    /// From now on, and until that is dropped, this is what may be read.
    pub(crate) fn publish(&self, live: Arc<Live>) -> Published<'_> {
        self.replace(live);
        Published(self)
    }

    /// The same in place of what may be read already, without a moment in which nothing may.
    pub(crate) fn replace(&self, live: Arc<Live>) {
        let mut state = lock(&self.state);
        state.last = Arc::downgrade(&live);
        state.live = Some(live);
        state.tell_loaded();
    }

    /// Waits until no call reads what was published last: it keeps the databases open, with their locks, and the job may open
    /// them anew only behind that. `is_stopping`: nobody opens them any more.
    pub(crate) fn wait_for_readers(&self, is_stopping: impl Fn() -> bool) {
        let last = lock(&self.state).last.clone();
        while last.strong_count() > 0 && !is_stopping() {
            std::thread::sleep(READERS_PAUSE);
        }
    }

    /// Does what others wait for.
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

/// A job that may be asked; it may not once this is dropped.
pub(crate) struct Published<'h>(&'h Handle);

impl Drop for Published<'_> {
    fn drop(&mut self) {
        // While the job unwinds, too: who asked hears that it ended.
        let Ok(mut state) = self.0.state.lock() else { return };
        let tasks = std::mem::take(&mut state.tasks);
        state.live = None;
        drop(state);
        self.0.turn.ended(tasks.len());
    }
}
