//! Finds the places of blocks' undo data in an undo file without an index.
//!
//! A record does not name its block. Its checksum covers the hash of the block's parent, and so proves which block it
//! belongs to. Records are in the order in which their blocks were connected, so the first candidate is almost always
//! the right one. If no record follows, the next magic is searched, as in block files.
//!
//! Absent on purpose: whether the coins in it are right. They were, because the block was connected.

use crate::blockfiles::view::View;
use crate::fault::{FaultKind, Result};
use crate::index::BLOCK_TRANSACTIONS_MAX;
use crate::open_files::RecordFile;
use crate::undofiles::{CHECKSUM_BYTES, HEADER_BYTES, PAYLOAD_BYTES_MAX, UndoFiles, is_of};
use primitives::BlockHash;
use primitives::undo::UndoReader;
use std::collections::{BTreeMap, BTreeSet};

/// Size of a step of the search for the next magic.
const SEARCH_STEP_BYTES: usize = 32 * 1024;
/// Zeros on the disk that show that nothing was written there.
const UNTOUCHED_BYTES: usize = 64;
/// Size of a read; larger records are read separately.
const READ_BYTES: usize = 512 * 1024;
/// Limit of hashed bytes for each byte of a file, in addition to [`HASHED_BYTES_MIN`]: a file whose records belong to
/// no block could otherwise be hashed once for each block.
const HASHED_TIMES_MAX: u64 = 16;
/// Bytes that may be hashed whatever the size of the file.
const HASHED_BYTES_MIN: u64 = 64 << 20;
/// Minimum cost of a try, in hashed bytes.
const TRY_BYTES_MIN: u64 = 128;

/// A block whose undo data is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// Hash of its parent.
    pub prev: BlockHash,
    /// Number of its transactions, from its body.
    pub transactions: u32,
}

/// Undo data of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoPlace {
    /// Place of its payload.
    pub offset: u32,
    /// Number of transactions of its block, from the undo data.
    pub transactions: u32,
}

/// The undo data of one file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UndoPlaces {
    /// For each block its place, if a record with a matching checksum was found.
    pub places: Vec<Option<UndoPlace>>,
    /// The end of the last record found.
    pub end: u32,
    /// Start of the written bytes that are undo data of none of the blocks.
    pub stray: Option<u64>,
}

/// The blocks without a place so far.
struct Seekers<'o> {
    owners: &'o [Owner],
    /// Indexes in `owners`, by number of transactions.
    by_count: BTreeMap<u32, BTreeSet<usize>>,
    places: Vec<Option<UndoPlace>>,
    /// Index of the block after that of the last record.
    next: usize,
    /// Remaining limit of hashed bytes.
    bytes_left: u64,
}

impl UndoFiles {
    /// Finds the undo data of `owners`, which are in order of connection, in undo file number `file`. Nothing is found
    /// in a missing file.
    ///
    /// # Errors
    ///
    /// An I/O error. No content of a file is an error.
    pub fn places(&self, file: u32, owners: &[Owner]) -> Result<UndoPlaces> {
        let none = UndoPlaces { places: vec![None; owners.len()], end: 0, stray: None };
        let records = match self.record_file(file) {
            Ok(records) => records,
            Err(why) if why.kind() == FaultKind::Missing => return Ok(none),
            Err(why) => return Err(why),
        };
        let len = records.len()?;
        let mut by_count: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (at, owner) in owners.iter().enumerate() {
            by_count.entry(owner.transactions).or_default().insert(at);
        }
        let bytes_left = len.saturating_mul(HASHED_TIMES_MAX).saturating_add(HASHED_BYTES_MIN);
        let mut seekers = Seekers { owners, by_count, places: none.places, next: 0, bytes_left };
        let mut view = View::new(records.clone(), len);
        view.set_read_bytes(READ_BYTES);
        let mut at = 0;
        let mut end = 0;
        let mut gaps = Gaps::default();
        while let Some(behind) = self.record_at(&records, &mut view, at, &mut seekers)? {
            match behind {
                Behind::Record(next) => {
                    gaps.end();
                    end = u32::try_from(next).unwrap_or(u32::MAX);
                    at = next;
                }
                Behind::Nothing => {
                    let key = view.key();
                    gaps.begin(at, View::is_untouched(key, at, view.peek(at, UNTOUCHED_BYTES)?));
                    match view.search(self.magic(), at, SEARCH_STEP_BYTES)?.0 {
                        Some(next) => at = next,
                        None => break,
                    }
                }
            }
        }
        Ok(UndoPlaces { places: seekers.places, end, stray: gaps.stray })
    }

