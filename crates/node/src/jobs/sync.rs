//! `sync`: blocks from peers, to the tip that they have, and on from there.
//!
//! Three threads beside the network's own and the pipeline's workers: one takes what arrives, looks whether it is whole,
//! and stores it, with helpers where there are many processors; one brings the chain up to date; one tells how far it is.

use super::existing::{self, Purpose};
use super::{AtEnd, engine_with, report};
use crate::arrivals::Arrivals;
use crate::chainview::SharedChain;
use crate::engine::{Activated, Engine};
use crate::fault::Fault;
use crate::folder::{Folder, open};
use crate::log::Crowd;
use crate::options::{Events, Options, Report};
use crate::stats::{Snapshot, Stats};
use crate::tree::{Fate, GENESIS, NodeId};
use consensus::Chain;
use p2p::{BlockVerdict, Config, Event, Network, NetworkParams, Outbound, Want};
use primitives::Hash256;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};
use store::blockfiles::BlockBytes;

/// Blocks asked for in one list.
const WANTS_MAX: usize = 4096;
/// What a block is taken for before one has arrived.
const BLOCK_BYTES_FIRST: u64 = 1_000_000;
/// Blocks that are planned for one run of the pipeline: what is planned costs memory and time for each.
const RUN_BLOCKS_MAX: u32 = 16_384;
/// Bytes of a transaction on the main network: 735 GB over 1.31 thousand million; and for how many seen ones that counts.
const TRANSACTION_BYTES: f64 = 560.0;
const TRANSACTIONS_KNOWN: f64 = 1e6;
/// How far it is is looked at so often.
const TELL_INTERVAL: Duration = Duration::from_millis(100);
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
    /// Blocks were stored since the index was written.
    dirty: AtomicBool,
    /// Less was wanted than could be: a commit is to make room first.
    held_back: AtomicBool,
    /// Where the run of the pipeline ends that goes on; [`GENESIS`] while there is none.
    run_to: AtomicU32,
    done: AtomicBool,
    fault: Mutex<Option<Fault>>,
}

impl Shared<'_, '_> {
    /// The thread that connects ends its run and finds this.
    fn end_by(&self, fault: Fault) {
        self.fault.lock().expect("nobody panics with it").get_or_insert(fault);
        self.arrivals.hurry();
    }

    /// Tells the thread that connects when this one panics: to be kept until it ends.
    fn alarm(&self, whose: &'static str) -> AtEnd<impl FnMut()> {
        AtEnd(move || {
            if std::thread::panicking() {
                self.end_by(Fault::own(format!("the thread that {whose} panicked")));
            }
        })
    }
}

/// Brings the folder to the tip that its peers have.
pub fn sync(options: &Options, sync: &SyncOptions, events: Events<'_>) -> Result<Report, Fault> {
    open::clock(options)?;
    existing::finish_reindex(options, events)?;
    let mut existing = existing::open(options, events, "sync", Purpose::Work)?;
    let window_bytes = (options.dbcache_bytes / 8).clamp(16 << 20, 256 << 20);
    let arrivals = Arc::new(Arrivals::new(window_bytes / 2, options.sizes.arrival_patience));
    existing.folder.arrivals = Some(arrivals.clone());
    let folder = &existing.folder;
    let chain = Arc::new(SharedChain {
        params: options.params.clone(),
        minimum_work: options.minimum_chain_work,
        tree: folder.tree.clone(),
        active: folder.active.clone(),
        files: folder.files.clone(),
        writers: folder.writers.clone(),
        pruned: folder.is_pruning(),
    });
    let own = store::own::Own::new(folder.disk.clone(), folder.layout.own_dir());
    let config = config(options, sync, window_bytes, own.read(ADDRESSES, ADDRESSES_BYTES_MAX)?.unwrap_or_default());
    let height_start = folder.tree().height(existing.tip);
    // The window is of the same memory.
    let budget_bytes = options.dbcache_bytes.saturating_sub(window_bytes).max(options.dbcache_bytes / 2);
    let mut engine = engine_with(folder, existing.tip, budget_bytes);
    engine.links = existing.links;
    // What is stored already is connected before anybody is asked.
    let mut activated = super::activate(folder, &mut engine)?;
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
        dirty: AtomicBool::new(false),
        held_back: AtomicBool::new(false),
        run_to: AtomicU32::new(GENESIS),
        done: AtomicBool::new(false),
        fault: Mutex::default(),
    };
    let stats = engine.pipeline.stats();
    let result = std::thread::scope(|scope| {
        let taker = spawn(scope, "arrive", || take(&shared, receiver, &own));
        let teller = spawn(scope, "tell", || tell(&shared, &stats));
        let result = {
            let _end = AtEnd(|| {
                shared.done.store(true, Relaxed);
                shared.arrivals.hurry();
                teller.thread().unpark();
            });
            if activated == Activated::Tip { follow(&shared, &mut engine, sync) } else { Ok(activated) }
        };
        let events = taker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let result = match shared.fault.lock().expect("nobody panics with it").take() {
            Some(fault) => Err(fault),
            None => result,
        };
        result.map(|activated| (activated, events))
    });
    let (ended, events) = result?;
    activated = ended;
    super::finish(folder, &mut engine)?;
    shared.network.stop();
    // The last thing that the network says.
    let told =
        events.try_iter().filter_map(|event| if let Event::Addresses(bytes) = event { Some(bytes) } else { None });
    if let Some(bytes) = told.last() {
        keep_addresses(folder, &own, &bytes)?;
    }
    Ok(report(folder, &engine, height_start, activated == Activated::Stopped))
}

