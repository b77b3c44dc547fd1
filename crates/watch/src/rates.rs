//! Recent speed of a job, and the estimated time left.
//!
//! The time left is the remaining work divided by the recent rate of work, never a share of heights: early blocks are
//! small.
//! Work is bytes and inputs; if the network is the limit, only bytes.

use node::reporting::Progress;
use node::reporting::state::{Limit, SessionState};
use std::collections::VecDeque;

/// Rates are means over at least these seconds, or over a tenth of a long run.
const WINDOW_S: f64 = 30.0;
const WINDOW_SHARE: f64 = 0.1;
/// Minimum interval of stored samples in seconds, or a hundredth of the window.
const SAMPLE_S: f64 = 0.3;
/// Number of bytes that take as long as one input: in a reindex, an input took 1.3 us of one processor, and reading
/// and decoding 2.2 ns a byte (`bench/record/2026-11-21-baseline.md`).
const INPUT_BYTES: f64 = 600.0;
/// Maximum progress shown before the tip is reached: some work is left.
const UNDONE_SHARE_MAX: f64 = 0.999;

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
}

/// Sample of the counters.
#[derive(Clone, Debug)]
struct Sample {
    seconds: f64,
    height: u32,
    bytes: u64,
    inputs: u64,
}

impl Sample {
    fn of(progress: &Progress) -> Sample {
        Sample {
            seconds: progress.seconds,
            height: progress.height.to_u32(),
            bytes: progress.bytes,
            inputs: progress.stats.inputs,
        }
    }
}

/// Recent samples, from which rates are computed.
#[derive(Debug, Default)]
pub struct Window {
    samples: VecDeque<Sample>,
}

impl Window {
    /// Adds a sample, and returns the rates up to it.
    pub fn add(&mut self, progress: &Progress) -> Rates {
        let now = Sample::of(progress);
        let width = WINDOW_S.max(now.seconds * WINDOW_SHARE);
        let gap = SAMPLE_S.max(width / 100.0);
        // One sample at or before the far end of the window is kept.
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
        }
    }
}

/// Estimated seconds for the remaining work, if known. The number of inputs in the remaining blocks is extrapolated
/// from the inputs per byte so far. `None` while the work waits for something.
pub fn seconds_to_go(progress: &Progress, rates: &Rates) -> Option<f64> {
    // On a rate-limited line a block takes longer: that is not a standstill.
    let is_limited = progress.download_rate_max.is_some() && matches!(progress.state, SessionState::WaitingForBlock(_));
    if !progress.state.is_working() && !is_limited {
        return None;
    }
    let left = progress.bytes_end.checked_sub(progress.bytes)? as f64;
    let of_input = if progress.limit == Some(Limit::Network) { 0.0 } else { INPUT_BYTES };
    let is_known = progress.bytes_end > 0;
    let by_rate = || left * (1.0 + rates.density * of_input) / (rates.bytes + rates.inputs * of_input);
    let measured = (is_known && !is_limited && rates.bytes > 0.0).then(by_rate);
    // The download is not faster than its limit, whatever the recent rate was.
    let by_budget = progress.download_rate_max.filter(|_| is_known).map(|rate| left / rate.max(1.0));
    measured.into_iter().chain(by_budget).reduce(f64::max)
}

