//! How long an operation took, counted in a few buckets: for monitors, at the cost of two additions.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Number of bounds. The last bucket has no upper bound.
pub const BOUNDS: usize = 9;

/// The bounds of look-ups of one block's coins, in seconds.
pub const LOOK_UP_S: [f64; BOUNDS] = [0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// The bounds of flushes, in seconds.
pub const FLUSH_S: [f64; BOUNDS] = [0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// A histogram to which several threads add.
#[derive(Default)]
pub(crate) struct AtomicHistogram {
    counts: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
}

/// A copy of the counts at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// Number of operations in each bucket: at most its bound ([`FLUSH_S`], [`LOOK_UP_S`]), and above the bound before it.
    pub counts: [u64; BOUNDS + 1],
    /// Sum of all times.
    pub sum: Duration,
}

impl AtomicHistogram {
    pub(crate) fn add(&self, bounds: &[f64; BOUNDS], time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = bounds.iter().position(|&bound| seconds <= bound).unwrap_or(BOUNDS);
        self.counts[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    pub(crate) fn copy(&self) -> Histogram {
        let counts = std::array::from_fn(|bucket| self.counts[bucket].load(Relaxed));
        Histogram { counts, sum: Duration::from_nanos(self.sum_ns.load(Relaxed)) }
    }
}

impl Histogram {
    /// Adds the counts of an earlier run.
    pub(crate) fn add(&mut self, earlier: &Histogram) {
        self.counts.iter_mut().zip(earlier.counts).for_each(|(sum, more)| *sum += more);
        self.sum += earlier.sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_in_the_bucket_whose_bound_it_does_not_exceed() {
        let histogram = AtomicHistogram::default();
        for ms in [0, 100, 101, 1_000_000] {
            histogram.add(&FLUSH_S, Duration::from_millis(ms));
        }
        let mut copy = histogram.copy();
        assert_eq!(copy.counts, [1, 1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(copy.sum, Duration::from_millis(1_000_201));
        copy.add(&histogram.copy());
        assert_eq!(copy.counts.iter().sum::<u64>(), 8);
    }
}
