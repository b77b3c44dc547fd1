//! Proofs that transactions are in a block: a header and a partial merkle tree.
//!
//! ```text
//! header 80 | transactions u32 LE | CompactSize hashes | hash 32 .. | CompactSize bytes of flags | flags
//! ```
//!
//! Flags are bits, lowest first: for each visited node, depth first, whether something below it is proven; an unset
//! flag, or a leaf, has a hash. Source: BIP-0037; Bitcoin Core b88bffe, merkleblock.cpp.

use kernels::sha256::sha256d;
use primitives::encode::{DecodeError, Reader, put_compact_size};
use primitives::{Hash256, Header, Txid};

/// Maximum number of transactions in a block: each weighs at least 240 of its four million.
const TRANSACTIONS_MAX: u32 = 4_000_000 / 240;

/// Number of nodes at `height` above the leaves.
fn width(count: usize, height: u32) -> usize {
    (count + (1 << height) - 1) >> height
}

/// Height of the root.
fn root_height(count: usize) -> u32 {
    (0..).find(|height| width(count, *height) <= 1).expect("a level of one node comes")
}

fn parent(left: &Hash256, right: &Hash256) -> Hash256 {
    let mut both = [0; 64];
    both[..32].copy_from_slice(&left.0);
    both[32..].copy_from_slice(&right.0);
    Hash256(sha256d(&both))
}

/// The proof for the transactions of a block for which `is_wanted` is true, as bytes.
///
/// # Panics
///
/// If the block has no transactions.
pub fn prove(header: &Header, txids: &[Txid], is_wanted: impl Fn(&Txid) -> bool) -> Vec<u8> {
    assert!(!txids.is_empty(), "a block has transactions");
    // All levels, each hash computed once: leaves first.
    let mut levels: Vec<Vec<Hash256>> = vec![txids.iter().map(|txid| txid.to_hash256()).collect()];
    let mut wanted: Vec<Vec<bool>> = vec![txids.iter().map(is_wanted).collect()];
    while levels[levels.len() - 1].len() > 1 {
        let below = &levels[levels.len() - 1];
        let marks = &wanted[wanted.len() - 1];
        let above = below.chunks(2).map(|pair| parent(&pair[0], pair.get(1).unwrap_or(&pair[0]))).collect();
        let marks = marks.chunks(2).map(|pair| pair.contains(&true)).collect();
        levels.push(above);
        wanted.push(marks);
    }
    let mut hashes = Vec::new();
    let mut bits = Vec::new();
    // Depth first, left before right.
    let mut todo = vec![(levels.len() - 1, 0)];
    while let Some((level, at)) = todo.pop() {
        bits.push(wanted[level][at]);
        if level == 0 || !wanted[level][at] {
            hashes.push(levels[level][at]);
            continue;
        }
        if 2 * at + 1 < levels[level - 1].len() {
            todo.push((level - 1, 2 * at + 1));
        }
        todo.push((level - 1, 2 * at));
    }
    let mut out = header.0.to_vec();
    out.extend_from_slice(&(txids.len() as u32).to_le_bytes());
    put_compact_size(&mut out, hashes.len() as u64);
    hashes.iter().for_each(|hash| out.extend_from_slice(&hash.0));
    put_compact_size(&mut out, bits.len().div_ceil(8) as u64);
    out.extend(bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |bits, bit| bits << 1 | u8::from(*bit))));
    out
}

/// A proof as received.
#[derive(Clone, Debug)]
pub struct MerkleBlock<'a> {
    /// The block's header.
    pub header: Header,
    /// Claimed number of transactions in the block.
    pub transactions: u32,
    hashes: &'a [[u8; 32]],
    flags: &'a [u8],
}

impl<'a> MerkleBlock<'a> {
    /// Parses a proof; as in Core, bytes after it are ignored.
    ///
    /// # Errors
    ///
    /// Too few bytes.
    pub fn read(bytes: &'a [u8]) -> Result<MerkleBlock<'a>, DecodeError> {
        let mut reader = Reader::new(bytes);
        let header = Header(*reader.array()?);
        let transactions = reader.u32()?;
        let count = reader.compact_size()?;
        let hashes = reader.take(count.saturating_mul(32))?.as_chunks().0;
        let count = reader.compact_size()?;
        Ok(MerkleBlock { header, transactions, hashes, flags: reader.take(count)? })
    }

    /// The transactions that it proves to be in a block with the header's merkle root; `None` if it proves nothing.
    ///
    /// Source: Bitcoin Core b88bffe, `CPartialMerkleTree::ExtractMatches`.
    pub fn proven(&self) -> Option<Vec<Txid>> {
        let count = self.transactions as usize;
        let bits = self.flags.len() * 8;
        if self.transactions == 0 || self.transactions > TRANSACTIONS_MAX || self.hashes.len() > count {
            return None;
        }
        if bits < self.hashes.len() {
            return None;
        }
        let mut walk = Walk { proof: self, count, bits_used: 0, hashes_used: 0, txids: Vec::new() };
        let root = walk.node(root_height(count), 0)?;
        let is_used_up = walk.bits_used.div_ceil(8) == self.flags.len() && walk.hashes_used == self.hashes.len();
        (is_used_up && root == self.header.merkle_root()).then_some(walk.txids)
    }
}

struct Walk<'p> {
    proof: &'p MerkleBlock<'p>,
    count: usize,
    bits_used: usize,
    hashes_used: usize,
    txids: Vec<Txid>,
}

