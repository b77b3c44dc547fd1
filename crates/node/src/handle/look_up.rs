//! Look-ups in the optional indexes and in the coins, for other threads while a job works.
//!
//! An index answers for what was committed of it: who wants the last blocks asks the job to commit first (`Quiet::flush`).
//! Those of silent payments are of no call of Core's.
//! Source: Bitcoin Core b88bffe, index/txindex.cpp (`FindTx`), index/txospenderindex.cpp (`FindSpender`),
//! index/blockfilterindex.cpp, index/coinstatsindex.cpp.

use super::Live;
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::indexing::{SilentTx, silent_entries, silent_transactions, spender_places, stored_row, tx_places};
use crate::utxo_stats::{SetHash, SetInfo};
use indexes::IndexKind;
use indexes::coinstats::StatsRow;
use indexes::heights::FilterRow;
use indexes::silentpayments::Entry;
use primitives::{CoinRef, Hash256, Header, OutPoint, Tables, Txid};
use store::FilePos;
use store::chainstate::CoinsView;
use store::indexes::{IndexDb, read_filter};

/// Bytes of a header.
const HEADER_BYTES: usize = 80;

impl Live {
    fn index_db(&self, kind: IndexKind) -> Option<IndexDb> {
        self.indexing.get()?.db(kind)
    }

    /// Whether an index is kept.
    pub fn has_index(&self, kind: IndexKind) -> bool {
        self.index_db(kind).is_some()
    }

    /// The block that an index stands at, as far as it is committed; `None` before genesis, and for an index that is not kept.
    ///
    /// # Errors
    ///
    /// A damaged table or record, or what the system says.
    pub fn indexed_tip(&self, kind: IndexKind) -> Result<Option<NodeId>, Fault> {
        let Some(db) = self.index_db(kind) else { return Ok(None) };
        let best = db.best_block()?;
        Ok(best.and_then(|best| self.index.headers().find(&best)))
    }

    /// A transaction and its block, by txindex: of the active chain first, then what was connected last.
    ///
    /// # Errors
    ///
    /// A damaged table or record, a block that cannot be read, or what the system says.
    pub fn transaction(&self, txid: &Txid) -> Result<Option<(Vec<u8>, NodeId)>, Fault> {
        let Some(db) = self.index_db(IndexKind::Tx) else { return Ok(None) };
        let (places, legacy) = tx_places(&db, txid)?;
        let mut found: Vec<(bool, u32, NodeId, usize)> = {
            let index = self.index.read();
            let known = places.into_iter().filter_map(|place| {
                let id = index.headers().find(&place.block)?;
                Some((index.is_active(id), place.sequence, id, place.offset))
            });
            known.collect()
        };
        found.sort_by_key(|(is_active, sequence, ..)| std::cmp::Reverse((*is_active, *sequence)));
        for (.., id, offset) in found {
            let Some(block) = self.block(id)? else { continue };
            if let Some(bytes) = transaction_at(&block, offset, txid) {
                return Ok(Some((bytes, id)));
            }
        }
        let Some(pos) = legacy else { return Ok(None) };
        self.writer.write_out_blocks()?;
        let block = self.files.read_block(FilePos { file: pos.file, offset: pos.block })?;
        let id = block.first_chunk().and_then(|header| self.index.headers().find(&Header(*header).hash()));
        let bytes = transaction_at(&block, HEADER_BYTES.saturating_add(pos.tx as usize), txid);
        Ok(bytes.zip(id))
    }

    /// The transaction of the active chain that spends an output, and its block, by txospenderindex.
    ///
    /// # Errors
    ///
    /// As [`Live::transaction`].
    pub fn spender(&self, outpoint: &OutPoint) -> Result<Option<(Vec<u8>, NodeId)>, Fault> {
        let Some(db) = self.index_db(IndexKind::TxoSpender) else { return Ok(None) };
        let places = spender_places(&db, outpoint)?;
        let name = outpoint.to_bytes();
        if !places.is_empty() {
            self.writer.write_out_blocks()?;
        }
        for pos in places {
            let block = self.files.read_block(FilePos { file: pos.file, offset: pos.block })?;
            let id = block.first_chunk().and_then(|header| self.index.headers().find(&Header(*header).hash()));
            let Some(id) = id.filter(|id| self.index.read().is_active(*id)) else { continue };
            let mut tables = Tables::new();
            let from = HEADER_BYTES.saturating_add(pos.tx as usize);
            let tx = block.get(from..).and_then(|bytes| tables.parse_transaction(bytes).ok());
            if let Some(tx) = tx.filter(|tx| tx.inputs().any(|input| *input.prevout_bytes() == name)) {
                return Ok(Some((tx.bytes().to_vec(), id)));
            }
        }
        Ok(None)
    }

    /// The filter of a block, and its filter header; `None` where the index has none of it.
    ///
    /// # Errors
    ///
    /// As [`Live::transaction`], of the filters' files.
    pub fn block_filter(&self, id: NodeId) -> Result<Option<(Vec<u8>, Hash256)>, Fault> {
        let Some(db) = self.index_db(IndexKind::BlockFilter) else { return Ok(None) };
        let Some(row) = self.filter_row(&db, id)? else { return Ok(None) };
        let (of, filter) = read_filter(&*self.disk, &self.layout, row.pos, &row.hash)?;
        let hash = self.index.headers().hash(id);
        if of != hash {
            let found = format!("that of block {of} in fltr{:05}.dat", row.pos.file);
            return Err(db.bad_record(b"t", format!("the filter of block {hash}"), found).into());
        }
        Ok(Some((filter, row.header)))
    }

