//! Two lanes in 128 bits: NEON, which every 64-bit ARM has, with products of doubles.
//!
//! It has run only under an emulator. Whether it is faster than libsecp256k1 is unknown, so it runs only if it is
//! requested ([`crate::cpu::Cpu::Neon`]), and in tests.

use super::vector::{C, LANES_MAX, Vector};
use crate::doubles::{LOW, MIDDLE, TWO_52, TWO_104};
use std::arch::aarch64::*;

/// Two lanes.
#[derive(Clone, Copy)]
pub(super) struct Neon(uint64x2_t);

/// An instruction on vectors.
macro_rules! instruction {
    ($call:expr) => {
        // SAFETY: every 64-bit ARM has NEON; no memory is touched.
        unsafe { $call }
    };
}

/// All bits of the lanes of a mask.
#[inline(always)]
fn lanes_of(mask: u8) -> uint64x2_t {
    let lane = |lane: u8| 0u64.wrapping_sub(u64::from(mask >> lane & 1));
    read(&[lane(0), lane(1)])
}

/// A mask bit for each lane whose bits are all ones.
#[inline(always)]
fn mask_of(lanes: uint64x2_t) -> u8 {
    let [first, second] = instruction!([vgetq_lane_u64::<0>(lanes), vgetq_lane_u64::<1>(lanes)]);
    (first & 1 | (second & 1) << 1) as u8
}

/// Two words.
#[inline(always)]
fn read(words: &[u64; 2]) -> uint64x2_t {
    // SAFETY: reads the 16 bytes of `words`.
    unsafe { vld1q_u64(words.as_ptr()) }
}

/// Two words.
#[inline(always)]
fn write(vector: uint64x2_t, words: &mut [u64; 2]) {
    // SAFETY: writes the 16 bytes of `words`.
    unsafe { vst1q_u64(words.as_mut_ptr(), vector) }
}

impl Vector for Neon {
    const LANES: usize = 2;
    const LOW: u64 = LOW.to_bits();
    // The upper half is computed as a negative number: there is an instruction that subtracts a product from another
    // number.
    const HIGH: u64 = (-TWO_104).to_bits();
    const SIGNED: bool = true;
    const CARRY_BIAS: u64 = 0;
    const MASKS: bool = false;
    type Factor = float64x2_t;

    fn detect() -> Option<Neon> {
        Some(Neon(instruction!(vdupq_n_u64(0))))
    }

    #[inline(always)]
    fn run<R>(self, code: impl FnOnce() -> R) -> R {
        code()
    }

    #[inline(always)]
    fn call<R>(self, code: impl FnOnce() -> R) -> R {
        #[inline(never)]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        compiled(code)
    }

    #[inline(always)]
    fn splat(self, word: u64) -> Neon {
        Neon(instruction!(vdupq_n_u64(word)))
    }

    #[inline(always)]
    fn load(self, words: &[u64; LANES_MAX]) -> Neon {
        Neon(read(&words.as_chunks().0[0]))
    }

    #[inline(always)]
    fn store(self) -> [u64; LANES_MAX] {
        let mut words = [0; LANES_MAX];
        write(self.0, &mut words.as_chunks_mut().0[0]);
        words
    }

    #[inline(always)]
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Neon; 4] {
        let mut columns = [self; 4];
        for pair in 0..2 {
            let a = read(&rows[0].as_chunks().0[pair]);
            let b = read(&rows[1].as_chunks().0[pair]);
            columns[2 * pair] = Neon(instruction!(vtrn1q_u64(a, b)));
            columns[2 * pair + 1] = Neon(instruction!(vtrn2q_u64(a, b)));
        }
        columns
    }

    #[inline(always)]
    fn scatter(columns: [Neon; 4], rows: [&mut [u64; 4]; LANES_MAX]) {
        let [first, second, ..] = rows;
        for pair in 0..2 {
            let a = columns[2 * pair].0;
            let b = columns[2 * pair + 1].0;
            write(instruction!(vtrn1q_u64(a, b)), &mut first.as_chunks_mut().0[pair]);
            write(instruction!(vtrn2q_u64(a, b)), &mut second.as_chunks_mut().0[pair]);
        }
    }

    #[inline(always)]
    fn plus(self, other: Neon) -> Neon {
        Neon(instruction!(vaddq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Neon) -> Neon {
        Neon(instruction!(vsubq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Neon) -> Neon {
        Neon(instruction!(vandq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Neon) -> Neon {
        Neon(instruction!(vorrq_u64(self.0, other.0)))
    }

    #[inline(always)]
    fn up<const BITS: u32>(self) -> Neon {
        Neon(instruction!(vshlq_u64(self.0, vdupq_n_s64(i64::from(BITS)))))
    }

    #[inline(always)]
    fn down<const BITS: u32>(self) -> Neon {
        Neon(instruction!(vshlq_u64(self.0, vdupq_n_s64(-i64::from(BITS)))))
    }

    #[inline(always)]
    fn carried(self) -> Neon {
        Neon(instruction!(vreinterpretq_u64_s64(vshrq_n_s64::<52>(vreinterpretq_s64_u64(self.0)))))
    }

    #[inline(always)]
    fn factor(self) -> float64x2_t {
        instruction!({
            let above = vdupq_n_u64(TWO_52.to_bits());
            vsubq_f64(vreinterpretq_f64_u64(vorrq_u64(self.0, above)), vdupq_n_f64(TWO_52))
        })
    }

    #[inline(always)]
    fn add_product(low: &mut Neon, high: &mut Neon, a: float64x2_t, b: float64x2_t) {
        instruction!({
            let minus_upper = vfmsq_f64(vdupq_n_f64(-TWO_104), a, b);
            let rest = vfmaq_f64(minus_upper, vdupq_n_f64(MIDDLE[0]), vdupq_n_f64(MIDDLE[1]));
            let lower = vfmaq_f64(rest, a, b);
            high.0 = vaddq_u64(high.0, vreinterpretq_u64_f64(minus_upper));
            low.0 = vaddq_u64(low.0, vreinterpretq_u64_f64(lower));
        });
    }

    #[inline(always)]
    fn plus_c_times(self, number: Neon) -> Neon {
        const _: () = assert!(C == (1 << 32) + 977);
        let times_977 = instruction!(vmull_u32(vmovn_u64(number.0), vdup_n_u32(977)));
        self.plus(number.up::<32>()).plus(Neon(times_977))
    }

    #[inline(always)]
    fn where_else(self, mask: u8, other: Neon) -> Neon {
        Neon(instruction!(vbslq_u64(lanes_of(mask), self.0, other.0)))
    }

    #[inline(always)]
    fn negative_where(self, mask: u8) -> Neon {
        let mask = lanes_of(mask);
        Neon(instruction!(vsubq_u64(veorq_u64(self.0, mask), mask)))
    }

    #[inline(always)]
    fn zeros(self) -> u8 {
        mask_of(instruction!(vceqzq_u64(self.0)))
    }

    #[inline(always)]
    fn above(self, bound: i64) -> u8 {
        mask_of(instruction!(vcgtq_s64(vreinterpretq_s64_u64(self.0), vdupq_n_s64(bound))))
    }
}
