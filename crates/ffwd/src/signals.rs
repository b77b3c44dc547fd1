//! Signals: Ctrl-C and SIGTERM end a run in order, SIGHUP opens debug.log again, as in Core.

use crate::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What SIGHUP means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hangup {
    /// The terminal is gone, and with it who reads the result: as Ctrl-C.
    Ends,
    /// Who rotates logs has renamed debug.log.
    ReopensLog,
}

/// Calls `stop` at each signal that asks for the end, in a thread of its own.
///
/// # Errors
///
/// The system refuses.
pub(crate) fn heed(hangup: Hangup, stop: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let refused = |why: std::io::Error| {
        Failure::fault(format!("the handler for Ctrl-C cannot be set: {why}"), crate::limits::THREADS)
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let heed = move || {
        for signal in signals.forever() {
            match (signal, hangup) {
                (SIGHUP, Hangup::ReopensLog) => node::reopen_logs(),
                _ => stop(),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(heed).map_err(refused)?;
    Ok(())
}
