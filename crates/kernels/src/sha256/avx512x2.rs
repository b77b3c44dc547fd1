//! Thirty-two lanes: two 512-bit vectors side by side (AVX-512 F and BW).
//!
//! The rounds of one vector have to wait for their own results (two cycles an instruction); a second vector hides that
//! latency. The schedule is then in memory instead of registers, which costs less.

use std::arch::x86_64::__m512i;

use super::Pieces;
use super::avx512::{self as one, copy};
use super::engine::{Blocks, Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::stage::Stage;
use super::vector::{LaneTable, LaneWords, lanes_engine, round, sixteen_rounds};

/// The engine; only [`Avx512x2::detect_features`] makes one.
#[derive(Clone, Copy)]
pub(super) struct Avx512x2(());

impl Avx512x2 {
    fn detect_features() -> Option<Avx512x2> {
        one::Avx512::detect_features().map(|_| Avx512x2(()))
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
