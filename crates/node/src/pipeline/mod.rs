//! The pipeline: blocks of one chain go in, in order; committed blocks come out, in order; in between every core is
//! busy.
//!
//! ```text
//! read -> decode (any order) -> spend and create (a shard group at a time, in block order) -> look up (any order)
//!      -> judge (any order), scripts (any order) -> commit (strictly in order)
//! ```
//!
//! One pool of workers takes the ready task of the lowest block, the later stage first. No thread belongs to a stage.
//! The thread that calls [`Pipeline::run`] reads blocks and sleeps in the disk; it does none of the work.
//!
//! One lock guards all decisions (`scheduler`); each shard group and each part of a block in flight has its own lock. A
//! worker that holds a shard group may take the scheduler's lock, but not the other way round: when the budget is
//! applied with the scheduler locked, busy groups are skipped. Neither lock is held while a call of the [`Backend`]
//! reads or writes.
//!
//! Invariants:
//! - A shard group does the operations of block n + 1 after those of block n, and never waits for a table look-up.
//! - A block commits when it and all before it are judged valid. A committed block is never rewound.
//! - When a block fails, all effects of it and of blocks above it are rewound in the shard groups before `run` returns.
//! - A failure is reported for the lowest block that fails, with the failure that Core would meet first in it.
//!
//! Other files: `engine` chooses the chain, `stages` has the work on one block, `recheck` checks a refused block a
//! second time, `stats` has the times.
//!
//! Absent on purpose: the choice of the chain (the caller's), files (the [`Backend`]'s), rules (`stages`).

mod background;
mod budget;
mod deterministic;
pub mod engine;
mod flight;
mod flush;
pub mod histogram;
pub mod machine_memory;
pub(crate) mod recheck;
mod rewind;
mod scheduler;
pub(crate) mod scratch;
pub(crate) mod stages;
pub mod stats;
mod tasks;
mod workers;

use crate::chain::block::{Job, Judged, Prepared};
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::pipeline::stats::{BlockTimes, Stats};
use crate::threads::locks::{Signal, lock, write};
use coins::table::HashKey;
use coins::{Generation, RunSetup, SHARD_GROUPS, ShardGroup};
use consensus::{BlockError, Params, ScriptCheckReason};
use kernels::Kernels;
use primitives::{BlockHash, CoinKey, MedianTime, Txid};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::Duration;
use store::signature_hints::SignatureHints;
use sys::spill::SpillFiles;

use flight::Flight;

pub use deterministic::{Choose, Runnable};
pub use scheduler::Seq;

/// A connected block: its node and hash.
pub type Tip = (NodeId, BlockHash);

/// The scheduler of the blocks in flight.
type Scheduler = scheduler::Scheduler<Arc<Flight>>;

/// Median time past by height along the chain that is being connected, for relative time locks.
pub type MedianTimes = Arc<Vec<MedianTime>>;

/// A block that was judged valid, in the order of the chain.
pub struct Connected<'a> {
    /// The block.
    pub job: &'a Job,
    /// Its tables and ids.
    pub prepared: &'a Prepared,
    /// Results of judging it: undo data, counts.
    pub judged: &'a Judged,
    /// Coins in memory now, and bytes allocated for them.
    pub coins: (usize, usize),
    /// Its cost so far.
    pub times: &'a BlockTimes,
    /// The counters.
    pub stats: &'a Stats,
}

/// The storage that the pipeline needs.
pub trait Backend: Sync {
    /// The next block in the order of the chain; `None` when no further block is available and the run should end.
    ///
    /// Called from one thread, which may sleep here. While it waits for memory that blocks in flight hold, it polls
    /// `is_wanted`: after a failure they do not release it. The time that it waits, for memory or for peers, is added
    /// to `waited`.
    ///
    /// # Errors
    ///
    /// The block cannot be read.
    fn next(&self, is_wanted: &dyn Fn() -> bool, waited: &mut Duration) -> Result<Option<Job>, Fault>;

    /// Looks up coins in the tables, most of which exist. `keys` are sorted; `found` is called with the index and the
    /// stored bytes of each coin that exists.
    ///
    /// # Errors
    ///
    /// The tables cannot be read, or contain something else than coins.
    fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault>;

    /// Whether any of these coins is in the tables; most likely not. `keys` are sorted.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::look_up`].
    fn has_any_coin(&self, keys: &[CoinKey]) -> Result<bool, Fault> {
        let mut has_any = false;
        self.look_up(keys, &mut |_, _| has_any = true)?;
        Ok(has_any)
    }

