//! Scalars as digits that are odd, with a sign: no digit is zero, so that every lane adds something at every step.
//!
//! With bits v of weight 2^i read as 1 and -1, `2 v - (2^l - 1)` is the number that l bits v stand for. A window of w bits
//! with value u is the digit `2 u - (2^w - 1)`: odd, between -(2^w - 1) and 2^w - 1. Tables hold the odd multiples
//! 1, 3, .. of a point; a digit is a place in the table and a sign.
//!
//! The generator's scalar u is any number below the order n, and 2 is invertible: v = (u - 1) / 2 + 2^255 modulo n, 256
//! bits, in windows with tables of their own (G, 2^8 G and so on): nothing is doubled.
//!
//! The key's scalar is cut in two short ones first (GLV): for the curve's lambda, lambda (x, y) = (beta x, y).
//! (u - 1 - lambda) / 2 = r1 + lambda r2 with |r1|, |r2| < 2^128, and u = (2 r1 + 1) + lambda (2 r2 + 1): odd numbers
//! again, v = r + 2^(l-1) each.
//! Source: R. P. Gallant, R. J. Lambert, S. A. Vanstone, "Faster Point Multiplication on Elliptic Curves with Efficient
//! Endomorphisms"; the constants, and rounding by a product and a shift: libsecp256k1, `scalar_impl.h`.

use super::reference::{Scalar, add_product};
use super::vector::LANES_MAX;

/// Bits of a window of the key's scalars: a table of `2^(bits - 1)` multiples is made for each key. Measured: with 4 bits a
/// signature takes as long, with 6 bits 8 % longer.
pub(super) const KEY_BITS: usize = 5;
/// Windows of each of them: 130 bits hold 129 and a sign.
pub(super) const KEY_WINDOWS: usize = 129usize.div_ceil(KEY_BITS);
/// Bits of a window of the generator's scalar: with 8 bits the tables have 256 KiB and leave room for the rest of a program
/// in a cache of 1 MiB.
pub(super) const BASE_BITS: usize = 8;
/// Its windows.
pub(super) const BASE_WINDOWS: usize = 256 / BASE_BITS;
const _: () = assert!(BASE_BITS == 8, "a window is a byte");

const KEY_SCALAR_BITS: usize = KEY_BITS * KEY_WINDOWS;
const _: () = assert!(KEY_SCALAR_BITS >= 130, "129 bits, of which one is the sign, and the sum's last carry");

/// What multiplies the key's point is the same as lambda times it. Source: libsecp256k1, `scalar_impl.h`.
pub(super) const LAMBDA: Scalar =
    Scalar::constant([0xdf02_967c_1b23_bd72, 0x122e_22ea_2081_6678, 0xa526_1c02_8812_645a, 0x5363_ad4c_c05c_30e0]);
/// A short vector (a1, b1) with a1 + lambda b1 = 0, b1 negative, and another, (a2, b2), where b2 = a1.
const A1: [u64; 2] = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
const MINUS_B1: [u64; 2] = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828];
const A2: [u64; 3] = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1];
/// 2^384 b2 / n and -2^384 b1 / n, rounded.
const G1: [u64; 4] = [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
const G2: [u64; 4] = [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];

/// The digits of the lanes' scalars at one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    /// Places in the table: place `i` holds `2 i + 1` times the point.
    pub(super) places: [u16; LANES_MAX],
    /// The lanes whose digit is negative.
    pub(super) negative: u8,
}

impl Digits {
    pub(super) const ONES: Digits = Digits { places: [0; LANES_MAX], negative: 0 };

    /// Sets a lane's digit from the `bits` bits of its window.
    pub(super) fn set(&mut self, lane: usize, window: u64, bits: usize) {
        let half = 1 << (bits - 1);
        let negative = window < half;
        // 2 u - (2^w - 1) is 2 (u - half) + 1, and its negative 2 (half - 1 - u) + 1.
        self.places[lane] = if negative { half - 1 - window } else { window - half } as u16;
        self.negative = self.negative & !(1 << lane) | u8::from(negative) << lane;
    }
}

/// The digits of both scalars of a vector's lanes, the lowest window first; of the key's the two halves.
#[derive(Clone, Debug)]
pub(super) struct Recoded {
    /// For G, 2^8 G and so on.
    pub(super) base: [Digits; BASE_WINDOWS],
    /// For the key's point and lambda times it.
    pub(super) key: [[Digits; KEY_WINDOWS]; 2],
}

