//! Bytes as choices of a database that LevelDB may have left: tables on several levels, blocks cut anywhere, prefixes
//! shared or not, index keys between blocks, filters or not, edits and batches in pieces; and of its flaw, if it has
//! one.
//!
//! The files are written here from the format's description only. A map models what the database must contain, before
//! and after each compaction. With a flaw, either a fault is returned or the rest can be read without a panic. Past the
//! last byte every choice is 0.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Files, SMALL, dir, first_edit, framed, look, manifest, on_disk};
use crate::bloom::{FILTER_BASE_LOG2, FILTER_KEY, hash, put_filter};
use crate::coding::{KIND_DELETED, KIND_VALUE, SEQUENCE_MAX, put_slice, put_varint, shared_prefix, user_key};
use crate::db::Db;
use crate::edit::{Edit, FileMeta, LEVELS};
use crate::error::Result;
use crate::format::{FOOTER_BYTES, Handle, MAGIC};
use crate::log::put_record;

/// Maximum number of records of one level, one table of level 0, or one log, and of tables of level 0 or logs.
const RECORDS_MAX: usize = 24;
const LEVEL_0_MAX: usize = 4;

/// Beginnings of keys.
const STEMS: [&[u8]; 6] = [b"k", b"key-", b"", b"\0\0\0\0\0", b"\xff\xff\xff\xff\xff", b"a-stem-that-many-keys-have"];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The flaw of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flaw {
    Nothing,
    /// One byte of a file is changed.
    Byte,
    /// A table is listed on another level.
    Level,
    /// A table's first or last key is replaced by another's.
    Bounds,
    /// Two records of a table are swapped, with valid checksums.
    Order,
    /// A table is missing.
    Missing,
}

/// The remaining choices.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    /// Keys that share many bytes or none; some are prefixes of others.
    fn key(&mut self) -> Vec<u8> {
        let stem = self.of(&STEMS);
        let number = self.byte();
        let form = self.below(4);
        match form {
            0 => [stem, &[number & 15]].concat(),
            1 => [stem, &[number]].concat(),
            2 => [stem, &[number >> 4, 0, 0, number & 15]].concat(),
            _ => [stem, &vec![number & 1; usize::from(number >> 1 & 15)]].concat(),
        }
    }
}

/// Number of the first table's file.
const FIRST_TABLE: u64 = 10;
/// A number that no table of a version has.
const NO_TABLE: u64 = FIRST_TABLE - 1;

/// A record as a table has it.
type Record = (Vec<u8>, Vec<u8>);

/// The files being made, and their records.
struct Making<'a> {
    choices: Choices<'a>,
    flaw: Flaw,
    sequence: u64,
    files: Files,
    model: Model,
    tables: Vec<(usize, FileMeta)>,
}

/// Makes a database and reads it in every way; returns whether that succeeded.
pub(super) fn open_made(data: &[u8]) -> bool {
    let flaws = [Flaw::Nothing, Flaw::Nothing, Flaw::Byte, Flaw::Level, Flaw::Bounds, Flaw::Order, Flaw::Missing];
    let mut choices = Choices(data);
    let flaw = choices.of(&flaws);
    let (files, model) = made(choices, flaw);
    match read(&files, (flaw == Flaw::Nothing).then_some(&model)) {
        Ok(()) => true,
        Err(why) => {
            assert!(flaw != Flaw::Nothing, "what LevelDB may have left is read: {why}");
            assert!(why.is_damage() && !why.to_string().is_empty(), "only damage can be wrong here: {why}");
            false
        }
    }
}

fn read(files: &Files, model: Option<&Model>) -> Result<()> {
    let disk = on_disk(files)?;
    let keys: Vec<u8> = files.iter().flat_map(|(_, bytes)| bytes.iter().take(40).copied()).collect();
    compare(&Db::open_read_only(disk.clone(), &dir())?, model, &keys)?;
    compare(&Db::open(disk.clone(), &dir(), SMALL)?, model, &keys)?;
    let db = Db::open(disk, &dir(), SMALL)?;
    if db.compact_now()? {
        compare(&db, model, &keys)?;
    }
    if let Some(compaction) = db.plan_full_compaction()? {
        compaction.run()?;
    }
    compare(&db, model, &keys)
}

