//! The threads of a session, and its network: the only file of this folder that has either. It moves data: what happened goes
//! to the driver, what the driver says is done.
//!
//! - `arrive` takes what the network says, and stores blocks; with many processors `arrive.NN` store them.
//! - `tell` looks every tenth of a second how far the sync is.
//! - The thread that calls the job runs the engine (`work`).

use super::driver::{Action, Input, SyncDriver, View};
use super::facts::{FactsSeen, NetworkSetup};
use super::finish::Offered;
use super::progress;
use super::receive::{self, Arrived};
use crate::datadir::DataDir;
use crate::engine::Engine;
use crate::fault::{Fault, Message};
use crate::handle::Handle;
use crate::hints::run::HintedRun;
use crate::jobs::{AtEnd, FollowingCache};
use crate::locks::lock;
use crate::session::chainview::SharedChain;
use crate::session::inbox::Arrivals;
use crate::threads::{self, spawn};
use p2p::{Config, Event, Network, Peers};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::private_files::PrivateDir;

/// Time between two commits of the index, so that a restart does not fetch the same blocks again; between two looks whether
/// its files are there, where it has nothing to commit.
const INDEX_INTERVAL: Duration = Duration::from_secs(30);
/// How long the network may say nothing before other things are looked at.
const EVENT_PATIENCE: Duration = Duration::from_millis(100);
/// Time between two looks at how far the sync is.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// What the threads of a session share.
pub(super) struct Session<'f, 'e> {
    pub(super) datadir: &'f DataDir<'e>,
    /// Blocks go to this in place of the block files.
    pub(super) hinted: Option<HintedRun<'f>>,
    pub(super) handle: Option<&'f Handle>,
    pub(super) inbox: Arc<Arrivals>,
    /// The chain as peers see it.
    pub(super) chain: Arc<SharedChain>,
    pub(super) network: Arc<Network>,
    pub(super) setup: NetworkSetup,
    /// A data directory is served, and no peer is sought.
    pub(super) is_alone: bool,
    /// Lines about inbound connections are all in the log.
    pub(super) no_log_rate_limit: bool,
    pub(super) driver: Mutex<SyncDriver>,
    pub(super) start: Instant,
    /// Blocks were stored since the index was written.
    pub(super) is_dirty: AtomicBool,
    pub(super) ending: Mutex<Ending>,
}

/// How the threads of a session end.
#[derive(Debug, Default)]
pub(super) enum Ending {
    /// They work.
    #[default]
    None,
    /// The work is done.
    Done,
    /// One of them met this.
    Faulty(Fault),
}

impl Session<'_, '_> {
    /// Gives the driver what happened, does what it says, and gives what only the engine's thread can do.
    ///
    /// What goes to the network and the inbox is done with the driver locked, so that an older list never replaces a newer one.
    pub(super) fn drive(&self, input: Input) -> Vec<Action> {
        let mut left = Vec::new();
        {
            let mut driver = lock(&self.driver);
            let actions = {
                let index = self.datadir.index.read();
                let hinted = self.hinted.as_ref().map(|run| run as &dyn super::driver::HintedBlocks);
                let view = View { index: &index, is_prune_due: self.datadir.prune_is_due(), hinted };
                let actions = driver.on(input, view, self.start.elapsed());
                if cfg!(debug_assertions) {
                    driver.invariants(&index);
                }
                actions
            };
            for action in actions {
                match action {
                    Action::Want(lists) => self.network.want(lists),
                    Action::Verdict(hash, verdict) => self.network.verdict(hash, verdict),
                    Action::Wake => self.inbox.arrived(),
                    Action::Hurry => self.inbox.hurry(),
                    Action::Forget => self.inbox.clear(),
                    Action::AwaitHeaders(awaits) => self.datadir.awaits_headers.store(awaits, Relaxed),
                    action => left.push(action),
                }
            }
        }
        left
    }

