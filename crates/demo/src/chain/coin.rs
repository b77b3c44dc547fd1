//! A coin of a chain being generated: 16 bytes.
//!
//! The number of its transaction in the chain (whose txid may not exist yet), the index of the output, and the output
//! itself: value in the upper 44 bits, kind in 4, key in 16.

use super::profile::Kind;

/// Value and script of an output. For [`Kind::OpReturn`], the key is the number of bytes of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Out(u64);

impl Out {
    /// Values are below this; the whole money of regtest is a twelfth of it.
    const VALUE_END: u64 = 1 << 44;

    pub(super) fn new(value: u64, kind: Kind, key: u16) -> Out {
        assert!(value < Out::VALUE_END, "regtest has less money than that");
        Out(value << 20 | (kind as u64) << 16 | u64::from(key))
    }

    /// Satoshis.
    pub(super) fn value(self) -> u64 {
        self.0 >> 20
    }

    pub(super) fn kind(self) -> Kind {
        Kind::COINS.get((self.0 >> 16 & 15) as usize).copied().unwrap_or(Kind::OpReturn)
    }

    /// Index into the pool of keys.
    pub(super) fn key(self) -> u16 {
        self.0 as u16
    }
}

/// An output that can be spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coin {
    /// Number of its transaction in the chain, coinbases counted.
    pub(super) tx: u32,
    pub(super) vout: u32,
    pub(super) out: Out,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coin_pool_keeps_output_fields() {
        for kind in Kind::COINS.into_iter().chain([Kind::OpReturn]) {
            for (value, key) in [(0, 0), (1, u16::MAX), (Out::VALUE_END - 1, 7)] {
                let out = Out::new(value, kind, key);
                assert_eq!((out.value(), out.kind(), out.key()), (value, kind, key));
            }
        }
    }
}
