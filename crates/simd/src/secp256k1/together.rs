//! Schnorr signatures and tweaks, all at once, by one sum with random coefficients.
//!
//! Each claim says that a sum of points is zero: `s G - R - e P` of a signature, `t G + P - Q` of a tweak, where R, P and Q
//! have a known x and a known parity of y. Each sum is multiplied with a coefficient of its own, and all of them are added:
//! where every claim is true that is zero. Where one is false it is zero for at most one of 2^128 coefficients of that
//! claim, whatever the others are, because the group's order is prime. So the coefficients must be unknown to whoever made
//! the claims: they come from a secret, hashed with the claims.
//! Source: BIP-0340, "Batch Verification"; M. Bellare, J. A. Garay, T. Rabin, "Fast batch verification for modular
//! exponentiation and digital signatures".
//!
//! Points with the same x are the same point or opposite: their multipliers are added up first, so that keys which come
//! again, and nonces, do not meet themselves in [`super::buckets`]. For all else that its formulas leave out, and where a
//! claim is false, the answer is "not proven", for all of them: whoever asks goes on one by one.
//!
//! Absent on purpose: ECDSA, whose R has an unknown parity.

use super::Claim;
use super::buckets::{BITS, Multiple, is_zero};
use super::digits::short_bits;
use super::field::Fe;
use super::kept::{Kept, with_kept};
use super::ladder::BETA;
use super::pairs::{Pairs, Term};
use super::power::{self, roots};
use super::products::{mul, mul_columns, square};
use super::reference::{Field, GENERATOR, Scalar, words_of};
use super::tables::Entry;
use super::vector::{LANES_MAX, Vector};
use crate::chacha20;
use crate::sha256::Sha256;

/// A random odd number between -(2^128 - 1) and 2^128 - 1, by its bits of weight 1 or -1: 2 v - (2^128 - 1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Coefficient(pub(super) u128);

impl Coefficient {
    pub(super) fn scalar(self) -> Scalar {
        // 2 v - (2^128 - 1) = 2 (v - 2^127) + 1.
        let v = Scalar::constant([self.0 as u64, (self.0 >> 64) as u64, 0, 0]);
        let middle = v - Scalar::constant([0, 1 << 63, 0, 0]);
        middle + middle + Scalar::ONE
    }

    /// The bits of the same number, as [`Multiple`] has them: of (v - 2^127) + 2^128.
    pub(super) fn bits(self) -> [u64; 3] {
        const { assert!(BITS == 129) };
        let (sum, carry) = self.0.overflowing_add(1 << 127);
        [sum as u64, (sum >> 64) as u64, u64::from(carry)]
    }
}

/// The coefficients of some claims, from a secret that their makers do not know.
pub(super) fn coefficients(claims: &[Claim], secret: &[u8; 32]) -> Vec<Coefficient> {
    let mut hash = Sha256::new();
    hash.update(secret);
    for claim in claims {
        // The challenge is a hash of what else the claim has, and so is the tweak, but for the sum.
        let parts = match claim {
            Claim::Schnorr { s, challenge, .. } => [s, challenge],
            Claim::Tweak { tweak, sum, .. } => [tweak, sum],
            Claim::Ecdsa { r, s, .. } => [r, s],
        };
        parts.into_iter().for_each(|part| hash.update(part));
    }
    let key = hash.finalize();
    let mut coefficients = Vec::with_capacity(claims.len().next_multiple_of(4));
    for counter in 0..claims.len().div_ceil(4) as u32 {
        let words = chacha20::words(&key, &[0; 12], counter);
        let number = |words: &[u32; 4]| words.iter().fold(0, |number, &word| number << 32 | u128::from(word));
        coefficients.extend(words.as_chunks().0.iter().map(|words| Coefficient(number(words))));
    }
    coefficients.truncate(claims.len());
    coefficients
}

/// What multiplies a point.
#[derive(Clone, Copy)]
enum Multiplier {
    /// A coefficient, or its negative.
    Short(Coefficient, bool),
    Full(Scalar),
}

impl Multiplier {
    fn scalar(self) -> Scalar {
        match self {
            Multiplier::Short(coefficient, false) => coefficient.scalar(),
            Multiplier::Short(coefficient, true) => -coefficient.scalar(),
            Multiplier::Full(scalar) => scalar,
        }
    }
}

/// The point with this x and an even y, times something.
#[derive(Clone, Copy)]
struct Part {
    x: [u64; 4],
    multiplier: Multiplier,
}

thread_local! {
    /// The list of the last call: some MiB, which would be asked from the system and given back each time.
    static PAIRS: Kept = const { Kept::new(None) };
}

/// Whether all claims hold: nothing is known of any where they do not, or where the answer is false for another reason.
/// ECDSA is never proven.
pub(super) fn all_hold<V: Vector>(like: V, claims: &[Claim], secret: &[u8; 32]) -> bool {
    let new = || Pairs::new(like);
    with_kept(&PAIRS, new, |pairs| {
        pairs.clear();
        all_hold_in(like, claims, secret, pairs)
    })
}

