//! Claims proven by one sum: its parts beside the reference, and whether anything false comes through.

use super::*;
use crate::secp256k1::buckets::{BITS, Multiple, Room, is_zero, is_zero_in};
use crate::secp256k1::digits::short_bits;
use crate::secp256k1::pairs::{Pairs, SHARED_MAX, Term};
use crate::secp256k1::tables::{TablePoint, entry};
use crate::secp256k1::together::{Coefficient, all_hold, coefficients};

const SECRET: [u8; 32] = *b"nothing that a claim can know of";

fn point(rng: &mut Rng) -> Affine {
    multiple(GENERATOR, scalar(rng)).expect("below the order, and not zero")
}

fn of_sign(point: Affine, is_negative: bool) -> Affine {
    if is_negative { negative(point) } else { point }
}

/// Rounds of pairs of points and of sums of the rounds before.
fn pairs_beside_the_reference<V: Vector>(like: V, rng: &mut Rng) {
    let mut pairs = Pairs::new(like);
    let mut terms: Vec<(Term, Affine)> = Vec::new();
    for _ in 0..24 {
        let point = point(rng);
        terms.push((pairs.push(&[entry(point)]), point));
    }
    for count in [0, 1, 2, 3, 15, 16, 17, 40] {
        let mut sums = Vec::new();
        while sums.len() < count {
            let [(a, a_point), (b, b_point)] = [0, 1].map(|_| {
                let ((term, point), flipped) = (terms[rng.below(terms.len())], rng.below(2) == 1);
                (term.negative_where(flipped), of_sign(point, flipped))
            });
            if a_point.x != b_point.x {
                sums.push((pairs.pair(a, b), plus(Some(a_point), Some(b_point)).unwrap()));
            }
        }
        assert!(pairs.settle(), "{count} pairs");
        for &(term, want) in &sums {
            assert_eq!(pairs.point(term), want);
            assert_eq!(pairs.point(term.negative_where(true)), negative(want));
        }
        terms.extend(sums);
    }
}

#[test]
fn pairs_agree_with_the_reference() {
    let mut rng = Rng::new(31);
    for _ in 0..rounds(3).min(3) {
        each_kind!(pairs_beside_the_reference(&mut rng));
    }
}

/// A single pair of equal or of opposite points, wherever it is, and nothing is said.
fn exceptional_pairs<V: Vector>(like: V, rng: &mut Rng) {
    for opposite in [false, true] {
        for bad in 0..20 {
            let mut pairs = Pairs::new(like);
            let points = [point(rng), point(rng)];
            let terms = points.map(|point| pairs.push(&[entry(point)]));
            // The same point at another place, so that no list of places could tell.
            let again = pairs.push(&[entry(of_sign(points[0], opposite))]);
            for at in 0..20 {
                pairs.pair(terms[0], if at == bad { again } else { terms[1] });
            }
            assert!(!pairs.settle(), "pair {bad}");
        }
    }
}

#[test]
fn equal_and_opposite_pairs_say_nothing() {
    let mut rng = Rng::new(32);
    each_kind!(exceptional_pairs(&mut rng));
}

/// More pairs than share an inversion: each sum has its place, and a bad pair behind them is seen.
fn more_pairs_than_share<V: Vector>(like: V, points: &[Affine], sums: &[Vec<Option<Affine>>]) {
    let count = SHARED_MAX + 5;
    for bad in [None, Some(SHARED_MAX + 2), Some(SHARED_MAX - 1)] {
        let mut pairs = Pairs::new(like);
        let entries: Vec<TablePoint> = points.iter().map(|&point| entry(point)).collect();
        let first = pairs.push(&entries);
        let mut terms = Vec::new();
        for at in 0..count {
            let a = at % points.len();
            let b = if bad == Some(at) { a } else { (a + 1 + at / points.len() % (points.len() - 1)) % points.len() };
            terms.push((pairs.pair(first.plus(a), first.plus(b)), (a, b)));
        }
        assert_eq!(pairs.settle(), bad.is_none());
        for (term, (a, b)) in terms.into_iter().filter(|_| bad.is_none()) {
            assert_eq!(Some(pairs.point(term)), sums[a][b]);
        }
    }
}

