//! Jobs in any order on a data directory that may have a snapshot loaded, each of which may be stopped at any operation;
//! then a file may be damaged, and a repair mends it.
//!
//! Whatever was stopped, the next sync goes on, validates the past, and leaves an ordinary data directory. A false
//! snapshot is found out, and leaves nothing. `SNAPSHOT_RUNS=1000` plays as many seeds, from the one that
//! `SNAPSHOT_FROM` names; a run that fails says its seed.

use crate::any_jobs::{PruneJob, after_stop, damage, list, may_stop};
use crate::archival::{check_archival, set_of, unpruned};
use crate::chain::{chain, file, put};
use crate::doctor::{KEY, Known, TIP, block_file, check_whole, hidden, net, options, read, replace, seeds};
use crate::doctor_stops::twice;
use crate::indexes::branch;
use crate::peers::{Bend, Blocks, Far, MINUTE, Until, open, sync_options};
use crate::prune::{BLOCKS, TARGET_BYTES, write_files};
use crate::snapshot::plain;
use disk::{Disk, SimDisk};
use node::Fault;
use node::jobs::{self, Depth, DumpOut, DumpTarget, FromSnapshot, Kind, RepairReport, SyncOptions};
use node::options::{IndexKind, Options, Prune, Sizes};
use node::reporting::Event;
use node::utxo_stats::SetHash;
use primitives::{BlockHash, Hash256, Height};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::blockfiles::Limits;
use testkit::Rng;

/// Seeds that are played where none are asked for.
const RUNS: u64 = 8;
const BASE: usize = TIP - 25;
const FILE: &str = "/out/snapshot";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    /// A sync with the file.
    From,
    Load,
    Sync,
    Reindex,
    Rebuild,
    Repair,
    Doctor,
    Index,
    Verify,
}

const JOBS: [Job; 12] = [
    Job::From,
    Job::From,
    Job::From,
    Job::Load,
    Job::Sync,
    Job::Sync,
    Job::Reindex,
    Job::Rebuild,
    Job::Repair,
    Job::Doctor,
    Job::Index,
    Job::Verify,
];

/// A snapshot at [`BASE`] and the hash of its coins.
struct Snapshot {
    bytes: Vec<u8>,
    hash: Hash256,
}

impl Snapshot {
    fn of(known: &Known) -> Snapshot {
        let disk = known.whole();
        Snapshot::at(&disk, &options(&disk), BASE as u32)
    }

    fn at(disk: &SimDisk, options: &Options, base: u32) -> Snapshot {
        replace(disk, Path::new(FILE), &[]);
        disk.remove_file(Path::new(FILE)).unwrap();
        let target = DumpTarget::Height(Height::new(base));
        let report = jobs::dump(options, target, DumpOut::File(FILE.into()), &|_| ()).unwrap();
        Snapshot { bytes: read(disk, Path::new(FILE)), hash: report.txoutset_hash }
    }

    /// One whose amount of a coin that no block above spends is another.
    fn falsified(&self) -> Snapshot {
        let mut bytes = self.bytes.clone();
        let (_, coins) = plain(&bytes);
        let (start, coin) = coins.iter().find(|(_, coin)| coin.2 == 2 * 50 + 1).unwrap();
        let amount_at = start + 2;
        assert_eq!(u64::from(bytes[amount_at]), coin.3, "an amount of one byte");
        bytes[amount_at] += 1;
        let disk = SimDisk::new(0);
        put(&disk, Path::new(FILE), &bytes);
        let info = jobs::file_info(&disk, Path::new(FILE), SetHash::Serialized, kernels::Kernels::AUTO).unwrap();
        Snapshot { bytes, hash: info.set.hash.unwrap().1 }
    }

    fn from(&self) -> FromSnapshot {
        FromSnapshot { file: Some(FILE.into()), hash: Some(self.hash), ..FromSnapshot::default() }
    }
}