/// Compares the database with the map: by iteration, and by look-ups of its keys and of keys between them.
fn compare(db: &Db, model: Option<&Model>, keys: &[u8]) -> Result<()> {
    look(db, keys)?;
    let Some(model) = model else { return Ok(()) };
    let snapshot = db.snapshot();
    let mut wanted = model.iter();
    let mut iter = snapshot.iter()?;
    while let Some((key, value)) = iter.next_record()? {
        let next = wanted.next().map(|(key, value)| (&key[..], &value[..]));
        assert_eq!(next, Some((key, value)), "iteration");
    }
    assert_eq!(wanted.next(), None, "iteration ends");
    let near = |key: &Vec<u8>| [key.clone(), [&key[..], &[0]].concat(), key[..key.len().saturating_sub(1)].to_vec()];
    let mut keys: Vec<Vec<u8>> = model.keys().flat_map(near).collect();
    keys.sort();
    let mut found = vec![None; keys.len()];
    snapshot.get_sorted_batch(&keys, |at, value| found[at] = value.map(<[u8]>::to_vec))?;
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(found.as_ref(), model.get(key), "batch: {key:02x?}");
        assert_eq!(snapshot.get(key)?.as_ref(), model.get(key), "single: {key:02x?}");
    }
    Ok(())
}

fn made(choices: Choices<'_>, flaw: Flaw) -> (Files, Model) {
    let files = Vec::new();
    let model = Model::new();
    let tables = Vec::new();
    let mut making = Making { choices, flaw, sequence: 0, files, model, tables };
    // Newer tables are on higher levels.
    for level in (1..LEVELS).rev() {
        if making.choices.below(2) == 1 {
            making.level(level);
        }
    }
    for _ in 0..making.choices.below(LEVEL_0_MAX + 1) {
        making.level(0);
    }
    making.log();
    making.spoil();
    making.manifest();
    (making.files, making.model)
}

impl Making<'_> {
    /// The next records: key, sequence number, and value or `None` for deleted.
    fn records(&mut self) -> Vec<(Vec<u8>, u64, Option<Vec<u8>>)> {
        let count = 1 + self.choices.below(RECORDS_MAX);
        let mut records = Vec::new();
        for _ in 0..count {
            self.sequence += 1;
            let key = self.choices.key();
            let length = usize::from(self.choices.byte());
            let value = (length % 4 != 3).then(|| vec![self.sequence as u8; length << (length & 3)]);
            match &value {
                Some(value) => self.model.insert(key.clone(), value.clone()),
                None => self.model.remove(&key),
            };
            records.push((key, self.sequence, value));
        }
        records
    }

    /// The tables of a level, or one of level 0.
    fn level(&mut self, level: usize) {
        let mut records = self.records();
        records.sort_by_key(|(key, sequence, _)| (key.clone(), Reverse(*sequence)));
        let internal = |(key, sequence, value): (Vec<u8>, u64, Option<Vec<u8>>)| {
            let kind = if value.is_some() { KIND_VALUE } else { KIND_DELETED };
            ([&key[..], &(sequence << 8 | kind).to_le_bytes()].concat(), value.unwrap_or_default())
        };
        let mut records: Vec<Record> = records.into_iter().map(internal).collect();
        while !records.is_empty() {
            let cut = if level == 0 { 0 } else { self.choices.below(RECORDS_MAX) };
            let rest = if cut == 0 { Vec::new() } else { records.split_off(cut.min(records.len())) };
            self.table(level, &records);
            records = rest;
        }
    }

    fn table(&mut self, level: usize, records: &[Record]) {
        let number = FIRST_TABLE + self.tables.len() as u64;
        let smallest = records[0].0[..].into();
        let largest = records[records.len() - 1].0[..].into();
        let mut records = records.to_vec();
        if self.flaw == Flaw::Order {
            let a = self.choices.below(records.len());
            let b = self.choices.below(records.len());
            records.swap(a, b);
        }
        let bytes = table(&records, &mut self.choices);
        self.tables.push((level, FileMeta { number, bytes: bytes.len() as u64, smallest, largest }));
        self.files.push((dir().join(format!("{number:06}.ldb")), bytes));
    }

    /// A log of batches, and one whose records are already in tables.
    fn log(&mut self) {
        let mut log = Vec::new();
        let mut sequence = self.sequence + 1;
        let mut records = if self.choices.below(2) == 1 { self.records() } else { Vec::new() };
        while !records.is_empty() {
            let rest = records.split_off((1 + self.choices.below(RECORDS_MAX)).min(records.len()));
            let mut batch = [&sequence.to_le_bytes()[..], &(records.len() as u32).to_le_bytes()].concat();
            sequence += records.len() as u64;
            for (key, _, value) in &records {
                batch.push(u8::from(value.is_some()));
                put_slice(&mut batch, key);
                value.iter().for_each(|value| put_slice(&mut batch, value));
            }
            let at = log.len() as u64;
            put_record(&mut log, at, &batch);
            records = rest;
        }
        self.files.push((dir().join("000004.log"), log));
        self.files.push((dir().join("000003.log"), vec![7; 20]));
    }

    /// Applies a flaw to a whole table or a byte.
    fn spoil(&mut self) {
        let which = usize::from(self.choices.byte());
        let how = self.choices.byte();
        let count = self.tables.len().max(1);
        let other = self.tables.get(usize::from(how) / 2 % count).cloned();
        let (Some((level, meta)), Some((_, other))) = (self.tables.get_mut(which % count), other) else { return };
        match self.flaw {
            Flaw::Level => *level = usize::from(how) % LEVELS,
            Flaw::Bounds if how.is_multiple_of(2) => meta.smallest = other.largest,
            Flaw::Bounds => meta.largest = other.smallest,
            Flaw::Missing => {
                let name = format!("{:06}.ldb", meta.number);
                self.files.retain(|(path, _)| !path.ends_with(&name));
            }
            Flaw::Byte => {
                let count = self.files.len();
                let (_, bytes) = &mut self.files[which % count];
                let at = usize::from(how) << 8 | usize::from(self.choices.byte());
                if let Some(at) = at.checked_rem(bytes.len()) {
                    bytes[at] ^= 1 << self.choices.below(8);
                }
            }
            Flaw::Nothing | Flaw::Order => {}
        }
    }

    /// Edits: the first, then the tables, some of which were on another level before.
    fn manifest(&mut self) {
        let next_file = Some(100.max(FIRST_TABLE + self.tables.len() as u64));
        let mut edits = vec![Edit { next_file, last_sequence: Some(self.sequence), ..first_edit() }];
        for table in &self.tables {
            let how = self.choices.below(4);
            let edit = edits.last_mut().expect("the first");
            match how {
                // The table was on another level and moved.
                1 => {
                    let before = (table.0 + 1) % LEVELS;
                    edit.added.push((before, table.1.clone()));
                    edits.push(Edit {
                        deleted: vec![(before, table.1.number)],
                        added: vec![table.clone()],
                        ..Edit::default()
                    });
                }
                // The table has its own edit, followed by an empty one.
                2 => edits.push(Edit { added: vec![table.clone()], ..Edit::default() }),
                // A table that was there before and is removed.
                3 => {
                    edit.added.push((table.0, FileMeta { number: NO_TABLE, ..table.1.clone() }));
                    edits.push(Edit {
                        deleted: vec![(table.0, NO_TABLE)],
                        added: vec![table.clone()],
                        ..Edit::default()
                    });
                }
                _ => edit.added.push(table.clone()),
            }
        }
        let edits: Vec<Vec<u8>> = edits.iter().map(Edit::encode).collect();
        let edits: Vec<&[u8]> = edits.iter().map(|edit| &edit[..]).collect();
        self.files.push(manifest(&edits));
    }
}

