//! The session: a sync of blocks from peers, to the tip that they have and on from there; and the answer to "why is nothing
//! happening?".
//!
//! ```text
//! what the network says ─> receive ─> driver ─> what to ask for, what to tell peers
//! where the engine rests ──> work ──> driver ─> the next step: connect what is stored, run to a block, wait, end
//! ```
//!
//! [`driver`] decides, by [`request`], [`finish`] and [`trust`]; [`inbox`] has the blocks between peers and pipeline; [`threads`]
//! has the threads and the network, and moves data alone; [`receive`] stores blocks; [`work`] runs the engine; [`phases`] is a
//! sync in parts, for snapshots and hints; [`chainview`] is the chain as peers see it.
//!
//! [`state`] makes the one state that everybody is shown from plain facts; `facts` gathers them; [`limit`] measures what the
//! work waits for.

pub(crate) mod chainview;
mod config;
pub(crate) mod driver;
pub(crate) mod facts;
pub(crate) mod finish;
mod hinted;
pub(crate) mod inbox;
pub mod limit;
pub(crate) mod phases;
mod progress;
mod receive;
pub(crate) mod request;
mod sentence;
pub mod state;
#[cfg(test)]
mod testing;
mod threads;
pub(crate) mod trust;
pub(crate) mod turn;
mod work;

use crate::datadir::{Assumed, DataDir};
use crate::engine::Engine;
use crate::fault::{Fault, Message};
use crate::handle::Live;
use crate::headers::AssumeValid;
use crate::hints::file::HintsFile;
use crate::hints::run::HintedRun;
use crate::jobs::open::{Existing, Purpose, Which, open_existing};
use crate::jobs::{SyncOptions, engine_with, report};
use crate::locks::lock;
use crate::options::{Events, Options, Prune, Report};
use chainview::{SharedChain, Unserved};
use driver::{Goal, Outcome, Settings, SyncDriver};
use facts::NetworkSetup;
use inbox::Arrivals;
use p2p::{Event, Want};
use primitives::{BlockHash, Height};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use store::private_files::PrivateDir;
use threads::Session;

/// File of the address memory, and its greatest size.
const ADDRESSES: &str = "addresses";
const ADDRESSES_BYTES_MAX: usize = 8 << 20;

/// What one part of a sync is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Headers alone, until this block is among them.
    Headers(BlockHash),
    /// The best chain; on top of a snapshot where one lies there.
    Tip,
    /// The chain up to the base block of the snapshot.
    Past,
}

impl Phase {
    /// The chainstate that it works on.
    fn which(self) -> Which {
        if self == Phase::Past { Which::Past } else { Which::Active }
    }

    /// In a word or two.
    fn name(self) -> &'static str {
        match self {
            Phase::Headers(_) => "headers",
            Phase::Tip => "following the chain",
            Phase::Past => "validating the snapshot's past",
        }
    }

    fn goal(self, assumed: Option<Assumed>, has_hints: bool) -> Goal {
        match (self, assumed) {
            (Phase::Headers(hash), _) => Goal::Headers(hash),
            (Phase::Past, Some(Assumed { base, .. })) => Goal::Past(base),
            _ if has_hints => Goal::Hinted,
            _ => Goal::Tip,
        }
    }
}

/// How a part of a sync ended.
struct Ended {
    report: Report,
    /// On top of a snapshot a block was refused, or a better chain does not have it: what it is worth must be known first.
    is_suspect: bool,
    /// With hints: the set is whole, or why they are wrong; `None` where blocks are missing.
    hinted: Option<Result<(), String>>,
}

