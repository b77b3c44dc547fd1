//! `sync`: blocks from peers, to the tip that they have, and on from there.
//!
//! Two threads beside the network's own and the pipeline's workers: one takes what arrives, looks whether it is whole,
//! and stores it; the other brings the chain up to date.

use super::existing::{self, Purpose};
use super::{AtEnd, engine, report};
use crate::arrivals::Arrivals;
use crate::chainview::SharedChain;
use crate::engine::{Activated, Engine};
use crate::fault::Fault;
use crate::folder::{Folder, open};
use crate::options::{Events, Options, Report};
use crate::tree::{Fate, NodeId};
use consensus::Chain;
use p2p::{BlockVerdict, Config, Event, Network, NetworkParams, Outbound, Want};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::blockfiles::BlockBytes;

/// Blocks asked for in one list.
const WANTS_MAX: usize = 4096;
/// What a block is taken for before one has arrived.
const BLOCK_BYTES_FIRST: u64 = 1_000_000;
/// The index is made durable so often, so that a restart does not fetch the same blocks again.
const INDEX_INTERVAL: Duration = Duration::from_secs(30);
/// File of the address memory, and its greatest size.
const ADDRESSES: &str = "addresses";
const ADDRESSES_BYTES_MAX: usize = 8 << 20;

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
    /// Outbound connections, 8 to 12.
    pub outbound: usize,
}

/// What the two threads share.
struct Shared<'f, 'e> {
    folder: &'f Folder<'e>,
    network: Network,
    arrivals: Arc<Arrivals>,
    /// Bodies that arrived, for the engine's links.
    stored: Mutex<Vec<NodeId>>,
    /// Size of the blocks that arrive, smoothed.
    block_bytes: AtomicU64,
    /// Height of the last block that was wanted, where only so many may be ahead of the tip.
    wanted_to: AtomicU32,
    /// Less was wanted than could be: a commit is to make room first.
    held_back: AtomicBool,
    done: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

/// Brings the folder to the tip that its peers have.
pub fn sync(options: &Options, sync: &SyncOptions, events: Events<'_>) -> Result<Report, Fault> {
    open::clock(options)?;
    existing::finish_reindex(options, events)?;
    let mut existing = existing::open(options, events, "sync", Purpose::Work)?;
    let window_bytes = (options.dbcache_bytes / 8).clamp(16 << 20, 256 << 20);
    let arrivals = Arc::new(Arrivals::new(window_bytes / 2));
    existing.folder.arrivals = Some(arrivals.clone());
    let folder = &existing.folder;
    let chain = Arc::new(SharedChain {
        params: options.params.clone(),
        minimum_work: options.minimum_chain_work,
        tree: folder.tree.clone(),
        active: folder.active.clone(),
        files: folder.files.clone(),
        pruned: folder.is_pruning(),
    });
    let own = store::own::Own::new(folder.disk.clone(), folder.layout.own_dir());
    let config = config(options, sync, window_bytes, own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.unwrap_or_default());
    let height_start = folder.tree().height(existing.tip);
    let mut engine = engine(folder, existing.tip);
    engine.links = existing.links;
    // What is stored already is connected before anybody is asked.
    let mut activated = engine.activate()?;
    let (sender, receiver) = channel();
    let network = Network::start(config, chain, sender).map_err(|why| {
        Fault::refused(format!("the network cannot be started: {why}; is another program on that port (--listen)?"))
    })?;
    for address in network.listening() {
        folder.teller.note(format!("Listening on {address}"));
    }
    let shared = Shared {
        folder,
        network,
        arrivals,
        stored: Mutex::default(),
        block_bytes: AtomicU64::new(BLOCK_BYTES_FIRST),
        wanted_to: AtomicU32::new(0),
        held_back: AtomicBool::new(false),
        done: AtomicBool::new(false),
        fault: Mutex::default(),
    };
    let result = std::thread::scope(|scope| {
        let taker = scope.spawn(|| take(&shared, receiver, &own));
        let stats = engine.pipeline.stats();
        let result = {
            let _end = AtEnd(|| {
                shared.done.store(true, Relaxed);
                shared.arrivals.hurry();
            });
            if activated == Activated::Tip { follow(&shared, &mut engine, sync, &stats) } else { Ok(activated) }
        };
        taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match shared.fault.lock().expect("nobody panics with it").take() {
            Some(fault) => Err(fault),
            None => result,
        }
    });
    activated = result?;
    super::finish(folder, &mut engine)?;
    let report = report(folder, &engine, height_start, activated == Activated::Stopped);
    shared.network.stop();
    Ok(report)
}

fn config(options: &Options, sync: &SyncOptions, window_bytes: usize, addresses: Vec<u8>) -> Config {
    let params = &options.params;
    let known = match params.chain {
        Chain::Main => p2p::params::MAIN,
        Chain::Test => p2p::params::TEST,
        Chain::Testnet4 => p2p::params::TESTNET4,
        Chain::Signet => p2p::params::SIGNET,
        Chain::Regtest => p2p::params::REGTEST,
    };
    // A custom signet has another magic, and none of the known seeds.
    let dns_seeds = if params.magic == known.magic { known.dns_seeds } else { &[] };
    let mut config = Config::new(NetworkParams { magic: params.magic, dns_seeds, ..known });
    if let Some(only) = &sync.connect {
        config.outbound = Outbound::Only(only.clone());
    }
    config.add_nodes = sync.addnode.clone();
    config.listen = sync.listen.clone();
    config.proxy = sync.proxy.clone();
    config.v2transport = sync.v2transport;
    config.dns_seed = sync.dnsseed;
    config.outbound_count = sync.outbound;
    config.version = env!("CARGO_PKG_VERSION").to_owned();
    config.addresses = addresses;
    config.window_bytes = window_bytes;
    config
}

/// Takes what the network says until the work is done.
fn take(shared: &Shared<'_, '_>, events: Receiver<Event>, own: &store::own::Own) {
    // The other thread ends its run and finds this.
    let end_by = |fault: Fault| {
        shared.fault.lock().expect("nobody panics with it").get_or_insert(fault);
        shared.arrivals.hurry();
    };
    let _alarm = AtEnd(|| {
        if std::thread::panicking() {
            end_by(Fault::own("the thread that takes what arrives panicked"));
        }
    });
    if let Err(fault) = take_events(shared, &events, own) {
        end_by(fault);
    }
}

fn take_events(shared: &Shared<'_, '_>, events: &Receiver<Event>, own: &store::own::Own) -> Result<(), Fault> {
    let mut last_index = Instant::now();
    let mut dirty = false;
    while !shared.done.load(Relaxed) {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => dirty |= take_event(shared, event, own)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::own("the network's thread ended")),
        }
        want_if_ahead(shared);
        if dirty && last_index.elapsed() > INDEX_INTERVAL {
            shared.folder.write_index(None)?;
            (dirty, last_index) = (false, Instant::now());
        }
    }
    Ok(())
}

