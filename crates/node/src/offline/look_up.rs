//! Look-ups in the optional indexes: `tx`, `filter`, `spender`, and `coins info` at a height.
//!
//! Answers of an index are compared with the block that they name, so that a damaged index causes a fault, never a
//! wrong answer. Nothing is written. For silent payments see `silent_payments`. Source: Bitcoin Core b88bffe,
//! rpc/rawtransaction.cpp, rpc/blockchain.cpp, rpc/mempool.cpp.

use crate::datadir::lock::{self, Locked};
use crate::datadir::look::{self, Hold};
use crate::fault::Fault;
use crate::indexing::{spender_places, stored_row, tx_places};
use crate::options::Options;
use crate::reporting::Events;
use indexes::coinstats::StatsRow;
use indexes::heights::{self, FilterRow};
use indexes::txindex::DiskTxPos;
use indexes::{IndexKind, txindex};
use primitives::undo::spent_coins;
use primitives::{BlockHash, CoinRef, Hash256, Header, Height, OutPoint, Tables, Txid, coin};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use store::chainstate::Chainstate;
use store::index::{BlockTreeDb, IndexEntry};
use store::indexes::{IndexDb, read_filter, rebuild_advice, root};
use store::undofiles::UndoFiles;
use store::{FaultKind, FilePos, Network};

/// Bytes of a header.
const HEADER_BYTES: usize = 80;
/// Maximum of entries that are read one by one, from the tip down; reading all of them takes a second on mainnet.
const NEAR_MAX: u32 = 20_000;

/// A transaction from an index.
#[derive(Clone, Debug)]
pub struct FoundTx {
    /// Its id.
    pub txid: Txid,
    /// Its bytes, with witnesses.
    pub bytes: Vec<u8>,
    /// Hash of its block.
    pub block: BlockHash,
    /// Height of that block.
    pub height: Height,
    /// Time of that block.
    pub time: u32,
    /// Blocks from its own up to the tip; 0 off the active chain.
    pub confirmations: u32,
    /// The stored coins that its inputs spend, if there is undo data; `None` for a coinbase.
    pub spent: Option<Vec<Vec<u8>>>,
}

/// A block's filter.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The block.
    pub block: BlockHash,
    /// Its height.
    pub height: Height,
    /// The filter.
    pub filter: Vec<u8>,
    /// Its filter header.
    pub header: Hash256,
}

/// The spender of an output.
#[derive(Clone, Copy, Debug)]
pub struct Spender {
    /// The output.
    pub outpoint: OutPoint,
    /// The transaction that spends it, and its block; `None` if it is unspent in the active chain.
    pub spent_by: Option<(Txid, BlockHash)>,
}

/// Statistics of the UTXO set at a block, and the changes of that block.
#[derive(Clone, Debug)]
pub struct SetAt {
    /// The block.
    pub block: BlockHash,
    /// Its height.
    pub height: Height,
    /// The set after the block.
    pub row: StatsRow,
    /// The set before the block; all zeros before genesis.
    pub before: StatsRow,
}

/// A data directory, opened for look-ups.
///
/// Entries of the block index are read one by one, on demand: mainnet has a million. The active chain is read from the
/// rows by height of an index whose best block is on it, near the tip. Above that index, and without one, entries are
/// read from the tip down; if those would be too many, all entries are read.
pub(super) struct View {
    pub(super) locked: Locked,
    pub(super) coins: Chainstate,
    index: BlockTreeDb,
    network: Network,
    pub(super) tip: IndexEntry,
    /// An index with rows by height, and the height of its best block, which is active.
    rows: Option<(IndexDb, Height)>,
    /// Hashes of the active chain from the tip down, read so far.
    upper: RefCell<Vec<BlockHash>>,
    /// The active chain, by height, if all entries were read.
    active: OnceCell<Vec<BlockHash>>,
}

