//! Products of numbers modulo 2^3072 - 1103717, and the numbers that keys stand for: the arithmetic of MuHash3072.
//!
//! A key of 32 bytes stands for the first 384 bytes of its ChaCha20 stream, little endian. [`Accumulator`] multiplies them,
//! sixteen keys at a time where the processor has AVX-512 IFMA: key streams in sixteen lanes, products in eight, each lane
//! an accumulator of its own.
//!
//! Absent on purpose: what is hashed to a key. Source: Bitcoin Core b88bffe, crypto/muhash.cpp.

#[cfg(target_arch = "x86_64")]
mod lanes;
mod reference;

#[cfg(target_arch = "x86_64")]
use crate::cpu::{self, Cpu};

/// Limbs of 64 bits, the lowest first.
pub const LIMBS: usize = 48;
/// A number below 2^3072; the same number modulo the prime may have two forms.
pub type Number = [u64; LIMBS];
/// The modulus is 2^3072 minus this.
pub const PRIME_DIFF: u64 = 1_103_717;
/// The number one.
pub const ONE: Number = {
    let mut one = [0; LIMBS];
    one[0] = 1;
    one
};
/// Keys that are worked on at once.
pub const KEYS_AT_ONCE: usize = 16;

/// The number that a key stands for.
#[must_use]
pub fn number(key: &[u8; 32]) -> Number {
    reference::number(key)
}

/// The product modulo the prime.
#[must_use]
pub fn multiply(a: &Number, b: &Number) -> Number {
    reference::multiply(a, b)
}

/// The form of a number that is below the prime.
#[must_use]
pub fn reduce(number: &Number) -> Number {
    reference::reduce(number)
}

/// The number whose product with this one is one; of zero it is zero.
#[must_use]
pub fn inverse(number: &Number) -> Number {
    reference::inverse(number)
}

/// The product of many numbers, given by their keys.
#[derive(Clone, Debug)]
pub struct Accumulator {
    kind: Kind,
    waiting: [[u8; 32]; KEYS_AT_ONCE],
    count: usize,
}

#[derive(Clone, Debug)]
enum Kind {
    Reference(Box<Number>),
    #[cfg(target_arch = "x86_64")]
    Lanes(Box<lanes::Accumulators>),
}

impl Default for Accumulator {
    fn default() -> Accumulator {
        Accumulator::new()
    }
}

impl Accumulator {
    /// The product of no numbers: by lanes where the processor has them.
    #[must_use]
    pub fn new() -> Accumulator {
        #[cfg(target_arch = "x86_64")]
        if let Some(lanes) = lanes::Accumulators::detect().filter(|_| cpu::chosen().allows(Cpu::Avx512)) {
            return Accumulator::of(Kind::Lanes(Box::new(lanes)));
        }
        Accumulator::reference()
    }

    /// The same, by the plain implementation.
    #[must_use]
    pub fn reference() -> Accumulator {
        Accumulator::of(Kind::Reference(Box::new(ONE)))
    }

    fn of(kind: Kind) -> Accumulator {
        Accumulator { kind, waiting: [[0; 32]; KEYS_AT_ONCE], count: 0 }
    }

    /// Whether vector lanes do the work.
    #[must_use]
    pub fn has_lanes(&self) -> bool {
        !matches!(self.kind, Kind::Reference(_))
    }

    /// Multiplies by the number of a key; it may wait for others.
    #[inline]
    pub fn push(&mut self, key: &[u8; 32]) {
        self.waiting[self.count] = *key;
        self.count += 1;
        if self.count == KEYS_AT_ONCE {
            self.work_off();
        }
    }

    fn work_off(&mut self) {
        match &mut self.kind {
            Kind::Reference(product) => {
                **product = reference::multiply(product, &reference::product(&self.waiting[..self.count]));
            }
            #[cfg(target_arch = "x86_64")]
            Kind::Lanes(lanes) => lanes.multiply(&self.waiting, self.count),
        }
        self.count = 0;
    }

    /// The product of all.
    #[must_use]
    pub fn finish(mut self) -> Number {
        if self.count > 0 {
            self.work_off();
        }
        match self.kind {
            Kind::Reference(product) => *product,
            #[cfg(target_arch = "x86_64")]
            Kind::Lanes(lanes) => lanes.product(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn lanes_multiply_as_the_reference() {
        let mut rng = Rng::new(3072);
        for count in [0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 100] {
            let (mut fast, mut plain) = (Accumulator::new(), Accumulator::reference());
            for _ in 0..count {
                let key = rng.array();
                fast.push(&key);
                plain.push(&key);
            }
            assert_eq!(reduce(&fast.finish()), reduce(&plain.finish()), "{count} keys");
        }
    }

    /// Limbs of ones and zeros: every carry that there is.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn lanes_carry_as_the_reference() {
        if lanes::Accumulators::detect().is_none() {
            println!("skipped: no AVX-512 IFMA");
            return;
        }
        let mut rng = Rng::new(52);
        for _ in 0..60 {
            let mut lanes = lanes::Accumulators::detect().unwrap();
            let mut want = ONE;
            for _ in 0..4 {
                let numbers: [Number; 8] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| match rng.below(4) {
                        0 => 0,
                        1 => u64::MAX - rng.u64() % 3,
                        2 => rng.u64() % 3,
                        _ => u64::MAX,
                    })
                });
                lanes.multiply_numbers(&numbers);
                numbers.iter().for_each(|number| want = multiply(&want, number));
            }
            assert_eq!(reduce(&lanes.product()), reduce(&want));
        }
        let mut lanes = lanes::Accumulators::detect().unwrap();
        let mut want = ONE;
        for _ in 0..5 {
            lanes.multiply_numbers(&[[u64::MAX; LIMBS]; 8]);
            (0..8).for_each(|_| want = multiply(&want, &[u64::MAX; LIMBS]));
        }
        assert_eq!(reduce(&lanes.product()), reduce(&want), "the greatest numbers");
    }

    #[test]
    fn inverse_times_number_is_one() {
        let mut rng = Rng::new(7);
        for _ in 0..3 {
            let number = number(&rng.array());
            assert_eq!(reduce(&multiply(&number, &inverse(&number))), ONE);
        }
        assert_eq!(reduce(&inverse(&ONE)), ONE);
    }

    /// Sums that carry past the top limb come back at the bottom.
    #[test]
    fn product_of_greatest_numbers_is_reduced() {
        let top = [u64::MAX; LIMBS]; // PRIME_DIFF - 1 modulo the prime.
        let mut small = [0; LIMBS];
        small[0] = PRIME_DIFF - 1;
        assert_eq!(reduce(&multiply(&top, &top)), reduce(&multiply(&small, &small)));
        assert_eq!(reduce(&top), small);
    }
}
