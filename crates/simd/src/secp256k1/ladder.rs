//! `u1 G + u2 P` in lanes: one ladder of doublings, digits of all scalars added as they come by.
//!
//! The table of a key's odd multiples has points with z = 1, without an inversion: they lie on another curve, which is
//! ours stretched. For any z, (x, y) -> (x z^2, y z^3) leads from ours to y^2 = x^3 + 7 z^6; the formulas for sums and
//! doublings do not contain the 7. A point (X, Y, Z) there is (X, Y, Z z) here, in Jacobian coordinates. So all multiples
//! are brought to the same z, and z is given to the result in the end.
//! The generator's points are of our curve: there [`add`] takes `Z z` for its scale.

use super::digits::{BASE_BITS, BASE_WINDOWS, Digits, KEY_BITS, KEY_WINDOWS, Recoded};
use super::field::{Fe, mul, square};
use super::point::{Flat, Point, WAYS, Ways, add, double, each};
use super::tables::{BASES, look_up};
use super::vector::{LANES_MAX, Vector};

/// Odd multiples in a key's table.
const MULTIPLES: usize = 1 << (KEY_BITS - 1);

/// lambda (x, y) = (beta x, y). Source: libsecp256k1, `group_impl.h`.
pub(super) const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// One cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Odd multiples 1, 3, .. of the keys of a vector, on the stretched curve: lane, multiple, two lines.
///
/// Lines: limbs of x and the three lowest of y; the two highest of y and the limbs of beta x, which with the same y is
/// lambda times the multiple. Of a lane only the lines are touched that its digits name: with tables in lanes, where every
/// place is compared and blended, a signature takes 5 % longer.
type KeyTable = [[[Line; 2]; MULTIPLES]; LANES_MAX];

/// Memory for the keys' tables, and for making them.
pub(super) struct Room<V> {
    tables: Box<Ways<KeyTable>>,
    points: Vec<Ways<Point<V>>>,
    /// From each point's z to the next one's.
    ratios: Vec<Ways<Fe<V>>>,
}

impl<V: Vector> Room<V> {
    pub(super) fn new() -> Room<V> {
        let tables = Box::new([[[[Line([0; 8]); 2]; MULTIPLES]; LANES_MAX]; WAYS]);
        Room { tables, points: Vec::with_capacity(MULTIPLES), ratios: Vec::with_capacity(MULTIPLES) }
    }

    /// Makes the tables, and returns how far each way's curve is stretched.
    #[inline(always)]
    fn fill(&mut self, keys: &Ways<[Fe<V>; 2]>) -> Ways<Fe<V>> {
        let one = Fe::small(keys[0][0].like(), 1);
        let mut twice = each!(i, Point { x: keys[i][0], y: keys[i][1], z: one });
        double(&mut twice);
        // On the curve that is stretched by twice.z, 2 P has z = 1.
        let step = each!(i, Flat { x: twice[i].x, y: twice[i].y, negative: 0 });
        let zz = each!(i, square(&twice[i].z));
        let zzz = each!(i, mul(&zz[i], &twice[i].z));
        let mut point = each!(i, Point { x: mul(&keys[i][0], &zz[i]), y: mul(&keys[i][1], &zzz[i]), z: one });
        self.points.clear();
        self.ratios.clear();
        self.points.push(point);
        for _ in 1..MULTIPLES {
            let z = each!(i, point[i].z);
            self.ratios.push(add(&mut point, &z, &step));
            self.points.push(point);
        }
        self.stretch(one);
        each!(i, mul(&point[i].z, &twice[i].z))
    }

    /// Brings all multiples to the z of the last, and writes the tables.
    #[inline(always)]
    fn stretch(&mut self, one: Fe<V>) {
        let beta = Fe::splat(one.like(), BETA);
        let mut factor = [one; WAYS];
        for (at, points) in self.points.iter().enumerate().rev() {
            let [mut x, mut y] = [each!(i, points[i].x), each!(i, points[i].y)];
            if let Some(ratios) = self.ratios.get(at) {
                factor = each!(i, mul(&factor[i], &ratios[i]));
                let squared = each!(i, square(&factor[i]));
                x = each!(i, mul(&x[i], &squared[i]));
                let cubed = each!(i, mul(&squared[i], &factor[i]));
                y = each!(i, mul(&y[i], &cubed[i]));
            }
            let x_lambda = each!(i, mul(&x[i], &beta));
            for (way, table) in self.tables.iter_mut().enumerate() {
                write(table, at, x[way], x_lambda[way], y[way]);
            }
        }
    }
}

