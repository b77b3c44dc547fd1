//! Transactions that wait for a block. Only a reorg brings some: no peer and no call gives one.
//!
//! With the feature `regtest-tools` they are kept and judged as Core does (`returned`), for the calls that make blocks. Without
//! it they are dropped: `none` is empty at all times.

#[cfg(feature = "regtest-tools")]
mod accept;
mod entry;
#[cfg(not(feature = "regtest-tools"))]
mod none;
#[cfg(feature = "regtest-tools")]
mod policy;
#[cfg(feature = "regtest-tools")]
mod pool;
#[cfg(feature = "regtest-tools")]
mod queue;
#[cfg(feature = "regtest-tools")]
mod returned;

#[cfg(feature = "regtest-tools")]
pub(crate) use accept::Next;
pub use entry::{CLUSTER_MAX, PoolEntry};
#[cfg(not(feature = "regtest-tools"))]
pub use none::Mempool;
#[cfg(feature = "regtest-tools")]
pub use returned::Mempool;
