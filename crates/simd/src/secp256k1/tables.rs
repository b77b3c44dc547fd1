//! Odd multiples of the generator, a table for each window of its scalar, made once, and the way from a table into lanes.
//!
//! Entry: x and y, four 64-bit words each, the lowest first: one cache line. Place `i` holds `2 i + 1` times the base.

use super::digits::{BASE_BITS, BASE_WINDOWS, Digits};
use super::field::Fe;
use super::point::Flat;
use super::reference::{Affine, GENERATOR, Jacobian, to_affine};
use super::vector::{LANES_MAX, Vector};
use std::sync::LazyLock;

/// A point in a table.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Entry(pub(super) [u64; 8]);

/// Entries of a table.
const ENTRIES: usize = 1 << (BASE_BITS - 1);

/// A table.
pub(super) type Table = [Entry; ENTRIES];

/// The tables of G, 2^8 G and so on: what a window of the scalar at that bit is multiplied with.
pub(super) static BASES: LazyLock<Box<[Table; BASE_WINDOWS]>> = LazyLock::new(|| {
    let next = |base: &Jacobian| Some((0..BASE_BITS).fold(*base, |base, _| base.double()));
    let bases: Vec<Jacobian> = std::iter::successors(Some(GENERATOR.jacobian()), next).take(BASE_WINDOWS).collect();
    let tables: Vec<Table> = to_affine(&bases).into_iter().map(odd_multiples).collect();
    tables.try_into().expect("as many as were taken")
});

/// The odd multiples of `base`, from one on.
fn odd_multiples(base: Affine) -> Table {
    let twice = to_affine(&[base.jacobian().double()])[0];
    let multiples: Vec<Jacobian> =
        std::iter::successors(Some(base.jacobian()), |point| Some(point.add(twice))).take(ENTRIES).collect();
    let entries: Vec<Entry> = to_affine(&multiples).into_iter().map(entry).collect();
    entries.try_into().expect("as many as were taken")
}

pub(super) fn entry(point: Affine) -> Entry {
    let (x, y) = (point.x.words(), point.y.words());
    Entry([x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]])
}

/// The entries that the lanes' digits name.
#[inline(always)]
pub(super) fn look_up<V: Vector>(like: V, table: &Table, digits: &Digits) -> Flat<V> {
    let mut rows = [&table[0].0; LANES_MAX];
    for lane in 0..V::LANES {
        rows[lane] = &table[usize::from(digits.places[lane])].0;
    }
    let [x0, x1, x2, x3, y0, y1, y2, y3] = like.gather(rows);
    Flat { x: Fe::from_words([x0, x1, x2, x3]), y: Fe::from_words([y0, y1, y2, y3]), negative: digits.negative }
}