/// See [`all_hold`].
fn all_hold_in<V: Vector>(like: V, claims: &[Claim], secret: &[u8; 32], pairs: &mut Pairs<V>) -> bool {
    let Some(mut parts) = parts(claims, &coefficients(claims, secret)) else { return false };
    merge(&mut parts);
    // Full multipliers first: their points are wanted times lambda, too.
    parts.sort_by_key(|part| matches!(part.multiplier, Multiplier::Short(..)));
    let full = parts.iter().take_while(|part| matches!(part.multiplier, Multiplier::Full(_))).count();
    let Some(points) = like.run(
        #[inline(always)]
        || lift(like, &parts, full),
    ) else {
        return false;
    };
    let terms: Vec<Term> = points.into_iter().map(|point| pairs.push(point)).collect();
    let mut multiples = Vec::with_capacity(terms.len());
    for (at, part) in parts.iter().enumerate() {
        match part.multiplier {
            Multiplier::Short(coefficient, negative) => {
                multiples.push(Multiple { point: terms[at].negative_where(negative), bits: coefficient.bits() });
            }
            Multiplier::Full(scalar) => {
                let [bits, bits_of_lambda] = short_bits::<BITS>(scalar);
                multiples.push(Multiple { point: terms[at], bits });
                multiples.push(Multiple { point: terms[parts.len() + at], bits: bits_of_lambda });
            }
        }
    }
    is_zero(pairs, &multiples)
}

/// The parts of the sum; nothing where a number is too large.
fn parts(claims: &[Claim], coefficients: &[Coefficient]) -> Option<Vec<Part>> {
    let mut parts = Vec::with_capacity(claims.len() * 2 + 1);
    let mut of_generator = Scalar::ZERO;
    let part = |x: &[u8; 32], multiplier| Some(Part { x: Field::from_bytes(x)?.words(), multiplier });
    for (claim, &coefficient) in claims.iter().zip(coefficients) {
        let scalar = coefficient.scalar();
        match claim {
            Claim::Ecdsa { .. } => return None,
            Claim::Schnorr { x, r, s, challenge } => {
                parts.push(part(r, Multiplier::Short(coefficient, true))?);
                parts.push(part(x, Multiplier::Full(-(scalar * Scalar::reduced(words_of(challenge)))))?);
                of_generator = of_generator + scalar * Scalar::from_bytes(s)?;
            }
            Claim::Tweak { x, tweak, sum, odd } => {
                // A sum with an odd y is the opposite of the point that is lifted.
                parts.push(part(sum, Multiplier::Short(coefficient, !odd))?);
                parts.push(part(x, Multiplier::Short(coefficient, false))?);
                of_generator = of_generator + scalar * Scalar::from_bytes(tweak)?;
            }
        }
    }
    // The generator's y is even.
    parts.push(Part { x: GENERATOR.x.words(), multiplier: Multiplier::Full(of_generator) });
    Some(parts)
}

/// Makes one part of those with the same x.
fn merge(parts: &mut Vec<Part>) {
    parts.sort_unstable_by_key(|part| part.x);
    parts.dedup_by(|later, first| {
        let same = later.x == first.x;
        if same {
            first.multiplier = Multiplier::Full(first.multiplier.scalar() + later.multiplier.scalar());
        }
        same
    });
}

/// The points of all parts, and then lambda times the first `full` of them; nothing where an x is not on the curve.
#[inline(always)]
fn lift<V: Vector>(like: V, parts: &[Part], full: usize) -> Option<Vec<Entry>> {
    let mut points = Vec::with_capacity(parts.len() + full);
    let mut of_lambda = Vec::with_capacity(full);
    let beta = Fe::splat(like, BETA);
    for (chunk_at, chunk) in parts.chunks(V::LANES * power::WAYS).enumerate() {
        let mut xs = [Fe::small(like, 1); power::WAYS];
        let mut squares = xs;
        for way in 0..power::WAYS {
            let mut numbers = [GENERATOR.x.words(); LANES_MAX];
            for (to, part) in numbers.iter_mut().zip(chunk.iter().skip(way * V::LANES).take(V::LANES)) {
                *to = part.x;
            }
            xs[way] = Fe::from_lanes(like, &numbers);
            squares[way] = mul_columns(&square(&xs[way]), &xs[way]).plus(&Fe::small(like, 7)).carry();
        }
        let roots = roots(&squares);
        let wants_lambda = chunk_at * V::LANES * power::WAYS < full;
        for way in 0..power::WAYS {
            if square(&roots[way]).equals(&squares[way]) != V::ALL {
                return None;
            }
            let y = roots[way].negative_where(roots[way].is_odd());
            let count = chunk.len().saturating_sub(way * V::LANES).min(V::LANES);
            append(&mut points, &xs[way], &y, count);
            if wants_lambda {
                append(&mut of_lambda, &mul(&xs[way], &beta), &y, count);
            }
        }
    }
    of_lambda.truncate(full);
    points.append(&mut of_lambda);
    Some(points)
}

/// Appends the points of the first `count` lanes.
#[inline(always)]
fn append<V: Vector>(points: &mut Vec<Entry>, x: &Fe<V>, y: &Fe<V>, count: usize) {
    let ([x0, x1, x2, x3], [y0, y1, y2, y3]) = (x.to_words(), y.to_words());
    let mut rows = [Entry([0; 8]); LANES_MAX];
    V::scatter([x0, x1, x2, x3, y0, y1, y2, y3], rows.each_mut().map(|Entry(row)| row));
    points.extend_from_slice(&rows[..count]);
}
