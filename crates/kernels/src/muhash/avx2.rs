//! Four products at a time (AVX2 and FMA), of numbers that eight lanes of ChaCha20 generate.
//!
//! Layout: vector `i` holds limb `i`, of 52 bits and weight 2^(52 i), of four numbers. A number has 60 limbs, 3120
//! bits. Invariant of [`Fe`]: every limb is below 2^52, the highest at most 16: the number is at most a little above
//! 2^3072.
//!
//! Halves of products come from doubles with one rounding ([`crate::doubles`]): `a b = lower + 2^52 upper`, with
//! `lower` from -2^51 to 2^51 and `upper` from 0 to 2^52. A column sums at most 60 of each, so it is within 2^59 of
//! zero. The bits of each half include a constant; the columns start with the negative sum of these constants
//! ([`BEGIN`]). The columns from 60 on have the weight 2^3120 = 2^48 * 1103717 modulo the prime: 5 * 2^48 and 68982 *
//! 2^52, by which whole numbers of 26 bits are multiplied.

use super::reference::{from_limbs, multiply};
use super::{KEYS_AT_ONCE, LIMBS, LIMBS52, Number, ONE, PRIME_DIFF, TOP_BITS};
use crate::doubles::{LOW, MIDDLE, TWO_52, TWO_104};
use std::arch::x86_64::*;

/// Numbers processed in parallel.
const LANES: usize = 4;
/// Keys whose streams are generated in parallel.
const STREAMS: usize = 8;
/// Limbs of one factor that are multiplied with each limb of the other in registers.
const TILE: usize = 4;
const MASK: i64 = (1 << 52) - 1;
const HALF_MASK: i64 = (1 << 26) - 1;
/// Added to a column before it is shifted, and subtracted from the next one, because no shift here keeps the sign: it
/// makes the column positive.
const CARRY_BIAS: i64 = 1 << 62;
const _: () = assert!(LIMBS52.is_multiple_of(TILE) && PRIME_DIFF % 16 == 5 && KEYS_AT_ONCE == 2 * STREAMS);

/// The initial value of each column: minus the constants in the bits of its halves.
static BEGIN: [i64; 2 * LIMBS52] = {
    let mut begin = [0i64; 2 * LIMBS52];
    let mut i = 0;
    while i < LIMBS52 {
        let mut j = 0;
        while j < LIMBS52 {
            begin[i + j] = begin[i + j].wrapping_sub(LOW.to_bits().cast_signed());
            begin[i + j + 1] = begin[i + j + 1].wrapping_sub(TWO_104.to_bits().cast_signed());
            j += 1;
        }
        i += 1;
    }
    begin
};

/// Four numbers, one in each lane.
#[derive(Clone, Copy, Debug)]
struct Fe([__m256i; LIMBS52]);

/// Four products.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    product: Fe,
    /// Nothing has been multiplied yet.
    is_one: bool,
}

impl Accumulators {
    /// Four numbers that are one, if the processor has the instructions.
    pub(super) fn detect() -> Option<Accumulators> {
        let has = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        // SAFETY: all zeros is a vector.
        has.then(|| Accumulators { product: Fe([unsafe { std::mem::zeroed() }; LIMBS52]), is_one: true })
    }

    /// Multiplies by the numbers of the first `count` keys.
    pub(super) fn multiply(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        // SAFETY: `detect` made this, so the processor has the features.
        unsafe { self.multiply_keys(keys, count) }
    }

    #[target_feature(enable = "avx2,fma")]
    fn multiply_keys(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        let mut numbers = [[zero(); LIMBS]; 2];
        for (half, keys) in keys.as_chunks::<STREAMS>().0.iter().enumerate() {
            if half * STREAMS >= count {
                return;
            }
            key_streams(keys, &mut numbers);
            for (quarter, number) in numbers.iter_mut().enumerate() {
                let used = count.saturating_sub(half * STREAMS + quarter * LANES).min(LANES);
                if used > 0 {
                    keep_lanes(number, used);
                    self.multiply_limbs(number);
                }
            }
        }
    }

