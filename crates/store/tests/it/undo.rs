//! Undo files: known bytes, damage, many files at once.

use crate::common::{put_file, regtest};
use disk::{Disk, Loss, SimDisk};
use primitives::{BlockHash, hex};
use std::path::Path;
use store::undofiles::{UNDO_OVERHEAD_BYTES, UndoFiles, UndoWriter, undo_record};
use store::{FaultKind, FileInfos, FilePos};

const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const DIR: &str = "/blocks";

/// The payload of a block that spends the coinbase of mainnet's block 1.
fn payload() -> Vec<u8> {
    hex::decode("01010300320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52").unwrap()
}

#[test]
fn undo_record_has_cores_bytes() {
    let prev = BlockHash::from_bytes([5; 32]);
    let record = undo_record(MAGIC, &prev, &payload());
    assert_eq!(record.len(), 38 + 40);
    assert_eq!(hex::encode(&record[..8]), "fabfb5da26000000");
    assert_eq!(record[8..46], payload()[..]);
    let hashed = kernels::sha256::sha256d(&[&prev.as_bytes()[..], &payload()].concat());
    assert_eq!(record[46..], hashed);
    assert_eq!(undo_record(MAGIC, &prev, &[0]).len(), 1 + UNDO_OVERHEAD_BYTES);
}

#[test]
fn undo_read_refuses_cut_or_damaged_records() {
    let prev = BlockHash::from_bytes([5; 32]);
    let file = [&undo_record(MAGIC, &prev, &payload())[..], &undo_record(MAGIC, &prev, &[0])].concat();
    let first = FilePos { file: 0, offset: 8 };
    type Edit = fn(&mut Vec<u8>);
    let rows: [(&str, Edit, FilePos, std::result::Result<usize, &str>); 10] = [
        ("the first", |_| (), first, Ok(38)),
        ("the second", |_| (), FilePos { file: 0, offset: 78 + 8 }, Ok(1)),
        ("its magic is wrong, which Core never sees", |f| f[0] ^= 1, first, Ok(38)),
        ("its size is wrong, which Core never sees", |f| f[4] ^= 3, first, Ok(38)),
        ("its size is beyond the file", |f| f[7] = 0x7f, first, Ok(38)),
        ("a flipped bit", |f| f[8 + 30] ^= 1, first, Err("checksum")),
        ("a flipped bit in the checksum", |f| f[8 + 38] ^= 1, first, Err("checksum")),
        ("cut", |f| f.truncate(50), first, Err("malformed")),
        ("no record", |_| (), FilePos { file: 0, offset: 7 }, Err("behind a record's header")),
        ("behind the end", |_| (), FilePos { file: 0, offset: 5000 }, Err("the end of the file")),
    ];
    for (row, edit, at, want) in rows {
        let sim = SimDisk::new(0);
        let mut file = file.clone();
        edit(&mut file);
        put_file(&*sim.shared(), Path::new("/blocks/rev00000.dat"), &file, KEY);
        let undo = UndoFiles::new(sim.shared(), Path::new(DIR), &regtest(), KEY);
        match (undo.read(at, &prev), want) {
            (Ok(got), Ok(bytes)) => assert_eq!(got.len(), bytes, "{row}"),
            (Err(why), Err(text)) => {
                assert_eq!(why.kind(), FaultKind::Damaged, "{row}: {why}");
                assert!(
                    why.to_string().contains(text) && why.to_string().contains("rev00000.dat at byte"),
                    "{row}: {why}"
                );
            }
            (got, want) => panic!("{row}: {got:?}, want {want:?}"),
        }
        assert!(undo.read(at, &BlockHash::ZERO).is_err(), "{row}: another parent");
        assert_eq!(undo.read(FilePos { file: 1, ..at }, &prev).unwrap_err().kind(), FaultKind::Missing, "{row}");
    }
}

#[test]
fn undo_writer_appends_to_many_files() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut infos = FileInfos::default();
    let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    let mut written = Vec::new();
    for i in 0..400u32 {
        let prev = BlockHash::from_bytes([i as u8; 32]);
        let payload = [&[0][..], &vec![i as u8; (i as usize * 97) % 30_000]].concat();
        let file = i * 7 % 41;
        let record = undo_record(MAGIC, &prev, &payload);
        let offset = writer.append(&mut infos, file, &record).unwrap();
        written.push((FilePos { file, offset }, prev, payload));
    }
    writer.flush().unwrap();
    let undo = UndoFiles::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    for (at, prev, payload) in &written {
        assert_eq!(undo.read(*at, prev).unwrap(), *payload);
    }
    let len = |file| disk.metadata(&Path::new(DIR).join(format!("rev{file:05}.dat"))).unwrap().unwrap().len;
    assert!((0..41).all(|file| len(file) % (1 << 20) == 0), "room is reserved in pieces of 1 MiB");
    for file in 0..41 {
        writer.finalise(&infos, file).unwrap();
        assert_eq!(len(file), u64::from(infos.get(file).undo_size));
    }
    writer.finalise(&infos, 99).unwrap();
    // A new writer goes on where the infos end, a finalised file included.
    let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    let prev = BlockHash::from_bytes([9; 32]);
    let offset = writer.append(&mut infos, 3, &undo_record(MAGIC, &prev, &[0])).unwrap();
    writer.flush().unwrap();
    assert_eq!(undo.read(FilePos { file: 3, offset }, &prev).unwrap(), [0]);
    for (at, prev, payload) in written.iter().filter(|(at, ..)| at.file == 3) {
        assert_eq!(undo.read(*at, prev).unwrap(), *payload);
    }
}

