//! Puts questions about `u1 G + u2 P` into the lanes, and reads the results.
//!
//! P is given by x; its y is never computed beforehand. With g = x^3 + 7, which is y^2, the point (x g, g^2) is P
//! stretched by y (see [`super::ladder`]), so u2 P is found except for a factor of y. The equation that u1 G + u2 P has
//! the claimed x is linear in that factor. It is solved for y; the claim is true if the solution is a root of g, and
//! agrees with the claim's y or parity, if there is one.
//!
//! In detail, with (x1, y1) = u1 G, (X, Y, T) the ladder's result, D = T^2 g and r the claimed x: u2 P = (x2, y2) = (X
//! / D, Y / (D T y)). Since three points (one of them negated) are on a line,
//!
//! ```text
//! (y1 - y2)^2 = (r + x1 + x2) (x1 - x2)^2                        if x1 and x2 are different
//! N = 2 y1 Y T D y    with N = y1^2 D^3 + Y^2 - ((r + x1) D + X) h^2 and h = x1 D - X
//! ```
//!
//! the second being the first times D^3, with y2^2 D^3 = Y^2 and y2 D^3 = Y T D y. So y is N over W = 2 y1 Y T D, which
//! has the form a - r b with two numbers a and b. Both numbers are the same for all claims about one sum, which
//! therefore cost little more than one claim.
//!
//! The result of a lane is "proven" or nothing. A lane proves its claim if no sum met an exception, h and W are not
//! zero, and N / W is a root of g. It must also have the claimed parity or equal the given y, if the claim has one; the
//! same applies to the sum's y. A root of g makes (x, N / W) a point of the curve, P or -P, and everything computed
//! with it exact. A nonzero h makes the equation one of x; if h is zero, any r satisfies it.

use super::Claim;
use super::combs::{Asked, Combs};
use super::digits::{LaneBits, Recoded};
use super::field::{Fe, Loose, Multiplicand};
use super::kept::{Kept, with_kept};
use super::ladder::{self, PAIRS, Room, Sums};
use super::point::{Flat, Point, WAYS, Ways, each};
use super::products::{dot_columns, mul, mul_columns, square};
use super::questions::{self, Question, Questions, Statement, Told};
use super::reference::{Field, GENERATOR};
use super::repeats::{self, Key, Set};
use super::vector::{LANES_MAX, Vector};
use std::marker::PhantomData;

/// The memory of a call.
struct Memory<V> {
    room: Room<V>,
    combs: Combs,
}

thread_local! {
    /// The memory of the last call: more than a MiB, which would otherwise be requested from the system and returned
    /// each time.
    static MEMORY: Kept = const { Kept::new(None) };
}

/// What is found about claims, by their number.
pub(super) struct Found<'f> {
    /// Whether they are proven.
    pub(super) proven: &'f mut [bool],
    /// If wanted: of the ECDSA signatures that are proven, whether R's y is odd.
    pub(super) odd: Option<&'f mut [bool]>,
}

impl Found<'_> {
    /// Records a claim as proven.
    fn note(&mut self, claim: usize, is_odd: bool) {
        self.proven[claim] = true;
        if let Some(odd) = &mut self.odd {
            odd[claim] = is_odd;
        }
    }
}

/// Finds which of the claims are proven, by vectors of the kind of `like`.
pub(super) fn prove<V: Vector>(like: V, claims: &[Claim], mut found: Found<'_>) {
    let keys: Vec<Option<Key>> = claims.iter().map(questions::key).collect();
    let sets = repeats::sets(&keys, V::LANES * WAYS);
    let mut is_left = vec![true; claims.len()];
    sets.iter().flat_map(|set| &set.asked).for_each(|&(claim, _)| is_left[claim] = false);
    let left: Vec<(usize, &Claim)> = claims.iter().enumerate().filter(|&(claim, _)| is_left[claim]).collect();
    let new = || Memory { room: Room::new(like), combs: Combs::new() };
    with_kept(&MEMORY, new, |memory| {
        sets.iter().for_each(|set| prove_set(like, claims, set, memory, &mut found));
        prove_others(like, &left, memory, &mut found);
    });
}

