//! Odd multiples of the generator, a table for each window of its scalar, computed once, and look-ups from a table into
//! lanes.
//!
//! Entry: x and y, four 64-bit words each, the lowest first: one cache line. Entry `i` is `2 i + 1` times the base.

use super::digits::{BASE_BITS, BASE_WINDOWS, Digits};
use super::field::Fe;
use super::point::{Axis, Coordinate};
use super::reference::{Affine, GENERATOR, Jacobian, to_affine};
use super::vector::{LANES_MAX, Vector};
use crate::prefetch::prefetch;
use std::sync::LazyLock;
use sys::memory::{Array, HUGE_PAGE_BYTES, Zeroed};

/// A point in a table.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct TablePoint(pub(super) [[u64; 4]; 2]);

// SAFETY: eight words, without padding; any bits are a value.
unsafe impl Zeroed for TablePoint {}

impl TablePoint {
    pub(super) const EMPTY: TablePoint = TablePoint([[0; 4]; 2]);

    /// One of its coordinates, below 2^256.
    #[inline(always)]
    pub(super) fn row(&self, axis: Axis) -> &[u64; 4] {
        &self.0[axis as usize]
    }
}

/// Entries of a table.
const ENTRIES: usize = 1 << (BASE_BITS - 1);

/// A table.
pub(super) type Table = [TablePoint; ENTRIES];

/// The tables of G, 2^12 G and so on, one for each window of the scalar. They are read at random, so they are in huge
/// pages if the system has them.
pub(super) struct Bases(Array<TablePoint>);

pub(super) static BASES: LazyLock<Bases> = LazyLock::new(|| {
    let next = |base: &Jacobian| Some((0..BASE_BITS).fold(*base, |base, _| base.double()));
    let bases: Vec<Jacobian> = std::iter::successors(Some(GENERATOR.jacobian()), next).take(BASE_WINDOWS).collect();
    // The length is a multiple of a huge page: otherwise the end would be in small pages.
    let bytes = (BASE_WINDOWS * size_of::<Table>()).next_multiple_of(HUGE_PAGE_BYTES);
    let mut tables = Array::new(bytes / size_of::<TablePoint>());
    for (base, table) in to_affine(&bases).into_iter().zip(tables.chunks_mut(ENTRIES)) {
        table.copy_from_slice(&odd_multiples(base));
    }
    Bases(tables)
});

impl Bases {
    /// The table for a window.
    #[inline(always)]
    pub(super) fn table(&self, window: usize) -> &Table {
        self.0[window * ENTRIES..].first_chunk().expect("a table for each window")
    }
}

/// The odd multiples of `base`, from one on.
fn odd_multiples(base: Affine) -> Vec<TablePoint> {
    let twice = to_affine(&[base.jacobian().double()])[0];
    let multiples: Vec<Jacobian> =
        std::iter::successors(Some(base.jacobian()), |point| Some(point.add(twice))).take(ENTRIES).collect();
    to_affine(&multiples).into_iter().map(entry).collect()
}

pub(super) fn entry(point: Affine) -> TablePoint {
    TablePoint([point.x.words(), point.y.words()])
}

/// Entries of a vector's points.
#[inline(always)]
pub(super) fn entries<V: Vector>(x: &Fe<V>, y: &Fe<V>) -> [TablePoint; LANES_MAX] {
    let mut rows = [TablePoint::EMPTY; LANES_MAX];
    for (axis, number) in [x, y].into_iter().enumerate() {
        V::scatter(number.to_words(), rows.each_mut().map(|TablePoint(row)| &mut row[axis]));
    }
    rows
}

/// A coordinate of the entries that the lanes' digits select.
#[inline(always)]
pub(super) fn look_up<V: Vector>(like: V, table: &Table, digits: &Digits, axis: Axis) -> Coordinate<V> {
    let mut rows = [table[0].row(axis); LANES_MAX];
    for lane in 0..V::LANES {
        rows[lane] = table[usize::from(digits.places[lane]) % ENTRIES].row(axis);
    }
    Coordinate { number: Fe::from_words(like.gather(rows)), negative: digits.negative }
}

/// Prefetches the entries that the lanes' digits select.
#[inline(always)]
pub(super) fn ask<V: Vector>(table: &Table, digits: &Digits) {
    for lane in 0..V::LANES {
        prefetch(table, usize::from(digits.places[lane]) % ENTRIES);
    }
}
