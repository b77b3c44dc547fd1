//! A world for the session: a simulated network, a simulated disk, the deterministic pipeline and a simulated clock, by one thread
//! and driven by one seed. What fails is played again by SEED=number; SEEDS=number plays so many (1,000 without).
//!
//! A seed plays a sync of one kind (plain, pruned, from a snapshot with its past, with hints) from several peers with latency,
//! bandwidth and loss; some of them are hostile. On the way the machine stops at any write, the disk is full, the peers go to
//! another chain (reorg). After each stop the sync is begun again on what the disk kept. In the end the UTXO set is that of a reindex
//! of the best chain.

mod net;

use super::driver::{Input, Outcome};
use super::link::{Line, Session};
use super::phases::{FromSnapshot, sync_with};
use super::receive;
use super::threads::{Conduct, Wanted};
use super::work::{self, Engines};
use crate::fault::Fault;
use crate::offline;
use crate::options::{Options, OwnFiles, Prune, Sizes};
use crate::pipeline::engine::Engine;
use crate::reporting::Event;
use crate::session::options::SyncOptions;
use crate::snapshot::{self, DumpOut, DumpTarget};
use crate::utxo_stats::SetHash;
use consensus::{Chain, Params};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use net::{Manner, Net, Peer, SimLine};
use p2p::ChainView;
use primitives::{BlockHash, Hash256, Height, Work};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::blockfiles::Limits;
use store::private_files::PrivateDir;
use testkit::Rng;
use testkit::blocks;

const DATADIR: &str = "/no-such-directory";
const SNAPSHOT: &str = "/out/snapshot.dat";
const HINTS: &str = "/out/hints";
/// Seeds that are played without SEEDS.
const SEEDS: u64 = 1_000;
/// Blocks of the chain, of the other branch, and where that leaves the first.
const BLOCKS: u32 = 112;
const BRANCH: u32 = 114;
const FORK: usize = 108;
/// The base of the snapshot.
const BASE: u32 = 104;
/// Blocks of the chain with hints, which need 288 above them.
const LONG: u32 = 310;
const HINTED: u32 = 16;
/// Simulated time of one round, and the rounds that a sync may take.
const STEP_MS: u64 = 50;
const ROUNDS_MAX: u32 = 8_000;

/// A chain, and the set at its end.
struct Known {
    blocks: Arc<Vec<Vec<u8>>>,
    set: Hash256,
}

/// What all seeds share.
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
        // One thread plays all workers: it must never wait for a buffer that a block in flight holds. So there are many.
        dbcache_bytes: 4 << 30,
        par: 32,
        assumevalid: BlockHash::ZERO,
        sizes: Sizes { arrival_patience: Duration::ZERO, check_block_index: 1, limits, ..Sizes::default() },
        blocksxor: false,
        own_files: OwnFiles { log: Some(PathBuf::new()), ..OwnFiles::default() },
        ..Options::new(PathBuf::from(DATADIR), Params::new(Chain::Regtest), clock)
    }
}

/// A data directory that was made of these blocks.
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

/// Another branch from [`FORK`] on: its coinbases pay less.
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

/// Which sync a seed plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Plain,
    Pruned,
    Snapshot,
    Hints,
}

/// One seed's story.
struct Story {
    kind: Kind,
    peers: Vec<Peer>,
    /// When the peers go to the other branch.
    reorg_ms: Option<u64>,
    /// Operations until the machine stops, one start after the other.
    crashes: Vec<u64>,
    /// When the disk is full for a few operations.
    full: Option<u64>,
    rng: Rng,
}

impl Story {
    fn new(seed: u64) -> Story {
        let mut rng = Rng::new(seed);
        let kind = match rng.below(40) {
            0 => Kind::Hints,
            1..9 => Kind::Snapshot,
            9..19 => Kind::Pruned,
            _ => Kind::Plain,
        };
        let scene = scene();
        let chain = if kind == Kind::Hints { &scene.long.blocks } else { &scene.main.blocks };
        let peers = (0..1 + rng.below(5)).map(|place| any_peer(&mut rng, chain, place == 0)).collect();
        let crashes = (0..rng.below(4)).map(|_| 1 + rng.below(400) as u64).collect();
        let has_reorg = kind != Kind::Hints && rng.one_in(3);
        let reorg_ms = has_reorg.then(|| rng.below(8_000) as u64);
        let full = rng.one_in(6).then(|| rng.below(300) as u64);
        Story { kind, peers, reorg_ms, crashes, full, rng }
    }

