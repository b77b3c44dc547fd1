//! A generation of coins on its way to the disk.
//!
//! A seal begins as a mark after a block that no shard group has finished, which may be the next block to arrive. Each
//! group seals its part when it has applied that block; writing starts once that block is committed. Then, in order:
//! block data, undo data and index are made durable, the commit is begun, its parts are written in parallel, it is
//! finished. If the disk is full the commit begins again: the parts stay until they are durable.
//!
//! Absent on purpose: the threads that do these steps (`background`), and their order with other work (`scheduler`).

use super::super::Tip;
use super::{Background, Seq};
use crate::fault::Fault;
use coins::{Generation, SHARD_GROUPS};

/// Number of parts of a generation that are written separately: few, because each has separate tables.
pub(in crate::pipeline) const WRITE_PARTS: usize = 8;
const GROUPS_PER_PART: usize = SHARD_GROUPS / WRITE_PARTS;
const _: () = assert!(SHARD_GROUPS.is_multiple_of(WRITE_PARTS), "each part holds whole groups");

/// A generation that is marked, sealed or being written.
pub(in crate::pipeline) struct Seal {
    /// The first block that is not in it.
    end: Seq,
    parts: [Option<Generation>; SHARD_GROUPS],
    phase: Phase,
}

enum Phase {
    /// Groups seal their parts as they reach the mark.
    Marked,
    /// Its last block is committed: it is never rewound.
    Writing { tip: Tip, step: Step },
}

/// The next step in writing a generation.
enum Step {
    /// Make durable the data on which the coins depend.
    Sync,
    /// Begin the commit.
    Begin,
    /// Wait for a compaction, which must reduce the number of tables before the commit can begin.
    AwaitCompaction,
    /// Write the parts. A part that finds the disk full stores its fault; parts that start after it do nothing.
    WriteParts { left: usize, no_space: Option<Fault> },
    /// Make the commit durable.
    Finish,
}

impl Seal {
    /// A mark before block `end`.
    pub(in crate::pipeline) fn mark(end: Seq) -> Seal {
        Seal { end, parts: [const { None }; SHARD_GROUPS], phase: Phase::Marked }
    }

    /// The first block that is not in it.
    pub(in crate::pipeline) fn end(&self) -> Seq {
        self.end
    }

    /// Whether its last block is committed.
    pub(in crate::pipeline) fn is_writing(&self) -> bool {
        matches!(self.phase, Phase::Writing { .. })
    }

    /// Whether the commit waits for a compaction.
    pub(in crate::pipeline) fn awaits_compaction(&self) -> bool {
        matches!(self.phase, Phase::Writing { step: Step::AwaitCompaction, .. })
    }

    /// Whether a group has sealed its part.
    pub(in crate::pipeline) fn has_part(&self, group: usize) -> bool {
        self.parts[group].is_some()
    }

    /// Takes a group's part.
    pub(in crate::pipeline) fn add_part(&mut self, group: usize, part: Generation) {
        assert!(!self.is_writing() && !self.has_part(group), "a group seals its part once, before it is written");
        self.parts[group] = Some(part);
    }

    /// Its last block was committed: writing starts.
    pub(in crate::pipeline) fn begin_writing(&mut self, tip: Tip) {
        assert!(!self.is_writing(), "it is written once");
        assert!(self.parts.iter().all(Option::is_some), "a committed block went through every group");
        self.phase = Phase::Writing { tip, step: Step::Sync };
    }

    fn step_mut(&mut self) -> &mut Step {
        let Phase::Writing { step, .. } = &mut self.phase else { panic!("only what is being written makes steps") };
        step
    }

    /// The last block in it.
    pub(in crate::pipeline) fn tip(&self) -> Tip {
        let Phase::Writing { tip, .. } = self.phase else { panic!("only what is being written has a tip") };
        tip
    }

    /// Records and bytes in it.
    pub(in crate::pipeline) fn size(&self) -> (usize, usize) {
        let parts = self.parts.iter().flatten();
        parts.fold((0, 0), |(records, bytes), part| (records + part.len(), bytes + part.memory_bytes()))
    }

