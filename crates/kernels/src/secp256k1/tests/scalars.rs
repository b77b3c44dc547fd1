//! Scalars in lanes, beside the reference.

use super::*;
use crate::secp256k1::digits::{Bits, LaneBits};
use crate::secp256k1::scalars::{Fraction, bits};

/// A scalar: often one at a bound, or one whose halves are long.
fn number(edges: &[[u64; 4]], rng: &mut Rng) -> Scalar {
    let edge = |rng: &mut Rng| Scalar::reduced(edges[rng.below(edges.len())]);
    match rng.below(4) {
        0 => edge(rng),
        1 => edge(rng) + LAMBDA * edge(rng),
        _ => scalar(rng),
    }
}

/// Quotients and what they are cut into: what the reference has, for any count, whatever the lanes beside hold. Of a
/// small number the generator's bits may be those of the number and the order: both stand for it. A scalar in the
/// middle between points of the lattice, as zero is, may be cut in two ways.
#[test]
fn fractions_agree_with_the_reference() {
    fn compare<V: Vector>(like: V, count: usize, edges: &[[u64; 4]], rng: &mut Rng, same: &mut [usize; 2]) {
        let (mut fractions, mut want) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let base = if rng.below(2) == 0 { edges[rng.below(edges.len())] } else { words(rng) };
            let (key, divisor) = (number(edges, rng), number(edges, rng));
            let divisor = if divisor.is_zero() { Scalar::ONE } else { divisor };
            fractions.push(Fraction::new(base, key, divisor));
            let inverse = divisor.inverse();
            want.push((Scalar::reduced(base) * inverse, key * inverse));
        }
        let have = bits(like, &fractions);
        assert_eq!(have.len(), count);
        for (at, (bits, &(base, key))) in have.iter().zip(&want).enumerate() {
            let has_base = Scalar::reduced(bits.words[0]);
            let wanted = Bits::of(base, key);
            assert_eq!(has_base.words(), wanted.words[0], "{at} of {count}: {:x?}", fractions[at]);
            same[usize::from(*bits == wanted)] += 1;
        }
        for (part, want) in have.chunks(V::LANES).zip(want.chunks(V::LANES)) {
            digits_of(like, part, want);
        }
    }
    let (mut rng, edges, mut same) = (Rng::new(41), edges::<Order>(), [0; 2]);
    for round in 0..rounds(120) {
        let count = [0, 1, 2, 7, 8, 9, 16, 17, 33, 70][round % 10];
        each_kind!(compare(count, &edges, &mut rng, &mut same));
    }
    assert!(same[1] > 10 * same[0], "{same:?}: other bits are rare");
}

/// The digits of some bits in lanes stand for the scalars, in windows of the key's and of four bits; of random scalars
/// they are those that each lane is set to.
fn digits_of<V: Vector>(like: V, part: &[Bits], want: &[(Scalar, Scalar)]) {
    let (mut all, mut one_by_one) = (Recoded::ONES, Recoded::ONES);
    let bits = LaneBits::new(like, part.iter());
    all.set_all(&bits);
    let mut fours = [[Digits::ONES; 33]; 2];
    bits.half::<4, 60, 33>(0, &mut fours[0]);
    bits.half::<4, 60, 33>(1, &mut fours[1]);
    for (lane, &(base, key)) in want.iter().enumerate() {
        one_by_one.set(lane, base, key);
        let of_lane = |digits: &Digits| (digits.places[lane], digits.negative >> lane & 1);
        let halves = all.key.iter().flatten().zip(one_by_one.key.iter().flatten());
        let mut pairs = all.base.iter().zip(&one_by_one.base).chain(halves);
        let is_same = part[lane] == Bits::of(base, key);
        assert!(!is_same || pairs.all(|(have, want)| of_lane(have) == of_lane(want)), "lane {lane}");
        assert_eq!(sum_of(&all.base, lane, BASE_BITS), base, "lane {lane}");
        assert_eq!(sum_of(&all.key[0], lane, KEY_BITS) + LAMBDA * sum_of(&all.key[1], lane, KEY_BITS), key);
        assert_eq!(sum_of(&fours[0], lane, 4) + LAMBDA * sum_of(&fours[1], lane, 4), key, "lane {lane}");
    }
}

/// Scalars near the middle between points of the lattice, where either of two cuts is good.
#[test]
fn longest_halves_in_lanes() {
    fn cut<V: Vector>(like: V, scalars: &[Scalar]) {
        let fractions: Vec<Fraction> =
            scalars.iter().map(|&scalar| Fraction::new([5, 0, 0, 0], scalar, Scalar::ONE)).collect();
        for (part, want) in bits(like, &fractions).chunks(V::LANES).zip(scalars.chunks(V::LANES)) {
            let mut digits = Recoded::ONES;
            digits.set_all(&LaneBits::new(like, part.iter()));
            let [one, lambda] = &digits.key;
            for (lane, &want) in want.iter().enumerate() {
                assert_eq!(sum_of(one, lane, KEY_BITS) + LAMBDA * sum_of(lambda, lane, KEY_BITS), want);
            }
        }
    }
    each_kind!(cut(&bounds::scalars_with_longest_halves()));
}
