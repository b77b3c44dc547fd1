//! How fast a job is of late, what it waits for, and how long the rest takes.
//!
//! The time to go is the remaining work over the recent rate of work, never a share of heights: early blocks are small.
//! Work is bytes and inputs; where the network is the limit, bytes alone.

use node::options::Progress;
use node::stats::{STAGES, Stage};
use std::collections::VecDeque;
use std::time::Duration;

/// Rates are means over at least these seconds, and over a tenth of a long run.
const WINDOW_S: f64 = 30.0;
const WINDOW_SHARE: f64 = 0.1;
/// Two samples kept for rates are this many seconds apart, or a hundredth of the window.
const SAMPLE_S: f64 = 0.3;
/// Bytes that take as long as one input: in a reindex, an input took 1.3 us of one processor, and
/// reading and decoding 2.2 ns a byte (`bench/record/2026-11-21-baseline.md`).
const INPUT_BYTES: f64 = 600.0;
/// Share of the time spent waiting from which a thread counts as waiting.
const WAITING_SHARE: f64 = 0.5;

/// The limit where the workers wait for peers.
pub const NETWORK: &str = "network";

/// Recent rates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Rates {
    /// Blocks a second.
    pub blocks: f64,
    /// Bytes of blocks a second.
    pub bytes: f64,
    /// Inputs a second.
    pub inputs: f64,
    /// Inputs per byte since the start.
    pub density: f64,
    /// What the work waits for: `processor`, `disk`, `network`; empty where nothing is left to do.
    pub limit: &'static str,
}

/// What rates are computed from.
#[derive(Clone, Debug)]
struct Sample {
    seconds: f64,
    height: u32,
    bytes: u64,
    inputs: u64,
    read: Duration,
    wait: Duration,
}

impl Sample {
    fn of(progress: &Progress) -> Sample {
        let (busy, waited) = (|stage| of(&progress.stats.busy, stage), |stage| of(&progress.stats.waited, stage));
        Sample {
            seconds: progress.seconds,
            height: progress.height.to_u32(),
            bytes: progress.bytes,
            inputs: progress.stats.inputs,
            read: busy(Stage::Read) + waited(Stage::Read),
            wait: busy(Stage::Wait),
        }
    }
}

/// Time of a stage.
fn of(times: &[Duration; STAGES.len()], stage: Stage) -> Duration {
    STAGES.iter().position(|(one, _)| *one == stage).map_or(Duration::ZERO, |index| times[index])
}

/// What limits the work: workers without a task wait for the source, or for memory that is being written.
fn limit(first: &Sample, last: &Sample, workers: usize, has_network: bool) -> &'static str {
    let seconds = last.seconds - first.seconds;
    let share = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() / seconds;
    if share(first.wait, last.wait) < WAITING_SHARE * workers as f64 {
        "processor"
    } else if share(first.read, last.read) < WAITING_SHARE || !has_network {
        "disk"
    } else {
        NETWORK
    }
}

/// The samples of a while, from which rates are computed.
#[derive(Debug, Default)]
pub struct Window {
    samples: VecDeque<Sample>,
}

impl Window {
    /// Takes a sample, and gives the rates up to it.
    pub fn add(&mut self, progress: &Progress, workers: usize) -> Rates {
        let now = Sample::of(progress);
        let width = WINDOW_S.max(now.seconds * WINDOW_SHARE);
        let gap = SAMPLE_S.max(width / 100.0);
        // One sample at the far end of the window, or before it, is kept.
        while self.samples.get(1).is_some_and(|second| now.seconds - second.seconds >= width) {
            self.samples.pop_front();
        }
        let Some(first) = self.samples.front().cloned() else {
            self.samples.push_back(now);
            return Rates::default();
        };
        if self.samples.back().is_some_and(|last| now.seconds - last.seconds >= gap) {
            self.samples.push_back(now.clone());
        }
        let seconds = now.seconds - first.seconds;
        if seconds < SAMPLE_S {
            return Rates::default();
        }
        Rates {
            blocks: f64::from(now.height.abs_diff(first.height)) / seconds,
            bytes: now.bytes.saturating_sub(first.bytes) as f64 / seconds,
            inputs: now.inputs.saturating_sub(first.inputs) as f64 / seconds,
            density: now.inputs as f64 / now.bytes.max(1) as f64,
            // With everything known connected, there is no limit but new blocks.
            limit: match progress.height < progress.height_end {
                true => limit(&first, &now, workers, progress.peers.is_some()),
                false => "",
            },
        }
    }
}

