//! From claims to questions about `u1 G + u2 P`, through the lanes, and back.
//!
//! A key is told by x and y's parity, but its y is never computed. With g = x^3 + 7, which is y^2, the point (x g, g^2) is P
//! stretched by y (see [`super::ladder`]), and so u2 P is found but for y, of which its own y has one factor. The equation
//! that u1 G + u2 P has the claimed x is linear in that factor: it is solved for y, and the claim is true where the solution
//! is a root of g with the key's parity.
//!
//! In detail, with (x1, y1) = u1 G, (X, Y, z) the ladder's result, T = z times the table's stretch, D = T^2 g and r the
//! claimed x: u2 P = (x2, y2) = (X / D, Y / (D T y)). Three points on a line (one of them negated) say that
//!
//! ```text
//! (y1 - y2)^2 = (r + x1 + x2) (x1 - x2)^2                        where x1 and x2 are different
//! N = 2 y1 Y T D y    with N = y1^2 D^3 + Y^2 - ((r + x1) D + X) (x1 D - X)^2
//! ```
//!
//! the second being the first times D^3, with y2^2 D^3 = Y^2 and y2 D^3 = Y T D y. So y is N over W = 2 y1 Y T D.
//!
//! What a lane says is "proven" or nothing. A lane proves its claim when no sum met an exception, x1 D - X and W are not zero,
//! N / W is a root of g, of the key's parity or the very y that was given, and where it counts the sum's y has the claimed
//! parity. A root of g makes (x, N / W) a point of the curve, the key, and all that was computed with it exact; x1 D - X
//! not zero makes the equation one of x: where it is zero, any r fits.

use super::combs::{Asked, Combs};
use super::digits::{Bits, LaneBits, Recoded};
use super::field::{Fe, Loose, Multiplicand};
use super::kept::{Kept, with_kept};
use super::ladder::{self, PAIRS, Room, Sums};
use super::point::{Flat, Point, WAYS, Ways, each};
use super::products::{dot_columns, mul, mul_columns, square};
use super::reference::{Field, GENERATOR, Scalar, words_of};
use super::repeats::{self, Key, Set};
use super::scalars::{self, Fraction};
use super::vector::{LANES_MAX, Vector};
use super::{Claim, Y};

/// Whether `base G + key P` has this x, and this parity of y.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    /// Of which claim.
    pub(super) claim: usize,
    pub(super) x: Field,
    /// Whether the key's y is odd.
    pub(super) odd: bool,
    /// The key's y, where it was given.
    pub(super) y: Option<Field>,
    /// What multiplies both points.
    pub(super) bits: Bits,
    pub(super) sum_x: Field,
    pub(super) sum_odd: Option<bool>,
}

impl Question {
    /// The key, where it may have tables.
    fn key(&self) -> Option<Key> {
        (self.y.is_none() && self.sum_odd.is_none()).then_some((self.x, self.odd))
    }
}

/// Memory that a call needs.
struct Memory<V> {
    room: Room<V>,
    combs: Combs,
}

thread_local! {
    /// That of the last call: more than a MiB, which would be asked from the system and given back each time.
    static MEMORY: Kept = const { Kept::new(None) };
}

/// Which of the claims are proven, in order, in vectors like this one.
pub(super) fn prove<V: Vector>(like: V, claims: &[Claim]) -> Vec<bool> {
    let mut proven = vec![false; claims.len()];
    let mut questions = questions(like, claims);
    let new = || Memory { room: Room::new(like), combs: Combs::new() };
    with_kept(&MEMORY, new, |memory| {
        prove_repeats(like, &mut questions, memory, &mut proven);
        // Those that want the sum's y cost more: keep them together.
        questions.sort_by_key(|question| question.sum_odd.is_some());
        for chunk in questions.chunks(at_a_time(questions.len(), V::LANES * WAYS)) {
            let answers = like.run(
                #[inline(always)]
                || answers(like, chunk, &mut memory.room),
            );
            for (at, question) in chunk.iter().enumerate() {
                proven[question.claim] = is_yes::<V>(&answers, at);
            }
        }
    });
    proven
}