impl Recoded {
    /// Every digit one, for lanes with nothing to do.
    pub(super) const ONES: Recoded =
        Recoded { base: [Digits::ONES; BASE_WINDOWS], key: [[Digits::ONES; KEY_WINDOWS]; 2] };

    /// Sets what a lane multiplies the generator with.
    pub(super) fn set_base(&mut self, lane: usize, base: Scalar) {
        let bits = base_bits(base);
        for (window, digits) in self.base.iter_mut().enumerate() {
            digits.set(lane, bits[window / 8] >> (window % 8 * 8) & 0xff, BASE_BITS);
        }
    }

    /// Sets a lane to `base` times the generator plus `key` times the key's point.
    pub(super) fn set(&mut self, lane: usize, base: Scalar, key: Scalar) {
        self.set_base(lane, base);
        for (half, bits) in key_bits(key).iter().enumerate() {
            for (window, digits) in self.key[half].iter_mut().enumerate() {
                digits.set(lane, window_of(bits, window * KEY_BITS, KEY_BITS), KEY_BITS);
            }
        }
    }
}

/// The `count` bits from bit `first` on.
pub(super) fn window_of(words: &[u64; 3], first: usize, count: usize) -> u64 {
    let (word, shift) = (first / 64, first % 64);
    let above = if shift == 0 || word == 2 { 0 } else { words[word + 1] << (64 - shift) };
    (words[word] >> shift | above) & ((1 << count) - 1)
}

/// The 256 bits that stand for a scalar.
fn base_bits(scalar: Scalar) -> [u64; 4] {
    const MIDDLE: Scalar = Scalar::constant([0, 0, 0, 1 << 63]);
    ((scalar - Scalar::ONE).half() + MIDDLE).words()
}

/// The two times [`KEY_SCALAR_BITS`] bits that stand for a scalar.
fn key_bits(scalar: Scalar) -> [[u64; 3]; 2] {
    short_bits::<KEY_SCALAR_BITS>(scalar)
}

/// The two times `BITS` bits that stand for a scalar, 129 or more.
///
/// 129 are enough: r1 and r2 lie within half of |a1| + |a2| and |b1| + |b2| of zero, and one for the rounding, which is
/// below 0.64 * 2^128.
pub(super) fn short_bits<const BITS: usize>(scalar: Scalar) -> [[u64; 3]; 2] {
    const { assert!(BITS > 128 && BITS <= 192) };
    split((scalar - Scalar::ONE - LAMBDA).half()).map(|mut short| {
        let at = BITS - 1;
        // Below zero or not, adding 2^(l-1) makes l bits without a sign of it: the words above wrap.
        short[at / 64] = short[at / 64].wrapping_add(1 << (at % 64));
        assert!(short[2] >> (BITS - 128) == 0, "short scalars have a sign and 128 bits");
        short
    })
}

/// r1 and r2 as three words, negative ones in two's complement: `k = r1 + lambda r2`, and both short.
///
/// With c1 and c2 near k b2 / n and -k b1 / n, (r1, r2) is (k, 0) less c1 (a1, b1) and c2 (a2, b2). Whatever c1 and c2
/// are, the equation holds; the nearer they are, the shorter the numbers. Everything modulo 2^192.
fn split(k: Scalar) -> [[u64; 3]; 2] {
    let k = k.words();
    let (c1, c2) = (times_shifted(k, G1), times_shifted(k, G2));
    let r1 = minus(minus([k[0], k[1], k[2]], product(&c1, &A1)), product(&c2, &A2));
    let r2 = minus(product(&c1, &MINUS_B1), product(&c2, &A1));
    [r1, r2]
}

/// `a * b / 2^384`, rounded.
fn times_shifted(a: [u64; 4], b: [u64; 4]) -> [u64; 2] {
    let mut wide = [0; 8];
    add_product(&mut wide, &a, &b);
    let (low, carry) = wide[6].overflowing_add(wide[5] >> 63);
    [low, wide[7] + u64::from(carry)]
}

/// The low three words of a product.
fn product(a: &[u64; 2], b: &[u64]) -> [u64; 3] {
    let mut wide = [0; 6];
    add_product(&mut wide, a, b);
    [wide[0], wide[1], wide[2]]
}

/// The difference modulo 2^192.
fn minus(a: [u64; 3], b: [u64; 3]) -> [u64; 3] {
    let (mut difference, mut borrow) = ([0; 3], false);
    for i in 0..3 {
        let (first, under) = a[i].overflowing_sub(b[i]);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        (difference[i], borrow) = (second, under | under_again);
    }
    difference
}
