//! Fuzzing: arbitrary bytes as the files of a database give either a typed fault or records.
//!
//! Not part of the interface. Checked: no panic, no endless loop, and no memory beyond what the files justify.
//! Checksums are corrected if that lets the bytes get further.
//!
//! Layout: the first byte selects the meaning of the rest: mutations of a valid database; a data block; an index block;
//! a manifest edit, with a table that it may name; a log's batch; a filter block; a data block after its compression
//! number; 255: choices of a whole database.

mod history;
mod tables;

pub use history::{commit_in_parts, fuzz_history};

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::bloom::FILTER_KEY;
use crate::coding::mask;
use crate::db::Db;
use crate::edit::{COMPARATOR, Edit, FileMeta};
use crate::error::Result;
use crate::format::{FOOTER_BYTES, Handle, MAGIC};
use crate::log::put_record;
use crate::options::Options;
use disk::{Appender, Disk, SimDisk};

/// Maximum number of records that are read from one database; index entries may name the same bytes repeatedly.
const RECORDS_MAX: usize = 10_000;
const SMALL: Options =
    Options { table_bytes: 1 << 10, level1_bytes: 1 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

/// A block of three records, the second of which shares its key's start with the first.
const BLOCK: &[u8] = &[
    0, 10, 1, b'a', b'b', 1, 9, 0, 0, 0, 0, 0, 0, 5, 1, 9, 2, b'c', 1, 8, 0, 0, 0, 0, 0, 0, 6, 7, 0, 9, 0, b'b', 0, 7,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,
];

/// Opens the database that `data` describes and reads all of it in every way; returns whether that succeeded.
pub fn fuzz_open(data: &[u8]) -> bool {
    let Some((&what, rest)) = data.split_first() else { return false };
    if what == u8::MAX {
        return tables::open_made(rest);
    }
    let files = match what % 7 {
        0 => bent(rest),
        1 => with_table(&table(&framed(rest), None, None)),
        2 => with_table(&table(&framed(BLOCK), Some(rest), None)),
        3 => vec![manifest(&[&first_edit().encode(), rest]), (table_path(), table(&framed(BLOCK), None, None))],
        5 => with_table(&table(&framed(BLOCK), None, Some(rest))),
        6 => {
            let (&kind, contents) = rest.split_first().unwrap_or((&0, &[]));
            with_table(&table(&framed_as(contents, kind), None, None))
        }
        _ => {
            let mut log = Vec::new();
            put_record(&mut log, 0, rest);
            vec![manifest(&[&first_edit().encode()]), (dir().join("000004.log"), log)]
        }
    };
    match read(&files, rest) {
        Ok(()) => true,
        Err(why) => {
            assert!(why.is_damage() && !why.to_string().is_empty(), "only damage can be wrong here: {why}");
            false
        }
    }
}

fn dir() -> PathBuf {
    PathBuf::from("/db")
}

type Files = Vec<(PathBuf, Vec<u8>)>;

/// A disk with these files, plus a CURRENT if there is none.
fn on_disk(files: &Files) -> Result<Arc<dyn Disk>> {
    let disk = SimDisk::new(0).shared();
    disk.create_dir_all(&dir())?;
    let current = (dir().join("CURRENT"), b"MANIFEST-000002\n".to_vec());
    let has_current = files.iter().any(|(path, _)| path.ends_with("CURRENT"));
    for (path, bytes) in files.iter().chain(if has_current { None } else { Some(&current) }) {
        Appender::new(disk.create(path)?, 0).write_all(bytes)?;
    }
    Ok(disk)
}

fn read(files: &Files, keys: &[u8]) -> Result<()> {
    let disk = on_disk(files)?;
    look(&Db::open_read_only(disk.clone(), &dir())?, keys)?;
    look(&Db::open(disk.clone(), &dir(), SMALL)?, keys)?;
    let db = Db::open(disk, &dir(), SMALL)?;
    if let Some(compaction) = db.plan_full_compaction()? {
        compaction.run()?;
    }
    look(&db, keys)
}

/// Reads in every way. Keys come from the data and from the database.
fn look(db: &Db, data: &[u8]) -> Result<()> {
    let snapshot = db.snapshot();
    let mut keys: Vec<Vec<u8>> = data.chunks(5).take(50).map(<[u8]>::to_vec).collect();
    let mut iter = snapshot.iter()?;
    let mut last: Option<Vec<u8>> = None;
    for _ in 0..RECORDS_MAX {
        let Some((key, _)) = iter.next_record()? else { break };
        assert!(last.as_ref().is_none_or(|last| **last < *key), "keys rise");
        last = Some(key.to_vec());
        if keys.len() < 100 {
            keys.push(key.to_vec());
        }
    }
    keys.sort();
    let mut answers = 0;
    snapshot.get_sorted_batch(&keys, |_, _| answers += 1)?;
    assert_eq!(answers, keys.len(), "each key is answered once");
    for key in &keys {
        snapshot.get(key)?;
    }
    Ok(())
}

/// A valid database of a few tables and a log.
fn good() -> &'static Files {
    static GOOD: OnceLock<Files> = OnceLock::new();
    GOOD.get_or_init(|| make().expect("a simulated disk without accidents"))
}

