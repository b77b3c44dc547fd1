//! Products in the field: columns of limbs' products, folded to [`Columns`] or carried to elements.
//!
//! Layout: column `k` has the weight 2^(52 k); a product of limbs i and j adds its lower half to column i + j and its
//! upper one to the next. Folding: the prime is 2^256 - C with C = 2^32 + 977, so 2^256 is C and 2^260 is 16 C.
//!
//! Loops over limbs use index ranges: see [`super::field`].

#![expect(clippy::needless_range_loop, reason = "iterators are not unrolled: see above")]

use super::field::{Columns, Fe, LIMB, Loose, Multiplicand, TOP, carried_up, carry_up, within};
use super::vector::{C, Vector};

/// With signed lower halves, the upper columns of a product start with this additional amount, and its carry is
/// subtracted from the next: fifteen lower halves are above -15 * 2^51 > -2^55.
const SPARE: u64 = 1 << 55;

/// A product before folding: columns of weight 2^(52 i).
type Wide<V> = [V; 10];

/// The initial columns for `products` products: minus the constants in the bits of their halves, and of those in
/// [`fold`].
const fn begin<V: Vector>(products: u64) -> [u64; 10] {
    let mut begin = [0u64; 10];
    let mut k = 0;
    while k < 10 {
        // Column k has the lower halves of the products with i + j = k, and the upper halves of those with i + j = k -
        // 1.
        let mut lows = products * pairs_of(k);
        let mut highs = if k == 0 { 0 } else { products * pairs_of(k - 1) };
        let folded: [[u64; 2]; 5] = [[2, 0], [1, 2], [1, 1], [1, 1], [1, 1]];
        if k < 5 {
            (lows, highs) = (lows + folded[k][0], highs + folded[k][1]);
        }
        begin[k] = 0u64.wrapping_sub(lows.wrapping_mul(V::LOW)).wrapping_sub(highs.wrapping_mul(V::HIGH));
        if V::SIGNED && 5 <= k && k <= 8 {
            begin[k] = begin[k].wrapping_add(SPARE);
        }
        if V::SIGNED && 6 <= k {
            begin[k] = begin[k].wrapping_sub(SPARE >> 52);
        }
        k += 1;
    }
    begin
}

/// Number of pairs of limbs whose indexes sum to `k`.
const fn pairs_of(k: usize) -> u64 {
    (if k < 5 { k + 1 } else { 9 - k }) as u64
}

/// Columns with the given initial values.
#[inline(always)]
fn begun<V: Vector>(like: V, columns: [u64; 10]) -> Wide<V> {
    let mut wide = [like; 10];
    for i in 0..10 {
        wide[i] = like.splat(columns[i]);
    }
    wide
}

/// Adds the product of `a` and `b`. For each limb of `a`, six columns are touched at a time.
#[inline(always)]
fn add_elements<V: Vector>(wide: &mut Wide<V>, a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) {
    debug_assert!(a.is_valid() && b.is_valid());
    let a = a.factors();
    let b = b.factors();
    for i in 0..5 {
        V::add_products(wide, i, a[i], &b, 0);
    }
}

/// Adds the products of different limbs, each once.
#[inline(always)]
fn add_cross_products<V: Vector>(wide: &mut Wide<V>, f: &[V::Factor; 5]) {
    for i in 0..4 {
        V::add_products(wide, i, f[i], f, i + 1);
    }
}

/// Doubles columns `from` to `to`.
#[inline(always)]
fn double_columns<V: Vector>(wide: &mut Wide<V>, from: usize, to: usize) {
    for i in from..to {
        wide[i] = wide[i].plus(wide[i]);
    }
}

/// Adds the squares of limbs.
#[inline(always)]
fn add_squares<V: Vector>(wide: &mut Wide<V>, f: &[V::Factor; 5]) {
    for i in 0..5 {
        let mut low = wide[2 * i];
        let mut high = wide[2 * i + 1];
        V::add_product(&mut low, &mut high, f[i], f[i]);
        (wide[2 * i], wide[2 * i + 1]) = (low, high);
    }
}

