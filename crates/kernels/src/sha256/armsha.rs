//! One or several interleaved messages by ARM's SHA instructions.
//!
//! The four-round instructions have to wait for their own results; interleaved messages hide that latency.

use std::arch::aarch64::*;

use super::engine::{Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::streams::streams_engine;

streams_engine!(ArmSha, uint32x4_t, "neon,sha2", std::arch::is_aarch64_feature_detected!("sha2"));

#[inline]
#[target_feature(enable = "neon,sha2")]
fn load(words: &[u32; 4]) -> uint32x4_t {
    // SAFETY: reads the 16 bytes of `words`.
    unsafe { vld1q_u32(words.as_ptr()) }
}

/// Words a b c d and e f g h.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn into_halves(words: &Words) -> Halves {
    let (parts, _) = words.as_chunks();
    [load(&parts[0]), load(&parts[1])]
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn from_halves(halves: Halves) -> Words {
    let mut words = [0; 8];
    for (part, half) in words.as_chunks_mut::<4>().0.iter_mut().zip(halves) {
        // SAFETY: writes the 16 bytes of `part`.
        unsafe { vst1q_u32(part.as_mut_ptr(), half) };
    }
    words
}

/// Four rounds of each stream.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn four_rounds<const S: usize>(state: &mut [Halves; S], work: [uint32x4_t; S]) {
    for (halves, work) in state.iter_mut().zip(work) {
        let [abcd, efgh] = *halves;
        *halves = [vsha256hq_u32(abcd, efgh, work), vsha256h2q_u32(efgh, abcd, work)];
    }
}

/// The next four words of the schedule.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn schedule(w: [uint32x4_t; 4]) -> uint32x4_t {
    vsha256su1q_u32(vsha256su0q_u32(w[0], w[1]), w[2], w[3])
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn add(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    vaddq_u32(a, b)
}

/// The sixteen words of a block, in this machine's byte order.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn load_block(block: &[u8; 64]) -> [uint32x4_t; 4] {
    let mut words = [vdupq_n_u32(0); 4];
    for (words, bytes) in words.iter_mut().zip(block.as_chunks::<16>().0) {
        // SAFETY: reads 16 bytes.
        *words = vreinterpretq_u32_u8(vrev32q_u8(unsafe { vld1q_u8(bytes.as_ptr()) }));
    }
    words
}
