//! Reads every byte of block and undo files that no readable index names. The repair of such a directory builds the index
//! first.
//!
//! Blocks whose headers connect to the genesis block are checked as with an index. Blocks above a gap are checked by their
//! Merkle root. Undo data proves by its checksum which block it belongs to; bytes that belong to none are reported.
//! Absent on purpose: witnesses of blocks above a gap, because the rules that apply to them depend on the height.

use super::databases::Indexed;
use super::{At, Files, Kind, Look, fetched, read_through};
use crate::chain::index::BlockIndex;
use crate::chain::tree::NodeId;
use crate::datadir::lock;
use crate::datadir::scan::scan_each;
use crate::fault::Fault;
use primitives::Tables;
use primitives::encode::Reader;
use primitives::header::HEADER_BYTES;
use std::collections::BTreeMap;
use store::blockfiles::{BlockFiles, FileScan, FoundBlock, Reason};
use store::index::{BLOCK_TRANSACTIONS_MAX, IndexEntry, LoadedIndex, Status};
use store::undo_places::Owner;
use store::{FaultKind, FilePos};

/// Maximum bytes of a CompactSize.
const COUNT_BYTES: usize = 9;
/// Size of a full block file, for estimates.
const FILE_BYTES: u64 = 128 << 20;

impl Look<'_> {
    /// Reads all blocks that are found in the files, and their undo data.
    ///
    /// # Errors
    ///
    /// Those of [`Look::every_byte`].
    pub(super) fn every_byte_without_index(&mut self, files: &Files) -> Result<(), Fault> {
        let Ok(now) = lock::clock(self.options) else { return Ok(()) };
        let Ok(numbers) = files.blocks.numbers() else { return Ok(()) };
        let there = numbers.there;
        let looked = scan_each(there.len(), self.options.par, self.reporter, |at| Ok(files.blocks.scan(there[at])))?;
        let mut tree = BlockIndex::new(&self.options.params);
        let mut owners = BTreeMap::new();
        // An unreadable file has been reported already.
        for (number, scan) in there.into_iter().zip(looked).filter_map(|(number, scan)| Some((number, scan.ok()?))) {
            self.gaps_in_file(&scan);
            owners.insert(number, scan.blocks.clone());
            tree.take_in(&self.options.params, scan.blocks, now);
        }
        let of = |(id, at, _): (NodeId, FilePos, u32)| {
            let headers = tree.headers();
            let entry = IndexEntry::header_only(headers.header(id), headers.hash(id), headers.height(id));
            IndexEntry { status: entry.status.with(Status::HAVE_DATA), file: at.file, data_offset: at.offset, ..entry }
        };
        let entries = tree.places().map(of).collect();
        let waiting = tree.take_orphans();
        self.every_byte(&Indexed { loaded: LoadedIndex { entries, ..LoadedIndex::default() }, tree }, files)?;
        self.above_gaps(files, &waiting)?;
        self.undo_of_found(files, &owners)
    }

    /// Reports bytes between the blocks of a file.
    fn gaps_in_file(&mut self, scan: &FileScan) {
        for note in scan.notes.iter().filter(|note| note.reason != Reason::Split) {
            if !self.is_noted(&note.path, note.bytes.start) {
                let at = At { offset: Some(note.bytes.start), ..At::ALL };
                let path = note.path.clone();
                self.find(Kind::BlockDamaged, &path, at, note.to_string(), fetched(4 << 20));
            }
        }
    }

    /// Checks blocks that do not connect to the genesis block.
    fn above_gaps(&mut self, files: &Files, waiting: &[FoundBlock]) -> Result<(), Fault> {
        let look = |at: usize| Ok(why_damaged(&files.blocks, &waiting[at]));
        let looked = scan_each(waiting.len(), self.options.par, self.reporter, look)?;
        for (block, why) in waiting.iter().zip(looked).filter_map(|(block, why)| Some((block, why?))) {
            let path = files.blocks.path(block.location.file);
            if !self.is_noted(&path, block.location.offset) {
                let at = At { offset: Some(block.location.offset), hash: Some(block.hash), ..At::ALL };
                self.find(Kind::BlockDamaged, &path, at, format!("block {}: {why}", block.hash), fetched(4 << 20));
            }
        }
        Ok(())
    }

    /// Reports bytes of undo files that are undo data of no block of the block file with the same number.
    fn undo_of_found(&mut self, files: &Files, owners: &BTreeMap<u32, Vec<FoundBlock>>) -> Result<(), Fault> {
        let owners: Vec<(&u32, &Vec<FoundBlock>)> = owners.iter().filter(|(_, blocks)| !blocks.is_empty()).collect();
        let look = |at: usize| {
            let (&number, blocks) = owners[at];
            // Times rise with heights almost everywhere, and the order only saves work.
            let mut blocks: Vec<&FoundBlock> = blocks.iter().collect();
            blocks.sort_by_key(|block| block.header.time());
            let owner = |block: &FoundBlock| {
                let transactions = block.location.file_pos().map_or(Ok(1), |at| transactions(&files.blocks, at))?;
                Ok(Owner { prev: block.header.prev(), transactions })
            };
            let owners: store::Result<Vec<Owner>> = blocks.into_iter().map(owner).collect();
            Ok(owners.and_then(|owners| files.undo.places(number, &owners)).map(|places| places.stray))
        };
        let looked = scan_each(owners.len(), self.options.par, self.reporter, look)?;
        for ((&number, _), stray) in owners.into_iter().zip(looked) {
            let path = self.layout.undo_file(number);
            match stray {
                Ok(Some(at)) if !self.is_noted(&path, at) => {
                    let block_file = files.blocks.path(number);
                    let name = block_file.file_name().unwrap_or_default().to_string_lossy();
                    let what = format!("undo data at byte {at}: it belongs to no block of {name}");
                    let at = At { offset: Some(at), ..At::ALL };
                    self.find(Kind::UndoDamaged, &path, at, what, read_through(FILE_BYTES));
                }
                Ok(_) => {}
                Err(fault) => self.fault(Kind::UndoDamaged, &fault, At::ALL, read_through(FILE_BYTES)),
            }
        }
        Ok(())
    }

    /// Reports missing block and undo files by their numbers alone.
    pub(super) fn missing_numbers(&mut self, files: &Files) {
        let Ok(numbers) = files.blocks.numbers() else { return };
        // Lower files may be pruned.
        let lowest = numbers.there.first().copied().unwrap_or_default();
        for &(first, last) in numbers.missing.iter().filter(|(first, _)| *first > lowest) {
            let count = u64::from(last - first) + 1;
            let others = if count == 1 { String::new() } else { format!(" and the {} behind it", count - 1) };
            let what = format!("there are block files before and behind it{others}");
            let path = files.blocks.path(first);
            if matches!(self.options.disk.read_link(&path), Ok(None)) {
                let seconds = fetched(count.saturating_mul(FILE_BYTES));
                self.find(Kind::BlockFileMissing, &path, At::ALL, what, seconds);
            }
        }
        let disk = self.options.disk.clone();
        let has_undo = |number: &u32| matches!(disk.metadata(&self.layout.undo_file(*number)), Ok(Some(_)));
        let there: Vec<(u32, bool)> = numbers.there.iter().map(|number| (*number, has_undo(number))).collect();
        let Some(last) = there.iter().rposition(|(_, has_undo)| *has_undo) else { return };
        for &(number, _) in there[..last].iter().filter(|(_, has_undo)| !has_undo) {
            let path = self.layout.undo_file(number);
            match disk.read_link(&path) {
                Ok(Some(target)) => {
                    let what = format!("a link to {}, which is not there", target.display());
                    self.find(Kind::DanglingLink, &path, At::ALL, what, 1);
                }
                _ => {
                    let what = "its block file is there, and higher undo files are";
                    self.find(Kind::UndoFileMissing, &path, At::ALL, what, read_through(FILE_BYTES));
                }
            }
        }
    }
}

