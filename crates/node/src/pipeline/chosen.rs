//! One thread plays all workers, in an order that somebody else chooses: every order of tasks that threads could meet,
//! and the same one again for the same choices. For tests; what the tasks do is what workers do.
//!
//! Absent on purpose: what happens inside a task. Two tasks that run at the same time share only what a lock guards.

use super::Pipeline;
use super::state::{Background, Ready, State};
use crate::fault::Fault;
use crate::stats::Stage;
use std::cmp::Reverse;

/// Something that can be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// A block more comes in.
    Feed,
    /// The budget of memory is looked at.
    Memory,
    /// A piece of work for the disk.
    Disk {
        /// Which: [`Stage::Sync`], [`Stage::Write`] or [`Stage::Merge`].
        stage: Stage,
    },
    /// A task of a block in flight.
    Block {
        /// The block's number in this pipeline, from 0.
        seq: u64,
        /// What is done to it.
        stage: Stage,
    },
}

/// Given what can be done now (one thing at least), says which of it is done next.
pub type Choose = Box<dyn FnMut(&[Choice]) -> usize + Send>;

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
                Some(Step::LookAtMemory) => drop(self.look_at_memory(&mut state)),
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
        let mut choices: Vec<Choice> =
            state.background.iter().map(|(work, _)| Choice::Disk { stage: work.stage() }).collect();
        let background = choices.len();
        if blocks {
            // Sorted, for a heap's own order says nothing.
            let mut tasks = std::mem::take(&mut state.ready).into_sorted_vec();
            tasks.reverse();
            choices
                .extend(tasks.iter().map(|Reverse((seq, task, _))| Choice::Block { seq: *seq, stage: task.stage() }));
            if !state.fed_all && self.has_room(state) {
                choices.push(Choice::Feed);
            }
            if !choices.is_empty() {
                choices.push(Choice::Memory);
            }
            let chosen = self.chosen(&choices)?;
            let step = match choices[chosen] {
                Choice::Feed => Some(Step::Feed),
                Choice::Memory => Some(Step::LookAtMemory),
                Choice::Disk { .. } => state.background.remove(chosen).map(|(work, _)| Step::Background(work)),
                Choice::Block { .. } => Some(Step::Foreground(tasks.remove(chosen - background))),
            };
            state.ready = tasks.into();
            return step;
        }
        let chosen = self.chosen(&choices)?;
        state.background.remove(chosen).map(|(work, _)| Step::Background(work))
    }

    fn chosen(&self, choices: &[Choice]) -> Option<usize> {
        if choices.is_empty() {
            return None;
        }
        let mut choose = self.chosen.as_ref()?.lock().expect("nobody panics with it");
        let chosen = choose(choices);
        assert!(chosen < choices.len(), "one of what can be done is chosen");
        Some(chosen)
    }
}
