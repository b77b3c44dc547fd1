//! Building tables: records in key order become blocks, filters and an index, as LevelDB reads them.
//!
//! A table with filters serves look-ups of single keys. Each of its blocks lies within one page of the file, so that a
//! look-up reads one page: a block ends before a record that would cross the page's end, and zeros pad it. In a table
//! without filters blocks end at 4,096 bytes and follow each other, as LevelDB writes them.
//!
//! A [`Part`] takes the records of one range of keys and writes blocks in large pieces. [`finish`] appends filters,
//! index and footer to the blocks of one part, or of several parts that share a file. In a shared file each piece
//! begins at a page, so that no two parts share a page or a filter. Blocks are found by their handles, so their order
//! in the file is free.
//!
//! Absent on purpose: fsync, names, numbers (`run`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::bloom::{FILTER_BASE_LOG2, FILTER_KEY, hash, put_filter};
use crate::coding::{KIND_VALUE, SEQUENCE_MAX, TAG_BYTES, mask, put_varint, shared_prefix};
use crate::format::{BLOCK_BYTES, FOOTER_BYTES, Handle, MAGIC, TRAILER_BYTES};
use disk::{DiskFile, DiskResult};
use kernels::Kernels;

/// Entries from one restart to the next.
const RESTART_INTERVAL: usize = 16;
/// Bytes of a record in a block besides key and value if all lengths are below 128: the three lengths, the tag, a
/// restart.
const RECORD_OVERHEAD: usize = 3 + TAG_BYTES + 4;
/// Maximum number of bytes that longer lengths add.
const LENGTHS_MAX: usize = 12;
/// Page size of a file. Source: the page cache of Linux on x86-64; other pages are a multiple of it.
const PAGE_BYTES: usize = 4096;
const _: () = assert!(PAGE_BYTES.is_multiple_of(1 << FILTER_BASE_LOG2));
/// Blocks are written in pieces of about this many bytes.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// A file that receives the blocks of one part or several.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) file: Arc<dyn DiskFile>,
    /// Offset of the next piece.
    end: AtomicU64,
    is_shared: bool,
}

impl Sink {
    pub(crate) fn new(file: Arc<dyn DiskFile>, is_shared: bool) -> Sink {
        Sink { file, end: AtomicU64::new(0), is_shared }
    }

    /// Bytes allocated so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> u64 {
        let taken = if self.is_shared { bytes.next_multiple_of(PAGE_BYTES as u64) } else { bytes };
        self.end.fetch_add(taken, Ordering::Relaxed)
    }
}

/// The index entry of one block.
#[derive(Debug)]
struct IndexEntry {
    /// End of its key in `Part::index_keys`; the last block's key follows when the next key is known.
    key_end: usize,
    /// End of its filter in `Part::filters`.
    filter_end: usize,
    /// Place in the file; relative to the piece's start until the piece is written.
    handle: Handle,
}

/// Records of one range of keys, on their way into a file.
#[derive(Debug)]
pub(crate) struct Part {
    /// Blocks not yet written; the last one may be open.
    piece: Vec<u8>,
    /// Offset of the open block in the piece.
    block_start: usize,
    restarts: Vec<u32>,
    /// Entries since the last restart.
    since_restart: usize,
    /// Hashes of the open block's keys.
    hashes: Vec<u32>,
    /// The last user key, and its tag.
    last_key: Vec<u8>,
    last_tag: u64,
    first_key: Vec<u8>,
    first_tag: u64,
    record_count: u64,
    index: Vec<IndexEntry>,
    /// Number of written blocks of `index`.
    written_count: usize,
    index_keys: Vec<u8>,
    filters: Vec<u8>,
    has_filters: bool,
    kernels: Kernels,
}

impl Part {
    /// An empty part; `has_filters` decides whether its table gets filters.
    pub(crate) fn new(has_filters: bool, kernels: Kernels) -> Part {
        Part {
            piece: Vec::with_capacity(PIECE_BYTES + 4 * BLOCK_BYTES),
            block_start: 0,
            restarts: vec![0],
            since_restart: 0,
            hashes: Vec::new(),
            last_key: Vec::new(),
            last_tag: 0,
            first_key: Vec::new(),
            first_tag: 0,
            record_count: 0,
            index: Vec::new(),
            written_count: 0,
            index_keys: Vec::new(),
            filters: Vec::new(),
            has_filters,
            kernels,
        }
    }

