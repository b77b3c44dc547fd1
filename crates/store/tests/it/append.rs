//! Appending blocks: positions, reserved room, roll-over, full disks, crashes.

use crate::common::{block, chain, hash_of, put_file, regtest};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use primitives::{BlockHash, Height};
use std::path::Path;
use std::sync::Arc;
use store::blockfiles::{BlockFiles, BlockWriter, Limits};
use store::{FaultKind, FileInfo, FileInfos, FilePos};

const KEY: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const DIR: &str = "/blocks";
const MIB: u64 = 1024 * 1024;

fn writer(disk: &Arc<dyn Disk>, infos: &FileInfos) -> BlockWriter {
    BlockWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY, infos, limits()).unwrap()
}

/// Core's, but for the tests that open a disk hundreds of times.
fn limits() -> Limits {
    Limits { chunk_bytes: 1 << 20, ..Limits::default() }
}

fn file_bytes(disk: &Arc<dyn Disk>, number: u32) -> u64 {
    disk.metadata(&Path::new(DIR).join(format!("blk{number:05}.dat"))).unwrap().unwrap().len
}

#[test]
fn append_writes_cores_bytes() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut infos = FileInfos::default();
    let mut blocks =
        BlockWriter::new(disk.clone(), Path::new(DIR), &regtest(), KEY, &infos, Limits::default()).unwrap();
    let files = BlockFiles::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
    let made = chain(6, |i| 300_000 * i as usize);
    let mut at = 8;
    for (height, block) in (0..).zip(&made) {
        let pos = blocks.append(&mut infos, block, Height::new(height), height + 1).unwrap();
        assert_eq!(pos, FilePos { file: 0, offset: at });
        at += block.len() as u32 + 8;
    }
    blocks.flush().unwrap();
    assert_eq!(file_bytes(&disk, 0), 16 * MIB);
    let info = infos.get(0);
    assert_eq!((info.blocks, info.size, info.height_last, info.time_first), (6, at - 8, Height::new(5), 1));
    let found = files.scan(0).unwrap();
    assert_eq!(
        found.blocks.iter().map(|b| b.hash).collect::<Vec<_>>(),
        made.iter().map(|b| hash_of(b)).collect::<Vec<_>>()
    );
    assert_eq!(found.notes, []);
    let tail = disk.open(&Path::new(DIR).join("blk00000.dat")).unwrap().bytes().unwrap();
    assert!(tail[info.size as usize..].iter().all(|&byte| byte == 0), "the reserved tail is not obfuscated");
    let why = blocks.append(&mut infos, &vec![0; 0x0200_0001], Height::new(7), 7).unwrap_err();
    assert_eq!(why.kind(), FaultKind::Refused);
}

#[test]
fn append_starts_a_new_file_below_128_mib() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let max = 128 * MIB as u32;
    let made = block(BlockHash::ZERO, 1, 1000);
    let record = made.len() as u32 + 8;
    for (row, size, file, cut) in [
        ("ends one byte below", max - record - 1, 0, 128 * MIB),
        ("would end at it", max - record, 1, u64::from(max - record)),
    ] {
        // What the index says of the file; its contents do not matter here.
        put_file(&*disk, &Path::new(DIR).join("blk00000.dat"), &[], KEY);
        disk.modify(&Path::new(DIR).join("blk00000.dat")).unwrap().set_len(u64::from(size)).unwrap();
        let mut infos = FileInfos::new(vec![FileInfo { blocks: 1, size: size - 300, ..FileInfo::default() }]);
        let mut blocks = writer(&disk, &infos);
        // Something must have been appended for the file to be cut: a small record first.
        let small = vec![0; 292];
        assert_eq!(blocks.append(&mut infos, &small, Height::GENESIS, 0).unwrap().file, 0, "{row}");
        assert_eq!(infos.get(0).size, size, "{row}");
        assert_eq!(blocks.append(&mut infos, &made, Height::new(1), 1).unwrap().file, file, "{row}");
        blocks.flush().unwrap();
        assert_eq!(file_bytes(&disk, 0), cut, "{row}");
        assert_eq!(infos.last_file(), file, "{row}");
    }
}

#[test]
fn start_new_file_is_numbered_behind_all_others() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    put_file(&*disk, Path::new("/blocks/blk00004.dat"), b"not listed", KEY);
    let mut infos = FileInfos::new(vec![FileInfo { size: 100, ..FileInfo::default() }]);
    let mut blocks = writer(&disk, &infos);
    blocks.start_new_file().unwrap();
    let pos = blocks.append(&mut infos, &block(BlockHash::ZERO, 1, 9), Height::GENESIS, 1).unwrap();
    assert_eq!(pos, FilePos { file: 5, offset: 8 });
    assert_eq!(infos.take_changed().len(), 5, "files between are listed");
}