/// Does one part of a sync: opens the data directory, starts the network, and ends both. With `hints` it ends at their
/// height, and stores no block.
///
/// # Errors
///
/// The directory cannot be used, the network cannot be started, or what the system says. Nothing that peers do is one.
fn run(
    options: &Options,
    sync: &SyncOptions,
    phase: Phase,
    hints: Option<&HintsFile>,
    events: Events<'_>,
) -> Result<Ended, Fault> {
    let mut existing = open_existing(options, events, "sync", Purpose::Work, phase.which())?;
    let window_bytes = (options.dbcache_bytes / 8).clamp(16 << 20, 256 << 20); // Of the same memory as the coins.
    let inbox = Arc::new(Arrivals::new(window_bytes / 2, options.sizes.arrival_patience));
    existing.datadir.feed.arrivals = Some(inbox.clone());
    let handle = sync.handle.as_deref().inspect(|handle| handle.attach(&mut existing.datadir));
    let Existing { datadir, tip } = &existing;
    let own = PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let addresses = own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.unwrap_or_default();
    let config = config::config(options, sync, window_bytes, addresses);
    datadir.open_indexes(datadir.kept_indexes(), *tip)?;
    let height_start = datadir.headers().height(*tip);
    let budget_bytes = options.dbcache_bytes.saturating_sub(window_bytes).max(options.dbcache_bytes / 2);
    let mut engine = engine_with(datadir, *tip, budget_bytes);
    let hinted = match hints.map(|hints| hinted::open(datadir, hints)).transpose()? {
        Some(Err(why)) => return Ok(Ended::without_hints(datadir, &engine, &why)),
        opened => opened.and_then(Result::ok),
    };
    keep_apart(datadir)?;
    let live = Arc::new(Live::of(datadir, engine.pipeline.stats(), inbox.clone()));
    let published = handle.map(|handle| handle.publish(live.clone()));
    let (sender, receiver) = channel();
    let connects = phase == Phase::Tip && hinted.is_none() && datadir.assumed.is_none();
    let chain = Arc::new(shared_chain(datadir, connects));
    let peers = sync.peers.control.clone();
    let network = Arc::new(threads::start_network(datadir, chain.clone(), config, peers, sender)?);
    live.set_network(network.clone());
    datadir.reporter.ready(phase.name());
    let goal = phase.goal(datadir.assumed, hinted.is_some());
    let driver = SyncDriver::new(settings(datadir, sync, hinted.as_ref()), goal, *tip);
    let session = Session {
        datadir,
        hinted,
        handle,
        inbox,
        chain,
        network,
        setup: NetworkSetup { listens: !sync.listen.is_empty(), has_proxy: sync.proxy.is_some() },
        is_alone: sync.is_alone(),
        no_log_rate_limit: sync.peers.no_log_rate_limit,
        driver: Mutex::new(driver),
        start: Instant::now(),
        is_dirty: AtomicBool::new(false),
        ending: Mutex::default(),
    };
    session.begin();
    let (outcome, events) =
        threads::with_threads(&session, &mut engine, receiver, &own, |engine| work::follow(&session, engine))?;
    crate::jobs::finish(datadir, &mut engine)?;
    let undelivered = undelivered(&session, outcome == Outcome::Reached && phase == Phase::Tip);
    let end_reason = end_reason(&session, outcome, phase);
    session.network.halt();
    keep_last_addresses(datadir, &own, &events)?;
    let hinted = session.hinted.map_or(Ok(None), |hinted| hinted.finish(&datadir.reporter))?;
    let report = report(datadir, &engine, height_start, outcome == Outcome::Stopped);
    let end_reason = report.end_reason.clone().or(end_reason);
    let report = Report { undelivered, end_reason, ..report };
    drop((live, published));
    if let Some(handle) = handle {
        handle.wait_for_readers(|| datadir.stopping_now());
    }
    Ok(Ended { report, is_suspect: outcome == Outcome::Suspect, hinted })
}

impl Ended {
    /// The hints were not used: nothing was done.
    fn without_hints(datadir: &DataDir<'_>, engine: &Engine<'_>, why: &str) -> Ended {
        datadir.reporter.note(format!("The hints are not used: {why}"));
        let height = datadir.headers().height(engine.tip());
        Ended { report: report(datadir, engine, height, false), is_suspect: false, hinted: None }
    }
}

