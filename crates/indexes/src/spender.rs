//! `txospenderindex`: the spending transaction of each output.
//!
//! ```text
//! 's' | SipHash-2-4 of the outpoint u64 LE | VARINT file | VARINT block offset | VARINT offset after header -> empty
//! "siphash_key\0" -> 16 bytes      'B' -> locator
//! ```
//!
//! The value of an older entry is one byte 00. Several outpoints may have the same hash, so a look-up reads the
//! transactions. Source: Bitcoin Core b88bffe, index/txospenderindex.cpp.

use crate::siphash::{SipKey, siphash24};
use crate::txindex::DiskTxPos;
use primitives::encode::DecodeError;

/// Key of the SipHash key for outpoints: a C string, with its zero and without its length, unlike those of `txindex`.
pub const SIPHASH_KEY: &[u8] = b"siphash_key\0";
/// First byte of an entry's key.
pub const SPENDER: u8 = b's';
/// Bytes before the place.
const PREFIX_BYTES: usize = 9;

/// The hash of an outpoint with reversed bytes: these numbers are in the order of the database keys.
#[inline]
pub fn order(key: SipKey, outpoint: &[u8; 36]) -> u64 {
    siphash24(key, outpoint).swap_bytes()
}

/// Appends the key of an entry; `order` is that of the outpoint.
#[inline]
pub fn put_key(out: &mut Vec<u8>, order: u64, pos: DiskTxPos) {
    out.push(SPENDER);
    out.extend_from_slice(&order.to_be_bytes());
    pos.put(out);
}

/// The common prefix of all keys of an outpoint.
pub fn key_prefix(key: SipKey, outpoint: &[u8; 36]) -> [u8; PREFIX_BYTES] {
    let mut prefix = [SPENDER; PREFIX_BYTES];
    prefix[1..].copy_from_slice(&order(key, outpoint).to_be_bytes());
    prefix
}

/// The place of the transaction of an entry.
///
/// # Errors
///
/// A malformed key.
pub fn decode_key(key: &[u8]) -> Result<DiskTxPos, DecodeError> {
    DiskTxPos::decode(key.get(PREFIX_BYTES..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_hash_little_endian() {
        let (key, outpoint) = (SipKey { k0: 3, k1: 4 }, [5; 36]);
        let pos = DiskTxPos { file: 1, block: 8, tx: 1 };
        let mut bytes = Vec::new();
        put_key(&mut bytes, order(key, &outpoint), pos);
        assert_eq!(bytes[1..9], siphash24(key, &outpoint).to_le_bytes());
        assert!(bytes.starts_with(&key_prefix(key, &outpoint)));
        assert_eq!(decode_key(&bytes), Ok(pos));
        (0..bytes.len()).for_each(|cut| assert!(decode_key(&bytes[..cut]).is_err()));
    }
}
