//! Decides when a job interrupts its work for requests that only its own thread can serve.
//!
//! While blocks are connected in bulk, the blocks in flight must be committed first: this happens at most once per
//! [`TURN_INTERVAL`], regardless of the number of requests. A job that waits for blocks serves requests immediately.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Minimum time between two turns while blocks are connected in bulk.
const TURN_INTERVAL: Duration = Duration::from_millis(500);

/// Number of waiting requests, and time of the last turn.
#[derive(Debug)]
pub(crate) struct Turn {
    start: Instant,
    waiting: AtomicUsize,
    /// The job's thread is serving requests: its own work on them is not interrupted by further requests.
    is_on: AtomicBool,
    /// End of the last turn, in milliseconds after `start`.
    last_ms: AtomicU64,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn {
            start: Instant::now(),
            waiting: AtomicUsize::new(0),
            is_on: AtomicBool::new(false),
            last_ms: AtomicU64::new(0),
        }
    }
}

impl Turn {
    /// Adds a waiting request.
    pub(crate) fn asked(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// Whether a request waits.
    pub(crate) fn is_asked(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }

    /// Whether a request waits and the last turn is long enough ago to interrupt bulk work. Costs one atomic load per
    /// block otherwise.
    pub(crate) fn is_due(&self) -> bool {
        self.is_asked() && !self.is_on.load(Relaxed) && {
            let since = self.start.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Relaxed)));
            since > TURN_INTERVAL
        }
    }

    /// Starts a turn.
    pub(crate) fn begun(&self) {
        self.is_on.store(true, Relaxed);
    }

    /// Ends a turn in which `count` requests were served.
    pub(crate) fn ended(&self, count: usize) {
        self.is_on.store(false, Relaxed);
        self.waiting.fetch_sub(count, Relaxed);
        self.last_ms.store(self.start.elapsed().as_millis() as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_due_while_one_waits_and_after_a_while() {
        let turn = Turn::default();
        turn.asked();
        turn.asked();
        assert!(turn.is_asked());
        while !turn.is_due() {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(turn.start.elapsed() > TURN_INTERVAL);
        turn.begun();
        assert!(turn.is_asked() && !turn.is_due(), "what an answer connects is not held up");
        turn.ended(1);
        assert!(turn.is_asked(), "the other one waits");
        turn.ended(1);
        assert!(!turn.is_asked() && !turn.is_due());
    }
}