/// The claims about keys that are not repeated.
fn prove_others<V: Vector>(like: V, claims: &[(usize, &Claim)], memory: &mut Memory<V>, found: &mut Found<'_>) {
    let mut questions = Questions::new(like, claims, true);
    let mut list = std::mem::take(&mut questions.list);
    list.sort_by_key(|question| questions.cost(question));
    for chunk in list.chunks(at_a_time(list.len(), V::LANES * WAYS)) {
        like.run(
            #[inline(always)]
            || answer(like, chunk, &questions.statements, &mut memory.room, found),
        );
    }
}

/// How many of `count` questions to answer at a time, so that all parts have about the same size: at most `width` for
/// each of [`PAIRS`] pairs of vectors.
pub(super) fn at_a_time(count: usize, width: usize) -> usize {
    let pairs = count.div_ceil(width).max(1);
    pairs.div_ceil(pairs.div_ceil(PAIRS)) * width
}

/// The claims about repeated keys.
fn prove_set<V: Vector>(like: V, claims: &[Claim], set: &Set, memory: &mut Memory<V>, found: &mut Found<'_>) {
    let Memory { room, combs } = memory;
    let claims: Vec<(usize, &Claim)> = set.asked.iter().map(|&(claim, _)| (claim, &claims[claim])).collect();
    let questions = Questions::new(like, &claims, false);
    let mut keys = set.asked.iter();
    let asked = |question: &Question| {
        let &Statement { claim, sum_x, .. } = questions.first_statement(question);
        let &(_, key) = keys.find(|&&(asked, _)| asked == claim).expect("questions are in the order of claims");
        Asked { claim, key, bits: question.bits, sum_x }
    };
    let asked: Vec<Asked> = questions.list.iter().map(asked).collect();
    like.run(
        #[inline(always)]
        || combs.fill(like, &set.keys, room),
    );
    for asked in asked.chunks(at_a_time(asked.len(), V::LANES * WAYS)) {
        let answers = like.run(
            #[inline(always)]
            || combs.answers(like, asked, room),
        );
        for (at, asked) in asked.iter().enumerate() {
            let vector = at / V::LANES;
            let lane = at % V::LANES;
            let [proven, odd] = answers[vector / WAYS].map(|masks| masks[vector % WAYS] >> lane & 1 == 1);
            if proven {
                found.note(asked.claim, odd);
            }
        }
    }
}

