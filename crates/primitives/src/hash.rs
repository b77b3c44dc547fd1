//! 32-byte hashes and the outpoints that name a coin.

use std::fmt;

/// A 32-byte hash in internal byte order; printed reversed, as Core's RPC prints it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Hash256(pub [u8; 32]);

impl Hash256 {
    /// The null hash.
    pub const ZERO: Hash256 = Hash256([0; 32]);

    /// Reads the printed form: 64 hexadecimal digits, reversed.
    ///
    /// Returns `None` for anything else.
    pub fn from_display(text: &str) -> Option<Hash256> {
        let mut bytes: [u8; 32] = crate::hex::decode(text)?.try_into().ok()?;
        bytes.reverse();
        Some(Hash256(bytes))
    }

    /// Same as [`Hash256::from_display`], for constants.
    ///
    /// # Panics
    ///
    /// When `text` is not 64 hexadecimal digits; meant for literals only.
    pub const fn literal(text: &str) -> Hash256 {
        let text = text.as_bytes();
        assert!(text.len() == 64, "a hash has 64 hexadecimal digits");
        let mut bytes = [0; 32];
        let mut i = 0;
        while i < 32 {
            bytes[31 - i] = crate::hex::digit(text[2 * i]) << 4 | crate::hex::digit(text[2 * i + 1]);
            i += 1;
        }
        Hash256(bytes)
    }

    /// Whether all bytes are zero.
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 32]
    }
}

impl fmt::Display for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The name of a coin: the transaction that made it, and which of its outputs it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutPoint {
    /// Id of the transaction, internal byte order.
    pub txid: Hash256,
    /// Number of the output, from 0.
    pub vout: u32,
}

impl OutPoint {
    /// What a coinbase input names: a null hash and the greatest number.
    pub const NULL: OutPoint = OutPoint { txid: Hash256::ZERO, vout: u32::MAX };

    /// Reads the 36 bytes of an input: txid, then vout little endian.
    pub fn from_bytes(bytes: &[u8; 36]) -> OutPoint {
        let (txid, vout) = bytes.split_at(32);
        OutPoint {
            txid: Hash256(txid.try_into().expect("32 of 36 bytes")),
            vout: u32::from_le_bytes(vout.try_into().expect("4 of 36 bytes")),
        }
    }

    /// Core's null prevout. Source: Bitcoin Core b88bffe, `COutPoint::IsNull`.
    pub fn is_null(&self) -> bool {
        self.vout == u32::MAX && self.txid.is_zero()
    }
}

impl fmt::Display for OutPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.txid, self.vout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_print_reversed() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash = Hash256::from_display(text).unwrap();
        assert_eq!(hash.0[31], 0);
        assert_eq!(hash.0[0], 0x6f);
        assert_eq!(hash.to_string(), text);
        assert_eq!(Hash256::literal(text), hash);
        for bad in ["", "00", &text[1..], &text.replace('9', "g")] {
            assert_eq!(Hash256::from_display(bad), None, "{bad}");
        }
    }

    #[test]
    fn null_is_hash_and_number() {
        assert!(OutPoint::NULL.is_null());
        assert!(!OutPoint { vout: 0, ..OutPoint::NULL }.is_null());
        assert!(!OutPoint { txid: Hash256([1; 32]), ..OutPoint::NULL }.is_null());
    }
}