#[test]
fn lists_are_longer_than_what_shares_an_inversion() {
    let mut rng = Rng::new(34);
    let points: Vec<Affine> = (0..9).map(|_| point(&mut rng)).collect();
    let sums: Vec<Vec<Option<Affine>>> = (points.iter())
        .map(|&a| points.iter().map(|&b| plus(Some(a), Some(b)).filter(|_| a.x != b.x)).collect())
        .collect();
    if !cfg!(miri) {
        each_kind!(more_pairs_than_share(&points, &sums));
    }
}

/// Coordinates that are not reduced, and those at the bounds of 256 bits.
fn unreduced_coordinates<V: Vector>(like: V, rng: &mut Rng) {
    let mut pairs = Pairs::new(like);
    // x = 1 is on the curve, and so is 1 + p, which has 256 bits.
    let x = Field::ONE;
    let y = (x + small(7)).power([0xffff_ffff_bfff_ff0c, u64::MAX, u64::MAX, 0x3fff_ffff_ffff_ffff]);
    assert_eq!(y.square(), x + small(7));
    let mut row = entry(Affine { x, y });
    row.0[0] = [Prime::MODULUS[0] + 1, u64::MAX, u64::MAX, u64::MAX];
    let odd = pairs.push(&[row]);
    assert_eq!(pairs.point(odd), Affine { x, y });
    let other = point(rng);
    let term = pairs.push(&[entry(other)]);
    let sum = pairs.pair(odd, term);
    let equal = plus(Some(Affine { x, y }), Some(other)).unwrap();
    assert!(pairs.settle());
    assert_eq!(pairs.point(sum), equal);
    // Equal to itself in another form.
    let plain = pairs.push(&[entry(Affine { x, y })]);
    pairs.pair(odd, plain);
    assert!(!pairs.settle());
}

#[test]
fn coordinates_need_not_be_reduced() {
    let mut rng = Rng::new(33);
    each_kind!(unreduced_coordinates(&mut rng));
}

/// Words of elements as large as they may be are below 2^256, and the same numbers.
fn words_at_the_bounds<V: Vector>(like: V, rng: &mut Rng) {
    let full = [(1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 52) - 1, (1 << 50) - 1];
    let near = |limbs: [u64; 5]| limbs.map(|limb| [limb; LANES_MAX]);
    let mut cases = vec![near(full), near([0; 5]), near([full[0], full[0], full[0], full[0], (1 << 48) - 1])];
    for top in [1 << 48, 2 << 48, 3 << 48, (1 << 48) - 1, (4 << 48) - 1] {
        for low in [0, 1, 0xf_fffe_ffff_fc2f, 0xf_fffe_ffff_fc2e, full[0]] {
            cases.push(near([low, full[0], full[0], full[0], top]));
            cases.push(near([low, 0, 0, 0, top]));
        }
    }
    cases.extend((0..20).map(|_| full.map(|full| [(); LANES_MAX].map(|()| rng.u64() & full))));
    for limbs in cases {
        let element = Fe::from_limbs(like, &limbs);
        let again = Fe::from_words(element.to_words());
        assert!(again.limbs()[4][..V::LANES].iter().all(|&limb| limb < 1 << 48));
        assert_eq!(values(again), values(element), "{limbs:x?}");
    }
}

#[test]
fn words_hold_all_elements() {
    let mut rng = Rng::new(34);
    each_kind!(words_at_the_bounds(&mut rng));
}

/// The number that bits of weight 1 or -1 stand for.
fn number_of(bits: [u64; 3]) -> Scalar {
    (0..BITS).rev().fold(Scalar::ZERO, |number, bit| {
        let one = if bits[bit / 64] >> (bit % 64) & 1 == 1 { Scalar::ONE } else { -Scalar::ONE };
        number + number + one
    })
}

#[test]
fn bits_stand_for_their_numbers() {
    let mut rng = Rng::new(35);
    let edges = [0, 1, u128::MAX, u128::MAX - 1, 1 << 127, (1 << 127) - 1, u64::MAX.into(), 1 << 64];
    for v in edges.into_iter().chain((0..rounds(200)).map(|_| u128::from(rng.u64()) << 64 | u128::from(rng.u64()))) {
        let coefficient = Coefficient(v);
        let bits = coefficient.bits();
        assert!(bits[2] < 2);
        assert_eq!(number_of(bits), coefficient.scalar(), "{v:x}");
        // 2 v - (2^128 - 1).
        let v = Scalar::constant([v as u64, (v >> 64) as u64, 0, 0]);
        assert_eq!(coefficient.scalar(), v + v - Scalar::constant([u64::MAX, u64::MAX, 0, 0]));
    }
    let mut rng = Rng::new(36);
    for number in edges_and_random(&mut rng) {
        let [first, second] = short_bits::<BITS>(number);
        assert_eq!(number_of(first) + LAMBDA * number_of(second), number, "{number:x?}");
    }
}

