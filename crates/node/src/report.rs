//! What the user and debug.log are told: what happens, how far it is, what a block cost, that the disk is full.
//!
//! Counters are atomics; no lock of this file is held while another is taken.

use crate::alerts::{AlertKind, Alerts};
use crate::bench_lines::BenchLines;
use crate::block::BlockContext;
use crate::counters::{Counters, NO_NETWORK};
use crate::fault::{Fault, Message};
use crate::locks::lock;
use crate::log::Log;
use crate::options::{Event, Events, Progress, RecentBlock};
use crate::peer_lines::{PeerLine, PeerLines};
use crate::pipeline::Connected;
use crate::shortfall::Shortfall;
use crate::stats::Snapshot;
use consensus::ScriptCheckReason;
use p2p::PeerId;
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Blocks that are told of as the last ones.
const RECENT_MAX: usize = 12;
/// Between two tries on a full disk, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Tells the user and the log what happens.
pub(crate) struct Reporter<'e> {
    events: Events<'e>,
    log: Log,
    stop: &'e AtomicBool,
    start: Instant,
    last_progress: Mutex<Instant>,
    bench: Mutex<BenchLines>,
    /// Blocks refused since this was asked for, for peers.
    refused: Mutex<Vec<(BlockHash, String)>>,
    /// The last blocks connected.
    recent: Mutex<VecDeque<RecentBlock>>,
    /// What this part of the work does, in a word or two.
    phase: Mutex<&'static str>,
    /// Why scripts are run, or that they are not, as it was last said.
    scripts: Mutex<Option<Option<ScriptCheckReason>>>,
    /// Why the chain may end below the best one.
    pub(crate) shortfall: Shortfall,
    /// Changes of the chain since the start, for `-checkblockindex`.
    pub(crate) changes: AtomicU32,
    /// Set once stopping was logged.
    is_stop_logged: AtomicBool,
    /// How many of the lines that peers cause are written.
    peer_lines: PeerLines,
    counters: Arc<Counters>,
    alerts: Arc<Alerts>,
}

/// The counters are read and written through the reporter.
impl Deref for Reporter<'_> {
    type Target = Counters;

    fn deref(&self) -> &Counters {
        &self.counters
    }
}