fn make() -> Result<Files> {
    let disk: Arc<dyn Disk> = SimDisk::new(0).shared();
    let db = Db::create(disk.clone(), &dir(), SMALL)?;
    for round in 0..3u8 {
        let records: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..20u8)
            .map(|n| (vec![b'k', n, round % 2], (n % 3 != round).then(|| vec![round; usize::from(n) * 3])))
            .collect();
        db.write(&records)?;
    }
    drop(db);
    let mut files = Vec::new();
    for entry in disk.list(&dir())? {
        let path = dir().join(entry.name);
        let bytes = disk.open(&path)?.bytes()?.to_vec();
        files.push((path, bytes));
    }
    Ok(files)
}

/// The valid database, mutated: file, offset and operation, five bytes each.
fn bent(data: &[u8]) -> Files {
    let mut files = good().clone();
    for bend in data.chunks_exact(5).take(20) {
        let count = files.len();
        let (_, bytes) = &mut files[usize::from(bend[0]) % count];
        let at = (usize::from(bend[1]) << 8 | usize::from(bend[2])) % (bytes.len() + 1);
        match bend[3] % 4 {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, bend[4]),
            _ if at < bytes.len() => bytes[at] ^= bend[4],
            _ => bytes.push(bend[4]),
        }
    }
    files
}

/// A block followed by its kind and checksum.
fn framed(contents: &[u8]) -> Vec<u8> {
    framed_as(contents, 0)
}

fn framed_as(contents: &[u8], kind: u8) -> Vec<u8> {
    let mut out = [contents, &[kind]].concat();
    out.extend(mask(kernels::crc32c::crc32c(&out)).to_le_bytes());
    out
}

