//! `txindex`: the block of each transaction, and its place there. Core's newest format, and the older one for reading.
//!
//! ```text
//! 'x' | 5 bytes of the txid's hash BE | VARINT block sequence | offset u24 BE, from the block's first byte -> empty
//! 's' | VARINT block sequence -> block hash        'h' | block hash -> block sequence u32 LE
//! "next_block_seq" -> u32 LE    "txid_hash_salt" -> 16 bytes    "best_block_v2" -> locator
//! 't' | txid -> VARINT file | VARINT block offset | VARINT offset after header     older format, with 'B' -> locator
//! ```
//!
//! Text keys are prefixed with their length. The transaction of the genesis block is not listed. Source: Bitcoin Core
//! b88bffe, index/txindex_key.h, index/txindex.cpp, index/disktxpos.h.

use crate::siphash::{SipKey, siphash13_jumbo};
use primitives::encode::{DecodeError, Reader, put_varint};
use primitives::{BlockHash, Txid};

/// Key of the next block's sequence number.
pub const NEXT_SEQUENCE: &[u8] = b"\x0enext_block_seq";
/// Key of the salt of the txids' hash.
pub const SALT: &[u8] = b"\x0etxid_hash_salt";
/// Key of the index's locator.
pub const BEST_BLOCK: &[u8] = b"\x0dbest_block_v2";
/// Key of the locator of an index in the older format.
pub const LEGACY_BEST_BLOCK: &[u8] = b"B";
/// First byte of a transaction's key.
pub const HASHED: u8 = b'x';
/// First byte of a transaction's key in the older format.
pub const LEGACY: u8 = b't';
/// Bits of an offset in a key.
const OFFSET_BITS: u32 = 24;
/// Bits of the hash of a txid in a key.
const PREFIX_BITS: u32 = 40;

/// The first bytes of a txid's hash and the offset of the transaction in its block, as one number.
#[inline]
pub fn place(salt: SipKey, txid: &Txid, offset: u32) -> u64 {
    prefix(salt, txid) << OFFSET_BITS | u64::from(offset)
}

#[inline]
fn prefix(salt: SipKey, txid: &Txid) -> u64 {
    siphash13_jumbo(salt, txid.as_bytes()) >> (64 - PREFIX_BITS)
}

/// Appends the key of a transaction: its [`place`] in the block with this sequence number.
#[inline]
pub fn put_key(out: &mut Vec<u8>, place: u64, sequence: u32) {
    let place = place.to_be_bytes();
    out.push(HASHED);
    out.extend_from_slice(&place[..5]);
    put_varint(out, u64::from(sequence));
    out.extend_from_slice(&place[5..]);
}

/// The common prefix of all keys of a txid.
pub fn key_prefix(salt: SipKey, txid: &Txid) -> [u8; 6] {
    let [_, _, _, a, b, c, d, e] = prefix(salt, txid).to_be_bytes();
    [HASHED, a, b, c, d, e]
}

/// Block sequence and offset of a transaction's key.
///
/// # Errors
///
/// A malformed key.
pub fn decode_key(key: &[u8]) -> Result<(u32, u32), DecodeError> {
    let mut reader = Reader::new(key);
    reader.take(6)?;
    let sequence = reader.varint_u32()?;
    let [a, b, c] = *reader.array()?;
    reader.finish()?;
    Ok((sequence, u32::from_be_bytes([0, a, b, c])))
}

/// Key of the hash of the block with this sequence number.
pub fn sequence_key(sequence: u32) -> Vec<u8> {
    let mut key = vec![b's'];
    put_varint(&mut key, u64::from(sequence));
    key
}

/// Key of the sequence number of a block.
pub fn hash_key(hash: &BlockHash) -> [u8; 33] {
    let mut key = [b'h'; 33];
    key[1..].copy_from_slice(hash.as_bytes());
    key
}

/// Key of a transaction in the older format.
pub fn legacy_key(txid: &Txid) -> [u8; 33] {
    let mut key = [LEGACY; 33];
    key[1..].copy_from_slice(txid.as_bytes());
    key
}

/// The place of a transaction: number of the block file, offset of the block, offset of the transaction after its
/// header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct DiskTxPos {
    /// Number of the block file.
    pub file: u32,
    /// Offset of the block in it, in bytes.
    pub block: u32,
    /// Offset of the transaction after the block's header, in bytes.
    pub tx: u32,
}

impl DiskTxPos {
    /// Appends its three VARINTs.
    #[inline]
    pub fn put(self, out: &mut Vec<u8>) {
        [self.file, self.block, self.tx].into_iter().for_each(|number| put_varint(out, u64::from(number)));
    }

    /// Decodes exactly one place.
    ///
    /// # Errors
    ///
    /// Malformed bytes.
    pub fn decode(bytes: &[u8]) -> Result<DiskTxPos, DecodeError> {
        let mut reader = Reader::new(bytes);
        let pos = DiskTxPos { file: reader.varint_u32()?, block: reader.varint_u32()?, tx: reader.varint_u32()? };
        reader.finish()?;
        Ok(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_cores_bytes() {
        let mut key = Vec::new();
        put_key(&mut key, 0x0102_0304_0500_0051, 300);
        assert_eq!(primitives::hex::encode(&key), "780102030405812c000051");
        assert_eq!(decode_key(&key), Ok((300, 0x51)));
        assert_eq!(primitives::hex::encode(&sequence_key(128)), "738000");
        let (salt, txid) = (SipKey { k0: 1, k1: 2 }, Txid::from_bytes([9; 32]));
        let mut key = Vec::new();
        put_key(&mut key, place(salt, &txid, 81), 0);
        assert!(key.starts_with(&key_prefix(salt, &txid)) && key.ends_with(&[0, 0, 0, 81]));
        for cut in 0..key.len() {
            assert!(decode_key(&key[..cut]).is_err(), "cut at {cut}");
        }
        let pos = DiskTxPos { file: 3, block: 70_000, tx: 1 };
        let mut bytes = Vec::new();
        pos.put(&mut bytes);
        assert_eq!(primitives::hex::encode(&bytes), "0383a17001");
        assert_eq!(DiskTxPos::decode(&bytes), Ok(pos));
        (0..bytes.len()).for_each(|cut| assert!(DiskTxPos::decode(&bytes[..cut]).is_err()));
    }
}
