//! Numbers modulo the field's prime and modulo the group's order, and points, one at a time.
//!
//! Layout: four 64-bit words, the lowest first, always less than the modulus, which is 2^256 - C with a small C: the
//! part above bit 256 is folded by adding it C times.
//!
//! Used if speed does not matter (tables), if lanes do not pay (numbers modulo the order), and as the reference
//! implementation of the lanes. Absent on purpose: constant time. Nothing here is secret.

use super::divsteps;
use std::marker::PhantomData;
use std::ops::{Add, Mul, Neg, Sub};

/// A modulus of the form 2^256 - C.
pub(super) trait Modulus: Copy {
    /// The modulus.
    const MODULUS: [u64; 4];
    /// C, of which only the first [`Modulus::C_WORDS`] words are used.
    const C: [u64; 3];
    /// Words of C.
    const C_WORDS: usize;
}

/// The field's prime, 2^256 - 2^32 - 977. Source: SEC 2, secp256k1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prime;

impl Modulus for Prime {
    const MODULUS: [u64; 4] = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];
    const C: [u64; 3] = [0x1_0000_03d1, 0, 0];
    const C_WORDS: usize = 1;
}

/// The order of the group. Source: SEC 2, secp256k1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order;

impl Modulus for Order {
    const MODULUS: [u64; 4] = [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, u64::MAX];
    const C: [u64; 3] = [0x402d_a173_2fc9_bebf, 0x4551_2319_50b7_5fc4, 1];
    const C_WORDS: usize = 3;
}

/// A number modulo `M`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Residue<M>([u64; 4], PhantomData<M>);

/// An element of the curve's field.
pub(super) type Field = Residue<Prime>;
/// A multiplier of a point.
pub(super) type Scalar = Residue<Order>;

/// 32 bytes, big endian, as words, the lowest first.
pub(super) fn words_of(bytes: &[u8; 32]) -> [u64; 4] {
    let (words, _) = bytes.as_chunks::<8>();
    [3, 2, 1, 0].map(|word| u64::from_be_bytes(words[word]))
}

/// `a + b` and the carry.
fn add_words(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
    let mut sum = [0; 4];
    let mut carry = false;
    for i in 0..4 {
        let (first, over) = a[i].overflowing_add(b[i]);
        let (second, over_again) = first.overflowing_add(u64::from(carry));
        (sum[i], carry) = (second, over | over_again);
    }
    (sum, carry)
}

/// `a - b` and the borrow.
fn sub_words(a: [u64; 4], b: [u64; 4]) -> ([u64; 4], bool) {
    let mut difference = [0; 4];
    let mut borrow = false;
    for i in 0..4 {
        let (first, under) = a[i].overflowing_sub(b[i]);
        let (second, under_again) = first.overflowing_sub(u64::from(borrow));
        (difference[i], borrow) = (second, under | under_again);
    }
    (difference, borrow)
}

/// Adds `a * b` to `to`, which must be wide enough.
#[inline]
pub(super) fn add_product(to: &mut [u64], a: &[u64], b: &[u64]) {
    for (i, &a) in a.iter().enumerate() {
        let mut carry = 0u128;
        for (j, &b) in b.iter().enumerate() {
            carry += u128::from(a) * u128::from(b) + u128::from(to[i + j]);
            to[i + j] = carry as u64;
            carry >>= 64;
        }
        for word in &mut to[i + b.len()..] {
            if carry == 0 {
                break;
            }
            carry += u128::from(*word);
            *word = carry as u64;
            carry >>= 64;
        }
        debug_assert_eq!(carry, 0, "there is room");
    }
}

impl<M: Modulus> Residue<M> {
    pub(super) const ZERO: Self = Residue([0; 4], PhantomData);
    pub(super) const ONE: Self = Residue([1, 0, 0, 0], PhantomData);

    /// A constant, less than the modulus.
    pub(super) const fn constant(words: [u64; 4]) -> Self {
        Residue(words, PhantomData)
    }

    /// A number that must be less than the modulus.
    pub(super) fn from_words(words: [u64; 4]) -> Option<Self> {
        sub_words(words, M::MODULUS).1.then_some(Residue(words, PhantomData))
    }

