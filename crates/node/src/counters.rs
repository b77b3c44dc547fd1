//! The counters of a job: atomics that the job writes and anyone reads.

use crate::atomic_height::AtomicHeight;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

/// In place of the number of peers, for a job without a network.
pub(crate) const NO_NETWORK: u32 = u32::MAX;

/// How far a job is.
#[derive(Debug)]
pub struct Counters {
    /// Height of the last connected block.
    pub height: AtomicHeight,
    /// Height where the work ends.
    pub height_end: AtomicHeight,
    /// Bytes of blocks done.
    pub bytes: AtomicU64,
    /// Bytes of blocks there are to do.
    pub bytes_end: AtomicU64,
    /// Blocks connected.
    pub blocks: AtomicU64,
    /// Blocks refused.
    pub invalid: AtomicU64,
    /// Blocks taken off the chain.
    pub disconnected: AtomicU64,
    /// Transactions up to the last connected block, genesis included.
    pub transactions: AtomicU64,
    /// Damaged bodies of which there is no other copy.
    pub lost: AtomicU64,
    /// Peers; the greatest number for a job without them.
    pub peers: AtomicU32,
    /// Whether the initial block download is over.
    pub is_current: AtomicBool,
    /// Height of the best header.
    pub headers: AtomicHeight,
    /// Height that the furthest presync has reached; 0 without one.
    pub presync: AtomicHeight,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            height: AtomicHeight::default(),
            height_end: AtomicHeight::default(),
            bytes: AtomicU64::new(0),
            bytes_end: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            disconnected: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            peers: AtomicU32::new(NO_NETWORK),
            is_current: AtomicBool::new(false),
            headers: AtomicHeight::default(),
            presync: AtomicHeight::default(),
        }
    }
}