    fn end(&self) -> &'static Known {
        match (self.kind, self.reorg_ms) {
            (Kind::Hints, _) => &scene().long,
            (_, Some(_)) => &scene().branch,
            (_, None) => &scene().main,
        }
    }

    /// What the sync is told.
    fn options(&self, disk: &SimDisk) -> Options {
        let mut options = options(disk);
        match self.kind {
            Kind::Plain | Kind::Snapshot => {}
            Kind::Pruned => options.prune = Prune::Target { bytes: 12_000 },
            Kind::Hints => {
                options.prune = Prune::Manual;
                options.params.pow_target_spacing = 60 * 60 * 24;
                options.assumevalid = blocks::hash_of(&scene().long.blocks[HINTED as usize + 1]);
            }
        }
        options
    }

    fn from(&self) -> FromSnapshot {
        match self.kind {
            Kind::Snapshot => {
                let hash = Some(scene().snapshot_hash);
                FromSnapshot { file: Some(SNAPSHOT.into()), hash, hints: None }
            }
            Kind::Hints => FromSnapshot { hints: Some(HINTS.into()), ..FromSnapshot::default() },
            Kind::Plain | Kind::Pruned => FromSnapshot::default(),
        }
    }
}

/// A peer; the first one is honest, and has all.
fn any_peer(rng: &mut Rng, chain: &Arc<Vec<Vec<u8>>>, is_first: bool) -> Peer {
    let height = 1 + rng.below(chain.len() - 1);
    let manner = match rng.below(9) {
        _ if is_first => Manner::Honest,
        0 => Manner::Withholds(height),
        1 => Manner::BadBody(height),
        2 => Manner::Garbage(height),
        3 => Manner::Dribbles,
        4 => Manner::Leaves(200 + rng.below(4_000) as u64),
        _ => Manner::Honest,
    };
    Peer {
        chain: chain.clone(),
        manner,
        latency_ms: [1, 20, 50, 200][rng.below(4)],
        rate: [1, 10, 1000][rng.below(3)],
        loss_percent: [0, 0, 5, 20][rng.below(4)],
        message: [7, 40, 2000][rng.below(3)],
    }
}

/// One thread that plays the session and its network.
struct Alone {
    net: Net,
    chain: Option<Arc<dyn ChainView>>,
    events: Option<Sender<p2p::Event>>,
    reorg_ms: Option<u64>,
    other: Arc<Vec<Vec<u8>>>,
    rng: Rng,
    rounds: u32,
}

impl Conduct for Alone {
    fn connect(&mut self, wanted: Wanted<'_, '_>, sender: Sender<p2p::Event>) -> Result<Arc<dyn Line>, Fault> {
        self.events = Some(sender);
        self.chain = Some(wanted.chain.clone());
        Ok(Arc::new(SimLine { net: self.net.clone(), chain: wanted.chain }))
    }

    fn prepare(&mut self, engine: &mut Engine<'_>) {
        let mut rng = Rng::new(self.rng.u64());
        engine.pipeline.set_deterministic(Box::new(move |ready| rng.below(ready.len())));
    }

    fn clock(&self) -> Arc<dyn Fn() -> Duration + Send + Sync> {
        let net = self.net.clone();
        Arc::new(move || net.now())
    }

