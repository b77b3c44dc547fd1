//! Claims about repeated keys: a table for every window of a key's scalar, so that claims need no doublings.
//!
//! The tables of a set of keys are computed in lanes, one key a lane; then each lane has a claim, about any of the
//! keys. With a key's y from a square root all points have z = 1: `u2 P` is a sum of table entries, as `u1 G` is
//! ([`super::ladder`]), and the claim is true if the sum of both has the claimed x.
//!
//! The scalar is split into two short ones (see [`super::digits`]), each in windows of [`BITS`] bits; a table has the
//! odd multiples of 2^(4 i) P and of lambda times that. A claim adds 88 points, at six products each; the ladder takes
//! 125 doublings, 25 additions and a table for each. When that pays: [`super::repeats`].
//!
//! Absent on purpose: claims that constrain the sum's y, or that give the key's.

use super::digits::{Bits, Digits, LaneBits, Recoded};
use super::field::Fe;
use super::ladder::{BETA, PAIRS, Room, add_all};
use super::point::{Axis, Coordinate, Flat, Point, WAYS, Ways, double, each};
use super::power;
use super::products::{mul, mul_columns, square};
use super::reference::{Field, GENERATOR};
use super::repeats::Key;
use super::tables::{TablePoint, entries};
use super::vector::{LANES_MAX, Vector};

/// Bits of a window.
const BITS: usize = 4;
/// Windows of each half of the scalar: 132 bits hold 129 and a sign.
const WINDOWS: usize = 33;
/// Odd multiples in a window's table.
const ENTRIES: usize = 1 << (BITS - 1);
/// The windows whose points are added as a tree; one more remains.
const TREE: usize = 32;
const _: () = assert!(BITS * WINDOWS >= 130 && WINDOWS == TREE + 1);

/// A key's tables: window, multiple, and the point or lambda times it.
type Table = [[[TablePoint; 2]; ENTRIES]; WINDOWS];

/// Whether `u1 G + u2 P` has this x, where P is key number `key`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Index of the claim.
    pub(super) claim: usize,
    pub(super) key: usize,
    /// The bits of both multipliers.
    pub(super) bits: Bits,
    pub(super) sum_x: Field,
}

/// The tables of a set of keys.
pub(super) struct Combs {
    tables: Vec<Table>,
    /// The lanes whose key is a point and has a table.
    good: Ways<u8>,
}

impl Combs {
    /// No tables.
    pub(super) fn new() -> Combs {
        Combs { tables: Vec::new(), good: [0; WAYS] }
    }

    /// Computes the tables of `keys`, at most as many as [`WAYS`] vectors have lanes, replacing others.
    #[inline(always)]
    pub(super) fn fill<V: Vector>(&mut self, like: V, keys: &[Key], room: &mut Room<V>) {
        assert!(keys.len() <= V::LANES * WAYS, "a lane for each key");
        self.tables.resize(LANES_MAX * WAYS, [[[TablePoint::EMPTY; 2]; ENTRIES]; WINDOWS]);
        let (points, good) = lift(like, keys);
        self.good = [0; WAYS];
        let Some(multiples) = multiples(points, room) else { return };
        let mut sums: Vec<Ways<Flat<V>>> = multiples.iter().step_by(2).copied().collect();
        let mut next = Vec::new();
        let mut unknown = [[0; WAYS]];
        let beta = Fe::splat(like, BETA);
        for entry in 0..ENTRIES {
            if entry > 0 {
                let last = &sums;
                add_all(
                    room.inversions(),
                    WINDOWS,
                    #[inline(always)]
                    |window, way, axis| {
                        [last[window][way].coordinate(axis), multiples[2 * window + 1][way].coordinate(axis)]
                    },
                    &mut next,
                    &mut unknown,
                );
                std::mem::swap(&mut sums, &mut next);
            }
            for (window, points) in sums.iter().enumerate() {
                for (way, point) in points.iter().enumerate() {
                    let tables = &mut self.tables[way * V::LANES..][..V::LANES];
                    write(tables, [window, entry, 0], &point.x, &point.y);
                    write(tables, [window, entry, 1], &mul(&point.x, &beta), &point.y);
                }
            }
        }
        let [unknown] = unknown;
        self.good = each!(i, good[i] & !unknown[i]);
    }

