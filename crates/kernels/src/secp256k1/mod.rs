//! Statements about points of the curve secp256k1, proven many at a time in vector lanes.
//!
//! Input: a [`Claim`] for each signature. Output: whether the claim is proven. "Not proven" does not mean false: the
//! claim may be false, the lanes may have met an exception of their formulas, or the claim may have an unsupported
//! form. Callers that need the answer use a complete implementation. So nothing here can reject a valid signature; the
//! code only has to ensure that it never proves a false claim.
//!
//! Every claim reduces to one question: do x and, if required, y of `u1 G + u2 P` have the claimed values? The lanes of
//! a vector take the same steps through the ladder together:
//!
//! - `reference`: numbers modulo the prime and the order, one at a time, and the reference implementation of
//!   everything; `divsteps`: their inverses.
//! - `vector`: the interface that the code below needs of a processor; `avx512`, `avx2`, `neon` and `portable`
//!   implement it.
//! - `crate::doubles`: products of 52 bits for processors without instructions for them.
//! - `field`, `products`, `words`, `power`: the field in lanes. `point`: doubling and adding. `inversions`: many
//!   inverses by one inversion, and sums of points with z = 1. `scalars`: quotients modulo the order. `digits`:
//!   scalars, split into odd digits.
//! - `tables`: the generator's multiples. `questions`: from claims to sums. `ladder`: both multiples. `batch`: which
//!   claims are proven.
//! - `repeats`: finds repeated keys. `combs`: claims about those, by tables of each key.
//! - `kept`: memory reused from one call to the next.
//!
//! Schnorr signatures, tweaks, and ECDSA signatures whose R has a known parity can instead be proven by one sum for all of them ([`Lanes::prove_together`]):
//!
//! - `together`: from claims to multiples of points, with random coefficients. `buckets`: whether their sum is zero.
//!   `pairs`: sums of two points, a list of them at a time.
//!
//! Coordinates of points are returned by [`Lanes::sum_keys`] and [`Lanes::multiply`]: `multiples`.
//!
//! Absent on purpose: constant time (nothing here is secret), signing, hashing, encodings, and the purpose of a claim.

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
#[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
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
use batch::Found;
pub use multiples::CurvePoint;
#[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
use portable::Portable;
use std::fmt;
use vector::Vector;

/// The known part of a point's y coordinate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Y {
    /// The even one of the two possible values.
    Even,
    /// The odd one of the two possible values.
    Odd,
    /// This value, 32 bytes, big endian. It is verified, not trusted.
    Given([u8; 32]),
}

/// A statement about points of the curve that may be true. All numbers have 32 bytes, big endian, and any value.
///
/// In every variant, claims with a message, challenge, second scalar or tweak of zero are never proven separately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// An ECDSA signature is valid. Never proven: `s` above half the order, or an `r` for an x that is at least the
    /// order. Source: SEC 1, 4.1.4.
    Ecdsa {
        /// The key's x.
        x: [u8; 32],
        /// The key's y.
        y: Y,
        /// The signature's first number.
        r: [u8; 32],
        /// The signature's second number.
        s: [u8; 32],
        /// The signed hash; reduced modulo the order here.
        message: [u8; 32],
    },
    /// An ECDSA signature is valid, and the point R that it was made with has this parity: a stronger claim, which one
    /// sum proves together with others. Never proven: as above.
    EcdsaWithParity {
        /// The key's x.
        x: [u8; 32],
        /// The key's y; with [`Y::Given`] the claim is never proven together.
        y: Y,
        /// The signature's first number.
        r: [u8; 32],
        /// The signature's second number.
        s: [u8; 32],
        /// The signed hash; reduced modulo the order here.
        message: [u8; 32],
        /// Whether R's y is odd.
        odd: bool,
    },
    /// A Schnorr signature is valid; the challenge is already hashed. Source: BIP-0340.
    Schnorr {
        /// The key's x; its y is even.
        x: [u8; 32],
        /// The signature's first half.
        r: [u8; 32],
        /// The signature's second half.
        s: [u8; 32],
        /// The hash of `r`, `x` and the message; reduced modulo the order here.
        challenge: [u8; 32],
    },
    /// A point with even y, plus `tweak` times the generator, is a given other point. Source: BIP-0341.
    Tweak {
        /// The point's x.
        x: [u8; 32],
        /// The tweak.
        tweak: [u8; 32],
        /// The sum's x.
        sum: [u8; 32],
        /// Whether the sum's y is odd.
        odd: bool,
    },
}

