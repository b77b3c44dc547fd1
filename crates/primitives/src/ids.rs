//! Ids of transactions, blocks and coins: separate types over [`Hash256`], so that they cannot be mixed up.
//!
//! ```
//! use primitives::{BlockHash, Hash256, Header, OutPoint, Txid};
//! let name = OutPoint { txid: Txid::from_bytes([1; 32]), vout: 0 };
//! let header = Header::new(1, BlockHash::from_bytes([1; 32]), Hash256::ZERO, 0, 0, 0);
//! ```
//!
//! Neither accepts another id:
//!
//! ```compile_fail,E0308
//! use primitives::{OutPoint, Txid, Wtxid};
//! let wtxid = Wtxid::from_bytes([1; 32]);
//! let _ = OutPoint { txid: wtxid, vout: 0 };
//! ```
//!
//! ```compile_fail,E0308
//! use primitives::{BlockHash, Hash256, Header, Txid};
//! let txid = Txid::from_bytes([1; 32]);
//! let _ = Header::new(1, txid, Hash256::ZERO, 0, 0, 0);
//! ```
//!
//! Absent on purpose: `From` between them. `from_hash256` states the meaning of a hash explicitly.

use crate::hash::Hash256;
use std::fmt;

/// Defines an id: a [`Hash256`] with the meaning of what was hashed.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(Hash256);

        impl $name {
            /// The null id.
            pub const ZERO: $name = $name(Hash256::ZERO);

            /// The id with these bytes, in internal order.
            #[inline]
            pub const fn from_bytes(bytes: [u8; 32]) -> $name {
                $name(Hash256(bytes))
            }

            /// Gives `hash` this meaning.
            #[inline]
            pub const fn from_hash256(hash: Hash256) -> $name {
                $name(hash)
            }

            /// The plain hash.
            #[inline]
            pub const fn to_hash256(self) -> Hash256 {
                self.0
            }

            /// The bytes in internal order.
            #[inline]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0.0
            }

            /// The bytes in internal order.
            #[inline]
            pub const fn to_bytes(self) -> [u8; 32] {
                self.0.0
            }

            /// Whether all bytes are zero.
            #[inline]
            pub fn is_zero(&self) -> bool {
                self.0.is_zero()
            }

            /// Reads the printed form: 64 hexadecimal digits, reversed.
            ///
            /// Returns `None` for anything else.
            pub fn from_display(text: &str) -> Option<$name> {
                Hash256::from_display(text).map($name)
            }

            /// `from_display` for constants.
            ///
            /// # Panics
            ///
            /// If `text` is not 64 hexadecimal digits; for literals only.
            pub const fn literal(text: &str) -> $name {
                $name(Hash256::literal(text))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        const _: () = assert!(size_of::<$name>() == 32 && align_of::<$name>() == 1, "lists of ids are lists of hashes");
    };
}

id! {
    /// The id of a transaction: the hash of its serialization without witness. Source: BIP-0141.
    Txid
}
id! {
    /// The witness id of a transaction: the hash of its whole serialization. Source: BIP-0141.
    Wtxid
}
id! {
    /// The id of a block: the hash of its header.
    BlockHash
}

impl Wtxid {
    /// The witness id of a transaction without witness, which is its id. Source: BIP-0141.
    #[inline]
    pub const fn without_witness(txid: Txid) -> Wtxid {
        Wtxid(txid.0)
    }
}

/// The name of a coin: the transaction that made it, and the number of the output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OutPoint {
    /// Id of the transaction.
    pub txid: Txid,
    /// Number of the output, from 0.
    pub vout: u32,
}

const _: () = assert!(size_of::<OutPoint>() == OutPoint::BYTES);

impl OutPoint {
    /// Bytes of an outpoint in an input.
    pub const BYTES: usize = 36;
    /// The outpoint of a coinbase input: a null id and the greatest number.
    pub const NULL: OutPoint = OutPoint { txid: Txid::ZERO, vout: u32::MAX };

    /// Reads the 36 bytes of an input: txid, then vout little endian.
    #[inline]
    pub fn from_bytes(bytes: &[u8; OutPoint::BYTES]) -> OutPoint {
        let (txid, vout) = bytes.split_at(32);
        OutPoint {
            txid: Txid::from_bytes(txid.try_into().expect("32 of 36 bytes")),
            vout: u32::from_le_bytes(vout.try_into().expect("4 of 36 bytes")),
        }
    }

    /// The 36 bytes of an input, as [`OutPoint::from_bytes`] reads them.
    #[inline]
    pub fn to_bytes(&self) -> [u8; OutPoint::BYTES] {
        let mut bytes = [0; OutPoint::BYTES];
        bytes[..32].copy_from_slice(self.txid.as_bytes());
        bytes[32..].copy_from_slice(&self.vout.to_le_bytes());
        bytes
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
    fn id_prints_as_its_hash() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash = BlockHash::literal(text);
        assert_eq!((hash.to_string(), format!("{hash:?}")), (text.to_owned(), text.to_owned()));
        assert_eq!(BlockHash::from_display(text), Some(hash));
        assert_eq!(hash.to_hash256(), Hash256::literal(text));
        assert_eq!(BlockHash::from_bytes(hash.to_bytes()), hash);
    }

    #[test]
    fn outpoint_is_null_only_with_both_parts_null() {
        assert!(OutPoint::NULL.is_null());
        assert!(!OutPoint { vout: 0, ..OutPoint::NULL }.is_null());
        assert!(!OutPoint { txid: Txid::from_bytes([1; 32]), ..OutPoint::NULL }.is_null());
    }

    #[test]
    fn outpoint_bytes_are_txid_then_vout_little_endian() {
        let outpoint = OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0x0403_0201 };
        assert_eq!(outpoint.to_bytes()[..], [&[7; 32][..], &[1, 2, 3, 4]].concat());
        assert_eq!(OutPoint::from_bytes(&outpoint.to_bytes()), outpoint);
    }
}
