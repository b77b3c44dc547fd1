//! Transactions from disconnected blocks: those that the new chain lacks wait here until a block contains them. On
//! regtest, RPC calls add some too ([`Mempool::offer`]).
//!
//! Peers do not add transactions. Unless blocks were disconnected or calls were made, it is empty, and costs one check
//! of a flag per block. It is not written to disk. A job without a [`crate::handle::Handle`] has no mempool.
//!
//! Disconnected blocks go into a queue. When the chain is at rest again, `Mempool::rest` checks the transactions that
//! the new blocks do not contain, with the coins of the new tip, then those that were waiting before. Core does this
//! when the new chain first exceeds the old one, before it connects the rest of a longer chain: a coinbase that matures
//! only at the end is too young there.
//!
//! Source: Bitcoin Core b88bffe, `Chainstate::MaybeUpdateMempoolForReorg`, `CTxMemPool::removeForBlock`,
//! `removeForReorg`.

#[cfg(test)]
mod tests;

use super::accept::{self, Next, Origin, Refusal, Standard};
use super::entry::PoolEntry;
use super::policy;
use super::pool::Pool;
use super::queue::{QUEUE_BYTES_MAX, Queue};
use crate::threads::locks::lock;
use kernels::Kernels;
use primitives::{OutPoint, Tables, Txid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// Maximum memory of waiting transactions: a full queue fits, including the overhead. Core's `-maxmempool` is larger.
const POOL_BYTES_MAX: usize = 3 * QUEUE_BYTES_MAX;
/// Seconds after which a transaction is removed. Source: Core's `DEFAULT_MEMPOOL_EXPIRY_HOURS`.
const EXPIRY_S: u64 = 336 * 3600;

/// What to do with a transaction from a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// Check it.
    Test,
    /// Check it, and add it if it is valid.
    Take,
}

/// A transaction with dust outputs: it is accepted only without a fee, so its fee may not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HasDust;

fn has_dust(entry: &PoolEntry) -> bool {
    Tables::new().parse_transaction(&entry.bytes).is_ok_and(|tx| policy::dust_outputs(&tx) != 0)
}

/// Transactions that wait for a block.
#[derive(Debug)]
pub struct Mempool {
    /// Whether queue and pool are empty.
    is_empty: AtomicBool,
    state: Mutex<MempoolState>,
    /// Maximum memory of waiting transactions.
    bytes_max: usize,
    /// `-acceptnonstdtxn`.
    accepts_nonstandard: AtomicBool,
    /// `-mempoolexpiry`, in seconds.
    expiry_s: AtomicU64,
}

#[derive(Debug, Default)]
struct MempoolState {
    queue: Queue,
    pool: Pool,
    /// Whether blocks were disconnected since the last check.
    is_stale: bool,
    /// Number of transactions added or removed. Source: Core's `m_sequence_number`, less one.
    changes: u64,
}

impl Default for Mempool {
    fn default() -> Mempool {
        Mempool {
            is_empty: AtomicBool::new(true),
            state: Mutex::default(),
            bytes_max: POOL_BYTES_MAX,
            accepts_nonstandard: AtomicBool::new(false),
            expiry_s: AtomicU64::new(EXPIRY_S),
        }
    }
}