/// Addresses are an aid: on a full disk they are not waited for.
fn keep_addresses(folder: &Folder<'_>, own: &store::own::Own, bytes: &[u8]) -> Result<(), Fault> {
    folder.if_room("The addresses of peers stay as they were kept before", || own.write(ADDRESSES, bytes))
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

fn spawn<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: impl Into<String>,
    work: impl FnOnce() -> T + Send + 's,
) -> ScopedJoinHandle<'s, T> {
    std::thread::Builder::new().name(name.into()).spawn_scoped(scope, work).expect("threads start")
}

/// Takes what the network says until the work is done, and leaves the rest.
fn take(shared: &Shared<'_, '_>, events: Receiver<Event>, own: &store::own::Own) -> Receiver<Event> {
    let _alarm = shared.alarm("takes what arrives");
    std::thread::scope(|scope| {
        let storers: Vec<Sender<Arrived>> = (0..storer_count(shared.folder.options.par))
            .map(|n| {
                let (sender, blocks) = channel();
                spawn(scope, format!("arrive.{n:02}"), move || store_all(shared, blocks));
                sender
            })
            .collect();
        if let Err(fault) = take_events(shared, &events, own, &storers) {
            shared.end_by(fault);
        }
    });
    events
}

/// Threads that check and store blocks in place of the one that takes what arrives: one of them keeps up with four or
/// five workers, and with few workers nobody has the processor for it.
fn storer_count(par: usize) -> usize {
    if par < 8 { 0 } else { (par / 4).min(8) }
}

/// A block that was asked for.
struct Arrived {
    hash: Hash256,
    bytes: p2p::BlockBytes,
}

/// Stores what arrives until nothing more comes; after the end of the work nothing is stored.
fn store_all(shared: &Shared<'_, '_>, blocks: Receiver<Arrived>) {
    let _alarm = shared.alarm("stores blocks");
    for arrived in blocks {
        if shared.done.load(Relaxed) {
            return;
        }
        if let Err(fault) = store(shared, arrived) {
            return shared.end_by(fault);
        }
    }
}

fn take_events(
    shared: &Shared<'_, '_>,
    events: &Receiver<Event>,
    own: &store::own::Own,
    storers: &[Sender<Arrived>],
) -> Result<(), Fault> {
    let (mut last_index, mut crowd) = (Instant::now(), Crowd::default());
    // Headers that are known already are news to nobody.
    want(shared);
    while !shared.done.load(Relaxed) {
        match events.recv_timeout(Duration::from_millis(100)) {
            Ok(event) => take_event(shared, event, own, storers, &mut crowd)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Fault::own("the network's thread ended")),
        }
        want_if_ahead(shared);
        if last_index.elapsed() > INDEX_INTERVAL {
            if shared.dirty.swap(false, Relaxed) {
                shared.folder.write_index(None)?;
            }
            last_index = Instant::now();
        }
    }
    Ok(())
}

