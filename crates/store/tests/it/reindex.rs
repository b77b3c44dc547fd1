//! The first steps of a reindex, stopped at every operation.

use crate::common::{header, network, put_file};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use primitives::{BlockHash, Height};
use std::path::Path;
use std::sync::Arc;
use store::index::IndexChanges;
use store::{BlockTreeDb, Chainstate, FaultKind, FileInfo, IndexEntry, Layout, reindex};

fn layout() -> Layout {
    Layout::new(Path::new("/d"), "", None)
}

/// A directory with an index of one block, coins, undo files, and a chainstate from a snapshot.
fn directory(sim: &SimDisk) -> (Arc<dyn Disk>, IndexEntry) {
    let (disk, layout) = (sim.shared(), layout());
    layout.create(&*disk).unwrap();
    let header = header(BlockHash::ZERO, 1);
    let entry = IndexEntry::header_only(header, header.hash(), Height::GENESIS);
    let index = BlockTreeDb::open(disk.clone(), &layout).unwrap();
    let files = [(0, FileInfo { size: 293, undo_size: 41, ..FileInfo::default() })];
    index
        .write(&IndexChanges { entries: &[entry], files: &files, last_file: Some(0), ..IndexChanges::default() })
        .unwrap();
    for dir in [layout.chainstate_dir(), layout.snapshot_dir()] {
        let chainstate = Chainstate::open_with(disk.clone(), &dir, [5; 8]).unwrap();
        chainstate.begin_commit(entry.hash, 0, 0).unwrap().unwrap().finish().unwrap();
    }
    put_file(&*disk, &layout.snapshot_dir().join("base_blockhash"), &[1; 32], [0; 8]);
    for path in [layout.undo_file(0), layout.undo_file(1), layout.block_file(0)] {
        put_file(&*disk, &path, b"bytes", [0; 8]);
        disk.open(&path).unwrap().sync().unwrap();
    }
    for dir in ["/", "/d", "/d/blocks", "/d/chainstate_snapshot", "/d/chainstate", "/d/blocks/index"] {
        disk.sync_dir(Path::new(dir)).unwrap();
    }
    (disk, entry)
}

/// What bitcoind would find: whether `R` is set, the index has entries, and there are coins.
fn state(disk: &Arc<dyn Disk>) -> (bool, bool, bool) {
    let index = BlockTreeDb::open_read_only(disk.clone(), &layout()).unwrap();
    let has_coins = Chainstate::exists(&**disk, &layout().chainstate_dir()).unwrap();
    (index.is_reindexing().unwrap(), !index.is_empty().unwrap(), has_coins)
}

#[test]
fn reindex_stopped_at_any_operation_can_be_resumed() {
    let mut states = std::collections::BTreeSet::new();
    for at in 0..200 {
        let sim = SimDisk::new(at);
        let (disk, entry) = directory(&sim);
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let result = reindex::begin(&disk, &layout(), &[entry.header]);
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let disk = sim.reopen(loss).shared();
            let row = format!("stopped at {at}, {loss:?}");
            let found = state(&disk);
            states.insert(found);
            let is_known = match found {
                (false, true, true) => result.is_err(),
                (true, true, _) | (true, false, false) => true,
                // Without R nothing may be gone, and an empty index must have no coins beside it.
                _ => false,
            };
            assert!(is_known, "{row}: {found:?}");
            // Whatever bitcoind would see of coins is whole.
            if found.2 {
                let chainstate = Chainstate::open_read_only(disk.clone(), &layout().chainstate_dir());
                assert!(chainstate.is_ok_and(|c| c.best_block().unwrap() == Some(entry.hash)), "{row}");
            }
            let resumed = reindex::resume(&disk, &layout()).unwrap();
            assert_eq!(resumed.is_some(), found.0, "{row}");
            if let Some(index) = resumed {
                assert!(
                    !index.is_empty().unwrap() || disk.metadata(&layout().undo_file(0)).unwrap().is_none(),
                    "{row}"
                );
                drop(Chainstate::open(disk.clone(), &layout().chainstate_dir()).unwrap());
            }
            if found.0 {
                assert_eq!(reindex::kept_headers(&disk, &layout()).unwrap(), [entry.header], "{row}");
            }
            let begun = reindex::begin(&disk, &layout(), &[]).unwrap();
            assert!(
                !begun.was_damaged && begun.index.is_reindexing().unwrap() && begun.index.is_empty().unwrap(),
                "{row}"
            );
            drop(begun);
            assert_eq!(state(&disk), (true, false, false), "{row}");
            assert!(disk.metadata(&layout().snapshot_dir()).unwrap().is_none(), "{row}");
            let names = disk.list(layout().blocks_dir()).unwrap();
            let names: Vec<_> = names.iter().map(|entry| entry.name.to_string_lossy()).collect();
            assert_eq!(names, ["blk00000.dat", "index"], "{row}: block files stay, undo files go");
            assert_eq!(
                Chainstate::open(disk, &layout().chainstate_dir()).unwrap().best_block().unwrap(),
                None,
                "{row}"
            );
        }
        if let Ok(begun) = result {
            assert!(begun.removed_snapshot);
            assert!(states.contains(&(true, true, true)) && states.contains(&(true, true, false)), "{states:?}");
            return;
        }
    }
    panic!("the first steps have fewer than 200 operations");
}

