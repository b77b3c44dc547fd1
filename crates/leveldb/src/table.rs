//! A table file, for reading: sorted blocks, found by an index and guarded by filters. The layout is in [`crate::format`].
//!
//! The file is mapped. In memory lie 12 bytes and a bit for each block: four bytes of its index key
//! (behind what they all share), its place, and whether its checksum was found right. A checksum is
//! looked at when a block is first read, and again by each scan of the table from end to end.
//!
//! A disk that fails under a map ends the process with the signal SIGBUS, as it does LevelDB.
//!
//! Absent on purpose: compression; a cache of blocks (the system has one).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::block::{Block, extend_key};
use crate::bloom::{FILTER_KEY, FilterBlock};
use crate::coding::{Reader, fixed32, fixed64, mask, put_varint, shared_prefix, split_key, user_key};
use crate::error::{Damage, Error, Result};
use crate::format::{FOOTER_BYTES, Handle, MAGIC, TRAILER_BYTES};
use disk::Bytes;

/// The contents of a block, its frame and checksum checked.
fn checked_block(file: &[u8], handle: Handle) -> std::result::Result<&[u8], Damage> {
    let Some(range) = handle.range(file) else {
        let found = format!("{} bytes at {}", handle.bytes, handle.offset);
        let wanted = format!("a block within the file's {} bytes", file.len());
        return Err(Damage::new(handle.offset, wanted, found));
    };
    let trailer = &file[range.end..range.end + TRAILER_BYTES];
    let wanted = fixed32(&trailer[1..]);
    let found = mask(simd::crc32c::crc32c(&file[range.start..=range.end]));
    if wanted != found {
        let wanted = format!("a block of {} bytes with checksum {wanted:08x}", handle.bytes);
        return Err(Damage::new(handle.offset, wanted, format!("checksum {found:08x}")));
    }
    if trailer[0] != 0 {
        let found = format!("compression {}", trailer[0]);
        return Err(Damage::new(handle.offset, "a block without compression", found));
    }
    Ok(&file[range])
}

/// The index block: as it lies in the file, or a copy in which every entry is a restart.
#[derive(Debug)]
enum Index {
    InFile(Range<usize>),
    Copy(Vec<u8>),
}

/// An open table.
#[derive(Debug)]
pub(crate) struct Table {
    path: PathBuf,
    bytes: Bytes,
    index: Index,
    filter: Option<Range<usize>>,
    /// What all index keys but the last share; it stands in front of each `prefixes`.
    common: Box<[u8]>,
    /// Four bytes of each index key behind `common`, as a big-endian number; none for the last
    /// block, which is the answer for all greater keys.
    prefixes: Vec<u32>,
    handles: Vec<u64>,
    /// A bit for each block whose checksum was right.
    verified: Vec<AtomicU64>,
}

impl Table {
    /// Reads footer, index and filter of the file's bytes.
    ///
    /// # Errors
    /// Whatever in them is not as it must be.
    pub(crate) fn open(path: &Path, bytes: Bytes) -> Result<Table> {
        bytes.advise_random();
        Table::read(path, bytes).map_err(|why| why.of(path))
    }

    fn read(path: &Path, bytes: Bytes) -> std::result::Result<Table, Damage> {
        let (metaindex, index) = footer(&bytes)?;
        let filter = find_filter(&bytes, metaindex)?;
        let contents = checked_block(&bytes, index)?;
        let entries =
            IndexEntries::read(contents, &bytes).map_err(|why| Damage { offset: index.offset + why.offset, ..why })?;
        let start = usize::try_from(index.offset).expect("checked with the block");
        let index = match entries.copy {
            Some(copy) => Index::Copy(copy),
            None => Index::InFile(start..start + contents.len()),
        };
        let verified = (0..entries.handles.len().div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Table {
            path: path.to_path_buf(),
            index,
            filter,
            common: entries.common,
            prefixes: entries.prefixes,
            handles: entries.handles,
            verified,
            bytes,
        })
    }

