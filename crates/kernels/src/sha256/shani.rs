//! One or several interleaved messages by the SHA instructions (SHA-NI).
//!
//! The two-round instruction has to wait for its own result; an interleaved second message hides that latency.

use std::arch::x86_64::*;

use super::engine::{Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::streams::streams_engine;

streams_engine!(
    ShaNi,
    __m128i,
    "sha,sse4.1,ssse3",
    is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3")
);

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load(words: &[u32; 4]) -> __m128i {
    // SAFETY: reads the 16 bytes of `words`; no alignment needed.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// Words f e b a and h g d c, from the lowest up.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn into_halves(words: &Words) -> Halves {
    let (parts, _) = words.as_chunks();
    let abcd = _mm_shuffle_epi32::<0xB1>(load(&parts[0])); // b a d c
    let efgh = _mm_shuffle_epi32::<0x1B>(load(&parts[1])); // h g f e
    [_mm_alignr_epi8::<8>(abcd, efgh), _mm_blend_epi16::<0xF0>(efgh, abcd)]
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn from_halves(halves: Halves) -> Words {
    let feba = _mm_shuffle_epi32::<0x1B>(halves[0]); // a b e f
    let dchg = _mm_shuffle_epi32::<0xB1>(halves[1]); // g h c d
    let abcd = _mm_blend_epi16::<0xF0>(feba, dchg);
    let efgh = _mm_alignr_epi8::<8>(dchg, feba);
    let mut words = [0; 8];
    // SAFETY: writes the two halves of 32 bytes; no alignment needed.
    unsafe {
        _mm_storeu_si128(words.as_mut_ptr().cast(), abcd);
        _mm_storeu_si128(words.as_mut_ptr().add(4).cast(), efgh);
    }
    words
}

/// Four rounds of each stream.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn four_rounds<const S: usize>(state: &mut [Halves; S], work: [__m128i; S]) {
    for (halves, work) in state.iter_mut().zip(work) {
        halves[1] = _mm_sha256rnds2_epu32(halves[1], halves[0], work);
    }
    for (halves, work) in state.iter_mut().zip(work) {
        let upper = _mm_shuffle_epi32::<0x0E>(work);
        halves[0] = _mm_sha256rnds2_epu32(halves[0], halves[1], upper);
    }
}

/// The next four words of the schedule.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn schedule(w: [__m128i; 4]) -> __m128i {
    let seventh = _mm_alignr_epi8::<4>(w[3], w[2]);
    _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), seventh), w[3])
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn add(a: __m128i, b: __m128i) -> __m128i {
    _mm_add_epi32(a, b)
}

/// The sixteen words of a block, in this machine's byte order.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_block(block: &[u8; 64]) -> [__m128i; 4] {
    let swap = _mm_set_epi64x(0x0C0D_0E0F_0809_0A0B, 0x0405_0607_0001_0203);
    let mut words = [swap; 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: reads 16 bytes; no alignment needed.
        let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
        *words = _mm_shuffle_epi8(bytes, swap);
    }
    words
}
