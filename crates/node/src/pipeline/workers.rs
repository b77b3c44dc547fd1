//! The threads of a run: one that reads blocks, and workers that do what the scheduler assigns.

use super::flight::Flight;
use super::scheduler::{RunEnd, Work};
use super::{Outcome, Pipeline, Scheduler};
use crate::chain::block::Refusal;
use crate::fault::Fault;
use crate::pipeline::stats::Stage;
use crate::threads;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Ends all threads of the pipeline when one panics; otherwise they would wait indefinitely.
pub(super) struct AbortOnPanic<'p, 'b>(pub(super) &'p Pipeline<'b>);

impl Drop for AbortOnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The thread may have held the lock: the state behind it is used only to end the run.
            let mut scheduler = self.0.scheduler.lock().unwrap_or_else(PoisonError::into_inner);
            scheduler.abort(Fault::internal("a thread of the pipeline panicked"));
            self.0.wake_everyone();
        }
    }
}

/// Threads that look up coins by waiting for the disk: each has many reads under way, so that few keep a disk busy.
const READERS: usize = 4;

/// The pipeline's lock, taken.
pub(super) type SchedulerGuard<'p> = MutexGuard<'p, Scheduler>;

impl Pipeline<'_> {
    /// Connects blocks with threads, until all admitted blocks are committed or the run is halted.
    pub(super) fn run_threads(&self) {
        std::thread::scope(|scope| {
            let _abort = AbortOnPanic(self);
            let mut workers = self.start_workers(scope);
            self.start(scope, "reader", READERS, &mut workers, Pipeline::reader);
            self.feed();
            self.drain();
            self.scheduler().end_workers();
            self.wake_everyone();
            for worker in workers {
                if let Err(panic) = worker.join() {
                    std::panic::resume_unwind(panic);
                }
            }
        });
    }

    /// Starts the workers; if the system refuses a thread the run ends with that fault.
    fn start_workers<'s>(&'s self, scope: &'s Scope<'s, '_>) -> Vec<ScopedJoinHandle<'s, ()>> {
        let mut workers = Vec::new();
        self.start(scope, "worker", self.settings.par.max(1), &mut workers, Pipeline::worker);
        workers
    }

    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        name: &str,
        count: usize,
        threads: &mut Vec<ScopedJoinHandle<'s, ()>>,
        work: fn(&Self),
    ) {
        for n in 0..count {
            match threads::spawn(scope, format!("{name}.{n:02}"), move || work(self)) {
                Ok(thread) => threads.push(thread),
                Err(fault) => {
                    self.scheduler().abort(fault);
                    self.wake_everyone();
                    break;
                }
            }
        }
    }

    /// Does background work with threads until nothing is left.
    pub(super) fn run_background_threads(&self) {
        std::thread::scope(|scope| {
            let _abort = AbortOnPanic(self);
            self.start_workers(scope);
            let mut scheduler = self.scheduler();
            while !scheduler.is_background_done() {
                (scheduler, _) = self.work_done.wait_for(scheduler, Duration::from_millis(20));
            }
            scheduler.end_workers();
            drop(scheduler);
            self.work_ready.notify_all();
        });
    }

    /// Reads blocks while there is space; returns when there are no more blocks, or the run needs no more.
    fn feed(&self) {
        loop {
            let mut scheduler = self.scheduler();
            while !scheduler.is_halted() && !scheduler.may_admit(self.window(), self) {
                (scheduler, _) = self.work_done.wait_for(scheduler, Duration::from_millis(100));
                scheduler = self.keep_budget_unlocking(scheduler);
            }
            if self.backend.stopping() {
                scheduler.stop();
            }
            if scheduler.is_halted() || scheduler.is_fed() {
                return;
            }
            drop(scheduler);
            self.feed_one();
        }
    }

    /// Reads one more block.
    pub(super) fn feed_one(&self) {
        let begun = Instant::now();
        let mut waited = Duration::ZERO;
        let next = self.backend.next(&|| !self.scheduler().is_halted(), &mut waited);
        let now = Instant::now();
        let busy = self.stats.add_read(now - begun, waited);
        match next {
            Ok(Some(job)) => {
                let flight = Arc::new(Flight::new(job));
                flight.times().add(Stage::Read, busy);
                let bytes = flight.memory_bytes();
                self.scheduler().admit(flight, bytes, now);
                self.work_ready.notify_one();
            }
            Ok(None) => self.scheduler().set_fed(),
            Err(fault) => self.fail(fault),
        }
    }

    /// Waits until every admitted block is committed, or the run is halted and no worker has a task.
    fn drain(&self) {
        let mut scheduler = self.scheduler();
        while !scheduler.is_drained() {
            if self.backend.stopping() && !scheduler.is_halted() {
                scheduler.stop();
            }
            (scheduler, _) = self.work_done.wait_for(scheduler, Duration::from_millis(50));
            scheduler = self.keep_budget_unlocking(scheduler);
        }
    }

    /// After the workers have ended: the result of the run. The shard groups are as they were after the last commit.
    pub(super) fn end_run(&self) -> Result<Outcome, Fault> {
        let mut scheduler = self.scheduler();
        if cfg!(debug_assertions) {
            scheduler.invariants();
        }
        let outcome = match scheduler.end_run()? {
            RunEnd::Done => return Ok(Outcome::Done),
            RunEnd::Stopped => Outcome::Stopped,
            RunEnd::Refused(flight, refusal) => {
                let node = flight.context().node;
                let script_reason = flight.context().script_reason;
                match refusal {
                    Refusal::Rule(error) => Outcome::Refused { node, error, script_reason },
                    Refusal::Unparsable(error) => Outcome::Unparsable { node, error },
                    Refusal::WrongBody => Outcome::WrongBody { node },
                }
            }
        };
        self.rewind(&scheduler.take_back());
        Ok(outcome)
    }

    /// Halts the run for this fault.
    pub(super) fn fail(&self, fault: Fault) {
        self.scheduler().fail(fault);
        self.wake_everyone();
    }

    fn wake_everyone(&self) {
        self.work_ready.notify_all();
        self.work_done.notify_all();
        self.disk_wanted.notify_all();
    }

    /// Wakes workers for tasks that became ready during another one.
    pub(super) fn wake(&self, ready: usize) {
        match ready {
            0 => {}
            1 => self.work_ready.notify_one(),
            _ => self.work_ready.notify_all(),
        }
    }

    fn worker(&self) {
        let _abort = AbortOnPanic(self);
        let mut scheduler = self.scheduler();
        while !scheduler.is_over() {
            let now = Instant::now();
            let mut next = scheduler.next(now, self);
            if next.is_none() && scheduler.is_gated() {
                scheduler = self.keep_budget_unlocking(scheduler);
                // The lock may have been released.
                if scheduler.is_over() {
                    break;
                }
                // The waiting work may be for other workers; the scheduler decides whether some is for this worker.
                next = scheduler.next(now, self);
            }
            if let Some((work, waited)) = next {
                self.stats.add_waited(work.stage(), waited);
                scheduler = self.perform(scheduler, work);
            } else {
                scheduler = self.work_ready.wait(scheduler);
                self.stats.add_busy(Stage::Wait, now.elapsed());
            }
        }
    }

    /// Looks up coins by waiting for the disk; idle most of the time.
    fn reader(&self) {
        let _abort = AbortOnPanic(self);
        let mut scheduler = self.scheduler();
        while !scheduler.is_over() {
            let Some((seq, flight)) = scheduler.next_read() else {
                scheduler = self.disk_wanted.wait(scheduler);
                continue;
            };
            drop(scheduler);
            match self.look_up_from_disk(seq, &flight) {
                Ok(ready) => self.wake(ready),
                Err(fault) => self.fail(fault),
            }
            self.work_done.notify_one();
            scheduler = self.scheduler();
        }
    }

    /// Does an assigned piece of work, without the lock.
    pub(super) fn perform<'s>(&'s self, scheduler: SchedulerGuard<'s>, work: Work) -> SchedulerGuard<'s> {
        if scheduler.has_work() {
            self.work_ready.notify_one();
        }
        drop(scheduler);
        let result = match work {
            Work::Block(seq, task) => self.do_task(seq, task),
            Work::Background(work) => self.do_background(work),
        };
        let mut scheduler = self.scheduler();
        scheduler.done(work);
        if let Err(fault) = result {
            scheduler.fail(fault);
            self.wake_everyone();
        }
        if scheduler.has_work() {
            self.work_ready.notify_one();
        }
        self.work_done.notify_one();
        scheduler
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Backend, Connected, Settings, Tip};
    use super::*;
    use crate::chain::block::{Bip30, BlockContext, HeaderContext, Job};
    use crate::chain::tree::NodeId;
    use coins::Generation;
    use coins::table::HashKey;
    use consensus::{Chain, Params};
    use primitives::{CoinKey, Header, Height, MedianTime};
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
    use std::sync::mpsc::{Receiver, channel};

    const HANGS: Duration = Duration::from_secs(30);
    const BLOCKS: u32 = 20;

    /// A world whose disk fails in the first part of a generation that it is to write, once it is told to go on.
    struct Failing {
        jobs: Mutex<Vec<Job>>,
        unconnected: AtomicUsize,
        is_in_sync: AtomicBool,
        may_go_on: Mutex<Receiver<()>>,
        parts: AtomicU32,
    }

    impl Backend for Failing {
        fn next(&self, _: &dyn Fn() -> bool, _: &mut Duration) -> Result<Option<Job>, Fault> {
            let mut jobs = self.jobs.lock().unwrap();
            // A mark lets all go on that are in flight: until the first generation is written there is one at a time.
            while jobs.len() < self.unconnected.load(Relaxed) && !self.is_in_sync.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            Ok(jobs.pop())
        }
        fn look_up(&self, _: &[CoinKey], _: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
            Ok(())
        }
        fn connected(&self, _: &Connected<'_>) -> Result<(), Fault> {
            self.unconnected.fetch_sub(1, Relaxed);
            Ok(())
        }
        fn flush_is_due(&self) -> bool {
            false
        }
        fn sync(&self, _: Tip) -> Result<(), Fault> {
            self.is_in_sync.store(true, Relaxed);
            self.may_go_on.lock().unwrap().recv_timeout(HANGS).map_err(|_| Fault::internal("the test has ended"))
        }
        fn begin_commit(&self, _: Tip, _: u64, _: u64) -> Result<bool, Fault> {
            Ok(true)
        }
        fn write_part(&self, _: usize, _: &[Generation]) -> Result<(), Fault> {
            self.parts.fetch_add(1, Relaxed);
            Err(Fault::internal("the disk fails"))
        }
        fn finish_commit(&self, _: Tip) -> Result<(), Fault> {
            Ok(())
        }
        fn compact(&self) -> Result<bool, Fault> {
            Ok(false)
        }
        fn table_bytes(&self) -> usize {
            0
        }
        fn stopping(&self) -> bool {
            false
        }
    }

    /// Blocks 1 to `count` on regtest's genesis block, the last one first.
    fn jobs(params: &Params, count: u32) -> Vec<Job> {
        let blocks = testkit::blocks::chain(&params.genesis, count);
        let job = |height: usize| {
            let header = Header(*blocks[height].first_chunk().unwrap());
            let at = HeaderContext {
                node: NodeId::new(height),
                hash: header.hash(),
                header,
                height: Height::new(height as u32),
                parent_mtp: MedianTime::ZERO,
                cleanup: consensus::Cleanup::Off,
            };
            let flags = script::Flags::NONE;
            let context = BlockContext { at, script_reason: None, flags, bip30: Bip30::NotEnforced, overwrites: false };
            Job { context, bytes: blocks[height].clone().into(), checked: None, contextual: false, undo: None }
        };
        (1..blocks.len()).rev().map(job).collect()
    }

    /// A block waits for room while the generation before it is written, and the disk fails in a part of that: the other
    /// parts wait in the queue, no worker is to take them any more, and each worker has to leave the lock to the others.
    #[test]
    fn worker_without_a_turn_unlocks_the_scheduler() {
        for par in [2, 3] {
            // Its threads outlive the test where they hang.
            let params: &Params = Box::leak(Box::new(Params::new(Chain::Regtest)));
            let (go_on, may_go_on) = channel();
            let world: &Failing = Box::leak(Box::new(Failing {
                jobs: Mutex::new(jobs(params, BLOCKS)),
                unconnected: AtomicUsize::new(BLOCKS as usize),
                is_in_sync: AtomicBool::new(false),
                may_go_on: Mutex::new(may_go_on),
                parts: AtomicU32::new(0),
            }));
            // One byte: there is never room, and nothing but a mark lets a block go on.
            let settings = Settings { par, window_blocks: 64, budget_bytes: 1 };
            let pipeline = Box::leak(Box::new(Pipeline::new(world, params, settings, HashKey([1; 4]))));
            pipeline.set_times(Arc::new((0..=BLOCKS).map(MedianTime::new).collect()));
            let pipeline = &*pipeline;
            let (done, ended) = channel();
            std::thread::spawn(move || done.send(pipeline.run().is_err()));
            let begun = Instant::now();
            while !(world.is_in_sync.load(Relaxed) && pipeline.scheduler().is_gated()) {
                assert!(begun.elapsed() < HANGS, "{par} workers: a block waits for room");
                std::thread::sleep(Duration::from_millis(1));
            }
            go_on.send(()).unwrap();
            let has_failed = ended.recv_timeout(HANGS).unwrap_or_else(|_| panic!("{par} workers: the run hangs"));
            assert!(has_failed, "{par} workers");
            let parts = world.parts.load(Relaxed);
            assert!((1..=par as u32).contains(&parts), "{par} workers began {parts} parts");
        }
    }
}