/// A table of one data block, with this index or one that names the block, and with these filters or without filters.
fn table(data: &[u8], index: Option<&[u8]>, filters: Option<&[u8]>) -> Vec<u8> {
    let mut out = data.to_vec();
    let place = |out: &mut Vec<u8>, block: &[u8]| {
        let handle = Handle { offset: out.len() as u64, bytes: block.len() as u64 - 5 };
        out.extend(block);
        handle
    };
    let mut names = Vec::new();
    if let Some(filters) = filters {
        let mut at = Vec::new();
        place(&mut out, &framed(filters)).put(&mut at);
        names = [&[0, FILTER_KEY.len() as u8, at.len() as u8][..], FILTER_KEY, &at].concat();
    }
    let metaindex = place(&mut out, &framed(&[&names[..], &[0, 0, 0, 0, 1, 0, 0, 0]].concat()));
    let mut handle = Vec::new();
    Handle { offset: 0, bytes: (data.len() as u64).saturating_sub(5) }.put(&mut handle);
    let own = [&[0, 12, handle.len() as u8][..], &[0xff; 12], &handle, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
    let index = place(&mut out, &framed(index.unwrap_or(&own)));
    let start = out.len();
    metaindex.put(&mut out);
    index.put(&mut out);
    out.resize(start + FOOTER_BYTES - 8, 0);
    out.extend(MAGIC.to_le_bytes());
    out
}

fn first_edit() -> Edit {
    Edit {
        comparator: Some(COMPARATOR.into()),
        log_number: Some(4),
        next_file: Some(9),
        last_sequence: Some(1 << 40),
        ..Edit::default()
    }
}

fn manifest(edits: &[&[u8]]) -> (PathBuf, Vec<u8>) {
    let mut out = Vec::new();
    for edit in edits {
        let at = out.len() as u64;
        put_record(&mut out, at, edit);
    }
    (dir().join("MANIFEST-000002"), out)
}

fn table_path() -> PathBuf {
    dir().join("000003.ldb")
}

/// A database of this table.
fn with_table(bytes: &[u8]) -> Files {
    let meta = FileMeta { number: 3, bytes: bytes.len() as u64, smallest: [0; 8].into(), largest: [0xff; 20].into() };
    let edit = Edit { added: vec![(1, meta)], ..first_edit() };
    vec![manifest(&[&edit.encode()]), (table_path(), bytes.to_vec())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn seeds_of_the_fuzzer_hold() {
        let opened = testkit::fuzz_seeds("leveldb").filter(|seed| fuzz_open(seed));
        assert!(opened.count() > 5, "some of them are databases");
    }

    #[test]
    fn fuzzed_files_open_or_give_a_damage_error() {
        let batch = [&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0][..], b"\x01\x03new\x05value\x00\x04gone"].concat();
        let edit = Edit { last_sequence: Some(77), log_number: Some(4), ..Edit::default() }.encode();
        let handle = [0, BLOCK.len() as u8];
        let index = [&[0, 10, 2][..], b"zz", &[1, 9, 0, 0, 0, 0, 0, 0], &handle, &[0, 0, 0, 0, 1, 0, 0, 0]].concat();
        // One filter that holds every key, from the start of the file; its place; where places begin; 2 KiB a filter.
        let filters = [&[0xff; 8][..], &[6], &[0; 4], &[9, 0, 0, 0], &[11]].concat();
        let plain = [&[0], BLOCK].concat();
        let seeds: [&[u8]; 7] = [&[], BLOCK, &index, &edit, &batch, &filters, &plain];
        let (mut good, mut bad) = ([0; 7], [0; 7]);
        let mut rng = Rng::new(1);
        let mut random = |below: usize| rng.below(below);
        for round in 0..if testkit::is_slow() { 400_000 } else { 3_000 } {
            let what = round % 7;
            let mut data = [&[what as u8], seeds[what]].concat();
            for _ in 0..random(4) {
                let at = 1 + random(data.len());
                match random(4) {
                    0 if at < data.len() => data[at] = [0, 1, 5, 12, 127, 128, 255][random(7)],
                    1 if at < data.len() => data[at] ^= 1 << random(8),
                    2 if what > 0 => data.truncate(at),
                    // A whole bend, where five bytes are one.
                    _ => (0..5).for_each(|_| data.insert(at.min(data.len()), random(256) as u8)),
                }
            }
            if fuzz_open(&data) { good[what] += 1 } else { bad[what] += 1 }
        }
        assert_eq!(std::mem::take(&mut bad[5]), 0, "what is no filter is not used, as in LevelDB");
        let (good_min, bad_min) = (good.iter().min(), bad.iter().filter(|&&count| count > 0).min());
        assert!(good_min > Some(&50) && bad_min > Some(&50), "{good:?} were good, {bad:?} not");
    }
}
