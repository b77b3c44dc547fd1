//! Square roots in lanes: powers with a fixed exponent, several vectors interleaved.
//!
//! The exponent consists, in binary, almost only of ones: runs of 2, 22 and 223 ones are computed first. A power is one
//! long chain of dependent squarings; interleaved chains hide the latency.

use super::field::{Fe, Loose, Multiplicand};
use super::products::{mul_loose, square_loose};
use super::vector::Vector;

/// Vectors processed interleaved.
pub(super) const WAYS: usize = 4;

/// `number^(2^count)`, times `factor`.
fn shift<V: Vector>(numbers: &[Loose<V>; WAYS], count: u32, factors: &[Loose<V>; WAYS]) -> [Loose<V>; WAYS] {
    numbers[0].like().run(
        #[inline(always)]
        || shifted(numbers, count, factors),
    )
}

/// See [`shift`].
#[inline(always)]
fn shifted<V: Vector>(numbers: &[Loose<V>; WAYS], count: u32, factors: &[Loose<V>; WAYS]) -> [Loose<V>; WAYS] {
    let mut result = *numbers;
    for _ in 0..count {
        for number in &mut result {
            *number = square_loose(number);
        }
    }
    for (number, factor) in result.iter_mut().zip(factors) {
        *number = mul_loose(number, factor);
    }
    result
}

/// The powers to runs of 2, 22 and 223 ones.
fn runs_of_ones<V: Vector>(x1: &[Loose<V>; WAYS]) -> [[Loose<V>; WAYS]; 3] {
    let x2 = shift(x1, 1, x1);
    let x3 = shift(&x2, 1, x1);
    let x6 = shift(&x3, 3, &x3);
    let x9 = shift(&x6, 3, &x3);
    let x11 = shift(&x9, 2, &x2);
    let x22 = shift(&x11, 11, &x11);
    let x44 = shift(&x22, 22, &x22);
    let x88 = shift(&x44, 44, &x44);
    let x176 = shift(&x88, 88, &x88);
    let x220 = shift(&x176, 44, &x44);
    let x223 = shift(&x220, 3, &x3);
    [x2, x22, x223]
}

/// A square root of each number that has one: its power to (p + 1) / 4. For other numbers the result is not a root.
#[inline(always)]
pub(super) fn roots<V: Vector>([a, b, c, d]: &[Fe<V>; WAYS]) -> [Fe<V>; WAYS] {
    let [x2, x22, x223] = runs_of_ones(&[a.loose(), b.loose(), c.loose(), d.loose()]);
    let head = shift(&shift(&x223, 23, &x22), 6, &x2);
    let one = Fe::small(a.like(), 1).loose();
    let [a, b, c, d] = shift(&head, 2, &[one; WAYS]);
    [a.masked(), b.masked(), c.masked(), d.masked()]
}
