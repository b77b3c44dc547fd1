//! Transactions of blocks that were disconnected since the last change of the chain was complete.
//!
//! Transactions that were confirmed last are at the front, and are dropped first if there is no space. So the others
//! can be added, from the end on, without a missing parent. Absent on purpose: coinbases, and whether a transaction is
//! still valid.
//!
//! Source: Bitcoin Core b88bffe, kernel/disconnected_transactions.cpp, `DisconnectedBlockTransactions`.

use primitives::{Block, Txid};
use std::collections::{BTreeMap, HashMap};

/// Maximum bytes of the queue. Source: Core's `MAX_DISCONNECTED_TX_POOL_BYTES`, which counts memory differently.
pub(super) const QUEUE_BYTES_MAX: usize = 20_000_000;
/// Bytes of an item in addition to its transaction.
const ITEM_BYTES: usize = 200;

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    items: BTreeMap<u64, (Txid, Vec<u8>)>,
    places: HashMap<Txid, u64>,
    next: u64,
    bytes: usize,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds a disconnected block; those above it must have been added before.
    pub(super) fn disconnected(&mut self, block: &Block<'_>, bytes_max: usize) {
        let mut txids = Vec::new();
        block.txids_into(&mut txids);
        for at in (1..txids.len()).rev() {
            self.remove(&txids[at]);
            let bytes = block.transaction(at).bytes().to_vec();
            self.bytes += bytes.len() + ITEM_BYTES;
            self.places.insert(txids[at], self.next);
            self.items.insert(self.next, (txids[at], bytes));
            self.next += 1;
        }
        while self.bytes > bytes_max {
            let Some((_, (txid, bytes))) = self.items.pop_first() else { break };
            self.places.remove(&txid);
            self.bytes -= bytes.len() + ITEM_BYTES;
        }
    }

    /// Removes a transaction that is in a block again.
    pub(super) fn remove(&mut self, txid: &Txid) {
        if let Some(place) = self.places.remove(txid)
            && let Some((_, bytes)) = self.items.remove(&place)
        {
            self.bytes -= bytes.len() + ITEM_BYTES;
        }
    }

    /// Takes all of them, the first confirmed first; the queue is then empty.
    pub(super) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(self).items.into_values().rev().map(|(_, bytes)| bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{BlockHash, OutPoint, Tables};
    use testkit::blocks::{Tx, block};

    fn add(queue: &mut Queue, bytes_max: usize, txs: &[Tx]) {
        let all = [&[Tx::coinbase(1, 0)], txs].concat();
        let (bytes, mut tables) = (block(BlockHash::ZERO, 0, &all), Tables::new());
        queue.disconnected(&tables.parse_block(&bytes).unwrap(), bytes_max);
    }

    #[test]
    fn transactions_come_in_the_order_of_the_chain() {
        let coin = |vout| OutPoint { txid: Txid::from_bytes([7; 32]), vout };
        let txs: Vec<Tx> = (0..4).map(|vout| Tx::spend(coin(vout), 1000)).collect();
        let all: Vec<Vec<u8>> = txs.iter().map(Tx::bytes).collect();
        let mut queue = Queue::default();
        add(&mut queue, QUEUE_BYTES_MAX, &txs[2..]);
        add(&mut queue, QUEUE_BYTES_MAX, &txs[..2]);
        queue.remove(&txs[1].txid());
        queue.remove(&txs[1].txid());
        assert_eq!(queue.take(), [&all[0], &all[2], &all[3]].map(Clone::clone));
        assert!(queue.is_empty() && queue.bytes == 0 && queue.places.is_empty());

        // Where there is room for three, the last one of the chain goes.
        let three = 3 * (all[0].len() + ITEM_BYTES);
        add(&mut queue, three, &txs[2..]);
        add(&mut queue, three, &txs[..2]);
        assert_eq!(queue.bytes, three);
        assert_eq!(queue.take(), all[..3]);
        add(&mut queue, 0, &txs);
        assert!(queue.is_empty() && queue.places.is_empty() && queue.bytes == 0);
    }
}
