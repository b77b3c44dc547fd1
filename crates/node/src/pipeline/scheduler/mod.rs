//! Assigns the next work to threads: the state behind the pipeline's one lock, which is held briefly, never during a
//! task.
//!
//! A block passes through [`Phase`]s in sequence. Each ends with a method here (`decoded`, `applied`, `looked_up`,
//! `judged`, `scripts_done`, `committed`), which makes the tasks of the next one ready. A shard group applies blocks in
//! order, one worker at a time. Background work runs at the same time: one generation is sealed and written ([`Seal`]),
//! and tables are compacted.
//!
//! Coins count before they are created: no group applies a block before the space for all its coins is reserved
//! (`granted`, `room`). A block without space waits for a generation to be written. If the mark of a generation waits
//! for that block, it proceeds without reserved space, so that at least one block can always proceed.
//!
//! [`Scheduler::invariants`] checks the invariants.
//!
//! Absent on purpose: threads and their signals (methods return the number of tasks that became ready), the clock (time
//! is an argument), contents of a block in flight (`F`), sizes of memory ([`Pressure`]).

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

/// Order of the heap: the lowest block first, and of one block the later stage. The last field is when it became ready.
type Ready = Reverse<(Seq, Task, Instant)>;

/// Phase of a block in flight. A refused block stays until it is the lowest one; then it ends the run.
enum Phase {
    Decoding,
    /// Groups spend and create its coins, each after the block before.
    Applying {
        groups_left: usize,
    },
    LookingUp,
    /// Its look-up waits for the disk, on a thread other than the workers.
    AwaitingDisk,
    Judging,
    /// Some scripts still run. The first failure is kept, by the order in the block.
    Scripts {
        chunks_left: usize,
        failed: Option<BlockError>,
    },
    /// All checks passed.
    Good,
    /// It is valid and the lowest block, and the backend is committing it.
    Committing,
    /// Refused; all checks that could find an earlier failure have ended.
    Refused(Refusal),
}

struct InFlight<F> {
    flight: F,
    bytes: usize,
    /// Maximum bytes of its coins and tombstones after they are created; known when it is decoded.
    coin_bytes: usize,
    phase: Phase,
}

/// Memory of a block, known once it is decoded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Takes {
    /// Bytes of everything that is kept for it while it is in flight.
    pub(super) bytes: usize,
    /// Maximum bytes of its coins and tombstones after they are created.
    pub(super) coin_bytes: usize,
}

/// Why no new task begins.
#[derive(Debug)]
enum Halt {
    /// The lowest block is refused.
    Refused,
    /// A stop was requested.
    Stopped,
    /// A fault of the environment.
    Failed(Fault),
}

/// Questions that the scheduler asks only when needed, because they take other locks.
pub(super) trait Pressure {
    /// Whether the coins in memory exceed their part of the budget.
    fn is_over_budget(&self) -> bool;
    /// Whether a generation should be written because of its age.
    fn flush_is_due(&self) -> bool;
}

/// Limits for blocks in flight.
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

/// Blocks that were in flight, to be rewound in the shard groups.
pub(super) struct TakenBack<F> {
    first: Seq,
    /// The blocks from `first` on.
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
    /// The first block that no group may apply yet: space for the coins of all blocks before it is reserved.
    granted: Seq,
    /// Bytes of coins that may still be created: set by [`Scheduler::set_room`], less the bytes reserved since.
    room: usize,
    /// There was no space for the block at `granted`.
    is_gated: bool,
    /// Which block each group applies next.
    group_next: [Seq; SHARD_GROUPS],
    /// Whether a task of each group is ready or running.
    group_busy: [bool; SHARD_GROUPS],
    ready: BinaryHeap<Ready>,
    /// Blocks whose look-ups wait for the disk, before a thread takes them.
    reads: BTreeSet<Seq>,
    /// Background tasks in order, each with the time at which it became ready.
    background: VecDeque<(Background, Instant)>,
    background_running: usize,
    /// Tasks that workers are doing, including background work.
    running: usize,
    /// Compactions that are queued or running.
    compacting: usize,
    seal: Option<Seal>,
    /// The greatest number of a durable generation.
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

    /// The workers are needed only for background work. A mark that no block reached is dropped.
    pub(super) fn begin_background_run(&mut self) {
        assert!(self.in_flight.is_empty(), "nothing is in flight between runs");
        (self.halt, self.is_over) = (None, false);
        self.seal.take_if(|seal| !seal.is_writing());
    }

    /// The backend has no further block.
    pub(super) fn set_fed(&mut self) {
        self.is_fed = true;
    }

    /// Whether the backend has no further block.
    pub(super) fn is_fed(&self) -> bool {
        self.is_fed
    }

    /// No new task begins: a stop was requested.
    pub(super) fn stop(&mut self) {
        if !self.is_failed() {
            self.halt = Some(Halt::Stopped);
        }
    }

    /// No new task begins, because of this fault or an earlier one.
    pub(super) fn fail(&mut self, fault: Fault) {
        if !self.is_failed() {
            self.halt = Some(Halt::Failed(fault));
        }
    }

    /// A thread panicked, perhaps during a task: all others are to end.
    pub(super) fn abort(&mut self, fault: Fault) {
        self.running = self.running.saturating_sub(1);
        self.end_workers();
        self.fail(fault);
    }

    /// Number of workers per block in flight: 1 if there are as many blocks as workers.
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

    /// Whether every admitted block is committed, or the run is halted and no worker has a task.
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

    /// Result of a run, after its last task; blocks that are still in flight are to be rewound.
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

    /// Removes every block in flight, and returns how far the groups have applied them. No task may be running.
    ///
    /// A generation whose last block is in flight is not being written: it is opened again, and its parts are dropped
    /// here, so that the groups' own handles are the only ones.
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

    /// The last block that was committed since the last call.
    pub(super) fn take_tip(&mut self) -> Option<Tip> {
        self.new_tip.take()
    }
}
