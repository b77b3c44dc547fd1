//! The counters of a job: output only. The job adds to them; only reporting reads them.
//!
//! No decision uses them: a decision reads the block index, or the engine's results.

use crate::threads::atomic_height::AtomicHeight;
use primitives::Height;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of peers for a job without a network.
const NO_NETWORK: u32 = u32::MAX;

/// Progress of a job.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Height of the last connected block.
    height: AtomicHeight,
    /// Height at which the work ends.
    height_end: AtomicHeight,
    /// Bytes of processed blocks.
    bytes: AtomicU64,
    /// Bytes of all blocks to process.
    bytes_end: AtomicU64,
    /// Bytes of blocks read for indexes; until the current pass ends, `bytes` includes its bytes.
    indexing: AtomicU64,
    indexed: AtomicU64,
    /// Number of connected blocks.
    blocks: AtomicU64,
    /// Their transactions.
    connected: AtomicU64,
    /// Number of refused blocks.
    invalid: AtomicU64,
    /// Transactions up to the last connected block, genesis included.
    transactions: AtomicU64,
    /// Number of peers; the maximum value for a job without a network.
    peers: AtomicU32,
    /// Whether the initial block download is over.
    is_current: AtomicBool,
    /// Height of the best header.
    headers: AtomicHeight,
    /// Height of the furthest presync; 0 without one.
    presync: AtomicHeight,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            height: AtomicHeight::default(),
            height_end: AtomicHeight::default(),
            bytes: AtomicU64::new(0),
            bytes_end: AtomicU64::new(0),
            indexing: AtomicU64::new(0),
            indexed: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            connected: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            peers: AtomicU32::new(NO_NETWORK),
            is_current: AtomicBool::new(false),
            headers: AtomicHeight::default(),
            presync: AtomicHeight::default(),
        }
    }
}

/// Methods for the job.
impl Counters {
    /// Sets the height of the last connected block.
    pub(crate) fn set_height(&self, height: Height) {
        self.height.store(height, Relaxed);
    }

    /// Sets the height at which the work ends.
    pub(crate) fn set_end(&self, height: Height) {
        self.height_end.store(height, Relaxed);
    }

    /// Adds bytes of processed blocks.
    pub(crate) fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// A connected block was read for indexes.
    pub(crate) fn add_indexed(&self, bytes: usize) {
        self.add_bytes(bytes);
        self.indexing.fetch_add(bytes as u64, Relaxed);
    }

    /// Ends the pass for indexes: its bytes do not count as connected.
    pub(crate) fn end_indexing(&self) {
        let bytes = self.indexing.swap(0, Relaxed);
        self.indexed.fetch_add(bytes, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
        self.bytes_end.store(0, Relaxed);
    }

    /// Bytes of blocks read for indexes.
    pub(super) fn indexed_bytes(&self) -> u64 {
        self.indexed.load(Relaxed)
    }

    /// Sets the bytes of blocks left to process.
    pub(crate) fn set_bytes_left(&self, bytes: u64) {
        self.bytes_end.store(self.bytes.load(Relaxed) + bytes, Relaxed);
    }

    /// Estimates the bytes left from transactions: `all` is the number up to the last block; so far, `seen`
    /// transactions were in blocks of `seen_bytes`.
    pub(crate) fn set_transactions_left(&self, all: f64, seen: u64, seen_bytes: u64) {
        let left = (all - self.transactions.load(Relaxed) as f64).max(0.0);
        self.set_bytes_left(bytes_of_transactions(left, seen_bytes, seen));
    }

    /// A block was connected.
    pub(crate) fn add_block(&self, height: Height, bytes: usize, transactions: u64) {
        self.set_height(height);
        self.add_bytes(bytes);
        self.blocks.fetch_add(1, Relaxed);
        self.connected.fetch_add(transactions, Relaxed);
        self.transactions.fetch_add(transactions, Relaxed);
    }

    /// Resets the counters of connected blocks: their chain is discarded.
    pub(crate) fn forget_blocks(&self) {
        for count in [&self.bytes, &self.blocks, &self.connected] {
            count.store(0, Relaxed);
        }
    }

    /// The last block was disconnected; the chain now ends at `height`.
    pub(crate) fn remove_block(&self, height: Height, transactions: u64) {
        self.set_height(height);
        self.transactions.fetch_sub(transactions, Relaxed);
    }

    /// Sets the number of transactions of the chain with which the work begins.
    pub(crate) fn set_transactions(&self, count: u64) {
        self.transactions.store(count, Relaxed);
    }

    /// A block was refused.
    pub(super) fn add_invalid(&self) {
        self.invalid.fetch_add(1, Relaxed);
    }

    /// Sets the number of peers.
    pub(crate) fn set_peers(&self, count: u32) {
        self.peers.store(count.min(NO_NETWORK - 1), Relaxed);
    }

    /// Sets whether the initial block download is over.
    pub(crate) fn set_current(&self, is_current: bool) {
        self.is_current.store(is_current, Relaxed);
    }

    /// Sets the height of the best header, and that of a presync of other headers.
    pub(crate) fn set_headers(&self, best: Height, presync: Option<Height>) {
        self.headers.store(best, Relaxed);
        self.presync.store(presync.unwrap_or(Height::GENESIS), Relaxed);
    }
}

/// Mean bytes of a transaction on the main network: 735 GB over 1,310 million; and its weight, in transactions.
const TRANSACTION_BYTES: f64 = 560.0;
const TRANSACTIONS_KNOWN: f64 = 1e6;

/// Estimated bytes of `count` transactions, from the known mean and the `seen` ones in `seen_bytes` of blocks:
/// weighted, so that the first blocks do not dominate.
fn bytes_of_transactions(count: f64, seen_bytes: u64, seen: u64) -> u64 {
    let bytes = seen_bytes as f64;
    let seen = seen as f64;
    (count * (bytes + TRANSACTION_BYTES * TRANSACTIONS_KNOWN) / (seen + TRANSACTIONS_KNOWN)) as u64
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Height of the last connected block.
    pub height: Height,
    /// Height at which the work ends.
    pub height_end: Height,
    /// Bytes of processed blocks.
    pub bytes: u64,
    /// Bytes of all blocks to process.
    pub bytes_end: u64,
    /// Number of connected blocks.
    pub blocks: u64,
    /// Their transactions.
    pub connected: u64,
    /// Number of refused blocks.
    pub invalid: u64,
    /// Transactions up to the last connected block.
    pub transactions: u64,
    /// Number of peers; `None` for a job without a network.
    pub peers: Option<u32>,
    /// Whether the initial block download is over.
    pub is_current: bool,
    /// Height of the best header.
    pub headers: Height,
    /// Height of the furthest presync.
    pub presync: Option<Height>,
}

/// Read access to the counters, for displays: other crates, and reporting.
#[derive(Clone, Debug, Default)]
pub struct Figures(Arc<Counters>);

impl Figures {
    /// The counters, to write to them.
    pub(super) fn counters(&self) -> &Counters {
        &self.0
    }

