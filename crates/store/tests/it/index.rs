//! The block index: what is written comes back, and what Core refuses to load is named.

use crate::common::{bad_header, header, network, put_file, regtest};
use disk::{Fault as Accident, Loss, SimDisk};
use leveldb::{Db, Options};
use primitives::{BlockHash, Header, Height, Target};
use std::path::Path;
use store::index::{IndexChanges, check_files_exist, check_not_pruned};
use store::{BlockTreeDb, FaultKind, FileInfo, IndexEntry, Layout, Network, Status};

fn layout() -> Layout {
    Layout::new(Path::new("/d"), "", None)
}

/// A network whose genesis block is the first of a chain of headers.
fn made_chain(count: u32) -> (Network, Vec<IndexEntry>) {
    let mut prev = BlockHash::ZERO;
    let mut entries = Vec::new();
    for height in 0..count {
        let header = header(prev, height);
        prev = header.hash();
        entries.push(IndexEntry {
            status: Status::SCRIPTS.with(Status::HAVE_DATA | Status::HAVE_UNDO | Status::OPT_WITNESS),
            tx_count: height + 1,
            file: height / 100,
            data_offset: 8 + height * 300,
            undo_offset: 8 + height * 41,
            ..IndexEntry::header_only(header, prev, Height::new(height))
        });
    }
    let genesis = entries[0].hash.to_string();
    (network("", [1, 2, 3, 4], &genesis), entries)
}

#[test]
fn index_round_trips_entries_files_and_flags() {
    let sim = SimDisk::new(0);
    let (network, mut entries) = made_chain(3000);
    let info = FileInfo { blocks: 7, size: 1 << 20, ..FileInfo::default() };
    let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
    assert!(index.is_empty().unwrap() && index.load(&network).unwrap().entries.is_empty());
    index
        .write(&IndexChanges {
            entries: &entries,
            files: &[(0, info), (256, info), (3, info)],
            last_file: Some(256),
            reindexing: Some(true),
            pruned: Some(true),
        })
        .unwrap();
    entries[7].status = Status(32 | 2);
    (entries[7].file, entries[7].data_offset, entries[7].undo_offset) = (0, 0, 0);
    index.write(&IndexChanges { entries: &entries[7..8], reindexing: Some(false), ..IndexChanges::default() }).unwrap();
    index.write(&IndexChanges::default()).unwrap();
    index.settle().unwrap();
    drop(index);
    for read_only in [false, true] {
        let open = if read_only { BlockTreeDb::open_read_only } else { BlockTreeDb::open };
        let index = open(sim.shared(), &layout()).unwrap();
        let loaded = index.load(&network).unwrap();
        assert_eq!(loaded.entries, entries);
        assert_eq!(
            (loaded.files.len(), loaded.files[256], loaded.files[3], loaded.files[4]),
            (257, info, info, FileInfo::default())
        );
        assert!(loaded.is_pruned && !loaded.is_reindexing && loaded.migrated_count == 0);
        assert_eq!(check_not_pruned(&loaded, &layout()).unwrap_err().kind(), FaultKind::Refused);
    }
}

#[test]
fn index_load_refuses_what_core_refuses() {
    type Change = fn(&mut Vec<IndexEntry>, &mut Network);
    let (network, entries) = made_chain(20);
    let rows: [(&str, Change, FaultKind, &str); 6] = [
        (
            "another network",
            |_, n| n.genesis = BlockHash::from_bytes([1; 32]),
            FaultKind::OtherNetwork,
            "Wrong datadir for network?",
        ),
        (
            "no parent",
            |e, _| e.retain(|e| e.height != Height::new(5)),
            FaultKind::Damaged,
            "a parent at the height below 6",
        ),
        (
            "a height that is off by one",
            |e, _| e[19].height += 1,
            FaultKind::Damaged,
            "a parent at the height below 20",
        ),
        (
            "no work",
            |e, _| {
                let header = bad_header(e[18].hash, 19);
                e[19] = IndexEntry { header, hash: header.hash(), ..e[19] };
            },
            FaultKind::Damaged,
            "meets its own nBits",
        ),
        (
            "a target above the network's limit",
            |_, n| n.pow_limit = Target::from_compact(0x1d00_ffff).unwrap(),
            FaultKind::Damaged,
            "nBits 207fffff",
        ),
        (
            "under another hash",
            |e, _| e[19].hash = BlockHash::from_bytes([3; 32]),
            FaultKind::Damaged,
            "the header that it is named after",
        ),
    ];
    for (row, change, kind, want) in rows {
        let sim = SimDisk::new(0);
        let (mut network, mut entries) = (network, entries.clone());
        change(&mut entries, &mut network);
        let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
        index.write(&IndexChanges { entries: &entries, ..IndexChanges::default() }).unwrap();
        let why = index.load(&network).unwrap_err();
        assert_eq!(why.kind(), kind, "{row}: {why}");
        assert!(why.to_string().contains(want), "{row}: {why}");
        assert!(why.to_string().starts_with("/d/blocks/index: "), "{row}: {why}");
    }
}

