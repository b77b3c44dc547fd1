//! Points in lanes, two vectors of them side by side: what one waits for fills the other's time.
//!
//! A point is (x / z^2, y / z^3) (Jacobian coordinates). The formulas are incomplete, on purpose: they do not see the
//! cases that need others. Each of those ends with z = 0, and stays there:
//!
//! - The sum of a point and itself, or its negative: h = 0, and z3 = z h, or 2 z h.
//! - Whatever is added to z = 0: z3 = z h.
//! - Doubling z = 0: z3 = 2 y z, or y z. (No point of the curve has y = 0: its order is odd.)
//!
//! So where z is not zero in the end, no case was met, and the result is exact. Where it is, nothing is known.

use super::field::{Columns, Fe, dot_columns, mul, mul_columns, square, square_columns};
use super::vector::Vector;

/// Vectors side by side.
pub(super) const WAYS: usize = 2;

/// One value for each of [`WAYS`] vectors.
pub(super) type Ways<T> = [T; WAYS];

/// Evaluates an expression for each way.
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

/// Points in Jacobian coordinates, one a lane.
#[derive(Clone, Copy)]
pub(super) struct Point<V> {
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
    pub(super) z: Fe<V>,
}

/// Points with z = 1, one a lane; of another curve where whoever makes them says so.
#[derive(Clone, Copy)]
pub(super) struct Flat<V> {
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
    /// The lanes where the negative is meant.
    pub(super) negative: u8,
}

/// Doubles each point: 3 products, 4 squares.
///
/// With b = y^2, d = 4 x b, e = 3 x^2: x3 = e^2 - 2 d, y3 = e (d - x3) - 8 b^2, z3 = 2 y z.
/// Bounds of what is carried, in units of 2^52 (a product is below 12, an element below 1): 36 for e, 24 for z3, -96 to 12 for
/// x3 and y3, -1 to 48 for d - x3; d itself is not carried. Where lower halves are signed a product may be as low as -4, too,
/// and 4 d as low as -16, which makes it -12, -8, -100 to 44 and -17.
///
/// The order is such that what waits for the step before has another step in between.
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
    /// Half of what [`Point`] has.
    pub(super) x: Fe<V>,
    pub(super) y: Fe<V>,
    pub(super) z: Fe<V>,
}

impl<V: Vector> Rung<V> {
    /// A point with z = 1, which is (4 x, 8 y, 2) too.
    #[inline(always)]
    pub(super) fn new(point: &Flat<V>) -> Rung<V> {
        debug_assert!(point.negative == 0, "sums have their own y");
        let (x, y) = (point.x.columns().twice().carry(), point.y.columns().shifted::<3>().carry());
        Rung { x, y, z: Fe::small(x.like(), 2) }
    }

    /// The point.
    #[inline(always)]
    pub(super) fn point(&self) -> Point<V> {
        Point { x: self.x.columns().twice().carry(), y: self.y, z: self.z }
    }
}

/// Doubles each point `times` times, at least once: 2 products, 5 squares each.
///
/// With m = 3 x^2, b = y^2, d = (x + b)^2 - x^2 - b^2 = 2 x b, where x is half of the point's: x3 = 2 m^2 - d,
/// y3 = 2 m (d - 2 x3) - b^2, z3 = y z. The last one's x3 is whole, twice that.
/// Where lanes multiply with IFMA their time is that of its instructions, and all others fit beside them: a square has 42 of
/// them, a product 62, so that one more sum and carry for a square in the place of a product is a gain.
/// Source of the formulas with z3 = y z: libsecp256k1, `group_impl.h`; of d: D. J. Bernstein, T. Lange, Explicit-Formulas
/// Database, dbl-2009-l.
/// Bounds of what is carried, in units of 2^52 (see [`double`]): 2 for x + b, 36 for m, -12 to 48 for x3 and -24 to 96 for the
/// last, -24 to 52 for 4 x3 - 2 d, -24 to 0 for y3; d itself is not carried, -24 to 12. Where lower halves are signed, -12 is
/// the lowest of m, and the others are -28 to 52, -56 to 104, -40 to 60, -24 to 8 and -28 to 20.
pub(super) fn double_times<V: Vector>(p: &Ways<Rung<V>>, times: usize) -> Ways<Point<V>> {
    p[0].x.like().run(
        #[inline(always)]
        || {
            let mut p = *p;
            for _ in 1..times {
                let begun = begun(&p);
                let x = each!(i, begun[i].x3.carry());
                let f = each!(i, x[i].columns().twice().minus_columns(begun[i].d).twice().carry());
                p = each!(i, Rung { x: x[i], y: begun[i].y3(&f[i]), z: begun[i].z });
            }
            let begun = begun(&p);
            let x = each!(i, begun[i].x3.twice().carry());
            let f = each!(i, x[i].columns().minus_columns(begun[i].d).twice().carry());
            each!(i, Point { x: x[i], y: begun[i].y3(&f[i]), z: begun[i].z })
        },
    )
}

