//! Sums of keys and multiples of points, beside the reference.

use super::*;
use crate::secp256k1::CurvePoint;

fn compressed(point: Affine) -> [u8; 33] {
    let mut key = [2 + u8::from(point.y.is_odd()); 33];
    key[1..].copy_from_slice(&bytes(point.x));
    key
}

/// The sum of all of them, one after the other.
fn sum(points: &[Affine]) -> Option<Affine> {
    points.iter().fold(None, |sum, &point| plus(sum, Some(point)))
}

/// Groups of all sizes, with keys that come again, with opposite ones and with keys that are no points: what is given
/// is right, and it is given wherever points are different or the same.
#[test]
fn sums_of_keys_agree_with_the_reference() {
    let mut rng = Rng::new(352);
    let points: Vec<Affine> = (0..40).map(|_| multiple(GENERATOR, scalar(&mut rng)).unwrap()).collect();
    for lanes in Lanes::available() {
        let mut keys = Vec::new();
        let mut counts = Vec::new();
        let mut want = Vec::new();
        let mut opposite = 0;
        for group in 0..rounds(300).max(60) {
            let count = [0, 1, 2, 2, 3, 5, 8, 33][group % 8];
            let mut of_group: Vec<Affine> = (0..count).map(|_| points[rng.below(points.len())]).collect();
            match group % 11 {
                // All the same: doubled again and again.
                1 => of_group.fill(points[group % points.len()]),
                2 if count > 1 => of_group[1] = negative(of_group[0]),
                _ => {}
            }
            let is_opposite = group % 11 == 2 && count > 1;
            opposite += usize::from(is_opposite);
            let mut of_group_keys: Vec<[u8; 33]> = of_group.iter().map(|&point| compressed(point)).collect();
            let mut is_known = count > 0 && !is_opposite;
            if group % 13 == 3 && count > 0 {
                is_known = false;
                let key = &mut of_group_keys[rng.below(count)];
                match rng.below(3) {
                    0 => key[0] = 4,
                    1 => key[1..].fill(0xff),
                    // The first x of no point of the curve. Source: 5 is none, as 132 is no square.
                    _ => *key = [[2; 1].as_slice(), &[0; 31], &[5]].concat().try_into().unwrap(),
                }
            }
            counts.push(count);
            keys.extend(of_group_keys);
            want.push((is_known, sum(&of_group)));
        }
        assert!(opposite > 2);
        let have = lanes.sum_keys(&keys, &counts);
        for (group, (have, (is_known, want))) in have.iter().zip(&want).enumerate() {
            let have = have.map(|point| point.affine());
            match (is_known, want) {
                (true, Some(want)) if have.is_some() => assert_eq!(have, Some(*want), "{lanes:?} {group}"),
                // Opposite sums of the tree, which random keys do not have, but repeated ones may.
                (true, _) => assert!(counts[group] > 3 || want.is_none(), "{lanes:?} {group}: no answer"),
                (false, _) => assert_eq!(have, None, "{lanes:?} {group}"),
            }
        }
        let known = have.iter().flatten().count();
        assert!(known > want.len() / 2, "{lanes:?}: {known} of {}", want.len());
        assert!(lanes.sum_keys(&[], &[]).is_empty());
    }
}

/// Any number of points and all kinds of numbers; zero and what is not below the order have no answer.
#[test]
fn multiples_agree_with_the_reference() {
    let mut rng = Rng::new(353);
    for lanes in Lanes::available() {
        for count in [0, 1, 3, lanes.width(), 2 * lanes.width() + 1, 21 * lanes.width()] {
            let keys: Vec<Affine> = (0..count).map(|_| multiple(GENERATOR, scalar(&mut rng)).unwrap()).collect();
            let sums = lanes.sum_keys(&keys.iter().map(|&key| compressed(key)).collect::<Vec<_>>(), &vec![1; count]);
            let points: Vec<CurvePoint> = sums.into_iter().map(|sum| sum.expect("one key is its sum")).collect();
            let numbers: Vec<[u64; 4]> = (0..count)
                .map(|at| match at % 9 {
                    7 => *edges::<Order>().get(rng.below(edges::<Order>().len())).unwrap(),
                    8 if rng.below(4) == 0 => [0; 4],
                    _ => scalar(&mut rng).words(),
                })
                .collect();
            let factors: Vec<(CurvePoint, [u8; 32])> = points
                .iter()
                .zip(&numbers)
                .map(|(&point, words)| {
                    let mut number = [0; 32];
                    for (to, word) in number.chunks_exact_mut(8).zip(words.iter().rev()) {
                        to.copy_from_slice(&word.to_be_bytes());
                    }
                    (point, number)
                })
                .collect();
            for (at, have) in lanes.multiply(&factors).into_iter().enumerate() {
                let number = Scalar::from_words(numbers[at]).filter(|number| !number.is_zero());
                let want = number.and_then(|number| multiple(keys[at], number));
                if let Some(have) = have {
                    assert_eq!(Some(have.affine()), want, "{lanes:?}: number {at} of {count}");
                    assert_eq!(have.compressed(), compressed(want.unwrap()));
                } else {
                    // Small numbers, and such near the order, may meet exceptions.
                    assert!(want.is_none() || at % 9 == 7, "{lanes:?}: number {at} of {count} has no answer");
                }
            }
        }
    }
}
