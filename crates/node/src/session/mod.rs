//! The session: downloads blocks from peers up to their tip and follows it from there, and explains why a sync makes no
//! progress.
//!
//! ```text
//! network events ───────> receive ─> driver ─> block requests, notifications to peers
//! end of an engine run ──> work ───> driver ─> next step: connect stored blocks, run to a block, wait, end
//! ```
//!
//! - `driver` makes the decisions, with the rules of `request`, `finish` and `trust`.
//! - `inbox` queues blocks between peers and the pipeline.
//! - `threads` owns the threads and the network, and only moves data, through `link`.
//! - `receive` stores blocks; `work` runs the engine.
//! - `phases` splits a sync into parts, for snapshots and hints.
//! - `chainview` is the chain as peers see it.
//! - `facts` collects the facts from which `reporting::state` derives the displayed state.

mod archive;
mod bring;
pub mod budget;
pub(crate) mod chainview;
mod config;
mod downloaded;
pub(crate) mod driver;
pub(crate) mod facts;
mod fetch;
mod fetch_queue;
pub(crate) mod finish;
mod hinted;
pub(crate) mod inbox;
mod link;
pub mod options;
mod past;
mod peer_files;
pub(crate) mod phases;
mod progress;
mod receive;
pub mod repair;
pub(crate) mod request;
mod sources;
#[cfg(test)]
mod testing;
mod threads;
pub(crate) mod trust;
mod work;
#[cfg(test)]
mod world;

use crate::chain::headers::AssumeValid;
use crate::chain::tree::NodeId;
use crate::datadir::earlier::shut_out;
use crate::datadir::{DataDir, Origin};
use crate::fault::{Fault, Message};
use crate::handle::{Live, Published};
use crate::offline::open::{Existing, Purpose, Which, open_existing};
use crate::offline::{self, engine_with, report};
use crate::options::{Options, Prune};
use crate::pipeline::stats::Snapshot;
use crate::reporting::alerts::AlertKind;
use crate::reporting::{Events, JobReport};
use crate::session::options::SyncOptions;
use crate::snapshot::hints::file::HintsFile;
use crate::snapshot::served_sets;
use crate::threads::locks::lock;
use bring::WithSources;
use chainview::{SharedChain, Unserved};
use driver::{Goal, Outcome, Settings, SyncDriver};
use facts::NetworkSetup;
use inbox::Arrivals;
use link::{Line, Session};
use p2p::{Event, SetExchange, SetSource, Want};
use past::Past;
use peer_files::{Kept, PeerFiles};
use primitives::{BlockHash, Hash256, Height};
use sources::Sources;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use store::private_files::PrivateDir;
use threads::{Conduct, Wanted};
use work::{Engines, First};

/// A whole sync: one data directory, one network and one driver for all its parts.
struct Run<'o> {
    options: &'o Options,
    sync: &'o SyncOptions,
    /// `None` only while directories are swapped.
    datadir: Option<DataDir<'o>>,
    /// The last connected block.
    tip: NodeId,
    /// The chain below a snapshot that is not validated yet.
    past: Option<Past<'o>>,
    /// The hash of that chain's coins, once all its blocks are connected.
    past_hash: Option<Hash256>,
    kept: Kept,
    driver: Mutex<SyncDriver>,
    inbox: Arc<Arrivals>,
    chain: Arc<SharedChain>,
    network: Arc<dyn Line>,
    sources: Option<Arc<Sources>>,
    receiver: Receiver<Event>,
    conduct: &'o mut dyn Conduct,
    published: Option<Published<'o>>,
    height_start: Height,
    window_bytes: usize,
    /// Statistics of the finished parts.
    stats: Snapshot,
    /// Blocks connected below snapshots.
    past_blocks: u64,
}

/// Result of one part of a sync.
struct Part {
    outcome: Outcome,
    /// With hints: whether the UTXO set matches them, or what is wrong; `None` if blocks are missing.
    hinted: Option<Result<(), String>>,
}

