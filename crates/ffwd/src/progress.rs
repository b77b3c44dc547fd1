//! Progress on standard error: a bar on a terminal, otherwise a line every ten seconds. Without any change it
//! prints one line an hour, and one for each new state.
//!
//! With `printtoconsole=0` it prints nothing; debug.log has the same information.
//!
//! Absent on purpose: standard output, which has only results; rates and the time left, which `watch::rates`
//! computes.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use node::options::Options;
use node::reporting::state::SessionState;
use node::reporting::{Event, Progress};
use primitives::{Height, human};
use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use watch::rates::{Rates, Window, seconds_to_go, share};

/// Time between two lines without a terminal.
pub(crate) const LINE_EVERY: Duration = Duration::from_secs(10);
/// Minimum time before a line about a new state; the next constant is the time between lines without any change.
const STATE_EVERY: Duration = Duration::from_secs(3);
const IDLE_EVERY: Duration = Duration::from_secs(3600);
/// Number of steps of the bar.
const BAR_LENGTH: u64 = 100_000;
/// Coins written per second, to estimate the time of a commit. It is well below the speed of one core, as disks
/// are slow.
const COMMIT_COINS_PER_S: u64 = 1_000_000;

/// The complete progress in one line; a narrow terminal shows its beginning.
fn line(progress: &Progress, rates: &Rates, dbcache_bytes: u64) -> String {
    let heights = format!(
        "height {} of {}",
        human::count(progress.height.to_u32().into()),
        human::count(progress.height_end.to_u32().into())
    );
    let mut parts = match limit(&progress.state) {
        Some(_) => vec![heights],
        None => vec![format!("{}; {heights}", progress.state.sentence())],
    };
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
    parts.extend(limit(&progress.state).filter(|limit| !limit.is_empty()).map(str::to_owned));
    parts.extend(progress.peers.map(|peers| match peers {
        0 => "no peers".to_owned(),
        some => human::plural(some.into(), "peer", "peers"),
    }));
    let mib = progress.stats.coin_bytes >> 20;
    let of = dbcache_bytes >> 20;
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

/// The word for a state in which blocks are connected. `None` for other states, which have a sentence.
fn limit(state: &SessionState) -> Option<&'static str> {
    match state {
        SessionState::Blocks => Some(""),
        SessionState::NetworkBound => Some("network-bound"),
        SessionState::CpuBound => Some("CPU-bound"),
        SessionState::DiskBound => Some("disk-bound"),
        _ => None,
    }
}

struct Measured {
    window: Window,
    pace: Pace,
    last: Option<Progress>,
}

/// Decides when a line is due without a terminal.
#[derive(Default)]
struct Pace {
    /// When the last line was written, and its figures.
    last: Option<(Instant, Figures)>,
    /// States that were printed since the figures last changed.
    written: BTreeSet<&'static str>,
}

/// The figures whose change makes a new line due.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Figures {
    height: Height,
    headers: Height,
    presync: Option<Height>,
    bytes: u64,
    /// Bytes of a snapshot that were converted into tables.
    loaded: u64,
}

impl Pace {
    /// Whether a line is due: every [`LINE_EVERY`] for changed figures, after [`STATE_EVERY`] for a state that
    /// was not printed since, otherwise once an hour.
    fn is_due(&mut self, progress: &Progress, now: Instant) -> bool {
        let &Progress { height, headers, presync, bytes, .. } = progress;
        let loaded = if let SessionState::LoadingSnapshot(loading) = &progress.state { loading.bytes } else { 0 };
        let figures = Figures { height, headers, presync, bytes, loaded };
        let (at, last) = *self.last.get_or_insert((now, figures));
        let name = progress.state.name();
        let is_new_state = limit(&progress.state).is_none() && !self.written.contains(name);
        let wait = match () {
            () if is_new_state => STATE_EVERY,
            () if figures != last => LINE_EVERY,
            () => IDLE_EVERY,
        };
        let is_due = now.duration_since(at) >= wait;
        if is_due {
            if figures != last {
                self.written.clear();
            }
            self.written.insert(name);
            self.last = Some((now, figures));
        }
        is_due
    }
}

/// Shows the events of a job.
pub(crate) struct Reporter {
    bar: Option<ProgressBar>,
    is_quiet: bool,
    state: Mutex<Measured>,
    dbcache_bytes: u64,
    commits_nothing: AtomicBool,
}

impl Reporter {
    /// A reporter for a job with these options. If `is_quiet`, it prints nothing.
    pub(crate) fn new(options: &Options, is_quiet: bool) -> Arc<Reporter> {
        Arc::new(Reporter {
            bar: (!is_quiet && std::io::stderr().is_terminal()).then(bar),
            is_quiet,
            state: Mutex::new(Measured { window: Window::default(), pace: Pace::default(), last: None }),
            dbcache_bytes: options.dbcache_bytes as u64,
            commits_nothing: AtomicBool::new(false),
        })
    }

