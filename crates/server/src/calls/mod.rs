//! The calls, by what they are about.

mod chain;
mod control;
pub(crate) mod view;

use crate::registry::Call;

/// All calls.
pub fn all() -> Vec<Call> {
    [chain::CALLS, control::CALLS].concat()
}
