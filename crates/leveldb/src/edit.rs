//! Version edits: the changes in one record of a manifest. All edits in order give the state.
//!
//! Edit:  (tag varint, payload)*
//!     1 comparator slice | 2 log number | 3 next file number | 4 last sequence
//!     5 compact pointer: level, internal key | 6 deleted file: level, number
//!     7 new file: level, number, bytes, smallest and largest internal key | 9 previous log number
//!
//! Compact pointers (where LevelDB continues to compact) are skipped.
//!
//! Source: Bitcoin Core b88bffe, leveldb/db/version_edit.cc and version_set.cc (`Recover`).

use std::collections::BTreeMap;

use crate::coding::{Reader, SEQUENCE_MAX, put_slice, put_varint, split_key};
use crate::error::Damage;
use crate::log::LogReader;

/// The only supported key order.
pub(crate) const COMPARATOR: &[u8] = b"leveldb.BytewiseComparator";
/// Levels of tables: 0 to 6.
pub(crate) const LEVELS: usize = 7;

const COMPARATOR_TAG: u64 = 1;
const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const COMPACT_POINTER: u64 = 5;
const DELETED_FILE: u64 = 6;
const NEW_FILE: u64 = 7;
const PREV_LOG_NUMBER: u64 = 9;

/// The manifest's entry for one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileMeta {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// First internal key; at least as long as a tag.
    pub(crate) smallest: Box<[u8]>,
    /// Last internal key; at least as long as a tag.
    pub(crate) largest: Box<[u8]>,
}

/// One change of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) comparator: Option<Box<[u8]>>,
    pub(crate) log_number: Option<u64>,
    pub(crate) prev_log_number: Option<u64>,
    pub(crate) next_file: Option<u64>,
    pub(crate) last_sequence: Option<u64>,
    pub(crate) deleted: Vec<(usize, u64)>,
    pub(crate) added: Vec<(usize, FileMeta)>,
}

impl Edit {
    /// The bytes of a manifest record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(name) = &self.comparator {
            put_varint(&mut out, COMPARATOR_TAG);
            put_slice(&mut out, name);
        }
        for (tag, value) in [
            (LOG_NUMBER, self.log_number),
            (PREV_LOG_NUMBER, self.prev_log_number),
            (NEXT_FILE, self.next_file),
            (LAST_SEQUENCE, self.last_sequence),
        ] {
            if let Some(value) = value {
                put_varint(&mut out, tag);
                put_varint(&mut out, value);
            }
        }
        for (level, number) in &self.deleted {
            put_varint(&mut out, DELETED_FILE);
            put_varint(&mut out, *level as u64);
            put_varint(&mut out, *number);
        }
        for (level, file) in &self.added {
            put_varint(&mut out, NEW_FILE);
            put_varint(&mut out, *level as u64);
            put_varint(&mut out, file.number);
            put_varint(&mut out, file.bytes);
            put_slice(&mut out, &file.smallest);
            put_slice(&mut out, &file.largest);
        }
        out
    }

    /// Reads a manifest record; the damage's offset counts from the record's start.
    pub(crate) fn decode(record: &[u8]) -> Result<Edit, Damage> {
        let mut reader = Reader(record);
        let mut edit = Edit::default();
        while !reader.is_empty() {
            let at = record.len() - reader.0.len();
            edit.field(&mut reader).ok_or_else(|| {
                let tag = Reader(&record[at..]).varint64();
                let found = tag.map_or("no tag".to_owned(), |tag| format!("tag {tag}"));
                Damage::new(at, "a whole field of a version edit", found)
            })?;
        }
        Ok(edit)
    }

    fn field(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        match u64::from(reader.varint32()?) {
            COMPARATOR_TAG => self.comparator = Some(reader.slice()?.into()),
            LOG_NUMBER => self.log_number = Some(reader.varint64()?),
            PREV_LOG_NUMBER => self.prev_log_number = Some(reader.varint64()?),
            NEXT_FILE => self.next_file = Some(reader.varint64()?),
            LAST_SEQUENCE => {
                self.last_sequence = Some(reader.varint64()?).filter(|last| *last <= SEQUENCE_MAX);
                self.last_sequence?;
            }
            COMPACT_POINTER => {
                level(reader)?;
                reader.slice()?;
            }
            DELETED_FILE => self.deleted.push((level(reader)?, reader.varint64()?)),
            NEW_FILE => {
                let level = level(reader)?;
                let number = reader.varint64()?;
                let bytes = reader.varint64()?;
                let smallest = internal_key(reader)?;
                let largest = internal_key(reader)?;
                self.added.push((level, FileMeta { number, bytes, smallest, largest }));
            }
            _ => return None,
        }
        Some(())
    }
}

fn level(reader: &mut Reader<'_>) -> Option<usize> {
    reader.length().filter(|level| *level < LEVELS)
}

fn internal_key(reader: &mut Reader<'_>) -> Option<Box<[u8]>> {
    let key = reader.slice()?;
    split_key(key)?;
    Some(key.into())
}

/// The state after all edits of a manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionState {
    /// Logs below this number are already in tables.
    pub(crate) log_number: u64,
    /// One more log that is not in tables yet, in databases of old LevelDB versions.
    pub(crate) prev_log_number: u64,
    pub(crate) next_file: u64,
    pub(crate) last_sequence: u64,
    /// The tables of each level by number.
    pub(crate) levels: [BTreeMap<u64, FileMeta>; LEVELS],
}

