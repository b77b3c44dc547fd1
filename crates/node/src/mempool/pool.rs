//! Transactions that wait for a block: parents before children, no two spending the same coin.
//!
//! Absent on purpose: whether a transaction is valid (`accept`), locks, the order of mining (the server's).

use super::entry::{CLUSTER_MAX, PoolEntry};
use primitives::{OutPoint, Txid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum weight of a cluster. Source: Bitcoin Core b88bffe, `DEFAULT_CLUSTER_SIZE_LIMIT_KVB`.
const CLUSTER_WEIGHT_MAX: u64 = 101_000 * 4;
/// Bytes of an entry in addition to its transaction, and per input.
const ENTRY_BYTES: usize = 400;
const INPUT_BYTES: usize = 120;

fn memory_bytes(entry: &PoolEntry) -> usize {
    entry.bytes.len() + ENTRY_BYTES + entry.inputs.len() * INPUT_BYTES
}

/// The transactions, in an order in which each may be mined after those before it.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    entries: BTreeMap<u64, Arc<PoolEntry>>,
    places: HashMap<Txid, u64>,
    spenders: BTreeMap<OutPoint, Txid>,
    next: u64,
    bytes: usize,
    /// Fee deltas that RPC calls set; the transactions need not be here, and no delta is 0. As in Core their number has
    /// no bound, because only users with the RPC password set them.
    fee_deltas: BTreeMap<Txid, i64>,
}

impl Pool {
    /// A pool without transactions, with the fee deltas of another one.
    pub(super) fn with_deltas_of(other: &Pool) -> Pool {
        Pool { fee_deltas: other.fee_deltas.clone(), ..Pool::default() }
    }

    /// Whether it has neither transactions nor fee deltas.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.fee_deltas.is_empty()
    }

    /// The fee delta of a transaction.
    pub(super) fn fee_delta(&self, txid: &Txid) -> i64 {
        self.fee_deltas.get(txid).copied().unwrap_or(0)
    }

    /// Transactions with a fee delta, by id.
    pub(super) fn fee_deltas(&self) -> impl Iterator<Item = (Txid, i64)> {
        self.fee_deltas.iter().map(|(txid, delta)| (*txid, *delta))
    }

    /// Adds satoshis to the fee of a transaction, here or not. Source: Core's `PrioritiseTransaction`.
    pub(super) fn add_to_fee(&mut self, txid: Txid, satoshis: i64) {
        let delta = self.fee_delta(&txid).saturating_add(satoshis);
        match delta {
            0 => self.fee_deltas.remove(&txid),
            _ => self.fee_deltas.insert(txid, delta),
        };
        if let Some(entry) = self.places.get(&txid).and_then(|place| self.entries.get_mut(place)) {
            *entry = Arc::new(PoolEntry { fee_delta: delta, ..PoolEntry::clone(entry) });
        }
    }

    /// Forgets the fee delta of a transaction. Source: Core's `ClearPrioritisation`.
    pub(super) fn forget_delta(&mut self, txid: &Txid) {
        self.fee_deltas.remove(txid);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<PoolEntry>> {
        self.entries.values()
    }

    pub(super) fn get(&self, txid: &Txid) -> Option<&Arc<PoolEntry>> {
        self.entries.get(self.places.get(txid)?)
    }

    /// The transaction that spends an output.
    pub(super) fn spender(&self, outpoint: &OutPoint) -> Option<&Arc<PoolEntry>> {
        self.get(self.spenders.get(outpoint)?)
    }

    /// Adds a transaction after all others.
    ///
    /// # Panics
    ///
    /// If it is present already, or spends a coin that another one spends.
    pub(super) fn insert(&mut self, entry: Arc<PoolEntry>) {
        for outpoint in &entry.inputs {
            let taken = self.spenders.insert(*outpoint, entry.txid);
            assert!(taken.is_none(), "a coin is spent once");
        }
        self.bytes += memory_bytes(&entry);
        let known = self.places.insert(entry.txid, self.next);
        assert!(known.is_none(), "a transaction is here once");
        self.entries.insert(self.next, entry);
        self.next += 1;
    }

    /// Removes a transaction that is in a block; its children stay. Returns whether it was present.
    pub(super) fn remove(&mut self, txid: &Txid) -> bool {
        let entry = self.places.remove(txid).and_then(|place| self.entries.remove(&place));
        let Some(entry) = entry else { return false };
        for outpoint in &entry.inputs {
            self.spenders.remove(outpoint);
        }
        self.bytes -= memory_bytes(&entry);
        true
    }

    /// The transactions that spend outputs of a transaction, which need not be in the pool itself.
    fn children(&self, txid: Txid) -> impl Iterator<Item = Txid> {
        let outputs = OutPoint { txid, vout: 0 }..=OutPoint { txid, vout: u32::MAX };
        self.spenders.range(outputs).map(|(_, child)| *child)
    }

    /// Removes a transaction and its descendants; returns their number. Source: Core's `removeRecursive`.
    pub(super) fn remove_with_descendants(&mut self, txid: Txid) -> u64 {
        let mut waiting = vec![txid];
        let mut removed = 0;
        while let Some(txid) = waiting.pop() {
            let children: Vec<Txid> = self.children(txid).collect();
            waiting.extend(children);
            removed += u64::from(self.remove(&txid));
        }
        removed
    }

    /// Whether a transaction that spends these outputs fits in its cluster's limits.
    pub(super) fn has_room_in_cluster(&self, inputs: &[OutPoint], adjusted_weight: u64) -> bool {
        let mut waiting: Vec<Txid> = inputs.iter().map(|outpoint| outpoint.txid).collect();
        let mut cluster = BTreeSet::new();
        let mut weight = adjusted_weight;
        while let Some(txid) = waiting.pop() {
            let Some(entry) = self.get(&txid).filter(|_| cluster.insert(txid)) else { continue };
            weight += entry.adjusted_weight();
            if cluster.len() >= CLUSTER_MAX || weight > CLUSTER_WEIGHT_MAX {
                return false;
            }
            waiting.extend(entry.inputs.iter().map(|outpoint| outpoint.txid));
            waiting.extend(self.children(txid));
        }
        weight <= CLUSTER_WEIGHT_MAX
    }

    #[cfg(test)]
    pub(super) fn invariants(&self) {
        let mut before = BTreeSet::new();
        for (place, entry) in &self.entries {
            assert_eq!(self.places.get(&entry.txid), Some(place));
            for outpoint in &entry.inputs {
                assert_eq!(self.spenders.get(outpoint), Some(&entry.txid));
                assert!(before.contains(&outpoint.txid) || self.get(&outpoint.txid).is_none(), "parents come first");
            }
            before.insert(entry.txid);
        }
        let inputs: usize = self.entries().map(|entry| entry.inputs.len()).sum();
        let bytes: usize = self.entries().map(|entry| memory_bytes(entry)).sum();
        assert_eq!((self.places.len(), self.spenders.len(), self.bytes), (self.entries.len(), inputs, bytes));
    }
}
