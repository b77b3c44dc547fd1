//! Eight lanes in 256-bit vectors (AVX2), for processors without AVX-512.

use std::arch::x86_64::*;

use super::Pieces;
use super::engine::{Blocks, Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::stage::{Stage, copy_plain as copy};
use super::vector::{LaneWords, lanes_engine, round, sixteen_rounds};

/// The engine; only [`Avx2::detect_features`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

impl Avx2 {
    fn detect_features() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }
}

lanes_engine!(Avx2, __m256i, 8, "avx2");

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    _mm256_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u32) -> __m256i {
    _mm256_set1_epi32(word.cast_signed())
}

/// The bits of `f` where `e` is set, of `g` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn choice(e: __m256i, f: __m256i, g: __m256i) -> __m256i {
    _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)))
}

/// The bits that at least two of them have.
#[inline]
#[target_feature(enable = "avx2")]
fn majority(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, _mm256_or_si256(a, b)))
}

/// Rotates right by `R`; `L` is 32 - `R`.
#[inline]
#[target_feature(enable = "avx2")]
fn turn<const R: i32, const L: i32>(w: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_srli_epi32::<R>(w), _mm256_slli_epi32::<L>(w))
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_xor_si256(a, b), c)
}

#[inline]
#[target_feature(enable = "avx2")]
fn big_sigma_0(w: __m256i) -> __m256i {
    xor3(turn::<2, 30>(w), turn::<13, 19>(w), turn::<22, 10>(w))
}

#[inline]
#[target_feature(enable = "avx2")]
fn big_sigma_1(w: __m256i) -> __m256i {
    xor3(turn::<6, 26>(w), turn::<11, 21>(w), turn::<25, 7>(w))
}

#[inline]
#[target_feature(enable = "avx2")]
fn small_sigma_0(w: __m256i) -> __m256i {
    xor3(turn::<7, 25>(w), turn::<18, 14>(w), _mm256_srli_epi32::<3>(w))
}

#[inline]
#[target_feature(enable = "avx2")]
fn small_sigma_1(w: __m256i) -> __m256i {
    xor3(turn::<17, 15>(w), turn::<19, 13>(w), _mm256_srli_epi32::<10>(w))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u32; 8]) -> __m256i {
    // SAFETY: reads the 32 bytes of `words`; no alignment needed.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vector: __m256i) -> [u32; 8] {
    let mut words = [0; 8];
    // SAFETY: writes the 32 bytes of `words`; no alignment needed.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) };
    words
}

/// The sixteen words of block `at` of every lane, in this machine's byte order: vector i holds the
/// lanes' word i. Two halves of eight words, each loaded whole and transposed.
#[inline]
#[target_feature(enable = "avx2")]
fn load_blocks(lanes: &[&[[u8; 64]]; 8], at: usize) -> [__m256i; 16] {
    let mut words = [_mm256_setzero_si256(); 16];
    for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (word, lane) in words.iter_mut().zip(lanes) {
            *word = load_half(&lane[at], half);
        }
        *words = transpose(*words);
    }
    words
}

/// Eight words of a block, with their bytes swapped.
#[inline]
#[target_feature(enable = "avx2")]
fn load_half(block: &[u8; 64], half: usize) -> __m256i {
    let swap = swap_bytes();
    let bytes: &[u8; 32] = &block.as_chunks().0[half];
    // SAFETY: reads 32 bytes; no alignment needed.
    let row = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    _mm256_shuffle_epi8(row, swap)
}

/// Transposes eight rows of eight words.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(r: [__m256i; 8]) -> [__m256i; 8] {
    let mut pairs = r; // Row 2i: low pairs of rows 2i and 2i+1; row 2i+1: high pairs.
    for i in (0..8).step_by(2) {
        pairs[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
    }
    let mut quads = pairs; // Row 4i+j: in each 128-bit part p, word 4p+j of rows 4i to 4i+3.
    for i in (0..8).step_by(4) {
        quads[i] = _mm256_unpacklo_epi64(pairs[i], pairs[i + 2]);
        quads[i + 1] = _mm256_unpackhi_epi64(pairs[i], pairs[i + 2]);
        quads[i + 2] = _mm256_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
        quads[i + 3] = _mm256_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
    }
    let mut columns = quads;
    for j in 0..4 {
        columns[j] = _mm256_permute2x128_si256::<0x20>(quads[j], quads[j + 4]);
        columns[j + 4] = _mm256_permute2x128_si256::<0x31>(quads[j], quads[j + 4]);
    }
    columns
}

/// Writes the bytes of each lane's digest: vector i of `words` holds the lanes' word i.
#[inline]
#[target_feature(enable = "avx2")]
fn store_digests(words: [__m256i; 8], out: &mut [[u8; 32]; 8]) {
    let swap = swap_bytes();
    for (out, row) in out.iter_mut().zip(transpose(words)) {
        // SAFETY: writes the 32 bytes of `out`; no alignment needed.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_shuffle_epi8(row, swap)) };
    }
}

/// The shuffle that swaps the bytes of each word.
#[inline]
#[target_feature(enable = "avx2")]
fn swap_bytes() -> __m256i {
    _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0C0D_0E0F_0809_0A0B, 0x0405_0607_0001_0203))
}
