//! Many inverses in lanes by a single inversion (Montgomery's trick), and their use: sums of points with z = 1.
//!
//! Numbers are multiplied as they are added, the product of all lanes is inverted, and the inverses are computed in
//! reverse order: three products each. A sum of two points with z = 1 needs one inverse, of the difference of their x,
//! and then two products and a square; the sum has z = 1 again. Doubling a point needs the inverse of twice its y, and
//! one more square.
//!
//! Zero has no inverse, and a single zero makes the product zero: then [`Inversions::invert`] returns false, and
//! [`Inversions::invert_others`] finds the lanes and leaves them out.
//!
//! Absent on purpose: the meaning of the numbers and points.

use super::field::{Columns, Fe, Loose, Multiplicand};
use super::point::{Axis, Coordinate, WAYS, Ways, each, in_turn};
use super::products::{mul, mul_columns, mul_loose, square_columns};
use super::reference::Field;
use super::vector::{LANES_MAX, Vector};

/// Prefetch distance, in pairs.
const AHEAD: usize = 3;

/// The values of a vector of numbers that the reverse pass needs.
#[derive(Clone, Copy)]
struct Step<V> {
    number: Loose<V>,
    /// The product of those before it.
    before: Loose<V>,
}

/// Numbers to invert: first all are added, then all inverses are taken, the last one first.
pub(super) struct Inversions<V> {
    steps: Vec<Ways<Step<V>>>,
    /// Number of steps in use.
    count: usize,
    /// The product of all added numbers; while inverses are taken, the inverse of that product.
    product: Ways<Loose<V>>,
}

impl<V: Vector> Inversions<V> {
    pub(super) fn new(like: V) -> Inversions<V> {
        Inversions { steps: Vec::new(), count: 0, product: [Fe::small(like, 1).loose(); WAYS] }
    }

    /// A vector, from which others of the same kind can be made.
    pub(super) fn like(&self) -> V {
        self.product[0].like()
    }

    /// Reserves room for `count` pairs of vectors, and removes all numbers.
    #[inline(always)]
    pub(super) fn begin(&mut self, count: usize) {
        let one = Fe::small(self.product[0].like(), 1).loose();
        if self.steps.len() < count {
            self.steps.resize(count, [Step { number: one, before: one }; WAYS]);
        }
        (self.count, self.product) = (0, [one; WAYS]);
    }

    /// Adds numbers.
    #[inline(always)]
    pub(super) fn put(&mut self, numbers: &Ways<Fe<V>>) {
        // Written in place, because a step has 1,280 bytes, which `push` would copy once more.
        let step = &mut self.steps[self.count];
        for way in 0..WAYS {
            step[way].number = numbers[way].loose();
            step[way].before = self.product[way];
        }
        self.product = each!(i, mul_loose(&self.product[i], &numbers[i]));
        self.count += 1;
    }

    /// Inverts. Passes the places and lanes of zeros to `zeros`, and inverts all other numbers.
    #[inline(always)]
    pub(super) fn invert_others(&mut self, zeros: impl FnMut(usize, Ways<u8>)) {
        if !self.invert() {
            self.leave_out(zeros);
            assert!(self.invert(), "no product of numbers without zero is zero");
        }
    }

    /// Inverts; if a number is zero, does nothing and returns false.
    #[inline(always)]
    pub(super) fn invert(&mut self) -> bool {
        match inverses(&self.product) {
            Some(inverse) => {
                self.product = inverse;
                true
            }
            None => false,
        }
    }

    /// Replaces each zero by one, and passes its place and lanes to `zeros`.
    #[inline(always)]
    fn leave_out(&mut self, mut zeros: impl FnMut(usize, Ways<u8>)) {
        let one = Fe::small(self.product[0].like(), 1);
        self.product = [one.loose(); WAYS];
        for (at, step) in self.steps[..self.count].iter_mut().enumerate() {
            let found = each!(i, step[i].number.masked().is_zero());
            zeros(at, found);
            for way in 0..WAYS {
                step[way].number = one.where_else(found[way], &step[way].number.masked()).loose();
                step[way].before = self.product[way];
            }
            self.product = each!(i, mul_loose(&self.product[i], &step[i].number));
        }
    }

