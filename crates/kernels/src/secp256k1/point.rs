//! Points in lanes, in interleaved vectors to hide instruction latency.
//!
//! A point is (x / z^2, y / z^3) (Jacobian coordinates). The formulas are incomplete on purpose: they do not detect the
//! exceptional cases. Each of those ends with z = 0, and stays there:
//!
//! - The sum of a point and itself, or its negative: h = 0, and z3 = z h, or 2 z h.
//! - Any addition to z = 0: z3 = z h.
//! - Doubling z = 0: z3 = 2 y z, or y z. (No point of the curve has y = 0: its order is odd.)
//!
//! So a result with nonzero z met no exceptional case and is exact. A result with z = 0 is unknown.

use super::field::{Columns, Fe, Loose, Multiplicand};
use super::products::{
    dot_columns, mul, mul_columns, mul_loose, square, square_columns, square_loose, twice_product_and_square_columns,
};
use super::vector::Vector;

/// Number of interleaved vectors.
pub(super) const WAYS: usize = 2;

/// One value for each of [`WAYS`] vectors.
pub(super) type Ways<T> = [T; WAYS];

/// Evaluates an expression for each of the interleaved vectors.
macro_rules! each {
    ($way:ident, $value:expr) => {
        [
            {
                let $way = 0usize;
                $value
            },
            {
                let $way = 1usize;
                $value
            },
        ]
    };
}
pub(super) use each;

/// [`each`] with a [`Vector::fence`] after each vector.
macro_rules! in_turn {
    ($way:ident, $value:expr) => {
        each!($way, {
            let value = $value;
            V::fence();
            value
        })
    };
}
pub(super) use in_turn;

/// Points in Jacobian coordinates, one a lane.
#[derive(Clone, Copy)]
pub(super) struct Point<V> {
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
    pub(super) z: Fe<V>,
}

/// Points with z = 1, one a lane; of another curve if the caller that makes them documents it.
#[derive(Clone, Copy)]
pub(super) struct Flat<V> {
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
    /// The lanes in which the point is negated.
    pub(super) negative: u8,
}

/// One of a point's coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Axis {
    X,
    Y,
}

/// A coordinate of points with z = 1.
#[derive(Clone, Copy)]
pub(super) struct Coordinate<V> {
    pub(super) number: Fe<V>,
    /// The lanes in which y is negated; x has no sign.
    pub(super) negative: u8,
}

impl<V: Vector> Flat<V> {
    #[inline(always)]
    pub(super) fn coordinate(&self, axis: Axis) -> Coordinate<V> {
        let number = match axis {
            Axis::X => self.x,
            Axis::Y => self.y,
        };
        Coordinate { number, negative: self.negative }
    }
}

/// Doubles each point: 3 products, 4 squares.
///
/// With b = y^2, d = 4 x b, e = 3 x^2: x3 = e^2 - 2 d, y3 = e (d - x3) - 8 b^2, z3 = 2 y z. Bounds of the values
/// carried, in units of 2^52 (a product is below 12, an element below 1): 36 for e, 24 for z3, -96 to 12 for x3 and y3,
/// -1 to 48 for d - x3; d itself is not carried. With signed lower halves a product may also be as low as -4, and 4 d
/// as low as -16: then the bounds are -12, -8, -100 to 44 and -17.
///
/// The order is chosen so that dependent steps have an independent one in between.
pub(super) fn double<V: Vector>(p: &mut Ways<Point<V>>) {
    p[0].x.like().run(
        #[inline(always)]
        || doubled(p),
    );
}

/// See [`double`].
#[inline(always)]
fn doubled<V: Vector>(p: &mut Ways<Point<V>>) {
    let e = each!(i, square_columns(&p[i].x).thrice().carry());
    let b = each!(i, square(&p[i].y));
    let z = each!(i, mul_columns(&p[i].y, &p[i].z).twice().carry());
    let d = each!(i, mul_columns(&p[i].x, &b[i]).shifted::<2>());
    let c = each!(i, square_columns(&b[i]).shifted::<3>());
    let x = each!(i, square_columns(&e[i]).minus_columns(d[i].twice()).carry());
    let f = each!(i, d[i].minus(&x[i]).carry());
    let y = each!(i, mul_columns(&e[i], &f[i]).minus_columns(c[i]).carry());
    *p = each!(i, Point { x: x[i], y: y[i], z: z[i] });
}

/// Points of a ladder: (2 x / z^2, y / z^3). With half of x a doubling takes fewer steps, see [`double_times`].
#[derive(Clone, Copy)]
pub(super) struct Rung<V> {
    /// Half of the x of [`Point`].
    pub(super) x: Loose<V>,
    pub(super) y: Loose<V>,
    pub(super) z: Loose<V>,
}

impl<V: Vector> Rung<V> {
    /// A point with z = 1, which is also (4 x, 8 y, 2).
    #[inline(always)]
    pub(super) fn new(point: &Flat<V>) -> Rung<V> {
        debug_assert!(point.negative == 0, "sums have their own y");
        let x = point.x.columns().twice().carry_loose();
        let y = point.y.columns().shifted::<3>().carry_loose();
        Rung { x, y, z: Fe::small(point.x.like(), 2).loose() }
    }

    /// The point.
    #[inline(always)]
    pub(super) fn point(&self) -> Point<V> {
        Point { x: self.x.masked().columns().twice().carry(), y: self.y.masked(), z: self.z.masked() }
    }
}

