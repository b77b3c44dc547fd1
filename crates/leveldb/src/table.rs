//! A table file, for reading: sorted blocks, found by an index and guarded by filters. The layout is in [`crate::format`].
//!
//! The file is mapped. In memory lie somewhat more than 12 bytes for each block ([`crate::index`]), a bit that says whether
//! its checksum was found right, and the filters, from when they are first asked on and as far as there is memory for
//! them: then a look-up reads the disk for data blocks alone. A checksum is looked at when a block is first read, and again
//! by each scan of the table from end to end.
//!
//! A disk that fails under a map ends the process with the signal SIGBUS, as it does LevelDB. Blocks that are not in memory
//! are read through a file beside the map, where there is one (`disk_look_up`).
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

/// Pages of the system are this long, or a multiple of it.
const PAGE_BYTES: usize = 4096;
/// Of what is to be read in one go the system is asked for pieces of this size: of larger ones it may read the start alone.
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

/// The contents of a block, its frame and checksum checked.
fn checked_block(file: &[u8], handle: Handle, kernels: Kernels) -> std::result::Result<&[u8], Damage> {
    checked_contents(framed_block(file, handle)?, handle, kernels)
}

/// The contents of a block that was read with its trailer, checked.
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

/// The index block: as it lies in the file, or a copy in which every entry is a restart.
#[derive(Debug)]
enum IndexBlock {
    InFile(Range<usize>),
    Copy(Vec<u8>),
}

/// The filters of a table.
#[derive(Debug)]
struct Filters {
    frame: FilterFrame,
    /// Where they lie in the file.
    range: Range<usize>,
    /// A copy of them, where there was memory for it when they were first asked: in large pages, for it is read at random.
    copy: OnceLock<Option<Buffer>>,
    /// What copies may have.
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

/// Memory for copies of filters: what all tables of a database have, and what they may have.
#[derive(Debug, Default)]
pub(crate) struct FilterMemory {
    bytes: AtomicU64,
    bytes_max: AtomicU64,
}

impl FilterMemory {
    /// Bytes that copies have.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// From now on copies may have `bytes`; what they have already stays.
    pub(crate) fn set_max(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    /// Takes `bytes`; says no where copies would have too much.
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
    /// A bit for each block whose checksum was right.
    verified: Vec<AtomicU64>,
    /// The file beside its map, opened when it is first asked for; `None` where it cannot be.
    file: OnceLock<Option<Arc<dyn DiskFile>>>,
    kernels: Kernels,
}

impl Table {
    /// Reads footer, index and filter of the file's bytes. Copies of the filters are taken from `memory`.
    ///
    /// # Errors
    /// Whatever in them is not as it must be.
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

    /// Memory that is not the system's page cache, without that of copied filters, in bytes.
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

    /// How many data blocks there are.
    pub(crate) fn block_count(&self) -> usize {
        self.index.block_count()
    }

    /// The `index`th data block's place.
    pub(crate) fn handle(&self, index: usize) -> Handle {
        self.index.handle(index)
    }

    /// A user key at or behind the last of block `index`, and before the first of the next.
    pub(crate) fn block_end(&self, index: usize) -> &[u8] {
        let contents = match &self.index_block {
            IndexBlock::InFile(range) => &self.bytes[range.clone()],
            IndexBlock::Copy(bytes) => bytes,
        };
        let entry = Block::parse(contents).and_then(|block| block.entry(block.restart(index)));
        entry.map_or(&[], |entry| user_key(entry.rest))
    }

    /// The filters' bytes and frame.
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

    /// Whether block `index` may hold a key of this hash; `false` is certain.
    #[inline]
    pub(crate) fn may_hold(&self, index: usize, hash: u32) -> bool {
        self.filters().is_none_or(|filters| filters.may_hold(self.handle(index).offset, hash))
    }

    /// Asks for the place where the filter of block `index` is named.
    #[inline]
    pub(crate) fn prefetch_filter_place(&self, index: usize) {
        if let Some(filters) = self.filters() {
            filters.prefetch_place(self.kernels, self.handle(index).offset);
        }
    }

