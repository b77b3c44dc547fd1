//! From claims to questions: the sum to compute, and the coordinates that it must have.
//!
//! A claim is a statement about a sum `u1 G + u2 P`: that it has this x, and, if required, this y. One pass of the
//! ladder answers all statements about one sum.
//!
//! An ECDSA signature (r, s) of z by the key Q has two such sums. The rule is that `(z / s) G + (r / s) Q` has x = r,
//! modulo the order. If x is r itself that sum is R or -R, the two points that have this x. Then the rule also says
//! that Q is `-(z / r) G + (s / r) R`, for one of them, so that the key is the sum. A signature that is checked against
//! several keys, as in CHECKMULTISIG, takes this second form, in which each key is a statement about the same sum. A
//! sum with x = r + n would be valid too: it is not proven, in either form. Source: SEC 1, 4.1.4 and 4.1.6.
//!
//! Absent on purpose: the computation of a sum, and the evaluation of a statement.

use super::digits::Bits;
use super::reference::{Field, Scalar, words_of};
use super::repeats::Key;
use super::scalars::{self, Fraction};
use super::vector::Vector;
use super::{Claim, Y};
use std::ops::Range;

/// The sum `base G + key P`, where P has this x.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) x: Field,
    /// The bits of both multipliers.
    pub(super) bits: Bits,
    /// The statements about this sum, in the list of statements.
    pub(super) statements: Range<usize>,
}

/// A claim's statement about the sum of a question, and about the multiplied point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement {
    /// Index of the claim.
    pub(super) claim: usize,
    /// The multiplied point's y.
    pub(super) point: Told,
    pub(super) sum_x: Field,
    /// The sum's y.
    pub(super) sum: Told,
}

/// The claimed part of a y.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Told {
    Nothing,
    Odd(bool),
    All(Field),
}

impl Told {
    /// The y of a claim; `None` if it is not a field element.
    fn new(y: &Y) -> Option<Told> {
        Some(match y {
            Y::Even => Told::Odd(false),
            Y::Odd => Told::Odd(true),
            Y::Given(y) => Told::All(Field::from_bytes(y)?),
        })
    }

    /// The parity, if it is claimed.
    pub(super) fn odd(self) -> Option<bool> {
        match self {
            Told::Nothing => None,
            Told::Odd(odd) => Some(odd),
            Told::All(y) => Some(y.is_odd()),
        }
    }

    /// The whole value, if it is claimed.
    pub(super) fn all(self) -> Option<Field> {
        match self {
            Told::All(y) => Some(y),
            Told::Nothing | Told::Odd(_) => None,
        }
    }
}

/// Questions, and all statements about their sums.
#[derive(Default)]
pub(super) struct Questions {
    pub(super) list: Vec<Question>,
    pub(super) statements: Vec<Statement>,
}

impl Questions {
    /// The questions for the supported claims, each with its number, in the claims' order. With `together`, adjacent
    /// claims about one signature become one question.
    pub(super) fn new<V: Vector>(like: V, claims: &[(usize, &Claim)], together: bool) -> Questions {
        let mut questions = Questions::default();
        let mut fractions = Vec::with_capacity(claims.len());
        questions.list.reserve(claims.len());
        questions.statements.reserve(claims.len());
        for claims in claims.chunk_by(|(_, one), (_, other)| together && are_of_one_signature(one, other)) {
            let begun = match claims {
                [(place, claim)] => questions.single(*place, claim),
                _ => questions.ecdsa_by_keys(claims),
            };
            if let Some((x, fraction)) = begun {
                let start = questions.list.last().map_or(0, |question| question.statements.end);
                let statements = start..questions.statements.len();
                questions.list.push(Question { x, bits: Bits::SOME, statements });
                fractions.push(fraction);
            }
        }
        for (question, bits) in questions.list.iter_mut().zip(scalars::bits(like, &fractions)) {
            question.bits = bits;
        }
        questions
    }

    /// The first statement about a question's sum.
    pub(super) fn first_statement(&self, question: &Question) -> &Statement {
        &self.statements[question.statements.start]
    }

    /// The cost of a question depends on whether the sum's y is needed, and on the number of statements.
    pub(super) fn cost(&self, question: &Question) -> (bool, usize) {
        (self.first_statement(question).sum != Told::Nothing, question.statements.len())
    }

    fn single(&mut self, place: usize, claim: &Claim) -> Option<Begun> {
        match claim {
            Claim::Ecdsa { x, y, r, s, message } => self.ecdsa(place, (x, y), (r, s), message, Told::Nothing),
            Claim::EcdsaWithParity { x, y, r, s, message, odd } => {
                self.ecdsa(place, (x, y), (r, s), message, Told::Odd(*odd))
            }
            Claim::Schnorr { x, r, s, challenge } => self.schnorr(place, x, r, s, challenge),
            Claim::Tweak { x, tweak, sum, odd } => self.tweaked(place, x, tweak, sum, *odd),
        }
    }