    /// Whether a key is a point of the curve and has a table.
    fn is_good<V: Vector>(&self, key: usize) -> bool {
        self.good[key / V::LANES] >> (key % V::LANES) & 1 == 1
    }

    /// Which claims are proven, and for which the sum's y is odd: a bit for each, in the masks of its vector. There may be
    /// at most as many claims as share inversions.
    #[inline(always)]
    pub(super) fn answers<V: Vector>(&self, like: V, asked: &[Asked], room: &mut Room<V>) -> Vec<[Ways<u8>; 2]> {
        let parts: Vec<&[Asked]> = asked.chunks(V::LANES * WAYS).collect();
        assert!(parts.len() <= PAIRS, "as many as share inversions");
        let mut base = vec![[const { Recoded::ONES }; WAYS]; parts.len()];
        let mut digits = vec![[[[Digits::ONES; WINDOWS]; 2]; WAYS]; parts.len()];
        for ((part, base), digits) in parts.iter().zip(&mut base).zip(&mut digits) {
            for way in 0..WAYS {
                let bits = LaneBits::new(like, part.iter().skip(way * V::LANES).map(|asked| &asked.bits));
                bits.base(&mut base[way].base);
                for (half, digits) in digits[way].iter_mut().enumerate() {
                    bits.half::<{ BITS as u32 }, { 64 - BITS as u32 }, WINDOWS>(half, digits);
                }
            }
        }
        let mut unknown = vec![[0; WAYS]; parts.len()];
        let base = room.base_sums(like, &base, &mut unknown);
        let tables = &self.tables;
        let key = room.tree(
            2 * TREE,
            #[inline(always)]
            |at, way, axis| {
                let part = at / TREE;
                let window = at % TREE;
                halves(like, tables, parts[part], &digits[part], [window, way], axis)
            },
            &mut unknown,
        );
        let last = room.tree(
            2,
            #[inline(always)]
            |part, way, axis| halves(like, tables, parts[part], &digits[part], [TREE, way], axis),
            &mut unknown,
        );
        let rest = room.tree(
            2,
            #[inline(always)]
            |part, way, axis| [last[part][way].coordinate(axis), base[part][way].coordinate(axis)],
            &mut unknown,
        );
        let sums = room.tree(
            2,
            #[inline(always)]
            |part, way, axis| [key[part][way].coordinate(axis), rest[part][way].coordinate(axis)],
            &mut unknown,
        );
        let mut answers = Vec::with_capacity(parts.len());
        for (at, part) in parts.iter().enumerate() {
            let has_x = each!(i, sums[at][i].x.equals(&claimed(like, part, i)));
            let odd = each!(i, sums[at][i].y.is_odd());
            let is_asked = |way: usize, lane: usize| {
                let asked = part.get(way * V::LANES + lane);
                asked.is_some_and(|asked| self.is_good::<V>(asked.key))
            };
            let asked = each!(i, (0..V::LANES).fold(0, |mask, lane| mask | u8::from(is_asked(i, lane)) << lane));
            answers.push([each!(i, has_x[i] & asked[i] & !unknown[at][i]), odd]);
        }
        answers
    }
}

/// The keys as points, and the lanes that have one; the others hold the generator.
#[inline(always)]
fn lift<V: Vector>(like: V, keys: &[Key]) -> (Ways<Point<V>>, Ways<u8>) {
    let mut numbers = [[GENERATOR.x.words(); LANES_MAX]; WAYS];
    let mut odd = [0; WAYS];
    let mut is_key = [0; WAYS];
    for (at, (x, is_odd)) in keys.iter().enumerate() {
        let way = at / V::LANES;
        let lane = at % V::LANES;
        numbers[way][lane] = x.words();
        odd[way] |= u8::from(*is_odd) << lane;
        is_key[way] |= 1 << lane;
    }
    let x = each!(i, Fe::from_lanes(like, &numbers[i]));
    let g = each!(i, mul_columns(&square(&x[i]), &x[i]).plus(&Fe::small(like, 7)).carry());
    const { assert!(power::WAYS == 2 * WAYS) };
    let roots = power::roots(&[g[0], g[1], g[0], g[1]]);
    let is_point = each!(i, square(&roots[i]).equals(&g[i]));
    let y = each!(i, roots[i].negative_where(roots[i].is_odd() ^ odd[i]));
    let generator = [Fe::splat(like, GENERATOR.x.words()), Fe::splat(like, GENERATOR.y.words())];
    let one = Fe::small(like, 1);
    let points = each!(
        i,
        Point {
            x: x[i].where_else(is_point[i], &generator[0]),
            y: y[i].where_else(is_point[i], &generator[1]),
            z: one,
        }
    );
    (points, each!(i, is_point[i] & is_key[i]))
}

