//! Invariants of a scheduler while it is not locked.

use super::{Background, Halt, Phase, Scheduler, Seq, Task};
use coins::SHARD_GROUPS;
use std::cmp::Reverse;
use std::collections::HashSet;

impl<F: Clone> Scheduler<F> {
    /// Panics if an invariant is broken. Called after each step of the deterministic scheduler, and at the end of each
    /// run of a debug build.
    ///
    /// Also checks, if no task is running, that no work is lost: everything that can be done is queued.
    pub(in crate::pipeline) fn invariants(&self) {
        let bytes: usize = self.in_flight.iter().map(|block| block.bytes).sum();
        assert_eq!(self.bytes_in_flight, bytes, "bytes in flight are the sum over the blocks");
        assert!(self.background_running <= self.running, "background work is work");
        self.blocks_are_as_their_groups_say();
        self.coins_have_room();
        self.tasks_fit_their_blocks();
        self.background_fits_its_seal();
    }

    fn blocks_are_as_their_groups_say(&self) {
        let end = self.end();
        for (group, next) in self.group_next.iter().enumerate() {
            assert!(
                (self.first..=end).contains(next),
                "group {group} applies {next:?}, {:?} to {end:?} are in flight",
                self.first
            );
        }
        for (index, block) in self.in_flight.iter().enumerate() {
            let seq = self.first.plus(index);
            let applied = self.group_next.iter().filter(|next| **next > seq).count();
            let is_right = match block.phase {
                Phase::Decoding => applied == 0,
                Phase::Applying { groups_left } => groups_left > 0 && applied == SHARD_GROUPS - groups_left,
                // The block was refused by a rule that needs no coins, or after all groups had applied it.
                Phase::Refused(_) => applied == 0 || applied == SHARD_GROUPS,
                Phase::Scripts { chunks_left, .. } => applied == SHARD_GROUPS && chunks_left > 0,
                Phase::LookingUp | Phase::AwaitingDisk | Phase::Judging | Phase::Good => applied == SHARD_GROUPS,
                Phase::Committing => applied == SHARD_GROUPS && index == 0,
            };
            assert!(is_right, "{applied} groups have applied {seq:?}");
        }
        if let Some(head) = self.in_flight.front() {
            let is_refused = matches!(head.phase, Phase::Refused(_));
            assert!(!is_refused || self.is_halted(), "a refused block halts the run when it is the lowest");
            assert!(is_refused || !matches!(self.halt, Some(Halt::Refused)), "and only then");
        }
    }

    fn coins_have_room(&self) {
        assert!((self.first..=self.end()).contains(&self.granted), "{:?} is the first without room", self.granted);
        let highest = self.group_next.iter().max().expect("there are groups");
        assert!(*highest <= self.granted, "no group applies a block before its coins have room");
        if self.is_gated {
            let waits = self.in_flight.get(self.granted.since(self.first));
            assert!(
                waits.is_some_and(|block| matches!(block.phase, Phase::Applying { .. })),
                "a block that is decoded waits for room"
            );
            let is_waited_for = self.seal.as_ref().is_some_and(|seal| self.granted < seal.end());
            assert!(!is_waited_for, "and no mark waits for it");
        }
    }

    fn tasks_fit_their_blocks(&self) {
        let mut ready: HashSet<(Seq, Task)> = HashSet::new();
        for Reverse((seq, task, _)) in &self.ready {
            assert!((self.first..self.end()).contains(seq), "{task:?} of {seq:?}, which is not in flight");
            assert!(ready.insert((*seq, *task)), "{task:?} of {seq:?} twice");
            let fits = match (task, &self.in_flight[seq.since(self.first)].phase) {
                (Task::Decode, Phase::Decoding)
                | (Task::LookUp, Phase::LookingUp)
                | (Task::Judge, Phase::Judging)
                | (Task::Scripts { .. }, Phase::Scripts { .. })
                | (Task::Commit, Phase::Committing) => true,
                (Task::Apply { group }, Phase::Applying { .. }) => {
                    let group = usize::from(*group);
                    self.group_busy[group] && self.group_next[group] == *seq
                }
                _ => false,
            };
            assert!(fits, "{task:?} of {seq:?}, which is in another phase");
        }
        for seq in &self.reads {
            let phase = &self.in_flight[seq.since(self.first)].phase;
            assert!(matches!(phase, Phase::AwaitingDisk), "{seq:?} is read for its look-up");
        }
        if self.running > 0 || self.is_halted() {
            return;
        }
        for (index, block) in self.in_flight.iter().enumerate() {
            let seq = self.first.plus(index);
            let is_ready = |task| ready.contains(&(seq, task));
            let goes_on = match block.phase {
                Phase::Decoding => is_ready(Task::Decode),
                Phase::Applying { .. } => (0..SHARD_GROUPS)
                    .filter(|&group| self.group_next[group] == seq && !(self.is_gated && seq == self.granted))
                    .all(|group| self.group_busy[group] && is_ready(Task::Apply { group: group as u8 })),
                Phase::LookingUp => is_ready(Task::LookUp),
                Phase::AwaitingDisk => self.reads.contains(&seq),
                Phase::Judging => is_ready(Task::Judge),
                Phase::Scripts { chunks_left, .. } => {
                    let is_chunk = |&&(of, task): &&(Seq, Task)| of == seq && matches!(task, Task::Scripts { .. });
                    ready.iter().filter(is_chunk).count() == chunks_left
                }
                Phase::Good => index > 0,
                Phase::Committing => is_ready(Task::Commit),
                Phase::Refused(_) => true,
            };
            assert!(goes_on, "nothing is lost of {seq:?}");
        }
    }

    fn background_fits_its_seal(&self) {
        let expected = self.seal.as_ref().map(|seal| seal.work()).unwrap_or_default();
        let queued: Vec<Background> = self.waiting_background().filter(|work| *work != Background::Compact).collect();
        for (index, work) in queued.iter().enumerate() {
            assert!(expected.contains(work), "{work:?} is not what the seal needs now");
            assert!(!queued[..index].contains(work), "{work:?} twice");
        }
        let compactions = self.background.len() - queued.len();
        assert!(compactions <= self.compacting, "compactions that are queued are counted");
        if let Some(seal) = &self.seal {
            seal.invariants(self.first, &self.group_next);
        }
        if self.running > 0 || matches!(self.halt, Some(Halt::Failed(_))) {
            return;
        }
        assert_eq!(compactions, self.compacting, "no compaction is lost");
        match &self.seal {
            Some(seal) if seal.awaits_compaction() => {
                assert!(self.compacting > 0, "a compaction makes room for the commit")
            }
            Some(seal) if seal.parts_left() > 0 => assert_eq!(queued.len(), seal.parts_left(), "no part is lost"),
            _ => assert_eq!(queued.len(), expected.len(), "no step of the seal is lost"),
        }
    }
}
