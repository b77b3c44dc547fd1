//! The chain as headers and blocks: the tree of headers, what is known of every block, which chain is the best one.
//!
//! Absent on purpose: coins, files, threads.

mod best_chain;
pub mod block;
pub mod deployments;
pub mod headers;
pub mod index;
pub mod tree;