    /// The inverses of the last numbers added and not yet taken.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Ways<Loose<V>> {
        self.count -= 1;
        let step = &self.steps[self.count];
        let taken = each!(i, mul_loose(&self.product[i], &step[i].before));
        self.product = each!(i, mul_loose(&self.product[i], &step[i].number));
        taken
    }

    /// The sums of `count` pairs of points with z = 1, one pair of vectors after another, by one inversion.
    ///
    /// `ask` prefetches the data of number `at`, if it exists. `pair` returns a coordinate of both points of number
    /// `at` of vector `way`. `is_double` returns whether number `at` is a doubling; then the two points are the same.
    /// `zeros` receives the lanes with equal or opposite points, which have no valid sum. `put` receives the sums'
    /// coordinates, the last ones first.
    ///
    /// Dependent steps are interleaved with independent ones: look-ups with products that do not use them, and in the
    /// reverse pass the products for the next inverses with the steps of a sum.
    #[inline(always)]
    pub(super) fn add_pairs(
        &mut self,
        count: usize,
        ask: impl Fn(usize),
        pair: impl Fn(usize, usize, Axis) -> [Coordinate<V>; 2],
        is_double: impl Fn(usize) -> bool,
        zeros: impl FnMut(usize, Ways<u8>),
        mut put: impl FnMut(usize, usize, Axis, &Fe<V>),
    ) {
        self.begin(count);
        let mut product = self.product;
        let mut numbers = product;
        for at in 0..=count {
            ask(at + AHEAD);
            in_turn!(i, {
                if at > 0 {
                    self.steps[at - 1][i] = Step { number: numbers[i], before: product[i] };
                    product[i] = mul_loose(&product[i], &numbers[i]);
                }
                if at < count {
                    numbers[i] = if is_double(at) {
                        twice_y(&pair(at, i, Axis::Y)[0])
                    } else {
                        let [a, b] = pair(at, i, Axis::X);
                        difference(&a, &b)
                    };
                }
            });
        }
        (self.count, self.product) = (count, product);
        self.invert_others(zeros);

        let Some(last) = count.checked_sub(1) else { return };
        let mut product = self.product;
        let mut inverse = each!(i, mul_loose(&product[i], &self.steps[last][i].before));
        for at in (0..count).rev() {
            let step = &self.steps[at];
            let before = &self.steps[at.saturating_sub(1)];
            let is_double = is_double(at);
            let from = in_turn!(i, {
                let [a, b] = pair(at, i, Axis::Y);
                let rise = if is_double { double_rise(&pair(at, i, Axis::X)[0]) } else { rise(&a, &b) };
                (a, mul_loose(&rise, &inverse[i]))
            });
            product = in_turn!(i, mul_loose(&product[i], &step[i].number));
            let square = in_turn!(i, square_columns(&from[i].1));
            let xs = in_turn!(i, {
                let [a, b] = pair(at, i, Axis::X);
                inverse[i] = mul_loose(&product[i], &before[i].before);
                sum_x(square[i], &a, &b)
            });
            in_turn!(i, {
                put(at, i, Axis::X, &xs[i].0);
                let (a, slope) = &from[i];
                put(at, i, Axis::Y, &sum_y(slope, &xs[i].1, a));
            });
        }
    }
}

/// The inverses in all lanes, by a single inversion; `None` if a number is zero.
///
/// Not inlined: otherwise a caller with several calls becomes too long, and takes 4 % more time.
#[inline(never)]
fn inverses<V: Vector>(numbers: &Ways<Loose<V>>) -> Option<Ways<Loose<V>>> {
    numbers[0].like().run(
        #[inline(always)]
        || inverses_of_lanes(numbers),
    )
}

