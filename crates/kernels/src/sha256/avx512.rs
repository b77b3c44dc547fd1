//! Sixteen lanes in 512-bit vectors (AVX-512 F and BW).

use std::arch::x86_64::*;

use super::Pieces;
use super::engine::{Blocks, Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::stage::Stage;
use super::vector::{LaneWords, lanes_engine, round, sixteen_rounds};

/// The engine; only [`Avx512::detect_features`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

impl Avx512 {
    pub(super) fn detect_features() -> Option<Avx512> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        has.then_some(Avx512(()))
    }
}

lanes_engine!(Avx512, __m512i, 16, "avx512f,avx512bw");

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

/// `f` where `e` has a bit, else `g`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn choice(e: __m512i, f: __m512i, g: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xCA>(e, f, g)
}

/// The bit that two or three of them have.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn majority(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xE8>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn big_sigma_0(w: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<2>(w), _mm512_ror_epi32::<13>(w), _mm512_ror_epi32::<22>(w))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn big_sigma_1(w: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<6>(w), _mm512_ror_epi32::<11>(w), _mm512_ror_epi32::<25>(w))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn small_sigma_0(w: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<7>(w), _mm512_ror_epi32::<18>(w), _mm512_srli_epi32::<3>(w))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn small_sigma_1(w: __m512i) -> __m512i {
    xor3(_mm512_ror_epi32::<17>(w), _mm512_ror_epi32::<19>(w), _mm512_srli_epi32::<10>(w))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load(words: &[u32; 16]) -> __m512i {
    // SAFETY: reads the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn store(vector: __m512i) -> [u32; 16] {
    let mut words = [0; 16];
    // SAFETY: writes the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    words
}

/// The sixteen words of block `at` of every lane, in this machine's byte order: vector i holds the
/// lanes' word i. Sixteen loads of 64 bytes, then a transposition in four steps of 1, 2, 4, 8 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn load_blocks(lanes: &[&[[u8; 64]]; 16], at: usize) -> [__m512i; 16] {
    let swap = swap_bytes();
    let mut rows = [swap; 16];
    for (row, lane) in rows.iter_mut().zip(lanes) {
        // SAFETY: reads the 64 bytes of a block; no alignment needed.
        let bytes = unsafe { _mm512_loadu_si512(lane[at].as_ptr().cast()) };
        *row = _mm512_shuffle_epi8(bytes, swap);
    }
    transpose(rows)
}

/// Transposes sixteen rows of sixteen words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(r: [__m512i; 16]) -> [__m512i; 16] {
    let mut pairs = r; // Row 2i: low pairs of rows 2i and 2i+1; row 2i+1: high pairs.
    for i in (0..16).step_by(2) {
        pairs[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    let mut quads = pairs; // Row 4i+j: in each 128-bit part p, word 4p+j of rows 4i to 4i+3.
    for i in (0..16).step_by(4) {
        quads[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
        quads[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
        quads[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        quads[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    let mut columns = quads;
    for j in 0..4 {
        let even_low = _mm512_shuffle_i32x4::<0x88>(quads[j], quads[j + 4]);
        let odd_low = _mm512_shuffle_i32x4::<0xDD>(quads[j], quads[j + 4]);
        let even_high = _mm512_shuffle_i32x4::<0x88>(quads[j + 8], quads[j + 12]);
        let odd_high = _mm512_shuffle_i32x4::<0xDD>(quads[j + 8], quads[j + 12]);
        columns[j] = _mm512_shuffle_i32x4::<0x88>(even_low, even_high);
        columns[j + 4] = _mm512_shuffle_i32x4::<0x88>(odd_low, odd_high);
        columns[j + 8] = _mm512_shuffle_i32x4::<0xDD>(even_low, even_high);
        columns[j + 12] = _mm512_shuffle_i32x4::<0xDD>(odd_low, odd_high);
    }
    columns
}

/// Writes the bytes of each lane's digest: vector i of `words` holds the lanes' word i.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn store_digests(words: [__m512i; 8], out: &mut [[u8; 32]; 16]) {
    let [a, b, c, d, e, f, g, h] = words;
    let first = four_words(a, b, c, d);
    let second = four_words(e, f, g, h);
    for j in 0..4 {
        let parts = [
            (_mm512_castsi512_si128(first[j]), _mm512_castsi512_si128(second[j])),
            (_mm512_extracti32x4_epi32::<1>(first[j]), _mm512_extracti32x4_epi32::<1>(second[j])),
            (_mm512_extracti32x4_epi32::<2>(first[j]), _mm512_extracti32x4_epi32::<2>(second[j])),
            (_mm512_extracti32x4_epi32::<3>(first[j]), _mm512_extracti32x4_epi32::<3>(second[j])),
        ];
        for (p, (first, second)) in parts.into_iter().enumerate() {
            let row = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(first), second);
            // SAFETY: writes 32 bytes; no alignment needed.
            unsafe { _mm256_storeu_si256(out[4 * p + j].as_mut_ptr().cast(), row) };
        }
    }
}

/// Four words of every lane, bytes swapped: part p of vector j holds lane 4p+j's.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn four_words(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
    let swap = swap_bytes();
    let ab = _mm512_unpacklo_epi32(a, b);
    let ab_high = _mm512_unpackhi_epi32(a, b);
    let cd = _mm512_unpacklo_epi32(c, d);
    let cd_high = _mm512_unpackhi_epi32(c, d);
    [
        _mm512_shuffle_epi8(_mm512_unpacklo_epi64(ab, cd), swap),
        _mm512_shuffle_epi8(_mm512_unpackhi_epi64(ab, cd), swap),
        _mm512_shuffle_epi8(_mm512_unpacklo_epi64(ab_high, cd_high), swap),
        _mm512_shuffle_epi8(_mm512_unpackhi_epi64(ab_high, cd_high), swap),
    ]
}

/// The shuffle that swaps the bytes of each word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn swap_bytes() -> __m512i {
    _mm512_broadcast_i32x4(_mm_set_epi64x(0x0C0D_0E0F_0809_0A0B, 0x0405_0607_0001_0203))
}

/// The copy function for [`Stage::fill`], by whole vectors: the last one writes zeroes after the bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn copy(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.chunks_exact_mut(64).zip(from.chunks(64)) {
        let mask = u64::MAX >> (64 - from.len());
        // SAFETY: the mask has a bit for each byte of `from` (1 to 64), and only those bytes are read; `to` has 64
        // bytes.
        unsafe {
            let bytes = _mm512_maskz_loadu_epi8(mask, from.as_ptr().cast());
            _mm512_storeu_si512(to.as_mut_ptr().cast(), bytes);
        }
    }
}
