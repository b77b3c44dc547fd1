//! The six tasks of a block: each takes the block from one phase to the next.

use super::flight::{Flight, Misses};
use super::scheduler::{Seq, Task};
use super::{Connected, Pipeline};
use crate::chain::block::{Bip30, Job, Judged, Prepared, Refusal};
use crate::fault::Fault;
use crate::pipeline::scratch;
use crate::pipeline::stages::{self, CoinAnswers, Judging, Scripts};
use crate::pipeline::stats::Stage;
use crate::threads::locks::{lock, read};
use coins::{SHARD_GROUPS, ShardGroup};
use consensus::BlockError;
use primitives::{CoinKey, MedianTime};
use script::{Ended, Stop};
use std::ops::Range;
use std::sync::Arc;

/// Minimum of inputs whose scripts one task checks, if there are workers for more tasks: a millisecond of signatures.
const SCRIPTS_PER_TASK_MIN: usize = 256;
/// Maximum of inputs of one task: a block of ordinary transactions has fewer. The more signatures are checked together,
/// the less time each takes.
const SCRIPTS_PER_TASK_MAX: usize = 8192;
/// A block with more bytes per input has few scripts, which are long or make many checks. Its tasks get fewer scripts,
/// by bytes, so that every worker has some. An ordinary block has 230.
const BYTES_PER_INPUT_ORDINARY: usize = 1024;
const SCRIPT_TASK_BYTES_MIN: usize = 32 << 10;
const SCRIPT_TASK_BYTES_MAX: usize = 128 << 10;
/// The same where a task with enough messages whose blocks are the same hashes them in less time.
const SCRIPT_TASK_BYTES_MAX_SHARED: usize = 512 << 10;
/// Maximum of blocks that one worker applies in a shard group before other work may go first.
const GROUP_BLOCKS_MAX: usize = 8;