fn run(options: &Options, sync: &SyncOptions, from: &FromSnapshot, job: Job, row: &str) -> Result<(), Fault> {
    let start = Instant::now();
    // A sync that never ends fails its test, and does not hang it.
    let events = &|_: Event| {
        if start.elapsed() > MINUTE {
            options.stop.store(true, Ordering::Relaxed);
        }
    };
    let result = match job {
        Job::From => jobs::sync_from(options, sync, from, events).map(drop),
        Job::Load => jobs::load(options, Path::new(FILE), from.hash, events).map(drop),
        Job::Sync => jobs::sync(options, sync, events).map(drop),
        Job::Reindex => jobs::reindex(options, false, events).map(drop),
        Job::Rebuild => jobs::reindex(options, true, events).map(drop),
        Job::Repair => jobs::repair(options, sync, events).map(drop),
        Job::Doctor => jobs::doctor(options, Depth::Deep, events).map(drop),
        Job::Index => jobs::index(options, &options.indexes, events).map(drop),
        Job::Verify => jobs::verify(options, 4, 0, events).map(drop),
    };
    assert!(start.elapsed() < MINUTE, "{row} {job:?} never ends");
    result
}

/// Options of a job, drawn.
fn prepare(disk: &SimDisk, random: &mut Rng) -> Options {
    let indexes = IndexKind::ALL.into_iter().filter(|_| random.below(4) == 0).collect();
    let limits = Limits { file_bytes_max: 8 << 10, chunk_bytes: 2 << 10 };
    let mut options =
        Options { indexes, sizes: Sizes { limits, undo_bytes_max: 4000, ..Sizes::default() }, ..options(disk) };
    if random.below(3) == 0 {
        options.commit_interval = Duration::ZERO;
    }
    options
}

struct World {
    known: Known,
    right: Snapshot,
    wrong: Snapshot,
}

impl World {
    fn new() -> World {
        let known = Known::new();
        let right = Snapshot::of(&known);
        let wrong = right.falsified();
        World { known, right, wrong }
    }

    fn play(&self, seed: u64, is_damaged: bool) {
        let known = &self.known;
        let asked = Arc::new(Mutex::new(BTreeMap::<BlockHash, usize>::new()));
        let noted = asked.clone();
        let bend: Bend = Arc::new(move |hash: &BlockHash| {
            *noted.lock().unwrap().entry(*hash).or_default() += 1;
            None
        });
        let sync = sync_options(&[Far::listen(&known.blocks, bend, &open())], Until::Tip);
        let mut random = Rng::new(seed);
        let is_wrong = random.below(4) == 0;
        let snapshot = if is_wrong { &self.wrong } else { &self.right };
        let from = snapshot.from();
        let is_refusal = |why: &Fault| is_wrong && why.to_string().contains("the snapshot is false");
        let mut row = format!("seed {seed}{}:", if is_wrong { " (wrong)" } else { "" });
        let mut disk = SimDisk::new(0);
        put(&disk, &net("blocks/xor.dat"), &KEY);
        let mut may_ask_again = 0;
        // Most walks begin where something lies: blocks below the base, or the snapshot with blocks above it.
        let (first, height) = match random.below(8) {
            0 => (Job::Sync, 0),
            1 => (Job::Sync, random.below(BASE)),
            _ => (Job::From, BASE + random.below(TIP - BASE)),
        };
        replace(&disk, Path::new(FILE), &snapshot.bytes);
        if height > 0 {
            row += &format!(" {first:?} to {height};");
            let stop_at_height = Some(Height::new(height as u32));
            let options = Options { stop_at_height, ..prepare(&disk, &mut random) };
            run(&options, &sync, &from, first, &row).unwrap_or_else(|why| panic!("{row}: {why}"));
            may_ask_again += 1;
        }
        for _ in 0..2 + random.below(6) {
            replace(&disk, Path::new(FILE), &snapshot.bytes);
            let job = JOBS[random.below(JOBS.len())];
            row += &format!(" {job:?}");
            let mut options = prepare(&disk, &mut random);
            // An index that a reindex was not given, and that is above its end, is for the user to remove.
            if random.below(4) == 0 && job != Job::Reindex {
                let height = random.below(TIP + 1) as u32;
                row += &format!(" to {height}");
                options.stop_at_height = Some(Height::new(height));
            }
            let is_stopped = may_stop(&disk, 3..11, &mut random, &mut row);
            // It may find nothing to do, as an index does before there are blocks; what it leaves is what counts.
            if let Err(why) = run(&options, &sync, &from, job, &row) {
                assert!(is_wrong || !why.to_string().contains("the snapshot is false"), "{row}: {why}");
            }
            if is_stopped {
                disk = after_stop(&disk, &mut random, &mut row);
            }
            // A stop loses what is under way, and so does a height to stop at, which the tip may pass while the past comes.
            may_ask_again += usize::from(is_stopped || options.stop_at_height.is_some());
            row += ";";
        }
        if is_damaged {
            damage(&disk, &mut random, &mut row);
            if let Err(why) = run(&prepare(&disk, &mut random), &sync, &from, Job::Repair, &row) {
                assert!(is_refusal(&why), "{row}: {why}");
            }
        }
        let last = prepare(&disk, &mut random);
        let go_on = || run(&last, &sync, &FromSnapshot::default(), Job::Sync, &row);
        if let Err(why) = go_on() {
            assert!(is_refusal(&why), "{row}: {why}");
            go_on().unwrap_or_else(|why| panic!("{row}: {why}"));
        }
        check_whole(&disk, known, &row);
        check_ordinary(&disk, &row);
        // A block whose record's size is damaged is fetched, and would be whole where it lies.
        if !row.contains("/blk") {
            assert_eq!(twice(&disk, known), [0; 0], "{row}: stored twice");
        }
        if !is_damaged {
            let asked = asked.lock().unwrap();
            let again = asked.iter().filter(|&(_, &count)| count > 1 + may_ask_again);
            assert_eq!(again.map(|(hash, _)| known.heights[hash]).next(), None, "{row}: requested again");
        }
    }
}

