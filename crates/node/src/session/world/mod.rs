//! A simulation of the session: simulated network, disk and clock, and the deterministic pipeline, all in one thread
//! and controlled by one seed. SEED=number replays one seed; SEEDS=number plays all seeds below it (default 1,000),
//! starting at FROM.
//!
//! `scripted` plays fixed scenarios, each for one behaviour; `seeds` plays scenarios generated from a number.
//!
//! A seed plays one kind of sync (plain, pruned, from a snapshot with validation below it, with hints) from several
//! peers with latency, bandwidth and loss, some of them hostile. During the sync the machine stops at any write, the
//! disk is full, or the peers switch to another chain (reorg). After each stop the sync starts again from the disk's
//! contents. In the end the UTXO set must equal that of a reindex of the best chain.

mod net;
mod scripted;
mod seeds;

use super::driver::{Input, Outcome};
use super::facts::FactsSeen;
use super::link::{Line, Session};
use super::threads::{Conduct, Wanted};
use super::work::{self, Aside, Engines};
use super::{progress, receive};
use crate::fault::Fault;
use crate::offline;
use crate::options::{Options, OwnFiles, Prune, Sizes};
use crate::pipeline::engine::Engine;
use crate::session::options::SyncOptions;
use crate::session::peer_files::Kept;
use crate::snapshot::{self, DumpOut, DumpTarget};
use crate::utxo_stats::SetHash;
use consensus::{Chain, Params};
use disk::{Disk, SimDisk};
use net::{Blocks, Manner, Net, Peer, SimLine};
use p2p::ChainView;
use p2p::addresses::Addresses;
use primitives::{BlockHash, Hash256, Height, Work};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::blockfiles::Limits;
use testkit::Rng;
use testkit::blocks;

const DATADIR: &str = "/no-such-directory";
const SNAPSHOT: &str = "/out/snapshot.dat";
const HINTS: &str = "/out/hints";
/// Height of the main chain, height of the other branch, and the last block that they share.
const BLOCKS: u32 = 112;
const BRANCH: u32 = 114;
const FORK: usize = 108;
/// Base height of the snapshot.
const BASE: u32 = 104;
/// Height of the chain with hints, which needs 288 blocks above the hinted height.
const LONG: u32 = 310;
const HINTED: u32 = 16;
/// Simulated time of one round, and of one round after several rounds without network events.
const STEP_MS: u64 = 50;
const IDLE_STEP_MS: u64 = 500;
const IDLE_ROUNDS: u32 = 8;
/// Maximum number of rounds of a sync.
const ROUNDS_MAX: u32 = 8_000;

/// Contents of peers.dat for a network without addresses.
fn peers_file() -> Vec<u8> {
    Addresses::deterministic(Arc::default()).to_bytes(Params::new(Chain::Regtest).magic)
}

/// A chain, and the hash of its UTXO set.
struct Known {
    blocks: Blocks,
    set: Hash256,
}

/// Data that all seeds share.
struct Scene {
    main: Known,
    branch: Known,
    long: Known,
    snapshot: Vec<u8>,
    snapshot_hash: Hash256,
    hints: Vec<u8>,
}

fn put(disk: &SimDisk, path: &Path, bytes: &[u8]) {
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    let file = disk.create(path).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    for directory in path.ancestors().skip(1) {
        disk.sync_dir(directory).unwrap();
    }
}

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    disk.open(Path::new(path)).unwrap().bytes().unwrap().to_vec()
}

fn clock() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::from(blocks::GENESIS_TIME) + 600 * 400)
}

fn options(disk: &SimDisk) -> Options {
    let limits = Limits { file_bytes_max: 6_000, chunk_bytes: 1_000 };
    Options {
        disk: disk.shared(),
        minimum_chain_work: Work::ZERO,
        // One thread plays all workers, so it must never wait for a buffer that a block in flight uses: the budget is
        // large.
        dbcache_bytes: 4 << 30,
        par: 32,
        assumevalid: BlockHash::ZERO,
        sizes: Sizes {
            run_blocks_max: 48,
            arrival_patience: Duration::ZERO,
            check_block_index: 1,
            limits,
            ..Sizes::default()
        },
        blocksxor: false,
        own_files: OwnFiles { log: Some(PathBuf::new()), ..OwnFiles::default() },
        ..Options::new(PathBuf::from(DATADIR), Params::new(Chain::Regtest), clock)
    }
}

