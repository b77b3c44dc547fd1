//! The field in vector lanes: an element a lane, each in five limbs of 52 bits, over any kind of [`Vector`].
//!
//! Layout: vector `i` of an element holds the lanes' limb `i`, of weight 2^(52 i).
//! Invariant of [`Fe`]: limbs 0 to 3 are below 2^52, limb 4 is below 2^50. So an element is below 2^258, not reduced, and
//! what multiplies (numbers below 2^52) takes it as it is.
//! [`Columns`] are sums that were not carried yet: signed limbs of up to 60 bits, on which sums, differences and small
//! multiples cost one instruction a limb. [`Columns::carry`] makes an element of them again; one carry for a whole
//! expression. What each operation adds is bounded where it stands, and asserted.
//!
//! Loops over limbs count from one number to another, because those are unrolled: over iterators, which are not, a signature
//! takes twice as long with AVX-512.
//!
//! Folding: the prime is 2^256 - C with C = 2^32 + 977, so that 2^256 is C and 2^260 is 16 C.

#![expect(clippy::needless_range_loop, reason = "iterators are not unrolled: see above")]

#[cfg(test)]
use super::vector::LANES_MAX;
use super::vector::{C, CALLS, Vector};

/// Bits of a limb.
pub(super) const LIMB: u64 = (1 << 52) - 1;
/// Bits of the highest limb that are below 2^256.
pub(super) const TOP: u64 = (1 << 48) - 1;
/// The number of primes that [`Columns::carry`] adds, so that what was negative becomes positive: limb 4 of the columns is
/// above -2^59, and 2^59 is 2^11 times 2^48.
const PRIMES_ADDED: u64 = 1 << 11;
/// Where lower halves may be negative, the upper columns of a product are begun with this much more, and what it carries
/// is taken from the next: fifteen lower halves are above -15 * 2^51 > -2^55.
const SPARE: u64 = 1 << 55;

/// Elements of the field, one in each lane.
#[derive(Clone, Copy)]
pub(super) struct Fe<V>([V; 5]);

/// Elements that are only multiplied. Where instructions that multiply look at the lowest 52 bits alone ([`Vector::MASKS`])
/// limbs 0 to 3 keep what was carried out of them, which saves an instruction a limb.
///
/// Invariant: as [`Fe`], where of limbs 0 to 3 those bits alone count.
#[derive(Clone, Copy)]
pub(super) struct Loose<V>([V; 5]);

/// What can be multiplied: [`Fe`] and [`Loose`].
pub(super) trait Multiplicand<V: Vector>: Copy {
    /// A vector of it, to make others of.
    fn like(&self) -> V;

    /// The limbs, to multiply.
    fn factors(&self) -> [V::Factor; 5];

    /// The limbs' bounds hold in every lane.
    fn is_valid(&self) -> bool;
}

/// Sums of multiples of elements that were not carried yet.
///
/// Invariant: limbs 0 to 3 lie within 2^60 of zero, limb 4 within -2^59 and 2^60.
#[derive(Clone, Copy)]
pub(super) struct Columns<V>([V; 5]);

/// A product before it is folded: columns of weight 2^(52 i).
type Wide<V> = [V; 10];

