//! Finds the blocks of a file: hops from record to record, and searches for the next magic if no record follows.
//!
//! A record is accepted if its header meets its own nBits and a valid end follows (the magic of the next record, the
//! end of the file, or the zeros of a reserved tail). Otherwise its body must parse within its size. A record reached
//! by a search, not by a hop, must always parse. After a rejected record, and after one accepted only because it
//! parses, the search starts at the byte after its magic. So a torn or false record costs only itself, whereas Core
//! loses the good blocks inside its size.
//!
//! While hopping, only headers are read. Absent on purpose: parents, heights, duplicates, merkle roots.

use super::view::View;
use super::{BlockAt, BlockFiles, RECORD_HEADER_BYTES, SCAN_SIZE_MAX, SCAN_SIZE_MIN};
use crate::FilePos;
use crate::fault::Result;
use crate::fileinfo::FileEnd;
use crate::layout::network_of_magic;
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Header, Tables, Target};
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of a record up to the end of its block's header.
const HEAD_BYTES: usize = RECORD_HEADER_BYTES as usize + HEADER_BYTES;
/// Blocks below this size are read while hopping; larger ones are skipped.
const SMALL_BLOCK_BYTES: u32 = 64 * 1024;
/// Size of a read while hopping over small blocks.
const SMALL_READ_BYTES: usize = 256 * 1024;
/// Size of a read while searching: twice the largest record, so that bodies are not read repeatedly.
const SEARCH_READ_BYTES: usize = 2 * (SCAN_SIZE_MAX as usize + HEAD_BYTES);
/// A run of at least this many zeros is the tail of a file; blocks may contain shorter runs.
const TAIL_BYTES: usize = 4096;
/// Size of a search step.
const SEARCH_STEP_BYTES: usize = 1024 * 1024;

/// A record that is accepted as a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FoundBlock {
    /// Its place.
    pub location: BlockAt,
    /// Its header, which meets its own nBits.
    pub header: Header,
    /// The header's hash.
    pub hash: BlockHash,
    /// Its body was parsed within its size; otherwise only the following record shows that it is whole.
    pub is_parsed: bool,
}

/// The result of scanning one file.
#[derive(Debug, Default)]
pub struct FileScan {
    /// The blocks, in order of their places.
    pub blocks: Vec<FoundBlock>,
    /// The bytes between them that do not deserialize as a block: one note for each gap, plus one for each run of
    /// records of another chain in it.
    pub notes: Vec<Note>,
    /// The end of the last block.
    pub end: FileEnd,
}

/// Bytes that do not deserialize as a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    /// The file.
    pub path: PathBuf,
    /// Number of the file.
    pub file: u32,
    /// The range, from the first byte that belongs to no block.
    pub bytes: Range<u64>,
    /// The reason at the first of these bytes.
    pub reason: Reason,
    /// The number of false or torn records in the range.
    pub records: u32,
}

/// Why no block was found at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Bytes other than the magic: garbage, another network's file, or another obfuscation key.
    Magic([u8; 4]),
    /// A size outside the limits for blocks.
    Size(u32),
    /// The record extends past the end of the file.
    Cut {
        /// The record's size in bytes.
        want: u64,
        /// The available bytes.
        have: u64,
    },
    /// A header that does not meet its own nBits.
    ProofOfWork(BlockHash),
    /// A block of Knots 29.4.1's chain, whose headers have 164 bytes.
    Split,
    /// No record follows, and the body does not parse.
    Body(BlockHash),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.bytes;
        write!(f, "{} at byte {start}: {} bytes do not deserialize as a block: ", self.path.display(), end - start)?;
        match self.reason {
            Reason::Magic(found) => match network_of_magic(found) {
                Some(other) => write!(f, "they start {found:02x?}, the magic of {other}: blocks of another network"),
                None => write!(f, "they start {found:02x?}, which is not this network's magic (another xor.dat?)"),
            },
            Reason::Size(size) => {
                write!(f, "a record of {size} bytes, where a block has {SCAN_SIZE_MIN} to {SCAN_SIZE_MAX}")
            }
            Reason::Cut { want, have } => {
                write!(f, "a block of {want} bytes, of which {have} are there: the file was cut short")
            }
            Reason::ProofOfWork(hash) => {
                write!(f, "a record whose header {hash} does not meet its own nBits (high-hash)")
            }
            Reason::Split => {
                write!(f, "a block of another chain, that of Knots 29.4.1 (a header of 164 bytes)")
            }
            Reason::Body(hash) => write!(f, "block {hash} is damaged: its bytes do not deserialize"),
        }?;
        if self.records > 1 {
            write!(f, ", and {} more such records", self.records - 1)?;
        }
        write!(f, "; skipped")
    }
}

