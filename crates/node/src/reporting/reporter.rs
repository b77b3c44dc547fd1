//! Output for the user and debug.log: events, progress, the cost of a block, the state, and the report at the end.
//!
//! For the engine it is write-only: no decision reads it. Counters are atomics. The lock of the last report is held
//! while a report is told; apart from it, no lock of this file is held while another is taken.

use super::counters::{Counted, Counters, Figures};
use crate::chain::block::BlockContext;
use crate::fault::Message;
use crate::pipeline::Connected;
use crate::pipeline::stats::Snapshot;
use crate::reporting::alerts::{AlertKind, Alerts};
use crate::reporting::bench_lines::BenchLines;
use crate::reporting::limit::LimitWindow;
use crate::reporting::log::{Log, Tip};
use crate::reporting::peer_lines::{PeerLine, PeerLines};
use crate::reporting::shortfall::Shortfall;
use crate::reporting::state::{Loading, SessionFacts, SessionState, Stage, state_of};
use crate::reporting::{Event, Events, JobReport, Progress, RecentBlock};
use crate::threads::locks::lock;
use consensus::ScriptCheckReason;
use p2p::{LogLines, PeerId};
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Number of recent blocks in a progress report.
const RECENT_MAX: usize = 12;
/// Text that the log adds to a refused block's reason, to count its bytes: two lines there and one on standard output,
/// each with its hash.
const REFUSED_WORDS: &str = "[error] Block validation error: InvalidChainFound: invalid block= height=1000000 \
    0000000000000000000000000000000000000000000000000000000000000000";
/// Minimum time between two lines about the state in debug.log.
const STATE_LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Reports events to the user and the log.
pub(crate) struct Reporter<'e> {
    events: Events<'e>,
    log: Arc<Log>,
    stop: &'e AtomicBool,
    start: Instant,
    told: Mutex<Told>,
    bench: Mutex<BenchLines>,
    /// The last blocks connected.
    recent: Mutex<VecDeque<RecentBlock>>,
    /// Facts about the session, and the resulting state.
    session: Mutex<Session>,
    /// Number of threads that wait for disk space.
    disk_waits: AtomicU32,
    /// Number of threads that work on blocks.
    workers: AtomicUsize,
    /// Mean bytes per second that the download budget allows.
    mean_rate: Mutex<Option<f64>>,
    /// Why scripts run, or that they do not, as last reported.
    scripts: Mutex<Option<Option<ScriptCheckReason>>>,
    /// Why the chain may end below the best one.
    pub(crate) shortfall: Shortfall,
    /// Set once stopping was logged.
    is_stop_logged: AtomicBool,
    /// The limit for lines caused by peers.
    peer_lines: PeerLines,
    figures: Figures,
    alerts: Arc<Alerts>,
}

/// The last report of progress.
struct Told {
    at: Instant,
    /// Its counters; `None` before the first report.
    stats: Option<Snapshot>,
    /// Whether it was the last one of a part of the work.
    is_last: bool,
}

/// Facts about the session.
#[derive(Default)]
struct Session {
    facts: SessionFacts,
    limits: LimitWindow,
    state: SessionState,
    /// The last state written to debug.log, and when.
    logged: Option<(&'static str, Instant)>,
}

/// Counters are written through the reporter.
impl Deref for Reporter<'_> {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        self.figures.counters()
    }
}

