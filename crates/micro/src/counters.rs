//! Hardware counters while a variant runs: instructions, cycles, branches, branch misses.
//!
//! Absent on purpose: the kernel's part, and other threads; a variant that waits for either is not counted. Many
//! virtual machines have no counters; the report then states the reason.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter, Group};
use serde::Serialize;
use std::io;

/// The events, in the order of [`Counts`].
const EVENTS: [Hardware; 4] =
    [Hardware::INSTRUCTIONS, Hardware::CPU_CYCLES, Hardware::BRANCH_INSTRUCTIONS, Hardware::BRANCH_MISSES];

/// Counts for one operation of a variant.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Counts {
    /// Instructions; unlike times, they do not vary between runs.
    pub instructions: f64,
    /// Cycles of the processor.
    pub cycles: f64,
    /// Branches.
    pub branches: f64,
    /// Mispredicted branches.
    pub branch_misses: f64,
}

impl Counts {
    /// Computes them from the sums over `operations` operations.
    fn each(sums: [u64; EVENTS.len()], operations: f64) -> Counts {
        let [instructions, cycles, branches, branch_misses] = sums.map(|sum| sum as f64 / operations);
        Counts { instructions, cycles, branches, branch_misses }
    }
}

/// Counters of this thread.
pub(crate) struct Counters {
    group: Group,
    each: Vec<Counter>,
}

impl Counters {
    /// Opens the counters, disabled.
    ///
    /// # Errors
    ///
    /// The system has no counters, or does not permit access.
    pub(crate) fn open() -> io::Result<Counters> {
        let mut group = Group::new()?;
        let each = EVENTS.iter().map(|event| group.add(&Builder::new(*event))).collect::<io::Result<Vec<_>>>()?;
        let mut counters = Counters { group, each };
        // Some systems accept every event but count nothing.
        let counted = counters.count(1_000.0, || (0..1_000u64).fold(0, |sum, at| std::hint::black_box(sum ^ at)))?.1;
        if counted.instructions < 1.0 { Err(io::Error::other("they count nothing")) } else { Ok(counters) }
    }

    /// Counts while `work` performs `operations` operations.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn count<T>(&mut self, operations: f64, work: impl FnOnce() -> T) -> io::Result<(T, Counts)> {
        self.group.reset()?;
        self.group.enable()?;
        let result = work();
        self.group.disable()?;
        let counts = self.group.read()?;
        let mut sums = [0; EVENTS.len()];
        for (sum, counter) in sums.iter_mut().zip(&self.each) {
            *sum = counts[counter];
        }
        Ok((result, Counts::each(sums, operations)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where there are counters, ten times the work is about ten times the instructions; where not, it is said why.
    #[test]
    fn instructions_follow_the_work_or_it_is_said_why_not() {
        let mut counters = match Counters::open() {
            Ok(counters) => counters,
            Err(why) => {
                assert!(!why.to_string().is_empty());
                return println!("skipped: no hardware counters: {why}");
            }
        };
        let sum = |count: u64| (0..count).fold(0u64, |sum, at| std::hint::black_box(sum ^ at));
        let mut of = |count: u64| counters.count(1.0, || sum(count)).unwrap().1.instructions;
        let (one, ten) = (of(100_000), of(1_000_000));
        assert!((5.0..20.0).contains(&(ten / one)), "{one} and {ten}");
    }

    #[test]
    fn counts_are_of_an_operation() {
        let want = Counts { instructions: 5.0, cycles: 2.5, branches: 1.0, branch_misses: 0.5 };
        assert_eq!(Counts::each([10, 5, 2, 1], 2.0), want);
    }
}
