//! The memory budget: limits for blocks in flight and for coins, and eviction.
//!
//! Blocks in flight have a share of the whole budget. Coins have the rest, less headers, tables, indexes and buffers,
//! plus a part of the memory that a process may use beyond its budget. Coins count from the moment a block is decoded:
//! its operations begin when there is space for all coins that it creates (`Scheduler::grant`). A generation that is
//! being written counts until its memory is free. If there is not enough space, durable generations are evicted first;
//! then the current one is sealed and written. So at least one block can always proceed.
//!
//! The limit may change at any time ([`Pipeline::budget`]).

use super::scheduler::{Pressure, Window};
use super::workers::SchedulerGuard;
use super::{Pipeline, Scheduler, Tip};
use crate::fault::Fault;
use crate::threads::locks::lock;
use coins::ops::SHARDS_PER_GROUP;
use coins::{Generation, SHARD_GROUPS, ShardGroup};
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Divisor: the share of the budget for blocks in flight; and the bounds of that share in bytes.
const WINDOW_SHARE: usize = 4;
const WINDOW_BYTES_MIN: usize = 16 << 20;
const WINDOW_BYTES_MAX: usize = 512 << 20;
/// Minimum for coins, whatever the rest uses: three generations of at least 3 MiB each (256 tables of three pages), and
/// some reuse of their coins.
const COIN_BYTES_MIN: usize = 24 << 20;
/// Bytes beyond the budget for blocks in flight, headers, indexes and buffers: a part of the 150 MiB that a process may
/// use beyond its budget. The rest is for stacks and memory that the allocator retains.
const BESIDE_BYTES: usize = 96 << 20;
/// The part of those bytes that coins may use if the others do not: a share of the budget, and at most this number of
/// bytes. A larger part would leave too little for the allocator of the static program.
const COINS_BESIDE_SHARE: usize = 4;
const COINS_BESIDE_BYTES_MAX: usize = 32 << 20;
/// Approximate bytes of a coin in memory.
const COIN_BYTES: usize = 80;
/// Smaller budgets, below Core's minimum for `-dbcache`, are for tests: all of it is for coins.
const BUDGET_BYTES_MIN: usize = 4 << 20;
/// Divisor: the part of the coins' bytes that indexes and filters of tables need while they are built.
const BUILD_SHARE: usize = 32;
/// Divisor: if less than this part of the coins' budget is free, durable generations are evicted ahead of need.
const SPARE_SHARE: usize = 32;

impl Pressure for Pipeline<'_> {
    fn is_over_budget(&self) -> bool {
        self.stats.coin_bytes().1 > self.coin_budget()
    }

    fn flush_is_due(&self) -> bool {
        self.backend.flush_is_due()
    }
}

