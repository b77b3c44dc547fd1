//! One or several interleaved messages by the SHA instructions (SHA-NI).
//!
//! The two-round instruction waits for its own result; a second message fills the wait.

use std::arch::x86_64::*;

use super::engine::{Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};

/// The engine of `S` streams; only `detect` makes one.
#[derive(Clone, Copy)]
pub(super) struct ShaNi<const S: usize>(());

impl<const S: usize> Engine<S> for ShaNi<S> {
    type State = [Words; S];

    fn detect() -> Option<Self> {
        let has =
            is_x86_feature_detected!("sha") && is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3");
        has.then_some(ShaNi(()))
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

/// A state as the instructions want it: words f e b a and h g d c, from the lowest up.
type Halves = [__m128i; 2];

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load(words: &[u32; 4]) -> __m128i {
    // SAFETY: reads the 16 bytes of `words`; no alignment needed.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

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

/// The 64 rounds over one block of each stream.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn rounds<const S: usize>(state: &mut [Halves; S], mut w: [[__m128i; 4]; S]) {
    let (k, _) = K.as_chunks();
    for (t, k) in k.iter().enumerate() {
        let mut work = [load(k); S];
        for (work, w) in work.iter_mut().zip(&w) {
            *work = _mm_add_epi32(*work, w[t % 4]);
        }
        four_rounds(state, work);
        if t < 12 {
            for w in &mut w {
                let seventh = _mm_alignr_epi8::<4>(w[(t + 3) % 4], w[(t + 2) % 4]);
                let early = _mm_sha256msg1_epu32(w[t % 4], w[(t + 1) % 4]);
                w[t % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(early, seventh), w[(t + 3) % 4]);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn sum(a: Halves, b: Halves) -> Halves {
    [_mm_add_epi32(a[0], b[0]), _mm_add_epi32(a[1], b[1])]
}

/// Hashes `count` blocks of each stream into its state.
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn compress<const S: usize>(state: &mut [Words; S], lanes: &[&[[u8; 64]]; S], count: usize) {
    let mut halves = load_state(state);
    for at in 0..count {
        let start = halves;
        let mut w = [[_mm_setzero_si128(); 4]; S];
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
#[target_feature(enable = "sha,sse4.1,ssse3")]
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
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn again<const S: usize>(state: &mut [Words; S]) {
    let (mark, length) = (load(&[0x8000_0000, 0, 0, 0]), load(&[0, 0, 0, 256]));
    let mut w = [[mark, mark, mark, length]; S];
    for (w, words) in w.iter_mut().zip(&*state) {
        let (parts, _) = words.as_chunks();
        (w[0], w[1]) = (load(&parts[0]), load(&parts[1]));
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
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load_state<const S: usize>(state: &[Words; S]) -> [Halves; S] {
    let mut halves = [[_mm_setzero_si128(); 2]; S];
    for (halves, words) in halves.iter_mut().zip(state) {
        *halves = into_halves(words);
    }
    halves
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn store_state<const S: usize>(state: &mut [Words; S], halves: [Halves; S]) {
    for (words, halves) in state.iter_mut().zip(halves) {
        *words = from_halves(halves);
    }
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