impl Pipeline<'_> {
    pub(super) fn do_task(&self, seq: Seq, task: Task) -> Result<(), Fault> {
        let flight = self.scheduler().flight(seq);
        match task {
            Task::Decode => self.decode(seq, &flight),
            Task::Apply { group } => self.apply(seq, flight, usize::from(group)),
            Task::LookUp => return self.look_up(seq, &flight),
            Task::Judge => self.judge(seq, &flight),
            Task::Scripts { chunk } => self.run_scripts(seq, &flight, chunk as usize),
            Task::Commit => return self.commit(flight),
        }
        Ok(())
    }

    fn decode(&self, seq: Seq, flight: &Flight) {
        let (result, now) = self.stats.timed_for(Stage::Decode, flight.times(), || self.prepare(flight.job()));
        let result = result.map(|prepared| {
            self.stats.add_decoded();
            flight.set_prepared(prepared);
            flight.takes()
        });
        let mut scheduler = self.scheduler();
        let ready = scheduler.decoded(seq, result, now);
        let evicted = if scheduler.is_gated() { self.keep_budget(&mut scheduler) } else { Vec::new() };
        drop(scheduler);
        drop(evicted); // Not under the lock.
        self.wake(ready);
    }

    /// A block that was checked on arrival is not checked again.
    fn prepare(&self, job: &Job) -> Result<Prepared, Refusal> {
        let checked = match &job.checked {
            Some(checked) => Arc::clone(checked),
            None => Arc::new(scratch::with_check(self.kernels, |scratch| {
                stages::check(self.params, &job.context, &job.bytes, job.contextual, scratch)
            })?),
        };
        scratch::with_new_coins(|coins| stages::prepare(&job.context, &job.bytes, checked, coins))
    }

    /// Applies a block in a shard group, then the next blocks that are ready there.
    fn apply(&self, mut seq: Seq, mut flight: Arc<Flight>, group: usize) {
        let mut shards = lock(&self.groups[group]);
        for count in 1.. {
            let ((), now) =
                self.stats.timed_for(Stage::Apply, flight.times(), || self.apply_block(&mut shards, group, &flight));
            let mut scheduler = self.scheduler();
            let ready = scheduler.applied(seq, group, now, || {
                let part = shards.seal();
                self.stats.set_group(group, &shards);
                part
            });
            self.wake(ready);
            let next = if count < GROUP_BLOCKS_MAX { scheduler.next_of_group(group) } else { None };
            let Some(next) = next else {
                scheduler.release_group(group, now);
                return;
            };
            (seq, flight) = next;
        }
    }

    fn apply_block(&self, shards: &mut ShardGroup, group: usize, flight: &Flight) {
        let ops = flight.group_ops(group);
        if ops.ops.all().is_empty() {
            return; // For small blocks most groups have nothing to do.
        }
        let context = flight.context();
        if context.bip30 == Bip30::Enforced && !context.overwrites {
            let probe = shards.probe(&ops);
            let mut probes = flight.probes();
            probes.exists |= probe.exists;
            probes.unknown.extend(probe.unknown);
        }
        let answers = shards.apply(&ops);
        self.stats.add_answers(&answers);
        *flight.answers_mut(group) = answers;
        self.stats.set_group(group, shards);
    }

    /// Looks up the coins in the tables that memory does not have; the whole block in one sorted batch. If that would
    /// wait for the disk, the block is handed to a reader thread, and this task runs again later.
    fn look_up(&self, seq: Seq, flight: &Flight) -> Result<(), Fault> {
        let was_read = flight.misses().take();
        let is_first = was_read.is_none();
        let misses = was_read.unwrap_or_else(|| self.misses_of(flight));
        if is_first && !misses.keys.is_empty() && self.backend.wants_read_ahead() {
            *flight.misses() = Some(misses);
            self.scheduler().await_disk(seq);
            self.disk_wanted.notify_one();
            return Ok(());
        }
        let (result, now) = self.stats.timed_for(Stage::LookUp, flight.times(), || self.fill_answers(flight, &misses));
        result?;
        self.stats.add_look_up(flight.times().busy(Stage::LookUp));
        let bytes = flight.answer_bytes();
        let mut scheduler = self.scheduler();
        scheduler.grow(seq, bytes);
        scheduler.looked_up(seq, now);
        Ok(())
    }

    fn misses_of(&self, flight: &Flight) -> Misses {
        let (keys, places) = sorted_misses(flight);
        let mut names: Vec<CoinKey> = flight.probes().unknown.iter().map(CoinKey::new).collect();
        names.sort_unstable();
        self.stats.add_asked(keys.len());
        self.stats.add_probed(names.len());
        Misses { keys, places, names }
    }

    fn fill_answers(&self, flight: &Flight, misses: &Misses) -> Result<(), Fault> {
        if !misses.names.is_empty() {
            let exists = self.backend.has_any_coin(&misses.names)?;
            flight.probes().exists |= exists;
        }
        if misses.keys.is_empty() {
            return Ok(());
        }
        self.backend.look_up(&misses.keys, &mut misses.filler(flight))
    }

    /// Looks up a block's misses, waiting for the disk; the BIP30 look-ups are left to the worker that continues with
    /// the block.
    pub(super) fn look_up_from_disk(&self, seq: Seq, flight: &Flight) -> Result<usize, Fault> {
        // Counted like the workers' look-ups: nearly all misses are looked up here.
        let (result, now) = self.stats.timed_for(Stage::LookUp, flight.times(), || {
            let mut waiting = flight.misses();
            let Some(misses) = waiting.as_mut() else { return Ok(()) };
            let result = self.backend.look_up_from_disk(&misses.keys, &mut misses.filler(flight));
            (misses.keys, misses.places) = (Vec::new(), Vec::new());
            result
        });
        let mut scheduler = self.scheduler();
        match result {
            Ok(()) => Ok(scheduler.read(seq, now)),
            Err(fault) => {
                scheduler.read_failed();
                Err(fault)
            }
        }
    }

    fn judge(&self, seq: Seq, flight: &Flight) {
        let times = Arc::clone(&read(&self.times));
        let (result, now) = self.stats.timed_for(Stage::Judge, flight.times(), || self.judge_flight(flight, &times));
        let chunks = result.map(|judged| {
            let inputs = if flight.context().scripts().is_some() { judged.inputs() } else { 0 };
            let bytes = flight.job().bytes.len();
            let workers = self.scheduler().workers_per_block();
            let tasks = script_tasks(inputs, bytes, workers, self.kernels.shares_blocks());
            flight.set_judged(judged, tasks);
            tasks
        });
        let ready = self.scheduler().judged(seq, chunks, now);
        // This worker takes one itself.
        if ready > 1 {
            self.wake(ready);
        }
    }

    fn judge_flight(&self, flight: &Flight, times: &[MedianTime]) -> Result<Judged, BlockError> {
        let answers: [_; SHARD_GROUPS] = std::array::from_fn(|group| flight.answers(group));
        let exists = flight.probes().exists;
        let answers = CoinAnswers { spends: std::array::from_fn(|group| &*answers[group]), exists };
        let Job { context, undo, .. } = flight.job();
        let indexes = self.backend.wanted_records();
        let runs = context.scripts().is_some();
        let hints = if runs { self.backend.signature_hints() } else { None };
        let finds = runs && self.backend.keeps_hints();
        let judging = Judging { times, undo: *undo, indexes, spill: &self.spill, hints, finds };
        stages::judge(self.params, context, flight.prepared(), &flight.block(), &answers, judging)
    }

    fn run_scripts(&self, seq: Seq, flight: &Flight, chunk: usize) {
        let inputs = inputs_of_task(flight.judged().inputs(), flight.script_tasks(), chunk);
        let count = inputs.len();
        let stop = || self.scheduler().is_halted();
        let (result, now) = self.stats.timed_for(Stage::Scripts, flight.times(), || scripts_of(flight, inputs, &stop));
        let result = match result {
            Ok(Ended::Stopped) => return self.scheduler().scripts_stopped(seq, chunk, now),
            Ok(Ended::Whole) => {
                self.stats.add_scripts(count);
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.scheduler().scripts_done(seq, result, now);
    }

    /// Commits the lowest block and the valid ones directly above it. Only one worker at a time is here.
    fn commit(&self, mut flight: Arc<Flight>) -> Result<(), Fault> {
        loop {
            let connected = Connected {
                job: flight.job(),
                prepared: flight.prepared(),
                judged: flight.judged(),
                coins: self.stats.coins(),
                times: flight.times(),
                stats: &self.stats,
            };
            let (result, now) = self.stats.timed(Stage::Commit, || self.backend.connected(&connected));
            result?;
            self.stats.add_connected(flight.prepared().counts(&flight.job().bytes));
            let mut scheduler = self.scheduler();
            let context = flight.context();
            let committed = scheduler.committed((context.node, context.hash), now);
            self.wake(committed.ready);
            let evicted = self.keep_budget(&mut scheduler);
            self.work_done.notify_one();
            drop(scheduler);
            drop((evicted, committed.done)); // Not under the lock.
            match committed.next {
                Some(next) => flight = next,
                None => return Ok(()),
            }
        }
    }
}

/// The keys of the coins that memory does not have, in order, and shard group and ordinal of each.
///
/// A group is a range of keys; within it the first bytes of a txid, as a number, predict where its key belongs.
fn sorted_misses(flight: &Flight) -> (Vec<CoinKey>, Vec<(u32, u32)>) {
    let block = flight.block();
    let count = (0..SHARD_GROUPS).map(|group| flight.answers(group).misses().len()).sum();
    let mut keys = Vec::with_capacity(count);
    let mut places = Vec::with_capacity(count);
    let mut unsorted: Vec<(CoinKey, u32)> = Vec::new();
    let mut order: Vec<(u64, u32)> = Vec::new();
    for group in 0..SHARD_GROUPS {
        unsorted.clear();
        order.clear();
        for &(ordinal, input) in flight.answers(group).misses() {
            let prevout = block.input(input as usize).prevout();
            let first = prevout.txid.as_bytes().first_chunk().expect("8 of 32 bytes");
            order.push((u64::from_be_bytes(*first), unsorted.len() as u32));
            unsorted.push((CoinKey::new(&prevout), ordinal));
        }
        let key = |index: u32| &unsorted[index as usize].0;
        order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
        keys.extend(order.iter().map(|(_, index)| *key(*index)));
        places.extend(order.iter().map(|(_, index)| (group as u32, unsorted[*index as usize].1)));
    }
    (keys, places)
}

/// Number of tasks that check the scripts of a block: one per worker that it has, if they have enough to do and not too
/// much.
fn script_tasks(inputs: usize, block_bytes: usize, workers: usize, shares: bool) -> usize {
    let bytes_max = if shares { SCRIPT_TASK_BYTES_MAX_SHARED } else { SCRIPT_TASK_BYTES_MAX };
    let in_bytes = |bytes: usize| ((bytes as u64 * inputs as u64 / block_bytes.max(1) as u64) as usize).max(1);
    let limits = match block_bytes > inputs * BYTES_PER_INPUT_ORDINARY {
        true => in_bytes(SCRIPT_TASK_BYTES_MIN)..=in_bytes(bytes_max),
        false => SCRIPTS_PER_TASK_MIN..=SCRIPTS_PER_TASK_MAX,
    };
    inputs.div_ceil(inputs.div_ceil(workers.max(1)).clamp(*limits.start(), *limits.end()))
}

/// The inputs of one of `tasks` tasks; their sizes differ by at most one.
fn inputs_of_task(inputs: usize, tasks: usize, task: usize) -> Range<usize> {
    inputs * task / tasks..inputs * (task + 1) / tasks
}

/// Runs the scripts of some of a block's inputs.
fn scripts_of(flight: &Flight, inputs: Range<usize>, stop: Stop<'_>) -> Result<Ended, BlockError> {
    let judged = flight.judged();
    let flags = flight.context().scripts().expect("there are such tasks only where scripts run");
    let block = flight.block();
    let run = |scratch: &mut _| {
        let scripts = Scripts { flags, checked: &flight.prepared().checked, block: &block, judged };
        scripts.run(inputs, scratch, stop)
    };
    scratch::with_scripts(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_cover_all_inputs_once() {
        const ORDINARY: usize = 230;
        for (inputs, bytes, workers, shares, want) in [
            // Few long scripts: 80 that hash a megabyte each, 40 with 2,000 checks each, an input of 4 MB.
            (80, 960_000, 2, false, 8),
            (80, 960_000, 2, true, 2),
            (80, 960_000, 16, false, 16),
            (80, 960_000, 16, true, 16),
            (40, 3_925_000, 1, false, 40),
            (40, 3_925_000, 1, true, 8),
            (1, 3_925_000, 2, true, 1),
            (800, 2_970_000, 1, false, 23),
        ]
        .into_iter()
        .chain(
            [
                (0, 2, 0),
                (1, 2, 1),
                (256, 8, 1),
                (257, 8, 2),
                (8192, 1, 1),
                (8193, 1, 2),
                (7000, 2, 2),
                (17000, 2, 3),
                (7000, 16, 16),
                (7000, 64, 28),
                (7000, 0, 1),
            ]
            .map(|(inputs, workers, want)| (inputs, inputs * ORDINARY, workers, true, want)),
        ) {
            let tasks = script_tasks(inputs, bytes, workers, shares);
            assert_eq!(tasks, want, "{inputs} inputs, {bytes} bytes, {workers} workers, shares: {shares}");
            let mut next = 0;
            for task in 0..tasks {
                let part = inputs_of_task(inputs, tasks, task);
                assert!(part.start == next && !part.is_empty() && part.len() <= SCRIPTS_PER_TASK_MAX, "{part:?}");
                next = part.end;
            }
            assert_eq!(next, inputs);
        }
    }
}
