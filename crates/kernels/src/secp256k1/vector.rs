//! The interface of a vector for the field, the points and the ladder: the same for every processor.
//!
//! A vector has [`Vector::LANES`] lanes of 64 bits. A value proves that the processor has the instructions for its
//! operations: the first comes from [`Vector::detect`], all others from an existing one, including [`Vector::splat`].
//! Code that is generic over this trait is `inline(always)`, and is compiled for a processor by the caller of
//! [`Vector::run`].
//!
//! Products take [`Vector::Factor`]s, numbers below 2^52, and give two halves that are added to two columns:
//! `product = low + 2^52 high`. IFMA has instructions for this, with `low` from 0 to 2^52. On other processors products
//! of doubles with one rounding (FMA) give the same two halves, with `low` from -2^51 to 2^51: see `crate::doubles`.
//! The bits of a double represent an integer plus a constant ([`Vector::LOW`], [`Vector::HIGH`]), which is subtracted
//! from the columns' initial values.

/// The largest number of lanes of any kind: the length of arrays with one item for each lane. A kind uses the first
/// items.
pub(super) const LANES_MAX: usize = 8;

/// Whether [`Vector::call`] makes a call on every kind of processor: true in builds with assertions, which make all
/// code long.
pub(super) const CALLS: bool = cfg!(debug_assertions);

/// 2^256 modulo the field's prime.
pub(super) const C: u64 = 0x1_0000_03d1;

/// Lanes of 64 bits. Sums, differences and shifts wrap. Bit `i` of a mask is for lane `i`; bits beyond the lanes are
/// ignored in arguments and zero in results.
pub(super) trait Vector: Copy + 'static {
    /// Number of lanes of a vector; at most [`LANES_MAX`].
    const LANES: usize;
    /// A mask of all lanes.
    const ALL: u8 = (u8::MAX >> (LANES_MAX - Self::LANES));
    /// The constant that a product adds to its lower column in addition to the lower half.
    const LOW: u64;
    /// The constant that it adds to its upper column in addition to the upper half.
    const HIGH: u64;
    /// Whether lower halves may be negative.
    const SIGNED: bool;
    /// Added to a column before [`Vector::carried`], with 2^-52 times it subtracted from the next: zero if that shift
    /// keeps the sign.
    const CARRY_BIAS: u64;
    /// Whether multiplication uses only the lowest 52 bits.
    const MASKS: bool;
    /// A number below 2^52, prepared for multiplication.
    type Factor: Copy;

    /// A vector, if the processor has the instructions of this kind.
    fn detect() -> Option<Self>;

    /// Calls `code`, compiled for this kind.
    fn run<R>(self, code: impl FnOnce() -> R) -> R;

    /// Calls `code`, which is as long as a product in the field, without inlining it if calls cost less than many
    /// copies.
    fn call<R>(self, code: impl FnOnce() -> R) -> R;

    /// A barrier for the instruction scheduler, where the compiler would otherwise keep more numbers live than there
    /// are registers. Only lanes of AVX-512 have one.
    #[inline(always)]
    fn fence() {}

    /// The same word in all lanes.
    fn splat(self, word: u64) -> Self;

    /// A word for each lane, from the start of the array.
    fn load(self, words: &[u64; LANES_MAX]) -> Self;

    /// The lanes' words; zero after the last.
    fn store(self) -> [u64; LANES_MAX];

    /// Transposes rows of four words, one a lane, into four vectors.
    fn gather(self, rows: [&[u64; 4]; LANES_MAX]) -> [Self; 4];

    /// Transposes four vectors into rows of four words, one a lane; other rows are unchanged.
    fn scatter(columns: [Self; 4], rows: [&mut [u64; 4]; LANES_MAX]);

    /// [`Vector::gather`] of rows of twice four words.
    #[inline(always)]
    fn gather_both(self, rows: [&[[u64; 4]; 2]; LANES_MAX]) -> [[Self; 4]; 2] {
        [self.gather(rows.map(|row| &row[0])), self.gather(rows.map(|row| &row[1]))]
    }

    /// The sums.
    fn plus(self, other: Self) -> Self;

    /// The differences.
    fn minus(self, other: Self) -> Self;

    /// The bits that are set in both.
    fn and(self, other: Self) -> Self;

    /// The bits that are set in one vector or in both.
    fn or(self, other: Self) -> Self;

    /// Shifted to the left.
    fn up<const BITS: u32>(self) -> Self;

    /// Shifted to the right, filling with zeros.
    fn down<const BITS: u32>(self) -> Self;

    /// Shifted to the right by 52 bits. If [`Vector::CARRY_BIAS`] is zero the shift is arithmetic.
    fn carried(self) -> Self;

    /// Prepared for multiplication; must be below 2^52.
    fn factor(self) -> Self::Factor;

    /// Its lowest 52 bits, prepared for multiplication.
    #[inline(always)]
    fn lowest_factor(self) -> Self::Factor {
        if Self::MASKS { self.factor() } else { self.and(self.splat((1 << 52) - 1)).factor() }
    }

    /// Adds the halves of a product, and the constants [`Vector::LOW`] and [`Vector::HIGH`].
    fn add_product(low: &mut Self, high: &mut Self, a: Self::Factor, b: Self::Factor);

    /// Adds the halves of the products of `a` and the numbers of `b` from `first` on: that of number `j` to columns `k
    /// + j` and `k + j + 1`.
    #[inline(always)]
    fn add_products(columns: &mut [Self; 10], k: usize, a: Self::Factor, b: &[Self::Factor; 5], first: usize) {
        for j in first..5 {
            let mut low = columns[k + j];
            let mut high = columns[k + j + 1];
            Self::add_product(&mut low, &mut high, a, b[j]);
            (columns[k + j], columns[k + j + 1]) = (low, high);
        }
    }

    /// Adds [`C`] times `number`, which is below 2^20.
    fn plus_c_times(self, number: Self) -> Self;

    /// `self` in the lanes of `mask`, `other` in the remaining lanes.
    fn where_else(self, mask: u8, other: Self) -> Self;

    /// The negative in the lanes of `mask`.
    fn negative_where(self, mask: u8) -> Self;

    /// The lanes that are zero.
    fn zeros(self) -> u8;

    /// The lanes above `bound`, as signed numbers.
    fn above(self, bound: i64) -> u8;
}
