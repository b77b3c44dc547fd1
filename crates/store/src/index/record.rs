//! One record of the block index.
//!
//! ```text
//! 'b' | hash 32 -> VARINT version (259900, any is accepted) | VARINT height | VARINT status | VARINT transactions
//!                  | VARINT file, with data or undo | VARINT data offset, with data | VARINT undo offset, with undo
//!                  | header 80
//! ```
//!
//! Source: facts of Bitcoin Core b88bffe, `CDiskBlockIndex` and `BlockStatus` in chain.h.

use crate::FilePos;
use primitives::encode::{DecodeError, Reader, put_varint};
use primitives::header::HEADER_BYTES;
use primitives::{BlockHash, Header, Height};
use std::fmt;

/// The version that Core writes and never reads.
const VERSION: u64 = 259_900;

/// The level of a block's validation, and flags for its stored data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Status(pub u32);

impl Status {
    /// Its header is valid and its parents are known.
    pub const TREE: Status = Status(2);
    /// Its transactions were checked without their coins (`BLOCK_VALID_TRANSACTIONS`).
    pub const TRANSACTIONS: Status = Status(3);
    /// Its coins were checked; Core no longer writes this level.
    pub const CHAIN: Status = Status(4);
    /// Its scripts were checked, or assumed valid: it was connected.
    pub const SCRIPTS: Status = Status(5);
    /// The bits of the level.
    pub const LEVEL_MASK: u32 = 7;
    /// The block is in a block file.
    pub const HAVE_DATA: u32 = 8;
    /// Its undo data is in an undo file.
    pub const HAVE_UNDO: u32 = 16;
    /// It or one of its ancestors is invalid.
    pub const FAILED_VALID: u32 = 32;
    /// Written by older versions for descendants of invalid blocks; read as [`Status::FAILED_VALID`].
    pub const FAILED_CHILD: u32 = 64;
    /// It was received with its witnesses. Core requires this of every block of its chain from segwit's height on.
    pub const OPT_WITNESS: u32 = 128;

    /// The level: 0 to 7, of which Core writes 2, 3 and 5.
    pub fn level(self) -> u32 {
        self.0 & Status::LEVEL_MASK
    }

    /// The status with another level.
    #[must_use]
    pub fn with_level(self, level: Status) -> Status {
        Status(self.0 & !Status::LEVEL_MASK | level.0)
    }

    /// The status with these flags set.
    #[must_use]
    pub fn with(self, flags: u32) -> Status {
        Status(self.0 | flags)
    }

    /// The status with these flags cleared.
    #[must_use]
    pub fn without(self, flags: u32) -> Status {
        Status(self.0 & !flags)
    }

    /// Whether all these flags are set.
    pub fn has(self, flags: u32) -> bool {
        self.0 & flags == flags
    }

    /// The block has been connected, and is not marked invalid.
    pub fn is_connected(self) -> bool {
        self.level() >= Status::SCRIPTS.level() && !self.is_failed()
    }

    /// It is marked invalid.
    pub fn is_failed(self) -> bool {
        self.0 & (Status::FAILED_VALID | Status::FAILED_CHILD) != 0
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({})", self.0)
    }
}

/// The index entry of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// Hash of the header.
    pub hash: BlockHash,
    /// The header.
    pub header: Header,
    /// Its height.
    pub height: Height,
    /// Validation level and flags.
    pub status: Status,
    /// Number of its transactions if its body was ever received and checked, else 0. Pruning keeps it.
    pub tx_count: u32,
    /// Number of its block and undo file; 0 without data and undo data.
    pub file: u32,
    /// Place of the block in the block file; 0 without [`Status::HAVE_DATA`].
    pub data_offset: u32,
    /// Place of its payload in the undo file; 0 without [`Status::HAVE_UNDO`].
    pub undo_offset: u32,
}

impl IndexEntry {
    /// An entry for a header without a block.
    pub fn header_only(header: Header, hash: BlockHash, height: Height) -> IndexEntry {
        IndexEntry { hash, header, height, status: Status::TREE, tx_count: 0, file: 0, data_offset: 0, undo_offset: 0 }
    }

    /// The place of the block, if it is stored.
    pub fn data(&self) -> Option<FilePos> {
        self.status.has(Status::HAVE_DATA).then_some(FilePos { file: self.file, offset: self.data_offset })
    }

    /// The place of its undo data, if it is stored.
    pub fn undo(&self) -> Option<FilePos> {
        self.status.has(Status::HAVE_UNDO).then_some(FilePos { file: self.file, offset: self.undo_offset })
    }

