//! Proves Schnorr signatures, tweaks, and ECDSA signatures with a known parity, all at once, by one sum with random
//! coefficients.
//!
//! Each claim says that a sum of points is zero: `s G - R - e P` of a Schnorr signature, `t G + P - Q` of a tweak,
//! `(m / s) G + (r / s) P - R` of an ECDSA signature, where R, P and Q have a known x and a known parity of y. Each sum
//! is multiplied by a separate coefficient, and all are added: if every claim is true the total is zero. If a claim is
//! false the total is zero for at most one of 2^128 coefficients of that claim, whatever the others are, because the
//! group's order is prime. So the coefficients must be unknown to the makers of the claims: they are derived from a
//! secret, hashed with the claims. Source: BIP-0340, "Batch Verification"; M. Bellare, J. A. Garay, T. Rabin, "Fast
//! batch verification for modular exponentiation and digital signatures".
//!
//! Points with the same x are equal or opposite: their multipliers are added first, so that repeated keys and nonces
//! are not added to themselves in [`super::buckets`]. In all other exceptional cases, and if a claim is false, the
//! result is "not proven" for all claims: the caller then tries them separately.
//!
//! Absent on purpose: ECDSA signatures whose R has an unknown parity.

use super::buckets::{BITS, Multiple, Room, is_zero};
use super::digits::short_bits;
use super::field::Fe;
use super::kept::{Kept, with_kept};
use super::ladder::BETA;
use super::pairs::{Pairs, Term};
use super::power::{self, roots};
use super::products::{mul, mul_columns, square};
use super::questions::signature;
use super::reference::{Field, GENERATOR, Scalar, invert_all, words_of};
use super::tables::entries;
use super::vector::{LANES_MAX, Vector};
use super::{Claim, Y};
use crate::chacha20;
use crate::sha256::Sha256;

/// The x of idle lanes.
const GENERATOR_X: [u64; 4] = GENERATOR.x.words();

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

    /// The bits of the same number, as in [`Multiple`]: those of (v - 2^127) + 2^128.
    pub(super) fn bits(self) -> [u64; 3] {
        const { assert!(BITS == 129) };
        let (sum, carry) = self.0.overflowing_add(1 << 127);
        [sum as u64, (sum >> 64) as u64, u64::from(carry)]
    }
}

