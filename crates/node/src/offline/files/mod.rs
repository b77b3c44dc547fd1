//! What audits and exports work with: a chain, its blocks and its coins, from files alone. No lock is taken and nothing is
//! written, so any number of programs may do so at a time, on a disk that is read-only too.
//!
//! No program may write to the files meanwhile; one that does makes such a work fail, or say no.

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
pub use undo_judge::{JudgedBlock, Wrong, judge, scripts};