/// How many of `count` questions are answered at a time, so that all parts are about as long: `width` for each of at most
/// [`PAIRS`] pairs of vectors.
pub(super) fn at_a_time(count: usize, width: usize) -> usize {
    let pairs = count.div_ceil(width).max(1);
    pairs.div_ceil(pairs.div_ceil(PAIRS)) * width
}

/// Answers the questions about keys that come again, and takes them out.
fn prove_repeats<V: Vector>(like: V, questions: &mut Vec<Question>, memory: &mut Memory<V>, proven: &mut [bool]) {
    let keys: Vec<Option<Key>> = questions.iter().map(Question::key).collect();
    let sets = repeats::sets(&keys, V::LANES * WAYS);
    let mut is_left = vec![true; questions.len()];
    for set in &sets {
        prove_set(like, questions, set, memory, proven);
        set.asked.iter().for_each(|&(question, _)| is_left[question] = false);
    }
    let mut is_left = is_left.into_iter();
    questions.retain(|_| is_left.next() == Some(true));
}

/// Whether the answer number `at` is yes.
fn is_yes<V: Vector>(answers: &[Ways<u8>], at: usize) -> bool {
    let (vector, lane) = (at / V::LANES, at % V::LANES);
    answers[vector / WAYS][vector % WAYS] >> lane & 1 == 1
}

/// The questions about keys that come again.
fn prove_set<V: Vector>(like: V, questions: &[Question], set: &Set, memory: &mut Memory<V>, proven: &mut [bool]) {
    let Memory { room, combs } = memory;
    like.run(
        #[inline(always)]
        || combs.fill(like, &set.keys, room),
    );
    for places in set.asked.chunks(at_a_time(set.asked.len(), V::LANES * WAYS)) {
        let asked = |&(question, key): &(usize, usize)| {
            let Question { bits, sum_x, .. } = questions[question];
            Asked { key, bits, sum_x }
        };
        let asked: Vec<Asked> = places.iter().map(asked).collect();
        let answers = like.run(
            #[inline(always)]
            || combs.answers(like, &asked, room),
        );
        for (at, &(question, _)) in places.iter().enumerate() {
            proven[questions[question].claim] = is_yes::<V>(&answers, at);
        }
    }
}

/// The questions behind the claims that lanes take.
fn questions<V: Vector>(like: V, claims: &[Claim]) -> Vec<Question> {
    let (mut questions, mut fractions) = (Vec::with_capacity(claims.len()), Vec::with_capacity(claims.len()));
    for (place, claim) in claims.iter().enumerate() {
        let question = match claim {
            Claim::Ecdsa { x, y, r, s, message } => ecdsa(x, y, r, s, message),
            Claim::Schnorr { x, r, s, challenge } => schnorr(x, r, s, challenge),
            Claim::Tweak { x, tweak, sum, odd } => tweaked(x, tweak, sum, *odd),
        };
        if let Some((question, fraction)) = question {
            questions.push(Question { claim: place, ..question });
            fractions.push(fraction);
        }
    }
    for (question, bits) in questions.iter_mut().zip(scalars::bits(like, &fractions)) {
        question.bits = bits;
    }
    questions
}

/// A question whose bits are not there yet, and what they are made of.
type Begun = (Question, Fraction);

/// `(z / s) G + (r / s) P` has x = r.
///
/// A sum with x = r + n would do, too: it is not proven.
fn ecdsa(x: &[u8; 32], y: &Y, r: &[u8; 32], s: &[u8; 32], message: &[u8; 32]) -> Option<Begun> {
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
    let (x, sum_x) = (Field::from_bytes(x)?, Field::from_words(r.words())?);
    let question = Question { claim: 0, x, odd, y, bits: Bits::SOME, sum_x, sum_odd: None };
    Some((question, Fraction::new(words_of(message), r, s)))
}

/// Whether a number is above half the order.
pub(super) fn is_high(number: Scalar) -> bool {
    let (number, negative) = (number.words(), (-number).words());
    number.iter().rev().gt(negative.iter().rev())
}

