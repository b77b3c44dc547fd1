//! The calls, by what they are about.

mod block;
mod chain;
mod control;
mod deployments;
mod info;
mod mining;
mod program;
pub mod view;
mod waits;

use crate::registry::Call;

/// All calls.
pub fn all() -> Vec<Call> {
    [chain::CALLS, control::CALLS, deployments::CALLS, info::CALLS, mining::CALLS, program::CALLS, waits::CALLS]
        .concat()
}
