//! Numbers modulo the prime 2^256 - 189, in which sums are computed.
//!
//! The modulus is prime, so that every non-zero multiplicity of a coin has an inverse: see docs/audit.md.

/// 2^256 modulo the prime.
const FOLD: u64 = 189;
/// The prime, lowest limb first.
const PRIME: [u64; 4] = [u64::MAX - (FOLD - 1), u64::MAX, u64::MAX, u64::MAX];

/// A number below the prime, lowest limb first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Number([u64; 4]);

impl Number {
    pub(crate) const ZERO: Number = Number([0; 4]);
    pub(crate) const ONE: Number = Number([1, 0, 0, 0]);

    /// The number of 32 bytes, little endian, modulo the prime.
    pub(crate) fn from_hash(bytes: &[u8; 32]) -> Number {
        Number(limbs(bytes)).reduced()
    }

    /// A number of 64 bits.
    #[cfg(test)]
    pub(crate) const fn from_u64(n: u64) -> Number {
        Number([n, 0, 0, 0])
    }

    /// Parses 64 hexadecimal digits, highest first; `None` for other texts, and for numbers not below the prime.
    pub(crate) fn from_hex(text: &str) -> Option<Number> {
        let mut bytes: [u8; 32] = primitives::hex::decode(text)?.try_into().ok()?;
        bytes.reverse();
        let number = Number(limbs(&bytes));
        (!number.is_above()).then_some(number)
    }

    /// The number in the form that [`Number::from_hex`] reads.
    pub(crate) fn to_hex(self) -> String {
        let bytes: Vec<u8> = self.0.iter().rev().flat_map(|limb| limb.to_be_bytes()).collect();
        primitives::hex::encode(&bytes)
    }

    pub(crate) fn is_zero(self) -> bool {
        self == Number::ZERO
    }

    fn is_above(self) -> bool {
        self.0.iter().rev().ge(PRIME.iter().rev())
    }

    /// Any number of 256 bits is below twice the prime.
    fn reduced(self) -> Number {
        if !self.is_above() {
            return self;
        }
        // Subtracting the prime equals adding 189 and dropping 2^256.
        Number(plus(self.0, FOLD).0)
    }

    pub(crate) fn plus(self, other: Number) -> Number {
        let mut sum = [0; 4];
        let mut carry = false;
        for (at, limb) in sum.iter_mut().enumerate() {
            let (part, first) = self.0[at].overflowing_add(other.0[at]);
            let (all, second) = part.overflowing_add(u64::from(carry));
            (*limb, carry) = (all, first || second);
        }
        if carry {
            // Both are below the prime, so the result is too.
            sum = plus(sum, FOLD).0;
        }
        Number(sum).reduced()
    }

    pub(crate) fn negated(self) -> Number {
        if self.is_zero() {
            return self;
        }
        let mut rest = [0; 4];
        let mut borrow = false;
        for (at, limb) in rest.iter_mut().enumerate() {
            let (part, first) = PRIME[at].overflowing_sub(self.0[at]);
            let (all, second) = part.overflowing_sub(u64::from(borrow));
            (*limb, borrow) = (all, first || second);
        }
        Number(rest)
    }

    pub(crate) fn minus(self, other: Number) -> Number {
        self.plus(other.negated())
    }

    /// Times a small number.
    #[inline]
    pub(crate) fn times_u32(self, factor: u32) -> Number {
        let mut out = [0; 4];
        let mut carry = 0u64;
        for (limb, from) in out.iter_mut().zip(self.0) {
            let wide = u128::from(from) * u128::from(factor) + u128::from(carry);
            (*limb, carry) = (wide as u64, (wide >> 64) as u64);
        }
        // The carry is below 2^32.
        let (out, again) = plus(out, carry * FOLD);
        let out = if again { plus(out, FOLD).0 } else { out };
        Number(out).reduced()
    }