/// The result of reading a record's head.
enum Head {
    /// A record with a possible size and a header that meets its own nBits.
    Record { size: u32, header: Header, hash: BlockHash },
    /// No record.
    None(Reason),
}

impl BlockFiles {
    /// Finds the blocks of one file. Files can be scanned in any order and by many threads.
    ///
    /// # Errors
    ///
    /// A missing or unreadable file. No content of a file is an error.
    pub fn scan(&self, file: u32) -> Result<FileScan> {
        let end = self.file_bytes(file)?;
        self.scan_range(file, 0..end, true)
    }

    /// Finds the blocks that are wholly within the given parts of a file, which are in file order. The bytes between
    /// the parts are known and not read. [`FileScan::end`] is that of the last part.
    ///
    /// # Errors
    ///
    /// Those of [`BlockFiles::scan`].
    pub fn scan_parts(&self, file: u32, parts: &[Range<u64>]) -> Result<FileScan> {
        let mut all = FileScan { end: FileEnd { file, ..FileEnd::default() }, ..FileScan::default() };
        for part in parts {
            let found = self.scan_range(file, part.clone(), true)?;
            all.blocks.extend(found.blocks);
            all.notes.extend(found.notes);
            all.end = found.end;
        }
        Ok(all)
    }

    /// Finds the blocks inside a false record, whose body does not match its header: a torn record may have been
    /// accepted as a whole one that extends into its neighbours.
    ///
    /// # Errors
    ///
    /// Those of [`BlockFiles::scan`].
    pub fn scan_inside(&self, bad: BlockAt) -> Result<FileScan> {
        let end = self.file_bytes(bad.file)?;
        // The last record that starts inside may end outside, and so may the one that contained it.
        let end = end.min(bad.offset.saturating_add(u64::from(bad.size) + u64::from(SCAN_SIZE_MAX)));
        let start = bad.offset.saturating_sub(u64::from(RECORD_HEADER_BYTES));
        let mut scan = self.scan_range(bad.file, start..end, false)?;
        scan.blocks.retain(|block| block.location.offset < bad.offset + u64::from(bad.size));
        Ok(scan)
    }

    /// Checks whether there is a block at the place in an index: magic, a possible size, a header that meets its own
    /// nBits.
    ///
    /// # Errors
    ///
    /// A missing or unreadable file. A place without a block is `None`.
    pub fn probe(&self, at: FilePos) -> Result<Option<FoundBlock>> {
        let Some(start) = u64::from(at.offset).checked_sub(u64::from(RECORD_HEADER_BYTES)) else { return Ok(None) };
        let file = self.file(at.file)?;
        let mut view = View::new(file, u64::MAX);
        let end = self.file_bytes(at.file)?;
        let Head::Record { size, header, hash } = self.head(&mut view, start)? else { return Ok(None) };
        if u64::from(at.offset) + u64::from(size) > end {
            return Ok(None);
        }
        let at = BlockAt { file: at.file, offset: u64::from(at.offset), size };
        Ok(Some(FoundBlock { location: at, header, hash, is_parsed: false }))
    }

