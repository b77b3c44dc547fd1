//! Workers and their tasks.

use super::state::{Progress, State, Task};
use super::{Connected, Flight, Outcome, Pipeline};
use crate::block::{Bip30, Job, Judged, Prepared, Refusal};
use crate::fault::Fault;
use crate::scratch;
use crate::stages::{self, CoinAnswers};
use crate::stats::Stage;
use coins::LANES;
use coins::lane::BlockOps;
use consensus::BlockError;
use primitives::{CoinKey, MedianTime};
use std::cmp::Reverse;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Inputs whose scripts one task checks: some milliseconds of signatures.
pub(crate) const SCRIPTS_PER_TASK: usize = 256;
/// Blocks that one worker does in a lane before it lets others choose.
const LANE_BLOCKS_MAX: usize = 8;

/// Ends the others when a thread of the pipeline panics, or they would wait for ever.
pub(crate) struct Alarm<'p, 'b>(pub(crate) &'p Pipeline<'b>);

impl Drop for Alarm<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // It may have held the state, which nobody looks at again but for its end.
            let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.running = state.running.saturating_sub(1);
            state.end_workers = true;
            self.0.fail(&mut state, Fault::own("a thread of the pipeline panicked"));
        }
    }
}

impl Pipeline<'_> {
    /// Reads blocks while there is room; returns when there are no more, or nothing more is wanted.
    pub(crate) fn feed(&self) {
        loop {
            let mut state = self.lock();
            while !state.halted && state.fault.is_none() && !self.has_room(&state) {
                state = self.room.wait_timeout(state, Duration::from_millis(100)).expect("see lock").0;
                state = self.keep_budget(state);
            }
            if self.backend.stopping() {
                (state.halted, state.stopped) = (true, true);
            }
            if state.halted || state.fed_all || state.fault.is_some() {
                return;
            }
            drop(state);
            self.feed_one();
        }
    }

    /// One block more.
    pub(crate) fn feed_one(&self) {
        let (begun, mut waited) = (Instant::now(), Duration::ZERO);
        let next = self.backend.next(&|| !self.is_halted(), &mut waited);
        let busy = self.stats.add_read(begun.elapsed(), waited);
        let mut state = self.lock();
        match next {
            Ok(Some(job)) => {
                self.stats.add_bytes(job.bytes.len());
                let flight = Arc::new(Flight::new(job));
                flight.times.add(Stage::Read, busy);
                state.admit(flight);
                self.work.notify_one();
            }
            Ok(None) => state.fed_all = true,
            Err(fault) => self.fail(&mut state, fault),
        }
    }

    fn is_halted(&self) -> bool {
        let state = self.lock();
        state.halted || state.fault.is_some()
    }

    /// Waits until what was fed is committed, or the run is halted and nobody works any more.
    pub(crate) fn drain(&self) {
        let mut state = self.lock();
        loop {
            let idle = state.running == 0;
            if idle && (state.halted || state.fault.is_some() || state.flights.is_empty()) {
                return;
            }
            if self.backend.stopping() && !state.halted {
                (state.halted, state.stopped) = (true, true);
            }
            state = self.room.wait_timeout(state, Duration::from_millis(50)).expect("see lock").0;
            state = self.keep_budget(state);
        }
    }

    /// After the workers have gone: what the run was, and the lanes as they were after the last commit.
    pub(crate) fn end_run(&self) -> Result<Outcome, Fault> {
        let mut state = self.lock();
        if let Some(fault) = state.fault.take() {
            return Err(fault);
        }
        if state.flights.is_empty() && !state.stopped {
            return Ok(Outcome::Done);
        }
        let outcome = match state.flights.front() {
            Some(Progress { refusal: Some(refusal), flight, .. }) if !state.stopped => {
                let node = flight.job.context.node;
                match refusal.clone() {
                    Refusal::Rule(error) => Outcome::Refused { node, error },
                    Refusal::Unparsable(error) => Outcome::Unparsable { node, error },
                    Refusal::WrongBody => Outcome::WrongBody { node },
                }
            }
            _ => Outcome::Stopped,
        };
        self.rewind(&mut state);
        Ok(outcome)
    }

    pub(crate) fn fail(&self, state: &mut State, fault: Fault) {
        state.fault.get_or_insert(fault);
        state.halted = true;
        self.work.notify_all();
        self.room.notify_all();
    }

    pub(crate) fn worker(&self) {
        let _alarm = Alarm(self);
        let mut state = self.lock();
        loop {
            if state.end_workers {
                return;
            }
            if let Some(work) = self.next_background(&mut state) {
                state = self.perform(state, true, || self.background(work));
            } else if let Some(Reverse((seq, task, since))) = if state.halted { None } else { state.ready.pop() } {
                self.stats.add_waited(task.stage(), since);
                state = self.perform(state, false, || self.foreground(seq, task));
            } else {
                state = self.stats.timed(Stage::Wait, || self.work.wait(state)).expect("see lock");
            }
        }
    }

    /// Does one piece of work without the lock.
    pub(crate) fn perform<'s>(
        &'s self,
        mut state: MutexGuard<'s, State>,
        background: bool,
        work: impl FnOnce() -> Result<(), Fault>,
    ) -> MutexGuard<'s, State> {
        state.running += 1;
        state.background_running += usize::from(background);
        if !state.ready.is_empty() || !state.background.is_empty() {
            self.work.notify_one();
        }
        drop(state);
        let result = work();
        let mut state = self.lock();
        state.running -= 1;
        state.background_running -= usize::from(background);
        if let Err(fault) = result {
            self.fail(&mut state, fault);
        }
        state.look_at_head();
        if !state.ready.is_empty() || !state.background.is_empty() {
            self.work.notify_one();
        }
        self.room.notify_one();
        state
    }

    pub(crate) fn foreground(&self, seq: u64, task: Task) -> Result<(), Fault> {
        match task {
            Task::Decode => self.decode(seq),
            Task::Apply { lane } => self.apply(seq, usize::from(lane)),
            Task::LookUp => return self.look_up(seq),
            Task::Judge => self.judge(seq),
            Task::Scripts { chunk } => self.scripts(seq, chunk as usize),
            Task::Commit => return self.commit(seq),
        }
        Ok(())
    }

    fn flight(&self, seq: u64) -> Arc<Flight> {
        Arc::clone(&self.lock().progress(seq).flight)
    }

    fn decode(&self, seq: u64) {
        let flight = self.flight(seq);
        let result = self.stats.timed_for(Stage::Decode, &flight.times, || self.prepare(&flight.job));
        let mut state = self.lock();
        match result {
            Ok(prepared) => {
                self.stats.add_block(prepared.counts(&flight.job.bytes));
                let _ = flight.prepared.set(prepared);
                state.progress(seq).prepared = true;
                (0..LANES).for_each(|lane| state.wake_lane(lane));
                self.work.notify_all();
            }
            Err(refusal) => state.progress(seq).refusal = Some(refusal),
        }
    }

    /// A block that was checked when it arrived is not checked again.
    fn prepare(&self, job: &Job) -> Result<Prepared, Refusal> {
        let checked = match &job.checked {
            Some(checked) => Arc::clone(checked),
            None => Arc::new(scratch::with_check(|scratch| {
                stages::check(self.params, &job.context, &job.bytes, job.contextual, scratch)
            })?),
        };
        stages::prepare(&job.context, &job.bytes, checked)
    }

    /// Does a lane's part of a block, and of the next ones that are ready.
    fn apply(&self, first: u64, lane_index: usize) {
        let mut lane = self.lanes[lane_index].lock().expect("no worker panics with it");
        let mut seq = first;
        let mut flight = self.flight(seq);
        for _ in 0..LANE_BLOCKS_MAX {
            self.stats.timed_for(Stage::Apply, &flight.times, || self.apply_block(&mut lane, lane_index, &flight));
            let mut state = self.lock();
            let progress = state.progress(seq);
            progress.lanes_left -= 1;
            if progress.lanes_left == 0 {
                state.push(seq, Task::LookUp);
                self.work.notify_one();
            }
            if state.seal.as_ref().is_some_and(|seal| seal.at == seq) {
                self.seal_lane(&mut state, &mut lane, lane_index);
            }
            seq += 1;
            state.lane_next[lane_index] = seq;
            if state.halted || !state.has(seq) {
                break;
            }
            let progress = state.progress(seq);
            if !progress.prepared || progress.refusal.is_some() {
                break;
            }
            flight = Arc::clone(&progress.flight);
        }
        let mut state = self.lock();
        state.lane_busy[lane_index] = false;
        if !state.halted {
            state.wake_lane(lane_index);
        }
    }

    fn apply_block(&self, lane: &mut coins::Lane, lane_index: usize, flight: &Flight) {
        let ops = block_ops(flight, lane_index);
        if flight.job.context.bip30 == Bip30::Enforced && !flight.job.context.overwrites {
            let probe = lane.probe(&ops);
            let mut probes = flight.probes.lock().expect("no worker panics with it");
            probes.exists |= probe.exists;
            probes.unknown.extend(probe.unknown);
        }
        let answers = lane.apply(&ops);
        self.stats.add_answers(&answers);
        *flight.answers[lane_index].write().expect("no worker panics with it") = answers;
        self.stats.set_lane(lane_index, lane);
    }

    /// Asks the tables for what memory did not know; the whole block in one sorted batch.
    fn look_up(&self, seq: u64) -> Result<(), Fault> {
        let flight = self.flight(seq);
        self.stats.timed_for(Stage::LookUp, &flight.times, || self.fill_answers(&flight))?;
        self.lock().push(seq, Task::Judge);
        Ok(())
    }

    fn fill_answers(&self, flight: &Flight) -> Result<(), Fault> {
        let prepared = flight.prepared.get().expect("lanes were done");
        let block = prepared.block(&flight.job.bytes);
        let mut asked: Vec<(CoinKey, (u32, u32))> = Vec::new();
        for (lane, answers) in flight.answers.iter().enumerate() {
            let answers = answers.read().expect("no worker panics with it");
            asked.extend(answers.asked().iter().map(|&(ordinal, input)| {
                (CoinKey::new(&block.input(input as usize).prevout()), (lane as u32, ordinal))
            }));
        }
        let mut probes = flight.probes.lock().expect("no worker panics with it");
        if !probes.unknown.is_empty() {
            let mut keys: Vec<CoinKey> = probes.unknown.iter().map(CoinKey::new).collect();
            keys.sort_unstable();
            let mut exists = false;
            self.stats.add_probed(keys.len());
            self.backend.look_up(&keys, &mut |_, _| exists = true)?;
            probes.exists |= exists;
        }
        if asked.is_empty() {
            return Ok(());
        }
        asked.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (keys, places): (Vec<CoinKey>, Vec<_>) = asked.into_iter().unzip();
        self.stats.add_asked(keys.len());
        self.backend.look_up(&keys, &mut |index, coin| {
            let (lane, ordinal) = places[index];
            let mut answers = flight.answers[lane as usize].write().expect("no worker panics with it");
            answers.fill(ordinal as usize, coin);
        })
    }

    fn judge(&self, seq: u64) {
        let flight = self.flight(seq);
        let times = Arc::clone(&self.times.read().expect("no worker panics with it"));
        let result = self.stats.timed_for(Stage::Judge, &flight.times, || self.judge_flight(&flight, &times));
        let mut state = self.lock();
        let progress = state.progress(seq);
        match result {
            Ok(judged) => {
                let chunks =
                    if flight.job.context.scripts().is_some() { judged.inputs().div_ceil(SCRIPTS_PER_TASK) } else { 0 };
                let _ = flight.judged.set(judged);
                progress.judged = true;
                progress.chunks_left = chunks;
                for chunk in 0..chunks {
                    state.push(seq, Task::Scripts { chunk: chunk as u32 });
                }
                if chunks > 1 {
                    self.work.notify_all();
                }
            }
            Err(error) => progress.refusal = Some(Refusal::Rule(error)),
        }
    }

    fn judge_flight(&self, flight: &Flight, times: &[MedianTime]) -> Result<Judged, BlockError> {
        let prepared = flight.prepared.get().expect("a block is prepared before it is judged");
        let answers: [_; LANES] =
            std::array::from_fn(|lane| flight.answers[lane].read().expect("no worker panics with it"));
        let exists = flight.probes.lock().expect("no worker panics with it").exists;
        let answers = CoinAnswers { spends: std::array::from_fn(|lane| &*answers[lane]), exists };
        let Job { context, bytes, undo, .. } = &flight.job;
        stages::judge(self.params, context, (prepared, &prepared.block(bytes)), &answers, times, *undo)
    }

    fn scripts(&self, seq: u64, chunk: usize) {
        let flight = self.flight(seq);
        let result = self.stats.timed_for(Stage::Scripts, &flight.times, || scripts_of(&flight, chunk));
        let mut state = self.lock();
        let progress = state.progress(seq);
        progress.chunks_left -= 1;
        let error = match result {
            Ok(inputs) => return self.stats.add_scripts(inputs),
            Err(error) => error,
        };
        {
            let first = match progress.refusal.take() {
                Some(Refusal::Rule(other)) => other.first(error),
                _ => error,
            };
            progress.refusal = Some(Refusal::Rule(first));
        }
    }

    /// Commits the head and what is good behind it. One worker at a time is here.
    fn commit(&self, first: u64) -> Result<(), Fault> {
        let mut seq = first;
        loop {
            let flight = self.flight(seq);
            let prepared = flight.prepared.get().expect("a judged block was prepared");
            let judged = flight.judged.get().expect("only a judged block is committed");
            let connected = Connected {
                job: &flight.job,
                prepared,
                judged,
                coins: self.stats.coins(),
                times: &flight.times,
                stats: &self.stats,
            };
            self.stats.timed(Stage::Commit, || self.backend.connected(&connected))?;
            let mut state = self.lock();
            let done = state.flights.pop_front().expect("the head is there");
            state.first += 1;
            state.flight_bytes -= done.flight.bytes;
            state.tip = Some((flight.job.context.node, flight.job.context.hash));
            state.new_tip = state.tip;
            self.after_commit(&mut state, seq);
            let gone = self.look_at_memory(&mut state);
            self.room.notify_one();
            seq += 1;
            let more = state.flights.front().is_some_and(Progress::is_good) && !state.halted;
            state.committing = more;
            drop(state);
            drop((gone, done)); // Not under the lock.
            if !more {
                return Ok(());
            }
        }
    }
}

/// Runs the scripts of a chunk of a block's inputs; says of how many.
fn scripts_of(flight: &Flight, chunk: usize) -> Result<usize, BlockError> {
    let prepared = flight.prepared.get().expect("prepared before judged");
    let judged = flight.judged.get().expect("judged before scripts");
    let flags = flight.job.context.scripts().expect("only where scripts are wanted");
    let first = chunk * SCRIPTS_PER_TASK;
    let inputs = first..judged.inputs().min(first + SCRIPTS_PER_TASK);
    let (count, block) = (inputs.len(), prepared.block(&flight.job.bytes));
    scratch::with_scripts(|scratch| stages::scripts(flags, (prepared, &block), judged, inputs, scratch)).map(|()| count)
}

/// What a lane is told about a block in flight.
pub(crate) fn block_ops(flight: &Flight, lane: usize) -> BlockOps<'_> {
    let prepared: &Prepared = flight.prepared.get().expect("a lane gets prepared blocks only");
    BlockOps {
        block: prepared.block(&flight.job.bytes),
        txids: &prepared.txids,
        ops: prepared.ops.lane(lane),
        height: flight.job.context.height,
        overwrites: flight.job.context.overwrites,
    }
}
