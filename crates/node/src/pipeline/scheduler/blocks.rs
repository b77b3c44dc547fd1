//! Blocks in flight, phase by phase. A number that a method returns counts the tasks that became ready.

use super::super::Tip;
use super::{Background, Halt, InFlight, Phase, Pressure, Scheduler, Seq, Takes, Task, Window};
use crate::chain::block::Refusal;
use coins::{Generation, SHARD_GROUPS};
use consensus::BlockError;
use std::cmp::Reverse;
use std::time::Instant;

/// Result of committing a block.
pub(in crate::pipeline) struct Committed<F> {
    /// The block that was committed.
    pub(in crate::pipeline) done: F,
    /// The next block, if the same worker is to commit it at once.
    pub(in crate::pipeline) next: Option<F>,
    /// Number of tasks that became ready.
    pub(in crate::pipeline) ready: usize,
}

impl<F: Clone> Scheduler<F> {
    /// Whether one more block may be admitted.
    pub(in crate::pipeline) fn may_admit(&self, window: Window, pressure: &impl Pressure) -> bool {
        self.in_flight.is_empty()
            || (self.bytes_in_flight < window.bytes
                && self.in_flight.len() < window.blocks
                && !self.is_memory_short(pressure))
    }

    /// Adds a block after all others.
    pub(in crate::pipeline) fn admit(&mut self, flight: F, bytes: usize, now: Instant) {
        let seq = self.end();
        self.bytes_in_flight += bytes;
        self.in_flight.push_back(InFlight { flight, bytes, coin_bytes: 0, phase: Phase::Decoding });
        self.push(seq, Task::Decode, now);
    }

    /// The handle of a block in flight.
    pub(in crate::pipeline) fn flight(&self, seq: Seq) -> F {
        self.in_flight[seq.since(self.first)].flight.clone()
    }

    /// A block was decoded, or refused by a rule that needs no coins.
    pub(in crate::pipeline) fn decoded(&mut self, seq: Seq, result: Result<Takes, Refusal>, now: Instant) -> usize {
        let block = &mut self.in_flight[seq.since(self.first)];
        let phase = &mut block.phase;
        assert!(matches!(phase, Phase::Decoding), "{seq:?} is decoded once");
        match result {
            Ok(takes) => {
                *phase = Phase::Applying { groups_left: SHARD_GROUPS };
                self.bytes_in_flight = self.bytes_in_flight - block.bytes + takes.bytes;
                (block.bytes, block.coin_bytes) = (takes.bytes, takes.coin_bytes);
                self.wake_groups(now)
            }
            Err(refusal) => {
                *phase = Phase::Refused(refusal);
                self.look_at_head(now)
            }
        }
    }

    /// Records that a block in flight needs more bytes than were known when it was decoded.
    pub(in crate::pipeline) fn grow(&mut self, seq: Seq, bytes: usize) {
        self.in_flight[seq.since(self.first)].bytes += bytes;
        self.bytes_in_flight += bytes;
    }

    /// Sets how many more bytes of coins may be created. Blocks that waited for space are tried again.
    pub(in crate::pipeline) fn set_room(&mut self, free: usize, now: Instant) -> usize {
        let granted = self.in_flight.iter().take(self.granted.since(self.first));
        let set_aside =
            granted.filter(|block| matches!(block.phase, Phase::Applying { .. })).map(|block| block.coin_bytes);
        self.room = free.saturating_sub(set_aside.sum());
        if self.is_gated && !self.is_halted() { self.wake_groups(now) } else { 0 }
    }

    /// Whether a block waits for space for its coins.
    pub(in crate::pipeline) fn is_gated(&self) -> bool {
        self.is_gated
    }

    /// Reserves space for a block's coins, if that is not done yet; returns whether groups may apply it.
    fn grant(&mut self, seq: Seq) -> bool {
        if seq < self.granted {
            return true;
        }
        let coin_bytes = self.in_flight[seq.since(self.first)].coin_bytes;
        let is_waited_for = self.seal.as_ref().is_some_and(|seal| seq < seal.end());
        self.is_gated = coin_bytes > self.room && !is_waited_for;
        if !self.is_gated {
            self.room = self.room.saturating_sub(coin_bytes);
            self.granted = seq.next();
        }
        !self.is_gated
    }

