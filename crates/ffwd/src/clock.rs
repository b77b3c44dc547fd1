//! The clock of a run: the machine's, or the one that `-mocktime` stops.

use node::options::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time of `-mocktime`, for a clock that is a plain function. Set once, before the work begins.
static MOCK_TIME: AtomicU64 = AtomicU64::new(0);

/// The clock that stands at `mock`, or the machine's.
pub(crate) fn clock(mock: Option<u64>) -> Clock {
    match mock {
        Some(time) => {
            MOCK_TIME.store(time, Relaxed);
            || UNIX_EPOCH + Duration::from_secs(MOCK_TIME.load(Relaxed))
        }
        None => SystemTime::now,
    }
}