impl<'o> Run<'o> {
    /// Opens the data directory and starts the network.
    ///
    /// # Errors
    ///
    /// The directory cannot be used, the network cannot be started, or an I/O error.
    fn new(
        options: &'o Options,
        sync: &'o SyncOptions,
        exchange: Option<Arc<SetExchange>>,
        conduct: &'o mut dyn Conduct,
        events: Events<'o>,
    ) -> Result<Run<'o>, Fault> {
        let purpose = if sync.to_archival { Purpose::Archival } else { Purpose::Work };
        let mut existing = open_existing(options, events, "sync", purpose, Which::Active)?;
        archive::begin(&mut existing.datadir, existing.tip)?;
        let window_bytes = (options.dbcache_bytes / 8).clamp(16 << 20, 256 << 20);
        let inbox = Arc::new(Arrivals::new(window_bytes / 2, options.sizes.arrival_patience));
        existing.datadir.feed.arrivals = Some(inbox.clone());
        sync.handle.iter().for_each(|handle| handle.attach(&mut existing.datadir));
        let Existing { datadir, tip } = existing;
        let own = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
        let peer_files = PeerFiles::of(&datadir);
        let known = peer_files.read(&datadir, &sync.peers, sync.connect.is_none())?;
        let mut config = config::config(options, sync, window_bytes, known);
        config::log_to(&mut config, &sync.peers, &datadir.reporter);
        config.set_exchange = exchange;
        let note = |text: String| datadir.reporter.note(text);
        let served = served_sets::open(options, datadir.layout.net_dir(), note);
        config.utxo_sets = served.map(|sets| sets as Arc<dyn SetSource>);
        datadir.open_indexes(datadir.kept_indexes(), tip)?;
        let past = past::open(&datadir, window_bytes / 2)?;
        let (sender, receiver) = channel();
        let chain = Arc::new(shared_chain(&datadir));
        let wanted = Wanted { datadir: &datadir, chain: chain.clone(), config, peers: sync.peers.control.clone() };
        let network = conduct.connect(wanted, sender)?;
        let sources = match &sync.from[..] {
            [] => None,
            paths => Some(Arc::new(Sources::open(&datadir, paths, sync.seeks_none())?)),
        };
        let network: Arc<dyn Line> = match &sources {
            Some(sources) => Arc::new(WithSources { network, sources: sources.clone() }),
            None => network,
        };
        let height_start = datadir.headers().height(tip);
        let mut driver = SyncDriver::new(settings(&datadir, sync), Goal::Tip, tip);
        if let Some(kept) = downloaded::read(&own)? {
            driver.go_on_with_budget(&kept, sync.download.local_time(options.clock));
        }
        Ok(Run {
            options,
            sync,
            datadir: Some(datadir),
            tip,
            past,
            past_hash: None,
            kept: Kept { own, peers: peer_files },
            driver: Mutex::new(driver),
            inbox,
            chain,
            network,
            sources,
            receiver,
            conduct,
            published: None,
            height_start,
            window_bytes,
            stats: Snapshot::default(),
            past_blocks: 0,
        })
    }

    fn datadir(&self) -> &DataDir<'o> {
        self.datadir.as_ref().expect("it is open between two parts")
    }

    /// The base block of a snapshot that is not validated yet.
    fn snapshot(&self) -> Option<NodeId> {
        self.datadir().assumed.map(|assumed| assumed.base)
    }

    /// Runs one part of the sync, and commits the connected blocks at its end. With `hints` the part ends at their
    /// height and stores no blocks.
    ///
    /// # Errors
    ///
    /// An I/O error. Peers cannot cause an error.
    fn part(&mut self, goal: Goal, hints: Option<&HintsFile>) -> Result<Part, Fault> {
        let datadir = self.datadir.as_ref().expect("it is open between two parts");
        let snapshot = datadir.assumed.map(|assumed| assumed.base);
        lock(&self.driver).enter(goal, self.tip, snapshot);
        let hinted = match hints.map(|hints| hinted::open(datadir, hints)).transpose()? {
            Some(Err(why)) => {
                datadir.reporter.note(format!("The hints are not used: {why}"));
                return Ok(Part { outcome: Outcome::Reached, hinted: None });
            }
            opened => opened.and_then(Result::ok),
        };
        // The download window uses part of the same memory.
        let all_bytes = self.options.dbcache_bytes;
        let budget_bytes = all_bytes.saturating_sub(self.window_bytes).max(all_bytes / 2);
        let mut engine = engine_with(datadir, self.tip, budget_bytes);
        let mut past_engine = self.past.as_ref().map(|past| engine_with(past, past.past_tip.get(), budget_bytes));
        self.chain.connects.store(goal == Goal::Tip && snapshot.is_none(), Relaxed);
        self.chain.is_pruned.store(datadir.is_pruning(), Relaxed);
        let handle = self.sync.handle.as_deref();
        if let Some(handle) = handle {
            let live = Arc::new(Live::of(datadir, engine.pipeline.stats(), self.inbox.clone()));
            self.conduct.network().into_iter().for_each(|network| live.set_network(network));
            match self.published {
                Some(_) => handle.replace(live),
                None => self.published = Some(handle.publish(live)),
            }
        }
        datadir.reporter.ready();
        let session = Session {
            datadir,
            past: self.past.as_ref(),
            hinted,
            handle,
            inbox: self.inbox.clone(),
            chain: self.chain.clone(),
            network: self.network.clone(),
            sources: self.sources.clone(),
            download: &self.sync.download,
            setup: NetworkSetup { listens: !self.sync.listen.is_empty(), has_proxy: self.sync.proxy.is_some() },
            is_alone: self.sync.is_alone(),
            no_log_rate_limit: self.sync.peers.no_log_rate_limit,
            driver: &self.driver,
            stats: engine.pipeline.stats(),
            clock: self.conduct.clock(),
            is_dirty: AtomicBool::new(false),
            ending: Mutex::default(),
            past_hash: Mutex::default(),
        };
        session.begin();
        self.conduct.prepare(&mut engine);
        past_engine.iter_mut().for_each(|engine| self.conduct.prepare(engine));
        let first = if goal == Goal::Past { First::Past } else { First::Tip };
        let engines = Engines { tip: &mut engine, past: past_engine.as_mut().into(), budget_bytes, first };
        let followed = self.conduct.follow(&session, engines, &mut self.receiver, &self.kept);
        // Such a fork is an error, which may come before the first look at the state.
        let outcome = followed.inspect_err(|_| datadir.say_pruned_fork())?;
        if let (Some(past), Some(engine)) = (&self.past, past_engine.as_mut()) {
            offline::finish_past(past, engine)?;
            past.past_tip.set(engine.tip());
            self.stats = engine.pipeline.stats().snapshot().after(&self.stats);
        }
        offline::finish(datadir, &mut engine)?;
        self.tip = engine.tip();
        self.stats = engine.pipeline.stats().snapshot().after(&self.stats);
        self.past_hash = session.past_hash.into_inner().unwrap_or_else(PoisonError::into_inner);
        let hinted = session.hinted.map_or(Ok(None), |hinted| hinted.finish(&datadir.reporter))?;
        Ok(Part { outcome, hinted })
    }

    /// Stops the network and returns the report.
    ///
    /// # Errors
    ///
    /// An I/O error.
    fn end(mut self, outcome: Outcome) -> Result<JobReport, Fault> {
        let is_at_end = outcome == Outcome::Reached;
        let undelivered = undelivered(&*self.network, self.datadir(), is_at_end);
        let assumed_elsewhere = facts::assumed_elsewhere(self.datadir(), &self.network.progress());
        let end_reason = self.end_reason().filter(|_| is_at_end);
        self.network.halt();
        self.leave_past();
        let datadir = self.datadir();
        keep_last_addresses(datadir, &self.kept.peers, &self.receiver)?;
        downloaded::keep(&self.kept.own, lock(&self.driver).budget(), &datadir.reporter)?;
        let is_stopped = outcome == Outcome::Stopped;
        let message = assumed_elsewhere.map(|assumed| assumed.message());
        datadir.reporter.say_while(AlertKind::AssumedElsewhere, message);
        let report = report(datadir, self.tip, self.height_start, self.stats.clone(), is_stopped);
        let end_reason = report.end_reason.clone().or(end_reason);
        let blocks = report.blocks + self.past_blocks;
        drop(self.published.take());
        if let Some(handle) = self.sync.handle.as_deref() {
            handle.wait_for_readers(|| self.datadir().stopping_now());
        }
        Ok(JobReport { undelivered, end_reason, blocks, ..report })
    }

    /// Why the sync ended although a better header chain is known.
    fn end_reason(&self) -> Option<Message> {
        let driver = lock(&self.driver);
        let index = self.datadir().index.read();
        let shut_out = shut_out(&index, index.tip(), driver.offered());
        let reason = finish::end_reason(&index, index.tip(), driver.network(), shut_out);
        reason.map(|reason| reason.message())
    }

    /// Closes the chain below a snapshot, and returns its data directory.
    fn leave_past(&mut self) -> Option<DataDir<'o>> {
        let past = self.past.take()?;
        self.past_blocks += past.reporter.report(JobReport::default()).blocks;
        Some(past.datadir)
    }
}

