//! The chain as headers and blocks: the header tree, the state of every block, the selection of the best chain.
//!
//! Absent on purpose: coins, files, threads.

mod best_chain;
pub mod block;
pub mod deployments;
mod fate;
pub mod headers;
pub mod index;
mod kept;
pub mod pruned_fork;
#[cfg(test)]
pub(crate) mod testing;
pub mod tree;
