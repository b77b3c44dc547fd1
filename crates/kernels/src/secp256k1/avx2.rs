//! Four lanes in 256 bits: AVX2 with products of doubles (FMA; see [`crate::doubles`]), or with IFMA, encoded as
//! AVX-IFMA or as AVX-512.

use super::vector::{C, CALLS, LANES_MAX, Vector};
use crate::doubles::{LOW, MIDDLE, TWO_52, TWO_104};
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// How four lanes multiply.
pub(super) trait Multiply: Copy + 'static {
    /// See [`Vector::LOW`].
    const LOW: u64;
    /// See [`Vector::HIGH`].
    const HIGH: u64;
    /// See [`Vector::SIGNED`].
    const SIGNED: bool;
    /// See [`Vector::MASKS`].
    const MASKS: bool;
    /// See [`Vector::Factor`].
    type Factor: Copy;

    /// Whether the processor has the instructions, including AVX2.
    fn detect() -> bool;

    /// See [`Vector::run`].
    ///
    /// # Safety
    ///
    /// The processor has the instructions.
    unsafe fn run<R>(code: impl FnOnce() -> R) -> R;

    /// See [`Vector::call`].
    ///
    /// # Safety
    ///
    /// The same promise as for `run`.
    unsafe fn call<R>(code: impl FnOnce() -> R) -> R;

    /// See [`Vector::factor`].
    ///
    /// # Safety
    ///
    /// The same promise as for `run`.
    unsafe fn factor(number: __m256i) -> Self::Factor;

    /// See [`Vector::add_product`].
    ///
    /// # Safety
    ///
    /// The same promise as for `run`.
    unsafe fn add_product(low: &mut __m256i, high: &mut __m256i, a: Self::Factor, b: Self::Factor);
}

/// Products by doubles.
#[derive(Clone, Copy)]
pub(super) struct Doubles;

impl Multiply for Doubles {
    const LOW: u64 = LOW.to_bits();
    const HIGH: u64 = TWO_104.to_bits();
    const SIGNED: bool = true;
    const MASKS: bool = false;
    type Factor = __m256d;

    fn detect() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    #[inline(always)]
    unsafe fn run<R>(code: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma")]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        // SAFETY: the caller's promise.
        unsafe { compiled(code) }
    }

    #[inline(always)]
    unsafe fn call<R>(code: impl FnOnce() -> R) -> R {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn compiled<R>(code: impl FnOnce() -> R) -> R {
            code()
        }
        // rustc 1.95 honours `inline(never)` of a function with target features only if its caller has them too:
        // without this intermediate step products were inlined, and a signature took longer.
        #[inline]
        #[target_feature(enable = "avx2,fma")]
        fn calling<R>(code: impl FnOnce() -> R) -> R {
            compiled(code)
        }
        // SAFETY: the caller's promise.
        unsafe { calling(code) }
    }

    #[inline(always)]
    unsafe fn factor(number: __m256i) -> __m256d {
        // SAFETY: the caller's promise; no memory is touched.
        unsafe {
            let above = _mm256_set1_pd(TWO_52);
            _mm256_sub_pd(_mm256_or_pd(_mm256_castsi256_pd(number), above), above)
        }
    }

    #[inline(always)]
    unsafe fn add_product(low: &mut __m256i, high: &mut __m256i, a: __m256d, b: __m256d) {
        // SAFETY: the caller's promise; no memory is touched.
        unsafe {
            let upper = _mm256_fmadd_pd(a, b, _mm256_set1_pd(TWO_104));
            let rest = _mm256_fmsub_pd(_mm256_set1_pd(MIDDLE[0]), _mm256_set1_pd(MIDDLE[1]), upper);
            let lower = _mm256_fmadd_pd(a, b, rest);
            *high = _mm256_add_epi64(*high, _mm256_castpd_si256(upper));
            *low = _mm256_add_epi64(*low, _mm256_castpd_si256(lower));
        }
    }
}

