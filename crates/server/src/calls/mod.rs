//! The calls, by what they are about.

mod block;
mod chain;
mod control;
pub mod view;

use crate::registry::Call;

/// All calls.
pub fn all() -> Vec<Call> {
    [chain::CALLS, control::CALLS].concat()
}
