//! Scalars in lanes: numbers modulo the group's order, from the numbers of a claim to the bits of [`super::digits`].
//!
//! A sum multiplies the generator by one fraction and a point by another, with the same divisor, as m / s and r / s: a
//! [`Fraction`]. For many of them all divisors are inverted by one inversion (Montgomery's trick, see
//! [`super::inversions`]), and the next steps are computed for all lanes at once: both quotients, the split of the
//! point's into two short scalars, and the bits.
//!
//! Layout: five limbs of 52 bits, vector `i` with the lanes' limb `i`, as in [`super::field`]; below 2^257, not
//! reduced.
//!
//! Products are Montgomery products, `a b / R` with R = 2^260: a multiple of the order is added that makes the lowest
//! five limbs zero, and these are dropped. So every product loses a factor R, which the inverse restores: see [`bits`].
//! Source: P. L. Montgomery, "Modular multiplication without trial division"; the split: [`super::digits`], for one
//! scalar at a time.
//!
//! Absent on purpose: the use of the scalars.

#![expect(clippy::needless_range_loop, reason = "as in the field: loops over numbers are unrolled")]

use super::digits::{A1, A2, Bits, G1, G2, KEY_SCALAR_BITS, LAMBDA, MIDDLE, MINUS_B1};
use super::field::{LIMB, TOP};
use super::point::{WAYS, Ways, each};
use super::reference::{Modulus, Order, Scalar, invert_all};
use super::vector::{LANES_MAX, Vector};
use super::words::{self, limbs_of_lanes, limbs_splat};

/// The order.
const ORDER: [u64; 5] = limbs(Order::MODULUS);
/// 2^256 modulo the order.
const C: [u64; 3] = short_limbs(Order::C);
/// The order times this is -1 modulo 2^52.
const MINUS_INVERSE: u64 = {
    // Each step doubles the number of correct bits, starting with three.
    let mut inverse = ORDER[0];
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(ORDER[0].wrapping_mul(inverse)));
        step += 1;
    }
    inverse.wrapping_neg() & LIMB
};
const _: () = assert!(ORDER[0].wrapping_mul(MINUS_INVERSE) & LIMB == LIMB);

/// A number of 256 bits as limbs.
const fn limbs(w: [u64; 4]) -> [u64; 5] {
    let [a, b, c] = short_limbs([w[0], w[1], w[2]]);
    [a, b, c & LIMB, (w[2] >> 28 | w[3] << 36) & LIMB, w[3] >> 16]
}

/// The lowest three limbs of a number; the last is not full if the number has at most 129 bits.
const fn short_limbs(w: [u64; 3]) -> [u64; 3] {
    [w[0] & LIMB, (w[0] >> 52 | w[1] << 12) & LIMB, (w[1] >> 40 | w[2] << 24) & LIMB]
}

/// The multipliers of the generator and of the key, each divided by `divisor`. Words, the lowest first; any numbers of
/// 256 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fraction {
    /// Four words for the generator, four for the key.
    pub(super) numerators: [[u64; 4]; 2],
    /// Not a multiple of the order.
    pub(super) divisor: [u64; 4],
}

impl Fraction {
    /// `base` divided by `divisor`, and `key` divided by `divisor`.
    pub(super) fn new(base: [u64; 4], key: Scalar, divisor: Scalar) -> Fraction {
        Fraction { numerators: [base, key.words()], divisor: divisor.words() }
    }
}

/// A number modulo the order in each lane.
///
/// Invariant: limbs 0 to 3 are below 2^52, limb 4 is below 2^49.
#[derive(Clone, Copy)]
struct Numbers<V>([V; 5]);

impl<V: Vector> Numbers<V> {
    /// Numbers of 256 bits; vector `i` holds the lanes' word `i`.
    #[inline(always)]
    fn from_words(words: [V; 4]) -> Numbers<V> {
        Numbers(words::limbs(words))
    }

    /// The same number in all lanes.
    #[inline(always)]
    fn splat(like: V, number: Scalar) -> Numbers<V> {
        Numbers(limbs_splat(like, number.words()))
    }

    #[inline(always)]
    fn factors(&self) -> [V::Factor; 5] {
        let [a, b, c, d, e] = self.0;
        debug_assert!(e.above(1 << 49) == 0, "below 2^257");
        [a.factor(), b.factor(), c.factor(), d.factor(), e.factor()]
    }

