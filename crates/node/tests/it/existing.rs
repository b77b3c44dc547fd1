//! Data directories that another program left, or left half done: each is continued as it is meant, or refused by name.

use crate::chain::{GENESIS_TIME, block, chain, coinbase, file, hash_of, id, put, spend, subsidy};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::Fault;
use node::jobs::{self, SyncOptions};
use node::options::Options;
use node::reporting::{Event, JobReport};
use node::utxo_stats::{SetHash, SetInfo};
use primitives::{BlockHash, Header, Height};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use store::index::IndexChanges;
use store::{FaultKind, IndexEntry, Status};

const BLOCKS: u32 = 110;
const BLOCK_FILE: &str = "regtest/blocks/blk00000.dat";
const CHAINSTATE: &str = "regtest/chainstate";

fn disk(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join(BLOCK_FILE), bytes);
    disk
}

fn set(disk: &SimDisk) -> SetInfo {
    jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap()
}

/// Every file of a directory.
fn files(disk: &SimDisk, dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let names = disk.list(dir).unwrap().into_iter().map(|entry| dir.join(entry.name));
    names.map(|path| (path.clone(), disk.open(&path).unwrap().bytes().unwrap().to_vec())).collect()
}

/// The first transaction's coins are spent in the same block; on the other branch they never were.
#[test]
fn replay_across_a_fork_gives_the_coins_of_the_new_branch() {
    let blocks = chain(BLOCKS);
    let height = BLOCKS + 1;
    let coin_of = |height: u32| (id(&blocks[height as usize][81..]), subsidy(height));
    let (txid, value) = coin_of(height - 100);
    let made = spend(txid, value);
    let in_block = spend(id(&made), value / 2);
    let prev = hash_of(&blocks[BLOCKS as usize]);
    let left = block(prev, GENESIS_TIME + 600 * height, &[coinbase(height), made, in_block]);
    let right = block(prev, GENESIS_TIME + 600 * height + 1, &[coinbase(height)]);
    let (txid, value) = coin_of(height - 99);
    let next = [coinbase(height + 1), spend(txid, value)];
    let top = block(hash_of(&right), GENESIS_TIME + 600 * height + 600, &next);
    let (old, new) = (hash_of(&left), hash_of(&top));

    let disk = disk(&file(&[&blocks[..], &[left]].concat()));
    assert_eq!(jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap().best, old);
    let dir = Path::new(DATADIR).join(CHAINSTATE);
    let on_left = files(&disk, &dir);
    let foreign = PathBuf::from("/foreign.dat");
    put(&disk, &foreign, &file(&[right, top]));
    assert_eq!(jobs::import(&options(&disk, false), &[foreign], &|_| ()).unwrap().best, new);
    let want = set(&disk);
    let on_right = files(&disk, &dir);
    // Core may have written none of the changes, or all but the last.
    for (row, left) in [("nothing written", on_left), ("all written", on_right)] {
        disk.remove_dir_all(&dir).unwrap();
        left.iter().for_each(|(path, bytes)| put(&disk, path, bytes));
        leave_heads(&disk, new, old);
        let report = jobs::import(&options(&disk, false), &[], &|_| ()).unwrap();
        assert_eq!((report.best, report.height.to_u32()), (new, height + 1), "{row}");
        let got = set(&disk);
        assert_eq!((got.hash, got.txouts), (want.hash, want.txouts), "{row}");
        jobs::verify(&options(&disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    }
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    assert_eq!(set(&disk).hash, want.hash, "a fresh reindex");
}

/// Every file of the network's directory that a job may not change when it says no.
pub(crate) fn everything(disk: &SimDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let dirs = ["blocks", "blocks/index", "chainstate", "ffwd"].map(|dir| Path::new(DATADIR).join("regtest").join(dir));
    let there = dirs.iter().filter(|dir| disk.metadata(dir).unwrap().is_some());
    let is_file = |path: &PathBuf| !disk.metadata(path).unwrap().unwrap().is_dir && !path.ends_with("LOCK");
    let names = there.flat_map(|dir| disk.list(dir).unwrap().into_iter().map(move |entry| dir.join(entry.name)));
    let paths: Vec<PathBuf> = names.filter(|path| is_file(path) && !path.ends_with(".lock")).collect();
    paths.into_iter().map(|path| (path.clone(), disk.open(&path).unwrap().bytes().unwrap().to_vec())).collect()
}

pub(crate) fn layout() -> store::Layout {
    store::Layout::new(Path::new(DATADIR), "regtest", None)
}

/// Changes a byte in the middle of every table of a database.
pub(crate) fn damage(disk: &SimDisk, dir: &Path) {
    let tables: Vec<_> =
        files(disk, dir).into_iter().filter(|(path, _)| path.extension() == Some("ldb".as_ref())).collect();
    assert!(!tables.is_empty());
    for (path, bytes) in tables {
        disk.modify(&path).unwrap().write_at(20, &[bytes[20] ^ 1]).unwrap();
    }
}

/// What Core leaves when it is stopped while it writes coins: `H` for `B`.
pub(crate) fn leave_heads(disk: &SimDisk, new: BlockHash, old: BlockHash) {
    let dir = layout().chainstate_dir();
    let db = leveldb::Db::open(disk.shared(), &dir, leveldb::Options::default()).unwrap();
    let key = db.get(b"\x0e\0obfuscate_key").unwrap().unwrap();
    let mut heads = [&[2], &new.as_bytes()[..], old.as_bytes()].concat();
    kernels::xor::xor(&mut heads, key[1..].try_into().unwrap(), 0);
    db.write(&[(&b"B"[..], None), (&b"H"[..], Some(heads))]).unwrap();
}

type Change = fn(&SimDisk, &[Vec<u8>]);

/// What may have become of index and coins, and what a refusal names.
const STATES: [(&str, Change, &str); 6] = [
    ("whole", |_, _| {}, "height 110"),
    ("a damaged index", |disk, _| damage(disk, &layout().index_dir()), "block "),
    ("no index", |disk, _| disk.remove_dir_all(&layout().index_dir()).unwrap(), "block "),
    ("damaged coins", |disk, _| damage(disk, &layout().chainstate_dir()), "height 110"),
    ("no coins", |disk, _| disk.remove_dir_all(&layout().chainstate_dir()).unwrap(), "height 110"),
    ("half coins", |disk, blocks| leave_heads(disk, hash_of(&blocks[110]), hash_of(&blocks[109])), "height 110"),
];

#[test]
fn reindex_that_would_end_lower_is_refused() {
    let blocks = chain(BLOCKS);
    let path = Path::new(DATADIR).join(BLOCK_FILE);
    let replace = |disk: &SimDisk, bytes: &[u8]| {
        disk.remove_file(&path).unwrap();
        put(disk, &path, bytes);
    };
    let reindex = |disk: &SimDisk, stop: Option<u32>| {
        let options = Options { stop_at_height: stop.map(Height::new), ..options(disk, false) };
        jobs::reindex(&options, false, &|_| ())
    };
    let whole = disk(&file(&blocks));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    let want = set(&whole);
    for (row, change, named) in STATES {
        for (files, kept) in [("the last blocks gone", &blocks[..90]), ("pruned", &blocks[60..])] {
            let row = format!("{row}, {files}");
            let disk = whole.reopen(Loss::Nothing);
            change(&disk, &blocks);
            replace(&disk, &file(kept));
            let before = everything(&disk);
            let why = reindex(&disk, None).map(|report| report.height).unwrap_err().to_string();
            assert!(why.contains(named) && why.contains("Nothing was changed"), "{row}: {why}");
            assert!(everything(&disk) == before, "{row}");
            // What is asked for is no loss.
            if files != "pruned" {
                assert_eq!(reindex(&disk, Some(80)).unwrap().height, Height::new(80), "{row}");
            }
        }
        let disk = whole.reopen(Loss::Nothing);
        change(&disk, &blocks);
        assert_eq!(reindex(&disk, None).unwrap().height, Height::new(BLOCKS), "{row}");
        assert_eq!(set(&disk).hash, want.hash, "{row}");
    }
}

/// A disk that fails to read is no reason to begin again.
#[test]
fn unreadable_coins_are_kept() {
    let blocks = chain(BLOCKS);
    let whole = disk(&file(&blocks));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    for is_reindexing in [false, true] {
        let disk = whole.reopen(Loss::Nothing);
        let index = store::BlockTreeDb::open(disk.shared(), &layout()).unwrap();
        index.write(&IndexChanges { reindexing: Some(is_reindexing), ..Default::default() }).unwrap();
        drop(index);
        // Reading a directory as a file is an error of the system.
        let current = layout().chainstate_dir().join("CURRENT");
        disk.remove_file(&current).unwrap();
        disk.create_dir_all(&current).unwrap();
        let before = everything(&disk);
        let why = jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap_err();
        assert!(matches!(&why, Fault::Store(fault) if fault.kind() == FaultKind::Io), "{why:?}");
        assert!(everything(&disk) == before, "reindexing: {is_reindexing}");
    }
}

/// Half a set of Core's beside `R`: nothing can be built on it.
#[test]
fn cores_reindex_with_half_flushed_coins_starts_over() {
    let blocks = chain(BLOCKS);
    let disk = disk(&file(&blocks));
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    let want = set(&disk);
    // Coins of another chain, of which none is a part of the result.
    let dir = layout().chainstate_dir();
    let db = leveldb::Db::open(disk.shared(), &dir, leveldb::Options::default()).unwrap();
    let some = db.iter().unwrap().next_record().unwrap().map(|(_, value)| value.to_vec()).unwrap();
    db.write(&[([&b"C"[..], &[9; 33]].concat(), Some(some))]).unwrap();
    drop(db);
    leave_heads(&disk, hash_of(&blocks[110]), hash_of(&blocks[70]));
    let index = store::BlockTreeDb::open(disk.shared(), &layout()).unwrap();
    index.write(&IndexChanges { reindexing: Some(true), ..Default::default() }).unwrap();
    drop(index);
    let report = jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    assert_eq!((report.height_start.to_u32(), report.height.to_u32()), (0, BLOCKS));
    assert_eq!(set(&disk).hash, want.hash);
}

/// A header without a body outlives a reindex, wherever that is stopped.
#[test]
fn reindex_keeps_every_known_header() {
    let blocks = chain(BLOCKS + 2);
    let whole = disk(&file(&blocks[..=BLOCKS as usize]));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    let bare = [BLOCKS + 1, BLOCKS + 2].map(|height| {
        let header = Header(*blocks[height as usize].first_chunk().unwrap());
        IndexEntry::header_only(header, header.hash(), Height::new(height))
    });
    let index = store::BlockTreeDb::open(whole.shared(), &layout()).unwrap();
    index.write(&IndexChanges { entries: &bare, ..Default::default() }).unwrap();
    drop(index);
    for at in 0.. {
        let disk = whole.reopen(Loss::Nothing);
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let done = jobs::reindex(&options(&disk, false), false, &|_| ()).is_ok();
        let disk = disk.reopen([Loss::Nothing, Loss::Unsynced][at as usize % 2]);
        let report = jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
        let info = jobs::info(&options(&disk, false)).unwrap();
        assert_eq!((report.height.to_u32(), info.headers.to_u32()), (BLOCKS, BLOCKS + 2), "stopped at {at}");
        if done {
            assert!(at > 20, "{at} operations");
            break;
        }
    }
}

/// bitcoind may finish what a reindex began: the mark of its first steps must not outlive `R`.
#[test]
fn reindex_files_go_with_the_flag() {
    let blocks = chain(BLOCKS);
    let whole = disk(&file(&blocks));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    let mark = layout().private_dir().join("reindex-begins");
    for (row, job) in [
        ("import", (|options| jobs::import(options, &[], &|_| ())) as fn(&Options) -> Result<JobReport, Fault>),
        ("rebuild", |options| jobs::reindex(options, true, &|_| ())),
        ("reindex", |options| jobs::reindex(options, false, &|_| ())),
    ] {
        let disk = whole.reopen(Loss::Nothing);
        put(&disk, &mark, b"");
        job(&options(&disk, false)).unwrap();
        assert!(disk.metadata(&mark).unwrap().is_none(), "{row}");
    }
}

/// Index and coins that are not of one directory: said, and nothing is written before it is known.
#[test]
fn mismatched_index_and_coins_are_refused_unchanged() {
    let blocks = chain(BLOCKS);
    let whole = disk(&file(&blocks));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    type Job = fn(&Options) -> Result<(), Fault>;
    let import: Job = |options| jobs::import(options, &[], &|_| ()).map(drop);
    let verify: Job = |options| jobs::verify(options, 4, 0, &|_| ()).map(drop);
    let coins_info: Job = |options| jobs::set_info(options, SetHash::Serialized, &|_| ()).map(drop);
    let info: Job = |options| jobs::info(options).map(drop);
    let no_index: Change = |disk, _| disk.remove_dir_all(&layout().index_dir()).unwrap();
    let empty_index: Change = |disk, _| {
        disk.remove_dir_all(&layout().index_dir()).unwrap();
        drop(store::BlockTreeDb::open(disk.shared(), &layout()).unwrap());
    };
    let no_coins: Change = |disk, _| disk.remove_dir_all(&layout().chainstate_dir()).unwrap();
    let neither: Change = |disk, _| {
        disk.remove_dir_all(&layout().index_dir()).unwrap();
        disk.remove_dir_all(&layout().chainstate_dir()).unwrap();
    };
    let other_coins: Change = |disk, _| {
        let coins = store::Chainstate::open(disk.shared(), &layout().chainstate_dir()).unwrap();
        coins.begin_commit(BlockHash::from_bytes([7; 32]), 0, 0).unwrap().unwrap().finish().unwrap();
    };
    let other_half: Change =
        |disk, _| leave_heads(disk, BlockHash::from_bytes([7; 32]), BlockHash::from_bytes([8; 32]));
    let apart = "do not belong together. Run ffwd repair";
    for (row, change, job, want) in [
        ("import, no index", no_index, import, apart),
        ("import, an empty index", empty_index, import, apart),
        ("import, other coins", other_coins, import, apart),
        ("import, other half coins", other_half, import, apart),
        ("verify, no index", no_index, verify, "ffwd repair"),
        ("verify, an empty index", empty_index, verify, "ffwd repair"),
        ("verify, no coins", no_coins, verify, "ffwd repair"),
        ("verify, neither", neither, verify, "ffwd repair"),
        ("verify, other coins", other_coins, verify, apart),
        ("coins info, other coins", other_coins, coins_info, apart),
        ("info, other coins", other_coins, info, apart),
    ] {
        let disk = whole.reopen(Loss::Nothing);
        change(&disk, &blocks);
        let is_table = |(path, _): &(PathBuf, Vec<u8>)| path.extension().is_some();
        let before: Vec<_> = everything(&disk).into_iter().filter(is_table).collect();
        let dirs = [layout().index_dir(), layout().chainstate_dir()].map(|dir| disk.metadata(&dir).unwrap());
        let why = job(&options(&disk, false)).unwrap_err().to_string();
        assert!(why.contains(want), "{row}: {why}");
        assert!(everything(&disk).into_iter().filter(is_table).collect::<Vec<_>>() == before, "{row}");
        assert_eq!(
            [layout().index_dir(), layout().chainstate_dir()].map(|dir| disk.metadata(&dir).unwrap()),
            dirs,
            "{row}"
        );
    }
    for (row, change) in [("no index", no_index), ("an empty index", empty_index)] {
        let disk = whole.reopen(Loss::Nothing);
        change(&disk, &blocks);
        let info = jobs::info(&options(&disk, false)).unwrap();
        assert!(info.next_step.contains("ffwd repair"), "{row}: {info:?}");
    }
}

/// What bitcoind calls invalid (`invalidateblock`) stays so until everything is judged again.
#[test]
fn invalid_marks_stay_until_a_full_reindex() {
    let blocks = chain(BLOCKS);
    let whole = disk(&file(&blocks));
    let below = 104;
    let stopped = Options { stop_at_height: Some(Height::new(below)), ..options(&whole, false) };
    jobs::reindex(&stopped, false, &|_| ()).unwrap();
    let index = store::BlockTreeDb::open(whole.shared(), &layout()).unwrap();
    let network = node::datadir::lock::network(&stopped.params);
    let first = index.load(&network).unwrap().entries[below as usize + 1];
    let failed = IndexEntry { status: first.status.with(Status::FAILED_VALID), ..first };
    index.write(&IndexChanges { entries: &[failed], ..Default::default() }).unwrap();
    drop(index);
    let sync: fn(&Options) -> Result<JobReport, Fault> = |options| {
        let sync = SyncOptions { outbound: 8, ..SyncOptions::alone() };
        // It says how far it is as soon as it waits for peers.
        let stop = |event| {
            if matches!(event, Event::Progress(_)) {
                options.stop.store(true, Ordering::Relaxed);
            }
        };
        jobs::sync(options, &sync, &stop)
    };
    for (row, job) in [
        ("sync", sync),
        ("import", |options| jobs::import(options, &[], &|_| ())),
        ("rebuild", |options| jobs::reindex(options, true, &|_| ())),
    ] {
        let disk = whole.reopen(Loss::Nothing);
        assert_eq!(job(&options(&disk, false)).unwrap().height, Height::new(below), "{row}");
        let info = jobs::info(&options(&disk, false)).unwrap();
        assert_eq!((info.height.to_u32(), info.headers.to_u32()), (below, BLOCKS), "{row}");
        let failed: Vec<_> = info.failed.iter().map(|failed| (failed.height, failed.hash)).collect();
        assert_eq!(failed, [(Height::new(below + 1), first.hash)], "{row}: {:?}", info.failed);
        assert_eq!(jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap().height, Height::new(BLOCKS), "{row}");
        let info = jobs::info(&options(&disk, false)).unwrap();
        assert!(info.failed.is_empty() && info.height == Height::new(BLOCKS), "{row}, reindexed: {info:?}");
    }
}

/// What is there is removed when a new index is begun, and that is not begun after a stop.
#[test]
fn stop_before_a_reindex_begins_changes_nothing() {
    let disk = disk(&file(&chain(BLOCKS)));
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    let dirs = ["regtest/blocks/index", CHAINSTATE].map(|dir| Path::new(DATADIR).join(dir));
    let before = dirs.each_ref().map(|dir| files(&disk, dir));
    let stopped = options(&disk, false);
    stopped.stop.store(true, Ordering::Relaxed);
    let ended = jobs::reindex(&stopped, false, &|_| ());
    assert!(matches!(ended, Err(Fault::Stopped)), "{ended:?}");
    assert!(before == dirs.each_ref().map(|dir| files(&disk, dir)), "files of the index or the coins are others");
}

/// bitcoind does not start where the index has the genesis block without its data: no stop leaves that, also where a file
/// has the block before there is an index.
#[test]
fn the_genesis_block_is_listed_with_its_data() {
    let blocks = chain(3);
    let network = node::datadir::lock::network(&options(&SimDisk::new(0), false).params);
    for has_file in [false, true] {
        for at in 0.. {
            assert!(at < 1000, "it does not end");
            let disk = SimDisk::new(0);
            disk.create_dir_all(Path::new(DATADIR)).unwrap();
            put(&disk, Path::new("/more.dat"), &file(&blocks));
            if has_file {
                put(&disk, &layout().block_file(0), &file(&blocks[..1]));
            }
            disk.fail_at(disk.operations() + at, 1, Accident::Stop);
            let is_done = jobs::import(&options(&disk, false), &["/more.dat".into()], &|_| ()).is_ok();
            for loss in [Loss::Nothing, Loss::Unsynced] {
                let disk = disk.reopen(loss);
                let index =
                    store::BlockTreeDb::open_read_only(disk.shared(), &layout()).and_then(|db| db.load(&network));
                let entries = index.map(|loaded| loaded.entries).unwrap_or_default();
                assert!(entries.iter().all(|entry| entry.data().is_some()), "{has_file} {at} {loss:?}: {entries:?}");
            }
            if is_done {
                break;
            }
        }
    }
}
