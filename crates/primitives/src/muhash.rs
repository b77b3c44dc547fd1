//! MuHash3072: a hash of a set that does not depend on the order of its elements.
//!
//! An element becomes a number of 3072 bits (SHA-256 of it keys ChaCha20, whose first 384 bytes are the number, little
//! endian); the hash of a set is SHA-256 of the product of its elements modulo 2^3072 - 1103717. Products of parts
//! multiply to the product of the whole, so every core can compute a part.
//!
//! Source: Bitcoin Core b88bffe, `MuHash3072` (crypto/muhash.cpp).

use kernels::Kernels;
use kernels::muhash::{self, Accumulator, LIMBS, Number, ONE};
use kernels::sha256::Pieces;

/// Bytes of a number.
pub const NUMBER_BYTES: usize = LIMBS * 8;

/// A set under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuHash(Number);

impl Default for MuHash {
    fn default() -> MuHash {
        MuHash::new()
    }
}

impl MuHash {
    /// The empty set.
    pub fn new() -> MuHash {
        MuHash(ONE)
    }

    /// Adds an element. For many elements use [`Product`].
    pub fn insert(&mut self, element: &[u8]) {
        self.0 = muhash::multiply(&self.0, &number(element));
    }

    /// Removes an element; expensive, because it computes an inverse.
    pub fn remove(&mut self, element: &[u8]) {
        self.0 = muhash::multiply(&self.0, &muhash::inverse(&number(element)));
    }

    /// Adds all elements of another set.
    pub fn combine(&mut self, other: &MuHash) {
        if other.0 != ONE {
            self.0 = muhash::multiply(&self.0, &other.0);
        }
    }

    /// The set whose combination with this one is empty.
    #[must_use]
    pub fn inverse(&self) -> MuHash {
        if self.0 == ONE { MuHash::new() } else { MuHash(muhash::inverse(&self.0)) }
    }

    /// The same set with its number reduced below the prime, as Core stores it.
    #[must_use]
    pub fn reduced(&self) -> MuHash {
        MuHash(muhash::reduce(&self.0))
    }

    /// The number, little endian.
    pub fn to_bytes(&self) -> [u8; NUMBER_BYTES] {
        let mut bytes = [0; NUMBER_BYTES];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        bytes
    }

    /// The set with this number.
    pub fn from_bytes(bytes: &[u8; NUMBER_BYTES]) -> MuHash {
        MuHash(std::array::from_fn(|i| u64::from_le_bytes(*bytes[i * 8..].first_chunk().expect("eight bytes"))))
    }

    /// The hash, in internal byte order.
    pub fn finalize(&self) -> [u8; 32] {
        kernels::sha256::sha256(&self.reduced().to_bytes())
    }
}

fn number(element: &[u8]) -> Number {
    muhash::number(&kernels::sha256::sha256(element))
}

/// Elements hashed together.
const ELEMENTS_AT_ONCE: usize = 128;
/// Up to this total number, elements are inserted singly: the coinbase of a block without other transactions.
const ALONE_MAX: usize = 2;

/// A set of many elements, in vector lanes if the processor has them: hashed some at a time, then multiplied.
#[derive(Clone, Debug)]
pub struct Product {
    kernels: Kernels,
    /// Created with the first elements that are processed: lanes are expensive to start.
    numbers: Option<Accumulator>,
    /// Elements waiting, concatenated, and the end of each.
    waiting: Vec<u8>,
    ends: Vec<usize>,
}

impl Product {
    /// The empty set.
    pub fn new(kernels: Kernels) -> Product {
        Product { kernels, numbers: None, waiting: Vec::new(), ends: Vec::new() }
    }

    /// Adds an element.
    pub fn push(&mut self, element: &[u8]) {
        self.push_with(|waiting| waiting.extend_from_slice(element));
    }

