//! Random numbers: from the system, or in tests a reproducible stream.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

/// A source of random numbers.
#[derive(Clone, Debug)]
pub enum Rng {
    /// The operating system's generator, suitable for keys.
    System,
    /// SplitMix64 from a seed: for draws that need no secret, tests and fuzzing.
    Seeded(u64),
}

impl Rng {
    /// Fills `out`.
    ///
    /// # Panics
    ///
    /// If the operating system has no random numbers: no secret would be safe then.
    pub fn fill(&mut self, out: &mut [u8]) {
        match self {
            Rng::System => getrandom::fill(out).expect("the operating system gives random numbers"),
            Rng::Seeded(state) => {
                for chunk in out.chunks_mut(8) {
                    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let mut z = *state;
                    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                    let bytes = (z ^ z >> 31).to_le_bytes();
                    chunk.copy_from_slice(&bytes[..chunk.len()]);
                }
            }
        }
    }

    /// `N` random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        self.fill(&mut out);
        out
    }

    /// A random number.
    pub fn number(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// An exponentially distributed time with this mean. Source: Core's `rand_exp_duration`.
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // A number of 53 bits, above 0 and at most 1, so the maximum result is 37 times the mean.
        let unit = ((self.number() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        mean.mul_f64(-unit.ln())
    }

    /// A random number below `bound`, 0 for a bound of 0. The bias of 2^-64 times `bound` does not matter here.
    pub fn below(&mut self, bound: usize) -> usize {
        let product = u128::from(self.number()) * bound as u128;
        (product >> 64) as usize
    }
}

/// A hash with a secret key from [`Rng::number`]: nobody else can foresee it.
pub(crate) fn keyed_hash(key: u64, what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, what).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_number_is_below_its_bound() {
        for mut rng in [Rng::System, Rng::Seeded(1)] {
            let drawn: std::collections::HashSet<_> = (0..200).map(|_| rng.below(4)).collect();
            assert_eq!(drawn, (0..4).collect());
            assert_eq!(rng.below(0), 0);
        }
        assert_eq!(Rng::Seeded(5).number(), Rng::Seeded(5).number());
        let mut rng = Rng::Seeded(3);
        let sum: Duration = (0..1000).map(|_| rng.exponential(Duration::from_secs(60))).sum();
        assert!((50_000..70_000).contains(&sum.as_secs()), "{sum:?} of a thousand minutes");
    }
}
