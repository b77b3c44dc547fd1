//! Four lanes in 128-bit vectors (NEON), for ARM processors without SHA instructions.

use std::arch::aarch64::*;

use super::Pieces;
use super::engine::{Blocks, Engine, blocks_of};
use super::reference::{K, PADDING_64_ROUNDS, START, Words};
use super::stage::{Stage, copy_plain as copy};
use super::vector::{LaneWords, lanes_engine, round, sixteen_rounds};

/// The engine; every 64-bit ARM has what it needs.
#[derive(Clone, Copy)]
pub(super) struct Neon(());

impl Neon {
    fn detect_features() -> Option<Neon> {
        std::arch::is_aarch64_feature_detected!("neon").then_some(Neon(()))
    }
}

lanes_engine!(Neon, uint32x4_t, 4, "neon");

#[inline]
#[target_feature(enable = "neon")]
fn add(a: uint32x4_t, b: uint32x4_t) -> uint32x4_t {
    vaddq_u32(a, b)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat(word: u32) -> uint32x4_t {
    vdupq_n_u32(word)
}

/// `f` where `e` has a bit, else `g`.
#[inline]
#[target_feature(enable = "neon")]
fn choice(e: uint32x4_t, f: uint32x4_t, g: uint32x4_t) -> uint32x4_t {
    vbslq_u32(e, f, g)
}

/// The bits that at least two of them have: if the first two differ, the third decides.
#[inline]
#[target_feature(enable = "neon")]
fn majority(a: uint32x4_t, b: uint32x4_t, c: uint32x4_t) -> uint32x4_t {
    vbslq_u32(veorq_u32(a, b), c, b)
}

/// Rotates right by `R`; `L` is 32 - `R`.
#[inline]
#[target_feature(enable = "neon")]
fn turn<const R: i32, const L: i32>(w: uint32x4_t) -> uint32x4_t {
    vsriq_n_u32::<R>(vshlq_n_u32::<L>(w), w)
}

#[inline]
#[target_feature(enable = "neon")]
fn xor3(a: uint32x4_t, b: uint32x4_t, c: uint32x4_t) -> uint32x4_t {
    veorq_u32(veorq_u32(a, b), c)
}

#[inline]
#[target_feature(enable = "neon")]
fn big_sigma_0(w: uint32x4_t) -> uint32x4_t {
    xor3(turn::<2, 30>(w), turn::<13, 19>(w), turn::<22, 10>(w))
}

#[inline]
#[target_feature(enable = "neon")]
fn big_sigma_1(w: uint32x4_t) -> uint32x4_t {
    xor3(turn::<6, 26>(w), turn::<11, 21>(w), turn::<25, 7>(w))
}

#[inline]
#[target_feature(enable = "neon")]
fn small_sigma_0(w: uint32x4_t) -> uint32x4_t {
    xor3(turn::<7, 25>(w), turn::<18, 14>(w), vshrq_n_u32::<3>(w))
}

#[inline]
#[target_feature(enable = "neon")]
fn small_sigma_1(w: uint32x4_t) -> uint32x4_t {
    xor3(turn::<17, 15>(w), turn::<19, 13>(w), vshrq_n_u32::<10>(w))
}

#[inline]
#[target_feature(enable = "neon")]
fn load(words: &[u32; 4]) -> uint32x4_t {
    // SAFETY: reads the 16 bytes of `words`.
    unsafe { vld1q_u32(words.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn store(vector: uint32x4_t) -> [u32; 4] {
    let mut words = [0; 4];
    // SAFETY: writes the 16 bytes of `words`.
    unsafe { vst1q_u32(words.as_mut_ptr(), vector) };
    words
}

/// The sixteen words of block `at` of every lane, in this machine's byte order: vector i holds the lanes' word i. Four
/// quarters of four words, each loaded whole and transposed.
#[inline]
#[target_feature(enable = "neon")]
fn load_blocks(lanes: &[&[[u8; 64]]; 4], at: usize) -> [uint32x4_t; 16] {
    let mut words = [splat(0); 16];
    for (quarter, words) in words.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        for (word, lane) in words.iter_mut().zip(lanes) {
            let bytes: &[u8; 16] = &lane[at].as_chunks().0[quarter];
            // SAFETY: reads 16 bytes.
            *word = swapped(vreinterpretq_u32_u8(unsafe { vld1q_u8(bytes.as_ptr()) }));
        }
        *words = transpose(*words);
    }
    words
}

/// The words with their bytes swapped.
#[inline]
#[target_feature(enable = "neon")]
fn swapped(words: uint32x4_t) -> uint32x4_t {
    vreinterpretq_u32_u8(vrev32q_u8(vreinterpretq_u8_u32(words)))
}

/// Transposes four rows of four words.
#[inline]
#[target_feature(enable = "neon")]
fn transpose(r: [uint32x4_t; 4]) -> [uint32x4_t; 4] {
    // Even and odd words of two rows, side by side.
    let even_01 = vreinterpretq_u64_u32(vtrn1q_u32(r[0], r[1]));
    let even_23 = vreinterpretq_u64_u32(vtrn1q_u32(r[2], r[3]));
    let odd_01 = vreinterpretq_u64_u32(vtrn2q_u32(r[0], r[1]));
    let odd_23 = vreinterpretq_u64_u32(vtrn2q_u32(r[2], r[3]));
    [
        vreinterpretq_u32_u64(vtrn1q_u64(even_01, even_23)),
        vreinterpretq_u32_u64(vtrn1q_u64(odd_01, odd_23)),
        vreinterpretq_u32_u64(vtrn2q_u64(even_01, even_23)),
        vreinterpretq_u32_u64(vtrn2q_u64(odd_01, odd_23)),
    ]
}

/// Writes the bytes of each lane's digest: vector i of `words` holds the lanes' word i.
#[inline]
#[target_feature(enable = "neon")]
fn store_digests(words: [uint32x4_t; 8], out: &mut [[u8; 32]; 4]) {
    for (half, words) in words.as_chunks::<4>().0.iter().enumerate() {
        for (out, row) in out.iter_mut().zip(transpose(*words)) {
            let bytes: &mut [u8; 16] = &mut out.as_chunks_mut().0[half];
            // SAFETY: writes 16 bytes.
            unsafe { vst1q_u8(bytes.as_mut_ptr(), vreinterpretq_u8_u32(swapped(row))) };
        }
    }
}
