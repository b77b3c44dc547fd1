//! State of a block's body: validity level, and place in the files. 16 bytes per header.

use std::num::NonZeroU32;
use store::blockfiles::BlockAt;
use store::index::BLOCK_TRANSACTIONS_MAX;
use store::layout::FILE_NUMBER_MAX;
use store::{FilePos, IndexEntry};

/// How far a block is validated: Core's levels, with their numbers in the index on disk. Source: Bitcoin Core b88bffe,
/// `BlockStatus`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Validity {
    /// The header is valid.
    #[default]
    Tree = 2,
    /// All checks that need no coins passed.
    Transactions = 3,
    /// Not used by ffwd, but an index may contain it.
    Chain = 4,
    /// Fully validated: the block was connected once.
    Scripts = 5,
}

impl Validity {
    /// The level with this number on disk. A header in the index counts as checked.
    pub fn of_level(level: u32) -> Validity {
        match level {
            0..=2 => Validity::Tree,
            3 => Validity::Transactions,
            4 => Validity::Chain,
            _ => Validity::Scripts,
        }
    }

    /// The number on disk.
    pub fn level(self) -> u32 {
        self as u32
    }
}

/// State of a block's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Body {
    /// Offset 0 is impossible, because a record's header precedes the block.
    data: Option<NonZeroU32>,
    undo: Option<NonZeroU32>,
    /// From the lowest bit: validity (less 2) 2 bits, dirty 1, listed 1, number of the block file and of the undo file
    /// 20 (only if one of the offsets is set), lowest bits of the size 8.
    marks: u32,
    /// From the lowest bit: number of transactions 15 bits (0 until a body was found valid), the size's other bits 17.
    counts: u32,
}

const _: () = assert!(size_of::<Body>() == 16);
const _: () = assert!(FILE_NUMBER_MAX < 1 << FILE_BITS && BLOCK_TRANSACTIONS_MAX < 1 << TRANSACTION_BITS);

const DIRTY_SHIFT: u32 = 2;
const LISTED_SHIFT: u32 = 3;
const FILE_SHIFT: u32 = 4;
const FILE_BITS: u32 = 20;
const SIZE_LOW_SHIFT: u32 = FILE_SHIFT + FILE_BITS;
const SIZE_LOW_BITS: u32 = u32::BITS - SIZE_LOW_SHIFT;
const TRANSACTION_BITS: u32 = 15;
/// Sizes are below 32 MiB; Core accepts no larger record.
const SIZE_BITS: u32 = SIZE_LOW_BITS + u32::BITS - TRANSACTION_BITS;

/// `count` bits of a word, starting at bit `shift`.
#[inline]
fn bits(word: u32, shift: u32, count: u32) -> u32 {
    word >> shift & (u32::MAX >> (u32::BITS - count))
}

/// The word with these bits replaced.
#[inline]
fn with_bits(word: u32, shift: u32, count: u32, value: u32) -> u32 {
    let mask = u32::MAX >> (u32::BITS - count);
    debug_assert!(value <= mask, "{value} in {count} bits");
    word & !(mask << shift) | (value & mask) << shift
}

impl Body {
    /// The state of a block of which only the header is known.
    pub(super) fn absent(is_listed: bool) -> Body {
        let mut body = Body::default();
        body.set_listed(is_listed);
        body
    }

    /// The state recorded in an entry of the index.
    pub(super) fn of_entry(entry: &IndexEntry) -> Body {
        let mut body = Body::absent(true);
        (body.data, body.undo) = (NonZeroU32::new(entry.data_offset), NonZeroU32::new(entry.undo_offset));
        body.set_file(entry.file);
        body.set_checked(Validity::of_level(entry.status.level()), entry.tx_count);
        body
    }

    /// The place of the block, if it is stored at an offset below 4 GiB, which an entry can name.
    pub fn location(&self) -> Option<FilePos> {
        self.data.map(|offset| FilePos { file: self.file(), offset: offset.get() })
    }

    /// The place of its undo data, if it is stored.
    pub fn undo(&self) -> Option<FilePos> {
        self.undo.map(|offset| FilePos { file: self.file(), offset: offset.get() })
    }

    /// Number of the block file, which is also the number of the undo file.
    pub fn file(&self) -> u32 {
        bits(self.marks, FILE_SHIFT, FILE_BITS)
    }

    fn set_file(&mut self, file: u32) {
        self.marks = with_bits(self.marks, FILE_SHIFT, FILE_BITS, file);
    }

    /// Size of the block's record in bytes; 0 while it is not stored.
    pub fn size(&self) -> u32 {
        let high = bits(self.counts, TRANSACTION_BITS, u32::BITS - TRANSACTION_BITS);
        high << SIZE_LOW_BITS | bits(self.marks, SIZE_LOW_SHIFT, SIZE_LOW_BITS)
    }

    /// Sets the size, capped to the largest value that fits.
    pub(super) fn set_size(&mut self, size: u32) {
        let size = size.min((1 << SIZE_BITS) - 1);
        self.marks = with_bits(self.marks, SIZE_LOW_SHIFT, SIZE_LOW_BITS, size & ((1 << SIZE_LOW_BITS) - 1));
        let high = size >> SIZE_LOW_BITS;
        self.counts = with_bits(self.counts, TRANSACTION_BITS, u32::BITS - TRANSACTION_BITS, high);
    }

    /// Number of transactions; 0 until a body was found valid.
    pub fn transactions(&self) -> u32 {
        bits(self.counts, 0, TRANSACTION_BITS)
    }