/// `s G - e P` has x = r, and y is even.
fn schnorr(x: &[u8; 32], r: &[u8; 32], s: &[u8; 32], challenge: &[u8; 32]) -> Option<Begun> {
    let key = -Scalar::reduced(words_of(challenge));
    let fraction = Fraction::new(Scalar::from_bytes(s)?.words(), key, Scalar::ONE);
    Some((of_sum(Field::from_bytes(x)?, Field::from_bytes(r)?, false), fraction))
}

/// `t G + P` is as claimed.
fn tweaked(x: &[u8; 32], tweak: &[u8; 32], sum: &[u8; 32], odd: bool) -> Option<Begun> {
    let fraction = Fraction::new(Scalar::from_bytes(tweak)?.words(), Scalar::ONE, Scalar::ONE);
    Some((of_sum(Field::from_bytes(x)?, Field::from_bytes(sum)?, odd), fraction))
}

/// A question about the sum's y, too, with a key whose y is even.
fn of_sum(x: Field, sum_x: Field, sum_odd: bool) -> Question {
    Question { claim: 0, x, odd: false, y: None, bits: Bits::SOME, sum_x, sum_odd: Some(sum_odd) }
}

/// A bit for each question whose answer is yes, in the mask of its vector.
#[inline(always)]
fn answers<V: Vector>(like: V, questions: &[Question], room: &mut Room<V>) -> Vec<Ways<u8>> {
    let parts: Vec<&[Question]> = questions.chunks(V::LANES * WAYS).collect();
    let mut digits = vec![[const { Recoded::ONES }; WAYS]; parts.len()];
    let mut keys = Vec::with_capacity(parts.len());
    for (part, digits) in parts.iter().zip(&mut digits) {
        for (way, digits) in digits.iter_mut().enumerate() {
            let bits = part.iter().skip(way * V::LANES).map(|question| &question.bits);
            digits.set_all(&LaneBits::new(like, bits));
        }
        keys.push(each!(i, stretched(like, part, i)));
    }
    let sums = ladder::sums(&keys, &digits, room);
    solve(like, &parts, &sums, room)
}

/// The keys' points, stretched by their y: x g and g^2.
#[inline(always)]
fn stretched<V: Vector>(like: V, part: &[Question], way: usize) -> [Fe<V>; 2] {
    let x = lanes(like, part, way, |question| question.x);
    let g = right_side(&x);
    [mul(&x, &g), square(&g)]
}

/// g, the square of the y of a point with this x.
#[inline(always)]
fn right_side<V: Vector>(x: &Fe<V>) -> Fe<V> {
    mul_columns(&square(x), x).plus(&Fe::small(x.like(), 7)).carry()
}

/// The answers, from the sums: see above.
#[inline(always)]
fn solve<V: Vector>(like: V, parts: &[&[Question]], sums: &Sums<V>, room: &mut Room<V>) -> Vec<Ways<u8>> {
    let inversions = room.inversions();
    let mut proven: Vec<Ways<u8>> = sums.unknown.iter().map(|unknown| unknown.map(|unknown| !unknown)).collect();
    inversions.begin(parts.len());
    let mut equations: Vec<Ways<Equation<V>>> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let equation = each!(i, Equation::of(&sums.base[at][i], &sums.key[at][i], like, part, i));
        inversions.put(&each!(i, mul(&equation[i].w, &equation[i].h)));
        equations.push(equation);
    }
    inversions.invert_others(|at, zeros| {
        for way in 0..WAYS {
            proven[at][way] &= !zeros[way];
        }
    });
    for (at, part) in parts.iter().enumerate().rev() {
        let inverse = inversions.take();
        let holds = each!(i, equations[at][i].holds(&sums.base[at][i], &sums.key[at][i], &inverse[i], part, i));
        for way in 0..WAYS {
            proven[at][way] &= holds[way];
        }
    }
    proven
}

