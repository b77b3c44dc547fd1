//! The threads and the network of a session; no other file of this folder has either. It only moves data: events go to
//! the driver, and the driver's instructions are carried out.
//!
//! - `arrive` receives network events and stores blocks; on machines with many processors `arrive.NN` store them.
//! - `tell` updates the progress every 100 ms.
//! - The thread that called the job runs the engine (`work`).
//! - `hash` hashes the coins below a snapshot at the end of its validation.

use super::driver::{Input, Outcome};
use super::facts::FactsSeen;
use super::link::{Ending, Line, Session};
use super::peer_files::Kept;
use super::receive::{self, Arrived};
use super::work::{self, DoAside, Engines};
use super::{bring, downloaded, progress};
use crate::datadir::DataDir;
use crate::fault::{Fault, Message};
use crate::offline::FollowingCache;
use crate::pipeline::engine::Engine;
use crate::pipeline::stats::Stats;
use crate::reporting::peer_lines::{PeerLine, PeerLines};
use crate::session::chainview::SharedChain;
use crate::session::inbox::Arrivals;
use crate::threads::locks::lock;
use crate::threads::{self, AtEnd, spawn};
use p2p::{BlockVerdict, Config, Event, Network, Peers};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Time between two commits of the index, so that a restart does not download the same blocks again. If there is
/// nothing to commit, the existence of its files is checked instead.
const INDEX_INTERVAL: Duration = Duration::from_secs(30);
/// Maximum wait for a network event, before other conditions are checked.
const EVENT_PATIENCE: Duration = Duration::from_millis(100);
/// Time between two progress updates.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// How a session is run: with threads and sockets here, by one thread over a simulated network in tests.
pub(super) trait Conduct {
    /// Starts the network, which sends its events to `sender`.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    fn connect(&mut self, wanted: Wanted<'_, '_>, sender: Sender<Event>) -> Result<Arc<dyn Line>, Fault>;

    /// The same network, for requests about connections; `None` if it is simulated.
    fn network(&self) -> Option<Arc<Network>> {
        None
    }

    /// Called before an engine starts to work.
    fn prepare(&mut self, engine: &mut Engine<'_>) {
        let _ = engine;
    }

    /// Returns a clock of the time since the start.
    fn clock(&self) -> Arc<dyn Fn() -> Duration + Send + Sync>;

    /// Runs one part of the sync, driven by network events.
    ///
    /// # Errors
    ///
    /// An I/O error.
    fn follow<'s>(
        &mut self,
        session: &'s Session<'_, '_>,
        engines: Engines<'s, '_>,
        receiver: &mut Receiver<Event>,
        kept: &Kept,
    ) -> Result<Outcome, Fault>;
}

/// Parameters of the network that a session needs.
pub(super) struct Wanted<'d, 'e> {
    pub(super) datadir: &'d DataDir<'e>,
    pub(super) chain: Arc<SharedChain>,
    pub(super) config: Config,
    pub(super) peers: Arc<Peers>,
}

/// The real implementation, with threads and sockets.
pub(super) struct Threads {
    start: Instant,
    network: Option<Arc<Network>>,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads { start: Instant::now(), network: None }
    }
}

impl Conduct for Threads {
    fn connect(&mut self, wanted: Wanted<'_, '_>, sender: Sender<Event>) -> Result<Arc<dyn Line>, Fault> {
        let network = Arc::new(start_network(wanted, sender)?);
        self.network = Some(network.clone());
        Ok(network)
    }

    fn network(&self) -> Option<Arc<Network>> {
        self.network.clone()
    }

    fn clock(&self) -> Arc<dyn Fn() -> Duration + Send + Sync> {
        let start = self.start;
        Arc::new(move || start.elapsed())
    }

    fn follow<'s>(
        &mut self,
        session: &'s Session<'_, '_>,
        engines: Engines<'s, '_>,
        receiver: &mut Receiver<Event>,
        kept: &Kept,
    ) -> Result<Outcome, Fault> {
        let stats = engines.tip.pipeline.stats();
        let cache = FollowingCache::of(session.datadir, engines.tip);
        let incoming = Incoming { events: receiver, network: self.network.clone(), kept };
        with_threads(session, &stats, cache, incoming, |aside| work::follow(session, engines, aside))
    }
}

