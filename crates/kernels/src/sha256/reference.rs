//! The compression function as written in FIPS 180-4, block by block: the reference implementation.

use super::engine::{Engine, blocks_of};

/// The words of SHA-256's state.
pub(super) type Words = [u32; 8];

/// The state before the first block (FIPS 180-4, 5.3.3).
pub(super) const START: Words =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];

/// The round constants: the first 32 bits of the fractional parts of the cube roots of the first 64
/// primes (FIPS 180-4, 4.2.2).
pub(super) const K: [u32; 64] = round_constants();

/// Computes each constant from its definition: c = floor(cbrt(p) * 2^32), of which the low 32 bits count.
const fn round_constants() -> [u32; 64] {
    let mut constants = [0; 64];
    let mut at = 0;
    let mut prime = 2_u128;
    while at < 64 {
        // The greatest c with c^3 <= p * 2^96; c is below 2^36, because p is below 2^9.
        let mut c = 0_u128;
        let mut bit = 1_u128 << 35;
        while bit > 0 {
            let more = c | bit;
            if more * more * more <= prime << 96 {
                c = more;
            }
            bit >>= 1;
        }
        constants[at] = (c & 0xFFFF_FFFF) as u32;
        at += 1;
        prime = next_prime(prime);
    }
    constants
}

/// The least prime above `after`, by trial division.
const fn next_prime(after: u128) -> u128 {
    let mut number = after + 1;
    loop {
        let mut divisor = 2;
        while !number.is_multiple_of(divisor) {
            divisor += 1;
        }
        if divisor == number {
            return number;
        }
        number += 1;
    }
}

const fn small_sigma_0(word: u32) -> u32 {
    word.rotate_right(7) ^ word.rotate_right(18) ^ word >> 3
}

const fn small_sigma_1(word: u32) -> u32 {
    word.rotate_right(17) ^ word.rotate_right(19) ^ word >> 10
}

const fn big_sigma_0(word: u32) -> u32 {
    word.rotate_right(2) ^ word.rotate_right(13) ^ word.rotate_right(22)
}

const fn big_sigma_1(word: u32) -> u32 {
    word.rotate_right(6) ^ word.rotate_right(11) ^ word.rotate_right(25)
}

/// The message schedule of one block (FIPS 180-4, 6.2.2, step 1).
const fn schedule(block: [u32; 16]) -> [u32; 64] {
    let mut w = [0; 64];
    let mut t = 0;
    while t < 64 {
        w[t] = if t < 16 {
            block[t]
        } else {
            small_sigma_1(w[t - 2])
                .wrapping_add(w[t - 7])
                .wrapping_add(small_sigma_0(w[t - 15]))
                .wrapping_add(w[t - 16])
        };
        t += 1;
    }
    w
}

/// The block of padding that follows a message of 64 bytes.
const PADDING_64: [u32; 16] = {
    let mut block = [0; 16];
    block[0] = 0x8000_0000;
    block[15] = 512;
    block
};

/// Schedule plus round constants of [`PADDING_64`]: nothing in that block depends on the message.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "unproven")))]
pub(super) const PADDING_64_ROUNDS: [u32; 64] = {
    let mut rounds = schedule(PADDING_64);
    let mut t = 0;
    while t < 64 {
        rounds[t] = rounds[t].wrapping_add(K[t]);
        t += 1;
    }
    rounds
};

/// Hashes one block into `state` (FIPS 180-4, 6.2.2).
pub(super) fn compress_words(state: &mut Words, block: [u32; 16]) {
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (w, k) in schedule(block).into_iter().zip(K) {
        let choice = (e & f) ^ (!e & g);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let one = h.wrapping_add(big_sigma_1(e)).wrapping_add(choice).wrapping_add(k).wrapping_add(w);
        let two = big_sigma_0(a).wrapping_add(majority);
        (h, g, f, e) = (g, f, e, d.wrapping_add(one));
        (d, c, b, a) = (c, b, a, one.wrapping_add(two));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(add);
    }
}

/// The words of a block.
fn words(block: &[u8; 64]) -> [u32; 16] {
    let (words, _) = block.as_chunks();
    std::array::from_fn(|at| u32::from_be_bytes(words[at]))
}

/// The reference engine: one lane.
#[derive(Clone, Copy)]
pub(super) struct Reference;

impl Engine<1> for Reference {
    type State = Words;

    fn detect() -> Option<Self> {
        Some(Reference)
    }

    fn start() -> Words {
        START
    }

    fn set(state: &mut Words, _: usize, words: Words) {
        *state = words;
    }

    fn get(state: &Words, _: usize) -> Words {
        *state
    }

    fn compress(self, state: &mut Words, lanes: &[&[u8]; 1], count: usize) {
        for block in blocks_of(lanes[0], count) {
            compress_words(state, words(block));
        }
    }

    fn pad_64(self, state: &mut Words) {
        compress_words(state, PADDING_64);
    }

    fn again(self, state: &mut Words) {
        let mut block = [0; 16];
        block[..8].copy_from_slice(state);
        (block[8], block[15]) = (0x8000_0000, 256);
        *state = START;
        compress_words(state, block);
    }
}

/// The engine of the `sha2` crate: one lane, with the instructions that the crate detects.
#[derive(Clone, Copy)]
pub(super) struct Portable;

impl Engine<1> for Portable {
    type State = Words;

    fn detect() -> Option<Self> {
        Some(Portable)
    }

    fn start() -> Words {
        START
    }

    fn set(state: &mut Words, _: usize, words: Words) {
        *state = words;
    }

    fn get(state: &Words, _: usize) -> Words {
        *state
    }

    fn compress(self, state: &mut Words, lanes: &[&[u8]; 1], count: usize) {
        sha2::block_api::compress256(state, blocks_of(lanes[0], count));
    }

    fn pad_64(self, state: &mut Words) {
        let mut block = [0; 64];
        (block[0], block[62]) = (0x80, 2);
        sha2::block_api::compress256(state, &[block]);
    }

    fn again(self, state: &mut Words) {
        let mut block = [0; 64];
        for (bytes, word) in block.as_chunks_mut().0.iter_mut().zip(*state) {
            *bytes = word.to_be_bytes();
        }
        (block[32], block[62]) = (0x80, 1);
        *state = START;
        sha2::block_api::compress256(state, &[block]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_the_standard_s() {
        // FIPS 180-4, 4.2.2: first, ninth and last.
        assert_eq!((K[0], K[8], K[63]), (0x428A_2F98, 0xD807_AA98, 0xC671_78F2));
        let mut state = START;
        let mut block = [0; 64];
        block[..3].copy_from_slice(b"abc");
        (block[3], block[63]) = (0x80, 24);
        compress_words(&mut state, words(&block));
        // FIPS 180-4's example of a message of one block.
        assert_eq!((state[0], state[7]), (0xBA78_16BF, 0xF200_15AD));
    }
}
