//! Products of numbers modulo 2^3072 - 1103717, and the numbers that keys expand to: the arithmetic of MuHash3072.
//!
//! A key of 32 bytes expands to the first 384 bytes of its ChaCha20 stream, little endian. [`Accumulator`] multiplies
//! these numbers, sixteen keys at a time if the processor has AVX-512 IFMA: key streams in sixteen lanes, products in
//! eight, each lane a separate accumulator. With AVX2 and FMA key streams are generated in eight lanes, products in
//! four, with limbs of 52 bits and without Karatsuba's method.
//!
//! Absent on purpose: the hash that makes a key. Source: Bitcoin Core b88bffe, crypto/muhash.cpp.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod karatsuba;
mod reference;

use crate::cpu::Cpu;

/// Limbs of 64 bits, the lowest first.
pub const LIMBS: usize = 48;
/// A number below 2^3072; a residue may have two representations.
pub type Number = [u64; LIMBS];
/// The modulus is 2^3072 minus this.
pub const PRIME_DIFF: u64 = 1_103_717;
/// The number one.
pub const ONE: Number = {
    let mut one = [0; LIMBS];
    one[0] = 1;
    one
};
/// Limbs of 52 bits, for products in lanes.
#[cfg(target_arch = "x86_64")]
const LIMBS52: usize = 60;
/// Bits of the highest limb that are below 2^3072.
#[cfg(target_arch = "x86_64")]
const TOP_BITS: u32 = 4;
#[cfg(target_arch = "x86_64")]
const _: () = assert!(52 * (LIMBS52 - 1) + TOP_BITS as usize == 64 * LIMBS);
/// Keys processed at once.
pub const KEYS_AT_ONCE: usize = 16;

/// The number that a key expands to.
#[must_use]
pub fn number(key: &[u8; 32]) -> Number {
    reference::number(key)
}

/// The product modulo the prime.
#[must_use]
pub fn multiply(a: &Number, b: &Number) -> Number {
    reference::multiply(a, b)
}

/// The number reduced below the prime.
#[must_use]
pub fn reduce(number: &Number) -> Number {
    reference::reduce(number)
}

/// The multiplicative inverse; zero for zero.
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
    Avx2(Box<avx2::Accumulators>),
    #[cfg(target_arch = "x86_64")]
    Avx512(Box<avx512::Accumulators>),
}

/// The kind of processor whose lanes multiply: a kind whose instructions this processor has, or [`Cpu::Plain`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel(Cpu);

impl Kernel {
    /// The fastest kernel if `cpu` was chosen.
    pub(crate) fn best(cpu: Cpu) -> Kernel {
        let has = |kind: &Cpu| cpu.allows(*kind) && Accumulator::with(*kind).is_some();
        Kernel([Cpu::Avx512, Cpu::Avx2].into_iter().find(has).unwrap_or(Cpu::Plain))
    }

    /// The empty product.
    pub(crate) fn accumulator(self) -> Accumulator {
        Accumulator::with(self.0).unwrap_or_else(Accumulator::reference)
    }
}

impl Accumulator {
    /// The empty product, with the lanes of one kind of processor; `None` if this processor lacks the instructions, or
    /// the kind has no such lanes.
    #[must_use]
    pub fn with(kind: Cpu) -> Option<Accumulator> {
        match kind {
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512 => Some(Accumulator::of(Kind::Avx512(Box::new(avx512::Accumulators::detect()?)))),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2 => Some(Accumulator::of(Kind::Avx2(Box::new(avx2::Accumulators::detect()?)))),
            _ => None,
        }
    }

    /// The empty product, with the plain implementation.
    #[must_use]
    pub fn reference() -> Accumulator {
        Accumulator::of(Kind::Reference(Box::new(ONE)))
    }

    fn of(kind: Kind) -> Accumulator {
        Accumulator { kind, waiting: [[0; 32]; KEYS_AT_ONCE], count: 0 }
    }

