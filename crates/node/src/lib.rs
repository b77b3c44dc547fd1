//! The engine: where coins, files, rules and peers meet.

pub mod arrivals;
mod atomic_height;
pub mod best_chain;
pub mod block;
pub mod chainview;
pub mod datadir;
pub mod engine;
pub mod fault;
pub mod headers;
pub mod index;
pub mod jobs;
mod locks;
pub mod log;
pub mod options;
pub mod pipeline;
pub mod recheck;
mod scratch;
pub mod setinfo;
pub mod stages;
pub mod stats;
pub mod tree;

pub use fault::Fault;