/// The driver's settings, from the options.
fn settings(datadir: &DataDir<'_>, sync: &SyncOptions) -> Settings {
    let options = datadir.options;
    Settings {
        ends_at_tip: sync.exit_at_tip,
        stop_at: options.stop_at_height,
        minimum_work: options.minimum_chain_work,
        run_blocks_max: options.sizes.run_blocks_max,
        prune_target: match options.prune {
            Prune::Target { bytes } => Some(bytes),
            Prune::Off | Prune::Manual => None,
        },
        assume: AssumeValid { hash: options.assumevalid, minimum_chain_work: options.minimum_chain_work },
        spacing_s: datadir.params.pow_target_spacing,
        expects_peers: !sync.seeks_none(),
        snapshot: datadir.assumed.map(|assumed| assumed.base),
        is_archiving: datadir.assumed.is_some_and(|assumed| assumed.origin == Origin::Pruned),
        limits: sync.download.limits,
    }
}

/// The chain as peers see it.
fn shared_chain(datadir: &DataDir<'_>) -> SharedChain {
    SharedChain {
        params: datadir.params.clone(),
        minimum_work: datadir.options.minimum_chain_work,
        index: datadir.index.clone(),
        files: datadir.files.clone(),
        writer: datadir.writer.clone(),
        is_pruned: AtomicBool::new(datadir.is_pruning()),
        clock: datadir.options.clock,
        tip_age_max_s: datadir.options.sizes.tip_age_max_s,
        unserved: Arc::<Unserved>::default(),
        offers: Mutex::default(),
        connects: AtomicBool::new(false),
        indexing: datadir.indexing.clone(),
        disk: datadir.disk.clone(),
        layout: datadir.layout.clone(),
    }
}

