//! Time counters: always on, and nearly free (three clock reads per task: when a worker takes it, when it begins, and
//! when it ends; none per item).

use crate::chain::block::BlockCounts;
use crate::pipeline::histogram::{AtomicHistogram, FLUSH_S, Histogram, LOOK_UP_S};
use crate::threads::locks::lock;
use coins::{Answers, SHARD_GROUPS, ShardGroup};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Activities of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Stage {
    /// Blocks read from files, or taken from peers.
    Read,
    /// Parsing, hashing, rules that need no coins.
    Decode,
    /// Coins spent and created in memory.
    Apply,
    /// Coins looked up in tables.
    LookUp,
    /// Rules that need the coins.
    Judge,
    /// Scripts and signatures.
    Scripts,
    /// Undo data, index, tip: in order.
    Commit,
    /// Waiting for the disk before a commit of coins.
    Sync,
    /// Coins written into tables.
    Write,
    /// Tables compacted.
    Compact,
    /// A worker without work.
    Wait,
}

/// All stages, with the names that users see.
pub const STAGES: [(Stage, &str); 11] = [
    (Stage::Read, "read"),
    (Stage::Decode, "decode"),
    (Stage::Apply, "spend_and_create"),
    (Stage::LookUp, "look_up"),
    (Stage::Judge, "judge"),
    (Stage::Scripts, "scripts"),
    (Stage::Commit, "commit"),
    (Stage::Sync, "sync"),
    (Stage::Write, "write"),
    (Stage::Compact, "compact"),
    (Stage::Wait, "wait"),
];

/// Number of stages that work for one block: those before [`Stage::Commit`].
pub const BLOCK_STAGES: usize = Stage::Commit as usize;

/// Cost of one block in flight, by stage, over all threads.
#[derive(Default)]
pub struct BlockTimes([AtomicU64; BLOCK_STAGES]);

impl BlockTimes {
    /// Busy time of a stage for this block; zero for stages that serve many blocks.
    pub fn busy(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.0.get(stage as usize).map_or(0, |ns| ns.load(Relaxed)))
    }

    pub(crate) fn add(&self, stage: Stage, busy: Duration) {
        self.0[stage as usize].fetch_add(busy.as_nanos() as u64, Relaxed);
    }
}

/// The counters of one engine.
#[derive(Default)]
pub struct Stats {
    busy_ns: [AtomicU64; STAGES.len()],
    tasks: [AtomicU64; STAGES.len()],
    waited_ns: [AtomicU64; STAGES.len()],
    bytes: AtomicU64,
    blocks: AtomicU64,
    transactions: AtomicU64,
    inputs: AtomicU64,
    outputs: AtomicU64,
    scripts: AtomicU64,
    asked: AtomicU64,
    probed: AtomicU64,
    spends: AtomicU64,
    flushes: AtomicU64,
    flush_began: Mutex<Option<Instant>>,
    flush_times: AtomicHistogram,
    look_up_times: AtomicHistogram,
    reorgs: AtomicU64,
    disconnected: AtomicU64,
    group_current: [AtomicUsize; SHARD_GROUPS],
    group_all: [AtomicUsize; SHARD_GROUPS],
    group_coins: [AtomicUsize; SHARD_GROUPS],
    coins_max: AtomicU64,
    coin_bytes_max: AtomicU64,
}

/// A copy of the counters at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Busy time of each stage, over all threads, in the order of [`STAGES`].
    pub busy: [Duration; STAGES.len()],
    /// Time that tasks were ready before a worker took them, summed: divided by the elapsed time, the mean depth of the
    /// queue. For the reading stage: time waiting for peers, or for buffers that blocks in flight use.
    pub waited: [Duration; STAGES.len()],
    /// Tasks of each stage.
    pub tasks: [u64; STAGES.len()],
    /// Blocks decoded, connected or not.
    pub blocks: u64,
    /// Bytes of connected blocks.
    pub bytes: u64,
    /// Their transactions.
    pub transactions: u64,
    /// Their inputs, without coinbases'.
    pub inputs: u64,
    /// Their outputs.
    pub outputs: u64,
    /// Inputs whose scripts ran.
    pub scripts: u64,
    /// Spends that were looked up in the tables.
    pub asked: u64,
    /// New coins that were looked up in the tables, for BIP30.
    pub probed: u64,
    /// Spends.
    pub spends: u64,
    /// Generations made durable.
    pub flushes: u64,
    /// How long each flush took, from the first sync to the last.
    pub flush_times: Histogram,
    /// How long looking up a block's coins in the tables took.
    pub look_up_times: Histogram,
    /// Reorganisations to a better chain.
    pub reorgs: u64,
    /// Disconnected blocks.
    pub disconnected: u64,
    /// Records in memory.
    pub coins: u64,
    /// Bytes of coins in memory.
    pub coin_bytes: u64,
    /// Maximum of records in memory.
    pub coins_max: u64,
    /// Maximum of bytes of coins in memory.
    pub coin_bytes_max: u64,
}

