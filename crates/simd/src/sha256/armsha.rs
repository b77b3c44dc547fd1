//! One or several interleaved messages by ARM's SHA instructions.
//!
//! The four-round instructions wait for their own results; other messages fill the wait.

use std::arch::aarch64::*;

use super::engine::{Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};

/// The engine of `S` streams; only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct ArmSha<const S: usize>(());

impl<const S: usize> Engine<S> for ArmSha<S> {
    type State = [Words; S];

    fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("sha2").then_some(ArmSha(()))
    }

    fn start() -> [Words; S] {
        [START; S]
    }

    #[inline]
    fn set(state: &mut [Words; S], lane: usize, words: Words) {
        state[lane] = words;
    }

    #[inline]
    fn get(state: &[Words; S], lane: usize) -> Words {
        state[lane]
    }

    fn compress(self, state: &mut [Words; S], lanes: &[&[u8]; S], count: usize) {
        // SAFETY: a value of the engine exists only where its instructions do.
        unsafe { compress(state, &lanes.map(|lane| blocks_of(lane, count)), count) }
    }

    fn pad_64(self, state: &mut [Words; S]) {
        // SAFETY: as above.
        unsafe { pad_64(state) }
    }

    fn again(self, state: &mut [Words; S]) {
        // SAFETY: as above.
        unsafe { again(state) }
    }
}

/// A state as the instructions want it: words a b c d and e f g h.
type Halves = [uint32x4_t; 2];

#[inline]
#[target_feature(enable = "neon,sha2")]
fn load(words: &[u32; 4]) -> uint32x4_t {
    // SAFETY: reads the 16 bytes of `words`.
    unsafe { vld1q_u32(words.as_ptr()) }
}

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

/// The 64 rounds over one block of each stream.
#[inline]
#[target_feature(enable = "neon,sha2")]
fn rounds<const S: usize>(state: &mut [Halves; S], mut w: [[uint32x4_t; 4]; S]) {
    let (k, _) = K.as_chunks();
    for (t, k) in k.iter().enumerate() {
        let mut work = [load(k); S];
        for (work, w) in work.iter_mut().zip(&w) {
            *work = vaddq_u32(*work, w[t % 4]);
        }
        four_rounds(state, work);
        if t < 12 {
            for w in &mut w {
                let early = vsha256su0q_u32(w[t % 4], w[(t + 1) % 4]);
                w[t % 4] = vsha256su1q_u32(early, w[(t + 2) % 4], w[(t + 3) % 4]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn sum(a: Halves, b: Halves) -> Halves {
    [vaddq_u32(a[0], b[0]), vaddq_u32(a[1], b[1])]
}

/// Hashes `count` blocks of each stream into its state.
#[target_feature(enable = "neon,sha2")]
fn compress<const S: usize>(state: &mut [Words; S], lanes: &[&[[u8; 64]]; S], count: usize) {
    let mut halves = load_state(state);
    for at in 0..count {
        let start = halves;
        let mut w = [[vdupq_n_u32(0); 4]; S];
        for (w, lane) in w.iter_mut().zip(lanes) {
            *w = load_block(&lane[at]);
        }
        rounds(&mut halves, w);
        for (halves, start) in halves.iter_mut().zip(start) {
            *halves = sum(*halves, start);
        }
    }
    store_state(state, halves);
}

/// Hashes the padding of 64 bytes, whose schedule is known, into the states.
#[target_feature(enable = "neon,sha2")]
fn pad_64<const S: usize>(state: &mut [Words; S]) {
    let mut halves = load_state(state);
    let start = halves;
    for work in PADDING_64_ROUNDS.as_chunks().0 {
        four_rounds(&mut halves, [load(work); S]);
    }
    for (halves, start) in halves.iter_mut().zip(start) {
        *halves = sum(*halves, start);
    }
    store_state(state, halves);
}

/// Replaces digests by their digests.
#[target_feature(enable = "neon,sha2")]
fn again<const S: usize>(state: &mut [Words; S]) {
    let (mark, length) = (load(&[0x8000_0000, 0, 0, 0]), load(&[0, 0, 0, 256]));
    let mut w = [[mark, mark, mark, length]; S];
    for (w, words) in w.iter_mut().zip(&*state) {
        [w[0], w[1]] = into_halves(words);
    }
    let start = into_halves(&START);
    let mut halves = [start; S];
    rounds(&mut halves, w);
    for halves in &mut halves {
        *halves = sum(*halves, start);
    }
    store_state(state, halves);
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn load_state<const S: usize>(state: &[Words; S]) -> [Halves; S] {
    let mut halves = [[vdupq_n_u32(0); 2]; S];
    for (halves, words) in halves.iter_mut().zip(state) {
        *halves = into_halves(words);
    }
    halves
}

#[inline]
#[target_feature(enable = "neon,sha2")]
fn store_state<const S: usize>(state: &mut [Words; S], halves: [Halves; S]) {
    for (words, halves) in state.iter_mut().zip(halves) {
        *words = from_halves(halves);
    }
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
