//! A table file, for reading: sorted blocks, found by an index and guarded by filters. The layout is in
//! [`crate::format`].
//!
//! The file is mapped. Memory holds a little over 12 bytes for each block ([`crate::index`]), a bit that records
//! whether its checksum was verified, and copies of the filters, made on first use while there is memory for them. With
//! these a look-up reads only data blocks from the disk. A block's checksum is verified on its first read, and again by
//! each full scan of the table.
//!
//! An I/O error in mapped memory ends the process with the signal SIGBUS, as in LevelDB. Blocks that are not in memory
//! are read through a separately opened file, if there is one (`disk_look_up`).
//!
//! Absent on purpose: compression; a cache of blocks (the system has one).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::block::{Block, extend_key};
use crate::bloom::{FILTER_KEY, FilterBlock, FilterFrame};
use crate::coding::{Reader, fixed32, fixed64, mask, user_key};
use crate::error::{Damage, Error, Result};
use crate::format::{FOOTER_BYTES, Handle, MAGIC, TRAILER_BYTES};
use crate::index::{IndexEntries, IndexSearch, TableIndex};
use disk::{Bytes, DiskFile};
use kernels::Kernels;
use sys::memory::Buffer;

/// The system's pages have this size, or a multiple of it.
const PAGE_BYTES: usize = 4096;
/// Long ranges are requested from the system in pieces of this size: of larger ones it may read only the start.
const ASK_BYTES: usize = 128 << 10;

/// A block with its trailer, which must lie within the file.
fn framed_block(file: &[u8], handle: Handle) -> std::result::Result<&[u8], Damage> {
    let range = handle.range(file).ok_or_else(|| {
        let found = format!("{} bytes at {}", handle.bytes, handle.offset);
        let wanted = format!("a block within the file's {} bytes", file.len());
        Damage::new(handle.offset, wanted, found)
    })?;
    Ok(&file[range.start..range.end + TRAILER_BYTES])
}

/// The contents of a block, with frame and checksum verified.
fn checked_block(file: &[u8], handle: Handle, kernels: Kernels) -> std::result::Result<&[u8], Damage> {
    checked_contents(framed_block(file, handle)?, handle, kernels)
}

/// The verified contents of a block that was read with its trailer.
fn checked_contents(block: &[u8], handle: Handle, kernels: Kernels) -> std::result::Result<&[u8], Damage> {
    let (contents, trailer) = block.split_at(block.len() - TRAILER_BYTES);
    let wanted = fixed32(&trailer[1..]);
    let found = mask(kernels.crc32c(&block[..=contents.len()]));
    if wanted != found {
        let wanted = format!("a block of {} bytes with checksum {wanted:08x}", handle.bytes);
        return Err(Damage::new(handle.offset, wanted, format!("checksum {found:08x}")));
    }
    if trailer[0] != 0 {
        let found = format!("compression {}", trailer[0]);
        return Err(Damage::new(handle.offset, "a block without compression", found));
    }
    Ok(contents)
}

/// The index block: as stored in the file, or a copy in which every entry is a restart.
#[derive(Debug)]
enum IndexBlock {
    InFile(Range<usize>),
    Copy(Vec<u8>),
}

/// The filters of a table.
#[derive(Debug)]
struct Filters {
    frame: FilterFrame,
    /// Their range in the file.
    range: Range<usize>,
    /// A copy, made on first use if there was memory for it; in large pages, because it is read at random.
    copy: OnceLock<Option<Buffer>>,
    /// The memory limit for copies.
    memory: Option<Arc<FilterMemory>>,
}

impl Filters {
    fn copy(&self, file: &Bytes, kernels: Kernels) -> Option<Buffer> {
        let memory = self.memory.as_ref().filter(|_| file.is_mapped())?;
        if !memory.take(whole_pages(self.range.len())) {
            return None;
        }
        will_need(file, self.range.clone());
        let mut copy = kernels.cut(self.range.len());
        copy.copy_from_slice(&file[self.range.clone()]);
        Some(copy)
    }
}

impl Drop for Filters {
    fn drop(&mut self) {
        if let (Some(Some(copy)), Some(memory)) = (self.copy.get(), &self.memory) {
            memory.give_back(whole_pages(copy.len()));
        }
    }
}

fn whole_pages(bytes: usize) -> u64 {
    bytes.next_multiple_of(PAGE_BYTES) as u64
}

