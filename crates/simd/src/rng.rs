//! Random numbers for tests: SplitMix64, the same ones on every run and machine.

/// A generator; the number is the seed.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    /// The next 64 random bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A random number under `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("under a usize")
    }

    /// `count` random bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}

/// `count` rounds of a test, a hundredth of them, at least one, where Miri interprets it.
pub(crate) fn rounds(count: usize) -> usize {
    if cfg!(miri) { (count / 100).max(1) } else { count }
}
