//! Look-ups in the optional indexes and in the coins by other threads, while a job works.
//!
//! An index answers from its last commit; a caller that needs the latest blocks asks the job to commit first
//! (`Quiet::flush`). The silent payment look-ups have no counterpart in Core.
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

/// Size of a header in bytes.
const HEADER_BYTES: usize = 80;

impl Live {
    fn index_db(&self, kind: IndexKind) -> Option<IndexDb> {
        self.indexing.get()?.db(kind)
    }

    /// Whether an index is maintained.
    pub fn has_index(&self, kind: IndexKind) -> bool {
        self.index_db(kind).is_some()
    }

    /// The best block of an index, as committed; `None` before genesis, and for an index that is not maintained.
    ///
    /// # Errors
    ///
    /// A damaged table or record, or an I/O error.
    pub fn indexed_tip(&self, kind: IndexKind) -> Result<Option<NodeId>, Fault> {
        let Some(db) = self.index_db(kind) else { return Ok(None) };
        let best = db.best_block()?;
        Ok(best.and_then(|best| self.index.headers().find(&best)))
    }

    /// A transaction and its block, from txindex. A block of the active chain is preferred, then the one connected
    /// last.
    ///
    /// # Errors
    ///
    /// A damaged table or record, a block that cannot be read, or an I/O error.
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
    /// Those of [`Live::transaction`].
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

    /// The filter of a block, and its filter header; `None` if the index does not have it.
    ///
    /// # Errors
    ///
    /// Those of [`Live::transaction`], for the filter files.
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

    /// The filter header of a block; `None` if the index does not have it.
    ///
    /// # Errors
    ///
    /// Those of [`Live::indexed_tip`].
    pub fn filter_header(&self, id: NodeId) -> Result<Option<Hash256>, Fault> {
        let Some(db) = self.index_db(IndexKind::BlockFilter) else { return Ok(None) };
        Ok(self.filter_row(&db, id)?.map(|row| row.header))
    }

    fn filter_row(&self, db: &IndexDb, id: NodeId) -> Result<Option<FilterRow>, Fault> {
        let (hash, height) = self.hash_and_height(id);
        Ok(stored_row(db, hash, height, FilterRow::decode)?)
    }

    /// Statistics of the UTXO set after a block; `None` if coinstatsindex does not have it.
    ///
    /// # Errors
    ///
    /// Those of [`Live::indexed_tip`].
    pub fn set_stats(&self, id: NodeId) -> Result<Option<StatsRow>, Fault> {
        let Some(db) = self.index_db(IndexKind::CoinStats) else { return Ok(None) };
        let (hash, height) = self.hash_and_height(id);
        Ok(stored_row(&db, hash, height, StatsRow::decode)?)
    }

    /// The transactions of a block that may be silent payments; `None` if silentpaymentindex does not have it.
    ///
    /// # Errors
    ///
    /// Those of [`Live::indexed_tip`].
    pub fn silent_entries(&self, id: NodeId) -> Result<Option<Vec<Entry>>, Fault> {
        let Some(db) = self.index_db(IndexKind::SilentPayments) else { return Ok(None) };
        let (hash, height) = self.hash_and_height(id);
        silent_entries(&db, hash, height)
    }

    /// These transactions of a block, with their txids and outputs; `None` if the block is missing or pruned.
    ///
    /// # Errors
    ///
    /// Those of [`Live::transaction`].
    pub fn silent_transactions(&self, id: NodeId, entries: &[Entry]) -> Result<Option<Vec<SilentTx>>, Fault> {
        let Some(db) = self.index_db(IndexKind::SilentPayments) else { return Ok(None) };
        let Some(bytes) = self.block(id)? else { return Ok(None) };
        silent_transactions(&db, self.index.headers().hash(id), &bytes, entries).map(Some)
    }

    fn hash_and_height(&self, id: NodeId) -> (primitives::BlockHash, primitives::Height) {
        let headers = self.index.headers();
        (headers.hash(id), headers.height(id))
    }

    /// Reads only `bytes` bytes of a block, starting at `from`. The outer `None`: the block is missing or pruned. The
    /// inner `None`: the range exceeds the block.
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
            // The block may have been pruned meanwhile.
            Err(_) if self.index.read().place(id).is_none() => Ok(None),
            Err(why) => Err(why.into()),
        }
    }
}

/// The transaction at `offset`, if it has this txid.
fn transaction_at(block: &[u8], offset: usize, txid: &Txid) -> Option<Vec<u8>> {
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(block.get(offset..)?).ok()?;
    (tx.txid() == *txid).then(|| tx.bytes().to_vec())
}

/// Counts and hashes the coins of a view with `par` threads. The caller fills in height and best block.
///
/// # Errors
///
/// A damaged table or coin, or an I/O error.
pub fn set_info(view: &CoinsView, hash: SetHash, par: usize) -> Result<SetInfo, Fault> {
    crate::utxo_stats::setinfo::set_info(view, hash, false, par)
}

/// Passes every coin of a view to `take`, in key order and with its stored bytes, until `take` returns `false`.
///
/// # Errors
///
/// A damaged table, or an I/O error.
pub fn walk_coins(view: &CoinsView, mut take: impl FnMut(OutPoint, &[u8]) -> bool) -> Result<(), Fault> {
    let mut coins = view.coins()?;
    while let Some((outpoint, stored)) = coins.next_coin()? {
        if !take(outpoint, stored) {
            break;
        }
    }
    Ok(())
}

/// Decodes a stored coin of a view.
///
/// # Errors
///
/// The stored bytes are not a valid coin.
pub fn decode_coin<'c>(view: &CoinsView, outpoint: &OutPoint, stored: &'c [u8]) -> Result<CoinRef<'c>, Fault> {
    Ok(crate::utxo_stats::setinfo::decode(view, outpoint, stored)?)
}
