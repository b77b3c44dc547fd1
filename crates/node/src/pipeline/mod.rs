//! The pipeline: blocks of one chain go in, in order; committed blocks come out, in order; in between every core is busy.
//!
//! arrive -> decode (any order) -> spend and create (a lane at a time, in block order) -> look up (any order)
//!        -> judge (any order), scripts (any order) -> commit (strictly in order)
//!
//! One pool of workers takes the ready task of the lowest block, the later stage first. No thread belongs to a stage.
//! The thread that calls [`Pipeline::run`] reads blocks and sleeps in the disk; it does none of the work.
//!
//! Invariants:
//! - A lane does the operations of block n + 1 after those of block n, and never waits for a table look-up.
//! - A block commits when it and all before it are judged good. What is committed is never rewound.
//! - When a block fails, nothing of a block above it that is in flight survives: the lanes are rewound before `run` returns.
//! - A failure is reported for the lowest block that fails, with the failure that Core would meet first in it.
//!
//! Absent on purpose: which chain (the caller's), files (the [`Backend`]'s), rules (`stages`).

mod chosen;
mod disk;
mod flush;
mod rewind;
mod state;
mod work;

use crate::block::{Job, Judged, Prepared};
use crate::fault::Fault;
use crate::stats::{BlockTimes, Stats};
use crate::tree::NodeId;
use coins::table::HashKey;
use coins::{Answers, Generation, LANES, Lane};
use consensus::{BlockError, Params};
use primitives::{BlockHash, CoinKey, MedianTime, OutPoint, Txid};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock};
use std::time::Duration;

pub use chosen::{Choice, Choose};
use state::State;

/// Median time past by height along the chain that is being connected, for relative time locks.
pub type MedianTimes = Arc<Vec<MedianTime>>;

/// A block that is judged good, in the order of the chain.
pub struct Connected<'a> {
    /// The block.
    pub job: &'a Job,
    /// Its tables and ids.
    pub prepared: &'a Prepared,
    /// What judging it gave: undo data, counts.
    pub judged: &'a Judged,
    /// Coins in memory now, and bytes allocated for them.
    pub coins: (usize, usize),
    /// What it has cost so far.
    pub times: &'a BlockTimes,
    /// The counters.
    pub stats: &'a Stats,
}

/// What the pipeline needs of the world.
pub trait Backend: Sync {
    /// The next block in the order of the chain; `None` when there is none for now and the run should end.
    /// Called from one thread, which may sleep here, and asks `is_wanted` while it waits for what blocks in flight hold:
    /// after a failure they do not go on. What it waits, for those or for peers, is added to `waited`.
    fn next(&self, is_wanted: &dyn Fn() -> bool, waited: &mut Duration) -> Result<Option<Job>, Fault>;

    /// Looks up coins in the tables. `keys` are sorted;
    /// `found` is called with the index of each that is there, and its stored bytes.
    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault>;

    /// Takes a block that is good, in order.
    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault>;

    /// Whether the writer should be given what there is, although memory is there: by time.
    fn flush_is_due(&self) -> bool;

    /// Makes everything that was connected durable but the coins: block and undo data, then the index.
    fn sync(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault>;

    /// Begins a commit of coins as of `tip`, of about so many records and bytes. Says no while merges must be done
    /// first.
    fn begin_commit(&self, tip: (NodeId, BlockHash), records: u64, bytes: u64) -> Result<bool, Fault>;

    /// Writes the changes of some neighbouring lanes, from `first_lane` on, of the generation that is being committed;
    /// several parts at the same time.
    fn write_part(&self, first_lane: usize, lanes: &[Generation]) -> Result<(), Fault>;

    /// Makes the commit durable.
    fn finish_commit(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault>;

    /// Writing or finishing a commit failed with this fault, for want of room, and nobody writes it any more: drops it, and
    /// waits for room. Then it is begun again.
    ///
    /// # Errors
    ///
    /// There is no use in waiting.
    fn drop_commit(&self, fault: Fault) -> Result<(), Fault> {
        Err(fault)
    }

    /// Does one piece of background work (merging tables), several at the same time; says whether there may be more for
    /// the one who asks.
    fn merge(&self) -> Result<bool, Fault>;

    /// Bytes that the tables hold in memory (indexes, filters, tables being built): part of the budget.
    fn table_bytes(&self) -> usize;

    /// Whether to stop: the first Ctrl-C. What is in flight is dropped.
    fn stopping(&self) -> bool;
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The backend had no further block; all are connected.
    Done,
    /// The block is refused; it and everything above it was rewound.
    Refused {
        /// The block.
        node: NodeId,
        /// Why.
        error: BlockError,
    },
    /// Core would not have parsed it: the body is none. It and everything above it was rewound.
    Unparsable {
        /// The block.
        node: NodeId,
        /// What is wrong with its bytes.
        error: primitives::DecodeError,
    },
    /// The body belongs to another header. It and everything above it was rewound.
    WrongBody {
        /// The block that was wanted.
        node: NodeId,
    },
    /// Stopped on demand; what was not connected was rewound.
    Stopped,
}

/// Settings of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Workers, at least 1.
    pub par: usize,
    /// Budget of memory for coins, blocks in flight and table indexes, in bytes. With 0 every generation is sealed at the
    /// first chance and let go when it is committed, so that the tables are asked for every older coin.
    pub budget_bytes: usize,
    /// Most blocks in flight, at least 1.
    pub window_blocks: usize,
}

/// A block in flight.
pub(crate) struct Flight {
    pub(crate) job: Job,
    pub(crate) prepared: OnceLock<Prepared>,
    pub(crate) answers: [RwLock<Answers>; LANES],
    /// Outputs whose names memory does not know, for BIP30; and whether one is known to be there.
    pub(crate) probes: Mutex<Probes>,
    pub(crate) judged: OnceLock<Judged>,
    /// Bytes that it holds, as accounted when it arrived.
    pub(crate) bytes: usize,
    pub(crate) times: BlockTimes,
}

#[derive(Default)]
pub(crate) struct Probes {
    pub(crate) exists: bool,
    pub(crate) unknown: Vec<OutPoint>,
}

/// The pipeline: coins in memory and what works on them.
pub struct Pipeline<'b> {
    pub(crate) backend: &'b dyn Backend,
    pub(crate) params: &'b Params,
    pub(crate) settings: Settings,
    pub(crate) lanes: Vec<Mutex<Lane>>,
    pub(crate) state: Mutex<State>,
    pub(crate) work: Condvar,
    pub(crate) room: Condvar,
    pub(crate) times: RwLock<MedianTimes>,
    /// Set where one thread plays all workers.
    pub(crate) chosen: Option<Mutex<Choose>>,
    stats: Arc<Stats>,
}