    /// Multiplies each lane by a number.
    #[cfg(test)]
    pub(super) fn multiply_numbers(&mut self, numbers: &[Number; LANES]) {
        // SAFETY: as in `multiply`.
        unsafe {
            let limbs = std::array::from_fn(|i| load(&std::array::from_fn(|lane| numbers[lane][i])));
            self.multiply_limbs(&limbs);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    fn multiply_limbs(&mut self, number: &[__m256i; LIMBS]) {
        let number = split(number);
        self.product = if self.is_one { number } else { product(&self.product, &number) };
        self.is_one = false;
    }

    /// The product of all lanes.
    pub(super) fn product(&self) -> Number {
        if self.is_one {
            return ONE;
        }
        // SAFETY: `detect` made this, so the processor has the features.
        let limbs = self.product.0.map(|limb| unsafe { words(limb) });
        let lane = |lane: usize| from_limbs::<52>(limbs.iter().map(|limb| limb[lane]));
        (0..LANES).map(lane).fold(ONE, |all, one| multiply(&all, &one))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn zero() -> __m256i {
    _mm256_setzero_si256()
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: i64) -> __m256i {
    _mm256_set1_epi64x(word)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u64; LANES]) -> __m256i {
    // SAFETY: reads the 32 bytes of `words`; no alignment needed.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(vector: __m256i) -> [u64; LANES] {
    let mut out = [0; LANES];
    // SAFETY: writes the 32 bytes of `out`; no alignment needed.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), vector) };
    out
}

/// Sets the lanes from `used` on to one.
#[target_feature(enable = "avx2")]
fn keep_lanes(number: &mut [__m256i; LIMBS], used: usize) {
    if used < LANES {
        let kept = load(&std::array::from_fn(|lane| if lane < used { u64::MAX } else { 0 }));
        for (index, limb) in number.iter_mut().enumerate() {
            *limb = _mm256_blendv_epi8(splat(i64::from(index == 0)), *limb, kept);
        }
    }
}

/// Limbs of 64 bits as limbs of 52.
#[target_feature(enable = "avx2")]
fn split(number: &[__m256i; LIMBS]) -> Fe {
    let mut out = Fe([zero(); LIMBS52]);
    for (index, limb) in out.0.iter_mut().enumerate() {
        let word = index * 52 / 64;
        let shift = (index * 52 % 64) as i64;
        let low = _mm256_srlv_epi64(number[word], splat(shift));
        // A shift by 64 or more gives zeros.
        let high = number.get(word + 1).map_or(zero(), |next| _mm256_sllv_epi64(*next, splat(64 - shift)));
        *limb = _mm256_and_si256(_mm256_or_si256(low, high), splat(MASK));
    }
    out
}

/// Limbs as doubles.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn factors(number: &Fe) -> [__m256d; LIMBS52] {
    let above = _mm256_set1_pd(TWO_52);
    let mut out = [_mm256_setzero_pd(); LIMBS52];
    for (factor, limb) in out.iter_mut().zip(&number.0) {
        *factor = _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(*limb), above), above);
    }
    out
}

#[target_feature(enable = "avx2,fma")]
fn product(a: &Fe, b: &Fe) -> Fe {
    let a = factors(a);
    let b = factors(b);
    let mut columns = [zero(); 2 * LIMBS52];
    for (column, begin) in columns.iter_mut().zip(&BEGIN) {
        *column = splat(*begin);
    }
    for i in (0..LIMBS52).step_by(TILE) {
        let tile = a[i..].first_chunk().expect("four limbs");
        multiply_row(tile, &b, columns[i..].first_chunk_mut().expect("sixty-four columns"));
    }
    folded(&mut columns)
}

/// Adds the products of four limbs and all limbs to their 64 columns, five of which are in registers at a time.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn multiply_row(a: &[__m256d; TILE], b: &[__m256d; LIMBS52], columns: &mut [__m256i; LIMBS52 + TILE]) {
    let upper_one = _mm256_set1_pd(TWO_104);
    let [x, y] = MIDDLE.map(|factor| _mm256_set1_pd(factor));
    let mut sums: [__m256i; TILE + 1] = std::array::from_fn(|k| if k < TILE { columns[k] } else { zero() });
    for (j, b) in b.iter().enumerate() {
        sums[TILE] = columns[j + TILE];
        for k in 0..TILE {
            let upper = _mm256_fmadd_pd(a[k], *b, upper_one);
            let rest = _mm256_fmsub_pd(x, y, upper);
            let lower = _mm256_fmadd_pd(a[k], *b, rest);
            sums[k + 1] = _mm256_add_epi64(sums[k + 1], _mm256_castpd_si256(upper));
            sums[k] = _mm256_add_epi64(sums[k], _mm256_castpd_si256(lower));
        }
        columns[j] = sums[0];
        for k in 0..TILE {
            sums[k] = sums[k + 1];
        }
    }
    columns[LIMBS52..].copy_from_slice(&sums[..TILE]);
}

