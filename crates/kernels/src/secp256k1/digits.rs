//! Scalars as odd signed digits: no digit is zero, so every lane adds a point at every step.
//!
//! If each of l bits of v has the weight 2^i times 1 or -1, they represent the number `2 v - (2^l - 1)`. A window of w
//! bits with value u is the digit `2 u - (2^w - 1)`: odd, between -(2^w - 1) and 2^w - 1. Tables hold the odd multiples
//! 1, 3, .. of a point; a digit is an index in the table and a sign.
//!
//! The generator's scalar u is any number below the order n, and 2 is invertible: v = (u - 1) / 2 + 2^255 modulo n has
//! 256 bits. Adding 2^263 - 2^255 gives 264 bits that represent the same number, in windows with separate tables (G,
//! 2^12 G and so on), so there are no doublings.
//!
//! The key's scalar is first split into two short ones (GLV): for the curve's lambda, lambda (x, y) = (beta x, y). (u -
//! 1 - lambda) / 2 = r1 + lambda r2 with |r1|, |r2| < 2^128, and u = (2 r1 + 1) + lambda (2 r2 + 1): odd numbers again,
//! v = r + 2^(l-1) each.
//!
//! Many scalars at a time: [`super::scalars`].
//!
//! Source: R. P. Gallant, R. J. Lambert, S. A. Vanstone, "Faster Point Multiplication on Elliptic Curves with Efficient
//! Endomorphisms"; the constants, and rounding by a product and a shift: libsecp256k1, `scalar_impl.h`.

use super::reference::{Scalar, add_product};
use super::vector::{LANES_MAX, Vector};

/// Bits of a window of the key's scalars: each key needs a table of `2^(bits - 1)` multiples. Measured: with 4 bits a
/// signature takes as long, with 6 bits 8 % longer.
pub(super) const KEY_BITS: usize = 5;
/// Windows of each half: 130 bits hold 129 bits and a sign.
pub(super) const KEY_WINDOWS: usize = 129usize.div_ceil(KEY_BITS);
/// Bits of a window of the generator's scalar: the tables have 2.8 MiB. Measured: with 8 bits and 256 KiB, ten more
/// points are added, and a signature takes 3 % longer.
pub(super) const BASE_BITS: usize = 12;
/// Number of its windows.
pub(super) const BASE_WINDOWS: usize = 256usize.div_ceil(BASE_BITS);
/// Bits of the windows beyond 256.
const BASE_REST: usize = BASE_BITS * BASE_WINDOWS - 256;
const _: () = assert!(192 % BASE_BITS == 0 && 0 < BASE_REST && BASE_REST < 64, "three words are whole windows");

/// Bits of a short scalar, including its sign.
pub(super) const KEY_SCALAR_BITS: usize = KEY_BITS * KEY_WINDOWS;
const _: () = assert!(KEY_SCALAR_BITS >= 130, "129 bits, of which one is the sign, and the sum's last carry");

/// Multiplying the key's point by this gives (beta x, y). Source: libsecp256k1, `scalar_impl.h`.
pub(super) const LAMBDA: Scalar =
    Scalar::constant([0xdf02_967c_1b23_bd72, 0x122e_22ea_2081_6678, 0xa526_1c02_8812_645a, 0x5363_ad4c_c05c_30e0]);
/// A short vector (a1, b1) with a1 + lambda b1 = 0, b1 negative, and another, (a2, b2), with b2 = a1.
pub(super) const A1: [u64; 2] = [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
pub(super) const MINUS_B1: [u64; 2] = [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828];
pub(super) const A2: [u64; 3] = [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 1];
/// 2^384 b2 / n and -2^384 b1 / n, rounded.
pub(super) const G1: [u64; 4] =
    [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd];
pub(super) const G2: [u64; 4] =
    [0x1571_b4ae_8ac4_7f71, 0x2212_08ac_9df5_06c6, 0x6f54_7fa9_0abf_e4c4, 0xe443_7ed6_010e_8828];

/// The digits of the lanes' scalars at one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digits {
    /// Table indexes: entry `i` is `2 i + 1` times the point.
    pub(super) places: [u16; LANES_MAX],
    /// The lanes whose digit is negative.
    pub(super) negative: u8,
}

impl Digits {
    pub(super) const ONES: Digits = Digits { places: [0; LANES_MAX], negative: 0 };

    /// [`Digits::set`] for all lanes at once, from their windows of `bits` bits.
    #[inline(always)]
    fn set_all<V: Vector>(&mut self, windows: V, bits: u32) {
        let half = 1 << (bits - 1);
        let positive = windows.above(half - 1);
        // The bits below the highest one, of the window or of its complement.
        let complement = windows.splat(u64::MAX).minus(windows);
        let words = windows.where_else(positive, complement).and(windows.splat((half - 1).cast_unsigned())).store();
        self.places = words.map(|word| word as u16);
        self.negative = !positive & V::ALL;
    }

