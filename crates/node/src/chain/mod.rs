//! The chain as headers and blocks: the tree of headers, what is known of every block, which chain is the best one.
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