/// The bytes of a table with these records.
fn table(records: &[Record], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut index = Vec::new();
    let mut filters = Vec::new();
    let style = Style::chosen(choices);
    let index_style = Style::chosen(choices);
    let is_short = choices.below(2) == 1;
    let has_filter = choices.below(2) == 0;
    let mut rest = records;
    while !rest.is_empty() {
        let (records, behind) = rest.split_at((1 + choices.below(RECORDS_MAX)).min(rest.len()));
        let last = &records.last().expect("one at least").0;
        filters.push((out.len(), records.iter().map(|(key, _)| hash(user_key(key))).collect::<Vec<u32>>()));
        let handle = placed(&mut out, &block(records, &style));
        let end = if is_short { short_end(last, behind.first().map(|(key, _)| &key[..])) } else { last.clone() };
        index.push((end, handle));
        rest = behind;
    }
    let mut names = Vec::new();
    if has_filter {
        names.push((FILTER_KEY.to_vec(), placed(&mut out, &filter_block(&filters))));
    }
    let metaindex = placed(&mut out, &block(&names, &Style { restarts: 1, shared_max: usize::MAX }));
    let index = placed(&mut out, &block(&index, &index_style));
    let start = out.len();
    out.extend(metaindex);
    out.extend(index);
    out.resize(start + FOOTER_BYTES - 8, 0);
    out.extend(MAGIC.to_le_bytes());
    out
}

/// Appends a block; returns its handle.
fn placed(out: &mut Vec<u8>, block: &[u8]) -> Vec<u8> {
    let mut handle = Vec::new();
    Handle { offset: out.len() as u64, bytes: block.len() as u64 }.put(&mut handle);
    out.extend(framed(block));
    handle
}