/// Folds the upper columns into the lower ones; the part above limb 4, of weight 2^260, is returned separately.
///
/// A column of one product sums at most five lower halves (below 2^52, in magnitude 2^51 if they are signed) and four
/// upper ones (below 2^52), of three products thrice that: 27 numbers below 2^52. Limb 4 of each factor is below 2^50,
/// so column 9 is below 3 * 2^48 and receives a carry of less than 2^6: after carrying, columns 5 to 9 are below 2^52.
/// They are not negative either: they and the upper halves of column 4 sum only nonnegative numbers. The columns are
/// below (27 + 2) * 2^52 then, and the part above limb 4 is below 2^(52 + 37 - 52).
#[inline(always)]
fn bring_down<V: Vector>(mut t: Wide<V>) -> ([V; 5], V) {
    let zero = t[0].splat(0);
    let c16 = zero.splat(C << 4).factor();
    for i in 5..9 {
        debug_assert!(within(t[i], 0, 1 << 58), "what is shifted is not negative");
        t[i + 1] = t[i + 1].plus(t[i].down::<52>());
    }
    let [mut t0, mut t1, mut t2, mut t3, mut t4, t5, t6, t7, t8, t9] = t;
    debug_assert!(within(t9, 0, LIMB.cast_signed()), "nothing is left above column 9");
    V::add_product(&mut t0, &mut t1, t5.lowest_factor(), c16);
    V::add_product(&mut t1, &mut t2, t6.lowest_factor(), c16);
    V::add_product(&mut t2, &mut t3, t7.lowest_factor(), c16);
    V::add_product(&mut t3, &mut t4, t8.lowest_factor(), c16);
    let mut above = zero.splat(0u64.wrapping_sub(V::HIGH));
    V::add_product(&mut t4, &mut above, t9.factor(), c16);
    debug_assert!(within(above, 0, 1 << 37));
    ([t0, t1, t2, t3, t4], above)
}

/// Folds a product, without a carry.
///
/// The result's columns are below (27 + 3) * 2^52 < 2^57, those of a single product below 12 * 2^52; with signed lower
/// halves, above -17 * 2^51, of two products -12 * 2^51, of a single one -7 * 2^51 > -4 * 2^52.
#[inline(always)]
fn fold<V: Vector>(t: Wide<V>) -> Columns<V> {
    let ([mut t0, mut t1, t2, t3, t4], above) = bring_down(t);
    let c16 = t0.splat(C << 4).factor();
    V::add_product(&mut t0, &mut t1, above.factor(), c16);
    Columns::from_vectors([t0, t1, t2, t3, t4])
}

/// Folds a product of one pair and carries it: [`fold`] and [`Columns::carry`], in fewer steps if no column can be
/// negative.
///
/// Columns are below 11 * 2^52 before the last step. The part of limb 4 above 2^256 is below 2^8 and has the weight of
/// C, the part above limb 4 sixteen times that: together below 2^42, whose halves times C are below 2^52 and 2^23. So
/// columns are below 12 * 2^52, carries at most 12, and limb 4 ends below 2^48 + 12.
#[inline(always)]
fn fold_carried<V: Vector>(t: Wide<V>) -> Fe<V> {
    fold_loose(t).masked()
}

/// [`fold_carried`] for a value that is only multiplied.
#[inline(always)]
fn fold_loose<V: Vector>(t: Wide<V>) -> Loose<V> {
    if V::SIGNED {
        return fold(t).carry_loose();
    }
    let ([mut t0, mut t1, t2, t3, t4], above) = bring_down(t);
    debug_assert!(within(t4, 0, 11 << 52));
    let above = above.up::<4>().plus(t4.down::<48>());
    debug_assert!(within(above, 0, 1 << 42));
    let c = t0.splat(C).factor();
    V::add_product(&mut t0, &mut t1, above.factor(), c);
    let folded = [t0, t1, t2, t3, t4.and(t4.splat(TOP))];
    let folded = Loose::from_vectors(if V::MASKS { carried_up(folded) } else { carry_up(folded) });
    debug_assert!(folded.is_valid());
    folded
}