fn check_ordinary(disk: &SimDisk, row: &str) {
    for gone in ["chainstate_snapshot", "chainstate_todelete", "ffwd/chainstate_snapshot", "ffwd/snapshot"] {
        assert!(disk.metadata(&net(gone)).unwrap().is_none(), "{row}: {gone} is left");
    }
}

#[test]
fn jobs_go_on_with_a_snapshot_after_any_others_and_any_stops() {
    let world = World::new();
    for seed in seeds("SNAPSHOT_RUNS", "SNAPSHOT_FROM", RUNS) {
        world.play(seed, false);
    }
}

#[test]
fn a_repair_mends_any_file_of_a_directory_with_a_snapshot() {
    let world = World::new();
    for seed in seeds("SNAPSHOT_RUNS", "SNAPSHOT_FROM", RUNS) {
        world.play(seed, true);
    }
}

/// Bases of the snapshots that are loaded into pruned directories: more and fewer than the 288 blocks below the tip that
/// pruning leaves.
const PRUNED_BASES: [u32; 2] = [BLOCKS - 500, BLOCKS - 100];

/// What is done with a directory that is pruned at times and may have a snapshot loaded.
#[derive(Clone, Copy, Debug)]
enum PrunedJob {
    From,
    Load,
    Other(PruneJob),
}

const PRUNED_JOBS: [PrunedJob; 11] = [
    PrunedJob::From,
    PrunedJob::From,
    PrunedJob::From,
    PrunedJob::Load,
    PrunedJob::Other(PruneJob::Plain),
    PrunedJob::Other(PruneJob::Plain),
    PrunedJob::Other(PruneJob::Archive),
    PrunedJob::Other(PruneJob::Reindex),
    PrunedJob::Other(PruneJob::Repair),
    PrunedJob::Other(PruneJob::Index),
    PrunedJob::Other(PruneJob::Verify),
];

