//! Transactions that wait for a block. They come from reorgs, and on regtest from an RPC call, never from peers.
//!
//! With the feature `regtest-tools` they are kept and checked as in Core (`returned`), for the calls that make blocks.
//! Without it they are dropped: `none` is always empty.

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
#[cfg(feature = "regtest-tools")]
pub use accept::Refusal;
pub use entry::{CLUSTER_MAX, MIN_FEE_RATE, PoolEntry, fee_at};
#[cfg(not(feature = "regtest-tools"))]
pub use none::Mempool;
#[cfg(feature = "regtest-tools")]
pub use returned::{HasDust, Mempool, Offer};