/// Says whether something was stored.
fn take_event(shared: &Shared<'_, '_>, event: Event, own: &store::own::Own) -> Result<bool, Fault> {
    let (folder, teller) = (shared.folder, &shared.folder.teller);
    match event {
        Event::PeerConnected { peer, info } => {
            let way = if info.inbound { "from" } else { "to" };
            let transport = if info.v2 { "v2" } else { "v1" };
            teller.note(format!("Peer {peer}: connected {way} {} {} ({transport})", info.address, info.agent));
        }
        Event::PeerGone { peer, address, reason } => teller.note(format!("Peer {peer}: {address} gone: {reason}")),
        Event::Note(text) => teller.note(text),
        Event::Headers { .. } | Event::WantMore | Event::HeadersDone => want(shared),
        Event::Addresses(bytes) => own.write(ADDRESSES, &bytes)?,
        Event::Block { hash, bytes, .. } => {
            let known = folder.tree().find(&hash);
            let Some(id) = known.filter(|&id| folder.place(id).is_none()) else {
                shared.network.verdict(hash, BlockVerdict::Stored);
                return Ok(false);
            };
            let height = folder.tree().height(id);
            let (bytes, start, held) = bytes.into_parts();
            let spares = held.spares();
            let bytes = BlockBytes::lent(bytes, start, Arc::new(move |done| spares.give(done)));
            let keep = |checked| shared.arrivals.keep((height, id), bytes.clone(), checked, held);
            match folder.store_block(id, &bytes, keep)? {
                Ok(()) => {
                    let (before, now) = (shared.block_bytes.load(Relaxed), bytes.len() as u64);
                    shared.block_bytes.store((before * 31 + now) / 32, Relaxed);
                    shared.stored.lock().expect("nobody panics with it").push(id);
                    shared.arrivals.arrived();
                    shared.network.verdict(hash, BlockVerdict::Stored);
                    return Ok(true);
                }
                Err(error) => {
                    teller.refused(
                        height,
                        hash,
                        &format!("{error} (this body only, from a peer: its header is not marked)"),
                        false,
                    );
                    shared.network.verdict(hash, BlockVerdict::BadBody(error.to_string()));
                }
            }
        }
    }
    Ok(false)
}