/// See [`inverses`]. Applies the reverse pass to lanes: the product of all other lanes is computed before the inverse
/// is available.
#[inline(always)]
fn inverses_of_lanes<V: Vector>([one, other]: &Ways<Loose<V>>) -> Option<Ways<Loose<V>>> {
    // In lane i: the product of lanes i to i + distance, and that of these except the first.
    let mut all = mul(one, other);
    let mut others = None;
    let mut distance = 1;
    while distance < V::LANES {
        let further = turned(&all, distance);
        others = Some(if let Some(others) = others { mul(&others, &further) } else { further });
        all = mul(&all, &further);
        distance *= 2;
    }
    let product = Field::reduced(rows_of(&all)[0]);
    if product.is_zero() {
        return None;
    }
    let mut inverse = Fe::splat(all.like(), product.inverse().words());
    if let Some(others) = others {
        inverse = mul(&others, &inverse);
    }
    Some([mul_loose(&inverse, other), mul_loose(&inverse, one)])
}

/// Rotates lanes: each lane gets the number `distance` lanes further on, wrapping to the first ones.
#[inline(always)]
fn turned<V: Vector>(numbers: &Fe<V>, distance: usize) -> Fe<V> {
    let rows = rows_of(numbers);
    let mut further = [&rows[0]; LANES_MAX];
    for lane in 0..V::LANES {
        further[lane] = &rows[(lane + distance) % V::LANES];
    }
    Fe::from_words(numbers.like().gather(further))
}

/// The lanes' numbers, below 2^256.
#[inline(always)]
fn rows_of<V: Vector>(numbers: &Fe<V>) -> [[u64; 4]; LANES_MAX] {
    let mut rows = [[0; 4]; LANES_MAX];
    V::scatter(numbers.to_words(), rows.each_mut());
    rows
}

/// The number whose inverse the sum of two points needs: zero if they are equal or opposite.
#[inline(always)]
pub(super) fn difference<V: Vector>(a: &Coordinate<V>, b: &Coordinate<V>) -> Loose<V> {
    b.number.columns().minus(&a.number).carry_loose()
}

/// The number whose inverse the doubling of a point needs. The sign of its y is included.
#[inline(always)]
pub(super) fn twice_y<V: Vector>(a: &Coordinate<V>) -> Loose<V> {
    debug_assert!(a.negative == 0, "what is doubled has its own y");
    a.number.columns().twice().carry_loose()
}

/// The y with its sign.
#[inline(always)]
fn own_y<V: Vector>(a: &Coordinate<V>) -> Columns<V> {
    a.number.columns().negative_where(a.negative)
}

/// The slope of the line through two points, times [`difference`].
#[inline(always)]
pub(super) fn rise<V: Vector>(a: &Coordinate<V>, b: &Coordinate<V>) -> Loose<V> {
    own_y(b).minus_columns(own_y(a)).carry_loose()
}

/// The slope of the tangent in a point, times [`twice_y`].
#[inline(always)]
pub(super) fn double_rise<V: Vector>(a: &Coordinate<V>) -> Loose<V> {
    square_columns(&a.number).thrice().carry_loose()
}

/// The sum's x, from the square of the slope k, and its distance from the first point's: k^2 - a.x - b.x, and a.x - x.
///
/// Bounds of the values carried, in units of 2^52 (a product is below 12, an element below 1): -2 to 2 for [`rise`], 36
/// for [`double_rise`], -2 to 12 for x, -1 to 1 for a.x - x, -1 to 13 for [`sum_y`]. With signed lower halves a product
/// may be as low as -4: -6 for x, -5 for y.
#[inline(always)]
pub(super) fn sum_x<V: Vector>(slope_square: Columns<V>, a: &Coordinate<V>, b: &Coordinate<V>) -> (Fe<V>, Loose<V>) {
    let x = slope_square.minus(&a.number).minus(&b.number).carry();
    (x, a.number.columns().minus(&x).carry_loose())
}

/// The sum's y: k (a.x - x) - a.y.
#[inline(always)]
pub(super) fn sum_y<V: Vector>(slope: &Loose<V>, back: &Loose<V>, a: &Coordinate<V>) -> Fe<V> {
    mul_columns(slope, back).minus_columns(own_y(a)).carry()
}