    /// Whether anything but zeros was written at `offset` or in the 4,096 bytes after it, so that this is not just
    /// reserved space.
    ///
    /// # Errors
    ///
    /// Those of [`BlockFiles::scan`].
    pub fn is_written(&self, file: u32, offset: u64) -> Result<bool> {
        let mut view = View::new(self.file(file)?, u64::MAX);
        let key = view.key();
        Ok(!View::is_untouched(key, offset, view.peek(offset, TAIL_BYTES)?))
    }

    fn scan_range(&self, file: u32, range: Range<u64>, by_hop: bool) -> Result<FileScan> {
        let view = View::new(self.file(file)?, range.end);
        let is_closed = view.key() != self.key();
        let end = FileEnd { file, written: range.start, is_closed };
        let found = FileScan { end, ..FileScan::default() };
        let mut scanner = Scanner { files: self, file, view, tables: Tables::new(), found };
        scanner.run(range.start, by_hop)?;
        Ok(scanner.found)
    }

    fn head(&self, view: &mut View, at: u64) -> Result<Head> {
        let head = view.peek(at, HEAD_BYTES)?;
        let have = head.len() as u64;
        let mut first = [0; 4];
        first[..head.len().min(4)].copy_from_slice(&head[..head.len().min(4)]);
        if first != self.magic() {
            return Ok(Head::None(Reason::Magic(first)));
        }
        let Some(head) = head.first_chunk::<HEAD_BYTES>() else {
            return Ok(Head::None(Reason::Cut { want: HEADER_BYTES as u64, have: have.saturating_sub(8) }));
        };
        let size = u32::from_le_bytes(head[4..8].try_into().expect("four bytes"));
        if !(SCAN_SIZE_MIN..=SCAN_SIZE_MAX).contains(&size) {
            return Ok(Head::None(Reason::Size(size)));
        }
        let header = Header(head[8..].try_into().expect("80 bytes"));
        let hash = header.hash();
        match Target::from_compact(header.bits()) {
            Some(target) if target.is_met_by(&hash) => Ok(Head::Record { size, header, hash }),
            _ if header.is_of_the_split() => Ok(Head::None(Reason::Split)),
            _ => Ok(Head::None(Reason::ProofOfWork(hash))),
        }
    }
}

struct Scanner<'a> {
    files: &'a BlockFiles,
    file: u32,
    view: View,
    tables: Tables,
    found: FileScan,
}

/// The bytes between the last block and the scan's position.
struct Gap {
    start: u64,
    reason: Reason,
    records: u32,
    /// Contains anything other than reserved space.
    is_touched: bool,
}

