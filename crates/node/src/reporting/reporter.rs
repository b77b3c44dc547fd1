//! What the user and debug.log are told: what happens, how far it is, what a block cost, what the work waits for, and in the
//! end what was done.
//!
//! For the engine it is write-only: nothing that is decided reads it. Counters are atomics; no lock of this file is held while
//! another is taken.

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
use p2p::PeerId;
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Blocks that are told of as the last ones.
const RECENT_MAX: usize = 12;
/// What a refused block costs in the log beside the reason, for the limit of such lines: two lines there and one on standard
/// output, which have its hash.
const REFUSED_WORDS: &str = "[error] Block validation error: InvalidChainFound: invalid block= height=1000000 \
    0000000000000000000000000000000000000000000000000000000000000000";
/// Time between two lines about the state in debug.log.
const STATE_LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Tells the user and the log what happens.
pub(crate) struct Reporter<'e> {
    events: Events<'e>,
    log: Arc<Log>,
    stop: &'e AtomicBool,
    start: Instant,
    last_progress: Mutex<Instant>,
    bench: Mutex<BenchLines>,
    /// The last blocks connected.
    recent: Mutex<VecDeque<RecentBlock>>,
    /// What is known of the session, and the state that follows.
    session: Mutex<Session>,
    /// Threads that wait for space on the disk.
    disk_waits: AtomicU32,
    /// Threads that work on blocks.
    workers: AtomicUsize,
    /// Bytes a second that the download budget allows in the mean.
    mean_rate: Mutex<Option<f64>>,
    /// Why scripts are run, or that they are not, as it was last said.
    scripts: Mutex<Option<Option<ScriptCheckReason>>>,
    /// Why the chain may end below the best one.
    pub(crate) shortfall: Shortfall,
    /// Set once stopping was logged.
    is_stop_logged: AtomicBool,
    /// How many of the lines that peers cause are written.
    peer_lines: PeerLines,
    figures: Figures,
    alerts: Arc<Alerts>,
}

/// What is known of the session.
#[derive(Default)]
struct Session {
    facts: SessionFacts,
    limits: LimitWindow,
    state: SessionState,
    /// The state in debug.log, and when it was written.
    logged: Option<(&'static str, Instant)>,
}

/// The counters are written through the reporter.
impl Deref for Reporter<'_> {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        self.figures.counters()
    }
}

impl<'e> Reporter<'e> {
    /// A reporter that writes the log, too. `stop` says that this job is to end.
    pub(crate) fn new(events: Events<'e>, log: Log, stop: &'e AtomicBool) -> Reporter<'e> {
        Reporter {
            events,
            log: Arc::new(log),
            stop,
            start: Instant::now(),
            last_progress: Mutex::new(Instant::now()),
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

    /// One for work beside: it says what happens as this one does, and counts for itself.
    pub(crate) fn beside(&self) -> Reporter<'e> {
        let new = Reporter::new(self.events, Log::none(), self.stop);
        Reporter { log: Arc::clone(&self.log), alerts: Arc::clone(&self.alerts), start: self.start, ..new }
    }

    /// The counters, for those who show them.
    pub(crate) fn figures(&self) -> Figures {
        self.figures.clone()
    }

    /// So many threads work on blocks.
    pub(crate) fn set_workers(&self, count: usize) {
        self.workers.store(count.max(1), Relaxed);
    }

    /// Bytes a second that the download budget allows in the mean; any number without.
    pub(crate) fn set_mean_rate(&self, rate: Option<f64>) {
        *lock(&self.mean_rate) = rate;
    }

    /// The alerts that hold, to be read elsewhere.
    pub(crate) fn alerts(&self) -> Arc<Alerts> {
        Arc::clone(&self.alerts)
    }

    /// An alert of Core's holds, in its words, or no longer does. It is a warning when it begins, with what helps.
    pub(crate) fn alert(&self, kind: AlertKind, text: Option<&str>, advice: &str) {
        if self.alerts.set(kind, text)
            && let Some(text) = text
        {
            self.warn(Message::new(text, advice));
        }
    }

    /// What a message says holds, or no longer does: a warning when it begins. The alert has the advice, too.
    pub(crate) fn say_while(&self, kind: AlertKind, message: Option<Message>) {
        let text = message.as_ref().map(Message::to_string);
        if self.alerts.set(kind, text.as_deref())
            && let Some(message) = message
        {
            self.warn(message);
        }
    }

    /// Something that happens.
    pub(crate) fn note(&self, text: impl Into<String>) {
        let text = text.into();
        self.log.line(&text);
        (self.events)(Event::Note(text));
    }

    /// Something that is not as it should be.
    pub(crate) fn warn(&self, message: Message) {
        let text = message.to_string();
        self.log.line(&format!("[warning] {text}"));
        (self.events)(Event::Warning(text));
    }

    /// The lines that peers can cause, of which there are no more than a number a minute.
    pub(crate) fn peer_lines(&self) -> &PeerLines {
        &self.peer_lines
    }

    /// Something that a peer caused, `peer` where it is known: told of unless there were too many such lines.
    pub(crate) fn peer_note(&self, line: PeerLine, peer: Option<PeerId>, text: String) {
        if self.peer_lines.allow(line, peer, &text) {
            self.note(text);
        }
    }

    /// Says how many lines that peers caused were left out. To be called again and again.
    pub(crate) fn say_left_out(&self) {
        self.peer_lines.left_out().into_iter().for_each(|text| self.note(text));
        self.set_lines_left_out(self.peer_lines.left_out_count());
    }

