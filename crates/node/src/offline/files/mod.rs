//! Input of audits and exports: a chain, its blocks and its coins, read only from files. No lock is taken and nothing
//! is written, so any number of programs may do this at the same time, on a read-only disk too.
//!
//! No program may write to the files meanwhile; otherwise such work fails, or reports a fault.

mod chain_files;
mod chain_plan;
mod chain_rules;
mod chain_source;
mod set_files;
mod undo_judge;

pub use crate::datadir::look::at_rest;
pub use crate::threads::shares::in_order;
pub use chain_files::{ChainFiles, Needs, WholeBlock};
pub use chain_plan::encode_plan;
#[cfg(any(test, feature = "testing"))]
pub use chain_plan::fuzz_plan;
pub use chain_source::block_bytes;
pub use consensus::SpentCoin;
pub use set_files::{SetCoins, SetFiles, SetSums};
pub(crate) use undo_judge::hints;
pub use undo_judge::{JudgedBlock, Wrong, judge, scripts};
