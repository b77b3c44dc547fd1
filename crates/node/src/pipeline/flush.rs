//! Generations on their way to the disk, and the budget of memory.
//!
//! One generation at a time is sealed and not yet durable. A seal is a mark behind a block that no lane has finished, which
//! may be the next one to come; each lane seals its part when it has done that block, and the writer starts once that
//! block is committed.

use super::Pipeline;
use super::state::{Background, Seal, State, WRITE_PARTS};
use crate::fault::Fault;
use crate::stats::Stage;
use coins::{LANES, Lane};

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
        // A mark behind the block to come waits for that block.
        let is_marked = state.seal.as_ref().is_some_and(|seal| seal.at < state.end());
        let memory_is_short = is_marked && self.stats.lane_bytes().1 > self.coin_budget();
        state.flights.is_empty()
            || (state.flight_bytes < self.window_bytes()
                && state.flights.len() < self.settings.window_blocks
                && !memory_is_short)
    }

    /// Keeps the budget: lets old generations go, or seals the current one.
    pub(crate) fn look_at_memory(&self, state: &mut State) {
        if state.halted {
            return;
        }
        let budget = self.coin_budget();
        let (current, all) = self.stats.lane_bytes();
        if all > budget && state.committed_generation > 0 {
            self.let_go(state);
        }
        // At half the budget the current generation is sealed, so that the next has the other half while it is written.
        let wanted = current > budget / 2 || (current > 0 && self.backend.flush_is_due());
        if wanted && state.seal.is_none() {
            // No lane has finished block `at`: each seals its part when it does.
            let at = state.lane_next.iter().copied().max().expect("there are lanes");
            state.seal = Some(Seal::new(at));
        }
    }

    /// Between runs: whether the current generation has its share of the budget.
    pub fn is_full(&self) -> bool {
        self.stats.lane_bytes().0 > self.coin_budget() / 2
    }

    /// Lets go of the oldest generation that is committed.
    fn let_go(&self, state: &State) {
        let oldest = |lane: &Lane| lane.older().map(|generation| generation.number).min();
        let lanes: Vec<_> = self.lanes.iter().filter_map(|lane| lane.try_lock().ok()).collect();
        let Some(number) = lanes.iter().filter_map(|lane| oldest(lane)).min() else { return };
        if number <= state.committed_generation {
            for mut lane in lanes {
                lane.let_go(number);
            }
        }
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
        state.background.push_back(Background::Sync);
        self.work.notify_all();
    }

    /// Everything that the coins stand on is made durable before them.
    pub(crate) fn sync(&self) -> Result<(), Fault> {
        let tip = self.lock().seal.as_ref().and_then(|seal| seal.tip).expect("a flush has a tip");
        self.stats.timed(Stage::Sync, || self.backend.sync(tip))?;
        let (records, bytes) = {
            let state = self.lock();
            let parts = state.seal.iter().flat_map(|seal| seal.parts.iter().flatten());
            parts.fold((0, 0), |(records, bytes), part| (records + part.len(), bytes + part.memory_bytes()))
        };
        if !self.backend.begin_commit(tip, records as u64, bytes as u64)? {
            // A merge has to make room first: it is under way, and this comes after it.
            self.lock().background.push_back(Background::Sync);
            return Ok(());
        }
        let mut state = self.lock();
        state.background.extend((0..WRITE_PARTS).map(|part| Background::WritePart { part }));
        self.work.notify_all();
        Ok(())
    }

    pub(crate) fn write_part(&self, part: usize) -> Result<(), Fault> {
        const LANES_PER_PART: usize = LANES / WRITE_PARTS;
        let lanes: Vec<coins::Generation> = {
            let state = self.lock();
            let seal = state.seal.as_ref().expect("a part is written while there is a seal");
            let lanes = &seal.parts[part * LANES_PER_PART..(part + 1) * LANES_PER_PART];
            lanes.iter().map(|lane| lane.clone().expect("every lane is sealed")).collect()
        };
        self.stats.timed(Stage::Write, || self.backend.write_part(part * LANES_PER_PART, &lanes))?;
        drop(lanes);
        let mut state = self.lock();
        let seal = state.seal.as_mut().expect("see above");
        seal.writes_left -= 1;
        if seal.writes_left == 0 {
            state.background.push_back(Background::FinishFlush);
            self.work.notify_one();
        }
        Ok(())
    }

    pub(crate) fn finish_flush(&self) -> Result<(), Fault> {
        let tip = self.lock().seal.as_ref().and_then(|seal| seal.tip).expect("a flush has a tip");
        self.stats.timed(Stage::Write, || self.backend.finish_commit(tip))?;
        let mut state = self.lock();
        let seal = state.seal.take().expect("see above");
        let number = seal.parts.iter().flatten().map(|part| part.number).max().expect("every lane is sealed");
        state.committed_generation = number;
        self.stats.add_flush();
        if !state.merging {
            state.merging = true;
            state.background.push_back(Background::Merge);
        }
        self.room.notify_all();
        Ok(())
    }

    /// Between runs: seals everything, writes it with all workers, waits.
    pub(crate) fn flush_everything(&self, tip: (crate::tree::NodeId, primitives::Hash256)) -> Result<(), Fault> {
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