impl View {
    pub(super) fn open(options: &Options) -> Result<View, Fault> {
        let dir = lock::layout(options).index_dir();
        let nothing = || {
            let advice = "Make one: ffwd sync, or ffwd repair where block files are";
            Fault::from(store::Fault::new(FaultKind::Missing, &dir, "a block index and a chainstate", "none", advice))
        };
        if lock::is_unused(options)? {
            return Err(nothing());
        }
        let locked = look::open(options, Hold::Nothing)?;
        let coins_dir = locked.layout.chainstate_dir();
        let has_coins = Chainstate::exists(&*locked.disk, &coins_dir)?;
        if !has_coins || !BlockTreeDb::exists(&*locked.disk, &locked.layout)? {
            return Err(nothing());
        }
        let index = BlockTreeDb::open_read_only(&locked.host, &locked.layout)?;
        let network = lock::network(&options.params);
        index.check_genesis(&network)?;
        let coins = Chainstate::open_read_only(&locked.host, &coins_dir)?;
        let best = super::complete_best(&coins, &coins_dir)?.unwrap_or(options.params.genesis_hash);
        let tip = index.find(&network, &best)?.ok_or_else(|| super::apart(best))?;
        let upper = RefCell::new(vec![best]);
        let mut view = View { locked, coins, index, network, tip, rows: None, upper, active: OnceCell::new() };
        for kind in [IndexKind::BlockFilter, IndexKind::CoinStats, IndexKind::SilentPayments] {
            // A damaged index is reported by the look-ups that need it.
            let db = IndexDb::open_read_only(&view.locked.host, &view.locked.layout, kind).unwrap_or(None);
            let at = db.as_ref().map(|db| view.active_best(db)).transpose()?.flatten();
            if at > view.rows.as_ref().map(|(_, at)| *at) {
                view.rows = db.zip(at);
            }
        }
        Ok(view)
    }

    /// Height of an index's best block, if it is on the active chain and near the tip.
    fn active_best(&self, db: &IndexDb) -> Result<Option<Height>, Fault> {
        let Ok(Some(best)) = db.best_block() else { return Ok(None) };
        let Some(entry) = self.entry(&best)? else { return Ok(None) };
        Ok((self.near_tip(entry.height)? == Some(best)).then_some(entry.height))
    }

    /// Hash of the active block at a height near the tip; `None` far below it, and above.
    fn near_tip(&self, height: Height) -> Result<Option<BlockHash>, Fault> {
        let Some(below) = self.tip.height.to_u32().checked_sub(height.to_u32()).filter(|below| *below <= NEAR_MAX)
        else {
            return Ok(None);
        };
        let mut upper = self.upper.borrow_mut();
        while upper.len() <= below as usize {
            let child = upper[upper.len() - 1];
            let entry = self.entry(&child)?.ok_or_else(|| super::apart(child))?;
            upper.push(entry.header.prev());
        }
        Ok(Some(upper[below as usize]))
    }

    pub(super) fn entry(&self, hash: &BlockHash) -> Result<Option<IndexEntry>, Fault> {
        Ok(self.index.find(&self.network, hash)?)
    }

    /// The active chain, from all entries.
    fn active(&self) -> Result<&[BlockHash], Fault> {
        if let Some(active) = self.active.get() {
            return Ok(active);
        }
        let loaded = self.index.load(&self.network)?;
        let parents: HashMap<BlockHash, BlockHash> =
            loaded.entries.iter().map(|entry| (entry.hash, entry.header.prev())).collect();
        let below = |hash: &BlockHash| parents.get(hash).copied().filter(|prev| parents.contains_key(prev));
        let mut active: Vec<BlockHash> = std::iter::successors(Some(self.tip.hash), below).collect();
        active.reverse();
        Ok(self.active.get_or_init(|| active))
    }

    /// Hash of the block at a height of the active chain.
    pub(super) fn active_at(&self, height: Height) -> Result<Option<BlockHash>, Fault> {
        if height > self.tip.height {
            return Ok(None);
        }
        let rows = self.rows.as_ref().filter(|(_, at)| height <= *at);
        let row = rows.and_then(|(db, _)| db.get(&heights::height_key(height)).ok().flatten());
        if let Some(Ok((hash, _))) = row.as_deref().map(heights::split_value) {
            return Ok(Some(hash));
        }
        match self.near_tip(height)? {
            Some(hash) => Ok(Some(hash)),
            None => Ok(self.active()?.get(height.to_usize()).copied()),
        }
    }