/// Seconds that the remaining work will take, if known. The number of inputs in the remaining blocks is not known:
/// as many per byte as before.
pub fn seconds_to_go(progress: &Progress, rates: &Rates) -> Option<f64> {
    let left = progress.bytes_end.checked_sub(progress.bytes)? as f64;
    let of_input = if rates.limit == NETWORK { 0.0 } else { INPUT_BYTES };
    let known = progress.bytes_end > 0 && rates.bytes > 0.0;
    known.then(|| left * (1.0 + rates.density * of_input) / (rates.bytes + rates.inputs * of_input))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;

    fn at(seconds: f64, height: u32, bytes: u64) -> Progress {
        Progress {
            height: Height::new(height),
            height_end: Height::new(1_000_000),
            bytes,
            bytes_end: 10_000_000_000,
            seconds,
            ..Progress::default()
        }
    }

    fn with_busy(mut progress: Progress, stage: Stage, seconds: f64) -> Progress {
        let index = STAGES.iter().position(|(one, _)| *one == stage).unwrap();
        progress.stats.busy[index] = Duration::from_secs_f64(seconds);
        progress
    }

    #[test]
    fn rates_are_means_over_the_window() {
        let mut window = Window::default();
        assert_eq!(window.add(&at(0.0, 0, 0), 2), Rates::default(), "one sample has no rate");
        assert_eq!(window.add(&at(0.1, 5, 5), 2), Rates::default(), "too close");
        // 1 MB/s for 100 s, then 3 MB/s for 60 s.
        let mut rates = Rates::default();
        for second in 1..=160u32 {
            let bytes = u64::from(second.min(100)) * 1_000_000 + u64::from(second.saturating_sub(100)) * 3_000_000;
            rates = window.add(&at(second.into(), second * 10, bytes), 2);
            if second == 100 {
                assert!((rates.bytes - 1e6).abs() < 1e4, "{rates:?}");
            }
        }
        assert!((rates.bytes - 3e6).abs() < 3e4 && (rates.blocks - 10.0).abs() < 0.1, "{rates:?}");
        assert!(window.samples.len() <= 110, "{} samples are kept", window.samples.len());
        let slow = window.add(&at(161.0, 1_610, 280_000_000), 2);
        let left = seconds_to_go(&at(161.0, 1_610, 280_000_000), &slow).unwrap();
        assert!((3_300.0..3_400.0).contains(&left), "{left} s for 9.72 GB at 2.9 MB/s");
    }

    #[test]
    fn time_to_go_needs_an_end_and_a_rate() {
        let rates = Rates { blocks: 1.0, bytes: 1e6, limit: "disk", ..Rates::default() };
        // 5,000 inputs in a megabyte so far, twice as many of late: 4 MB of work a megabyte, and 7 MB a second.
        let dense = Rates { inputs: 10_000.0, density: 0.005, ..rates };
        for (row, progress, rates, want) in [
            ("known", at(1.0, 1, 9_000_000_000), rates, Some(1_000.0)),
            ("more inputs of late", at(1.0, 1, 9_000_000_000), dense, Some(4_000.0 / 7.0)),
            ("bytes alone", at(1.0, 1, 9_000_000_000), Rates { limit: NETWORK, ..dense }, Some(1_000.0)),
            ("no speed", at(1.0, 1, 0), Rates::default(), None),
            ("no end", Progress { bytes_end: 0, ..at(1.0, 1, 0) }, rates, None),
            ("beyond the end", Progress { bytes_end: 5, ..at(1.0, 1, 6) }, rates, None),
            ("at the end", Progress { bytes_end: 6, ..at(1.0, 1, 6) }, rates, Some(0.0)),
        ] {
            assert_eq!(seconds_to_go(&progress, &rates), want, "{row}");
        }
    }

    #[test]
    fn limit_is_what_the_waiting_threads_wait_for() {
        for (row, wait, read, has_network, want) in [
            ("workers work", 0.5, 9.0, false, "processor"),
            ("all wait for peers", 18.0, 9.0, true, "network"),
            ("all wait for files", 18.0, 9.0, false, "disk"),
            ("all wait for memory", 18.0, 0.5, true, "disk"),
        ] {
            let (first, last) = (at(0.0, 0, 0), with_busy(at(10.0, 0, 0), Stage::Wait, wait));
            let last = with_busy(last, Stage::Read, read);
            assert_eq!(limit(&Sample::of(&first), &Sample::of(&last), 2, has_network), want, "{row}");
        }
    }

    #[test]
    fn limit_at_the_known_tip_is_empty() {
        for (row, height, want) in [("on its way", 500, "processor"), ("at the end", 1_000_000, "")] {
            let mut window = Window::default();
            window.add(&at(0.0, height, 0), 2);
            assert_eq!(window.add(&at(10.0, height, 0), 2).limit, want, "{row}");
        }
    }
}