/// What the driver is told of the options.
fn settings(datadir: &DataDir<'_>, sync: &SyncOptions, hinted: Option<&HintedRun<'_>>) -> Settings {
    let options = datadir.options;
    let seeks_none = sync.connect.as_ref().is_some_and(Vec::is_empty) && sync.addnode.is_empty();
    Settings {
        ends_at_tip: sync.exit_at_tip,
        stop_at: options.stop_at_height,
        minimum_work: options.minimum_chain_work,
        prune_target: match options.prune {
            Prune::Target { bytes } if hinted.is_none() => Some(bytes),
            _ => None,
        },
        assume: AssumeValid { hash: options.assumevalid, minimum_chain_work: options.minimum_chain_work },
        spacing_s: datadir.params.pow_target_spacing,
        expects_peers: !seeks_none,
        is_on_snapshot: datadir.assumed.is_some_and(|assumed| !assumed.is_past),
    }
}

/// The chain as peers see it.
fn shared_chain(datadir: &DataDir<'_>, connects: bool) -> SharedChain {
    SharedChain {
        params: datadir.params.clone(),
        minimum_work: datadir.options.minimum_chain_work,
        index: datadir.index.clone(),
        files: datadir.files.clone(),
        writer: datadir.writer.clone(),
        pruned: datadir.is_pruning(),
        clock: datadir.options.clock,
        tip_age_max_s: datadir.options.sizes.tip_age_max_s,
        unserved: Arc::<Unserved>::default(),
        offers: Mutex::default(),
        connects,
        indexing: datadir.indexing.clone(),
        disk: datadir.disk.clone(),
        layout: datadir.layout.clone(),
    }
}

/// Blocks that were announced and that no peer gave. Where the sync `is_at_end` and no connected peer that gives what it
/// announces has another tip, they are missing.
fn undelivered(session: &Session<'_, '_>, is_at_end: bool) -> Vec<(Height, BlockHash)> {
    let (progress, reporter) = (session.network.progress(), &session.datadir.reporter);
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

/// Why this part of a sync ended although a better header chain is known.
fn end_reason(session: &Session<'_, '_>, outcome: Outcome, phase: Phase) -> Option<Message> {
    if outcome != Outcome::Reached || phase != Phase::Tip || session.hinted.is_some() {
        return None;
    }
    let driver = lock(&session.driver);
    let index = session.datadir.index.read();
    let reason = finish::end_reason(&index, index.tip(), driver.network(), driver.shut_out(&index));
    reason.map(|reason| reason.message())
}

/// The last thing that the network says.
fn keep_last_addresses(datadir: &DataDir<'_>, own: &PrivateDir, events: &Receiver<Event>) -> Result<(), Fault> {
    let told = events.try_iter().filter_map(|event| match event {
        Event::Addresses(bytes) => Some(bytes),
        _ => None,
    });
    told.last().map_or(Ok(()), |bytes| keep_addresses(datadir, own, &bytes))
}

/// Where blocks go, while a snapshot is not validated.
fn keep_apart(datadir: &DataDir<'_>) -> Result<(), Fault> {
    let Some(Assumed { base, is_past }) = datadir.assumed else { return Ok(()) };
    let height = datadir.headers().height(base);
    datadir.writer.keep_apart(&datadir.reporter, height, !is_past)
}

/// Addresses are an aid: on a full disk they are not waited for.
fn keep_addresses(datadir: &DataDir<'_>, own: &PrivateDir, bytes: &[u8]) -> Result<(), Fault> {
    if bytes.len() <= p2p::addresses::EMPTY_BYTES && own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.is_none() {
        return Ok(()); // There is nothing to keep.
    }
    datadir.reporter.if_room("The addresses of peers stay as they were kept before", || own.write(ADDRESSES, bytes))
}
