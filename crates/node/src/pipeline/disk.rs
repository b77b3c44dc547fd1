//! Work for the disk beside the blocks: a sealed generation is written, tables are merged.
//!
//! In order: what the coins stand on is made durable (once for each generation), the commit is begun, its parts are
//! written side by side, it is finished. Where there is no room for it, it begins anew: the sealed generation stays until
//! it is durable.

use super::Pipeline;
use super::state::{Background, Seal, State, WRITE_PARTS};
use crate::fault::Fault;
use crate::stats::Stage;
use coins::LANES;
use std::time::Duration;

/// So long work for the disk lies behind the blocks in flight while there is memory: enough for their tasks to go first,
/// and little beside the time between two generations.
const PATIENCE: Duration = Duration::from_millis(50);
/// One worker in so many works for the disk while blocks are in flight and there is memory; one at least.
const DISK_SHARE: usize = 4;

impl Pipeline<'_> {
    /// Work for the disk that is to be done now, not later.
    ///
    /// Blocks go first, for a moment, and few workers do it: some of it sleeps in the disk. Where it is urgent it goes
    /// first, and all workers may do it.
    pub(crate) fn next_background(&self, state: &mut State) -> Option<Background> {
        let &(work, since) = state.background.front()?;
        if state.fault.is_some() {
            return None;
        }
        let has_turn = (state.ready.is_empty() || since.elapsed() >= PATIENCE)
            && state.background_running < (self.settings.par / DISK_SHARE).max(1);
        if !has_turn && !self.is_disk_urgent(state) {
            return None;
        }
        self.stats.add_waited(work.stage(), since);
        state.background.pop_front();
        Some(work)
    }

    /// Whether blocks gain nothing by going first: there are none, they wait for memory, or a commit is late already.
    fn is_disk_urgent(&self, state: &State) -> bool {
        let is_late = || state.seal.as_ref().is_some_and(|seal| seal.writing) && self.backend.flush_is_due();
        state.flights.is_empty() || state.halted || self.is_memory_short(state) || is_late()
    }

    pub(crate) fn background(&self, work: Background) -> Result<(), Fault> {
        match work {
            Background::Sync => self.sync(),
            Background::Begin => self.begin(),
            Background::WritePart { part } => self.write_part(part),
            Background::FinishFlush => self.finish_flush(),
            Background::Merge => self.merge(),
        }
    }

    fn add_background(&self, state: &mut State, work: Background) {
        state.add_background(work);
        self.work.notify_one();
    }

    fn sealed_tip(&self) -> (crate::tree::NodeId, primitives::BlockHash) {
        self.lock().seal.as_ref().and_then(|seal| seal.tip).expect("a flush has a tip")
    }

    /// Everything that the coins stand on is made durable before them.
    fn sync(&self) -> Result<(), Fault> {
        let tip = self.sealed_tip();
        self.stats.timed(Stage::Sync, || self.backend.sync(tip))?;
        self.add_background(&mut self.lock(), Background::Begin);
        Ok(())
    }

    fn begin(&self) -> Result<(), Fault> {
        let tip = self.sealed_tip();
        let (records, bytes) = {
            let state = self.lock();
            let parts = state.seal.iter().flat_map(|seal| seal.parts.iter().flatten());
            parts.fold((0, 0), |(records, bytes), part| (records + part.len(), bytes + part.memory_bytes()))
        };
        let has_begun =
            self.stats.timed(Stage::Write, || self.backend.begin_commit(tip, records as u64, bytes as u64))?;
        let mut state = self.lock();
        let seal = state.seal.as_mut().expect("it is being written");
        if has_begun {
            (seal.writes_left, seal.no_room) = (WRITE_PARTS, None);
            (0..WRITE_PARTS).for_each(|part| state.add_background(Background::WritePart { part }));
            self.work.notify_all();
        } else {
            // A merge has to make room first; this comes after it.
            seal.is_parked = true;
            if state.merging == 0 {
                self.add_mergers(&mut state);
            }
        }
        Ok(())
    }

    fn write_part(&self, part: usize) -> Result<(), Fault> {
        const LANES_PER_PART: usize = LANES / WRITE_PARTS;
        let lanes: Option<Vec<coins::Generation>> = {
            let state = self.lock();
            let seal = state.seal.as_ref().expect("a part is written while there is a seal");
            let lanes = &seal.parts[part * LANES_PER_PART..(part + 1) * LANES_PER_PART];
            let lanes = lanes.iter().map(|lane| lane.clone().expect("every lane is sealed"));
            seal.no_room.is_none().then(|| lanes.collect())
        };
        let mut no_room = None;
        if let Some(lanes) = lanes {
            let written = self.stats.timed(Stage::Write, || self.backend.write_part(part * LANES_PER_PART, &lanes));
            no_room = no_room_of(written)?;
        }
        let mut state = self.lock();
        let seal = state.seal.as_mut().expect("see above");
        seal.no_room = seal.no_room.take().or(no_room);
        seal.writes_left -= 1;
        if seal.writes_left > 0 {
            return Ok(());
        }
        match seal.no_room.take() {
            None => self.add_background(&mut state, Background::FinishFlush),
            Some(fault) => {
                drop(state);
                self.begin_again(fault)?;
            }
        }
        Ok(())
    }

    fn finish_flush(&self) -> Result<(), Fault> {
        let tip = self.sealed_tip();
        let finished = self.stats.timed(Stage::Write, || self.backend.finish_commit(tip));
        if let Some(fault) = no_room_of(finished)? {
            return self.begin_again(fault);
        }
        let mut state = self.lock();
        let seal: Seal = state.seal.take().expect("see above");
        let number = seal.parts.iter().flatten().map(|part| part.number).max().expect("every lane is sealed");
        state.committed_generation = number;
        self.stats.add_flush();
        if state.merging == 0 {
            self.add_mergers(&mut state);
        }
        self.room.notify_all();
        drop(state);
        drop(seal); // Not under the lock.
        Ok(())
    }

    /// There was no room for a commit: once there is some, it begins anew.
    fn begin_again(&self, fault: Fault) -> Result<(), Fault> {
        self.backend.drop_commit(fault)?;
        self.add_background(&mut self.lock(), Background::Begin);
        Ok(())
    }

    /// Lets as many workers merge as may.
    fn add_mergers(&self, state: &mut State) {
        let is_urgent = state.flights.is_empty() || state.seal.as_ref().is_some_and(|seal| seal.is_parked);
        let share = if is_urgent { self.settings.par } else { self.settings.par / DISK_SHARE };
        while state.merging < share.clamp(1, WRITE_PARTS) {
            state.merging += 1;
            self.add_background(state, Background::Merge);
        }
    }

    fn merge(&self) -> Result<(), Fault> {
        let more = self.stats.timed(Stage::Merge, || self.backend.merge())?;
        let mut state = self.lock();
        state.merging -= 1;
        if !more && state.merging > 0 {
            return Ok(()); // The others go on.
        }
        if state.seal.as_mut().is_some_and(|seal| std::mem::take(&mut seal.is_parked)) {
            self.add_background(&mut state, Background::Begin);
        }
        if more {
            self.add_mergers(&mut state);
        }
        Ok(())
    }
}

/// The fault of a full disk, which can be waited out; any other one is passed on.
fn no_room_of(result: Result<(), Fault>) -> Result<Option<Fault>, Fault> {
    match result {
        Ok(()) => Ok(None),
        Err(fault) if fault.is_no_space() => Ok(Some(fault)),
        Err(fault) => Err(fault),
    }
}