impl Walk<'_> {
    /// The hash of a node, computed from its children if its flag is set; at most 14 levels deep.
    fn node(&mut self, height: u32, at: usize) -> Option<Hash256> {
        let byte = self.proof.flags.get(self.bits_used / 8)?;
        let is_parent = byte >> (self.bits_used % 8) & 1 == 1;
        self.bits_used += 1;
        if height == 0 || !is_parent {
            let hash = Hash256(*self.proof.hashes.get(self.hashes_used)?);
            self.hashes_used += 1;
            if height == 0 && is_parent {
                self.txids.push(Txid::from_hash256(hash));
            }
            return Some(hash);
        }
        let left = self.node(height - 1, 2 * at)?;
        if 2 * at + 1 >= width(self.count, height - 1) {
            return Some(parent(&left, &left));
        }
        let right = self.node(height - 1, 2 * at + 1)?;
        // Equal halves would let another list of transactions have the same root (CVE-2012-2459).
        (left != right).then(|| parent(&left, &right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{BlockHash, merkle};

    fn block(count: usize) -> (Header, Vec<Txid>) {
        let txids: Vec<Txid> = (0..count).map(|at| Txid::from_bytes(sha256d(&at.to_le_bytes()))).collect();
        let mut leaves = txids.iter().map(|txid| txid.to_hash256()).collect();
        let (root, _) = merkle::root(kernels::Kernels::PLAIN, &mut leaves);
        (Header::new(1, BlockHash::ZERO, root, 2, 3, 4), txids)
    }

    #[test]
    fn what_is_proven_is_found_again() {
        for count in [1, 2, 3, 4, 7, 17, 56, 100, 127, 256] {
            let (header, txids) = block(count);
            for step in [1, 2, 3, count] {
                let wanted: Vec<Txid> = txids.iter().copied().skip(step / 2).step_by(step).collect();
                let bytes = prove(&header, &txids, |txid| wanted.contains(txid));
                let proof = MerkleBlock::read(&bytes).unwrap();
                assert_eq!((proof.header, proof.transactions as usize), (header, count));
                assert_eq!(proof.proven().as_ref(), Some(&wanted), "{count} by {step}");
                for cut in 0..bytes.len() {
                    assert!(MerkleBlock::read(&bytes[..cut]).is_err(), "cut at {cut}");
                }
                // No other bit of hashes or flags proves the same, but for those that fill up the last byte; of
                // another count who knows the block says no.
                for at in (80..bytes.len()).step_by(5) {
                    let mut other = bytes.clone();
                    other[at] ^= 1 << (at % 8);
                    let proven = MerkleBlock::read(&other).ok().and_then(|proof| proof.proven());
                    assert!(
                        proven.is_none_or(|proven| proven != wanted || at < 84 || at + 1 == bytes.len()),
                        "byte {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn bounds_are_cores() {
        let (header, txids) = block(2);
        let mut bytes = prove(&header, &txids, |txid| *txid == txids[1]);
        assert_eq!(bytes.len(), 80 + 4 + 1 + 64 + 1 + 1);
        assert_eq!(bytes[80..85], [2, 0, 0, 0, 2]);
        assert_eq!(bytes[bytes.len() - 2..], [1, 0b101]);
        bytes[80..84].copy_from_slice(&[0; 4]);
        assert_eq!(MerkleBlock::read(&bytes).unwrap().proven(), None, "no transactions");
        bytes[80..84].copy_from_slice(&(TRANSACTIONS_MAX + 1).to_le_bytes());
        assert_eq!(MerkleBlock::read(&bytes).unwrap().proven(), None, "more than fit a block");
        // A tree whose halves are equal.
        let same = parent(&txids[0].to_hash256(), &txids[0].to_hash256());
        let mut twice = Header::new(1, BlockHash::ZERO, same, 2, 3, 4).0.to_vec();
        twice.extend_from_slice(&[2, 0, 0, 0, 2]);
        twice.extend_from_slice(txids[0].as_bytes());
        twice.extend_from_slice(txids[0].as_bytes());
        twice.extend_from_slice(&[1, 0b111]);
        assert_eq!(MerkleBlock::read(&twice).unwrap().proven(), None);
    }
}