    pub(crate) fn record_count(&self) -> u64 {
        self.record_count
    }

    pub(crate) fn first_key(&self) -> &[u8] {
        &self.first_key
    }

    pub(crate) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Appends a record; call [`Part::make_room`] before. The keys of a part rise strictly.
    ///
    /// # Panics
    /// If `key` is not above the previous one: no table could hold it.
    pub(crate) fn add(&mut self, key: &[u8], tag: u64, value: &[u8]) {
        debug_assert!(self.has_room(key.len(), value.len()), "room is made for a record before it is added");
        let mut shared = shared_prefix(&self.last_key, key);
        if self.record_count == 0 {
            self.first_key.extend_from_slice(key);
            self.first_tag = tag;
        } else {
            let is_behind = match (key.get(shared), self.last_key.get(shared)) {
                (Some(here), Some(before)) => here > before,
                (Some(_), None) => true,
                (None, _) => false,
            };
            assert!(is_behind, "the keys of a run rise: {key:02x?} after {:02x?}", self.last_key);
        }
        if self.is_between_blocks()
            && let Some(before) = self.index.last_mut()
        {
            put_separator(&mut self.index_keys, &self.last_key, self.last_tag, Some(key));
            before.key_end = self.index_keys.len();
        }
        if self.since_restart == RESTART_INTERVAL {
            let at = self.piece.len() - self.block_start;
            self.restarts.push(u32::try_from(at).expect("a block is small"));
            self.since_restart = 0;
        }
        if self.since_restart == 0 {
            shared = 0;
        }
        self.since_restart += 1;
        let rest = key.len() - shared;
        self.put_lengths(shared, rest + TAG_BYTES, value.len());
        self.piece.extend_from_slice(&key[shared..]);
        self.piece.extend_from_slice(&tag.to_le_bytes());
        self.piece.extend_from_slice(value);
        if self.has_filters {
            self.hashes.push(hash(key));
        }
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(&key[shared..]);
        self.last_tag = tag;
        self.record_count += 1;
        if !self.has_filters && self.block_bytes() >= BLOCK_BYTES {
            self.close_block();
        }
    }

    /// Makes room and appends a record, as [`Part::add`] does.
    pub(crate) fn put(&mut self, key: &[u8], tag: u64, value: &[u8]) {
        self.make_room(key.len(), value.len());
        self.add(key, tag, value);
    }

    /// Whether the open block stays within its page with one more record of these lengths. If not, the record begins a
    /// block.
    #[inline]
    fn has_room(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let are_short = (key_bytes + TAG_BYTES) | value_bytes < 0x80;
        let overhead = if are_short { RECORD_OVERHEAD } else { RECORD_OVERHEAD + LENGTHS_MAX };
        let taken = self.block_bytes() + TRAILER_BYTES + key_bytes + value_bytes + overhead;
        !self.has_filters || taken <= PAGE_BYTES || self.is_between_blocks()
    }

    /// Closes the open block if a record of these lengths would cross the end of its page.
    #[inline]
    pub(crate) fn make_room(&mut self, key_bytes: usize, value_bytes: usize) {
        if !self.has_room(key_bytes, value_bytes) {
            self.close_block();
            self.piece.resize(self.piece.len().next_multiple_of(PAGE_BYTES), 0);
            self.block_start = self.piece.len();
        }
    }

    /// Bytes of the open block if it were closed now, without its trailer.
    #[inline]
    fn block_bytes(&self) -> usize {
        self.piece.len() - self.block_start + self.restarts.len() * 4 + 4
    }

    #[inline]
    fn put_lengths(&mut self, shared: usize, rest: usize, value: usize) {
        if (shared | rest | value) < 0x80 {
            let bytes = [shared, rest, value].map(|length| length.to_le_bytes()[0]);
            self.piece.extend_from_slice(&bytes);
        } else {
            for length in [shared, rest, value] {
                put_varint(&mut self.piece, length as u64);
            }
        }
    }

