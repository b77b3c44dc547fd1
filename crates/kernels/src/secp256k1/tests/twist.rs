//! Keys off the curve: their x lies on the curve's quadratic twist, whose points may have small orders.
//!
//! The ladder takes a key as a point that is stretched by y, and there the x of such a key gives a point of the twist.
//! The twist's order is 3^2 13^2 3319 22639 q with a prime q of 220 bits; there is no point of order 9, because those
//! of order three are eight. Of a small order a key's multiples meet each other everywhere: in the key's table, in the
//! sums of two digits, on the ladder.

use super::*;

/// An x of the twist for each of two points, and their order. Source: random points of y^2 = x^3 + 7 g^3 with g = x^3 +
/// 7 no square, multiplied by the cofactor.
const SMALL: [(u64, [&str; 2]); 8] = [
    (
        3,
        [
            "0000000000000000000000000000000000000000000000000000000000000000",
            "19d38019a1300a25acceee9c17677133b93b9fceda194b89d9c53ab84c10114a",
        ],
    ),
    (
        13,
        [
            "1beaf40619582b4946cc1a7e359b658c3fa6f7103be60de464e7845807f29344",
            "5d7603647df45dab5907aeea8ee83430f23a537aa58bfed6e28d5de5437c1c2e",
        ],
    ),
    (
        39,
        [
            "046dce92b01d06fa588016232979c4b526d6cf150d7940be0b861a74c64e7efb",
            "242d2136dce90cf5352c7315aa40ff78ccb0ca99c0d3124465bb1a4d99b2a539",
        ],
    ),
    (
        169,
        [
            "0297a69407d5b757e690494712e3bec9ba6e1bd4ac019149f0ee54109c2ef286",
            "04a3f49d2e0f741fb586d453ea88141a4d842b32648e4358211cd7635b739cc9",
        ],
    ),
    (
        507,
        [
            "01fb7157d12ade7945570a93000695f15f5ccc19bf243cae8abadcc21798666b",
            "19c0cb9403c4b44cb6c11bce63f9c7c44ba4b614f46c0650d608b226a87fc7bb",
        ],
    ),
    (
        3319,
        [
            "2c4888a0674bd63929627fe19ce3627d41e299d72347384be0563bea32f4afa6",
            "b1a0df346f2d6b3695dd6db15877ade5dbb541e6eb2da8c77a287cc3de55dbc3",
        ],
    ),
    (
        9957,
        [
            "0adeab62d24e3ef0a98e6adc7e687b2d9c6d4268d3d4e309a730a9d25188e9c6",
            "0e9b0a9a2a2539815174350f9e81297071bfe1df308bb1023051cdcff05d92e7",
        ],
    ),
    (
        22639,
        [
            "3c3202e3815b4886644b5e91d6a5d02942b6a2787723940855cebe14fdb049a6",
            "c75daffb76067cc2dde7187b5ba88a6e97483e84866253234f7aa225b196ab74",
        ],
    ),
];

/// Orders and x of all these points.
fn small_keys() -> Vec<(u64, Field)> {
    let word = |hex: &str| u64::from_str_radix(hex, 16).unwrap();
    let number = |hex: &str| Field::constant([48, 32, 16, 0].map(|at| word(&hex[at..at + 16])));
    SMALL.iter().flat_map(|(order, xs)| xs.map(|hex| (*order, number(hex)))).collect()
}

/// The point that the ladder takes for a key with this x.
fn stretched(x: Field) -> Affine {
    let g = x.square() * x + small(7);
    Affine { x: x * g, y: g.square() }
}

#[test]
fn small_orders_are_what_they_are_said_to_be() {
    for (order, x) in small_keys() {
        let point = stretched(x);
        let g = x.square() * x + small(7);
        assert_eq!(point.y.square(), point.x.square() * point.x + small::<Prime>(7) * g * g.square(), "{order}");
        assert_eq!(multiple(point, small(order)), None, "{order}");
        for prime in [3, 13, 3319, 22639] {
            let divides = order.is_multiple_of(prime);
            assert!(!divides || multiple(point, small(order / prime)).is_some(), "{order} is less");
        }
    }
}

/// The multiple that the digits of a lane stand for, by complete sums. Beside the curve lambda times a point is not
/// what the digits' scalar says: (beta x, y) is what the ladder takes, and so does this.
fn walked(point: Affine, digits: &Recoded, lane: usize) -> Option<Affine> {
    let lambda = Affine { x: point.x * Field::constant(BETA), ..point };
    let of_window = |point: Affine, digits: &Digits| {
        let found = multiple(point, small(2 * u64::from(digits.places[lane]) + 1));
        if digits.negative >> lane & 1 == 1 { found.map(negative) } else { found }
    };
    (0..KEY_WINDOWS).rev().fold(None, |sum, window| {
        let sum = (0..KEY_BITS).fold(sum, |sum, _| plus(sum, sum));
        let sum = plus(sum, of_window(point, &digits.key[0][window]));
        plus(sum, of_window(lambda, &digits.key[1][window]))
    })
}