/// Jobs in any order on a directory that is pruned at times and may have a snapshot loaded.
fn play_pruned(blocks: &Blocks, snapshots: &[Snapshot], set: &str, seed: u64) {
    let quiet = &|_: Event| ();
    let mut random = Rng::new(seed);
    let sync = sync_options(&[Far::listen(blocks, Arc::new(|_: &BlockHash| None), &open())], Until::Tip);
    let archive = SyncOptions { to_archival: true, ..sync.clone() };
    let snapshot = &snapshots[random.below(snapshots.len())];
    let from = snapshot.from();
    let mut row = format!("seed {seed}:");
    let mut disk = SimDisk::new(0);
    put(&disk, &net("blocks/xor.dat"), &[0; 8]);
    for _ in 0..2 + random.below(5) {
        replace(&disk, Path::new(FILE), &snapshot.bytes);
        let job = PRUNED_JOBS[random.below(PRUNED_JOBS.len())];
        row += &format!(" {job:?}");
        let is_pruned = |random: &mut Rng| random.below(3) > 0;
        let options = PruneJob::prepare(&disk, blocks, &mut random, &mut row, is_pruned);
        let is_stopped = may_stop(&disk, 4..12, &mut random, &mut row);
        println!("{row}");
        let _ = match job {
            PrunedJob::From => jobs::sync_from(&options, &sync, &from, quiet).map(drop),
            PrunedJob::Load => jobs::load(&options, Path::new(FILE), from.hash, quiet).map(drop),
            PrunedJob::Other(job) => job.run(&options, &sync, &mut random),
        };
        if is_stopped {
            disk = after_stop(&disk, &mut random, &mut row);
        }
        row += ";";
    }
    let pruned = Options { prune: Prune::Target { bytes: TARGET_BYTES }, ..unpruned(&disk) };
    jobs::sync(&pruned, &sync, quiet).unwrap_or_else(|why| panic!("{row}: {why}"));
    check_ordinary(&disk, &row);
    assert_eq!(set_of(&disk), set, "{row}");
    jobs::sync(&unpruned(&disk), &archive, quiet).unwrap_or_else(|why| panic!("{row}: {why}"));
    check_archival(&disk, set, &row);
}

#[test]
fn pruned_directories_with_a_snapshot_become_archival() {
    let blocks: Blocks = chain(BLOCKS);
    let whole = SimDisk::new(0);
    write_files(&unpruned(&whole), &blocks);
    jobs::reindex(&unpruned(&whole), false, &|_| ()).unwrap();
    let snapshots = PRUNED_BASES.map(|base| Snapshot::at(&whole, &unpruned(&whole), base));
    for seed in seeds("SNAPSHOT_RUNS", "SNAPSHOT_FROM", RUNS / 2) {
        play_pruned(&blocks, &snapshots, &set_of(&whole), seed);
    }
}

impl World {
    /// A directory with the snapshot and blocks up to `height`, synced so far with these indexes.
    fn on_snapshot(&self, height: usize, indexes: &[IndexKind]) -> SimDisk {
        let disk = SimDisk::new(0);
        put(&disk, &net("blocks/xor.dat"), &KEY);
        put(&disk, Path::new(FILE), &self.right.bytes);
        let stop_at_height = Some(Height::new(height as u32));
        let options = Options { stop_at_height, indexes: indexes.to_vec(), ..prepare(&disk, &mut Rng::new(0)) };
        run(&options, &self.peer(), &self.right.from(), Job::From, "").unwrap();
        assert_eq!(self.standing(&disk), Some(height), "the snapshot is loaded");
        disk
    }

    fn peer(&self) -> SyncOptions {
        sync_options(&[Far::listen(&self.known.blocks, Arc::new(|_: &BlockHash| None), &open())], Until::Tip)
    }

    /// Height of the tip, if a snapshot is loaded.
    fn standing(&self, disk: &SimDisk) -> Option<usize> {
        let info = jobs::info(&options(disk)).unwrap();
        info.snapshot_base.map(|_| info.height.to_usize())
    }

    /// Repairs without peers; returns what doctor found before.
    fn repair_alone(&self, disk: &SimDisk, wanted: Kind) -> RepairReport {
        let found = jobs::doctor(&options(disk), Depth::Quick, &|_| ()).unwrap().findings;
        assert!(found.iter().any(|finding| finding.kind == wanted), "{found:?}");
        jobs::repair(&options(disk), &SyncOptions::alone(), &|_| ()).unwrap_or_else(|why| panic!("{wanted:?}: {why}"))
    }

