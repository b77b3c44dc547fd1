//! The calls, by what they are about.

pub(crate) mod block;
pub(crate) mod block_json;
mod block_template;
mod chain;
mod change;
pub(crate) mod coins;
mod connect;
mod control;
mod deployments;
mod descriptors;
mod generate;
mod hidden;
pub(crate) mod indexed;
mod info;
mod mempool;
mod mining;
mod network;
mod network_info;
mod program;
mod scan_blocks;
mod snapshot;
pub(crate) mod transaction;
pub mod view;
mod waits;

use crate::registry::Call;

/// All calls.
pub fn all() -> Vec<Call> {
    [
        block::CALLS,
        block_template::CALLS,
        chain::CALLS,
        change::CALLS,
        coins::CALLS,
        connect::CALLS,
        control::CALLS,
        deployments::CALLS,
        descriptors::CALLS,
        generate::CALLS,
        hidden::CALLS,
        info::CALLS,
        mempool::CALLS,
        mining::CALLS,
        network::CALLS,
        network_info::CALLS,
        program::CALLS,
        scan_blocks::CALLS,
        snapshot::CALLS,
        transaction::CALLS,
        waits::CALLS,
    ]
    .concat()
}
