//! The files of block filters (`fltr?????.dat`): consecutive records, not obfuscated.
//!
//! ```text
//! record   block hash 32 | CompactSize bytes | filter
//! tail     zeros, reserved ahead
//! ```
//!
//! A file ends before the record that would exceed 16 MiB. Bytes after the database's next place are from an
//! interrupted run, and are overwritten. Source: Bitcoin Core b88bffe, `BlockFilterIndex::WriteFilterToDisk`,
//! `ReadFilterFromDisk`.

use super::rebuild_advice;
use crate::append::{AppendSet, Flush, Tail};
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::Layout;
use crate::xor::FileKeys;
use ::indexes::IndexKind;
use ::indexes::heights::FilterPos;
use disk::Disk;
use primitives::encode::{Reader, put_compact_size};
use primitives::{BlockHash, Hash256};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a file.
const FILE_BYTES_MAX: u32 = 16 << 20;
/// Space is reserved in pieces of this many bytes.
const CHUNK_BYTES: u64 = 1 << 20;
/// More than any block's filter: 4,000,000 bytes hold 444,444 outputs of 9 bytes, each at most 5 bytes of a filter.
const FILTER_BYTES_MAX: usize = 4 << 20;
/// More files than the filters of any chain fill: 1 TB of them. A database that names more of them is damaged.
const FILES_MAX: u32 = 1 << 16;
/// Bytes before a filter: its block's hash, and its length.
const HEAD_BYTES_MAX: usize = 32 + 9;

fn dir(layout: &Layout) -> PathBuf {
    super::root(layout, IndexKind::BlockFilter).join("basic")
}

/// The path of a filter file.
pub fn filter_file(layout: &Layout, file: u32) -> PathBuf {
    file_path(&dir(layout), file)
}

fn file_path(dir: &Path, file: u32) -> PathBuf {
    dir.join(format!("fltr{file:05}.dat"))
}

/// Appends filters.
#[derive(Debug)]
pub struct FilterFiles {
    append_set: AppendSet,
    tail: Option<Tail>,
    next: FilterPos,
    root: PathBuf,
}

impl FilterFiles {
    /// A writer whose first filter goes to `next`. Opens no file yet.
    pub fn new(disk: Arc<dyn Disk>, layout: &Layout, next: FilterPos) -> FilterFiles {
        let append_set = AppendSet::new(disk, &dir(layout), FileKeys::NONE, CHUNK_BYTES);
        FilterFiles { append_set, tail: None, next, root: super::root(layout, IndexKind::BlockFilter) }
    }

    /// The place of the next filter.
    pub fn next(&self) -> FilterPos {
        self.next
    }

    /// Appends the filter of a block; returns its place.
    ///
    /// # Errors
    ///
    /// No space, a file that is shorter than the database requires, or an I/O error. After no space the call can be
    /// repeated.
    pub fn append(&mut self, block: &BlockHash, filter: &[u8]) -> Result<FilterPos> {
        let mut head = block.as_bytes().to_vec();
        put_compact_size(&mut head, filter.len() as u64);
        let bytes = (head.len() + filter.len()) as u64;
        if u64::from(self.next.offset) + bytes > u64::from(FILE_BYTES_MAX) {
            if let Some(tail) = &mut self.tail {
                self.append_set.finalise(tail)?;
            }
            self.tail = None;
            self.next = FilterPos { file: self.next.file + 1, offset: 0 };
        }
        let path = file_path(&self.append_set.dir, self.next.file);
        let tail = match &mut self.tail {
            Some(tail) => tail,
            None => {
                let advice = || rebuild_advice(IndexKind::BlockFilter, &self.root);
                let tail = self.append_set.open(&path, u64::from(self.next.offset));
                self.tail.insert(tail.map_err(|fault| match fault.kind() {
                    FaultKind::Damaged | FaultKind::Missing => fault.advise(advice()),
                    _ => fault,
                })?)
            }
        };
        self.append_set.reserve(tail, bytes)?;
        self.append_set.put(tail, &[&head, filter]);
        let pos = self.next;
        self.next.offset += bytes as u32;
        Ok(pos)
    }

