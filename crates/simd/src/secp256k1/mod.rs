//! Statements about points of the curve secp256k1, proven many at a time in vector lanes (AVX-512 F and IFMA).
//!
//! In: a [`Claim`] for each signature. Out: whether it is proven. "Not proven" is no answer: the claim may be false, or
//! the lanes met a case that their formulas leave out, or it has a form that they do not take. Whoever wants to know asks
//! a complete implementation. So nothing here can refuse what is good, and all care goes to one direction.
//!
//! Every claim comes down to one question: are x, and where that counts y's parity, of `u1 G + u2 P` as claimed? Sixteen
//! of them take one way through the ladder, lane beside lane, doing the same steps:
//!
//! - `reference`: numbers modulo the prime and the order, one at a time, and the reference implementation of it all.
//! - `field`, `power`: the field in lanes. `point`: doubling and adding. `digits`: scalars, cut into odd digits.
//! - `tables`: the generator's multiples. `ladder`: the sum. `batch`: from claims to questions and back.
//!
//! Absent on purpose: constant time (nothing here is secret), signing, hashing, encodings, and what a claim is for.

#[cfg(target_arch = "x86_64")]
mod batch;
#[cfg(target_arch = "x86_64")]
mod digits;
#[cfg(target_arch = "x86_64")]
mod field;
#[cfg(target_arch = "x86_64")]
mod ladder;
#[cfg(target_arch = "x86_64")]
mod point;
#[cfg(target_arch = "x86_64")]
mod power;
#[cfg(target_arch = "x86_64")]
mod reference;
#[cfg(target_arch = "x86_64")]
mod tables;
#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests;

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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// An ECDSA signature holds. Never proven: those with `s` above half the order.
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

/// The lanes of this processor: a value is the proof that it has them.
#[derive(Clone, Copy, Debug)]
pub struct Lanes(());

impl Lanes {
    /// The lanes, where the processor has AVX-512 F and IFMA.
    #[must_use]
    pub fn detect() -> Option<Lanes> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma") {
            return Some(Lanes(()));
        }
        None
    }

    /// Which of the claims are proven, in order. One takes as long as sixteen.
    #[must_use]
    pub fn prove(self, claims: &[Claim]) -> Vec<bool> {
        #[cfg(target_arch = "x86_64")]
        return batch::prove(self, claims);
        #[cfg(not(target_arch = "x86_64"))]
        vec![false; claims.len()]
    }
}
