//! The time as a value: no state machine of this crate reads a clock.

use std::time::Duration;

/// The time, given from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since some start; never goes back.
    pub since_start: Duration,
    /// The wall clock, seconds since 1970.
    pub unix: u64,
}
