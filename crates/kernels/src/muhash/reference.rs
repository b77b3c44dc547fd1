//! The plain implementation: limbs of 64 bits, one number at a time.

use super::{LIMBS, Number, ONE, PRIME_DIFF};
use crate::chacha20;

/// Bits of the modulus.
const BITS: u32 = 3072;
/// The lowest bits of the exponent of an inverse; all higher bits are ones.
const LOW_BITS: u32 = 21;

/// The number that a key expands to: the first 384 bytes of its key stream.
pub(super) fn number(key: &[u8; 32]) -> Number {
    let mut limbs = [0; LIMBS];
    for (block, eight) in limbs.chunks_exact_mut(8).enumerate() {
        let words = chacha20::words(key, &[0; 12], block as u32);
        for (limb, pair) in eight.iter_mut().zip(words.chunks_exact(2)) {
            *limb = u64::from(pair[0]) | u64::from(pair[1]) << 32;
        }
    }
    limbs
}

/// The product modulo the prime, below 2^3072.
pub(super) fn multiply(a: &Number, b: &Number) -> Number {
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
    fold(&mut out, carry);
    out
}

/// Adds `above` times 2^3072.
pub(super) fn fold(out: &mut Number, mut above: u128) {
    while above != 0 {
        let mut add = above * u128::from(PRIME_DIFF);
        for limb in &mut *out {
            let sum = u128::from(*limb) + (add & u128::from(u64::MAX));
            *limb = sum as u64;
            add = (add >> 64) + (sum >> 64);
            if add == 0 {
                break;
            }
        }
        above = add;
    }
}

/// A number given by limbs of `BITS` bits, 3,072 or more in total, the lowest first; limbs may be larger, up to 2^62.
#[cfg(target_arch = "x86_64")]
pub(super) fn from_limbs<const BITS: u32>(limbs: impl Iterator<Item = u64>) -> Number {
    let mut out = [0; LIMBS];
    let mut held = 0u128;
    let mut bits = 0;
    let mut at = 0;
    for limb in limbs {
        held += u128::from(limb) << bits;
        bits += BITS;
        if bits >= 64 && at < LIMBS {
            out[at] = held as u64;
            (held, bits, at) = (held >> 64, bits - 64, at + 1);
        }
    }
    fold(&mut out, held);
    out
}

/// Reduces below the prime: a number below 2^3072 needs at most one subtraction.
pub(super) fn reduce(number: &Number) -> Number {
    let mut out = *number;
    if out[1..].iter().all(|&limb| limb == u64::MAX) && out[0] >= 0u64.wrapping_sub(PRIME_DIFF) {
        out = [0; LIMBS];
        out[0] = number[0].wrapping_add(PRIME_DIFF);
    }
    out
}

/// By Fermat: the power of the prime less 2, whose bits are ones except in its lowest 21.
///
/// A power whose exponent has k ones, squared k times and multiplied by itself, has an exponent of 2 k ones: 3,072
/// squarings and some twenty products.
pub(super) fn inverse(number: &Number) -> Number {
    let wanted = BITS - LOW_BITS;
    let mut ones = *number;
    let mut count = 1;
    for bit in (0..wanted.ilog2()).rev() {
        ones = multiply(&squared(&ones, count), &ones);
        count *= 2;
        if wanted >> bit & 1 == 1 {
            ones = multiply(&squared(&ones, 1), number);
            count += 1;
        }
    }
    let low = (1u64 << LOW_BITS) - (PRIME_DIFF + 2);
    for bit in (0..LOW_BITS).rev() {
        ones = squared(&ones, 1);
        if low >> bit & 1 == 1 {
            ones = multiply(&ones, number);
        }
    }
    ones
}

fn squared(number: &Number, times: u32) -> Number {
    (0..times).fold(*number, |number, _| multiply(&number, &number))
}

/// The product of the numbers of all keys, in sequence.
pub(super) fn product(keys: &[[u8; 32]]) -> Number {
    keys.iter().fold(ONE, |product, key| multiply(&product, &number(key)))
}
