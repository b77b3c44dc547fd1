//! The format of a table file: its layout and the sizes that reading and writing share.
//!
//! File:    data blocks | filter block | metaindex block | index block | footer
//! Block:   contents | kind u8 (0: as it is) | masked crc32c u32 LE (of contents and kind)
//! Handle:  offset varint | bytes varint (without those five)
//! Footer:  metaindex handle | index handle | zeros up to 40 | magic u64 LE
//!
//! Source: Bitcoin Core b88bffe, leveldb/table/format.h and format.cc.

use std::ops::Range;

use crate::coding::{Reader, put_varint};

/// A data block is closed when its contents reach this size. Source: LevelDB's default `Options::block_size`.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// Bytes of the footer at the end of a table.
pub(crate) const FOOTER_BYTES: usize = 48;
/// The last eight bytes of the footer.
pub(crate) const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
/// Bytes after a block's contents: kind and checksum.
pub(crate) const TRAILER_BYTES: usize = 5;

/// Bits of a packed handle that hold the block's size; the other 38 hold its offset: blocks of 64 MiB, tables of 256
/// GiB.
const SIZE_BITS: u32 = 26;
/// The largest sum of key and value lengths of one record: then its block can be read.
pub(crate) const RECORD_BYTES_MAX: usize = 1 << (SIZE_BITS - 1);
const _: () = assert!(RECORD_BYTES_MAX + BLOCK_BYTES + 64 < 1 << SIZE_BITS);

/// The place of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Handle {
    /// Appends the two varints.
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.bytes);
    }

    /// Reads the two varints; `None` if the bytes do not contain them.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Option<Handle> {
        Some(Handle { offset: reader.varint64()?, bytes: reader.varint64()? })
    }

    /// The range of the contents; `None` if the contents or the trailer after them extend past the file.
    pub(crate) fn range(self, file: &[u8]) -> Option<Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        let end = start.checked_add(usize::try_from(self.bytes).ok()?)?;
        (end.checked_add(TRAILER_BYTES)? <= file.len()).then_some(start..end)
    }

    /// Offset and size in 64 bits; `None` if they do not fit.
    pub(crate) fn pack(self) -> Option<u64> {
        let fits = self.bytes >> SIZE_BITS == 0 && self.offset >> (64 - SIZE_BITS) == 0;
        fits.then_some(self.offset << SIZE_BITS | self.bytes)
    }

    /// The handle that [`Handle::pack`] packed.
    pub(crate) fn unpack(packed: u64) -> Handle {
        Handle { offset: packed >> SIZE_BITS, bytes: packed & ((1 << SIZE_BITS) - 1) }
    }
}
