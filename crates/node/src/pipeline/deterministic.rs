//! The deterministic scheduler: one thread plays all workers, in an order that a test chooses. It can produce every
//! order of tasks that threads could, and repeats an order for the same choices. The tasks are those of the workers.
//!
//! Absent on purpose: interleavings inside a task. Two tasks that run at the same time share only data behind locks.

use super::scheduler::{Seq, Task, Work};
use super::workers::SchedulerGuard;
use super::{Pipeline, Scheduler};
use crate::fault::Fault;
use crate::pipeline::stats::Stage;
use crate::threads::locks::lock;

/// A step that can be done now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runnable {
    /// Read one more block.
    Feed,
    /// Check the memory budget.
    Memory,
    /// One step of background work.
    Disk {
        /// Its stage: [`Stage::Sync`], [`Stage::Write`] or [`Stage::Compact`].
        stage: Stage,
    },
    /// A task of a block in flight. If it is a look-up that waits for the disk, the step is the wait.
    Block {
        /// The block's number in this pipeline.
        seq: Seq,
        /// The task's stage.
        stage: Stage,
    },
}

/// Chooses the next step: gets the possible steps (at least one), returns the index of one.
pub type Choose = Box<dyn FnMut(&[Runnable]) -> usize + Send>;

enum Step {
    Feed,
    KeepBudget,
    Background(usize),
    Block((Seq, Task)),
    Read(Seq),
}

impl Pipeline<'_> {
    /// From now on a single thread does all work, in the order of these choices; [`Pipeline::run`] and
    /// [`Pipeline::flush`] check the scheduler's invariants after each step.
    pub fn set_deterministic(&mut self, choose: Choose) {
        self.order = Some(choose.into());
    }

    /// A run without threads: until all is committed, the run is halted, or no step is possible.
    pub(super) fn run_single_threaded(&self) {
        // If a block waits only for memory, one check of the budget frees it immediately or not at all.
        let mut looked = false;
        loop {
            let mut scheduler = self.scheduler();
            scheduler.invariants();
            if scheduler.is_halted() || (scheduler.is_fed() && scheduler.is_drained()) {
                return;
            }
            let step = self.choose(&scheduler).filter(|(_, is_alone)| !(looked && *is_alone));
            looked = step.as_ref().is_some_and(|(_, is_alone)| *is_alone);
            match step.map(|(step, _)| step) {
                Some(Step::Feed) => {
                    drop(scheduler);
                    self.feed_one();
                }
                Some(Step::KeepBudget) => drop(self.keep_budget(&mut scheduler)),
                Some(Step::Background(index)) => self.do_waiting_background(scheduler, index),
                Some(Step::Block((seq, task))) => {
                    scheduler.take_task((seq, task));
                    drop(self.perform(scheduler, Work::Block(seq, task)));
                }
                Some(Step::Read(seq)) => {
                    let flight = scheduler.take_read(seq);
                    drop(scheduler);
                    if let Err(fault) = self.look_up_from_disk(seq, &flight) {
                        self.fail(fault);
                    }
                }
                None => {
                    scheduler.fail(Fault::internal("blocks are in flight, and nothing can be done for them"));
                }
            }
        }
    }

    /// Finishes the background work.
    pub(super) fn run_background_single_threaded(&self) {
        loop {
            let scheduler = self.scheduler();
            scheduler.invariants();
            if scheduler.is_background_done() {
                return;
            }
            let waiting: Vec<Runnable> =
                scheduler.waiting_background().map(|work| Runnable::Disk { stage: work.stage() }).collect();
            let chosen = self.chosen(&waiting);
            self.do_waiting_background(scheduler, chosen);
        }
    }

    fn do_waiting_background(&self, mut scheduler: SchedulerGuard<'_>, index: usize) {
        let work = scheduler.take_background(index).expect("it is one of those that wait");
        drop(self.perform(scheduler, Work::Background(work)));
    }

    /// Chooses one of the possible steps; the second result is whether checking the budget is the only one.
    fn choose(&self, scheduler: &Scheduler) -> Option<(Step, bool)> {
        let mut runnable: Vec<Runnable> =
            scheduler.waiting_background().map(|work| Runnable::Disk { stage: work.stage() }).collect();
        let background = runnable.len();
        let tasks = scheduler.ready_tasks();
        runnable.extend(tasks.iter().map(|(seq, task)| Runnable::Block { seq: *seq, stage: task.stage() }));
        let reads: Vec<Seq> = scheduler.waiting_reads().collect();
        runnable.extend(reads.iter().map(|seq| Runnable::Block { seq: *seq, stage: Stage::LookUp }));
        if !scheduler.is_fed() && scheduler.may_admit(self.window(), self) {
            runnable.push(Runnable::Feed);
        }
        if runnable.is_empty() && !scheduler.is_gated() {
            return None;
        }
        let is_alone = runnable.is_empty();
        runnable.push(Runnable::Memory);
        let chosen = self.chosen(&runnable);
        let step = match runnable[chosen] {
            Runnable::Feed => Step::Feed,
            Runnable::Memory => Step::KeepBudget,
            Runnable::Disk { .. } => Step::Background(chosen),
            Runnable::Block { .. } => match tasks.get(chosen - background) {
                Some(task) => Step::Block(*task),
                None => Step::Read(reads[chosen - background - tasks.len()]),
            },
        };
        Some((step, is_alone))
    }

    fn chosen(&self, runnable: &[Runnable]) -> usize {
        let mut choose = lock(self.order.as_ref().expect("an order was set"));
        let chosen = choose(runnable);
        assert!(chosen < runnable.len(), "one of what can be done is chosen");
        chosen
    }
}