    /// Decodes a stored value. The hash is left zero: [`IndexEntry::hash`] must be computed, best for many at a time.
    ///
    /// # Errors
    ///
    /// Truncated data, a number beyond its type, or trailing bytes.
    pub fn decode(value: &[u8]) -> Result<IndexEntry, DecodeError> {
        let mut reader = Reader::new(value);
        reader.varint_u32()?;
        let height = reader.varint_u32()?;
        let status = Status(reader.varint_u32()?);
        let tx_count = reader.varint_u32()?;
        let mut number = |flags: u32| if status.0 & flags == 0 { Ok(0) } else { reader.varint_u32() };
        let file = number(Status::HAVE_DATA | Status::HAVE_UNDO)?;
        let data_offset = number(Status::HAVE_DATA)?;
        let undo_offset = number(Status::HAVE_UNDO)?;
        let header = Header(*reader.array::<HEADER_BYTES>()?);
        reader.finish()?;
        Ok(IndexEntry {
            hash: BlockHash::ZERO,
            header,
            height: Height::new(height),
            status,
            tx_count,
            file,
            data_offset,
            undo_offset,
        })
    }

    /// Appends the stored value.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, VERSION);
        for number in [self.height.to_u32(), self.status.0, self.tx_count] {
            put_varint(out, u64::from(number));
        }
        for (flags, number) in [
            (Status::HAVE_DATA | Status::HAVE_UNDO, self.file),
            (Status::HAVE_DATA, self.data_offset),
            (Status::HAVE_UNDO, self.undo_offset),
        ] {
            if self.status.0 & flags != 0 {
                put_varint(out, u64::from(number));
            }
        }
        out.extend_from_slice(&self.header.0);
    }
}

/// Extra bytes in the headers of Knots 29.4.1's chain: 164 in place of 80.
const SPLIT_BYTES: usize = 84;

/// The height in a stored value of that chain; `None` for other values. It has Core's form with a longer header, whose
/// version has bit 31 set. Source: bitcoinknots/bitcoin issue 359 and the release notes of 29.4.1.
pub(super) fn split_height(value: &[u8]) -> Option<Height> {
    let shorter = value.get(..value.len().checked_sub(SPLIT_BYTES)?)?;
    let entry = IndexEntry::decode(shorter).ok()?;
    entry.header.is_of_the_split().then_some(entry.height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Hash256, hex};

    /// Mainnet's genesis block in file 0 at 8: computed from Core's rules.
    #[test]
    fn index_entry_of_the_genesis_block_matches_core() {
        let merkle = Hash256::literal("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
        let header = Header::new(1, BlockHash::ZERO, merkle, 1_231_006_505, 0x1d00_ffff, 2_083_236_893);
        let status = Status::TRANSACTIONS.with(Status::HAVE_DATA);
        assert_eq!(status.0, 11);
        let entry = IndexEntry {
            status,
            tx_count: 1,
            data_offset: 8,
            hash: BlockHash::ZERO,
            ..IndexEntry::header_only(header, header.hash(), Height::GENESIS)
        };
        let mut value = Vec::new();
        entry.encode(&mut value);
        assert_eq!(hex::encode(&value), format!("8eed3c000b010008{}", hex::encode(&header.0)));
        assert_eq!(IndexEntry::decode(&value), Ok(entry));
        assert_eq!((entry.data(), entry.undo()), (Some(FilePos { file: 0, offset: 8 }), None));
        for cut in 0..value.len() {
            assert!(IndexEntry::decode(&value[..cut]).is_err(), "cut at {cut}");
        }
        value.push(0);
        assert!(IndexEntry::decode(&value).is_err(), "a byte behind it");
    }

    #[test]
    fn index_entry_decode_of_flipped_bytes_never_panics() {
        let entry = IndexEntry {
            status: Status(157),
            ..IndexEntry::header_only(Header([7; 80]), BlockHash::ZERO, Height::new(300))
        };
        let mut good = Vec::new();
        entry.encode(&mut good);
        for at in 0..good.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff] {
                let mut value = good.clone();
                value[at] = byte;
                if let Ok(other) = IndexEntry::decode(&value) {
                    let mut again = Vec::new();
                    other.encode(&mut again);
                    // The version is not kept.
                    assert!(at < 3 || again == value, "byte {at} = {byte:02x}");
                }
            }
        }
    }

    #[test]
    fn index_entry_round_trips_for_every_combination_of_fields() {
        for (status, numbers) in [(2, 0), (3, 0), (11, 2), (139, 2), (29, 3), (157, 3), (2 | 16, 2), (34, 0), (5, 0)] {
            let entry = IndexEntry {
                hash: BlockHash::ZERO,
                header: Header([7; 80]),
                height: Height::new(300),
                status: Status(status),
                tx_count: 127,
                file: if numbers > 0 { 5 } else { 0 },
                data_offset: if status & 8 != 0 { 9 } else { 0 },
                undo_offset: if status & 16 != 0 { 10 } else { 0 },
            };
            let mut value = Vec::new();
            entry.encode(&mut value);
            let status_bytes = if status > 127 { 2 } else { 1 };
            assert_eq!(value.len(), 3 + 2 + status_bytes + 1 + numbers + 80, "{status}");
            assert_eq!(IndexEntry::decode(&value), Ok(entry), "{status}");
        }
        assert_eq!(Status::SCRIPTS.with(8 | 16 | 128).0, 157);
        assert_eq!(Status(157).without(8 | 16).with_level(Status::TREE).0, 130);
        assert!(Status(64).is_failed() && Status(32).is_failed() && !Status(157).is_failed());
    }
}