/// Power failed, and undo data that the index names is not on the disk. Core seeks to the end that the index says, and
/// writes there.
#[test]
fn undo_writer_appends_behind_lost_data() {
    let prev = BlockHash::from_bytes([5; 32]);
    let record = undo_record(MAGIC, &prev, &payload());
    let path = Path::new("/blocks/rev00000.dat");
    type Lose = fn(&dyn Disk, &Path);
    let rows: [(&str, Lose, bool); 4] = [
        ("nothing", |_, _| (), true),
        ("the second record", |disk, path| disk.modify(path).unwrap().set_len(100).unwrap(), true),
        ("all bytes", |disk, path| disk.modify(path).unwrap().set_len(0).unwrap(), false),
        ("the file", |disk, path| disk.remove_file(path).unwrap(), false),
    ];
    for (row, lose, keeps_first) in rows {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let mut infos = FileInfos::default();
        let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
        let first = writer.append(&mut infos, 0, &record).unwrap();
        writer.append(&mut infos, 0, &record).unwrap();
        writer.finalise(&infos, 0).unwrap();
        writer.flush().unwrap();
        drop(writer);
        lose(&*disk, path);
        let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
        let offset = writer.append(&mut infos, 0, &record).unwrap();
        writer.flush().unwrap();
        assert_eq!(offset as usize, 2 * record.len() + 8, "{row}");
        let undo = UndoFiles::new(sim.reopen(Loss::Unsynced).shared(), Path::new(DIR), &regtest(), KEY);
        assert_eq!(undo.read(FilePos { file: 0, offset }, &prev).unwrap(), payload(), "{row}");
        assert_eq!(undo.read(FilePos { file: 0, offset: first }, &prev).is_ok(), keeps_first, "{row}");
    }
}

/// The writer closed it, because it appends to many others.
#[test]
fn undo_file_removed_while_its_writer_works_is_a_fault() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let record = undo_record(MAGIC, &BlockHash::ZERO, &[0]);
    let mut infos = FileInfos::default();
    let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    for file in 0..40 {
        writer.append(&mut infos, file, &record).unwrap();
    }
    writer.flush().unwrap();
    disk.remove_file(Path::new("/blocks/rev00000.dat")).unwrap();
    let why = writer.append(&mut infos, 0, &record).unwrap_err();
    assert_eq!(why.kind(), FaultKind::Missing, "{why}");
    // A pruned one is forgotten before it is removed.
    infos.prune(0);
    writer.forget(&[0]);
    writer.append(&mut infos, 0, &record).unwrap();
}

/// Core's feature_remove_pruned_files_on_startup: a block file without undo data has an empty undo file.
#[test]
fn undo_file_of_blocks_without_undo_data_is_empty() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let len = |file| disk.metadata(&Path::new(DIR).join(format!("rev{file:05}.dat"))).unwrap().map(|found| found.len);
    let mut infos = FileInfos::default();
    let mut writer = UndoWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    writer.create(&infos, 0).unwrap();
    assert_eq!(len(0), None, "there is no block file");
    infos.change(0, |info| info.size = 293);
    (0..2).for_each(|_| writer.create(&infos, 0).unwrap());
    writer.flush().unwrap();
    assert_eq!(len(0), Some(0));
    let prev = BlockHash::from_bytes([9; 32]);
    let offset = writer.append(&mut infos, 0, &undo_record(MAGIC, &prev, &payload())).unwrap();
    writer.flush().unwrap();
    writer.create(&infos, 0).unwrap();
    let undo = UndoFiles::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    assert_eq!(undo.read(FilePos { file: 0, offset }, &prev).unwrap(), payload());
}

/// Every cut and every flipped bit is seen, but for those in the header, which Core does not look at either.
#[test]
fn undo_read_detects_every_flipped_bit() {
    let prev = BlockHash::from_bytes([5; 32]);
    let good = undo_record(MAGIC, &prev, &payload());
    let read = |file: &[u8]| {
        let sim = SimDisk::new(0);
        put_file(&*sim.shared(), Path::new("/blocks/rev00000.dat"), file, KEY);
        UndoFiles::new(sim.shared(), Path::new(DIR), &regtest(), KEY).read(FilePos { file: 0, offset: 8 }, &prev)
    };
    assert_eq!(read(&good).unwrap(), payload());
    for cut in 0..good.len() {
        assert_eq!(read(&good[..cut]).unwrap_err().kind(), FaultKind::Damaged, "cut at {cut}");
    }
    for bit in 0..good.len() * 8 {
        let mut file = good.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        match read(&file) {
            Ok(got) => assert!(bit < 64 && got == payload(), "bit {bit}"),
            Err(why) => assert!(bit >= 64 && why.kind() == FaultKind::Damaged, "bit {bit}: {why}"),
        }
    }
}

/// Undo data longer than the first read, whose header is damaged.
#[test]
fn undo_read_of_long_data_needs_no_header() {
    let prev = BlockHash::from_bytes([5; 32]);
    let mut payload = Vec::new();
    primitives::undo::put_count(&mut payload, 1);
    primitives::undo::put_count(&mut payload, 400);
    for _ in 0..400 {
        let mut coin = Vec::new();
        primitives::coin::put_coin(&mut coin, 7, primitives::Amount(5), &[0x51; 9000]);
        primitives::undo::put_entry(&mut payload, &coin).unwrap();
    }
    let mut file = undo_record(MAGIC, &prev, &payload);
    file[5] ^= 1;
    file.extend_from_slice(&[9; 5000]);
    let sim = SimDisk::new(0);
    put_file(&*sim.shared(), Path::new("/blocks/rev00000.dat"), &file, KEY);
    let undo = UndoFiles::new(sim.shared(), Path::new(DIR), &regtest(), KEY);
    assert_eq!(undo.read(FilePos { file: 0, offset: 8 }, &prev).unwrap(), payload);
}
