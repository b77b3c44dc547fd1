//! Sums of keys, and multiples of points, with both coordinates as results, whereas claims only check given ones.
//!
//! - A key's y is a square root ([`super::power`]), computed in four vectors at a time.
//! - The keys of all groups are added in rounds, as trees: the pairs of a round share inversions
//!   ([`super::inversions`]). Two equal keys, which one owner's inputs often have, are doubled. Opposite keys leave
//!   their group without a result.
//! - A multiple is computed like that of a claim's key ([`super::ladder`]), but on the curve itself: its y is known.
//!
//! Like a claim's "not proven", a missing result means unknown: callers that need it use a complete implementation. A
//! returned point is correct: it was computed from points of the curve by exact formulas, all of whose exceptions are
//! detected.

use super::batch::{at_a_time, right_side};
use super::digits::{LaneBits, Recoded};
use super::field::Fe;
use super::inversions::Inversions;
use super::kept::{Kept, with_kept};
use super::ladder::Room;
use super::point::{Axis, Coordinate, Point, WAYS, Ways, each};
use super::power::{self, roots};
use super::products::{mul, square};
use super::reference::{Affine, Field, GENERATOR, Scalar, words_of};
use super::scalars::{self, Fraction};
use super::tables::{BASES, TablePoint, entries, entry};
use super::vector::{LANES_MAX, Vector};

/// A point of the curve except infinity, made only by [`super::Lanes::sum_keys`] and [`super::Lanes::multiply`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CurvePoint(Affine);

impl CurvePoint {
    /// Its compressed form. Source: SEC 1, 2.3.3.
    #[must_use]
    pub fn compressed(&self) -> [u8; 33] {
        let mut bytes = [2 + u8::from(self.0.y.is_odd()); 33];
        bytes[1..].copy_from_slice(&bytes_of(self.0.x));
        bytes
    }

    #[cfg(test)]
    pub(super) fn affine(&self) -> Affine {
        self.0
    }
}

/// A number as bytes, big endian.
fn bytes_of(number: Field) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (to, word) in bytes.chunks_exact_mut(8).zip(number.words().into_iter().rev()) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// A point in a table; its coordinates must be reduced there.
fn affine(point: &TablePoint) -> Affine {
    let TablePoint([x, y]) = *point;
    Affine { x: Field::constant(x), y: Field::constant(y) }
}

/// Maximum number of pairs that share an inversion: their vectors' data must stay in a processor's cache.
const SHARED_MAX: usize = 4096;
const _: () = assert!(SHARED_MAX.is_multiple_of(LANES_MAX * WAYS), "whole vectors");
/// The indexes of the generator and of another point, which are used in idle lanes.
const STAND_IN: [u32; 2] = [0, 1];
/// Number of points before those of the keys.
const STAND_INS: usize = STAND_IN.len();

/// Points, and the vectors to compute with.
struct List<V> {
    like: V,
    points: Vec<TablePoint>,
}

/// The additions of a round.
#[derive(Default)]
struct RoundOfSums {
    /// Indexes of different points to add, and the group of the sum.
    different: Vec<([u32; 2], usize)>,
    /// Indexes of points to double, and the group of the result.
    equal: Vec<(u32, usize)>,
}

/// The sum of each group's keys; `counts` has the number of keys of each group; the groups are consecutive.
pub(super) fn sum_keys<V: Vector>(like: V, keys: &[[u8; 33]], counts: &[usize]) -> Vec<Option<CurvePoint>> {
    assert_eq!(counts.iter().sum::<usize>(), keys.len(), "every key is of a group");
    let mut list = List { like, points: BASES_STAND_INS.map(|window| BASES.table(window)[0]).to_vec() };
    let is_point = list.decompress(keys);
    let mut next = 0;
    // For each group the indexes still to be added; `None` if its sum is unknown.
    let mut groups: Vec<Option<Vec<u32>>> = counts
        .iter()
        .map(|&count| {
            let range = next..next + count;
            next += count;
            let is_known = count > 0 && is_point[range.clone()].iter().all(|is_point| *is_point);
            is_known.then(|| range.map(|key| (STAND_INS + key) as u32).collect())
        })
        .collect();
    loop {
        let round = list.pair_up(&mut groups);
        if round.different.is_empty() && round.equal.is_empty() {
            break;
        }
        list.add(round, &mut groups);
    }
    let sum = |places: Option<Vec<u32>>| places.map(|places| CurvePoint(affine(&list.points[places[0] as usize])));
    groups.into_iter().map(sum).collect()
}

