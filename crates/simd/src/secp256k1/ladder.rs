//! `u1 G + u2 P` in lanes: one ladder of doublings, digits of all scalars added as they come by.
//!
//! The table of a key's odd multiples has points with z = 1, without an inversion: they lie on another curve, which is
//! ours stretched. For any z, (x, y) -> (x z^2, y z^3) leads from ours to y^2 = x^3 + 7 z^6; the formulas for sums and
//! doublings do not contain the 7. A point (X, Y, Z) there is (X, Y, Z z) here, in Jacobian coordinates. So all multiples
//! are brought to the same z, and z is given to the result in the end.
//! The generator's points are of our curve: there [`add`] takes `Z z` for its scale.

use super::digits::{BASE_BITS, BASE_WINDOWS, KEY_BITS, KEY_WINDOWS, Recoded};
use super::field::{Fe, mul, square};
use super::point::{Flat, Point, WAYS, Ways, add, double, each};
use super::tables::{BASES, look_up};
use std::arch::x86_64::*;

/// Odd multiples in a key's table.
const MULTIPLES: usize = 1 << (KEY_BITS - 1);

/// lambda (x, y) = (beta x, y). Source: libsecp256k1, `group_impl.h`.
pub(super) const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// An odd multiple of the lanes' keys, on the stretched curve.
#[derive(Clone, Copy)]
#[repr(C)]
struct Multiple {
    x: Fe,
    /// beta times x: lambda times the point.
    x_lambda: Fe,
    y: Fe,
}

/// Odd multiples 1, 3, .. of the lanes' keys.
struct KeyTable([Multiple; MULTIPLES]);

/// The table of each way, and how far its curve is stretched.
#[target_feature(enable = "avx512f,avx512ifma")]
fn key_tables(keys: &Ways<[Fe; 2]>) -> (Ways<KeyTable>, Ways<Fe>) {
    let one = Fe::small(1);
    let points = each!(i, Point { x: keys[i][0], y: keys[i][1], z: one });
    let twice = double(&points);
    // On the curve that is stretched by twice.z, 2 P has z = 1.
    let step = each!(i, Flat { x: twice[i].x, y: twice[i].y, negative: 0 });
    let zz = each!(i, square(&twice[i].z));
    let x = each!(i, mul(&points[i].x, &zz[i]));
    let zzz = each!(i, mul(&zz[i], &twice[i].z));
    let y = each!(i, mul(&points[i].y, &zzz[i]));
    let mut point = each!(i, Point { x: x[i], y: y[i], z: one });
    let mut points = [point; MULTIPLES];
    let mut ratios = [[one; WAYS]; MULTIPLES]; // From each z to the next.
    for at in 1..MULTIPLES {
        let z = each!(i, point[i].z);
        (point, ratios[at - 1]) = add(&point, &z, &step);
        points[at] = point;
    }
    let stretch = each!(i, mul(&point[i].z, &twice[i].z));
    (stretched(&points, &ratios), stretch)
}

/// Brings all multiples to the z of the last; `ratios` lead from each to the next.
#[target_feature(enable = "avx512f,avx512ifma")]
fn stretched(points: &[Ways<Point>; MULTIPLES], ratios: &[Ways<Fe>; MULTIPLES]) -> Ways<KeyTable> {
    let beta = Fe::splat(BETA);
    let empty = Multiple { x: beta, x_lambda: beta, y: beta };
    let mut tables = [KeyTable([empty; MULTIPLES]), KeyTable([empty; MULTIPLES])];
    let mut factor = [Fe::small(1); WAYS];
    for at in (0..MULTIPLES).rev() {
        for way in 0..WAYS {
            let point = &points[at][way];
            let (mut x, mut y) = (point.x, point.y);
            if at + 1 < MULTIPLES {
                factor[way] = if at + 2 < MULTIPLES { mul(&factor[way], &ratios[at][way]) } else { ratios[at][way] };
                let squared = square(&factor[way]);
                (x, y) = (mul(&x, &squared), mul(&y, &mul(&squared, &factor[way])));
            }
            tables[way].0[at] = Multiple { x, x_lambda: mul(&x, &beta), y };
        }
    }
    tables
}

impl KeyTable {
    /// The multiples at the lanes' places, of the points or of lambda times them.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn look_up(&self, digits: &super::digits::Digits, lambda: bool) -> Flat {
        let places = digits.places.map(|place| u64::from(place) % MULTIPLES as u64);
        let places = super::field::load(&places);
        let mut found = self.0[0];
        for (at, multiple) in self.0.iter().enumerate().skip(1) {
            let here = _mm512_cmpeq_epi64_mask(places, _mm512_set1_epi64(at as i64));
            if lambda {
                found.x_lambda = multiple.x_lambda.where_else(here, &found.x_lambda);
            } else {
                found.x = multiple.x.where_else(here, &found.x);
            }
            found.y = multiple.y.where_else(here, &found.y);
        }
        Flat { x: if lambda { found.x_lambda } else { found.x }, y: found.y, negative: digits.negative }
    }
}

/// The sums of the lanes' multiples of the generator and of their keys (x and y).
///
/// Where z is zero nothing is known (see [`super::point`]); so it is, too, where the key is no point of the curve and yet
/// z is not zero: whoever calls has to look.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn sums(keys: &Ways<[Fe; 2]>, digits: &Ways<Recoded>) -> Ways<Point> {
    let bases = &*BASES;
    let (tables, stretch) = key_tables(keys);
    let last = KEY_WINDOWS - 1;
    let first = each!(i, tables[i].look_up(&digits[i].key[0][last], false));
    let mut sum = each!(i, Point { x: first[i].x, y: first[i].y.negative_where(first[i].negative), z: Fe::small(1) });
    for bit in (0..=last * KEY_BITS).rev() {
        if bit != last * KEY_BITS {
            sum = double(&sum);
        }
        if bit % KEY_BITS == 0 {
            let window = bit / KEY_BITS;
            for half in usize::from(window == last)..2 {
                let multiple = each!(i, tables[i].look_up(&digits[i].key[half][window], half == 1));
                let z = each!(i, sum[i].z);
                (sum, _) = add(&sum, &z, &multiple);
            }
        }
        if bit % BASE_BITS == 0 && bit / BASE_BITS < BASE_WINDOWS {
            for (half, base) in bases.iter().enumerate() {
                let multiple = each!(i, look_up(base, &digits[i].base[half][bit / BASE_BITS]));
                let scale = each!(i, mul(&sum[i].z, &stretch[i]));
                (sum, _) = add(&sum, &scale, &multiple);
            }
        }
    }
    each!(i, Point { z: mul(&sum[i].z, &stretch[i]), ..sum[i] })
}
