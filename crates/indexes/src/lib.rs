//! The optional indexes, four of Core's and one more: what a block adds to each of them, and the bytes of their records.
//!
//! In: a block, the coins that it spends, its height and hash. Out: records of `txindex`, `blockfilterindex` (basic),
//! `txospenderindex` and `coinstatsindex`, as Bitcoin Core b88bffe has them on disk; of `silentpaymentindex` in a form of our
//! own, because Core has none.
//! Must never know: files, databases, threads, which chain.
//!
//! - [`block`]: a block's part of each index, made by any worker in any order.
//! - [`filter`]: basic filters of BIP-0158, their hashes and headers.
//! - [`coinstats`]: running totals of the UTXO set, block after block.
//! - [`silentpayments`]: which transactions may pay silently, and their rows; [`tweaks`]: what a receiver needs of them.
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
    /// Where each transaction lies.
    Tx,
    /// Basic block filters and their headers.
    BlockFilter,
    /// Which transaction spends an output.
    TxoSpender,
    /// Statistics of the UTXO set at every height.
    CoinStats,
    /// Tweaks of transactions that may pay silently (BIP 352).
    SilentPayments,
}

impl IndexKind {
    /// All of them, in the order in which they are named.
    pub const ALL: [IndexKind; 5] =
        [IndexKind::Tx, IndexKind::BlockFilter, IndexKind::TxoSpender, IndexKind::CoinStats, IndexKind::SilentPayments];

    /// Those that Core has, too.
    pub const OF_CORE: [IndexKind; 4] =
        [IndexKind::Tx, IndexKind::BlockFilter, IndexKind::TxoSpender, IndexKind::CoinStats];

    /// Name of the option that asks for it, which is the index's own name.
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

    /// Whether it may be kept with `-prune`. Source: Bitcoin Core b88bffe, `AllowPrune` of each index; tweaks answer without
    /// their block, too.
    pub fn allows_prune(self) -> bool {
        matches!(self, IndexKind::BlockFilter | IndexKind::CoinStats | IndexKind::SilentPayments)
    }
}