    pub(super) fn db(&self, kind: IndexKind) -> Result<IndexDb, Fault> {
        let db = IndexDb::open_read_only(&self.locked.host, &self.locked.layout, kind)?;
        db.ok_or_else(|| {
            let name = kind.name();
            let advice = format!("Run ffwd index --only {}", kind.name());
            let root = root(&self.locked.layout, kind);
            store::Fault::new(FaultKind::Missing, &root, name, "nothing", advice).into()
        })
    }

    fn is_active(&self, entry: &IndexEntry) -> Result<bool, Fault> {
        Ok(self.active_at(entry.height)? == Some(entry.hash))
    }

    /// Refuses an index that lacks blocks of the chain: a missing answer would mean nothing.
    pub(super) fn check_synced(&self, db: &IndexDb) -> Result<(), Fault> {
        let best = db.best_block()?;
        if best == Some(self.tip.hash) {
            return Ok(());
        }
        let height = best.map(|best| self.entry(&best)).transpose()?.flatten().map(|entry| entry.height);
        let stands = height.map_or("at no block of it".to_owned(), |height| format!("at height {height}"));
        let name = db.kind().name();
        let tip = self.tip.height;
        let why = format!("{name} is {stands}, the chain at height {tip}");
        Err(Fault::refused(why, format!("Run ffwd index --only {name}")))
    }

    /// The transaction at `offset` of a block, and its id.
    fn read_tx(&self, db: &IndexDb, pos: FilePos, offset: usize) -> Result<(Txid, Vec<u8>, BlockHash), Fault> {
        let bytes = self.locked.files.read_block(pos)?;
        let mut tables = Tables::new();
        let header = bytes.first_chunk().map(|header| Header(*header));
        // The end of the transaction is not known: parsing the block gives the offsets of its transactions.
        let parsed = tables.parse_block(&bytes).ok();
        let found = header.zip(parsed).and_then(|(header, block)| {
            let start = bytes.as_ptr() as usize + offset;
            let tx = block.transactions().find(|tx| tx.bytes().as_ptr() as usize == start)?;
            Some((tx.txid(), tx.bytes().to_vec(), header.hash()))
        });
        found.ok_or_else(|| {
            let path = self.locked.files.path(pos.file);
            let wanted = format!("a transaction at byte {offset} of the block, as {} says", db.kind().name());
            let advice = rebuild_advice(db.kind(), &root(&self.locked.layout, db.kind()));
            let fault = store::Fault::new(FaultKind::Damaged, &path, wanted, "none", advice);
            fault.at_offset(u64::from(pos.offset)).into()
        })
    }
}

/// Finds a transaction by its id.
///
/// # Errors
///
/// There is no txindex, it is damaged or not up to date, or no block of it has the transaction.
pub fn tx(options: &Options, txid: Txid, _: Events<'_>) -> Result<FoundTx, Fault> {
    look::at_rest(options, &format!("getrawtransaction {txid} 2"), || find_tx(options, txid))
}

fn find_tx(options: &Options, txid: Txid) -> Result<FoundTx, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::Tx)?;
    let genesis = &options.params.genesis;
    let mut tables = Tables::new();
    if tables.parse_block(genesis).is_ok_and(|block| block.transaction(0).txid() == txid) {
        let why = "The genesis block coinbase is not considered an ordinary transaction and cannot be retrieved";
        return Err(Fault::refused(why, "Name another transaction"));
    }
    let (places, legacy) = tx_places(&db, &txid)?;
    let mut found: Vec<(bool, u32, IndexEntry, usize)> = Vec::new();
    for place in places {
        let Some(entry) = view.entry(&place.block)? else { continue };
        found.push((view.is_active(&entry)?, place.sequence, entry, place.offset));
    }
    // The active chain is searched first, then the block that was connected last, as in Core.
    found.sort_by_key(|(is_active, sequence, ..)| std::cmp::Reverse((*is_active, *sequence)));
    for (.., entry, offset) in found {
        let Some(pos) = entry.data() else { continue };
        let (there, bytes, hash) = view.read_tx(&db, pos, offset)?;
        if there == txid && hash == entry.hash {
            return found_tx(&view, &entry, txid, bytes);
        }
    }
    if let Some(pos) = legacy {
        return legacy_tx(&view, &db, txid, pos);
    }
    view.check_synced(&db)?;
    let advice = "Check the id; a transaction that is in no block yet is in no index";
    Err(Fault::refused(format!("No such blockchain transaction: {txid}"), advice))
}