    /// The threads are about to begin: blocks wait for headers where that is to be.
    pub(super) fn begin(&self) {
        let waits = lock(&self.driver).waits_at_begin();
        self.datadir.awaits_headers.store(waits, Relaxed);
    }

    /// The same as [`Session::drive`] for what never gives the engine's thread anything to do.
    pub(super) fn tell(&self, input: Input) {
        let left = self.drive(input);
        for action in left {
            match action {
                Action::LookForAlerts => {
                    let tip = self.datadir.index.read().tip();
                    self.datadir.look_for_alerts(tip);
                }
                action => unreachable!("{action:?} is for the engine's thread"),
            }
        }
    }

    /// Blocks were stored, or marked.
    pub(super) fn note_dirty(&self, is_dirty: bool) {
        self.is_dirty.fetch_or(is_dirty, Relaxed);
    }

    /// The thread that connects ends its run and finds this.
    fn end_by(&self, fault: Fault) {
        {
            let mut ending = lock(&self.ending);
            if !matches!(*ending, Ending::Faulty(_)) {
                *ending = Ending::Faulty(fault);
            }
        }
        self.inbox.end();
    }

    fn is_ending(&self) -> bool {
        !matches!(*lock(&self.ending), Ending::None)
    }

    /// What another thread met.
    pub(super) fn take_fault(&self) -> Result<(), Fault> {
        let mut ending = lock(&self.ending);
        match std::mem::take(&mut *ending) {
            Ending::Faulty(fault) => {
                *ending = Ending::Done;
                Err(fault)
            }
            same => {
                *ending = same;
                Ok(())
            }
        }
    }

    /// Tells the thread that connects when this one panics: to be kept until it ends.
    fn alarm(&self, whose: &'static str) -> AtEnd<impl FnMut()> {
        AtEnd(move || {
            if std::thread::panicking() {
                self.end_by(Fault::internal(format!("the thread that {whose} panicked")));
            }
        })
    }

    /// Headers on marked blocks that peers offered go to the driver.
    fn take_offers(&self) {
        let offers: Vec<Offered> = self.chain.take_offers();
        let mut driver = lock(&self.driver);
        offers.into_iter().for_each(|offered| driver.note_offered(offered));
    }
}

/// Starts the network's threads, which see the chain through the index.
///
/// # Errors
///
/// A socket that cannot be opened, or a thread that the system refuses.
pub(super) fn start_network(
    datadir: &DataDir<'_>,
    chain: Arc<SharedChain>,
    config: Config,
    peers: Arc<Peers>,
    sender: Sender<Event>,
) -> Result<Network, Fault> {
    let network = Network::start_for(peers, config, chain, sender).map_err(|why| {
        if why.kind() == std::io::ErrorKind::WouldBlock {
            return threads::refused("ffwd-net", &why);
        }
        let is_taken = why.kind() == std::io::ErrorKind::AddrInUse;
        let advice = if is_taken {
            "Another program is on that port: give another to --listen"
        } else {
            "Give --listen and --bind addresses of this machine and ports that this user may open"
        };
        Fault::refused(format!("the network cannot be started: {why}"), advice)
    })?;
    for address in network.listening() {
        datadir.reporter.note(format!("Bound to {address}"));
    }
    Ok(network)
}

/// Does `work` on the engine while two other threads receive what arrives and tell how far it is; gives what the network
/// said and was not received.
///
/// # Errors
///
/// Those of `work`, and what another thread met.
pub(super) fn with_threads<'f, T>(
    session: &Session<'_, '_>,
    engine: &mut Engine<'f>,
    receiver: Receiver<Event>,
    own: &PrivateDir,
    work: impl FnOnce(&mut Engine<'f>) -> Result<T, Fault>,
) -> Result<(T, Receiver<Event>), Fault> {
    let stats = engine.pipeline.stats();
    let cache = FollowingCache::of(session.datadir, engine);
    std::thread::scope(|scope| {
        let telling = spawn(scope, "tell", || tell(session, &stats, cache))?;
        let end = AtEnd(|| {
            let mut ending = lock(&session.ending);
            if matches!(*ending, Ending::None) {
                *ending = Ending::Done;
            }
            drop(ending);
            session.inbox.hurry();
            telling.thread().unpark();
            session.network.echo(); // The thread that takes what arrives looks now, not at the end of its time.
        });
        let receiving = spawn(scope, "arrive", || take(session, receiver, own))?;
        let result = work(engine);
        drop(end);
        let events = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        session.take_fault()?;
        result.map(|result| (result, events))
    })
}