    /// Adds the element that `put` appends to the buffer.
    #[inline]
    pub fn push_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.waiting);
        self.ends.push(self.waiting.len());
        if self.ends.len() == ELEMENTS_AT_ONCE {
            self.work_off();
        }
    }

    fn work_off(&mut self) {
        let mut elements: [Pieces<'_>; ELEMENTS_AT_ONCE] = [[&[]; 3]; ELEMENTS_AT_ONCE];
        let mut start = 0;
        for (element, &end) in elements.iter_mut().zip(&self.ends) {
            element[0] = &self.waiting[start..end];
            start = end;
        }
        let count = self.ends.len();
        let mut keys = [[0; 32]; ELEMENTS_AT_ONCE];
        self.kernels.sha256_many(&elements[..count], &mut keys[..count]);
        let numbers = self.numbers.get_or_insert_with(|| self.kernels.muhash());
        keys[..count].iter().for_each(|key| numbers.push(key));
        self.waiting.clear();
        self.ends.clear();
    }

    /// The set.
    pub fn finish(mut self) -> MuHash {
        if self.numbers.is_none() && self.ends.len() <= ALONE_MAX {
            let mut set = MuHash::new();
            let mut start = 0;
            for end in self.ends {
                set.insert(&self.waiting[start..end]);
                start = end;
            }
            return set;
        }
        if !self.ends.is_empty() {
            self.work_off();
        }
        MuHash(self.numbers.unwrap_or_else(|| self.kernels.muhash()).finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoinRef, Hash256, OutPoint, Txid, coin, hex};

    fn element(n: u8) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[0] = n;
        bytes
    }

    /// From Core's crypto_tests.cpp; the empty set and the set of mainnet's first coin as computed by Core.
    #[test]
    fn muhash_of_known_sets_matches_core() {
        let mut set = MuHash::new();
        assert_eq!(
            Hash256(set.finalize()).to_string(),
            "dd5ad2a105c2d29495f577245c357409002329b9f4d6182c0af3dc2f462555c8"
        );
        set.insert(&element(0));
        set.insert(&element(1));
        set.remove(&element(2));
        assert_eq!(
            Hash256(set.finalize()).to_string(),
            "10d312b100cbd32ada024a6646e40d3482fcff103668d2625f10002a607d5863"
        );
        let stored = hex::literal::<35>("03320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52");
        let txid = Txid::literal("0e3e2357e806b6cdb1f70b54c3a3a17b6714ee1f0e68bebb44a74b1efd512098");
        let mut bytes = Vec::new();
        let outpoint = OutPoint { txid, vout: 0 };
        coin::put_coin_hashed(&mut bytes, &outpoint, &CoinRef::decode(&stored).unwrap());
        let mut set = MuHash::new();
        set.insert(&bytes);
        assert_eq!(
            Hash256(set.finalize()).to_string(),
            "1bd372a3f225dc6f8ce0e10ead6f8b0b00e65a2ff4a4c9ccaa615a69fbeeb2f2"
        );
    }

    /// Elements of all lengths, some at a time and one by one.
    #[test]
    fn product_is_one_element_after_the_other() {
        let bytes: Vec<u8> = (0..400u32).map(|n| (n * 31) as u8).collect();
        for count in [0, 1, 2, 3, 15, 17, 127, 128, 129, 300] {
            let (mut product, mut set) = (Product::new(Kernels::AUTO), MuHash::new());
            for n in 0..count {
                let element = &bytes[n..n + n % 101];
                if n % 2 == 0 {
                    product.push(element);
                } else {
                    product.push_with(|waiting| waiting.extend_from_slice(element));
                }
                set.insert(element);
            }
            assert_eq!(product.finish().finalize(), set.finalize(), "{count} elements");
        }
    }

    #[test]
    fn muhash_of_parts_combines_to_whole() {
        let (mut whole, mut even, mut odd) = (MuHash::new(), MuHash::new(), MuHash::new());
        for n in 0..20 {
            whole.insert(&element(n));
            if n % 2 == 0 { even.insert(&element(n)) } else { odd.insert(&element(n)) }
        }
        let mut product = Product::new(Kernels::AUTO);
        (0..20).for_each(|n| product.push(&element(n)));
        assert_eq!(product.finish().finalize(), whole.finalize());
        assert_eq!(MuHash::from_bytes(&whole.to_bytes()), whole);
        odd.combine(&even);
        assert_eq!(odd.finalize(), whole.finalize());
        for n in 0..20 {
            whole.remove(&element(n));
        }
        assert_eq!(whole.finalize(), MuHash::new().finalize());
    }
}