    /// [`Residue::from_words`] from bytes, big endian.
    pub(super) fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        Self::from_words(words_of(bytes))
    }

    /// A number of 256 bits, reduced.
    pub(super) fn reduced(words: [u64; 4]) -> Self {
        let (less, borrow) = sub_words(words, M::MODULUS);
        // The modulus is more than half of 2^256, so one subtraction is enough.
        Residue(if borrow { words } else { less }, PhantomData)
    }

    pub(super) const fn words(self) -> [u64; 4] {
        self.0
    }

    pub(super) fn is_zero(self) -> bool {
        self.0 == [0; 4]
    }

    pub(super) fn is_odd(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Half of the number: twice the result is this number.
    pub(super) fn half(self) -> Self {
        let (sum, carry) = if self.is_odd() { add_words(self.0, M::MODULUS) } else { (self.0, false) };
        let next = [sum[1], sum[2], sum[3], u64::from(carry)];
        let mut half = [0; 4];
        for i in 0..4 {
            half[i] = sum[i] >> 1 | next[i] << 63;
        }
        Residue(half, PhantomData)
    }

    /// Reduces a product, if C has one word of at most 33 bits.
    #[inline]
    fn fold_by_word(wide: [u64; 8]) -> Self {
        let [mut low, high] = [[wide[0], wide[1], wide[2], wide[3]], [wide[4], wide[5], wide[6], wide[7]]];
        let mut carry = 0;
        for i in 0..4 {
            (low[i], carry) = high[i].carrying_mul_add(M::C[0], low[i], carry);
        }
        // Below 2^34, so times C below 2^67.
        (low[0], carry) = carry.carrying_mul_add(M::C[0], low[0], 0);
        let mut over = false;
        for word in &mut low[1..] {
            (*word, over) = word.carrying_add(carry, over);
            carry = 0;
        }
        // The result modulo 2^256, less than 2^67, is far below 2^256 - C.
        let (sum, _) = add_words(low, [if over { M::C[0] } else { 0 }, 0, 0, 0]);
        Self::reduced(sum)
    }

    /// `low + high C`, if C has 129 bits.
    #[inline]
    fn fold_once<const H: usize>(low: [u64; 4], high: [u64; H]) -> [u64; 7] {
        assert_eq!(M::C[2], 1, "the highest word of C is added, not multiplied");
        let mut sum = [low[0], low[1], low[2], low[3], 0, 0, 0];
        for j in 0..2 {
            let mut carry = 0;
            for i in 0..H {
                (sum[i + j], carry) = high[i].carrying_mul_add(M::C[j], sum[i + j], carry);
            }
            let mut over = false;
            for word in &mut sum[H + j..] {
                (*word, over) = word.carrying_add(carry, over);
                carry = 0;
            }
        }
        let mut over = false;
        for i in 0..H {
            (sum[i + 2], over) = sum[i + 2].carrying_add(high[i], over);
        }
        for word in &mut sum[H + 2..] {
            (*word, over) = word.carrying_add(0, over);
        }
        debug_assert!(!over, "there is room");
        sum
    }

    /// Reduces a product.
    #[inline]
    fn fold(wide: [u64; 8]) -> Self {
        if M::C_WORDS == 1 {
            return Self::fold_by_word(wide);
        }
        let [a, b, c, d, high @ ..] = wide;
        // Below 2^386, then 2^260, then 2^256 plus ten times C.
        let [a, b, c, d, high @ ..] = Self::fold_once::<4>([a, b, c, d], high);
        let [a, b, c, d, high, ..] = Self::fold_once::<3>([a, b, c, d], high);
        let [a, b, c, d, high, ..] = Self::fold_once::<1>([a, b, c, d], [high]);
        let (sum, _) = add_words([a, b, c, d], if high == 0 { [0; 4] } else { [M::C[0], M::C[1], M::C[2], 0] });
        Self::reduced(sum)
    }

    pub(super) fn square(self) -> Self {
        self * self
    }

    /// The power; `exponent` has its lowest word first.
    pub(super) fn power(self, exponent: [u64; 4]) -> Self {
        let mut powers = [Self::ONE; 16];
        for i in 1..16 {
            powers[i] = powers[i - 1] * self;
        }
        let mut result = Self::ONE;
        for nibble in (0..64).rev() {
            for _ in 0..4 {
                result = result.square();
            }
            result = result * powers[(exponent[nibble / 16] >> (nibble % 16 * 4) & 15) as usize];
        }
        result
    }

    /// The inverse; zero for zero.
    pub(super) fn inverse(self) -> Self {
        let found = divsteps::inverse(self.0, M::MODULUS).map(|words| Residue(words, PhantomData));
        // The result is verified by one product.
        found.filter(|&found| (found * self).0 == Self::ONE.0).unwrap_or_else(|| self.inverse_by_power())
    }

    /// The inverse by Fermat; zero for zero. Used if division steps fail, and as their reference implementation.
    pub(super) fn inverse_by_power(self) -> Self {
        let mut exponent = M::MODULUS;
        exponent[0] -= 2;
        self.power(exponent)
    }
}