    pub(crate) fn times(self, other: Number) -> Number {
        let mut wide = [0u64; 8];
        for (at, from) in self.0.into_iter().enumerate() {
            let mut carry = 0;
            for (to, by) in other.0.into_iter().enumerate() {
                let sum = u128::from(from) * u128::from(by) + u128::from(wide[at + to]) + u128::from(carry);
                (wide[at + to], carry) = (sum as u64, (sum >> 64) as u64);
            }
            wide[at + 4] = carry;
        }
        let mut out = [0; 4];
        let mut carry = 0u64;
        for (at, limb) in out.iter_mut().enumerate() {
            let sum = u128::from(wide[at + 4]) * u128::from(FOLD) + u128::from(wide[at]) + u128::from(carry);
            (*limb, carry) = (sum as u64, (sum >> 64) as u64);
        }
        let (out, again) = plus(out, carry * FOLD);
        let out = if again { plus(out, FOLD).0 } else { out };
        Number(out).reduced()
    }

    /// The multiplicative inverse; zero for zero.
    pub(crate) fn inverse(self) -> Number {
        // Fermat: to the power of the prime less two.
        let exponent = [PRIME[0] - 2, PRIME[1], PRIME[2], PRIME[3]];
        let mut out = Number::ONE;
        for bit in (0..256).rev() {
            out = out.times(out);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                out = out.times(self);
            }
        }
        out
    }
}

fn limbs(bytes: &[u8; 32]) -> [u64; 4] {
    std::array::from_fn(|at| u64::from_le_bytes(*bytes[at * 8..].first_chunk().expect("eight bytes")))
}

/// The sum, and whether it is 2^256 or more.
fn plus(number: [u64; 4], small: u64) -> ([u64; 4], bool) {
    let mut out = number;
    let mut carry = small;
    for limb in &mut out {
        let (sum, over) = limb.overflowing_add(carry);
        (*limb, carry) = (sum, u64::from(over));
    }
    (out, carry > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(rng: &mut testkit::Rng) -> Number {
        let edge = [0, 1, 188, 189, u64::MAX - 189, u64::MAX - 188, u64::MAX];
        let limb = |rng: &mut testkit::Rng| if rng.one_in(3) { edge[rng.below(edge.len())] } else { rng.u64() };
        Number(std::array::from_fn(|_| limb(rng))).reduced()
    }

    /// By adding and doubling alone.
    fn plain_times(a: Number, b: Number) -> Number {
        let mut out = Number::ZERO;
        for bit in (0..256).rev() {
            out = out.plus(out);
            if b.0[bit / 64] >> (bit % 64) & 1 == 1 {
                out = out.plus(a);
            }
        }
        out
    }

    #[test]
    fn products_are_those_of_doubling_and_adding() {
        let mut rng = testkit::Rng::new(5);
        for _ in 0..500 {
            let (a, b, c) = (random(&mut rng), random(&mut rng), random(&mut rng));
            let small = rng.u64() as u32;
            assert!(![a, b, a.times(b), a.plus(b), a.negated()].iter().any(|number| number.is_above()));
            assert_eq!(a.times(b), plain_times(a, b), "{a:?} {b:?}");
            assert_eq!(a.times_u32(small), plain_times(a, Number::from_u64(small.into())), "{a:?} {small}");
            assert_eq!(a.plus(b).times(c), a.times(c).plus(b.times(c)));
            assert_eq!(a.plus(b).minus(b), a);
            assert_eq!(a.plus(a.negated()), Number::ZERO);
            assert_eq!(Number::from_hex(&a.to_hex()), Some(a));
        }
        let three = Number::from_u64(3);
        assert_eq!(three.times(three.inverse()), Number::ONE);
        assert_eq!(Number::from_hash(&[0xff; 32]), Number::from_u64(188));
        assert_eq!((Number::from_hex(&"f".repeat(64)), Number::from_hex("00")), (None, None));
    }

    /// Miller and Rabin: the modulus is a prime but for a chance of 4^-24.
    #[test]
    fn modulus_is_prime() {
        // p - 1 = 2 * d with d odd, for p is 3 modulo 4.
        assert_eq!(PRIME[0] % 4, 3);
        let mut rng = testkit::Rng::new(6);
        for _ in 0..24 {
            let base = random(&mut rng).plus(Number::from_u64(2));
            let mut out = Number::ONE;
            for bit in (1..256).rev() {
                out = out.times(out);
                if PRIME[bit / 64] >> (bit % 64) & 1 == 1 {
                    out = out.times(base);
                }
            }
            assert!(base.is_zero() || out == Number::ONE || out == Number::ONE.negated());
        }
    }
}