    /// Writes a filter's record at its previous place, in a file that may be missing.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn restore(&mut self, pos: FilterPos, block: &BlockHash, filter: &[u8]) -> Result<()> {
        let mut record = block.as_bytes().to_vec();
        put_compact_size(&mut record, filter.len() as u64);
        record.extend_from_slice(filter);
        let disk = &self.append_set.disk;
        let path = file_path(&self.append_set.dir, pos.file);
        let file = match disk.modify(&path) {
            Err(why) if why.is_not_found() => {
                let file = disk.create(&path)?;
                disk.sync_dir(&self.append_set.dir)?;
                file
            }
            file => file?,
        };
        Ok(file.write_at(u64::from(pos.offset), &record)?)
    }

    /// Makes the records that [`FilterFiles::restore`] wrote into a file durable.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn sync_restored(&self, file: u32) -> Result<()> {
        let file = self.append_set.disk.modify(&file_path(&self.append_set.dir, file))?;
        Ok(file.sync()?)
    }

    /// The files up to that of the next filter that are missing or empty; also that file itself, if it is shorter than
    /// its written part.
    ///
    /// # Errors
    ///
    /// An impossible number of files; an I/O error.
    pub fn missing(&self) -> Result<Vec<u32>> {
        if self.next.file >= FILES_MAX {
            let wanted = format!("at most {FILES_MAX} files of filters");
            let advice = rebuild_advice(IndexKind::BlockFilter, &self.root);
            let found = format!("file number {} as the next", self.next.file);
            return Err(Fault::new(FaultKind::Damaged, &self.root, wanted, found, advice));
        }
        let mut missing = Vec::new();
        for file in 0..=self.next.file {
            let used = if file == self.next.file { self.next.offset } else { 1 };
            let known = self.append_set.disk.metadata(&file_path(&self.append_set.dir, file))?;
            let bytes = known.map_or(0, |known| known.len);
            if used > 0 && bytes < u64::from(used) {
                missing.push(file);
            }
        }
        Ok(missing)
    }

    /// Writes out the appended filters, so that they can be read.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; the call can be made again.
    pub fn write_out(&mut self) -> Result<()> {
        match &mut self.tail {
            Some(tail) => self.append_set.write_out(tail),
            None => Ok(()),
        }
    }

    /// Writes out, and returns the flush that makes all appended filters durable.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; the call can be made again.
    pub fn begin_flush(&mut self) -> Result<Flush> {
        self.write_out()?;
        self.append_set.take_flush()
    }
}

/// Reads the filter at `pos`, whose double SHA-256 must be `hash`, and the hash of its block.
///
/// # Errors
///
/// A missing file, a truncated record, another hash; an I/O error.
pub fn read_filter(disk: &dyn Disk, layout: &Layout, pos: FilterPos, hash: &Hash256) -> Result<(BlockHash, Vec<u8>)> {
    let path = file_path(&dir(layout), pos.file);
    let advice = format!("Remove the file {} and run ffwd index, which makes it again", path.display());
    let file = disk.open(&path).map_err(|why| {
        let is_gone = why.is_not_found();
        let fault = Fault::from(why);
        if is_gone { fault.advise("Run ffwd index, which makes a missing file of filters again") } else { fault }
    })?;
    let damaged = |wanted: &str, found: String| {
        Fault::new(FaultKind::Damaged, &path, wanted, found, advice.clone()).at_offset(u64::from(pos.offset))
    };
    let mut head = [0; HEAD_BYTES_MAX];
    let have = file.read_at(u64::from(pos.offset), &mut head)?;
    let mut reader = Reader::new(&head[..have]);
    let parsed = reader.array::<32>().copied().and_then(|block| Ok((block, reader.compact_size()?)));
    let (block, bytes) = parsed.map_err(|why| damaged("the record of a filter", why.to_string()))?;
    if bytes > FILTER_BYTES_MAX {
        return Err(damaged("the record of a filter", format!("one of {bytes} bytes")));
    }
    let mut filter = vec![0; bytes];
    let start = u64::from(pos.offset) + reader.offset() as u64;
    if file.read_at(start, &mut filter)? < bytes {
        return Err(damaged("the record of a filter", "the end of the file".to_owned()));
    }
    let found = ::indexes::filter::hash(&filter);
    if found != *hash {
        return Err(damaged("a filter whose hash is as the index says", format!("one with hash {found}")));
    }
    Ok((BlockHash::from_bytes(block), filter))
}