/// Records the proven claims among those of the questions' statements.
#[inline(always)]
fn answer<V: Vector>(
    like: V,
    questions: &[Question],
    statements: &[Statement],
    room: &mut Room<V>,
    found: &mut Found<'_>,
) {
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
    solve(like, &parts, statements, sums, room, found);
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
pub(super) fn right_side<V: Vector>(x: &Fe<V>) -> Fe<V> {
    mul_columns(&square(x), x).plus(&Fe::small(x.like(), 7)).carry()
}

/// Records the proven claims, from the sums: see above.
#[inline(always)]
fn solve<V: Vector>(
    like: V,
    parts: &[&[Question]],
    statements: &[Statement],
    sums: Sums<V>,
    room: &mut Room<V>,
    found: &mut Found<'_>,
) {
    let Sums { base, key, mut unknown } = sums;
    let inversions = room.inversions();
    inversions.begin(parts.len());
    let mut equations: Vec<Ways<Equation<V>>> = Vec::with_capacity(parts.len());
    for (at, part) in parts.iter().enumerate() {
        let equation = each!(i, Equation::of(&base[at][i], &key[at][i], &of_points(like, part, i)));
        inversions.put(&each!(i, mul(&equation[i].w, &equation[i].h)));
        equations.push(equation);
    }
    inversions.invert_others(|at, zeros| {
        for way in 0..WAYS {
            unknown[at][way] |= zeros[way];
        }
    });
    for (at, part) in parts.iter().enumerate().rev() {
        let inverse = inversions.take();
        let solution = each!(i, equations[at][i].solved(&inverse[i]));
        let most = part.iter().map(|question| question.statements.len()).max().unwrap_or(0);
        // All statements constrain the y of the sums, or no statement does.
        let line = each!(
            i,
            (found.odd.is_some() || Stated::<V>::new(part, statements, 0, i).wants_sum()).then(
                #[inline(always)]
                || equations[at][i].line(&key[at][i], &inverse[i])
            )
        );
        for number in 0..most {
            let stated = each!(i, Stated::new(part, statements, number, i));
            let held = each!(i, solution[i].holds(&base[at][i], line[i].as_ref(), &stated[i]));
            each!(i, stated[i].note(held[i].holds & !unknown[at][i], held[i].odd, found));
        }
    }
}

/// A statement in each lane of a vector; lanes may be without one.
pub(super) struct Stated<'s, V> {
    lanes: [Option<&'s Statement>; LANES_MAX],
    vector: PhantomData<V>,
}

impl<'s, V: Vector> Stated<'s, V> {
    /// Statement `number` of each question of a vector, if it exists.
    #[inline(always)]
    pub(super) fn new(part: &[Question], statements: &'s [Statement], number: usize, way: usize) -> Stated<'s, V> {
        let mut lanes = [None; LANES_MAX];
        for (lane, question) in lanes[..V::LANES].iter_mut().zip(part.iter().skip(way * V::LANES)) {
            *lane = statements[question.statements.clone()].get(number);
        }
        Stated { lanes, vector: PhantomData }
    }

    /// The lanes whose statements satisfy `is_so`.
    #[inline(always)]
    fn mask(&self, is_so: impl Fn(&Statement) -> bool) -> u8 {
        (0..V::LANES).fold(0, |mask, lane| mask | u8::from(self.lanes[lane].is_some_and(&is_so)) << lane)
    }

    /// Whether a statement constrains the sum's y.
    fn wants_sum(&self) -> bool {
        self.mask(|statement| statement.sum != Told::Nothing) != 0
    }

    /// Records the claims of the lanes of a mask as proven.
    fn note(&self, holds: u8, odd: u8, found: &mut Found<'_>) {
        for (lane, statement) in self.lanes.iter().enumerate().filter(|(lane, _)| holds >> lane & 1 == 1) {
            debug_assert!(lane < V::LANES);
            if let Some(statement) = statement {
                found.note(statement.claim, odd >> lane & 1 == 1);
            }
        }
    }

    /// The claimed x of the sums.
    #[inline(always)]
    fn sum_x(&self, like: V) -> Fe<V> {
        lanes(like, |lane| self.lanes[lane].map(|statement| statement.sum_x))
    }

    /// The lanes in which y agrees with its constraint, if there is one.
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

/// The equation of a sum, independent of the claimed x: numbers as above.
#[derive(Clone, Copy)]
pub(super) struct Equation<V> {
    /// y^2.
    pub(super) g: Fe<V>,
    pub(super) d: Fe<V>,
    /// 2 y1 Y T.
    pub(super) v: Fe<V>,
    /// W, v D.
    pub(super) w: Fe<V>,
    pub(super) h: Fe<V>,
    /// N for r = 0.
    pub(super) n: Fe<V>,
    /// The coefficient of -r in N: D h^2.
    pub(super) step: Fe<V>,
}

impl<V: Vector> Equation<V> {
    /// Bounds of the values carried, in units of 2^52: 24 for 2 y1 Y, -1 to 12 for h, 3 for x1 D + X, which is h + 2 X,
    /// -12 to 21 for n; with signed lower halves -8, -5 and -18 are the lowest.
    #[inline(always)]
    pub(super) fn of(base: &Flat<V>, key: &Point<V>, x: &Fe<V>) -> Equation<V> {
        debug_assert!(base.negative == 0, "a sum has its own y, which is taken as it is");
        let g = right_side(x);
        let t = &key.z;
        let d = mul(&square(&key.z), &g);
        let v = mul(&mul_columns(&base.y, &key.y).twice().carry(), t);
        let h = mul_columns(&base.x, &d).minus(&key.x).carry();
        let hh = square(&h);
        let both = key.x.columns().twice().plus(&h).carry();
        let ddd = mul(&square(&d), &d);
        let squares = dot_columns(&square(&base.y), &ddd, &key.y, &key.y);
        let n = squares.minus_columns(mul_columns(&both, &hh)).carry();
        Equation { g, d, v, w: mul(&v, &d), h, n, step: mul(&d, &hh) }
    }

    /// The solution for y as a function of r, with `inverse` 1 / (W h).
    #[inline(always)]
    pub(super) fn solved(&self, inverse: &Loose<V>) -> Solution<V> {
        let by_w = mul(&self.h, inverse);
        Solution { g: self.g, y: mul(&self.n, &by_w), step: mul(&self.step, &by_w) }
    }

    /// The line through both points, with `inverse` 1 / (W h): 1 / (x1 - x2) is D / h, and y2 is Y T y / D^2.
    #[inline(always)]
    pub(super) fn line(&self, key: &Point<V>, inverse: &Loose<V>) -> Line<V> {
        let by_d = mul(&mul(inverse, &self.v), &self.h);
        let y2 = mul(&mul(&key.y, &key.z), &square(&by_d));
        Line { y2, run: mul(&self.d, &mul(inverse, &self.w)) }
    }
}

/// The line through u1 G and u2 P: the part that is independent of P's y.
#[derive(Clone, Copy)]
pub(super) struct Line<V> {
    /// y2 over y.
    y2: Fe<V>,
    /// 1 / (x1 - x2).
    run: Fe<V>,
}

/// Masks of lanes.
#[derive(Clone, Copy)]
pub(super) struct Held {
    /// Those whose statement is true.
    pub(super) holds: u8,
    /// Those where R's y is odd, if there was a line.
    pub(super) odd: u8,
}

/// P's y as a function of r: `y - r * step`.
#[derive(Clone, Copy)]
pub(super) struct Solution<V> {
    /// y^2.
    g: Fe<V>,
    /// y for r = 0.
    y: Fe<V>,
    step: Fe<V>,
}

impl<V: Vector> Solution<V> {
    /// The lanes whose statements are true; `line` is needed if a statement constrains the sum's y, or to find whether R's
    /// y is odd.
    ///
    /// Bounds of the values carried, in units of 2^52: -12 to 1 for y, or 5.
    #[inline(always)]
    pub(super) fn holds(&self, base: &Flat<V>, line: Option<&Line<V>>, stated: &Stated<'_, V>) -> Held {
        let r = stated.sum_x(self.g.like());
        let y = self.y.columns().minus_columns(mul_columns(&r, &self.step)).carry();
        let mut holds = square(&y).equals(&self.g) & stated.mask(|_| true);
        holds &= stated.is_told(&y, |statement| statement.point);
        let Some(line) = line else {
            debug_assert!(!stated.wants_sum());
            return Held { holds, odd: 0 };
        };
        let sum_y = line.sum_y(base, &y, &r);
        // R is the multiplied point where the sum is the key.
        let is_multiplied = stated.mask(|statement| statement.point == Told::Nothing);
        let odd = sum_y.is_odd() & !is_multiplied | y.is_odd() & is_multiplied;
        Held { holds: holds & stated.is_told(&sum_y, |statement| statement.sum), odd }
    }
}

impl<V: Vector> Line<V> {
    /// The sum's y, given that its x is r: on the line, negated.
    ///
    /// Bounds of the values carried, in units of 2^52: -1 to 1 for x1 - r, -12 to 1 for y1 - y2, or 5, -1 to 12 for y3,
    /// or -5.
    #[inline(always)]
    pub(super) fn sum_y(&self, base: &Flat<V>, y: &Fe<V>, r: &Fe<V>) -> Fe<V> {
        let rise = base.y.columns().minus_columns(mul_columns(&self.y2, y)).carry();
        let back = base.x.columns().minus(r).carry();
        mul_columns(&mul(&rise, &self.run), &back).minus(&base.y).carry()
    }
}

/// A number for each lane; for lanes without one, the generator's x.
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