/// Lanes of this processor: a value proves that it has them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lanes(Kind);

/// Kinds of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
    Portable,
    #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxIfma,
    #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
    AvxIfmaOfAvx512,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Lanes {
    /// All lanes that this processor has, the fastest last. With the feature `testing` the first are portable, slower
    /// than a complete implementation: for tests.
    #[must_use]
    pub fn available() -> Vec<Lanes> {
        #[allow(unused_mut, reason = "other processors have no more")]
        let mut kinds = Vec::new();
        #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
        kinds.push(Kind::Portable);
        #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
        kinds.extend(neon::Neon::detect().map(|_| Kind::Neon));
        #[cfg(target_arch = "x86_64")]
        {
            kinds.extend(avx2::Avx2::detect().map(|_| Kind::Avx2));
            let ifma = avx2::AvxIfma::detect().map(|_| Kind::AvxIfma);
            #[cfg(any(test, feature = "ablation"))]
            let ifma = ifma.or_else(|| avx2::AvxIfmaOfAvx512::detect().map(|_| Kind::AvxIfmaOfAvx512));
            kinds.extend(ifma);
            kinds.extend(avx512::Avx512::detect().map(|_| Kind::Avx512));
        }
        kinds.into_iter().map(Lanes).collect()
    }

    /// The fastest lanes of this processor that are allowed by `cpu` and faster than checking signatures in sequence.
    pub(crate) fn best(cpu: Cpu) -> Option<Lanes> {
        let pays = |lanes: &Lanes| match lanes.cpu() {
            Cpu::Plain => false,
            // Not measured, so used only on request.
            Cpu::Neon => cpu == Cpu::Neon,
            kind => cpu.allows(kind),
        };
        Lanes::available().into_iter().rfind(pays)
    }

    /// The kind of processors that have these lanes.
    #[must_use]
    pub fn cpu(self) -> Cpu {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => Cpu::Plain,
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => Cpu::Neon,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => Cpu::Avx2,
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => Cpu::AvxIfma,
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => Cpu::AvxIfma,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => Cpu::Avx512,
        }
    }

    /// The name of the lanes' instructions.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => "two portable lanes",
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => "NEON",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "AVX2 and FMA",
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => "AVX-IFMA",
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => "AVX-IFMA in AVX-512's encoding",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "AVX-512 IFMA",
        }
    }

    /// Number of claims in one pass of the ladder; fewer take as long.
    #[must_use]
    pub fn width(self) -> usize {
        point::WAYS
            * match self.0 {
                #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
                Kind::Portable => Portable::LANES,
                #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
                Kind::Neon => neon::Neon::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::Avx2 => avx2::Avx2::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::AvxIfma => avx2::AvxIfma::LANES,
                #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
                Kind::AvxIfmaOfAvx512 => avx2::AvxIfmaOfAvx512::LANES,
                #[cfg(target_arch = "x86_64")]
                Kind::Avx512 => avx512::Avx512::LANES,
            }
    }

    /// Which of the claims are proven, in order. A single one takes as long as [`Lanes::width`] of them. Adjacent ECDSA
    /// claims that differ only in their keys take little longer than one claim.
    #[must_use]
    pub fn prove(self, claims: &[Claim]) -> Vec<bool> {
        let mut proven = vec![false; claims.len()];
        self.find(claims, Found { proven: &mut proven, odd: None });
        proven
    }

    /// [`Lanes::prove`], which also finds for each proven ECDSA signature whether the y of the point R that it was made
    /// with is odd. The values for other claims mean nothing.
    ///
    /// # Panics
    ///
    /// If there are not as many values as claims.
    #[must_use]
    pub fn prove_and_find(self, claims: &[Claim], odd: &mut [bool]) -> Vec<bool> {
        assert_eq!(claims.len(), odd.len(), "one for each claim");
        let mut proven = vec![false; claims.len()];
        self.find(claims, Found { proven: &mut proven, odd: Some(odd) });
        proven
    }

    fn find(self, claims: &[Claim], found: Found<'_>) {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => prove_in::<Portable>(claims, found),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => prove_in::<neon::Neon>(claims, found),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => prove_in::<avx2::Avx2>(claims, found),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => prove_in::<avx2::AvxIfma>(claims, found),
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => prove_in::<avx2::AvxIfmaOfAvx512>(claims, found),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => prove_in::<avx512::Avx512>(claims, found),
        }
    }

    /// Minimum number of claims for which [`Lanes::prove_together`] takes less time than [`Lanes::prove`]: measured
    /// with AVX-512 (1.1 times as fast with 128 claims, 0.9 times with 64) and AVX2 (1.1 times with 64).
    #[must_use]
    pub fn together_min(self) -> usize {
        if self.width() >= 16 { 96 } else { 64 }
    }

    /// Whether all of the claims are proven, at once. False means nothing for any single claim, not even that one of
    /// them is false. [`Claim::Ecdsa`] is never proven.
    ///
    /// A false claim is proven with a probability of 2^-128, if `secret` is random and unknown to the makers of the
    /// claims. It may be the same for many calls: it is hashed with the claims. With some hundred claims, a claim takes
    /// about half of its time in [`Lanes::prove`].
    #[must_use]
    pub fn prove_together(self, claims: &[Claim], secret: &[u8; 32]) -> bool {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => prove_together_in::<Portable>(claims, secret),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => prove_together_in::<neon::Neon>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => prove_together_in::<avx2::Avx2>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => prove_together_in::<avx2::AvxIfma>(claims, secret),
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => prove_together_in::<avx2::AvxIfmaOfAvx512>(claims, secret),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => prove_together_in::<avx512::Avx512>(claims, secret),
        }
    }

    /// The sum of each group of compressed keys. `counts` has the number of keys of each group; the groups are
    /// consecutive.
    ///
    /// `None` means unknown: a key may not be a point, a group may be empty, points may have been opposite on the way,
    /// or the sum may be infinity. A returned sum is correct.
    ///
    /// # Panics
    ///
    /// If the counts do not sum to the number of keys.
    #[must_use]
    pub fn sum_keys(self, keys: &[[u8; 33]], counts: &[usize]) -> Vec<Option<CurvePoint>> {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => multiples::sum_keys(detected::<Portable>(), keys, counts),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => multiples::sum_keys(detected::<neon::Neon>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => multiples::sum_keys(detected::<avx2::Avx2>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => multiples::sum_keys(detected::<avx2::AvxIfma>(), keys, counts),
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => multiples::sum_keys(detected::<avx2::AvxIfmaOfAvx512>(), keys, counts),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => multiples::sum_keys(detected::<avx512::Avx512>(), keys, counts),
        }
    }

    /// Each point times a number of 32 bytes, big endian.
    ///
    /// `None` if the number is zero, or not below the order, or if the lanes met an exception: then the result is
    /// unknown. A returned point is correct.
    #[must_use]
    pub fn multiply(self, factors: &[(CurvePoint, [u8; 32])]) -> Vec<Option<CurvePoint>> {
        match self.0 {
            #[cfg(any(test, feature = "testing", not(target_arch = "x86_64")))]
            Kind::Portable => multiples::multiply(detected::<Portable>(), factors),
            #[cfg(all(target_arch = "aarch64", feature = "unproven"))]
            Kind::Neon => multiples::multiply(detected::<neon::Neon>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => multiples::multiply(detected::<avx2::Avx2>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::AvxIfma => multiples::multiply(detected::<avx2::AvxIfma>(), factors),
            #[cfg(all(target_arch = "x86_64", any(test, feature = "ablation")))]
            Kind::AvxIfmaOfAvx512 => multiples::multiply(detected::<avx2::AvxIfmaOfAvx512>(), factors),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => multiples::multiply(detected::<avx512::Avx512>(), factors),
        }
    }
}

/// A vector of a kind for which a value of [`Lanes`] exists.
fn detected<V: Vector>() -> V {
    V::detect().expect("a value of Lanes is made only where they were detected")
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn prove_in<V: Vector>(claims: &[Claim], found: Found<'_>) {
    batch::prove(detected::<V>(), claims, found);
}

fn prove_together_in<V: Vector>(claims: &[Claim], secret: &[u8; 32]) -> bool {
    together::all_hold(detected::<V>(), claims, secret)
}
