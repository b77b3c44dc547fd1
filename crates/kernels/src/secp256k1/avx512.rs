//! Eight lanes in 512 bits: AVX-512 F and IFMA.

use super::vector::{C, CALLS, LANES_MAX, Vector};
use std::arch::x86_64::*;

/// Eight lanes. A value proves that the processor has AVX-512 F and IFMA: only [`Vector::detect`] makes one from
/// nothing, and all operations below take one.
#[derive(Clone, Copy)]
pub(super) struct Avx512(__m512i);

/// An instruction on values of [`Avx512`].
macro_rules! instruction {
    ($call:expr) => {
        // SAFETY: a value of `Avx512` exists, so the processor has AVX-512 F and IFMA; no memory is touched.
        unsafe { $call }
    };
}

impl Vector for Avx512 {
    const LANES: usize = 8;
    const LOW: u64 = 0;
    const HIGH: u64 = 0;
    const SIGNED: bool = false;
    const CARRY_BIAS: u64 = 0;
    const MASKS: bool = true;
    type Factor = Avx512;

    fn detect() -> Option<Avx512> {
        let here = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        // SAFETY: the processor was detected.
        here.then(|| Avx512(unsafe { _mm512_setzero_si512() }))
    }

    #[inline(always)]
    fn run<R>(self, code: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        // SAFETY: a value of `Avx512` exists, so the processor has both.
        unsafe { compiled(code) }
    }

    #[inline(always)]
    fn call<R>(self, code: impl FnOnce() -> R) -> R {
        #[inline(never)]
        #[target_feature(enable = "avx512f,avx512ifma")]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        if CALLS {
            // SAFETY: as above.
            return unsafe { compiled(code) };
        }
        code()
    }

    /// Ends a basic block, at which LLVM's instruction scheduler stops, without emitting an instruction. Spilling a
    /// vector costs as much as 1.3 to 1.7 products of limbs (Zen 4).
    #[inline(always)]
    fn fence() {
        // SAFETY: there is no instruction.
        unsafe { std::arch::asm!("/* {} */", label {}, options(nomem, nostack, preserves_flags)) };
    }

    #[inline(always)]
    fn splat(self, word: u64) -> Avx512 {
        Avx512(instruction!(_mm512_set1_epi64(word.cast_signed())))
    }

    #[inline(always)]
    fn load(self, words: &[u64; LANES_MAX]) -> Avx512 {
        // SAFETY: reads the 64 bytes of `words`, no alignment needed; a value exists, so the processor has AVX-512 F.
        Avx512(unsafe { _mm512_loadu_si512(words.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self) -> [u64; LANES_MAX] {
        let mut words = [0; LANES_MAX];
        put(self, &mut words);
        words
    }

    #[inline(always)]
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Avx512; 4] {
        // Each vector has two rows, so that the steps below put the lanes in order.
        let a = two_rows(self, rows[0], rows[2]);
        let b = two_rows(self, rows[1], rows[3]);
        let c = two_rows(self, rows[4], rows[6]);
        let d = two_rows(self, rows[5], rows[7]);
        let ab = unpacked(a, b);
        let cd = unpacked(c, d);
        let mut columns = [self; 4];
        for odd in 0..2 {
            let ab = ab[odd].0;
            let cd = cd[odd].0;
            let [low, high] =
                instruction!([_mm512_shuffle_i64x2::<0x88>(ab, cd), _mm512_shuffle_i64x2::<0xDD>(ab, cd)]);
            (columns[odd].0, columns[odd + 2].0) = (low, high);
        }
        columns
    }

    #[inline(always)]
    fn scatter(columns: [Avx512; 4], rows: [&mut [u64; 4]; LANES_MAX]) {
        let [a, b, c, d] = columns;
        // Lanes 0, 2, 4 and 6 of the first two columns, then lanes 1, 3, 5 and 7; then those of the last two.
        let ab = unpacked(a, b);
        let cd = unpacked(c, d);
        let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
        for (odd, [low, middle, high, top]) in [[r0, r2, r4, r6], [r1, r3, r5, r7]].into_iter().enumerate() {
            let ab = ab[odd].0;
            let cd = cd[odd].0;
            let [first, second] = instruction!([
                _mm512_permutex2var_epi64(ab, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), cd),
                _mm512_permutex2var_epi64(ab, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), cd),
            ]);
            put_two_rows(Avx512(first), low, middle);
            put_two_rows(Avx512(second), high, top);
        }
    }

    #[inline(always)]
    fn plus(self, other: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_and_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_or_si512(self.0, other.0)))
    }

    #[inline(always)]
    fn up<const BITS: u32>(self) -> Avx512 {
        Avx512(instruction!(_mm512_slli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn down<const BITS: u32>(self) -> Avx512 {
        Avx512(instruction!(_mm512_srli_epi64::<BITS>(self.0)))
    }

    #[inline(always)]
    fn carried(self) -> Avx512 {
        Avx512(instruction!(_mm512_srai_epi64::<52>(self.0)))
    }

    #[inline(always)]
    fn factor(self) -> Avx512 {
        self
    }

    #[inline(always)]
    fn add_product(low: &mut Avx512, high: &mut Avx512, a: Avx512, b: Avx512) {
        low.0 = instruction!(_mm512_madd52lo_epu64(low.0, a.0, b.0));
        high.0 = instruction!(_mm512_madd52hi_epu64(high.0, a.0, b.0));
    }

    /// All lower halves are added first: the upper half of a number and the lower half of the next one belong to the
    /// same column, so the latter would have to wait.
    #[inline(always)]
    fn add_products(columns: &mut [Avx512; 10], k: usize, a: Avx512, b: &[Avx512; 5], first: usize) {
        for j in first..5 {
            let column = &mut columns[k + j].0;
            *column = instruction!(_mm512_madd52lo_epu64(*column, a.0, b[j].0));
        }
        for j in first..5 {
            let column = &mut columns[k + j + 1].0;
            *column = instruction!(_mm512_madd52hi_epu64(*column, a.0, b[j].0));
        }
    }

    #[inline(always)]
    fn plus_c_times(self, number: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_madd52lo_epu64(self.0, number.0, self.splat(C).0)))
    }

    #[inline(always)]
    fn where_else(self, mask: u8, other: Avx512) -> Avx512 {
        Avx512(instruction!(_mm512_mask_mov_epi64(other.0, mask, self.0)))
    }

    #[inline(always)]
    fn negative_where(self, mask: u8) -> Avx512 {
        Avx512(instruction!(_mm512_mask_sub_epi64(self.0, mask, _mm512_setzero_si512(), self.0)))
    }

    #[inline(always)]
    fn zeros(self) -> u8 {
        instruction!(_mm512_testn_epi64_mask(self.0, self.0))
    }

    #[inline(always)]
    fn above(self, bound: i64) -> u8 {
        instruction!(_mm512_cmpgt_epi64_mask(self.0, _mm512_set1_epi64(bound)))
    }
}

