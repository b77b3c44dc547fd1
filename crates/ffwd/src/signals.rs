//! Signals: Ctrl-C and SIGTERM stop a run cleanly; SIGHUP reopens debug.log, as in Core; SIGUSR1 pauses the
//! download of a sync, SIGUSR2 resumes it.

use crate::Failure;
use node::ReopenLog;
use node::jobs::DownloadSwitch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The meaning of SIGHUP.
#[derive(Clone, Debug)]
pub(crate) enum Hangup {
    /// The terminal was closed, and the result has no reader: handled like Ctrl-C.
    Ends,
    /// Log rotation has renamed debug.log.
    ReopensLog(ReopenLog),
}

/// How long after the first Ctrl-C another one ends the program at once. A shorter one is the same wish: a key that
/// bounces, or a program that signals a process and then its group.
const PATIENCE: Duration = Duration::from_secs(1);

/// The Ctrl-C that came so far. SIGTERM and the call `stop` never end the program at once: service managers send one after
/// the other.
#[derive(Default)]
struct Interrupts {
    first: Option<Duration>,
}

impl Interrupts {
    /// Whether a signal ends the program at once; `now` is the time since the program began.
    fn ends_at_once(&mut self, signal: i32, now: Duration) -> bool {
        signal == SIGINT && now >= *self.first.get_or_insert(now) + PATIENCE
    }
}

/// Starts a thread that calls `stop` at each terminating signal, with whether it ends the program at once.
///
/// # Errors
///
/// The handler or its thread cannot be created.
pub(crate) fn heed(hangup: Hangup, stop: impl Fn(bool) + Send + 'static) -> Result<(), Failure> {
    let refused = |why: std::io::Error| {
        Failure::fault(format!("the handler for Ctrl-C cannot be set: {why}"), crate::limits::THREADS)
    };
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(refused)?;
    let begun = Instant::now();
    let heed = move || {
        let mut interrupts = Interrupts::default();
        for signal in signals.forever() {
            match (signal, &hangup) {
                (SIGHUP, Hangup::ReopensLog(log)) => log.ask(),
                _ => stop(interrupts.ends_at_once(signal, begun.elapsed())),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_ctrl_c_ends_at_once_and_nothing_else_does() {
        let ms = Duration::from_millis;
        for (row, signals, want) in [
            ("SIGTERM twice", &[(SIGTERM, ms(0)), (SIGTERM, ms(60_000))][..], &[false, false][..]),
            ("SIGTERM and Ctrl-C", &[(SIGTERM, ms(0)), (SIGINT, ms(5000))], &[false, false]),
            ("one key press", &[(SIGINT, ms(5000)), (SIGINT, ms(5999))], &[false, false]),
            ("two", &[(SIGINT, ms(5000)), (SIGINT, ms(6000))], &[false, true]),
            (
                "impatient",
                &[(SIGINT, ms(0)), (SIGINT, ms(500)), (SIGTERM, ms(900)), (SIGINT, ms(1500))],
                &[false, false, false, true],
            ),
        ] {
            let mut interrupts = Interrupts::default();
            let got: Vec<bool> = signals.iter().map(|&(signal, now)| interrupts.ends_at_once(signal, now)).collect();
            assert_eq!(got, want, "{row}");
        }
    }
}