impl Mempool {
    /// The pool, if the chain is at rest: between two chains it is unknown which transactions may still be mined.
    fn settled(&self) -> Option<MutexGuard<'_, MempoolState>> {
        (!self.is_empty.load(Relaxed)).then(|| lock(&self.state)).filter(|state| !state.is_stale)
    }

    /// All waiting transactions, parents before children; empty while blocks are disconnected.
    pub fn entries(&self) -> Vec<Arc<PoolEntry>> {
        self.settled().map_or_else(Vec::new, |state| state.pool.entries().cloned().collect())
    }

    /// The transaction with this id.
    pub fn get(&self, txid: &Txid) -> Option<Arc<PoolEntry>> {
        self.settled()?.pool.get(txid).cloned()
    }

    /// The transaction that spends an output.
    pub fn spender(&self, outpoint: &OutPoint) -> Option<Arc<PoolEntry>> {
        self.settled()?.pool.spender(outpoint).cloned()
    }

    /// Approximate bytes of memory used.
    pub fn memory_bytes(&self) -> usize {
        lock(&self.state).pool.memory_bytes()
    }

    /// One plus the number of transactions added or removed. Source: Core's `CTxMemPool::GetSequence`.
    pub fn sequence(&self) -> u64 {
        1 + lock(&self.state).changes
    }

    /// From now on transactions need not be standard. Source: Core's `-acceptnonstdtxn`.
    pub fn accept_nonstandard(&self) {
        self.accepts_nonstandard.store(true, Relaxed);
    }

    /// From now on a transaction is removed after this number of seconds. Source: Core's `-mempoolexpiry`.
    pub fn expire_after(&self, seconds: u64) {
        self.expiry_s.store(seconds, Relaxed);
    }

    /// Removes transactions that have waited too long, with their descendants; returns their number. Source: Core's
    /// `CTxMemPool::Expire`.
    fn expire(&self, pool: &mut Pool, now: u64) -> u64 {
        let expiry_s = self.expiry_s.load(Relaxed);
        let is_old = |entry: &&Arc<PoolEntry>| entry.time.saturating_add(expiry_s) < now;
        let old: Vec<Txid> = pool.entries().filter(is_old).map(|entry| entry.txid).collect();
        old.into_iter().map(|txid| pool.remove_with_descendants(txid)).sum()
    }

    fn standard(&self) -> Standard {
        if self.accepts_nonstandard.load(Relaxed) { Standard::NotRequired } else { Standard::Required }
    }

    /// Checks transactions from a call, each after those before it, up to the first that is refused. With
    /// [`Offer::Take`] the valid ones are added. `coin` is as in [`Mempool::rest`]; the chain must be at rest.
    ///
    /// # Errors
    ///
    /// Errors of `coin`.
    pub(crate) fn offer<E>(
        &self,
        offered: &[Vec<u8>],
        offer: Offer,
        next: &Next<'_>,
        coin: impl Fn(&OutPoint) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Vec<Result<Arc<PoolEntry>, Refusal>>, E> {
        let mut state = lock(&self.state);
        let MempoolState { pool, changes, .. } = &mut *state;
        let takes = offer == Offer::Take;
        // If several are only checked, each may spend outputs of those before it, so they are added to a copy.
        let mut copy = (!takes && offered.len() > 1).then(|| pool.clone());
        let adds = takes || copy.is_some();
        let pool = copy.as_mut().unwrap_or(pool);
        let mut results = Vec::new();
        for bytes in offered {
            let judged = accept::judge(bytes, Origin::Given, self.standard(), pool, next, &coin)?;
            let judged = judged.and_then(|entry| match pool.memory_bytes() + bytes.len() < self.bytes_max {
                true => Ok(Arc::new(entry)),
                false => Err(Refusal::full()),
            });
            let is_valid = judged.is_ok();
            if let Ok(entry) = &judged
                && adds
            {
                pool.insert(entry.clone());
            }
            results.push(judged);
            if !is_valid {
                break;
            }
        }
        if takes {
            *changes += results.iter().filter(|judged| judged.is_ok()).count() as u64;
            *changes += self.expire(pool, next.now);
            self.note_whether_empty(&state);
        }
        Ok(results)
    }

    /// Adds satoshis to the fee that decides when a transaction is mined; it need not be here. The chain must be at rest.
    /// Source: Core's `PrioritiseTransaction`, and the rule of `prioritisetransaction` before it.
    ///
    /// # Errors
    ///
    /// [`HasDust`], if the transaction is here and must be standard.
    pub fn prioritise(&self, txid: Txid, satoshis: i64) -> Result<(), HasDust> {
        let mut state = lock(&self.state);
        if self.standard() == Standard::Required
            && let Some(entry) = state.pool.get(&txid)
            && has_dust(entry)
        {
            return Err(HasDust);
        }
        state.pool.add_to_fee(txid, satoshis);
        self.note_whether_empty(&state);
        Ok(())
    }

    /// Transactions with a fee delta, by id, with the delta.
    pub fn fee_deltas(&self) -> Vec<(Txid, i64)> {
        if self.is_empty.load(Relaxed) { Vec::new() } else { lock(&self.state).pool.fee_deltas().collect() }
    }

    /// Another set of coins is used: transactions that waited for a block on the old one are dropped.
    pub(crate) fn clear(&self) {
        let mut state = lock(&self.state);
        let changes = state.changes + state.pool.entries().count() as u64;
        let pool = Pool::with_deltas_of(&state.pool);
        *state = MempoolState { changes, pool, ..MempoolState::default() };
        self.note_whether_empty(&state);
    }

    /// The last block of the chain was disconnected.
    pub(crate) fn disconnected(&self, block: &[u8]) {
        let mut tables = Tables::with(Kernels::PLAIN);
        let Ok(block) = tables.parse_block(block) else { return };
        let mut state = lock(&self.state);
        state.queue.disconnected(&block, QUEUE_BYTES_MAX);
        state.is_stale = true;
        self.note_whether_empty(&state);
    }

    /// A block was connected: removes its transactions, expired ones, and those that conflict with it, with descendants.
    pub(crate) fn connected(&self, block: &[u8], txids: &[Txid], now: u64) {
        if self.is_empty.load(Relaxed) {
            return;
        }
        let mut tables = Tables::new();
        let Ok(block) = tables.parse_block(block) else { return };
        let mut state = lock(&self.state);
        let MempoolState { queue, pool, changes, .. } = &mut *state;
        for (tx, txid) in block.transactions().zip(txids) {
            queue.remove(txid);
            *changes += u64::from(pool.remove(txid));
            pool.forget_delta(txid);
            for input in tx.inputs() {
                if let Some(loser) = pool.spender(&input.prevout()).map(|entry| entry.txid) {
                    pool.forget_delta(&loser);
                    *changes += pool.remove_with_descendants(loser);
                }
            }
        }
        *changes += self.expire(pool, now);
        self.note_whether_empty(&state);
    }

    /// Whether [`Mempool::rest`] has something to judge.
    pub(crate) fn is_stale(&self) -> bool {
        !self.is_empty.load(Relaxed) && lock(&self.state).is_stale
    }

    /// The chain is at rest after blocks were disconnected. With `adds`, adds their transactions that may be mined
    /// next; without it, they are too many and dropped. Then keeps those of the waiting transactions that are still
    /// valid. `coin` returns the stored bytes of a coin of the tip's UTXO set. No block may be connected meanwhile.
    ///
    /// # Errors
    ///
    /// Errors of `coin`.
    pub(crate) fn rest<E>(
        &self,
        adds: bool,
        next: &Next<'_>,
        coin: impl Fn(&OutPoint) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<(), E> {
        let mut pool = Pool::with_deltas_of(&lock(&self.state).pool);
        let (queued, old) = {
            let mut state = lock(&self.state);
            state.is_stale = false;
            (state.queue.take(), state.pool.entries().cloned().collect::<Vec<_>>())
        };
        let standard = self.standard();
        let mut come = 0;
        for bytes in queued.iter().filter(|_| adds) {
            if let Ok(entry) = accept::judge(bytes, Origin::Disconnected, standard, &pool, next, &coin)?
                && pool.memory_bytes() + bytes.len() < self.bytes_max
            {
                pool.insert(Arc::new(entry));
                come += 1;
            }
        }
        let mut stayed = 0;
        for known in &old {
            if let Ok(entry) = accept::judge(&known.bytes, Origin::Waiting(known), standard, &pool, next, &coin)?
                && pool.memory_bytes() + known.bytes.len() < self.bytes_max
            {
                pool.insert(Arc::new(entry));
                stayed += 1;
            }
        }
        let mut state = lock(&self.state);
        state.pool = pool;
        state.changes += come + (old.len() as u64 - stayed);
        self.note_whether_empty(&state);
        Ok(())
    }

    fn note_whether_empty(&self, state: &MempoolState) {
        self.is_empty.store(state.queue.is_empty() && state.pool.is_empty(), Relaxed);
    }
}