/// What the columns of `products` products are begun with: less what the bits of their halves, and of those in [`fold`],
/// have beside them.
const fn begin<V: Vector>(products: u64) -> [u64; 10] {
    let mut begin = [0u64; 10];
    let mut k = 0;
    while k < 10 {
        // Column k has the lower halves of the pairs with i + j = k, and the upper ones of those with i + j = k - 1.
        let (mut lows, mut highs) = (products * pairs_of(k), if k == 0 { 0 } else { products * pairs_of(k - 1) });
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

/// Pairs of limbs whose places sum to `k`.
const fn pairs_of(k: usize) -> u64 {
    (if k < 5 { k + 1 } else { 9 - k }) as u64
}

/// Columns to add products to.
#[inline(always)]
fn begun<V: Vector>(like: V, columns: [u64; 10]) -> Wide<V> {
    let mut wide = [like; 10];
    for i in 0..10 {
        wide[i] = like.splat(columns[i]);
    }
    wide
}

/// Adds the product of `a` and `b`. With one limb of `a` after the other, six columns are touched at a time.
#[inline(always)]
fn add_elements<V: Vector>(wide: &mut Wide<V>, a: &impl Multiplicand<V>, b: &impl Multiplicand<V>) {
    debug_assert!(a.is_valid() && b.is_valid());
    let (a, b) = (a.factors(), b.factors());
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
        let (mut low, mut high) = (wide[2 * i], wide[2 * i + 1]);
        V::add_product(&mut low, &mut high, f[i], f[i]);
        (wide[2 * i], wide[2 * i + 1]) = (low, high);
    }
}

/// Brings the upper columns down; what is then above limb 4, of weight 2^260, comes beside.
///
/// A column of one product sums at most five lower halves (below 2^52, in magnitude 2^51 where they are signed) and four
/// upper ones (below 2^52), of three products thrice that: 27 numbers below 2^52. Limb 4 of each factor is below 2^50,
/// so column 9 is below 3 * 2^48 and takes a carry of less than 2^6: after carrying, columns 5 to 9 are below 2^52. They
/// are not negative either: they and the upper halves of column 4 sum numbers of which none is.
/// The columns are below (27 + 2) * 2^52 then, and what is above limb 4 below 2^(52 + 37 - 52).
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

/// Folds a product, which is not carried then.
///
/// The result's columns are below (27 + 3) * 2^52 < 2^57, those of a single product below 12 * 2^52; where lower halves
/// are signed, above -17 * 2^51, of two products -12 * 2^51, of a single one -7 * 2^51 > -4 * 2^52.
#[inline(always)]
fn fold<V: Vector>(t: Wide<V>) -> Columns<V> {
    let ([mut t0, mut t1, t2, t3, t4], above) = bring_down(t);
    let c16 = t0.splat(C << 4).factor();
    V::add_product(&mut t0, &mut t1, above.factor(), c16);
    Columns([t0, t1, t2, t3, t4])
}

/// Folds a product of one pair and carries it: as [`fold`] and [`Columns::carry`], in fewer steps where no column can be
/// negative.
///
/// Columns are below 11 * 2^52 before the last step. What limb 4 has above 2^256 is below 2^8 and has the weight of C, what
/// is above limb 4 sixteen times that: together below 2^42, whose halves times C are below 2^52 and 2^23. So columns are
/// below 12 * 2^52, carries at most 12, and limb 4 ends below 2^48 + 12.
#[inline(always)]
fn fold_carried<V: Vector>(t: Wide<V>) -> Fe<V> {
    fold_loose(t).masked()
}

/// As [`fold_carried`], to multiply.
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
    let folded = Loose(if V::MASKS { carried_up(folded) } else { carry_up(folded) });
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

/// `a b + c d`, not carried; folded once.
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

/// The square, not folded: the products of different limbs are made once and doubled, when their halves were summed.
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

/// `2 a b + c^2`, not carried; folded once.
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

/// As [`begin`], where columns `from` to `to` are doubled on the way. All their numbers are even.
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

/// The product, to multiply.
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

/// The square, to multiply.
#[inline(always)]
pub(super) fn square_loose<V: Vector>(a: &impl Multiplicand<V>) -> Loose<V> {
    a.like().call(
        #[inline(always)]
        || fold_loose(square_wide(a)),
    )
}

impl<V: Vector> Columns<V> {
    /// Carries, and folds what is above bit 256.
    ///
    /// The prime is added [`PRIMES_ADDED`] times, so that limb 4 is positive and below 2^61; `above` is then between 0 and
    /// 2^13. Limb 4 keeps 48 bits and gets bit 48 back (`above` is folded one less), so that a negative carry from below,
    /// which is more than -2^9, cannot make it negative. In the end limb 4 is between 2^48 - 2^9 and 2^49 + 2^9.
    #[inline(always)]
    pub(super) fn carry(self) -> Fe<V> {
        self.carry_loose().masked()
    }

    /// As [`Columns::carry`], to multiply.
    #[inline(always)]
    pub(super) fn carry_loose(self) -> Loose<V> {
        if !CALLS {
            return self.carried();
        }
        self.0[0].call(
            #[inline(always)]
            || self.carried(),
        )
    }

    /// See [`Columns::carry`].
    #[inline(always)]
    fn carried(self) -> Loose<V> {
        debug_assert!(self.is_valid());
        let mut t = self.0;
        let like = t[0];
        let (bias, back) = (V::CARRY_BIAS, V::CARRY_BIAS >> 52);
        let top = t[4].plus(like.splat(PRIMES_ADDED << 48));
        let above = top.down::<48>();
        t[4] = top.and(like.splat(TOP));
        // Bit 48 is not set: where nothing is taken back both steps are one instruction on some processors.
        t[4] = if bias == 0 { t[4].or(like.splat(TOP + 1)) } else { t[4].plus(like.splat(TOP + 1 - back)) };
        t[0] = t[0].plus(like.splat(bias.wrapping_sub((PRIMES_ADDED + 1) * C)));
        t[0] = t[0].plus_c_times(above);
        for i in 0..4 {
            if i > 0 && bias != 0 {
                t[i] = t[i].plus(like.splat(bias - back));
            }
            t[i + 1] = t[i + 1].plus(t[i].carried());
            if !V::MASKS {
                t[i] = t[i].and(like.splat(LIMB));
            }
        }
        let carried = Loose(t);
        debug_assert!(carried.is_valid());
        carried
    }

    #[inline(always)]
    pub(super) fn plus(mut self, other: &Fe<V>) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].plus(other.0[i]);
        }
        self
    }

    #[inline(always)]
    pub(super) fn minus(mut self, other: &Fe<V>) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].minus(other.0[i]);
        }
        self
    }

    #[inline(always)]
    pub(super) fn minus_columns(self, other: Columns<V>) -> Columns<V> {
        self.minus(&Fe(other.0))
    }

    /// Times two.
    #[inline(always)]
    pub(super) fn twice(mut self) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].plus(self.0[i]);
        }
        self
    }

    /// Times three.
    #[inline(always)]
    pub(super) fn thrice(mut self) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].plus(self.0[i].plus(self.0[i]));
        }
        self
    }

    /// Times two to the power of `POWER`.
    #[inline(always)]
    pub(super) fn shifted<const POWER: u32>(mut self) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].up::<POWER>();
        }
        self
    }

    /// The negative.
    #[inline(always)]
    pub(super) fn negative(mut self) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].splat(0).minus(self.0[i]);
        }
        self
    }

    /// The negative in the lanes of `mask`.
    #[inline(always)]
    pub(super) fn negative_where(mut self, mask: u8) -> Columns<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].negative_where(mask);
        }
        self
    }

    /// The limbs' bounds hold in every lane.
    #[inline(always)]
    fn is_valid(&self) -> bool {
        let [t0, t1, t2, t3, t4] = self.0;
        let low = within(t0, -1 << 60, 1 << 60) && within(t1, -1 << 60, 1 << 60);
        low && within(t2, -1 << 60, 1 << 60) && within(t3, -1 << 60, 1 << 60) && within(t4, -1 << 59, 1 << 60)
    }
}