    /// Sets a lane's digit from the `bits` bits of its window.
    #[cfg(test)]
    pub(super) fn set(&mut self, lane: usize, window: u64, bits: usize) {
        let half = 1 << (bits - 1);
        let negative = window < half;
        // 2 u - (2^w - 1) is 2 (u - half) + 1, and its negative 2 (half - 1 - u) + 1.
        self.places[lane] = if negative { half - 1 - window } else { window - half } as u16;
        self.negative = self.negative & !(1 << lane) | u8::from(negative) << lane;
    }
}

/// The bits of the generator's multiplier, and of both halves of the key's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bits {
    /// Four words of the generator's multiplier, the lowest first, and two of each half of the key's.
    pub(super) words: [[u64; 4]; 2],
    /// The third words of both halves, 32 bits each.
    pub(super) top: u64,
}

impl Bits {
    /// Arbitrary bits for idle lanes, chosen so that no addition of the selected points is of equal or opposite ones.
    pub(super) const SOME: Bits = Bits {
        words: [
            [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
            [0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465],
        ],
        top: 0x1_0000_0002,
    };

    /// The bits of two scalars: the reference implementation of [`super::scalars`].
    #[cfg(test)]
    pub(super) fn of(base: Scalar, key: Scalar) -> Bits {
        let (base, [[k0, k1, k2], [l0, l1, l2]]) = (base_bits(base), key_bits(key));
        Bits { words: [base, [k0, k1, l0, l1]], top: k2 | l2 << 32 }
    }
}

/// The bits of a vector's lanes; lanes beyond `bits` have arbitrary ones.
pub(super) struct LaneBits<V> {
    words: [[V; 4]; 2],
    top: V,
}

impl<V: Vector> LaneBits<V> {
    #[inline(always)]
    pub(super) fn new<'a>(like: V, bits: impl Iterator<Item = &'a Bits>) -> LaneBits<V> {
        let mut rows = [&Bits::SOME.words; LANES_MAX];
        let mut tops = [Bits::SOME.top; LANES_MAX];
        for (lane, bits) in bits.take(V::LANES).enumerate() {
            (rows[lane], tops[lane]) = (&bits.words, bits.top);
        }
        LaneBits { words: like.gather_both(rows), top: like.load(&tops) }
    }

    /// The digits of the generator's multiplier.
    #[inline(always)]
    pub(super) fn base(&self, digits: &mut [Digits; BASE_WINDOWS]) {
        let [b0, b1, b2, b3] = self.words[0];
        // The middle of a number with more bits is higher: by 2^(255 + rest) - 2^255.
        let above = b3.down::<63>().plus(b3.splat((1 << (BASE_REST - 1)) - 1));
        let b3 = b3.plus(b3.splat(1 << 63));
        let (first, second) = digits.split_at_mut(192 / BASE_BITS);
        for (mut words, digits) in [([b0, b1, b2], first), ([b3, above, b0.splat(0)], second)] {
            for digits in digits {
                digits.set_all(words[0].and(b0.splat((1 << BASE_BITS) - 1)), BASE_BITS as u32);
                words = down::<V, { BASE_BITS as u32 }, { 64 - BASE_BITS as u32 }>(words);
            }
        }
    }

    /// The digits of a half of the key's multiplier, in `N` windows of `BITS` bits, with `REST` = 64 - `BITS`; at least
    /// [`KEY_SCALAR_BITS`] bits in total.
    #[inline(always)]
    pub(super) fn half<const BITS: u32, const REST: u32, const N: usize>(&self, half: usize, digits: &mut [Digits; N]) {
        const { assert!(BITS + REST == 64 && BITS as usize * N >= KEY_SCALAR_BITS && BITS as usize * N < 160) };
        let [k0, k1, l0, l1] = self.words[1];
        let mut words =
            if half == 0 { [k0, k1, self.top.and(k0.splat(0xffff_ffff))] } else { [l0, l1, self.top.down::<32>()] };
        // The middle of a number with more bits is higher.
        let middle = (1 << (BITS as usize * N - 1 - 128)) - (1 << (KEY_SCALAR_BITS - 1 - 128));
        words[2] = words[2].plus(k0.splat(middle));
        for digits in digits {
            digits.set_all(words[0].and(k0.splat((1 << BITS) - 1)), BITS);
            words = down::<V, BITS, REST>(words);
        }
    }
}

/// Three words of each lane, shifted to the right by `BITS`; `REST` is 64 - `BITS`.
#[inline(always)]
fn down<V: Vector, const BITS: u32, const REST: u32>(words: [V; 3]) -> [V; 3] {
    [
        words[0].down::<BITS>().or(words[1].up::<REST>()),
        words[1].down::<BITS>().or(words[2].up::<REST>()),
        words[2].down::<BITS>(),
    ]
}

