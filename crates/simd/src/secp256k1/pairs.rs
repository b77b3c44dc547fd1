//! Sums of pairs of points in lanes, with z = 1 before and after: a whole list of pairs shares one inversion.
//!
//! How one inversion does for all: [`super::inversions`]. A sum takes five products and a square, of which an addition of
//! [`super::point`] takes eight and three.
//!
//! The formulas leave out pairs of equal and of opposite points. Where a list has one, nothing is said of any pair:
//! [`Pairs::settle`] returns false.
//!
//! Absent on purpose: which points are to be added, and why.

#![expect(clippy::needless_range_loop, reason = "as in the field: loops over numbers are unrolled")]

use super::field::Fe;
use super::inversions::Inversions;
use super::point::{Flat, WAYS};
use super::reference::{Affine, Field};
use super::tables::{BASES, Entry};
use super::vector::{LANES_MAX, Vector};

/// Pairs that share an inversion at most: what is kept of each of their vectors, 640 bytes, stays in a processor's cache.
const SHARED_MAX: usize = 8192;

/// A point of a list, or its negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term(u32);

impl Term {
    fn new(place: usize) -> Term {
        Term(u32::try_from(place << 1).expect("lists are short"))
    }

    /// Its negative where `is_negative`.
    pub(super) fn negative_where(self, is_negative: bool) -> Term {
        Term(self.0 ^ u32::from(is_negative))
    }

    fn place(self) -> usize {
        (self.0 >> 1) as usize
    }

    fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A term, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(u32);

/// No term has this place: lists are shorter.
const EMPTY: u32 = u32::MAX;

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket(EMPTY);

    pub(super) fn term(self) -> Option<Term> {
        (self.0 != EMPTY).then_some(Term(self.0))
    }
}

/// A list of points, and of pairs of them whose sums it is to have. Coordinates are below 2^256.
pub(super) struct Pairs<V> {
    like: V,
    /// The first two stand in where pairs do not fill a vector: they are not equal nor opposite.
    points: Vec<Entry>,
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

    /// Makes it an empty list again, and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.pairs.clear();
        self.points.clear();
        self.points.extend(BASES[..2].iter().map(|base| base[0]));
    }

    /// Makes room for more points, pushed or summed: a list that grows step by step is copied each time.
    pub(super) fn reserve(&mut self, points: usize) {
        self.points.reserve(points + WAYS * LANES_MAX);
    }

    /// Appends a point of the curve, with coordinates below 2^256.
    ///
    /// # Panics
    ///
    /// While pairs wait: their sums have the next places.
    pub(super) fn push(&mut self, point: Entry) -> Term {
        assert!(self.pairs.is_empty());
        self.points.push(point);
        Term::new(self.points.len() - 1)
    }

    /// The sum of two points, which is there after the next [`Pairs::settle`].
    #[inline(always)]
    pub(super) fn pair(&mut self, a: Term, b: Term) -> Term {
        let place = self.points.len() + self.pairs.len();
        self.pairs.push([a, b]);
        Term((place << 1) as u32)
    }

    /// Puts terms into buckets, each with the number of its bucket: where one is there already both are taken out, and
    /// their sum waits. Appends the buckets of these sums, in order.
    ///
    /// Without a branch on whether a bucket is full, which no processor could foresee.
    #[inline(always)]
    pub(super) fn meet(
        &mut self,
        buckets: &mut [Bucket],
        waiting: &mut Vec<u32>,
        terms: impl ExactSizeIterator<Item = (u32, Term)>,
    ) {
        let (mut pairs, mut sums) = (self.pairs.len(), waiting.len());
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

    /// The sum number `at` of those that [`Pairs::settle`] computed last, of `count`.
    #[inline(always)]
    pub(super) fn sum(&self, at: usize, count: usize) -> Term {
        Term(((self.points.len() - count + at) << 1) as u32)
    }

    /// A point of the list.
    pub(super) fn point(&self, term: Term) -> Affine {
        let Entry([x0, x1, x2, x3, y0, y1, y2, y3]) = self.points[term.place()];
        let (x, y) = (Field::reduced([x0, x1, x2, x3]), Field::reduced([y0, y1, y2, y3]));
        Affine { x, y: if term.is_negative() { -y } else { y } }
    }

    /// Computes the sums that wait. False where a pair was of equal or of opposite points: the list is of no more use.
    pub(super) fn settle(&mut self) -> bool {
        let pairs = std::mem::take(&mut self.pairs);
        assert!(self.points.len() + pairs.len() < 1 << 31, "terms have a bit beside their places");
        let like = self.like;
        let good = pairs.chunks(SHARED_MAX).all(|pairs| {
            like.run(
                #[inline(always)]
                || self.add(pairs),
            )
        });
        self.pairs = pairs;
        self.pairs.clear();
        good
    }

    /// Appends the sums, with one inversion.
    #[inline(always)]
    fn add(&mut self, pairs: &[[Term; 2]]) -> bool {
        let Pairs { like, points, inversions, .. } = self;
        let (like, first, at_once) = (*like, points.len(), V::LANES * WAYS);
        // Whole vectors are written, and what is too much is cut off.
        points.resize(first + pairs.len() + WAYS * LANES_MAX, Entry([0; 8]));
        let (points, sums) = points.split_at_mut(first);
        let mut good = true;
        inversions.add_pairs(
            pairs.len().div_ceil(at_once),
            #[inline(always)]
            |at, way| {
                let pairs = &pairs[at * at_once..];
                [coordinates(like, points, pairs, way, 0), coordinates(like, points, pairs, way, 1)]
            },
            #[inline(always)]
            |_| false,
            |_, zeros| good &= zeros == [0; WAYS],
            #[inline(always)]
            |at, pair| {
                for (way, sum) in pair.iter().enumerate() {
                    let [[x0, x1, x2, x3], [y0, y1, y2, y3]] = [sum.x.to_words(), sum.y.to_words()];
                    let place = at * at_once + way * V::LANES;
                    let rows: &mut [Entry; LANES_MAX] = sums[place..].first_chunk_mut().expect("there is room");
                    V::scatter([x0, x1, x2, x3, y0, y1, y2, y3], rows.each_mut().map(|Entry(row)| row));
                }
            },
        );
        self.points.truncate(first + pairs.len());
        good
    }
}

/// The first or the second points of a vector of pairs.
#[inline(always)]
fn coordinates<V: Vector>(like: V, points: &[Entry], pairs: &[[Term; 2]], way: usize, which: usize) -> Flat<V> {
    let mut rows = [&points[0].0; LANES_MAX];
    let mut negative = 0;
    for lane in 0..V::LANES {
        let term = pairs.get(way * V::LANES + lane).unwrap_or(&STAND_IN)[which];
        rows[lane] = &points[term.place()].0;
        negative |= (term.0 as u8 & 1) << lane;
    }
    let [x0, x1, x2, x3, y0, y1, y2, y3] = like.gather(rows);
    Flat { x: Fe::from_words([x0, x1, x2, x3]), y: Fe::from_words([y0, y1, y2, y3]), negative }
}