impl<V: Vector> Fe<V> {
    /// A small number in all lanes.
    #[inline(always)]
    pub(super) fn small(like: V, number: u32) -> Fe<V> {
        let zero = like.splat(0);
        Fe([like.splat(u64::from(number)), zero, zero, zero, zero])
    }

    /// The same, to multiply.
    #[inline(always)]
    pub(super) fn loose(self) -> Loose<V> {
        Loose(self.0)
    }

    /// As columns, to add to.
    #[inline(always)]
    pub(super) fn columns(self) -> Columns<V> {
        Columns(self.0)
    }

    /// In the lanes of `mask` this one, in the others `other`.
    #[inline(always)]
    pub(super) fn where_else(mut self, mask: u8, other: &Fe<V>) -> Fe<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].where_else(mask, other.0[i]);
        }
        self
    }

    /// The same numbers, below the prime.
    #[inline(always)]
    pub(super) fn reduced(self) -> Fe<V> {
        self.0[0].call(
            #[inline(always)]
            || self.less_the_prime(),
        )
    }

    /// See [`Fe::reduced`].
    #[inline(always)]
    fn less_the_prime(self) -> Fe<V> {
        // Below 2^258: at most three times 2^256 are folded, which leaves less than 2^256 + 3 C, less than twice the prime.
        let mut t = self.0;
        let like = t[0];
        let above = t[4].down::<48>();
        t[4] = t[4].and(like.splat(TOP));
        t[0] = t[0].plus_c_times(above);
        let once = carry_up(t);
        // Not below the prime is what reaches 2^256 when C is added; less 2^256 it is then less the prime.
        let mut less = once;
        less[0] = less[0].plus(like.splat(C));
        less = carry_up(less);
        let reaches = less[4].above(TOP.cast_signed());
        less[4] = less[4].and(like.splat(TOP));
        Fe(less).where_else(reaches, &Fe(once))
    }

    /// The lanes that hold zero.
    #[inline(always)]
    pub(super) fn is_zero(self) -> u8 {
        let r = self.reduced().0;
        r[0].or(r[1]).or(r[2].or(r[3])).or(r[4]).zeros()
    }

    /// The lanes where both are the same number.
    #[inline(always)]
    pub(super) fn equals(self, other: &Fe<V>) -> u8 {
        self.columns().minus(other).carry().is_zero()
    }

    /// The lanes that hold an odd number.
    #[inline(always)]
    pub(super) fn is_odd(self) -> u8 {
        let lowest = self.reduced().0[0];
        lowest.and(lowest.splat(1)).zeros() ^ V::ALL
    }

    /// In the lanes of `mask` the negative.
    #[inline(always)]
    pub(super) fn negative_where(self, mask: u8) -> Fe<V> {
        self.columns().negative_where(mask).carry()
    }

    /// Its limbs.
    #[inline(always)]
    pub(super) fn vectors(self) -> [V; 5] {
        self.0
    }

    /// An element of limbs that keep the invariant.
    #[inline(always)]
    pub(super) fn from_vectors(limbs: [V; 5]) -> Fe<V> {
        Fe(limbs)
    }

    /// An element with these limbs.
    #[cfg(test)]
    pub(super) fn from_limbs(like: V, limbs: &[[u64; LANES_MAX]; 5]) -> Fe<V> {
        Fe(limbs.each_ref().map(|limb| like.load(limb)))
    }

    /// Its limbs.
    #[cfg(test)]
    pub(super) fn limbs(self) -> [[u64; LANES_MAX]; 5] {
        self.0.map(V::store)
    }
}