    /// Memory that is not the system's page cache, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let copy = match &self.index {
            Index::Copy(bytes) => bytes.capacity(),
            Index::InFile(_) => 0,
        };
        let owned = if self.bytes.is_mapped() { 0 } else { self.bytes.len() };
        let blocks = self.prefixes.capacity() * 4 + self.handles.capacity() * 8;
        (size_of::<Table>() + copy + owned + blocks + self.verified.len() * 8) as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many data blocks there are.
    pub(crate) fn block_count(&self) -> usize {
        self.handles.len()
    }

    /// The `index`th data block's place.
    pub(crate) fn handle(&self, index: usize) -> Handle {
        Handle::unpack(self.handles[index])
    }

    /// A user key at or behind the last of block `index`, and before the first of the next.
    pub(crate) fn block_end(&self, index: usize) -> &[u8] {
        let contents = match &self.index {
            Index::InFile(range) => &self.bytes[range.clone()],
            Index::Copy(bytes) => bytes,
        };
        let entry = Block::parse(contents).and_then(|block| block.entry(block.restart(index)));
        entry.map_or(&[], |entry| user_key(entry.rest))
    }

    /// The filters' bytes and frame.
    pub(crate) fn filters(&self) -> Option<FilterBlock<'_>> {
        FilterBlock::parse(&self.bytes[self.filter.clone()?])
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
        if let Some((range, filters)) = self.filter.as_ref().zip(self.filters())
            && let Some(place) = filters.place(self.handle(index).offset)
        {
            simd::prefetch::prefetch(&self.bytes, range.start + place);
        }
    }

    /// Asks for the filter of block `index`.
    #[inline]
    pub(crate) fn prefetch_filter(&self, index: usize) {
        if let Some(filters) = self.filters()
            && let Some(filter) = filters.filter(self.handle(index).offset)
        {
            simd::prefetch::prefetch(filter, 0);
            simd::prefetch::prefetch(filter, 64);
        }
    }

    /// Asks the disk for the filter of block `index`.
    pub(crate) fn read_filter_ahead(&self, index: usize) {
        if let Some((range, filters)) = self.filter.as_ref().zip(self.filters())
            && let Some(filter) = filters.range(self.handle(index).offset)
        {
            self.bytes.advise_will_need(range.start + filter.start..range.start + filter.end);
        }
    }

    /// Asks the disk for block `index`.
    pub(crate) fn read_block_ahead(&self, index: usize) {
        if let Some(range) = self.handle(index).range(&self.bytes) {
            self.bytes.advise_will_need(range.start..range.end + TRAILER_BYTES);
        }
    }

    /// Asks for the end of block `index`, where its restarts are.
    #[inline]
    pub(crate) fn prefetch_restarts(&self, index: usize) {
        let Handle { offset, bytes } = self.handle(index);
        if let Ok(end) = usize::try_from(offset + bytes) {
            simd::prefetch::prefetch(&self.bytes, end.saturating_sub(4));
            simd::prefetch::prefetch(&self.bytes, end.saturating_sub(24));
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
                simd::prefetch::prefetch(contents, block.restart(restart));
            }
        }
    }

    /// Which block holds `key`, if any does; in a table without blocks, 0.
    ///
    /// `from` is a block that the answer cannot lie before: where the search for a smaller key ended.
    pub(crate) fn find_block(&self, key: &[u8], from: usize) -> usize {
        let common = key.get(..self.common.len()).unwrap_or(key);
        match common.cmp(&self.common) {
            std::cmp::Ordering::Less => return from,
            std::cmp::Ordering::Greater => return self.prefixes.len(),
            std::cmp::Ordering::Equal => {}
        }
        let wanted = prefix(&key[self.common.len()..]);
        let start = search(&self.prefixes, from, wanted);
        if self.prefixes.get(start).is_none_or(|found| *found != wanted) {
            return start;
        }
        let end = start + self.prefixes[start..].partition_point(|found| *found == wanted);
        let (mut low, mut high) = (start, end);
        while low < high {
            let middle = low.midpoint(high);
            if self.block_end(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The contents of data block `index`, checked when it is first asked for.
    pub(crate) fn block(&self, index: usize) -> Result<Block<'_>> {
        let handle = self.handle(index);
        let (word, bit) = (&self.verified[index / 64], 1 << (index % 64));
        let contents = if word.load(Ordering::Relaxed) & bit == 0 {
            let contents = checked_block(&self.bytes, handle).map_err(|why| why.of(&self.path))?;
            word.fetch_or(bit, Ordering::Relaxed);
            contents
        } else {
            let range = handle.range(&self.bytes).expect("checked when the table was opened");
            &self.bytes[range]
        };
        Block::parse(contents).ok_or_else(|| self.not_a_block(index))
    }

    /// The fault of a block whose checksum is right and whose contents are malformed.
    pub(crate) fn not_a_block(&self, index: usize) -> Error {
        let Handle { offset, bytes } = self.handle(index);
        Damage::new(offset, "entries in order", format!("{bytes} malformed bytes")).of(&self.path)
    }
}

/// A checked block of a file that is read from end to end.
pub(crate) fn scanned_block<'a>(table: &Table, file: &'a [u8], index: usize) -> Result<&'a [u8]> {
    checked_block(file, table.handle(index)).map_err(|why| why.of(table.path()))
}