/// Memory for copies of filters: used by all tables of a database, and the limit.
#[derive(Debug, Default)]
pub(crate) struct FilterMemory {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

impl FilterMemory {
    /// Bytes used by copies.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sets the limit to `bytes`; existing copies stay.
    pub(crate) fn set_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Reserves `bytes`; returns false if that would exceed the limit.
    fn take(&self, bytes: u64) -> bool {
        let bytes_max = self.bytes_max.load(Ordering::Relaxed);
        let more = |have: u64| have.checked_add(bytes).filter(|sum| *sum <= bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An open table.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    bytes: Bytes,
    index_block: IndexBlock,
    index: TableIndex,
    filters: Option<Filters>,
    /// A bit for each block whose checksum is verified.
    verified: Vec<AtomicU64>,
    /// The separately opened file, opened on first use; `None` if it cannot be opened.
    file: OnceLock<Option<Arc<dyn DiskFile>>>,
    kernels: Kernels,
}

impl Table {
    /// Reads footer, index and filter of the file's bytes. Copies of the filters are charged to `memory`.
    ///
    /// # Errors
    /// Any damage in them.
    pub(crate) fn open(
        path: &Path,
        bytes: Bytes,
        memory: Option<&Arc<FilterMemory>>,
        kernels: Kernels,
    ) -> Result<Table> {
        bytes.advise_random();
        Table::read(path, bytes, memory, kernels).map_err(|why| why.of(path))
    }

    fn read(
        path: &Path,
        bytes: Bytes,
        memory: Option<&Arc<FilterMemory>>,
        kernels: Kernels,
    ) -> std::result::Result<Table, Damage> {
        let (metaindex, index) = footer(&bytes)?;
        index.range(&bytes).into_iter().for_each(|range| will_need(&bytes, range));
        let filters = find_filter(&bytes, metaindex, kernels, |range| will_need(&bytes, range))?;
        let filters =
            filters.map(|(range, frame)| Filters { frame, range, copy: OnceLock::new(), memory: memory.cloned() });
        let contents = checked_block(&bytes, index, kernels)?;
        let entries =
            IndexEntries::read(contents, &bytes).map_err(|why| Damage { offset: index.offset + why.offset, ..why })?;
        let start = usize::try_from(index.offset).expect("checked with the block");
        let index_block = match entries.copy {
            Some(copy) => IndexBlock::Copy(copy),
            None => IndexBlock::InFile(start..start + contents.len()),
        };
        let verified = (0..entries.index.block_count().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Table {
            path: path.to_path_buf(),
            index_block,
            index: entries.index,
            filters,
            verified,
            bytes,
            file: OnceLock::new(),
            kernels,
        })
    }

    /// Memory besides the page cache and the copied filters, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let copy = match &self.index_block {
            IndexBlock::Copy(bytes) => bytes.capacity(),
            IndexBlock::InFile(_) => 0,
        };
        let owned = if self.bytes.is_mapped() { 0 } else { self.bytes.len() };
        (size_of::<Table>() + copy + owned + self.index.memory_bytes() + self.verified.len() * 8) as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Kernels for checksums, prefetches, and the memory of filters.
    pub(crate) fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Number of data blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.index.block_count()
    }

    /// The handle of data block `index`.
    pub(crate) fn handle(&self, index: usize) -> Handle {
        self.index.handle(index)
    }

    /// A user key that is at or above the last of block `index`, and below the first of the next block.
    pub(crate) fn block_end(&self, index: usize) -> &[u8] {
        let contents = match &self.index_block {
            IndexBlock::InFile(range) => &self.bytes[range.clone()],
            IndexBlock::Copy(bytes) => bytes,
        };
        let entry = Block::parse(contents).and_then(|block| block.entry(block.restart(index)));
        entry.map_or(&[], |entry| user_key(entry.rest))
    }

    /// The bytes and frame of the filters.
    #[inline]
    fn filters(&self) -> Option<FilterBlock<'_>> {
        let filters = self.filters.as_ref()?;
        let copy = filters.copy.get_or_init(|| filters.copy(&self.bytes, self.kernels));
        let contents = copy.as_deref().unwrap_or_else(|| &self.bytes[filters.range.clone()]);
        Some(FilterBlock::new(contents, filters.frame))
    }

