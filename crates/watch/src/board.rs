//! The board: the last reported state of a job, and the texts made from it for readers.
//!
//! Writers (any thread of the job) hold a lock only while they copy one value; readers make texts without it. The
//! texts are made at most once a second, however many readers there are.

use crate::machine::Machine;
use crate::metrics;
use crate::rates::{Rates, Window, seconds_to_go, share};
pub use crate::sight::Settings;
use crate::sight::Sight;
use crate::view::{BlockView, CacheView, LogLine, MachineView, PeerView, StageView, StateView, View};
use node::options::unix_seconds;
use node::reporting::state::{Limit, SessionState};
use node::reporting::{Event, Progress};
use node::stats::{STAGES, Snapshot, Stage};
use p2p::{PeerStats, Peers};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum age of collected state for readers; older state is collected again.
const FRESH: Duration = Duration::from_millis(900);
/// Time over which busy threads, queues and rates of the machine are averaged.
const RECENT_S: f64 = 5.0;
/// Maximum number of log lines kept, and bytes of each.
const LOG_LINES_MAX: usize = 60;
const LOG_BYTES_MAX: usize = 400;
/// Maximum number of distinct reasons for refused blocks: Core has fewer.
const REASONS_MAX: usize = 64;
/// Log lines with these words are hidden.
const SECRETS: [&str; 3] = ["rpcpassword", "rpcauth", "rpcuser"];

/// The last reported state of a job.
pub struct Board {
    settings: Settings,
    peers: Arc<Peers>,
    started: Instant,
    stopping: AtomicBool,
    said: Mutex<Said>,
    seen: Mutex<Seen>,
}

/// State reported by the job.
#[derive(Default)]
struct Said {
    progress: Progress,
    has_progress: bool,
    rates: Rates,
    window: Window,
    recent: VecDeque<(f64, Snapshot)>,
    log: VecDeque<LogLine>,
    refused: BTreeMap<String, u64>,
}

/// State collected for readers.
#[derive(Default)]
struct Seen {
    peers_at: Option<Instant>,
    peers: Vec<PeerStats>,
    /// For each connection, bytes received and sent at the last update, and the smoothed rate.
    last: BTreeMap<u64, (u64, u64, f64)>,
    /// Bytes received and sent, by type of connection and transport.
    totals: BTreeMap<(&'static str, &'static str), (u64, u64)>,
    machines: VecDeque<(Instant, Machine)>,
    view: Option<(Instant, Arc<str>)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// An empty board. `peers` are those of the job.
    pub fn new(settings: Settings, peers: Arc<Peers>) -> Board {
        Board {
            settings,
            peers,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            said: Mutex::default(),
            seen: Mutex::default(),
        }
    }

    /// Records an event of the job. Called from any of its threads.
    pub fn event(&self, event: &Event) {
        match event {
            Event::Note(text) => self.log("note", text),
            Event::Warning(text) => self.log("warning", text),
            Event::Refused { height, hash, why, is_shown } => {
                if *is_shown {
                    self.log("error", &format!("refused: block {hash} at height {height}: {why}"));
                }
                let refused = &mut lock(&self.said).refused;
                let reason = reason_of(why);
                if refused.len() < REASONS_MAX || refused.contains_key(reason) {
                    *refused.entry(reason.to_owned()).or_default() += 1;
                }
            }
            Event::Progress(progress) => self.progress(progress),
            Event::Tip { height, .. } => {
                let mut said = lock(&self.said);
                said.progress.height = *height;
                said.progress.headers = said.progress.headers.max(*height);
            }
            Event::Ready => {}
        }
    }

    fn progress(&self, progress: &Progress) {
        let mut said = lock(&self.said);
        if progress.seconds < said.progress.seconds {
            // Another part of the work has begun; its counters begin at 0.
            (said.window, said.recent) = (Window::default(), VecDeque::new());
        }
        said.rates = said.window.add(progress);
        let is_due = said.recent.back().is_none_or(|(at, _)| progress.seconds - at >= 0.9);
        if is_due {
            said.recent.push_back((progress.seconds, progress.stats.clone()));
            while said.recent.get(1).is_some_and(|(at, _)| progress.seconds - at >= RECENT_S) {
                said.recent.pop_front();
            }
        }
        said.progress = progress.clone();
        said.has_progress = true;
    }

