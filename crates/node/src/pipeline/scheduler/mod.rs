//! Who may do what next: the one thing that the pipeline's lock guards. It is held for moments, never during a task.
//!
//! A block goes through [`Phase`]s, one after the other; each ends with a method here (`decoded`, `applied`, `looked_up`,
//! `judged`, `scripts_done`, `committed`), which makes the tasks of the next one ready. A shard group applies blocks in
//! order, one worker at a time. Beside the blocks one generation at a time is sealed and written ([`Seal`]), and tables
//! are compacted: the background.
//!
//! Coins count before they are made: no group applies a block before the room for all its coins is set aside
//! (`granted`, `room`). A block that finds no room waits for a generation to be written; where a mark waits for that
//! block, it goes on without room, so that one block can always proceed.
//!
//! [`Scheduler::invariants`] says what always holds.
//!
//! Absent on purpose: threads and their signals (the methods say how many tasks became ready), the clock (time is an
//! argument), what a block in flight holds (`F`), sizes of memory ([`Pressure`]).

mod blocks;
mod flushes;
mod invariants;
mod seal;
#[cfg(test)]
mod tests;
mod turns;
mod work;

use super::Tip;
use crate::chain::block::Refusal;
use crate::fault::Fault;
use coins::SHARD_GROUPS;
use consensus::BlockError;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::time::Instant;

use seal::Seal;
pub use work::Seq;
pub(super) use work::{Background, Task, Work};

/// The heap's order: the lowest block first, and of one block the later stage. Last, since when it waits.
type Ready = Reverse<(Seq, Task, Instant)>;

/// Where a block in flight stands. What is refused stays until it is the lowest one, and ends the run then.
enum Phase {
    Decoding,
    /// Groups spend and create its coins, each after the block before.
    Applying {
        groups_left: usize,
    },
    LookingUp,
    /// The disk is to bring what its look-up reads; a thread beside the workers waits for it.
    AwaitingDisk,
    Judging,
    /// Some scripts still run. The first failure is kept, by the order in the block.
    Scripts {
        chunks_left: usize,
        failed: Option<BlockError>,
    },
    /// All checks passed.
    Good,
    /// The lowest block, good, and on its way to the backend.
    Committing,
    /// All checks that could refuse it have ended.
    Refused(Refusal),
}

struct InFlight<F> {
    flight: F,
    bytes: usize,
    /// Bytes that its coins and tombstones take at most once they are made; known when it is decoded.
    coin_bytes: usize,
    phase: Phase,
}

/// What a block takes of memory, known once it is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Takes {
    /// Bytes of all that is kept for it while it is in flight.
    pub(super) bytes: usize,
    /// Bytes that its coins and tombstones take at most once they are made.
    pub(super) coin_bytes: usize,
}

/// Why nothing new begins.
#[derive(Debug)]
enum Halt {
    /// The lowest block is refused.
    Refused,
    /// The run was told to stop.
    Stopped,
    /// The world is at fault.
    Failed(Fault),
}

/// What the scheduler asks when the answer matters, and only then: it takes other locks.
pub(super) trait Pressure {
    /// Whether the coins in memory take more than their part of the budget.
    fn is_over_budget(&self) -> bool;
    /// Whether a generation is to be written by time.
    fn flush_is_due(&self) -> bool;
}

/// How much may be in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) blocks: usize,
    pub(super) bytes: usize,
}

/// How a run ended.
#[derive(Debug)]
pub(super) enum RunEnd<F> {
    Done,
    Refused(F, Refusal),
    Stopped,
}

/// Blocks that were in flight, to be taken back from the shard groups.
pub(super) struct TakenBack<F> {
    first: Seq,
    /// From `first` on.
    pub(super) flights: Vec<F>,
    group_next: [Seq; SHARD_GROUPS],
    sealed: [bool; SHARD_GROUPS],
    seal_end: Option<Seq>,
}

impl<F> TakenBack<F> {
    /// Whether a group has applied the block at `index`.
    pub(super) fn is_applied(&self, group: usize, index: usize) -> bool {
        self.group_next[group] > self.first.plus(index)
    }

    /// Whether a group sealed a generation right after the block at `index`.
    pub(super) fn is_sealed_after(&self, group: usize, index: usize) -> bool {
        self.sealed[group] && self.seal_end == Some(self.first.plus(index).next())
    }
}

/// Blocks in flight, the background, and the work that is ready. `F` is a handle of a block in flight.
pub(super) struct Scheduler<F> {
    workers: usize,
    in_flight: VecDeque<InFlight<F>>,
    /// The first of `in_flight`: the next to commit.
    first: Seq,
    bytes_in_flight: usize,
    /// The first block that no group may apply yet: the room for the coins of those before it is set aside.
    granted: Seq,
    /// Bytes of coins that may still be made, as [`Scheduler::set_room`] said, less what was set aside since.
    room: usize,
    /// The block at `granted` was refused its room.
    is_gated: bool,
    /// Which block each group applies next.
    group_next: [Seq; SHARD_GROUPS],
    /// Whether its task is ready or running.
    group_busy: [bool; SHARD_GROUPS],
    ready: BinaryHeap<Ready>,
    /// Blocks whose look-ups wait for the disk, which no thread has begun to wait for.
    reads: BTreeSet<Seq>,
    /// In order, since when it waits.
    background: VecDeque<(Background, Instant)>,
    background_running: usize,
    /// Tasks that workers are doing, the background's included.
    running: usize,
    /// Compactions that are queued or running.
    compacting: usize,
    seal: Option<Seal>,
    /// The greatest number of a generation that is durable.
    durable_generation: u64,
    is_fed: bool,
    halt: Option<Halt>,
    is_over: bool,
    new_tip: Option<Tip>,
}