    /// Whether a block was just closed: at this point a table may be ended or a piece written.
    pub(crate) fn is_between_blocks(&self) -> bool {
        self.piece.len() == self.block_start
    }

    /// Bytes not yet written.
    pub(crate) fn piece_bytes(&self) -> usize {
        self.piece.len()
    }

    fn close_block(&mut self) {
        self.piece.extend(self.restarts.iter().flat_map(|at| at.to_le_bytes()));
        let count = u32::try_from(self.restarts.len()).expect("a block is small");
        self.piece.extend_from_slice(&count.to_le_bytes());
        let handle = Handle { offset: self.block_start as u64, bytes: (self.piece.len() - self.block_start) as u64 };
        put_trailer(self.kernels, &mut self.piece, self.block_start);
        self.block_start = self.piece.len();
        self.restarts.truncate(1);
        self.since_restart = 0;
        if self.has_filters {
            put_filter(&mut self.filters, &self.hashes);
            self.hashes.clear();
        }
        let key_end = self.index_keys.len();
        let filter_end = self.filters.len();
        self.index.push(IndexEntry { key_end, filter_end, handle });
    }

    /// Closes the open block, if there is one.
    pub(crate) fn close(&mut self) {
        if !self.is_between_blocks() {
            self.close_block();
        }
    }

    /// Writes the closed blocks.
    pub(crate) fn write_piece(&mut self, sink: &Sink) -> DiskResult<()> {
        let place = sink.take(self.block_start as u64);
        sink.file.write_at(place, &self.piece[..self.block_start])?;
        for entry in &mut self.index[self.written_count..] {
            entry.handle.offset += place;
        }
        self.written_count = self.index.len();
        self.piece.drain(..self.block_start);
        self.block_start = 0;
        Ok(())
    }

    /// Memory that the part holds, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.piece.capacity()
            + self.index.capacity() * size_of::<IndexEntry>()
            + self.index_keys.capacity()
            + self.filters.capacity()
    }

    /// The blocks in key order: index key (empty for the last one), filter, handle.
    fn blocks(&self) -> impl Iterator<Item = (&[u8], &[u8], Handle)> {
        let mut key_start = 0;
        let mut filter_start = 0;
        self.index.iter().map(move |entry| {
            let key = &self.index_keys[key_start..entry.key_end];
            let filter = &self.filters[filter_start..entry.filter_end];
            (key_start, filter_start) = (entry.key_end, entry.filter_end);
            (key, filter, entry.handle)
        })
    }
}

/// Appends the index key of a block whose last record is `last` with `tag`: a short internal key that is at or above it
/// and below every record of the user key `next` (`None`: there is no next block).
fn put_separator(out: &mut Vec<u8>, last: &[u8], tag: u64, next: Option<&[u8]>) {
    const GREATEST_TAG: u64 = SEQUENCE_MAX << 8 | KIND_VALUE;
    let (at, limit) = match next {
        Some(next) => {
            let at = shared_prefix(last, next);
            (at, next.get(at).copied().unwrap_or(0))
        }
        None => (last.iter().take_while(|byte| **byte == 0xff).count(), 0xff),
    };
    let short = last.get(at).filter(|byte| {
        let is_below = if next.is_some() { **byte < limit.saturating_sub(1) } else { true };
        is_below && at + 1 < last.len()
    });
    match short {
        Some(byte) => {
            out.extend_from_slice(&last[..at]);
            out.push(byte + 1);
            out.extend_from_slice(&GREATEST_TAG.to_le_bytes());
        }
        None => {
            out.extend_from_slice(last);
            out.extend_from_slice(&tag.to_le_bytes());
        }
    }
}

/// A whole table's first and last internal key, and its bytes.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) bytes: u64,
    pub(crate) smallest: Box<[u8]>,
    pub(crate) largest: Box<[u8]>,
}

