//! The txids of a chain being generated, by number of the transaction.
//!
//! A thread that needs a txid blocks until it is available. Work is distributed in the order of the chain, so the
//! thread that makes the txid only waits for earlier ones: deadlock is impossible.

use primitives::Txid;
use std::sync::OnceLock;

/// Txids in a chunk; the table has chunks so that it grows without moving.
const CHUNK: usize = 1 << 14;
/// Chunks for every number that fits in 32 bits.
const CHUNKS: usize = u32::MAX as usize / CHUNK + 1;

/// All txids, with 36 bytes of memory for each.
#[derive(Debug)]
pub(super) struct Ids(Vec<OnceLock<Box<[OnceLock<Txid>]>>>);

impl Ids {
    pub(super) fn new() -> Ids {
        Ids((0..CHUNKS).map(|_| OnceLock::new()).collect())
    }

    fn slot(&self, tx: u32) -> &OnceLock<Txid> {
        let tx = tx as usize;
        let chunk = self.0[tx / CHUNK].get_or_init(|| (0..CHUNK).map(|_| OnceLock::new()).collect());
        &chunk[tx % CHUNK]
    }

    /// Publishes the txid of a transaction, once.
    pub(super) fn set(&self, tx: u32, txid: Txid) {
        self.slot(tx).set(txid).expect("each transaction is made once");
    }

    /// Waits for the txid of a transaction that a thread is making or has made.
    pub(super) fn wait(&self, tx: u32) -> Txid {
        *self.slot(tx).wait()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn txid_lookup_waits_until_it_is_set() {
        let ids = Ids::new();
        let numbers = [0, CHUNK as u32 - 1, CHUNK as u32, u32::MAX];
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| numbers.map(|tx| ids.wait(tx).as_bytes()[0]));
            for (i, tx) in numbers.into_iter().enumerate().rev() {
                ids.set(tx, Txid::from_bytes([i as u8; 32]));
            }
            assert_eq!(waiter.join().unwrap(), [0, 1, 2, 3]);
        });
    }
}
