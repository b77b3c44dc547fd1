//! `u1 G` and `u2 P` in lanes, apart: sums of a table's points, and one ladder of doublings for the key alone.
//!
//! All points but those on the ladder have z = 1, and are added by one inversion for all: [`super::inversions`]. Some pairs of
//! vectors ([`PAIRS`]) go through it together, so that an inversion serves many.
//!
//! - `u1 G` has a table for each window of u1: its windows are added as a tree.
//! - `u2 P` has a table of the key's odd multiples, a point for each window (a multiple of P plus one of lambda P), and the
//!   ladder adds one point a window.
//!
//! The table has points with z = 1 without an inversion: they lie on another curve, which is the key's stretched. For any z,
//! (x, y) -> (x z^2, y z^3) leads from y^2 = x^3 + b to y^2 = x^3 + b z^6; the formulas for sums and doublings do not contain
//! b. A point (X, Y, Z) there is (X, Y, Z z) here, in Jacobian coordinates. So all multiples are brought to the same z, and
//! z is given to the result in the end. For the same reason the key's own curve need not be ours: [`super::batch`] stretches
//! it first.
//!
//! What the sums leave out (equal and opposite points) is told of each lane: `unknown`, or z = 0.

use super::digits::{BASE_WINDOWS, Digits, KEY_BITS, KEY_WINDOWS, Recoded};
use super::field::{Fe, mul, square};
use super::inversions::{Inversions, difference, sum};
use super::point::{Flat, Point, WAYS, Ways, add, add_beside, double, each};
use super::tables::{BASES, look_up};
use super::vector::{LANES_MAX, Vector};

/// Pairs of vectors that share inversions, at most. Their tables and the points of a [`PART`] have some 500 KiB in lanes of
/// AVX-512.
pub(super) const PAIRS: usize = 8;
/// Windows of the key's scalar whose points are made at a time.
const PART: usize = 13;
const PARTS: usize = KEY_WINDOWS / PART;
const _: () = assert!(KEY_WINDOWS == PARTS * PART && BASE_WINDOWS.is_power_of_two());

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

/// A point in each lane of two vectors: x and y.
type Coordinates<V> = Ways<[Fe<V>; 2]>;

/// Sums of some pairs of vectors.
pub(super) struct Sums<V> {
    /// The multiples of the generator.
    pub(super) base: Vec<Ways<Flat<V>>>,
    /// The multiples of the keys, on the keys' curves.
    pub(super) key: Vec<Ways<Point<V>>>,
    /// The lanes of which nothing is known.
    pub(super) unknown: Vec<Ways<u8>>,
}

/// Memory for the keys' tables, and for all that is made on the way.
pub(super) struct Room<V> {
    tables: Vec<Ways<KeyTable>>,
    points: Vec<Coordinates<V>>,
    /// From each point's z to the next one's.
    ratios: Vec<Ways<Fe<V>>>,
    inversions: Inversions<V>,
    sums: Vec<Ways<Flat<V>>>,
    next: Vec<Ways<Flat<V>>>,
}

