//! The mempool of a program that keeps no transactions: its answers are those of an empty one.

use super::PoolEntry;
use primitives::{OutPoint, Txid};
use std::sync::Arc;

/// No transaction waits, at any time.
#[derive(Debug, Default)]
pub struct Mempool;

impl Mempool {
    /// All that wait: none.
    pub fn entries(&self) -> Vec<Arc<PoolEntry>> {
        Vec::new()
    }

    /// One of them: none.
    pub fn get(&self, _txid: &Txid) -> Option<Arc<PoolEntry>> {
        None
    }

    /// The one that spends an output: none.
    pub fn spender(&self, _outpoint: &OutPoint) -> Option<Arc<PoolEntry>> {
        None
    }

    /// Transactions need not be standard: there are none.
    pub fn accept_nonstandard(&self) {}

    /// Memory that they take.
    pub fn memory_bytes(&self) -> usize {
        0
    }

    /// One, and one more for each transaction that came or went. Source: Core's `CTxMemPool::GetSequence`.
    pub fn sequence(&self) -> u64 {
        1
    }
}
