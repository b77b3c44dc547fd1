//! A full disk: the work pauses, says what it wants, and goes on when there is room.
//!
//! Absent on purpose: what is done again, and from where (the callers').

use super::{Folder, Teller};
use crate::fault::Fault;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Between two tries, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether work that is begun again waits for room, and how long it waited last.
#[derive(Default)]
pub(crate) struct Waits {
    is_said: AtomicBool,
    tries: std::sync::atomic::AtomicU32,
}

impl Waits {
    /// Such work was done.
    pub(crate) fn end(&self, teller: &Teller<'_>) {
        if self.is_said.swap(false, Relaxed) {
            self.tries.store(0, Relaxed);
            tell_end(teller);
        }
    }
}

fn tell(teller: &Teller<'_>, fault: &dyn std::fmt::Display) {
    teller.warn(format!("{fault}. Waiting for room; Ctrl-C stops, and nothing that was committed is lost"));
}

fn tell_end(teller: &Teller<'_>) {
    teller.note("There is room again: going on");
}

fn pause(tries: u32) {
    std::thread::sleep(PAUSE_MAX.min(PAUSE_MIN * 2u32.pow(tries.min(16))));
}

impl Teller<'_> {
    /// Does `work` again and again while the disk is full; says so, and that it goes on. `stop` ends that. Work that may
    /// not be done twice says another fault: a sync that failed.
    pub(crate) fn with_room<R, E: Into<Fault>>(
        &self,
        stop: &AtomicBool,
        mut work: impl FnMut() -> Result<R, E>,
    ) -> Result<R, Fault> {
        let mut tries = 0;
        loop {
            match work().map_err(Into::into) {
                Err(fault) if fault.is_no_space() && !stop.load(Relaxed) => {
                    if tries == 0 {
                        tell(self, &fault);
                    }
                    pause(tries);
                    tries += 1;
                }
                done => {
                    if tries > 0 && done.is_ok() {
                        tell_end(self);
                    }
                    return done;
                }
            }
        }
    }
}

impl Folder<'_> {
    /// [`Teller::with_room`], until this job is to stop.
    pub(crate) fn with_room<R>(&self, work: impl FnMut() -> Result<R, store::Fault>) -> Result<R, Fault> {
        self.teller.with_room(&self.options.stop, work)
    }

    /// Does `work` that can be done without, and says what that means where the disk is full.
    pub(crate) fn if_room(&self, else_: &str, work: impl FnOnce() -> Result<(), store::Fault>) -> Result<(), Fault> {
        match work() {
            Err(fault) if fault.is_no_space() => {
                self.teller.warn(format!("{fault}. {else_}"));
                Ok(())
            }
            done => Ok(done?),
        }
    }

    /// Waits before something is begun again that found no room; says so once, until [`Waits::end`].
    ///
    /// # Errors
    ///
    /// That fault, when it is time to stop.
    pub(super) fn wait_for_room(&self, fault: Fault) -> Result<(), Fault> {
        if self.options.stop.load(Relaxed) {
            return Err(fault);
        }
        if !self.waits.is_said.swap(true, Relaxed) {
            tell(&self.teller, &fault);
        }
        pause(self.waits.tries.fetch_add(1, Relaxed));
        Ok(())
    }
}
