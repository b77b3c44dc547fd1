//! The optional indexes, four of Core's and one more: a block's records for each of them, and their encoding.
//!
//! Input: a block, the coins that it spends, its height and hash. Output: records of `txindex`, `blockfilterindex`
//! (basic), `txospenderindex` and `coinstatsindex`, as Bitcoin Core b88bffe has them on disk; and of
//! `silentpaymentindex` in ffwd's own form, because Core does not have this index. The crate does not know files,
//! databases, threads, or the chain.
//!
//! - [`block`]: a block's part of each index, computed by any worker in any order.
//! - [`filter`]: basic filters of BIP-0158, their hashes and headers.
//! - [`coinstats`]: running totals of the UTXO set, block after block.
//! - [`silentpayments`]: transactions that may be silent payments, and their rows; [`tweaks`]: the data that a receiver
//!   needs of them.
//! - [`txindex`], [`spender`], [`heights`], [`locator`]: keys and values.
//! - [`siphash`]: the keyed hashes of all of them.

pub mod block;
pub mod coinstats;
pub mod filter;
pub mod heights;
pub mod locator;
pub mod silentpayments;
pub mod siphash;
pub mod spender;
pub mod tweaks;
pub mod txindex;

pub use block::{BlockRecords, Wanted};
pub use siphash::SipKey;

/// The five indexes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum IndexKind {
    /// The place of each transaction.
    Tx,
    /// Basic block filters and their headers.
    BlockFilter,
    /// The spending transaction of each output.
    TxoSpender,
    /// Statistics of the UTXO set at every height.
    CoinStats,
    /// Tweaks of transactions that may be silent payments (BIP 352).
    SilentPayments,
}

impl IndexKind {
    /// All indexes, in the order of lists.
    pub const ALL: [IndexKind; 5] =
        [IndexKind::Tx, IndexKind::BlockFilter, IndexKind::TxoSpender, IndexKind::CoinStats, IndexKind::SilentPayments];

    /// Those that Core has too.
    pub const OF_CORE: [IndexKind; 4] =
        [IndexKind::Tx, IndexKind::BlockFilter, IndexKind::TxoSpender, IndexKind::CoinStats];

    /// Name of the option that enables it, which is also the index's name.
    pub fn name(self) -> &'static str {
        match self {
            IndexKind::Tx => "txindex",
            IndexKind::BlockFilter => "blockfilterindex",
            IndexKind::TxoSpender => "txospenderindex",
            IndexKind::CoinStats => "coinstatsindex",
            IndexKind::SilentPayments => "silentpaymentindex",
        }
    }

    /// Its name in Core's messages and in getindexinfo.
    pub fn core_name(self) -> &'static str {
        match self {
            IndexKind::BlockFilter => "basic block filter index",
            other => other.name(),
        }
    }

    /// Whether it is allowed with `-prune`. Source: Bitcoin Core b88bffe, `AllowPrune` of each index; tweaks can be
    /// served without their block too.
    pub fn allows_prune(self) -> bool {
        matches!(self, IndexKind::BlockFilter | IndexKind::CoinStats | IndexKind::SilentPayments)
    }
}