/// A data directory with these blocks, reindexed.
fn whole(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    let magic = Params::new(Chain::Regtest).magic;
    let file: Vec<u8> = blocks.iter().flat_map(|block| blocks::record(magic, block)).collect();
    put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file);
    disk.create_dir_all(Path::new("/out")).unwrap();
    offline::reindex(&options(&disk), false, &|_| ()).unwrap();
    disk
}

fn set_of(disk: &SimDisk) -> (Height, Hash256) {
    let set = offline::set_info(&options(disk), SetHash::Serialized, &|_| ()).unwrap();
    (set.height, set.hash.unwrap().1)
}

fn known(blocks: Vec<Vec<u8>>) -> (Known, SimDisk) {
    let disk = whole(&blocks);
    let set = set_of(&disk).1;
    (Known { blocks: Arc::new(blocks), set }, disk)
}

/// Another branch above [`FORK`], whose coinbases pay less.
fn branch_of(main: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut chain = main[..=FORK].to_vec();
    for height in FORK as u32 + 1..=BRANCH {
        let mut coinbase = blocks::coinbase(height);
        coinbase.outputs[0].0 -= 7;
        let prev = blocks::hash_of(chain.last().unwrap());
        chain.push(blocks::block(prev, blocks::GENESIS_TIME + 600 * height + 1, &[coinbase]));
    }
    chain
}

fn scene() -> &'static Scene {
    static SCENE: OnceLock<Scene> = OnceLock::new();
    SCENE.get_or_init(|| {
        let genesis = Params::new(Chain::Regtest).genesis;
        let blocks = blocks::chain(&genesis, BLOCKS);
        let (branch, _) = known(branch_of(&blocks));
        let (main, disk) = known(blocks);
        let out = DumpOut::File(SNAPSHOT.into());
        let dumped = snapshot::dump(&options(&disk), DumpTarget::Height(Height::new(BASE)), out, &|_| ()).unwrap();
        let long = blocks::chain(&genesis, LONG);
        let below = whole(&long[..=HINTED as usize]);
        snapshot::make_hints(&options(&below), Path::new(HINTS), &|_| ()).unwrap();
        let (long, _) = known(long);
        Scene {
            snapshot: read(&disk, SNAPSHOT),
            snapshot_hash: dumped.txoutset_hash,
            hints: read(&below, HINTS),
            main,
            branch,
            long,
        }
    })
}

/// Options of a sync to the tip of the scenario's peers.
fn to_tip() -> SyncOptions {
    SyncOptions { connect: Some(vec!["peer".to_owned()]), exit_at_tip: true, ..SyncOptions::alone() }
}

/// One thread that runs the session and its network.
struct Alone {
    net: Net,
    chain: Option<Arc<dyn ChainView>>,
    events: Option<Sender<p2p::Event>>,
    /// When the honest peers switch to another chain, and that chain.
    switch: Option<(When, Blocks)>,
    /// The addresses that the network reports at the end.
    addresses: Vec<u8>,
    /// When the job must stop.
    stop_ms: Option<u64>,
    /// How long hashing the coins below a snapshot takes.
    hash_ms: u64,
    /// The tip when hashing starts and when it ends.
    tips_of_hash: Vec<Height>,
    /// Rounds between two progress updates.
    tells_every: u32,
    rng: Rng,
    rounds: u32,
    /// Rounds since the last network event.
    idle_rounds: u32,
}

/// A point in time of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// After this many milliseconds.
    At(u64),
    /// When hashing of the coins below a snapshot starts.
    Hashing,
}

impl Alone {
    /// These peers, without any accidents.
    fn new(peers: Vec<Peer>, rng: &mut Rng) -> Alone {
        Alone {
            net: Net::new(peers, Rng::new(rng.u64())),
            chain: None,
            events: None,
            switch: None,
            addresses: Vec::new(),
            stop_ms: None,
            hash_ms: 0,
            tips_of_hash: Vec::new(),
            tells_every: 16,
            rng: Rng::new(rng.u64()),
            rounds: 0,
            idle_rounds: 0,
        }
    }

    fn now_ms(&self) -> u64 {
        self.net.now().as_millis() as u64
    }

