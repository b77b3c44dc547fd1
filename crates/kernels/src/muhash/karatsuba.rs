//! Eight products at a time (AVX-512 F and IFMA) modulo 2^3072 - 1103717.
//!
//! Layout: vector `i` holds limb `i`, of 48 bits and weight 2^(48 i), of eight numbers. A number has 64 limbs, 3072
//! bits. Invariant of [`Fe`]: every limb is below 2^48 + 2^43. Sums of eight limbs are below 2^52, the limit of IFMA.
//!
//! Product: three levels of Karatsuba's method (Knuth vol. 2, 4.3.3) down to eight by eight limbs, whose columns stay
//! in registers: 27 * 128 multiplications instead of the 8,192 of the plain method. Columns are sums modulo 2^64, read
//! as signed.
//!
//! Bound: a column is a sum of lower halves of products, each below 2^52, and 16 times a sum of upper halves. The upper
//! halves of all blocks sum to the exact column, below 64 * 2^(2 * 48 + 1), less the lower halves, divided by 2^52. A
//! block adds or subtracts eight lower halves, and at each level at most four of the parts overlap in a column: 4^3 *
//! 8 * 2^52 = 2^61. So every column is within 2^61 + 2^58 of zero.
//!
//! Absent on purpose: the source of the numbers, and the order of the multiplications (see [`super::avx512`]).

use super::PRIME_DIFF;
use std::arch::x86_64::*;

/// Limbs of a number.
pub(super) const LIMBS48: usize = 64;
/// Bits of a limb.
pub(super) const BITS: u32 = 48;
/// Limbs whose products with each other are summed in registers.
const BLOCK: usize = 8;
const MASK: i64 = (1 << BITS) - 1;
/// Added to a column to make it positive; the excess is subtracted from the next one, whose weight is 2^48 times
/// higher.
const BIAS: i64 = 1 << 62;
const BIAS_CARRIED: i64 = BIAS >> BITS;
const _: () = assert!(BITS as usize * LIMBS48 == 64 * super::LIMBS && BLOCK << 3 == LIMBS48);

/// Eight numbers, one in each lane.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Fe(pub(super) [__m512i; LIMBS48]);

/// Scratch memory for products, allocated once, so that nothing is cleared before it is written.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    columns: [__m512i; 2 * LIMBS48],
    halves: Halves<32, 64>,
    quarters: Halves<16, 32>,
}

/// The sums of the halves of both factors, and their product.
#[derive(Clone, Debug)]
struct Halves<const N: usize, const COLUMNS: usize> {
    a: [__m512i; N],
    b: [__m512i; N],
    product: [__m512i; COLUMNS],
}

impl Fe {
    pub(super) fn zeros() -> Fe {
        Fe(zeros())
    }

    /// Multiplies each lane.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn multiply(&mut self, by: &Fe, scratch: &mut Scratch) {
        let Scratch { columns, halves, quarters } = scratch;
        multiply_64(&self.0, &by.0, columns, halves, quarters);
        self.fold(columns);
    }
}

impl Scratch {
    pub(super) fn new() -> Scratch {
        Scratch { columns: zeros(), halves: Halves::new(), quarters: Halves::new() }
    }
}

impl<const N: usize, const COLUMNS: usize> Halves<N, COLUMNS> {
    fn new() -> Halves<N, COLUMNS> {
        Halves { a: zeros(), b: zeros(), product: zeros() }
    }
}

