//! Walking records in key order: through one run, and through several at once.
//!
//! Every block is checked as it is read, known or not: what a compaction copies, it vouches for.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::block::{Block, extend_key};
use crate::coding::{KIND_VALUE, split_key};
use crate::error::{Damage, Error, Result};
use crate::table::scanned_block;
use crate::version::{SortedRun, TableFile};
use disk::Bytes;

/// Stands on a record of one run, or behind the last.
#[derive(Debug)]
pub(crate) struct RunCursor {
    files: Vec<Arc<TableFile>>,
    /// The file that is open is the one before this.
    next_file: usize,
    /// The open file's own map; `None` if its table is in memory.
    bytes: Option<Bytes>,
    next_block: usize,
    /// The entries of the open block, in the file.
    entries: Range<usize>,
    /// The internal key of the record, whole; empty before the first and behind the last.
    key: Vec<u8>,
    value: Range<usize>,
    tag: u64,
}

impl RunCursor {
    /// Stands before the first record whose key is not below `start`; call [`RunCursor::advance`].
    pub(crate) fn seek(run: &SortedRun, start: &[u8]) -> Result<RunCursor> {
        let first = run.find_file(start, 0);
        let mut cursor = RunCursor {
            files: run.files[first..].to_vec(),
            next_file: 0,
            bytes: None,
            next_block: 0,
            entries: 0..0,
            key: Vec::new(),
            value: 0..0,
            tag: 0,
        };
        if cursor.open_file()? {
            cursor.next_block = cursor.files[0].table()?.find_block(start);
        }
        while cursor.advance()? {
            if cursor.user_key() >= start {
                break;
            }
        }
        Ok(cursor)
    }

    /// Whether there is a record.
    pub(crate) fn is_valid(&self) -> bool {
        !self.key.is_empty()
    }

    pub(crate) fn user_key(&self) -> &[u8] {
        &self.key[..self.key.len() - crate::coding::TAG_BYTES]
    }

    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.file_bytes()[self.value.clone()]
    }

    fn file_bytes(&self) -> &[u8] {
        match &self.bytes {
            Some(bytes) => bytes,
            None => self.current_file().and_then(|file| file.table().ok()).map_or(&[], |t| t.bytes()),
        }
    }

    fn current_file(&self) -> Option<&Arc<TableFile>> {
        self.files.get(self.next_file.checked_sub(1)?)
    }

    /// The fault of a table whose keys fall.
    fn out_of_order(&self) -> Error {
        let found = format!("key {:02x?} behind a greater one", self.user_key());
        let path = self.current_file().map_or(Path::new(""), |file| &file.path);
        Damage::new(self.entries.start, "keys in order", found).of(path)
    }

    /// Goes to the next record; `false` behind the last.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        while self.entries.is_empty() {
            if !self.open_block()? && !self.open_file()? {
                self.key.clear();
                return Ok(false);
            }
        }
        let bytes = match &self.bytes {
            Some(bytes) => &bytes[..],
            None => self.files[self.next_file - 1].table()?.bytes(),
        };
        let entry = Block::of_entries(&bytes[..self.entries.end]).entry(self.entries.start);
        let done = entry.and_then(|entry| {
            extend_key(&mut self.key, &entry)?;
            self.tag = split_key(&self.key)?.1;
            if self.tag & 0xff > KIND_VALUE {
                return None;
            }
            self.value = entry.next - entry.value.len()..entry.next;
            self.entries.start = entry.next;
            Some(())
        });
        if done.is_none() {
            self.key.clear();
            self.entries = 0..0;
            return Err(self.files[self.next_file - 1].table()?.not_a_block(self.next_block - 1));
        }
        Ok(true)
    }

    /// Opens the next block of the open file; `false` behind the last.
    fn open_block(&mut self) -> Result<bool> {
        let Some(file) = self.current_file() else {
            return Ok(false);
        };
        let table = file.table()?;
        if self.next_block >= table.block_count() {
            return Ok(false);
        }
        let bytes = self.bytes.as_deref().unwrap_or(table.bytes());
        let contents = scanned_block(table, bytes, self.next_block)?;
        let len = Block::parse(contents).ok_or_else(|| table.not_a_block(self.next_block))?.len();
        let start = usize::try_from(table.handle(self.next_block).offset).expect("in the file");
        self.entries = start..start + len;
        self.next_block += 1;
        self.key.clear();
        Ok(true)
    }

    /// Opens the next file; `false` behind the last.
    fn open_file(&mut self) -> Result<bool> {
        let Some(file) = self.files.get(self.next_file) else {
            return Ok(false);
        };
        file.table()?;
        self.bytes = file.scan_bytes()?;
        self.next_file += 1;
        self.next_block = 0;
        Ok(true)
    }
}