/// What of the equation is wanted once more: numbers as above.
#[derive(Clone, Copy)]
pub(super) struct Equation<V> {
    /// y^2.
    pub(super) g: Fe<V>,
    pub(super) r: Fe<V>,
    pub(super) d: Fe<V>,
    /// 2 y1 Y T.
    pub(super) v: Fe<V>,
    /// W, v D.
    pub(super) w: Fe<V>,
    /// x1 D - X.
    pub(super) h: Fe<V>,
    pub(super) n: Fe<V>,
}

impl<V: Vector> Equation<V> {
    /// Bounds of what is carried, in units of 2^52: 24 for 2 y1 Y, -1 to 12 for h, 2 for r + x1, 13 for q, -12 to 21 for n;
    /// where lower halves are signed, -8, -5, -4 and -18 are the lowest.
    #[inline(always)]
    pub(super) fn of(base: &Flat<V>, key: &Point<V>, like: V, part: &[Question], way: usize) -> Equation<V> {
        debug_assert!(base.negative == 0, "a sum has its own y, which is taken as it is");
        let g = right_side(&lanes(like, part, way, |question| question.x));
        let r = lanes(like, part, way, |question| question.sum_x);
        let (t, d) = (&key.z, mul(&square(&key.z), &g));
        let v = mul(&mul_columns(&base.y, &key.y).twice().carry(), t);
        let h = mul_columns(&base.x, &d).minus(&key.x).carry();
        let q = mul_columns(&r.columns().plus(&base.x).carry(), &d).plus(&key.x).carry();
        let ddd = mul(&square(&d), &d);
        let squares = dot_columns(&square(&base.y), &ddd, &key.y, &key.y);
        let n = squares.minus_columns(mul_columns(&q, &square(&h))).carry();
        Equation { g, r, d, v, w: mul(&v, &d), h, n }
    }

    /// The lanes where it holds, with `inverse` 1 / (W h).
    #[inline(always)]
    pub(super) fn holds(
        &self,
        base: &Flat<V>,
        key: &Point<V>,
        inverse: &Loose<V>,
        part: &[Question],
        way: usize,
    ) -> u8 {
        let of_part = |at: usize| part.get(way * V::LANES + at);
        let mask = |is_so: fn(&Question) -> bool| {
            (0..V::LANES).fold(0, |mask, at| mask | u8::from(of_part(at).is_some_and(is_so)) << at)
        };
        let y = mul(&mul(&self.n, &self.h), inverse);
        let is_root = square(&y).equals(&self.g);
        let is_key = !(y.is_odd() ^ mask(|question| question.odd));
        let mut holds = is_root & is_key & mask(|_| true);
        let given = mask(|question| question.y.is_some());
        if given != 0 {
            holds &= y.equals(&lanes(y.like(), part, way, |question| question.y.unwrap_or(Field::ONE))) | !given;
        }
        let wants = mask(|question| question.sum_odd.is_some());
        if wants != 0 {
            let is_odd = self.sum_y(base, key, inverse, &y).is_odd();
            holds &= !(is_odd ^ mask(|question| question.sum_odd == Some(true))) | !wants;
        }
        holds
    }

    /// The sum's y, where its x is r: on the line through both points, negated.
    ///
    /// 1 / (x1 - x2) is D / h, and y2 is Y T y / D^2.
    /// Bounds of what is carried, in units of 2^52: -1 to 1 for y1 - y2 and x1 - r, -1 to 12 for y3, or -5.
    #[inline(always)]
    pub(super) fn sum_y(&self, base: &Flat<V>, key: &Point<V>, inverse: &Loose<V>, y: &Fe<V>) -> Fe<V> {
        let by_d = mul(&mul(inverse, &self.v), &self.h);
        let y2 = mul(&mul(&mul(&key.y, &key.z), y), &square(&by_d));
        let height = base.y.columns().minus(&y2).carry();
        let slope = mul(&mul(&height, &self.d), &mul(inverse, &self.w));
        let back = base.x.columns().minus(&self.r).carry();
        mul_columns(&slope, &back).minus(&base.y).carry()
    }
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
