//! From claims to questions about `u1 G + u2 P`, through the lanes, and back.
//!
//! What a lane says is "proven" or nothing. A lane proves its claim when the key was found to be a point of the curve, z of
//! the sum is not zero (so that no formula was used outside its domain: see [`super::point`]), and the sum's x is the one
//! claimed, and its y's parity where that counts.

use super::digits::Recoded;
use super::field::{Fe, mul, mul_columns, square};
use super::ladder::{self, Room};
use super::point::{Point, WAYS};
use super::power::{self, roots};
use super::reference::{Field, GENERATOR, Scalar, invert_all, words_of};
use super::vector::{LANES_MAX, Vector};
use super::{Claim, Y};

/// As many vectors as [`power`] takes are answered together: a bit for each of their questions.
const _: () = assert!(LANES_MAX * power::WAYS <= 32);

/// Whether `base G + key P` has this x, and this parity of y.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// Of which claim.
    claim: usize,
    x: Field,
    /// Whether the key's y is odd.
    odd: bool,
    /// The key's y, where it was given.
    y: Option<Field>,
    base: Scalar,
    key: Scalar,
    sum_x: Field,
    sum_odd: Option<bool>,
}

/// Which of the claims are proven, in order, in vectors like this one.
pub(super) fn prove<V: Vector>(like: V, claims: &[Claim]) -> Vec<bool> {
    let mut proven = vec![false; claims.len()];
    let mut questions = questions(claims);
    // Those that want y's parity cost an inversion: keep them together.
    questions.sort_by_key(|question| question.sum_odd.is_some());
    let mut room = Room::new();
    for chunk in questions.chunks(V::LANES * power::WAYS) {
        let answers = like.run(
            #[inline(always)]
            || answers(like, chunk, &mut room),
        );
        for (at, question) in chunk.iter().enumerate() {
            proven[question.claim] = answers >> at & 1 == 1;
        }
    }
    proven
}

/// The questions behind the claims that lanes take.
fn questions(claims: &[Claim]) -> Vec<Question> {
    let mut questions = Vec::with_capacity(claims.len());
    let (mut inverses, mut places) = (Vec::new(), Vec::new());
    for (place, claim) in claims.iter().enumerate() {
        let question = match claim {
            Claim::Ecdsa { x, y, r, s, message } => ecdsa(x, y, r, s, message, &mut inverses),
            Claim::Schnorr { x, r, s, challenge } => schnorr(x, r, s, challenge),
            Claim::Tweak { x, tweak, sum, odd } => tweaked(x, tweak, sum, *odd),
        };
        if let Some(question) = question {
            if matches!(claim, Claim::Ecdsa { .. }) {
                places.push(questions.len());
            }
            questions.push(Question { claim: place, ..question });
        }
    }
    invert_all(&mut inverses);
    for (place, inverse) in places.into_iter().zip(inverses) {
        let question: &mut Question = &mut questions[place];
        (question.base, question.key) = (question.base * inverse, question.key * inverse);
    }
    questions
}

/// `(z / s) G + (r / s) P` has x = r; both scalars still wait for 1 / s, and s is left in `inverses`.
///
/// A sum with x = r + n would do, too: it is not proven.
fn ecdsa(
    x: &[u8; 32],
    y: &Y,
    r: &[u8; 32],
    s: &[u8; 32],
    message: &[u8; 32],
    inverses: &mut Vec<Scalar>,
) -> Option<Question> {
    let number = |bytes| Scalar::from_bytes(bytes).filter(|number| !number.is_zero());
    let (r, s) = (number(r)?, number(s)?);
    if is_high(s) {
        return None;
    }
    let (odd, y) = match y {
        Y::Even => (false, None),
        Y::Odd => (true, None),
        Y::Given(y) => {
            let y = Field::from_bytes(y)?;
            (y.is_odd(), Some(y))
        }
    };
    let question = Question {
        claim: 0,
        x: Field::from_bytes(x)?,
        odd,
        y,
        base: Scalar::reduced(words_of(message)),
        key: r,
        sum_x: Field::from_words(r.words())?,
        sum_odd: None,
    };
    inverses.push(s);
    Some(question)
}

/// Whether a number is above half the order.
pub(super) fn is_high(number: Scalar) -> bool {
    let (number, negative) = (number.words(), (-number).words());
    number.iter().rev().gt(negative.iter().rev())
}

/// `s G - e P` has x = r, and y is even.
fn schnorr(x: &[u8; 32], r: &[u8; 32], s: &[u8; 32], challenge: &[u8; 32]) -> Option<Question> {
    Some(Question {
        claim: 0,
        x: Field::from_bytes(x)?,
        odd: false,
        y: None,
        base: Scalar::from_bytes(s)?,
        key: -Scalar::reduced(words_of(challenge)),
        sum_x: Field::from_bytes(r)?,
        sum_odd: Some(false),
    })
}

