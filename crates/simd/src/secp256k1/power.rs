//! Square roots and inverses in lanes: powers with a fixed exponent, several vectors side by side.
//!
//! Both exponents are, in binary, almost only ones: runs of 2, 22 and 223 ones are made first.
//! A power is one long chain of squarings, each waiting for the last; chains side by side fill the waiting.

use super::field::{Fe, mul, square};

/// Vectors that are raised side by side.
pub(super) const WAYS: usize = 4;

/// `number^(2^count)`, times `factor`.
#[target_feature(enable = "avx512f,avx512ifma")]
fn shift(numbers: &[Fe; WAYS], count: u32, factors: &[Fe; WAYS]) -> [Fe; WAYS] {
    let mut result = *numbers;
    for _ in 0..count {
        for number in &mut result {
            *number = square(number);
        }
    }
    for (number, factor) in result.iter_mut().zip(factors) {
        *number = mul(number, factor);
    }
    result
}

/// The powers to runs of 2, 22 and 223 ones.
#[target_feature(enable = "avx512f,avx512ifma")]
fn runs_of_ones(x1: &[Fe; WAYS]) -> [[Fe; WAYS]; 3] {
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

/// A square root of each number that has one: its power to (p + 1) / 4. For the others something else.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn roots(numbers: &[Fe; WAYS]) -> [Fe; WAYS] {
    let [x2, x22, x223] = runs_of_ones(numbers);
    let head = shift(&shift(&x223, 23, &x22), 6, &x2);
    head.map(|number| square(&square(&number)))
}

/// The inverse of each number, its power to p - 2; zero for zero.
#[target_feature(enable = "avx512f,avx512ifma")]
pub(super) fn inverses(numbers: &[Fe; WAYS]) -> [Fe; WAYS] {
    let [x2, x22, x223] = runs_of_ones(numbers);
    let head = shift(&shift(&x223, 23, &x22), 5, numbers);
    shift(&shift(&head, 3, &x2), 2, numbers)
}
