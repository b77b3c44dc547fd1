//! Signals: Ctrl-C and SIGTERM stop a run cleanly; SIGHUP reopens debug.log, as in Core; SIGUSR1 pauses the
//! download of a sync, SIGUSR2 resumes it.

use crate::Failure;
use node::ReopenLog;
use node::jobs::DownloadSwitch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::Arc;

/// The meaning of SIGHUP.
#[derive(Clone, Debug)]
pub(crate) enum Hangup {
    /// The terminal was closed, and the result has no reader: handled like Ctrl-C.
    Ends,
    /// Log rotation has renamed debug.log.
    ReopensLog(ReopenLog),
}

/// Starts a thread that calls `stop` at each terminating signal.
///
/// # Errors
///
/// The handler or its thread cannot be created.
pub(crate) fn heed(hangup: Hangup, stop: impl Fn() + Send + 'static) -> Result<(), Failure> {
    let refused = |why: std::io::Error| {
        Failure::fault(format!("the handler for Ctrl-C cannot be set: {why}"), crate::limits::THREADS)
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let heed = move || {
        for signal in signals.forever() {
            match (signal, &hangup) {
                (SIGHUP, Hangup::ReopensLog(log)) => log.ask(),
                _ => stop(),
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(heed).map_err(refused)?;
    Ok(())
}

/// Starts a thread that pauses the download of blocks at SIGUSR1, and resumes it at SIGUSR2.
///
/// # Errors
///
/// The handler or its thread cannot be created.
pub(crate) fn heed_download(switch: Arc<DownloadSwitch>) -> Result<(), Failure> {
    let refused = |why: std::io::Error| {
        Failure::fault(format!("the handler for SIGUSR1 cannot be set: {why}"), crate::limits::THREADS)
    };
    let mut signals = Signals::new([SIGUSR1, SIGUSR2]).map_err(refused)?;
    let heed = move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 { switch.pause() } else { switch.resume() }
        }
    };
    std::thread::Builder::new().name("download".to_owned()).spawn(heed).map_err(refused)?;
    Ok(())
}