impl<V: Vector> Multiplicand<V> for Fe<V> {
    #[inline(always)]
    fn like(&self) -> V {
        self.0[0]
    }

    #[inline(always)]
    fn factors(&self) -> [V::Factor; 5] {
        self.loose().factors()
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        let [l0, l1, l2, l3, l4] = self.0;
        let limb = LIMB.cast_signed();
        let low = within(l0, 0, limb) && within(l1, 0, limb) && within(l2, 0, limb) && within(l3, 0, limb);
        low && within(l4, 0, limb >> 2)
    }
}

impl<V: Vector> Loose<V> {
    /// The same numbers, to add and to look at, too.
    #[inline(always)]
    pub(super) fn masked(mut self) -> Fe<V> {
        if V::MASKS {
            for i in 0..4 {
                self.0[i] = self.0[i].and(self.0[i].splat(LIMB));
            }
        }
        Fe(self.0)
    }
}

impl<V: Vector> Multiplicand<V> for Loose<V> {
    #[inline(always)]
    fn like(&self) -> V {
        self.0[0]
    }

    #[inline(always)]
    fn factors(&self) -> [V::Factor; 5] {
        let [a, b, c, d, e] = self.0;
        [a.factor(), b.factor(), c.factor(), d.factor(), e.factor()]
    }

    #[inline(always)]
    fn is_valid(&self) -> bool {
        self.masked().is_valid()
    }
}

/// Every lane is at least `low` and at most `high`, as a signed number.
#[inline(always)]
fn within<V: Vector>(vector: V, low: i64, high: i64) -> bool {
    vector.above(high) == 0 && vector.above(low - 1) == V::ALL
}

/// Carries limbs that are not negative; limb 4 takes what comes.
#[inline(always)]
pub(super) fn carry_up<V: Vector>(t: [V; 5]) -> [V; 5] {
    let mut t = carried_up(t);
    for i in 0..4 {
        t[i] = t[i].and(t[i].splat(LIMB));
    }
    t
}

/// The same, where limbs keep what was carried out of them.
#[inline(always)]
fn carried_up<V: Vector>(mut t: [V; 5]) -> [V; 5] {
    for i in 0..4 {
        t[i + 1] = t[i + 1].plus(t[i].down::<52>());
    }
    t
}
