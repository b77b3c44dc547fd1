//! Records in the block files that the index does not name, found when a data directory is opened for work.
//!
//! Such records remain after a reindex of files with a gap (also with bitcoind), after a file was put back, after the
//! last commit of a killed program, and after an older index replaced the one that named them. Each start finds them
//! again from the index and the files; no other data about them is stored. If every byte of the files is named, no file
//! is read.
//!
//! This has two effects. The file infos say that the files end after these records, so that no program overwrites them.
//! Their blocks are used once their headers are known ([`crate::chain::index::BlockIndex::take_in`]).
//!
//! Absent on purpose: the validity of these blocks, which is checked when they are connected, as after a reindex.

use super::DataDir;
use super::scan::{FileParts, Scan, scan_parts};
use crate::fault::Fault;
use primitives::human;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use store::FileEnd;
use store::blockfiles::{BlockFiles, FoundBlock, RECORD_HEADER_BYTES, SCAN_SIZE_MIN};
use store::index::LoadedIndex;

/// Minimum size of a record in bytes.
const RECORD_BYTES_MIN: u64 = (RECORD_HEADER_BYTES + SCAN_SIZE_MIN) as u64;
/// Scans of at least this many bytes are announced.
const SAID_BYTES_MIN: u64 = 64 << 20;

/// Bytes of block files that an index does not name, determined by the files' lengths: gaps between named blocks are
/// not included.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unindexed {
    /// Number of block files with such bytes.
    pub files: u64,
    /// Upper bound of their number.
    pub bytes: u64,
    /// The first of these files.
    pub first: PathBuf,
}

impl fmt::Display for Unindexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unindexed { files, bytes, first } = self;
        let bytes = human::bytes(*bytes);
        let first = first.display();
        write!(
            f,
            "{bytes} of {files} block files, the first {first}: they are not overwritten, and ffwd sync uses their blocks"
        )
    }
}

/// Finds such bytes. Reads only the beginning of files without named blocks, and the data after the listed end of
/// others.
///
/// # Errors
///
/// A block file that cannot be read.
pub(crate) fn unindexed(files: &BlockFiles, loaded: &LoadedIndex) -> Result<Option<Unindexed>, Fault> {
    let mut named = HashSet::new();
    named.extend(loaded.entries.iter().filter_map(|entry| Some(entry.data()?.file)));
    let mut found: Option<Unindexed> = None;
    for file in files.numbers()?.there {
        let size = loaded.files.get(file as usize).map_or(0, |info| u64::from(info.size));
        let from = if named.contains(&file) { size } else { 0 };
        let len = files.file_bytes(file)?;
        if len > from && files.is_written(file, from)? {
            let first = || Unindexed { files: 0, bytes: 0, first: files.path(file) };
            let found = found.get_or_insert_with(first);
            found.files += 1;
            found.bytes += len - from;
        }
    }
    Ok(found)
}

/// A record that the index names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    file: u32,
    start: u32,
    end: u32,
}

/// Parts of the block files that the index does not name.
#[derive(Default)]
struct Unnamed {
    files: Vec<FileParts>,
    bytes: u64,
    /// Files that are shorter than their infos say, with their actual length.
    cut: Vec<FileEnd>,
}

