//! The work: tasks of blocks in flight, and background work.

use crate::pipeline::stats::Stage;

/// A block's number in its pipeline, from 0, in the order in which blocks are admitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Seq(u64);

impl Seq {
    /// The block with this number.
    pub const fn new(number: u64) -> Seq {
        Seq(number)
    }

    /// The block after it.
    #[must_use]
    pub const fn next(self) -> Seq {
        Seq(self.0 + 1)
    }

    /// The block that comes this number of blocks after it.
    pub(in crate::pipeline) fn plus(self, blocks: usize) -> Seq {
        Seq(self.0 + blocks as u64)
    }

    /// Number of blocks from an earlier one to this.
    pub(super) fn since(self, earlier: Seq) -> usize {
        (self.0 - earlier.0) as usize
    }
}

/// A task of a block. Within one block the later stage goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::pipeline) enum Task {
    Commit,
    Scripts { chunk: u32 },
    Judge,
    LookUp,
    Apply { group: u8 },
    Decode,
}

impl Task {
    /// The stage for which its time counts.
    pub(in crate::pipeline) fn stage(self) -> Stage {
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

/// Work that is not part of a block: it waits for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pipeline) enum Background {
    Sync,
    Begin,
    WritePart { part: usize },
    Finish,
    Compact,
}

impl Background {
    /// The stage for which its time counts.
    pub(in crate::pipeline) fn stage(self) -> Stage {
        match self {
            Background::Sync => Stage::Sync,
            Background::Begin | Background::WritePart { .. } | Background::Finish => Stage::Write,
            Background::Compact => Stage::Compact,
        }
    }
}

/// One piece of work for one worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::pipeline) enum Work {
    Block(Seq, Task),
    Background(Background),
}

impl Work {
    /// The stage for which its time counts.
    pub(in crate::pipeline) fn stage(self) -> Stage {
        match self {
            Work::Block(_, task) => task.stage(),
            Work::Background(work) => work.stage(),
        }
    }
}