/// Windows of the generator's tables whose first points are used in idle lanes.
const BASES_STAND_INS: [usize; STAND_INS] = [0, 1];

impl<V: Vector> List<V> {
    /// Appends the points of keys; returns which keys are points. For the others it appends the generator.
    fn decompress(&mut self, keys: &[[u8; 33]]) -> Vec<bool> {
        let mut is_point = Vec::with_capacity(keys.len());
        self.points.reserve(keys.len() + power::WAYS * LANES_MAX);
        let like = self.like;
        for part in keys.chunks(power::WAYS * V::LANES) {
            like.run(
                #[inline(always)]
                || decompress_part(like, part, &mut self.points, &mut is_point),
            );
        }
        is_point
    }

    /// Removes pairs from each group's indexes; if the number is odd, one index remains.
    fn pair_up(&self, groups: &mut [Option<Vec<u32>>]) -> RoundOfSums {
        let mut round = RoundOfSums::default();
        for (group, slot) in groups.iter_mut().enumerate() {
            let Some(places) = slot.as_mut().filter(|places| places.len() > 1) else { continue };
            let (pairs, odd) = places.as_chunks::<2>();
            let mut is_known = true;
            for &[a, b] in pairs {
                let one = &self.points[a as usize].0;
                let other = &self.points[b as usize].0;
                match (one[0] == other[0], one[1] == other[1]) {
                    (false, _) => round.different.push(([a, b], group)),
                    (true, true) => round.equal.push((a, group)),
                    (true, false) => is_known = false,
                }
            }
            *slot = is_known.then(|| odd.to_vec());
        }
        round
    }

    /// Computes the additions of a round, and adds the indexes of the sums to their groups.
    fn add(&mut self, round: RoundOfSums, groups: &mut [Option<Vec<u32>>]) {
        let width = V::LANES * WAYS;
        let whole = |count: usize| count.next_multiple_of(width) - count;
        let spare = |count: usize| std::iter::repeat_n((STAND_IN, None), whole(count));
        let different = round.different.iter().map(|&(pair, group)| (pair, Some(group)));
        let equal = round.equal.iter().map(|&(place, group)| ([place; 2], Some(group)));
        let doubled = spare(round.equal.len()).map(|_| ([STAND_IN[0]; 2], None));
        let first_double = round.different.len().next_multiple_of(width);
        let jobs: Vec<([u32; 2], Option<usize>)> =
            different.chain(spare(round.different.len())).chain(equal).chain(doubled).collect();
        let like = self.like;
        let mut inversions = Inversions::new(like);
        for (part, jobs) in jobs.chunks(SHARED_MAX).enumerate() {
            let first_double = first_double.saturating_sub(part * SHARED_MAX) / width;
            let unknown = like.run(
                #[inline(always)]
                || add_part(like, &mut inversions, &mut self.points, jobs, first_double),
            );
            let first = self.points.len() - jobs.len();
            for (at, (_, group)) in jobs.iter().enumerate() {
                let Some(group) = *group else { continue };
                match (unknown[at / V::LANES] >> (at % V::LANES) & 1 == 1, &mut groups[group]) {
                    (true, slot) => *slot = None,
                    (false, Some(places)) => places.push((first + at) as u32),
                    (false, None) => {}
                }
            }
        }
    }
}

