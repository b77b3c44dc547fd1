//! The clock of a run: the machine's, or one that `-mocktime` or a call stops.

use consensus::Chain;
#[cfg(feature = "server")]
use consensus::Params;
use node::options::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time of `-mocktime`, for a clock that is a plain function; 0 for the machine's time.
static MOCK_TIME: AtomicU64 = AtomicU64::new(0);

/// The clock that stands at `mock`, or the machine's; on a network where it may be stopped later, one that looks.
pub(crate) fn clock(mock: Option<u64>, chain: Chain) -> Clock {
    if chain != Chain::Regtest {
        return SystemTime::now;
    }
    set(mock.unwrap_or(0));
    || match MOCK_TIME.load(Relaxed) {
        0 => SystemTime::now(),
        time => UNIX_EPOCH + Duration::from_secs(time),
    }
}

/// What stops the clock, on regtest alone.
#[cfg(feature = "server")]
pub(crate) fn setter(params: &Params) -> Option<fn(u64)> {
    (params.chain == Chain::Regtest).then_some(set)
}

fn set(time: u64) {
    MOCK_TIME.store(time, Relaxed);
}
