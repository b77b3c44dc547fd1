//! The clock of a run: the machine's, or a mock time set by `-mocktime` or an RPC call.

use consensus::Chain;
#[cfg(feature = "server")]
use consensus::Params;
use node::options::Clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Unix time of `-mocktime`, in a static because [`Clock`] is a plain function. 0 selects the machine's time.
static MOCK_TIME: AtomicU64 = AtomicU64::new(0);

/// The machine's clock; on regtest a clock that returns `mock` if set, and that a call may change later.
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

/// The function that sets the mock time. Only regtest has it.
#[cfg(feature = "server")]
pub(crate) fn setter(params: &Params) -> Option<fn(u64)> {
    (params.chain == Chain::Regtest).then_some(set)
}

fn set(time: u64) {
    MOCK_TIME.store(time, Relaxed);
}