/// Asks for the blocks of the best header chain that are not there.
fn want(shared: &Shared<'_, '_>) {
    let folder = shared.folder;
    let tree = folder.tree();
    let best = tree.best();
    if tree.work(best) < folder.options.minimum_chain_work {
        return;
    }
    let active = folder.active.read().expect("nobody panics with it");
    let tip = active.last().copied().unwrap_or(crate::tree::GENESIS);
    let fork = tree.fork(tip, best);
    let stop = folder.options.stop_at_height.unwrap_or(u32::MAX);
    // What is stored ahead of the tip cannot be pruned: there must not be much of it.
    let ahead = folder.ahead_max(shared.block_bytes.load(Relaxed)).unwrap_or(u32::MAX);
    let mut end = stop.min(tree.height(tip).saturating_add(ahead)).clamp(tree.height(fork), tree.height(best));
    // Until a commit has made room, only what was asked for already comes.
    let wanted = shared.wanted_to.load(Relaxed).max(tree.height(fork));
    let is_held_back = folder.prune_is_due() && wanted < end;
    if is_held_back {
        end = wanted;
    }
    shared.held_back.store(is_held_back, Relaxed);
    shared.wanted_to.store(end, Relaxed);
    let mut list = Vec::new();
    for node in tree.path(fork, tree.ancestor(best, end)) {
        if list.len() == WANTS_MAX {
            break;
        }
        if tree.body(node).data == 0 {
            list.push(Want { hash: tree.hash(node), height: tree.height(node) });
        }
    }
    folder.teller.height_end.store(tree.height(best).min(stop), Relaxed);
    drop(tree);
    shared.network.want(list);
}

/// Where only so many blocks may be ahead of the tip, more are wanted as it goes up, and as blocks become smaller;
/// and when a commit has made room.
fn want_if_ahead(shared: &Shared<'_, '_>) {
    let Some(ahead) = shared.folder.ahead_max(shared.block_bytes.load(Relaxed)) else { return };
    if shared.held_back.load(Relaxed) {
        if !shared.folder.prune_is_due() {
            want(shared);
        }
        return;
    }
    let height = shared.folder.teller.height.load(Relaxed);
    let end = shared.wanted_to.load(Relaxed);
    let is_short = end.saturating_sub(height) < ahead - ahead / 8;
    if is_short && end < shared.folder.teller.height_end.load(Relaxed) {
        want(shared);
    }
}

/// Connects what arrives until the work is done.
fn follow(
    shared: &Shared<'_, '_>,
    engine: &mut Engine<'_>,
    sync: &SyncOptions,
    stats: &crate::stats::Stats,
) -> Result<Activated, Fault> {
    let folder = shared.folder;
    let (mut told, mut invalid) = (engine.tip(), folder.teller.invalid.load(Relaxed));
    loop {
        if let Some(fault) = shared.fault.lock().expect("nobody panics with it").take() {
            return Err(fault);
        }
        if folder.is_stopping() {
            return Ok(Activated::Stopped);
        }
        for id in std::mem::take(&mut *shared.stored.lock().expect("nobody panics with it")) {
            engine.links.add(&folder.tree(), id);
        }
        let progress = shared.network.progress();
        folder.teller.peers.store((progress.outbound_count + progress.inbound_count) as u32, Relaxed);
        folder.teller.progress(|| stats.snapshot());
        match engine.activate()? {
            Activated::Tip => {}
            ended => return Ok(ended),
        }
        let best = folder.tree().best();
        let enough = folder.tree().work(best) >= folder.options.minimum_chain_work;
        if best != engine.tip() && enough && folder.tree().is_ancestor(engine.tip(), best) && engine.stream(best)? {
            return Ok(Activated::Stopped);
        }
        let now_invalid = folder.teller.invalid.load(Relaxed);
        if now_invalid != invalid {
            invalid = now_invalid;
            shared.arrivals.clear();
            for (hash, why) in std::mem::take(&mut *folder.newly_refused.lock().expect("nobody panics with it")) {
                shared.network.verdict(hash, BlockVerdict::Invalid(why));
            }
            want(shared);
        }
        if engine.tip() != told {
            told = engine.tip();
            shared.network.new_tip();
        }
        // Asked before the tree is: headers that come in between are not taken for the end.
        let headers_done = shared.network.progress().headers_done;
        // Of two with the same work the first that came stays, whichever header was first.
        let at_tip = {
            let tree = folder.tree();
            tree.work(engine.tip()) >= tree.work(tree.best()) && tree.fate(engine.tip()) == Fate::Open
        };
        if at_tip && sync.exit_at_tip && headers_done && shared.stored.lock().expect("nobody panics with it").is_empty()
        {
            return Ok(Activated::Tip);
        }
        // Where blocks come one by one, none is in flight behind which the pipeline could commit by itself.
        folder.commit_if_due(engine)?;
        // Nothing to connect: wait for the next arrival.
        let waiting = || !shared.stored.lock().expect("nobody panics with it").is_empty();
        shared.arrivals.wait(waiting);
    }
}