    /// Whether vector lanes are used.
    #[must_use]
    pub fn has_lanes(&self) -> bool {
        !matches!(self.kind, Kind::Reference(_))
    }

    /// Multiplies by the number of a key; the multiplication may wait for more keys.
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
            Kind::Avx2(lanes) => lanes.multiply(&self.waiting, self.count),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(lanes) => lanes.multiply(&self.waiting, self.count),
        }
        self.count = 0;
    }

    /// The product of all numbers.
    #[must_use]
    pub fn finish(mut self) -> Number {
        if self.count > 0 {
            self.work_off();
        }
        match self.kind {
            Kind::Reference(product) => *product,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2(lanes) => lanes.product(),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512(mut lanes) => lanes.product(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    type Make = fn() -> Accumulator;

    /// Each kind of lanes that this processor has, and the one that is taken.
    fn kinds() -> Vec<(&'static str, Make)> {
        #[allow(unused_mut, reason = "other processors have no more")]
        let mut kinds: Vec<(&'static str, Make)> = vec![("taken", || crate::Kernels::default().muhash())];
        #[cfg(target_arch = "x86_64")]
        for (kind, make) in [
            (Cpu::Avx2, (|| Accumulator::with(Cpu::Avx2).unwrap()) as Make),
            (Cpu::Avx512, || Accumulator::with(Cpu::Avx512).unwrap()),
        ] {
            match Accumulator::with(kind) {
                Some(_) => kinds.push((kind.name(), make)),
                None => println!("skipped: no {}", kind.name()),
            }
        }
        kinds
    }

    #[test]
    fn lanes_multiply_as_the_reference() {
        let mut rng = Rng::new(3072);
        for (row, make) in kinds() {
            for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 33, 100] {
                let (mut fast, mut plain) = (make(), Accumulator::reference());
                for _ in 0..count {
                    let key = rng.array();
                    fast.push(&key);
                    plain.push(&key);
                }
                assert_eq!(reduce(&fast.finish()), reduce(&plain.finish()), "{row}: {count} keys");
            }
        }
    }

    /// Lanes that multiply any numbers.
    #[cfg(target_arch = "x86_64")]
    fn carry_as_the_reference<L, const LANES: usize>(
        detect: fn() -> Option<L>,
        multiply_numbers: fn(&mut L, &[Number; LANES]),
        product: fn(&mut L) -> Number,
    ) {
        if detect().is_none() {
            println!("skipped: no such lanes");
            return;
        }
        let mut rng = Rng::new(52);
        for _ in 0..60 {
            let mut lanes = detect().unwrap();
            let mut want = ONE;
            for _ in 0..4 {
                let numbers: [Number; LANES] = std::array::from_fn(|_| {
                    std::array::from_fn(|_| match rng.below(4) {
                        0 => 0,
                        1 => u64::MAX - rng.u64() % 3,
                        2 => rng.u64() % 3,
                        _ => u64::MAX,
                    })
                });
                multiply_numbers(&mut lanes, &numbers);
                numbers.iter().for_each(|number| want = multiply(&want, number));
            }
            assert_eq!(reduce(&product(&mut lanes)), reduce(&want));
        }
        let mut lanes = detect().unwrap();
        let mut want = ONE;
        for _ in 0..5 {
            multiply_numbers(&mut lanes, &[[u64::MAX; LIMBS]; LANES]);
            (0..LANES).for_each(|_| want = multiply(&want, &[u64::MAX; LIMBS]));
        }
        assert_eq!(reduce(&product(&mut lanes)), reduce(&want), "the greatest numbers");
    }

    /// Limbs of ones and zeros: every carry that there is.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn lanes_carry_as_the_reference() {
        carry_as_the_reference(
            avx512::Accumulators::detect,
            avx512::Accumulators::multiply_numbers,
            avx512::Accumulators::product,
        );
        carry_as_the_reference(avx2::Accumulators::detect, avx2::Accumulators::multiply_numbers, |lanes| {
            lanes.product()
        });
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
