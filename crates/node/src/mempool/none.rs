//! The mempool of a program that keeps no transactions: it answers as an empty one.

use super::PoolEntry;
use primitives::{OutPoint, Txid};
use std::sync::Arc;

/// A mempool that is always empty.
#[derive(Debug, Default)]
pub struct Mempool;

impl Mempool {
    /// All waiting transactions: always empty.
    pub fn entries(&self) -> Vec<Arc<PoolEntry>> {
        Vec::new()
    }

    /// The transaction with this id: always `None`.
    pub fn get(&self, _txid: &Txid) -> Option<Arc<PoolEntry>> {
        None
    }

    /// The transaction that spends an output: always `None`.
    pub fn spender(&self, _outpoint: &OutPoint) -> Option<Arc<PoolEntry>> {
        None
    }

    /// Allows nonstandard transactions: no effect here.
    pub fn accept_nonstandard(&self) {}

    /// Sets the time after which transactions are removed: no effect here.
    pub fn expire_after(&self, _seconds: u64) {}

    /// Bytes of memory used.
    pub fn memory_bytes(&self) -> usize {
        0
    }

    /// One plus the number of transactions added or removed. Source: Core's `CTxMemPool::GetSequence`.
    pub fn sequence(&self) -> u64 {
        1
    }
}
