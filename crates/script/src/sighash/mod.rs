//! The hash that a signature signs, in all four kinds: legacy, version 0 witness (BIP-0143), taproot key path and
//! tapscript (BIP-0341).
//!
//! [`Precomputed`] is a transaction with the coins that it spends and the hashes that its inputs share. Each hash is
//! computed once, when an input first needs it, from any thread.
//!
//! Absent on purpose: the rules for a signature's encoding.

mod ahead;
mod cache;
mod legacy;
mod longs;
mod segwit;
mod taproot;

pub use ahead::hash_shared;
pub use legacy::legacy;
pub use longs::Longs;
pub use segwit::witness_v0;
pub use taproot::{Leaf, leaf_hash, taproot};

pub(crate) use ahead::Ahead;
pub(crate) use cache::Cache;
pub(crate) use legacy::{Code, SINGLE_WITHOUT_OUTPUT, is_long, state as legacy_state};
pub(crate) use longs::{LATER, Need};
pub(crate) use segwit::state as witness_v0_state;
pub(crate) use taproot::{Extension, annex_hash, message, tagged};

use crate::sighash::legacy::Blanks;
use kernels::sha256::{Sha256, sha256};
use primitives::{Amount, Transaction};
use std::sync::OnceLock;

/// The bit of a hash type that signs one input only. Source: Bitcoin Core b88bffe, script/interpreter.h.
pub const SIGHASH_ANYONECANPAY: u8 = 0x80;
/// Every output is signed.
pub const SIGHASH_ALL: u8 = 1;
/// No output is signed.
pub const SIGHASH_NONE: u8 = 2;
/// The output with the input's number is signed.
pub const SIGHASH_SINGLE: u8 = 3;
/// Taproot's default hash type, of a signature without one; signs the same as [`SIGHASH_ALL`].
pub const SIGHASH_DEFAULT: u8 = 0;

/// The outputs that a hash type before taproot signs: of its low five bits, any value except 2 and 3 signs all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outputs {
    All,
    None,
    Single,
}

impl Outputs {
    #[inline]
    pub(crate) fn of(hash_type: u32) -> Outputs {
        match hash_type & 0x1f {
            2 => Outputs::None,
            3 => Outputs::Single,
            _ => Outputs::All,
        }
    }
}

/// The coin that an input spends.
#[derive(Clone, Copy, Debug)]
pub struct SpentOutput<'a> {
    /// Its amount.
    pub value: Amount,
    /// Its script.
    pub script: &'a [u8],
}

/// A transaction, the coins that it spends, and the hashes that its inputs share.
#[derive(Debug)]
pub struct Precomputed<'a> {
    tx: Transaction<'a>,
    spent: &'a [SpentOutput<'a>],
    /// The outputs as serialized in the transaction, without their count.
    outputs: &'a [u8],
    parts: OnceLock<Parts>,
    parts_twice: OnceLock<Parts>,
    coins: OnceLock<Coins>,
    blanks: OnceLock<Box<Blanks>>,
    blanks_without_sequences: OnceLock<Box<Blanks>>,
}

/// Hashes over all inputs or outputs of a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) prevouts: [u8; 32],
    pub(crate) sequences: [u8; 32],
    pub(crate) outputs: [u8; 32],
}

/// Hashes over all coins that a transaction spends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coins {
    pub(crate) amounts: [u8; 32],
    pub(crate) scripts: [u8; 32],
}

impl<'a> Precomputed<'a> {
    /// A transaction and the coins that it spends, in the order of its inputs. Computes no hash yet.
    ///
    /// # Panics
    ///
    /// If the numbers of coins and inputs differ.
    pub fn new(tx: Transaction<'a>, spent: &'a [SpentOutput<'a>]) -> Precomputed<'a> {
        assert_eq!(spent.len(), tx.input_count(), "one spent coin for each input");
        let bytes: usize = tx.outputs().map(|output| output.serialized().len()).sum();
        let body = tx.body();
        Precomputed {
            tx,
            spent,
            outputs: &body[body.len() - bytes..],
            parts: OnceLock::new(),
            parts_twice: OnceLock::new(),
            coins: OnceLock::new(),
            blanks: OnceLock::new(),
            blanks_without_sequences: OnceLock::new(),
        }
    }

    /// The transaction.
    #[inline]
    pub fn transaction(&self) -> Transaction<'a> {
        self.tx
    }

    /// The coins that it spends.
    #[inline]
    pub fn spent(&self) -> &'a [SpentOutput<'a>] {
        self.spent
    }

