//! UTXO sets in chunks between peers: the tree of chunk hashes, the messages' payloads, and the source of served sets.
//!
//! ```text
//! tree:   leaf SHA256d(chunk); node SHA256d(left | right); the last node of an odd level moves up unchanged
//!
//! getutxotree:  base block 32
//! utxotree:     base block 32 | format version u16 LE | bytes of the set u64 LE | compact size | SHA256d of each chunk
//! getutxoset:   base block 32 | index u32 LE
//! utxoset:      base block 32 | index u32 LE | compact size | chunk
//! ```
//!
//! The set is a file of Core's `dumptxoutset`, cut into chunks of [`CHUNK_BYTES`]. Source: BIP-0452, draft 0.5.0
//! (bitcoin/bips 2137), and bitcoin/bitcoin 35054. The draft's tables have no compact sizes, but the reference
//! implementation writes vectors, which have them: both forms are read.
//!
//! Absent on purpose: files (`node`), the choice of peers and requests ([`crate::hub`]).

use super::{PAYLOAD_BYTES_MAX, ParseError};
use primitives::encode::put_compact_size;
use primitives::{BlockHash, Hash256, Height, Reader};
use std::fmt;
use std::sync::Arc;

/// Name of the feature by which both ends agree to use these messages (BIP-0434).
pub const FEATURE: &[u8] = b"BIP452";
/// Bytes of each chunk but the last.
pub const CHUNK_BYTES: usize = 3_900_000;
/// Bytes of a chunk's payload before its length.
const CHUNK_HEAD_BYTES: usize = 36;
/// Bytes of a tree's payload before its hashes.
const TREE_HEAD_BYTES: usize = 42;
// A chunk fits into a message with either form of its length.
const _: () = assert!(CHUNK_HEAD_BYTES + 9 + CHUNK_BYTES <= PAYLOAD_BYTES_MAX);
/// Chunks of the largest set whose tree fits a message: 487 GB.
const CHUNKS_COUNT_MAX: usize = (PAYLOAD_BYTES_MAX - TREE_HEAD_BYTES - 9) / 32;

/// Blocks from one scheduled set to the next.
const SCHEDULE_INTERVAL: u32 = 14_112;
/// A scheduled height is buried by at least this many blocks.
const SCHEDULE_DEPTH: u32 = 2016;

/// Heights of the two sets that a node with [`crate::wire::services::UTXO_SET`] serves; `None` while the chain is too
/// short for two sets above genesis.
pub fn scheduled_heights(tip: Height) -> Option<[Height; 2]> {
    let buried = tip.to_u32().checked_sub(SCHEDULE_DEPTH)?;
    let last = buried - buried % SCHEDULE_INTERVAL;
    let before = last.checked_sub(SCHEDULE_INTERVAL).filter(|height| *height > 0)?;
    Some([Height::new(last), Height::new(before)])
}

/// The chunks of one UTXO set.
#[derive(Clone, PartialEq, Eq)]
pub struct ChunkTree {
    /// Format version of the set.
    pub version: u16,
    /// Bytes of the set.
    pub bytes: u64,
    /// Double SHA-256 of each chunk.
    pub hashes: Vec<Hash256>,
}

impl fmt::Debug for ChunkTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkTree({} bytes, {} chunks)", self.bytes, self.hashes.len())
    }
}

impl ChunkTree {
    /// The Merkle root, which commits to the whole set; zero for a set without a chunk.
    pub fn root(&self) -> Hash256 {
        let mut level = self.hashes.clone();
        while level.len() > 1 {
            let parent = |pair: &[Hash256]| match pair {
                [left, right] => Hash256(kernels::sha256::sha256d(&[left.0, right.0].concat())),
                odd => odd[0],
            };
            level = level.chunks(2).map(parent).collect();
        }
        level.first().copied().unwrap_or(Hash256::ZERO)
    }

    /// Bytes of a chunk; `None` beyond the last one.
    pub fn chunk_bytes(&self, index: u32) -> Option<usize> {
        let start = u64::from(index) * CHUNK_BYTES as u64;
        let left = self.bytes.checked_sub(start).filter(|left| *left > 0)?;
        Some(usize::try_from(left).unwrap_or(usize::MAX).min(CHUNK_BYTES))
    }