/// The coefficients of some claims, from a secret unknown to their makers.
pub(super) fn coefficients(claims: &[Claim], secret: &[u8; 32]) -> Vec<Coefficient> {
    let mut hash = Sha256::new();
    hash.update(secret);
    for claim in claims {
        // The challenge is a hash of the claim's other numbers, and so is the tweak, except for the sum.
        let parts: &[&[u8; 32]] = match claim {
            Claim::Schnorr { s, challenge, .. } => &[s, challenge],
            Claim::Tweak { tweak, sum, .. } => &[tweak, sum],
            Claim::Ecdsa { x, r, s, message, .. } | Claim::EcdsaWithParity { x, r, s, message, .. } => {
                &[x, r, s, message]
            }
        };
        parts.iter().for_each(|part| hash.update(&part[..]));
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

/// The multiplier of a point.
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

/// The point with this x and an even y, and its multiplier.
#[derive(Clone, Copy)]
struct Part {
    x: [u64; 4],
    multiplier: Multiplier,
}

/// Memory that a call needs.
struct Memory<V> {
    room: Room<V>,
    parts: Vec<Part>,
    /// Indexes of parts, by their x.
    slots: Vec<u32>,
    multiples: Vec<Multiple>,
}

thread_local! {
    /// The memory of the last call: some MiB, which would otherwise be requested from the system and returned each
    /// time.
    static MEMORY: Kept = const { Kept::new(None) };
}

/// Whether all claims are proven. The result false may have a reason other than a false claim, so it says nothing about
/// any single claim. [`Claim::Ecdsa`] is never proven.
pub(super) fn all_hold<V: Vector>(like: V, claims: &[Claim], secret: &[u8; 32]) -> bool {
    let new = || Memory { room: Room::new(like), parts: Vec::new(), slots: Vec::new(), multiples: Vec::new() };
    with_kept(&MEMORY, new, |memory| all_hold_in(like, claims, secret, memory) == Some(true))
}

/// See [`all_hold`]. `None` if a number is too large, or an x is not on the curve.
fn all_hold_in<V: Vector>(like: V, claims: &[Claim], secret: &[u8; 32], memory: &mut Memory<V>) -> Option<bool> {
    let Memory { room, parts, slots, multiples } = memory;
    let coefficients = coefficients(claims, secret);
    Merged::new(parts, slots, &coefficients).fill(claims, &coefficients)?;
    // Full multipliers first: these points are also needed times lambda.
    let full = full_first(parts);
    room.pairs.clear();
    multiples.clear();
    like.run(
        #[inline(always)]
        || lift(like, parts, full, &mut room.pairs, multiples),
    )?;
    Some(is_zero(room, multiples))
}

/// The inverses of s of the ECDSA signatures, in order. `None` if one has a number that no claim may have.
fn inverses(claims: &[Claim]) -> Option<Vec<Scalar>> {
    let s_of = |claim: &Claim| match claim {
        Claim::EcdsaWithParity { r, s, .. } => Some(signature(r, s).map(|(_, s)| s)),
        _ => None,
    };
    let mut numbers: Vec<Scalar> = claims.iter().filter_map(s_of).collect::<Option<_>>()?;
    invert_all(&mut numbers);
    Some(numbers)
}

/// No part has this index.
const NO_PART: u32 = u32::MAX;

/// The parts of a sum, with pairwise different x.
struct Merged<'a> {
    parts: &'a mut Vec<Part>,
    /// The index of a part is in the first free slot from its own on.
    slots: &'a mut Vec<u32>,
    /// Hash key of the slots, unknown to the makers of claims, so that parts cannot be made to collide.
    factor: u64,
}

impl<'a> Merged<'a> {
    /// Empty, with room for the parts of as many claims as there are coefficients.
    fn new(parts: &'a mut Vec<Part>, slots: &'a mut Vec<u32>, coefficients: &[Coefficient]) -> Merged<'a> {
        parts.clear();
        slots.clear();
        // There are two parts for each claim, and that of the generator: they fill a quarter to a half of the slots.
        slots.resize((4 * coefficients.len() + 2).next_power_of_two(), NO_PART);
        let factor = coefficients.first().map_or(1, |first| first.0 as u64 | 1);
        Merged { parts, slots, factor }
    }

    /// Adds all parts of the claims. `None` if a number is too large.
    fn fill(mut self, claims: &[Claim], coefficients: &[Coefficient]) -> Option<()> {
        let mut of_generator = Scalar::ZERO;
        let mut inverses = inverses(claims)?.into_iter();
        for (claim, &coefficient) in claims.iter().zip(coefficients) {
            let scalar = coefficient.scalar();
            match claim {
                Claim::Ecdsa { .. } => return None,
                Claim::EcdsaWithParity { x, y, r, message, odd, .. } => {
                    let scalar = scalar * inverses.next()?;
                    let of_key = scalar * Scalar::from_bytes(r)?;
                    let of_key = match y {
                        Y::Even => of_key,
                        Y::Odd => -of_key,
                        Y::Given(_) => return None,
                    };
                    self.put(r, Multiplier::Short(coefficient, !odd))?;
                    self.put(x, Multiplier::Full(of_key))?;
                    of_generator = of_generator + scalar * Scalar::reduced(words_of(message));
                }
                Claim::Schnorr { x, r, s, challenge } => {
                    self.put(r, Multiplier::Short(coefficient, true))?;
                    self.put(x, Multiplier::Full(-(scalar * Scalar::reduced(words_of(challenge)))))?;
                    of_generator = of_generator + scalar * Scalar::from_bytes(s)?;
                }
                Claim::Tweak { x, tweak, sum, odd } => {
                    // If the sum's y is odd, the sum is the opposite of the point with even y.
                    self.put(sum, Multiplier::Short(coefficient, !odd))?;
                    self.put(x, Multiplier::Short(coefficient, false))?;
                    of_generator = of_generator + scalar * Scalar::from_bytes(tweak)?;
                }
            }
        }
        // The generator's y is even.
        self.merge(Part { x: GENERATOR_X, multiplier: Multiplier::Full(of_generator) });
        Some(())
    }

    fn put(&mut self, x: &[u8; 32], multiplier: Multiplier) -> Option<()> {
        self.merge(Part { x: Field::from_bytes(x)?.words(), multiplier });
        Some(())
    }

    /// A hash of all words of an x: products of two words, whose halves are combined by XOR.
    fn mixed(&self, x: &[u64; 4]) -> u64 {
        x.iter().fold(0, |mixed, &word| {
            let product = u128::from(mixed ^ word) * u128::from(self.factor);
            product as u64 ^ (product >> 64) as u64
        })
    }

    /// Appends the part, or adds its multiplier to that of the part with the same x.
    fn merge(&mut self, part: Part) {
        let mask = self.slots.len() - 1;
        let mut slot = self.mixed(&part.x) as usize & mask;
        loop {
            match self.slots[slot] {
                NO_PART => {
                    self.slots[slot] = self.parts.len() as u32;
                    self.parts.push(part);
                    return;
                }
                place => {
                    let first = &mut self.parts[place as usize];
                    if first.x == part.x {
                        first.multiplier = Multiplier::Full(first.multiplier.scalar() + part.multiplier.scalar());
                        return;
                    }
                }
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Moves the parts with full multipliers to the front, and returns their number.
fn full_first(parts: &mut [Part]) -> usize {
    let mut full = 0;
    for at in 0..parts.len() {
        if matches!(parts[at].multiplier, Multiplier::Full(_)) {
            parts.swap(full, at);
            full += 1;
        }
    }
    full
}

/// Appends the points of all parts, lambda times the points of the first `full` of them, and all multipliers. `None` if
/// an x is not on the curve.
#[inline(always)]
fn lift<V: Vector>(
    like: V,
    parts: &[Part],
    full: usize,
    points: &mut Pairs<V>,
    multiples: &mut Vec<Multiple>,
) -> Option<()> {
    let beta = Fe::splat(like, BETA);
    for (chunk_at, chunk) in parts.chunks(V::LANES * power::WAYS).enumerate() {
        let mut xs = [Fe::small(like, 1); power::WAYS];
        let mut squares = xs;
        for way in 0..power::WAYS {
            let mut numbers = [&GENERATOR_X; LANES_MAX];
            for (to, part) in numbers.iter_mut().zip(chunk.iter().skip(way * V::LANES).take(V::LANES)) {
                *to = &part.x;
            }
            xs[way] = Fe::from_words(like.gather(numbers));
            squares[way] = mul_columns(&square(&xs[way]), &xs[way]).plus(&Fe::small(like, 7)).carry();
        }
        let roots = roots(&squares);
        for (way, parts) in chunk.chunks(V::LANES).enumerate() {
            if square(&roots[way]).equals(&squares[way]) != V::ALL {
                return None;
            }
            let y = roots[way].negative_where(roots[way].is_odd());
            let point = append(points, &xs[way], &y, parts.len());
            let wants_lambda = (chunk_at * power::WAYS + way) * V::LANES < full;
            let of_lambda = wants_lambda.then(|| append(points, &mul(&xs[way], &beta), &y, parts.len()));
            append_multiples(parts, point, of_lambda, multiples);
        }
    }
    Some(())
}

/// Appends the points of the first `count` lanes, and returns the first of them.
#[inline(always)]
fn append<V: Vector>(points: &mut Pairs<V>, x: &Fe<V>, y: &Fe<V>, count: usize) -> Term {
    points.push(&entries(x, y)[..count])
}

/// Appends the multipliers of the parts' points, from `point` on, and of lambda times those, from `of_lambda` on.
fn append_multiples(parts: &[Part], point: Term, of_lambda: Option<Term>, multiples: &mut Vec<Multiple>) {
    for (at, part) in parts.iter().enumerate() {
        match part.multiplier {
            Multiplier::Short(coefficient, negative) => {
                multiples.push(Multiple { point: point.plus(at).negative_where(negative), bits: coefficient.bits() });
            }
            Multiplier::Full(scalar) => {
                let [bits, bits_of_lambda] = short_bits::<BITS>(scalar);
                let of_lambda = of_lambda.expect("parts with full multipliers come first");
                multiples.push(Multiple { point: point.plus(at), bits });
                multiples.push(Multiple { point: of_lambda.plus(at), bits: bits_of_lambda });
            }
        }
    }
}