    /// The sums with a reduced number, modulo the order and below 2^256.
    ///
    /// Below 2^257 + 2^256: at most two times 2^256 are folded. That leaves less than 2^256 + 2 * 2^129; if it is not
    /// below 2^256, folding once more leaves less than 2^131.
    #[inline(always)]
    fn plus(self, other: Scalar) -> Numbers<V> {
        let mut t = self.0;
        let like = t[0];
        let other = limbs(other.words());
        for i in 0..5 {
            t[i] = t[i].plus(like.splat(other[i]));
        }
        carry(&mut t);
        for _ in 0..2 {
            let above = t[4].down::<48>().factor();
            t[4] = t[4].and(like.splat(TOP));
            for i in 0..3 {
                add(&mut t, i, above, like.splat(C[i]).factor());
            }
            carry(&mut t);
        }
        debug_assert!(t[4].above(TOP.cast_signed()) == 0, "below 2^256");
        Numbers(t)
    }

    /// The numbers' words; vector `i` holds the lanes' word `i`. They are below 2^256.
    #[inline(always)]
    fn words(self) -> [V; 4] {
        words::words(self.0)
    }
}

/// Adds a product to columns `k` and `k + 1`, including the constants in the bits of its halves: the columns' initial
/// values compensate for these.
#[inline(always)]
fn add_to_begun<V: Vector, const N: usize>(t: &mut [V; N], k: usize, a: V::Factor, b: V::Factor) {
    let mut low = t[k];
    let mut high = t[k + 1];
    V::add_product(&mut low, &mut high, a, b);
    (t[k], t[k + 1]) = (low, high);
}

/// Adds a product to columns `k` and `k + 1`.
#[inline(always)]
fn add<V: Vector, const N: usize>(t: &mut [V; N], k: usize, a: V::Factor, b: V::Factor) {
    if V::LOW != 0 || V::HIGH != 0 {
        t[k] = t[k].minus(t[k].splat(V::LOW));
        t[k + 1] = t[k + 1].minus(t[k].splat(V::HIGH));
    }
    add_to_begun(t, k, a, b);
}

/// Shifted right by 52 bits, with the sign.
#[inline(always)]
fn shifted<V: Vector>(t: V) -> V {
    if V::CARRY_BIAS == 0 {
        return t.carried();
    }
    t.plus(t.splat(V::CARRY_BIAS)).carried().minus(t.splat(V::CARRY_BIAS >> 52))
}

/// Carries columns, also negative ones; the last receives the last carry.
#[inline(always)]
fn carry<V: Vector, const N: usize>(t: &mut [V; N]) {
    for i in 0..N - 1 {
        t[i + 1] = t[i + 1].plus(shifted(t[i]));
        t[i] = t[i].and(t[i].splat(LIMB));
    }
}

/// The products over R, modulo the order.
///
/// A column sums at most ten lower and ten upper halves and a carry: below 2^57, and with signed lower halves above
/// -10 * 2^51. The result is below (2^257)^2 / R + n < 2^254 + 2^256 < 2^257.
#[inline(always)]
fn mul<V: Vector>(a: &Numbers<V>, b: &Numbers<V>) -> Numbers<V> {
    a.0[0].call(
        #[inline(always)]
        || product(a, b),
    )
}

/// See [`mul`].
#[inline(always)]
fn product<V: Vector>(a: &Numbers<V>, b: &Numbers<V>) -> Numbers<V> {
    let like = a.0[0];
    let a = a.factors();
    let b = b.factors();
    let inverse = like.splat(MINUS_INVERSE).factor();
    let mut t = [like; 10];
    for k in 0..10 {
        t[k] = like.splat(const { begin::<V>() }[k]);
    }
    for i in 0..5 {
        for j in 0..5 {
            add_to_begun(&mut t, i + j, a[i], b[j]);
        }
    }
    for i in 0..5 {
        // Column i is complete, except for the lower half of the product that is added now.
        let mut times = like.splat(V::LOW.wrapping_neg());
        let mut ignored = like;
        let column = t[i].plus(like.splat(V::LOW)).lowest_factor();
        V::add_product(&mut times, &mut ignored, column, inverse);
        let times = times.and(like.splat(LIMB)).factor();
        for j in 0..5 {
            add_to_begun(&mut t, i + j, times, like.splat(ORDER[j]).factor());
        }
        debug_assert!(t[i].and(like.splat(LIMB)).zeros() == V::ALL);
        t[i + 1] = t[i + 1].plus(shifted(t[i]));
    }
    let [.., t5, t6, t7, t8, t9] = t;
    let mut upper = [t5, t6, t7, t8, t9];
    carry(&mut upper);
    debug_assert!(upper[4].above(1 << 49) == 0 && upper[4].above(-1) == V::ALL);
    Numbers(upper)
}

