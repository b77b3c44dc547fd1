//! The UTXO set in memory: 256 shards by the first byte of the txid, each a flat table over packed records.
//!
//! Input: for each block and shard group a list of operations (create, spend), in transaction order. Output: for each
//! spend its coin, or a miss; for a flush, the sorted changes of a generation. The crate does not know files, tables on
//! disk, rules or threads. The caller looks up misses elsewhere.
//!
//! A record is a coin as Core stores it on disk (see `primitives::coin`): it is encoded once, when it is created.

pub mod answers;
#[cfg(feature = "ablation")]
mod apart;
mod chunks;
pub mod ops;
mod record;
pub mod shard_group;
pub mod table;
mod totals;
mod walk;

pub use answers::{Answer, Answers, COIN_BYTES_MAX, Origin};
pub use ops::{GroupOps, Op, Ops, SHARD_GROUPS};
pub use shard_group::{Generation, RunSetup, ShardGroup};
pub use table::{Change, Table};
pub use totals::Totals;