    fn state(&mut self, claim: usize, point: Told, sum_x: Field, sum: Told) {
        self.statements.push(Statement { claim, point, sum_x, sum });
    }

    /// `(z / s) G + (r / s) P` has x = r, and y is as told.
    fn ecdsa(
        &mut self,
        claim: usize,
        (x, y): (&[u8; 32], &Y),
        (r, s): (&[u8; 32], &[u8; 32]),
        message: &[u8; 32],
        sum: Told,
    ) -> Option<Begun> {
        let (r, s) = signature(r, s)?;
        let x = Field::from_bytes(x)?;
        let point = Told::new(y)?;
        let sum_x = Field::from_words(r.words())?;
        self.state(claim, point, sum_x, sum);
        Some((x, Fraction::new(words_of(message), r, s)))
    }

    /// `-(z / r) G + (s / r) R` is the key, where R has x = r: a statement for each claim. All claims are about one
    /// signature.
    fn ecdsa_by_keys(&mut self, claims: &[(usize, &Claim)]) -> Option<Begun> {
        let (_, Claim::Ecdsa { r, s, message, .. }) = claims.first()? else { return None };
        let (r, s) = signature(r, s)?;
        let x = Field::from_words(r.words())?;
        let message = Scalar::reduced(words_of(message));
        let start = self.statements.len();
        for (place, claim) in claims {
            if let Claim::Ecdsa { x, y, .. } = claim
                && let (Some(sum_x), Some(sum)) = (Field::from_bytes(x), Told::new(y))
            {
                self.state(*place, Told::Nothing, sum_x, sum);
            }
        }
        (self.statements.len() > start).then(|| (x, Fraction::new((-message).words(), s, r)))
    }

    /// `s G - e P` has x = r, and y is even.
    fn schnorr(
        &mut self,
        claim: usize,
        x: &[u8; 32],
        r: &[u8; 32],
        s: &[u8; 32],
        challenge: &[u8; 32],
    ) -> Option<Begun> {
        let key = -Scalar::reduced(words_of(challenge));
        let fraction = Fraction::new(Scalar::from_bytes(s)?.words(), key, Scalar::ONE);
        let x = Field::from_bytes(x)?;
        let sum_x = Field::from_bytes(r)?;
        self.state(claim, Told::Odd(false), sum_x, Told::Odd(false));
        Some((x, fraction))
    }

    /// `t G + P` has the claimed x and y.
    fn tweaked(&mut self, claim: usize, x: &[u8; 32], tweak: &[u8; 32], sum: &[u8; 32], odd: bool) -> Option<Begun> {
        let fraction = Fraction::new(Scalar::from_bytes(tweak)?.words(), Scalar::ONE, Scalar::ONE);
        let x = Field::from_bytes(x)?;
        let sum_x = Field::from_bytes(sum)?;
        self.state(claim, Told::Odd(false), sum_x, Told::Odd(odd));
        Some((x, fraction))
    }
}

/// The key of a claim, if it may have tables.
pub(super) fn key(claim: &Claim) -> Option<Key> {
    match claim {
        Claim::Ecdsa { x, y: y @ (Y::Even | Y::Odd), .. } => Some((Field::from_bytes(x)?, *y == Y::Odd)),
        _ => None,
    }
}

/// The x of a question whose bits are not computed yet, and the fraction that determines them.
type Begun = (Field, Fraction);

/// Whether both claims are about the same signature of the same message, by possibly different keys.
fn are_of_one_signature(one: &Claim, other: &Claim) -> bool {
    match (one, other) {
        (Claim::Ecdsa { r, s, message, .. }, Claim::Ecdsa { r: other_r, s: other_s, message: other_message, .. }) => {
            r == other_r && s == other_s && message == other_message
        }
        _ => false,
    }
}

/// r and s of an ECDSA signature, neither zero, s low.
pub(super) fn signature(r: &[u8; 32], s: &[u8; 32]) -> Option<(Scalar, Scalar)> {
    let number = |bytes| Scalar::from_bytes(bytes).filter(|number| !number.is_zero());
    let r = number(r)?;
    let s = number(s)?;
    (!is_high(s)).then_some((r, s))
}

/// Whether a number is above half the order.
pub(super) fn is_high(number: Scalar) -> bool {
    let negative = (-number).words();
    number.words().iter().rev().gt(negative.iter().rev())
}