fn prefix(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let count = rest.len().min(4);
    bytes[..count].copy_from_slice(&rest[..count]);
    u32::from_be_bytes(bytes)
}

/// The first place at or behind `from` that is not below `wanted`. The numbers are most often spread
/// evenly, so a guess is near; from there the steps double.
fn search(numbers: &[u32], from: usize, wanted: u32) -> usize {
    let (Some(first), Some(last)) = (numbers.get(from), numbers.last()) else {
        return from.min(numbers.len());
    };
    if wanted <= *first {
        return from;
    }
    if wanted > *last {
        return numbers.len();
    }
    let span = (numbers.len() - 1 - from) as u64;
    let guess = u64::from(wanted - first) * span / u64::from(last - first);
    let guess = from + usize::try_from(guess).expect("not behind the last");
    let mut step = 4;
    let (mut low, mut high) = (guess, guess);
    if numbers[guess] < wanted {
        while high < numbers.len() && numbers[high] < wanted {
            (low, high) = (high, high + step);
            step *= 2;
        }
    } else {
        while low > from && numbers[low] >= wanted {
            (low, high) = (low.saturating_sub(step).max(from), low);
            step *= 2;
        }
    }
    let high = high.min(numbers.len());
    low + numbers[low..high].partition_point(|number| *number < wanted)
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
    handles.ok_or_else(|| Damage::new(start, "the places of two blocks", "numbers without end"))
}

/// Where the filter block's contents lie, if the table has one of the known kind.
fn find_filter(file: &[u8], metaindex: Handle) -> std::result::Result<Option<Range<usize>>, Damage> {
    let contents = checked_block(file, metaindex)?;
    let broken = || Damage::new(metaindex.offset, "a metaindex block", "malformed bytes");
    let block = Block::parse(contents).ok_or_else(broken)?;
    let (mut at, mut key) = (0, Vec::new());
    while at < block.len() {
        let entry = block.entry(at).ok_or_else(broken)?;
        extend_key(&mut key, &entry).ok_or_else(broken)?;
        if key == FILTER_KEY {
            let handle = Handle::read(&mut Reader(entry.value)).ok_or_else(broken)?;
            let filter = checked_block(file, handle)?;
            // A malformed frame counts as no filter, as in LevelDB: look-ups read the blocks.
            let start = usize::try_from(handle.offset).expect("checked with the block");
            let range = start..start + filter.len();
            return Ok(FilterBlock::parse(filter).map(|_| range));
        }
        at = entry.next;
    }
    Ok(None)
}

/// Bound of an index that shares prefixes and unfolds, in multiples of its own size: far above what a table of
/// sound keys needs, and a limit for one that is made to fill the memory.
const COPY_FACTOR_MAX: usize = 64;

/// What is kept of an index block.
struct IndexEntries {
    common: Box<[u8]>,
    prefixes: Vec<u32>,
    handles: Vec<u64>,
    /// All entries again, each a restart, if they were not so in the file.
    copy: Option<Vec<u8>>,
}

impl IndexEntries {
    /// Reads an index block; the damage's offset counts from its start.
    fn read(contents: &[u8], file: &[u8]) -> std::result::Result<IndexEntries, Damage> {
        let broken = |at| Damage::new(at, "an entry of the index", "malformed bytes");
        let block = Block::parse(contents).ok_or_else(|| broken(0))?;
        let mut handles = Vec::new();
        let mut is_plain = true;
        let (mut first, mut common_bytes, mut with_last) = (Vec::new(), usize::MAX, usize::MAX);
        let (mut at, mut key) = (0, Vec::new());
        while at < block.len() {
            let entry = block.entry(at).ok_or_else(|| broken(at))?;
            extend_key(&mut key, &entry).ok_or_else(|| broken(at))?;
            let (user, _) = split_key(&key).ok_or_else(|| broken(at))?;
            if handles.is_empty() {
                first = user.to_vec();
            }
            common_bytes = with_last;
            with_last = with_last.min(shared_prefix(&first, user));
            is_plain &= entry.shared == 0 && block.restart(handles.len()) == at;
            let handle = Handle::read(&mut Reader(entry.value)).ok_or_else(|| broken(at))?;
            let packed = handle.pack().filter(|_| handle.range(file).is_some());
            handles.push(packed.ok_or_else(|| {
                let Handle { offset, bytes } = handle;
                let wanted = format!("a block within the file's {} bytes", file.len());
                Damage::new(at, wanted, format!("{bytes} bytes at {offset}"))
            })?);
            at = entry.next;
        }
        // An empty index is written with one restart, at 0.
        is_plain &= handles.is_empty() || block.restart_count() == handles.len();
        first.truncate(common_bytes);
        let mut entries = IndexEntries {
            prefixes: Vec::with_capacity(handles.len().saturating_sub(1)),
            handles,
            copy: (!is_plain).then(Vec::new),
            common: first.into(),
        };
        entries.fill(block, contents.len().saturating_mul(COPY_FACTOR_MAX))?;
        Ok(entries)
    }

