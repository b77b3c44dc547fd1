//! Cursors over records in key order: over one run, and merged over several.
//!
//! Every block's checksum is verified on each read, also if it was verified before: a compaction must not copy damage.
//! The order of keys is verified too, against the previous key, as each entry is decoded. Usually its first unshared
//! byte decides.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::block::{Block, BlockEntry, extend_key};
use crate::coding::{KIND_VALUE, TAG_BYTES, prefix_of, split_key};
use crate::error::{Damage, Error, Result};
use crate::table::scanned_block;
use crate::version::{SortedRun, TableFile};
use disk::Bytes;

/// Points at a record of one run, or past the last.
#[derive(Debug)]
pub(crate) struct RunCursor {
    files: Vec<Arc<TableFile>>,
    /// Index of the file after the open one.
    next_file: usize,
    /// The open file's own map; `None` if its table is in memory.
    bytes: Option<Bytes>,
    next_block: usize,
    /// The entries of the open block, in the file.
    entries: Range<usize>,
    /// The whole internal key of the record; empty before the first and past the last.
    key: Vec<u8>,
    /// See [`prefix_of`].
    prefix: u64,
    /// No entry of the open block has been read: the next one shares no prefix.
    is_at_block_start: bool,
    value: Range<usize>,
    tag: u64,
}

impl RunCursor {
    /// Positions before the first record whose key is at least `start`; call [`RunCursor::advance`].
    pub(crate) fn seek(run: &SortedRun, start: &[u8]) -> Result<RunCursor> {
        let first = run.find_file(start, 0);
        let mut cursor = RunCursor {
            files: run.files[first..].to_vec(),
            next_file: 0,
            bytes: None,
            next_block: 0,
            entries: 0..0,
            key: Vec::new(),
            prefix: 0,
            is_at_block_start: true,
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

    /// Whether the cursor points at a record.
    pub(crate) fn is_valid(&self) -> bool {
        !self.key.is_empty()
    }

    pub(crate) fn user_key(&self) -> &[u8] {
        &self.key[..self.key.len() - TAG_BYTES]
    }

    /// See [`prefix_of`].
    #[inline]
    pub(crate) fn prefix(&self) -> u64 {
        self.prefix
    }

    /// Compares the user keys.
    #[inline]
    fn cmp_key(&self, other: &RunCursor) -> Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| self.user_key().cmp(other.user_key()))
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

    /// The fault of a table whose keys are out of order.
    fn out_of_order(&self) -> Error {
        let found = format!("key {:02x?} behind a greater one", self.user_key());
        let path = self.current_file().map_or(Path::new(""), |file| &file.path);
        Damage::new(self.entries.start, "keys in order", found).of(path)
    }

    /// Moves to the next key; `false` past the last. Of several records of a key it returns the first, which is the
    /// newest.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        loop {
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
            let order = entry.and_then(|entry| {
                let order = order_of(&self.key, &entry);
                if self.is_at_block_start && entry.shared > 0 {
                    return None;
                }
                extend_key(&mut self.key, &entry)?;
                self.tag = split_key(&self.key)?.1;
                if self.tag & 0xff > KIND_VALUE {
                    return None;
                }
                self.prefix = prefix_of(&self.key[..self.key.len() - TAG_BYTES]);
                self.value = entry.next - entry.value.len()..entry.next;
                self.entries.start = entry.next;
                self.is_at_block_start = false;
                Some(order)
            });
            match order {
                Some(Ordering::Greater) => return Ok(true),
                Some(Ordering::Equal) => {}
                Some(Ordering::Less) => {
                    let fault = self.out_of_order();
                    self.give_up();
                    return Err(fault);
                }
                None => {
                    self.give_up();
                    return Err(self.files[self.next_file - 1].table()?.not_a_block(self.next_block - 1));
                }
            }
        }
    }

    /// Ends the cursor: nothing is read past a fault.
    fn give_up(&mut self) {
        self.key.clear();
        self.entries = 0..0;
    }

    /// Opens the next block of the open file; `false` past the last.
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
        self.is_at_block_start = true;
        Ok(true)
    }

    /// Opens the next file; `false` past the last.
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

