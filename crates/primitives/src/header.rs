//! Block headers: 80 bytes.
//!
//! version i32 | previous hash 32 | merkle root 32 | time u32 | bits u32 | nonce u32, all little endian.

use crate::{BlockHash, Hash256};
use std::fmt;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 80;

/// A block header, kept as its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header(pub [u8; HEADER_BYTES]);

impl Header {
    /// A header from its fields.
    pub fn new(version: i32, prev: BlockHash, merkle_root: Hash256, time: u32, bits: u32, nonce: u32) -> Header {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&version.to_le_bytes());
        bytes[4..36].copy_from_slice(prev.as_bytes());
        bytes[36..68].copy_from_slice(&merkle_root.0);
        bytes[68..72].copy_from_slice(&time.to_le_bytes());
        bytes[72..76].copy_from_slice(&bits.to_le_bytes());
        bytes[76..].copy_from_slice(&nonce.to_le_bytes());
        Header(bytes)
    }

    fn u32_at(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().expect("four bytes"))
    }

    fn hash_at(&self, at: usize) -> Hash256 {
        Hash256(self.0[at..at + 32].try_into().expect("32 bytes"))
    }

    /// Version, signed as in Core.
    pub fn version(&self) -> i32 {
        self.u32_at(0).cast_signed()
    }

    /// Whether these are the first 80 bytes of a header of Knots 29.4.1's chain: bit 31 of the version is set, which it
    /// is in no block of Bitcoin's chain up to height 962,651, the last one checked.
    pub fn is_of_the_split(&self) -> bool {
        self.version() < 0
    }

    /// Hash of the parent; zero for the genesis block.
    pub fn prev(&self) -> BlockHash {
        BlockHash::from_hash256(self.hash_at(4))
    }

    /// Root of the tree of txids.
    pub fn merkle_root(&self) -> Hash256 {
        self.hash_at(36)
    }

    /// Seconds since 1970.
    pub fn time(&self) -> u32 {
        self.u32_at(68)
    }

    /// The target in compact form.
    pub fn bits(&self) -> u32 {
        self.u32_at(72)
    }

    /// The nonce.
    pub fn nonce(&self) -> u32 {
        self.u32_at(76)
    }

    /// Double SHA-256 of the bytes. Compute it once and store it.
    pub fn hash(&self) -> BlockHash {
        BlockHash::from_bytes(kernels::sha256::sha256d(&self.0))
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Header")
            .field("version", &self.version())
            .field("prev", &self.prev())
            .field("merkle_root", &self.merkle_root())
            .field("time", &self.time())
            .field("bits", &format_args!("{:08x}", self.bits()))
            .field("nonce", &self.nonce())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mainnet's genesis block: facts from Core's chain parameters.
    #[test]
    fn header_of_genesis_has_known_hash_and_fields() {
        let merkle = Hash256::literal("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
        let header = Header::new(1, BlockHash::ZERO, merkle, 1_231_006_505, 0x1d00_ffff, 2_083_236_893);
        assert_eq!(
            header.hash(),
            BlockHash::literal("000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f")
        );
        assert_eq!(
            (header.version(), header.prev(), header.merkle_root(), header.time(), header.bits(), header.nonce()),
            (1, BlockHash::ZERO, merkle, 1_231_006_505, 0x1d00_ffff, 2_083_236_893)
        );
    }
}