/// Tells how far it is until the work is done.
fn tell(session: &Session<'_, '_>, stats: &crate::stats::Stats, mut cache: FollowingCache) {
    let _alarm = session.alarm("tells how far it is");
    let (datadir, mut seen) = (session.datadir, FactsSeen::default());
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
        cache.look(datadir);
        progress::measure(session, &stats.snapshot());
        datadir.reporter.session(progress::facts(session, &mut seen));
        datadir.reporter.progress(|| stats.snapshot());
    }
    datadir.reporter.last_progress(stats.snapshot());
}

/// Takes what the network says until the work is done, and leaves the rest.
fn take(session: &Session<'_, '_>, events: Receiver<Event>, own: &PrivateDir) -> Receiver<Event> {
    let _alarm = session.alarm("takes what arrives");
    std::thread::scope(|scope| {
        let storers: Result<Vec<Sender<Arrived>>, Fault> = (0..storer_count(session))
            .map(|n| {
                let (sender, blocks) = channel();
                spawn(scope, format!("arrive.{n:02}"), move || store_all(session, blocks))?;
                Ok(sender)
            })
            .collect();
        let taken = storers.and_then(|storers| take_events(session, &events, own, &storers));
        if let Err(fault) = taken {
            session.end_by(fault);
        }
    });
    events
}

/// Threads that check and store blocks in place of the one that takes what arrives: one of them keeps up with four or
/// five workers, and with few workers there is no processor for it. With hints there is no other work.
fn storer_count(session: &Session<'_, '_>) -> usize {
    match session.datadir.options.par {
        par if session.hinted.is_some() => par,
        par if par < 8 => 0,
        par => (par / 4).min(8),
    }
}

/// Stores what arrives until nothing more comes; after the end of the work nothing is stored.
fn store_all(session: &Session<'_, '_>, blocks: Receiver<Arrived>) {
    let _alarm = session.alarm("stores blocks");
    for arrived in blocks {
        if session.is_ending() {
            return;
        }
        if let Err(fault) = receive::store(session, arrived) {
            return session.end_by(fault);
        }
    }
}

fn take_events(
    session: &Session<'_, '_>,
    events: &Receiver<Event>,
    own: &PrivateDir,
    storers: &[Sender<Arrived>],
) -> Result<(), Fault> {
    let reporter = &session.datadir.reporter;
    if session.no_log_rate_limit {
        reporter.peer_lines().switch_off();
    }
    let mut last_index = Instant::now();
    let mut last_look: Option<Instant> = None;
    while !session.is_ending() {
        if last_look.is_none_or(|last| last.elapsed() >= EVENT_PATIENCE) {
            last_look = Some(Instant::now());
            session.tell(Input::Network(Box::new(session.network.progress())));
        }
        match events.recv_timeout(EVENT_PATIENCE) {
            Ok(event) => {
                if let Some(arrived) = receive::take_event(session, event, own)? {
                    // A block that comes twice comes to the same storer. One that has ended has said why.
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
        reporter.say_left_out();
        if last_index.elapsed() > INDEX_INTERVAL {
            if session.is_dirty.swap(false, Relaxed) {
                session.datadir.write_index(None)?;
            } else {
                session.datadir.writer.check_files()?;
            }
            last_index = Instant::now();
        }
    }
    Ok(())
}