/// Share of the work that is done, 0 to 1: by bytes of blocks. It is 1 if the tip is reached, or a job without peers
/// is finished.
pub fn share(progress: &Progress) -> f64 {
    if matches!(progress.state, SessionState::Following { .. } | SessionState::Serving) {
        return 1.0;
    }
    let (done, all) = match progress.bytes_end {
        0 => (f64::from(progress.height.to_u32()), f64::from(progress.height_end.to_u32())),
        all => (progress.bytes as f64, all as f64),
    };
    let max = if progress.peers.is_some() { UNDONE_SHARE_MAX } else { 1.0 };
    if all > 0.0 { (done / all).clamp(0.0, max) } else { 0.0 }
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
            state: SessionState::Blocks,
            ..Progress::default()
        }
    }

    #[test]
    fn rates_are_means_over_the_window() {
        let mut window = Window::default();
        assert_eq!(window.add(&at(0.0, 0, 0)), Rates::default(), "one sample has no rate");
        assert_eq!(window.add(&at(0.1, 5, 5)), Rates::default(), "too close");
        // 1 MB/s for 100 s, then 3 MB/s for 60 s.
        let mut rates = Rates::default();
        for second in 1..=160u32 {
            let bytes = u64::from(second.min(100)) * 1_000_000 + u64::from(second.saturating_sub(100)) * 3_000_000;
            rates = window.add(&at(second.into(), second * 10, bytes));
            if second == 100 {
                assert!((rates.bytes - 1e6).abs() < 1e4, "{rates:?}");
            }
        }
        assert!((rates.bytes - 3e6).abs() < 3e4 && (rates.blocks - 10.0).abs() < 0.1, "{rates:?}");
        assert!(window.samples.len() <= 110, "{} samples are kept", window.samples.len());
        let slow = window.add(&at(161.0, 1_610, 280_000_000));
        let left = seconds_to_go(&at(161.0, 1_610, 280_000_000), &slow).unwrap();
        assert!((3_300.0..3_400.0).contains(&left), "{left} s for 9.72 GB at 2.9 MB/s");
    }

    #[test]
    fn time_to_go_needs_an_end_and_a_rate() {
        let rates = Rates { blocks: 1.0, bytes: 1e6, ..Rates::default() };
        // 5,000 inputs in a megabyte so far, twice as many of late: 4 MB of work a megabyte, and 7 MB a second.
        let dense = Rates { inputs: 10_000.0, density: 0.005, ..rates };
        for (row, progress, rates, want) in [
            ("known", at(1.0, 1, 9_000_000_000), rates, Some(1_000.0)),
            ("more inputs of late", at(1.0, 1, 9_000_000_000), dense, Some(4_000.0 / 7.0)),
            (
                "bytes alone",
                Progress { limit: Some(Limit::Network), ..at(1.0, 1, 9_000_000_000) },
                dense,
                Some(1_000.0),
            ),
            ("waiting", Progress { state: SessionState::NoHeaders, ..at(1.0, 1, 9_000_000_000) }, dense, None),
            ("no speed", at(1.0, 1, 0), Rates::default(), None),
            ("no end", Progress { bytes_end: 0, ..at(1.0, 1, 0) }, rates, None),
            ("beyond the end", Progress { bytes_end: 5, ..at(1.0, 1, 6) }, rates, None),
            ("at the end", Progress { bytes_end: 6, ..at(1.0, 1, 6) }, rates, Some(0.0)),
            (
                "a limited download",
                Progress { download_rate_max: Some(1e5), ..at(1.0, 1, 9_000_000_000) },
                rates,
                Some(10_000.0),
            ),
            (
                "a paused one",
                Progress { download_rate_max: Some(1e5), ..at(1.0, 1, 9_000_000_000) },
                Rates::default(),
                Some(10_000.0),
            ),
        ] {
            assert_eq!(seconds_to_go(&progress, &rates), want, "{row}");
        }
    }

    #[test]
    fn share_is_whole_where_the_chain_is_followed_alone() {
        let height = Height::new(5);
        let all = Progress { height, height_end: height, peers: Some(1), ..Progress::default() };
        let following = SessionState::Following { height };
        for (row, progress, want) in [
            ("nothing known", Progress { height: Height::GENESIS, height_end: Height::GENESIS, ..all.clone() }, 0.0),
            ("all that is known, waiting", Progress { state: SessionState::NoHeaders, ..all.clone() }, 0.999),
            ("all bytes, waiting", Progress { bytes: 9, bytes_end: 9, ..all.clone() }, 0.999),
            ("half", Progress { bytes: 9, bytes_end: 18, ..all.clone() }, 0.5),
            ("following", Progress { state: following, ..all.clone() }, 1.0),
            ("a job without peers", Progress { bytes: 9, bytes_end: 9, peers: None, ..all }, 1.0),
        ] {
            assert_eq!(share(&progress), want, "{row}");
        }
    }
}
