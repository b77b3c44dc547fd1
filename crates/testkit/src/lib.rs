//! What the tests and benchmarks of the other crates share. A dev-dependency only: no program links it.
//!
//! In: a seed, a name of a file of test data, a piece of work. Out: numbers, bytes, times.
//! Must never know: files of a data directory, the network, the engine. What is tested is not built with its own code.
//!
//! `tests/it/tidy` checks the source tree itself: sizes, heads, references, layers.

pub mod bench;
#[cfg(feature = "data")]
pub mod data;
pub mod rng;

pub use bench::{Bench, Per};
pub use rng::Rng;

/// Whether the tests that take minutes are wanted: `SLOW` is set, and not to 0.
#[must_use]
pub fn is_slow() -> bool {
    std::env::var_os("SLOW").is_some_and(|value| value != "0")
}

/// Rounds of a test: `count`, but a hundredth of that, at least one, where Miri interprets it.
#[must_use]
pub fn rounds(count: usize) -> usize {
    if cfg!(miri) { (count / 100).max(1) } else { count }
}
