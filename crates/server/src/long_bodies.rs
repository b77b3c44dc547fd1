//! Slots for bodies of more than a MiB: a few, only for callers with a correct password. While another upload waits
//! for a slot, one that is slower than [`SLOWEST_BYTES_A_S`] loses its slot: an idle upload delays no other.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Maximum number of concurrent bodies of more than a MiB.
const LONG_BODIES: usize = 2;
/// Minimum bytes a second of a long body, from its beginning on, while others wait for its slot.
pub(crate) const SLOWEST_BYTES_A_S: u64 = 1 << 20;
/// The minimum rate applies after the first second.
const GRACE: Duration = Duration::from_secs(1);

/// The slots for long bodies.
#[derive(Debug)]
pub(crate) struct LongBodies {
    places: Semaphore,
    /// Number of uploads that wait for a slot.
    waiting: AtomicUsize,
}

impl Default for LongBodies {
    fn default() -> LongBodies {
        LongBodies { places: Semaphore::new(LONG_BODIES), waiting: AtomicUsize::new(0) }
    }
}

/// A waiting upload, counted until this is dropped.
struct Waits<'l>(&'l LongBodies);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl LongBodies {
    /// Waits for a slot.
    pub(crate) async fn place(&self) -> Option<SemaphorePermit<'_>> {
        self.waiting.fetch_add(1, Relaxed);
        let _waits = Waits(self);
        // It is never closed.
        self.places.acquire().await.ok()
    }

    /// Whether an upload with `bytes` received since `begun` must release its slot.
    pub(crate) fn is_too_slow(&self, bytes: usize, begun: Instant) -> bool {
        let wanted = begun.elapsed().saturating_sub(GRACE).as_millis() * u128::from(SLOWEST_BYTES_A_S) / 1000;
        self.waiting.load(Relaxed) > 0 && (bytes as u128) < wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upload_is_too_slow_by_its_rate_and_only_while_another_waits() {
        let bodies = LongBodies::default();
        let before = |ms| Instant::now().checked_sub(Duration::from_millis(ms)).unwrap();
        assert!(!bodies.is_too_slow(0, before(60_000)), "nobody waits");
        bodies.waiting.store(1, Relaxed);
        for (row, bytes, ms, want) in [
            ("its first second", 0, 900, false),
            ("idle", 0, 1_100, true),
            ("fast enough", 2 << 20, 2_500, false),
            ("begun fast, idle since", 2 << 20, 4_000, true),
        ] {
            assert_eq!(bodies.is_too_slow(bytes, before(ms)), want, "{row}");
        }
    }
}
