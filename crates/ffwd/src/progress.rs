//! Progress on standard error: a bar on a terminal, a line every ten seconds elsewhere.
//!
//! The time to go is the remaining work over the recent rate of work, never a share of heights: early blocks are small.
//! Work is bytes and inputs; where the network is the limit, bytes alone.
//! Absent on purpose: standard output, which has results alone.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use node::options::{Event, Options, Progress};
use node::stats::{STAGES, Stage};
use primitives::human;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines without a terminal.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(10);
/// Rates are means over at least these seconds, and over a tenth of a long run.
const WINDOW_S: f64 = 30.0;
const WINDOW_SHARE: f64 = 0.1;
/// Two samples kept for rates are this many seconds apart, or a hundredth of the window.
const SAMPLE_S: f64 = 0.3;
/// Coins per second from which the time of a commit is estimated: well below what one core writes, for disks are slow.
const COMMIT_COINS_PER_S: u64 = 1_000_000;
/// Bytes that take as long as one input: in a reindex, an input took 1.3 us of one processor, and
/// reading and decoding 2.2 ns a byte (`bench/record/2026-11-21-baseline.md`).
const INPUT_BYTES: f64 = 600.0;
/// Share of the time spent waiting from which a thread counts as waiting.
const WAITING_SHARE: f64 = 0.5;

/// The limit where the workers wait for peers.
const NETWORK: &str = "network";

/// Recent rates.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Rates {
    blocks: f64,
    bytes: f64,
    inputs: f64,
    /// Inputs per byte since the start.
    density: f64,
    limit: &'static str,
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

#[derive(Default)]
struct Window {
    samples: VecDeque<Sample>,
}

impl Window {
    fn add(&mut self, progress: &Progress, workers: usize) -> Rates {
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
fn seconds_to_go(progress: &Progress, rates: &Rates) -> Option<f64> {
    let left = progress.bytes_end.checked_sub(progress.bytes)? as f64;
    let of_input = if rates.limit == NETWORK { 0.0 } else { INPUT_BYTES };
    let known = progress.bytes_end > 0 && rates.bytes > 0.0;
    known.then(|| left * (1.0 + rates.density * of_input) / (rates.bytes + rates.inputs * of_input))
}

/// Everything about the progress, in one line; a narrow terminal shows its beginning.
fn line(progress: &Progress, rates: &Rates, dbcache_bytes: u64) -> String {
    let mut parts = vec![format!(
        "height {} of {}",
        human::count(progress.height.to_u32().into()),
        human::count(progress.height_end.to_u32().into())
    )];
    if let Some(height) = progress.presync {
        parts.push(format!("pre-syncing headers: {}", human::count(height.to_u32().into())));
    } else if progress.headers > progress.height_end {
        parts.push(format!("{} headers", human::count(progress.headers.to_u32().into())));
    }
    if rates.bytes > 0.0 {
        parts.push(format!("{} blocks/s", human::figure(rates.blocks)));
        parts.push(format!("{} MB/s", human::figure(rates.bytes / 1e6)));
    }
    let to_go = seconds_to_go(progress, rates).filter(|&seconds| seconds > 0.0);
    parts.extend(to_go.map(|seconds| format!("{} to go", human::duration(seconds))));
    if !rates.limit.is_empty() {
        parts.push(format!("{}-bound", rates.limit));
    }
    parts.extend(progress.peers.map(|peers| match peers {
        0 => "no peers".to_owned(),
        some => human::plural(some.into(), "peer", "peers"),
    }));
    let (mib, of) = (progress.stats.coin_bytes >> 20, dbcache_bytes >> 20);
    parts.push(format!(
        "{} coins in {} of {} MiB",
        human::count(progress.stats.coins),
        human::count(mib),
        human::count(of)
    ));
    if let Some(missed) = (progress.stats.asked * 100).checked_div(progress.stats.spends) {
        parts.push(format!("cache miss rate {missed} %"));
    }
    parts.join(", ")
}

struct State {
    window: Window,
    line_at: Option<Instant>,
    last: Option<Progress>,
}

/// Shows the events of a job.
pub(crate) struct Reporter {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
    dbcache_bytes: u64,
    workers: usize,
    commits_nothing: AtomicBool,
}

impl Reporter {
    /// For a job with these options.
    pub(crate) fn new(options: &Options) -> Arc<Reporter> {
        Arc::new(Reporter {
            bar: std::io::stderr().is_terminal().then(bar),
            state: Mutex::new(State { window: Window::default(), line_at: None, last: None }),
            dbcache_bytes: options.dbcache_bytes as u64,
            workers: options.par,
            commits_nothing: AtomicBool::new(false),
        })
    }

    /// From here on nothing is left to commit: the first Ctrl-C exits.
    pub(crate) fn commits_nothing(&self) {
        self.commits_nothing.store(true, Ordering::SeqCst);
    }

    /// Whether the first Ctrl-C exits.
    pub(crate) fn may_end_at_once(&self) -> bool {
        self.commits_nothing.load(Ordering::SeqCst)
    }

    /// Shows an event of the job; called from any thread.
    pub(crate) fn event(&self, event: Event) {
        match event {
            Event::Note(text) => self.say(&text),
            Event::Warning(text) => self.say(&format!("warning: {text}")),
            Event::Refused { height, hash, why } => {
                self.say(&format!("refused: block {hash} at height {height}: {why}"))
            }
            Event::Progress(progress) => self.progress(*progress),
        }
    }

    /// A line on standard error; above the bar where there is one.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    fn progress(&self, progress: Progress) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = state.window.add(&progress, self.workers);
        match &self.bar {
            Some(bar) => {
                bar.set_length(progress.bytes_end.max(progress.bytes).max(1));
                bar.set_position(progress.bytes);
                bar.set_message(line(&progress, &rates, self.dbcache_bytes));
            }
            None => {
                let due = state.line_at.get_or_insert_with(Instant::now).elapsed() >= LINE_EVERY;
                if due {
                    state.line_at = Some(Instant::now());
                    say(&line(&progress, &rates, self.dbcache_bytes));
                }
            }
        }
        state.last = Some(progress);
    }

    /// Answers the first Ctrl-C.
    pub(crate) fn stopping(&self) {
        let coins =
            self.state.lock().unwrap_or_else(PoisonError::into_inner).last.as_ref().map_or(0, |last| last.stats.coins);
        self.say(&stopping(coins));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn stopping(coins: u64) -> String {
    let seconds = coins.div_ceil(COMMIT_COINS_PER_S).max(1);
    format!(
        "stopping: committing the connected blocks first ({} coins in memory, up to {} on a fast disk); \
         a second Ctrl-C exits at once and loses only what is not committed",
        human::count(coins),
        human::duration(seconds as f64)
    )
}

/// Writes a line to standard error; that it is closed is no fault.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

pub(crate) fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed_precise} [{wide_bar}] {percent:>3} %\n{wide_msg}")
        .expect("the template is a constant and sound");
    ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(8))
        .with_style(style.progress_chars("=> "))
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