impl DataDir<'_> {
    /// Finds records that the index does not name, and adds them. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// A block file that cannot be read, or an I/O error.
    pub(crate) fn take_in_unindexed(&self, now: i64) -> Result<(), Fault> {
        let Unnamed { files, bytes, cut } = self.unnamed()?;
        if bytes >= SAID_BYTES_MIN {
            let bytes = human::bytes(bytes);
            self.reporter.note(format!("Looking through {bytes} of the block files that the index does not name"));
        }
        let scan = match scan_parts(&self.files, &files, self.options.par, &self.reporter) {
            // The job then ends before it appends data, as it would without this scan.
            Err(Fault::Stopped) => return Ok(()),
            scan => scan?,
        };
        let Scan { blocks, ends, .. } = scan;
        let is_changed = self.writer.cover_files(&ends, &cut);
        self.use_found(blocks, now);
        if is_changed {
            // The index is written immediately, because bitcoind may be the next program that opens this data
            // directory. It does not start on one that has the genesis block's header alone.
            self.store_genesis()?;
            self.write_index(None)?;
        }
        Ok(())
    }

    fn use_found(&self, blocks: Vec<FoundBlock>, now: i64) {
        if blocks.is_empty() {
            return;
        }
        let (used, waiting, first) = {
            let mut index = self.index.write();
            let used = index.take_in(self.params, blocks, now);
            index.take_adopted_count();
            (used, index.orphan_count(), index.first_orphan())
        };
        if used > 0 {
            self.reporter
                .note(format!("{used} blocks are in the block files and not in the index: they are used from there"));
        }
        if let Some(first) = first {
            let path = self.files.path(first.file);
            self.reporter.note(format!(
                "{waiting} blocks of the block files have no parent yet, the first at {} byte {}: they stay there, and are used \
                 as soon as their headers are known",
                path.display(),
                first.offset
            ));
        }
    }

    /// Reports how many blocks of the block files were waiting for headers that have arrived.
    pub(crate) fn say_adopted(&self) {
        let (count, left) = {
            let mut index = self.index.write();
            (index.take_adopted_count(), index.orphan_count())
        };
        if count > 0 {
            self.reporter.note(format!(
                "{count} blocks of the block files had no parent and have one now: they are used from there, not downloaded again \
                 ({left} are still without a parent)"
            ));
        }
    }

    fn unnamed(&self) -> Result<Unnamed, Fault> {
        let named = self.named();
        let sizes = self.writer.sizes();
        let mut all = Unnamed::default();
        let there = self.files.numbers()?.there;
        for &file in &there {
            let first = named.partition_point(|record| record.file < file);
            let count = named[first..].partition_point(|record| record.file == file);
            let len = self.files.file_bytes(file)?;
            let (mut parts, named_end) = gaps(&named[first..first + count], len);
            let size = sizes.get(file as usize).copied().unwrap_or_default();
            if u64::from(size) > len {
                all.cut.push(FileEnd { file, written: named_end.max(len), is_closed: false });
            }
            // Such bytes are preallocated space that a program did not release: no program appends to such a file, and
            // there may be thousands of them.
            let is_left = Some(&file) != there.last() && u64::from(size) <= named_end && count > 0;
            if is_left && len > named_end && !self.files.is_written(file, named_end)? {
                parts.pop();
            }
            if !parts.is_empty() {
                all.bytes += parts.iter().map(|part| part.end - part.start).sum::<u64>();
                all.files.push(FileParts { file, parts });
            }
        }
        // A missing file without named blocks: it contributes no bytes.
        let is_gone = |file: &u32| {
            let at = named.partition_point(|record| record.file < *file);
            there.binary_search(file).is_err() && named.get(at).is_none_or(|record| record.file != *file)
        };
        let gone = (0..).zip(&sizes).filter(|&(_, &size)| size > 0).map(|(file, _)| file).filter(is_gone);
        all.cut.extend(gone.map(|file| FileEnd { file, written: 0, is_closed: false }));
        Ok(all)
    }

    /// Every record that the index names, in file order.
    fn named(&self) -> Vec<Named> {
        let index = self.index.read();
        let named = index.places().map(|(_, at, size)| Named {
            file: at.file,
            start: at.offset.saturating_sub(RECORD_HEADER_BYTES),
            end: at.offset.saturating_add(size),
        });
        let mut named: Vec<Named> = named.collect();
        named.sort_unstable();
        named
    }
}

/// The parts of a file of `len` bytes between and after its `named` records, if they are large enough for a record; and
/// the end of the last named record.
fn gaps(named: &[Named], len: u64) -> (Vec<Range<u64>>, u64) {
    let mut parts = Vec::new();
    let mut end = 0;
    for record in named {
        if u64::from(record.start) >= end + RECORD_BYTES_MIN {
            parts.push(end..u64::from(record.start));
        }
        end = end.max(u64::from(record.end));
    }
    if len > end {
        parts.push(end..len);
    }
    (parts, end)
}
