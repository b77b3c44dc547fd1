//! The set of unspent coins in memory: 256 shards by the first byte of the txid, each a flat table over packed records.
//!
//! In: for each block and lane a list of operations (create, spend), in transaction order.
//! Out: for each spend its coin, or that memory does not know it; for a flush, the sorted changes of a generation.
//! Must never know: files, tables on disk, rules, threads. What memory lacks the caller looks up elsewhere.
//!
//! A record is a coin as Core stores it on disk (see `primitives::coin`): it is encoded once, when it is made.

pub mod answers;
pub mod lane;
pub mod ops;
pub mod table;

pub use answers::{Answer, Answers, Origin};
pub use lane::{Generation, Lane};
pub use ops::{LANES, LaneOps, Op, Ops};
pub use table::{Change, Table};