#[test]
fn reindex_replaces_a_damaged_index() {
    for at in 0..300 {
        let sim = SimDisk::new(at);
        let (disk, _) = directory(&sim);
        let current = layout().index_dir().join("CURRENT");
        disk.modify(&current).unwrap().write_at(0, b"MANIFEST-999999\n").unwrap();
        disk.open(&current).unwrap().sync().unwrap();
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let result = reindex::begin(&disk, &layout(), &[]);
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let disk = sim.reopen(loss).shared();
            let begun = reindex::begin(&disk, &layout(), &[]).unwrap();
            assert!(
                begun.index.is_reindexing().unwrap() && begun.index.is_empty().unwrap(),
                "stopped at {at}, {loss:?}"
            );
            drop(begun);
            let names = disk.list(layout().blocks_dir()).unwrap();
            assert_eq!(names.len(), 2, "stopped at {at}, {loss:?}: {names:?}");
        }
        if let Ok(begun) = result {
            assert!(begun.was_damaged);
            return;
        }
    }
    panic!("the first steps have fewer than 300 operations");
}

#[test]
fn resume_without_flag_r_is_none() {
    let sim = SimDisk::new(0);
    let (disk, entry) = directory(&sim);
    assert!(reindex::resume(&disk, &layout()).unwrap().is_none());
    let network = network("", [1; 4], &entry.hash.to_string());
    assert_eq!(BlockTreeDb::open(disk, &layout()).unwrap().load(&network).unwrap().entries, [entry]);
    let empty = SimDisk::new(0).shared();
    layout().create(&*empty).unwrap();
    assert!(reindex::resume(&empty, &layout()).unwrap().is_none());
}

/// bitcoind ends a reindex and knows nothing of our marks.
#[test]
fn forget_removes_the_files_of_a_reindex() {
    let sim = SimDisk::new(0);
    let (disk, entry) = directory(&sim);
    drop(reindex::begin(&disk, &layout(), &[entry.header, entry.header]).unwrap());
    assert_eq!(reindex::kept_headers(&disk, &layout()).unwrap(), [entry.header, entry.header]);
    put_file(&*disk, &layout().private_dir().join("reindex-begins"), b"", [0; 8]);
    for _ in 0..2 {
        reindex::forget(&disk, &layout()).unwrap();
        assert!(!reindex::is_beginning(&*disk, &layout()).unwrap());
        assert!(reindex::kept_headers(&disk, &layout()).unwrap().is_empty());
    }
}

#[test]
fn begin_where_blocks_cannot_be_written_changes_nothing() {
    let sim = SimDisk::new(0);
    let (disk, entry) = directory(&sim);
    let before = state(&disk);
    sim.fail_at(sim.operations(), 1, Accident::ReadOnly);
    let why = reindex::begin(&disk, &layout(), &[entry.header]).unwrap_err();
    assert!(why.kind() == FaultKind::Permission && why.to_string().starts_with("/d/blocks/"), "{why}");
    assert_eq!(state(&disk), before);
    assert_eq!(before, (false, true, true), "an index with entries, and coins");
    assert!(!reindex::is_beginning(&*disk, &layout()).unwrap());
}
