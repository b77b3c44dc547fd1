//! Whether a sum of many multiples of points is zero, by buckets.
//!
//! A multiplier has [`BITS`] bits of weight 1 or -1 (see [`super::digits`]), in windows. A digit is odd: plus or minus
//! `2 k + 1`. So each window adds each point, or its negative, to bucket k; the value of the window is then the sum of
//! `2 k + 1` times bucket k:
//!
//! ```text
//! for each window, for each point: bucket[k of the digit] += point or its negative
//! window = all buckets + sum over bits j of 2^(j + 1) (buckets whose k has bit j)
//! sum    = over all windows 2^(first bit of the window) window
//! ```
//!
//! The sums by bit are computed as a tree: neighbours are added, and those with an odd index go to the list of the
//! level's bit; 128 buckets need 254 additions. All additions of a round, in all windows, are independent:
//! [`super::pairs`] computes them together. Source: N. Pippenger, "On the evaluation of powers and related problems";
//! D. J. Bernstein, J. Doumen, T. Lange, J.-J. Oosterwijk, "Faster batch forgery identification", section 4.
//!
//! Zero has no coordinates: the last addition is not computed; its two points must be opposite.

use super::digits::window_of;
use super::pairs::{Bucket, Pairs, Term};
use super::reference::{Affine, Jacobian};
use super::vector::Vector;

/// Bits of a multiplier, of weight 1 or -1: odd numbers between -(2^129 - 1) and 2^129 - 1.
pub(super) const BITS: usize = 129;

/// A point, and the bits of its multiplier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Multiple {
    pub(super) point: Term,
    pub(super) bits: [u64; 3],
}

/// A range of the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    first: usize,
    bits: usize,
    /// Index of its first bucket, among those of all windows.
    bucket: usize,
}

impl Window {
    fn buckets(self) -> usize {
        1 << (self.bits - 1)
    }
}

/// Number of bits of most windows for this number of multiples: the one with the fewest additions.
fn best_bits(multiples: usize) -> usize {
    let additions = |bits: usize| windows(bits).iter().map(|window| multiples + 2 * window.buckets()).sum::<usize>();
    (3..=10).min_by_key(|&bits| additions(bits)).expect("some widths")
}

/// Windows of `bits` bits or one more.
fn windows(bits: usize) -> Vec<Window> {
    let count = BITS / bits;
    let mut first = 0;
    let mut bucket = 0;
    (0..count)
        .map(|at| {
            let bits = BITS / count + usize::from(at >= count - BITS % count);
            let window = Window { first, bits, bucket };
            (first, bucket) = (first + bits, bucket + window.buckets());
            window
        })
        .collect()
}

/// Points, and memory for their buckets.
pub(super) struct Room<V> {
    pub(super) pairs: Pairs<V>,
    buckets: Vec<Bucket>,
    /// The buckets of the queued sums in order, and of those that are queued after them.
    waiting: [Vec<u32>; 2],
}

impl<V: Vector> Room<V> {
    pub(super) fn new(like: V) -> Room<V> {
        Room { pairs: Pairs::new(like), buckets: Vec::new(), waiting: [Vec::new(), Vec::new()] }
    }
}

/// Whether the sum of the multiples is zero. Also false if an addition had equal or opposite points: then the result is
/// unknown. With random multipliers that does not happen, unless the points are related.
pub(super) fn is_zero<V: Vector>(room: &mut Room<V>, multiples: &[Multiple]) -> bool {
    is_zero_in(room, multiples, best_bits(multiples.len()))
}

/// [`is_zero`] with windows of the given number of bits.
pub(super) fn is_zero_in<V: Vector>(room: &mut Room<V>, multiples: &[Multiple], bits: usize) -> bool {
    let windows = &windows(bits);
    room.pairs.reserve(windows.iter().map(|window| multiples.len() + 2 * window.buckets()).sum());
    let mut at_bits = [None; BITS];
    fill(room, multiples, windows)
        .and_then(|()| reduce(&mut room.pairs, windows, &room.buckets, &mut at_bits))
        .is_some_and(|()| opposite(&at_bits.map(|term| term.map(|term| room.pairs.point(term)))))
}

