//! Random numbers for tests: SplitMix64 (Steele, Lea, Flood 2014), reproducible from a seed on every machine.
//!
//! A failing test prints its seed, which suffices to reproduce the failure. Absent on purpose: secrets, floats.

/// A generator. The field is its state, initially the seed.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next 32 bits.
    pub fn u32(&mut self) -> u32 {
        (self.u64() >> 32) as u32
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        (self.u64() >> 56) as u8
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.u64() % bound as u64).expect("below a usize")
    }

    /// True with a probability of one in `count`.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// A random one of `items`, which must not be empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// `count` random bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }

    /// An array of random bytes.
    pub fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: the first outputs of Java's `SplittableRandom`-style reference, seed 1234567
    /// (<https://prng.di.unimi.it/splitmix64.c>, as quoted by Rosetta Code).
    #[test]
    fn u64_gives_the_reference_sequence() {
        let mut rng = Rng::new(1_234_567);
        let want = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(want.map(|_| rng.u64()), want);
    }

    #[test]
    fn fill_of_any_length_agrees_with_u64() {
        for count in 0..20 {
            let bytes = Rng::new(7).bytes(count);
            let mut rng = Rng::new(7);
            let want: Vec<u8> = (0..3).flat_map(|_| rng.u64().to_le_bytes()).take(count).collect();
            assert_eq!(bytes, want, "{count} bytes");
        }
        assert_eq!(Rng::new(7).array::<11>()[..], Rng::new(7).bytes(11)[..]);
    }

    #[test]
    fn below_stays_below_and_meets_every_number() {
        let (mut rng, mut seen) = (Rng::new(3), [false; 7]);
        (0..200).for_each(|_| seen[rng.below(7)] = true);
        assert_eq!(seen, [true; 7]);
        assert!(!(0..50).any(|_| rng.below(1) != 0));
        assert!([2, 4].contains(rng.pick(&[2, 4])));
    }
}
