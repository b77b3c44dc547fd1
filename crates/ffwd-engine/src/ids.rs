//! Hashes of blocks, transactions and UTXO sets, one type for each, 32 bytes long; outpoints.

use std::error;
use std::fmt;
use std::str::FromStr;

/// The text is not 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseHashError(String);

impl fmt::Display for ParseHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a hash: expected 64 hexadecimal digits, as bitcoin-cli prints them", self.0)
    }
}

impl error::Error for ParseHashError {}

/// Defines a distinct hash type that wraps a type of `primitives`.
macro_rules! hash {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        ///
        /// Text form as in Core: hexadecimal, bytes reversed.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name([u8; 32]);

        impl $name {
            /// The hash with these bytes, in internal byte order.
            pub const fn from_bytes(bytes: [u8; 32]) -> $name {
                $name(bytes)
            }

            /// The bytes, in internal byte order.
            pub const fn to_bytes(self) -> [u8; 32] {
                self.0
            }
        }

        impl From<$inner> for $name {
            fn from(hash: $inner) -> $name {
                $name(*hash.as_bytes())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = ParseHashError;

            fn from_str(text: &str) -> Result<$name, ParseHashError> {
                primitives::Hash256::from_display(text)
                    .map(|hash| $name(hash.0))
                    .ok_or_else(|| ParseHashError(text.chars().take(80).collect()))
            }
        }
    };
}

hash! {
    /// The hash of a block's header.
    BlockHash, primitives::BlockHash
}
hash! {
    /// The id of a transaction: the hash of its serialization without witness. Source: BIP-0141.
    Txid, primitives::Txid
}
hash! {
    /// The hash of a UTXO set: `hash_serialized_3` or `muhash`.
    SetHash, primitives::Hash256
}

impl BlockHash {
    pub(crate) fn inner(self) -> primitives::BlockHash {
        primitives::BlockHash::from_bytes(self.0)
    }
}

/// An outpoint: a transaction, and the index of its output. Text form `txid:vout`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutPoint {
    /// Id of the transaction.
    pub txid: Txid,
    /// Index of the output, from 0.
    pub vout: u32,
}

impl From<primitives::OutPoint> for OutPoint {
    fn from(outpoint: primitives::OutPoint) -> OutPoint {
        OutPoint { txid: outpoint.txid.into(), vout: outpoint.vout }
    }
}

impl OutPoint {
    pub(crate) fn inner(&self) -> primitives::OutPoint {
        primitives::OutPoint { txid: primitives::Txid::from_bytes(self.txid.0), vout: self.vout }
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
    fn hashes_are_printed_and_read_as_core_does() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash: BlockHash = text.parse().unwrap();
        assert_eq!((hash.to_string(), format!("{hash:?}")), (text.to_owned(), text.to_owned()));
        assert_eq!((hash.to_bytes()[0], hash.to_bytes()[31]), (0x6f, 0));
        assert_eq!(BlockHash::from_bytes(hash.to_bytes()), hash);
        assert_eq!(BlockHash::from(hash.inner()), hash);
        for bad in ["", &text[1..], &text.replace('6', "g"), &"0".repeat(1000)] {
            let why = bad.parse::<Txid>().unwrap_err().to_string();
            assert!(why.contains("64 hexadecimal digits") && why.len() < 200, "{why}");
        }
        let outpoint = OutPoint { txid: Txid::from_bytes([1; 32]), vout: 7 };
        assert_eq!(outpoint.to_string(), format!("{}:7", "01".repeat(32)));
        assert_eq!(OutPoint::from(outpoint.inner()), outpoint);
    }
}