/// The product, not folded.
#[inline(always)]
fn mul_wide<V: Vector>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Wide<V> {
    let mut wide = begun(a.like(), const { begin::<V>(1) });
    add_elements(&mut wide, a, b);
    wide
}

/// The product, not carried.
#[inline(always)]
pub(super) fn mul_columns<V: Vector>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Columns<V> {
    a.like().call(
        #[inline(always)]
        || fold(mul_wide(a, b)),
    )
}

/// `a b + c d`, not carried; folded only once.
#[inline(always)]
pub(super) fn dot_columns<V: Vector>(
    a: &impl Multiplicand<V>,
    b: &impl Multiplicand<V>,
    c: &impl Multiplicand<V>,
    d: &impl Multiplicand<V>,
) -> Columns<V> {
    a.like().call(
        #[inline(always)]
        || {
            let mut wide = begun(a.like(), const { begin::<V>(2) });
            add_elements(&mut wide, a, b);
            add_elements(&mut wide, c, d);
            fold(wide)
        },
    )
}

/// The square, not folded: the products of different limbs are computed once and doubled, after their halves were
/// summed.
#[inline(always)]
fn square_wide<V: Vector>(a: &impl Multiplicand<V>) -> Wide<V> {
    debug_assert!(a.is_valid());
    let f = a.factors();
    let mut wide = begun(a.like(), const { begin_doubled::<V>(1, 1, 9) });
    add_cross_products(&mut wide, &f);
    double_columns(&mut wide, 1, 9);
    add_squares(&mut wide, &f);
    wide
}

/// `2 a b + c^2`, not carried; folded only once.
///
/// Its columns sum as many halves as those of three products.
#[inline(always)]
pub(super) fn twice_product_and_square_columns<V: Vector>(
    a: &impl Multiplicand<V>,
    b: &impl Multiplicand<V>,
    c: &impl Multiplicand<V>,
) -> Columns<V> {
    a.like().call(
        #[inline(always)]
        || {
            debug_assert!(c.is_valid());
            let f = c.factors();
            let mut wide = begun(a.like(), const { begin_doubled::<V>(3, 0, 10) });
            add_elements(&mut wide, a, b);
            add_cross_products(&mut wide, &f);
            double_columns(&mut wide, 0, 10);
            add_squares(&mut wide, &f);
            fold(wide)
        },
    )
}

/// The square, not carried.
#[inline(always)]
pub(super) fn square_columns<V: Vector>(a: &impl Multiplicand<V>) -> Columns<V> {
    a.like().call(
        #[inline(always)]
        || fold(square_wide(a)),
    )
}

/// [`begin`] for products whose columns `from` to `to` are doubled afterwards. All initial values of these columns are
/// even.
const fn begin_doubled<V: Vector>(products: u64, from: usize, to: usize) -> [u64; 10] {
    let mut columns = begin::<V>(products);
    let mut k = from;
    while k < to {
        assert!(columns[k] & 1 == 0);
        columns[k] >>= 1;
        k += 1;
    }
    columns
}

/// The product.
#[inline(always)]
pub(super) fn mul<V: Vector>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Fe<V> {
    a.like().call(
        #[inline(always)]
        || fold_carried(mul_wide(a, b)),
    )
}

/// The product, as an element that is only multiplied.
#[inline(always)]
pub(super) fn mul_loose<V: Vector>(a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) -> Loose<V> {
    a.like().call(
        #[inline(always)]
        || fold_loose(mul_wide(a, b)),
    )
}

/// The square.
#[inline(always)]
pub(super) fn square<V: Vector>(a: &impl Multiplicand<V>) -> Fe<V> {
    a.like().call(
        #[inline(always)]
        || fold_carried(square_wide(a)),
    )
}

/// The square, as an element that is only multiplied.
#[inline(always)]
pub(super) fn square_loose<V: Vector>(a: &impl Multiplicand<V>) -> Loose<V> {
    a.like().call(
        #[inline(always)]
        || fold_loose(square_wide(a)),
    )
}