fn take_event(
    shared: &Shared<'_, '_>,
    event: Event,
    own: &store::own::Own,
    storers: &[Sender<Arrived>],
    crowd: &mut Crowd,
) -> Result<(), Fault> {
    let teller = &shared.folder.teller;
    match event {
        Event::PeerConnected { peer, info } => {
            let way = if info.inbound { "from" } else { "to" };
            let transport = if info.v2 { "v2" } else { "v1" };
            if !info.inbound || crowd.may_speak(teller.log()) {
                teller.note(format!("Peer {peer}: connected {way} {} {} ({transport})", info.address, info.agent));
            }
        }
        Event::PeerGone { peer, address, inbound, reason } => {
            if !inbound || crowd.may_speak(teller.log()) {
                teller.note(format!("Peer {peer}: {address} gone: {reason}"));
            }
        }
        Event::Note(text) => {
            if crowd.may_speak(teller.log()) {
                teller.note(text);
            }
        }
        Event::Headers { .. } => {
            hurry_if_elsewhere(shared);
            want(shared);
        }
        Event::WantMore | Event::HeadersDone => want(shared),
        Event::Addresses(bytes) => keep_addresses(shared.folder, own, &bytes)?,
        Event::Block { hash, bytes, .. } => {
            let arrived = Arrived { hash, bytes };
            // A block that comes twice comes to the same storer. One that has ended has said why.
            match storers.get(usize::from(hash.0[0]) % storers.len().max(1)) {
                Some(storer) => drop(storer.send(arrived)),
                None => store(shared, arrived)?,
            }
        }
    }
    Ok(())
}

