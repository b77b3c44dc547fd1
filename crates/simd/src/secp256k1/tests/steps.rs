//! Sums that meet a point of their own at one step of the ladder: each addition, with its own point and its negative.

use super::super::digits::BASE_WINDOWS;
use super::*;

/// How many times the generator and how many times the key a point is.
#[derive(Clone, Copy, Debug)]
struct Multiple {
    base: Scalar,
    key: Scalar,
}

impl Multiple {
    fn plus(self, other: Multiple) -> Multiple {
        Multiple { base: self.base + other.base, key: self.key + other.key }
    }
}

/// What a lane's digit stands for.
fn digit(digits: &Digits, lane: usize) -> Scalar {
    let digit = small(2 * u64::from(digits.places[lane]) + 1);
    if digits.negative >> lane & 1 == 1 { -digit } else { digit }
}

/// Every addition of the ladder: what is there before it, and what is added.
fn additions(recoded: &Recoded, lane: usize) -> Vec<[Multiple; 2]> {
    let two_to_128 = Scalar::constant([0, 0, 1, 0]);
    let key = |half: usize, window: usize| {
        let digit = digit(&recoded.key[half][window], lane);
        Multiple { base: Scalar::ZERO, key: if half == 1 { LAMBDA * digit } else { digit } }
    };
    let base = |half: usize, window: usize| {
        let digit = digit(&recoded.base[half][window], lane);
        Multiple { base: if half == 1 { two_to_128 * digit } else { digit }, key: Scalar::ZERO }
    };
    let last = KEY_WINDOWS - 1;
    let (mut sum, mut additions) = (key(0, last), Vec::new());
    let mut add = |sum: &mut Multiple, added: Multiple| {
        additions.push([*sum, added]);
        *sum = sum.plus(added);
    };
    add(&mut sum, key(1, last));
    for bit in (0..KEY_BITS * last).rev() {
        sum = sum.plus(sum);
        if bit % KEY_BITS == 0 {
            add(&mut sum, key(0, bit / KEY_BITS));
            add(&mut sum, key(1, bit / KEY_BITS));
        }
        if bit % BASE_BITS == 0 && bit / BASE_BITS < BASE_WINDOWS {
            add(&mut sum, base(0, bit / BASE_BITS));
            add(&mut sum, base(1, bit / BASE_BITS));
        }
    }
    additions
}

/// The secret of the key with which `a` and `b` are the same point.
fn secret_where_equal(a: Multiple, b: Multiple) -> Option<Scalar> {
    let (base, key) = (b.base - a.base, a.key - b.key);
    (!base.is_zero() && !key.is_zero()).then(|| base * key.inverse())
}

/// An input for the ladder, and whether it is to meet an exception.
struct Meeting {
    base: Scalar,
    key: Scalar,
    secret: Scalar,
    meets: bool,
}

/// One for each addition and each sign, with others that meet nothing in between.
fn meetings(rng: &mut Rng) -> Vec<Meeting> {
    let (mut meetings, mut recoded) = (Vec::new(), Recoded::ONES);
    let count = additions(&recoded, 0).len();
    assert_eq!(count, 2 * KEY_WINDOWS - 1 + 2 * BASE_WINDOWS, "as many as there are digits, less the first");
    for step in 0..count {
        for opposite in [false, true] {
            let (base, key) = (scalar(rng), scalar(rng));
            recoded.set(3, base, key);
            let [before, mut added] = additions(&recoded, 3)[step];
            if opposite {
                added = Multiple { base: -added.base, key: -added.key };
            }
            // Before the generator's first digit there are multiples of the key only: they do not meet.
            if let Some(secret) = secret_where_equal(before, added) {
                meetings.push(Meeting { base, key, secret, meets: true });
            }
            if rng.below(4) == 0 {
                meetings.push(Meeting { base, key, secret: scalar(rng), meets: false });
            }
        }
    }
    meetings
}

/// A claim that is false, and leads the ladder the way of `meeting`. Where the points are equal, x and z of the sum are
/// zero both, so that x fits any r.
fn false_claim(meeting: &Meeting, point: Affine, rng: &mut Rng) -> Claim {
    let mut r_and_s = std::iter::repeat_with(|| scalar(rng)).map(|r| (r, r * meeting.key.inverse()));
    let (r, s) = r_and_s.find(|&(_, s)| !is_high(s)).expect("every other one is low");
    let y = Y::Given(bytes(point.y));
    Claim::Ecdsa { x: bytes(point.x), y, r: bytes(r), s: bytes(s), message: bytes(meeting.base * s) }
}

#[test]
fn every_addition_may_meet_its_point() {
    let mut rng = Rng::new(22);
    let (mut met, mut missed) = (0, 0);
    for chunk in meetings(&mut rng).chunks(2 * LANES_MAX) {
        let mut digits = [Recoded::ONES, Recoded::ONES];
        let (mut keys, mut want) = ([GENERATOR; 2 * LANES_MAX], [None; 2 * LANES_MAX]);
        for (at, Meeting { base, key, secret, meets }) in chunk.iter().enumerate() {
            keys[at] = multiple(GENERATOR, *secret).unwrap();
            digits[at / LANES_MAX].set(at % LANES_MAX, *base, *key);
            want[at] = multiple(GENERATOR, *base + *key * *secret).filter(|_| !meets);
        }
        for (at, got) in all_sums(&keys, &digits).into_iter().flatten().filter(|(at, _)| *at < chunk.len()) {
            assert_eq!(got, want[at], "lane {at}");
        }
        for Meeting { meets, .. } in chunk {
            (met, missed) = (met + usize::from(*meets), missed + usize::from(!*meets));
        }
        let claims: Vec<Claim> =
            chunk.iter().zip(keys).map(|(meeting, key)| false_claim(meeting, key, &mut rng)).collect();
        for lanes in Lanes::available() {
            assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{lanes:?}");
        }
    }
    assert!(met > 2 * (KEY_WINDOWS + BASE_WINDOWS) && missed > 10 || cfg!(miri), "{met} met, {missed} did not");
}