fn edges_and_random(rng: &mut Rng) -> Vec<Scalar> {
    let mut numbers: Vec<Scalar> = super::edges::<Order>().into_iter().map(Scalar::reduced).collect();
    let lambdas: Vec<Scalar> = numbers.iter().map(|&number| number * LAMBDA).collect();
    numbers.extend(lambdas);
    numbers.extend((0..rounds(2000)).map(|_| scalar(rng)));
    numbers
}

#[test]
fn coefficients_depend_on_secret_and_claims() {
    let mut rng = Rng::new(37);
    let claims: Vec<Claim> = (0..7).map(|_| claims(&mut rng)[1]).collect();
    let first = coefficients(&claims, &SECRET);
    assert_eq!(first.len(), 7);
    assert_eq!(first, coefficients(&claims, &SECRET));
    let mut seen: Vec<u128> = first.iter().map(|coefficient| coefficient.0).collect();
    for (name, claims, secret) in [
        ("another secret", claims.clone(), [0; 32]),
        ("another signature", [&claims[1..], &claims[..1]].concat(), SECRET),
    ] {
        let other = coefficients(&claims, &secret);
        assert!(other.iter().zip(&first).all(|(a, b)| a != b), "{name}");
        seen.extend(other.iter().map(|coefficient| coefficient.0));
    }
    // Each half of each coefficient is its own.
    let mut halves: Vec<u64> = seen.iter().flat_map(|&number| [number as u64, (number >> 64) as u64]).collect();
    halves.sort_unstable();
    halves.dedup();
    assert_eq!(halves.len(), 2 * seen.len());
    let ones: u32 = seen.iter().map(|number| number.count_ones()).sum();
    assert!(ones.abs_diff(64 * seen.len() as u32) < 200, "{ones} bits of {} numbers", seen.len());
}

/// Random multiples of random points, with what multiplies the generator to make their sum zero.
fn sums_to_zero_or_not<V: Vector>(like: V, count: usize, bits: usize, rng: &mut Rng) {
    let mut lists: Vec<Room<V>> = (0..3).map(|_| Room::new(like)).collect();
    let (mut multiples, mut sum) = (Vec::new(), Scalar::ZERO);
    let mut push = |point: Affine| {
        let [first, ..] = [0, 1, 2].map(|list: usize| lists[list].pairs.push(&[entry(point)]));
        first
    };
    for _ in 0..count {
        let (secret, coefficient) = (scalar(rng), Coefficient(u128::from(rng.u64()) << 64 | u128::from(rng.u64())));
        let point = push(multiple(GENERATOR, secret).unwrap());
        multiples.push(Multiple { point, bits: coefficient.bits() });
        sum = sum + coefficient.scalar() * secret;
    }
    let [first, second] = short_bits::<BITS>(-sum);
    multiples.push(Multiple { point: push(GENERATOR), bits: first });
    multiples.push(Multiple { point: push(multiple(GENERATOR, LAMBDA).unwrap()), bits: second });
    // With few points some window's lowest bit may be without a bucket: nothing is said then.
    let known = is_zero_in(&mut lists[0], &multiples, bits);
    assert!(known || count < 12, "{count} points, {bits} bits");
    assert!(is_zero(&mut lists[1], &multiples) || count < 12);
    let wrong = rng.below(multiples.len());
    let bit = rng.below(BITS);
    multiples[wrong].bits[bit / 64] ^= 1 << (bit % 64);
    assert!(!is_zero_in(&mut lists[2], &multiples, bits), "bit {bit} of multiple {wrong}");
}

#[test]
fn sums_of_multiples_are_zero_or_not() {
    let mut rng = Rng::new(38);
    for (count, bits) in
        [(1, 3), (2, 4), (5, 1), (12, 2), (12, 3), (30, 4), (60, 5), (70, 6), (40, 7), (90, 8), (33, 10)]
    {
        if !cfg!(miri) {
            each_kind!(sums_to_zero_or_not(count, bits, &mut rng));
        }
    }
}

