//! Statements about points of the curve secp256k1, proven many at a time in vector lanes.
//!
//! In: a [`Claim`] for each signature. Out: whether it is proven. "Not proven" is no answer: the claim may be false, or
//! the lanes met a case that their formulas leave out, or it has a form that they do not take. Whoever wants to know asks
//! a complete implementation. So nothing here can refuse what is good, and all care goes to one direction.
//!
//! Every claim comes down to one question: are x, and where that counts y, of `u1 G + u2 P` as claimed? Vectors of
//! them take one way through the ladder, lane beside lane, doing the same steps:
//!
//! - `reference`: numbers modulo the prime and the order, one at a time, and the reference implementation of it all;
//!   `divsteps`: their inverses.
//! - `vector`: what all below asks of a processor; `avx512`, `avx2`, `neon` and `portable` give it.
//! - `crate::doubles`: products of 52 bits where the processor has none.
//! - `field`, `products`, `words`, `power`: the field in lanes. `point`: doubling and adding. `inversions`: many numbers by
//!   one inversion, and sums of points with z = 1. `scalars`: quotients modulo the order. `digits`: scalars, cut into odd
//!   digits.
//! - `tables`: the generator's multiples. `questions`: from claims to sums. `ladder`: both multiples. `batch`: which claims
//!   hold.
//! - `repeats`: which keys come again. `combs`: claims about those, by tables of each key.
//! - `kept`: memory from one call to the next.
//!
//! Schnorr signatures and tweaks can be proven by one sum for all of them instead ([`Lanes::prove_together`]):
//!
//! - `together`: from claims to multiples of points, with random coefficients. `buckets`: whether their sum is zero.
//!   `pairs`: sums of two points, a list of them at a time.
//!
//! Points themselves come out of [`Lanes::sum_keys`] and [`Lanes::multiply`]: `multiples`.
//!
//! Absent on purpose: constant time (nothing here is secret), signing, hashing, encodings, and what a claim is for.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod batch;
mod buckets;
mod combs;
mod digits;
mod divsteps;
mod field;
mod inversions;
mod kept;
mod ladder;
mod multiples;
#[cfg(all(target_arch = "aarch64", feature = "unproven"))]
mod neon;
mod pairs;
mod point;
mod portable;
mod power;
mod products;
mod questions;
mod reference;
mod repeats;
mod scalars;
mod tables;
#[cfg(test)]
mod tests;
mod together;
mod vector;
mod words;

use crate::cpu::Cpu;
pub use multiples::CurvePoint;
use portable::Portable;
use std::fmt;
use vector::Vector;

/// A point's y coordinate, as far as it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Y {
    /// The even one of the two.
    Even,
    /// The odd one of the two.
    Odd,
    /// This one, 32 bytes, big endian. It is looked at, not believed.
    Given([u8; 32]),
}

/// Something about points of the curve that may be true. All numbers have 32 bytes, big endian, and any value.
///
/// Never proven by its own, in any of them: a message, challenge, second scalar or tweak of zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// An ECDSA signature holds. Never proven: those with `s` above half the order, nor those with `r` for an x of the order or more.
    /// Source: SEC 1, 4.1.4.
    Ecdsa {
        /// The key's x.
        x: [u8; 32],
        /// The key's y.
        y: Y,
        /// The signature's first number.
        r: [u8; 32],
        /// The signature's second number.
        s: [u8; 32],
        /// What was signed; reduced modulo the order here.
        message: [u8; 32],
    },
    /// A Schnorr signature holds, where the challenge was hashed already. Source: BIP-0340.
    Schnorr {
        /// The key's x; its y is even.
        x: [u8; 32],
        /// The signature's first half.
        r: [u8; 32],
        /// The signature's second half.
        s: [u8; 32],
        /// The hash of `r`, `x` and what was signed; reduced modulo the order here.
        challenge: [u8; 32],
    },
    /// A point with even y plus `tweak` times the generator is another point. Source: BIP-0341.
    Tweak {
        /// The point's x.
        x: [u8; 32],
        /// What is added.
        tweak: [u8; 32],
        /// The sum's x.
        sum: [u8; 32],
        /// Whether the sum's y is odd.
        odd: bool,
    },
}

/// Lanes of this processor: a value is the proof that it has them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lanes(Kind);

