//! What audits and exports work with: a chain, its blocks and its coins, from files alone. No lock is taken and nothing is
//! written, so any number of programs may do so at a time, on a disk that is read-only too.
//!
//! No program may write to the files meanwhile; one that does makes such a work fail, or say no.

pub use crate::chain_files::{ChainFiles, Needs};
pub use crate::chain_plan::encode_plan;
pub use crate::chain_source::block_bytes;
pub use crate::set_files::{SetFiles, SetSums};
pub use crate::shares::in_order;
pub use crate::undo_judge::{JudgedBlock, Wrong, judge, scripts};
pub use consensus::SpentCoin;