/// The Schnorr signature, the tweak or the ECDSA signature with a parity of each time.
fn linear(rng: &mut Rng) -> Claim {
    claims(rng)[[1, 3, 4][rng.below(3)]]
}

fn whether_all_hold<V: Vector>(like: V, claims: &[Claim], want: bool, name: &str) {
    assert_eq!(all_hold(like, claims, &SECRET), want, "{name}: {} claims", claims.len());
}

fn never_all_hold<V: Vector>(like: V, claims: &[Claim], name: &str) {
    whether_all_hold(like, claims, false, name);
}

#[test]
fn true_claims_hold_together() {
    let mut rng = Rng::new(39);
    let good: Vec<Claim> = (0..if cfg!(miri) { 8 } else { 100 }).map(|_| linear(&mut rng)).collect();
    for count in [8, 9, 16, 17, 33, 64, 100] {
        let count = count.min(good.len());
        each_kind!(whether_all_hold(&good[..count], true, "random ones"));
    }
    if cfg!(miri) {
        return;
    }
    // The same keys, nonces and claims again.
    let again = [&good[..20], &good[..20], &good[5..6]].concat();
    each_kind!(whether_all_hold(&again, true, "claims that come again"));
    let (secret, mut same) = (scalar(&mut rng), Vec::new());
    for _ in 0..40 {
        same.push(signature(secret, scalar(&mut rng), scalar(&mut rng)));
    }
    each_kind!(whether_all_hold(&same, true, "one key"));
    let mut nonces: Vec<Claim> = Vec::new();
    for _ in 0..40 {
        nonces.push(signature(scalar(&mut rng), secret, scalar(&mut rng)));
    }
    each_kind!(whether_all_hold(&nonces, true, "one nonce"));
    // Keys and nonces that are the generator or its negative; nothing signed; s zero; a key as its own nonce.
    let mut special = good[..30].to_vec();
    let [one, zero] = [Scalar::ONE, Scalar::ZERO];
    let random = scalar(&mut rng);
    for (secret, nonce, challenge) in [
        (one, one, random),
        (-one, random, random),
        (random, one, zero),
        (random, random, random),
        (random, random, zero),
        (one, one, -one),
        (one, -one, one),
    ] {
        special.push(signature(secret, nonce, challenge));
    }
    each_kind!(whether_all_hold(&special, true, "keys and nonces that are special"));
}

/// Tweaks of points whose x have the same lowest word, and so of points that nobody has the logarithms of.
#[test]
fn keys_may_share_a_word() {
    let mut rng = Rng::new(40);
    let word = rng.u64();
    let with_y = |at: u64| {
        let x = Field::reduced([word, at, 0, 0]);
        let g = x.square() * x + small(7);
        let y = g.power(bounds::ROOT);
        (y.square() == g).then_some(Affine { x, y: if y.is_odd() { -y } else { y } })
    };
    let mut claims: Vec<Claim> = (0..)
        .filter_map(with_y)
        .take(if cfg!(miri) { 4 } else { 70 })
        .map(|key| {
            let tweak = scalar(&mut rng);
            let sum = plus(multiple(GENERATOR, tweak), Some(key)).expect("not opposite");
            Claim::Tweak { x: bytes(key.x), tweak: bytes(tweak), sum: bytes(sum.x), odd: sum.y.is_odd() }
        })
        .collect();
    each_kind!(whether_all_hold(&claims, true, "one word"));
    let last = claims.len() - 1;
    let Claim::Tweak { x: other, .. } = claims[0] else { unreachable!("all are tweaks") };
    let Claim::Tweak { x, .. } = &mut claims[last] else { unreachable!("all are tweaks") };
    *x = other;
    each_kind!(never_all_hold(&claims, "another key with the same word"));
}

/// A Schnorr signature with these numbers.
fn signature(secret: Scalar, nonce: Scalar, challenge: Scalar) -> Claim {
    let even = |scalar: Scalar| {
        let point = multiple(GENERATOR, scalar).expect("not zero");
        (point.x, if point.y.is_odd() { -scalar } else { scalar })
    };
    let ((x, secret), (r, nonce)) = (even(secret), even(nonce));
    Claim::Schnorr { x: bytes(x), r: bytes(r), s: bytes(nonce + challenge * secret), challenge: bytes(challenge) }
}