/// Appends filters, index and footer to the blocks of `parts`, which come in key order, are closed and written, and
/// have at least one record each.
pub(crate) fn finish(sink: &Sink, parts: &[Part]) -> DiskResult<Finished> {
    let start = sink.bytes();
    let tail = tail(start, parts);
    sink.file.write_at(start, &tail)?;
    let internal = |key: &[u8], tag: u64| [key, &tag.to_le_bytes()[..]].concat().into();
    let (first, last) = parts.first().zip(parts.last()).expect("a table has records");
    Ok(Finished {
        bytes: start + tail.len() as u64,
        smallest: internal(&first.first_key, first.first_tag),
        largest: internal(&last.last_key, last.last_tag),
    })
}

/// The bytes after the data blocks, which end at `start`.
fn tail(start: u64, parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut value = Vec::new();
    let has_filters = parts.iter().all(|part| part.has_filters);
    let kernels = parts.first().map_or(Kernels::AUTO, |part| part.kernels);
    if has_filters {
        put_filters(&mut out, start, parts);
        let filter = Handle { offset: start, bytes: out.len() as u64 };
        put_trailer(kernels, &mut out, 0);
        filter.put(&mut value);
    }
    let mut metaindex = BlockOfRestarts::begin(kernels, &mut out);
    if has_filters {
        metaindex.add(FILTER_KEY, &value);
    }
    let metaindex = metaindex.end(start);

    let mut index = BlockOfRestarts::begin(kernels, &mut out);
    for (number, part) in parts.iter().enumerate() {
        let next = parts.get(number + 1).map(|next| &next.first_key[..]);
        let mut last = Vec::new();
        put_separator(&mut last, &part.last_key, part.last_tag, next);
        for (key, _, handle) in part.blocks() {
            value.clear();
            handle.put(&mut value);
            index.add(if key.is_empty() { &last } else { key }, &value);
        }
    }
    let index = index.end(start);

    let footer_start = out.len();
    metaindex.put(&mut out);
    index.put(&mut out);
    out.resize(footer_start + FOOTER_BYTES - 8, 0);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out
}

/// The filter block: a filter for each 2 KiB of data, empty if no block begins there.
fn put_filters(out: &mut Vec<u8>, data_end: u64, parts: &[Part]) {
    let mut blocks: Vec<(u64, &[u8])> =
        parts.iter().flat_map(|part| part.blocks().map(|(_, filter, handle)| (handle.offset, filter))).collect();
    blocks.sort_by_key(|(offset, _)| *offset);
    let mut starts = Vec::new();
    for (offset, filter) in blocks {
        starts.resize(index_of(offset), out.len());
        starts.push(out.len());
        out.extend_from_slice(filter);
    }
    starts.resize(starts.len().max(index_of(data_end)), out.len());
    let starts_at = out.len();
    for start in starts.into_iter().chain([starts_at]) {
        let start = u32::try_from(start).expect("filters of one table are below 4 GiB");
        out.extend_from_slice(&start.to_le_bytes());
    }
    out.push(FILTER_BASE_LOG2);
}

/// The number of the filter that covers a block at `offset`.
fn index_of(offset: u64) -> usize {
    usize::try_from(offset >> FILTER_BASE_LOG2).expect("a table fits into the address space")
}

/// Appends kind and checksum to the block that begins at offset `start` of `out`.
fn put_trailer(kernels: Kernels, out: &mut Vec<u8>, start: usize) {
    out.push(0);
    let crc = mask(kernels.crc32c(&out[start..]));
    out.extend_from_slice(&crc.to_le_bytes());
}

/// A block that shares no prefixes: every entry is a restart.
struct BlockOfRestarts<'a> {
    kernels: Kernels,
    out: &'a mut Vec<u8>,
    start: usize,
    restarts: Vec<u32>,
}