    /// Asks for the filter of block `index`.
    #[inline]
    pub(crate) fn prefetch_filter(&self, index: usize) {
        if let Some(filters) = self.filters()
            && let Some(filter) = filters.filter(self.handle(index).offset)
        {
            self.kernels.prefetch(filter, 0);
            self.kernels.prefetch(filter, 64);
        }
    }

    /// Asks the disk for block `index`, if it is not in memory; says whether it was not.
    pub(crate) fn ask_for_block(&self, index: usize) -> bool {
        let Some(range) = self.block_range(index).filter(|range| !self.bytes.is_resident(range.clone())) else {
            return false;
        };
        self.bytes.advise_will_need(range);
        true
    }

    /// Waits until block `index` has come from the disk.
    pub(crate) fn wait_for_block(&self, index: usize) {
        if let Some(range) = self.block_range(index) {
            for page in range.clone().step_by(PAGE_BYTES).chain([range.end - 1]) {
                std::hint::black_box(self.bytes[page]);
            }
        }
    }

    /// A block with its trailer, in the file.
    pub(crate) fn block_range(&self, index: usize) -> Option<Range<usize>> {
        let range = self.handle(index).range(&self.bytes)?;
        Some(range.start..range.end + TRAILER_BYTES)
    }

    /// Asks for the end of block `index`, where its restarts are.
    #[inline]
    pub(crate) fn prefetch_restarts(&self, index: usize) {
        let Handle { offset, bytes } = self.handle(index);
        if let Ok(end) = usize::try_from(offset + bytes) {
            self.kernels.prefetch(&self.bytes, end.saturating_sub(4));
            self.kernels.prefetch(&self.bytes, end.saturating_sub(24));
        }
    }

    /// Asks for the first keys that a search of block `index` reads.
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

    /// Begins to look for the block of `key`, and asks for what [`Table::end_search`] reads.
    #[inline]
    pub(crate) fn begin_search(&self, key: &[u8]) -> IndexSearch {
        self.index.begin_search(self.kernels, key)
    }

    /// Which block holds `key`, if any does; in a table without blocks, 0.
    #[inline]
    pub(crate) fn end_search(&self, key: &[u8], search: IndexSearch) -> usize {
        self.index.end_search(search, |block| self.block_end(block) < key)
    }

    /// Both at once.
    pub(crate) fn find_block(&self, key: &[u8]) -> usize {
        self.end_search(key, self.begin_search(key))
    }

    /// The file beside its map; `open` opens it when it is first asked for.
    pub(crate) fn file(&self, open: impl FnOnce(&Path) -> Option<Arc<dyn DiskFile>>) -> Option<&dyn DiskFile> {
        self.file.get_or_init(|| open(&self.path)).as_deref()
    }

    /// Whether the file is open beside its map.
    pub(crate) fn has_open_file(&self) -> bool {
        matches!(self.file.get(), Some(Some(_)))
    }

    /// Data block `index` out of bytes that were read from the file, its trailer included; its checksum is looked at when
    /// the block is first asked for.
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

    /// Data block `index` out of the table's own bytes, checked as [`Table::block_of`] does.
    pub(crate) fn block(&self, index: usize) -> Result<Block<'_>> {
        let bytes = framed_block(&self.bytes, self.handle(index)).map_err(|why| why.of(&self.path))?;
        self.block_of(index, bytes)
    }

    /// The fault of a block whose checksum is right and whose contents are malformed.
    pub(crate) fn not_a_block(&self, index: usize) -> Error {
        let Handle { offset, bytes } = self.handle(index);
        Damage::new(offset, "entries in order", format!("{bytes} malformed bytes")).of(&self.path)
    }
}

/// A checked block of a file that is read from end to end.
pub(crate) fn scanned_block<'a>(table: &Table, file: &'a [u8], index: usize) -> Result<&'a [u8]> {
    checked_block(file, table.handle(index), table.kernels).map_err(|why| why.of(table.path()))
}

/// Tells the system that all of a range is read next: then the disk brings it in large pieces, not page by page.
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

/// Where the filter block's contents lie, if the table has one of the known kind. `will_need` is told before all of it is
/// read.
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
            // A malformed frame counts as no filter, as in LevelDB: look-ups read the blocks.
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