/// One claim that is false, at every place, in every way.
#[test]
fn a_false_claim_is_never_lost() {
    let mut rng = Rng::new(40);
    let good: Vec<Claim> = (0..if cfg!(miri) { 4 } else { 34 }).map(|_| linear(&mut rng)).collect();
    for bad in 0..good.len() {
        let mut claims = good.clone();
        match &mut claims[bad] {
            Claim::Tweak { odd, .. } | Claim::EcdsaWithParity { odd, .. } if bad % 3 == 0 => *odd = !*odd,
            claim => {
                let mut numbers = numbers(claim);
                let which = rng.below(numbers.len());
                numbers[which][31 - bad % 32] ^= 1 << rng.below(8);
            }
        }
        each_kind!(never_all_hold(&claims, &format!("claim {bad} is false")));
    }
}

/// Errors that cancel out where the coefficients are all the same, or follow a rule that does not come from the secret.
#[test]
fn errors_do_not_cancel_out() {
    if cfg!(miri) {
        return;
    }
    let mut rng = Rng::new(41);
    let good: Vec<Claim> = (0..20).map(|_| claims(&mut rng)[1]).collect();
    let error = scalar(&mut rng);
    let moved = |claims: &mut [Claim], at: usize, by: Scalar| {
        if let Claim::Schnorr { s, .. } = &mut claims[at] {
            *s = bytes(Scalar::from_bytes(s).unwrap() + by);
        }
    };
    let mut claims = good.clone();
    moved(&mut claims, 3, error);
    moved(&mut claims, 7, -error);
    each_kind!(never_all_hold(&claims, "two opposite errors"));
    let mut claims = good.clone();
    moved(&mut claims, 3, error);
    moved(&mut claims, 4, error);
    moved(&mut claims, 5, -(error + error));
    each_kind!(never_all_hold(&claims, "three errors"));
    // With the coefficients of another secret, or of the claims as they were.
    for (secret, name) in [([0; 32], "another secret's"), (SECRET, "the true claims'")] {
        let known = coefficients(&good, &secret);
        let mut claims = good.clone();
        moved(&mut claims, 3, known[7].scalar());
        moved(&mut claims, 7, -known[3].scalar());
        each_kind!(never_all_hold(&claims, name));
    }
    // The same claim twice, false both times.
    let mut claims = [&good[..], &good[..1]].concat();
    moved(&mut claims, 0, error);
    moved(&mut claims, 20, -error);
    each_kind!(never_all_hold(&claims, "a claim and its mirror image"));
}

/// Where the errors are chosen for the coefficients, the sum is zero: what the secret is for, and that the sum is of
/// this.
#[test]
fn who_knows_the_coefficients_can_cheat() {
    if cfg!(miri) {
        return;
    }
    let mut rng = Rng::new(42);
    let claims: Vec<Claim> = (0..20).map(|_| claims(&mut rng)[3]).collect();
    // Of a tweak the key is not hashed: it is in the tweak, which is not looked at here.
    let known = coefficients(&claims, &SECRET);
    let moved = |at: usize, error: Affine, by: Scalar| {
        let Claim::Tweak { x, .. } = &claims[at] else { unreachable!("the fourth of them is a tweak") };
        plus(Some(lifted(Field::from_bytes(x).unwrap())), multiple(error, by)).unwrap()
    };
    let keys = loop {
        let error = point(&mut rng);
        let keys = [moved(3, error, known[7].scalar()), moved(7, error, -known[3].scalar())];
        if keys.iter().all(|key| !key.y.is_odd()) {
            break keys;
        }
    };
    let mut forged = claims.clone();
    for (at, key) in [3, 7].into_iter().zip(keys) {
        *numbers(&mut forged[at])[0] = bytes(key.x);
    }
    assert_eq!(known, coefficients(&forged, &SECRET));
    each_kind!(whether_all_hold(&forged, true, "forged"));
    for lanes in Lanes::available() {
        let proven = lanes.prove(&forged);
        assert!(!proven[3] && !proven[7], "one by one they are false");
    }
}

/// The point with this x and an even y.
fn lifted(x: Field) -> Affine {
    let y = (x * x * x + small(7)).power([0xffff_ffff_bfff_ff0c, u64::MAX, u64::MAX, 0x3fff_ffff_ffff_ffff]);
    Affine { x, y: if y.is_odd() { -y } else { y } }
}