/// The digits of both scalars of a vector's lanes, the lowest window first; for the key, of both halves.
#[derive(Clone, Debug)]
pub(super) struct Recoded {
    /// The digits for G, 2^12 G and so on.
    pub(super) base: [Digits; BASE_WINDOWS],
    /// The digits for the key's point, and for lambda times that point.
    pub(super) key: [[Digits; KEY_WINDOWS]; 2],
}

impl Recoded {
    /// Every digit is one, for idle lanes.
    pub(super) const ONES: Recoded =
        Recoded { base: [Digits::ONES; BASE_WINDOWS], key: [[Digits::ONES; KEY_WINDOWS]; 2] };

    /// Sets all lanes.
    #[inline(always)]
    pub(super) fn set_all<V: Vector>(&mut self, bits: &LaneBits<V>) {
        bits.base(&mut self.base);
        self.set_key(bits);
    }

    /// Sets the multiplier of the key's point in all lanes.
    #[inline(always)]
    pub(super) fn set_key<V: Vector>(&mut self, bits: &LaneBits<V>) {
        let [one, lambda] = &mut self.key;
        bits.half::<{ KEY_BITS as u32 }, { 64 - KEY_BITS as u32 }, KEY_WINDOWS>(0, one);
        bits.half::<{ KEY_BITS as u32 }, { 64 - KEY_BITS as u32 }, KEY_WINDOWS>(1, lambda);
    }

    /// Sets a lane to `base` times the generator plus `key` times the key's point: the reference implementation.
    #[cfg(test)]
    pub(super) fn set(&mut self, lane: usize, base: Scalar, key: Scalar) {
        let [b0, b1, b2, b3] = base_bits(base);
        let (b3, carry) = b3.overflowing_add(1 << 63);
        let above = (1 << (BASE_REST - 1)) - 1 + u64::from(carry);
        for (window, digits) in self.base.iter_mut().enumerate() {
            let first = window * BASE_BITS;
            let window = if first < 192 {
                window_of(&[b0, b1, b2], first, BASE_BITS)
            } else {
                window_of(&[b3, above, 0], first - 192, BASE_BITS)
            };
            digits.set(lane, window, BASE_BITS);
        }
        for (half, bits) in key_bits(key).iter().enumerate() {
            for (window, digits) in self.key[half].iter_mut().enumerate() {
                digits.set(lane, window_of(bits, window * KEY_BITS, KEY_BITS), KEY_BITS);
            }
        }
    }
}

/// The `count` bits from bit `first` on.
pub(super) fn window_of(words: &[u64; 3], first: usize, count: usize) -> u64 {
    let word = first / 64;
    let shift = first % 64;
    let above = if shift == 0 || word == 2 { 0 } else { words[word + 1] << (64 - shift) };
    (words[word] >> shift | above) & ((1 << count) - 1)
}

/// 2^255, the middle of the range of 256 bits.
pub(super) const MIDDLE: Scalar = Scalar::constant([0, 0, 0, 1 << 63]);

/// The 256 bits that represent a scalar.
#[cfg(test)]
fn base_bits(scalar: Scalar) -> [u64; 4] {
    ((scalar - Scalar::ONE).half() + MIDDLE).words()
}

/// The bits that represent a scalar: [`KEY_SCALAR_BITS`] for each half.
#[cfg(test)]
fn key_bits(scalar: Scalar) -> [[u64; 3]; 2] {
    short_bits::<KEY_SCALAR_BITS>(scalar)
}

/// The bits that represent a scalar: `BITS`, at least 129, for each half.
///
/// 129 are enough: r1 and r2 are within half of |a1| + |a2| and |b1| + |b2| of zero, plus one for the rounding, which
/// is below 0.64 * 2^128.
pub(super) fn short_bits<const BITS: usize>(scalar: Scalar) -> [[u64; 3]; 2] {
    const { assert!(BITS > 128 && BITS <= 192) };
    split((scalar - Scalar::ONE - LAMBDA).half()).map(|mut short| {
        let at = BITS - 1;
        // Adding 2^(l-1) turns it into l bits without a sign, even if it is negative: the higher words wrap.
        short[at / 64] = short[at / 64].wrapping_add(1 << (at % 64));
        assert!(short[2] >> (BITS - 128) == 0, "short scalars have a sign and 128 bits");
        short
    })
}

/// r1 and r2 as three words, negative ones in two's complement: `k = r1 + lambda r2`, and both short.
///
/// With c1 and c2 near k b2 / n and -k b1 / n, (r1, r2) is (k, 0) less c1 (a1, b1) and c2 (a2, b2). The equation holds
/// for any c1 and c2; better approximations give shorter numbers. All arithmetic is modulo 2^192.
fn split(k: Scalar) -> [[u64; 3]; 2] {
    let k = k.words();
    let c1 = times_shifted(k, G1);
    let c2 = times_shifted(k, G2);
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
    let mut difference = [0; 3];
    let mut borrow = false;
    for i in 0..3 {
        let (first, under) = a[i].overflowing_sub(b[i]);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        (difference[i], borrow) = (second, under | under_again);
    }
    difference
}
