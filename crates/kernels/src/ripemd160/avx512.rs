//! Sixteen lanes in 512-bit vectors (AVX-512 F).

use std::arch::x86_64::*;

use super::lanes::{ADDED, START, TAKEN, TURNED, compress_in_lanes, sixteen_steps, step};

compress_in_lanes!(__m512i, 16, "avx512f");

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> __m512i {
    _mm512_set1_epi32(word.cast_signed())
}

/// Rotates left.
#[inline]
#[target_feature(enable = "avx512f")]
fn turn(words: __m512i, bits: u32) -> __m512i {
    _mm512_rolv_epi32(words, splat(bits))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; 16]) -> __m512i {
    // SAFETY: reads the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(vector: __m512i) -> [u32; 16] {
    let mut words = [0; 16];
    // SAFETY: writes the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    words
}

/// Either one of them, or all three.
#[inline]
#[target_feature(enable = "avx512f")]
fn f1(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x96>(x, y, z)
}

/// The bits of `y` where `x` is set, of `z` elsewhere.
#[inline]
#[target_feature(enable = "avx512f")]
fn f2(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xCA>(x, y, z)
}

/// `(x | !y) ^ z`.
#[inline]
#[target_feature(enable = "avx512f")]
fn f3(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x59>(x, y, z)
}

/// `x` where `z` has a bit, else `y`.
#[inline]
#[target_feature(enable = "avx512f")]
fn f4(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0xE4>(x, y, z)
}

/// `x ^ (y | !z)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn f5(x: __m512i, y: __m512i, z: __m512i) -> __m512i {
    _mm512_ternarylogic_epi32::<0x2D>(x, y, z)
}
