//! Damaged bodies: what lies inside them is found, and no block but the damaged ones is missed.

use crate::chain::{chain, file, hash_of};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs;
use node::options::Options;
use node::reporting::JobReport;
use node::utxo_stats::SetHash;
use primitives::Height;
use std::path::Path;
use std::sync::Mutex;

const BLOCKS: u32 = 105;

fn disk(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(0);
    let path = Path::new(DATADIR).join("regtest/blocks/blk00000.dat");
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    disk.create(&path).unwrap().write_at(0, bytes).unwrap();
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
    let good = disk(&file(&blocks));
    jobs::reindex(&options(&good, false), false, &|_| ()).unwrap();
    for (row, records) in rows(&blocks) {
        ends_whole(&blocks, &good, &disk(&file(&records)), false, row);
    }
}

/// A run that is gone on with finds them where the first one found them.
#[test]
fn blocks_inside_a_damaged_record_stay_found_after_a_stop() {
    let blocks = chain(BLOCKS);
    let good = disk(&file(&blocks));
    jobs::reindex(&options(&good, false), false, &|_| ()).unwrap();
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
