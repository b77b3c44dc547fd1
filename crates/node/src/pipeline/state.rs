//! Who may do what next: the scheduler's state, changed only under one lock, for moments.

use super::Flight;
use crate::block::Refusal;
use crate::fault::Fault;
use crate::stats::Stage;
use crate::tree::NodeId;
use coins::{Generation, LANES};
use primitives::BlockHash;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// What a worker can do. Blocks are named by their sequence number in this pipeline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Task {
    Commit,
    Scripts { chunk: u32 },
    Judge,
    LookUp,
    Apply { lane: u8 },
    Decode,
}

impl Task {
    /// The stage whose time it is.
    pub(crate) fn stage(self) -> Stage {
        match self {
            Task::Commit => Stage::Commit,
            Task::Scripts { .. } => Stage::Scripts,
            Task::Judge => Stage::Judge,
            Task::LookUp => Stage::LookUp,
            Task::Apply { .. } => Stage::Apply,
            Task::Decode => Stage::Decode,
        }
    }
}

/// Parts in which a generation is written: a few, for each makes tables of its own.
pub(crate) const WRITE_PARTS: usize = 8;

/// What the disk waits for: work that no block needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Background {
    Sync,
    Begin,
    WritePart { part: usize },
    FinishFlush,
    Merge,
}

impl Background {
    /// The stage whose time it is.
    pub(crate) fn stage(self) -> Stage {
        match self {
            Background::Sync => Stage::Sync,
            Background::Begin | Background::WritePart { .. } | Background::FinishFlush => Stage::Write,
            Background::Merge => Stage::Merge,
        }
    }
}

/// The heap's order: the lowest block first, and of one block the later stage. Last, since when it waits.
pub(crate) type Ready = Reverse<(u64, Task, Instant)>;

/// Where a block in flight stands.
pub(crate) struct Progress {
    pub(crate) flight: Arc<Flight>,
    pub(crate) prepared: bool,
    pub(crate) lanes_left: usize,
    pub(crate) chunks_left: usize,
    /// Judged good but for scripts that still run.
    pub(crate) judged: bool,
    pub(crate) refusal: Option<Refusal>,
}

impl Progress {
    pub(crate) fn is_good(&self) -> bool {
        self.judged && self.chunks_left == 0 && self.refusal.is_none()
    }

    /// Whether its verdict is final: all its checks that could speak have spoken.
    pub(crate) fn is_refused(&self) -> bool {
        self.refusal.is_some() && self.chunks_left == 0
    }
}

/// A generation on its way to the disk.
pub(crate) struct Seal {
    /// The last block in it.
    pub(crate) at: u64,
    pub(crate) tip: Option<(NodeId, BlockHash)>,
    pub(crate) parts: [Option<Generation>; LANES],
    pub(crate) lanes_left: usize,
    /// The writer has begun: it is never rewound.
    pub(crate) writing: bool,
    pub(crate) writes_left: usize,
    /// The commit waits for a merge.
    pub(crate) is_parked: bool,
    /// A part found no room: the commit begins anew when the others have come back.
    pub(crate) no_room: Option<Fault>,
}

impl Seal {
    pub(crate) fn new(at: u64) -> Seal {
        Seal {
            at,
            tip: None,
            parts: [const { None }; LANES],
            lanes_left: LANES,
            writing: false,
            writes_left: WRITE_PARTS,
            is_parked: false,
            no_room: None,
        }
    }
}

pub(crate) struct State {
    pub(crate) flights: VecDeque<Progress>,
    /// Sequence number of the first of `flights`: the next to commit.
    pub(crate) first: u64,
    pub(crate) lane_next: [u64; LANES],
    pub(crate) lane_busy: [bool; LANES],
    pub(crate) ready: BinaryHeap<Ready>,
    /// Work for the disk, in order, since when it waits, and how many workers are at it.
    pub(crate) background: VecDeque<(Background, Instant)>,
    pub(crate) background_running: usize,
    /// Tasks that workers are doing.
    pub(crate) running: usize,
    pub(crate) committing: bool,
    pub(crate) flight_bytes: usize,
    pub(crate) fed_all: bool,
    /// A block at the head is refused, or the run was told to stop: nothing new begins.
    pub(crate) halted: bool,
    pub(crate) stopped: bool,
    pub(crate) end_workers: bool,
    pub(crate) fault: Option<Fault>,
    pub(crate) seal: Option<Seal>,
    /// Greatest number of a generation that is committed.
    pub(crate) committed_generation: u64,
    /// How many merge, or are about to.
    pub(crate) merging: usize,
    /// The last block that was committed in this pipeline.
    pub(crate) tip: Option<(NodeId, BlockHash)>,
    /// The same, for the caller to take.
    pub(crate) new_tip: Option<(NodeId, BlockHash)>,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            flights: VecDeque::new(),
            first: 0,
            lane_next: [0; LANES],
            lane_busy: [false; LANES],
            ready: BinaryHeap::new(),
            background: VecDeque::new(),
            background_running: 0,
            running: 0,
            committing: false,
            flight_bytes: 0,
            fed_all: false,
            halted: false,
            stopped: false,
            end_workers: false,
            fault: None,
            seal: None,
            committed_generation: 0,
            merging: 0,
            tip: None,
            new_tip: None,
        }
    }

    pub(crate) fn begin_run(&mut self) {
        assert!(self.flights.is_empty(), "a run ends with nothing in flight");
        (self.fed_all, self.halted, self.stopped, self.end_workers) = (false, false, false, false);
    }

    pub(crate) fn push(&mut self, seq: u64, task: Task) {
        self.ready.push(Reverse((seq, task, Instant::now())));
    }

    pub(crate) fn add_background(&mut self, work: Background) {
        self.background.push_back((work, Instant::now()));
    }

    pub(crate) fn progress(&mut self, seq: u64) -> &mut Progress {
        let index = (seq - self.first) as usize;
        &mut self.flights[index]
    }

    /// Sequence number of the next block to come.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.flights.len() as u64
    }

    pub(crate) fn has(&self, seq: u64) -> bool {
        (self.first..self.end()).contains(&seq)
    }

    /// Adds a block behind all others.
    pub(crate) fn admit(&mut self, flight: Arc<Flight>) {
        let seq = self.end();
        self.flight_bytes += flight.bytes;
        self.flights.push_back(Progress {
            flight,
            prepared: false,
            lanes_left: LANES,
            chunks_left: 0,
            judged: false,
            refusal: None,
        });
        self.push(seq, Task::Decode);
    }

    /// Gives a lane its next block, if that is prepared and nobody works on the lane.
    pub(crate) fn wake_lane(&mut self, lane: usize) {
        let seq = self.lane_next[lane];
        if !self.lane_busy[lane] && self.has(seq) {
            let progress = self.progress(seq);
            if progress.prepared && progress.refusal.is_none() {
                self.lane_busy[lane] = true;
                self.push(seq, Task::Apply { lane: lane as u8 });
            }
        }
    }

    /// Looks at the head: something to commit, or a refusal that is final now.
    pub(crate) fn look_at_head(&mut self) {
        let Some(head) = self.flights.front() else { return };
        if head.is_refused() {
            self.halted = true;
        } else if head.is_good() && !self.committing && !self.halted {
            self.committing = true;
            let first = self.first;
            self.push(first, Task::Commit);
        }
    }
}
