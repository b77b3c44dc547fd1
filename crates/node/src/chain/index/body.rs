//! What is known of a block's body: how far it was checked, where it lies. 16 bytes a header.

use std::num::NonZeroU32;
use store::blockfiles::BlockAt;
use store::index::BLOCK_TRANSACTIONS_MAX;
use store::layout::FILE_NUMBER_MAX;
use store::{FilePos, IndexEntry};

/// How far a block was checked: Core's levels, with the numbers that the index on disk has for them.
/// Source: Bitcoin Core b88bffe, `BlockStatus`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[repr(u8)]
pub enum Validity {
    /// Its header.
    #[default]
    Tree = 2,
    /// Everything that the block alone shows.
    Transactions = 3,
    /// No level of ffwd's: an index may hold it.
    Chain = 4,
    /// Everything: it was connected once.
    Scripts = 5,
}

impl Validity {
    /// Of the number on disk. A header that is in the index was checked as such.
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

/// What is known of a block's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Body {
    /// A record's header lies before a block: no block has offset 0.
    data: Option<NonZeroU32>,
    undo: Option<NonZeroU32>,
    /// From the lowest bit: how far it was checked (less 2) 2, dirty 1, listed 1, number of the block file and of the undo file
    /// 20 (only where one of the offsets is set), lowest bits of the size 8.
    marks: u32,
    /// From the lowest bit: transactions 15 (0 until a body was found valid), the size's other bits 17.
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
/// Below 32 MiB; Core takes no larger record.
const SIZE_BITS: u32 = SIZE_LOW_BITS + u32::BITS - TRANSACTION_BITS;

/// Bits of a word, from `shift` on.
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
    /// Nothing but a header.
    pub(super) fn absent(is_listed: bool) -> Body {
        let mut body = Body::default();
        body.set_listed(is_listed);
        body
    }

    /// What an entry of the index says.
    pub(super) fn of_entry(entry: &IndexEntry) -> Body {
        let mut body = Body::absent(true);
        (body.data, body.undo) = (NonZeroU32::new(entry.data_offset), NonZeroU32::new(entry.undo_offset));
        body.set_file(entry.file);
        body.set_checked(Validity::of_level(entry.status.level()), entry.tx_count);
        body
    }

    /// Where the block lies, if it is there, and its place can be named: below 4 GiB.
    pub fn location(&self) -> Option<FilePos> {
        self.data.map(|offset| FilePos { file: self.file(), offset: offset.get() })
    }

    /// Where its undo data lies, if it is there.
    pub fn undo(&self) -> Option<FilePos> {
        self.undo.map(|offset| FilePos { file: self.file(), offset: offset.get() })
    }

    /// Number of the block file, and of the undo file that its undo data belongs into.
    pub fn file(&self) -> u32 {
        bits(self.marks, FILE_SHIFT, FILE_BITS)
    }

    fn set_file(&mut self, file: u32) {
        self.marks = with_bits(self.marks, FILE_SHIFT, FILE_BITS, file);
    }

    /// Bytes of the block's record; 0 while it is not there.
    pub fn size(&self) -> u32 {
        let high = bits(self.counts, TRANSACTION_BITS, u32::BITS - TRANSACTION_BITS);
        high << SIZE_LOW_BITS | bits(self.marks, SIZE_LOW_SHIFT, SIZE_LOW_BITS)
    }

    /// A size that no record has stays what can be said of it.
    pub(super) fn set_size(&mut self, size: u32) {
        let size = size.min((1 << SIZE_BITS) - 1);
        self.marks = with_bits(self.marks, SIZE_LOW_SHIFT, SIZE_LOW_BITS, size & ((1 << SIZE_LOW_BITS) - 1));
        let high = size >> SIZE_LOW_BITS;
        self.counts = with_bits(self.counts, TRANSACTION_BITS, u32::BITS - TRANSACTION_BITS, high);
    }

    /// Transactions; 0 until a body was found valid.
    pub fn transactions(&self) -> u32 {
        bits(self.counts, 0, TRANSACTION_BITS)
    }

    /// How far it was checked.
    pub fn validity(&self) -> Validity {
        Validity::of_level(bits(self.marks, 0, DIRTY_SHIFT) + Validity::Tree.level())
    }

    pub(super) fn set_validity(&mut self, validity: Validity) {
        self.marks = with_bits(self.marks, 0, DIRTY_SHIFT, validity.level() - Validity::Tree.level());
    }

    /// It was checked so far, and has this number of transactions.
    ///
    /// # Panics
    ///
    /// For more than a block can have: they are counted in a valid block, or bounded where they are read.
    pub(super) fn set_checked(&mut self, validity: Validity, transactions: u32) {
        assert!(transactions <= BLOCK_TRANSACTIONS_MAX, "{transactions} transactions in a block");
        self.set_validity(validity);
        self.counts = with_bits(self.counts, 0, TRANSACTION_BITS, transactions);
    }

    /// Whether the entry differs from what the index on disk says.
    pub(super) fn is_dirty(&self) -> bool {
        bits(self.marks, DIRTY_SHIFT, 1) == 1
    }

    pub(super) fn set_dirty(&mut self, is_dirty: bool) {
        self.marks = with_bits(self.marks, DIRTY_SHIFT, 1, u32::from(is_dirty));
    }

    /// Whether the index on disk has an entry, or gets one. A header that was met in a block file alone has none until
    /// its body was checked: Core takes header and body of a file in together.
    pub(super) fn is_listed(&self) -> bool {
        bits(self.marks, LISTED_SHIFT, 1) == 1
    }

    pub(super) fn set_listed(&mut self, is_listed: bool) {
        self.marks = with_bits(self.marks, LISTED_SHIFT, 1, u32::from(is_listed));
    }

    /// Whether it was there once, and its file is gone.
    pub fn is_pruned(&self) -> bool {
        self.data.is_none() && self.transactions() > 0
    }

    /// It lies there from now on. Undo data lies in the file of the same number; another file has none of this block.
    pub(super) fn set_location(&mut self, at: BlockAt) {
        let file = at.file.min(FILE_NUMBER_MAX);
        if self.file() != file {
            self.undo = None;
        }
        self.set_file(file);
        self.data = offset_in_index(at);
        self.set_size(at.size);
    }

    /// Whether that is what it says of its location already.
    pub(super) fn is_at(&self, at: BlockAt) -> bool {
        let mut there = *self;
        there.set_location(at);
        *self == there
    }

    /// Its undo data lies at this offset of the undo file with the number of its block file; 0 for none.
    pub(super) fn set_undo(&mut self, offset: u32) {
        self.undo = NonZeroU32::new(offset);
    }

    /// It is not there, and nothing is known of it.
    pub(super) fn clear(&mut self) {
        let mut cleared = Body::absent(self.is_listed());
        cleared.set_dirty(self.is_dirty());
        *self = cleared;
    }

    /// Its files are gone.
    pub(super) fn set_pruned(&mut self) {
        (self.data, self.undo) = (None, None);
        self.set_file(0);
        self.set_size(0);
    }
}

/// Absent for a block that lies beyond 4 GiB, and for what no block file has: the index cannot name its place.
fn offset_in_index(at: BlockAt) -> Option<NonZeroU32> {
    let is_named = at.file <= FILE_NUMBER_MAX && at.size < 1 << SIZE_BITS;
    at.file_pos().filter(|_| is_named).and_then(|at| NonZeroU32::new(at.offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each setter changes what it names, and nothing else.
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