/// Writes a multiple into each lane's lines.
#[inline(always)]
fn write<V: Vector>(table: &mut KeyTable, at: usize, x: Fe<V>, x_lambda: Fe<V>, y: Fe<V>) {
    let (like, [x, l, y]) = (x.like(), [x.vectors(), x_lambda.vectors(), y.vectors()]);
    V::scatter([x[0], x[1], x[2], x[3], x[4], y[0], y[1], y[2]], lines(table, at, 0));
    V::scatter([y[3], y[4], l[0], l[1], l[2], l[3], l[4], like.splat(0)], lines(table, at, 1));
}

/// A line of each lane.
#[inline(always)]
fn lines(table: &mut KeyTable, at: usize, line: usize) -> [&mut [u64; 8]; LANES_MAX] {
    let [a, b, c, d, e, f, g, h] = table;
    let [a, b, c, d] = [&mut a[at][line].0, &mut b[at][line].0, &mut c[at][line].0, &mut d[at][line].0];
    [a, b, c, d, &mut e[at][line].0, &mut f[at][line].0, &mut g[at][line].0, &mut h[at][line].0]
}

/// The multiples at the lanes' places, or lambda times them.
#[inline(always)]
fn multiples<V: Vector>(like: V, table: &KeyTable, digits: &Digits, lambda: bool) -> Flat<V> {
    let (mut first, mut second) = ([&table[0][0][0].0; LANES_MAX], [&table[0][0][1].0; LANES_MAX]);
    for lane in 0..V::LANES {
        let [Line(one), Line(two)] = &table[lane][usize::from(digits.places[lane]) % MULTIPLES];
        (first[lane], second[lane]) = (one, two);
    }
    let ([x0, x1, x2, x3, x4, y0, y1, y2], [y3, y4, l0, l1, l2, l3, l4, _]) = (like.gather(first), like.gather(second));
    let x = if lambda { [l0, l1, l2, l3, l4] } else { [x0, x1, x2, x3, x4] };
    Flat { x: Fe::from_vectors(x), y: Fe::from_vectors([y0, y1, y2, y3, y4]), negative: digits.negative }
}

/// The sums of the lanes' multiples of the generator and of their keys (x and y).
///
/// Where z is zero nothing is known (see [`super::point`]); so it is, too, where the key is no point of the curve and yet
/// z is not zero: whoever calls has to look.
#[inline(always)]
pub(super) fn sums<V: Vector>(keys: &Ways<[Fe<V>; 2]>, digits: &Ways<Recoded>, room: &mut Room<V>) -> Ways<Point<V>> {
    let like = keys[0][0].like();
    let bases = &*BASES;
    let stretch = room.fill(keys);
    let tables = &room.tables;
    let last = KEY_WINDOWS - 1;
    let first = each!(i, multiples(like, &tables[i], &digits[i].key[0][last], false));
    let mut sum =
        each!(i, Point { x: first[i].x, y: first[i].y.negative_where(first[i].negative), z: Fe::small(like, 1) });
    for bit in (0..=last * KEY_BITS).rev() {
        if bit != last * KEY_BITS {
            double(&mut sum);
        }
        if bit % KEY_BITS == 0 {
            let window = bit / KEY_BITS;
            for half in usize::from(window == last)..2 {
                let multiple = each!(i, multiples(like, &tables[i], &digits[i].key[half][window], half == 1));
                let z = each!(i, sum[i].z);
                add(&mut sum, &z, &multiple);
            }
        }
        if bit % BASE_BITS == 0 && bit / BASE_BITS < BASE_WINDOWS {
            for (half, base) in bases.iter().enumerate() {
                let multiple = each!(i, look_up(like, base, &digits[i].base[half][bit / BASE_BITS]));
                let scale = each!(i, mul(&sum[i].z, &stretch[i]));
                add(&mut sum, &scale, &multiple);
            }
        }
    }
    each!(i, Point { z: mul(&sum[i].z, &stretch[i]), ..sum[i] })
}
