//! One ECDSA signature and several keys, beside the reference.

use super::*;

/// A signature, and the secrets of both keys that it holds with.
struct Signature {
    r: Scalar,
    s: Scalar,
    message: Scalar,
    secrets: [Scalar; 2],
}

impl Signature {
    /// The keys are `base G + key R` and `base G - key R`, where R is `nonce` times the generator.
    fn new(nonce: Scalar, base: Scalar, key: Scalar) -> Signature {
        let r = Scalar::reduced(multiple(GENERATOR, nonce).expect("no nonce is zero").x.words());
        let (s, message) = (key * r, -(base * r));
        let secrets = [base + key * nonce, base - key * nonce];
        // With -s, as with -R, both keys change places.
        Signature { r, s: if is_high(s) { -s } else { s }, message, secrets }
    }

    /// That it is by this key, which is told in one of the two ways.
    fn by(&self, key: Affine, all: bool) -> Claim {
        let y = if all { Y::Given(bytes(key.y)) } else { [Y::Even, Y::Odd][usize::from(key.y.is_odd())] };
        Claim::Ecdsa { x: bytes(key.x), y, r: bytes(self.r), s: bytes(self.s), message: bytes(self.message) }
    }
}

/// Claims about one signature, and which of them are true: both keys once or more, their negatives and other keys.
fn by_keys(signature: &Signature, count: usize, rng: &mut Rng) -> Vec<(Claim, bool)> {
    let keys = signature.secrets.map(|secret| multiple(GENERATOR, secret));
    // No point, and the parity of one.
    let near = |key: Affine| {
        let mut y = key.y.words();
        y[1] ^= 4;
        Affine { y: Field::reduced(y), ..key }
    };
    let claim = |rng: &mut Rng| {
        let all = rng.below(3) == 0;
        match (rng.below(5), keys[rng.below(2)]) {
            (0 | 1, Some(key)) => (signature.by(key, all), true),
            (3, Some(key)) => (signature.by(near(key), true), false),
            (2, Some(key)) => (signature.by(negative(key), all), keys.contains(&Some(negative(key)))),
            _ => (signature.by(multiple(GENERATOR, scalar(rng)).unwrap(), all), false),
        }
    };
    (0..count).map(|_| claim(rng)).collect()
}

/// As many as a pair of vectors has and more, between others.
#[test]
fn a_signature_is_by_the_keys_that_it_holds_with() {
    let mut rng = Rng::new(31);
    for lanes in Lanes::available() {
        let mut all: Vec<(Claim, bool)> = Vec::new();
        for at in 0..rounds(3 * lanes.width()) {
            let [nonce, base, key] = [(); 3].map(|()| scalar(&mut rng));
            let count = [2, 2, 3, 1 + rng.below(20)][at % 4];
            all.extend(by_keys(&Signature::new(nonce, base, key), count, &mut rng));
            if at % 3 == 0 {
                all.extend(claims(&mut rng).map(|claim| (claim, true)));
            }
        }
        let (claims, want): (Vec<Claim>, Vec<bool>) = all.into_iter().unzip();
        assert_eq!(lanes.prove(&claims), want, "{lanes:?}");
        // In another order, in which fewer stand side by side.
        let mut order: Vec<usize> = (0..claims.len()).collect();
        order.sort_by_cached_key(|_| rng.u64());
        let (claims, want): (Vec<Claim>, Vec<bool>) = order.into_iter().map(|at| (claims[at], want[at])).unzip();
        assert_eq!(lanes.prove(&claims), want, "{lanes:?}");
    }
}

/// More claims about one signature than lanes, between other claims; some of the keys come again and have tables.
#[test]
fn a_signature_may_have_any_number_of_keys() {
    let mut rng = Rng::new(34);
    for lanes in Lanes::available() {
        let mut all: Vec<(Claim, bool)> = claims(&mut rng).map(|claim| (claim, true)).to_vec();
        for count in [1, lanes.width() * 13, 2, lanes.width() * 40, 3] {
            let [nonce, base, key] = [(); 3].map(|()| scalar(&mut rng));
            all.extend(by_keys(&Signature::new(nonce, base, key), count, &mut rng));
            all.extend(claims(&mut rng).map(|claim| (claim, true)));
        }
        let (claims, want): (Vec<Claim>, Vec<bool>) = all.into_iter().unzip();
        assert_eq!(lanes.prove(&claims), want, "{lanes:?}");
    }
}

/// Sums that the formulas leave out: small and related numbers. None is proven that is false.
#[test]
fn exceptional_sums_prove_no_false_key() {
    let mut rng = Rng::new(32);
    let numbers: Vec<Scalar> = [1, 2, 3, 4, 31, 32, 33, 4095, 4096]
        .map(small)
        .into_iter()
        .flat_map(|number: Scalar| [number, -number, number.inverse(), number * LAMBDA])
        .collect();
    for lanes in Lanes::available() {
        let mut all: Vec<(Claim, bool)> = Vec::new();
        for _ in 0..rounds(120) {
            let [nonce, key, other] = [(); 3].map(|()| numbers[rng.below(numbers.len())]);
            let base = [other, key * nonce, -(key * nonce), Scalar::ZERO][rng.below(4)];
            all.extend(by_keys(&Signature::new(nonce, base, key), 3, &mut rng));
        }
        let (claims, want): (Vec<Claim>, Vec<bool>) = all.into_iter().unzip();
        let proven = lanes.prove(&claims);
        let is_true = |(at, &proven): (usize, &bool)| !proven || want[at];
        assert!(proven.iter().enumerate().all(is_true), "{lanes:?}");
        assert!(proven.contains(&true) || cfg!(miri), "{lanes:?}: some are");
    }
}

/// Where no point has x = r there is no signature, whatever the keys are; nor where r or s is zero, or of the order or
/// more, or s high.
#[test]
fn no_key_fits_what_is_no_signature() {
    let mut rng = Rng::new(33);
    let mut claims = Vec::new();
    let mut put = |r: Scalar, s: Scalar, rng: &mut Rng| {
        let signature = Signature { r, s, message: scalar(rng), secrets: [scalar(rng), scalar(rng)] };
        claims.extend(by_keys(&signature, 3, rng).into_iter().map(|(claim, _)| claim));
    };
    for _ in 0..rounds(40) {
        let (r, s) = (scalar(&mut rng), scalar(&mut rng));
        let low = if is_high(s) { -s } else { s };
        put(r, low, &mut rng);
        put(Scalar::ZERO, low, &mut rng);
        put(r, Scalar::ZERO, &mut rng);
    }
    for lanes in Lanes::available() {
        assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{lanes:?}");
        let order = bytes(Residue::<Prime>::constant(Order::MODULUS));
        for from_end in [3, 2] {
            let mut claims = claims.clone();
            for claim in &mut claims {
                let mut numbers = numbers(claim);
                let at = numbers.len() - from_end;
                *numbers[at] = order;
            }
            assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{lanes:?}");
        }
        let signature = Signature::new(scalar(&mut rng), scalar(&mut rng), scalar(&mut rng));
        let claims: Vec<Claim> = by_keys(&signature, 8, &mut rng).into_iter().map(|(claim, _)| claim).collect();
        let high: Vec<Claim> = claims
            .into_iter()
            .map(|mut claim| {
                let Claim::Ecdsa { s, .. } = &mut claim else { unreachable!("all are of one signature") };
                *s = bytes(-signature.s);
                claim
            })
            .collect();
        assert_eq!(lanes.prove(&high), vec![false; high.len()], "{lanes:?}: s is high");
    }
}
