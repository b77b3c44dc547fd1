//! What is known of a block's body: how far it was checked, where it lies. 24 bytes a header.

use std::num::NonZeroU32;
use store::blockfiles::BlockAt;
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
    /// Number of the block file and of the undo file; only where one of the offsets is set.
    file: u32,
    /// A record's header lies before a block: no block has offset 0.
    data: Option<NonZeroU32>,
    undo: Option<NonZeroU32>,
    /// Bytes of the block's record.
    pub(super) size: u32,
    /// Transactions; 0 until a body was found valid.
    pub(super) transactions: u32,
    pub(super) validity: Validity,
    /// Whether the entry differs from what the index on disk says.
    pub(super) is_dirty: bool,
    /// Whether the index on disk has an entry, or gets one. A header that was met in a block file alone has none until
    /// its body was checked: Core takes header and body of a file in together.
    pub(super) is_listed: bool,
}

const _: () = assert!(size_of::<Body>() == 24);

impl Body {
    /// Nothing but a header.
    pub(super) fn absent(is_listed: bool) -> Body {
        Body { is_listed, ..Body::default() }
    }

    /// What an entry of the index says.
    pub(super) fn of_entry(entry: &IndexEntry) -> Body {
        Body {
            file: entry.file,
            data: NonZeroU32::new(entry.data_offset),
            undo: NonZeroU32::new(entry.undo_offset),
            size: 0,
            transactions: entry.tx_count,
            validity: Validity::of_level(entry.status.level()),
            is_dirty: false,
            is_listed: true,
        }
    }

    /// Where the block lies, if it is there, and its place can be named: below 4 GiB.
    pub fn location(&self) -> Option<FilePos> {
        self.data.map(|offset| FilePos { file: self.file, offset: offset.get() })
    }

    /// Where its undo data lies, if it is there.
    pub fn undo(&self) -> Option<FilePos> {
        self.undo.map(|offset| FilePos { file: self.file, offset: offset.get() })
    }

    /// Number of the block file, and of the undo file that its undo data belongs into.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// Bytes of the block's record; 0 while it is not there.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Transactions; 0 until a body was found valid.
    pub fn transactions(&self) -> u32 {
        self.transactions
    }

    /// How far it was checked.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether it was there once, and its file is gone.
    pub fn is_pruned(&self) -> bool {
        self.data.is_none() && self.transactions > 0
    }

    /// It lies there from now on. Undo data lies in the file of the same number; another file has none of this block.
    pub(super) fn set_location(&mut self, at: BlockAt) {
        if self.file != at.file {
            self.undo = None;
        }
        (self.file, self.data, self.size) = (at.file, offset_in_index(at), at.size);
    }

    /// Whether that is what it says of its location already.
    pub(super) fn is_at(&self, at: BlockAt) -> bool {
        (self.file, self.data, self.size) == (at.file, offset_in_index(at), at.size)
    }

    /// Its undo data lies at this offset of the undo file with the number of its block file; 0 for none.
    pub(super) fn set_undo(&mut self, offset: u32) {
        self.undo = NonZeroU32::new(offset);
    }

    /// It is not there, and nothing is known of it.
    pub(super) fn clear(&mut self) {
        *self = Body { is_dirty: self.is_dirty, is_listed: self.is_listed, ..Body::default() };
    }

    /// Its files are gone.
    pub(super) fn set_pruned(&mut self) {
        (self.file, self.data, self.undo, self.size) = (0, None, None, 0);
    }
}

/// Absent for a block that lies beyond 4 GiB: the index cannot name its place.
fn offset_in_index(at: BlockAt) -> Option<NonZeroU32> {
    at.file_pos().and_then(|at| NonZeroU32::new(at.offset))
}
