//! Background work: sealing and writing a generation, and compactions. A number that a method returns counts the tasks
//! that became ready.

use super::super::Tip;
use super::seal::WRITE_PARTS;
use super::turns::BACKGROUND_SHARE;
use super::{Background, Scheduler, Seal};
use crate::fault::Fault;
use coins::{Generation, SHARD_GROUPS};
use std::time::Instant;

impl<F: Clone> Scheduler<F> {
    /// The number of the newest durable generation: this and older ones may be evicted.
    pub(in crate::pipeline) fn durable_generation(&self) -> u64 {
        self.durable_generation
    }

    /// Whether a generation may be marked: only while no other one is marked or being written.
    pub(in crate::pipeline) fn may_seal(&self) -> bool {
        self.seal.is_none() && !self.is_halted()
    }

    /// Whether a generation is being written.
    #[cfg(feature = "ablation")]
    pub(in crate::pipeline) fn is_writing(&self) -> bool {
        self.seal.as_ref().is_some_and(Seal::is_writing)
    }

    /// Marks a generation: every group seals its part after the next block that no group has applied yet. If that block
    /// waits for space, it waits no longer.
    pub(in crate::pipeline) fn begin_seal(&mut self, now: Instant) -> usize {
        assert!(self.may_seal(), "one generation at a time");
        let highest = self.group_next.iter().max().expect("there are groups");
        self.seal = Some(Seal::mark(highest.next()));
        if self.is_gated { self.wake_groups(now) } else { 0 }
    }

    /// Writes these parts, which are all coins in memory. Call it between runs.
    pub(in crate::pipeline) fn seal_everything(&mut self, tip: Tip, parts: [Generation; SHARD_GROUPS], now: Instant) {
        assert!(
            self.in_flight.is_empty() && self.seal.is_none(),
            "nothing is in flight between runs, or being written"
        );
        let mut seal = Seal::mark(self.first);
        parts.into_iter().enumerate().for_each(|(group, part)| seal.add_part(group, part));
        seal.begin_writing(tip);
        self.seal = Some(seal);
        self.add_background(Background::Sync, now);
    }

    /// The generation that is being written.
    pub(in crate::pipeline) fn writing(&self) -> &Seal {
        self.seal.as_ref().expect("there is work for a generation while there is one")
    }

    fn writing_mut(&mut self) -> &mut Seal {
        self.seal.as_mut().expect("there is work for a generation while there is one")
    }

    /// The data on which the coins depend is durable.
    pub(in crate::pipeline) fn synced(&mut self, now: Instant) -> usize {
        self.writing_mut().synced();
        self.add_background(Background::Begin, now)
    }

    /// The commit has begun; or a compaction is needed first, and the commit begins after it.
    pub(in crate::pipeline) fn begun(&mut self, has_begun: bool, now: Instant) -> usize {
        self.writing_mut().begun(has_begun);
        match has_begun {
            true => (0..WRITE_PARTS).map(|part| self.add_background(Background::WritePart { part }, now)).sum(),
            false if self.compacting == 0 => self.add_compactions(now),
            false => 0,
        }
    }

    /// A part was written, or the disk was full.
    ///
    /// # Errors
    ///
    /// After the last part: the fault for which the commit has to begin again. When there is space, call
    /// [`Scheduler::begin_again`].
    pub(in crate::pipeline) fn part_written(&mut self, no_space: Option<Fault>, now: Instant) -> Result<usize, Fault> {
        match self.writing_mut().part_written(no_space) {
            None => Ok(0),
            Some(Ok(())) => Ok(self.add_background(Background::Finish, now)),
            Some(Err(fault)) => Err(fault),
        }
    }

    /// The disk was full when the commit was finished: see [`Scheduler::begin_again`].
    pub(in crate::pipeline) fn finish_failed(&mut self) {
        self.writing_mut().finish_failed();
    }

    /// There is space for the commit, which begins again.
    pub(in crate::pipeline) fn begin_again(&mut self, now: Instant) -> usize {
        self.add_background(Background::Begin, now)
    }

    /// The generation is durable. It is returned, to be dropped without the lock.
    #[must_use = "to be dropped when the scheduler is unlocked"]
    pub(in crate::pipeline) fn finished(&mut self, now: Instant) -> (Seal, usize) {
        let seal = self.seal.take().expect("what was finished was being written");
        self.durable_generation = seal.generation();
        let ready = if self.compacting == 0 { self.add_compactions(now) } else { 0 };
        (seal, ready)
    }

    /// A step of a compaction was done; there may be more of it.
    pub(in crate::pipeline) fn compacted(&mut self, has_more: bool, now: Instant) -> usize {
        self.compacting -= 1;
        if !has_more && self.compacting > 0 {
            return 0; // The other compactions continue.
        }
        let mut ready = 0;
        if self.seal.as_mut().is_some_and(Seal::compaction_ended) {
            ready += self.add_background(Background::Begin, now);
        }
        if has_more {
            ready += self.add_compactions(now);
        }
        ready
    }

    pub(super) fn add_background(&mut self, work: Background, now: Instant) -> usize {
        self.background.push_back((work, now));
        1
    }

    /// Queues compactions up to the limit of concurrent ones.
    fn add_compactions(&mut self, now: Instant) -> usize {
        let is_urgent = self.in_flight.is_empty() || self.seal.as_ref().is_some_and(Seal::awaits_compaction);
        let share = if is_urgent { self.workers } else { self.workers / BACKGROUND_SHARE };
        let count = share.clamp(1, WRITE_PARTS).saturating_sub(self.compacting);
        self.compacting += count;
        (0..count).map(|_| self.add_background(Background::Compact, now)).sum()
    }
}