/// `t G + P` is as claimed.
fn tweaked(x: &[u8; 32], tweak: &[u8; 32], sum: &[u8; 32], odd: bool) -> Option<Question> {
    Some(Question {
        claim: 0,
        x: Field::from_bytes(x)?,
        odd: false,
        y: None,
        base: Scalar::from_bytes(tweak)?,
        key: Scalar::ONE,
        sum_x: Field::from_bytes(sum)?,
        sum_odd: Some(odd),
    })
}

/// A bit for each question whose answer is yes.
#[inline(always)]
fn answers<V: Vector>(like: V, questions: &[Question], room: &mut Room<V>) -> u32 {
    let (keys, mut proven) = lift(like, questions);
    let mut sums = [[Fe::small(like, 1); 3]; power::WAYS];
    for (at, part) in questions.chunks(V::LANES * WAYS).enumerate() {
        let first = at * WAYS;
        let mut digits = [const { Recoded::ONES }; WAYS];
        for (lane, question) in part.iter().enumerate() {
            digits[lane / V::LANES].set(lane % V::LANES, question.base, question.key);
        }
        let points = ladder::sums(&[keys[first], keys[first + 1]], &digits, room);
        for way in 0..WAYS {
            let Point { x, y, z } = points[way];
            sums[first + way] = [x, y, z];
        }
    }
    let mut equal = 0;
    for (way, [x, _, z]) in sums.iter().enumerate() {
        let want = mul(&lanes(like, questions, way, |question| question.sum_x), &square(z));
        equal |= u32::from(!z.is_zero() & x.equals(&want)) << (way * V::LANES);
    }
    proven &= equal;
    if questions.iter().any(|question| question.sum_odd.is_some()) {
        proven &= parities(questions, &sums);
    }
    proven & mask(questions, |_| true)
}

/// The keys' points, and the lanes where they are points, and those that were meant.
#[inline(always)]
fn lift<V: Vector>(like: V, questions: &[Question]) -> ([[Fe<V>; 2]; power::WAYS], u32) {
    let mut squares = [Fe::small(like, 1); power::WAYS];
    let mut keys = [[Fe::small(like, 1); 2]; power::WAYS];
    for way in 0..power::WAYS {
        let x = lanes(like, questions, way, |question| question.x);
        squares[way] = mul_columns(&square(&x), &x).plus(&Fe::small(like, 7)).carry();
        keys[way][0] = x;
    }
    let roots = roots(&squares);
    let odd = mask(questions, |question| question.odd);
    let given = mask(questions, |question| question.y.is_some());
    let mut points = 0;
    for way in 0..power::WAYS {
        let shift = way * V::LANES;
        let root = roots[way];
        let is_point = square(&root).equals(&squares[way]);
        let y = root.negative_where(root.is_odd() ^ (odd >> shift) as u8);
        let wanted = lanes(like, questions, way, |question| question.y.unwrap_or(Field::ONE));
        let is_meant = y.equals(&wanted) | !(given >> shift) as u8;
        keys[way][1] = y;
        points |= u32::from(is_point & is_meant) << shift;
    }
    (keys, points)
}

/// The lanes where the parity of the sum's y is as wanted, or of no matter.
#[inline(always)]
fn parities<V: Vector>(questions: &[Question], sums: &[[Fe<V>; 3]; power::WAYS]) -> u32 {
    let mut inverses = [sums[0][2]; power::WAYS];
    for way in 1..power::WAYS {
        inverses[way] = sums[way][2];
    }
    let inverses = power::inverses(&inverses);
    let mut odd = 0;
    for way in 0..power::WAYS {
        let inverse = &inverses[way];
        let y = mul(&sums[way][1], &mul(&square(inverse), inverse));
        odd |= u32::from(y.is_odd()) << (way * V::LANES);
    }
    let wanted = mask(questions, |question| question.sum_odd == Some(true));
    !(odd ^ wanted) | mask(questions, |question| question.sum_odd.is_none())
}

/// A number of each question of a vector; of lanes without a question, the generator's x.
#[inline(always)]
fn lanes<V: Vector>(like: V, questions: &[Question], way: usize, number: impl Fn(&Question) -> Field) -> Fe<V> {
    let mut numbers = [GENERATOR.x.words(); LANES_MAX];
    for (to, question) in numbers.iter_mut().zip(questions.iter().skip(way * V::LANES)) {
        *to = number(question).words();
    }
    Fe::from_lanes(like, &numbers)
}

/// A bit for each question of which something is so.
fn mask(questions: &[Question], is_so: impl Fn(&Question) -> bool) -> u32 {
    questions.iter().enumerate().fold(0, |mask, (at, question)| mask | u32::from(is_so(question)) << at)
}
