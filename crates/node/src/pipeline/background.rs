//! Background work during a run: writing a sealed generation, compacting tables.

use super::Pipeline;
use super::scheduler::Background;
use crate::fault::Fault;
use crate::pipeline::stats::Stage;
use std::time::Instant;

impl Pipeline<'_> {
    pub(super) fn do_background(&self, work: Background) -> Result<(), Fault> {
        let ready = match work {
            Background::Sync => self.sync(),
            Background::Begin => self.begin(),
            Background::WritePart { part } => self.write_part(part),
            Background::Finish => self.finish(),
            Background::Compact => self.compact(),
        }?;
        self.wake(ready);
        Ok(())
    }

    /// Makes block and undo data and the index durable, before the coins that depend on them.
    fn sync(&self) -> Result<usize, Fault> {
        let tip = self.scheduler().writing().tip();
        self.stats.begin_flush();
        let (result, now) = self.stats.timed(Stage::Sync, || self.backend.sync(tip));
        result?;
        Ok(self.scheduler().synced(now))
    }

    fn begin(&self) -> Result<usize, Fault> {
        let (tip, (records, bytes)) = {
            let scheduler = self.scheduler();
            (scheduler.writing().tip(), scheduler.writing().size())
        };
        let (has_begun, now) =
            self.stats.timed(Stage::Write, || self.backend.begin_commit(tip, records as u64, bytes as u64));
        let has_begun = has_begun?;
        Ok(self.scheduler().begun(has_begun, now))
    }

    fn write_part(&self, part: usize) -> Result<usize, Fault> {
        let (first, groups) = self.scheduler().writing().part(part);
        let (written, now) = match groups {
            Some(groups) => self.stats.timed(Stage::Write, || self.backend.write_part(first, &groups)),
            None => (Ok(()), Instant::now()),
        };
        let no_space = no_space_of(written)?;
        let written = self.scheduler().part_written(no_space, now);
        written.or_else(|fault| self.begin_again(fault))
    }

    fn finish(&self) -> Result<usize, Fault> {
        let tip = self.scheduler().writing().tip();
        let (finished, now) = self.stats.timed(Stage::Write, || self.backend.finish_commit(tip));
        if let Some(fault) = no_space_of(finished)? {
            self.scheduler().finish_failed();
            return self.begin_again(fault);
        }
        let mut scheduler = self.scheduler();
        let (seal, ready) = scheduler.finished(now);
        let evicted = if scheduler.is_gated() { self.keep_budget(&mut scheduler) } else { Vec::new() };
        drop(scheduler);
        self.stats.add_flush();
        self.work_done.notify_all();
        drop((seal, evicted)); // Not under the lock.
        Ok(ready)
    }

    /// The disk was full: waits for free space, then begins the commit again.
    fn begin_again(&self, fault: Fault) -> Result<usize, Fault> {
        self.backend.drop_commit(fault)?;
        Ok(self.scheduler().begin_again(Instant::now()))
    }

    fn compact(&self) -> Result<usize, Fault> {
        let (has_more, now) = self.stats.timed(Stage::Compact, || self.backend.compact());
        let has_more = has_more?;
        Ok(self.scheduler().compacted(has_more, now))
    }
}

/// Returns the fault of a full disk, for which the caller can wait; passes any other fault on.
fn no_space_of(result: Result<(), Fault>) -> Result<Option<Fault>, Fault> {
    match result {
        Ok(()) => Ok(None),
        Err(fault) if fault.is_no_space() => Ok(Some(fault)),
        Err(fault) => Err(fault),
    }
}