    /// Whether these bytes are the chunk at `index`.
    pub fn has_chunk(&self, index: u32, chunk: &[u8]) -> bool {
        let hash = usize::try_from(index).ok().and_then(|index| self.hashes.get(index));
        self.chunk_bytes(index) == Some(chunk.len())
            && hash.is_some_and(|hash| hash.0 == kernels::sha256::sha256d(chunk))
    }

    /// Parses the payload of `utxotree`.
    pub(crate) fn parse(payload: &[u8]) -> Result<(BlockHash, ChunkTree), ParseError> {
        let mut reader = Reader::new(payload);
        let base = BlockHash::from_bytes(*reader.array::<32>()?);
        let version = reader.u16()?;
        let bytes = reader.u64()?;
        let chunks = bytes.div_ceil(CHUNK_BYTES as u64);
        let chunks = usize::try_from(chunks).unwrap_or(usize::MAX);
        if chunks > CHUNKS_COUNT_MAX {
            return Err(ParseError::Count { have: chunks, max: CHUNKS_COUNT_MAX });
        }
        if reader.remaining() != chunks * 32 {
            let have = reader.compact_size()?;
            if have != chunks || reader.remaining() != chunks * 32 {
                return Err(ParseError::Count { have, max: chunks });
            }
        }
        let hashes = (0..chunks).map(|_| Ok(Hash256(*reader.array()?))).collect::<Result<Vec<_>, ParseError>>()?;
        Ok((base, ChunkTree { version, bytes, hashes }))
    }

    /// Writes the payload of `utxotree`.
    pub(crate) fn put(&self, out: &mut Vec<u8>, base: &BlockHash) {
        out.extend_from_slice(base.as_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        put_compact_size(out, self.hashes.len() as u64);
        self.hashes.iter().for_each(|hash| out.extend_from_slice(&hash.0));
    }
}

/// The base block and index in the payload of `utxoset`; `None` if it ends before.
pub(crate) fn chunk_named(payload: &[u8]) -> Option<(BlockHash, u32)> {
    let mut reader = Reader::new(payload);
    let base = BlockHash::from_bytes(*reader.array::<32>().ok()?);
    Some((base, reader.u32().ok()?))
}

/// Offset of the chunk in the payload of `utxoset`; `chunk_bytes` is the length of the requested chunk.
pub(crate) fn chunk_start(payload: &[u8], chunk_bytes: usize) -> Result<usize, ParseError> {
    let mut reader = Reader::new(payload);
    reader.take(CHUNK_HEAD_BYTES)?;
    if reader.remaining() != chunk_bytes {
        let have = reader.compact_size()?;
        if have != chunk_bytes || reader.remaining() != chunk_bytes {
            return Err(ParseError::Count { have, max: chunk_bytes });
        }
    }
    Ok(payload.len() - chunk_bytes)
}

/// A request for a tree or a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetRequest {
    /// `getutxotree`
    Tree(BlockHash),
    /// `getutxoset`
    Chunk(BlockHash, u32),
}

/// The sets that this node serves.
pub trait SetSource: Send + Sync + fmt::Debug {
    /// The base blocks of the sets.
    fn bases(&self) -> Vec<BlockHash>;

    /// The chunks of the set of a block, if it is served.
    /// Runs in the serving thread: it may read a disk.
    fn tree(&self, base: &BlockHash) -> Option<Arc<ChunkTree>>;

    /// Fills `out` with the bytes of the set from `offset` on; `false` if they cannot be read.
    /// Runs in the serving thread: it may read a disk.
    fn read(&self, base: &BlockHash, offset: u64, out: &mut [u8]) -> bool;
}

