//! The generator of all random numbers of a chain: SplitMix64, so that a seed gives the same bytes on every machine.
//!
//! Absent on purpose: floating point, whose last bits may differ between machines, and secrecy.

/// SplitMix64. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

/// The increment of the state: the odd number nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// A separate stream for each pair of numbers.
    pub(super) fn new(seed: u64, stream: u64) -> Rng {
        let mut first = Rng(seed);
        let start = first.next();
        let mut second = Rng(start ^ stream.wrapping_mul(STEP));
        Rng(second.next())
    }

    /// 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Skips this number of numbers.
    pub(super) fn skip(&mut self, count: u64) {
        self.0 = self.0.wrapping_add(STEP.wrapping_mul(count));
    }

    /// A number below `end`, which must not be 0. The bias is below `end / 2^64`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `from` to `to`, both included.
    pub(super) fn within(&mut self, from: u32, to: u32) -> u32 {
        from + self.below(u64::from(to - from) + 1) as u32
    }

    /// An index into a list of `len` items, at least one.
    pub(super) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Fills `out`.
    pub(super) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of the reference implementation with state 1234567 (also in Rosetta Code's and Java's tests).
    #[test]
    fn rng_gives_the_splitmix64_sequence() {
        let mut rng = Rng(1_234_567);
        assert_eq!(
            [rng.next(), rng.next(), rng.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn rng_skips_numbers() {
        for count in [0, 1, 7, 1000] {
            let (mut one, mut other) = (Rng::new(1, 2), Rng::new(1, 2));
            one.skip(count);
            for _ in 0..count {
                other.next();
            }
            assert_eq!(one.next(), other.next(), "{count}");
        }
    }

    #[test]
    fn rng_stays_in_range_and_streams_differ() {
        let mut rng = Rng::new(1, 2);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.within(3, 7) as usize - 3] = true;
            assert!(rng.below(1) == 0 && rng.index(9) < 9);
        }
        assert_eq!(seen, [true; 5]);
        assert_ne!(Rng::new(1, 2).next(), Rng::new(1, 3).next());
        assert_ne!(Rng::new(1, 2).next(), Rng::new(2, 2).next());
        let mut bytes = [0; 13];
        Rng::new(1, 2).fill(&mut bytes);
        assert_eq!(bytes[..8], Rng::new(1, 2).next().to_le_bytes());
        assert_ne!(bytes[8..], [0; 5]);
    }
}
