//! The memory budget: what blocks in flight and coins may take, and what is evicted.

use super::scheduler::{Pressure, Window};
use super::workers::SchedulerGuard;
use super::{Pipeline, Scheduler};
use coins::{Generation, ShardGroup};

/// Share of the budget that blocks in flight may take, and its bounds in bytes.
const WINDOW_SHARE: usize = 4;
const WINDOW_BYTES_MIN: usize = 16 << 20;
const WINDOW_BYTES_MAX: usize = 512 << 20;
/// What coins may take however much the rest takes.
const COIN_BYTES_MIN: usize = 8 << 20;

impl Pressure for Pipeline<'_> {
    fn is_over_budget(&self) -> bool {
        self.stats.coin_bytes().1 > self.coin_budget()
    }

    fn flush_is_due(&self) -> bool {
        self.backend.flush_is_due()
    }
}

impl Pipeline<'_> {
    /// How much may be in flight.
    pub(super) fn window(&self) -> Window {
        let bytes = (self.settings.budget_bytes / WINDOW_SHARE).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        Window { blocks: self.settings.window_blocks, bytes }
    }

    /// What the coins may take.
    fn coin_budget(&self) -> usize {
        if self.settings.budget_bytes == 0 {
            return 0;
        }
        let other = self.window().bytes + self.backend.table_bytes();
        self.settings.budget_bytes.saturating_sub(other).max(COIN_BYTES_MIN)
    }

    /// Between runs: whether the current generation has its share of the budget.
    pub fn is_full(&self) -> bool {
        self.stats.coin_bytes().0 > self.coin_budget() / 2
    }

    /// Evicts old generations, or seals the current one, where they take more than they may. What was evicted is to be
    /// dropped without the lock: freeing a generation takes milliseconds.
    #[must_use = "to be dropped when the scheduler is unlocked"]
    pub(super) fn keep_budget(&self, scheduler: &mut Scheduler) -> Vec<Generation> {
        if scheduler.is_halted() {
            return Vec::new();
        }
        let budget = self.coin_budget();
        let (current, all) = self.stats.coin_bytes();
        let evicted = if all > budget { self.evict(scheduler.durable_generation()) } else { Vec::new() };
        // At half the budget the current generation is sealed, so that the next has the other half while it is written.
        let is_wanted = current > budget / 2 || (current > 0 && self.backend.flush_is_due());
        if is_wanted && scheduler.may_seal() {
            scheduler.begin_seal();
        }
        evicted
    }

    /// The same, unlocking the scheduler where something was evicted.
    pub(super) fn keep_budget_unlocking<'s>(&'s self, mut scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        let evicted = self.keep_budget(&mut scheduler);
        if evicted.is_empty() {
            return scheduler;
        }
        drop(scheduler);
        drop(evicted);
        self.scheduler()
    }

    /// Takes the oldest generation out of memory, where it is `durable` or older. Groups that workers are at keep theirs
    /// until the next time.
    fn evict(&self, durable: u64) -> Vec<Generation> {
        if durable == 0 {
            return Vec::new();
        }
        let oldest = |shards: &ShardGroup| shards.older().map(|generation| generation.number).min();
        let groups: Vec<_> = self
            .groups
            .iter()
            .enumerate()
            .filter_map(|(group, shards)| Some((group, shards.try_lock().ok()?)))
            .collect();
        let mut evicted = Vec::new();
        let number = groups.iter().filter_map(|(_, shards)| oldest(shards)).min();
        if let Some(number) = number.filter(|number| *number <= durable) {
            for (group, mut shards) in groups {
                evicted.append(&mut shards.evict_up_to(number));
                self.stats.set_group(group, &shards);
            }
        }
        evicted
    }
}