/// Fills the buckets of all windows. `None` if an addition had equal or opposite points.
fn fill<V: Vector>(room: &mut Room<V>, multiples: &[Multiple], windows: &[Window]) -> Option<()> {
    let Room { pairs, buckets, waiting: [waiting, next] } = room;
    buckets.clear();
    buckets.resize(windows.iter().map(|window| window.buckets()).sum(), Bucket::EMPTY);
    waiting.clear();
    for window in windows {
        let half = window.buckets() as u64;
        let digits = multiples.iter().map(|multiple| {
            let digit = window_of(&multiple.bits, window.first, window.bits);
            // 2 u - (2^w - 1) is 2 (u - half) + 1, and its negative 2 (half - 1 - u) + 1.
            let negative = digit < half;
            let bucket = if negative { half - 1 - digit } else { digit - half };
            ((window.bucket as u64 + bucket) as u32, multiple.point.negative_where(negative))
        });
        pairs.meet(buckets, waiting, digits);
    }
    while !waiting.is_empty() {
        pairs.settle().then_some(())?;
        next.clear();
        pairs.meet_sums(buckets, waiting, next);
        std::mem::swap(waiting, next);
    }
    Some(())
}

/// A window between its buckets and its sums by bit.
struct Tree {
    first: usize,
    /// Sums of neighbours, of 2^level buckets each.
    level: Vec<Option<Term>>,
    /// For each bit of a bucket's number from the lowest on: terms whose sum is that of the buckets with that bit.
    by_bit: Vec<Vec<Term>>,
}

impl Tree {
    /// Adds the next additions to `pairs`.
    fn step<V: Vector>(&mut self, pairs: &mut Pairs<V>) {
        for terms in &mut self.by_bit {
            *terms = terms
                .chunks(2)
                .map(|pair| match *pair {
                    [a, b] => pairs.pair(a, b),
                    _ => pair[0],
                })
                .collect();
        }
        if self.level.len() > 1 {
            self.by_bit.push(self.level.iter().skip(1).step_by(2).flatten().copied().collect());
            self.level = self
                .level
                .chunks(2)
                .map(|pair| match *pair {
                    [Some(a), Some(b)] => Some(pairs.pair(a, b)),
                    [a, b] => a.or(b),
                    _ => unreachable!("a power of two of them"),
                })
                .collect();
        }
    }

    fn is_done(&self) -> bool {
        self.level.len() == 1 && self.by_bit.iter().all(|terms| terms.len() <= 1)
    }
}

/// Stores at each bit the point to multiply by its weight.
fn reduce<V: Vector>(
    pairs: &mut Pairs<V>,
    windows: &[Window],
    buckets: &[Bucket],
    at_bits: &mut [Option<Term>; BITS],
) -> Option<()> {
    let level =
        |window: &Window| buckets[window.bucket..][..window.buckets()].iter().map(|bucket| bucket.term()).collect();
    let mut trees: Vec<Tree> = windows
        .iter()
        .map(|window| Tree { first: window.first, level: level(window), by_bit: Vec::with_capacity(window.bits) })
        .collect();
    while !trees.iter().all(Tree::is_done) {
        trees.iter_mut().for_each(|tree| tree.step(pairs));
        pairs.settle().then_some(())?;
    }
    for tree in trees {
        at_bits[tree.first] = tree.level[0];
        for (bit, terms) in tree.by_bit.iter().enumerate() {
            at_bits[tree.first + 1 + bit] = terms.first().copied();
        }
    }
    Some(())
}

/// Whether the sum of all points, each times its bit's weight, is zero: the sum of the higher ones must be the opposite
/// of the lowest. False if the lowest bit has no point, or an addition met an exception.
fn opposite(at_bits: &[Option<Affine>; BITS]) -> bool {
    let mut sum: Option<Jacobian> = None;
    for point in at_bits[1..].iter().rev() {
        // After any addition to z = 0, or doubling of it, z stays zero, as in `super::point`.
        sum = match (sum, point) {
            (Some(sum), Some(point)) => Some(sum.add(*point)),
            (sum, point) => sum.or(point.map(Affine::jacobian)),
        };
        sum = sum.map(Jacobian::double);
    }
    let (Some(sum), Some(lowest)) = (sum, at_bits[0]) else { return false };
    let zz = sum.z.square();
    !sum.z.is_zero() && sum.x == lowest.x * zz && sum.y == -(lowest.y * zz * sum.z)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_all_bits_once() {
        for bits in 1..=12 {
            let windows = windows(bits);
            let (mut first, mut bucket) = (0, 0);
            for window in &windows {
                assert_eq!((window.first, window.bucket), (first, bucket));
                assert!(window.bits == bits || window.bits == bits + 1, "{bits}: {window:?}");
                (first, bucket) = (first + window.bits, bucket + window.buckets());
            }
            assert_eq!(first, BITS);
        }
        assert_eq!(best_bits(3), 3);
        assert!(best_bits(100_000) == 10 && (3..10).contains(&best_bits(700)));
    }
}
