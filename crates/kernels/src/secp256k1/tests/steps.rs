//! Sums that meet an exception: multiples of zero, and points that are equal or opposite where they are added.
//!
//! On the way to `u1 G` that can be in the last addition alone: sums of fewer windows are apart as numbers. On the way
//! to `u2 P`, likewise, it takes a multiple of the order. Where both are added a key can be made for every pair of
//! multiples.

use super::*;

/// An input for the lanes, and whether it is to meet an exception.
struct Meeting {
    base: Scalar,
    key: Scalar,
    secret: Scalar,
    meets: bool,
}

/// Both multiples equal, opposite, or not, and multiples of zero.
fn meetings(rng: &mut Rng) -> Vec<Meeting> {
    let mut meetings = Vec::new();
    for _ in 0..rounds(30) {
        let (base, key, secret) = (scalar(rng), scalar(rng), scalar(rng));
        if [base, key, secret].iter().any(|number| number.is_zero()) {
            continue;
        }
        let equal = base * key.inverse();
        for (base, key, secret, meets) in [
            (base, key, equal, true),
            (base, key, -equal, true),
            (base, key, secret, false),
            (Scalar::ZERO, key, secret, true),
            (small(1), key, small(1), key == small(1) || key == -small::<Order>(1)),
        ] {
            meetings.push(Meeting { base, key, secret, meets });
        }
    }
    meetings
}

/// A claim that is false, and leads the lanes the way of `meeting`. Where both multiples are equal the equation holds
/// for any r.
fn false_claim(meeting: &Meeting, point: Affine, rng: &mut Rng) -> Claim {
    let mut r_and_s = std::iter::repeat_with(|| scalar(rng)).map(|r| (r, r * meeting.key.inverse()));
    let (r, s) = r_and_s.find(|&(r, s)| !r.is_zero() && !is_high(s)).expect("every other one is low");
    let y = Y::Given(bytes(point.y));
    Claim::Ecdsa { x: bytes(point.x), y, r: bytes(r), s: bytes(s), message: bytes(meeting.base * s) }
}

#[test]
fn multiples_may_meet() {
    let mut rng = Rng::new(22);
    let (mut met, mut missed) = (0, 0);
    for chunk in meetings(&mut rng).chunks(2 * LANES_MAX) {
        let (mut good, mut want) = (Vec::new(), Vec::new());
        let mut claims = Vec::new();
        for meeting in chunk {
            let Meeting { base, key, secret, meets } = meeting;
            let point = multiple(GENERATOR, *secret).unwrap();
            claims.push(false_claim(meeting, point, &mut rng));
            // A true one of the same multiples, where the sum has an x: r is that, and s is r / u2.
            let Some(sum) = multiple(GENERATOR, *base + *key * *secret) else { continue };
            let r = Scalar::reduced(sum.x.words());
            let s = r * key.inverse();
            if !is_high(s) {
                let (r, message) = (bytes(r), bytes(*base * s));
                let y = if point.y.is_odd() { Y::Odd } else { Y::Even };
                good.push(Claim::Ecdsa { x: bytes(point.x), y, r, s: bytes(s), message });
                want.push(!meets);
                (met, missed) = (met + usize::from(*meets), missed + usize::from(!*meets));
            }
        }
        for lanes in Lanes::available() {
            assert_eq!(lanes.prove(&claims), vec![false; claims.len()], "{lanes:?}");
            assert_eq!(lanes.prove(&good), want, "{lanes:?}");
        }
    }
    assert!((met > 15 && missed > 15) || cfg!(miri), "{met} met, {missed} did not");
}

/// Zero times a point is no point, on both ways; nothing is said of such a lane, and the others are known.
#[test]
fn multiples_of_zero_are_unknown() {
    let mut digits = [Recoded::ONES, Recoded::ONES];
    let keys = [GENERATOR; 2 * LANES_MAX];
    let few = [Scalar::ZERO, small(5), -Scalar::ONE];
    let pair = |at: usize| (few[at % 3], few[at / 3 % 3]);
    for at in 0..keys.len() {
        let (base, key) = pair(at);
        digits[at / LANES_MAX].set(at % LANES_MAX, base, key);
    }
    for (at, got) in all_sums(&keys, &digits).into_iter().flatten() {
        let (base, key) = pair(at);
        let want = multiple(GENERATOR, base).zip(multiple(GENERATOR, key)).map(|(base, key)| [base, key]);
        assert_eq!(got, want, "{at}");
    }
}