    /// Reads the record at `at`, which belongs to one of the blocks or is useless; `None` at the end.
    fn record_at(
        &self,
        file: &RecordFile,
        view: &mut View,
        at: u64,
        seekers: &mut Seekers<'_>,
    ) -> Result<Option<Behind>> {
        let end = view.end();
        if at.saturating_add((HEADER_BYTES + CHECKSUM_BYTES) as u64) > end || seekers.bytes_left == 0 {
            return Ok(None);
        }
        let head = view.peek(at, HEADER_BYTES)?;
        let Some(head) = head.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
        let size = u64::from(u32::from_le_bytes(head[4..].try_into().expect("four bytes")));
        let next = at + HEADER_BYTES as u64 + size + CHECKSUM_BYTES as u64;
        if head[..4] != self.magic() || size > PAYLOAD_BYTES_MAX as u64 || next > end || next > u64::from(u32::MAX) {
            return Ok(Some(Behind::Nothing));
        }
        let offset = at + HEADER_BYTES as u64;
        let bytes = size as usize + CHECKSUM_BYTES;
        let taken = if bytes <= READ_BYTES {
            seekers.take(view.peek(offset, bytes)?, offset as u32)
        } else {
            seekers.take(&self.read_bytes(file, offset, bytes)?, offset as u32)
        };
        Ok(Some(if taken { Behind::Record(next) } else { Behind::Nothing }))
    }
}

/// Bytes between the records of the blocks. After the last record there is reserved space, zeros on the disk.
#[derive(Default)]
struct Gaps {
    open: Option<u64>,
    stray: Option<u64>,
}

impl Gaps {
    /// Notes that no record of a block is at `at`; `is_untouched` says that nothing was ever written there.
    fn begin(&mut self, at: u64, is_untouched: bool) {
        let begun = *self.open.get_or_insert(at);
        if !is_untouched {
            self.stray = self.stray.or(Some(begun));
        }
    }

    /// Notes that a record of a block follows.
    fn end(&mut self) {
        self.stray = self.stray.or(self.open.take());
    }
}

/// The place where the search continues.
enum Behind {
    /// The search continues right after a record.
    Record(u64),
    /// The search continues at the next magic.
    Nothing,
}