/// Records that no version of Core writes, put there directly.
#[test]
fn malformed_index_record_is_named() {
    let (network, entries) = made_chain(3);
    let mut good = Vec::new();
    entries[2].encode(&mut good);
    let key = |entry: &IndexEntry| [&b"b"[..], entry.hash.as_bytes()].concat();
    let mut failed_child = Vec::new();
    IndexEntry { status: Status(64 | 2), ..entries[2] }.encode(&mut failed_child);
    let mut far_file = Vec::new();
    IndexEntry { file: 1_000_000, ..entries[2] }.encode(&mut far_file);
    let mut many = Vec::new();
    IndexEntry { tx_count: 16_667, ..entries[2] }.encode(&mut many);
    type Row<'a> = (&'static str, Vec<u8>, &'a [u8], Result<usize, &'static str>);
    let rows: [Row<'_>; 11] = [
        ("good", key(&entries[2]), &good, Ok(0)),
        ("an old mark", key(&entries[2]), &failed_child, Ok(1)),
        ("a short entry", key(&entries[2]), &good[..90], Err("a block index entry")),
        ("an empty entry", key(&entries[2]), &[], Err("cut short")),
        ("a file number beyond all bounds", key(&entries[2]), &far_file, Err("at most 999999")),
        ("more transactions than a block can have", key(&entries[2]), &many, Err("at most 16666 transactions")),
        ("a short file info", b"f\0\0\0\0".to_vec(), &[1, 2], Err("a block file info")),
        ("a file info of a file beyond all bounds", b"f\xff\xff\xff\x7f".to_vec(), &[0; 7], Err("at most 999999")),
        ("a last file beyond all bounds", b"l".to_vec(), &[0xff; 4], Err("the last file's number")),
        ("a short last file", b"l".to_vec(), &[1], Err("the last file's number")),
        ("keys of older versions", b"txindex".to_vec(), b"0", Ok(0)),
    ];
    for (row, key, value, want) in rows {
        let sim = SimDisk::new(0);
        let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
        index.write(&IndexChanges { entries: &entries, ..IndexChanges::default() }).unwrap();
        drop(index);
        let db = Db::open(sim.shared(), &layout().index_dir(), Options::default()).unwrap();
        db.write(&[(key, Some(value))]).unwrap();
        drop(db);
        match (BlockTreeDb::open(sim.shared(), &layout()).unwrap().load(&network), want) {
            (Ok(loaded), Ok(migrated)) => {
                assert_eq!((loaded.migrated_count, loaded.entries.len()), (migrated, 3), "{row}");
                assert_eq!(loaded.entries[2].status.has(Status::FAILED_VALID), migrated > 0, "{row}");
            }
            (Err(why), Err(text)) => assert!(why.to_string().contains(text), "{row}: {why}"),
            (got, want) => panic!("{row}: {got:?}, want {want:?}"),
        }
    }
}

#[test]
fn missing_block_file_is_named() {
    let (network, entries) = made_chain(300);
    let sim = SimDisk::new(0);
    let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
    index.write(&IndexChanges { entries: &entries, ..IndexChanges::default() }).unwrap();
    let loaded = index.load(&network).unwrap();
    let files = store::blockfiles::BlockFiles::new(sim.shared(), layout().blocks_dir(), &regtest(), [0; 8]);
    for (there, want) in [(&[0, 2][..], Some("blk00001.dat")), (&[0, 1, 2][..], None)] {
        there.iter().for_each(|&n| put_file(&*sim.shared(), &layout().block_file(n), b"x", [0; 8]));
        match (check_files_exist(&loaded, &files.numbers().unwrap(), &layout()), want) {
            (Ok(()), None) => {}
            (Err(why), Some(name)) => {
                assert!(why.to_string().contains(name) && why.kind() == FaultKind::Missing, "{why}")
            }
            (got, want) => panic!("{got:?}, want {want:?}"),
        }
    }
}

/// A value in the obfuscation record is honoured in the index too.
#[test]
fn obfuscated_index_round_trips() {
    let (network, entries) = made_chain(5);
    let sim = SimDisk::new(0);
    let db = Db::create(sim.shared(), &layout().index_dir(), Options::default()).unwrap();
    db.write(&[(&b"\x0e\0obfuscate_key"[..], Some(&b"\x08abcdefgh"[..]))]).unwrap();
    drop(db);
    let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
    index.write(&IndexChanges { entries: &entries, reindexing: Some(true), ..IndexChanges::default() }).unwrap();
    assert_eq!(index.load(&network).unwrap().entries, entries);
    index.clear_for_reindex().unwrap();
    assert!(index.is_empty().unwrap() && index.is_reindexing().unwrap());
    drop(index);
    let db = Db::open(sim.shared(), &layout().index_dir(), Options::default()).unwrap();
    assert_eq!(db.get(b"R").unwrap().unwrap(), [b'1' ^ b'a']);
}

/// After every crash the index is as before a commit or as after it.
#[test]
fn index_commit_is_all_or_nothing_after_a_stop() {
    let (network, entries) = made_chain(40);
    for at in 0..60 {
        let sim = SimDisk::new(at);
        sim.shared().create_dir_all(&layout().index_dir()).unwrap();
        disk::Disk::sync_dir(&sim, Path::new("/")).unwrap();
        disk::Disk::sync_dir(&sim, Path::new("/d")).unwrap();
        let index = BlockTreeDb::open(sim.shared(), &layout()).unwrap();
        index.write(&IndexChanges { entries: &entries[..20], ..IndexChanges::default() }).unwrap();
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let result = index.write(&IndexChanges { entries: &entries[20..], ..IndexChanges::default() });
        drop(index);
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let index = BlockTreeDb::open(sim.reopen(loss).shared(), &layout()).unwrap();
            let count = index.load(&network).unwrap().entries.len();
            assert!(count == 40 || (count == 20 && result.is_err()), "stopped at {at}, {loss:?}: {count}");
        }
        if result.is_ok() {
            return;
        }
    }
    panic!("a commit has fewer than 60 operations");
}

/// A header of another chain.
#[test]
fn header_only_entries_round_trip() {
    let entry = IndexEntry::header_only(Header([0; 80]), BlockHash::ZERO, Height::new(9));
    assert_eq!((entry.status.0, entry.data(), entry.undo()), (2, None, None));
}
