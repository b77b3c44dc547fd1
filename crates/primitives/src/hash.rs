//! 32-byte hashes without a specific meaning: merkle roots, digests of the UTXO set. Ids are separate types (`ids.rs`).

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

    /// [`Hash256::from_display`] for constants.
    ///
    /// # Panics
    ///
    /// If `text` is not 64 hexadecimal digits; for literals only.
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

    /// The bytes in internal order.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_prints_reversed() {
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
}
