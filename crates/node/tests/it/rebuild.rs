//! `reindex --chainstate-only`: the old coins stay until the new ones are whole, and never lie lower.

use crate::chain::{chain, file, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::{damage, everything, layout};
use disk::{Disk, Loss, SimDisk};
use node::jobs;
use node::options::Options;
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height};
use std::path::Path;
use store::index::{BlockTreeDb, IndexChanges};
use store::{FaultKind, IndexEntry};

const BLOCKS: u32 = 160;
const BLOCK_FILE: &str = "regtest/blocks/blk00000.dat";

fn whole(blocks: &[Vec<u8>]) -> SimDisk {
    let disk = SimDisk::new(0);
    put(&disk, &Path::new(DATADIR).join(BLOCK_FILE), &file(blocks));
    jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
    disk
}

fn set(disk: &SimDisk) -> (u32, Hash256) {
    let set = jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
    (set.height.to_u32(), set.hash.unwrap().1)
}

/// Everything but the coins that are being made, and a manifest that says the same: opening writes a new one.
fn but_the_new(disk: &SimDisk) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let is_said_anew = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.starts_with(layout().index_dir()) && (name == "CURRENT" || name.starts_with("MANIFEST"))
    };
    let files = everything(disk).into_iter();
    files.filter(|(path, _)| !path.starts_with(layout().private_dir()) && !is_said_anew(path)).collect()
}

#[test]
fn rebuild_of_a_damaged_body_is_a_disk_fault() {
    let blocks = chain(BLOCKS);
    let whole = whole(&blocks);
    let offset = file(&blocks[..150]).len() as u64 + 8;
    let last = blocks[150].len() as u64 - 1;
    for (row, at) in [("the count", 80), ("a transaction", 120), ("its last byte", last)] {
        for is_eager in [false, true] {
            let row = format!("{row}, eager {is_eager}");
            let disk = whole.reopen(Loss::Nothing);
            let block_file = disk.modify(&Path::new(DATADIR).join(BLOCK_FILE)).unwrap();
            block_file.write_at(offset + at, &[blocks[150][at as usize] ^ 1]).unwrap();
            let (before, coins) = (but_the_new(&disk), set(&disk));
            let why = jobs::reindex(&options(&disk, is_eager), true, &|_| ()).unwrap_err();
            let node::Fault::Store(fault) = &why else { panic!("{row}: {why}") };
            assert_eq!((fault.kind(), fault.detail().offset), (FaultKind::Damaged, Some(offset)), "{row}: {why}");
            assert!(why.to_string().contains("blk00000.dat") && why.to_string().contains("ffwd repair"), "{why}");
            assert_eq!(set(&disk), coins, "{row}");
            assert!(but_the_new(&disk) == before, "{row}: something changed");
            // With the byte as it was it goes on.
            block_file.write_at(offset + at, &[blocks[150][at as usize]]).unwrap();
            assert_eq!(
                jobs::reindex(&options(&disk, false), true, &|_| ()).unwrap().height,
                Height::new(BLOCKS),
                "{row}"
            );
            assert_eq!(set(&disk), coins, "{row}");
        }
    }
}

#[test]
fn rebuild_that_ends_lower_is_not_swapped_in() {
    let blocks = chain(BLOCKS);
    let whole = whole(&blocks);
    // The index knows no body of block 100.
    let index = BlockTreeDb::open(whole.shared(), &layout()).unwrap();
    let network = node::datadir::lock::network(&options(&whole, false).params);
    let known = index.load(&network).unwrap().entries[100];
    let bare = IndexEntry::header_only(known.header, known.hash, known.height);
    index.write(&IndexChanges { entries: &[bare], ..Default::default() }).unwrap();
    drop(index);
    let coins = set(&whole);
    for (row, damages) in [("whole coins", false), ("damaged coins", true)] {
        let disk = whole.reopen(Loss::Nothing);
        if damages {
            damage(&disk, &layout().chainstate_dir());
        }
        let before = but_the_new(&disk);
        let why = jobs::reindex(&options(&disk, false), true, &|_| ()).unwrap_err().to_string();
        assert!(why.contains("160") && why.contains("99") && why.contains("ffwd repair"), "{row}: {why}");
        assert!(but_the_new(&disk) == before, "{row}");
        if !damages {
            assert_eq!(set(&disk), coins, "{row}");
        }
        // What is asked for is no loss; the new coins stand higher than that already.
        let options = Options { stop_at_height: Some(Height::new(90)), ..options(&disk, false) };
        assert_eq!(jobs::reindex(&options, true, &|_| ()).unwrap().height, Height::new(99), "{row}");
    }
}
