//! Shared code of the tests and benchmarks. A dev-dependency only: no program links it.
//!
//! In: a seed, the name of a test data file or of a fuzz target, a piece of work. Out: numbers, bytes, times, and a
//! running bitcoind. Must never know: files of a data directory, the engine. Code under test does not produce its own
//! test data.
//!
//! `tests/it/tidy` checks the source tree itself: sizes, headers, references, layers.

pub mod bench;
pub mod bitcoind;
#[cfg(feature = "blocks")]
pub mod blocks;
#[cfg(feature = "data")]
pub mod data;
pub mod rng;

pub use bench::{Bench, Per};
pub use rng::Rng;

/// Minimizes a failing history by removing steps that the failure does not need: first halves, then quarters, down to
/// single steps (delta debugging: Zeller, Hildebrandt 2002, "Simplifying and isolating failure-inducing input").
pub fn shrunk<T: Clone>(steps: &[T], fails: impl Fn(&[T]) -> bool) -> Vec<T> {
    let mut steps = steps.to_vec();
    let mut count = steps.len().div_ceil(2);
    while count > 0 {
        let mut start = 0;
        while start < steps.len() {
            let end = (start + count).min(steps.len());
            let less = [&steps[..start], &steps[end..]].concat();
            if fails(&less) { steps = less } else { start = end }
        }
        count = if count == 1 { 0 } else { count.div_ceil(2) };
    }
    steps
}

/// Whether to run the tests that take minutes: `SLOW` is set and not 0.
#[must_use]
pub fn is_slow() -> bool {
    std::env::var_os("SLOW").is_some_and(|value| value != "0")
}

/// The seeds of a random test: the first `count`, or only the value of `SEED`. Each is printed before use, so that the
/// output of a failed test ends with its seed.
///
/// # Panics
///
/// If `SEED` is not a number.
pub fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let named = std::env::var("SEED").ok().map(|text| text.parse().expect("SEED is a number"));
    let seeds = named.map_or(0..count, |seed: u64| seed..seed.saturating_add(1));
    seeds.inspect(|seed| println!("seed {seed}"))
}

/// The seed inputs of a fuzz target: the files in `fuzz/seeds/TARGET`, in arbitrary order.
///
/// # Panics
///
/// If they cannot be read.
pub fn fuzz_seeds(target: &str) -> impl Iterator<Item = Vec<u8>> {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(seeds).expect("the target has seeds");
    entries.map(|entry| std::fs::read(entry.expect("a name").path()).expect("a file"))
}

/// Number of rounds of a test: `count`; under Miri a hundredth of it, at least one.
#[must_use]
pub fn rounds(count: usize) -> usize {
    if cfg!(miri) { (count / 100).max(1) } else { count }
}

#[cfg(test)]
mod tests {
    #[test]
    fn shrunk_keeps_what_the_failure_needs() {
        let steps: Vec<u32> = (0..100).collect();
        let fails = |steps: &[u32]| steps.contains(&17) && steps.contains(&60);
        assert_eq!(super::shrunk(&steps, fails), [17, 60]);
        assert_eq!(super::shrunk(&steps, |_| true), []);
        assert_eq!(super::shrunk(&steps[..3], |steps| steps.len() == 3), [0, 1, 2]);
    }
}