impl<'e> Reporter<'e> {
    /// A reporter that writes the log, too. `stop` says that this job is to end.
    pub(crate) fn new(events: Events<'e>, log: Log, stop: &'e AtomicBool) -> Reporter<'e> {
        Reporter {
            events,
            log,
            stop,
            start: Instant::now(),
            last_progress: Mutex::new(Instant::now()),
            bench: Mutex::default(),
            refused: Mutex::default(),
            recent: Mutex::default(),
            phase: Mutex::new("connecting blocks"),
            scripts: Mutex::default(),
            shortfall: Shortfall::default(),
            changes: AtomicU32::new(0),
            is_stop_logged: AtomicBool::new(false),
            peer_lines: PeerLines::default(),
            counters: Arc::default(),
            alerts: Arc::default(),
        }
    }

    /// The counters, to be read elsewhere.
    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// The alerts that hold, to be read elsewhere.
    pub(crate) fn alerts(&self) -> Arc<Alerts> {
        Arc::clone(&self.alerts)
    }

    /// An alert holds, or no longer does. It is a warning when it begins.
    pub(crate) fn alert(&self, kind: AlertKind, text: Option<&str>) {
        if self.alerts.set(kind, text)
            && let Some(text) = text
        {
            self.warn(Message::new(text, kind.advice()));
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

    /// Something that a peer caused: told of unless there were too many such lines.
    pub(crate) fn peer_note(&self, line: PeerLine, text: impl FnOnce() -> String) {
        if self.peer_lines.allow(line) {
            self.note(text());
        }
    }

    /// Says how many lines that peers caused were left out. To be called again and again.
    pub(crate) fn say_left_out(&self) {
        self.peer_lines.left_out().into_iter().for_each(|text| self.note(text));
    }

    /// A block that is not taken; `counts` says that the block is refused, and not this body of it alone.
    pub(crate) fn refused(&self, height: Height, hash: BlockHash, error: &dyn std::fmt::Display, counts: bool) {
        self.say_refused((height, hash), error.to_string(), counts, true);
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
        let is_shown = self.peer_lines.allow(PeerLine::Refused(peer));
        self.say_refused((height, hash), error.to_string(), false, is_shown);
    }

    fn say_refused(&self, (height, hash): (Height, BlockHash), why: String, counts: bool, is_shown: bool) {
        if is_shown {
            self.log.line(&format!("[error] Block validation error: {why}"));
        }
        if counts {
            self.log.line(&format!("InvalidChainFound: invalid block={hash} height={height}"));
            self.invalid.fetch_add(1, Relaxed);
        }
        (self.events)(Event::Refused { height, hash, why, is_shown });
    }

    /// A block that broke a rule while it was connected: peers are to hear of it.
    pub(crate) fn invalid(&self, height: Height, hash: BlockHash, error: &dyn std::fmt::Display) {
        self.refused(height, hash, error, true);
        lock(&self.refused).push((hash, error.to_string()));
    }

    /// Blocks that broke a rule since this was asked.
    pub(crate) fn take_invalid(&self) -> Vec<(BlockHash, String)> {
        std::mem::take(&mut *lock(&self.refused))
    }

    /// What a block was refused for, of those that were not taken.
    pub(crate) fn reason_of(&self, hash: BlockHash) -> Option<String> {
        lock(&self.refused).iter().find(|(of, _)| *of == hash).map(|(_, why)| why.clone())
    }

    /// A block is about to be connected: says where scripts are run from then on, and why, or are not.
    /// Source: Bitcoin Core b88bffe, `ConnectBlock`, `m_last_script_check_reason_logged`.
    pub(crate) fn scripts(&self, block: &BlockContext) {
        let reason = block.script_reason;
        if lock(&self.scripts).replace(reason) == Some(reason) {
            return;
        }
        let (height, hash) = (block.height, block.hash);
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

    /// A sync has its peers from here on; `phase` says for what.
    pub(crate) fn ready(&self, phase: &'static str) {
        *lock(&self.phase) = phase;
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

    fn tell_progress(&self, stats: Snapshot, is_last: bool) {
        (self.events)(Event::Progress(Box::new(Progress {
            height: self.height.load(Relaxed),
            height_end: self.height_end.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            bytes_end: self.bytes_end.load(Relaxed),
            seconds: self.seconds(),
            stats,
            is_last,
            peers: Some(self.peers.load(Relaxed)).filter(|&peers| peers != NO_NETWORK),
            headers: self.headers.load(Relaxed),
            recent: lock(&self.recent).iter().cloned().collect(),
            phase: *lock(&self.phase),
            is_current: self.is_current.load(Relaxed),
            presync: Some(self.presync.load(Relaxed)).filter(|&height| height > Height::GENESIS),
        })));
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

/// A full disk: the work pauses, says what it needs, and resumes when there is space.
impl Reporter<'_> {
    /// Repeats `work` while the disk is full; says so, and that it resumes. Stopping ends that. No lock may be held that
    /// other work waits for. Work that may not be done twice says another fault: a sync that failed.
    ///
    /// # Errors
    ///
    /// Those of `work`; that the disk is full only when it is time to stop.
    pub(crate) fn with_room<R, E: Into<Fault>>(&self, mut work: impl FnMut() -> Result<R, E>) -> Result<R, Fault> {
        let mut tries = 0;
        loop {
            match work().map_err(Into::into) {
                Err(fault) if fault.is_no_space() && !self.stop.load(Relaxed) => {
                    if tries == 0 {
                        self.say_full(&fault);
                    }
                    pause(tries);
                    tries += 1;
                }
                done => {
                    if tries > 0 && done.is_ok() {
                        self.say_resumed();
                    }
                    return done;
                }
            }
        }
    }

    /// Does `work` that can be done without, and says what that means where the disk is full.
    ///
    /// # Errors
    ///
    /// Those of `work` but a full disk.
    pub(crate) fn if_room(
        &self,
        otherwise: &str,
        work: impl FnOnce() -> Result<(), store::Fault>,
    ) -> Result<(), Fault> {
        match work() {
            Err(fault) if fault.is_no_space() => {
                self.warn(Message::new(fault.to_string(), otherwise));
                Ok(())
            }
            done => Ok(done?),
        }
    }

    fn say_full(&self, fault: &dyn std::fmt::Display) {
        let advice = "Waiting for disk space; Ctrl-C stops, and nothing that was committed is lost";
        self.warn(Message::new(fault.to_string(), advice));
    }

    fn say_resumed(&self) {
        self.note("There is disk space again: work resumes");
    }
}

fn pause(tries: u32) {
    std::thread::sleep(PAUSE_MAX.min(PAUSE_MIN * 2u32.pow(tries.min(16))));
}

/// Work that the pipeline repeats until the disk has space for it.
#[derive(Debug, Default)]
pub(crate) struct SpaceWait {
    is_said: AtomicBool,
    tries: AtomicU32,
}

impl SpaceWait {
    /// Waits before something is begun again that found no space; says so once, until [`SpaceWait::end`].
    ///
    /// # Errors
    ///
    /// That fault, when it is time to stop.
    pub(crate) fn wait(&self, reporter: &Reporter<'_>, fault: Fault) -> Result<(), Fault> {
        if reporter.stop.load(Relaxed) {
            return Err(fault);
        }
        if !self.is_said.swap(true, Relaxed) {
            reporter.say_full(&fault);
        }
        pause(self.tries.fetch_add(1, Relaxed));
        Ok(())
    }

    /// Such work was done.
    pub(crate) fn end(&self, reporter: &Reporter<'_>) {
        if self.is_said.swap(false, Relaxed) {
            self.tries.store(0, Relaxed);
            reporter.say_resumed();
        }
    }
}