/// Blocks that were announced but not delivered. They are reported as missing if the sync `is_at_end` and no connected
/// peer that delivers its blocks claims another tip.
fn undelivered(network: &dyn Line, datadir: &DataDir<'_>, is_at_end: bool) -> Vec<(Height, BlockHash)> {
    let progress = network.progress();
    let reporter = &datadir.reporter;
    if progress.headers_too_new {
        reporter.shortfall.clock_behind();
    }
    if is_at_end && progress.best_claim.is_none() && !progress.undelivered.is_empty() {
        reporter.shortfall.undelivered();
    }
    for Want { hash, height } in &progress.undelivered {
        reporter.note(format!("Block {hash} at height {height} was announced, and no peer gave it"));
    }
    progress.undelivered.iter().map(|block| (block.height, block.hash)).collect()
}

/// Stores the addresses and anchors that the network reported last.
fn keep_last_addresses(datadir: &DataDir<'_>, files: &PeerFiles, events: &Receiver<Event>) -> Result<(), Fault> {
    let mut last = None;
    for event in events.try_iter() {
        match event {
            Event::Addresses(bytes) => last = Some(bytes),
            Event::Anchors(count, bytes) => files.keep_anchors(datadir, count, &bytes)?,
            _ => {}
        }
    }
    last.map_or(Ok(()), |bytes| files.keep_addresses(datadir, &bytes))
}