    /// Kernels for hashes and prefetches.
    fn kernels(&self) -> Kernels {
        Kernels::AUTO
    }

    /// Hints about the signatures of blocks.
    fn signature_hints(&self) -> Option<&SignatureHints> {
        None
    }

    /// Whether to find hints for the blocks whose scripts run. The answer applies to the block that is judged.
    fn keeps_hints(&self) -> bool {
        false
    }

    /// Temporary files for the coins and scripts that a block spends, if they are too many for memory.
    fn spill_files(&self) -> SpillFiles {
        SpillFiles::default()
    }

    /// Data that the optional indexes need from each block.
    fn wanted_records(&self) -> Option<&indexes::Wanted> {
        None
    }

    /// Whether look-ups currently wait for the disk. If so, [`Backend::look_up_from_disk`] is called instead of
    /// [`Backend::look_up`], on a separate thread. Called for each block; the answer applies to that block.
    fn wants_read_ahead(&self) -> bool {
        false
    }

    /// Like [`Backend::look_up`], but blocks until the disk has answered.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::look_up`].
    fn look_up_from_disk(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        self.look_up(keys, found)
    }

    /// Receives a valid block, in order.
    ///
    /// # Errors
    ///
    /// Its undo data cannot be written.
    fn connected(&self, block: &Connected<'_>) -> Result<(), Fault>;

    /// Whether the current generation should be written although memory is not short, because of its age.
    fn flush_is_due(&self) -> bool;

    /// Makes everything durable for connected blocks except coins: block and undo data, then the index.
    ///
    /// # Errors
    ///
    /// They cannot be written.
    fn sync(&self, tip: Tip) -> Result<(), Fault>;

    /// Begins a commit of coins as of `tip`, of at most this number of records and bytes. `false` if compactions must
    /// be done first.
    ///
    /// # Errors
    ///
    /// The commit cannot be begun.
    fn begin_commit(&self, tip: Tip, records: u64, bytes: u64) -> Result<bool, Fault>;

    /// Writes the changes of some neighbouring shard groups, from `first_group` on, of the generation that is being
    /// committed; several parts may be written at the same time.
    ///
    /// # Errors
    ///
    /// They cannot be written. After a full disk ([`Fault::is_no_space`]) the commit is dropped and begun again.
    fn write_part(&self, first_group: usize, groups: &[Generation]) -> Result<(), Fault>;

    /// Makes the commit durable.
    ///
    /// # Errors
    ///
    /// Those of [`Backend::write_part`].
    fn finish_commit(&self, tip: Tip) -> Result<(), Fault>;

    /// Writing or finishing a commit failed with this fault, a full disk, and no worker is writing any more. Drops the
    /// commit, and waits for free space. Then it is begun again.
    ///
    /// # Errors
    ///
    /// Waiting does not help.
    fn drop_commit(&self, fault: Fault) -> Result<(), Fault> {
        Err(fault)
    }

    /// Does one step of background work (compacting tables); several workers may call it at the same time. `true` if
    /// there may be more work for the calling worker.
    ///
    /// # Errors
    ///
    /// The tables cannot be compacted.
    fn compact(&self) -> Result<bool, Fault>;

    /// Bytes of memory that are neither coins nor blocks in flight: headers, and data of tables (indexes, filters,
    /// tables being built). They are part of the budget.
    fn table_bytes(&self) -> usize;

    /// Whether to stop: the first Ctrl-C. Blocks in flight are dropped.
    fn stopping(&self) -> bool;
}

/// How a run ended.
#[derive(Debug)]
pub enum Outcome {
    /// The backend has no further block; all are connected.
    Done,
    /// The block is refused; it and all blocks above it were rewound.
    Refused {
        /// The block.
        node: NodeId,
        /// Why.
        error: BlockError,
        /// Why its scripts ran; `None` if they did not run.
        script_reason: Option<ScriptCheckReason>,
    },
    /// The bytes do not deserialize as a block. It and all blocks above it were rewound.
    Unparsable {
        /// The block.
        node: NodeId,
        /// What is wrong with its bytes.
        error: primitives::DecodeError,
    },
    /// The body belongs to another header. It and all blocks above it were rewound.
    WrongBody {
        /// The requested block.
        node: NodeId,
    },
    /// Interrupted by the user; blocks that were not connected were rewound.
    Stopped,
}

/// Settings of a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Workers, at least 1.
    pub par: usize,
    /// Memory budget for coins, blocks in flight and table indexes, in bytes. With 0 every generation is sealed at the
    /// first opportunity and evicted when it is committed, so that every older coin is read from the tables.
    pub budget_bytes: usize,
    /// Maximum blocks in flight, at least 1.
    pub window_blocks: usize,
}

