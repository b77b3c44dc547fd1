//! Generations on their way to the disk, and the budget of memory.
//!
//! One generation at a time is sealed and not yet durable. A seal is a mark behind a block that no lane has finished, which
//! may be the next one to come; each lane seals its part when it has done that block, and the writer starts once that
//! block is committed.

use super::Pipeline;
use super::state::{Background, Seal, State};
use crate::fault::Fault;
use coins::{Generation, LANES, Lane};
use std::sync::MutexGuard;

/// Share of the budget that blocks in flight may take, and its bounds in bytes.
const WINDOW_SHARE: usize = 4;
const WINDOW_BYTES_MIN: usize = 16 << 20;
const WINDOW_BYTES_MAX: usize = 512 << 20;

impl Pipeline<'_> {
    fn window_bytes(&self) -> usize {
        (self.settings.budget_bytes / WINDOW_SHARE).clamp(WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    }

    /// What the coins may take.
    fn coin_budget(&self) -> usize {
        if self.settings.budget_bytes == 0 {
            return 0;
        }
        let other = self.window_bytes() + self.backend.table_bytes();
        self.settings.budget_bytes.saturating_sub(other).max(8 << 20)
    }

    /// Whether one more block may come in.
    pub(crate) fn has_room(&self, state: &State) -> bool {
        state.flights.is_empty()
            || (state.flight_bytes < self.window_bytes()
                && state.flights.len() < self.settings.window_blocks
                && !self.is_memory_short(state))
    }

    /// Whether the coins take more than they may, and it helps to wait for a generation that is being written.
    pub(crate) fn is_memory_short(&self, state: &State) -> bool {
        // A mark behind the block to come waits for that block.
        let is_marked = state.seal.as_ref().is_some_and(|seal| seal.at < state.end());
        is_marked && self.stats.lane_bytes().1 > self.coin_budget()
    }

    /// Keeps the budget: lets old generations go, or seals the current one. What went is to be dropped without the lock:
    /// giving so much memory back takes its time.
    #[must_use = "to be dropped when the state is unlocked"]
    pub(crate) fn look_at_memory(&self, state: &mut State) -> Vec<Generation> {
        if state.halted {
            return Vec::new();
        }
        let budget = self.coin_budget();
        let (current, all) = self.stats.lane_bytes();
        let gone = if all > budget && state.committed_generation > 0 { self.let_go(state) } else { Vec::new() };
        // At half the budget the current generation is sealed, so that the next has the other half while it is written.
        let wanted = current > budget / 2 || (current > 0 && self.backend.flush_is_due());
        if wanted && state.seal.is_none() {
            // No lane has finished block `at`: each seals its part when it does.
            let at = state.lane_next.iter().copied().max().expect("there are lanes");
            state.seal = Some(Seal::new(at));
        }
        gone
    }

    /// The same, unlocking the state where something went.
    pub(crate) fn keep_budget<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let gone = self.look_at_memory(&mut state);
        if gone.is_empty() {
            return state;
        }
        drop(state);
        drop(gone);
        self.lock()
    }

    /// Between runs: whether the current generation has its share of the budget.
    pub fn is_full(&self) -> bool {
        self.stats.lane_bytes().0 > self.coin_budget() / 2
    }

    /// Lets go of the oldest generation that is committed.
    fn let_go(&self, state: &State) -> Vec<Generation> {
        let oldest = |lane: &Lane| lane.older().map(|generation| generation.number).min();
        let lanes: Vec<_> =
            self.lanes.iter().enumerate().filter_map(|(index, lane)| Some((index, lane.try_lock().ok()?))).collect();
        let mut gone = Vec::new();
        let number = lanes.iter().filter_map(|(_, lane)| oldest(lane)).min();
        if let Some(number) = number.filter(|number| *number <= state.committed_generation) {
            for (index, mut lane) in lanes {
                gone.append(&mut lane.let_go(number));
                self.stats.set_lane(index, &lane);
            }
        }
        gone
    }

    /// Seals one lane's part. Its worker calls this right after the last block of the generation.
    pub(crate) fn seal_lane(&self, state: &mut State, lane: &mut Lane, index: usize) {
        let seal = state.seal.as_mut().expect("the caller saw it");
        let part = lane.seal();
        self.stats.set_lane(index, lane);
        seal.parts[index] = Some(part);
        seal.lanes_left -= 1;
    }

    /// Starts the writer once the last block of a sealed generation is committed.
    pub(crate) fn after_commit(&self, state: &mut State, seq: u64) {
        if state.seal.as_ref().is_some_and(|seal| seal.at == seq) {
            self.start_writing(state);
        }
    }

    fn start_writing(&self, state: &mut State) {
        let tip = state.tip.expect("a block was committed");
        let seal = state.seal.as_mut().expect("the caller saw it");
        assert_eq!(seal.lanes_left, 0, "a committed block went through every lane");
        (seal.writing, seal.tip) = (true, Some(tip));
        state.add_background(Background::Sync);
        self.work.notify_all();
    }

    /// Between runs: seals everything, writes it with all workers, waits.
    pub(crate) fn flush_everything(&self, tip: (crate::tree::NodeId, primitives::BlockHash)) -> Result<(), Fault> {
        self.finish_background()?;
        {
            let mut state = self.lock();
            assert!(state.flights.is_empty(), "nothing is in flight between runs");
            state.tip = Some(tip);
            state.seal = Some(Seal::new(state.first.wrapping_sub(1)));
            for (index, lane) in self.lanes.iter().enumerate() {
                let mut lane = lane.lock().expect("no worker panics with it");
                self.seal_lane(&mut state, &mut lane, index);
            }
            self.start_writing(&mut state);
        }
        self.finish_background()
    }

    /// Runs the pool until no flush and no merge is waiting.
    fn finish_background(&self) -> Result<(), Fault> {
        {
            let mut state = self.lock();
            (state.halted, state.end_workers) = (false, false);
            // A mark that no block reached is none.
            state.seal.take_if(|seal| seal.lanes_left == LANES);
        }
        if self.chosen.is_some() {
            self.play_background();
            return self.lock().fault.take().map_or(Ok(()), Err);
        }
        std::thread::scope(|scope| {
            let _alarm = super::work::Alarm(self);
            for _ in 0..self.settings.par.max(1) {
                scope.spawn(|| self.worker());
            }
            let mut state = self.lock();
            while state.running > 0 || (state.fault.is_none() && !state.background.is_empty()) {
                state = self.room.wait_timeout(state, std::time::Duration::from_millis(20)).expect("see lock").0;
            }
            state.end_workers = true;
            drop(state);
            self.work.notify_all();
        });
        match self.lock().fault.take() {
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }
}