/// A doubling up to its x.
#[derive(Clone, Copy)]
struct Begun<V> {
    m: Fe<V>,
    d: Columns<V>,
    /// b^2.
    bb: Columns<V>,
    /// 2 m^2 - d.
    x3: Columns<V>,
    z: Fe<V>,
}

impl<V: Vector> Begun<V> {
    /// From 2 (2 x3 - d).
    #[inline(always)]
    fn y3(&self, f: &Fe<V>) -> Fe<V> {
        mul_columns(&self.m, f).plus_columns(self.bb).negative().carry()
    }
}

#[inline(always)]
fn begun<V: Vector>(p: &Ways<Rung<V>>) -> Ways<Begun<V>> {
    let xx = each!(i, square_columns(&p[i].x));
    let b = each!(i, square(&p[i].y));
    let m = each!(i, xx[i].thrice().carry());
    let xb = each!(i, p[i].x.columns().plus(&b[i]).carry());
    let bb = each!(i, square_columns(&b[i]));
    let z = each!(i, mul(&p[i].y, &p[i].z));
    let d = each!(i, square_columns(&xb[i]).minus_columns(xx[i]).minus_columns(bb[i]));
    let x3 = each!(i, square_columns(&m[i]).twice().minus_columns(d[i]));
    each!(i, Begun { m: m[i], d: d[i], bb: bb[i], x3: x3[i], z: z[i] })
}

/// The sums with points of the same curve: 7 products, 4 squares.
///
/// With u = q.x z^2, s = q.y z^3, h = u - x, r = s - y, v = x h^2, the sum is r^2 - h^3 - 2 v, r (v - x3) - y h^3, z h.
/// Times 4, 8 and 2, and the first of them halved: x3 = 2 r^2 - 2 h^3 - 4 v, y3 = 4 (r (2 v - x3) - y 2 h^3),
/// z3 = (z + h)^2 - z^2 - h^2.
/// Bounds of what is carried, in units of 2^52: -1 to 12 for h, -13 to 12 for r, 2 for z + h, -2 to 12 for z3, -24 to 0 for
/// -2 h^3, -48 to 25 for x3, -1 to 24 for 2 v - x3, 0 to 84 for y3; v itself is not carried. Where lower halves are signed -5,
/// -17, -6, 8, -56 to 41, -9 and -48.
pub(super) fn add<V: Vector>(p: &Ways<Point<V>>, q: &Ways<Flat<V>>) -> Ways<Rung<V>> {
    p[0].x.like().run(
        #[inline(always)]
        || added(p, q),
    )
}

/// See [`add`].
#[inline(always)]
fn added<V: Vector>(p: &Ways<Point<V>>, q: &Ways<Flat<V>>) -> Ways<Rung<V>> {
    let zz = each!(i, square(&p[i].z));
    let zzz = each!(i, mul(&p[i].z, &zz[i]));
    let h = each!(i, mul_columns(&q[i].x, &zz[i]).minus(&p[i].x).carry());
    let r = each!(i, mul_columns(&q[i].y, &zzz[i]).negative_where(q[i].negative).minus(&p[i].y).carry());
    let hh = each!(i, square(&h[i]));
    let zh = each!(i, p[i].z.columns().plus(&h[i]).carry());
    let z = each!(i, square_columns(&zh[i]).minus(&zz[i]).minus(&hh[i]).carry());
    let v = each!(i, mul_columns(&p[i].x, &hh[i]).twice());
    let minus_hhh = each!(i, mul_columns(&h[i], &hh[i]).twice().negative().carry());
    let x = each!(i, square_columns(&r[i]).twice().plus(&minus_hhh[i]).minus_columns(v[i].twice()).carry());
    let f = each!(i, v[i].minus(&x[i]).carry());
    let y = each!(i, dot_columns(&r[i], &f[i], &p[i].y, &minus_hhh[i]).shifted::<2>().carry());
    each!(i, Rung { x: x[i], y: y[i], z: z[i] })
}
