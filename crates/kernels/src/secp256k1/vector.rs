//! What the field, the points and the ladder ask of a vector: the same words for every processor.
//!
//! A vector has [`Vector::LANES`] lanes of 64 bits. A value is the proof that the processor has what its operations need:
//! the first comes from [`Vector::detect`], all others from one that is there, [`Vector::splat`] included. What is written
//! over this trait is `inline(always)`, and is compiled for a processor where [`Vector::run`] calls it.
//!
//! Products are made of [`Vector::Factor`]s, numbers below 2^52, and come as two halves that are added to two columns:
//! `product = low + 2^52 high`. IFMA has instructions for just that, with `low` from 0 to 2^52. Where there are none,
//! products of doubles with one rounding (FMA) give the same two halves, with `low` from -2^51 to 2^51: see `crate::doubles`.
//! The bits of a double stand for an integer plus a constant ([`Vector::LOW`], [`Vector::HIGH`]), which the columns are
//! begun with less.

/// The most lanes of any kind: the length of arrays with a place a lane, of which a kind uses the first.
pub(super) const LANES_MAX: usize = 8;

/// Whether [`Vector::call`] calls on every kind of processor: where assertions make all code long.
pub(super) const CALLS: bool = cfg!(debug_assertions);

/// What 2^256 is in the field.
pub(super) const C: u64 = 0x1_0000_03d1;

/// Some lanes of 64 bits. Sums, differences and shifts wrap. Of a mask, bit `i` is for lane `i`; bits beyond the lanes are
/// ignored where one is taken and zero where one is returned.
pub(super) trait Vector: Copy + 'static {
    /// Lanes of a vector; at most [`LANES_MAX`].
    const LANES: usize;
    /// A mask of all lanes.
    const ALL: u8 = (u8::MAX >> (LANES_MAX - Self::LANES));
    /// What a product leaves in its lower column beside the lower half.
    const LOW: u64;
    /// What it leaves in its upper column beside the upper half.
    const HIGH: u64;
    /// Whether lower halves may be negative.
    const SIGNED: bool;
    /// What is added to a column before [`Vector::carried`], and 2^-52 times that is taken from the next: zero where that
    /// shift keeps the sign.
    const CARRY_BIAS: u64;
    /// Whether instructions that multiply look at the lowest 52 bits alone.
    const MASKS: bool;
    /// A number below 2^52, ready to be multiplied.
    type Factor: Copy;

    /// A vector, where the processor has what this kind needs.
    fn detect() -> Option<Self>;

    /// Calls `code`, compiled for this kind.
    fn run<R>(self, code: impl FnOnce() -> R) -> R;

    /// Calls `code`, which is as long as a product in the field, where calls cost less than copies of it in all places.
    fn call<R>(self, code: impl FnOnce() -> R) -> R;

    /// What stands before it is not mixed with what stands behind it, where the compiler would keep more numbers at a time
    /// than there are registers. Lanes of AVX-512 alone have one.
    #[inline(always)]
    fn fence() {}

    /// The same word in all lanes.
    fn splat(self, word: u64) -> Self;

    /// A word for each lane, the first ones of the array.
    fn load(self, words: &[u64; LANES_MAX]) -> Self;

    /// The lanes' words; zero behind the last.
    fn store(self) -> [u64; LANES_MAX];

    /// Turns rows of four words, one a lane, into four vectors.
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Self; 4];

    /// Turns four vectors into rows of four words, one a lane; other rows stay as they are.
    fn scatter(columns: [Self; 4], rows: [&mut [u64; 4]; LANES_MAX]);

    /// As [`Vector::gather`], of rows of twice four words.
    #[inline(always)]
    fn gather_both(self, rows: [&[[u64; 4]; 2]; LANES_MAX]) -> [[Self; 4]; 2] {
        [self.gather(rows.map(|row| &row[0])), self.gather(rows.map(|row| &row[1]))]
    }

    /// The sums.
    fn plus(self, other: Self) -> Self;

    /// The differences.
    fn minus(self, other: Self) -> Self;

    /// The bits that both have.
    fn and(self, other: Self) -> Self;

    /// The bits that one of them has.
    fn or(self, other: Self) -> Self;

    /// Shifted to the left.
    fn up<const BITS: u32>(self) -> Self;

    /// Shifted to the right; zeros come in.
    fn down<const BITS: u32>(self) -> Self;

    /// Shifted to the right by 52 bits. Where [`Vector::CARRY_BIAS`] is zero the sign comes in.
    fn carried(self) -> Self;

    /// Made ready to be multiplied; below 2^52.
    fn factor(self) -> Self::Factor;

    /// Its lowest 52 bits, made ready to be multiplied.
    #[inline(always)]
    fn lowest_factor(self) -> Self::Factor {
        if Self::MASKS { self.factor() } else { self.and(self.splat((1 << 52) - 1)).factor() }
    }

    /// Adds the halves of a product, and [`Vector::LOW`] and [`Vector::HIGH`].
    fn add_product(low: &mut Self, high: &mut Self, a: Self::Factor, b: Self::Factor);

    /// Adds the halves of products with `a`: of number `j` of `b`, from `first` on, to columns `k + j` and `k + j + 1`.
    #[inline(always)]
    fn add_products(columns: &mut [Self; 10], k: usize, a: Self::Factor, b: &[Self::Factor; 5], first: usize) {
        for j in first..5 {
            let mut low = columns[k + j];
            let mut high = columns[k + j + 1];
            Self::add_product(&mut low, &mut high, a, b[j]);
            (columns[k + j], columns[k + j + 1]) = (low, high);
        }
    }

    /// Plus [`C`] times `number`, which is below 2^20.
    fn plus_c_times(self, number: Self) -> Self;

    /// In the lanes of `mask` this, in the others `other`.
    fn where_else(self, mask: u8, other: Self) -> Self;

    /// The negative in the lanes of `mask`.
    fn negative_where(self, mask: u8) -> Self;

    /// The lanes that are zero.
    fn zeros(self) -> u8;

    /// The lanes above `bound`, as signed numbers.
    fn above(self, bound: i64) -> u8;
}
