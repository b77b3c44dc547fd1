//! `u1 G` and `u2 P` in lanes, separately: sums of table entries, and one ladder of doublings only for the key.
//!
//! All points except those on the ladder have z = 1, and are added by one inversion for all: [`super::inversions`].
//! Some pairs of vectors ([`PAIRS`]) are processed together, so that they share inversions.
//!
//! - `u1 G` has a table for each window of u1: the windows' points are added as a tree.
//! - `u2 P` has a table of the key's odd multiples, a point for each window (a multiple of P plus one of lambda P), and
//!   the ladder adds one point a window.
//! - The key's table has as many levels as the tree, and shares its inversions: each level needs twice the last even
//!   multiple, and the sums of that with all odd multiples so far.
//!
//! The key may be on a curve other than secp256k1: for any z, (x, y) -> (x z^2, y z^3) leads from y^2 = x^3 + b to y^2
//! = x^3 + b z^6, and the formulas for sums and doublings do not contain b. A point (X, Y, Z) there is (X, Y, Z z)
//! here, in Jacobian coordinates. [`super::batch`] stretches the key in this manner.
//!
//! Exceptions of the sums (equal and opposite points, y = 0) are reported for each lane: in `unknown`, or by z = 0.

use super::digits::{BASE_WINDOWS, Digits, KEY_BITS, KEY_WINDOWS, Recoded};
use super::field::{Fe, Multiplicand};
use super::inversions::Inversions;
use super::point::{self, Axis, Coordinate, Flat, Point, Rung, WAYS, Ways, each};
use super::products::mul;
use super::tables::{BASES, Bases, ask, look_up};
use super::vector::{LANES_MAX, Vector};

/// Maximum number of pairs of vectors that share inversions. Their tables and the points of a [`PART`] have some 650
/// KiB in lanes of AVX-512.
pub(super) const PAIRS: usize = 10;
/// Windows of the key's scalar whose points are computed at a time.
const PART: usize = 13;
const PARTS: usize = KEY_WINDOWS / PART;
const _: () = assert!(KEY_WINDOWS == PARTS * PART);

/// Odd multiples in a key's table.
const MULTIPLES: usize = 1 << (KEY_BITS - 1);
/// Levels of the generator's tree, and of the key's table.
const LEVELS: usize = KEY_BITS;
const _: () = assert!(BASE_WINDOWS.is_multiple_of(2) && base_points(LEVELS) == 1 && base_points(LEVELS - 1) > 1);
/// The multiples that are operands of others: the lower half of the odd ones, followed by the even one of the level.
const OPERANDS: usize = MULTIPLES / 2 + 1;
/// The index of the even multiple: 2, 4, 8 or 16 times the key.
const EVEN: usize = OPERANDS - 1;

/// lambda (x, y) = (beta x, y). Source: libsecp256k1, `group_impl.h`.
pub(super) const BETA: [u64; 4] =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

/// A multiple of a key, in two cache lines: coordinates below 2^256.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct KeyMultiple {
    x: [u64; 4],
    /// beta x: with the same y this is lambda times the multiple.
    x_lambda: [u64; 4],
    y: [u64; 4],
}

impl KeyMultiple {
    const EMPTY: KeyMultiple = KeyMultiple { x: [0; 4], x_lambda: [0; 4], y: [0; 4] };
}

/// Odd multiples 1, 3, .. of the keys of a vector, on the stretched curve: lane, multiple.
///
/// Only the cache lines that a lane's digits select are read: with tables in lanes, where every entry is compared and
/// blended, a signature takes 5 % longer.
type KeyTable = [[KeyMultiple; MULTIPLES]; LANES_MAX];

/// A point in each lane of two vectors: x and y.
type Coordinates<V> = Ways<[Fe<V>; 2]>;

