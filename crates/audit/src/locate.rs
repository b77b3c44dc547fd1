//! Finds the heights at which coins do not match: the error locators of Reed-Solomon codes.
//!
//! If coins of wrong numbers c are at heights h, the sums of differences are s(k) = sum of c (h + 1)^k. They determine
//! up to half as many heights as there are sums: the Berlekamp-Massey algorithm gives the polynomial whose roots they
//! are.

use crate::field::Number;
use crate::sums::{POWERS, Sums};

/// Maximum number of heights that can be located.
pub(crate) const HEIGHTS_MAX: usize = POWERS / 2;

/// The heights from 0 to `last` with wrong coins, for sums of differences that are not all zero; `None` if there are
/// too many of them.
pub(crate) fn heights(differences: &Sums, last: u32) -> Option<Vec<u32>> {
    let locator = shortest_recurrence(&differences.0);
    let count = locator.len() - 1;
    if count == 0 || count > HEIGHTS_MAX {
        return None;
    }
    // x^L + c1 x^(L-1) + .. + cL.
    let value = |height: u32| {
        let x = height + 1;
        locator.iter().fold(Number::ZERO, |sum, factor| sum.times_u32(x).plus(*factor))
    };
    let roots: Vec<u32> = (0..=last).filter(|height| value(*height).is_zero()).collect();
    (roots.len() == count).then_some(roots)
}

/// Factors 1, c1 .. cL of the shortest recurrence s(k) + c1 s(k-1) + .. + cL s(k-L) = 0.
///
/// Source: Massey, Shift-register synthesis and BCH decoding, 1969.
fn shortest_recurrence(s: &[Number; POWERS]) -> Vec<Number> {
    let mut c = vec![Number::ONE];
    let mut before = vec![Number::ONE];
    let mut length = 0;
    let mut shift = 1;
    let mut before_gap = Number::ONE;
    for k in 0..s.len() {
        let gap = (0..=length.min(c.len() - 1)).fold(Number::ZERO, |sum, i| sum.plus(c[i].times(s[k - i])));
        if gap.is_zero() {
            shift += 1;
            continue;
        }
        let factor = gap.times(before_gap.inverse());
        let mut next = c.clone();
        next.resize(next.len().max(before.len() + shift), Number::ZERO);
        for (i, old) in before.iter().enumerate() {
            next[i + shift] = next[i + shift].minus(factor.times(*old));
        }
        if 2 * length <= k {
            (length, before, before_gap, shift) = (k + 1 - length, c, gap, 1);
        } else {
            shift += 1;
        }
        c = next;
    }
    c.resize(length + 1, Number::ZERO);
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_eight_heights_are_found_and_more_are_not() {
        let mut rng = testkit::Rng::new(9);
        for wrong in [
            &[0][..],
            &[77],
            &[0, 1],
            &[5, 4000],
            &[3, 2, 1],
            &[900, 0, 17, 4999],
            &[1, 2, 3, 4, 5],
            &[4999, 4000, 3000, 2000, 1000, 500, 7, 0],
            &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17],
        ] {
            let mut sums = Sums::default();
            for height in wrong {
                // Several coins of one height are one.
                for _ in 0..3 {
                    sums.add(Number::from_hash(&std::array::from_fn(|_| rng.u64() as u8)), *height);
                }
            }
            let mut want = wrong.to_vec();
            want.sort_unstable();
            assert_eq!(heights(&sums, 5000), (wrong.len() <= HEIGHTS_MAX).then_some(want), "{wrong:?}");
        }
    }

    #[test]
    fn heights_beyond_the_chain_are_not_found() {
        let mut sums = Sums::default();
        sums.add(Number::from_u64(12), 5001);
        assert_eq!((heights(&sums, 5000), heights(&sums, 5001)), (None, Some(vec![5001])));
    }
}