impl Scanner<'_> {
    fn run(&mut self, start: u64, mut by_hop: bool) -> Result<()> {
        let mut at = start;
        let mut gap: Option<Gap> = None;
        if !by_hop {
            match self.search(at)?.0 {
                Some(hit) => at = hit,
                None => return Ok(()),
            }
        }
        while at < self.view.end() {
            let reason = match self.files.head(&mut self.view, at)? {
                Head::Record { size, header, hash } => match self.judge(at, size, header, hash, by_hop)? {
                    Ok((end, is_parsed)) => {
                        let offset = at + u64::from(RECORD_HEADER_BYTES);
                        let place = BlockAt { file: self.file, offset, size };
                        self.close(gap.take(), at);
                        self.found.end.written = self.found.end.written.max(offset + u64::from(size));
                        self.found.blocks.push(FoundBlock { location: place, header, hash, is_parsed });
                        (at, by_hop) = if is_parsed { self.behind_parsed(at, end)? } else { (end, true) };
                        continue;
                    }
                    Err(reason) => reason,
                },
                Head::None(reason) => reason,
            };
            if gap.as_ref().is_some_and(|gap| (gap.reason == Reason::Split) != (reason == Reason::Split)) {
                self.close(gap.take(), at);
            }
            let gap = gap.get_or_insert(Gap { start: at, reason, records: 0, is_touched: false });
            gap.records += u32::from(!matches!(reason, Reason::Magic(_)));
            gap.is_touched |= !matches!(reason, Reason::Magic(_));
            by_hop = false;
            let (hit, is_touched) = self.search(at)?;
            gap.is_touched |= is_touched;
            at = hit.unwrap_or_else(|| self.view.end());
        }
        let end = self.view.end();
        if let Some(gap) = gap.as_ref().filter(|gap| gap.is_touched) {
            let touched_end = self.touched_end(gap.start)?;
            // A record's size may extend past the block in it.
            self.found.end.is_closed |= touched_end > self.found.end.written;
            self.found.end.written = self.found.end.written.max(touched_end);
        }
        self.close(gap, end);
        Ok(())
    }

    /// The end of the last byte from `from` on that is not reserved space; `from` if there is no such byte.
    fn touched_end(&mut self, from: u64) -> Result<u64> {
        let key = self.view.key();
        let mut at = from;
        let mut end = from;
        while at < self.view.end() {
            let bytes = self.view.peek(at, SEARCH_STEP_BYTES)?;
            let is_written = |&(i, byte): &(usize, &u8)| !View::is_untouched(key, at + i as u64, &[*byte]);
            end = bytes.iter().enumerate().rfind(is_written).map_or(end, |(i, _)| at + i as u64 + 1);
            at += bytes.len().max(1) as u64;
        }
        Ok(end)
    }

    /// The block's end and whether it was parsed, or the reason why this is not a block.
    fn judge(
        &mut self,
        at: u64,
        size: u32,
        header: Header,
        hash: BlockHash,
        by_hop: bool,
    ) -> Result<std::result::Result<(u64, bool), Reason>> {
        let offset = at + u64::from(RECORD_HEADER_BYTES);
        let next = offset + u64::from(size);
        if next > self.view.end() {
            return Ok(Err(Reason::Cut { want: u64::from(size), have: self.view.end() - offset }));
        }
        if by_hop && self.follows(next)? {
            self.view.set_read_bytes(if size < SMALL_BLOCK_BYTES { SMALL_READ_BYTES } else { 0 });
            return Ok(Ok((next, false)));
        }
        let body = self.view.peek(offset, size as usize)?;
        match self.tables.parse_block(body) {
            Ok(block) => Ok(Ok((offset + block.bytes().len() as u64, true))),
            Err(_) if header.is_of_the_split() => Ok(Err(Reason::Split)),
            Err(_) => Ok(Err(Reason::Body(hash))),
        }
    }

    /// The place to continue after a parsed block that no record follows, and whether that is a hop.
    ///
    /// A torn record may parse nevertheless, with the following good records as part of a script. So the search also
    /// covers its inside.
    fn behind_parsed(&mut self, at: u64, end: u64) -> Result<(u64, bool)> {
        match self.search(at)?.0 {
            Some(hit) if hit <= end => Ok((hit, hit == end)),
            _ => Ok((end, false)),
        }
    }

    /// Whether a record ends at `next`: another begins there, or only reserved space follows.
    fn follows(&mut self, next: u64) -> Result<bool> {
        let end = self.view.end();
        if next >= end {
            return Ok(next == end);
        }
        let magic = self.files.magic();
        let key = self.view.key();
        let bytes = self.view.peek(next, magic.len())?;
        if *bytes == magic[..bytes.len()] {
            return Ok(true);
        }
        Ok(View::is_untouched(key, next, bytes) && View::is_untouched(key, next, self.view.peek(next, TAIL_BYTES)?))
    }

    /// The next magic after the one at `at`, and whether the bytes before it are anything but reserved space.
    fn search(&mut self, at: u64) -> Result<(Option<u64>, bool)> {
        self.view.set_read_bytes(SEARCH_READ_BYTES);
        self.view.search(self.files.magic(), at, SEARCH_STEP_BYTES)
    }

    /// Writes the note for the bytes before `end`, if there are any.
    fn close(&mut self, gap: Option<Gap>, end: u64) {
        let Some(gap) = gap.filter(|gap| gap.is_touched) else { return };
        self.found.notes.push(Note {
            path: self.files.path(self.file),
            file: self.file,
            bytes: gap.start..end,
            reason: gap.reason,
            records: gap.records,
        });
    }
}