    /// The second pass, when it is known what all keys share. A copy has at most `copy_bytes_max`.
    fn fill(&mut self, block: Block<'_>, copy_bytes_max: usize) -> std::result::Result<(), Damage> {
        let (mut at, mut key, mut restarts) = (0, Vec::new(), Vec::new());
        while let Some(entry) = block.entry(at).filter(|_| at < block.len()) {
            extend_key(&mut key, &entry).expect("read before");
            if self.prefixes.len() + 1 < self.handles.len() {
                self.prefixes.push(prefix(&user_key(&key)[self.common.len()..]));
            }
            if let Some(copy) = &mut self.copy {
                restarts.push(u32::try_from(copy.len()).unwrap_or(u32::MAX));
                put_varint(copy, 0);
                put_varint(copy, key.len() as u64);
                put_varint(copy, entry.value.len() as u64);
                copy.extend_from_slice(&key);
                copy.extend_from_slice(entry.value);
                if copy.len() > copy_bytes_max {
                    let wanted = format!("an index that unfolds to {copy_bytes_max} bytes at most");
                    return Err(Damage::new(at, wanted, "a longer one"));
                }
            }
            at = entry.next;
        }
        if let Some(copy) = &mut self.copy {
            let count = u32::try_from(restarts.len()).unwrap_or(u32::MAX);
            copy.extend(restarts.into_iter().chain([count]).flat_map(u32::to_le_bytes));
        }
        Ok(())
    }
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
        let mut part = Part::new();
        let key = |number: u16| [&b"key"[..], &number.to_be_bytes(), &[b'.'; 20]].concat();
        for number in 0..600 {
            part.add(&key(number), 1 << 8 | 1, &[9; 40]);
        }
        part.close();
        part.write_piece(&sink).unwrap();
        finish(&sink, &[part]).unwrap();
        let good = sink.file.bytes().unwrap().to_vec();
        let (metaindex, index) = footer(&good).unwrap();
        let filter = find_filter(&good, metaindex).unwrap().unwrap();
        let mut opened = 0;
        for range in [metaindex.range(&good).unwrap(), index.range(&good).unwrap(), filter] {
            for at in range.clone() {
                for value in [0, 0x80, 0xff, good[at] ^ 1] {
                    let mut bad = good.clone();
                    bad[at] = value;
                    let crc = mask(simd::crc32c::crc32c(&bad[range.start..=range.end]));
                    bad[range.end + 1..range.end + 5].copy_from_slice(&crc.to_le_bytes());
                    let Ok(table) = Table::open(Path::new("t"), bad.into()) else {
                        continue;
                    };
                    opened += 1;
                    for number in (0..700).step_by(50) {
                        let key = key(number);
                        let block = table.find_block(&key, 0).min(table.block_count());
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

    #[test]
    fn interpolation_search_equals_binary_search() {
        let even: Vec<u32> = (0..1000).map(|n| n * 4_000_000).collect();
        let skewed: Vec<u32> = (0..32).map(|n| 1 << n).chain([u32::MAX; 40]).collect();
        let low: Vec<u32> = [vec![0; 50], vec![7; 50], vec![u32::MAX - 1]].concat();
        for numbers in [&even[..], &skewed, &low, &[], &[5], &[5, 5, 5]] {
            let wanted = numbers.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]);
            for wanted in wanted.chain([0, 1, u32::MAX / 2, u32::MAX]) {
                let plain = numbers.partition_point(|number| *number < wanted);
                for from in [0, plain / 2, plain] {
                    assert_eq!(search(numbers, from, wanted), plain, "{wanted} from {from}");
                }
            }
        }
    }
}