    /// Called once there is nothing left to commit: the first Ctrl-C then exits.
    pub(crate) fn commits_nothing(&self) {
        self.commits_nothing.store(true, Ordering::SeqCst);
    }

    /// Whether the first Ctrl-C may exit immediately.
    pub(crate) fn may_end_at_once(&self) -> bool {
        self.commits_nothing.load(Ordering::SeqCst)
    }

    /// Shows an event of the job. May be called from any thread.
    pub(crate) fn event(&self, event: Event) {
        match event {
            Event::Note(text) => self.say(&text),
            Event::Warning(text) => self.say(&format!("warning: {text}")),
            Event::Refused { is_shown: false, .. } => {}
            Event::Refused { height, hash, why, .. } => {
                self.say(&format!("refused: block {hash} at height {height}: {why}"))
            }
            Event::Progress(progress) => self.progress(*progress),
            Event::Ready | Event::Tip { .. } => {}
        }
    }

    /// Prints a line on standard error, above the bar if there is one.
    pub(crate) fn say(&self, text: &str) {
        match &self.bar {
            _ if self.is_quiet => {}
            Some(bar) => bar.suspend(|| say(text)),
            None => say(text),
        }
    }

    fn progress(&self, progress: Progress) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rates = state.window.add(&progress);
        match &self.bar {
            Some(bar) => {
                bar.set_length(BAR_LENGTH);
                bar.set_position((share(&progress) * BAR_LENGTH as f64) as u64);
                bar.set_message(line(&progress, &rates, self.dbcache_bytes));
            }
            None => {
                if !self.is_quiet && state.pace.is_due(&progress, Instant::now()) {
                    say(&line(&progress, &rates, self.dbcache_bytes));
                }
            }
        }
        state.last = Some(progress);
    }

    /// Reacts to the first Ctrl-C.
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
         a second Ctrl-C, at least a second later, exits at once and loses only what is not committed",
        human::count(coins),
        human::duration(seconds as f64)
    )
}

/// Writes a line to standard error. A closed output is not an error.
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
    use node::reporting::state::{BlockWait, Limit};

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
    fn line_has_every_figure_that_is_known() {
        let mut progress = at(10.0, 1_234, 2_000_000_000);
        (progress.stats.coins, progress.stats.coin_bytes, progress.peers) = (5_270_000, 456 << 20, Some(3));
        (progress.stats.spends, progress.stats.asked) = (1_000, 25);
        (progress.state, progress.limit) = (SessionState::NetworkBound, Some(Limit::Network));
        let rates = Rates { blocks: 123.4, bytes: 56.7e6, ..Rates::default() };
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
                state: SessionState::Blocks,
                ..Progress::default()
            };
            assert_eq!(line(&progress, &Rates::default(), 4 << 20), want);
        }
        assert!(stopping(5_270_000).contains("up to 6.00 s"), "{}", stopping(5_270_000));
    }

    #[test]
    fn line_of_a_state_that_waits_begins_with_its_sentence() {
        let progress = Progress { state: SessionState::NoHeaders, peers: Some(1), ..Progress::default() };
        assert_eq!(
            line(&progress, &Rates::default(), 4 << 20),
            "No peer has sent headers yet; height 0 of 0, 1 peer, 0 coins in 0 of 4 MiB"
        );
    }

    /// What is written in two hours, by the second.
    fn written(at: impl Fn(u64) -> Progress) -> Vec<u64> {
        let (mut pace, start) = (Pace::default(), Instant::now());
        (0..7_200).filter(|&second| pace.is_due(&at(second), start + Duration::from_secs(second))).collect()
    }

    #[test]
    fn lines_are_written_on_change_and_once_an_hour() {
        let waiting = || Progress { state: SessionState::NoHeaders, ..Progress::default() };
        assert_eq!(written(|_| waiting()), [3, 3_603], "nothing changes");
        let flapping = |second: u64| match second % 20 {
            0..10 => waiting(),
            _ => Progress { state: SessionState::Connecting, ..Progress::default() },
        };
        assert_eq!(written(flapping), [3, 10, 3_610], "two states take turns");
        let working = |second: u64| at(second as f64, second as u32, second);
        let lines = written(working);
        assert_eq!((lines[0], lines[1], lines.len()), (10, 20, 719), "a line every ten seconds");
        let numbers = |second: u64| {
            let wait = BlockWait { height: Height::new(9), peer: None, seconds: second };
            Progress { state: SessionState::WaitingForBlock(wait), ..Progress::default() }
        };
        assert_eq!(written(numbers), [3, 3_603], "seconds pass");
    }
}