/// Numbers out of range, points off the curve, and what is no sum of two parts.
#[test]
fn numbers_out_of_range_prove_nothing() {
    let mut rng = Rng::new(43);
    let good: Vec<Claim> = (0..if cfg!(miri) { 2 } else { 12 }).map(|_| linear(&mut rng)).collect();
    let order = bytes(Residue::<Prime>::constant(Order::MODULUS));
    let prime = bytes(Residue::<Prime>::constant(Prime::MODULUS));
    for number in [order, prime, [0xff; 32], [0; 32]] {
        for at in 0..2 {
            for which in 0..3 {
                let mut claims = good.clone();
                let replaced = std::mem::replace(numbers(&mut claims[at])[which], number);
                assert_ne!(replaced, number);
                each_kind!(never_all_hold(&claims, &format!("number {which} is {number:02x?}")));
            }
        }
    }
    // The order more is the same number, and no signature.
    let (mut claim, low) = (1..)
        .map(|nonce| signature(Scalar::ONE, small(nonce), small(2)))
        .find_map(|claim| match claim {
            Claim::Schnorr { s, .. } if s[..31] == [0; 31] => Some((claim, s[31])),
            _ => None,
        })
        .expect("half of the nonces have an even y");
    each_kind!(whether_all_hold(&[&good[..], &[claim]].concat(), true, "a small s"));
    if let Claim::Schnorr { s, .. } = &mut claim {
        *s = order;
        s[31] += low; // 0x41 and little.
    }
    each_kind!(never_all_hold(&[&good[..], &[claim]].concat(), "s and the order"));
    // x = 5 is on no point of the curve.
    let mut claims = good.clone();
    *numbers(&mut claims[0])[0] = bytes(small::<Prime>(5));
    each_kind!(never_all_hold(&claims, "a key off the curve"));
    let ecdsa = [&good[..], &claims_about(Scalar::ONE, &mut rng)[..1]].concat();
    each_kind!(never_all_hold(&ecdsa, "ECDSA"));
    // The same signature with the opposite s and R is refused, and a y that the sum does not look at.
    let whole = claims_about(Scalar::ONE, &mut rng);
    let (Claim::Ecdsa { y: given, .. }, parity) = (whole[2], whole[4]) else { unreachable!("the third is ECDSA") };
    each_kind!(whether_all_hold(&[&good[..], &[parity]].concat(), true, "ECDSA with a parity"));
    let mut changed = [parity; 2];
    if let [Claim::EcdsaWithParity { s, odd, .. }, Claim::EcdsaWithParity { y, .. }] = &mut changed {
        (*s, *odd) = (bytes(-Scalar::from_bytes(s).unwrap()), !*odd);
        *y = given;
    }
    each_kind!(never_all_hold(&[&good[..], &changed[..1]].concat(), "a high s"));
    each_kind!(never_all_hold(&[&good[..], &changed[1..]].concat(), "a whole y"));
}

/// Keys and nonces that are multiples of each other, by small numbers and by lambda: whatever is left out, nothing that
/// is false is proven, and most of what is true is.
#[test]
fn related_points_prove_nothing_false() {
    if cfg!(miri) {
        return;
    }
    let mut rng = Rng::new(44);
    let mut proven = 0;
    for round in 0..12 {
        let base = if round % 3 == 0 { Scalar::ONE } else { scalar(&mut rng) };
        let related = |rng: &mut Rng| {
            let mut number = base * small(1 + rng.below(3) as u64);
            for _ in 0..rng.below(if round % 2 == 0 { 1 } else { 3 }) {
                number = number * LAMBDA;
            }
            if rng.below(2) == 0 { -number } else { number }
        };
        let mut claims: Vec<Claim> = (0..30)
            .map(|_| {
                let numbers = [related(&mut rng), related(&mut rng)];
                signature(numbers[0], numbers[1], scalar(&mut rng))
            })
            .collect();
        for lanes in Lanes::available() {
            proven += usize::from(lanes.prove_together(&claims, &SECRET));
        }
        let bad = rng.below(claims.len());
        let Claim::Schnorr { s, .. } = &mut claims[bad] else { unreachable!() };
        *s = bytes(Scalar::from_bytes(s).unwrap() + base);
        each_kind!(never_all_hold(&claims, "one is false"));
    }
    println!("{proven} lists proven");
}