fn found_tx(view: &View, entry: &IndexEntry, txid: Txid, bytes: Vec<u8>) -> Result<FoundTx, Fault> {
    let confirmations = if view.is_active(entry)? { view.tip.height.blocks_above(entry.height) + 1 } else { 0 };
    let block = entry.hash;
    let height = entry.height;
    let time = entry.header.time();
    let spent = spent_by(view, entry, &txid)?;
    Ok(FoundTx { txid, bytes, block, height, time, confirmations, spent })
}

/// The coins that a transaction of a block spends, from undo data; `None` for a coinbase, and if there is no undo data.
fn spent_by(view: &View, entry: &IndexEntry, txid: &Txid) -> Result<Option<Vec<Vec<u8>>>, Fault> {
    let (Some(data), Some(at)) = (entry.data(), entry.undo()) else { return Ok(None) };
    let layout = &view.locked.layout;
    let files = UndoFiles::new(&view.locked.host, layout.blocks_dir(), &view.network, view.locked.files.key());
    let bytes = view.locked.files.read_block(data)?;
    let undo = files.read(at, &entry.header.prev())?;
    let mut tables = Tables::with(view.locked.host.kernels);
    let mut txids = Vec::new();
    let Ok(block) = tables.parse_block(&bytes) else { return Ok(None) };
    block.txids_into(&mut txids);
    let Some(index) = txids.iter().position(|known| known == txid).filter(|index| *index > 0) else { return Ok(None) };
    let all = spent_coins(&undo, &block).ok_or_else(|| {
        let why = format!("the undo data of block {} is that of another block", entry.hash);
        Fault::refused(why, "Run ffwd repair, or ffwd reindex if that finds nothing")
    })?;
    let tx = block.transaction(index);
    let stored = |spent: &CoinRef<'_>| {
        let mut out = Vec::new();
        coin::put_coin(&mut out, spent.code(), spent.value, &spent.script.to_vec());
        out
    };
    Ok(Some(all[tx.first_input() - 1..][..tx.input_count()].iter().map(stored).collect()))
}

fn legacy_tx(view: &View, db: &IndexDb, txid: Txid, pos: DiskTxPos) -> Result<FoundTx, Fault> {
    let DiskTxPos { file, block, tx } = pos;
    let (there, bytes, hash) = view.read_tx(db, FilePos { file, offset: block }, HEADER_BYTES + tx as usize)?;
    let entry = view.entry(&hash)?.filter(|_| there == txid);
    let entry = entry.ok_or_else(|| {
        let found = format!("that of {there} in block {hash}");
        db.bad_record(&txindex::legacy_key(&txid), "the place of the transaction", found)
    })?;
    found_tx(view, &entry, txid, bytes)
}

/// The filter of a block, by its hash or, on the active chain, its height.
///
/// # Errors
///
/// There is no blockfilterindex, it is damaged or lacks the block; or the block is not known.
pub fn filter(options: &Options, block: &BlockId, _: Events<'_>) -> Result<Filter, Fault> {
    look::at_rest(options, &format!("getblockfilter {}", block.question()), || find_filter(options, block))
}

fn find_filter(options: &Options, block: &BlockId) -> Result<Filter, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::BlockFilter)?;
    let entry = view.find(block)?;
    let row = stored_row(&db, entry.hash, entry.height, FilterRow::decode)?;
    let Some(row) = row else {
        view.check_synced(&db)?;
        let why = format!("Filter not found. Block {} was not connected to active chain.", entry.hash);
        return Err(Fault::refused(why, "Name a block of the main chain, by its height for example"));
    };
    let disk = &*view.locked.disk;
    let layout = &view.locked.layout;
    let (of, bytes) = read_filter(disk, layout, row.pos, &row.hash)?;
    if of != entry.hash {
        let found = format!("that of block {of} in fltr{:05}.dat", row.pos.file);
        return Err(db.bad_record(b"t", format!("the filter of block {}", entry.hash), found).into());
    }
    Ok(Filter { block: entry.hash, height: entry.height, filter: bytes, header: row.header })
}

