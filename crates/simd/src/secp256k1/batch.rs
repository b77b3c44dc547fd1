//! Questions about `u1 G + u2 P`, through the lanes and back.
//!
//! P is told by x and at most y's parity, but its y is never computed. With g = x^3 + 7, which is y^2, the point (x g, g^2) is P
//! stretched by y (see [`super::ladder`]), and so u2 P is found but for y, of which its own y has one factor. The equation
//! that u1 G + u2 P has the claimed x is linear in that factor: it is solved for y, and the claim is true where the solution
//! is a root of g with the claimed parity, if one is claimed.
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
//! N / W is a root of g, of the claimed parity or the very y that was given, where either is, and so is the sum's y. A root of
//! g makes (x, N / W) a point of the curve, P or -P, and all that was computed with it exact; x1 D - X not zero makes the
//! equation one of x: where it is zero, any r fits.
//!
//! Several claims about one sum have equations of their own, and that the sum is the same costs the ladder once.

use super::Claim;
use super::combs::{Asked, Combs};
use super::digits::{LaneBits, Recoded};
use super::field::{Fe, Loose, Multiplicand};
use super::kept::{Kept, with_kept};
use super::ladder::{self, PAIRS, Room, Sums};
use super::point::{Flat, Point, WAYS, Ways, each};
use super::products::{dot_columns, mul, mul_columns, square};
use super::questions::{Question, Questions, Statement, Told};
use super::reference::{Field, GENERATOR};
use super::repeats::{self, Key, Set};
use super::vector::{LANES_MAX, Vector};
use std::marker::PhantomData;

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
    let mut questions = Questions::new(like, claims);
    let new = || Memory { room: Room::new(like), combs: Combs::new() };
    with_kept(&MEMORY, new, |memory| {
        prove_repeats(like, &mut questions, memory, &mut proven);
        // Those that cost as much are kept together.
        let mut list = std::mem::take(&mut questions.list);
        list.sort_by_key(|question| questions.cost(question));
        for chunk in list.chunks(at_a_time(list.len(), V::LANES * WAYS)) {
            let answers = like.run(
                #[inline(always)]
                || answers(like, chunk, &questions.statements, &mut memory.room),
            );
            for (at, question) in chunk.iter().enumerate() {
                for (statement, answers) in questions.statements[question.statements.clone()].iter().zip(&answers) {
                    proven[statement.claim] = is_yes::<V>(answers, at);
                }
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
fn prove_repeats<V: Vector>(like: V, questions: &mut Questions, memory: &mut Memory<V>, proven: &mut [bool]) {
    let keys: Vec<Option<Key>> = questions.list.iter().map(|question| questions.key(question)).collect();
    let sets = repeats::sets(&keys, V::LANES * WAYS);
    let mut is_left = vec![true; questions.list.len()];
    for set in &sets {
        prove_set(like, questions, set, memory, proven);
        set.asked.iter().for_each(|&(question, _)| is_left[question] = false);
    }
    let mut is_left = is_left.into_iter();
    questions.list.retain(|_| is_left.next() == Some(true));
}

/// Whether the answer number `at` is yes.
fn is_yes<V: Vector>(answers: &[Ways<u8>], at: usize) -> bool {
    let (vector, lane) = (at / V::LANES, at % V::LANES);
    answers[vector / WAYS][vector % WAYS] >> lane & 1 == 1
}

/// The questions about keys that come again.
fn prove_set<V: Vector>(like: V, questions: &Questions, set: &Set, memory: &mut Memory<V>, proven: &mut [bool]) {
    let Memory { room, combs } = memory;
    like.run(
        #[inline(always)]
        || combs.fill(like, &set.keys, room),
    );
    for places in set.asked.chunks(at_a_time(set.asked.len(), V::LANES * WAYS)) {
        let asked = |&(question, key): &(usize, usize)| {
            let question = &questions.list[question];
            Asked { key, bits: question.bits, sum_x: questions.first_statement(question).sum_x }
        };
        let asked: Vec<Asked> = places.iter().map(asked).collect();
        let answers = like.run(
            #[inline(always)]
            || combs.answers(like, &asked, room),
        );
        for (at, &(question, _)) in places.iter().enumerate() {
            let claim = questions.first_statement(&questions.list[question]).claim;
            proven[claim] = is_yes::<V>(&answers, at);
        }
    }
}

/// Bits for the questions' first statements, second ones and so on: one for each that is proven, in the mask of its vector.
/// Questions are ordered by the number of statements.
#[inline(always)]
fn answers<V: Vector>(
    like: V,
    questions: &[Question],
    statements: &[Statement],
    room: &mut Room<V>,
) -> Vec<Vec<Ways<u8>>> {
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
    let mut proven = Vec::new();
    // Whoever has more statements comes later.
    while let Some(first) = parts.iter().position(|part| part.iter().any(|of| of.statements.len() > proven.len())) {
        proven.push(solve(like, &parts, first, statements, proven.len(), &sums, room));
    }
    proven
}

/// The points' x and y, stretched by y: x g and g^2.
#[inline(always)]
fn stretched<V: Vector>(like: V, part: &[Question], way: usize) -> [Fe<V>; 2] {
    let x = of_points(like, part, way);
    let g = right_side(&x);
    [mul(&x, &g), square(&g)]
}

/// The x of the points that are multiplied.
#[inline(always)]
fn of_points<V: Vector>(like: V, part: &[Question], way: usize) -> Fe<V> {
    lanes(like, |lane| part.get(way * V::LANES + lane).map(|question| question.x))
}

/// g, the square of the y of a point with this x.
#[inline(always)]
fn right_side<V: Vector>(x: &Fe<V>) -> Fe<V> {
    mul_columns(&square(x), x).plus(&Fe::small(x.like(), 7)).carry()
}

/// The answers about statement number `round` of each question, from the sums: see above. The pairs of vectors before `first`
/// have none.
#[inline(always)]
fn solve<V: Vector>(
    like: V,
    parts: &[&[Question]],
    first: usize,
    statements: &[Statement],
    round: usize,
    sums: &Sums<V>,
    room: &mut Room<V>,
) -> Vec<Ways<u8>> {
    let inversions = room.inversions();
    let mut proven: Vec<Ways<u8>> = sums.unknown.iter().map(|unknown| unknown.map(|unknown| !unknown)).collect();
    proven[..first].fill([0; WAYS]);
    inversions.begin(parts.len() - first);
    let mut equations: Vec<Ways<Equation<V>>> = Vec::with_capacity(parts.len() - first);
    let stated = |part, way| Stated::<V>::new(part, statements, round, way);
    for (at, part) in parts.iter().enumerate().skip(first) {
        let x = each!(i, of_points(like, part, i));
        let equation = each!(i, Equation::of(&sums.base[at][i], &sums.key[at][i], &x[i], &stated(part, i)));
        inversions.put(&each!(i, mul(&equation[i].w, &equation[i].h)));
        equations.push(equation);
    }
    inversions.invert_others(|at, zeros| {
        for way in 0..WAYS {
            proven[first + at][way] &= !zeros[way];
        }
    });
    for (at, part) in parts.iter().enumerate().skip(first).rev() {
        let (inverse, equation) = (inversions.take(), &equations[at - first]);
        let holds = each!(i, equation[i].holds(&sums.base[at][i], &sums.key[at][i], &inverse[i], &stated(part, i)));
        for way in 0..WAYS {
            proven[at][way] &= holds[way];
        }
    }
    proven
}

/// A statement in each lane of a vector, where there is one.
pub(super) struct Stated<'s, V> {
    lanes: [Option<&'s Statement>; LANES_MAX],
    vector: PhantomData<V>,
}

impl<'s, V: Vector> Stated<'s, V> {
    /// Statement number `round` of each question of a vector.
    #[inline(always)]
    pub(super) fn new(part: &[Question], statements: &'s [Statement], round: usize, way: usize) -> Stated<'s, V> {
        let mut lanes = [None; LANES_MAX];
        for (lane, question) in lanes[..V::LANES].iter_mut().zip(part.iter().skip(way * V::LANES)) {
            *lane = statements[question.statements.clone()].get(round);
        }
        Stated { lanes, vector: PhantomData }
    }

    /// The lanes in which something is so.
    #[inline(always)]
    fn mask(&self, is_so: impl Fn(&Statement) -> bool) -> u8 {
        (0..V::LANES).fold(0, |mask, lane| mask | u8::from(self.lanes[lane].is_some_and(&is_so)) << lane)
    }

    /// The claimed x of the sums.
    #[inline(always)]
    fn sum_x(&self, like: V) -> Fe<V> {
        lanes(like, |lane| self.lanes[lane].map(|statement| statement.sum_x))
    }

    /// The lanes in which y is as it was told, if it was.
    #[inline(always)]
    fn is_told(&self, y: &Fe<V>, told: fn(&Statement) -> Told) -> u8 {
        let wants = self.mask(|statement| told(statement).odd().is_some());
        let odd = self.mask(|statement| told(statement).odd() == Some(true));
        let mut is_told = if wants == 0 { V::ALL } else { !(y.is_odd() ^ odd) | !wants };
        let given = self.mask(|statement| told(statement).all().is_some());
        if given != 0 {
            let all = lanes(y.like(), |lane| self.lanes[lane].and_then(|statement| told(statement).all()));
            is_told &= y.equals(&all) | !given;
        }
        is_told
    }
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
    pub(super) fn of(base: &Flat<V>, key: &Point<V>, x: &Fe<V>, stated: &Stated<'_, V>) -> Equation<V> {
        debug_assert!(base.negative == 0, "a sum has its own y, which is taken as it is");
        let (g, r) = (right_side(x), stated.sum_x(x.like()));
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
    pub(super) fn holds(&self, base: &Flat<V>, key: &Point<V>, inverse: &Loose<V>, stated: &Stated<'_, V>) -> u8 {
        let y = mul(&mul(&self.n, &self.h), inverse);
        let mut holds = square(&y).equals(&self.g) & stated.mask(|_| true);
        holds &= stated.is_told(&y, |statement| statement.point);
        if stated.mask(|statement| statement.sum != Told::Nothing) != 0 {
            holds &= stated.is_told(&self.sum_y(base, key, inverse, &y), |statement| statement.sum);
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

/// A number of each lane; of lanes without one, the generator's x.
#[inline(always)]
fn lanes<V: Vector>(like: V, number: impl Fn(usize) -> Option<Field>) -> Fe<V> {
    let mut numbers = [GENERATOR.x.words(); LANES_MAX];
    for (lane, to) in numbers[..V::LANES].iter_mut().enumerate() {
        if let Some(number) = number(lane) {
            *to = number.words();
        }
    }
    Fe::from_lanes(like, &numbers)
}