/// The initial columns for two products: minus the constants in the bits of their halves.
const fn begin<V: Vector>() -> [u64; 10] {
    let mut begin = [0u64; 10];
    let mut k = 0;
    while k < 10 {
        let lows = pairs_of(k).wrapping_mul(V::LOW);
        let highs = if k == 0 { 0 } else { pairs_of(k - 1).wrapping_mul(V::HIGH) };
        begin[k] = lows.wrapping_add(highs).wrapping_mul(2).wrapping_neg();
        k += 1;
    }
    begin
}

/// Number of pairs of limbs whose indexes sum to `k`.
const fn pairs_of(k: usize) -> u64 {
    (if k < 5 { k + 1 } else { 9 - k }) as u64
}

/// The bits that represent each fraction's scalars, in order.
///
/// For [`mul`], a number a represents a / R. The product of all s is computed in this form. Its inverse starts with a
/// factor such that m and r are multiplied by R / 2 s, because the halves of the quotients are needed (see
/// [`super::digits`]).
pub(super) fn bits<V: Vector>(like: V, fractions: &[Fraction]) -> Vec<Bits> {
    let mut bits = vec![Bits::SOME; fractions.len()];
    if !fractions.is_empty() {
        like.run(
            #[inline(always)]
            || fill(like, fractions, &mut bits),
        );
    }
    bits
}

/// See [`bits`].
#[inline(always)]
fn fill<V: Vector>(like: V, fractions: &[Fraction], bits: &mut [Bits]) {
    let width = V::LANES * WAYS;
    // 2^259 and 2^260.
    let half_r = (0..4).fold(MIDDLE, |number, _| number + number);
    let mut product = [Numbers::splat(like, half_r + half_r); WAYS];
    let mut steps: Vec<Ways<[Numbers<V>; 2]>> = Vec::with_capacity(fractions.len().div_ceil(width));
    for part in fractions.chunks(width) {
        let step = each!(i, [divisors(like, part, i), product[i]]);
        product = each!(i, mul(&product[i], &step[i][0]));
        steps.push(step);
    }
    let mut inverse = inverses(&product, half_r);
    let of_base = MIDDLE - Scalar::ONE.half();
    let of_key = -(Scalar::ONE + LAMBDA).half();
    for ((part, step), bits) in fractions.chunks(width).zip(&steps).zip(bits.chunks_mut(width)).rev() {
        let of_each = each!(i, mul(&inverse[i], &step[i][1]));
        inverse = each!(i, mul(&inverse[i], &step[i][0]));
        for way in 0..WAYS {
            let [base, key] = numerators(like, part, way);
            let base = mul(&base, &of_each[way]).plus(of_base);
            let key = mul(&key, &of_each[way]).plus(of_key);
            write(base, &key, bits, way);
        }
    }
}

/// Writes the bits of a vector.
#[inline(always)]
fn write<V: Vector>(base: Numbers<V>, key: &Numbers<V>, bits: &mut [Bits], way: usize) {
    let [[k0, k1, k2], [l0, l1, l2]] = short_bits(key);
    let mut rows = [[[0; 4]; LANES_MAX]; 2];
    V::scatter(base.words(), rows[0].each_mut());
    V::scatter([k0, k1, l0, l1], rows[1].each_mut());
    let tops = k2.or(l2.up::<32>()).store();
    for (lane, bits) in bits.iter_mut().skip(way * V::LANES).take(V::LANES).enumerate() {
        *bits = Bits { words: [rows[0][lane], rows[1][lane]], top: tops[lane] };
    }
}

/// The divisors of a vector; one for lanes without a fraction.
#[inline(always)]
fn divisors<V: Vector>(like: V, part: &[Fraction], way: usize) -> Numbers<V> {
    let mut numbers = [[1, 0, 0, 0]; LANES_MAX];
    for (to, fraction) in numbers.iter_mut().zip(part.iter().skip(way * V::LANES).take(V::LANES)) {
        *to = fraction.divisor;
    }
    Numbers(limbs_of_lanes(like, &numbers))
}

/// Both numerators of a vector; zeros for lanes without a fraction.
#[inline(always)]
fn numerators<V: Vector>(like: V, part: &[Fraction], way: usize) -> [Numbers<V>; 2] {
    let mut rows = [&[[0; 4]; 2]; LANES_MAX];
    for (to, fraction) in rows.iter_mut().zip(part.iter().skip(way * V::LANES).take(V::LANES)) {
        *to = &fraction.numerators;
    }
    let words = like.gather_both(rows);
    each!(i, Numbers::from_words(words[i]))
}

