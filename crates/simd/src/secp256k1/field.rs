//! The field in vector lanes: eight elements at a time, each in five limbs of 52 bits (AVX-512 F and IFMA).
//!
//! Layout: vector `i` of an element holds the lanes' limb `i`, of weight 2^(52 i).
//! Invariant of [`Fe`]: limbs 0 to 3 are below 2^52, limb 4 is below 2^50. So an element is below 2^258, not reduced, and
//! what multiplies (of each limb the low 52 bits) takes it as it is.
//! [`Columns`] are sums that were not carried yet: signed limbs of up to 60 bits, on which sums, differences and small
//! multiples cost one instruction a limb. [`Columns::carry`] makes an element of them again; one carry for a whole
//! expression. What each operation adds is bounded where it stands.
//!
//! Folding: the prime is 2^256 - C with C = 2^32 + 977, so that 2^256 is C and 2^260 is 16 C.

use std::arch::x86_64::*;

/// Lanes of a vector.
pub(super) const LANES: usize = 8;
/// What 2^256 is in the field.
const C: i64 = 0x1_0000_03d1;
/// Bits of a limb.
const LIMB: i64 = (1 << 52) - 1;
/// Bits of the highest limb that are below 2^256.
const TOP: i64 = (1 << 48) - 1;
/// So often [`Columns::carry`] adds the prime, so that what was negative becomes positive: limb 4 of the columns is above
/// -2^59, and 2^59 is 2^11 times 2^48.
const PRIMES_ADDED: i64 = 1 << 11;

/// Eight elements of the field, one in each lane.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Fe([__m512i; 5]);

/// Eight sums of multiples of elements that were not carried yet.
///
/// Invariant: limbs 0 to 3 lie within 2^60 of zero, limb 4 within -2^59 and 2^60.
#[derive(Clone, Copy)]
pub(super) struct Columns([__m512i; 5]);

/// A product before it is folded: unsigned columns of weight 2^(52 i).
type Wide = [__m512i; 10];

#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn splat(word: i64) -> __m512i {
    _mm512_set1_epi64(word)
}

/// Eight words as a vector.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: reads the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// A vector as eight words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn store(vector: __m512i, words: &mut [u64; 8]) {
    // SAFETY: writes the 64 bytes of `words`; no alignment needed.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
}

/// Sums of lower and of upper halves of limbs' products, apart: a column of both would be twice as long a chain of
/// additions, each waiting for the last. Apart, a signature takes 4 % less.
struct Halves {
    low: Wide,
    high: Wide,
}

impl Halves {
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn none() -> Halves {
        Halves { low: [splat(0); 10], high: [splat(0); 10] }
    }

    /// Adds the product of limb `i` of `a` and limb `j` of `b`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(&mut self, a: &Fe, i: usize, b: &Fe, j: usize) {
        self.low[i + j] = _mm512_madd52lo_epu64(self.low[i + j], a.0[i], b.0[j]);
        self.high[i + j + 1] = _mm512_madd52hi_epu64(self.high[i + j + 1], a.0[i], b.0[j]);
    }

    /// Adds the product of `a` and `b`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add_product(&mut self, a: &Fe, b: &Fe) {
        debug_assert!(a.is_valid() && b.is_valid());
        for i in 0..5 {
            for j in 0..5 {
                self.add(a, i, b, j);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn sum(self) -> Wide {
        let mut sum = self.low;
        for (column, high) in sum.iter_mut().zip(self.high) {
            *column = _mm512_add_epi64(*column, high);
        }
        sum
    }
}

/// Brings the upper columns down.
///
/// A column of one product sums at most nine numbers below 2^52, of two products eighteen. Limb 4 of each factor is below
/// 2^50, so column 9 is below 2 * 2^48 and takes a carry of less than 2^6: after carrying, columns 5 to 9 are below 2^52.
/// The result's columns are below (18 + 3) * 2^52 < 2^57, those of a single product below 12 * 2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn fold(mut t: Wide) -> Columns {
    let (limb, c16) = (splat(LIMB), splat(C << 4));
    for i in 5..9 {
        t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srli_epi64::<52>(t[i]));
        t[i] = _mm512_and_si512(t[i], limb);
    }
    debug_assert!(t[5..].iter().all(|&column| within(column, 0, LIMB)));
    for i in 0..5 {
        t[i] = _mm512_madd52lo_epu64(t[i], t[i + 5], c16);
    }
    for i in 0..4 {
        t[i + 1] = _mm512_madd52hi_epu64(t[i + 1], t[i + 5], c16);
    }
    // What is above limb 4 now: below 2^(52 + 37 - 52), once more 2^260 each.
    let above = _mm512_madd52hi_epu64(splat(0), t[9], c16);
    t[0] = _mm512_madd52lo_epu64(t[0], above, c16);
    t[1] = _mm512_madd52hi_epu64(t[1], above, c16);
    Columns([t[0], t[1], t[2], t[3], t[4]])
}