/// Inverts all of them with a single inversion: Montgomery's trick. All must be nonzero.
pub(super) fn invert_all<M: Modulus>(numbers: &mut [Residue<M>]) {
    if numbers.is_empty() {
        return;
    }
    let mut product = Residue::<M>::ONE;
    let before: Vec<Residue<M>> = numbers
        .iter()
        .map(|&number| {
            debug_assert!(!number.is_zero());
            let before = product;
            product = product * number;
            before
        })
        .collect();
    let mut inverse = product.inverse();
    for (number, before) in numbers.iter_mut().zip(before).rev() {
        (*number, inverse) = (inverse * before, inverse * *number);
    }
}

impl<M: Modulus> Add for Residue<M> {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let (sum, carry) = add_words(self.0, other.0);
        if carry { Residue(sub_words(sum, M::MODULUS).0, PhantomData) } else { Self::reduced(sum) }
    }
}

impl<M: Modulus> Neg for Residue<M> {
    type Output = Self;

    fn neg(self) -> Self {
        Self::reduced(sub_words(M::MODULUS, self.0).0)
    }
}

impl<M: Modulus> Sub for Residue<M> {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl<M: Modulus> Mul for Residue<M> {
    type Output = Self;

    #[inline]
    fn mul(self, other: Self) -> Self {
        let mut wide = [0; 8];
        for i in 0..4 {
            let mut carry = 0;
            for j in 0..4 {
                (wide[i + j], carry) = self.0[i].carrying_mul_add(other.0[j], wide[i + j], carry);
            }
            wide[i + 4] = carry;
        }
        Self::fold(wide)
    }
}

/// A point except infinity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Affine {
    pub(super) x: Field,
    pub(super) y: Field,
}

/// The generator. Source: SEC 2, secp256k1.
pub(super) const GENERATOR: Affine = Affine {
    x: Field::constant([0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac]),
    y: Field::constant([0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465]),
};

/// A point (x / z^2, y / z^3).
#[derive(Clone, Copy, Debug)]
pub(super) struct Jacobian {
    pub(super) x: Field,
    pub(super) y: Field,
    pub(super) z: Field,
}

impl Jacobian {
    pub(super) fn double(self) -> Jacobian {
        let twice = |number: Field| number + number;
        let b = self.y.square();
        let e = self.x.square();
        let d = twice(twice(self.x * b));
        let e = e + twice(e);
        let x = e.square() - twice(d);
        let y = e * (d - x) - twice(twice(twice(b.square())));
        Jacobian { x, y, z: twice(self.y * self.z) }
    }

    /// The sum of different points.
    pub(super) fn add(self, other: Affine) -> Jacobian {
        let zz = self.z.square();
        let h = other.x * zz - self.x;
        let r = other.y * zz * self.z - self.y;
        let hh = h.square();
        let hhh = h * hh;
        let v = self.x * hh;
        let x = r.square() - hhh - v - v;
        Jacobian { x, y: r * (v - x) - self.y * hhh, z: self.z * h }
    }
}

impl Affine {
    pub(super) fn jacobian(self) -> Jacobian {
        Jacobian { x: self.x, y: self.y, z: Field::ONE }
    }
}

/// Converts points to z = 1 with a single inversion. Infinity is not allowed.
pub(super) fn to_affine(points: &[Jacobian]) -> Vec<Affine> {
    let mut inverses: Vec<Field> = points.iter().map(|point| point.z).collect();
    invert_all(&mut inverses);
    let affine = |(point, inverse): (&Jacobian, Field)| {
        let square = inverse.square();
        Affine { x: point.x * square, y: point.y * square * inverse }
    };
    points.iter().zip(inverses).map(affine).collect()
}
