//! The calls, by what they are about.

pub(crate) mod block;
pub(crate) mod block_json;
mod chain;
mod change;
pub(crate) mod coins;
mod control;
mod deployments;
pub(crate) mod indexed;
mod info;
mod mining;
mod network;
mod network_info;
mod program;
mod snapshot;
pub(crate) mod transaction;
pub mod view;
mod waits;

use crate::registry::Call;

/// All calls.
pub fn all() -> Vec<Call> {
    [
        block::CALLS,
        chain::CALLS,
        change::CALLS,
        coins::CALLS,
        control::CALLS,
        deployments::CALLS,
        info::CALLS,
        mining::CALLS,
        network::CALLS,
        network_info::CALLS,
        program::CALLS,
        snapshot::CALLS,
        transaction::CALLS,
        waits::CALLS,
    ]
    .concat()
}