impl Seekers<'_> {
    /// Assigns a record, a payload with its checksum, to the block that it belongs to; returns whether there is one.
    fn take(&mut self, record: &[u8], offset: u32) -> bool {
        let Some((payload, checksum)) = record.split_last_chunk::<CHECKSUM_BYTES>() else { return false };
        let spenders = UndoReader::new(payload).count().ok().and_then(|count| u32::try_from(count).ok());
        let Some(transactions) = spenders.map(|count| count.saturating_add(1)) else { return false };
        if transactions > BLOCK_TRANSACTIONS_MAX {
            return false;
        }
        let cost = (payload.len() as u64).max(TRY_BYTES_MIN);
        let Some(owner) = self.owner(transactions, cost, payload, checksum) else { return false };
        self.places[owner] = Some(UndoPlace { offset, transactions });
        if let Some(same) = self.by_count.get_mut(&self.owners[owner].transactions) {
            same.remove(&owner);
        }
        self.next = owner + 1;
        true
    }

    /// The owner of a record. It tries first the block after the last one, whatever the transaction count in its bytes:
    /// they may be damaged. Then the blocks with the same transaction count, first those after the last.
    fn owner(&mut self, transactions: u32, cost: u64, payload: &[u8], checksum: &[u8]) -> Option<usize> {
        let next = (self.next..self.owners.len()).find(|&at| self.places[at].is_none());
        let from = self.next;
        let same = self.by_count.get(&transactions).into_iter();
        let same = same.flat_map(|same| same.range(from..).chain(same.range(..from)));
        for at in next.into_iter().chain(same.copied()) {
            self.bytes_left = self.bytes_left.saturating_sub(cost);
            if is_of(&self.owners[at].prev, payload, checksum) {
                return Some(at);
            }
            if self.bytes_left == 0 {
                return None;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Network;
    use crate::undofiles::undo_record;
    use disk::SimDisk;
    use primitives::Target;
    use std::path::Path;
    use std::time::Instant;

    const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
    const KEY: [u8; 8] = [9, 8, 7, 6, 5, 4, 3, 2];

    fn network() -> Network {
        let pow_limit = Target::from_compact(0x207f_ffff).unwrap();
        Network { directory: "regtest", magic: MAGIC, genesis: BlockHash::ZERO, pow_limit }
    }

    fn owner(number: u8, transactions: u32) -> Owner {
        Owner { prev: BlockHash::from_bytes([number; 32]), transactions }
    }

    /// Undo data of so many transactions that spend nothing.
    fn payload(transactions: u32) -> Vec<u8> {
        let mut payload = Vec::new();
        primitives::undo::put_count(&mut payload, transactions as usize - 1);
        (1..transactions).for_each(|_| primitives::undo::put_count(&mut payload, 0));
        payload
    }

    fn record(owner: Owner) -> Vec<u8> {
        undo_record(MAGIC, &owner.prev, &payload(owner.transactions)).to_vec()
    }

    fn places(bytes: &[u8], owners: &[Owner]) -> UndoPlaces {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        disk.create_dir_all(Path::new("/blocks")).unwrap();
        let mut hidden = bytes.to_vec();
        kernels::xor::xor(&mut hidden, KEY, 0);
        disk.create(Path::new("/blocks/rev00000.dat")).unwrap().write_at(0, &hidden).unwrap();
        UndoFiles::new(disk, Path::new("/blocks"), &network(), KEY).places(0, owners).unwrap()
    }

    fn offsets(found: &UndoPlaces) -> Vec<Option<u32>> {
        found.places.iter().map(|place| place.map(|place| place.offset)).collect()
    }

    /// What it is, a file, and where the undo data of each block lies in it.
    type Row = (&'static str, Vec<u8>, Vec<Option<u32>>);

    #[test]
    fn undo_data_is_found_by_its_checksum_whatever_lies_around_it() {
        let owners = [owner(1, 1), owner(2, 3), owner(3, 3), owner(4, 1)];
        let [one, two, three, four] = owners.map(record);
        let at = |before: &[&Vec<u8>]| Some(before.iter().map(|bytes| bytes.len() as u32).sum::<u32>() + 8);
        let in_order = [&one[..], &two, &three, &four].concat();
        let all = vec![at(&[]), at(&[&one]), at(&[&one, &two]), at(&[&one, &two, &three])];
        let mut torn = two.clone();
        torn[10] ^= 1;
        let mut tail = in_order.clone();
        // Zeros on the disk, below the key.
        tail.extend((tail.len()..tail.len() + 5000).map(|at| KEY[at % 8]));
        let stray = record(owner(9, 3));
        let mut zeroed = in_order.clone();
        zeroed[one.len()..one.len() + two.len()].fill(0);
        let rows: [Row; 8] = [
            ("one is zeroed", zeroed, vec![all[0], None, all[2], all[3]]),
            ("in order", in_order.clone(), all.clone()),
            ("room behind them", tail, all.clone()),
            (
                "out of order",
                [&three[..], &one, &four, &two].concat(),
                vec![at(&[&three]), at(&[&three, &one, &four]), at(&[]), at(&[&three, &one])],
            ),
            ("one is torn", [&one[..], &torn, &three, &four].concat(), vec![all[0], None, all[2], all[3]]),
            (
                "another block's between them",
                [&one[..], &stray, &two, &three, &four].concat(),
                vec![at(&[]), at(&[&one, &stray]), at(&[&one, &stray, &two]), at(&[&one, &stray, &two, &three])],
            ),
            ("cut", in_order[..in_order.len() - 1].to_vec(), vec![all[0], all[1], all[2], None]),
            ("empty", Vec::new(), vec![None; 4]),
        ];
        for (row, bytes, want) in rows {
            let found = places(&bytes, &owners);
            assert_eq!(offsets(&found), want, "{row}");
            let stray = match row {
                "one is torn" | "one is zeroed" | "another block's between them" => Some(one.len() as u64),
                "cut" => Some(u64::from(found.end)),
                _ => None,
            };
            assert_eq!(found.stray, stray, "{row}");
            let end = found.places.iter().flatten().map(|place| place.offset).max();
            assert!(end.is_none_or(|last| found.end > last), "{row}: {}", found.end);
        }
    }

    /// The block's own bytes may be damaged: what its undo data says counts.
    #[test]
    fn the_number_of_transactions_is_that_of_the_undo_data() {
        let [first, second] = [owner(1, 2), owner(2, 5)];
        let bytes = [record(first), record(second)].concat();
        let found = places(&bytes, &[first, Owner { transactions: 77, ..second }]);
        assert_eq!(found.places[1].map(|place| place.transactions), Some(5));
    }

    #[test]
    fn undo_places_of_cut_and_flipped_files_never_panic() {
        let owners = [owner(1, 1), owner(2, 3)];
        let good = [record(owners[0]), record(owners[1])].concat();
        for cut in 0..good.len() {
            places(&good[..cut], &owners);
        }
        for at in 0..good.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = byte;
                let found = places(&bytes, &owners);
                assert!(bytes == good || found.places.contains(&None), "byte {at} is of one of them");
            }
        }
    }

    /// Thousands of records of no block, each of which thousands of blocks could own.
    #[test]
    fn records_of_no_block_are_hashed_a_bounded_number_of_times() {
        let stray: Vec<u8> = (0..2000).flat_map(|_| record(owner(200, 1))).collect();
        let owners: Vec<Owner> = (0..20_000_u32)
            .map(|number| {
                let mut prev = [0; 32];
                prev[..4].copy_from_slice(&number.to_le_bytes());
                Owner { prev: BlockHash::from_bytes(prev), transactions: 1 }
            })
            .collect();
        let begun = Instant::now();
        assert!(offsets(&places(&stray, &owners)).iter().all(Option::is_none));
        assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    }
}
