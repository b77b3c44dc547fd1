//! Points in lanes, two vectors of them side by side: what one waits for fills the other's time.
//!
//! A point is (x / z^2, y / z^3) (Jacobian coordinates). The formulas are incomplete, on purpose: they do not see the
//! cases that need others. Each of those ends with z = 0, and stays there:
//!
//! - The sum of a point and itself, or its negative: h = 0, and z3 = z h.
//! - Whatever is added to z = 0: z3 = z h.
//! - Doubling z = 0: z3 = 2 y z. (No point of the curve has y = 0: its order is odd.)
//! - The same sum where both have the same z ([`add_beside`]): h = 0, too.
//!
//! So where z is not zero in the end, no case was met, and the result is exact. Where it is, nothing is known.

use super::field::{Fe, dot_columns, mul, mul_columns, square, square_columns};
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

/// Adds, and returns the factors from each old z to the new one: 8 products, 3 squares.
///
/// `scale` is z, or where `q` lies on another curve than `p`, z times what leads from the one to the other: see
/// [`super::ladder`].
/// With u = q.x scale^2, s = q.y scale^3, h = u - x, r = s - y, v = x h^2:
/// x3 = r^2 - h^3 - 2 v, y3 = r (v - x3) - y h^3, z3 = z h.
/// Bounds of what is carried, in units of 2^52: -1 to 12 for h, -13 to 12 for r, -12 to 0 for -h^3, -24 to 13 for x3, -1 to
/// 12 for v - x3, 0 to 21 for y3; v itself is not carried. Where lower halves are signed, -5, -17, -16, -28, -5 and -12 are the
/// lowest, and 21 the highest.
pub(super) fn add<V: Vector>(p: &mut Ways<Point<V>>, scale: &Ways<Fe<V>>, q: &Ways<Flat<V>>) -> Ways<Fe<V>> {
    p[0].x.like().run(
        #[inline(always)]
        || added(p, scale, q),
    )
}

/// See [`add`].
#[inline(always)]
fn added<V: Vector>(p: &mut Ways<Point<V>>, scale: &Ways<Fe<V>>, q: &Ways<Flat<V>>) -> Ways<Fe<V>> {
    let zz = each!(i, square(&scale[i]));
    let zzz = each!(i, mul(&scale[i], &zz[i]));
    let h = each!(i, mul_columns(&q[i].x, &zz[i]).minus(&p[i].x).carry());
    let r = each!(i, mul_columns(&q[i].y, &zzz[i]).negative_where(q[i].negative).minus(&p[i].y).carry());
    let hh = each!(i, square(&h[i]));
    let z = each!(i, mul(&p[i].z, &h[i]));
    let v = each!(i, mul_columns(&p[i].x, &hh[i]));
    let minus_hhh = each!(i, mul_columns(&h[i], &hh[i]).negative_where(V::ALL).carry());
    let x = each!(i, square_columns(&r[i]).plus(&minus_hhh[i]).minus_columns(v[i].twice()).carry());
    let f = each!(i, v[i].minus(&x[i]).carry());
    let y = each!(i, dot_columns(&r[i], &f[i], &p[i].y, &minus_hhh[i]).carry());
    *p = each!(i, Point { x: x[i], y: y[i], z: z[i] });
    h
}

/// Adds `step` to each point, where both have the same z: 4 products, 2 squares. `step` stays what it is, and gets the z of
/// the sum. Returns the factors from the old z to the new one; z itself is not there.
///
/// With h = x - x1, r = y - y1, w1 = x1 h^2, w = x h^2 (x1 and y1 of the step): x3 = r^2 - w1 - w,
/// y3 = r (w1 - x3) - y1 h^3, z3 = z h; the step is (w1, y1 h^3) then.
/// Source: N. Meloni, "New Point Addition Formulae for ECC Applications".
/// Bounds of what is carried, in units of 2^52: -1 to 1 for h, r and w1 - x3, -13 to 12 for x3, -1 to 12 for w - w1 and y3; w
/// itself is not carried. Where lower halves are signed, -17 and -5 are the lowest, and 16 is the highest.
pub(super) fn add_beside<V: Vector>(p: &mut Ways<[Fe<V>; 2]>, step: &mut Ways<[Fe<V>; 2]>) -> Ways<Fe<V>> {
    p[0][0].like().run(
        #[inline(always)]
        || added_beside(p, step),
    )
}

/// See [`add_beside`].
#[inline(always)]
fn added_beside<V: Vector>(p: &mut Ways<[Fe<V>; 2]>, step: &mut Ways<[Fe<V>; 2]>) -> Ways<Fe<V>> {
    let h = each!(i, p[i][0].columns().minus(&step[i][0]).carry());
    let r = each!(i, p[i][1].columns().minus(&step[i][1]).carry());
    let hh = each!(i, square(&h[i]));
    let w1 = each!(i, mul(&step[i][0], &hh[i]));
    let w = each!(i, mul_columns(&p[i][0], &hh[i]));
    let x = each!(i, square_columns(&r[i]).minus(&w1[i]).minus_columns(w[i]).carry());
    let hhh = each!(i, w[i].minus(&w1[i]).carry());
    let y1 = each!(i, mul(&step[i][1], &hhh[i]));
    let f = each!(i, w1[i].columns().minus(&x[i]).carry());
    let y = each!(i, mul_columns(&r[i], &f[i]).minus(&y1[i]).carry());
    *step = each!(i, [w1[i], y1[i]]);
    *p = each!(i, [x[i], y[i]]);
    h
}
