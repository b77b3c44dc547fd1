//! Bytes and values: CompactSize, VARINT, headers, blocks and transactions as tables of offsets,
//! ids, merkle roots, coins as Core stores them, undo data, 256-bit work, amounts.
//!
//! Input: bytes. Output: values, or why the bytes do not decode. The crate does not know files, sockets, clocks,
//! networks, or rules beyond parsing.

pub mod amount;
pub mod block;
pub mod coin;
pub mod encode;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
pub mod hash;
pub mod header;
pub mod height;
pub mod hex;
pub mod hints;
pub mod human;
pub mod ids;
pub mod merkle;
pub mod muhash;
pub mod script_type;
pub mod snapshot;
pub mod tables;
pub mod undo;
pub mod work;

pub use amount::Amount;
pub use block::{Block, Input, Output, Transaction};
pub use coin::{CoinKey, CoinRef};
pub use encode::{DecodeError, Reader};
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::{fuzz_block, fuzz_hints, fuzz_snapshot};
pub use hash::Hash256;
pub use header::Header;
pub use height::{Height, MedianTime};
pub use ids::{BlockHash, OutPoint, Txid, Wtxid};
pub use kernels::chacha20;
pub use tables::Tables;
pub use work::{Target, U256, Work};
