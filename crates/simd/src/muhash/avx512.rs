//! Eight products at a time (AVX-512 F and IFMA), of numbers that sixteen lanes of ChaCha20 make.
//!
//! Layout: vector `i` holds limb `i`, of 52 bits and weight 2^(52 i), of eight numbers. A number has 60 limbs, 3120 bits.
//! Invariant of [`Fe`]: every limb is below 2^52, the highest at most 16: the number is at most a little above 2^3072.
//!
//! Product: 120 columns, each a sum of at most 120 halves of products, below 2^59. The columns from 60 on have the weight
//! 2^3120 = 2^48 * 1103717 modulo the prime, which is a multiplier of two parts: 5 * 2^48, and 68982 * 2^52.

use super::reference::{from_52, multiply};
use super::{KEYS_AT_ONCE, LIMBS, LIMBS52, Number, ONE, PRIME_DIFF, TOP_BITS};
use std::arch::x86_64::*;

/// Numbers side by side.
const LANES: usize = 8;
/// Limbs of each factor that are multiplied with each other in registers: twelve columns, six limbs of one, and one of
/// the other at a time.
const TILE: usize = 6;
const MASK: i64 = (1 << 52) - 1;
const _: () = assert!(LIMBS52.is_multiple_of(TILE) && PRIME_DIFF % 16 == 5);

/// Eight numbers, one in each lane.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Fe([__m512i; LIMBS52]);

/// Eight products.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    product: Fe,
    /// Nothing was multiplied yet.
    is_one: bool,
}

