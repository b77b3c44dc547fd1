//! Thirty-two lanes: two 512-bit vectors side by side (AVX-512 F and BW).
//!
//! The rounds of one vector have to wait for their own results (two cycles an instruction); a second vector hides that
//! latency. The schedule is then in memory instead of registers, which costs less.

use std::arch::x86_64::__m512i;

use super::Pieces;
use super::avx512::{self as one, copy};
use super::engine::{Blocks, Engine, Job, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::stage::Stage;
use super::vector::{LaneWords, lanes_engine, round, sixteen_rounds};

/// The engine; only [`Avx512x2::detect_features`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx512x2(());

impl Avx512x2 {
    fn detect_features() -> Option<Avx512x2> {
        one::Avx512::detect_features().map(|_| Avx512x2(()))
    }

    /// Hashes the same next blocks of at most 32 messages.
    pub(super) fn share(self, jobs: &mut [Job], blocks: &[[u8; 64]]) {
        let mut state = Self::start();
        for (lane, job) in jobs.iter().enumerate() {
            Self::set(&mut state, lane, job.state);
        }
        // SAFETY: a value of the engine exists only if the processor has its instructions.
        unsafe { compress_same(&mut state, blocks) };
        for (lane, job) in jobs.iter_mut().enumerate() {
            job.state = Self::get(&state, lane);
            job.blocks.done += blocks.len();
        }
    }
}

/// Lanes 0 to 15 and lanes 16 to 31.
type Pair = [__m512i; 2];

lanes_engine!(Avx512x2, Pair, 32, "avx512f,avx512bw");

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add(a: Pair, b: Pair) -> Pair {
    [one::add(a[0], b[0]), one::add(a[1], b[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn splat(word: u32) -> Pair {
    [one::splat(word); 2]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn choice(e: Pair, f: Pair, g: Pair) -> Pair {
    [one::choice(e[0], f[0], g[0]), one::choice(e[1], f[1], g[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn majority(a: Pair, b: Pair, c: Pair) -> Pair {
    [one::majority(a[0], b[0], c[0]), one::majority(a[1], b[1], c[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn big_sigma_0(w: Pair) -> Pair {
    [one::big_sigma_0(w[0]), one::big_sigma_0(w[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn big_sigma_1(w: Pair) -> Pair {
    [one::big_sigma_1(w[0]), one::big_sigma_1(w[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn small_sigma_0(w: Pair) -> Pair {
    [one::small_sigma_0(w[0]), one::small_sigma_0(w[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn small_sigma_1(w: Pair) -> Pair {
    [one::small_sigma_1(w[0]), one::small_sigma_1(w[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(words: &[u32; 32]) -> Pair {
    let (halves, _) = words.as_chunks();
    [one::load(&halves[0]), one::load(&halves[1])]
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store(pair: Pair) -> [u32; 32] {
    let mut words = [0; 32];
    for (words, vector) in words.as_chunks_mut().0.iter_mut().zip(pair) {
        *words = one::store(vector);
    }
    words
}

/// The sixteen words of block `at` of every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_blocks(lanes: &[&[[u8; 64]]; 32], at: usize) -> [Pair; 16] {
    let (halves, _) = lanes.as_chunks();
    let mut words = [splat(0); 16];
    for (half, lanes) in halves.iter().enumerate() {
        for (words, vector) in words.iter_mut().zip(one::load_blocks(lanes, at)) {
            words[half] = vector;
        }
    }
    words
}

/// A word for each round and lane.
#[repr(C, align(64))]
struct Schedules([[u32; 32]; 64]);

/// Hashes the same blocks into every lane. The schedules of 32 blocks are computed at a time, one in each lane.
#[target_feature(enable = "avx512f,avx512bw")]
fn compress_same(state: &mut LaneWords<32>, blocks: &[[u8; 64]]) {
    let mut work = Schedules([[0; 32]; 64]);
    let mut s = load_state(state);
    for blocks in blocks.chunks(32) {
        let mut lanes = [blocks; 32];
        for (at, lane) in lanes.iter_mut().enumerate().take(blocks.len()) {
            *lane = &blocks[at..];
        }
        put_schedules(load_blocks(&lanes, 0), &mut work.0);
        for at in 0..blocks.len().min(32) {
            let start = s;
            for work in work.0.as_chunks::<16>().0 {
                sixteen_rounds!(s, |i| splat(work[i][at]));
            }
            for (s, start) in s.iter_mut().zip(start) {
                *s = add(*s, start);
            }
        }
    }
    for (words, end) in state.0.iter_mut().zip(s) {
        *words = store(end);
    }
}

/// Writes the schedules of one block in each lane, plus the round constants.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn put_schedules(mut w: [Pair; 16], work: &mut [[u32; 32]; 64]) {
    let (k, _) = K.as_chunks::<16>();
    let (work, _) = work.as_chunks_mut::<16>();
    for (number, (work, k)) in work.iter_mut().zip(k).enumerate() {
        for i in 0..16 {
            if number > 0 {
                let early = add(small_sigma_0(w[(i + 1) % 16]), w[(i + 9) % 16]);
                w[i] = add(add(w[i], early), small_sigma_1(w[(i + 14) % 16]));
            }
            work[i] = store(add(w[i], splat(k[i])));
        }
    }
}

/// Writes the bytes of each lane's digest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn store_digests(words: [Pair; 8], out: &mut [[u8; 32]; 32]) {
    for (half, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let mut one_half = [words[0][half]; 8];
        for (to, from) in one_half.iter_mut().zip(words) {
            *to = from[half];
        }
        one::store_digests(one_half, out);
    }
}