    /// The number of the generation.
    pub(in crate::pipeline) fn generation(&self) -> u64 {
        self.parts.iter().flatten().map(|part| part.number).max().expect("every group sealed its part")
    }

    /// The data on which the coins depend is durable.
    pub(in crate::pipeline) fn synced(&mut self) {
        let step = self.step_mut();
        assert!(matches!(step, Step::Sync), "synced once");
        *step = Step::Begin;
    }

    /// The commit has begun, or it waits for a compaction.
    pub(in crate::pipeline) fn begun(&mut self, has_begun: bool) {
        let step = self.step_mut();
        assert!(matches!(step, Step::Begin), "begun when it was asked for");
        *step = match has_begun {
            true => Step::WriteParts { left: WRITE_PARTS, no_space: None },
            false => Step::AwaitCompaction,
        };
    }

    /// A compaction ended: returns whether the commit waited for it, and is to be begun now.
    pub(in crate::pipeline) fn compaction_ended(&mut self) -> bool {
        if !self.awaits_compaction() {
            return false;
        }
        *self.step_mut() = Step::Begin;
        true
    }

    /// The number of a part's first group, and its groups; `None` if another part found the disk full.
    pub(in crate::pipeline) fn part(&self, part: usize) -> (usize, Option<Vec<Generation>>) {
        let Phase::Writing { step: Step::WriteParts { no_space, .. }, .. } = &self.phase else {
            panic!("parts are written between begin and finish")
        };
        let first = part * GROUPS_PER_PART;
        let groups = self.parts[first..first + GROUPS_PER_PART].iter();
        let groups = groups.map(|group| group.clone().expect("every group sealed its part"));
        (first, no_space.is_none().then(|| groups.collect()))
    }

    /// A part was written, or the disk was full. Returns after the last part whether the commit is to be finished, or
    /// why it has to begin again.
    pub(in crate::pipeline) fn part_written(&mut self, found: Option<Fault>) -> Option<Result<(), Fault>> {
        let step = self.step_mut();
        let Step::WriteParts { left, no_space } = step else { panic!("parts are written between begin and finish") };
        *no_space = no_space.take().or(found);
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let (next, end) = match no_space.take() {
            None => (Step::Finish, Ok(())),
            Some(fault) => (Step::Begin, Err(fault)),
        };
        *step = next;
        Some(end)
    }

    /// The disk was full when the commit was finished: it begins again.
    pub(in crate::pipeline) fn finish_failed(&mut self) {
        let step = self.step_mut();
        assert!(matches!(step, Step::Finish), "finished when it was asked for");
        *step = Step::Begin;
    }

    /// The work to queue for it while no worker works on it; empty while it is only marked, or waits for a compaction.
    pub(super) fn work(&self) -> Vec<Background> {
        match &self.phase {
            Phase::Marked | Phase::Writing { step: Step::AwaitCompaction, .. } => Vec::new(),
            Phase::Writing { step: Step::Sync, .. } => vec![Background::Sync],
            Phase::Writing { step: Step::Begin, .. } => vec![Background::Begin],
            Phase::Writing { step: Step::WriteParts { .. }, .. } => {
                (0..WRITE_PARTS).map(|part| Background::WritePart { part }).collect()
            }
            Phase::Writing { step: Step::Finish, .. } => vec![Background::Finish],
        }
    }

    /// Parts that are not written yet.
    pub(super) fn parts_left(&self) -> usize {
        if let Phase::Writing { step: Step::WriteParts { left, .. }, .. } = self.phase { left } else { 0 }
    }

    /// Panics if an invariant is broken.
    ///
    /// `first` is the lowest block in flight; `group_next` has the block that each group applies next.
    pub(in crate::pipeline) fn invariants(&self, first: Seq, group_next: &[Seq; SHARD_GROUPS]) {
        assert_eq!(self.is_writing(), self.end <= first, "the writer starts with the commit of the last block in it");
        let highest = group_next.iter().max().expect("there are groups");
        assert!(self.end <= highest.next(), "a mark lies before the block to come, or the one after it");
        for (group, next) in group_next.iter().enumerate() {
            assert_eq!(self.has_part(group), *next >= self.end, "group {group} seals right after the last block in it");
        }
    }
}