#[test]
fn append_to_a_file_shorter_than_the_index_says_is_a_fault() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut infos = FileInfos::new(vec![FileInfo { size: 100, ..FileInfo::default() }]);
    let made = block(BlockHash::ZERO, 1, 9);
    let why = writer(&disk, &infos).append(&mut infos, &made, Height::new(1), 1).unwrap_err();
    assert_eq!(why.kind(), FaultKind::Missing, "{why}");
    put_file(&*disk, Path::new("/blocks/blk00000.dat"), &[0; 99], KEY);
    let why = writer(&disk, &infos).append(&mut infos, &made, Height::new(1), 1).unwrap_err();
    assert!(why.to_string().contains("wanted 100 bytes, as the block index says, found 99"), "{why}");
}

#[test]
fn append_can_be_retried_on_a_full_disk_and_not_after_a_failed_sync() {
    for (accident, kind, can_go_on) in
        [(Accident::NoSpace, FaultKind::NoSpace, true), (Accident::Io, FaultKind::Io, false)]
    {
        for at in 0..40 {
            let sim = SimDisk::new(at);
            let disk = sim.shared();
            disk.create_dir_all(Path::new(DIR)).unwrap();
            let mut infos = FileInfos::default();
            let mut blocks = writer(&disk, &infos);
            sim.fail_at(sim.operations() + at, 1, accident);
            let made = chain(4, |_| 600_000);
            let mut failed = Vec::new();
            for (height, block) in (0..).zip(&made) {
                if let Err(why) = blocks.append(&mut infos, block, Height::new(height), 0) {
                    failed.push(why.kind());
                    if can_go_on {
                        sim.heal();
                        blocks.append(&mut infos, block, Height::new(height), 0).unwrap();
                    }
                }
            }
            let flushed = blocks.flush();
            sim.heal();
            failed.extend(flushed.as_ref().err().map(store::Fault::kind));
            let again = blocks.append(&mut infos, &made[0], Height::new(9), 9).and_then(|_| blocks.flush());
            if flushed.is_ok() && failed.is_empty() {
                break;
            }
            // A later error names the cause.
            if let (Err(first), Err(later)) = (&flushed, &again) {
                assert!(later.to_string().contains(&first.what()), "{accident:?} at {at}: {later}");
            }
            // A sync is not tried again, whatever kept it.
            let is_last_try = flushed.is_err_and(|why| why.to_string().contains("never tried again"));
            assert!(failed.contains(&kind) || is_last_try, "{accident:?} at {at}: {failed:?}");
            if again.is_ok() && infos.get(0).blocks == 5 {
                let files = BlockFiles::new(disk, Path::new(DIR), &regtest(), KEY);
                assert_eq!(files.scan(0).unwrap().blocks.len(), 5, "{accident:?} at {at}");
            }
        }
    }
}

/// What a flush took along and did not make durable must not be named by any index: the writer takes nothing more.
#[test]
fn dropped_flush_stops_the_writer() {
    let sim = SimDisk::new(0);
    let disk = sim.shared();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    let mut infos = FileInfos::default();
    let mut blocks = writer(&disk, &infos);
    let made = chain(2, |_| 1000);
    blocks.append(&mut infos, &made[0], Height::GENESIS, 0).unwrap();
    drop(blocks.begin_flush().unwrap());
    let again = blocks.append(&mut infos, &made[1], Height::new(1), 0).and_then(|_| blocks.flush());
    assert_eq!(again.unwrap_err().kind(), FaultKind::Io);
    // One with nothing in it is no loss.
    let mut blocks = writer(&disk, &infos);
    drop(blocks.begin_flush().unwrap());
    blocks.flush().unwrap();
}

