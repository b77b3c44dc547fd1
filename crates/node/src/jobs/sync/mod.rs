//! `sync`: blocks from peers, to the tip that they have, and on from there.
//!
//! Three threads beside the network's own and the pipeline's workers: one takes what arrives, looks whether it is whole,
//! and stores it, with helpers where there are many processors (`receive`); one brings the chain up to date (here); one tells
//! how far it is (`progress`). Which blocks are asked for is decided in `request`.

mod config;
mod hinted;
mod phases;
mod progress;
mod receive;
mod request;

use super::cache::FollowingCache;
use super::open::{Purpose, Which, open_existing};
use super::{AtEnd, engine_with, report};
use crate::arrivals::Arrivals;
use crate::atomic_height::AtomicHeight;
use crate::chainview::{SharedChain, Unserved};
use crate::datadir::{Assumed, DataDir};
use crate::engine::{Activated, Engine};
use crate::fault::Fault;
use crate::handle::{Handle, Live, Quiet};
use crate::hints::file::HintsFile;
use crate::hints::run::HintedRun;
use crate::locks::lock;
use crate::options::{Events, Options, Report};
use crate::session::facts::NetworkSetup;
use crate::threads::{self, spawn};
use crate::tree::{self, Fate, NodeId};
pub use p2p::api::{OUTBOUND_RESERVED, Reachable};
pub use p2p::permissions::{Permissions, PermittedNet, parse_whitebind};
use p2p::{BlockVerdict, Config, Event, Network, Peers, Want};
use primitives::{BlockHash, Height};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a block is taken for before one has arrived.
const BLOCK_BYTES_FIRST: u64 = 1_000_000;
/// Blocks that are planned for one run of the pipeline: what is planned costs memory and time for each.
const RUN_BLOCKS_MAX: u32 = 16_384;
/// File of the address memory, and its greatest size.
const ADDRESSES: &str = "addresses";
const ADDRESSES_BYTES_MAX: usize = 8 << 20;
/// How long a tip is no end while a header with more work is known that no peer withholds: who told of it may come again.
const LEFT_PATIENCE: Duration = Duration::from_secs(60);

/// What sync is told beside what all jobs are.
#[derive(Clone, Debug)]
pub struct SyncOptions {
    /// `--connect`: only these; an empty list for none at all.
    pub connect: Option<Vec<String>>,
    /// `--addnode`.
    pub addnode: Vec<String>,
    /// `--listen`.
    pub listen: Vec<SocketAddr>,
    /// `--proxy`.
    pub proxy: Option<String>,
    /// End at the tip that the peers have.
    pub exit_at_tip: bool,
    /// `--v2transport`.
    pub v2transport: bool,
    /// `--dnsseed`.
    pub dnsseed: bool,
    /// Outbound connections, at most 12.
    pub outbound: usize,
    /// What else peers see of this node, and how many may connect.
    pub peers: PeerSettings,
    /// Who may look at the sync and ask it things.
    pub handle: Option<Arc<Handle>>,
}

impl SyncOptions {
    /// Whether there is no peer, neither way.
    fn is_alone(&self) -> bool {
        self.outbound == 0 && self.connect.as_ref().is_some_and(Vec::is_empty)
    }

    /// No peer, neither way, over either transport: what is in the data directory, and what others ask through the handle.
    pub fn alone() -> SyncOptions {
        SyncOptions {
            connect: Some(Vec::new()),
            addnode: Vec::new(),
            listen: Vec::new(),
            proxy: None,
            exit_at_tip: false,
            v2transport: true,
            dnsseed: false,
            outbound: 0,
            peers: PeerSettings::default(),
            handle: None,
        }
    }
}

/// Settings of connections that have a default.
#[derive(Clone, Debug, Default)]
pub struct PeerSettings {
    /// `-uacomment`.
    pub user_agent_comments: Vec<String>,
    /// `-seednode`: nodes that are asked for addresses alone.
    pub seed_nodes: Vec<String>,
    /// `-forcednsseed`: DNS seeds are asked whatever addresses are known.
    pub force_dns_seed: bool,
    /// `-fixedseeds=0`.
    pub no_fixed_seeds: bool,
    /// `-onlynet`; every network without.
    pub only_networks: Vec<Reachable>,
    /// `-whitelist`.
    pub whitelist: Vec<PermittedNet>,
    /// `-whitebind`: where to listen besides.
    pub whitebind: Vec<(SocketAddr, Permissions)>,
    /// `-peerblockfilters`: basic block filters are served, of blockfilterindex.
    pub peer_block_filters: bool,
    /// `-peertimeout`; the network's default without.
    pub timeout: Option<Duration>,
    /// `--debug net`: each message and connection is told of in the log.
    pub debug_net: bool,
    /// `-logips`: with addresses.
    pub log_ips: bool,
    /// `-logratelimit=0`: lines about inbound connections are all in the log.
    pub no_log_rate_limit: bool,
    /// Most inbound connections; the network's default without.
    pub inbound_max: Option<usize>,
    /// How many blocks may be asked for beyond the lowest that has not arrived; Core's number without.
    pub window_blocks: Option<usize>,
    /// What the connections may be asked through while the sync runs.
    pub control: Arc<Peers>,
}