impl Accumulators {
    /// Eight ones, where the processor can multiply them.
    pub(super) fn detect() -> Option<Accumulators> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        // SAFETY: all zeros is a vector.
        has.then(|| Accumulators { product: Fe([unsafe { std::mem::zeroed() }; LIMBS52]), is_one: true })
    }

    /// Multiplies by the numbers of the first `count` keys.
    pub(super) fn multiply(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        // SAFETY: `detect` made this, so that the processor has the features.
        unsafe { self.multiply_keys(keys, count) }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiply_keys(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        let mut numbers = [[zero(); LIMBS]; 2];
        key_streams(keys, &mut numbers);
        for (half, number) in numbers.iter_mut().enumerate() {
            let used = count.saturating_sub(half * LANES).min(LANES);
            if used == 0 {
                break;
            }
            keep_lanes(number, used);
            self.multiply_limbs(number);
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

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiply_limbs(&mut self, number: &[__m512i; LIMBS]) {
        let number = split(number);
        self.product = if self.is_one { number } else { product(&self.product, &number) };
        self.is_one = false;
    }

    /// The product of all lanes.
    pub(super) fn product(&self) -> Number {
        if self.is_one {
            return ONE;
        }
        let mut lanes = [[0u64; LANES]; LIMBS52];
        for (words, vector) in lanes.iter_mut().zip(&self.product.0) {
            // SAFETY: writes the 64 bytes of `words`, no alignment needed; `detect` found the feature.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), *vector) };
        }
        let lane = |lane: usize| from_52(lanes.iter().map(|limb| limb[lane]));
        (0..LANES).map(lane).fold(ONE, |all, one| multiply(&all, &one))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn zero() -> __m512i {
    _mm512_setzero_si512()
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: i64) -> __m512i {
    _mm512_set1_epi64(word)
}

#[cfg(test)]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64; LANES]) -> __m512i {
    // SAFETY: reads the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Makes the lanes from `used` on ones.
#[target_feature(enable = "avx512f")]
fn keep_lanes(number: &mut [__m512i; LIMBS], used: usize) {
    if used < LANES {
        let kept = (1u8 << used) - 1;
        for (index, limb) in number.iter_mut().enumerate() {
            *limb = _mm512_mask_mov_epi64(splat(i64::from(index == 0)), kept, *limb);
        }
    }
}

/// Limbs of 64 bits as limbs of 52.
#[target_feature(enable = "avx512f")]
fn split(number: &[__m512i; LIMBS]) -> Fe {
    let mut out = Fe([zero(); LIMBS52]);
    for (index, limb) in out.0.iter_mut().enumerate() {
        let (word, shift) = (index * 52 / 64, (index * 52 % 64) as i64);
        let low = _mm512_srlv_epi64(number[word], splat(shift));
        // A shift by 64 or more gives zeros.
        let high = number.get(word + 1).map_or(zero(), |next| _mm512_sllv_epi64(*next, splat(64 - shift)));
        *limb = _mm512_and_si512(_mm512_or_si512(low, high), splat(MASK));
    }
    out
}

#[target_feature(enable = "avx512f,avx512ifma")]
fn product(a: &Fe, b: &Fe) -> Fe {
    let mut columns = [zero(); 2 * LIMBS52];
    for i in (0..LIMBS52).step_by(TILE) {
        for j in (0..LIMBS52).step_by(TILE) {
            let tile = columns[i + j..].first_chunk_mut().expect("twelve columns");
            multiply_tile(a.0[i..].first_chunk().expect("six limbs"), b.0[j..].first_chunk().expect("six limbs"), tile);
        }
    }
    folded(&mut columns)
}

/// Adds the products of six limbs and six limbs to their twelve columns.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply_tile(a: &[__m512i; TILE], b: &[__m512i; TILE], columns: &mut [__m512i; 2 * TILE]) {
    let mut sums = *columns;
    for i in 0..TILE {
        // First all lower halves, then all upper ones: no sum waits for the one before.
        for j in 0..TILE {
            sums[i + j] = _mm512_madd52lo_epu64(sums[i + j], a[i], b[j]);
        }
        for j in 0..TILE {
            sums[i + j + 1] = _mm512_madd52hi_epu64(sums[i + j + 1], a[i], b[j]);
        }
    }
    *columns = sums;
}

/// Brings the upper columns down.
///
/// The factors are below 2^3073, so that the product is below 2^6146: carried, column 118 is below 2^11, and column 119 is
/// zero. What they add reaches no column beyond 59: 2^11 * 68982 is below 2^52. The sum of all is below 2^3121, so that what
/// is above 2^3072 is below 2^49; brought down, it makes limbs 0 and 1 too large by a little, which the last carry evens out.
#[target_feature(enable = "avx512f,avx512ifma")]
fn folded(columns: &mut [__m512i; 2 * LIMBS52]) -> Fe {
    carry(columns);
    let (lower, upper) = columns.split_at_mut(LIMBS52);
    let (low, high) = (splat(5 << 48), splat((PRIME_DIFF >> 4).cast_signed()));
    for k in 0..LIMBS52 {
        lower[k] = _mm512_madd52lo_epu64(lower[k], upper[k], low);
        if k + 1 < LIMBS52 {
            lower[k + 1] = _mm512_madd52hi_epu64(lower[k + 1], upper[k], low);
            lower[k + 1] = _mm512_madd52lo_epu64(lower[k + 1], upper[k], high);
        }
        if k + 2 < LIMBS52 {
            lower[k + 2] = _mm512_madd52hi_epu64(lower[k + 2], upper[k], high);
        }
    }
    carry(lower);
    let above = _mm512_srli_epi64::<TOP_BITS>(lower[LIMBS52 - 1]);
    lower[LIMBS52 - 1] = _mm512_and_si512(lower[LIMBS52 - 1], splat((1 << TOP_BITS) - 1));
    let diff = splat(PRIME_DIFF.cast_signed());
    lower[0] = _mm512_madd52lo_epu64(lower[0], above, diff);
    lower[1] = _mm512_madd52hi_epu64(lower[1], above, diff);
    carry(lower);
    Fe(*lower.first_chunk().expect("sixty limbs"))
}

/// Makes all limbs but the highest smaller than 2^52.
#[inline]
#[target_feature(enable = "avx512f")]
fn carry(limbs: &mut [__m512i]) {
    let mask = splat(MASK);
    let mut over = zero();
    let (last, rest) = limbs.split_last_mut().expect("there are limbs");
    for limb in rest {
        let sum = _mm512_add_epi64(*limb, over);
        over = _mm512_srli_epi64::<52>(sum);
        *limb = _mm512_and_si512(sum, mask);
    }
    *last = _mm512_add_epi64(*last, over);
}

/// The first 384 bytes of the key streams of sixteen keys: of the first eight, and of the others.
#[target_feature(enable = "avx512f")]
fn key_streams(keys: &[[u8; 32]; KEYS_AT_ONCE], out: &mut [[__m512i; LIMBS]; 2]) {
    let word = |key: &[u8; 32], at: usize| i32::from_le_bytes(*key[at * 4..].first_chunk().expect("four bytes"));
    let constant = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];
    let mut start = [zero(); 16];
    for (to, constant) in start.iter_mut().zip(constant) {
        *to = _mm512_set1_epi32(constant);
    }
    for (at, to) in start[4..12].iter_mut().enumerate() {
        let words: [i32; 16] = std::array::from_fn(|lane| word(&keys[lane], at));
        // SAFETY: reads the 64 bytes of `words`; no alignment needed.
        *to = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    }
    for block in 0..LIMBS / 8 {
        start[12] = _mm512_set1_epi32(block as i32);
        let words = chacha_block(&start);
        for (pair, two) in words.chunks_exact(2).enumerate() {
            let at = block * 8 + pair;
            let wide = |half: __m256i| _mm512_cvtepu32_epi64(half);
            let (low, high) = (_mm512_castsi512_si256(two[0]), _mm512_castsi512_si256(two[1]));
            out[0][at] = _mm512_or_si512(wide(low), _mm512_slli_epi64::<32>(wide(high)));
            let upper = |all: __m512i| _mm512_extracti64x4_epi64::<1>(all);
            out[1][at] = _mm512_or_si512(wide(upper(two[0])), _mm512_slli_epi64::<32>(wide(upper(two[1]))));
        }
    }
}

/// One block of key stream of sixteen keys. Source: RFC 8439, section 2.3.
#[target_feature(enable = "avx512f")]
fn chacha_block(start: &[__m512i; 16]) -> [__m512i; 16] {
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
            x[a] = _mm512_add_epi32(x[a], x[b]);
            x[d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(x[d], x[a]));
            x[c] = _mm512_add_epi32(x[c], x[d]);
            x[b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(x[b], x[c]));
            x[a] = _mm512_add_epi32(x[a], x[b]);
            x[d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(x[d], x[a]));
            x[c] = _mm512_add_epi32(x[c], x[d]);
            x[b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(x[b], x[c]));
        }
    }
    for (word, start) in x.iter_mut().zip(start) {
        *word = _mm512_add_epi32(*word, *start);
    }
    x
}
