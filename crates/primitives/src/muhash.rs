//! MuHash3072: a hash of a set that does not depend on the order of its elements.
//!
//! An element becomes a number of 3072 bits (SHA-256 of it keys ChaCha20, whose first 384 bytes are the number, little
//! endian); the hash of a set is SHA-256 of the product of its elements modulo 2^3072 - 1103717.
//! Products of parts multiply to the product of the whole, so that every core can have a part.
//!
//! Source: Bitcoin Core b88bffe, `MuHash3072` (crypto/muhash.cpp).

use crate::chacha20;

const LIMBS: usize = 48;
/// The modulus is 2^3072 minus this.
const PRIME_DIFF: u64 = 1_103_717;

/// A set under construction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuHash([u64; LIMBS]);

impl Default for MuHash {
    fn default() -> MuHash {
        MuHash::new()
    }
}

impl MuHash {
    /// The empty set.
    pub fn new() -> MuHash {
        let mut one = [0; LIMBS];
        one[0] = 1;
        MuHash(one)
    }

    /// Adds an element.
    pub fn insert(&mut self, element: &[u8]) {
        self.0 = multiply(&self.0, &number(element));
    }

    /// Takes an element out; dear, for it takes an inverse.
    pub fn remove(&mut self, element: &[u8]) {
        self.0 = multiply(&self.0, &inverse(&number(element)));
    }

    /// Adds all elements of another set.
    pub fn combine(&mut self, other: &MuHash) {
        self.0 = multiply(&self.0, &other.0);
    }

    /// The hash, in internal byte order.
    pub fn finalize(&self) -> [u8; 32] {
        let mut n = self.0;
        // Fully reduced: at most once too large.
        if n[1..].iter().all(|&limb| limb == u64::MAX) && n[0] >= 0u64.wrapping_sub(PRIME_DIFF) {
            n = [0; LIMBS];
            n[0] = self.0[0].wrapping_add(PRIME_DIFF);
        }
        let mut bytes = [0; LIMBS * 8];
        for (chunk, limb) in bytes.chunks_exact_mut(8).zip(n) {
            chunk.copy_from_slice(&limb.to_le_bytes());
        }
        simd::sha256::sha256(&bytes)
    }
}

fn number(element: &[u8]) -> [u64; LIMBS] {
    let key = simd::sha256::sha256(element);
    let mut limbs = [0; LIMBS];
    for (block, eight) in limbs.chunks_exact_mut(8).enumerate() {
        let words = chacha20::words(&key, &[0; 12], block as u32);
        for (limb, pair) in eight.iter_mut().zip(words.chunks_exact(2)) {
            *limb = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
    }
    limbs
}

/// The product modulo the prime, below 2^3072.
fn multiply(a: &[u64; LIMBS], b: &[u64; LIMBS]) -> [u64; LIMBS] {
    let mut wide = [0u64; 2 * LIMBS];
    for (i, &x) in a.iter().enumerate() {
        let mut carry = 0u128;
        for (limb, &y) in wide[i..i + LIMBS].iter_mut().zip(b) {
            let sum = u128::from(x) * u128::from(y) + u128::from(*limb) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        wide[i + LIMBS] = carry as u64;
    }
    // 2^3072 is PRIME_DIFF: fold the upper half twice.
    let mut out = [0; LIMBS];
    let mut carry = 0u128;
    for (i, limb) in out.iter_mut().enumerate() {
        let sum = u128::from(wide[i]) + u128::from(wide[LIMBS + i]) * u128::from(PRIME_DIFF) + carry;
        *limb = sum as u64;
        carry = sum >> 64;
    }
    while carry != 0 {
        let mut add = carry * u128::from(PRIME_DIFF);
        for limb in &mut out {
            let sum = u128::from(*limb) + (add & u128::from(u64::MAX));
            *limb = sum as u64;
            add = (add >> 64) + (sum >> 64);
            if add == 0 {
                break;
            }
        }
        carry = add;
    }
    out
}

/// By Fermat: n to the power of the prime less 2.
fn inverse(n: &[u64; LIMBS]) -> [u64; LIMBS] {
    let mut exponent = [u64::MAX; LIMBS];
    exponent[0] = 0u64.wrapping_sub(PRIME_DIFF + 2);
    let mut result = MuHash::new().0;
    for bit in (0..LIMBS * 64).rev() {
        result = multiply(&result, &result);
        if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
            result = multiply(&result, n);
        }
    }
    result
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

    #[test]
    fn muhash_of_parts_combines_to_whole() {
        let (mut whole, mut even, mut odd) = (MuHash::new(), MuHash::new(), MuHash::new());
        for n in 0..20 {
            whole.insert(&element(n));
            if n % 2 == 0 { even.insert(&element(n)) } else { odd.insert(&element(n)) }
        }
        odd.combine(&even);
        assert_eq!(odd.finalize(), whole.finalize());
        for n in 0..20 {
            whole.remove(&element(n));
        }
        assert_eq!(whole.finalize(), MuHash::new().finalize());
    }

    /// Sums that carry past the top limb come back at the bottom.
    #[test]
    fn muhash_product_of_greatest_numbers_is_reduced() {
        let top = [u64::MAX; LIMBS]; // PRIME_DIFF - 1 modulo the prime.
        let mut small = [0; LIMBS];
        small[0] = PRIME_DIFF - 1;
        assert_eq!(MuHash(multiply(&top, &top)).finalize(), MuHash(multiply(&small, &small)).finalize());
        assert_eq!(MuHash(top).finalize(), MuHash(small).finalize());
    }
}
