//! Sums of pairs of points in lanes, with z = 1 before and after: a whole list of pairs shares one inversion.
//!
//! [`super::inversions`] explains how one inversion serves all. A sum takes five products and a square; an addition of
//! [`super::point`] takes eight and three.
//!
//! The formulas do not cover pairs of equal and of opposite points. If a list has such a pair, all of its sums are
//! unknown: [`Pairs::settle`] returns false.
//!
//! Absent on purpose: the choice of points.

use super::field::Fe;
use super::inversions::Inversions;
use super::point::{Axis, Coordinate, WAYS, each};
use super::reference::{Affine, Field};
use super::tables::{BASES, TablePoint};
use super::vector::{LANES_MAX, Vector};

/// Maximum number of pairs that share an inversion: their vectors' data, 640 bytes each, must stay in a processor's
/// cache.
pub(super) const SHARED_MAX: usize = 8192;
const _: () = assert!(SHARED_MAX.is_multiple_of(LANES_MAX * WAYS), "whole vectors");

/// A point of a list, or its negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term(u32);

impl Term {
    fn new(place: usize) -> Term {
        Term(u32::try_from(place << 1).expect("lists are short"))
    }

    /// Its negative if `is_negative`.
    pub(super) fn negative_where(self, is_negative: bool) -> Term {
        Term(self.0 ^ u32::from(is_negative))
    }

    /// The term `places` positions later.
    pub(super) fn plus(self, places: usize) -> Term {
        Term(self.0 + (places << 1) as u32)
    }

    fn place(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A term, or empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(u32);

/// No term has this index: lists are shorter.
const EMPTY: u32 = u32::MAX;

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket(EMPTY);

    pub(super) fn term(self) -> Option<Term> {
        (self.0 != EMPTY).then_some(Term(self.0))
    }
}

/// A list of points, and of pairs of them whose sums will be appended. Coordinates are below 2^256.
pub(super) struct Pairs<V> {
    like: V,
    /// The first two are used if pairs do not fill a vector: they are neither equal nor opposite.
    points: Vec<TablePoint>,
    pairs: Vec<[Term; 2]>,
    inversions: Inversions<V>,
}

/// The pair of the first two points.
const STAND_IN: [Term; 2] = [Term(0), Term(2)];

impl<V: Vector> Pairs<V> {
    /// An empty list.
    pub(super) fn new(like: V) -> Pairs<V> {
        let mut list = Pairs { like, points: Vec::new(), pairs: Vec::new(), inversions: Inversions::new(like) };
        list.clear();
        list
    }

    /// Empties the list, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.points.clear();
        self.points.extend([0, 1].map(|window| BASES.table(window)[0]));
    }

    /// Reserves room for more points, pushed or summed: a list that grows step by step is copied each time.
    pub(super) fn reserve(&mut self, points: usize) {
        self.points.reserve(points + 2 * WAYS * LANES_MAX);
    }

    /// Appends points of the curve, with coordinates below 2^256, and returns the first of them.
    ///
    /// # Panics
    ///
    /// If pairs are queued: their sums have the next indexes.
    #[inline(always)]
    pub(super) fn push(&mut self, points: &[TablePoint]) -> Term {
        assert!(self.pairs.is_empty());
        self.points.extend_from_slice(points);
        Term::new(self.points.len() - points.len())
    }

    /// The sum of two points, which is available after the next [`Pairs::settle`].
    #[inline(always)]
    pub(super) fn pair(&mut self, a: Term, b: Term) -> Term {
        let place = self.points.len() + self.pairs.len();
        self.pairs.push([a, b]);
        Term((place << 1) as u32)
    }

