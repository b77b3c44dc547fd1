//! Damaged bodies: what lies inside them is found, and no block but the damaged ones is missed.

use crate::archival;
use crate::chain::{GENESIS_TIME, block, chain, coinbase, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::peers::{Far, Until, honest, open, sync_options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs::{self, Depth, SyncOptions};
use node::options::Options;
use node::reporting::{Event, JobReport};
use node::utxo_stats::SetHash;
use primitives::Height;
use std::path::Path;
use std::sync::{Arc, Mutex};

const BLOCKS: u32 = 105;

fn disk(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    let path = Path::new(DATADIR).join("regtest/blocks/blk00000.dat");
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.create(&path).unwrap().write_at(0, bytes).unwrap();
    disk
}

/// A directory with these blocks in its block file, after a reindex.
fn reindexed(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = disk(&file(blocks));
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    disk
}

/// The header of block `height` with something behind it that ends where another record begins: its neighbours look as
/// if they were a part of it.
fn swallowing(blocks: &[Vec<u8>], height: usize, swallowed: usize, between: &[u8]) -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = blocks[..height].to_vec();
    let inside = file(&blocks[height + 1..=height + swallowed]);
    records.push([&blocks[height][..80], between, &inside].concat());
    records.extend(blocks[height + swallowed + 1..].iter().cloned());
    records.push(blocks[height].clone());
    records
}

/// Files in which blocks lie inside false records, each with the whole chain.
fn rows(blocks: &[Vec<u8>]) -> [(&'static str, Vec<Vec<u8>>); 5] {
    // The transactions of another block: the body parses, and is not this header's.
    let other = &blocks[40][80..];
    [
        ("bytes that do not parse", swallowing(blocks, 50, 2, &[0xff; 10])),
        ("another's transactions", swallowing(blocks, 50, 2, other)),
        ("the last blocks", swallowing(blocks, BLOCKS as usize - 3, 3, other)),
        ("with a spend", swallowing(blocks, 101, 1, &[1; 7])),
        ("one inside another", {
            let inner = swallowing(&blocks[60..70], 4, 2, other);
            let inside = file(&inner);
            let outer = [&blocks[59][..80], &[0xfe; 3], &inside].concat();
            [&blocks[..59], &[outer], &blocks[70..], &blocks[59..60]].concat()
        }),
    ]
}

/// Reindexes to the end and looks at all that is there then.
fn ends_whole(blocks: &[Vec<u8>], good: &SimDisk, disk: &SimDisk, is_eager: bool, row: &str) -> JobReport {
    let set = |disk: &SimDisk| jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
    let said = Mutex::new(Vec::new());
    let report = jobs::reindex(&options(disk, is_eager), false, &|event| said.lock().unwrap().push(event))
        .unwrap_or_else(|why| panic!("{row}: {why}"));
    let want = (BLOCKS, hash_of(&blocks[BLOCKS as usize]), 0);
    assert_eq!((report.height.to_u32(), report.best, report.blocks_invalid), want, "{row}: {said:?}");
    assert_eq!(set(disk).hash, set(good).hash, "{row}");
    let info = jobs::info(&options(disk, false)).unwrap();
    assert!(!info.reindexing && info.headers == Height::new(BLOCKS), "{row}: {info:?}");
    jobs::verify(&options(disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
    report
}

#[test]
fn blocks_inside_a_damaged_record_are_found() {
    let blocks = chain(BLOCKS);
    let good = reindexed(&blocks);
    for (row, records) in rows(&blocks) {
        ends_whole(&blocks, &good, &disk(&file(&records)), false, row);
    }
}

/// A run that is gone on with finds them where the first one found them.
#[test]
fn blocks_inside_a_damaged_record_stay_found_after_a_stop() {
    let blocks = chain(BLOCKS);
    let good = reindexed(&blocks);
    for (row, records) in rows(&blocks) {
        let first = disk(&file(&records));
        let path = Path::new(DATADIR).join("regtest/blocks/blk00000.dat");
        first.open(&path).unwrap().sync().unwrap();
        path.ancestors().skip(1).for_each(|dir| first.sync_dir(dir).unwrap());
        let whole = first.reopen(Loss::Nothing);
        jobs::reindex(&options(&whole, true), false, &|_| ()).unwrap();
        let (count, mut highest) = (whole.operations(), Height::GENESIS);
        for at in (0..20).map(|step| count * step / 20).chain(count - 8..count) {
            let stopped = first.reopen(Loss::Nothing);
            stopped.fail_at(at, 1, Accident::Stop);
            // It may have fewer operations this time, and end well.
            let _ = jobs::reindex(&options(&stopped, true), false, &|_| ());
            let left = stopped.reopen(Loss::Unsynced);
            let report = ends_whole(&blocks, &good, &left, true, &format!("{row}, stopped at {at} of {count}"));
            highest = highest.max(report.height_start);
        }
        assert!(highest >= Height::new(70), "{row}: gone on with from {highest} at most");
    }
}

/// The same bad place is not tried for ever.
#[test]
fn nested_damaged_records_are_tried_once() {
    let blocks = chain(BLOCKS);
    let mut inside = file(&blocks[60..61]);
    for depth in 0..40 {
        let false_one = [&blocks[59 - depth][..80], &[0xfe; 3], &inside].concat();
        inside = file(&[false_one]);
    }
    let bytes = [file(&blocks[..20]), inside, file(&blocks[20..60]), file(&blocks[61..])].concat();
    let report = jobs::reindex(&options(&disk(&bytes), false), false, &|_| ()).unwrap();
    assert_eq!((report.height.to_u32(), report.blocks_invalid), (BLOCKS, 0));
}

/// Blocks that no index lists are taken in first, and nothing is written over them.
#[test]
fn import_indexes_block_files_that_no_index_lists() {
    let blocks = chain(BLOCKS);
    let disk = disk(&file(&blocks[..90]));
    let foreign = Path::new("/foreign.dat");
    disk.create(foreign).unwrap().write_at(0, &file(&blocks[80..])).unwrap();
    let report = jobs::import(&options(&disk, false), &[foreign.into()], &|_| ()).unwrap();
    assert_eq!((report.height.to_u32(), report.height_start.to_u32()), (BLOCKS, 89));
}

/// One bit of a body in a file that is imported: the chain ends below it, and that is said; unless another copy is whole.
#[test]
fn import_that_damage_ends_early_says_so() {
    let blocks = chain(BLOCKS);
    let mut damaged = blocks[60].clone();
    *damaged.last_mut().unwrap() ^= 1;
    let bent = [file(&blocks[..60]), file(&[damaged]), file(&blocks[61..])].concat();
    for (row, bytes, height) in [
        ("alone", bent.clone(), 59),
        ("a whole copy later", [bent.clone(), file(&blocks[60..61])].concat(), BLOCKS),
        ("a whole copy before", [file(&blocks[60..61]), bent].concat(), BLOCKS),
    ] {
        let disk = disk(&file(&blocks[..10]));
        let foreign = Path::new("/foreign.dat");
        disk.create(foreign).unwrap().write_at(0, &bytes).unwrap();
        let report = jobs::import(&options(&disk, false), &[foreign.into()], &|_| ()).unwrap();
        assert_eq!((report.height.to_u32(), report.headers.to_u32()), (height, BLOCKS), "{row}");
        assert_eq!(report.end_reason.is_some_and(|why| why.what().contains("damaged")), height < BLOCKS, "{row}");
    }
}

/// An index that knows the damaged header: no block behind it lacks a parent, and the chain ends all the same.
#[test]
fn reindex_with_a_damaged_header_that_the_index_knows_says_so() {
    let blocks = chain(BLOCKS);
    let disk = disk(&file(&blocks[..=BLOCKS as usize]));
    let half = Options { stop_at_height: Some(Height::new(30)), ..options(&disk, false) };
    jobs::reindex(&half, false, &|_| ()).unwrap();
    let path = Path::new(DATADIR).join("regtest/blocks/blk00000.dat");
    let at = file(&blocks[..60]).len() as u64 + 8 + 40;
    let byte = disk.open(&path).unwrap().bytes().unwrap()[at as usize];
    disk.modify(&path).unwrap().write_at(at, &[byte ^ 1]).unwrap();
    let report = jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    assert_eq!(report.height, Height::new(59));
    assert!(report.end_reason.is_some_and(|why| why.what().contains("damaged")), "{} headers", report.headers);
}

/// A directory whose index is at height 100 with undo data, and whose coins are at height 80.
fn ahead_of_its_coins(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = disk(&file(&blocks[..=100]));
    let (whole, behind) = (disk.reopen(Loss::Nothing), disk.reopen(Loss::Nothing));
    jobs::reindex(&options(&whole, false), false, &|_| ()).unwrap();
    let at_coins = Options { stop_at_height: Some(Height::new(80)), ..options(&behind, false) };
    jobs::reindex(&at_coins, false, &|_| ()).unwrap();
    let dir = Path::new(DATADIR).join("regtest/chainstate");
    whole.remove_dir_all(&dir).unwrap();
    for entry in behind.list(&dir).unwrap() {
        put(&whole, &dir.join(&entry.name), &behind.open(&dir.join(&entry.name)).unwrap().bytes().unwrap());
    }
    whole
}

/// bitcoind syncs only its last undo file before it writes the index.
#[test]
fn lost_undo_data_above_the_coins_is_written_again() {
    let blocks = chain(BLOCKS);
    let good = reindexed(&blocks);
    let set = archival::set_of(&good);
    let before = ahead_of_its_coins(&blocks);
    let peer = Far::listen(&Arc::new(blocks.clone()), honest(), &open());
    let sync = sync_options(&[peer], Until::Tip);
    // A record of 8 + 1 + 32 bytes for each block, whose transactions spend nothing but at the end.
    const KEPT_BYTES: u64 = 41 * 80;
    type Lose = fn(&SimDisk, &Path);
    let rows: [(&str, Lose); 4] = [
        ("the bytes of each block", |disk, path| {
            let file = disk.modify(path).unwrap();
            let count = file.len().unwrap() - KEPT_BYTES;
            file.write_at(KEPT_BYTES, &vec![0; count as usize]).unwrap();
        }),
        ("nothing", |_, _| ()),
        ("the end of the file", |disk, path| disk.modify(path).unwrap().set_len(KEPT_BYTES).unwrap()),
        ("the file", |disk, path| disk.remove_file(path).unwrap()),
    ];
    for (row, lose) in rows {
        let disk = before.reopen(Loss::Nothing);
        let path = Path::new(DATADIR).join("regtest/blocks/rev00000.dat");
        lose(&disk, &path);
        let report = jobs::sync(&options(&disk, false), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!((report.height, report.end_reason), (Height::new(BLOCKS), None), "{row}");
        if row == "the file" {
            // The undo data of the blocks that were connected before is not needed for a sync.
            jobs::repair(&options(&disk, false), &SyncOptions::alone(), &|_| ()).unwrap();
        }
        archival::check_archival(&disk, &set, row);
    }
}

/// No peer gives an old block that is off the best chain.
#[test]
fn lost_block_off_the_chain_is_given_up() {
    let blocks = chain(BLOCKS);
    let good = reindexed(&blocks);
    let set = archival::set_of(&good);
    let stale: Vec<Vec<u8>> = [50, 51].into_iter().fold(Vec::new(), |mut stale, height| {
        let prev = stale.last().map_or_else(|| hash_of(&blocks[49]), |below: &Vec<u8>| hash_of(below));
        stale.push(block(prev, GENESIS_TIME + 600 * height + 1, &[coinbase(height)]));
        stale
    });
    let records = [&blocks[..=60], &stale, &blocks[61..]].concat();
    let before = reindexed(&records);
    let peer = Far::listen(&Arc::new(blocks.clone()), honest(), &open());
    let sync = sync_options(&[peer], Until::Tip);
    let check = |disk: &SimDisk, row: &str| {
        assert_eq!(archival::set_of(disk), set, "{row}");
        let found = jobs::doctor(&options(disk, false), Depth::Deep, &|_| ()).unwrap().findings;
        assert!(found.is_empty(), "{row}: {found:?}");
    };
    let place = |at: usize| file(&records[..at]).len() as u64;
    for (row, from, to, fetches) in
        [("both", 61, 63, 0), ("the lower one", 61, 62, 0), ("and one of the chain", 60, 62, 1)]
    {
        // Peers are waited for a minute.
        let of_peers = if fetches > 0 { sync.clone() } else { SyncOptions::alone() };
        if fetches > 0 && !testkit::is_slow() {
            eprintln!("skipped: {row}: SLOW=1");
            continue;
        }
        let hurt = before.reopen(Loss::Nothing);
        let damaged = hurt.modify(&Path::new(DATADIR).join("regtest/blocks/blk00000.dat")).unwrap();
        damaged.write_at(place(from), &vec![0; (place(to) - place(from)) as usize]).unwrap();
        let repaired = hurt.reopen(Loss::Nothing);
        let report =
            jobs::repair(&options(&repaired, false), &of_peers, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(report.done.iter().any(|line| line.contains("off the chain were given up")), "{row}: {report:?}");
        assert_eq!(report.fetched, fetches, "{row}");
        check(&repaired, row);
        let synced = jobs::sync(&options(&hurt, false), &sync, &|_| ());
        if fetches == 0 {
            assert_eq!(synced.unwrap().height, Height::new(BLOCKS), "{row}");
            check(&hurt, row);
        } else {
            assert!(synced.unwrap_err().to_string().contains("run ffwd repair"), "{row}");
        }
    }
}

/// Power failed after bitcoind wrote its index and before the last blocks were on the disk: they are above the coins, so
/// they are downloaded again. A lost block that the coins depend on needs a repair.
#[test]
fn lost_blocks_above_the_coins_are_downloaded_again() {
    let blocks = chain(BLOCKS);
    let (coins_at, indexed) = (80, 100);
    let good = reindexed(&blocks);
    let set = archival::set_of(&good);
    let before = disk(&file(&blocks[..=indexed]));
    let at_coins = Options { stop_at_height: Some(Height::new(coins_at)), ..options(&before, false) };
    jobs::reindex(&at_coins, false, &|_| ()).unwrap();
    let start = |height: usize| file(&blocks[..height]).len() as u64;
    for (row, from, is_cut, lost) in [
        ("the last is torn", start(indexed) + 90, true, 1),
        ("the last has a torn header", start(indexed) + 30, true, 1),
        ("the last are cut off", start(90), true, 11),
        ("the last are zeros", start(90) + 40, false, 11),
        ("all above the coins are zeros", start(81), false, 20),
        ("one that is connected", start(80) + 100, true, 0),
    ] {
        let disk = before.reopen(Loss::Nothing);
        let damaged = disk.modify(&Path::new(DATADIR).join("regtest/blocks/blk00000.dat")).unwrap();
        if is_cut {
            damaged.set_len(from).unwrap();
        } else {
            damaged.write_at(from, &vec![0; (start(indexed + 1) - from) as usize]).unwrap();
        }
        let said = Mutex::new(Vec::new());
        let say = |event: Event| said.lock().unwrap().push(format!("{event:?}"));
        let is_refused = lost == 0;
        if is_refused {
            let why = jobs::import(&options(&disk, false), &[], &say).unwrap_err().to_string();
            assert!(why.contains("run ffwd repair"), "{row}: {why}");
            continue;
        }
        let peer = Far::listen(&Arc::new(blocks.clone()), honest(), &open());
        let report = jobs::sync(&options(&disk, false), &sync_options(&[peer], Until::Tip), &say).unwrap();
        assert_eq!((report.height, report.end_reason), (Height::new(BLOCKS), None), "{row}");
        let want = format!("{lost} blocks are not in the block files where the index says");
        assert!(said.lock().unwrap().iter().any(|line| line.contains(&want)), "{row}: {said:#?}");
        archival::check_archival(&disk, &set, row);
    }
}
