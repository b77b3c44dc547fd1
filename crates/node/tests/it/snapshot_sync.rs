//! A sync on top of a snapshot: the tip first, then the past; stopped, killed, and fooled by a false one.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::layout;
use crate::peers::{Blocks, Far, MINUTE, Until, sync_options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, DumpOut, DumpTarget, FromSnapshot};
use node::options::{Options, Prune};
use node::reporting::{Event, JobReport};
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;
use store::{BlockTreeDb, Status};

const BLOCKS: u32 = 130;
const BASE: u32 = 110;
const FILE: &str = "/out/snapshot";

/// A chain, its set at the end, and a snapshot of it at [`BASE`].
pub(crate) struct World {
    blocks: Blocks,
    whole: SimDisk,
    pub(crate) snapshot: Vec<u8>,
    pub(crate) hash: Hash256,
}

fn read(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

impl World {
    pub(crate) fn new() -> World {
        let blocks = chain(BLOCKS);
        let whole = SimDisk::new(0);
        put(&whole, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(&blocks));
        whole.create_dir_all(Path::new("/out")).unwrap();
        jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
        let target = DumpTarget::Height(Height::new(BASE));
        let report = jobs::dump(&options(&whole, false), target, DumpOut::File(FILE.into()), &|_| ()).unwrap();
        let snapshot = read(&whole, Path::new(FILE));
        World { blocks, snapshot, hash: report.txoutset_hash, whole }
    }

    pub(crate) fn fresh(&self, snapshot: &[u8]) -> SimDisk {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        put(&disk, Path::new(FILE), snapshot);
        disk
    }

    pub(crate) fn peer(&self) -> String {
        Far::new(&self.blocks).listen_at("127.0.0.1:0")
    }

    /// An ordinary data directory with the whole chain's coins.
    pub(crate) fn is_whole(&self, disk: &SimDisk, row: &str) {
        let set = |disk: &SimDisk| {
            let set = jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
            (set.height, set.best, set.hash)
        };
        assert_eq!(set(disk), set(&self.whole), "{row}");
        for gone in ["chainstate_snapshot", "chainstate_todelete", "ffwd/chainstate_snapshot", "ffwd/snapshot"] {
            assert!(disk.metadata(&layout().net_dir().join(gone)).unwrap().is_none(), "{row}: {gone} is left");
        }
        let verified = jobs::verify(&options(disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!(verified.blocks, BLOCKS, "{row}");
        for entry in entries(disk).iter().skip(1) {
            let wanted = Status::SCRIPTS.with(Status::HAVE_DATA | Status::HAVE_UNDO | Status::OPT_WITNESS);
            assert_eq!(entry.status, wanted, "{row}: {}", entry.height);
        }
    }
}

fn entries(disk: &SimDisk) -> Vec<store::IndexEntry> {
    let index = BlockTreeDb::open_read_only(disk.shared(), &layout()).unwrap();
    index.load(&node::datadir::lock::network(&options(disk, false).params)).unwrap().entries
}

/// A sync with a snapshot to the tip; what it said, in order. `at` is asked at every note whether to stop.
pub(crate) fn sync(
    disk: &SimDisk,
    peer: &str,
    hash: Option<Hash256>,
    options: Options,
    at: impl Fn(&str) -> bool + Sync,
) -> (Result<JobReport, String>, Vec<String>) {
    let (said, start) = (Mutex::new(Vec::new()), Instant::now());
    let from = FromSnapshot { file: Some(FILE.into()), hash, ..FromSnapshot::default() };
    let report =
        jobs::sync_from(&options, &sync_options(&[peer.to_owned()], Until::Tip), &from, &|event| match event {
            Event::Note(text) | Event::Warning(text) => {
                if at(&text) {
                    options.stop.store(true, Ordering::Relaxed);
                }
                said.lock().unwrap().push(text);
            }
            Event::Refused { height, hash, why, .. } => {
                said.lock().unwrap().push(format!("refused {height} {hash}: {why}"))
            }
            Event::Ready | Event::Tip { .. } => {}
            Event::Progress(_) => {
                if start.elapsed() > MINUTE {
                    options.stop.store(true, Ordering::Relaxed);
                }
            }
        });
    let said = said.into_inner().unwrap();
    assert!(start.elapsed() < MINUTE, "{said:#?}");
    let _ = disk;
    (report.map_err(|why| why.to_string()), said)
}

fn place(said: &[String], words: &str) -> usize {
    said.iter().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {said:#?}"))
}

#[test]
fn sync_from_a_snapshot_goes_to_the_tip_and_validates_the_past() {
    let world = World::new();
    let peer = world.peer();
    for prune in [Prune::Off, Prune::Manual] {
        let disk = world.fresh(&world.snapshot);
        let options = Options { prune, ..options(&disk, false) };
        let (report, said) = sync(&disk, &peer, Some(world.hash), options, |_| false);
        let report = report.unwrap();
        assert_eq!((report.height, report.blocks), (Height::new(BLOCKS), u64::from(BLOCKS)), "{said:#?}");
        let order =
            ["you must trust the hash", "the tip first", "Validating the past", "fully validated", "ordinary one"];
        let places: Vec<usize> = order.iter().map(|words| place(&said, words)).collect();
        // The headers of so short a chain may come before the sync waits for them.
        let headers = said.iter().position(|line| line.contains("Headers first"));
        assert!(places.is_sorted() && headers.is_none_or(|at| at < places[0]), "{said:#?}");
        world.is_whole(&disk, "from nothing");
        // The same command again has nothing to do.
        let (report, said) =
            sync(&disk, &peer, Some(world.hash), crate::data_directory::options(&disk, false), |_| false);
        assert_eq!(report.unwrap().blocks, 0);
        place(&said, "is not needed");
    }
}

/// The tip came from one peer, and the past has to come from another, which lacks the last blocks.
#[test]
fn the_past_comes_from_a_peer_behind_the_tip() {
    let world = World::new();
    let withholds = Far::new(&world.blocks).without(hash_of(&world.blocks[50])).listen_at("127.0.0.1:0");
    for behind in [1, 5, BLOCKS - BASE] {
        let disk = world.fresh(&world.snapshot);
        let is_past = |line: &str| line.contains("Validating the past");
        let (_, said) = sync(&disk, &withholds, Some(world.hash), options(&disk, false), is_past);
        place(&said, "Validating the past");
        assert!(entries(&disk).iter().any(|entry| entry.height == Height::new(BLOCKS) && entry.data().is_some()));
        let peer = Far::new(&world.blocks[..=(BLOCKS - behind) as usize].to_vec()).listen_at("127.0.0.1:0");
        let (report, said) = sync(&disk, &peer, Some(world.hash), options(&disk, false), |_| false);
        assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{behind} behind: {said:#?}");
        place(&said, "fully validated");
        world.is_whole(&disk, &format!("{behind} behind"));
    }
}

/// Blocks of the tip and of the past lie in files of their own, as Core has them.
#[test]
fn blocks_above_the_base_lie_apart() {
    let world = World::new();
    let disk = world.fresh(&world.snapshot);
    let (report, said) = sync(&disk, &world.peer(), Some(world.hash), options(&disk, false), |_| false);
    report.unwrap_or_else(|why| panic!("{why}: {said:#?}"));
    let files = |above: bool| {
        let of_kind = entries(&disk).into_iter().filter(|e| (e.height > Height::new(BASE)) == above);
        of_kind.map(|entry| entry.file).collect::<std::collections::BTreeSet<u32>>()
    };
    assert!(files(true).is_disjoint(&files(false)), "{:?} {:?}", files(true), files(false));
}

/// `test_snapshot_in_a_divergent_chain`: the tip is on another branch, with less work than the base.
#[test]
fn sync_from_a_snapshot_leaves_a_branch_with_less_work() {
    let world = World::new();
    let branch = crate::indexes::branch(&world.blocks, 102, 7, 3);
    let disk = world.fresh(&world.snapshot);
    let on_branch = sync_options(&[Far::new(&branch).listen_at("127.0.0.1:0")], Until::Tip);
    let report = jobs::sync(&options(&disk, false), &on_branch, &|_| ()).unwrap();
    assert_eq!((report.height, report.best), (Height::new(108), hash_of(&branch[108])));
    let (report, said) = sync(&disk, &world.peer(), Some(world.hash), options(&disk, false), |_| false);
    assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{said:#?}");
    place(&said, "fully validated");
    world.is_whole(&disk, "from a branch");
}

/// `test_sync_to_most_work_chain_after_background_validation`: the better chain does not have the base block.
#[test]
fn a_validated_data_directory_goes_to_a_better_chain_without_the_base() {
    let world = World::new();
    let disk = world.fresh(&world.snapshot);
    sync(&disk, &world.peer(), Some(world.hash), options(&disk, false), |_| false).0.unwrap();
    let other = crate::indexes::branch(&world.blocks, BASE - 1, BLOCKS - BASE + 3, 4);
    let to_other = sync_options(&[Far::new(&other).listen_at("127.0.0.1:0")], Until::Tip);
    let report = jobs::sync(&options(&disk, false), &to_other, &|_| ()).unwrap();
    assert_eq!((report.height, report.best), (Height::new(BLOCKS + 1), hash_of(other.last().unwrap())));
    jobs::verify(&options(&disk, false), 4, 0, &|_| ()).unwrap();
}

/// The indexes of `run_test`: they begin with the genesis block, grow with the past, and are whole at the end.
#[test]
fn indexes_grow_with_the_past() {
    let world = World::new();
    let disk = world.fresh(&world.snapshot);
    let with_indexes = Options { indexes: node::options::IndexKind::ALL.to_vec(), ..options(&disk, false) };
    let (report, said) = sync(&disk, &world.peer(), Some(world.hash), with_indexes, |_| false);
    assert_eq!(report.unwrap().height, Height::new(BLOCKS), "{said:#?}");
    world.is_whole(&disk, "with indexes");
    let heights = (0..=BLOCKS as usize).filter(|height| height % 9 == 0 || *height > 100);
    crate::indexes::check(&disk, &world.blocks, heights, "after a snapshot");
}

/// Stopped where the user can tell it, and gone on with by the same command, by one without the file, and by `coins load`.
#[test]
fn sync_that_is_stopped_goes_on() {
    let world = World::new();
    let peer = world.peer();
    for words in [
        "Headers first",
        "Peer",
        "you must trust the hash",
        "successfully activated",
        "the tip first",
        "Validating the past",
    ] {
        for with_file in [true, false] {
            let disk = world.fresh(&world.snapshot);
            let seen = Mutex::new(false);
            let (report, said) = sync(&disk, &peer, Some(world.hash), options(&disk, true), |text| {
                *seen.lock().unwrap() |= text.contains(words);
                *seen.lock().unwrap()
            });
            if words == "Headers first" && !*seen.lock().unwrap() {
                report.unwrap();
                world.is_whole(&disk, "headers that came at once");
                continue;
            }
            assert!(report.as_ref().is_ok_and(|report| report.stopped), "{words}: {report:?} {said:#?}");
            let is_loaded = jobs::info(&options(&disk, false)).unwrap().snapshot_base.is_some();
            if with_file {
                sync(&disk, &peer, Some(world.hash), options(&disk, false), |_| false).0.unwrap();
            } else {
                let plain = sync_options(std::slice::from_ref(&peer), Until::Tip);
                let report = jobs::sync(&options(&disk, false), &plain, &|_| ()).unwrap();
                assert_eq!(report.height, Height::new(BLOCKS), "{words}, loaded: {is_loaded}");
            }
            world.is_whole(&disk, words);
        }
    }
}

/// The machine stops at one operation after another.
#[test]
fn sync_that_is_killed_goes_on() {
    let world = World::new();
    let peer = world.peer();
    let (mut at, mut stops) = (20, 0);
    loop {
        let disk = world.fresh(&world.snapshot);
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let (done, _) = sync(&disk, &peer, Some(world.hash), options(&disk, true), |_| false);
        if done.is_ok() {
            break;
        }
        stops += 1;
        let disk = disk.reopen(if at % 2 == 0 { Loss::Random(at) } else { Loss::Unsynced });
        let (done, said) = sync(&disk, &peer, Some(world.hash), options(&disk, false), |_| false);
        done.unwrap_or_else(|why| panic!("stopped at {at}: {why}: {said:#?}"));
        world.is_whole(&disk, &format!("stopped at {at}"));
        at += if testkit::is_slow() { 7 } else { 1 + at / 3 };
    }
    assert!(stops > 5, "{stops}");
}

/// Another amount: the coins are not those of the chain, though their hash is the one that the user gave.
#[test]
fn a_false_snapshot_is_found_out_and_leaves_nothing() {
    let world = World::new();
    let peer = world.peer();
    let (_, coins) = crate::snapshot::plain(&world.snapshot);
    let mut rows = Vec::new();
    // The coinbase of a block: one that no block spends, and one that block 120 does.
    for height in [50, 20] {
        let (start, coin) = coins.iter().find(|(_, coin)| coin.2 == 2 * height + 1).unwrap();
        let mut bad = world.snapshot.clone();
        let amount_at = start + 1 + 1;
        assert_eq!(u64::from(bad[amount_at]), coin.3, "an amount of one byte");
        bad[amount_at] += 1;
        rows.push(bad);
    }
    for bad in rows {
        let disk = world.fresh(&bad);
        let hash = jobs::file_info(&disk, Path::new(FILE), SetHash::Serialized, kernels::Kernels::AUTO)
            .unwrap()
            .set
            .hash
            .unwrap()
            .1;
        assert_ne!(hash, world.hash);
        let (done, said) = sync(&disk, &peer, Some(hash), options(&disk, false), |_| false);
        let why = done.unwrap_err();
        for words in [hash.to_string(), world.hash.to_string(), "false".to_owned()] {
            assert!(why.contains(&words), "{words}: {why}: {said:#?}");
        }
        assert!(disk.metadata(&layout().net_dir().join("chainstate_snapshot_INVALID")).unwrap().is_some());
        let info = jobs::info(&options(&disk, false)).unwrap();
        assert_eq!((info.height, info.snapshot_base), (Height::new(BASE), None), "what is validated stays");
        for entry in entries(&disk).iter().filter(|entry| entry.height > Height::new(BASE)) {
            assert!(entry.status.level() <= 3 && entry.undo().is_none() && !entry.status.is_failed(), "{entry:?}");
        }
        let plain = sync_options(std::slice::from_ref(&peer), Until::Tip);
        jobs::sync(&options(&disk, false), &plain, &|_| ()).unwrap();
        world.is_whole(&disk, "after a false snapshot");
    }
}

/// Coins that a block above spends are missing in the snapshot: the block is refused there, and is none the worse for it.
#[test]
fn a_block_that_a_false_snapshot_refuses_is_judged_again() {
    let mut blocks = chain(BASE);
    let spent = {
        let mut tables = primitives::Tables::new();
        tables.parse_block(&blocks[12]).unwrap().transaction(0).txid()
    };
    for height in BASE + 1..=BLOCKS {
        let tip = hash_of(blocks.last().unwrap());
        let spend = crate::chain::spend(spent, crate::chain::subsidy(12));
        let mut txs = vec![crate::chain::coinbase(height)];
        txs.extend((height == BASE + 5).then_some(spend));
        blocks.push(crate::chain::block(tip, crate::chain::GENESIS_TIME + 600 * height, &txs));
    }
    let whole = SimDisk::new(0);
    put(&whole, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &file(&blocks));
    whole.create_dir_all(Path::new("/out")).unwrap();
    let done = jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    assert_eq!((done.height, done.blocks_invalid), (Height::new(BLOCKS), 0));
    let target = DumpTarget::Height(Height::new(BASE));
    let report = jobs::dump(&options(&whole, false), target, DumpOut::File(FILE.into()), &|_| ()).unwrap();
    let world = World { blocks, snapshot: read(&whole, Path::new(FILE)), hash: report.txoutset_hash, whole };
    let (_, coins) = crate::snapshot::plain(&world.snapshot);
    let (start, _) = coins.iter().find(|(_, coin)| coin.0 == spent.as_bytes()).unwrap();
    let mut bad = world.snapshot.clone();
    bad[*start] = 5; // Its number.
    let disk = world.fresh(&bad);
    let hash = jobs::file_info(&disk, Path::new(FILE), SetHash::Serialized, kernels::Kernels::AUTO)
        .unwrap()
        .set
        .hash
        .unwrap()
        .1;
    let peer = world.peer();
    let (done, said) = sync(&disk, &peer, Some(hash), options(&disk, false), |_| false);
    assert!(done.unwrap_err().contains("the snapshot is false"), "{said:#?}");
    place(&said, "bad-txns-inputs-missingorspent");
    place(&said, "the snapshot's past is validated first");
    let plain = sync_options(&[peer], Until::Tip);
    jobs::sync(&options(&disk, false), &plain, &|_| ()).unwrap();
    world.is_whole(&disk, "judged again");
}
