//! The consensus rules, one function each, and each network's parameters.
//!
//! Input: headers, blocks, transactions, spent coins, times, heights. Output: a verdict. The crate does not use files,
//! sockets, clocks (the time is an argument), threads, logs or globals.
//!
//! The order of the rules and their reject strings are Bitcoin Core's (b88bffe), because the first of several failures
//! is the verdict: `header`, `block::check`, `block::check_context`, `bip30`, `spend`, and then the scripts.

pub mod assume_valid;
pub mod bip30;
pub mod block;
pub mod cleanup;
pub mod deployments;
pub mod flags;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
pub mod header;
pub mod params;
pub mod spend;
pub mod transaction;
pub mod verdict;
pub mod version_bits;

pub use assume_valid::{ScriptCheckReason, script_check_reason};
pub use cleanup::Cleanup;
pub use deployments::Deployment;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::{fuzz_recipe, fuzz_rules};
pub use params::{Chain, Params};
pub use spend::{BlockSpend, SpentCoin};
pub use verdict::{BlockError, Class, Place, Rank, Rule};

/// Maximum weight of a block. Source: Bitcoin Core b88bffe, consensus/consensus.h, as for those below.
pub const MAX_BLOCK_WEIGHT: usize = 4_000_000;
/// Maximum cost of a block's signature operations.
pub const MAX_BLOCK_SIGOPS_COST: u64 = 80_000;
/// The factor for the weight of a byte outside witnesses, and for the cost of a signature operation outside them.
pub const WITNESS_SCALE_FACTOR: usize = 4;
/// Blocks between a coinbase and the first spend of its coins.
pub const COINBASE_MATURITY: i64 = 100;
