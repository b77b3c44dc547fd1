//! The field in vector lanes: one element a lane, in five limbs of 52 bits, over any kind of [`Vector`].
//!
//! Layout: vector `i` of an element holds the lanes' limb `i`, of weight 2^(52 i). Invariant of [`Fe`]: limbs 0 to 3
//! are below 2^52, limb 4 is below 2^50. So an element is below 2^258, not reduced, and can be multiplied without
//! conversion (factors are below 2^52). [`Columns`] are sums not yet carried: signed limbs of up to 60 bits, on which
//! sums, differences and small multiples cost one instruction a limb. [`Columns::carry`] turns them into an element
//! again; one carry is enough for a whole expression. The bounds of each operation are documented at the operation, and
//! asserted. [`super::products`] computes columns.
//!
//! Loops over limbs use index ranges, because those are unrolled: with iterators, which are not, a signature takes
//! twice as long with AVX-512.

#![expect(clippy::needless_range_loop, reason = "iterators are not unrolled: see above")]

#[cfg(test)]
use super::vector::LANES_MAX;
use super::vector::{C, CALLS, Vector};

/// Bits of a limb.
pub(super) const LIMB: u64 = (1 << 52) - 1;
/// Bits of the highest limb that are below 2^256.
pub(super) const TOP: u64 = (1 << 48) - 1;
/// The number of primes that [`Columns::carry`] adds, so that negative values become positive: limb 4 of the columns is
/// above -2^59, and 2^59 is 2^11 times 2^48.
const PRIMES_ADDED: u64 = 1 << 11;

/// Elements of the field, one in each lane.
#[derive(Clone, Copy)]
pub(super) struct Fe<V>([V; 5]);

/// Elements that are only multiplied. If multiplication uses only the lowest 52 bits ([`Vector::MASKS`]), limbs 0 to 3
/// keep the bits that were carried out of them, which saves an instruction a limb.
///
/// Invariant: as for [`Fe`], with only the lowest 52 bits of limbs 0 to 3.
#[derive(Clone, Copy)]
pub(super) struct Loose<V>([V; 5]);

/// A factor of products: [`Fe`] and [`Loose`].
pub(super) trait Multiplicand<V: Vector>: Copy {
    /// One of its vectors, from which others of the same kind can be made.
    fn like(&self) -> V;

    /// The limbs, as factors.
    fn factors(&self) -> [V::Factor; 5];

    /// Whether the limbs' bounds hold in every lane.
    fn is_valid(&self) -> bool;
}

/// Sums of multiples of elements, not yet carried.
///
/// Invariant: limbs 0 to 3 are within 2^60 of zero, limb 4 is between -2^59 and 2^60.
#[derive(Clone, Copy)]
pub(super) struct Columns<V>([V; 5]);

impl<V: Vector> Columns<V> {
    /// Columns of limbs that satisfy the invariant.
    #[inline(always)]
    pub(super) fn from_vectors(limbs: [V; 5]) -> Columns<V> {
        Columns(limbs)
    }

    /// Carries, and folds the bits above bit 256.
    ///
    /// The prime is added [`PRIMES_ADDED`] times, so that limb 4 is positive and below 2^61; `above` is then between 0
    /// and 2^13. Limb 4 keeps 48 bits and gets bit 48 back (`above` is folded one less), so that a negative carry from
    /// below, which is more than -2^9, cannot make it negative. In the end limb 4 is between 2^48 - 2^9 and 2^49 + 2^9.
    #[inline(always)]
    pub(super) fn carry(self) -> Fe<V> {
        self.carry_loose().masked()
    }

    /// [`Columns::carry`] for a value that is only multiplied.
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
        let bias = V::CARRY_BIAS;
        let back = V::CARRY_BIAS >> 52;
        let top = t[4].plus(like.splat(PRIMES_ADDED << 48));
        let above = top.down::<48>();
        t[4] = top.and(like.splat(TOP));
        // Bit 48 is clear. If there is no bias to subtract, both steps are one instruction on some processors.
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

    /// Multiplies by 2^`POWER`.
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

    /// Whether the limbs' bounds hold in every lane.
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

    /// The same numbers, for multiplication only.
    #[inline(always)]
    pub(super) fn loose(self) -> Loose<V> {
        Loose(self.0)
    }

    /// The element as columns, for sums.
    #[inline(always)]
    pub(super) fn columns(self) -> Columns<V> {
        Columns(self.0)
    }

    /// `self` in the lanes of `mask`, `other` in the remaining lanes.
    #[inline(always)]
    pub(super) fn where_else(mut self, mask: u8, other: &Fe<V>) -> Fe<V> {
        for i in 0..5 {
            self.0[i] = self.0[i].where_else(mask, other.0[i]);
        }
        self
    }

    /// The numbers reduced below the prime.
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
        // Below 2^258: at most three times 2^256 are folded, which leaves less than 2^256 + 3 C, less than twice the
        // prime.
        let mut t = self.0;
        let like = t[0];
        let above = t[4].down::<48>();
        t[4] = t[4].and(like.splat(TOP));
        t[0] = t[0].plus_c_times(above);
        let once = carry_up(t);
        // A number is not below the prime if adding C reaches 2^256; removing 2^256 then subtracts the prime.
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

    /// The lanes in which both numbers are equal.
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

    /// The negative in the lanes of `mask`.
    #[inline(always)]
    pub(super) fn negative_where(self, mask: u8) -> Fe<V> {
        self.columns().negative_where(mask).carry()
    }

    /// Its limbs.
    #[inline(always)]
    pub(super) fn vectors(self) -> [V; 5] {
        self.0
    }

    /// An element of limbs that satisfy the invariant.
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
    /// An element of limbs that satisfy the invariant.
    #[inline(always)]
    pub(super) fn from_vectors(limbs: [V; 5]) -> Loose<V> {
        Loose(limbs)
    }

    /// The same numbers, usable for operations other than multiplication too.
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

/// Whether every lane is at least `low` and at most `high`, as a signed number.
#[inline(always)]
pub(super) fn within<V: Vector>(vector: V, low: i64, high: i64) -> bool {
    vector.above(high) == 0 && vector.above(low - 1) == V::ALL
}

/// Carries limbs that are not negative; limb 4 receives the last carry.
#[inline(always)]
pub(super) fn carry_up<V: Vector>(t: [V; 5]) -> [V; 5] {
    let mut t = carried_up(t);
    for i in 0..4 {
        t[i] = t[i].and(t[i].splat(LIMB));
    }
    t
}

/// [`carry_up`] for limbs that keep the bits that were carried out of them.
#[inline(always)]
pub(super) fn carried_up<V: Vector>(mut t: [V; 5]) -> [V; 5] {
    for i in 0..4 {
        t[i + 1] = t[i + 1].plus(t[i].down::<52>());
    }
    t
}