impl<'b> Pipeline<'b> {
    /// An idle pipeline without coins in memory, on top of what the backend's tables hold.
    pub fn new(backend: &'b dyn Backend, params: &'b Params, settings: Settings, secret: HashKey) -> Pipeline<'b> {
        Pipeline {
            backend,
            params,
            settings,
            lanes: (0..LANES).map(|lane| Mutex::new(Lane::new(lane, secret))).collect(),
            state: Mutex::new(State::new()),
            work: Condvar::new(),
            room: Condvar::new(),
            times: RwLock::new(MedianTimes::default()),
            chosen: None,
            stats: Arc::default(),
        }
    }

    /// Sets the median times of the chain that the next run connects, by height.
    pub fn set_times(&self, times: MedianTimes) {
        *self.times.write().expect("no worker panics with it") = times;
    }

    /// Connects blocks until the backend has no more, one is refused, or it is told to stop.
    ///
    /// # Errors
    ///
    /// A fault of the world: then the state in memory is worth nothing, and the program should end.
    ///
    /// # Panics
    ///
    /// When a worker panics: the program's own fault, passed on.
    pub fn run(&self) -> Result<Outcome, Fault> {
        self.lock().begin_run();
        if self.chosen.is_some() {
            self.play();
            return self.end_run();
        }
        std::thread::scope(|scope| {
            let _alarm = work::Alarm(self);
            let workers: Vec<_> = (0..self.settings.par.max(1))
                .map(|n| {
                    let name = format!("worker.{n:02}");
                    std::thread::Builder::new().name(name).spawn_scoped(scope, || self.worker()).expect("threads start")
                })
                .collect();
            self.feed();
            self.drain();
            self.lock().end_workers = true;
            self.work.notify_all();
            for worker in workers {
                if let Err(panic) = worker.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
        self.end_run()
    }

    /// Writes all that is in memory as of `tip` and waits until it is durable; merges what is waiting.
    pub fn flush(&self, tip: (NodeId, BlockHash)) -> Result<(), Fault> {
        self.flush_everything(tip)
    }

    /// Calls `with` with the lane of a txid, between runs: for disconnecting blocks.
    pub fn with_lane<R>(&self, txid: &Txid, with: impl FnOnce(&mut Lane) -> R) -> R {
        let lane = coins::ops::lane_of(txid.as_bytes()[0]);
        with(&mut self.lanes[lane].lock().expect("no worker panics with it"))
    }

    /// Whether the current generation has records.
    pub fn has_changes(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.lock().expect("no worker panics with it").is_current_empty())
    }

    /// The last block that was connected since this was asked.
    pub fn take_tip(&self) -> Option<(NodeId, BlockHash)> {
        self.lock().new_tip.take()
    }

    /// Where the time goes.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Coins in memory (tombstones included), and bytes allocated for them.
    pub fn coins_in_memory(&self) -> (usize, usize) {
        self.lanes.iter().fold((0, 0), |(count, bytes), lane| {
            let lane = lane.lock().expect("no worker panics with it");
            (count + lane.len(), bytes + lane.memory_bytes())
        })
    }

    pub(crate) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no worker panics while it holds the state")
    }
}

impl Flight {
    pub(crate) fn new(job: Job) -> Flight {
        // Raw bytes, their tables, operations and answers: measured at about three times the block.
        let bytes = job.bytes.len() * 3 + 4096;
        Flight {
            job,
            prepared: OnceLock::new(),
            answers: std::array::from_fn(|_| RwLock::default()),
            probes: Mutex::default(),
            judged: OnceLock::new(),
            bytes,
            times: BlockTimes::default(),
        }
    }
}