/// Why a found block is damaged, as far as its own bytes show.
fn why_damaged(files: &BlockFiles, block: &FoundBlock) -> Option<String> {
    let bytes = match files.read_block(block.location.file_pos()?) {
        Ok(bytes) => bytes,
        // The whole file has been reported already.
        Err(fault) if matches!(fault.kind(), FaultKind::Permission | FaultKind::Io | FaultKind::Missing) => {
            return None;
        }
        Err(fault) => return Some(format!("wanted {}, found {}", fault.detail().wanted, fault.detail().found)),
    };
    let mut tables = Tables::new();
    match tables.parse_block(&bytes) {
        Err(why) => Some(format!("it does not deserialize: {why}")),
        Ok(parsed) if parsed.txids_of_header().is_none() => Some("its transactions are not those of its header".into()),
        Ok(_) => None,
    }
}

/// The transaction count that a block states; 1 if the value is impossible.
///
/// # Errors
///
/// The system cannot read the file.
pub(crate) fn transactions(files: &BlockFiles, at: FilePos) -> store::Result<u32> {
    let count = files.read_block_part(at, HEADER_BYTES, COUNT_BYTES)?;
    let count = count.and_then(|bytes| Reader::new(&bytes).compact_size().ok());
    let count = count.and_then(|count| u32::try_from(count).ok());
    Ok(count.filter(|count| (1..=BLOCK_TRANSACTIONS_MAX).contains(count)).unwrap_or(1))
}