/// Defines multiplication of lanes with IFMA, in one of its encodings.
macro_rules! ifma {
    ($(#[$doc:meta])* $name:ident, $features:literal, $here:expr, $low:ident, $high:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name;

        impl Multiply for $name {
            const LOW: u64 = 0;
            const HIGH: u64 = 0;
            const SIGNED: bool = false;
            const MASKS: bool = true;
            type Factor = __m256i;

            fn detect() -> bool {
                is_x86_feature_detected!("avx2") && $here
            }

            #[inline(always)]
            unsafe fn run<R>(code: impl FnOnce() -> R) -> R {
                #[target_feature(enable = $features)]
                fn compiled<R>(code: impl FnOnce() -> R) -> R {
                    code()
                }
                // SAFETY: the caller's promise.
                unsafe { compiled(code) }
            }

            #[inline(always)]
            unsafe fn call<R>(code: impl FnOnce() -> R) -> R {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn compiled<R>(code: impl FnOnce() -> R) -> R {
                    code()
                }
                if CALLS {
                    // SAFETY: the caller's promise.
                    return unsafe { compiled(code) };
                }
                code()
            }

            #[inline(always)]
            unsafe fn factor(number: __m256i) -> __m256i {
                number
            }

            #[inline(always)]
            unsafe fn add_product(low: &mut __m256i, high: &mut __m256i, a: __m256i, b: __m256i) {
                // SAFETY: the caller's promise; no memory is touched.
                unsafe {
                    *low = $low(*low, a, b);
                    *high = $high(*high, a, b);
                }
            }
        }
    };
}

ifma!(
    /// Products by AVX-IFMA.
    Ifma,
    "avx2,avxifma",
    is_x86_feature_detected!("avxifma"),
    _mm256_madd52lo_avx_epu64,
    _mm256_madd52hi_avx_epu64
);
#[cfg(any(test, feature = "ablation"))]
ifma!(
    /// With the same instructions in AVX-512's encoding, for tests and measurements on processors that lack AVX-IFMA.
    IfmaOfAvx512,
    "avx2,avx512ifma,avx512vl",
    is_x86_feature_detected!("avx512ifma") && is_x86_feature_detected!("avx512vl"),
    _mm256_madd52lo_epu64,
    _mm256_madd52hi_epu64
);

/// Four lanes. A value proves that the processor has AVX2 and the instructions of `M`: only [`Vector::detect`] makes
/// one from nothing, and all operations below take one.
#[derive(Clone, Copy)]
pub(super) struct Four<M>(__m256i, PhantomData<M>);

/// AVX2 and FMA.
pub(super) type Avx2 = Four<Doubles>;
/// AVX2 and AVX-IFMA.
pub(super) type AvxIfma = Four<Ifma>;
/// AVX2 and IFMA in AVX-512's encoding.
#[cfg(any(test, feature = "ablation"))]
pub(super) type AvxIfmaOfAvx512 = Four<IfmaOfAvx512>;

/// An instruction on values of [`Four`].
macro_rules! instruction {
    ($call:expr) => {
        // SAFETY: a value of `Four` exists, so the processor has AVX2 and the instructions of `M`; no memory is
        // touched.
        unsafe { $call }
    };
}

/// The lanes of each mask.
static MASKS: [[u64; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut mask = 0;
    while mask < 16 {
        let mut lane = 0;
        while lane < 4 {
            masks[mask][lane] = if mask >> lane & 1 == 1 { u64::MAX } else { 0 };
            lane += 1;
        }
        mask += 1;
    }
    masks
};

impl<M: Multiply> Four<M> {
    #[inline(always)]
    fn of(vector: __m256i) -> Four<M> {
        Four(vector, PhantomData)
    }

    /// Four words.
    #[inline(always)]
    fn load_four(self, words: &[u64; 4]) -> Four<M> {
        // SAFETY: reads the 32 bytes of `words`, no alignment needed; a value exists, so the processor has AVX2.
        Four::of(unsafe { _mm256_loadu_si256(words.as_ptr().cast()) })
    }

    /// Stores four words.
    #[inline(always)]
    fn put(self, words: &mut [u64; 4]) {
        // SAFETY: writes the 32 bytes of `words`, no alignment needed; a value exists, so the processor has AVX2.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), self.0) };
    }

    /// Sets all bits of the lanes of a mask.
    #[inline(always)]
    fn mask(self, mask: u8) -> __m256i {
        self.load_four(&MASKS[usize::from(mask & Self::ALL)]).0
    }

    /// The highest bits.
    #[inline(always)]
    fn signs(vector: __m256i) -> u8 {
        instruction!(_mm256_movemask_pd(_mm256_castsi256_pd(vector))) as u8
    }
}

impl<M: Multiply> Vector for Four<M> {
    const LANES: usize = 4;
    const LOW: u64 = M::LOW;
    const HIGH: u64 = M::HIGH;
    const SIGNED: bool = M::SIGNED;
    // There is no arithmetic shift to the right: the value, which is within 2^61 of zero, is made positive before the
    // shift.
    const CARRY_BIAS: u64 = 1 << 62;
    const MASKS: bool = M::MASKS;
    type Factor = M::Factor;

    fn detect() -> Option<Four<M>> {
        // SAFETY: the processor was detected.
        M::detect().then(|| Four::of(unsafe { _mm256_setzero_si256() }))
    }

    #[inline(always)]
    fn run<R>(self, code: impl FnOnce() -> R) -> R {
        // SAFETY: a value exists, so the processor has the instructions.
        unsafe { M::run(code) }
    }

    #[inline(always)]
    fn call<R>(self, code: impl FnOnce() -> R) -> R {
        // SAFETY: as above.
        unsafe { M::call(code) }
    }

    #[inline(always)]
    fn splat(self, word: u64) -> Self {
        Four::of(instruction!(_mm256_set1_epi64x(word.cast_signed())))
    }

    #[inline(always)]
    fn load(self, words: &[u64; LANES_MAX]) -> Self {
        self.load_four(&words.as_chunks().0[0])
    }

    #[inline(always)]
    fn store(self) -> [u64; LANES_MAX] {
        let mut words = [0; LANES_MAX];
        self.put(&mut words.as_chunks_mut().0[0]);
        words
    }

    #[inline(always)]
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Self; 4] {
        let mut loaded = [self; 4];
        for lane in 0..4 {
            loaded[lane] = self.load_four(rows[lane]);
        }
        transposed(loaded)
    }

    #[inline(always)]
    fn scatter(columns: [Self; 4], rows: [&mut [u64; 4]; LANES_MAX]) {
        for (row, words) in transposed(columns).into_iter().zip(rows) {
            row.put(words);
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Four::of(instruction!(_mm256_add_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Four::of(instruction!(_mm256_sub_epi64(self.0, other.0)))
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Four::of(instruction!(_mm256_and_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Four::of(instruction!(_mm256_or_si256(self.0, other.0)))
    }

    #[inline(always)]
    fn up<const BITS: u32>(self) -> Self {
        Four::of(instruction!(_mm256_sll_epi64(self.0, _mm_cvtsi32_si128(BITS.cast_signed()))))
    }

    #[inline(always)]
    fn down<const BITS: u32>(self) -> Self {
        Four::of(instruction!(_mm256_srl_epi64(self.0, _mm_cvtsi32_si128(BITS.cast_signed()))))
    }

    #[inline(always)]
    fn carried(self) -> Self {
        self.down::<52>()
    }

    #[inline(always)]
    fn factor(self) -> M::Factor {
        instruction!(M::factor(self.0))
    }

    #[inline(always)]
    fn add_product(low: &mut Self, high: &mut Self, a: M::Factor, b: M::Factor) {
        instruction!(M::add_product(&mut low.0, &mut high.0, a, b));
    }

    #[inline(always)]
    fn plus_c_times(self, number: Self) -> Self {
        const _: () = assert!(C == (1 << 32) + 977);
        let times_977 = instruction!(_mm256_mul_epu32(number.0, self.splat(977).0));
        self.plus(number.up::<32>()).plus(Four::of(times_977))
    }

    #[inline(always)]
    fn where_else(self, mask: u8, other: Self) -> Self {
        Four::of(instruction!(_mm256_blendv_epi8(other.0, self.0, self.mask(mask))))
    }

    #[inline(always)]
    fn negative_where(self, mask: u8) -> Self {
        let mask = self.mask(mask);
        Four::of(instruction!(_mm256_sub_epi64(_mm256_xor_si256(self.0, mask), mask)))
    }

    #[inline(always)]
    fn zeros(self) -> u8 {
        Self::signs(instruction!(_mm256_cmpeq_epi64(self.0, _mm256_setzero_si256())))
    }

    #[inline(always)]
    fn above(self, bound: i64) -> u8 {
        Self::signs(instruction!(_mm256_cmpgt_epi64(self.0, _mm256_set1_epi64x(bound))))
    }
}

/// Transposes four rows of four words.
#[inline(always)]
fn transposed<M: Multiply>([a, b, c, d]: [Four<M>; 4]) -> [Four<M>; 4] {
    instruction!({
        let ab_even = _mm256_unpacklo_epi64(a.0, b.0);
        let ab_odd = _mm256_unpackhi_epi64(a.0, b.0);
        let cd_even = _mm256_unpacklo_epi64(c.0, d.0);
        let cd_odd = _mm256_unpackhi_epi64(c.0, d.0);
        [
            Four::of(_mm256_permute2x128_si256::<0x20>(ab_even, cd_even)),
            Four::of(_mm256_permute2x128_si256::<0x20>(ab_odd, cd_odd)),
            Four::of(_mm256_permute2x128_si256::<0x31>(ab_even, cd_even)),
            Four::of(_mm256_permute2x128_si256::<0x31>(ab_odd, cd_odd)),
        ]
    })
}