    /// Adds terms to buckets, each with the number of its bucket. If a bucket already has a term, both are removed and
    /// their sum is queued. Appends the buckets of these sums, in order.
    ///
    /// There is no branch on whether a bucket has a term, because no processor could predict it.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        buckets: &mut [Bucket],
        waiting: &mut Vec<u32>,
        terms: impl ExactSizeIterator<Item = (u32, Term)>,
    ) {
        let mut pairs = self.pairs.len();
        let mut sums = waiting.len();
        self.pairs.resize(pairs + terms.len() + 1, STAND_IN);
        waiting.resize(sums + terms.len() + 1, 0);
        for (number, term) in terms {
            let bucket = &mut buckets[number as usize];
            let other = bucket.0;
            self.pairs[pairs] = [Term(other), term];
            waiting[sums] = number;
            let is_full = other != EMPTY;
            pairs += usize::from(is_full);
            sums += usize::from(is_full);
            bucket.0 = if is_full { EMPTY } else { term.0 };
        }
        self.pairs.truncate(pairs);
        waiting.truncate(sums);
    }

    /// [`Pairs::meet`] for the sums that [`Pairs::settle`] computed last, with the numbers of their buckets.
    pub(super) fn meet_sums(&mut self, buckets: &mut [Bucket], numbers: &[u32], waiting: &mut Vec<u32>) {
        let first = Term::new(self.points.len() - numbers.len());
        self.meet(buckets, waiting, numbers.iter().enumerate().map(|(at, &number)| (number, first.plus(at))));
    }

    /// A point of the list.
    pub(super) fn point(&self, term: Term) -> Affine {
        let TablePoint([x, y]) = self.points[term.place()];
        let x = Field::reduced(x);
        let y = Field::reduced(y);
        Affine { x, y: if term.is_negative() { -y } else { y } }
    }

    /// Computes the queued sums. False if a pair had equal or opposite points: then the list is unusable.
    pub(super) fn settle(&mut self) -> bool {
        let mut pairs = std::mem::take(&mut self.pairs);
        let count = pairs.len();
        assert!(self.points.len() + count < 1 << 30, "terms have a bit beside their places, and there is an empty one");
        // Whole vectors are read and computed, and the excess is cut off.
        let whole = count.next_multiple_of(V::LANES * WAYS);
        pairs.resize(whole + LANES_MAX, STAND_IN);
        let like = self.like;
        let end = self.points.len() + count;
        let good = (0..whole).step_by(SHARED_MAX).all(|first| {
            let count = (whole - first).min(SHARED_MAX);
            like.run(
                #[inline(always)]
                || self.add(&pairs[first..][..count + LANES_MAX], count),
            )
        });
        self.points.truncate(end);
        self.pairs = pairs;
        self.pairs.clear();
        good
    }

    /// Appends the sums of the first `count` pairs, which are whole vectors followed by [`LANES_MAX`] more, with one
    /// inversion.
    #[inline(always)]
    fn add(&mut self, pairs: &[[Term; 2]], count: usize) -> bool {
        let Pairs { like, points, inversions, .. } = self;
        let like = *like;
        let first = points.len();
        let highest = pairs.as_flattened().iter().fold(0, |highest, term| highest.max(term.0));
        assert!(Term(highest).place() < first, "terms are of points that are there");
        points.resize(first + count + LANES_MAX - V::LANES, TablePoint::EMPTY);
        let (points, sums) = points.split_at_mut(first);
        let mut good = true;
        inversions.add_pairs(
            count / (V::LANES * WAYS),
            #[inline(always)]
            |_| (),
            #[inline(always)]
            |at, way, axis| {
                let pairs = pairs[(at * WAYS + way) * V::LANES..].first_chunk().expect("there are more");
                // SAFETY: the highest index is within `points`, see above.
                each!(which, unsafe { coordinate(like, points, pairs, which, axis) })
            },
            #[inline(always)]
            |_| false,
            |_, zeros| good &= zeros == [0; WAYS],
            #[inline(always)]
            |at, way, axis, number| {
                let rows: &mut [TablePoint; LANES_MAX] =
                    sums[(at * WAYS + way) * V::LANES..].first_chunk_mut().expect("there is room");
                V::scatter(number.to_words(), rows.each_mut().map(|TablePoint(row)| &mut row[axis as usize]));
            },
        );
        self.points.truncate(first + count);
        good
    }
}

/// A coordinate of the first or the second points of a vector of pairs.
///
/// # Safety
///
/// All indexes are within `points`.
#[inline(always)]
unsafe fn coordinate<V: Vector>(
    like: V,
    points: &[TablePoint],
    pairs: &[[Term; 2]; LANES_MAX],
    which: usize,
    axis: Axis,
) -> Coordinate<V> {
    let mut rows = [points[0].row(axis); LANES_MAX];
    let mut negative = 0;
    for lane in 0..V::LANES {
        let term = pairs[lane][which];
        debug_assert!(term.place() < points.len());
        // SAFETY: the caller has checked.
        rows[lane] = unsafe { points.get_unchecked(term.place()) }.row(axis);
        negative |= (term.0 as u8 & 1) << lane;
    }
    Coordinate { number: Fe::from_words(like.gather(rows)), negative }
}
