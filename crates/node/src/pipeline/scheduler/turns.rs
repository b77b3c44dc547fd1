//! Priorities: which work goes first.

use super::{Background, Pressure, Scheduler, Seal, Seq, Task, Work};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

/// How long background work yields to block tasks while memory is not short: long enough for those tasks to go first,
/// and short compared with the time between two generations.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);
/// Divisor: background work may use this share of the workers (at least one) while blocks are in flight and memory is
/// not short.
pub(super) const BACKGROUND_SHARE: usize = 4;

impl<F: Clone> Scheduler<F> {
    /// The next work for a worker, and how long it has waited.
    pub(in crate::pipeline) fn next(&mut self, now: Instant, pressure: &impl Pressure) -> Option<(Work, Duration)> {
        if let Some(since) = self.background_turn(now, pressure) {
            let work = self.take_background(0).expect("the first one waits");
            return Some((Work::Background(work), now.saturating_duration_since(since)));
        }
        if self.is_halted() {
            return None;
        }
        let Reverse((seq, task, since)) = self.ready.pop()?;
        self.running += 1;
        Some((Work::Block(seq, task), now.saturating_duration_since(since)))
    }

    /// Whether background work should be done now; returns when it became ready.
    ///
    /// Block tasks go first for a short time, and few workers do background work, because parts of it wait for the
    /// disk. If background work is urgent it goes first, and all workers may do it.
    fn background_turn(&self, now: Instant, pressure: &impl Pressure) -> Option<Instant> {
        let &(_, since) = self.background.front()?;
        if self.is_failed() {
            return None;
        }
        let is_late = self.ready.is_empty() || now.saturating_duration_since(since) >= PATIENCE;
        let has_turn = is_late && self.background_running < (self.workers / BACKGROUND_SHARE).max(1);
        (has_turn || self.is_background_urgent(pressure)).then_some(since)
    }

    /// Whether background work should not yield to block tasks: no block is in flight, blocks wait for memory, or a
    /// commit is late.
    fn is_background_urgent(&self, pressure: &impl Pressure) -> bool {
        self.in_flight.is_empty()
            || self.is_halted()
            || self.is_memory_short(pressure)
            || (self.seal.as_ref().is_some_and(Seal::is_writing) && pressure.flush_is_due())
    }

    /// Whether there is no space for coins, and a generation that is being written will free some.
    pub(super) fn is_memory_short(&self, pressure: &impl Pressure) -> bool {
        // A mark after the next block to be admitted waits for that block.
        let helps = self.seal.as_ref().is_some_and(|seal| seal.end() <= self.end());
        helps && (self.is_gated || pressure.is_over_budget())
    }

    /// A worker has finished its work.
    pub(in crate::pipeline) fn done(&mut self, work: Work) {
        self.running -= 1;
        self.background_running -= usize::from(matches!(work, Work::Background(_)));
    }

    /// Whether other workers may find work.
    pub(in crate::pipeline) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.background.is_empty()
    }

    /// Background work that waits, in order.
    pub(in crate::pipeline) fn waiting_background(&self) -> impl Iterator<Item = Background> {
        self.background.iter().map(|(work, _)| *work)
    }

    /// Takes background work out of order.
    pub(in crate::pipeline) fn take_background(&mut self, index: usize) -> Option<Background> {
        let (work, _) = self.background.remove(index)?;
        self.running += 1;
        self.background_running += 1;
        Some(work)
    }

    /// Block tasks that are ready, in order.
    pub(in crate::pipeline) fn ready_tasks(&self) -> Vec<(Seq, Task)> {
        let mut tasks: Vec<_> = self.ready.iter().map(|Reverse((seq, task, _))| (*seq, *task)).collect();
        tasks.sort_unstable();
        tasks
    }

    /// Takes a ready block task out of order.
    pub(in crate::pipeline) fn take_task(&mut self, wanted: (Seq, Task)) {
        let before = self.ready.len();
        self.ready.retain(|Reverse((seq, task, _))| (*seq, *task) != wanted);
        assert_eq!(self.ready.len() + 1, before, "{wanted:?} is ready");
        self.running += 1;
    }
}