    /// SHA-256 of all prevouts, sequences, outputs. Source: BIP-0341.
    #[inline]
    pub(crate) fn parts(&self) -> &Parts {
        self.parts.get_or_init(|| {
            let mut prevouts = Writer::new();
            let mut sequences = Writer::new();
            for input in self.tx.inputs() {
                prevouts.put(input.prevout_bytes());
                sequences.put(&input.sequence().to_le_bytes());
            }
            let outputs = sha256(self.outputs);
            Parts { prevouts: prevouts.finish().finalize(), sequences: sequences.finish().finalize(), outputs }
        })
    }

    /// The hashes of [`Precomputed::parts`], hashed once more. Source: BIP-0143.
    #[inline]
    pub(crate) fn parts_twice(&self) -> &Parts {
        self.parts_twice.get_or_init(|| {
            let Parts { prevouts, sequences, outputs } = *self.parts();
            Parts { prevouts: sha256(&prevouts), sequences: sha256(&sequences), outputs: sha256(&outputs) }
        })
    }

    /// SHA-256 of all spent amounts and of all spent scripts. Source: BIP-0341.
    pub(crate) fn coins(&self) -> &Coins {
        self.coins.get_or_init(|| {
            let mut amounts = Writer::new();
            let mut scripts = Writer::new();
            for coin in self.spent {
                amounts.put(&coin.value.0.to_le_bytes());
                scripts.put_with_length(coin.script);
            }
            Coins { amounts: amounts.finish().finalize(), scripts: scripts.finish().finalize() }
        })
    }
}

/// Receives a message in pieces: to hash it, or to store it.
pub(crate) trait Sink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// A CompactSize.
    #[inline]
    fn put_compact_size(&mut self, n: usize) {
        match n {
            0..=252 => self.put(&[n as u8]),
            253..=0xffff => {
                self.put(&[253]);
                self.put(&(n as u16).to_le_bytes());
            }
            _ => {
                self.put(&[254]);
                self.put(&u32::try_from(n).expect("a transaction is shorter than 4 GiB").to_le_bytes());
            }
        }
    }

    /// Appends a CompactSize length and the bytes.
    #[inline]
    fn put_with_length(&mut self, bytes: &[u8]) {
        self.put_compact_size(bytes.len());
        self.put(bytes);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The size of a [`Writer`]'s buffer.
const STAGED_BYTES: usize = 256;

/// Buffers small pieces before they are hashed.
pub(crate) struct Writer {
    state: Sha256,
    staged: [u8; STAGED_BYTES],
    used: usize,
}

impl Writer {
    #[inline]
    pub(crate) fn new() -> Writer {
        Writer::after(Sha256::new())
    }

    /// Continues from `state`.
    #[inline]
    pub(crate) fn after(state: Sha256) -> Writer {
        Writer { state, staged: [0; STAGED_BYTES], used: 0 }
    }

    /// Hashes the buffered bytes; more may follow.
    #[inline]
    pub(crate) fn finish(mut self) -> Sha256 {
        self.state.update(&self.staged[..self.used]);
        self.state
    }
}

impl Sink for Writer {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > STAGED_BYTES - self.used {
            self.state.update(&self.staged[..self.used]);
            self.used = 0;
            if bytes.len() > STAGED_BYTES {
                self.state.update(bytes);
                return;
            }
        }
        self.staged[self.used..self.used + bytes.len()].copy_from_slice(bytes);
        self.used += bytes.len();
    }
}

/// The end of the legacy and version 0 hashes: the hash type, and a second hash.
#[inline]
pub(crate) fn with_hash_type(mut state: Sha256, hash_type: u32) -> [u8; 32] {
    state.update(&hash_type.to_le_bytes());
    sha256(&state.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sighash_writer_hashes_pieces_as_one() {
        let bytes: Vec<u8> = (0..2000u32).map(|n| (n * 7) as u8).collect();
        for step in [1, 3, 36, 255, 256, 257, 700, 2000] {
            let mut writer = Writer::new();
            for piece in bytes.chunks(step) {
                writer.put(piece);
            }
            assert_eq!(writer.finish().finalize(), sha256(&bytes), "pieces of {step}");
        }
        let mut writer = Writer::new();
        let mut plain = Vec::new();
        for n in [0, 252, 253, 0xffff, 0x1_0000] {
            writer.put_compact_size(n);
            primitives::encode::put_compact_size(&mut plain, n as u64);
        }
        assert_eq!(writer.finish().finalize(), sha256(&plain));
    }
}