    /// A group has applied a block. If it is the last one of a generation, `seal` returns the group's part of that
    /// generation.
    pub(in crate::pipeline) fn applied(
        &mut self,
        seq: Seq,
        group: usize,
        now: Instant,
        seal: impl FnOnce() -> Generation,
    ) -> usize {
        assert!(self.group_busy[group] && self.group_next[group] == seq, "a group applies blocks in order");
        let Phase::Applying { groups_left } = self.phase_mut(seq) else { panic!("{seq:?} is not being applied") };
        *groups_left -= 1;
        let is_last = *groups_left == 0;
        if is_last {
            *self.phase_mut(seq) = Phase::LookingUp;
            self.push(seq, Task::LookUp, now);
        }
        self.group_next[group] = seq.next();
        if let Some(marked) = self.seal.as_mut().filter(|marked| marked.end() == seq.next()) {
            marked.add_part(group, seal());
        }
        usize::from(is_last)
    }

    /// The block that a busy group can apply next, if there is one.
    pub(in crate::pipeline) fn next_of_group(&mut self, group: usize) -> Option<(Seq, F)> {
        let seq = self.group_next[group];
        (!self.is_halted() && self.is_applicable(seq) && self.grant(seq)).then(|| (seq, self.flight(seq)))
    }

    /// A worker releases a group.
    pub(in crate::pipeline) fn release_group(&mut self, group: usize, now: Instant) -> usize {
        self.group_busy[group] = false;
        if self.is_halted() { 0 } else { self.wake_group(group, now) }
    }

    /// A block's look-up would wait for the disk: a thread other than the workers waits for it, then the block is ready
    /// again ([`Scheduler::next_read`], [`Scheduler::read`]).
    pub(in crate::pipeline) fn await_disk(&mut self, seq: Seq) {
        let phase = self.phase_mut(seq);
        assert!(matches!(phase, Phase::LookingUp), "only a look-up waits for the disk");
        *phase = Phase::AwaitingDisk;
        self.reads.insert(seq);
    }

    /// The lowest block that waits for the disk, for the caller to wait for it.
    pub(in crate::pipeline) fn next_read(&mut self) -> Option<(Seq, F)> {
        let seq = *self.reads.first().filter(|_| !self.is_halted())?;
        Some((seq, self.take_read(seq)))
    }

    /// Blocks that wait for the disk, in order.
    pub(in crate::pipeline) fn waiting_reads(&self) -> impl Iterator<Item = Seq> {
        self.reads.iter().copied()
    }

    /// Takes one of those blocks out of order.
    pub(in crate::pipeline) fn take_read(&mut self, seq: Seq) -> F {
        assert!(self.reads.remove(&seq), "{seq:?} waits for the disk");
        self.running += 1;
        self.flight(seq)
    }

    /// The disk has delivered the data of a block's look-up.
    pub(in crate::pipeline) fn read(&mut self, seq: Seq, now: Instant) -> usize {
        self.running -= 1;
        let phase = self.phase_mut(seq);
        assert!(matches!(phase, Phase::AwaitingDisk), "{seq:?} waits for the disk once");
        *phase = Phase::LookingUp;
        self.push(seq, Task::LookUp, now);
        1
    }

    /// The thread that waited for the disk ended with a fault.
    pub(in crate::pipeline) fn read_failed(&mut self) {
        self.running -= 1;
    }

    /// A block's coins were looked up in the tables.
    pub(in crate::pipeline) fn looked_up(&mut self, seq: Seq, now: Instant) -> usize {
        let phase = self.phase_mut(seq);
        assert!(matches!(phase, Phase::LookingUp), "{seq:?} is looked up once");
        *phase = Phase::Judging;
        self.push(seq, Task::Judge, now);
        1
    }

    /// A block was judged except for its scripts, which run in this number of tasks; or it breaks a rule.
    pub(in crate::pipeline) fn judged(&mut self, seq: Seq, result: Result<usize, BlockError>, now: Instant) -> usize {
        let phase = self.phase_mut(seq);
        assert!(matches!(phase, Phase::Judging), "{seq:?} is judged once");
        *phase = match result {
            Ok(0) => Phase::Good,
            Ok(chunks_left) => Phase::Scripts { chunks_left, failed: None },
            Err(error) => Phase::Refused(Refusal::Rule(error)),
        };
        let chunks = if let Phase::Scripts { chunks_left, .. } = phase { *chunks_left } else { 0 };
        for chunk in 0..chunks {
            self.push(seq, Task::Scripts { chunk: chunk as u32 }, now);
        }
        chunks + self.look_at_head(now)
    }