/// Sums of some pairs of vectors.
pub(super) struct Sums<V> {
    /// The multiples of the generator.
    pub(super) base: Vec<Ways<Flat<V>>>,
    /// The multiples of the keys, on the keys' curves.
    pub(super) key: Vec<Ways<Point<V>>>,
    /// The lanes with an exception, whose result is unknown.
    pub(super) unknown: Vec<Ways<u8>>,
}

/// Memory for the keys' tables, and for all intermediate results.
pub(super) struct Room<V> {
    tables: Vec<Ways<KeyTable>>,
    /// For each pair the multiples of its keys that are operands of others.
    operands: Vec<[Ways<Flat<V>>; OPERANDS]>,
    inversions: Inversions<V>,
    sums: Vec<Ways<Flat<V>>>,
    next: Vec<Ways<Flat<V>>>,
}

impl<V: Vector> Room<V> {
    pub(super) fn new(like: V) -> Room<V> {
        Room {
            tables: Vec::new(),
            operands: Vec::new(),
            inversions: Inversions::new(like),
            sums: Vec::new(),
            next: Vec::new(),
        }
    }

    /// Numbers to invert.
    pub(super) fn inversions(&mut self) -> &mut Inversions<V> {
        &mut self.inversions
    }

    /// The generator's multiples. If there are keys (as many as digits, or no keys) the same inversions also build
    /// their tables.
    #[inline(always)]
    fn base_sums_and_tables(
        &mut self,
        like: V,
        keys: &[Coordinates<V>],
        digits: &[Ways<Recoded>],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Flat<V>>> {
        self.begin_tables(keys);
        let bases = &*BASES;
        let zero = Fe::small(like, 0);
        // For each pair of vectors, a point that has no partner at its level.
        let mut single = vec![[Flat { x: zero, y: zero, negative: 0 }; WAYS]; digits.len()];
        let mut stride = 0;
        for level in 0..LEVELS {
            let base = base_points(level) / 2;
            let of_key = if keys.is_empty() { 0 } else { multiples_at(level) };
            let sums = &self.sums;
            // The number of points of the previous level that are sums.
            let summed = if level == 0 { 0 } else { base_points(level - 1) / 2 };
            let left = |pair: usize, at: usize| if at < summed { &sums[pair * stride + at] } else { &single[pair] };
            add_or_double_all(
                &mut self.inversions,
                base + of_key,
                #[inline(always)]
                |at| {
                    let pair = at / (base + of_key);
                    let place = at % (base + of_key);
                    if level == 0 && place < base {
                        ask_for::<V>(bases, digits, pair * BASE_WINDOWS + 2 * place);
                    }
                },
                #[inline(always)]
                |at, way, axis| {
                    let pair = at / (base + of_key);
                    let place = at % (base + of_key);
                    if place >= base {
                        let (a, b, _) = multiple_of(level, place - base);
                        [self.operands[pair][a][way].coordinate(axis), self.operands[pair][b][way].coordinate(axis)]
                    } else if level == 0 {
                        let window = pair * BASE_WINDOWS + 2 * place;
                        [
                            of_tables(like, bases, digits, window, way, axis),
                            of_tables(like, bases, digits, window + 1, way, axis),
                        ]
                    } else {
                        let first = left(pair, 2 * place);
                        let second = left(pair, 2 * place + 1);
                        [first[way].coordinate(axis), second[way].coordinate(axis)]
                    }
                },
                #[inline(always)]
                |at| at % (base + of_key) >= base && is_double(level, at % (base + of_key) - base),
                &mut self.next,
                unknown,
            );
            // If the last point is not a sum it is already in `single`.
            if base_points(level) % 2 == 1 && base_points(level) <= summed {
                (0..digits.len()).for_each(|pair| single[pair] = sums[pair * stride + base_points(level) - 1]);
            }
            std::mem::swap(&mut self.sums, &mut self.next);
            stride = base + of_key;
            for pair in 0..keys.len() {
                for place in 0..of_key {
                    let (_, _, to) = multiple_of(level, place);
                    self.put_multiple(pair, to, pair * stride + base + place);
                }
            }
        }
        (0..digits.len()).map(|pair| self.sums[pair * stride]).collect()
    }

    /// Reserves room for the tables, and stores the keys.
    #[inline(always)]
    fn begin_tables(&mut self, keys: &[Coordinates<V>]) {
        let flat = |key: &Coordinates<V>| each!(i, Flat { x: key[i][0], y: key[i][1], negative: 0 });
        while self.tables.len() < keys.len() {
            self.tables.push([[[KeyMultiple::EMPTY; MULTIPLES]; LANES_MAX]; WAYS]);
            self.operands.push([flat(&keys[0]); OPERANDS]);
        }
        for (pair, key) in keys.iter().enumerate() {
            self.operands[pair][0] = flat(key);
            write_multiple(&mut self.tables[pair], 0, &self.operands[pair][0]);
        }
    }

    /// Copies a multiple of the keys of `pair` from the sums.
    #[inline(always)]
    fn put_multiple(&mut self, pair: usize, to: usize, from: usize) {
        let Room { tables, operands, sums, .. } = self;
        match to {
            TO_EVEN => operands[pair][EVEN] = sums[from],
            odd => {
                if odd < EVEN {
                    operands[pair][odd] = sums[from];
                }
                write_multiple(&mut tables[pair], odd, &sums[from]);
            }
        }
    }

    /// The generator's multiples.
    #[inline(always)]
    pub(super) fn base_sums(
        &mut self,
        like: V,
        digits: &[Ways<Recoded>],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Flat<V>>> {
        self.base_sums_and_tables(like, &[], digits, unknown)
    }

    /// The sum of `count` points (a power of two) for each pair of vectors, computed in pairs; `pair` returns number
    /// `at` among those of all pairs of vectors.
    #[inline(always)]
    pub(super) fn tree(
        &mut self,
        count: usize,
        pair: impl Fn(usize, usize, Axis) -> [Coordinate<V>; 2],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Flat<V>>> {
        assert!(count.is_power_of_two());
        let mut left = count / 2;
        add_all(&mut self.inversions, left, pair, &mut self.sums, unknown);
        while left > 1 {
            left /= 2;
            let sums = &self.sums;
            add_all(
                &mut self.inversions,
                left,
                #[inline(always)]
                |at, way, axis| [sums[2 * at][way].coordinate(axis), sums[2 * at + 1][way].coordinate(axis)],
                &mut self.next,
                unknown,
            );
            std::mem::swap(&mut self.sums, &mut self.next);
        }
        self.sums[..unknown.len()].to_vec()
    }

    /// Only the multiples of keys (x and y), on the keys' curves: [`sums`] without the generator.
    #[inline(always)]
    pub(super) fn key_multiples(
        &mut self,
        like: V,
        keys: &[Coordinates<V>],
        digits: &[Ways<Recoded>],
        unknown: &mut [Ways<u8>],
    ) -> Vec<Ways<Point<V>>> {
        self.begin_tables(keys);
        for level in 0..LEVELS {
            let count = multiples_at(level);
            let operands = &self.operands;
            add_or_double_all(
                &mut self.inversions,
                count,
                #[inline(always)]
                |_| (),
                #[inline(always)]
                |at, way, axis| {
                    let (a, b, _) = multiple_of(level, at % count);
                    let operands = &operands[at / count];
                    [operands[a][way].coordinate(axis), operands[b][way].coordinate(axis)]
                },
                #[inline(always)]
                |at| is_double(level, at % count),
                &mut self.sums,
                unknown,
            );
            for pair in 0..keys.len() {
                for place in 0..count {
                    let (_, _, to) = multiple_of(level, place);
                    self.put_multiple(pair, to, pair * count + place);
                }
            }
        }
        self.key_sums(like, digits, unknown)
    }

    /// The keys' multiples, once their tables are built.
    #[inline(always)]
    fn key_sums(&mut self, like: V, digits: &[Ways<Recoded>], unknown: &mut [Ways<u8>]) -> Vec<Ways<Point<V>>> {
        let one = Fe::small(like, 1).loose();
        let mut sums = vec![[Rung { x: one, y: one, z: one }; WAYS]; digits.len()];
        let tables = &self.tables;
        for part in (0..PARTS).rev() {
            add_all(
                &mut self.inversions,
                PART,
                #[inline(always)]
                |at, way, axis| {
                    let pair = at / PART;
                    let window = part * PART + at % PART;
                    let table = &tables[pair][way];
                    let digits = &digits[pair][way];
                    [
                        multiples(like, table, &digits.key[0][window], false, axis),
                        multiples(like, table, &digits.key[1][window], true, axis),
                    ]
                },
                &mut self.sums,
                unknown,
            );
            for (sum, windows) in sums.iter_mut().zip(self.sums.chunks(PART)) {
                climb(sum, windows, part == PARTS - 1);
            }
        }
        let mut points = Vec::with_capacity(sums.len());
        for sum in &sums {
            points.push(each!(i, sum[i].point()));
        }
        points
    }
}

/// Remaining points of the generator's windows at a level of its tree.
const fn base_points(level: usize) -> usize {
    let mut points = BASE_WINDOWS;
    let mut at = 0;
    while at < level {
        points = points.div_ceil(2);
        at += 1;
    }
    points
}

/// Multiples of a key computed at a level of the generator's tree.
const fn multiples_at(level: usize) -> usize {
    (1 << level) / 2 + if level + 1 < LEVELS { 1 } else { 0 }
}

/// Whether multiple number `at` is the even one, which is the last, and a doubling.
const fn is_double(level: usize, at: usize) -> bool {
    at == (1 << level) / 2
}

/// Place of the even multiple, which is not in a table.
const TO_EVEN: usize = MULTIPLES;

/// For multiple number `at`: the indexes of the operands of the sum, and its own index among the odd ones, or
/// [`TO_EVEN`].
const fn multiple_of(level: usize, at: usize) -> (usize, usize, usize) {
    if !is_double(level, at) {
        (at, EVEN, (1 << level) / 2 + at)
    } else if level == 0 {
        (0, 0, TO_EVEN)
    } else {
        (EVEN, EVEN, TO_EVEN)
    }
}

/// A coordinate of the points that the generator's windows select: number `at` among those of all pairs of vectors, in
/// one of the two vectors.
#[inline(always)]
fn of_tables<V: Vector>(
    like: V,
    bases: &Bases,
    digits: &[Ways<Recoded>],
    at: usize,
    way: usize,
    axis: Axis,
) -> Coordinate<V> {
    let digits = &digits[at / BASE_WINDOWS][way];
    let window = at % BASE_WINDOWS;
    look_up(like, bases.table(window), &digits.base[window], axis)
}

/// Prefetches the points that two windows select, starting with number `at` among those of all pairs of vectors, if it
/// exists.
#[inline(always)]
fn ask_for<V: Vector>(bases: &Bases, digits: &[Ways<Recoded>], at: usize) {
    let Some(digits) = digits.get(at / BASE_WINDOWS) else { return };
    for window in at % BASE_WINDOWS..at % BASE_WINDOWS + 2 {
        digits.iter().for_each(|digits| ask::<V>(bases.table(window), &digits.base[window]));
    }
}

/// Continues the ladder by some windows; with `start` it begins at the last of them.
#[inline(always)]
fn climb<V: Vector>(sum: &mut Ways<Rung<V>>, windows: &[Ways<Flat<V>>], start: bool) {
    let (last, rest) = windows.split_last().expect("a part has windows");
    let rest = if start {
        *sum = each!(i, Rung::new(&last[i]));
        rest
    } else {
        windows
    };
    for window in rest.iter().rev() {
        point::climb(sum, KEY_BITS, window);
    }
}

/// The sums of pairs of points with z = 1, by one inversion: `each` sums for each pair of vectors. Lanes with equal or
/// opposite points are added to `unknown`.
#[inline(always)]
pub(super) fn add_all<V: Vector>(
    inversions: &mut Inversions<V>,
    each: usize,
    pair: impl Fn(usize, usize, Axis) -> [Coordinate<V>; 2],
    sums: &mut Vec<Ways<Flat<V>>>,
    unknown: &mut [Ways<u8>],
) {
    add_or_double_all(
        inversions,
        each,
        #[inline(always)]
        |_| (),
        pair,
        #[inline(always)]
        |_| false,
        sums,
        unknown,
    );
}

/// [`add_all`] with prefetches of later look-ups, and doublings of the first of the two points (with its own sign of y)
/// if `is_double` returns true.
#[inline(always)]
fn add_or_double_all<V: Vector>(
    inversions: &mut Inversions<V>,
    each: usize,
    ask: impl Fn(usize),
    pair: impl Fn(usize, usize, Axis) -> [Coordinate<V>; 2],
    is_double: impl Fn(usize) -> bool,
    sums: &mut Vec<Ways<Flat<V>>>,
    unknown: &mut [Ways<u8>],
) {
    let count = each * unknown.len();
    if sums.len() < count {
        let zero = Fe::small(inversions.like(), 0);
        sums.resize(count, [Flat { x: zero, y: zero, negative: 0 }; WAYS]);
    }
    inversions.add_pairs(
        count,
        ask,
        pair,
        is_double,
        |at, zeros| {
            for way in 0..WAYS {
                unknown[at / each][way] |= zeros[way];
            }
        },
        #[inline(always)]
        |at, way, axis, number| match axis {
            // The points in `sums` are never negated.
            Axis::X => sums[at][way].x = *number,
            Axis::Y => sums[at][way].y = *number,
        },
    );
}

/// Writes a multiple of the keys into their tables.
#[inline(always)]
fn write_multiple<V: Vector>(tables: &mut Ways<KeyTable>, at: usize, multiple: &Ways<Flat<V>>) {
    let beta = Fe::splat(multiple[0].x.like(), BETA);
    for (table, Flat { x, y, .. }) in tables.iter_mut().zip(multiple) {
        V::scatter(x.to_words(), table.each_mut().map(|multiples| &mut multiples[at].x));
        V::scatter(mul(x, &beta).to_words(), table.each_mut().map(|multiples| &mut multiples[at].x_lambda));
        V::scatter(y.to_words(), table.each_mut().map(|multiples| &mut multiples[at].y));
    }
}

/// A coordinate of the multiples at the lanes' indexes, or of lambda times them.
#[inline(always)]
fn multiples<V: Vector>(like: V, table: &KeyTable, digits: &Digits, lambda: bool, axis: Axis) -> Coordinate<V> {
    let mut rows = [&table[0][0].x; LANES_MAX];
    for lane in 0..V::LANES {
        let multiple = &table[lane][usize::from(digits.places[lane]) % MULTIPLES];
        rows[lane] = match axis {
            Axis::X if lambda => &multiple.x_lambda,
            Axis::X => &multiple.x,
            Axis::Y => &multiple.y,
        };
    }
    Coordinate { number: Fe::from_words(like.gather(rows)), negative: digits.negative }
}

/// The multiples of the generator, and of the keys (x and y), of at most [`PAIRS`] pairs of vectors.
///
/// The result of a lane is unknown if it is in `unknown` or its z is zero (see [`super::point`]). It is also unknown if
/// the key is not a point of a curve of prime order: the caller must check that.
#[inline(always)]
pub(super) fn sums<V: Vector>(keys: &[Coordinates<V>], digits: &[Ways<Recoded>], room: &mut Room<V>) -> Sums<V> {
    let mut unknown = vec![[0; WAYS]; keys.len()];
    let like = keys[0][0][0].like();
    let base = room.base_sums_and_tables(like, keys, digits, &mut unknown);
    let key = room.key_sums(like, digits, &mut unknown);
    Sums { base, key, unknown }
}