    /// The filter header of a block; `None` where the index has none of it.
    ///
    /// # Errors
    ///
    /// As [`Live::indexed_tip`].
    pub fn filter_header(&self, id: NodeId) -> Result<Option<Hash256>, Fault> {
        let Some(db) = self.index_db(IndexKind::BlockFilter) else { return Ok(None) };
        Ok(self.filter_row(&db, id)?.map(|row| row.header))
    }

    fn filter_row(&self, db: &IndexDb, id: NodeId) -> Result<Option<FilterRow>, Fault> {
        let (hash, height) = self.hash_and_height(id);
        Ok(stored_row(db, hash, height, FilterRow::decode)?)
    }

    /// Statistics of the set behind a block; `None` where coinstatsindex has none of it.
    ///
    /// # Errors
    ///
    /// As [`Live::indexed_tip`].
    pub fn set_stats(&self, id: NodeId) -> Result<Option<StatsRow>, Fault> {
        let Some(db) = self.index_db(IndexKind::CoinStats) else { return Ok(None) };
        let (hash, height) = self.hash_and_height(id);
        Ok(stored_row(&db, hash, height, StatsRow::decode)?)
    }

    /// The transactions of a block that may pay silently; `None` where silentpaymentindex has none of it.
    ///
    /// # Errors
    ///
    /// As [`Live::indexed_tip`].
    pub fn silent_entries(&self, id: NodeId) -> Result<Option<Vec<Entry>>, Fault> {
        let Some(db) = self.index_db(IndexKind::SilentPayments) else { return Ok(None) };
        let (hash, height) = self.hash_and_height(id);
        silent_entries(&db, hash, height)
    }

    /// These of a block with their ids and outputs; `None` where the block is not there (any more).
    ///
    /// # Errors
    ///
    /// As [`Live::transaction`].
    pub fn silent_transactions(&self, id: NodeId, entries: &[Entry]) -> Result<Option<Vec<SilentTx>>, Fault> {
        let Some(db) = self.index_db(IndexKind::SilentPayments) else { return Ok(None) };
        let Some(bytes) = self.block(id)? else { return Ok(None) };
        silent_transactions(&db, self.index.headers().hash(id), &bytes, entries).map(Some)
    }

    fn hash_and_height(&self, id: NodeId) -> (primitives::BlockHash, primitives::Height) {
        let headers = self.index.headers();
        (headers.hash(id), headers.height(id))
    }

    /// `bytes` bytes of a block from `from` on, read alone. The outer `None`: the block is not there (any more); the inner
    /// one: it has no such part.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no record there.
    pub fn block_part(&self, id: NodeId, from: usize, bytes: usize) -> Result<Option<Option<Vec<u8>>>, Fault> {
        let place = self.index.read().place(id);
        let Some((at, size)) = place.and_then(|at| Some((at.file_pos()?, at.size as usize))) else { return Ok(None) };
        if from.saturating_add(bytes) > size {
            return Ok(Some(None));
        }
        self.writer.write_out_blocks()?;
        match self.files.read_block_part(at, from, bytes) {
            Ok(part) => Ok(Some(part)),
            // Unless it was pruned meanwhile.
            Err(_) if self.index.read().place(id).is_none() => Ok(None),
            Err(why) => Err(why.into()),
        }
    }
}

/// The transaction of this id, where it begins at `offset`.
fn transaction_at(block: &[u8], offset: usize, txid: &Txid) -> Option<Vec<u8>> {
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(block.get(offset..)?).ok()?;
    (tx.txid() == *txid).then(|| tx.bytes().to_vec())
}

/// Counts and hashes the coins of a view with `par` threads. Height and best block are the caller's to fill in.
///
/// # Errors
///
/// A damaged table or coin, or what the system says.
pub fn set_info(view: &CoinsView, hash: SetHash, par: usize) -> Result<SetInfo, Fault> {
    crate::utxo_stats::setinfo::set_info(view, hash, false, par)
}

/// Hands every coin of a view to `take`, in the order of their keys, with its stored bytes, until that says `false`.
///
/// # Errors
///
/// A damaged table, or what the system says.
pub fn walk_coins(view: &CoinsView, mut take: impl FnMut(OutPoint, &[u8]) -> bool) -> Result<(), Fault> {
    let mut coins = view.coins()?;
    while let Some((outpoint, stored)) = coins.next_coin()? {
        if !take(outpoint, stored) {
            break;
        }
    }
    Ok(())
}

/// A stored coin of a view, taken apart.
///
/// # Errors
///
/// The table holds something else under its key.
pub fn decode_coin<'c>(view: &CoinsView, outpoint: &OutPoint, stored: &'c [u8]) -> Result<CoinRef<'c>, Fault> {
    Ok(crate::utxo_stats::setinfo::decode(view, outpoint, stored)?)
}