    /// Some of a block's scripts have run.
    pub(in crate::pipeline) fn scripts_done(
        &mut self,
        seq: Seq,
        result: Result<(), BlockError>,
        now: Instant,
    ) -> usize {
        let phase = self.phase_mut(seq);
        let Phase::Scripts { chunks_left, failed } = phase else { panic!("{seq:?} has no scripts running") };
        *chunks_left -= 1;
        if let Err(error) = result {
            *failed = Some(match failed.take() {
                Some(other) => other.first(error),
                None => error,
            });
        }
        if *chunks_left == 0 {
            *phase = failed.take().map_or(Phase::Good, |error| Phase::Refused(Refusal::Rule(error)));
        }
        self.look_at_head(now)
    }

    /// A script task stopped without a verdict, because the run is halted: it is left as it was.
    pub(in crate::pipeline) fn scripts_stopped(&mut self, seq: Seq, chunk: usize, now: Instant) {
        assert!(self.is_halted(), "only then a task stops");
        self.push(seq, Task::Scripts { chunk: chunk as u32 }, now);
    }

    /// The lowest block was committed.
    pub(in crate::pipeline) fn committed(&mut self, tip: Tip, now: Instant) -> Committed<F> {
        let done = self.in_flight.pop_front().expect("the block that is being committed is in flight");
        assert!(matches!(done.phase, Phase::Committing), "only what is good is committed");
        self.first = self.first.next();
        self.bytes_in_flight -= done.bytes;
        self.new_tip = Some(tip);
        let mut ready = 0;
        if let Some(seal) = self.seal.as_mut().filter(|seal| seal.end() == self.first) {
            seal.begin_writing(tip);
            ready += self.add_background(Background::Sync, now);
        }
        let mut next = None;
        if !self.is_halted()
            && let Some(head) = self.in_flight.front_mut()
            && matches!(head.phase, Phase::Good)
        {
            head.phase = Phase::Committing;
            next = Some(head.flight.clone());
        }
        ready += self.look_at_head(now);
        Committed { done: done.flight, next, ready }
    }

    /// Number of the next block to be admitted.
    pub(super) fn end(&self) -> Seq {
        self.first.plus(self.in_flight.len())
    }

    fn phase_mut(&mut self, seq: Seq) -> &mut Phase {
        &mut self.in_flight[seq.since(self.first)].phase
    }

    pub(super) fn push(&mut self, seq: Seq, task: Task, now: Instant) {
        self.ready.push(Reverse((seq, task, now)));
    }

    /// Whether a block is in flight, decoded, and not refused by a rule that needs no coins.
    fn is_applicable(&self, seq: Seq) -> bool {
        let block = self.in_flight.get(seq.since(self.first));
        block.is_some_and(|block| matches!(block.phase, Phase::Applying { .. }))
    }

    /// Queues the next block of every group, as [`Scheduler::wake_group`] does.
    pub(super) fn wake_groups(&mut self, now: Instant) -> usize {
        (0..SHARD_GROUPS).map(|group| self.wake_group(group, now)).sum()
    }

    /// Queues the next block of a group, if it can be applied, has space, and the group is not busy.
    fn wake_group(&mut self, group: usize, now: Instant) -> usize {
        let seq = self.group_next[group];
        if self.group_busy[group] || !self.is_applicable(seq) || !self.grant(seq) {
            return 0;
        }
        self.group_busy[group] = true;
        self.push(seq, Task::Apply { group: group as u8 }, now);
        1
    }

    /// Queues the commit of the lowest block if it is valid; halts the run if it is refused.
    fn look_at_head(&mut self, now: Instant) -> usize {
        let is_halted = self.is_halted();
        let Some(head) = self.in_flight.front_mut() else { return 0 };
        match head.phase {
            Phase::Refused(_) => {
                self.halt.get_or_insert(Halt::Refused);
                0
            }
            Phase::Good if !is_halted => {
                head.phase = Phase::Committing;
                self.push(self.first, Task::Commit, now);
                1
            }
            _ => 0,
        }
    }
}
