//! The time as a value: no state machine of this crate reads a clock.

use std::time::Duration;

/// The time, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Time since some start; never decreases.
    pub since_start: Duration,
    /// The wall clock, seconds since 1970.
    pub unix: u64,
}