/// The pipeline: coins in memory and the threads that work on them.
pub struct Pipeline<'b> {
    backend: &'b dyn Backend,
    params: &'b Params,
    settings: Settings,
    kernels: Kernels,
    spill: SpillFiles,
    /// The current budget, first that of `settings`.
    budget_bytes: Arc<AtomicUsize>,
    groups: Vec<Mutex<ShardGroup>>,
    scheduler: Mutex<Scheduler>,
    /// A task became ready, or the workers are to end.
    work_ready: Signal,
    /// A look-up waits for the disk, or the readers are to end.
    disk_wanted: Signal,
    /// A worker ended a task: there may be space for a block, or all work may be done.
    work_done: Signal,
    times: RwLock<MedianTimes>,
    /// The order of tasks, if one thread plays all workers.
    order: Option<Mutex<Choose>>,
    stats: Arc<Stats>,
}

impl<'b> Pipeline<'b> {
    /// An idle pipeline without coins in memory, on top of the coins in the backend's tables.
    pub fn new(backend: &'b dyn Backend, params: &'b Params, settings: Settings, secret: HashKey) -> Pipeline<'b> {
        let kernels = backend.kernels();
        let spill = backend.spill_files();
        let run = RunSetup { secret, kernels, spill: spill.clone() };
        Pipeline {
            backend,
            params,
            settings,
            kernels,
            spill,
            budget_bytes: Arc::new(AtomicUsize::new(settings.budget_bytes)),
            groups: (0..SHARD_GROUPS).map(|group| Mutex::new(ShardGroup::new(group, run.clone()))).collect(),
            scheduler: Mutex::new(Scheduler::new(settings.par)),
            work_ready: Signal::default(),
            disk_wanted: Signal::default(),
            work_done: Signal::default(),
            times: RwLock::new(MedianTimes::default()),
            order: None,
            stats: Arc::default(),
        }
    }

    /// Sets the median times of the chain that the next run connects, by height.
    pub fn set_times(&self, times: MedianTimes) {
        *write(&self.times) = times;
    }

    /// Connects blocks until the backend has no more, one is refused, or a stop is requested.
    ///
    /// # Errors
    ///
    /// A fault of the environment: then the state in memory is invalid, and the program should end.
    ///
    /// # Panics
    ///
    /// If a worker panics: a bug, passed on.
    pub fn run(&self) -> Result<Outcome, Fault> {
        self.scheduler().begin_run();
        match self.order {
            Some(_) => self.run_single_threaded(),
            None => self.run_threads(),
        }
        self.end_run()
    }

    /// Writes everything in memory as of `tip` and waits until it is durable; does all due compactions.
    ///
    /// # Errors
    ///
    /// A fault of the disk: then the state in memory is invalid, and the program should end.
    ///
    /// # Panics
    ///
    /// While blocks are in flight.
    pub fn flush(&self, tip: Tip) -> Result<(), Fault> {
        self.flush_everything(tip)
    }

    /// Calls `with` with the shard group of a txid, between runs: for disconnecting blocks.
    pub fn with_group<R>(&self, txid: &Txid, with: impl FnOnce(&mut ShardGroup) -> R) -> R {
        let group = coins::ops::group_of(txid.as_bytes()[0]);
        with(&mut lock(&self.groups[group]))
    }

    /// Whether the current generation has records.
    pub fn has_changes(&self) -> bool {
        self.groups.iter().any(|shards| !lock(shards).is_current_empty())
    }

    /// The last block that was connected since the last call.
    pub fn take_tip(&self) -> Option<Tip> {
        self.scheduler().take_tip()
    }

    /// The time counters.
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.stats)
    }

    /// Coins in memory (tombstones included), and bytes allocated for them.
    pub fn coins_in_memory(&self) -> (usize, usize) {
        self.groups.iter().fold((0, 0), |(count, bytes), shards| {
            let shards = lock(shards);
            (count + shards.len(), bytes + shards.memory_bytes())
        })
    }

    fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        lock(&self.scheduler)
    }
}