    /// The same at the end of the part that has peers.
    pub(crate) fn say_last_left_out(&self) {
        self.peer_lines.take_left_out().into_iter().for_each(|text| self.note(text));
    }

    /// A block that is not taken; `counts` says that the block is refused, and not this body of it alone.
    pub(crate) fn refused(&self, height: Height, hash: BlockHash, error: &dyn std::fmt::Display, counts: bool) {
        self.say_refused(height, hash, error.to_string(), counts, true);
    }

    /// A block that peers gave, most likely, and that is refused, with its header. All are counted; a person may have given it
    /// too, and is answered.
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

    /// A body that is not taken, from a peer where it is known: it says so of the first of a connection, and of a number of
    /// them a minute. All are counted.
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

    /// A block is about to be connected: says where scripts are run from then on, and why, or are not.
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

    /// The log alone.
    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    /// A block was connected.
    pub(crate) fn connected(&self, block: RecentBlock) {
        let mut recent = lock(&self.recent);
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(block);
    }

    /// The chain has come to rest at another block.
    pub(crate) fn tip(&self, height: Height, hash: BlockHash, initial_download: bool) {
        (self.events)(Event::Tip { height, hash, initial_download });
    }

    /// A sync has its peers' thread from here on.
    pub(crate) fn ready(&self) {
        (self.events)(Event::Ready);
    }

    /// What a block cost, before its UpdateTip line; gives the line that comes after it.
    pub(crate) fn bench(&self, block: &Connected<'_>, undo: Duration, index: Duration) -> String {
        lock(&self.bench).lines(&self.log, block, undo, index)
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Tells how far it is, at most every 250 ms.
    pub(crate) fn progress(&self, stats: impl FnOnce() -> Snapshot) {
        let mut last = lock(&self.last_progress);
        if last.elapsed() >= PROGRESS_INTERVAL {
            *last = Instant::now();
            self.tell_progress(stats(), false);
        }
    }

    /// The same for the last time, of this part of the work.
    pub(crate) fn last_progress(&self, stats: Snapshot) {
        self.tell_progress(stats, true);
    }

    /// What is known of the session now: the state that everybody is shown follows from it.
    pub(crate) fn session(&self, facts: SessionFacts) {
        lock(&self.session).facts = facts;
    }

    /// How far a snapshot is loaded; none where that is over.
    pub(crate) fn loading(&self, loading: Option<Loading>) {
        lock(&self.session).facts.loading = loading;
    }

    /// The state, as it was last shown.
    pub(crate) fn state(&self) -> SessionState {
        lock(&self.session).state.clone()
    }

    /// Makes the state of what is known, what the counters say, and what threads wait for.
    fn look_at_state(&self, counted: &Counted, stats: &Snapshot) -> SessionState {
        let (state, line, known) = {
            let mut session = lock(&self.session);
            let Session { facts, limits, .. } = &mut *session;
            if facts.stage == Stage::Opening {
                // A job that tells nothing of itself but its progress.
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
            // In the end it is said what was done or waited for before it was told to stop.
            if state != SessionState::Stopping {
                session.state = state.clone();
            }
            let facts = &session.facts;
            // Jobs without a session say it themselves.
            let is_session = facts.network.is_some() || facts.stage == Stage::AtRest;
            let known = is_session.then(|| facts.alerts());
            (state.clone(), session.is_line_due(&state), known)
        };
        for (kind, message) in known.into_iter().flatten() {
            self.say_while(kind, message);
        }
        // A chain that is shut out has an alert of its own, whatever else holds.
        let is_warning = state.is_trouble() && !matches!(state, SessionState::ChainShutOut(_));
        self.alerts.set(AlertKind::State, is_warning.then(|| state.sentence()).as_deref());
        if line {
            self.log.line(&format!("State: {}", state.sentence()));
        }
        state
    }

    fn tell_progress(&self, stats: Snapshot, is_last: bool) {
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
            lines_left_out: counted.lines_left_out,
        })));
    }

    /// Core's line for a new tip; `tip` is given the number of transactions up to it.
    pub(crate) fn update_tip(&self, tip: impl FnOnce(u64) -> Tip) {
        self.log.update_tip(&tip(self.figures.counted().transactions));
    }

    /// Bytes of blocks that were read for indexes.
    pub(crate) fn bytes_indexed(&self) -> u64 {
        self.figures.counters().indexed_bytes()
    }

    /// What was done, in the end: `ended` with what the reporter knows.
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

    /// Work waits for space on the disk.
    pub(crate) fn disk_full(&self, fault: &dyn std::fmt::Display) {
        self.disk_waits.fetch_add(1, Relaxed);
        let advice = "Waiting for disk space; Ctrl-C stops, and nothing that was committed is lost";
        self.warn(Message::new(fault.to_string(), advice));
    }

    /// It waits no more; `is_done` says that there was space.
    pub(crate) fn disk_wait_ended(&self, is_done: bool) {
        self.disk_waits.fetch_sub(1, Relaxed);
        if is_done {
            self.note("There is disk space again: work resumes");
        }
    }

    /// Whether the job was told to stop.
    pub(crate) fn is_stop_asked(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Whether to stop on demand. The log says so once; the user was told by the program that was asked.
    pub(crate) fn is_stopping(&self) -> bool {
        let stop = self.stop.load(Relaxed);
        if stop && !self.is_stop_logged.swap(true, Relaxed) {
            self.log.line("Stopping: what is connected is committed first");
        }
        stop
    }
}

impl Session {
    /// Whether debug.log is to have a line of this state: of a change, and of none between states of work.
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
