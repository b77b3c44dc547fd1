//! Many numbers inverted with a single inversion, in lanes (Montgomery's trick), and what it is for: sums of points with
//! z = 1.
//!
//! Numbers are multiplied up as they come, the product of all lanes is inverted, and on the way back each gives its
//! inverse: three products each. Two points with z = 1 want one inverse, of the difference of their x; their sum takes two
//! products and a square then, and has z = 1 again. Twice a point wants the inverse of twice its y, and takes one square more.
//!
//! Zero has no inverse, and with one zero the product is zero: [`Inversions::invert`] says so, and
//! [`Inversions::invert_others`] finds the lanes and leaves them out.
//!
//! Absent on purpose: what the numbers and points are.

use super::field::{Fe, mul, mul_columns, square_columns};
use super::point::{Flat, WAYS, Ways, each};
use super::reference::{Field, invert_all};
use super::vector::{LANES_MAX, Vector};

/// What the way back wants of a vector of numbers.
#[derive(Clone, Copy)]
struct Step<V> {
    number: Fe<V>,
    /// The product of those before.
    before: Fe<V>,
}

/// Numbers to invert: first all are put in, then all inverses are taken out, the last one first.
pub(super) struct Inversions<V> {
    steps: Vec<Ways<Step<V>>>,
    /// Of the steps, those that count.
    count: usize,
    /// The product of all numbers put in; while they are taken out, its inverse.
    product: Ways<Fe<V>>,
}

impl<V: Vector> Inversions<V> {
    pub(super) fn new(like: V) -> Inversions<V> {
        Inversions { steps: Vec::new(), count: 0, product: [Fe::small(like, 1); WAYS] }
    }

    /// Makes room for `count` pairs of vectors, and forgets all numbers.
    #[inline(always)]
    pub(super) fn begin(&mut self, count: usize) {
        let one = Fe::small(self.product[0].like(), 1);
        if self.steps.len() < count {
            self.steps.resize(count, [Step { number: one, before: one }; WAYS]);
        }
        (self.count, self.product) = (0, [one; WAYS]);
    }

    /// Puts numbers in.
    #[inline(always)]
    pub(super) fn put(&mut self, numbers: &Ways<Fe<V>>) {
        // Not pushed: a step has 1,280 bytes, which would be copied once more.
        let step = &mut self.steps[self.count];
        for way in 0..WAYS {
            step[way].number = numbers[way];
            step[way].before = self.product[way];
        }
        self.product = each!(i, mul(&self.product[i], &numbers[i]));
        self.count += 1;
    }

    /// Inverts; where numbers are zero it tells `zeros` their places and lanes, and inverts all others.
    #[inline(always)]
    pub(super) fn invert_others(&mut self, zeros: impl FnMut(usize, Ways<u8>)) {
        if !self.invert() {
            self.leave_out(zeros);
            assert!(self.invert(), "no product of numbers without zero is zero");
        }
    }

    /// Inverts; false, and nothing is done, where a number is zero.
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

    /// Makes one of each number that is zero, and tells `zeros` its place and lanes.
    #[inline(always)]
    fn leave_out(&mut self, mut zeros: impl FnMut(usize, Ways<u8>)) {
        let one = Fe::small(self.product[0].like(), 1);
        self.product = [one; WAYS];
        for (at, step) in self.steps[..self.count].iter_mut().enumerate() {
            let found = each!(i, step[i].number.is_zero());
            zeros(at, found);
            for way in 0..WAYS {
                step[way].number = one.where_else(found[way], &step[way].number);
                step[way].before = self.product[way];
            }
            self.product = each!(i, mul(&self.product[i], &step[i].number));
        }
    }

    /// The inverses of the numbers that were put in last and not taken yet.
    #[inline(always)]
    pub(super) fn take(&mut self) -> Ways<Fe<V>> {
        self.count -= 1;
        let step = &self.steps[self.count];
        let taken = each!(i, mul(&self.product[i], &step[i].before));
        self.product = each!(i, mul(&self.product[i], &step[i].number));
        taken
    }
}