/// Compares the user key of an entry with that of the previous record, whose internal key is `before`. Before the first
/// record `before` is empty and the entry is the greater.
#[inline]
fn order_of(before: &[u8], entry: &BlockEntry<'_>) -> Ordering {
    let Some((before, _)) = split_key(before) else { return Ordering::Greater };
    let user_bytes = (entry.shared + entry.rest.len()).saturating_sub(TAG_BYTES);
    match (user_bytes.checked_sub(entry.shared), before.get(entry.shared..)) {
        (Some(rest), Some(before_rest)) => match (entry.rest[..rest].first(), before_rest.first()) {
            (Some(here), Some(before)) if here != before => here.cmp(before),
            _ => entry.rest[..rest].cmp(before_rest),
        },
        // One key is shared as a whole, so it is a prefix of the other.
        _ => user_bytes.cmp(&before.len()),
    }
}

/// Several runs merged, each key once: its newest record, tombstones included.
///
/// A k-way merge that remembers the runner-up. A step costs one comparison as long as the current cursor does not pass
/// the second; only then are all cursors compared again. Our databases have at most nine runs, so a heap or a loser
/// tree would save little, and sorted runs of one age keep the same winner for long.
#[derive(Debug)]
pub(crate) struct Merged {
    cursors: Vec<RunCursor>,
    /// The cursor at the current record.
    current: usize,
    /// The cursor with the next lowest key: no comparisons are needed until the current one passes it.
    second: Option<usize>,
    is_begun: bool,
}

impl Merged {
    /// Positions before the first record whose key is at least `start`. The runs come newest first.
    pub(crate) fn seek<'a>(runs: impl IntoIterator<Item = &'a SortedRun>, start: &[u8]) -> Result<Merged> {
        let mut cursors = Vec::new();
        for run in runs {
            let cursor = RunCursor::seek(run, start)?;
            if cursor.is_valid() {
                cursors.push(cursor);
            }
        }
        Ok(Merged { cursors, current: 0, second: None, is_begun: false })
    }

    /// Moves to the next key; returns its newest record, or `None` past the last.
    pub(crate) fn advance(&mut self) -> Result<Option<&RunCursor>> {
        if self.is_begun {
            // Records of the same key in older runs.
            while let Some(second) = self.second
                && self.cursors[second].cmp_key(&self.cursors[self.current]).is_eq()
            {
                self.step(second)?;
                self.choose();
            }
            if !self.step(self.current)? || self.second.is_some_and(|second| !self.is_before(self.current, second)) {
                self.choose();
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

    /// The cursor that the last [`Merged::advance`] returned.
    pub(crate) fn current(&self) -> &RunCursor {
        &self.cursors[self.current]
    }

    /// Advances a cursor; removes it past its last record and returns `false`.
    fn step(&mut self, index: usize) -> Result<bool> {
        let is_valid = self.cursors[index].advance()?;
        if !is_valid {
            self.cursors.remove(index);
        }
        Ok(is_valid)
    }

    /// Selects the first and the second of all cursors.
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
        let x = &self.cursors[a];
        let y = &self.cursors[b];
        match x.cmp_key(y) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => (y.tag(), a) < (x.tag(), b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::shared_prefix;
    use testkit::Rng;

    /// A key of few different bytes, so that keys share much and are prefixes of each other; tags look like keys.
    fn internal_key(rng: &mut Rng) -> Vec<u8> {
        (0..TAG_BYTES + rng.below(12)).map(|_| rng.below(2) as u8).collect()
    }

    /// The order of two neighbours, as the entry alone tells it, is that of their keys put together, however many of
    /// the bytes in common the entry shares; and that of their prefixes, where these differ.
    #[test]
    fn order_by_entry_and_by_prefix_are_the_order_of_keys() {
        let mut rng = Rng::new(4);
        let mut seen = [0; 3];
        for _ in 0..200_000 {
            let (before, key) = (internal_key(&mut rng), internal_key(&mut rng));
            let shared = rng.below(shared_prefix(&before, &key) + 1);
            let entry = BlockEntry { shared, rest: &key[shared..], value: &[], next: 0 };
            let ((before_user, _), (user, _)) = (split_key(&before).unwrap(), split_key(&key).unwrap());
            let want = user.cmp(before_user);
            assert_eq!(order_of(&before, &entry), want, "{key:?} behind {before:?}, {shared} shared");
            let by_prefix = prefix_of(user).cmp(&prefix_of(before_user)).then_with(|| user.cmp(before_user));
            assert_eq!(by_prefix, want, "{user:?} and {before_user:?}");
            seen[(want as i8 + 1) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
        let first = BlockEntry { shared: 0, rest: &[0; TAG_BYTES], value: &[], next: 0 };
        assert_eq!(order_of(&[], &first), Ordering::Greater, "the empty key may be the first");
    }
}