/// Whether `text` can be an address of `--connect` or `--addnode`.
///
/// # Errors
///
/// Why not.
pub fn check_peer_address(text: &str, default_port: u16) -> Result<(), String> {
    let target = p2p::wire::Target::parse(text, default_port).map_err(|why| why.to_string())?;
    match target {
        p2p::wire::Target::Peer(p2p::wire::PeerAddress { port: 0, .. }) | p2p::wire::Target::Name(_, 0) => {
            Err("no peer listens on port 0".to_owned())
        }
        _ => Ok(()),
    }
}

pub use phases::{FromSnapshot, sync, sync_from};

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
}

/// What the two threads share.
struct Shared<'f, 'e> {
    datadir: &'f DataDir<'e>,
    phase: Phase,
    /// Blocks go to this in place of the block files.
    hinted: Option<HintedRun<'f>>,
    handle: Option<&'f Handle>,
    network: Arc<Network>,
    setup: NetworkSetup,
    /// A data directory is served, and no peer is sought.
    is_alone: bool,
    /// Lines about inbound connections are all in the log.
    no_log_rate_limit: bool,
    arrivals: Arc<Arrivals>,
    unserved: Arc<Unserved>,
    /// The last blocks of the chains that peers have, the preferred first.
    targets: Mutex<Vec<BlockHash>>,
    /// Size of the blocks that arrive, smoothed.
    block_bytes: AtomicU64,
    /// Height of the last block that was wanted, where the number ahead of the tip is limited.
    wanted_to: AtomicHeight,
    /// Height where the preferred chain ends, as far as it is wanted.
    target_end: AtomicHeight,
    /// Blocks were stored since the index was written.
    dirty: AtomicBool,
    /// Less was wanted than could be: a commit is to make room first.
    held_back: AtomicBool,
    /// The last tip that was looked at, and since when it is the tip.
    tip_since: Mutex<(NodeId, Instant)>,
    /// Where the current run of the pipeline ends.
    run_to: Mutex<Option<NodeId>>,
    done: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Shared<'_, '_> {
    /// The thread that connects ends its run and finds this.
    fn end_by(&self, fault: Fault) {
        lock(&self.fault).get_or_insert(fault);
        self.arrivals.end();
    }

    /// Tells the thread that connects when this one panics: to be kept until it ends.
    fn alarm(&self, whose: &'static str) -> AtEnd<impl FnMut()> {
        AtEnd(move || {
            if std::thread::panicking() {
                self.end_by(Fault::internal(format!("the thread that {whose} panicked")));
            }
        })
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
    let window_bytes = (options.dbcache_bytes / 8).clamp(16 << 20, 256 << 20);
    let arrivals = Arc::new(Arrivals::new(window_bytes / 2, options.sizes.arrival_patience));
    existing.datadir.feed.arrivals = Some(arrivals.clone());
    let handle = sync.handle.as_deref().inspect(|handle| handle.attach(&mut existing.datadir));
    let datadir = &existing.datadir;
    let own = store::private_files::PrivateDir::new(datadir.disk.clone(), datadir.layout.private_dir());
    let config =
        config::config(options, sync, window_bytes, own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.unwrap_or_default());
    datadir.open_indexes(datadir.kept_indexes(), existing.tip)?;
    let height_start = datadir.headers().height(existing.tip);
    // The window is of the same memory.
    let budget_bytes = options.dbcache_bytes.saturating_sub(window_bytes).max(options.dbcache_bytes / 2);
    let mut engine = engine_with(datadir, existing.tip, budget_bytes);
    let hinted = match hints.map(|hints| hinted::open(datadir, hints)).transpose()? {
        Some(Err(why)) => return Ok(Ended::without_hints(datadir, &engine, &why)),
        opened => opened.and_then(Result::ok),
    };
    keep_apart(datadir)?;
    let live = Arc::new(Live::of(datadir, engine.pipeline.stats(), arrivals.clone()));
    let published = handle.map(|handle| handle.publish(live.clone()));
    // What is stored already is connected before peers are asked.
    let activated = match phase {
        Phase::Tip | Phase::Past if hinted.is_none() => activate_stored(datadir, &mut engine, handle)?,
        _ => Activated::Tip,
    };
    let (sender, receiver) = channel();
    let view = (Arc::new(Unserved::default()), phase == Phase::Tip && hinted.is_none() && datadir.assumed.is_none());
    let network = Arc::new(start_network(datadir, (config, sync.peers.control.clone()), sender, view.clone())?);
    live.set_network(network.clone());
    datadir.reporter.ready(phase.name());
    let shared = Shared {
        datadir,
        phase,
        hinted,
        handle,
        network,
        setup: NetworkSetup { listens: !sync.listen.is_empty() },
        is_alone: sync.is_alone(),
        no_log_rate_limit: sync.peers.no_log_rate_limit,
        arrivals,
        unserved: view.0,
        targets: Mutex::default(),
        block_bytes: AtomicU64::new(BLOCK_BYTES_FIRST),
        wanted_to: AtomicHeight::default(),
        target_end: AtomicHeight::default(),
        dirty: AtomicBool::new(false),
        held_back: AtomicBool::new(false),
        tip_since: Mutex::new((tree::GENESIS, Instant::now())),
        run_to: Mutex::new(None),
        done: AtomicBool::new(false),
        fault: Mutex::default(),
    };
    let (activated, events) = with_threads(&shared, &mut engine, receiver, &own, |engine| match activated {
        Activated::Tip => follow(&shared, engine, sync),
        ended => Ok(ended),
    })?;
    super::finish(datadir, &mut engine)?;
    let undelivered = undelivered(&shared, activated == Activated::Tip && phase == Phase::Tip);
    let is_suspect = is_suspect(&shared, &engine);
    shared.network.halt();
    keep_last_addresses(datadir, &own, &events)?;
    let hinted = shared.hinted.map_or(Ok(None), |hinted| hinted.finish(&datadir.reporter))?;
    let report = report(datadir, &engine, height_start, activated == Activated::Stopped);
    drop(live);
    drop(published);
    if let Some(handle) = handle {
        handle.wait_for_readers(|| datadir.stopping_now());
    }
    Ok(Ended { report: Report { undelivered, ..report }, is_suspect, hinted })
}

impl Ended {
    /// The hints were not used: nothing was done.
    fn without_hints(datadir: &DataDir<'_>, engine: &Engine<'_>, why: &str) -> Ended {
        datadir.reporter.note(format!("The hints are not used: {why}"));
        let height = datadir.headers().height(engine.tip());
        Ended { report: report(datadir, engine, height, false), is_suspect: false, hinted: None }
    }
}

/// Blocks that were announced and that no peer gave. Where the sync `is_at_end` and no connected peer that gives what it
/// announces has another tip, they are missing.
fn undelivered(shared: &Shared<'_, '_>, is_at_end: bool) -> Vec<(Height, BlockHash)> {
    let (progress, reporter) = (shared.network.progress(), &shared.datadir.reporter);
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

/// The last thing that the network says.
fn keep_last_addresses(
    datadir: &DataDir<'_>,
    own: &store::private_files::PrivateDir,
    events: &Receiver<Event>,
) -> Result<(), Fault> {
    let told = events.try_iter().filter_map(|event| match event {
        Event::Addresses(bytes) => Some(bytes),
        _ => None,
    });
    told.last().map_or(Ok(()), |bytes| keep_addresses(datadir, own, &bytes))
}

/// Connects what is stored already; who asks meanwhile is answered.
fn activate_stored(
    datadir: &DataDir<'_>,
    engine: &mut Engine<'_>,
    handle: Option<&Handle>,
) -> Result<Activated, Fault> {
    loop {
        match super::activate(datadir, engine)? {
            Activated::Asked => serve(datadir, engine, handle)?,
            ended => return Ok(ended),
        }
    }
}

/// Does what others wait for: no block is in flight.
fn serve(datadir: &DataDir<'_>, engine: &mut Engine<'_>, handle: Option<&Handle>) -> Result<(), Fault> {
    match handle {
        Some(handle) if datadir.turn.is_asked() => handle.serve(&mut Quiet { datadir, engine }),
        _ => Ok(()),
    }
}

/// Where blocks go, while a snapshot is not validated.
fn keep_apart(datadir: &DataDir<'_>) -> Result<(), Fault> {
    let Some(Assumed { base, is_past }) = datadir.assumed else { return Ok(()) };
    let height = datadir.headers().height(base);
    datadir.writer.keep_apart(&datadir.reporter, height, !is_past)
}

/// Whether what lies on top of a snapshot, or beside it, says that its past must be validated first.
fn is_suspect(shared: &Shared<'_, '_>, engine: &Engine<'_>) -> bool {
    let on_snapshot = shared.datadir.assumed.is_some_and(|assumed| !assumed.is_past);
    on_snapshot && (shared.datadir.reporter.shortfall.has_refused() || engine.is_held())
}

/// Whether this part of the sync is done, at the tip or before it.
fn is_done(shared: &Shared<'_, '_>, engine: &Engine<'_>, ends_at_tip: bool) -> bool {
    match (shared.phase, shared.datadir.assumed) {
        (Phase::Headers(base), _) => {
            let is_there = shared.datadir.headers().find(&base).is_some();
            // A base that no peer's chain has is for the load to refuse.
            is_there && shared.network.progress().headers_done || is_at_tip_of_headers(shared)
        }
        (Phase::Past, Some(Assumed { base, .. })) => {
            engine.tip() == base || shared.datadir.headers().fate(base) != Fate::Open
        }
        (Phase::Past, None) => true,
        (Phase::Tip, Some(_)) => is_suspect(shared, engine) || is_at_tip(shared, engine),
        (Phase::Tip, None) => ends_at_tip && is_at_tip(shared, engine),
    }
}

/// Whether every peer's headers were taken in.
fn is_at_tip_of_headers(shared: &Shared<'_, '_>) -> bool {
    let progress = shared.network.progress();
    progress.headers_done && progress.best_claim.is_some()
}

/// Starts the network's threads, which see the chain through the index.
fn start_network(
    datadir: &DataDir<'_>,
    (config, peers): (Config, Arc<Peers>),
    sender: Sender<Event>,
    (unserved, connects): (Arc<Unserved>, bool),
) -> Result<Network, Fault> {
    let chain = Arc::new(SharedChain {
        params: datadir.params.clone(),
        minimum_work: datadir.options.minimum_chain_work,
        index: datadir.index.clone(),
        files: datadir.files.clone(),
        writer: datadir.writer.clone(),
        pruned: datadir.is_pruning(),
        clock: datadir.options.clock,
        tip_age_max_s: datadir.options.sizes.tip_age_max_s,
        unserved,
        connects,
        indexing: datadir.indexing.clone(),
        disk: datadir.disk.clone(),
        layout: datadir.layout.clone(),
    });
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
fn with_threads<'f>(
    shared: &Shared<'_, '_>,
    engine: &mut Engine<'f>,
    receiver: Receiver<Event>,
    own: &store::private_files::PrivateDir,
    work: impl FnOnce(&mut Engine<'f>) -> Result<Activated, Fault>,
) -> Result<(Activated, Receiver<Event>), Fault> {
    let stats = engine.pipeline.stats();
    let cache = FollowingCache::of(shared.datadir, engine);
    std::thread::scope(|scope| {
        let telling = spawn(scope, "tell", || progress::tell(shared, &stats, cache))?;
        let end = AtEnd(|| {
            shared.done.store(true, Relaxed);
            shared.arrivals.hurry();
            telling.thread().unpark();
            shared.network.echo(); // Who takes what arrives looks now, not at the end of its time.
        });
        let receiving = spawn(scope, "arrive", || receive::take(shared, receiver, own))?;
        let result = work(engine);
        drop(end);
        let events = receiving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let result = match lock(&shared.fault).take() {
            Some(fault) => Err(fault),
            None => result,
        };
        result.map(|activated| (activated, events))
    })
}

/// Addresses are an aid: on a full disk they are not waited for.
fn keep_addresses(datadir: &DataDir<'_>, own: &store::private_files::PrivateDir, bytes: &[u8]) -> Result<(), Fault> {
    if bytes.len() <= p2p::addresses::EMPTY_BYTES && own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.is_none() {
        return Ok(()); // There is nothing to keep.
    }
    datadir.reporter.if_room("The addresses of peers stay as they were kept before", || own.write(ADDRESSES, bytes))
}

/// The next blocks of a chain that peers have and that stands on the tip: the preferred one. They may be there or still come.
fn next_run(shared: &Shared<'_, '_>, tip: NodeId) -> Option<NodeId> {
    let tree = shared.datadir.headers();
    let targets = request::open_targets(shared, &tree);
    let target = targets.into_iter().find(|&target| target != tip && tree.is_ancestor(tip, target))?;
    let end = tree.height(target).min(tree.height(tip).saturating_add(RUN_BLOCKS_MAX));
    Some(tree.ancestor(target, end))
}

/// Whether the chain is where the peers' chains end: no peer that delivers what it announces has more work, and no better
/// chain is stored. (A run ends before its last block where someone asks, or a block is refused.)
fn is_at_tip(shared: &Shared<'_, '_>, engine: &Engine<'_>) -> bool {
    // Asked before the tree is: headers that come in between are not taken for the end.
    let progress = shared.network.progress();
    if !engine.is_at_best() {
        return false;
    }
    let (tree, tip) = (shared.datadir.headers(), engine.tip());
    // Of two with the same work the first that came stays, whichever header was first.
    let work = tree.work(tip);
    let enough = progress.best_claim.is_none_or(|claim| work >= claim.work)
        && work >= shared.datadir.options.minimum_chain_work
        && tree.fate(tip) == Fate::Open;
    // Who told of more may have left for a moment.
    let (best, now) = (tree.best(), Instant::now());
    let is_known_to_lack = || {
        let withheld = progress.undelivered.iter().filter_map(|want| tree.find(&want.hash));
        withheld.into_iter().any(|node| tree.is_ancestor(node, best))
    };
    let is_waited_for = {
        let mut since = lock(&shared.tip_since);
        if since.0 != tip {
            *since = (tip, now);
        }
        now.saturating_duration_since(since.1) < LEFT_PATIENCE && tree.work(best) > work && !is_known_to_lack()
    };
    progress.headers_done && enough && !is_waited_for
}

/// Connects what arrives until the work is done.
fn follow(shared: &Shared<'_, '_>, engine: &mut Engine<'_>, sync: &SyncOptions) -> Result<Activated, Fault> {
    let datadir = shared.datadir;
    if let Some(hinted) = &shared.hinted {
        return hinted::follow(shared, hinted, engine);
    }
    // Blocks that were refused, and bodies that are to be fetched again.
    let count = || datadir.reporter.shortfall.bad_counts();
    let (mut told, mut seen) = (engine.tip(), count());
    loop {
        // A call to hurry from here on is heard.
        shared.arrivals.calm();
        if let Some(fault) = lock(&shared.fault).take() {
            return Err(fault);
        }
        if datadir.reporter.is_stopping() {
            return Ok(Activated::Stopped);
        }
        serve(datadir, engine, shared.handle)?;
        if shared.handle.is_some_and(Handle::wants_load) && datadir.assumed.is_none() {
            return Ok(Activated::Tip);
        }
        let found_count = datadir.index.read().found_count();
        let on_way = next_run(shared, engine.tip()).filter(|&run_to| engine.is_on_way(run_to));
        if on_way.is_none() && !matches!(shared.phase, Phase::Headers(_)) {
            match engine.activate()? {
                Activated::Tip => {}
                Activated::Asked => continue,
                ended => return Ok(ended),
            }
        }
        if let Some(run_to) = on_way.or_else(|| next_run(shared, engine.tip())) {
            *lock(&shared.run_to) = Some(run_to);
            // A better chain may have come after this one was planned.
            request::hurry_if_elsewhere(shared);
            let stopped = engine.stream(run_to)?;
            *lock(&shared.run_to) = None;
            if stopped {
                return Ok(Activated::Stopped);
            }
        }
        let (has_news, has_moved) = (seen != count(), engine.tip() != told);
        if has_news {
            seen = count();
            shared.arrivals.clear();
            for (hash, why) in datadir.reporter.take_invalid() {
                shared.network.verdict(hash, BlockVerdict::Invalid(why));
            }
            request::want(shared);
            datadir.look_for_alerts(engine.tip());
            continue; // The next best chain may be there: it is connected before anyone is told of the tip.
        }
        if has_moved {
            let last = std::mem::replace(&mut told, engine.tip());
            datadir.check_index();
            shared.network.new_tip();
            datadir.tell_tips(last, told);
            datadir.look_for_alerts(engine.tip());
        }
        if is_done(shared, engine, sync.exit_at_tip) {
            return Ok(Activated::Tip);
        }
        // Where blocks come one by one, none is in flight behind which the pipeline could commit by itself.
        datadir.commit_if_due(engine)?;
        // Nothing to connect: wait for the next arrival.
        shared.arrivals.wait(|| datadir.turn.is_asked() || datadir.index.read().found_count() != found_count);
    }
}