/// The points of at most as many keys as [`power::WAYS`] vectors have lanes.
#[inline(always)]
fn decompress_part<V: Vector>(like: V, keys: &[[u8; 33]], points: &mut Vec<TablePoint>, is_point: &mut Vec<bool>) {
    let mut x = [[GENERATOR.x.words(); LANES_MAX]; power::WAYS];
    let mut is_key = [0u8; power::WAYS];
    let mut odd = [0u8; power::WAYS];
    for (at, key) in keys.iter().enumerate() {
        let lane = at % V::LANES;
        let way = at / V::LANES;
        let bytes = key.last_chunk().expect("33 bytes have the last 32");
        let number = Field::from_bytes(bytes).filter(|_| matches!(key[0], 2 | 3));
        if let Some(number) = number {
            x[way][lane] = number.words();
            is_key[way] |= 1 << lane;
        }
        odd[way] |= (key[0] & 1) << lane;
    }
    // Not by `map`, whose closure would be compiled without the lanes' instructions.
    let x = [
        Fe::from_lanes(like, &x[0]),
        Fe::from_lanes(like, &x[1]),
        Fe::from_lanes(like, &x[2]),
        Fe::from_lanes(like, &x[3]),
    ];
    let g = [right_side(&x[0]), right_side(&x[1]), right_side(&x[2]), right_side(&x[3])];
    let y = roots(&g);
    let first = points.len();
    for way in 0..power::WAYS {
        let is_root = square(&y[way]).equals(&g[way]) & is_key[way];
        let y = y[way].negative_where(y[way].is_odd() ^ odd[way]).reduced();
        points.extend_from_slice(&entries(&x[way], &y)[..V::LANES]);
        is_point.extend((0..V::LANES).map(|lane| is_root >> lane & 1 == 1));
    }
    points.truncate(first + keys.len());
    is_point.truncate(is_point.len() - (power::WAYS * V::LANES - keys.len()));
    for (point, is_point) in points[first..].iter_mut().zip(&is_point[is_point.len() - keys.len()..]) {
        if !is_point {
            *point = entry(GENERATOR);
        }
    }
}

/// Appends the sums of pairs, whole vectors of them; from vector pair `first_double` on, twice the first point of each.
/// Returns for each vector the lanes whose result is unknown.
#[inline(always)]
fn add_part<V: Vector>(
    like: V,
    inversions: &mut Inversions<V>,
    points: &mut Vec<TablePoint>,
    jobs: &[([u32; 2], Option<usize>)],
    first_double: usize,
) -> Vec<u8> {
    let count = jobs.len() / (V::LANES * WAYS);
    let first = points.len();
    let mut unknown = vec![0; count * WAYS];
    points.resize(first + jobs.len() + LANES_MAX, TablePoint::EMPTY);
    let (there, sums) = points.split_at_mut(first);
    inversions.add_pairs(
        count,
        #[inline(always)]
        |_| (),
        #[inline(always)]
        |at, way, axis| {
            let jobs = &jobs[(at * WAYS + way) * V::LANES..][..V::LANES];
            each!(which, coordinate(like, there, jobs, which, axis))
        },
        #[inline(always)]
        |at| at >= first_double,
        |at, zeros| unknown[at * WAYS..][..WAYS].copy_from_slice(&zeros),
        #[inline(always)]
        |at, way, axis, number| {
            let rows: &mut [TablePoint; LANES_MAX] =
                sums[(at * WAYS + way) * V::LANES..].first_chunk_mut().expect("there is room");
            // Reduced below the prime: equal points are detected by equal numbers.
            let number = number.reduced();
            let mut words = [[0; 4]; LANES_MAX];
            V::scatter(number.to_words(), words.each_mut());
            for lane in 0..V::LANES {
                rows[lane].0[axis as usize] = words[lane];
            }
        },
    );
    points.truncate(first + jobs.len());
    unknown
}

/// A coordinate of the first or the second points of a vector of pairs.
#[inline(always)]
fn coordinate<V: Vector>(
    like: V,
    points: &[TablePoint],
    jobs: &[([u32; 2], Option<usize>)],
    which: usize,
    axis: Axis,
) -> Coordinate<V> {
    let mut rows = [points[0].row(axis); LANES_MAX];
    for (row, (pair, _)) in rows.iter_mut().zip(jobs) {
        *row = points[pair[which] as usize].row(axis);
    }
    Coordinate { number: Fe::from_words(like.gather(rows)), negative: 0 }
}

thread_local! {
    /// The ladder's memory of the last call, more than a MiB.
    static ROOM: Kept = const { Kept::new(None) };
}

