//! A block in flight: the results of its tasks, each set once.

use super::scheduler::Takes;
use crate::chain::block::{BlockContext, Job, Judged, Prepared};
use crate::pipeline::stats::BlockTimes;
use crate::threads::locks::{lock, read, write};
use coins::shard_group::{BlockOps, Probe};
use coins::{Answers, SHARD_GROUPS};
use primitives::{Block, CoinKey};
use std::sync::Mutex;
use std::sync::{MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Bytes of a block in flight that do not depend on its contents: mostly the 32 answers and their locks.
const FLIGHT_BYTES: usize = 4096;
/// Bytes per input in addition to its answer: the result of judging it.
const INPUT_BYTES: usize = size_of::<crate::chain::block::Spent>();
/// Bytes of a coin or tombstone in a table in addition to its script: record, compressed amount, its part of a bucket.
const RECORD_BYTES: usize = 34 + 3 + 8 + 11;

/// Coins of a block that memory does not have.
#[derive(Default)]
pub(super) struct Misses {
    /// Keys of the coins that it spends, in order.
    pub(super) keys: Vec<CoinKey>,
    /// Shard group and ordinal of each of these coins.
    pub(super) places: Vec<(u32, u32)>,
    /// Keys of the coins that it creates, to be looked up for BIP30, in order.
    pub(super) names: Vec<CoinKey>,
}

impl Misses {
    /// Stores a coin that the tables have, by the index of its key. Neighbours are of one shard group, whose answers
    /// stay locked.
    pub(super) fn filler<'a>(&'a self, flight: &'a Flight) -> impl FnMut(usize, &[u8]) + 'a {
        let mut locked: Option<(u32, RwLockWriteGuard<'a, Answers>)> = None;
        move |index, coin| {
            let (group, ordinal) = self.places[index];
            if locked.as_ref().is_none_or(|(of, _)| *of != group) {
                locked = None; // Only one group is locked at a time.
                locked = Some((group, flight.answers_mut(group as usize)));
            }
            let (_, answers) = locked.as_mut().expect("it was locked above");
            answers.fill(ordinal as usize, coin);
        }
    }
}

/// A block in flight. Tasks of several threads work on it; the scheduler decides when each runs.
pub(super) struct Flight {
    job: Job,
    prepared: OnceLock<Prepared>,
    answers: [RwLock<Answers>; SHARD_GROUPS],
    probes: Mutex<Probe>,
    misses: Mutex<Option<Misses>>,
    judged: OnceLock<Judged>,
    /// Number of tasks that run its scripts.
    script_tasks: OnceLock<usize>,
    times: BlockTimes,
}

impl Flight {
    pub(super) fn new(job: Job) -> Flight {
        Flight {
            job,
            prepared: OnceLock::new(),
            answers: std::array::from_fn(|_| RwLock::default()),
            probes: Mutex::default(),
            misses: Mutex::default(),
            judged: OnceLock::new(),
            script_tasks: OnceLock::new(),
            times: BlockTimes::default(),
        }
    }

    /// Estimate of its bytes before it is decoded: raw bytes, their tables, operations and answers were measured at
    /// about three times the block.
    pub(super) fn memory_bytes(&self) -> usize {
        self.job.bytes.len() * 3 + FLIGHT_BYTES
    }

    /// Its memory, known after decoding.
    pub(super) fn takes(&self) -> Takes {
        let prepared = self.prepared();
        let block = self.block();
        let checked = &prepared.checked;
        let tables = checked.tables.memory_bytes() + checked.txids.capacity() * 32 + checked.sigops.capacity() * 4;
        let inputs = block.input_count();
        let bytes = self.job.bytes.len() + tables + prepared.ops.memory_bytes() + inputs * INPUT_BYTES + FLIGHT_BYTES;
        let records = prepared.ops.made().script_bytes as usize + (block.output_count() + inputs) * RECORD_BYTES;
        Takes { bytes, coin_bytes: records + records / 8 }
    }

    /// Bytes of its answers, and of undo data and scripts, which will be copied from them. Bytes in temporary files
    /// count too, so that few blocks have such files at a time.
    pub(super) fn answer_bytes(&self) -> usize {
        let answers: usize = (0..SHARD_GROUPS).map(|group| self.answers(group).memory_bytes()).sum();
        let copies = 1 + usize::from(self.job.undo.is_some()) + usize::from(self.context().scripts().is_some());
        answers * copies
    }

    pub(super) fn job(&self) -> &Job {
        &self.job
    }

    pub(super) fn context(&self) -> &BlockContext {
        &self.job.context
    }

    /// Its cost so far.
    pub(super) fn times(&self) -> &BlockTimes {
        &self.times
    }

    /// The decode task is done.
    pub(super) fn set_prepared(&self, prepared: Prepared) {
        assert!(self.prepared.set(prepared).is_ok(), "a block is decoded once");
    }

    /// Its tables and operations; available to every task after decoding.
    pub(super) fn prepared(&self) -> &Prepared {
        self.prepared.get().expect("a block is decoded before all else")
    }

    pub(super) fn block(&self) -> Block<'_> {
        self.prepared().block(&self.job.bytes)
    }

    /// Its operations in a shard group, with the data of the block.
    pub(super) fn group_ops(&self, group: usize) -> BlockOps<'_> {
        BlockOps { ops: self.prepared().ops.group(group), overwrites: self.context().overwrites }
    }

    /// The coins that it spends in a shard group: from memory, and after the look-up also from the tables.
    pub(super) fn answers(&self, group: usize) -> RwLockReadGuard<'_, Answers> {
        read(&self.answers[group])
    }

    pub(super) fn answers_mut(&self, group: usize) -> RwLockWriteGuard<'_, Answers> {
        write(&self.answers[group])
    }

    /// Whether the coins that it creates exist already, for BIP30.
    pub(super) fn probes(&self) -> MutexGuard<'_, Probe> {
        lock(&self.probes)
    }

    /// Coins to look up in the tables, while the look-up waits for the disk.
    pub(super) fn misses(&self) -> MutexGuard<'_, Option<Misses>> {
        lock(&self.misses)
    }

    /// The judge task found no error; the scripts run in this number of tasks.
    pub(super) fn set_judged(&self, judged: Judged, script_tasks: usize) {
        assert!(self.judged.set(judged).is_ok(), "a block is judged once");
        assert!(self.script_tasks.set(script_tasks).is_ok(), "and its scripts are shared out then");
    }

    /// The coins that it spends; available to the tasks after judging.
    pub(super) fn judged(&self) -> &Judged {
        self.judged.get().expect("a block is judged before its scripts run, and before it is committed")
    }

    /// Number of tasks that run its scripts; available to each of them.
    pub(super) fn script_tasks(&self) -> usize {
        *self.script_tasks.get().expect("a block is judged before its scripts run")
    }
}