/// For each window 2^(4 i) times the points, and twice that, with z = 1. `None` if some z is zero, which no multiple of
/// a point has.
#[inline(always)]
fn multiples<V: Vector>(points: Ways<Point<V>>, room: &mut Room<V>) -> Option<Vec<Ways<Flat<V>>>> {
    let mut point = points;
    let mut multiples = Vec::with_capacity(2 * WINDOWS);
    for window in 0..WINDOWS {
        if window > 0 {
            for _ in 1..BITS {
                double(&mut point);
            }
        }
        multiples.push(point);
        double(&mut point);
        multiples.push(point);
    }
    let inversions = room.inversions();
    inversions.begin(multiples.len());
    for point in &multiples {
        inversions.put(&each!(i, point[i].z));
    }
    if !inversions.invert() {
        return None;
    }
    let mut flat = Vec::with_capacity(multiples.len());
    for point in multiples.iter().rev() {
        let inverse = inversions.take();
        let squared = each!(i, square(&inverse[i]));
        flat.push(each!(
            i,
            Flat { x: mul(&point[i].x, &squared[i]), y: mul(&point[i].y, &mul(&squared[i], &inverse[i])), negative: 0 }
        ));
    }
    flat.reverse();
    Some(flat)
}

/// Writes an entry of each lane's table.
#[inline(always)]
fn write<V: Vector>(tables: &mut [Table], [window, entry, half]: [usize; 3], x: &Fe<V>, y: &Fe<V>) {
    for (table, row) in tables.iter_mut().zip(entries(x, y)) {
        table[window][entry][half] = row;
    }
}

/// The points that a window's digits select, of the keys and of lambda times the keys.
#[inline(always)]
fn halves<V: Vector>(
    like: V,
    tables: &[Table],
    part: &[Asked],
    digits: &Ways<[[Digits; WINDOWS]; 2]>,
    [window, way]: [usize; 2],
    axis: Axis,
) -> [Coordinate<V>; 2] {
    [
        look_up(like, tables, part, (&digits[way][0][window], window, 0), way, axis),
        look_up(like, tables, part, (&digits[way][1][window], window, 1), way, axis),
    ]
}

/// A coordinate of the entries that the lanes' digits select, each in its key's table.
#[inline(always)]
fn look_up<V: Vector>(
    like: V,
    tables: &[Table],
    part: &[Asked],
    (digits, window, half): (&Digits, usize, usize),
    way: usize,
    axis: Axis,
) -> Coordinate<V> {
    let mut rows = [tables[0][window][0][half].row(axis); LANES_MAX];
    for (lane, asked) in part.iter().skip(way * V::LANES).take(V::LANES).enumerate() {
        rows[lane] = tables[asked.key][window][usize::from(digits.places[lane]) % ENTRIES][half].row(axis);
    }
    Coordinate { number: Fe::from_words(like.gather(rows)), negative: digits.negative }
}

/// The claimed x of a vector; for lanes without a claim, the generator's.
#[inline(always)]
fn claimed<V: Vector>(like: V, part: &[Asked], way: usize) -> Fe<V> {
    let mut numbers = [GENERATOR.x.words(); LANES_MAX];
    for (to, asked) in numbers.iter_mut().zip(part.iter().skip(way * V::LANES).take(V::LANES)) {
        *to = asked.sum_x.words();
    }
    Fe::from_lanes(like, &numbers)
}