impl VersionState {
    /// Reads a whole manifest.
    pub(crate) fn read(manifest: &[u8]) -> Result<VersionState, Damage> {
        let mut state = VersionState::default();
        let mut has_log = false;
        let mut has_next = false;
        let mut has_last = false;
        let mut reader = LogReader::new(manifest);
        while let Some((at, record)) = reader.next()? {
            let edit = Edit::decode(&record).map_err(|why| {
                let within = format!("{} (in the record's byte {})", why.wanted, why.offset);
                Damage::new(at, within, why.found)
            })?;
            if let Some(name) = &edit.comparator
                && **name != *COMPARATOR
            {
                let found = String::from_utf8_lossy(name).into_owned();
                return Err(Damage::new(at, "key order leveldb.BytewiseComparator", found));
            }
            has_log |= edit.log_number.is_some();
            has_next |= edit.next_file.is_some();
            has_last |= edit.last_sequence.is_some();
            state.apply(edit);
        }
        for (what, has) in [("next file number", has_next), ("log number", has_log), ("last sequence", has_last)] {
            if !has {
                return Err(Damage::new(manifest.len(), format!("a {what}"), "none in any edit"));
            }
        }
        Ok(state)
    }

    fn apply(&mut self, edit: Edit) {
        self.log_number = edit.log_number.unwrap_or(self.log_number);
        self.prev_log_number = edit.prev_log_number.unwrap_or(self.prev_log_number);
        self.next_file = edit.next_file.unwrap_or(self.next_file);
        self.last_sequence = edit.last_sequence.unwrap_or(self.last_sequence);
        for (level, number) in edit.deleted {
            self.levels[level].remove(&number);
        }
        for (level, file) in edit.added {
            self.levels[level].insert(file.number, file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::put_record;

    fn file(number: u64) -> FileMeta {
        FileMeta {
            number,
            bytes: 1000 + number,
            smallest: (*b"a\x01\x01\0\0\0\0\0\0").into(),
            largest: (*b"z\x01\x01\0\0\0\0\0\0").into(),
        }
    }

    fn full() -> Edit {
        Edit {
            comparator: Some(COMPARATOR.into()),
            log_number: Some(7),
            prev_log_number: Some(0),
            next_file: Some(300),
            last_sequence: Some(SEQUENCE_MAX),
            deleted: vec![(0, 5), (6, 1 << 40)],
            added: vec![(0, file(8)), (6, file(9))],
        }
    }

    #[test]
    fn edit_round_trips_and_a_cut_edit_is_refused() {
        let bytes = full().encode();
        assert_eq!(Edit::decode(&bytes), Ok(full()));
        let ends: Vec<usize> = (0..bytes.len()).filter(|end| Edit::decode(&bytes[..*end]).is_ok()).collect();
        // Between two fields a cut edit is a shorter edit: ten fields, the empty edit included.
        assert_eq!(ends.len(), 9, "{ends:?}");
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                let _ = Edit::decode(&bent);
            }
        }
    }

    /// The bytes of a fresh manifest as LevelDB writes it, from a database of Bitcoin Core's.
    #[test]
    fn fresh_manifest_equals_leveldbs_bytes() {
        let first = Edit { comparator: Some(COMPARATOR.into()), ..Edit::default() };
        let second = Edit {
            log_number: Some(3),
            prev_log_number: Some(0),
            next_file: Some(4),
            last_sequence: Some(0),
            ..Edit::default()
        };
        assert_eq!(first.encode(), [&b"\x01\x1a"[..], COMPARATOR].concat());
        assert_eq!(second.encode(), [2, 3, 9, 0, 3, 4, 4, 0]);
        let mut manifest = Vec::new();
        put_record(&mut manifest, 0, &first.encode());
        let begun = manifest.len() as u64;
        put_record(&mut manifest, begun, &second.encode());
        assert_eq!(manifest.len(), 50);
        let state = VersionState::read(&manifest).unwrap();
        assert_eq!((state.log_number, state.next_file, state.last_sequence), (3, 4, 0));
    }

    #[test]
    fn incomplete_manifest_error_names_the_missing_field() {
        let mut no_level = Vec::new();
        for value in [DELETED_FILE, 7, 1] {
            put_varint(&mut no_level, value);
        }
        let comparator = Some((*b"other").into());
        for (row, record, want) in [
            ("nothing", Edit::default().encode(), "a next file number"),
            ("no log", Edit { next_file: Some(1), ..Edit::default() }.encode(), "a log number"),
            (
                "no sequence",
                Edit { next_file: Some(1), log_number: Some(1), ..Edit::default() }.encode(),
                "a last sequence",
            ),
            ("other order", Edit { comparator, ..full() }.encode(), "key order"),
            ("unknown tag", vec![8], "whole field"),
            ("level 7", no_level, "whole field"),
            ("short key", vec![7, 0, 1, 1, 1, 0, 1, 0], "whole field"),
            ("sequence of 57 bits", vec![4, 255, 255, 255, 255, 255, 255, 255, 255, 1], "whole"),
        ] {
            let mut manifest = Vec::new();
            put_record(&mut manifest, 0, &record);
            let why = VersionState::read(&manifest).unwrap_err();
            assert!(why.wanted.contains(want), "{row}: {why:?}");
        }
    }
}
