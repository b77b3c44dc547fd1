//! Claims about keys that come again, beside the reference.

use super::*;
use crate::secp256k1::questions::key;
use crate::secp256k1::repeats::sets;

/// A true claim: `base G + key P` has the claimed x, where P is `secret` times the generator. `None` where that is
/// infinity.
fn claim_of(secret: Scalar, base: Scalar, key: Scalar) -> Option<Claim> {
    let point = multiple(GENERATOR, secret)?;
    let sum = plus(multiple(GENERATOR, base), multiple(point, key))?;
    let r = Scalar::reduced(sum.x.words());
    let s = r * key.inverse();
    let s = if is_high(s) { -s } else { s };
    // With -s both multiples are negated, and the sum has the same x.
    let message = base * key.inverse() * r;
    let y = if point.y.is_odd() { Y::Odd } else { Y::Even };
    Some(Claim::Ecdsa { x: bytes(point.x), y, r: bytes(r), s: bytes(s), message: bytes(message) })
}

fn random_claim(secret: Scalar, rng: &mut Rng) -> Claim {
    let number = |rng: &mut Rng| Scalar::reduced(std::array::from_fn(|_| rng.u64()));
    let (base, key) = (number(rng), number(rng));
    claim_of(secret, base, key).expect("random multiples do not cancel out")
}

/// Whether tables are made for some of the claims.
fn come_again(lanes: Lanes, claims: &[Claim]) -> bool {
    !sets(&claims.iter().map(key).collect::<Vec<_>>(), lanes.width()).is_empty()
}

/// Few keys many times, many keys a few times, more than a set has; among them claims that are false, keys that come
/// once and other kinds of claims.
#[test]
fn keys_that_come_again_prove_what_is_true() {
    let mut rng = Rng::new(21);
    for lanes in Lanes::available() {
        let width = lanes.width();
        for (keys, times) in [(1, 12 * width + 3), (width - 1, 17), (2 * width + 1, 13), (2, width * PAIRS)] {
            let (mut all, mut want) = (Vec::new(), Vec::new());
            for secret in (0..keys).map(|_| scalar(&mut rng)).collect::<Vec<_>>() {
                // Making a claim takes longer than proving it: each stands there more than once.
                let few: Vec<Claim> = (0..5).map(|_| random_claim(secret, &mut rng)).collect();
                for time in 0..times {
                    let mut claim = few[time % few.len()];
                    let is_good = rng.below(4) > 0;
                    if !is_good {
                        let which = 1 + rng.below(3);
                        numbers(&mut claim)[which][31] ^= 1 << rng.below(8);
                    }
                    all.push(claim);
                    want.push(is_good);
                }
                all.extend(claims(&mut rng));
                want.extend([true; 5]);
            }
            let mut order: Vec<usize> = (0..all.len()).collect();
            order.sort_by_cached_key(|_| rng.u64());
            let (all, want): (Vec<Claim>, Vec<bool>) = order.into_iter().map(|at| (all[at], want[at])).unzip();
            assert!(come_again(lanes, &all), "{lanes:?}, {keys} keys");
            assert_eq!(lanes.prove(&all), want, "{lanes:?}, {keys} keys");
        }
    }
}

/// An x without a point, and the other parity of a key, many times beside good keys.
#[test]
fn keys_that_are_none_come_again_and_prove_nothing() {
    let mut rng = Rng::new(22);
    let root = [0xffff_ffff_bfff_ff0c, u64::MAX, u64::MAX, u64::MAX >> 2];
    let is_point = |x: Field| {
        let square = x.square() * x + small(7);
        square.power(root).square() == square
    };
    let off = (1..).map(small::<Prime>).find(|&x| !is_point(x)).expect("half of all numbers are none");
    for lanes in Lanes::available() {
        let good = random_claim(scalar(&mut rng), &mut rng);
        let Claim::Ecdsa { x, y, r, s, message } = good else { unreachable!() };
        let other = if y == Y::Odd { Y::Even } else { Y::Odd };
        let opposite = Claim::Ecdsa { x, y: other, r, s, message };
        let nowhere = Claim::Ecdsa { x: bytes(off), y, r, s, message };
        // With x = 0 there is no point either.
        let zero = Claim::Ecdsa { x: [0; 32], y, r, s, message };
        let kinds = [good, opposite, nowhere, zero];
        let all: Vec<Claim> = (0..20 * lanes.width()).map(|at| kinds[at % 4]).collect();
        assert!(come_again(lanes, &all));
        let want: Vec<bool> = (0..all.len()).map(|at| at % 4 == 0).collect();
        assert_eq!(lanes.prove(&all), want, "{lanes:?}");
    }
}

/// Keys and multiples that have to do with each other meet what sums leave out. Then nothing is said of them; what is
/// false is not proven, and others are.
#[test]
fn related_multiples_leave_other_claims_alone() {
    let mut rng = Rng::new(23);
    let numbers = |number: u64| [small::<Order>(number), -small::<Order>(number)];
    let mut related: Vec<Scalar> = [1, 2, 3, 16, 1 << 33].into_iter().flat_map(numbers).collect();
    related.extend([LAMBDA, -LAMBDA, LAMBDA + Scalar::ONE]);
    for lanes in Lanes::available() {
        let secret = scalar(&mut rng);
        let good: Vec<Claim> = (0..4).map(|_| random_claim(secret, &mut rng)).collect();
        let (mut all, mut want) = (Vec::new(), Vec::new());
        for secret in [small(1), -small::<Order>(1), small(2), LAMBDA] {
            for _ in 0..3 * lanes.width() {
                let [base, key] = std::array::from_fn(|_| related[rng.below(related.len())]);
                let Some(claim) = claim_of(secret, base, key) else { continue };
                let mut bad = claim;
                super::numbers(&mut bad)[3][31] ^= 1;
                all.extend([claim, bad, good[all.len() % 4]]);
                want.extend([None, Some(false), Some(true)]);
            }
        }
        assert!(come_again(lanes, &all));
        let proven = lanes.prove(&all);
        for (at, (proven, want)) in proven.iter().zip(&want).enumerate() {
            assert!(want.is_none_or(|want| want == *proven), "{lanes:?}, {at}: {:?}", all[at]);
        }
    }
}
