//! One thread plays all workers, in an order that somebody else chooses: every order of tasks that threads could meet,
//! and the same one again for the same choices. For tests; what the tasks do is what workers do.
//!
//! Absent on purpose: what happens inside a task. Two tasks that run at the same time share only what a lock guards.

use super::Pipeline;
use super::state::{Background, Ready, State};
use crate::fault::Fault;
use std::cmp::Reverse;

/// Given how many things can be done now (1 at least), says which is done next, from 0.
pub type Choose = Box<dyn FnMut(usize) -> usize + Send>;

enum Step {
    Feed,
    LookAtMemory,
    Background(Background),
    Foreground(Ready),
}

impl Pipeline<'_> {
    /// From now on one thread does everything, in the order of these choices.
    pub fn choose_by(&mut self, choose: Choose) {
        self.chosen = Some(choose.into());
    }

    /// [`Pipeline::run`] without threads: until all is committed, the run is halted, or nothing can go on.
    pub(crate) fn play(&self) {
        loop {
            let mut state = self.lock();
            if state.halted || state.fault.is_some() || (state.fed_all && state.flights.is_empty()) {
                return;
            }
            match self.choose(&mut state, true) {
                Some(Step::Feed) => {
                    drop(state);
                    self.feed_one();
                }
                Some(Step::LookAtMemory) => self.look_at_memory(&mut state),
                Some(Step::Background(work)) => drop(self.perform(state, true, || self.background(work))),
                Some(Step::Foreground(Reverse((seq, task, _)))) => {
                    drop(self.perform(state, false, || self.foreground(seq, task)));
                }
                None => self.fail(&mut state, Fault::own("blocks are in flight, and nothing can be done for them")),
            }
        }
    }

    /// The work for the disk that is left.
    pub(crate) fn play_background(&self) {
        loop {
            let mut state = self.lock();
            match self.choose(&mut state, false) {
                Some(Step::Background(work)) if state.fault.is_none() => {
                    drop(self.perform(state, true, || self.background(work)));
                }
                _ => return,
            }
        }
    }

    /// Takes one of the things that can be done.
    fn choose(&self, state: &mut State, blocks: bool) -> Option<Step> {
        let feed = usize::from(blocks && !state.fed_all && self.has_room(state));
        let (background, ready) = (state.background.len(), if blocks { state.ready.len() } else { 0 });
        let most = feed + background + ready;
        if most == 0 {
            return None;
        }
        let look = usize::from(blocks);
        let mut choose = self.chosen.as_ref()?.lock().expect("nobody panics with it");
        let mut chosen = choose(most + look);
        assert!(chosen < most + look, "one of what can be done is chosen");
        if chosen < background {
            return state.background.remove(chosen).map(Step::Background);
        }
        chosen -= background;
        if chosen < ready {
            let mut tasks = std::mem::take(&mut state.ready).into_vec();
            let task = tasks.swap_remove(chosen);
            state.ready = tasks.into();
            return Some(Step::Foreground(task));
        }
        Some(if chosen - ready < feed { Step::Feed } else { Step::LookAtMemory })
    }
}