/// Folds the upper columns into the lower ones.
///
/// The factors are below 2^3073, so the product is below 2^6146: carried, column 118 is below 2^11, and column 119 is
/// zero. Their contributions reach no column beyond 59, because that of a limb below 2^26 has no upper part. The sum of
/// all is below 2^3121, so the part above 2^3072 is below 2^49; folded, it makes limbs 0 and 1 slightly too large,
/// which the last carry corrects.
#[target_feature(enable = "avx2,fma")]
fn folded(columns: &mut [__m256i; 2 * LIMBS52]) -> Fe {
    carry_signed(columns);
    check(columns, 0);
    let (lower, upper) = columns.split_at_mut(LIMBS52);
    let five_bits = splat(15);
    for (k, &limb) in upper.iter().enumerate() {
        let five = _mm256_add_epi64(_mm256_slli_epi64::<2>(limb), limb);
        lower[k] = _mm256_add_epi64(lower[k], _mm256_slli_epi64::<48>(_mm256_and_si256(five, five_bits)));
        let (low, high) = times(limb, PRIME_DIFF >> 4);
        if k + 1 < LIMBS52 {
            let next = _mm256_add_epi64(_mm256_srli_epi64::<4>(five), low);
            lower[k + 1] = _mm256_add_epi64(lower[k + 1], next);
        }
        if k + 2 < LIMBS52 {
            lower[k + 2] = _mm256_add_epi64(lower[k + 2], high);
        }
    }
    carry(lower);
    check(lower, 1 << 53);
    let above = _mm256_srli_epi64::<{ TOP_BITS as i32 }>(lower[LIMBS52 - 1]);
    lower[LIMBS52 - 1] = _mm256_and_si256(lower[LIMBS52 - 1], splat((1 << TOP_BITS) - 1));
    let (low, high) = times(above, PRIME_DIFF);
    lower[0] = _mm256_add_epi64(lower[0], low);
    lower[1] = _mm256_add_epi64(lower[1], high);
    carry(lower);
    check(lower, 1 << TOP_BITS);
    Fe(*lower.first_chunk().expect("sixty limbs"))
}

/// A limb below 2^53 times a number below 2^21: `low + 2^52 high`, with `low` below 2^53 and `high` below 2^22.
#[inline]
#[target_feature(enable = "avx2")]
fn times(limb: __m256i, factor: u64) -> (__m256i, __m256i) {
    let factor = splat(factor.cast_signed());
    let half = splat(HALF_MASK);
    let below = _mm256_mul_epu32(_mm256_and_si256(limb, half), factor);
    let above = _mm256_mul_epu32(_mm256_srli_epi64::<26>(limb), factor);
    let low = _mm256_add_epi64(below, _mm256_slli_epi64::<26>(_mm256_and_si256(above, half)));
    (low, _mm256_srli_epi64::<26>(above))
}

/// Carries all columns but the last into the range 0 to 2^52. They must be within 2^61 of zero, and their sum not
/// negative.
#[inline]
#[target_feature(enable = "avx2")]
fn carry_signed(columns: &mut [__m256i]) {
    let mask = splat(MASK);
    let bias = splat(CARRY_BIAS - (CARRY_BIAS >> 52));
    // Nothing was subtracted from the first column.
    let mut over = splat(CARRY_BIAS >> 52);
    let (last, rest) = columns.split_last_mut().expect("there are columns");
    for column in rest {
        let sum = _mm256_add_epi64(*column, _mm256_add_epi64(over, bias));
        over = _mm256_srli_epi64::<52>(sum);
        *column = _mm256_and_si256(sum, mask);
    }
    *last = _mm256_add_epi64(*last, _mm256_sub_epi64(over, splat(CARRY_BIAS >> 52)));
}

/// Makes all limbs but the highest smaller than 2^52.
#[inline]
#[target_feature(enable = "avx2")]
fn carry(limbs: &mut [__m256i]) {
    let mask = splat(MASK);
    let mut over = zero();
    let (last, rest) = limbs.split_last_mut().expect("there are limbs");
    for limb in rest {
        let sum = _mm256_add_epi64(*limb, over);
        over = _mm256_srli_epi64::<52>(sum);
        *limb = _mm256_and_si256(sum, mask);
    }
    *last = _mm256_add_epi64(*last, over);
}

