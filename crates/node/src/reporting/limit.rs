//! The bottleneck while blocks are connected: the processors, the disk, or peers.
//!
//! In: the times that workers and the reading thread waited. Out: a [`Limit`] over the last half minute.

use super::state::Limit;
use crate::pipeline::stats::{STAGES, Snapshot, Stage};
use std::collections::VecDeque;
use std::time::Duration;

/// Length of the time window in seconds, and its minimum.
const WINDOW_S: f64 = 30.0;
const WINDOW_S_MIN: f64 = 0.3;
/// Seconds between two samples that are kept.
const SAMPLE_S: f64 = 1.0;
/// A thread that waits for more than this share of the time counts as waiting.
const WAITING_SHARE: f64 = 0.5;

/// One measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    /// How long the reading thread read and waited.
    read: Duration,
    /// How long workers had no task.
    wait: Duration,
}

/// The samples of the time window.
#[derive(Debug, Default)]
pub struct LimitWindow {
    samples: VecDeque<Sample>,
}

impl LimitWindow {
    /// Adds the counters at `seconds` after the start, and returns the limit for `workers`; `None` before it is
    /// measured. `has_network`: blocks come from peers.
    pub fn add(&mut self, seconds: f64, stats: &Snapshot, workers: usize, has_network: bool) -> Option<Limit> {
        let of = |times: &[Duration; STAGES.len()], stage: Stage| times[stage as usize];
        let read = of(&stats.busy, Stage::Read) + of(&stats.waited, Stage::Read);
        let now = Sample { seconds, read, wait: of(&stats.busy, Stage::Wait) };
        if self.samples.back().is_some_and(|last| now.seconds < last.seconds || now.wait < last.wait) {
            self.samples.clear(); // Another part of the work, whose counters begin anew.
        }
        while self.samples.get(1).is_some_and(|second| now.seconds - second.seconds >= WINDOW_S) {
            self.samples.pop_front();
        }
        if self.samples.back().is_none_or(|last| now.seconds - last.seconds >= SAMPLE_S) {
            self.samples.push_back(now);
        }
        let first = self.samples.front().filter(|first| now.seconds - first.seconds >= WINDOW_S_MIN)?;
        Some(between(first, &now, workers, has_network))
    }
}

fn between(first: &Sample, last: &Sample, workers: usize, has_network: bool) -> Limit {
    let seconds = last.seconds - first.seconds;
    let share = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() / seconds;
    if share(first.wait, last.wait) < WAITING_SHARE * workers as f64 {
        Limit::Processor
    } else if share(first.read, last.read) < WAITING_SHARE || !has_network {
        Limit::Disk
    } else {
        Limit::Network
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(wait_s: f64, read_s: f64) -> Snapshot {
        let mut stats = Snapshot::default();
        stats.busy[Stage::Wait as usize] = Duration::from_secs_f64(wait_s);
        stats.busy[Stage::Read as usize] = Duration::from_secs_f64(read_s);
        stats
    }

    #[test]
    fn limit_is_what_the_waiting_threads_wait_for() {
        for (row, wait, read, has_network, want) in [
            ("workers work", 0.5, 9.0, false, Limit::Processor),
            ("all wait for peers", 18.0, 9.0, true, Limit::Network),
            ("all wait for files", 18.0, 9.0, false, Limit::Disk),
            ("all wait for memory", 18.0, 0.5, true, Limit::Disk),
        ] {
            let mut window = LimitWindow::default();
            assert_eq!(window.add(0.0, &with(0.0, 0.0), 2, has_network), None, "{row}: one sample");
            assert_eq!(window.add(10.0, &with(wait, read), 2, has_network), Some(want), "{row}");
        }
    }

    #[test]
    fn limit_is_of_the_last_half_minute_and_begins_anew_with_the_counters() {
        let mut window = LimitWindow::default();
        for second in 0..100_u32 {
            let (at, idle) = (f64::from(second), f64::from(second.min(50)) * 2.0);
            let limit = window.add(at, &with(idle, 0.0), 2, true);
            let want = (second > 0).then_some(if second < 66 { Limit::Disk } else { Limit::Processor });
            assert_eq!(limit, want, "{second}");
        }
        assert!(window.samples.len() <= 32, "{} samples are kept", window.samples.len());
        assert_eq!(window.add(0.1, &with(0.0, 0.0), 2, true), None, "another part of the work");
    }
}