/// Whatever the instant and whatever is lost: what was flushed is there, appending goes on behind it, and what lies there that
/// the infos do not count stays.
#[test]
fn flushed_blocks_survive_a_stop_at_any_operation() {
    let made = chain(12, |i| 40_000 * i as usize);
    for at in 0..200 {
        let sim = SimDisk::new(at);
        let disk = sim.shared();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let mut infos = FileInfos::default();
        let mut durable = infos.clone();
        let mut blocks = writer(&disk, &infos);
        sim.fail_at(sim.operations() + at, 1, Accident::Stop);
        let mut done = 0;
        let run: store::Result<()> = (|| {
            for (height, block) in (0..).zip(&made) {
                blocks.append(&mut infos, block, Height::new(height), 0)?;
                if height % 3 == 2 {
                    blocks.flush()?;
                    durable = infos.clone();
                    done = height as usize + 1;
                }
            }
            Ok(())
        })();
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
            let disk = sim.reopen(loss).shared();
            let files = BlockFiles::new(disk.clone(), Path::new(DIR), &regtest(), KEY);
            let mut infos = durable.clone();
            let before = files.numbers().unwrap().there.first().map(|_| files.scan(0).unwrap().end.written);
            let mut blocks = writer(&disk, &infos);
            for (height, block) in (0..).zip(&made).skip(done) {
                blocks.append(&mut infos, block, Height::new(height), 0).unwrap();
            }
            blocks.flush().unwrap();
            let is_all_counted = before.is_none_or(|written| written <= u64::from(durable.get(0).size));
            let row = format!("stopped at {at}, {loss:?}, all counted: {is_all_counted}");
            let numbers = files.numbers().unwrap().there;
            assert_eq!(numbers.len(), if is_all_counted { 1 } else { 2 }, "{row}");
            let hashes = |file: u32| files.scan(file).unwrap().blocks.into_iter().map(|b| b.hash).collect::<Vec<_>>();
            let want: Vec<BlockHash> = made.iter().map(|b| hash_of(b)).collect();
            assert!(hashes(0).starts_with(&want[..done]), "{row}");
            assert_eq!(hashes(*numbers.last().unwrap()), want[if is_all_counted { 0 } else { done }..], "{row}");
            assert!(before.is_none_or(|written| u64::from(infos.get(0).size) >= written), "{row}");
        }
        if run.is_ok() {
            return;
        }
    }
    panic!("the run has fewer than 200 operations");
}

/// Bytes that the infos do not count stay, wherever behind the end they lie: the next block goes into a new file.
#[test]
fn what_the_infos_do_not_count_is_not_written_over() {
    let made = chain(4, |_| 1000);
    for (row, behind, is_kept) in [
        ("nothing", vec![], false),
        ("reserved room", vec![0; 3 << 20], false),
        ("a record", made[3].clone(), true),
        ("one byte behind much room", [vec![0; (2 << 20) + 17], vec![1]].concat(), true),
        ("a byte before much room", [vec![1], vec![0; 2 << 20]].concat(), true),
    ] {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let mut infos = FileInfos::default();
        let mut blocks = writer(&disk, &infos);
        blocks.append(&mut infos, &made[0], Height::GENESIS, 0).unwrap();
        blocks.flush().unwrap();
        drop(blocks);
        let (path, used) = (Path::new("/blocks/blk00000.dat"), u64::from(infos.get(0).size));
        let file = disk.modify(path).unwrap();
        file.set_len(used).unwrap();
        file.write_at(used, &behind).unwrap();
        let before = disk.open(path).unwrap().bytes().unwrap().to_vec();
        let mut blocks = writer(&disk, &infos);
        let at = blocks.append(&mut infos, &made[1], Height::new(1), 0).unwrap();
        blocks.flush().unwrap();
        let want = if is_kept { FilePos { file: 1, offset: 8 } } else { FilePos { file: 0, offset: used as u32 + 8 } };
        assert_eq!(at, want, "{row}");
        if is_kept {
            assert_eq!(disk.open(path).unwrap().bytes().unwrap().to_vec(), before, "{row}");
            let size = u64::from(infos.get(0).size);
            assert_eq!(size, used + behind.len() as u64, "{row}: bitcoind does not write there either");
        }
    }
}

/// What is written to a removed file is lost with it, and the system calls every write and sync a success.
#[test]
fn flush_to_a_file_that_was_removed_or_replaced_is_a_fault() {
    for (row, is_replaced) in [("removed", false), ("replaced", true)] {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let mut infos = FileInfos::default();
        let mut blocks = writer(&disk, &infos);
        blocks.append(&mut infos, &block(BlockHash::ZERO, 1, 9), Height::GENESIS, 1).unwrap();
        blocks.flush().unwrap();
        let path = Path::new("/blocks/blk00000.dat");
        disk.remove_file(path).unwrap();
        if is_replaced {
            put_file(&*disk, path, b"another", KEY);
        }
        blocks.append(&mut infos, &block(BlockHash::ZERO, 2, 9), Height::new(1), 2).unwrap();
        let why = blocks.flush().unwrap_err();
        assert!(
            why.to_string().starts_with("/blocks/blk00000.dat: wanted the file that is being appended to"),
            "{row}: {why}"
        );
        assert!(!why.detail().advice.is_empty(), "{row}");
        assert!(
            blocks.append(&mut infos, &block(BlockHash::ZERO, 3, 9), Height::new(2), 3).is_err()
                || blocks.flush().is_err(),
            "{row}: it stopped"
        );
    }
}