    /// The counters now. No decision may use them: the test `tidy` checks that `node` does not call this.
    pub fn counted(&self) -> Counted {
        let counters = &self.0;
        Counted {
            height: counters.height.load(Relaxed),
            height_end: counters.height_end.load(Relaxed),
            bytes: counters.bytes.load(Relaxed),
            bytes_end: counters.bytes_end.load(Relaxed),
            blocks: counters.blocks.load(Relaxed),
            connected: counters.connected.load(Relaxed),
            invalid: counters.invalid.load(Relaxed),
            transactions: counters.transactions.load(Relaxed),
            peers: Some(counters.peers.load(Relaxed)).filter(|&peers| peers != NO_NETWORK),
            is_current: counters.is_current.load(Relaxed),
            headers: counters.headers.load(Relaxed),
            presync: Some(counters.presync.load(Relaxed)).filter(|&height| height > Height::GENESIS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_transactions_is_not_decided_by_the_first_blocks() {
        for (row, count, seen_bytes, seen, want) in [
            ("nothing seen", 1.3e9, 0, 0, 728_000_000_000),
            ("blocks without transactions", 1.3e9, 230 * 10_000, 10_000, 723_000_000_000),
            ("half a chain of small ones", 6.5e8, 300 * 650_000_000, 650_000_000, 195_000_000_000),
            ("none left", 0.0, 560, 1, 0),
        ] {
            let got = bytes_of_transactions(count, seen_bytes, seen);
            assert!(got.abs_diff(want) <= want / 200, "{row}: {got} for {want}");
        }
    }

    #[test]
    fn blocks_that_are_connected_and_taken_off_are_counted() {
        let figures = Figures::default();
        let counters = figures.counters();
        assert_eq!(figures.counted().peers, None, "no network");
        counters.set_transactions(10);
        counters.add_block(Height::new(1), 300, 2);
        counters.add_block(Height::new(2), 500, 3);
        counters.set_bytes_left(100);
        counters.remove_block(Height::new(1), 3);
        counters.set_peers(2);
        let counted = figures.counted();
        assert_eq!((counted.height, counted.blocks, counted.connected), (Height::new(1), 2, 5));
        assert_eq!((counted.bytes, counted.bytes_end, counted.transactions, counted.peers), (800, 900, 12, Some(2)));
        counters.add_indexed(700);
        assert_eq!(figures.counted().bytes, 1500, "while it goes on");
        counters.end_indexing();
        assert_eq!((figures.counted().bytes, counters.indexed_bytes()), (800, 700));
        counters.set_transactions_left(12.0 + 1e6, 1_000_000, 560_000_000);
        assert_eq!(figures.counted().bytes_end, 800 + 560_000_000);
    }
}