impl Snapshot {
    /// The sum of this run's counters and those of an earlier one; the memory figures are this run's.
    #[must_use]
    pub fn after(mut self, earlier: &Snapshot) -> Snapshot {
        let add = |sum: &mut [Duration], more: &[Duration]| sum.iter_mut().zip(more).for_each(|(a, b)| *a += *b);
        add(&mut self.busy, &earlier.busy);
        add(&mut self.waited, &earlier.waited);
        self.tasks.iter_mut().zip(earlier.tasks).for_each(|(a, b)| *a += b);
        for (sum, more) in [
            (&mut self.bytes, earlier.bytes),
            (&mut self.blocks, earlier.blocks),
            (&mut self.transactions, earlier.transactions),
            (&mut self.inputs, earlier.inputs),
            (&mut self.outputs, earlier.outputs),
            (&mut self.scripts, earlier.scripts),
            (&mut self.asked, earlier.asked),
            (&mut self.probed, earlier.probed),
            (&mut self.spends, earlier.spends),
            (&mut self.flushes, earlier.flushes),
            (&mut self.reorgs, earlier.reorgs),
            (&mut self.disconnected, earlier.disconnected),
        ] {
            *sum += more;
        }
        self.flush_times.add(&earlier.flush_times);
        self.look_up_times.add(&earlier.look_up_times);
        self.coins_max = self.coins_max.max(earlier.coins_max);
        self.coin_bytes_max = self.coin_bytes_max.max(earlier.coin_bytes_max);
        self
    }

    /// Resets the counters of connected blocks, after the hints with which blocks were connected proved wrong.
    pub(crate) fn forget_connected(&mut self) {
        (self.bytes, self.transactions, self.inputs, self.outputs) = (0, 0, 0, 0);
    }
}

impl Stats {
    /// Runs `work` and counts its time for `stage`; also returns the time at which it ended.
    #[inline]
    pub(crate) fn timed<R>(&self, stage: Stage, work: impl FnOnce() -> R) -> (R, Instant) {
        let start = Instant::now();
        let result = work();
        let end = Instant::now();
        self.add_busy(stage, end - start);
        (result, end)
    }

    /// Like [`Stats::timed`], and also counts the time for one block.
    #[inline]
    pub(crate) fn timed_for<R>(&self, stage: Stage, block: &BlockTimes, work: impl FnOnce() -> R) -> (R, Instant) {
        let start = Instant::now();
        let result = work();
        let end = Instant::now();
        self.add_busy(stage, end - start);
        block.add(stage, end - start);
        (result, end)
    }

    /// Counts a task of a stage.
    #[inline]
    pub(crate) fn add_busy(&self, stage: Stage, busy: Duration) {
        self.busy_ns[stage as usize].fetch_add(busy.as_nanos() as u64, Relaxed);
        self.tasks[stage as usize].fetch_add(1, Relaxed);
    }

    /// Adds one read; returns its busy time (`passed` minus `waited`).
    pub(crate) fn add_read(&self, passed: Duration, waited: Duration) -> Duration {
        let busy = passed.saturating_sub(waited);
        for (sum, time) in [(&self.busy_ns, busy), (&self.waited_ns, waited)] {
            sum[Stage::Read as usize].fetch_add(time.as_nanos() as u64, Relaxed);
        }
        self.tasks[Stage::Read as usize].fetch_add(1, Relaxed);
        busy
    }

    /// Counts how long a task was ready before a worker took it.
    pub(crate) fn add_waited(&self, stage: Stage, waited: Duration) {
        self.waited_ns[stage as usize].fetch_add(waited.as_nanos() as u64, Relaxed);
    }

