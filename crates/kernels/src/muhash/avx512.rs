//! Eight accumulators (AVX-512 F and IFMA), and the numbers that sixteen lanes of ChaCha20 generate for them.
//!
//! Numbers are multiplied by [`super::karatsuba`]. The first eight of sixteen keys are in the even lanes of 32 bits,
//! the others in the odd ones, so each lane of 64 bits has one word of two numbers.

use super::karatsuba::{BITS, Fe, LIMBS48, Scratch, splat, zero, zeros};
use super::reference::from_limbs;
use super::{KEYS_AT_ONCE, LIMBS, Number, ONE};
use std::arch::x86_64::*;

/// Numbers processed in parallel.
const LANES: usize = 8;
/// Words of a number's key stream.
const WORDS: usize = 2 * LIMBS;
const _: () = assert!(KEYS_AT_ONCE == 2 * LANES && WORDS.is_multiple_of(16) && WORDS / 3 * 2 == LIMBS48);

/// Eight products.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    product: Fe,
    /// From this lane on, all lanes are still one; 0: the product is not set.
    used: usize,
    room: Room,
}

/// Scratch memory for numbers and products.
#[derive(Clone, Debug)]
struct Room {
    words: [__m512i; WORDS],
    numbers: [Fe; 2],
    scratch: Scratch,
}

impl Accumulators {
    /// Eight numbers that are one, if the processor has the instructions.
    pub(super) fn detect() -> Option<Accumulators> {
        let has = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        has.then(|| {
            let room = Room { words: zeros(), numbers: [Fe::zeros(); 2], scratch: Scratch::new() };
            Accumulators { product: Fe::zeros(), used: 0, room }
        })
    }

    /// Multiplies by the numbers of the first `count` keys.
    pub(super) fn multiply(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        // SAFETY: `detect` made this, so the processor has the features.
        unsafe { self.multiply_keys(keys, count) }
    }

    #[target_feature(enable = "avx512f,avx512ifma")]
    fn multiply_keys(&mut self, keys: &[[u8; 32]; KEYS_AT_ONCE], count: usize) {
        let Accumulators { product, used, room: Room { words, numbers, scratch } } = self;
        key_streams(keys, words);
        join_words(words, numbers);
        for (half, number) in numbers.iter_mut().enumerate() {
            let lanes = count.saturating_sub(half * LANES).min(LANES);
            if lanes > 0 {
                keep_lanes(number, lanes);
                if *used == 0 {
                    *product = *number
                } else {
                    product.multiply(number, scratch)
                }
                *used = lanes.max(*used);
            }
        }
    }

    /// Multiplies each lane by a number.
    #[cfg(test)]
    pub(super) fn multiply_numbers(&mut self, numbers: &[Number; LANES]) {
        // SAFETY: as in `multiply`.
        let number = unsafe { Fe::of_numbers(numbers) };
        if self.used == 0 {
            self.product = number;
        } else {
            // SAFETY: as in `multiply`.
            unsafe { self.product.multiply(&number, &mut self.room.scratch) };
        }
        self.used = LANES;
    }

    /// The product of all lanes, which are reset to one.
    pub(super) fn product(&mut self) -> Number {
        match std::mem::take(&mut self.used) {
            0 => ONE,
            // SAFETY: as in `multiply`.
            used => unsafe { self.lanes_product(used) },
        }
    }

    /// Multiplies one half of the lanes by the other half, as long as both have numbers other than one.
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn lanes_product(&mut self, used: usize) -> Number {
        let Accumulators { product, room: Room { numbers: [other, _], scratch, .. }, .. } = self;
        for half in [4, 2, 1] {
            if used > half {
                let index = _mm512_add_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), splat(half as i64));
                for (to, from) in other.0.iter_mut().zip(&product.0) {
                    *to = _mm512_permutexvar_epi64(index, *from);
                }
                product.multiply(other, scratch);
            }
        }
        product.first_lane()
    }
}

impl Fe {
    #[target_feature(enable = "avx512f")]
    fn first_lane(&self) -> Number {
        let mut limbs = [0; LIMBS48];
        for (limb, vector) in limbs.iter_mut().zip(&self.0) {
            *limb = _mm_cvtsi128_si64(_mm512_castsi512_si128(*vector)).cast_unsigned();
        }
        from_limbs::<BITS>(limbs.into_iter())
    }
}