/// Each point times its number, 32 bytes, big endian. `None` if the number is zero or not below the order.
pub(super) fn multiply<V: Vector>(like: V, factors: &[(CurvePoint, [u8; 32])]) -> Vec<Option<CurvePoint>> {
    let mut out = vec![None; factors.len()];
    let good: Vec<(usize, Affine, Scalar)> = factors
        .iter()
        .enumerate()
        .filter_map(|(at, (CurvePoint(point), number))| {
            let number = Scalar::from_words(words_of(number)).filter(|number| !number.is_zero())?;
            Some((at, *point, number))
        })
        .collect();
    // The multiplier of the generator is ignored.
    let fraction = |&(_, _, number): &(usize, Affine, Scalar)| Fraction::new([1, 0, 0, 0], number, Scalar::ONE);
    let bits = scalars::bits(like, &good.iter().map(fraction).collect::<Vec<_>>());
    with_kept(
        &ROOM,
        || Room::new(like),
        |room| {
            let chunk = at_a_time(good.len(), V::LANES * WAYS);
            for (good, bits) in good.chunks(chunk).zip(bits.chunks(chunk)) {
                let points = like.run(
                    #[inline(always)]
                    || multiples(like, good, bits, room),
                );
                good.iter().zip(points).for_each(|((at, ..), point)| out[*at] = point.map(CurvePoint));
            }
        },
    );
    out
}

/// The multiples of at most [`super::ladder::PAIRS`] pairs of vectors of points.
#[inline(always)]
fn multiples<V: Vector>(
    like: V,
    good: &[(usize, Affine, Scalar)],
    bits: &[super::digits::Bits],
    room: &mut Room<V>,
) -> Vec<Option<Affine>> {
    let width = V::LANES * WAYS;
    let mut keys: Vec<Ways<[Fe<V>; 2]>> = Vec::new();
    let mut digits = vec![[const { Recoded::ONES }; WAYS]; good.len().div_ceil(width)];
    for (at, digits) in digits.iter_mut().enumerate() {
        for (way, digits) in digits.iter_mut().enumerate() {
            let first = at * width + way * V::LANES;
            digits.set_key(&LaneBits::new(like, bits.iter().skip(first)));
        }
        keys.push(each!(i, flat_points(like, good, at * width + i * V::LANES)));
    }
    let mut unknown = vec![[0; WAYS]; keys.len()];
    let sums = room.key_multiples(like, &keys, &digits, &mut unknown);
    to_affine(&sums, &mut unknown, room, good.len())
}

/// Both coordinates of the points from `first` on; the generator's for lanes without a point.
#[inline(always)]
fn flat_points<V: Vector>(like: V, good: &[(usize, Affine, Scalar)], first: usize) -> [Fe<V>; 2] {
    let mut x = [GENERATOR.x.words(); LANES_MAX];
    let mut y = [GENERATOR.y.words(); LANES_MAX];
    for (lane, (_, point, _)) in good.iter().skip(first).take(V::LANES).enumerate() {
        (x[lane], y[lane]) = (point.x.words(), point.y.words());
    }
    [Fe::from_lanes(like, &x), Fe::from_lanes(like, &y)]
}

/// The first `count` points, with z = 1, by one inversion; `None` if z is zero or the result is unknown.
#[inline(always)]
fn to_affine<V: Vector>(
    sums: &[Ways<Point<V>>],
    unknown: &mut [Ways<u8>],
    room: &mut Room<V>,
    count: usize,
) -> Vec<Option<Affine>> {
    let inversions = room.inversions();
    inversions.begin(sums.len());
    sums.iter().for_each(|sum| inversions.put(&each!(i, sum[i].z)));
    inversions.invert_others(|at, zeros| {
        for way in 0..WAYS {
            unknown[at][way] |= zeros[way];
        }
    });
    let mut points = vec![None; sums.len() * WAYS * V::LANES];
    for (at, sum) in sums.iter().enumerate().rev() {
        let inverse = inversions.take();
        for way in 0..WAYS {
            let by_square = mul(&inverse[way], &inverse[way]);
            let x = mul(&sum[way].x, &by_square).reduced();
            let y = mul(&sum[way].y, &mul(&by_square, &inverse[way])).reduced();
            let rows = entries(&x, &y);
            let places = points[(at * WAYS + way) * V::LANES..].iter_mut();
            for (lane, (to, row)) in places.zip(&rows[..V::LANES]).enumerate() {
                *to = (unknown[at][way] >> lane & 1 == 0).then(|| affine(row));
            }
        }
    }
    points.truncate(count);
    points
}