    /// The whole file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the file's bytes are in this process's own memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        !self.bytes.is_mapped()
    }

    /// Whether block `index` may contain a key with this hash; `false` is certain.
    #[inline]
    pub(crate) fn may_hold(&self, index: usize, hash: u32) -> bool {
        self.filters().is_none_or(|filters| filters.may_hold(self.handle(index).offset, hash))
    }

    /// Prefetches the start entry of the filter of block `index`.
    #[inline]
    pub(crate) fn prefetch_filter_place(&self, index: usize) {
        if let Some(filters) = self.filters() {
            filters.prefetch_place(self.kernels, self.handle(index).offset);
        }
    }

    /// Prefetches the filter of block `index`.
    #[inline]
    pub(crate) fn prefetch_filter(&self, index: usize) {
        if let Some(filters) = self.filters()
            && let Some(filter) = filters.filter(self.handle(index).offset)
        {
            self.kernels.prefetch(filter, 0);
            self.kernels.prefetch(filter, 64);
        }
    }

    /// Requests block `index` from the disk if it is not in memory; returns whether it was missing.
    pub(crate) fn ask_for_block(&self, index: usize) -> bool {
        let Some(range) = self.block_range(index).filter(|range| !self.bytes.is_resident(range.clone())) else {
            return false;
        };
        self.bytes.advise_will_need(range);
        true
    }

    /// Waits until block `index` has been read from the disk.
    pub(crate) fn wait_for_block(&self, index: usize) {
        if let Some(range) = self.block_range(index) {
            for page in range.clone().step_by(PAGE_BYTES).chain([range.end - 1]) {
                std::hint::black_box(self.bytes[page]);
            }
        }
    }

    /// The range of a block with its trailer in the file.
    pub(crate) fn block_range(&self, index: usize) -> Option<Range<usize>> {
        let range = self.handle(index).range(&self.bytes)?;
        Some(range.start..range.end + TRAILER_BYTES)
    }

    /// Prefetches the end of block `index`, where its restarts are.
    #[inline]
    pub(crate) fn prefetch_restarts(&self, index: usize) {
        let Handle { offset, bytes } = self.handle(index);
        if let Ok(end) = usize::try_from(offset + bytes) {
            self.kernels.prefetch(&self.bytes, end.saturating_sub(4));
            self.kernels.prefetch(&self.bytes, end.saturating_sub(24));
        }
    }

    /// Prefetches the first keys that a search of block `index` reads.
    #[inline]
    pub(crate) fn prefetch_entries(&self, index: usize) {
        let Some(range) = self.handle(index).range(&self.bytes) else {
            return;
        };
        let contents = &self.bytes[range];
        if let Some(block) = Block::parse(contents) {
            for restart in 0..block.restart_count().min(4) {
                self.kernels.prefetch(contents, block.restart(restart));
            }
        }
    }

    /// Begins to search the block of `key`, and prefetches the data that [`Table::end_search`] reads.
    #[inline]
    pub(crate) fn begin_search(&self, key: &[u8]) -> IndexSearch {
        self.index.begin_search(self.kernels, key)
    }

    /// The block that contains `key`, if any does; 0 in a table without blocks.
    #[inline]
    pub(crate) fn end_search(&self, key: &[u8], search: IndexSearch) -> usize {
        self.index.end_search(search, |block| self.block_end(block) < key)
    }

    /// [`Table::begin_search`] and [`Table::end_search`] in one call.
    pub(crate) fn find_block(&self, key: &[u8]) -> usize {
        self.end_search(key, self.begin_search(key))
    }

    /// The separately opened file; `open` opens it on first use.
    pub(crate) fn file(&self, open: impl FnOnce(&Path) -> Option<Arc<dyn DiskFile>>) -> Option<&dyn DiskFile> {
        self.file.get_or_init(|| open(&self.path)).as_deref()
    }

    /// Whether the file is open in addition to its map.
    pub(crate) fn has_open_file(&self) -> bool {
        matches!(self.file.get(), Some(Some(_)))
    }

    /// Data block `index` in bytes read from the file, including its trailer; its checksum is verified on first use.
    pub(crate) fn block_of<'b>(&self, index: usize, bytes: &'b [u8]) -> Result<Block<'b>> {
        let word = &self.verified[index / 64];
        let bit = 1 << (index % 64);
        let contents = if word.load(Ordering::Relaxed) & bit == 0 {
            let contents =
                checked_contents(bytes, self.handle(index), self.kernels).map_err(|why| why.of(&self.path))?;
            word.fetch_or(bit, Ordering::Relaxed);
            contents
        } else {
            &bytes[..bytes.len() - TRAILER_BYTES]
        };
        Block::parse(contents).ok_or_else(|| self.not_a_block(index))
    }

    /// Data block `index` in the table's own bytes, verified as in [`Table::block_of`].
    pub(crate) fn block(&self, index: usize) -> Result<Block<'_>> {
        let bytes = framed_block(&self.bytes, self.handle(index)).map_err(|why| why.of(&self.path))?;
        self.block_of(index, bytes)
    }

    /// The fault of a malformed block with a valid checksum.
    pub(crate) fn not_a_block(&self, index: usize) -> Error {
        let Handle { offset, bytes } = self.handle(index);
        Damage::new(offset, "entries in order", format!("{bytes} malformed bytes")).of(&self.path)
    }
}

/// A verified block of a file that is scanned in full.
pub(crate) fn scanned_block<'a>(table: &Table, file: &'a [u8], index: usize) -> Result<&'a [u8]> {
    checked_block(file, table.handle(index), table.kernels).map_err(|why| why.of(table.path()))
}