/// The product, not carried.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn mul_columns(a: &Fe, b: &Fe) -> Columns {
    let mut halves = Halves::none();
    halves.add_product(a, b);
    fold(halves.sum())
}

/// `a b + c d`, not carried; folded once.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn dot_columns(a: &Fe, b: &Fe, c: &Fe, d: &Fe) -> Columns {
    let mut halves = Halves::none();
    halves.add_product(a, b);
    halves.add_product(c, d);
    fold(halves.sum())
}

/// The square, not carried: the products of different limbs are made once and doubled.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn square_columns(a: &Fe) -> Columns {
    debug_assert!(a.is_valid());
    let mut halves = Halves::none();
    for i in 0..5 {
        for j in i + 1..5 {
            halves.add(a, i, a, j);
        }
    }
    let Halves { mut low, mut high } = halves;
    for i in 1..9 {
        (low[i], high[i]) = (_mm512_add_epi64(low[i], low[i]), _mm512_add_epi64(high[i], high[i]));
    }
    let mut halves = Halves { low, high };
    for i in 0..5 {
        halves.add(a, i, a, i);
    }
    fold(halves.sum())
}

/// The product.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn mul(a: &Fe, b: &Fe) -> Fe {
    mul_columns(a, b).carry()
}

/// The square.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn square(a: &Fe) -> Fe {
    square_columns(a).carry()
}

impl Columns {
    /// Carries, and folds what is above bit 256.
    ///
    /// The prime is added [`PRIMES_ADDED`] times, so that limb 4 is positive and below 2^61; `above` is then between 0 and
    /// 2^13. Limb 4 keeps 48 bits and gets bit 48 back (`above` is folded one less), so that a negative carry from below,
    /// which is more than -2^9, cannot make it negative. In the end limb 4 is between 2^48 - 2^9 and 2^49 + 2^9.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn carry(self) -> Fe {
        debug_assert!(self.is_valid());
        let mut t = self.0;
        let top = _mm512_add_epi64(t[4], splat(PRIMES_ADDED << 48));
        let above = _mm512_srai_epi64::<48>(top);
        t[4] = _mm512_or_si512(_mm512_and_si512(top, splat(TOP)), splat(TOP + 1));
        t[0] = _mm512_sub_epi64(t[0], splat((PRIMES_ADDED + 1) * C));
        t[0] = _mm512_madd52lo_epu64(t[0], above, splat(C));
        for i in 0..4 {
            t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srai_epi64::<52>(t[i]));
            t[i] = _mm512_and_si512(t[i], splat(LIMB));
        }
        let carried = Fe(t);
        debug_assert!(carried.is_valid());
        carried
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn plus(mut self, other: &Fe) -> Columns {
        for i in 0..5 {
            self.0[i] = _mm512_add_epi64(self.0[i], other.0[i]);
        }
        self
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn minus(mut self, other: &Fe) -> Columns {
        for i in 0..5 {
            self.0[i] = _mm512_sub_epi64(self.0[i], other.0[i]);
        }
        self
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn minus_columns(self, other: Columns) -> Columns {
        self.minus(&Fe(other.0))
    }

    /// Times two.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn twice(mut self) -> Columns {
        for limb in &mut self.0 {
            *limb = _mm512_add_epi64(*limb, *limb);
        }
        self
    }

    /// Times three.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn thrice(mut self) -> Columns {
        for limb in &mut self.0 {
            *limb = _mm512_add_epi64(*limb, _mm512_add_epi64(*limb, *limb));
        }
        self
    }

    /// Times two to the power of `POWER`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn shifted<const POWER: u32>(mut self) -> Columns {
        for limb in &mut self.0 {
            *limb = _mm512_slli_epi64::<POWER>(*limb);
        }
        self
    }

    /// The negative in the lanes of `mask`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn negative_where(mut self, mask: u8) -> Columns {
        for limb in &mut self.0 {
            *limb = _mm512_mask_sub_epi64(*limb, mask, splat(0), *limb);
        }
        self
    }

    /// The limbs' bounds hold in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn is_valid(&self) -> bool {
        (0..4).all(|i| within(self.0[i], -1 << 60, 1 << 60)) && within(self.0[4], -1 << 59, 1 << 60)
    }
}

