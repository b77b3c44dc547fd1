//! A full disk: the work pauses, reports the space that it needs, and resumes when there is space.
//!
//! Absent on purpose: which work may be repeated, and the text of the lines (`reporter`).

use crate::fault::{Fault, Message};
use crate::reporting::Reporter;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Pause between two tries on a full disk: minimum and maximum.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Reporter<'_> {
    /// Repeats `work` while the disk is full; reports this, and when it resumes. A stop request ends the wait. The
    /// caller must hold no lock that other work waits for. Work that must not be repeated returns another fault: a sync
    /// that failed.
    ///
    /// # Errors
    ///
    /// Errors of `work`; a full disk only after a stop request.
    pub(crate) fn with_room<R, E: Into<Fault>>(&self, mut work: impl FnMut() -> Result<R, E>) -> Result<R, Fault> {
        SpaceWait::default().repeat(self, |_| work().map_err(Into::into))
    }

    /// Runs optional `work`; if the disk is full, warns with `otherwise`, the consequence.
    ///
    /// # Errors
    ///
    /// Errors of `work` except a full disk.
    pub(crate) fn if_room(
        &self,
        otherwise: &str,
        work: impl FnOnce() -> Result<(), store::Fault>,
    ) -> Result<(), Fault> {
        match work() {
            Err(fault) if fault.is_no_space() => {
                self.warn(Message::new(fault.to_string(), otherwise));
                Ok(())
            }
            done => Ok(done?),
        }
    }
}

fn pause(tries: u32) {
    std::thread::sleep(PAUSE_MAX.min(PAUSE_MIN * 2u32.pow(tries.min(16))));
}

/// The wait of pipeline work that is repeated until the disk has space for it.
#[derive(Debug, Default)]
pub(crate) struct SpaceWait {
    is_said: AtomicBool,
    tries: AtomicU32,
}

impl SpaceWait {
    /// Waits before work that found no space is begun again; reports this once, until [`SpaceWait::end`].
    ///
    /// # Errors
    ///
    /// That fault, after a stop request.
    pub(crate) fn wait(&self, reporter: &Reporter<'_>, fault: Fault) -> Result<(), Fault> {
        if reporter.is_stop_asked() {
            return Err(fault);
        }
        if !self.is_said.swap(true, Relaxed) {
            reporter.disk_full(&fault);
        }
        pause(self.tries.fetch_add(1, Relaxed));
        Ok(())
    }

    /// [`Reporter::with_room`] for long work, which calls the function that it gets when it has found space: from then on
    /// it is not shown as waiting.
    ///
    /// # Errors
    ///
    /// Errors of `work`; a full disk only after a stop request.
    pub(crate) fn repeat<R>(
        &self,
        reporter: &Reporter<'_>,
        mut work: impl FnMut(&dyn Fn()) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let done = loop {
            match work(&|| self.end(reporter)) {
                Err(fault) if fault.is_no_space() => {
                    if let Err(fault) = self.wait(reporter, fault) {
                        break Err(fault);
                    }
                }
                done => break done,
            }
        };
        if self.is_said.swap(false, Relaxed) {
            reporter.disk_wait_ended(done.is_ok());
        }
        done
    }

    /// The work was done.
    pub(crate) fn end(&self, reporter: &Reporter<'_>) {
        if self.is_said.swap(false, Relaxed) {
            self.tries.store(0, Relaxed);
            reporter.disk_wait_ended(true);
        }
    }
}