impl<F: Clone> Scheduler<F> {
    /// A scheduler for this number of workers, with nothing in flight.
    pub(super) fn new(workers: usize) -> Scheduler<F> {
        Scheduler {
            workers: workers.max(1),
            in_flight: VecDeque::new(),
            first: Seq::new(0),
            bytes_in_flight: 0,
            granted: Seq::new(0),
            room: usize::MAX,
            is_gated: false,
            group_next: [Seq::new(0); SHARD_GROUPS],
            group_busy: [false; SHARD_GROUPS],
            ready: BinaryHeap::new(),
            reads: BTreeSet::new(),
            background: VecDeque::new(),
            background_running: 0,
            running: 0,
            compacting: 0,
            seal: None,
            durable_generation: 0,
            is_fed: false,
            halt: None,
            is_over: false,
            new_tip: None,
        }
    }

    /// A run begins.
    pub(super) fn begin_run(&mut self) {
        assert!(self.in_flight.is_empty(), "a run ends with nothing in flight");
        (self.is_fed, self.halt, self.is_over) = (false, None, false);
    }

    /// The workers are needed for background work alone. A mark that no block reached is dropped.
    pub(super) fn begin_background_run(&mut self) {
        assert!(self.in_flight.is_empty(), "nothing is in flight between runs");
        (self.halt, self.is_over) = (None, false);
        self.seal.take_if(|seal| !seal.is_writing());
    }

    /// The backend has no further block.
    pub(super) fn set_fed(&mut self) {
        self.is_fed = true;
    }

    /// Whether the backend is not to be asked for more.
    pub(super) fn is_fed(&self) -> bool {
        self.is_fed
    }

    /// Nothing new begins: the run was told to stop.
    pub(super) fn stop(&mut self) {
        if !self.is_failed() {
            self.halt = Some(Halt::Stopped);
        }
    }

    /// Nothing new begins, for this fault or an earlier one.
    pub(super) fn fail(&mut self, fault: Fault) {
        if !self.is_failed() {
            self.halt = Some(Halt::Failed(fault));
        }
    }

    /// A thread panicked, perhaps in the middle of a task: all others are to end.
    pub(super) fn abort(&mut self, fault: Fault) {
        self.running = self.running.saturating_sub(1);
        self.end_workers();
        self.fail(fault);
    }

    /// Workers that each block in flight has: one, where there are as many blocks as workers.
    pub(super) fn workers_per_block(&self) -> usize {
        self.workers.div_ceil(self.in_flight.len().max(1))
    }

    /// Whether no block task begins any more in this run.
    pub(super) fn is_halted(&self) -> bool {
        self.halt.is_some()
    }

    fn is_failed(&self) -> bool {
        matches!(self.halt, Some(Halt::Failed(_)))
    }

    /// Whether everything that was fed is committed, or the run is halted and no worker is at a task any more.
    pub(super) fn is_drained(&self) -> bool {
        self.running == 0 && (self.is_halted() || self.in_flight.is_empty())
    }

    /// Whether no background work is left, or none will be done.
    pub(super) fn is_background_done(&self) -> bool {
        self.running == 0 && (self.is_failed() || self.background.is_empty())
    }

    /// The workers are to end.
    pub(super) fn end_workers(&mut self) {
        self.is_over = true;
    }

    /// Whether the workers are to end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// What a run was, after the last task; blocks that are in flight still are to be taken back.
    pub(super) fn end_run(&mut self) -> Result<RunEnd<F>, Fault> {
        let is_stopped = matches!(self.halt, Some(Halt::Stopped));
        self.take_fault()?;
        Ok(match self.in_flight.front() {
            None if !is_stopped => RunEnd::Done,
            Some(InFlight { phase: Phase::Refused(refusal), flight, .. }) if !is_stopped => {
                RunEnd::Refused(flight.clone(), refusal.clone())
            }
            _ => RunEnd::Stopped,
        })
    }

    /// The fault for which the run was halted.
    pub(super) fn take_fault(&mut self) -> Result<(), Fault> {
        match self.halt.take_if(|halt| matches!(halt, Halt::Failed(_))) {
            Some(Halt::Failed(fault)) => Err(fault),
            _ => Ok(()),
        }
    }

    /// Forgets every block in flight, and returns what the groups have done of them. No task may be running.
    ///
    /// A generation whose last block is in flight is not being written: it is opened again, and its parts are dropped here,
    /// so that the groups' own handles are the only ones.
    pub(super) fn take_back(&mut self) -> TakenBack<F> {
        assert_eq!(self.running, 0, "no task runs while blocks are disconnected");
        let opened = self.seal.take_if(|seal| !seal.is_writing());
        let taken = TakenBack {
            first: self.first,
            flights: self.in_flight.drain(..).map(|block| block.flight).collect(),
            group_next: self.group_next,
            sealed: std::array::from_fn(|group| opened.as_ref().is_some_and(|seal| seal.has_part(group))),
            seal_end: opened.map(|seal| seal.end()),
        };
        (self.group_next, self.group_busy) = ([self.first; SHARD_GROUPS], [false; SHARD_GROUPS]);
        self.bytes_in_flight = 0;
        (self.granted, self.is_gated) = (self.first, false);
        self.ready.clear();
        self.reads.clear();
        taken
    }

    /// The last block that was committed since this was asked.
    pub(super) fn take_tip(&mut self) -> Option<Tip> {
        self.new_tip.take()
    }
}
