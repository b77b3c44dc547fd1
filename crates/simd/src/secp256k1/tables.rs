//! The generator's odd multiples, made once, and the way from a table into lanes.
//!
//! Entry: x and y, four 64-bit words each, the lowest first: one cache line. Place `i` holds `2 i + 1` times the base.

use super::digits::{BASE_BITS, Digits};
use super::field::{Fe, LANES};
use super::point::Flat;
use super::reference::{Affine, GENERATOR, Jacobian, to_affine};
use std::arch::x86_64::*;
use std::sync::LazyLock;

/// A point in a table.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Entry([u64; 8]);

/// Entries of a table.
const ENTRIES: usize = 1 << (BASE_BITS - 1);

/// The tables of G and of 2^128 G.
pub(super) static BASES: LazyLock<[Box<[Entry; ENTRIES]>; 2]> = LazyLock::new(|| {
    let mut high = GENERATOR.jacobian();
    for _ in 0..128 {
        high = high.double();
    }
    [GENERATOR, to_affine(&[high])[0]].map(odd_multiples)
});

/// The odd multiples of `base`, from one on.
fn odd_multiples(base: Affine) -> Box<[Entry; ENTRIES]> {
    let twice = to_affine(&[base.jacobian().double()])[0];
    let multiples: Vec<Jacobian> =
        std::iter::successors(Some(base.jacobian()), |point| Some(point.add(twice))).take(ENTRIES).collect();
    let entries: Vec<Entry> = to_affine(&multiples).into_iter().map(entry).collect();
    entries.try_into().expect("as many as were taken")
}

fn entry(point: Affine) -> Entry {
    let (x, y) = (point.x.words(), point.y.words());
    Entry([x[0], x[1], x[2], x[3], y[0], y[1], y[2], y[3]])
}

/// The entries that the lanes' digits name.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn look_up(table: &[Entry; ENTRIES], digits: &Digits) -> Flat {
    let mut rows = [_mm512_setzero_si512(); LANES];
    for (row, &place) in rows.iter_mut().zip(&digits.places) {
        let Entry(words) = &table[usize::from(place)];
        *row = super::field::load(words);
    }
    let [x0, x1, x2, x3, y0, y1, y2, y3] = transposed(rows);
    Flat { x: Fe::from_words([x0, x1, x2, x3]), y: Fe::from_words([y0, y1, y2, y3]), negative: digits.negative }
}

/// Turns eight rows of eight words into eight columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn transposed(r: [__m512i; 8]) -> [__m512i; 8] {
    let mut columns = r;
    for odd in 0..2 {
        let mut pairs = [r[0]; 4]; // Part p of pair i: column 2 p + odd of rows 2 i and 2 i + 1.
        for i in 0..4 {
            let (a, b) = (r[2 * i], r[2 * i + 1]);
            pairs[i] = if odd == 0 { _mm512_unpacklo_epi64(a, b) } else { _mm512_unpackhi_epi64(a, b) };
        }
        let [a, b, c, d] = pairs;
        let (ab_04, cd_04) = (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0x88>(c, d));
        let (ab_26, cd_26) = (_mm512_shuffle_i64x2::<0xDD>(a, b), _mm512_shuffle_i64x2::<0xDD>(c, d));
        columns[odd] = _mm512_shuffle_i64x2::<0x88>(ab_04, cd_04);
        columns[odd + 4] = _mm512_shuffle_i64x2::<0xDD>(ab_04, cd_04);
        columns[odd + 2] = _mm512_shuffle_i64x2::<0x88>(ab_26, cd_26);
        columns[odd + 6] = _mm512_shuffle_i64x2::<0xDD>(ab_26, cd_26);
    }
    columns
}