    /// A block was decoded.
    pub(crate) fn add_decoded(&self) {
        self.blocks.fetch_add(1, Relaxed);
    }

    /// A block was connected.
    pub(crate) fn add_connected(&self, block: BlockCounts) {
        self.bytes.fetch_add(block.bytes, Relaxed);
        self.transactions.fetch_add(block.transactions, Relaxed);
        self.inputs.fetch_add(block.inputs, Relaxed);
        self.outputs.fetch_add(block.outputs, Relaxed);
    }

    pub(crate) fn add_answers(&self, answers: &Answers) {
        self.spends.fetch_add(answers.len() as u64, Relaxed);
    }

    pub(crate) fn add_asked(&self, asked: usize) {
        self.asked.fetch_add(asked as u64, Relaxed);
    }

    pub(crate) fn add_probed(&self, names: usize) {
        self.probed.fetch_add(names as u64, Relaxed);
    }

    pub(crate) fn add_scripts(&self, inputs: usize) {
        self.scripts.fetch_add(inputs as u64, Relaxed);
    }

    /// Making a generation durable begins.
    pub(crate) fn begin_flush(&self) {
        *lock(&self.flush_began) = Some(Instant::now());
    }

    /// A generation is durable.
    pub(crate) fn add_flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
        if let Some(began) = lock(&self.flush_began).take() {
            self.flush_times.add(&FLUSH_S, began.elapsed());
        }
    }

    /// A block's coins were looked up.
    pub(crate) fn add_look_up(&self, time: Duration) {
        self.look_up_times.add(&LOOK_UP_S, time);
    }

    /// Blocks are disconnected for a better chain.
    pub(crate) fn add_reorg(&self) {
        self.reorgs.fetch_add(1, Relaxed);
    }

    /// A block was disconnected.
    pub(crate) fn add_disconnected(&self) {
        self.disconnected.fetch_add(1, Relaxed);
    }

    pub(crate) fn set_group(&self, group: usize, shards: &ShardGroup) {
        self.group_current[group].store(shards.current_bytes(), Relaxed);
        self.group_all[group].store(shards.memory_bytes(), Relaxed);
        self.group_coins[group].store(shards.len(), Relaxed);
    }

    /// Bytes of the current generation, and of all, as last reported by the shard groups.
    pub(crate) fn coin_bytes(&self) -> (usize, usize) {
        let sum = |groups: &[AtomicUsize; SHARD_GROUPS]| groups.iter().map(|bytes| bytes.load(Relaxed)).sum();
        (sum(&self.group_current), sum(&self.group_all))
    }

    /// Records in memory and bytes allocated for them, as last reported by the shard groups; updates the maximum.
    /// Called for each block.
    pub(crate) fn coins(&self) -> (usize, usize) {
        let now: (usize, usize) = (self.group_coins.iter().map(|count| count.load(Relaxed)).sum(), self.coin_bytes().1);
        self.coins_max.fetch_max(now.0 as u64, Relaxed);
        self.coin_bytes_max.fetch_max(now.1 as u64, Relaxed);
        now
    }

    /// The counters now.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        Snapshot {
            busy: std::array::from_fn(|i| Duration::from_nanos(get(&self.busy_ns[i]))),
            waited: std::array::from_fn(|i| Duration::from_nanos(get(&self.waited_ns[i]))),
            tasks: std::array::from_fn(|i| get(&self.tasks[i])),
            bytes: get(&self.bytes),
            blocks: get(&self.blocks),
            transactions: get(&self.transactions),
            inputs: get(&self.inputs),
            outputs: get(&self.outputs),
            scripts: get(&self.scripts),
            asked: get(&self.asked),
            probed: get(&self.probed),
            spends: get(&self.spends),
            flushes: get(&self.flushes),
            flush_times: self.flush_times.copy(),
            look_up_times: self.look_up_times.copy(),
            reorgs: get(&self.reorgs),
            disconnected: get(&self.disconnected),
            coins: self.group_coins.iter().map(|count| count.load(Relaxed) as u64).sum(),
            coin_bytes: self.coin_bytes().1 as u64,
            coins_max: get(&self.coins_max),
            coin_bytes_max: get(&self.coin_bytes_max),
        }
    }
}