    fn goes_on(&self, disk: &SimDisk, row: &str) {
        jobs::sync(&options(disk), &self.peer(), &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        check_whole(disk, &self.known, row);
        check_ordinary(disk, row);
        assert_eq!(twice(disk, &self.known), [0; 0], "{row}");
    }
}

fn remove(disk: &SimDisk, name: &str) {
    disk.remove_file(&net(name)).unwrap();
}

#[test]
fn the_pasts_coins_are_made_again_and_the_snapshot_stays() {
    let world = World::new();
    let disk = world.on_snapshot(TIP - 5, &[]);
    remove(&disk, "chainstate/CURRENT");
    let report = world.repair_alone(&disk, Kind::CoinsDamaged);
    assert!(report.left.is_empty() && !report.done.is_empty(), "{report:?}");
    assert_eq!(world.standing(&disk), Some(TIP - 5));
    world.goes_on(&disk, "past");
}

/// The index is that of before the first block, as after a power cut on a drive that lies.
#[test]
fn an_index_older_than_a_snapshots_coins_is_made_again_and_the_snapshot_stays() {
    let world = World::new();
    let index = |disk: &SimDisk| {
        let mut files = Vec::new();
        list(disk, &net("blocks/index"), &mut files);
        files
    };
    let disk = world.on_snapshot(BASE, &[]);
    let older: Vec<(PathBuf, Vec<u8>)> =
        index(&disk).into_iter().map(|path| (path.clone(), read(&disk, &path))).collect();
    let stop_at_height = Some(Height::new(TIP as u32 - 5));
    jobs::sync(&Options { stop_at_height, ..options(&disk) }, &world.peer(), &|_| ()).unwrap();
    assert_eq!(world.standing(&disk), Some(TIP - 5));
    index(&disk).iter().for_each(|path| disk.remove_file(path).unwrap());
    older.iter().for_each(|(path, bytes)| put(&disk, path, bytes));
    let why = jobs::sync(&options(&disk), &world.peer(), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("ffwd repair"), "{why}");
    let report = world.repair_alone(&disk, Kind::CoinsApart);
    assert!(report.left.is_empty(), "{report:?}");
    assert_eq!(world.standing(&disk), Some(TIP - 5));
    world.goes_on(&disk, "older index");

    // Without any index the headers below the base are nowhere: peers have them.
    let disk = world.on_snapshot(TIP - 5, &[]);
    index(&disk).iter().for_each(|path| disk.remove_file(path).unwrap());
    jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap();
    assert_eq!(world.standing(&disk), Some(TIP - 5));
    world.goes_on(&disk, "no index");
}

#[test]
fn undo_data_above_a_snapshot_is_made_once_the_past_is_there() {
    let world = World::new();
    let number =
        |disk: &SimDisk| (0..9).rfind(|n| disk.metadata(&net(&format!("blocks/rev0000{n}.dat"))).unwrap().is_some());
    for is_alone in [true, false] {
        let disk = world.on_snapshot(TIP - 2, &[IndexKind::CoinStats]);
        remove(&disk, &format!("blocks/rev0000{}.dat", number(&disk).unwrap()));
        if is_alone {
            let report = world.repair_alone(&disk, Kind::UndoFileMissing);
            assert!(report.left.iter().any(|left| left.contains("ffwd sync")), "{report:?}");
            jobs::sync(&options(&disk), &world.peer(), &|_| ()).unwrap();
        }
        let report = jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap();
        assert!(report.left.is_empty(), "{report:?}");
        world.goes_on(&disk, "undo");
    }
}

/// Blocks of both parts of the chain that are in no file any more are fetched, not left out of the new index.
#[test]
fn blocks_that_an_index_made_again_lacks_are_fetched() {
    let world = World::new();
    let disk = world.on_snapshot(TIP - 2, &[]);
    // A stop while the past is validated.
    let eager = Options { commit_interval: Duration::ZERO, ..prepare(&disk, &mut Rng::new(0)) };
    disk.fail_at(disk.operations() + 500, 1, disk::Fault::Stop);
    jobs::sync(&eager, &world.peer(), &|_| ()).unwrap_err();
    let stopped = disk.reopen(disk::Loss::Nothing);
    assert!(world.standing(&stopped).is_some());
    let mut files = Vec::new();
    list(&stopped, &net("blocks"), &mut files);
    let mut numbers: Vec<PathBuf> = files.into_iter().filter(|path| path.to_string_lossy().contains("/blk")).collect();
    numbers.sort();
    for lost in numbers {
        let row = lost.display().to_string();
        let disk = stopped.reopen(disk::Loss::Nothing);
        disk.remove_file(&lost).unwrap();
        remove(&disk, "blocks/index/CURRENT");
        jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        let found = jobs::doctor(&options(&disk), Depth::Deep, &|_| ()).unwrap().findings;
        assert!(found.is_empty(), "{row}: {found:?}");
        jobs::sync(&options(&disk), &world.peer(), &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        check_whole(&disk, &world.known, &row);
        check_ordinary(&disk, &row);
    }
}

/// The snapshot goes, and the past stays.
#[test]
fn a_snapshot_whose_coins_are_damaged_is_given_up_alone() {
    let world = World::new();
    for name in ["CURRENT", "base_blockhash"] {
        let disk = world.on_snapshot(TIP - 2, &[]);
        replace(&disk, &net("chainstate_snapshot").join(name), b"?");
        let report = world.repair_alone(&disk, Kind::CoinsDamaged);
        assert!(report.done.iter().any(|done| done.contains("snapshot was removed")), "{report:?}");
        assert_eq!(world.standing(&disk), None);
        world.goes_on(&disk, name);
    }
}

/// A snapshot goes with whole coins, and an unfinished reindex has none: it is finished first.
#[test]
fn a_load_finishes_a_reindex_that_was_stopped() {
    let world = World::new();
    let disk = world.known.whole();
    let at = disk.operations() + 150;
    disk.fail_at(at, 1, disk::Fault::Stop);
    jobs::reindex(&options(&disk), false, &|_| ()).unwrap_err();
    let disk = disk.reopen(disk::Loss::Nothing);
    put(&disk, Path::new(FILE), &world.right.bytes);
    let why = jobs::load(&options(&disk), Path::new(FILE), Some(world.right.hash), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("Work does not exceed active chainstate"), "{why}");
    world.goes_on(&disk, "reindexed");
}

/// Coins of the past beyond the base, which no program here makes, do not hold up a sync for ever.
#[test]
fn a_past_beyond_its_snapshot_is_made_again() {
    let world = World::new();
    let disk = world.on_snapshot(TIP, &[]);
    let of_past = |disk: &SimDisk| {
        let mut files = Vec::new();
        list(disk, &net("chainstate"), &mut files);
        files
    };
    of_past(&disk).iter().for_each(|path| disk.remove_file(path).unwrap());
    let whole = world.known.whole();
    of_past(&whole).iter().for_each(|path| put(&disk, path, &read(&whole, path)));
    let why = jobs::sync(&options(&disk), &world.peer(), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("ffwd repair"), "{why}");
    world.repair_alone(&disk, Kind::CoinsDamaged);
    world.goes_on(&disk, "beyond");
}

/// The coins of a snapshot that a rebuild removed prove nothing: what was connected on them is connected again.
#[test]
fn a_rebuild_forgets_what_was_connected_on_a_snapshot() {
    let world = World::new();
    let disk = world.on_snapshot(TIP - 5, &[]);
    jobs::reindex(&options(&disk), true, &|_| ()).unwrap();
    let index = store::BlockTreeDb::open_read_only(disk.shared(), &crate::existing::layout()).unwrap();
    let loaded = index.load(&node::datadir::lock::network(&options(&disk).params)).unwrap();
    let counts = |entry: &&store::IndexEntry| entry.height > Height::GENESIS && entry.status.is_connected();
    assert_eq!(loaded.entries.iter().find(counts), None);
    assert!(loaded.entries.iter().all(|entry| entry.undo().is_none()));
    remove(&disk, "chainstate/CURRENT");
    world.repair_alone(&disk, Kind::CoinsMissing);
    world.goes_on(&disk, "rebuilt");
}

/// Without CURRENT, which is seen at once; and with a damaged table, which only a check of every byte sees.
#[test]
fn an_optional_index_that_is_damaged_in_an_unfinished_reindex_is_begun_again() {
    let world = World::new();
    let indexes = vec![IndexKind::Tx, IndexKind::SilentPayments];
    for damaged in ["CURRENT", "ldb"] {
        let disk = world.known.whole();
        let eager = Options { commit_interval: Duration::ZERO, indexes: indexes.clone(), ..options(&disk) };
        disk.fail_at(disk.operations() + 400, 1, disk::Fault::Stop);
        jobs::reindex(&eager, false, &|_| ()).unwrap_err();
        let disk = disk.reopen(disk::Loss::Nothing);
        let found = jobs::doctor(&options(&disk), Depth::Quick, &|_| ()).unwrap().findings;
        assert!(found.iter().any(|finding| finding.kind == Kind::ReindexUnfinished), "{found:?}");
        let mut files = Vec::new();
        list(&disk, &net("indexes/txindex"), &mut files);
        let path = files.iter().find(|path| path.to_string_lossy().ends_with(damaged)).unwrap();
        if damaged == "CURRENT" {
            disk.remove_file(path).unwrap();
            world.repair_alone(&disk, Kind::OptionalIndexDamaged);
        } else {
            let mut bytes = read(&disk, path);
            bytes[10] ^= 0x40;
            replace(&disk, path, &bytes);
            world.repair_alone(&disk, Kind::ReindexUnfinished);
        }
        world.goes_on(&disk, damaged);
        assert!(disk.metadata(&net("indexes/txindex/CURRENT")).unwrap().is_some(), "it is there again");
    }
}

#[test]
fn a_reindex_whose_block_files_are_lost_is_begun_again() {
    let world = World::new();
    for at in [60, 150, 400, 700] {
        let disk = world.known.whole();
        let eager = Options { commit_interval: Duration::ZERO, ..options(&disk) };
        disk.fail_at(disk.operations() + at, 1, disk::Fault::Stop);
        jobs::reindex(&eager, false, &|_| ()).unwrap_err();
        let disk = disk.reopen(disk::Loss::Nothing);
        remove(&disk, "blocks/blk00000.dat");
        jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap_or_else(|why| panic!("{at}: {why}"));
        check_whole(&disk, &world.known, &format!("stopped at {at}"));
    }
}

/// Finishing what interrupted work left opens the optional indexes.
#[test]
fn an_optional_index_that_is_damaged_beside_unlisted_blocks_is_made_again() {
    let world = World::new();
    let disk = world.known.whole();
    let with_index = Options { indexes: vec![IndexKind::Tx], ..options(&disk) };
    jobs::index(&with_index, &[IndexKind::Tx], &|_| ()).unwrap();
    replace(&disk, &net("indexes/txindex/CURRENT"), b"MANIFEST");
    let why = jobs::sync(&with_index, &world.peer(), &|_| ()).unwrap_err().to_string();
    assert!(why.contains("ffwd index --only txindex") && !why.contains("ffwd reindex"), "{why}");
    put(&disk, &block_file(9, "blk"), &hidden(file(&branch(&world.known.blocks, 120, 6, 7)[121..])));
    let found = jobs::doctor(&options(&disk), Depth::Quick, &|_| ()).unwrap().findings;
    for wanted in [Kind::NotIndexed, Kind::OptionalIndexDamaged] {
        assert!(found.iter().any(|finding| finding.kind == wanted), "{found:?}");
    }
    jobs::repair(&with_index, &SyncOptions::alone(), &|_| ()).unwrap();
    check_whole(&disk, &world.known, "unlisted");
    assert!(disk.metadata(&net("indexes/txindex/CURRENT")).unwrap().is_some(), "it is there again");
}

/// Nothing can be rebuilt where no block ever was; a file that is damaged there must not shut the directory for ever.
#[test]
fn a_directory_without_blocks_begins_again() {
    let world = World::new();
    for (name, wanted) in [("blocks/index/CURRENT", Kind::IndexMissing), ("chainstate/CURRENT", Kind::CoinsMissing)] {
        for is_alone in [true, false] {
            let disk = SimDisk::new(0);
            put(&disk, &net("blocks/xor.dat"), &KEY);
            let stop_at_height = Some(Height::GENESIS);
            jobs::sync(&Options { stop_at_height, ..options(&disk) }, &world.peer(), &|_| ()).unwrap();
            remove(&disk, "blocks/blk00000.dat");
            remove(&disk, name);
            if is_alone {
                world.repair_alone(&disk, wanted);
            } else {
                jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap();
            }
            world.goes_on(&disk, name);
        }
    }
    // Where blocks were connected, their files are elsewhere, and nothing is removed.
    let disk = world.known.whole();
    let mut files = Vec::new();
    list(&disk, &net("blocks"), &mut files);
    files.retain(|path| path.extension().is_some_and(|kind| kind == "dat") && !path.ends_with("xor.dat"));
    files.iter().for_each(|path| disk.remove_file(path).unwrap());
    remove(&disk, "blocks/index/CURRENT");
    let before = crate::existing::everything(&disk);
    jobs::repair(&options(&disk), &world.peer(), &|_| ()).unwrap_err();
    assert!(crate::existing::everything(&disk) == before);
}