    /// Validation level of the block.
    pub fn validity(&self) -> Validity {
        Validity::of_level(bits(self.marks, 0, DIRTY_SHIFT) + Validity::Tree.level())
    }

    pub(super) fn set_validity(&mut self, validity: Validity) {
        self.marks = with_bits(self.marks, 0, DIRTY_SHIFT, validity.level() - Validity::Tree.level());
    }

    /// Sets validity and number of transactions.
    ///
    /// # Panics
    ///
    /// If there are more than a block can have: callers count them in a valid block, or bound the number when reading
    /// it.
    pub(super) fn set_checked(&mut self, validity: Validity, transactions: u32) {
        assert!(transactions <= BLOCK_TRANSACTIONS_MAX, "{transactions} transactions in a block");
        self.set_validity(validity);
        self.counts = with_bits(self.counts, 0, TRANSACTION_BITS, transactions);
    }

    /// Whether the entry differs from the one in the index on disk.
    pub(super) fn is_dirty(&self) -> bool {
        bits(self.marks, DIRTY_SHIFT, 1) == 1
    }

    pub(super) fn set_dirty(&mut self, is_dirty: bool) {
        self.marks = with_bits(self.marks, DIRTY_SHIFT, 1, u32::from(is_dirty));
    }

    /// Whether the index on disk has an entry, or will get one. A header found only in a block file gets no entry until
    /// its body is checked, because Core accepts header and body of a file together.
    pub(super) fn is_listed(&self) -> bool {
        bits(self.marks, LISTED_SHIFT, 1) == 1
    }

    pub(super) fn set_listed(&mut self, is_listed: bool) {
        self.marks = with_bits(self.marks, LISTED_SHIFT, 1, u32::from(is_listed));
    }

    /// Whether it was stored once, and its file was removed.
    pub fn is_pruned(&self) -> bool {
        self.data.is_none() && self.transactions() > 0
    }

    /// Sets the block's place. Undo data is in the file of the same number, so it is dropped if the file number
    /// changes.
    pub(super) fn set_location(&mut self, at: BlockAt) {
        let file = at.file.min(FILE_NUMBER_MAX);
        if self.file() != file {
            self.undo = None;
        }
        self.set_file(file);
        self.data = offset_in_index(at);
        self.set_size(at.size);
    }

    /// Whether setting this place would change nothing.
    pub(super) fn is_at(&self, at: BlockAt) -> bool {
        let mut there = *self;
        there.set_location(at);
        *self == there
    }

    /// Sets the offset of its undo data in the undo file with the number of its block file; 0 if there is no undo data.
    pub(super) fn set_undo(&mut self, offset: u32) {
        self.undo = NonZeroU32::new(offset);
    }

    /// Resets everything except the flags: the body is then missing, and its validity unknown.
    pub(super) fn clear(&mut self) {
        let mut cleared = Body::absent(self.is_listed());
        cleared.set_dirty(self.is_dirty());
        *self = cleared;
    }

    /// Removes the places, because the files are removed.
    pub(super) fn set_pruned(&mut self) {
        (self.data, self.undo) = (None, None);
        self.set_file(0);
        self.set_size(0);
    }
}

/// `None` for a place that the index cannot name: an offset beyond 4 GiB, or values that no block file has.
fn offset_in_index(at: BlockAt) -> Option<NonZeroU32> {
    let is_named = at.file <= FILE_NUMBER_MAX && at.size < 1 << SIZE_BITS;
    at.file_pos().filter(|_| is_named).and_then(|at| NonZeroU32::new(at.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each setter changes its own field and no other.
    #[test]
    fn body_packs_what_is_known_of_it() {
        let levels = [Validity::Tree, Validity::Transactions, Validity::Chain, Validity::Scripts];
        for file in [0, 1, 5000, FILE_NUMBER_MAX] {
            for size in [0, 1, 255, 256, 4_000_000, (1 << SIZE_BITS) - 1] {
                for (validity, transactions) in levels.into_iter().zip([0, 1, 16_666, BLOCK_TRANSACTIONS_MAX]) {
                    for (is_dirty, is_listed) in [(false, false), (true, false), (false, true), (true, true)] {
                        let mut body = Body::absent(is_listed);
                        body.set_dirty(is_dirty);
                        body.set_location(BlockAt { file, offset: 88, size });
                        body.set_undo(99);
                        body.set_checked(validity, transactions);
                        assert_eq!((body.file(), body.size(), body.transactions()), (file, size, transactions));
                        assert_eq!(
                            (body.validity(), body.is_dirty(), body.is_listed()),
                            (validity, is_dirty, is_listed)
                        );
                        assert_eq!(body.location(), Some(FilePos { file, offset: 88 }));
                        assert_eq!(body.undo(), Some(FilePos { file, offset: 99 }));
                        body.clear();
                        assert_eq!((body.is_dirty(), body.is_listed(), body.size()), (is_dirty, is_listed, 0));
                        assert_eq!((body.location(), body.transactions()), (None, 0));
                    }
                }
            }
        }
        let mut body = Body::absent(true);
        for at in [
            BlockAt { file: 3, offset: 1 << 32, size: 80 },
            BlockAt { file: FILE_NUMBER_MAX + 1, offset: 8, size: 80 },
            BlockAt { file: 3, offset: 8, size: 1 << SIZE_BITS },
        ] {
            body.set_location(at);
            assert!(body.location().is_none() && body.is_at(at), "{at:?} cannot be named");
        }
    }
}