    #[test]
    fn line_has_every_figure_that_is_known() {
        let mut progress = at(10.0, 1_234, 2_000_000_000);
        (progress.stats.coins, progress.stats.coin_bytes, progress.peers) = (5_270_000, 456 << 20, Some(3));
        (progress.stats.spends, progress.stats.asked) = (1_000, 25);
        let rates = Rates { blocks: 123.4, bytes: 56.7e6, limit: NETWORK, ..Rates::default() };
        assert_eq!(
            line(&progress, &rates, 1024 << 20),
            "height 1,234 of 1,000,000, 123 blocks/s, 56.7 MB/s, 2 min 21 s to go, network-bound, 3 peers, 5,270,000 coins in 456 of 1,024 MiB, cache miss rate 2 %"
        );
        for (peers, want) in [(0, ", no peers, 0 coins"), (1, ", 1 peer, 0 coins")] {
            let line = line(&Progress { peers: Some(peers), ..at(0.0, 0, 0) }, &Rates::default(), 4 << 20);
            assert!(line.contains(want), "{line}");
        }
        assert_eq!(line(&at(0.0, 0, 0), &Rates::default(), 4 << 20), "height 0 of 1,000,000, 0 coins in 0 of 4 MiB");
        for (headers, presync, want) in [
            (0, Some(123_456), "height 0 of 1, pre-syncing headers: 123,456, 0 coins in 0 of 4 MiB"),
            (234_567, None, "height 0 of 1, 234,567 headers, 0 coins in 0 of 4 MiB"),
            (1, None, "height 0 of 1, 0 coins in 0 of 4 MiB"),
        ] {
            let progress = Progress {
                headers: Height::new(headers),
                presync: presync.map(Height::new),
                height_end: Height::new(1),
                ..Progress::default()
            };
            assert_eq!(line(&progress, &Rates::default(), 4 << 20), want);
        }
        assert!(stopping(5_270_000).contains("up to 6.00 s"), "{}", stopping(5_270_000));
    }
}