    fn follow(
        &mut self,
        session: &Session<'_, '_>,
        mut engines: Engines<'_, '_>,
        receiver: &mut Receiver<p2p::Event>,
        own: &PrivateDir,
    ) -> Result<Outcome, Fault> {
        engines.begin();
        let chain = self.chain.clone().unwrap();
        let events = self.events.clone().unwrap();
        let unix = clock().duration_since(UNIX_EPOCH).unwrap().as_secs();
        loop {
            if self.reorg_ms.is_some_and(|at| self.net.now().as_millis() as u64 >= at) {
                self.reorg_ms = None;
                self.net.switch(&self.other);
            }
            self.net.tick(STEP_MS, &*chain, unix, &events);
            while let Ok(event) = receiver.try_recv() {
                if let Some(arrived) = receive::take_event(session, event, own)? {
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
            if let Some(outcome) = work::step(session, &mut engines)? {
                return Ok(outcome);
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

/// Plays a seed; says how many starts it took.
fn play(seed: u64) -> usize {
    let mut story = Story::new(seed);
    let mut disk = SimDisk::new(0);
    disk.create_dir_all(Path::new(DATADIR)).unwrap();
    put(&disk, Path::new(SNAPSHOT), &scene().snapshot);
    put(&disk, Path::new(HINTS), &scene().hints);
    let crashes = std::mem::take(&mut story.crashes);
    let mut starts = 0;
    for crash in crashes.into_iter().map(Some).chain([None]) {
        starts += 1;
        disk.heal();
        let stops_at = crash.map(|after| disk.operations() + after);
        stops_at.into_iter().for_each(|at| disk.fail_at(at, 1, Accident::Stop));
        if let Some(after) = story.full.take() {
            disk.fail_at(disk.operations() + after, 2, Accident::NoSpace);
        }
        let full = disk.clone();
        // Someone frees space as soon as it is missed.
        let events = move |event: Event| {
            if matches!(&event, Event::Warning(text) if text.contains("space")) {
                full.heal();
                stops_at.into_iter().for_each(|at| full.fail_at(at.max(full.operations() + 1), 1, Accident::Stop));
            }
        };
        // The peers are where they were: on the other branch, once they went there.
        let mut alone = Alone {
            net: Net::new(story.peers.clone(), Rng::new(story.rng.u64())),
            chain: None,
            events: None,
            reorg_ms: story.reorg_ms,
            other: scene().branch.blocks.clone(),
            rng: Rng::new(story.rng.u64()),
            rounds: 0,
        };
        let options = story.options(&disk);
        let sync = SyncOptions { connect: Some(vec!["peer".to_owned()]), exit_at_tip: true, ..SyncOptions::alone() };
        let done = sync_with(&options, &sync, &story.from(), &mut alone, &events);
        match done {
            Ok(report) if alone.reorg_ms.is_none() => {
                assert_eq!(report.height, net::height_of(&story.end().blocks), "seed {seed}: {report:?}");
                let (height, set) = set_of(&disk);
                assert_eq!((height, set), (report.height, story.end().set), "seed {seed}: the set");
                return starts;
            }
            // It was done before the peers went to the other branch: that is there at the next start.
            Ok(_) => story.reorg_ms = Some(0),
            // A sync that found no space is never tried again: the next start goes on.
            Err(fault) => {
                let is_full = fault.to_string().contains("space");
                assert!(crash.is_some() || is_full, "seed {seed}: {fault}");
                let loss = match story.rng.below(3) {
                    0 => Loss::Nothing,
                    1 => Loss::Unsynced,
                    _ => Loss::Random(story.rng.u64()),
                };
                disk = disk.reopen(loss);
            }
        }
    }
    starts + finish(&mut story, &disk, seed)
}

/// One more start: the last one was before the reorganization, or found the disk full.
fn finish(story: &mut Story, disk: &SimDisk, seed: u64) -> usize {
    disk.heal();
    let mut alone = Alone {
        net: Net::new(story.peers.clone(), Rng::new(story.rng.u64())),
        chain: None,
        events: None,
        reorg_ms: story.reorg_ms.map(|_| 0),
        other: scene().branch.blocks.clone(),
        rng: Rng::new(story.rng.u64()),
        rounds: 0,
    };
    let sync = SyncOptions { connect: Some(vec!["peer".to_owned()]), exit_at_tip: true, ..SyncOptions::alone() };
    let report = sync_with(&story.options(disk), &sync, &story.from(), &mut alone, &|_| ())
        .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    let (height, set) = set_of(disk);
    assert_eq!((height, set), (report.height, story.end().set), "seed {seed}: the set");
    1
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn every_seed_ends_with_the_set_of_the_best_chain() {
    let mut starts: usize = 0;
    let mut kinds = BTreeMap::<String, u32>::new();
    for seed in seeds() {
        *kinds.entry(format!("{:?}", Story::new(seed).kind)).or_default() += 1;
    }
    // Seeds know nothing of each other: several are played at a time.
    let next = AtomicU64::new(seeds().start);
    let play_some = || {
        let mut starts = 0;
        loop {
            let seed = next.fetch_add(1, Relaxed);
            if !seeds().contains(&seed) {
                return starts;
            }
            let played = std::panic::catch_unwind(|| play(seed));
            starts +=
                played.unwrap_or_else(|_| panic!("play it again: SEED={seed} cargo test -p ffwd-node --lib world"));
        }
    };
    std::thread::scope(|scope| {
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let players: Vec<_> = (0..count).map(|_| scope.spawn(play_some)).collect();
        starts = players.into_iter().map(|player| player.join().unwrap_or_else(|why| resume_unwind(why))).sum();
    });
    eprintln!("{} seeds, {starts} starts, {kinds:?}", seeds().count());
    assert!(starts > 0);
}

/// The same seed gives the same story, to the number of operations of the disk.
#[test]
fn a_seed_is_played_the_same_way_again() {
    let operations = |seed: u64| {
        let story = Story::new(seed);
        (story.kind, story.peers.len(), story.reorg_ms, story.crashes.clone(), story.full)
    };
    for seed in 0..50 {
        assert_eq!(operations(seed), operations(seed));
    }
}