/// What the ladder says of such keys is exact or nothing.
#[test]
fn multiples_on_the_twist_are_exact_or_unknown() {
    let (mut rng, small_keys) = (Rng::new(51), small_keys());
    let orders: Vec<u64> = small_keys.iter().map(|&(order, _)| order).collect();
    let keys: [Affine; 2 * LANES_MAX] = std::array::from_fn(|at| stretched(small_keys[at].1));
    let (mut known, mut unknown) = ([0; 2 * LANES_MAX], [0; 2 * LANES_MAX]);
    for round in 0..rounds(6) {
        // Each key in each place of a vector: kinds with few lanes see them all.
        let place = |at: usize| (at + 5 * round) % keys.len();
        let mut digits = [Recoded::ONES, Recoded::ONES];
        let few = [Scalar::ONE, LAMBDA, small(2), -Scalar::ONE];
        for at in 0..keys.len() {
            let multiplier = match rng.below(4) {
                0 => few[rng.below(few.len())],
                1 => small(orders[place(at)] * (1 + rng.u64() % 1000) + rng.u64() % 3),
                _ => scalar(&mut rng),
            };
            digits[at / LANES_MAX].set(at % LANES_MAX, scalar(&mut rng), multiplier);
        }
        let placed: [Affine; 2 * LANES_MAX] = std::array::from_fn(|at| keys[place(at)]);
        let want: Vec<Option<Affine>> =
            (0..keys.len()).map(|at| walked(placed[at], &digits[at / LANES_MAX], at % LANES_MAX)).collect();
        for (at, got) in all_sums(&placed, &digits).into_iter().flatten() {
            let order = orders[place(at)];
            let counted = if got.is_some() { &mut known } else { &mut unknown };
            counted[place(at)] += 1;
            let Some([_, key]) = got else { continue };
            assert_eq!(Some(key), want[at], "round {round}, order {order}");
        }
    }
    for (at, &order) in orders.iter().enumerate() {
        assert!(order > 31 || known[at] == 0, "the table of order {order} meets itself");
        assert!(order < 3000 || known[at] > unknown[at] || cfg!(miri), "{order}: {} of {}", known[at], unknown[at]);
    }
}

/// Claims about such keys, with multipliers that make the most of their orders.
fn false_claims(rng: &mut Rng) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (order, x) in small_keys() {
        let x = bytes(x);
        for which in 0..6 {
            let multiplier = match rng.below(3) {
                0 => small(order * (1 + rng.u64() % 1000)),
                1 => small(order * (1 + rng.u64() % 1000) + 1),
                _ => scalar(rng),
            };
            let (base, r) = (scalar(rng), scalar(rng));
            let s = r * multiplier.inverse();
            let (r, s) = if is_high(s) { (-r, -s) } else { (r, s) };
            let y = [Y::Even, Y::Odd, Y::Given(bytes(scalar(rng)))][which % 3];
            claims.push(match which {
                0..3 => Claim::Ecdsa { x, y, r: bytes(r), s: bytes(s), message: bytes(base * s) },
                3 => Claim::Schnorr { x, r: bytes(r), s: bytes(base), challenge: bytes(multiplier) },
                _ => Claim::Tweak { x, tweak: bytes(base), sum: bytes(r), odd: which == 4 },
            });
        }
    }
    claims
}

/// They prove nothing, and keep nothing from being proven: beside each stands a true claim.
#[test]
fn keys_of_small_orders_prove_nothing() {
    let mut rng = Rng::new(52);
    let bad = false_claims(&mut rng);
    let good = [claims(&mut rng), claims(&mut rng)];
    let (mut all, mut want) = (Vec::new(), Vec::new());
    for (at, claim) in bad.iter().enumerate() {
        // Two false ones, then one: over the claims each stands in each lane.
        all.extend([*claim, bad[(at + 7) % bad.len()], good[at % 2][at / 2 % 4], *claim, good[0][at % 4]]);
        want.extend([false, false, true, false, true]);
    }
    for lanes in Lanes::available() {
        assert_eq!(lanes.prove(&all), want, "{lanes:?}");
        assert_eq!(lanes.prove(&bad), vec![false; bad.len()], "{lanes:?}");
    }
}

/// One of them among true claims, and nothing is proven by their sum.
#[test]
fn sums_with_a_key_of_a_small_order_prove_nothing() {
    let mut rng = Rng::new(53);
    let good: Vec<Claim> = (0..5).flat_map(|_| [1, 3].map(|at| claims(&mut rng)[at])).collect();
    let bad = false_claims(&mut rng);
    for lanes in Lanes::available() {
        assert!(lanes.prove_together(&good, &[3; 32]), "{lanes:?}");
        for claim in bad.iter().filter(|claim| !matches!(claim, Claim::Ecdsa { .. })).take(rounds(16)) {
            let mut all = good.clone();
            all.insert(rng.below(all.len()), *claim);
            assert!(!lanes.prove_together(&all, &[3; 32]), "{lanes:?}: {claim:?}");
        }
    }
}