/// Stores eight lanes.
#[inline(always)]
fn put(vector: Avx512, words: &mut [u64; 8]) {
    // SAFETY: writes the 64 bytes of `words`, no alignment needed; a value exists, so the processor has AVX-512 F.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector.0) };
}

/// Two rows of four words.
#[inline(always)]
fn two_rows(_: Avx512, low: &[u64; 4], high: &[u64; 4]) -> Avx512 {
    // SAFETY: reads the 32 bytes of each, no alignment needed; a value exists, so the processor has AVX-512 F.
    Avx512(unsafe {
        let low = _mm512_castsi256_si512(_mm256_loadu_si256(low.as_ptr().cast()));
        _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(high.as_ptr().cast()))
    })
}

/// Stores both halves.
#[inline(always)]
fn put_two_rows(rows: Avx512, low: &mut [u64; 4], high: &mut [u64; 4]) {
    // SAFETY: writes the 32 bytes of each, no alignment needed; a value exists, so the processor has AVX-512 F.
    unsafe {
        _mm256_storeu_si256(low.as_mut_ptr().cast(), _mm512_castsi512_si256(rows.0));
        _mm256_storeu_si256(high.as_mut_ptr().cast(), _mm512_extracti64x4_epi64::<1>(rows.0));
    }
}

/// The even words of both, interleaved, and the odd ones.
#[inline(always)]
fn unpacked(a: Avx512, b: Avx512) -> [Avx512; 2] {
    let (low, high) = instruction!((_mm512_unpacklo_epi64(a.0, b.0), _mm512_unpackhi_epi64(a.0, b.0)));
    [Avx512(low), Avx512(high)]
}