/// Name of a block: its hash or height.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockId {
    /// The block with this hash: any that the block index lists.
    Hash(BlockHash),
    /// The block at this height in the active chain.
    Height(Height),
}

impl BlockId {
    /// The block as an argument of Core's RPC calls.
    pub(super) fn question(&self) -> String {
        match self {
            BlockId::Hash(hash) => hash.to_string(),
            BlockId::Height(height) => format!("$(bitcoin-cli getblockhash {height})"),
        }
    }
}

/// The RPC call for the spender of an output.
fn spender_question(outpoint: &OutPoint) -> String {
    format!("gettxspendingprevout '[{{\"txid\":\"{}\",\"vout\":{}}}]'", outpoint.txid, outpoint.vout)
}

impl View {
    pub(super) fn find(&self, block: &BlockId) -> Result<IndexEntry, Fault> {
        let hash = match block {
            BlockId::Hash(hash) => *hash,
            BlockId::Height(height) => self.active_at(*height)?.ok_or_else(|| {
                let why = format!("Target block height {height} after current tip {}", self.tip.height);
                Fault::refused(why, "Name a height up to the tip's")
            })?,
        };
        let advice = "Name a block of this chain; ffwd sync fetches newer ones";
        self.entry(&hash)?.ok_or_else(|| Fault::refused(format!("Block not found: {hash}"), advice))
    }
}

/// The transaction that spends an output.
///
/// # Errors
///
/// There is no txospenderindex, or it is damaged; or it has no entry and is not up to date.
pub fn spender(options: &Options, outpoint: OutPoint, _: Events<'_>) -> Result<Spender, Fault> {
    look::at_rest(options, &spender_question(&outpoint), || find_spender(options, outpoint))
}

fn find_spender(options: &Options, outpoint: OutPoint) -> Result<Spender, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::TxoSpender)?;
    let name = outpoint.to_bytes();
    for pos in spender_places(&db, &outpoint)? {
        let place = FilePos { file: pos.file, offset: pos.block };
        let (txid, bytes, hash) = view.read_tx(&db, place, HEADER_BYTES + pos.tx as usize)?;
        let entry = view.entry(&hash)?;
        let is_active = entry.map_or(Ok(false), |entry| view.is_active(&entry))?;
        let mut tables = Tables::new();
        let spends = tables.parse_transaction(&bytes).is_ok_and(|tx| tx.inputs().any(|i| *i.prevout_bytes() == name));
        if is_active && spends {
            return Ok(Spender { outpoint, spent_by: Some((txid, hash)) });
        }
    }
    view.check_synced(&db)?;
    Ok(Spender { outpoint, spent_by: None })
}

/// Statistics of the UTXO set at a block, from coinstatsindex.
///
/// # Errors
///
/// There is no coinstatsindex, it is damaged or lacks the block; or the block is not known.
pub fn set_info_at(options: &Options, block: &BlockId, _: Events<'_>) -> Result<SetAt, Fault> {
    look::at_rest(options, &format!("gettxoutsetinfo muhash {}", block.question()), || find_set_info_at(options, block))
}

fn find_set_info_at(options: &Options, block: &BlockId) -> Result<SetAt, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::CoinStats)?;
    let entry = view.find(block)?;
    let row = |entry: &IndexEntry| -> Result<StatsRow, Fault> {
        match stored_row(&db, entry.hash, entry.height, StatsRow::decode)? {
            Some(row) => Ok(row),
            None => {
                view.check_synced(&db)?;
                let why = format!("block {} was not connected: coinstatsindex has no row of it", entry.hash);
                Err(Fault::refused(why, "Name a block that is or was on the main chain"))
            }
        }
    };
    let before = match view.entry(&entry.header.prev())? {
        Some(parent) => row(&parent)?,
        None => StatsRow { muhash: Hash256::ZERO, totals: indexes::coinstats::Totals::default() },
    };
    Ok(SetAt { block: entry.hash, height: entry.height, row: row(&entry)?, before })
}