impl<'a> BlockOfRestarts<'a> {
    fn begin(kernels: Kernels, out: &'a mut Vec<u8>) -> BlockOfRestarts<'a> {
        BlockOfRestarts { kernels, start: out.len(), out, restarts: Vec::new() }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        let at = self.out.len() - self.start;
        self.restarts.push(u32::try_from(at).expect("an index is below 4 GiB"));
        for length in [0, key.len(), value.len()] {
            put_varint(self.out, length as u64);
        }
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(value);
    }

    /// Ends the block; `base` is the offset of `out` in the file.
    fn end(mut self, base: u64) -> Handle {
        if self.restarts.is_empty() {
            self.restarts.push(0);
        }
        let count = u32::try_from(self.restarts.len()).expect("an index is below 4 GiB");
        self.out.extend(self.restarts.iter().chain([&count]).flat_map(|at| at.to_le_bytes()));
        let offset = base + self.start as u64;
        let handle = Handle { offset, bytes: (self.out.len() - self.start) as u64 };
        put_trailer(self.kernels, self.out, self.start);
        handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Found;
    use crate::coding::{KIND_DELETED, KIND_VALUE, split_key};
    use crate::error::Error;
    use crate::table::Table;
    use disk::{Disk, SimDisk};
    use std::path::Path;

    fn key(number: u32) -> [u8; 6] {
        let [a, b, c, d] = number.to_be_bytes();
        [b'k', a, b, c, d, b'.']
    }

    fn value(number: u32) -> Vec<u8> {
        vec![number.to_le_bytes()[0]; number as usize % 50]
    }

    /// A table of the even numbers below `2 * count`; each third is a tombstone.
    fn table(count: u32, part_count: u32) -> Vec<u8> {
        table_with(count, part_count, true)
    }

    fn table_with(count: u32, part_count: u32, has_filters: bool) -> Vec<u8> {
        let disk = SimDisk::new(0);
        let file = disk.create(Path::new("t")).unwrap();
        let sink = Sink::new(file.clone(), part_count > 1);
        let per_part = count.div_ceil(part_count);
        let parts: Vec<Part> = (0..part_count)
            .map(|index| {
                let mut part = Part::new(has_filters, Kernels::AUTO);
                for number in index * per_part..count.min((index + 1) * per_part) {
                    let kind = if number % 3 == 0 { KIND_DELETED } else { KIND_VALUE };
                    part.put(&key(number * 2), 7 << 8 | kind, &value(number));
                    if number % 1000 == 999 {
                        part.write_piece(&sink).unwrap();
                    }
                }
                part.close();
                part.write_piece(&sink).unwrap();
                part
            })
            .collect();
        let finished = finish(&sink, &parts).unwrap();
        assert_eq!(finished.bytes, file.len().unwrap());
        file.bytes().unwrap().to_vec()
    }

    fn check(table: &Table, count: u32) -> Result<(), Error> {
        for number in 0..count * 2 {
            let block = table.find_block(&key(number));
            let found = if table.may_hold(block, hash(&key(number))) {
                table.block(block)?.find(&key(number)).ok_or_else(|| table.not_a_block(block))?
            } else {
                Found::Absent
            };
            let data = value(number / 2);
            let want = match (number % 2, number / 2 % 3) {
                (1, _) => Found::Absent,
                (_, 0) => Found::Deleted,
                _ => Found::Value(&data),
            };
            assert_eq!(found, want, "{number}");
        }
        Ok(())
    }

    #[test]
    fn built_table_finds_every_record() {
        for (count, part_count) in [(1, 1), (16, 1), (17, 1), (5000, 1), (5000, 3), (9000, 7)] {
            let bytes = table(count, part_count);
            let table = Table::open(Path::new("t"), bytes.into(), None, Kernels::AUTO).unwrap();
            check(&table, count).unwrap();
        }
    }

    /// Through the index of LevelDB's own form: no block that fits into a page crosses one's end, in one part or
    /// several, however long the records are; one that does not fit begins with a page.
    #[test]
    fn blocks_of_a_table_with_filters_lie_within_pages() {
        for value_bytes in [0, 1, 29, 50, 127, 128, 1000, 2040, 2100, 4000, 4050, 5000, 20_000] {
            let disk = SimDisk::new(0);
            let sink = Sink::new(disk.create(Path::new("t")).unwrap(), true);
            let mut parts = Vec::new();
            for part_index in 0..3_u32 {
                let mut part = Part::new(true, Kernels::AUTO);
                for number in 0..300 {
                    let bytes = value_bytes + number as usize * 7 % 13;
                    part.put(&key(part_index * 1000 + number), 1 << 8 | KIND_VALUE, &vec![3; bytes]);
                    if number == 200 {
                        part.write_piece(&sink).unwrap();
                    }
                }
                part.close();
                part.write_piece(&sink).unwrap();
                parts.push(part);
            }
            finish(&sink, &parts).unwrap();
            let table = Table::open(Path::new("t"), sink.file.bytes().unwrap(), None, Kernels::AUTO).unwrap();
            let mut used = 0;
            for index in 0..table.block_count() {
                let Handle { offset, bytes } = table.handle(index);
                let (page, bytes) = (PAGE_BYTES as u64, bytes + TRAILER_BYTES as u64);
                assert_eq!(offset % page, 0, "{value_bytes}: block {index}");
                assert!(bytes <= page || value_bytes > 4000, "{value_bytes}: block {index} of {bytes} bytes");
                used += bytes;
            }
            let records = 900 * (value_bytes as u64 + 6 + 19);
            assert!(used < records * 11 / 10 + 40_000, "{value_bytes}: {used} bytes of blocks for {records}");
            for number in [0, 250, 299, 1000, 1150, 2299] {
                let block = table.find_block(&key(number));
                assert!(table.may_hold(block, hash(&key(number))));
                let found = table.block(block).unwrap().find(&key(number));
                assert!(matches!(found, Some(Found::Value(value)) if value.len() >= value_bytes), "{number}");
            }
        }
    }

    /// As LevelDB writes it without a filter policy: no filter block, and a metaindex that names none.
    #[test]
    fn table_without_filters_finds_every_record() {
        for (count, part_count) in [(1, 1), (5000, 1), (5000, 3)] {
            let [with, without] = [true, false].map(|has_filters| table_with(count, part_count, has_filters));
            let has_name = |bytes: &[u8]| bytes.windows(FILTER_KEY.len()).any(|window| window == FILTER_KEY);
            assert_eq!((has_name(&with), has_name(&without)), (true, false));
            // Pieces of several parts begin with pages.
            assert!(part_count > 1 || without.len() < with.len(), "{} and {} bytes", without.len(), with.len());
            let table = Table::open(Path::new("t"), without.into(), None, Kernels::AUTO).unwrap();
            check(&table, count).unwrap();
        }
    }

    #[test]
    fn damaged_table_gives_an_error_or_the_right_answer() {
        let bytes = table(400, 1);
        for end in 0..bytes.len() {
            let why = Table::open(Path::new("t"), bytes[..end].to_vec().into(), None, Kernels::AUTO).unwrap_err();
            assert!(why.is_damage(), "{why}");
        }
        for at in 0..bytes.len() {
            let mut bent = bytes.clone();
            bent[at] ^= 1 << (at % 8);
            let result = Table::open(Path::new("t"), bent.into(), None, Kernels::AUTO);
            if let Err(why) = result.and_then(|table| check(&table, 400)) {
                assert!(why.is_damage(), "bent at {at}: {why}");
            }
        }
    }

    #[test]
    fn separator_is_short_and_lies_between_two_blocks() {
        for (row, last, next, want) in [
            ("one more", &b"abcd"[..], Some(&b"abzz"[..]), Some(&b"abd"[..])),
            ("no room", b"abcd", Some(b"abda"), None),
            ("nothing shorter", b"abc", Some(b"abx"), None),
            ("a prefix", b"abc", Some(b"abcd"), None),
            ("no next", b"abc", None, Some(b"b")),
            ("no next, one byte", b"a", None, None),
            ("no next, no greater", &[0xff; 3], None, None),
            ("no next, a greater one within", &[0xff, 1, 2], None, Some(&[0xff, 2])),
        ] {
            let mut out = Vec::new();
            put_separator(&mut out, last, 77, next);
            let tag = if want.is_some() { SEQUENCE_MAX << 8 | KIND_VALUE } else { 77 };
            assert_eq!(split_key(&out), Some((want.unwrap_or(last), tag)), "{row}");
        }
    }

    #[test]
    #[should_panic(expected = "the keys of a run rise")]
    fn part_refuses_descending_keys() {
        let mut part = Part::new(true, Kernels::AUTO);
        part.put(b"b", 0, b"");
        part.put(b"ab", 0, b"");
    }
}