/// The events of the network, and where they go.
struct Incoming<'r> {
    events: &'r mut Receiver<Event>,
    /// The network that sends them. It is told which ones were read.
    network: Option<Arc<Network>>,
    kept: &'r Kept,
}

impl Incoming<'_> {
    /// Waits for the next event, at most for [`EVENT_PATIENCE`].
    fn receive(&self) -> Result<Event, RecvTimeoutError> {
        let event = self.events.recv_timeout(EVENT_PATIENCE)?;
        if let Some(network) = &self.network {
            network.heard(&event);
        }
        Ok(event)
    }

    /// Counts events about peers that the network left out, because too many were unread, as suppressed lines.
    fn count_left_out(&self, lines: &PeerLines) {
        let left_out = self.network.as_ref().map(|network| network.take_left_out()).unwrap_or_default();
        lines.leave_out(PeerLine::Inbound, left_out.inbound);
        lines.leave_out(PeerLine::Outbound, left_out.outbound);
    }
}

/// Whether a separate socket listens on all IPv4 addresses at this port.
fn has_v4(listening: &[SocketAddr], port: u16) -> bool {
    listening.contains(&SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
}

/// Starts the network's threads, which read the chain through the index.
fn start_network(wanted: Wanted<'_, '_>, sender: Sender<Event>) -> Result<Network, Fault> {
    let Wanted { datadir, chain, config, peers } = wanted;
    let network = Network::start_for(peers, config, chain, sender).map_err(|why| {
        if why.kind() == std::io::ErrorKind::WouldBlock {
            return threads::refused("ffwd-net", why);
        }
        let is_taken = why.kind() == std::io::ErrorKind::AddrInUse;
        let advice = if is_taken {
            "Another program is on that port: give another to --listen"
        } else {
            "Give --listen and --bind addresses of this machine and ports that this user may open"
        };
        Fault::system(format!("the network cannot be started: {why}"), advice, why)
    })?;
    for address in network.listening() {
        datadir.reporter.note(format!("Bound to {address}"));
        // A dual-stack socket also accepts IPv4 connections.
        if address.ip() == Ipv6Addr::UNSPECIFIED && !has_v4(network.listening(), address.port()) {
            datadir.reporter.note(format!("Bound to 0.0.0.0:{} by the same socket", address.port()));
        }
    }
    Ok(network)
}

/// Runs `work`, whose engine has the counters `stats`. Other threads meanwhile receive network events, update the
/// progress, and run the closures that `work` passes to them. Events that were not received stay in their channel.
///
/// # Errors
///
/// Those of `work`, and the faults of the other threads.
fn with_threads<'s, T>(
    session: &'s Session<'_, '_>,
    stats: &Stats,
    cache: FollowingCache,
    incoming: Incoming<'_>,
    work: impl FnOnce(DoAside<'_, 's>) -> Result<T, Fault>,
) -> Result<T, Fault> {
    std::thread::scope(|scope| {
        let telling = spawn(scope, "tell", || tell(session, stats, cache))?;
        let end = AtEnd(|| {
            let mut ending = lock(&session.ending);
            if matches!(*ending, Ending::None) {
                *ending = Ending::Done;
            }
            drop(ending);
            session.inboxes().for_each(Arrivals::hurry);
            telling.thread().unpark();
            session.network.echo(); // Wakes the thread that receives events before its timeout.
        });
        let receiving = spawn(scope, "arrive", move || take(session, &incoming))?;
        if let Some(sources) = session.sources.as_deref() {
            for n in 0..storer_count(session).max(1) {
                spawn(scope, format!("source.{n:02}"), move || bring::bring(session, sources))?;
            }
            spawn(scope, "unpack", move || bring::unpack(session, sources))?;
        }
        let mut beside = Vec::new();
        let result = work(&mut |aside| {
            beside.push(spawn(scope, "hash", aside)?);
            Ok(())
        });
        drop(end);
        for thread in beside.into_iter().chain([receiving]) {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        session.take_fault()?;
        result
    })
}

/// Updates the progress until the work is done.
fn tell(session: &Session<'_, '_>, stats: &Stats, mut cache: FollowingCache) {
    let _alarm = session.alarm("reports its progress");
    let datadir = session.datadir;
    let mut seen = FactsSeen::default();
    while !session.is_ending() {
        std::thread::park_timeout(TELL_INTERVAL);
        if datadir.reporter.is_stopping() {
            session.tell(Input::Stop);
        }
        for why in session.chain.unserved.take() {
            let text = format!("A block that a peer asked for cannot be read: {why}");
            datadir.reporter.warn(Message::new(text, "Look at the drive; other blocks are served"));
        }
        session.take_offers();
        session.tell_past_height();
        cache.look(datadir);
        progress::measure(session, &stats.snapshot());
        datadir.reporter.session(progress::facts(session, &mut seen));
        datadir.reporter.progress(|| stats.snapshot());
    }
    datadir.reporter.last_progress(stats.snapshot());
}

/// Receives network events until the work is done; later events stay in the channel.
fn take(session: &Session<'_, '_>, incoming: &Incoming<'_>) {
    let _alarm = session.alarm("takes what arrives");
    std::thread::scope(|scope| {
        let storers: Result<Vec<Sender<Arrived>>, Fault> = (0..storer_count(session))
            .map(|n| {
                let (sender, blocks) = channel();
                spawn(scope, format!("arrive.{n:02}"), move || store_all(session, blocks))?;
                Ok(sender)
            })
            .collect();
        let taken = storers.and_then(|storers| take_events(session, incoming, &storers));
        if let Err(fault) = taken {
            session.end_by(fault);
        }
    });
}

/// Number of threads that check and store blocks in place of the receiving thread. One such thread keeps up with four
/// or five workers; with few workers there is no processor to spare. With hints there is no other work.
fn storer_count(session: &Session<'_, '_>) -> usize {
    match session.datadir.options.par {
        par if session.hinted.is_some() => par,
        par if par < 8 => 0,
        par => (par / 4).min(8),
    }
}

/// Stores arriving blocks until the channel closes; after the end of the work they are dropped.
fn store_all(session: &Session<'_, '_>, blocks: Receiver<Arrived>) {
    let _alarm = session.alarm("stores blocks");
    for arrived in blocks {
        if session.is_ending() {
            // It is not stored; if it is needed, it is requested again.
            session.tell(Input::Judged { hash: arrived.hash, verdict: BlockVerdict::Stored, bytes: None });
            continue;
        }
        if let Err(fault) = receive::store(session, arrived) {
            return session.end_by(fault);
        }
    }
}

fn take_events(session: &Session<'_, '_>, incoming: &Incoming<'_>, storers: &[Sender<Arrived>]) -> Result<(), Fault> {
    let reporter = &session.datadir.reporter;
    if !session.no_log_rate_limit {
        reporter.peer_lines().switch_on();
    }
    let mut last_index = Instant::now();
    let mut last_look: Option<Instant> = None;
    while !session.is_ending() {
        if last_look.is_none_or(|last| last.elapsed() >= EVENT_PATIENCE) {
            last_look = Some(Instant::now());
            session.tell(Input::Network(Box::new(session.network.progress())));
            session.tell_clock();
        }
        match incoming.receive() {
            Ok(event) => {
                if let Some(arrived) = receive::take_event(session, event, incoming.kept)? {
                    // A block that arrives twice goes to the same storer. A storer that ended has reported its fault.
                    match storers.get(usize::from(arrived.hash.as_bytes()[0]) % storers.len().max(1)) {
                        Some(storer) => drop(storer.send(arrived)),
                        None => receive::store(session, arrived)?,
                    }
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::internal("the network's thread ended")),
        }
        session.tell(Input::Tick);
        incoming.count_left_out(reporter.peer_lines());
        reporter.say_left_out();
        if last_index.elapsed() > INDEX_INTERVAL {
            if session.is_dirty.swap(false, Relaxed) {
                session.datadir.write_index(None)?;
            } else {
                session.datadir.writer.check_files()?;
            }
            downloaded::keep(&incoming.kept.own, lock(session.driver).budget(), reporter)?;
            last_index = Instant::now();
        }
    }
    incoming.count_left_out(reporter.peer_lines());
    reporter.say_last_left_out();
    Ok(())
}
