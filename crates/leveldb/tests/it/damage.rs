//! Every cut and every flipped bit of a small database: a fault that names a file, or the right
//! answer; never a panic, never silence about another one.

use std::path::PathBuf;
use std::sync::Arc;

use disk::{Appender, Disk, SimDisk};
use leveldb::{Db, Options};

use testkit::Rng;

use crate::support::{Model, apply, commit, commit_in_parts, dir};

const KEYS: u64 = 40;
const TINY: Options =
    Options { table_bytes: 1 << 10, level1_bytes: 1 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

/// A small database: files by name, and what is in it.
fn small() -> (Vec<(PathBuf, Vec<u8>)>, Model) {
    let disk = SimDisk::new(0).shared();
    let db = Db::create(disk.clone(), &dir(), TINY).unwrap();
    let mut model = Model::new();
    for seed in 0..3 {
        let records = commit(&mut Rng::new(seed), KEYS, 25);
        commit_in_parts(&db, &records, 1).unwrap();
        apply(&mut model, &records);
    }
    drop(db);
    // A log as another LevelDB would leave it: one batch, put and delete.
    let mut batch = Vec::new();
    batch.extend(1000_u64.to_le_bytes());
    batch.extend(2_u32.to_le_bytes());
    batch.extend(b"\x01\x03new\x05value\x00\x04gone");
    let mut log = vec![0; 4];
    log.extend(u16::try_from(batch.len()).unwrap().to_le_bytes());
    log.push(1);
    log.extend(&batch);
    let crc = kernels::crc32c::crc32c(&log[6..]).rotate_right(15).wrapping_add(0xa282_ead8);
    log[..4].copy_from_slice(&crc.to_le_bytes());
    model.insert(b"new".to_vec(), b"value".to_vec());
    let mut files = vec![(dir().join("000100.log"), log)];
    for entry in disk.list(&dir()).unwrap() {
        let path = dir().join(entry.name);
        let bytes = disk.open(&path).unwrap().bytes().unwrap().to_vec();
        files.push((path, bytes));
    }
    (files, model)
}

fn disk_of(files: &[(PathBuf, Vec<u8>)]) -> Arc<dyn Disk> {
    let disk = SimDisk::new(0).shared();
    disk.create_dir_all(&dir()).unwrap();
    for (path, bytes) in files {
        Appender::new(disk.create(path).unwrap(), 0).write_all(bytes).unwrap();
    }
    disk
}

/// Reads all there is in every way, and compacts it.
fn read(disk: &Arc<dyn Disk>) -> leveldb::Result<Vec<Model>> {
    let db = Db::open_read_only(disk.clone(), &dir())?;
    let mut found = Vec::new();
    for db in [db, Db::open(disk.clone(), &dir(), TINY)?] {
        let snapshot = db.snapshot();
        let mut single = Model::new();
        let keys = (0..KEYS).map(crate::support::key).chain([b"new".to_vec(), b"gone".to_vec()]);
        for key in keys {
            if let Some(value) = snapshot.get(&key)? {
                single.insert(key, value);
            }
        }
        found.push(single);
        let mut all = Model::new();
        let mut iter = snapshot.iter()?;
        while let Some((key, value)) = iter.next_record()? {
            all.insert(key.to_vec(), value.to_vec());
        }
        found.push(all);
    }
    let db = Db::open(disk.clone(), &dir(), TINY)?;
    if let Some(compaction) = db.plan_full_compaction()? {
        compaction.run()?;
    }
    found.push(crate::support::contents(&db.snapshot()));
    Ok(found)
}

#[test]
fn undamaged_small_database_is_read() {
    let (files, model) = small();
    for found in read(&disk_of(&files)).unwrap() {
        assert!(found == model);
    }
}

#[test]
fn flipped_bit_in_any_file_is_an_error_or_harmless() {
    let (files, model) = small();
    for (index, (path, bytes)) in files.iter().enumerate() {
        let is_log =
            path.extension().is_some_and(|suffix| suffix == "log") || path.to_string_lossy().contains("MANIFEST");
        for at in 0..bytes.len() {
            let mut bent = files.clone();
            bent[index].1[at] ^= 1 << (at % 8);
            match read(&disk_of(&bent)) {
                Err(why) => assert!(why.is_damage(), "{} byte {at}: {why}", path.display()),
                Ok(found) => {
                    // A bent length in a log can look like a torn end, for LevelDB too: then an
                    // older state is found, never a mixed one.
                    let is_right = found.iter().all(|found| *found == model);
                    let is_one = found.iter().all(|other| *other == found[0]);
                    assert!(is_right || (is_log && is_one), "{} byte {at}", path.display());
                }
            }
        }
    }
}

#[test]
fn cut_file_is_an_error_or_an_older_state() {
    let (files, model) = small();
    for (index, (path, bytes)) in files.iter().enumerate() {
        for end in 0..bytes.len() {
            let mut cut = files.clone();
            cut[index].1.truncate(end);
            match read(&disk_of(&cut)) {
                Err(why) => assert!(why.is_damage(), "{} cut at {end}: {why}", path.display()),
                Ok(found) => {
                    let is_one = found.iter().all(|other| *other == found[0]);
                    assert!(is_one, "{} cut at {end}", path.display());
                    let is_log = path.extension().is_some_and(|suffix| suffix == "log")
                        || path.to_string_lossy().contains("MANIFEST");
                    assert!(is_log || found[0] == model, "{} cut at {end}", path.display());
                }
            }
        }
    }
}

#[test]
fn malformed_log_batch_is_an_error() {
    let (files, _) = small();
    let log = files[0].1.clone();
    for (row, at, byte) in [("count", 15, 3), ("kind", 19, 7), ("key length", 20, 99)] {
        let mut bent = files.clone();
        let bytes = &mut bent[0].1;
        *bytes = log.clone();
        bytes[at] = byte;
        let crc = kernels::crc32c::crc32c(&bytes[6..]).rotate_right(15).wrapping_add(0xa282_ead8);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        let why = read(&disk_of(&bent)).unwrap_err().to_string();
        assert!(why.contains("000100.log is damaged at byte 0: wanted a batch"), "{row}: {why}");
    }
}