/// Checks a block and stores it, if that was not done before.
fn store(shared: &Shared<'_, '_>, Arrived { hash, bytes }: Arrived) -> Result<(), Fault> {
    let folder = shared.folder;
    let known = folder.tree().find(&hash);
    let Some(id) = known.filter(|&id| folder.place(id).is_none()) else {
        shared.network.verdict(hash, BlockVerdict::Stored);
        return Ok(());
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
            shared.dirty.store(true, Relaxed);
            shared.stored.lock().expect("nobody panics with it").push(id);
            shared.arrivals.arrived();
            shared.network.verdict(hash, BlockVerdict::Stored);
        }
        Err(error) => {
            let why = format!("{error} (this body only, from a peer: its header is not marked)");
            folder.teller.refused(height, hash, &why, false);
            shared.network.verdict(hash, BlockVerdict::BadBody(error));
        }
    }
    Ok(())
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
    let mut from = fork;
    // Piece by piece: there may be a million headers, and few are wanted.
    while tree.height(from) < end && list.len() < WANTS_MAX {
        let to = tree.ancestor(best, end.min(tree.height(from).saturating_add(WANTS_MAX as u32)));
        let missing = tree.path(from, to).into_iter().filter(|&node| tree.body(node).data == 0);
        let room = WANTS_MAX - list.len();
        list.extend(missing.take(room).map(|node| Want { hash: tree.hash(node), height: tree.height(node) }));
        from = to;
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

/// Ends the wait for the next block of a chain that is not the best any more.
fn hurry_if_elsewhere(shared: &Shared<'_, '_>) {
    let run_to = shared.run_to.load(Relaxed);
    let is_elsewhere = {
        let tree = shared.folder.tree();
        run_to != GENESIS && !tree.is_ancestor(run_to, tree.best())
    };
    if is_elsewhere {
        shared.arrivals.hurry();
    }
}

/// Tells how far it is until the work is done.
fn tell(shared: &Shared<'_, '_>, stats: &Stats) {
    let _alarm = shared.alarm("tells how far it is");
    let folder = shared.folder;
    while !shared.done.load(Relaxed) {
        std::thread::park_timeout(TELL_INTERVAL);
        if folder.is_stopping() {
            shared.arrivals.hurry();
        }
        measure(shared, &stats.snapshot());
        folder.teller.progress(|| stats.snapshot());
    }
}

/// What there is to do: the blocks of the best header chain.
fn measure(shared: &Shared<'_, '_>, stats: &Snapshot) {
    let (folder, teller) = (shared.folder, &shared.folder.teller);
    let progress = shared.network.progress();
    teller.peers.store((progress.outbound_count + progress.inbound_count) as u32, Relaxed);
    let (best, work) = {
        let tree = folder.tree();
        (tree.height(tree.best()), tree.work(tree.best()))
    };
    teller.headers.store(best, Relaxed);
    teller.presync.store(progress.presync_height.unwrap_or(0), Relaxed);
    if work >= folder.options.minimum_chain_work {
        let end = best.min(folder.options.stop_at_height.unwrap_or(u32::MAX));
        let done = teller.bytes.load(Relaxed);
        teller.height_end.store(end, Relaxed);
        let left = bytes_left_by_transactions(folder, end, stats).unwrap_or_else(|| bytes_left(shared, end));
        teller.bytes_end.store(done + left, Relaxed);
    }
}

/// Bytes of the blocks up to `end` that are not connected, by the transactions that the network is known to have had until
/// then: early blocks say nothing of the size of later ones. None near the end, where the blocks of late say more.
fn bytes_left_by_transactions(folder: &Folder<'_>, end: u32, stats: &Snapshot) -> Option<u64> {
    let far = folder.teller.height.load(Relaxed).saturating_add(RUN_BLOCKS_MAX);
    let time = {
        let tree = folder.tree();
        (far < end).then(|| tree.time(tree.ancestor(tree.best(), end)))?
    };
    let all = folder.params.chain_tx_data.transactions_at(i64::from(time))?;
    let left = (all - folder.teller.transactions.load(Relaxed) as f64).max(0.0);
    Some(bytes_of_transactions(left, stats.bytes, stats.transactions))
}

/// What so many transactions take. Those that were seen so far, in so many bytes of blocks, count beside what is known, so
/// that the first blocks do not decide.
fn bytes_of_transactions(count: f64, seen_bytes: u64, seen: u64) -> u64 {
    let (bytes, seen) = (seen_bytes as f64, seen as f64);
    (count * (bytes + TRANSACTION_BYTES * TRANSACTIONS_KNOWN) / (seen + TRANSACTIONS_KNOWN)) as u64
}

/// The same, each block that is to come taken to be as large as those of late; of those next, what is stored is known.
fn bytes_left(shared: &Shared<'_, '_>, end: u32) -> u64 {
    let block_bytes = shared.block_bytes.load(Relaxed);
    let tip = shared.folder.active.read().expect("nobody panics with it").last().copied().unwrap_or(GENESIS);
    let tree = shared.folder.tree();
    let best = tree.best();
    let near = end.min(tree.height(best)).min(tree.height(tip).saturating_add(RUN_BLOCKS_MAX));
    let mut bytes = 0;
    if near > tree.height(tip) && tree.is_ancestor(tip, best) {
        let size = |node: NodeId| Some(u64::from(tree.body(node).size)).filter(|&size| size > 0);
        let path = tree.path(tip, tree.ancestor(best, near));
        bytes = path.into_iter().map(|node| size(node).unwrap_or(block_bytes)).sum();
    }
    bytes + u64::from(end.saturating_sub(near.max(tree.height(tip)))) * block_bytes
}

/// The next blocks of the best header chain, where it stands on the tip; they may be there or still come.
fn next_run(folder: &Folder<'_>, tip: NodeId) -> Option<NodeId> {
    let tree = folder.tree();
    let best = tree.best();
    let enough = tree.work(best) >= folder.options.minimum_chain_work;
    let end = tree.height(best).min(tree.height(tip).saturating_add(RUN_BLOCKS_MAX));
    (best != tip && enough && tree.is_ancestor(tip, best)).then(|| tree.ancestor(best, end))
}

/// Connects what arrives until the work is done.
fn follow(shared: &Shared<'_, '_>, engine: &mut Engine<'_>, sync: &SyncOptions) -> Result<Activated, Fault> {
    let folder = shared.folder;
    // Blocks that were refused, and bodies that are to be fetched again.
    let count = || (folder.teller.invalid.load(Relaxed), folder.teller.lost.load(Relaxed));
    let (mut told, mut seen) = (engine.tip(), count());
    loop {
        // Whoever hurries from here on is heard.
        shared.arrivals.calm();
        if let Some(fault) = shared.fault.lock().expect("nobody panics with it").take() {
            return Err(fault);
        }
        if folder.is_stopping() {
            return Ok(Activated::Stopped);
        }
        for id in std::mem::take(&mut *shared.stored.lock().expect("nobody panics with it")) {
            engine.links.add(&folder.tree(), id);
        }
        match engine.activate()? {
            Activated::Tip => {}
            ended => return Ok(ended),
        }
        if let Some(run_to) = next_run(folder, engine.tip()) {
            shared.run_to.store(run_to, Relaxed);
            // A better chain may have come since it was planned, when nobody knew of it.
            hurry_if_elsewhere(shared);
            let stopped = engine.stream(run_to)?;
            shared.run_to.store(GENESIS, Relaxed);
            if stopped {
                return Ok(Activated::Stopped);
            }
        }
        if seen != count() {
            seen = count();
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
            let work = tree.work(engine.tip());
            let enough = work >= tree.work(tree.best()) && work >= folder.options.minimum_chain_work;
            enough && tree.fate(engine.tip()) == Fate::Open
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_blocks_do_not_decide() {
        for (row, count, seen_bytes, seen, want) in [
            ("nothing seen", 1.3e9, 0, 0, 728_000_000_000),
            ("blocks without transactions", 1.3e9, 230 * 10_000, 10_000, 723_000_000_000),
            ("half a chain of small ones", 6.5e8, 300 * 650_000_000, 650_000_000, 195_000_000_000),
            ("none left", 0.0, 560, 1, 0),
        ] {
            let got = bytes_of_transactions(count, seen_bytes, seen);
            assert!(got.abs_diff(want) <= want / 200, "{row}: {got} for {want}");
        }
    }
}