/// `factor` divided by each number, with a single inversion.
#[inline(always)]
fn inverses<V: Vector>(numbers: &Ways<Numbers<V>>, factor: Scalar) -> Ways<Numbers<V>> {
    let like = numbers[0].0[0];
    let mut rows = [[[0; 4]; WAYS]; LANES_MAX];
    for way in 0..WAYS {
        V::scatter(numbers[way].plus(Scalar::ZERO).words(), rows.each_mut().map(|row| &mut row[way]));
    }
    let mut all = rows.map(|row| row.map(Scalar::reduced));
    invert_all(all[..V::LANES].as_flattened_mut());
    for (row, pair) in rows.iter_mut().zip(all) {
        *row = pair.map(|inverse| (inverse * factor).words());
    }
    let words = like.gather_both(rows.each_ref());
    each!(i, Numbers::from_words(words[i]))
}

/// [`super::digits::short_bits`] in lanes: three words each, vector `i` with the lanes' word `i`.
///
/// # Panics
///
/// Never happens: the halves of any number are within 0.64 * 2^128 of zero.
#[inline(always)]
fn short_bits<V: Vector>(number: &Numbers<V>) -> [[V; 3]; 2] {
    let like = number.0[0];
    let k = number.factors();
    let c1 = high_words(like, &k, const { limbs(G1) });
    let c2 = high_words(like, &k, const { limbs(G2) });
    let a1 = const { short_limbs([A1[0], A1[1], 0]) };
    let zero = [like.splat(0); 4];
    let from_one = add_low(add_low(zero, &c1, a1), &c2, const { short_limbs(A2) });
    let to_lambda = add_low(zero, &c1, const { short_limbs([MINUS_B1[0], MINUS_B1[1], 0]) });
    let from_lambda = add_low(zero, &c2, a1);
    let [n0, n1, n2, ..] = number.0;
    [
        words_of_difference([n0, n1, n2], from_one),
        words_of_difference([to_lambda[0], to_lambda[1], to_lambda[2]], from_lambda),
    ]
}

/// The words of `a - b + 2^(l-1)`, of l bits. All arithmetic is modulo 2^156; a short scalar with its sign has 129
/// bits.
#[inline(always)]
fn words_of_difference<V: Vector>(a: [V; 3], b: [V; 4]) -> [V; 3] {
    let like = a[0];
    let mut t = a;
    for i in 0..3 {
        t[i] = t[i].minus(b[i]);
    }
    t[2] = t[2].plus(like.splat(1 << (KEY_SCALAR_BITS - 1 - 104)));
    carry(&mut t);
    let [t0, t1, t2] = [t[0], t[1], t[2].and(like.splat(LIMB))];
    assert!(t2.above((1 << (KEY_SCALAR_BITS - 104)) - 1) == 0, "short scalars have a sign and 128 bits");
    [t0.or(t1.up::<52>()), t1.down::<12>().or(t2.up::<40>()), t2.down::<24>()]
}

/// `k g / 2^384`, rounded, without the carry of the columns below the fifth: less than 2^-110.
///
/// A column sums at most five lower and five upper halves. Products and upper halves are not negative, so their
/// remaining parts are not negative either.
#[inline(always)]
fn high_words<V: Vector>(like: V, k: &[V::Factor; 5], g: [u64; 5]) -> [V::Factor; 3] {
    let mut t = [like.splat(0); 6]; // Columns 4 to 9.
    for i in 0..5 {
        for j in 4 - i..5 {
            add(&mut t, i + j - 4, k[i], like.splat(g[j]).factor());
        }
    }
    let [_, t5, t6, t7, t8, t9] = t;
    // Bit 384 is bit 20 of column 7.
    let mut t = [t5, t6, t7.plus(like.splat(1 << 19)), t8, t9];
    carry(&mut t);
    let [_, _, t7, t8, t9] = t;
    debug_assert!(t9.above(1 << 44) == 0 && t9.above(-1) == V::ALL);
    let low = t7.down::<20>().or(t8.up::<32>()).and(like.splat(LIMB));
    let middle = t8.down::<20>().or(t9.up::<32>()).and(like.splat(LIMB));
    [low.factor(), middle.factor(), t9.down::<20>().factor()]
}

/// Adds the lowest three columns of a product; the fourth is ignored.
#[inline(always)]
fn add_low<V: Vector>(mut t: [V; 4], a: &[V::Factor; 3], b: [u64; 3]) -> [V; 4] {
    let like = t[0];
    for i in 0..3 {
        for j in 0..3 - i {
            add(&mut t, i + j, a[i], like.splat(b[j]).factor());
        }
    }
    t
}