pub(super) fn zeros<const N: usize>() -> [__m512i; N] {
    // SAFETY: all zeros is a vector.
    [unsafe { std::mem::zeroed() }; N]
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn zero() -> __m512i {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn splat(word: i64) -> __m512i {
    _mm512_set1_epi64(word)
}

/// Multiplies twice the limbs of `$half`: the products of the lower halves and of the upper ones, and between them the
/// product of the halves' sums less both.
macro_rules! twice {
    ($name:ident, $half:ident, $n:literal $(, $below:ident: $type:ty)?) => {
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn $name(
            a: &[__m512i; 2 * $n],
            b: &[__m512i; 2 * $n],
            columns: &mut [__m512i; 4 * $n],
            sums: &mut Halves<$n, { 2 * $n }>,
            $($below: &mut $type,)?
        ) {
            for k in 0..$n {
                sums.a[k] = _mm512_add_epi64(a[k], a[$n + k]);
                sums.b[k] = _mm512_add_epi64(b[k], b[$n + k]);
            }
            let (lower, upper) = columns.split_at_mut(2 * $n);
            $half(lower_half(a), lower_half(b), lower_columns(lower) $(, $below)?);
            $half(upper_half(a), upper_half(b), lower_columns(upper) $(, $below)?);
            $half(&sums.a, &sums.b, &mut sums.product $(, $below)?);
            for k in 0..$n {
                let between = _mm512_sub_epi64(columns[$n + k], columns[2 * $n + k]);
                let lower = _mm512_sub_epi64(_mm512_add_epi64(between, sums.product[k]), columns[k]);
                let upper = _mm512_sub_epi64(_mm512_sub_epi64(sums.product[$n + k], between), columns[3 * $n + k]);
                (columns[$n + k], columns[2 * $n + k]) = (lower, upper);
            }
        }
    };
}

twice!(multiply_64, multiply_32, 32, quarters: Halves<16, 32>);
twice!(multiply_32, multiply_16, 16);

fn lower_half<const N: usize>(limbs: &[__m512i]) -> &[__m512i; N] {
    limbs.first_chunk().expect("half of the limbs")
}

fn upper_half<const N: usize>(limbs: &[__m512i]) -> &[__m512i; N] {
    limbs.last_chunk().expect("half of the limbs")
}

fn lower_columns<const N: usize>(columns: &mut [__m512i]) -> &mut [__m512i; N] {
    columns.first_chunk_mut().expect("half of the columns")
}

/// Adds the products of one limb and eight to their columns.
macro_rules! add_row {
    ($sums:ident, $at:expr, $multiply:ident, $limb:expr, $b:ident, [$($j:literal),*]) => {
        $($sums[$at + $j] = $multiply($sums[$at + $j], $limb, $b[$j]);)*
    };
}

/// Adds halves of the products of eight limbs and eight to their columns, the first of which is `$at`.
macro_rules! add_rows {
    ($sums:ident, $at:literal, $multiply:ident, $a:ident, $b:ident, [$($i:literal),*]) => {
        $(add_row!($sums, $at + $i, $multiply, $a[$i], $b, [0, 1, 2, 3, 4, 5, 6, 7]);)*
    };
}

/// The columns of eight limbs times eight limbs. An upper half has a weight of 2^52, 16 times that of the next column.
///
/// Unrolled, once for each call, so that the sums stay in registers at every optimization level.
macro_rules! block_columns {
    ($a:expr, $b:expr) => {{
        let a: &[__m512i; BLOCK] = $a;
        let b: &[__m512i; BLOCK] = $b;
        let mut sums = [zero(); 2 * BLOCK];
        add_rows!(sums, 1, _mm512_madd52hi_epu64, a, b, [0, 1, 2, 3, 4, 5, 6, 7]);
        for sum in &mut sums {
            *sum = _mm512_slli_epi64::<4>(*sum);
        }
        add_rows!(sums, 0, _mm512_madd52lo_epu64, a, b, [0, 1, 2, 3, 4, 5, 6, 7]);
        sums
    }};
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_8(a: &[__m512i; BLOCK], b: &[__m512i; BLOCK], columns: &mut [__m512i; 2 * BLOCK]) {
    *columns = block_columns!(a, b);
}

/// The multiplication of the level above the blocks; the middle part stays in registers.
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_16(a: &[__m512i; 2 * BLOCK], b: &[__m512i; 2 * BLOCK], columns: &mut [__m512i; 4 * BLOCK]) {
    let mut a_sum = [zero(); BLOCK];
    let mut b_sum = [zero(); BLOCK];
    for k in 0..BLOCK {
        a_sum[k] = _mm512_add_epi64(a[k], a[BLOCK + k]);
        b_sum[k] = _mm512_add_epi64(b[k], b[BLOCK + k]);
    }
    let (lower, upper) = columns.split_at_mut(2 * BLOCK);
    multiply_8(lower_half(a), lower_half(b), lower_columns(lower));
    multiply_8(upper_half(a), upper_half(b), lower_columns(upper));
    let mut middle = block_columns!(&a_sum, &b_sum);
    for k in 0..2 * BLOCK {
        middle[k] = _mm512_sub_epi64(_mm512_sub_epi64(middle[k], columns[k]), columns[2 * BLOCK + k]);
    }
    for k in 0..2 * BLOCK {
        columns[BLOCK + k] = _mm512_add_epi64(columns[BLOCK + k], middle[k]);
    }
}

impl Fe {
    /// Folds the upper columns into the lower ones, and carries them into limbs.
    ///
    /// All columns are positive once their bias is added: below 2^63. Carried once, all at the same time, upper columns
    /// are below 2^48 + 2^15, and the last one, the upper part of products a little above 2^6144, is below 2^49. Each
    /// is multiplied by [`PRIME_DIFF`] and added to the column 64 below. The carry out of the last column is then below
    /// 2^22, and is added as `PRIME_DIFF` times that to the first: the limbs are below 2^48 + 2^16, the first below
    /// 2^48 + 2^43.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn fold(&mut self, columns: &mut [__m512i; 2 * LIMBS48]) {
        const DIFF: i64 = PRIME_DIFF.cast_signed();
        let mask = splat(MASK);
        let diff = splat(DIFF);
        let biased = |column: __m512i| _mm512_add_epi64(column, splat(BIAS - BIAS_CARRIED));
        for column in &mut columns[1..2 * LIMBS48 - 1] {
            *column = biased(*column);
        }
        columns[0] = _mm512_add_epi64(columns[0], splat(BIAS));
        // The excess of column 127 is subtracted here.
        columns[LIMBS48 - 1] = _mm512_sub_epi64(columns[LIMBS48 - 1], splat(BIAS_CARRIED * DIFF));

        let (lower, upper) = columns.split_at_mut(LIMBS48);
        let mut carry = zero();
        let mut over = zero();
        for k in 0..LIMBS48 {
            let is_last = k + 1 == LIMBS48;
            let kept = if is_last { upper[k] } else { _mm512_and_si512(upper[k], mask) };
            let limb = _mm512_add_epi64(kept, carry);
            carry = _mm512_srli_epi64::<BITS>(upper[k]);
            lower[k] = _mm512_madd52lo_epu64(_mm512_add_epi64(lower[k], over), limb, diff);
            over = _mm512_slli_epi64::<4>(_mm512_madd52hi_epu64(zero(), limb, diff));
        }
        let above = _mm512_add_epi64(over, _mm512_srli_epi64::<BITS>(lower[LIMBS48 - 1]));
        self.0[0] = _mm512_madd52lo_epu64(_mm512_and_si512(lower[0], mask), above, diff);
        for k in 1..LIMBS48 {
            let carried = _mm512_srli_epi64::<BITS>(lower[k - 1]);
            self.0[k] = _mm512_add_epi64(_mm512_and_si512(lower[k], mask), carried);
        }
    }
}

#[cfg(test)]
impl Fe {
    /// A number in each lane.
    #[target_feature(enable = "avx512f")]
    pub(super) fn of_numbers(numbers: &[super::Number; 8]) -> Fe {
        let limb = |number: &super::Number, at: usize| {
            let (word, shift) = (at * BITS as usize / 64, at * BITS as usize % 64);
            let next = u128::from(number.get(word + 1).copied().unwrap_or(0));
            ((u128::from(number[word]) | next << 64) >> shift) as i64 & MASK
        };
        Fe::of_limbs(|at| numbers.each_ref().map(|number| limb(number, at)))
    }

    /// The limbs of each lane.
    #[target_feature(enable = "avx512f")]
    fn of_limbs(limbs: impl Fn(usize) -> [i64; 8]) -> Fe {
        let mut out = Fe::zeros();
        for (at, to) in out.0.iter_mut().enumerate() {
            let [a, b, c, d, e, f, g, h] = limbs(at);
            *to = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
        }
        out
    }

    /// The limbs of each lane.
    fn limbs(&self) -> [[u64; 8]; LIMBS48] {
        // SAFETY: a vector is eight words.
        self.0.map(|limb| unsafe { std::mem::transmute(limb) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference::{from_limbs, multiply, reduce};
    use super::*;
    use testkit::{Rng, rounds};

    /// Limbs at all edges of what [`Fe`] allows, and squares of the products: no column leaves its bounds.
    #[test]
    fn products_of_limbs_at_their_bounds_are_the_reference() {
        if !(is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma")) {
            println!("skipped: no AVX-512 IFMA");
            return;
        }
        let mut rng = Rng::new(48);
        let most = (1 << BITS) + (1 << 43) - 1;
        for round in 0..rounds(60) {
            let kind = |lane: usize| if round == 0 { 3 } else { lane };
            let mut any = || {
                let limbs: Vec<[i64; 8]> = (0..LIMBS48)
                    .map(|_| {
                        std::array::from_fn(|lane| match kind(lane) {
                            0 => rng.u64().cast_signed() & MASK,
                            1 => [0, most][rng.below(2)],
                            2 => [0, 1, MASK, MASK + 1, most][rng.below(5)],
                            3 => most,
                            4 => MASK,
                            5 => [MASK, most][rng.below(2)],
                            6 => i64::from(rng.below(9) == 0),
                            _ => [0, 1 << (BITS - 1)][rng.below(2)],
                        })
                    })
                    .collect();
                // SAFETY: the processor has it.
                unsafe { Fe::of_limbs(|at| limbs[at]) }
            };
            let (a, b) = (any(), any());
            let number = |fe: &Fe, lane: usize| from_limbs::<BITS>(fe.limbs().iter().map(|limb| limb[lane]));
            let mut scratch = Scratch::new();
            let mut product = |a: &Fe, b: &Fe| {
                let mut out = *a;
                // SAFETY: the processor has it.
                unsafe { out.multiply(b, &mut scratch) };
                out
            };
            let got = product(&a, &b);
            let again = product(&got, &got);
            for lane in 0..8 {
                let want = multiply(&number(&a, lane), &number(&b, lane));
                assert_eq!(reduce(&number(&got, lane)), reduce(&want), "round {round}, lane {lane}");
                assert_eq!(
                    reduce(&number(&again, lane)),
                    reduce(&multiply(&want, &want)),
                    "round {round}, lane {lane}"
                );
            }
            for limb in got.limbs().iter().chain(&again.limbs()) {
                assert!(limb.iter().all(|&limb| limb <= most.cast_unsigned()), "round {round}: {limb:x?}");
            }
        }
    }
}
