//! Writes results to standard output, and remembers whether one was lost.

use crate::Failure;
use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a result could not be written.
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Writes a result to standard output. A reader that has closed it is not an error; any other is printed, and is
/// [`lost`].
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    if let Err(why) = written
        && why.kind() != ErrorKind::BrokenPipe
    {
        let advice = "Make room, or name another output, and run it again; the work itself is done";
        Failure::fault(format!("standard output cannot be written: {why}"), advice).tell();
        IS_LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether a result was lost: the exit code is not 0 then.
pub(crate) fn lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}