impl<'e> Reporter<'e> {
    /// A reporter that also writes the log. `stop` is set to end this job.
    pub(crate) fn new(events: Events<'e>, log: Log, stop: &'e AtomicBool) -> Reporter<'e> {
        Reporter {
            events,
            log: Arc::new(log),
            stop,
            start: Instant::now(),
            told: Mutex::new(Told { at: Instant::now(), stats: None, is_last: false }),
            bench: Mutex::default(),
            recent: Mutex::default(),
            session: Mutex::default(),
            disk_waits: AtomicU32::new(0),
            workers: AtomicUsize::new(1),
            mean_rate: Mutex::default(),
            scripts: Mutex::default(),
            shortfall: Shortfall::default(),
            is_stop_logged: AtomicBool::new(false),
            peer_lines: PeerLines::default(),
            figures: Figures::default(),
            alerts: Arc::default(),
        }
    }

    /// A reporter for parallel work: it has the same outputs, and its own counters.
    pub(crate) fn beside(&self) -> Reporter<'e> {
        let new = Reporter::new(self.events, Log::none(), self.stop);
        Reporter { log: Arc::clone(&self.log), alerts: Arc::clone(&self.alerts), start: self.start, ..new }
    }

    /// The counters, for displays.
    pub(crate) fn figures(&self) -> Figures {
        self.figures.clone()
    }

    /// Sets the number of threads that work on blocks.
    pub(crate) fn set_workers(&self, count: usize) {
        self.workers.store(count.max(1), Relaxed);
    }

    /// Sets the mean bytes per second that the download budget allows; `None` without a budget.
    pub(crate) fn set_mean_rate(&self, rate: Option<f64>) {
        *lock(&self.mean_rate) = rate;
    }

    /// The active alerts, for other readers.
    pub(crate) fn alerts(&self) -> Arc<Alerts> {
        Arc::clone(&self.alerts)
    }

    /// Starts or ends one of Core's alerts, in its words. A new one is also a warning, with `advice`.
    pub(crate) fn alert(&self, kind: AlertKind, text: Option<&str>, advice: &str) {
        if self.alerts.set(kind, text)
            && let Some(text) = text
        {
            self.warn(Message::new(text, advice));
        }
    }

    /// Starts or ends an alert with this message; a new one is also a warning. The alert includes the advice.
    pub(crate) fn say_while(&self, kind: AlertKind, message: Option<Message>) {
        let text = message.as_ref().map(Message::to_string);
        if self.alerts.set(kind, text.as_deref())
            && let Some(message) = message
        {
            self.warn(message);
        }
    }

    /// Reports an event.
    pub(crate) fn note(&self, text: impl Into<String>) {
        let text = text.into();
        self.log.line(&text);
        (self.events)(Event::Note(text));
    }

    /// Reports a problem.
    pub(crate) fn warn(&self, message: Message) {
        let text = message.to_string();
        self.log.line(&format!("[warning] {text}"));
        (self.events)(Event::Warning(text));
    }

    /// The limit for lines caused by peers, in bytes per hour.
    pub(crate) fn peer_lines(&self) -> &PeerLines {
        &self.peer_lines
    }

    /// Reports an event caused by a peer (`peer`, if known), unless there were too many such lines.
    pub(crate) fn peer_note(&self, line: PeerLine, peer: Option<PeerId>, text: String) {
        if self.peer_lines.allow(line, peer, &text) {
            self.note(text);
        }
    }

    /// Reports the number of suppressed lines of peers. Call it regularly.
    pub(crate) fn say_left_out(&self) {
        self.peer_lines.left_out().into_iter().for_each(|text| self.note(text));
    }

    /// Like [`Reporter::say_left_out`], at the end of the part with peers.
    pub(crate) fn say_last_left_out(&self) {
        self.peer_lines.take_left_out().into_iter().for_each(|text| self.note(text));
    }

    /// Reports a refused block or body; `counts`: the block is invalid, not only this body of it.
    pub(crate) fn refused(&self, height: Height, hash: BlockHash, error: &dyn std::fmt::Display, counts: bool) {
        self.say_refused(height, hash, error.to_string(), counts, true);
    }

    /// Reports an invalid block, probably from a peer. All are counted, but lines are limited. If the user submitted
    /// it, the caller answers.
    pub(crate) fn refused_block(
        &self,
        peer: Option<PeerId>,
        height: Height,
        hash: BlockHash,
        error: &dyn std::fmt::Display,
    ) {
        let why = error.to_string();
        let is_shown = self.peer_lines.allow(PeerLine::RefusedBlock, peer, &[REFUSED_WORDS, &why].concat());
        self.say_refused(height, hash, why, true, is_shown);
    }

    /// Reports a refused body, from a peer if known: only the first of a connection, and within the limit for such
    /// lines. The others are counted as suppressed.
    pub(crate) fn refused_body(
        &self,
        peer: Option<PeerId>,
        height: Height,
        hash: BlockHash,
        error: &dyn std::fmt::Display,
    ) {
        let why = error.to_string();
        let is_shown = self.peer_lines.allow(PeerLine::RefusedBody, peer, &[REFUSED_WORDS, &why].concat());
        self.say_refused(height, hash, why, false, is_shown);
    }

    fn say_refused(&self, height: Height, hash: BlockHash, why: String, counts: bool, is_shown: bool) {
        if is_shown {
            self.log.line(&format!("[error] Block validation error: {why}"));
        }
        if counts {
            if is_shown {
                self.log.line(&format!("InvalidChainFound: invalid block={hash} height={height}"));
            }
            self.add_invalid();
            self.shortfall.refused();
        }
        (self.events)(Event::Refused { height, hash, why, is_shown });
    }

    /// A block is about to be connected: reports when scripts begin or cease to be run from this block on, and why.
    /// Source: Bitcoin Core b88bffe, `ConnectBlock`, `m_last_script_check_reason_logged`.
    pub(crate) fn scripts(&self, block: &BlockContext) {
        let reason = block.script_reason;
        if lock(&self.scripts).replace(reason) == Some(reason) {
            return;
        }
        let height = block.height;
        let hash = block.hash;
        self.note(match reason {
            Some(reason) => format!("Enabling script verification at block #{height} ({hash}): {reason}."),
            None => format!("Disabling script verification at block #{height} ({hash})."),
        });
    }

    /// The log, without the user's events.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// The log, for other threads.
    pub(crate) fn shared_log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    /// Writes the network's lines to the log: those that are always logged, or those of a category of `--debug`.
    pub(crate) fn log_lines(&self, category: Option<&'static str>) -> LogLines {
        let log = Arc::clone(&self.log);
        LogLines::new(move |line| match category {
            Some(category) => log.line(&format!("[{category}] {line}")),
            None => log.line(line),
        })
    }

    /// A block was connected.
    pub(crate) fn connected(&self, block: RecentBlock) {
        let mut recent = lock(&self.recent);
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(block);
    }

    /// Reports that the chain is at rest at another block.
    pub(crate) fn tip(&self, height: Height, hash: BlockHash, initial_download: bool) {
        (self.events)(Event::Tip { height, hash, initial_download });
    }

    /// Reports that a sync has started its network thread.
    pub(crate) fn ready(&self) {
        (self.events)(Event::Ready);
    }

    /// Writes the cost of a block, before its UpdateTip line; returns the line for after it.
    pub(crate) fn bench(&self, block: &Connected<'_>, undo: Duration, index: Duration) -> String {
        lock(&self.bench).lines(&self.log, block, undo, index)
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Reports progress, at most every 250 ms.
    pub(crate) fn progress(&self, stats: impl FnOnce() -> Snapshot) {
        let mut told = lock(&self.told);
        if told.at.elapsed() >= PROGRESS_INTERVAL {
            told.at = Instant::now();
            self.tell_progress(&mut told, stats(), false);
        }
    }

    /// Reports progress for the last time in this part of the work.
    pub(crate) fn last_progress(&self, stats: Snapshot) {
        self.tell_progress(&mut lock(&self.told), stats, true);
    }

    /// Repeats the last report of progress, with the present state.
    fn tell_again(&self) {
        let mut told = lock(&self.told);
        let is_last = told.is_last;
        if let Some(stats) = told.stats.clone() {
            self.tell_progress(&mut told, stats, is_last);
        }
    }

    /// Sets the facts about the session, from which the state is computed.
    pub(crate) fn session(&self, facts: SessionFacts) {
        lock(&self.session).facts = facts;
    }

    /// Sets the progress of loading a snapshot; `None` when that is over.
    pub(crate) fn loading(&self, loading: Option<Loading>) {
        lock(&self.session).facts.loading = loading;
    }

    /// The last state that was shown.
    pub(crate) fn state(&self) -> SessionState {
        lock(&self.session).state.clone()
    }

    /// Computes the state from the facts, the counters, and the threads that wait.
    fn look_at_state(&self, counted: &Counted, stats: &Snapshot) -> SessionState {
        let (state, line, known) = {
            let mut session = lock(&self.session);
            let Session { facts, limits, .. } = &mut *session;
            if facts.stage == Stage::Opening {
                // A job that reports nothing but its progress.
                facts.stage = Stage::Working;
            }
            if facts.network.is_none() {
                (facts.height, facts.headers) = (counted.height, counted.height_end);
            }
            let workers = self.workers.load(Relaxed);
            facts.limit = limits.add(self.seconds(), stats, workers, facts.network.is_some());
            facts.is_disk_full = self.disk_waits.load(Relaxed) > 0;
            if self.stop.load(Relaxed) {
                facts.stage = Stage::Stopping;
            }
            let state = state_of(facts);
            // The final report has the state before the stop request.
            if state != SessionState::Stopping {
                session.state = state.clone();
            }
            let facts = &session.facts;
            // Jobs without a session report alerts themselves.
            let is_session = facts.network.is_some() || facts.stage == Stage::AtRest;
            let known = is_session.then(|| facts.alerts());
            (state.clone(), session.is_line_due(&state), known)
        };
        for (kind, message) in known.into_iter().flatten() {
            self.say_while(kind, message);
        }
        // An excluded chain has its own alert, whatever the state.
        let is_warning = state.is_trouble() && !matches!(state, SessionState::ChainShutOut(_));
        self.alerts.set(AlertKind::State, is_warning.then(|| state.sentence()).as_deref());
        if line {
            self.log.line(&format!("State: {}", state.sentence()));
        }
        state
    }

    fn tell_progress(&self, told: &mut Told, stats: Snapshot, is_last: bool) {
        told.stats = Some(stats.clone());
        told.is_last = is_last;
        let counted = self.figures.counted();
        let state = self.look_at_state(&counted, &stats);
        (self.events)(Event::Progress(Box::new(Progress {
            height: counted.height,
            height_end: counted.height_end,
            bytes: counted.bytes,
            bytes_end: counted.bytes_end,
            seconds: self.seconds(),
            stats,
            is_last,
            download_rate_max: *lock(&self.mean_rate),
            peers: counted.peers,
            headers: counted.headers,
            recent: lock(&self.recent).iter().cloned().collect(),
            is_current: counted.is_current,
            presync: counted.presync,
            limit: lock(&self.session).facts.limit,
            state,
            warnings: self.alerts.of_chain(),
            lines_left_out: self.peer_lines.left_out_count(),
        })));
    }

    /// Writes Core's line for a new tip; `tip` gets the number of transactions up to it.
    pub(crate) fn update_tip(&self, tip: impl FnOnce(u64) -> Tip) {
        self.log.update_tip(&tip(self.figures.counted().transactions));
    }

    /// Bytes of blocks read for indexes.
    pub(crate) fn bytes_indexed(&self) -> u64 {
        self.figures.counters().indexed_bytes()
    }

    /// The report at the end: `ended`, completed with the reporter's data.
    pub(crate) fn report(&self, ended: JobReport) -> JobReport {
        let counted = self.figures.counted();
        self.log.line("Shutdown done");
        self.log.flush();
        JobReport {
            damaged: self.shortfall.records(),
            other_chain_records: self.shortfall.other_chain_count(),
            blocks_invalid: counted.invalid,
            blocks: counted.blocks,
            transactions: ended.stats.transactions,
            bytes: ended.stats.bytes,
            seconds: self.seconds(),
            state: self.state(),
            warnings: self.alerts.of_chain(),
            ..ended
        }
    }

    /// Work waits for disk space. The thread that waits may be the one that reports progress, so the state is told
    /// here.
    pub(crate) fn disk_full(&self, fault: &dyn std::fmt::Display) {
        self.disk_waits.fetch_add(1, Relaxed);
        let advice = "Waiting for disk space; Ctrl-C stops, and nothing that was committed is lost";
        self.warn(Message::new(fault.to_string(), advice));
        self.tell_again();
    }

    /// A wait for disk space ended; `is_done`: there was space.
    pub(crate) fn disk_wait_ended(&self, is_done: bool) {
        self.disk_waits.fetch_sub(1, Relaxed);
        self.tell_again();
        if is_done {
            self.note("There is disk space again: work resumes");
        }
    }

    /// Whether a stop was requested.
    pub(crate) fn is_stop_asked(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether to stop. Writes this to the log once; the program that received the request tells the user.
    pub(crate) fn is_stopping(&self) -> bool {
        let stop = self.stop.load(Relaxed);
        if stop && !self.is_stop_logged.swap(true, Relaxed) {
            self.log.line("Stopping: what is connected is committed first");
        }
        stop
    }
}

impl Session {
    /// Whether debug.log needs a line for this state: for changes, except between states of work.
    fn is_line_due(&mut self, state: &SessionState) -> bool {
        let is_due = self.logged.is_none_or(|(name, at)| {
            let is_news = name != state.name() && (state.is_trouble() || !state.is_working());
            is_news && at.elapsed() >= STATE_LINE_INTERVAL
        });
        if is_due {
            self.logged = Some((state.name(), Instant::now()));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Of a wait for disk space the displays and the watchdog hear at once: nothing else may be told before its end.
    #[test]
    fn wait_for_disk_space_is_told_when_it_begins_and_when_it_ends() {
        let full = || store::Fault::new(store::FaultKind::NoSpace, Path::new("/d"), "space", "none", "Free some");
        for (row, told_before) in
            [("before a report", None), ("between two reports", Some(false)), ("after the last", Some(true))]
        {
            let told = Mutex::new(Vec::new());
            let events = |event| {
                if let Event::Progress(progress) = event {
                    told.lock().unwrap().push((progress.state == SessionState::DiskFull, progress.is_last));
                }
            };
            let stop = AtomicBool::new(false);
            let reporter = Reporter::new(&events, Log::none(), &stop);
            if let Some(is_last) = told_before {
                reporter.tell_progress(&mut lock(&reporter.told), Snapshot::default(), is_last);
            }
            let mut tries = 0;
            let done = reporter.with_room(|| {
                tries += 1;
                if tries < 3 { Err(full()) } else { Ok(()) }
            });
            assert!(done.is_ok(), "{row}: {done:?}");
            let want = told_before.map(|is_last| [(false, is_last), (true, is_last), (false, is_last)]);
            assert_eq!(*told.lock().unwrap(), want.into_iter().flatten().collect::<Vec<_>>(), "{row}");
        }
    }
}