impl Pipeline<'_> {
    /// The limits for blocks in flight.
    pub(super) fn window(&self) -> Window {
        let bytes = (self.budget_bytes() / WINDOW_SHARE).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX);
        #[cfg(feature = "ablation")]
        if self.kernels.lacks(Idea::LookAhead) {
            return Window { blocks: 1, bytes };
        }
        Window { blocks: self.settings.window_blocks, bytes }
    }

    /// Bytes for coins.
    fn coin_budget(&self) -> usize {
        let budget = self.budget_bytes();
        if budget < BUDGET_BYTES_MIN {
            return budget;
        }
        let other = self.window().bytes + self.backend.table_bytes();
        let beside = BESIDE_BYTES.saturating_sub(other).min(budget / COINS_BESIDE_SHARE).min(COINS_BESIDE_BYTES_MAX);
        let coins = (budget + beside).saturating_sub(other.saturating_sub(BESIDE_BYTES)).max(COIN_BYTES_MIN);
        coins - coins / BUILD_SHARE
    }

    /// The whole budget, in bytes.
    fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Relaxed)
    }

    /// The whole budget, in bytes, to read or change: a change takes effect at once for blocks and coins.
    pub fn budget(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.budget_bytes)
    }

    /// Sets the expected number of coins in the set, before the first run. Tables that have space for them from the
    /// start need not grow; growing would read all coins again.
    pub fn expect_coins(&self, coins: usize) {
        let most = self.coin_budget() / 2 / COIN_BYTES; // See `keep_budget`.
        for shards in &self.groups {
            lock(shards).expect(coins.min(most) / (SHARD_GROUPS * SHARDS_PER_GROUP));
        }
    }

    /// Whether the current generation has used its share of the budget. Call it between runs.
    pub fn is_full(&self) -> bool {
        self.stats.coin_bytes().0 > self.coin_budget() / 2
    }

    /// Frees memory if coins exceed their limit because blocks were disconnected, which restores the coins that they
    /// had spent. Call it between runs. Durable generations are evicted; if that is not enough, all is committed as of
    /// `tip` first.
    ///
    /// # Errors
    ///
    /// Those of [`Pipeline::flush`].
    ///
    /// # Panics
    ///
    /// Those of [`Pipeline::flush`].
    pub fn make_room(&self, tip: Tip) -> Result<(), Fault> {
        for (group, shards) in self.groups.iter().enumerate() {
            self.stats.set_group(group, &lock(shards));
        }
        self.stats.coins();
        self.evict_durable();
        if self.is_over_budget() {
            self.flush_everything(tip)?;
            self.evict_durable();
        }
        Ok(())
    }

    /// Evicts durable generations, the oldest first, while coins exceed their limit. Call it between runs.
    fn evict_durable(&self) {
        while self.is_over_budget() {
            let durable = self.scheduler().durable_generation();
            if self.evict(durable).is_empty() {
                break;
            }
        }
    }

    /// Evicts old generations, or seals the current one, if coins exceed their limit. The caller drops the result
    /// without the lock, because freeing a generation takes milliseconds.
    #[must_use = "to be dropped when the scheduler is unlocked"]
    pub(super) fn keep_budget(&self, scheduler: &mut Scheduler) -> Vec<Generation> {
        if scheduler.is_halted() {
            return Vec::new();
        }
        let now = Instant::now();
        let budget = self.coin_budget();
        #[cfg(feature = "ablation")]
        if scheduler.is_writing() && self.kernels.lacks(Idea::BackgroundCommits) {
            let ready = scheduler.set_room(0, now);
            self.wake(ready);
            return Vec::new();
        }
        // If the budget is 0, no block waits: each generation is sealed at the first opportunity.
        let free = |all: usize| if budget == 0 { usize::MAX } else { budget.saturating_sub(all) };
        let (current, all) = self.stats.coin_bytes();
        let mut ready = scheduler.set_room(free(all), now);
        let mut evicted = Vec::new();
        // If a block waits, everything durable is evicted now: there may be no later event that checks again.
        while scheduler.is_gated() || self.stats.coin_bytes().1 > budget - budget / SPARE_SHARE {
            let parts = self.evict(scheduler.durable_generation());
            if parts.is_empty() {
                break;
            }
            evicted.extend(parts);
            ready += scheduler.set_room(free(self.stats.coin_bytes().1), now);
        }
        // At half the budget the current generation is sealed, so that the next has the other half while it is written.
        let is_full = current > budget / 2 || (scheduler.is_gated() && evicted.is_empty());
        if (is_full || (current > 0 && self.backend.flush_is_due())) && scheduler.may_seal() {
            ready += scheduler.begin_seal(now);
        }
        self.wake(ready);
        evicted
    }

    /// Like [`Pipeline::keep_budget`], but unlocks the scheduler while it drops evicted generations.
    pub(super) fn keep_budget_unlocking<'s>(&'s self, mut scheduler: SchedulerGuard<'s>) -> SchedulerGuard<'s> {
        let evicted = self.keep_budget(&mut scheduler);
        if evicted.is_empty() {
            return scheduler;
        }
        drop(scheduler);
        drop(evicted);
        self.scheduler()
    }

    /// Evicts the oldest generation if its number is at most `durable`. Groups that are locked by workers keep their
    /// part until the next call.
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