/// Sets the lanes from `used` on to one.
#[target_feature(enable = "avx512f")]
fn keep_lanes(number: &mut Fe, used: usize) {
    if used < LANES {
        let kept = (1u8 << used) - 1;
        for (index, limb) in number.0.iter_mut().enumerate() {
            *limb = _mm512_mask_mov_epi64(splat(i64::from(index == 0)), kept, *limb);
        }
    }
}

/// The first 384 bytes of the key streams of sixteen keys.
#[target_feature(enable = "avx512f")]
fn key_streams(keys: &[[u8; 32]; KEYS_AT_ONCE], out: &mut [__m512i; WORDS]) {
    let mut start = [zero(); 16];
    for (to, constant) in start.iter_mut().zip([0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]) {
        *to = _mm512_set1_epi32(constant);
    }
    for (at, to) in start[4..12].iter_mut().enumerate() {
        let mut words = [0i32; KEYS_AT_ONCE];
        for (lane, word) in words.iter_mut().enumerate() {
            let key = &keys[lane % 2 * LANES + lane / 2];
            *word = i32::from_le_bytes(*key[at * 4..].first_chunk().expect("four bytes"));
        }
        // SAFETY: reads the 64 bytes of `words`; no alignment needed.
        *to = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
    }
    for (block, words) in out.as_chunks_mut().0.iter_mut().enumerate() {
        start[12] = _mm512_set1_epi32(block as i32);
        *words = chacha_block(&start);
    }
}

/// The numbers of the keys in the even lanes, and of those in the odd ones.
///
/// Three words are two limbs: 32 bits and 16 bits of the next word, then its other 16 and 32 bits.
#[target_feature(enable = "avx512f")]
fn join_words(words: &[__m512i; WORDS], numbers: &mut [Fe; 2]) {
    let low = splat(0xffff_ffff);
    let middle = splat(0xffff_0000_0000);
    let high = splat(0xffff_ffff_0000);
    let [even, odd] = numbers;
    for (at, [a, b, c]) in words.as_chunks().0.iter().enumerate() {
        even.0[2 * at] =
            _mm512_or_si512(_mm512_and_si512(*a, low), _mm512_and_si512(_mm512_slli_epi64::<32>(*b), middle));
        even.0[2 * at + 1] = _mm512_or_si512(
            _mm512_srli_epi64::<16>(_mm512_and_si512(*b, low)),
            _mm512_and_si512(_mm512_slli_epi64::<16>(*c), high),
        );
        odd.0[2 * at] = _mm512_or_si512(_mm512_srli_epi64::<32>(*a), _mm512_and_si512(*b, middle));
        odd.0[2 * at + 1] =
            _mm512_or_si512(_mm512_srli_epi64::<48>(*b), _mm512_and_si512(_mm512_srli_epi64::<16>(*c), high));
    }
}

/// One block of key stream of sixteen keys. Source: RFC 8439, section 2.3.
#[target_feature(enable = "avx512f")]
fn chacha_block(start: &[__m512i; 16]) -> [__m512i; 16] {
    let mut x = *start;
    // Unrolled, because with constant indices the words stay in registers; four quarter rounds in lockstep, because
    // they are independent of each other.
    macro_rules! quarters {
        ($([$a:literal, $b:literal, $c:literal, $d:literal]),*) => {
            $(x[$a] = _mm512_add_epi32(x[$a], x[$b]);)*
            $(x[$d] = _mm512_rol_epi32::<16>(_mm512_xor_si512(x[$d], x[$a]));)*
            $(x[$c] = _mm512_add_epi32(x[$c], x[$d]);)*
            $(x[$b] = _mm512_rol_epi32::<12>(_mm512_xor_si512(x[$b], x[$c]));)*
            $(x[$a] = _mm512_add_epi32(x[$a], x[$b]);)*
            $(x[$d] = _mm512_rol_epi32::<8>(_mm512_xor_si512(x[$d], x[$a]));)*
            $(x[$c] = _mm512_add_epi32(x[$c], x[$d]);)*
            $(x[$b] = _mm512_rol_epi32::<7>(_mm512_xor_si512(x[$b], x[$c]));)*
        };
    }
    for _ in 0..10 {
        quarters!([0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15]);
        quarters!([0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]);
    }
    for (word, start) in x.iter_mut().zip(start) {
        *word = _mm512_add_epi32(*word, *start);
    }
    x
}