/// Several runs as one, each key once: its newest record, tombstones included.
///
/// A k-way merge that remembers the runner-up: as long as the current cursor does not pass the second, a step costs one
/// comparison; only then are all cursors compared again. There are nine runs at most in a database of our own, so neither
/// a heap nor a loser tree would save much, and sorted runs of one age keep the same winner for long.
#[derive(Debug)]
pub(crate) struct Merged {
    cursors: Vec<RunCursor>,
    /// The cursor that stands on the current record.
    current: usize,
    /// No other cursor stands before this one's key: until it passes it, nothing is compared twice.
    second: Option<usize>,
    last_key: Vec<u8>,
    is_begun: bool,
}

impl Merged {
    /// Before the first record whose key is not below `start`. The runs come newest first.
    pub(crate) fn seek<'a>(runs: impl IntoIterator<Item = &'a SortedRun>, start: &[u8]) -> Result<Merged> {
        let mut cursors = Vec::new();
        for run in runs {
            let cursor = RunCursor::seek(run, start)?;
            if cursor.is_valid() {
                cursors.push(cursor);
            }
        }
        Ok(Merged { cursors, current: 0, second: None, last_key: Vec::new(), is_begun: false })
    }

    /// Goes to the next key; its newest record, or `None` behind the last.
    pub(crate) fn advance(&mut self) -> Result<Option<&RunCursor>> {
        if self.is_begun {
            let cursor = &self.cursors[self.current];
            self.last_key.clear();
            self.last_key.extend_from_slice(cursor.user_key());
            self.step()?;
            // Older records of the same key, in this run or in others.
            while let Some(cursor) = self.cursors.get(self.current) {
                match cursor.user_key().cmp(&self.last_key) {
                    Ordering::Greater => break,
                    Ordering::Equal => self.step()?,
                    Ordering::Less => return Err(cursor.out_of_order()),
                }
            }
        } else {
            self.is_begun = true;
            self.choose();
        }
        Ok(self.is_valid().then(|| &self.cursors[self.current]))
    }

    pub(crate) fn is_valid(&self) -> bool {
        !self.cursors.is_empty()
    }

    /// The cursor that the last [`Merged::advance`] gave.
    pub(crate) fn current(&self) -> &RunCursor {
        &self.cursors[self.current]
    }

    /// Moves the current cursor on and chooses again.
    fn step(&mut self) -> Result<()> {
        if !self.cursors[self.current].advance()? {
            self.cursors.remove(self.current);
            self.choose();
        } else if self.second.is_some_and(|second| !self.is_before(self.current, second)) {
            self.choose();
        }
        Ok(())
    }

    /// Finds the first and the second of all cursors.
    fn choose(&mut self) {
        (self.current, self.second) = (0, None);
        for index in 1..self.cursors.len() {
            if self.is_before(index, self.current) {
                self.second = Some(self.current);
                self.current = index;
            } else if self.second.is_none_or(|second| self.is_before(index, second)) {
                self.second = Some(index);
            }
        }
    }

    /// Order of records: by key, then the greater tag first, then the newer run.
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (x, y) = (&self.cursors[a], &self.cursors[b]);
        match x.user_key().cmp(y.user_key()) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => (y.tag(), a) < (x.tag(), b),
        }
    }
}