/// Doubles the point `times` times, at least once: 3 products, 4 squares each, one of the squares summed with a
/// product.
///
/// With m = 3 x^2, b = y^2, d = 2 x b, where x is half of the point's: x3 = 2 m^2 - d, y3 = 2 m (d - 2 x3) - b^2, z3 =
/// y z. The last doubling returns the full x3, twice the half. Source of the formulas with z3 = y z: libsecp256k1,
/// `group_impl.h`. Bounds of the values carried, in units of 2^52 (see [`double`]): 36 for m, -24 to 24 for x3 and -48
/// to 48 for the last, -72 to 48 for 2 x3 - d, -30 to 0 for y3; d itself is not carried, 0 to 24. With signed lower
/// halves -12 is the lowest of m, and the others are -32 to 32, -64 to 64, -88 to 72, -30 to 9 and -8 to 24.
#[inline(always)]
pub(super) fn double_times<V: Vector>(p: &Rung<V>, times: usize) -> Point<V> {
    let mut p = *p;
    for _ in 1..times {
        let begun = begun(&p);
        let x = begun.x.carry_loose();
        let z = mul_loose(&p.y, &p.z);
        p = Rung { x, y: begun.y().carry_loose(), z };
    }
    let begun = begun(&p);
    let x = begun.x.twice().carry();
    let z = mul(&p.y, &p.z);
    Point { x, y: begun.y().carry(), z }
}

/// A doubling up to its x, and the values from which y is computed.
struct Begun<V> {
    x: Columns<V>,
    m: Loose<V>,
    b: Loose<V>,
    /// 2 x3 - d.
    f: Loose<V>,
}

impl<V: Vector> Begun<V> {
    #[inline(always)]
    fn y(&self) -> Columns<V> {
        twice_product_and_square_columns(&self.m, &self.f, &self.b).negative()
    }
}

/// See [`double_times`].
///
/// The order is chosen so that each carried number is followed by a product or a square that does not depend on it.
#[inline(always)]
fn begun<V: Vector>(p: &Rung<V>) -> Begun<V> {
    let m = square_columns(&p.x).thrice().carry_loose();
    let b = square_loose(&p.y);
    let mm = square_columns(&m).twice();
    let d = mul_columns(&p.x, &b).twice();
    let x = mm.minus_columns(d);
    Begun { x, m, b, f: x.twice().minus_columns(d).carry_loose() }
}

/// The sums with points of the same curve: 7 products, 4 squares.
///
/// With u = q.x z^2, s = q.y z^3, h = u - x, r = s - y, v = x h^2, the sum is r^2 - h^3 - 2 v, r (v - x3) - y h^3, z h.
/// Times 4, 8 and 2, and the first of them halved: x3 = 2 r^2 - 2 h^3 - 4 v, y3 = 4 (r (2 v - x3) - y 2 h^3), z3 = (z +
/// h)^2 - z^2 - h^2. Bounds of the values carried, in units of 2^52: -1 to 12 for h, -13 to 12 for r, 2 for z + h, -2
/// to 12 for z3, -24 to 0 for -2 h^3, -48 to 25 for x3, -25 to 72 for 2 v - x3, 0 to 84 for y3; v itself is not
/// carried. With signed lower halves: -5, -17, -6, 8, -56 to 41, -49 to 80 and -48.
#[inline(always)]
pub(super) fn add<V: Vector>(p: &Ways<Point<V>>, q: &Ways<Flat<V>>) -> Ways<Rung<V>> {
    let zz = in_turn!(i, square(&p[i].z));
    let h = in_turn!(i, mul_columns(&q[i].x, &zz[i]).minus(&p[i].x).carry());
    let zzz = in_turn!(i, mul_loose(&p[i].z, &zz[i]));
    let hh = in_turn!(i, square(&h[i]));
    let r = in_turn!(i, mul_columns(&q[i].y, &zzz[i]).negative_where(q[i].negative).minus(&p[i].y).carry_loose());
    let minus_hhh = in_turn!(i, mul_columns(&h[i], &hh[i]).twice().negative().carry());
    let xf = in_turn!(i, {
        let v = mul_columns(&p[i].x, &hh[i]).twice();
        V::fence();
        let x = square_columns(&r[i]).twice().plus(&minus_hhh[i]).minus_columns(v.twice());
        (x.carry_loose(), v.minus_columns(x).carry_loose())
    });
    let z = in_turn!(i, {
        let zh = p[i].z.columns().plus(&h[i]).carry_loose();
        square_columns(&zh).minus(&zz[i]).minus(&hh[i]).carry_loose()
    });
    let y = in_turn!(i, dot_columns(&r[i], &xf[i].1, &p[i].y, &minus_hhh[i]).shifted::<2>().carry_loose());
    let x = each!(i, xf[i].0);
    each!(i, Rung { x: x[i], y: y[i], z: z[i] })
}

/// Doubles each sum `times` times, at least once, and adds the other points.
///
/// Sums are doubled one vector after another: interleaved, their numbers do not fit into registers, and for lanes with
/// IFMA a spilled number costs as much as seven products of limbs. They are added interleaved, because an addition has
/// too many dependent steps.
pub(super) fn climb<V: Vector>(sums: &mut Ways<Rung<V>>, times: usize, others: &Ways<Flat<V>>) {
    sums[0].x.like().run(
        #[inline(always)]
        || *sums = add(&in_turn!(i, double_times(&sums[i], times)), others),
    );
}
