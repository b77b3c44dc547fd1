//! Eight lanes in 256-bit vectors (AVX2).

use std::arch::x86_64::*;

use super::lanes::{ADDED, START, TAKEN, TURNED, compress_in_lanes, sixteen_steps, step};

compress_in_lanes!(__m256i, 8, "avx2");

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

/// Rotates left.
#[inline]
#[target_feature(enable = "avx2")]
fn turn(words: __m256i, bits: u32) -> __m256i {
    _mm256_or_si256(_mm256_sllv_epi32(words, splat(bits)), _mm256_srlv_epi32(words, splat(32 - bits)))
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

#[inline]
#[target_feature(enable = "avx2")]
fn not(x: __m256i) -> __m256i {
    _mm256_xor_si256(x, _mm256_set1_epi32(-1))
}

/// The bits that exactly one or all three of them have.
#[inline]
#[target_feature(enable = "avx2")]
fn f1(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_xor_si256(x, y), z)
}

/// The bits of `y` where `x` is set, of `z` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn f2(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)))
}

/// `(x | !y) ^ z`.
#[inline]
#[target_feature(enable = "avx2")]
fn f3(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_or_si256(x, not(y)), z)
}

/// The bits of `x` where `z` is set, of `y` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn f4(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    f2(z, x, y)
}

/// `x ^ (y | !z)`.
#[inline]
#[target_feature(enable = "avx2")]
fn f5(x: __m256i, y: __m256i, z: __m256i) -> __m256i {
    _mm256_xor_si256(x, _mm256_or_si256(y, not(z)))
}