    /// Switches the peers to their other chain if its time has come.
    fn switch_at(&mut self, moment: Option<When>) {
        let now_ms = self.now_ms();
        let is_now = |when: When| match when {
            When::At(at) => at <= now_ms,
            When::Hashing => moment == Some(when),
        };
        if let Some((_, chain)) = self.switch.take_if(|(when, _)| is_now(*when)) {
            self.net.switch(&chain);
        }
    }

    /// Does the work of the other threads, between two steps of the engine.
    fn hear(
        &mut self,
        session: &Session<'_, '_>,
        receiver: &mut Receiver<p2p::Event>,
        kept: &Kept,
    ) -> Result<(), Fault> {
        let chain = self.chain.clone().unwrap();
        let events = self.events.clone().unwrap();
        let unix = (session.datadir.options.clock)().duration_since(UNIX_EPOCH).unwrap().as_secs();
        self.switch_at(None);
        if self.stop_ms.is_some_and(|at| self.now_ms() >= at) {
            session.datadir.options.stop.store(true, Relaxed);
        }
        let step_ms = if self.idle_rounds < IDLE_ROUNDS { STEP_MS } else { IDLE_STEP_MS };
        self.net.tick(step_ms, &*chain, unix, &events);
        self.idle_rounds += 1;
        while let Ok(event) = receiver.try_recv() {
            self.idle_rounds = 0;
            if let Some(arrived) = receive::take_event(session, event, kept)? {
                receive::store(session, arrived)?;
            }
        }
        session.tell(Input::Network(Box::new(session.network.progress())));
        session.tell_clock();
        session.tell(Input::Tick);
        session.take_offers();
        if self.rng.one_in(40) {
            session.datadir.write_index(None)?;
        }
        Ok(())
    }
}

impl Conduct for Alone {
    fn connect(&mut self, wanted: Wanted<'_, '_>, sender: Sender<p2p::Event>) -> Result<Arc<dyn Line>, Fault> {
        self.events = Some(sender.clone());
        self.chain = Some(wanted.chain.clone());
        let events = Mutex::new(sender);
        let addresses = self.addresses.clone();
        Ok(Arc::new(SimLine { net: self.net.clone(), chain: wanted.chain, events, addresses }))
    }

    fn prepare(&mut self, engine: &mut Engine<'_>) {
        let mut rng = Rng::new(self.rng.u64());
        engine.pipeline.set_deterministic(Box::new(move |ready| rng.below(ready.len())));
    }

    fn clock(&self) -> Arc<dyn Fn() -> Duration + Send + Sync> {
        let net = self.net.clone();
        Arc::new(move || net.now())
    }

    fn follow<'s>(
        &mut self,
        session: &'s Session<'_, '_>,
        mut engines: Engines<'s, '_>,
        receiver: &mut Receiver<p2p::Event>,
        kept: &Kept,
    ) -> Result<Outcome, Fault> {
        let stats = engines.tip.pipeline.stats();
        let mut seen = FactsSeen::default();
        engines.begin();
        // The closure for another thread, and the time at which it runs.
        let mut beside: Option<(u64, Aside<'s>)> = None;
        loop {
            self.hear(session, receiver, kept)?;
            if self.rounds.is_multiple_of(self.tells_every) {
                progress::measure(session, &stats.snapshot());
                session.datadir.reporter.session(progress::facts(session, &mut seen));
                session.datadir.reporter.last_progress(stats.snapshot());
            }
            let mut wanted = None;
            let outcome = work::step(session, &mut engines, &mut |aside| {
                wanted = Some(aside);
                Ok(())
            })?;
            if let Some(aside) = wanted {
                self.tips_of_hash = vec![session.datadir.tip_height()];
                self.switch_at(Some(When::Hashing));
                beside = Some((self.now_ms() + self.hash_ms, aside));
            }
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
            if let Some((_, aside)) = beside.take_if(|(at, _)| *at <= self.now_ms()) {
                self.tips_of_hash.push(session.datadir.tip_height());
                aside();
            }
            self.rounds += 1;
            assert!(
                self.rounds < ROUNDS_MAX,
                "the sync does not end: tip {}, past {:?}, {}, {:?}",
                session.datadir.tip_height(),
                session.past.map(|past| past.past_tip.get()),
                self.net.describe(),
                crate::threads::locks::lock(session.driver)
            );
        }
    }
}