impl<V: Vector> Room<V> {
    pub(super) fn new(like: V) -> Room<V> {
        Room {
            tables: Vec::new(),
            points: Vec::with_capacity(MULTIPLES),
            ratios: Vec::with_capacity(MULTIPLES),
            inversions: Inversions::new(like),
            sums: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Numbers to invert.
    pub(super) fn inversions(&mut self) -> &mut Inversions<V> {
        &mut self.inversions
    }

    /// Makes the tables of pair `at`, and returns how far each way's curve is stretched.
    #[inline(always)]
    fn fill(&mut self, at: usize, keys: &Coordinates<V>) -> Ways<Fe<V>> {
        let one = Fe::small(keys[0][0].like(), 1);
        let mut twice = each!(i, Point { x: keys[i][0], y: keys[i][1], z: one });
        double(&mut twice);
        // On the curve that is stretched by twice.z, 2 P has z = 1.
        let mut step = each!(i, [twice[i].x, twice[i].y]);
        let zz = each!(i, square(&twice[i].z));
        let zzz = each!(i, mul(&zz[i], &twice[i].z));
        let mut point = each!(i, [mul(&keys[i][0], &zz[i]), mul(&keys[i][1], &zzz[i])]);
        self.points.clear();
        self.ratios.clear();
        self.points.push(point);
        for _ in 1..MULTIPLES {
            self.ratios.push(add_beside(&mut point, &mut step));
            self.points.push(point);
        }
        let stretch = self.stretch(at, one);
        each!(i, mul(&stretch[i], &twice[i].z))
    }

    /// Brings all multiples to the z of the last, writes the tables, and returns the factor from the first z to that.
    #[inline(always)]
    fn stretch(&mut self, pair: usize, one: Fe<V>) -> Ways<Fe<V>> {
        let beta = Fe::splat(one.like(), BETA);
        let mut factor = [one; WAYS];
        for (at, points) in self.points.iter().enumerate().rev() {
            let [mut x, mut y] = [each!(i, points[i][0]), each!(i, points[i][1])];
            if let Some(ratios) = self.ratios.get(at) {
                factor = each!(i, mul(&factor[i], &ratios[i]));
                let squared = each!(i, square(&factor[i]));
                x = each!(i, mul(&x[i], &squared[i]));
                let cubed = each!(i, mul(&squared[i], &factor[i]));
                y = each!(i, mul(&y[i], &cubed[i]));
            }
            let x_lambda = each!(i, mul(&x[i], &beta));
            for (way, table) in self.tables[pair].iter_mut().enumerate() {
                write(table, at, x[way], x_lambda[way], y[way]);
            }
        }
        factor
    }

    /// The generator's multiples.
    #[inline(always)]
    pub(super) fn base_sums(
        &mut self,
        like: V,
        digits: &[Ways<Recoded>],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Flat<V>>> {
        self.tree(
            BASE_WINDOWS,
            #[inline(always)]
            |at| [of_tables(like, digits, 2 * at), of_tables(like, digits, 2 * at + 1)],
            unknown,
        )
    }

    /// The sum of `count` points, a power of two, for each pair of vectors, by pairs: `pair` number `at` of all pairs of
    /// vectors together.
    #[inline(always)]
    pub(super) fn tree(
        &mut self,
        count: usize,
        pair: impl Fn(usize) -> [Ways<Flat<V>>; 2],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Flat<V>>> {
        let mut left = count / 2;
        add_all(&mut self.inversions, left, pair, &mut self.sums, unknown);
        while left > 1 {
            left /= 2;
            let sums = &self.sums;
            add_all(
                &mut self.inversions,
                left,
                #[inline(always)]
                |at| [sums[2 * at], sums[2 * at + 1]],
                &mut self.next,
                unknown,
            );
            std::mem::swap(&mut self.sums, &mut self.next);
        }
        self.sums[..unknown.len()].to_vec()
    }

    /// The keys' multiples.
    #[inline(always)]
    fn key_sums(
        &mut self,
        keys: &[Coordinates<V>],
        digits: &[Ways<Recoded>],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Point<V>>> {
        let (like, one) = (keys[0][0][0].like(), Fe::small(keys[0][0][0].like(), 1));
        while self.tables.len() < keys.len() {
            self.tables.push([[[[Line([0; 8]); 2]; MULTIPLES]; LANES_MAX]; WAYS]);
        }
        let mut stretches = [[one; WAYS]; PAIRS];
        for (at, key) in keys.iter().enumerate() {
            stretches[at] = self.fill(at, key);
        }
        let mut sums = vec![[Point { x: one, y: one, z: one }; WAYS]; keys.len()];
        let tables = &self.tables;
        for part in (0..PARTS).rev() {
            add_all(
                &mut self.inversions,
                PART,
                #[inline(always)]
                |at| {
                    let (pair, window) = (at / PART, part * PART + at % PART);
                    let (tables, digits) = (&tables[pair], &digits[pair]);
                    [
                        each!(i, multiples(like, &tables[i], &digits[i].key[0][window], false)),
                        each!(i, multiples(like, &tables[i], &digits[i].key[1][window], true)),
                    ]
                },
                &mut self.sums,
                unknown,
            );
            for (sum, windows) in sums.iter_mut().zip(self.sums.chunks(PART)) {
                climb(sum, windows, part == PARTS - 1);
            }
        }
        for (sum, stretch) in sums.iter_mut().zip(&stretches) {
            for way in 0..WAYS {
                sum[way].z = mul(&sum[way].z, &stretch[way]);
            }
        }
        sums
    }
}

/// The points that the generator's windows name: number `at` of all pairs of vectors together.
#[inline(always)]
fn of_tables<V: Vector>(like: V, digits: &[Ways<Recoded>], at: usize) -> Ways<Flat<V>> {
    let (digits, window) = (&digits[at / BASE_WINDOWS], at % BASE_WINDOWS);
    let table = &BASES[window];
    each!(i, look_up(like, table, &digits[i].base[window]))
}

/// Goes on with the ladder by some windows; with `start` from the last of them on.
#[inline(always)]
fn climb<V: Vector>(sum: &mut Ways<Point<V>>, windows: &[Ways<Flat<V>>], start: bool) {
    for (at, window) in windows.iter().enumerate().rev() {
        if start && at + 1 == windows.len() {
            debug_assert!(window.iter().all(|point| point.negative == 0), "sums have their own y");
            *sum = each!(i, Point { x: window[i].x, y: window[i].y, z: sum[i].z });
            continue;
        }
        for _ in 0..KEY_BITS {
            double(sum);
        }
        let z = each!(i, sum[i].z);
        add(sum, &z, window);
    }
}

/// The sums of pairs of points with z = 1, by one inversion: `each` for each pair of vectors. In `unknown` the lanes are
/// noted that have equal or opposite points.
#[inline(always)]
pub(super) fn add_all<V: Vector>(
    inversions: &mut Inversions<V>,
    each: usize,
    pair: impl Fn(usize) -> [Ways<Flat<V>>; 2],
    sums: &mut Vec<Ways<Flat<V>>>,
    unknown: &mut [Ways<u8>],
) {
    let count = each * unknown.len();
    inversions.begin(count);
    for at in 0..count {
        let [a, b] = pair(at);
        inversions.put(&each!(i, difference(&a[i], &b[i])));
    }
    inversions.invert_others(|at, zeros| {
        for way in 0..WAYS {
            unknown[at / each][way] |= zeros[way];
        }
    });
    if sums.len() < count {
        let [a, _] = pair(0);
        sums.resize(count, a);
    }
    for at in (0..count).rev() {
        let inverse = inversions.take();
        let [a, b] = pair(at);
        sums[at] = each!(i, sum(&a[i], &b[i], &inverse[i]));
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

/// The multiples of the generator, and of the keys (x and y), of at most [`PAIRS`] pairs of vectors.
///
/// Where a lane is unknown or z is zero nothing is known (see [`super::point`]). So it is, too, where the key is no point of
/// a curve of prime order: whoever calls has to look.
#[inline(always)]
pub(super) fn sums<V: Vector>(keys: &[Coordinates<V>], digits: &[Ways<Recoded>], room: &mut Room<V>) -> Sums<V> {
    let mut unknown = vec![[0; WAYS]; keys.len()];
    let base = room.base_sums(keys[0][0][0].like(), digits, &mut unknown);
    let key = room.key_sums(keys, digits, &mut unknown);
    Sums { base, key, unknown }
}