/// Kinds of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Portable,
    #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxIfma,
    #[cfg(target_arch = "x86_64")]
    AvxIfmaOfAvx512,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Lanes {
    /// All that this processor has, the fastest last. The first are made of ordinary instructions, slower than a complete
    /// implementation: to test with.
    #[must_use]
    pub fn available() -> Vec<Lanes> {
        #[allow(unused_mut, reason = "other processors have no more")]
        let mut kinds = vec![Kind::Portable];
        #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
        kinds.extend(neon::Neon::detect().map(|_| Kind::Neon));
        #[cfg(target_arch = "x86_64")]
        {
            kinds.extend(avx2::Avx2::detect().map(|_| Kind::Avx2));
            let own = avx2::AvxIfma::detect().map(|_| Kind::AvxIfma);
            kinds.extend(own.or_else(|| avx2::AvxIfmaOfAvx512::detect().map(|_| Kind::AvxIfmaOfAvx512)));
            kinds.extend(avx512::Avx512::detect().map(|_| Kind::Avx512));
        }
        kinds.into_iter().map(Lanes).collect()
    }

    /// The fastest lanes that this processor has, where `cpu` was chosen and they are faster than one signature after the
    /// other.
    pub(crate) fn best(cpu: Cpu) -> Option<Lanes> {
        let pays = |lanes: &Lanes| match lanes.cpu() {
            Cpu::Plain => false,
            // Not measured: only where it is asked for.
            Cpu::Neon => cpu == Cpu::Neon,
            kind => cpu.allows(kind),
        };
        Lanes::available().into_iter().rfind(pays)
    }

    /// The processors that have them.
    #[must_use]
    pub fn cpu(self) -> Cpu {
        match self.0 {
            Kind::Portable => Cpu::Plain,
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => Cpu::Neon,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Cpu::Avx2,
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma | Kind::AvxIfmaOfAvx512 => Cpu::AvxIfma,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Cpu::Avx512,
        }
    }

    /// What they are made of.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "two portable lanes",
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => "NEON",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2 and FMA",
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => "AVX-IFMA",
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfmaOfAvx512 => "AVX-IFMA in AVX-512's encoding",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512 IFMA",
        }
    }

    /// Claims that one way through the ladder takes; fewer take as long.
    #[must_use]
    pub fn width(self) -> usize {
        point::WAYS
            * match self.0 {
                Kind::Portable => Portable::LANES,
                #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
                Kind::Neon => neon::Neon::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => avx2::Avx2::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::AvxIfma | Kind::AvxIfmaOfAvx512 => avx2::AvxIfma::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => avx512::Avx512::LANES,
            }
    }

    /// Which of the claims are proven, in order. One takes as long as [`Lanes::width`]. Claims of ECDSA that stand side by side
    /// and differ in their keys alone take little longer than one of them.
    #[must_use]
    pub fn prove(self, claims: &[Claim]) -> Vec<bool> {
        match self.0 {
            Kind::Portable => prove_in::<Portable>(claims),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => prove_in::<neon::Neon>(claims),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => prove_in::<avx2::Avx2>(claims),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => prove_in::<avx2::AvxIfma>(claims),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfmaOfAvx512 => prove_in::<avx2::AvxIfmaOfAvx512>(claims),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => prove_in::<avx512::Avx512>(claims),
        }
    }

    /// The fewest claims for which [`Lanes::prove_together`] takes less time than [`Lanes::prove`]: measured with AVX-512
    /// (1.1 times as fast with 128 claims, 0.9 times with 64) and AVX2 (1.1 times with 64).
    #[must_use]
    pub fn together_min(self) -> usize {
        if self.width() >= 16 { 96 } else { 64 }
    }

    /// Whether all of the claims are proven, at once; false says nothing of any of them, nor that one is false. ECDSA is
    /// never proven.
    ///
    /// What is false is proven with a chance of 2^-128, if `secret` is random and unknown to whoever made the claims. It
    /// may be the same for many calls: it is hashed with the claims.
    /// As long as there are some hundred claims, a claim takes about half of what it takes in [`Lanes::prove`].
    #[must_use]
    pub fn prove_together(self, claims: &[Claim], secret: &[u8; 32]) -> bool {
        match self.0 {
            Kind::Portable => prove_together_in::<Portable>(claims, secret),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => prove_together_in::<neon::Neon>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => prove_together_in::<avx2::Avx2>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => prove_together_in::<avx2::AvxIfma>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfmaOfAvx512 => prove_together_in::<avx2::AvxIfmaOfAvx512>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => prove_together_in::<avx512::Avx512>(claims, secret),
        }
    }

    /// The sum of each group of compressed keys. `counts` has the numbers of keys of the groups, one group behind the other.
    ///
    /// `None` says nothing: a key may be no point, or a group empty, or points may have been opposite on the way, or their
    /// sum may be infinity. A sum that is given is right.
    ///
    /// # Panics
    ///
    /// Where the counts do not sum to the number of keys.
    #[must_use]
    pub fn sum_keys(self, keys: &[[u8; 33]], counts: &[usize]) -> Vec<Option<CurvePoint>> {
        match self.0 {
            Kind::Portable => multiples::sum_keys(detected::<Portable>(), keys, counts),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => multiples::sum_keys(detected::<neon::Neon>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => multiples::sum_keys(detected::<avx2::Avx2>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => multiples::sum_keys(detected::<avx2::AvxIfma>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfmaOfAvx512 => multiples::sum_keys(detected::<avx2::AvxIfmaOfAvx512>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => multiples::sum_keys(detected::<avx512::Avx512>(), keys, counts),
        }
    }

    /// Each point times a number of 32 bytes, the highest first.
    ///
    /// `None` where the number is zero, or not below the order, or where the lanes met an exception, which says nothing. A
    /// point that is given is right.
    #[must_use]
    pub fn multiply(self, factors: &[(CurvePoint, [u8; 32])]) -> Vec<Option<CurvePoint>> {
        match self.0 {
            Kind::Portable => multiples::multiply(detected::<Portable>(), factors),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => multiples::multiply(detected::<neon::Neon>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => multiples::multiply(detected::<avx2::Avx2>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => multiples::multiply(detected::<avx2::AvxIfma>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfmaOfAvx512 => multiples::multiply(detected::<avx2::AvxIfmaOfAvx512>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => multiples::multiply(detected::<avx512::Avx512>(), factors),
        }
    }
}

/// Vectors of a kind that a value of [`Lanes`] has.
fn detected<V: Vector>() -> V {
    V::detect().expect("a value of Lanes is made only where they were detected")
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn prove_in<V: Vector>(claims: &[Claim]) -> Vec<bool> {
    batch::prove(detected::<V>(), claims)
}

fn prove_together_in<V: Vector>(claims: &[Claim], secret: &[u8; 32]) -> bool {
    together::all_hold(detected::<V>(), claims, secret)
}