/// Options for writing a block.
struct Style {
    /// Entries from one restart to the next.
    restarts: usize,
    /// Maximum bytes that an entry shares with the one before.
    shared_max: usize,
}

impl Style {
    fn chosen(choices: &mut Choices<'_>) -> Style {
        Style { restarts: choices.of(&[16, 1, 2, 3, 5]), shared_max: choices.of(&[usize::MAX, usize::MAX, 0, 3]) }
    }
}

fn block(entries: &[Record], style: &Style) -> Vec<u8> {
    let mut out = Vec::new();
    let mut restarts = vec![0u32];
    let mut before = &[][..];
    for (number, (key, value)) in entries.iter().enumerate() {
        let is_restart = number % style.restarts == 0;
        if is_restart && number > 0 {
            restarts.push(out.len() as u32);
        }
        let shared = if is_restart { 0 } else { shared_prefix(before, key).min(style.shared_max) };
        for length in [shared, key.len() - shared, value.len()] {
            put_varint(&mut out, length as u64);
        }
        out.extend(&key[shared..]);
        out.extend(value);
        before = key;
    }
    restarts.iter().for_each(|at| out.extend(at.to_le_bytes()));
    out.extend((restarts.len() as u32).to_le_bytes());
    out
}

/// A filter for each 2 KiB of data, empty if no block begins there.
fn filter_block(blocks: &[(usize, Vec<u32>)]) -> Vec<u8> {
    let place = |at: usize| at >> FILTER_BASE_LOG2;
    let count = blocks.last().map_or(0, |(at, _)| place(*at) + 1);
    let mut out = Vec::new();
    let mut starts = Vec::new();
    for number in 0..count {
        starts.push(out.len() as u32);
        let hashes: Vec<u32> =
            blocks.iter().filter(|(at, _)| place(*at) == number).flat_map(|(_, hashes)| hashes.clone()).collect();
        if !hashes.is_empty() {
            put_filter(&mut out, &hashes);
        }
    }
    starts.push(out.len() as u32);
    starts.iter().for_each(|start| out.extend(start.to_le_bytes()));
    out.push(FILTER_BASE_LOG2);
    out
}

/// A short key that is not below `last` and is below `next`.
///
/// Source: Bitcoin Core b88bffe, leveldb/util/comparator.cc, and dbformat.cc, `FindShortestSeparator`,
/// `FindShortSuccessor`.
fn short_end(last: &[u8], next: Option<&[u8]>) -> Vec<u8> {
    let user = user_key(last);
    let place = match next.map(user_key) {
        None => user.iter().position(|byte| *byte < 0xff),
        Some(next) => {
            let at = shared_prefix(user, next);
            (at < user.len() && at < next.len() && user[at] < 0xff && user[at] + 1 < next[at]).then_some(at)
        }
    };
    match place {
        Some(at) if at + 1 < user.len() => {
            let tag = SEQUENCE_MAX << 8 | KIND_VALUE;
            [&user[..at], &[user[at] + 1], &tag.to_le_bytes()].concat()
        }
        _ => last.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn sound_databases_are_the_map_and_others_are_damage() {
        let mut rng = Rng::new(21);
        let (mut good, mut bad) = ([0; 7], [0; 7]);
        for round in 0..if testkit::is_slow() { 300_000 } else { 2_000 } {
            let length = 1 + rng.below(600);
            let mut data = rng.bytes(length);
            data[0] = (round % 7) as u8;
            if open_made(&data) { good[round % 7] += 1 } else { bad[round % 7] += 1 }
        }
        assert!(bad[..2] == [0, 0] && good[..2].iter().all(|&count| count > 100), "{good:?} were good, {bad:?} not");
        assert!(bad[2..].iter().all(|&count| count > 10), "{good:?} were good, {bad:?} not");
    }

    /// Levels, tables and records of a database are as many as the choices say.
    #[test]
    fn choices_reach_every_level() {
        let mut rng = Rng::new(22);
        let mut levels = [0; LEVELS];
        for _ in 0..50 {
            let data = rng.bytes(600);
            let (files, model) = made(Choices(&data), Flaw::Nothing);
            let state = files.iter().find(|(path, _)| path.ends_with("MANIFEST-000002")).unwrap();
            let state = crate::edit::VersionState::read(&state.1).unwrap();
            state.levels.iter().zip(&mut levels).for_each(|(tables, count)| *count += tables.len());
            assert!(model.len() < RECORDS_MAX * (LEVELS + LEVEL_0_MAX));
        }
        assert!(levels.iter().all(|count| *count > 20), "{levels:?}");
    }
}