    fn log(&self, level: &str, text: &str) {
        if SECRETS.iter().any(|secret| text.contains(secret)) {
            return;
        }
        let mut end = text.len().min(LOG_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut said = lock(&self.said);
        if said.log.len() >= LOG_LINES_MAX {
            said.log.pop_front();
        }
        said.log.push_back(LogLine {
            time: unix_seconds(self.settings.clock),
            level: level.to_owned(),
            text: text[..end].to_owned(),
        });
    }

    /// Sets the heights of a data directory that is only served.
    pub fn at_rest(&self, height: primitives::Height, headers: primitives::Height) {
        let mut said = lock(&self.said);
        (said.progress.height, said.progress.headers, said.progress.height_end) = (height, headers, headers);
    }

    /// Records that the job is stopping.
    pub fn stopping(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Whether the chain is current, or a data directory is served.
    pub fn is_ready(&self) -> bool {
        matches!(self.state(&lock(&self.said)), SessionState::Following { .. } | SessionState::Serving)
    }

    /// The last reported state; before the first report, and when the job stops, a fixed state.
    fn state(&self, said: &Said) -> SessionState {
        match () {
            () if self.stopping.load(Relaxed) => SessionState::Stopping,
            () if self.settings.at_rest => SessionState::Serving,
            () if !said.has_progress => SessionState::Opening,
            () => said.progress.state.clone(),
        }
    }

    /// Updates the connections, if they are older than [`FRESH`].
    fn look_at_peers(&self, seen: &mut Seen) {
        let now = Instant::now();
        let passed = seen.peers_at.map(|at| now - at);
        if passed.is_some_and(|passed| passed < FRESH) {
            return;
        }
        seen.peers_at = Some(now);
        seen.peers = self.peers.peers();
        let mut last = BTreeMap::new();
        for peer in &seen.peers {
            let known = seen.last.get(&peer.id.0).copied();
            let (received, sent, speed) = known.unwrap_or_default();
            let more = (peer.received_bytes.saturating_sub(received), peer.sent_bytes.saturating_sub(sent));
            let total = seen.totals.entry((peer.connection_type, peer.transport)).or_default();
            (total.0, total.1) = (total.0 + more.0, total.1 + more.1);
            let speed = match (known, passed) {
                // Smoothed halfway to the current rate, so that the figure is readable.
                (Some(_), Some(passed)) => (speed + (more.0 + more.1) as f64 / passed.as_secs_f64()) / 2.0,
                _ => 0.0,
            };
            last.insert(peer.id.0, (peer.received_bytes, peer.sent_bytes, speed));
        }
        seen.last = last;
    }

    fn look_at_machine(&self, seen: &mut Seen) -> Machine {
        let now = Instant::now();
        match seen.machines.back() {
            Some((at, machine)) if now - *at < FRESH => return *machine,
            _ => {}
        }
        let machine = Machine::look(&self.settings.datadir);
        seen.machines.push_back((now, machine));
        while seen.machines.get(1).is_some_and(|(at, _)| (now - *at).as_secs_f64() >= RECENT_S) {
            seen.machines.pop_front();
        }
        machine
    }

    /// All metrics, as text in Prometheus' format. May wait for the network's thread.
    pub fn metrics(&self) -> String {
        let (machine, peers, by_kind) = {
            let mut seen = lock(&self.seen);
            self.look_at_peers(&mut seen);
            (self.look_at_machine(&mut seen), seen.peers.clone(), seen.totals.clone())
        };
        let (progress, refused, state, to_go_s) = {
            let said = lock(&self.said);
            (said.progress.clone(), said.refused.clone(), self.state(&said), self.to_go(&said))
        };
        let sight = Sight {
            settings: &self.settings,
            state,
            to_go_s,
            progress: &progress,
            refused: &refused,
            uptime_s: self.started.elapsed().as_secs_f64(),
            machine,
            peers,
            by_kind,
            network: self.peers.progress().unwrap_or_default(),
            totals: self.peers.totals(),
        };
        metrics::text(&sight)
    }

    fn to_go(&self, said: &Said) -> Option<f64> {
        seconds_to_go(&said.progress, &said.rates).filter(|_| said.has_progress)
    }

    /// The view as one line of JSON, at most a second old. May wait for the network's thread.
    pub fn view_json(&self) -> Arc<str> {
        let mut seen = lock(&self.seen);
        if let Some((at, text)) = &seen.view
            && at.elapsed() < FRESH
        {
            return text.clone();
        }
        let view = self.view_of(&mut seen);
        let text: Arc<str> = serde_json::to_string(&view).expect("values with text as keys").into();
        seen.view = Some((Instant::now(), text.clone()));
        text
    }

    /// The data of the page. May wait for the network's thread.
    pub fn view(&self) -> View {
        self.view_of(&mut lock(&self.seen))
    }

    fn view_of(&self, seen: &mut Seen) -> View {
        self.look_at_peers(seen);
        let machine = self.look_at_machine(seen);
        let (received, sent) = self.peers.totals();
        let said = lock(&self.said);
        let progress = &said.progress;
        View {
            version: self.settings.version.clone(),
            chain: self.settings.chain.clone(),
            state: state_view(&self.state(&said)),
            height: progress.height.to_u32(),
            headers: progress.headers.max(progress.height).to_u32(),
            height_end: progress.height_end.max(progress.height).to_u32(),
            presync: progress.presync.map(|height| height.to_u32()),
            share: share(progress),
            to_go_s: self.to_go(&said),
            limit: progress.limit.filter(|_| progress.state.is_working()).map_or("", Limit::name).to_owned(),
            uptime_s: self.started.elapsed().as_secs_f64(),
            time: unix_seconds(self.settings.clock),
            blocks_per_s: said.rates.blocks,
            bytes_per_s: said.rates.bytes,
            inputs_per_s: said.rates.inputs,
            workers: self.settings.workers,
            stages: stages(&said),
            cache: cache(&said, self.settings.dbcache_bytes),
            machine: machine_view(seen, machine),
            received,
            sent,
            peers: seen.peers.iter().map(|peer| peer_view(peer, seen)).collect(),
            blocks: progress.recent.iter().rev().map(block_view).collect(),
            log: said.log.iter().rev().take(LOG_LINES_MAX / 2).rev().cloned().collect(),
            reorgs: progress.stats.reorgs,
            refused: said.refused.iter().map(|(reason, count)| (reason.clone(), *count)).collect(),
            warnings: progress.warnings.clone(),
        }
    }
}

/// Core's reject string at the start of a text; `other` without one.
fn reason_of(why: &str) -> &str {
    let end = why.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')).unwrap_or(why.len());
    let reason = &why[..end];
    if reason.contains('-') && reason.len() <= 64 { reason } else { "other" }
}

fn state_view(state: &SessionState) -> StateView {
    StateView { name: state.name().to_owned(), sentence: state.sentence(), is_trouble: state.is_trouble() }
}

/// The counters of [`RECENT_S`] ago and the current ones, and the seconds between them.
fn recent(said: &Said) -> Option<(&Snapshot, &Snapshot, f64)> {
    let first = said.recent.front()?;
    let last = &said.progress;
    let seconds = last.seconds - first.0;
    (seconds > 0.5).then_some((&first.1, &last.stats, seconds))
}

fn stages(said: &Said) -> Vec<StageView> {
    let window = recent(said);
    let mean = |from: Duration, to: Duration, seconds: f64| to.saturating_sub(from).as_secs_f64() / seconds;
    let stages = STAGES.iter().enumerate().filter(|(_, (stage, _))| *stage != Stage::Wait);
    stages
        .map(|(i, (_, name))| StageView {
            name: (*name).to_owned(),
            busy: window.map_or(0.0, |(from, to, seconds)| mean(from.busy[i], to.busy[i], seconds)),
            queue: window.map_or(0.0, |(from, to, seconds)| mean(from.waited[i], to.waited[i], seconds)),
            total_s: said.progress.stats.busy[i].as_secs_f64(),
        })
        .collect()
}

fn cache(said: &Said, bytes_max: u64) -> CacheView {
    let stats = &said.progress.stats;
    let of_late =
        recent(said).map(|(from, to, _)| (to.spends - from.spends.min(to.spends), to.asked - from.asked.min(to.asked)));
    let (spends, asked) = of_late.filter(|(spends, _)| *spends > 0).unwrap_or((stats.spends, stats.asked));
    let flushes: u64 = stats.flush_times.counts.iter().sum();
    CacheView {
        coins: stats.coins,
        bytes: stats.coin_bytes,
        bytes_max,
        lookups: stats.spends,
        misses: stats.asked,
        hit_rate: (spends > 0).then(|| (1.0 - asked as f64 / spends as f64).clamp(0.0, 1.0)),
        flushes: stats.flushes,
        flush_mean_s: (flushes > 0).then(|| stats.flush_times.sum.as_secs_f64() / flushes as f64),
        compactions: stats.tasks[Stage::Compact as usize],
    }
}

fn machine_view(seen: &Seen, now: Machine) -> MachineView {
    let rate = |of: &dyn Fn(&Machine) -> f64| {
        let (Some((from, first)), Some((to, last))) = (seen.machines.front(), seen.machines.back()) else { return 0.0 };
        let seconds = (*to - *from).as_secs_f64();
        if seconds > 0.5 { ((of(last) - of(first)) / seconds).max(0.0) } else { 0.0 }
    };
    MachineView {
        anonymous_bytes: now.anonymous_bytes,
        resident_bytes: now.resident_bytes,
        processors: rate(&|machine| machine.processor_s),
        read_per_s: rate(&|machine| machine.read_bytes as f64),
        written_per_s: rate(&|machine| machine.written_bytes as f64),
        free_bytes: now.free_bytes,
    }
}

fn peer_view(peer: &PeerStats, seen: &Seen) -> PeerView {
    PeerView {
        id: peer.id.0,
        address: peer.address.clone(),
        inbound: peer.inbound,
        kind: peer.connection_type.to_owned(),
        transport: peer.transport.to_owned(),
        agent: peer.agent.clone(),
        height: peer.synced_headers.map(|height| height.to_u32()),
        received: peer.received_bytes,
        sent: peer.sent_bytes,
        bytes_per_s: seen.last.get(&peer.id.0).map_or(0.0, |(_, _, speed)| *speed),
        in_flight: peer.in_flight.len(),
        stalls_s: peer.stalls.map(|time| time.as_secs_f64()),
        ping_s: peer.ping_min.map(|time| time.as_secs_f64()),
    }
}

fn block_view(block: &node::reporting::RecentBlock) -> BlockView {
    BlockView {
        height: block.height.to_u32(),
        hash: block.hash.to_string(),
        time: block.time,
        transactions: block.transactions,
        bytes: block.bytes,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use node::reporting::RecentBlock;
    use primitives::{BlockHash, Height};
    use std::path::PathBuf;
    use std::time::UNIX_EPOCH;

    /// A board of a job that has reported nothing yet.
    pub(crate) fn quiet_board() -> Board {
        let settings = Settings {
            version: "1.2.3".to_owned(),
            build: "abc".to_owned(),
            chain: "regtest".to_owned(),
            datadir: PathBuf::from("/"),
            dbcache_bytes: 1 << 30,
            workers: 2,
            at_rest: false,
            clock: || UNIX_EPOCH,
        };
        Board::new(settings, Arc::default())
    }

    /// A board of a sync that is half done.
    pub(crate) fn board() -> Board {
        let board = quiet_board();
        for second in 0..=10_u32 {
            board.event(&Event::Progress(Box::new(progress(second))));
        }
        board
    }

    fn progress(second: u32) -> Progress {
        let mut stats = Snapshot { bytes: u64::from(second) * 1_000_000, ..Snapshot::default() };
        (stats.spends, stats.asked) = (u64::from(second) * 100, u64::from(second) * 25);
        stats.busy[Stage::Scripts as usize] = Duration::from_millis(1500 * u64::from(second));
        stats.waited[Stage::Scripts as usize] = Duration::from_secs(7 * u64::from(second));
        (stats.flush_times.counts[2], stats.flush_times.sum, stats.flushes) = (2, Duration::from_millis(800), 2);
        let block = RecentBlock { height: Height::new(second), hash: BlockHash::ZERO, ..RecentBlock::default() };
        Progress {
            height: Height::new(second),
            height_end: Height::new(20),
            headers: Height::new(21),
            bytes: u64::from(second) * 1_000_000,
            bytes_end: 20_000_000,
            seconds: second.into(),
            stats,
            peers: Some(1),
            recent: vec![block],
            state: SessionState::CpuBound,
            limit: Some(Limit::Processor),
            ..Progress::default()
        }
    }

    #[test]
    fn view_has_what_the_job_said() {
        let board = board();
        board.event(&Event::Note("something happens".to_owned()));
        board.event(&Event::Note("rpcpassword=hidden (bitcoin.conf:1)".to_owned()));
        let why = "bad-txnmrklroot, hashMerkleRoot mismatch".to_owned();
        board.event(&Event::Refused { height: Height::new(3), hash: BlockHash::ZERO, why, is_shown: true });
        let view = board.view();
        assert_eq!((view.height, view.headers, view.height_end, view.state.name.as_str()), (10, 21, 20, "cpu_bound"));
        assert_eq!((view.share, view.blocks[0].height, view.bytes_per_s), (0.5, 10, 1e6));
        assert_eq!(view.to_go_s, Some(10.0));
        let scripts = view.stages.iter().find(|stage| stage.name == "scripts").unwrap();
        assert!((scripts.busy - 1.5).abs() < 0.01 && (scripts.queue - 7.0).abs() < 0.01, "{scripts:?}");
        assert_eq!((view.cache.hit_rate, view.cache.flush_mean_s), (Some(0.75), Some(0.4)));
        assert_eq!(view.refused, [("bad-txnmrklroot".to_owned(), 1)]);
        let said: Vec<&str> = view.log.iter().map(|line| line.text.as_str()).collect();
        assert!(said.contains(&"something happens") && !said.iter().any(|line| line.contains("hidden")), "{said:?}");
        let again: View = serde_json::from_str(&board.view_json()).unwrap();
        assert_eq!((again.height, again.cache), (view.height, view.cache));
    }

    #[test]
    fn state_follows_the_life_of_a_job() {
        let at = |change: &dyn Fn(&mut Progress)| {
            let board = Board::new(Settings::default(), Arc::default());
            let mut progress = progress(5);
            change(&mut progress);
            board.event(&Event::Progress(Box::new(progress)));
            (board.view().state.name, board.is_ready())
        };
        let state = |name: &str, ready| (name.to_owned(), ready);
        assert_eq!(at(&|_| ()), state("cpu_bound", false));
        assert_eq!(at(&|progress| progress.state = SessionState::NoHeaders), state("no_headers", false));
        let following = || SessionState::Following { height: Height::new(5) };
        assert_eq!(at(&|progress| progress.state = following()), state("following", true));
        let board = Board::new(Settings::default(), Arc::default());
        assert_eq!((board.view().state.name, board.is_ready()), state("opening", false));
        board.stopping();
        assert_eq!((board.view().state.name, board.is_ready()), state("stopping", false));
        let rest = Board::new(Settings { at_rest: true, ..Settings::default() }, Arc::default());
        rest.at_rest(Height::new(7), Height::new(8));
        let view = rest.view();
        assert_eq!((view.state.name, rest.is_ready(), view.height), ("serving".to_owned(), true, 7));
    }

    #[test]
    fn view_of_trouble_claims_no_end() {
        let board = Board::new(Settings::default(), Arc::default());
        let mut at = progress(5);
        (at.height_end, at.bytes_end, at.bytes) = (at.height, 9, 9);
        at.state = SessionState::NoHeaders;
        board.event(&Event::Progress(Box::new(at)));
        let view = board.view();
        assert_eq!(view.state, state_view(&SessionState::NoHeaders));
        assert!(
            view.state.is_trouble && view.share < 1.0 && view.to_go_s.is_none() && view.limit.is_empty(),
            "{view:?}"
        );
        let text = board.view_json();
        assert!(
            text.contains(
                r#""state":{"name":"no_headers","sentence":"No peer has sent headers yet","is_trouble":true}"#
            ),
            "{text}"
        );
        assert!(board.metrics().contains("ffwd_state{state=\"no_headers\"} 1"), "{}", board.metrics());
    }

    #[test]
    fn many_lines_and_reasons_stay_few() {
        let board = board();
        for i in 0..1000 {
            board.event(&Event::Note("ä".repeat(1000)));
            let why = format!("bad-reason-{i}");
            board.event(&Event::Refused { height: Height::new(1), hash: BlockHash::ZERO, why, is_shown: true });
        }
        let view = board.view();
        assert!(view.log.len() <= LOG_LINES_MAX && view.refused.len() <= REASONS_MAX, "{}", view.refused.len());
        assert!(view.log.iter().all(|line| line.text.len() <= LOG_BYTES_MAX));
        assert_eq!(
            (reason_of("No such file"), reason_of(""), reason_of("bad-cb-amount")),
            ("other", "other", "bad-cb-amount")
        );
    }
}