/// Bytes of the payload of `utxoset` with a chunk of this length.
pub(crate) fn chunk_payload_head(base: &BlockHash, index: u32, chunk_bytes: usize) -> Vec<u8> {
    let mut head = [&base.as_bytes()[..], &index.to_le_bytes()].concat();
    put_compact_size(&mut head, chunk_bytes as u64);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(chunks: usize, last_bytes: u64) -> ChunkTree {
        let hashes = (0..chunks).map(|index| Hash256([u8::try_from(index).unwrap(); 32])).collect();
        let bytes = (chunks as u64).saturating_sub(1) * CHUNK_BYTES as u64 + last_bytes;
        ChunkTree { version: 2, bytes, hashes }
    }

    /// Two levels by hand: an odd node is promoted, not doubled.
    #[test]
    fn root_promotes_the_last_node_of_an_odd_level() {
        let both = |a: Hash256, b: Hash256| Hash256(kernels::sha256::sha256d(&[a.0, b.0].concat()));
        let leaf = |number: u8| Hash256([number; 32]);
        for (chunks, want) in [
            (0, Hash256::ZERO),
            (1, leaf(0)),
            (2, both(leaf(0), leaf(1))),
            (3, both(both(leaf(0), leaf(1)), leaf(2))),
            (5, both(both(both(leaf(0), leaf(1)), both(leaf(2), leaf(3))), leaf(4))),
        ] {
            assert_eq!(tree(chunks, 7).root(), want, "{chunks}");
        }
    }

    #[test]
    fn chunks_are_as_long_as_the_set_says() {
        let tree = tree(3, 5);
        let bytes: Vec<_> = (0..4).map(|index| tree.chunk_bytes(index)).collect();
        assert_eq!(bytes, [Some(CHUNK_BYTES), Some(CHUNK_BYTES), Some(5), None]);
        assert_eq!(tree.chunk_bytes(u32::MAX), None);
        let hashes = vec![Hash256(kernels::sha256::sha256d(b"four"))];
        let small = ChunkTree { version: 2, bytes: 4, hashes };
        for (row, index, chunk, is_it) in [
            ("right", 0, &b"four"[..], true),
            ("another byte", 0, b"fore", false),
            ("too short", 0, b"fou", false),
            ("beyond", 1, b"four", false),
        ] {
            assert_eq!(small.has_chunk(index, chunk), is_it, "{row}");
        }
    }

    #[test]
    fn trees_round_trip_in_both_forms_and_nothing_else_is_one() {
        let base = BlockHash::from_bytes([9; 32]);
        for chunks in [1, 2, 200] {
            let tree = tree(chunks, 1);
            let mut payload = Vec::new();
            tree.put(&mut payload, &base);
            assert_eq!(ChunkTree::parse(&payload), Ok((base, tree.clone())));
            let bare = [&payload[..TREE_HEAD_BYTES], &payload[payload.len() - 32 * chunks..]].concat();
            assert_eq!(ChunkTree::parse(&bare), Ok((base, tree)), "without the count");
            for cut in 0..payload.len() {
                // As long as one without the count: another tree, as its root says.
                let is_other = cut == bare.len();
                assert_eq!(ChunkTree::parse(&payload[..cut]).is_ok(), is_other, "{chunks}: cut at {cut}");
            }
            payload.push(0);
            assert!(ChunkTree::parse(&payload).is_err(), "{chunks}: a byte more");
        }
        for bytes in [u64::MAX, u64::MAX / 2, CHUNK_BYTES as u64 * (CHUNKS_COUNT_MAX as u64 + 1)] {
            let mut payload = vec![0; 34];
            payload.extend(bytes.to_le_bytes());
            let why = ChunkTree::parse(&payload).unwrap_err().to_string();
            assert!(why.contains("at most"), "{bytes}: {why}");
        }
    }

    #[test]
    fn chunks_are_found_in_both_forms() {
        let base = BlockHash::from_bytes([9; 32]);
        let head = chunk_payload_head(&base, 7, 4);
        let with = [&head[..], b"four"].concat();
        let bare = [&head[..CHUNK_HEAD_BYTES], b"four"].concat();
        for (payload, start) in [(&with, CHUNK_HEAD_BYTES + 1), (&bare, CHUNK_HEAD_BYTES)] {
            assert_eq!((chunk_named(payload), chunk_start(payload, 4)), (Some((base, 7)), Ok(start)));
        }
        for cut in 0..with.len() {
            // A chunk of four bytes, whose first one is the length: its hash will say that it is another one.
            let is_other = cut == bare.len();
            assert_eq!(chunk_start(&with[..cut], 4).is_ok(), is_other, "cut at {cut}");
            assert_eq!(chunk_named(&with[..cut]).is_some(), cut >= CHUNK_HEAD_BYTES, "cut at {cut}");
        }
        assert!(chunk_start(&with, 3).is_err());
    }

    #[test]
    fn schedule_has_two_sets_that_are_buried() {
        let at = |tip| scheduled_heights(Height::new(tip)).map(|heights| heights.map(Height::to_u32));
        for (tip, want) in [
            (0, None),
            (2016 + 14_112, None),
            (2016 + 28_223, None),
            (2016 + 28_224, Some([28_224, 14_112])),
            (2016 + 42_335, Some([28_224, 14_112])),
            (951_552 + 2016, Some([945_504, 931_392])),
        ] {
            assert_eq!(at(tip), want, "{tip}");
        }
    }
}