impl Fe {
    /// A small number in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn small(number: u32) -> Fe {
        Fe([splat(i64::from(number)), splat(0), splat(0), splat(0), splat(0)])
    }

    /// The same number of 256 bits in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn splat(words: [u64; 4]) -> Fe {
        Fe::from_words(words.map(|word| splat(word.cast_signed())))
    }

    /// Numbers of 256 bits; vector `i` holds the lanes' word `i`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn from_words(w: [__m512i; 4]) -> Fe {
        let limb = splat(LIMB);
        let or = |a, b| _mm512_and_si512(_mm512_or_si512(a, b), limb);
        Fe([
            _mm512_and_si512(w[0], limb),
            or(_mm512_srli_epi64::<52>(w[0]), _mm512_slli_epi64::<12>(w[1])),
            or(_mm512_srli_epi64::<40>(w[1]), _mm512_slli_epi64::<24>(w[2])),
            or(_mm512_srli_epi64::<28>(w[2]), _mm512_slli_epi64::<36>(w[3])),
            _mm512_srli_epi64::<16>(w[3]),
        ])
    }

    /// One number of 256 bits a lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn from_lanes(numbers: &[[u64; 4]; LANES]) -> Fe {
        Fe::from_words([0, 1, 2, 3].map(|word| load(&numbers.map(|number| number[word]))))
    }

    /// The numbers of a [`reduced`](Fe::reduced) element.
    #[cfg(test)]
    pub(super) fn to_lanes(self) -> [[u64; 4]; LANES] {
        let limbs = self.limbs();
        std::array::from_fn(|lane| {
            let l = limbs.map(|limb| limb[lane]);
            [l[0] | l[1] << 52, l[1] >> 12 | l[2] << 40, l[2] >> 24 | l[3] << 28, l[3] >> 36 | l[4] << 16]
        })
    }

    /// As columns, to add to.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn columns(self) -> Columns {
        Columns(self.0)
    }

    /// In the lanes of `mask` this one, in the others `other`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn where_else(mut self, mask: u8, other: &Fe) -> Fe {
        for i in 0..5 {
            self.0[i] = _mm512_mask_mov_epi64(other.0[i], mask, self.0[i]);
        }
        self
    }

    /// The same numbers, below the prime.
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn reduced(self) -> Fe {
        // Below 2^258: at most three times 2^256 are folded, which leaves less than 2^256 + 3 C, less than twice the prime.
        let mut t = self.0;
        let above = _mm512_srli_epi64::<48>(t[4]);
        t[4] = _mm512_and_si512(t[4], splat(TOP));
        t[0] = _mm512_madd52lo_epu64(t[0], above, splat(C));
        let once = carry_up(t);
        // Not below the prime is what reaches 2^256 when C is added; less 2^256 it is then less the prime.
        let mut less = once;
        less[0] = _mm512_add_epi64(less[0], splat(C));
        less = carry_up(less);
        let reaches = _mm512_cmpgt_epi64_mask(less[4], splat(TOP));
        less[4] = _mm512_and_si512(less[4], splat(TOP));
        Fe(less).where_else(reaches, &Fe(once))
    }

    /// The lanes that hold zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_zero(self) -> u8 {
        let r = self.reduced().0;
        let all = _mm512_or_si512(_mm512_or_si512(r[0], r[1]), _mm512_or_si512(_mm512_or_si512(r[2], r[3]), r[4]));
        _mm512_testn_epi64_mask(all, all)
    }

    /// The lanes where both are the same number.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn equals(self, other: &Fe) -> u8 {
        self.columns().minus(other).carry().is_zero()
    }

    /// The lanes that hold an odd number.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn is_odd(self) -> u8 {
        _mm512_test_epi64_mask(self.reduced().0[0], splat(1))
    }

    /// In the lanes of `mask` the negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn negative_where(self, mask: u8) -> Fe {
        self.columns().negative_where(mask).carry()
    }

    /// Its limbs.
    #[inline]
    pub(super) fn vectors(self) -> [__m512i; 5] {
        self.0
    }

    /// An element of limbs that keep the invariant.
    #[inline]
    pub(super) fn from_vectors(limbs: [__m512i; 5]) -> Fe {
        Fe(limbs)
    }

    /// An element with these limbs.
    #[cfg(test)]
    pub(super) fn from_limbs(limbs: &[[u64; LANES]; 5]) -> Fe {
        // SAFETY: both are 320 bytes of which any are valid.
        unsafe { std::mem::transmute::<[[u64; LANES]; 5], Fe>(*limbs) }
    }

    /// Its limbs.
    #[cfg(test)]
    pub(super) fn limbs(self) -> [[u64; LANES]; 5] {
        // SAFETY: as above.
        unsafe { std::mem::transmute::<Fe, [[u64; LANES]; 5]>(self) }
    }

    /// The limbs' bounds hold in every lane.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn is_valid(&self) -> bool {
        (0..4).all(|i| within(self.0[i], 0, LIMB)) && within(self.0[4], 0, LIMB >> 2)
    }
}

/// Every lane is at least `low` and at most `high`, as a signed number.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn within(vector: __m512i, low: i64, high: i64) -> bool {
    _mm512_cmplt_epi64_mask(vector, splat(low)) | _mm512_cmpgt_epi64_mask(vector, splat(high)) == 0
}

/// Carries limbs that are not negative; limb 4 takes what comes.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
fn carry_up(mut t: [__m512i; 5]) -> [__m512i; 5] {
    for i in 0..4 {
        t[i + 1] = _mm512_add_epi64(t[i + 1], _mm512_srli_epi64::<52>(t[i]));
        t[i] = _mm512_and_si512(t[i], splat(LIMB));
    }
    t
}