/// In builds with assertions: checks that limbs are below 2^52 and the last one is not above `last_max`.
#[inline]
#[target_feature(enable = "avx2")]
fn check(limbs: &[__m256i], last_max: u64) {
    if cfg!(debug_assertions) {
        let (last, rest) = limbs.split_last().expect("there are limbs");
        rest.iter().for_each(|&limb| assert!(words(limb).iter().all(|&word| word >> 52 == 0)));
        assert!(words(*last).iter().all(|&word| word <= last_max), "{:?}", words(*last));
    }
}

/// The first 384 bytes of the key streams of eight keys: of the first four, and of the others.
#[target_feature(enable = "avx2")]
fn key_streams(keys: &[[u8; 32]; STREAMS], out: &mut [[__m256i; LIMBS]; 2]) {
    let word = |key: &[u8; 32], at: usize| u32::from_le_bytes(*key[at * 4..].first_chunk().expect("four bytes"));
    let pair = |at: usize, lane: usize| u64::from(word(&keys[lane], at)) | u64::from(word(&keys[lane + 1], at)) << 32;
    let constant = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    let mut start = [zero(); 16];
    for (to, constant) in start.iter_mut().zip(constant) {
        *to = _mm256_set1_epi32(constant);
    }
    for (at, to) in start[4..12].iter_mut().enumerate() {
        *to = load(&std::array::from_fn(|two| pair(at, 2 * two)));
    }
    for block in 0..LIMBS / 8 {
        start[12] = _mm256_set1_epi32(block as i32);
        let words = chacha_block(&start);
        for (number, two) in words.chunks_exact(2).enumerate() {
            let at = block * 8 + number;
            let lower = |all: __m256i| _mm256_cvtepu32_epi64(_mm256_castsi256_si128(all));
            let upper = |all: __m256i| _mm256_cvtepu32_epi64(_mm256_extracti128_si256::<1>(all));
            out[0][at] = _mm256_or_si256(lower(two[0]), _mm256_slli_epi64::<32>(lower(two[1])));
            out[1][at] = _mm256_or_si256(upper(two[0]), _mm256_slli_epi64::<32>(upper(two[1])));
        }
    }
}

/// One block of key stream of eight keys. Source: RFC 8439, section 2.3.
#[target_feature(enable = "avx2")]
fn chacha_block(start: &[__m256i; 16]) -> [__m256i; 16] {
    let by_16 = load(&[0x0504_0706_0100_0302, 0x0d0c_0f0e_0908_0b0a, 0x0504_0706_0100_0302, 0x0d0c_0f0e_0908_0b0a]);
    let by_8 = load(&[0x0605_0407_0201_0003, 0x0e0d_0c0f_0a09_080b, 0x0605_0407_0201_0003, 0x0e0d_0c0f_0a09_080b]);
    let mut x = *start;
    for _ in 0..10 {
        for (a, b, c, d) in [
            (0, 4, 8, 12),
            (1, 5, 9, 13),
            (2, 6, 10, 14),
            (3, 7, 11, 15),
            (0, 5, 10, 15),
            (1, 6, 11, 12),
            (2, 7, 8, 13),
            (3, 4, 9, 14),
        ] {
            x[a] = _mm256_add_epi32(x[a], x[b]);
            x[d] = _mm256_shuffle_epi8(_mm256_xor_si256(x[d], x[a]), by_16);
            x[c] = _mm256_add_epi32(x[c], x[d]);
            let turned = _mm256_xor_si256(x[b], x[c]);
            x[b] = _mm256_or_si256(_mm256_slli_epi32::<12>(turned), _mm256_srli_epi32::<20>(turned));
            x[a] = _mm256_add_epi32(x[a], x[b]);
            x[d] = _mm256_shuffle_epi8(_mm256_xor_si256(x[d], x[a]), by_8);
            x[c] = _mm256_add_epi32(x[c], x[d]);
            let turned = _mm256_xor_si256(x[b], x[c]);
            x[b] = _mm256_or_si256(_mm256_slli_epi32::<7>(turned), _mm256_srli_epi32::<25>(turned));
        }
    }
    for (word, start) in x.iter_mut().zip(start) {
        *word = _mm256_add_epi32(*word, *start);
    }
    x
}