/// Tells the system that all of a range is read next: then the disk reads it in large pieces, not page by page.
fn will_need(file: &Bytes, range: Range<usize>) {
    range.clone().step_by(ASK_BYTES).for_each(|at| file.advise_will_need(at..range.end.min(at + ASK_BYTES)));
}

fn footer(file: &[u8]) -> std::result::Result<(Handle, Handle), Damage> {
    let Some(start) = file.len().checked_sub(FOOTER_BYTES) else {
        let found = format!("a file of {} bytes", file.len());
        return Err(Damage::new(0, format!("a table of at least {FOOTER_BYTES} bytes"), found));
    };
    let footer = &file[start..];
    let magic = fixed64(&footer[FOOTER_BYTES - 8..]);
    if magic != MAGIC {
        let wanted = format!("a table's magic {MAGIC:016x}");
        return Err(Damage::new(file.len() - 8, wanted, format!("{magic:016x}")));
    }
    let mut reader = Reader(&footer[..FOOTER_BYTES - 8]);
    let handles = Handle::read(&mut reader).zip(Handle::read(&mut reader));
    handles.ok_or_else(|| Damage::new(start, "the places of two blocks", "an endless sequence of numbers"))
}

/// The place of the filter block's contents, if the table has a filter of the known kind. `will_need` is called before
/// all of it is read.
fn find_filter(
    file: &[u8],
    metaindex: Handle,
    kernels: Kernels,
    will_need: impl Fn(Range<usize>),
) -> std::result::Result<Option<(Range<usize>, FilterFrame)>, Damage> {
    let contents = checked_block(file, metaindex, kernels)?;
    let broken = || Damage::new(metaindex.offset, "a metaindex block", "malformed bytes");
    let block = Block::parse(contents).ok_or_else(broken)?;
    let mut at = 0;
    let mut key = Vec::new();
    while at < block.len() {
        let entry = block.entry(at).ok_or_else(broken)?;
        extend_key(&mut key, &entry).ok_or_else(broken)?;
        if key == FILTER_KEY {
            let handle = Handle::read(&mut Reader(entry.value)).ok_or_else(broken)?;
            handle.range(file).into_iter().for_each(&will_need);
            let filter = checked_block(file, handle, kernels)?;
            // As in LevelDB, a malformed frame counts as a missing filter: look-ups read the blocks.
            let start = usize::try_from(handle.offset).expect("checked with the block");
            let range = start..start + filter.len();
            return Ok(FilterFrame::parse(filter).map(|frame| (range, frame)));
        }
        at = entry.next;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::hash;
    use crate::build::{Part, Sink, finish};
    use disk::{Disk, SimDisk};

    /// Index, metaindex and filter whose checksums are right and whose contents are anything.
    #[test]
    fn table_with_a_false_index_gives_errors_or_answers_never_a_panic() {
        let disk = SimDisk::new(0);
        let sink = Sink::new(disk.create(Path::new("t")).unwrap(), false);
        let mut part = Part::new(true, Kernels::AUTO);
        let key = |number: u16| [&b"key"[..], &number.to_be_bytes(), &[b'.'; 20]].concat();
        for number in 0..600 {
            part.put(&key(number), 1 << 8 | 1, &[9; 40]);
        }
        part.close();
        part.write_piece(&sink).unwrap();
        finish(&sink, &[part]).unwrap();
        let good = sink.file.bytes().unwrap().to_vec();
        let (metaindex, index) = footer(&good).unwrap();
        let filter = find_filter(&good, metaindex, Kernels::AUTO, |_| {}).unwrap().unwrap().0;
        let mut opened = 0;
        for range in [metaindex.range(&good).unwrap(), index.range(&good).unwrap(), filter] {
            for at in range.clone() {
                for value in [0, 0x80, 0xff, good[at] ^ 1] {
                    let mut bad = good.clone();
                    bad[at] = value;
                    let crc = mask(kernels::crc32c::crc32c(&bad[range.start..=range.end]));
                    bad[range.end + 1..range.end + 5].copy_from_slice(&crc.to_le_bytes());
                    let Ok(table) = Table::open(Path::new("t"), bad.into(), None, Kernels::AUTO) else {
                        continue;
                    };
                    opened += 1;
                    for number in (0..700).step_by(50) {
                        let key = key(number);
                        let block = table.find_block(&key).min(table.block_count());
                        if block < table.block_count() && table.may_hold(block, hash(&key)) {
                            table.prefetch_filter(block);
                            table.prefetch_restarts(block);
                            table.prefetch_entries(block);
                            let _ = table.block(block).map(|block| block.find(&key));
                        }
                    }
                }
            }
        }
        assert!(opened > 100, "most of the filter is free: {opened}");
    }
}