/// The inverses in all lanes, by a single inversion; nothing where one is zero.
#[inline(always)]
fn inverses<V: Vector>(numbers: &Ways<Fe<V>>) -> Option<Ways<Fe<V>>> {
    // Both ways by one number a lane.
    let [a0, a1, a2, a3] = mul(&numbers[0], &numbers[1]).to_words();
    let like = a0;
    let mut rows = [[0; 8]; LANES_MAX];
    V::scatter([a0, a1, a2, a3, a0, a1, a2, a3], rows.each_mut());
    let mut all = [Field::ONE; LANES_MAX];
    for (number, &[a0, a1, a2, a3, ..]) in all.iter_mut().zip(&rows).take(V::LANES) {
        *number = Field::reduced([a0, a1, a2, a3]);
    }
    let all = &mut all[..V::LANES];
    if all.iter().any(|number| number.is_zero()) {
        return None;
    }
    invert_all(all);
    for (row, inverse) in rows.iter_mut().zip(all) {
        row[..4].copy_from_slice(&inverse.words());
    }
    let [a0, a1, a2, a3, ..] = like.gather(rows.each_ref());
    let inverse = Fe::from_words([a0, a1, a2, a3]);
    Some([mul(&inverse, &numbers[1]), mul(&inverse, &numbers[0])])
}

/// What [`sum`] wants the inverse of: zero where the points are equal or opposite.
#[inline(always)]
pub(super) fn difference<V: Vector>(a: &Flat<V>, b: &Flat<V>) -> Fe<V> {
    b.x.columns().minus(&a.x).carry()
}

/// The sum of different points that are not opposite, where `inverse` is 1 / (b.x - a.x).
///
/// With k = (b.y - a.y) / (b.x - a.x): x3 = k^2 - a.x - b.x, y3 = k (a.x - x3) - a.y.
/// Bounds of what is carried, in units of 2^52 (a product is below 12, an element below 1): -2 to 2 for b.y - a.y, -2 to 12
/// for x3, -1 to 1 for a.x - x3, -1 to 13 for y3. Where lower halves are signed a product may be as low as -4: -6 and -5.
#[inline(always)]
pub(super) fn sum<V: Vector>(a: &Flat<V>, b: &Flat<V>, inverse: &Fe<V>) -> Flat<V> {
    let a_y = a.y.columns().negative_where(a.negative);
    let height = b.y.columns().negative_where(b.negative).minus_columns(a_y).carry();
    let slope = mul(&height, inverse);
    let x = square_columns(&slope).minus(&a.x).minus(&b.x).carry();
    let back = a.x.columns().minus(&x).carry();
    Flat { x, y: mul_columns(&slope, &back).minus_columns(a_y).carry(), negative: 0 }
}

/// What [`doubled`] wants the inverse of.
#[inline(always)]
pub(super) fn twice_y<V: Vector>(a: &Flat<V>) -> Fe<V> {
    a.y.columns().twice().carry()
}

/// Twice the point, where `inverse` is 1 / (2 y). The point has its own y.
///
/// With k = 3 x^2 / (2 y): x3 = k^2 - 2 x, y3 = k (x - x3) - y. Bounds: 36 for 3 x^2, the others as in [`sum`].
#[inline(always)]
pub(super) fn doubled<V: Vector>(a: &Flat<V>, inverse: &Fe<V>) -> Flat<V> {
    debug_assert!(a.negative == 0, "a sum has its own y");
    let slope = mul(&square_columns(&a.x).thrice().carry(), inverse);
    let x = square_columns(&slope).minus(&a.x).minus(&a.x).carry();
    let back = a.x.columns().minus(&x).carry();
    Flat { x, y: mul_columns(&slope, &back).minus(&a.y).carry(), negative: 0 }
}
