//! One index: its database, its best block, and its events since the last commit.

use super::event::{Due, Event, IndexedBlock, Payload};
use crate::fault::Fault;
use crate::reporting::Reporter;
use indexes::coinstats::{self, StatsRow, Totals};
use indexes::heights::{self, FilterPos, FilterRow};
use indexes::{BlockRecords, IndexKind, SipKey, Wanted, filter, locator, silentpayments, spender, txindex};
use primitives::encode::DecodeError;
use primitives::muhash::MuHash;
use primitives::{BlockHash, Hash256, Height};
use std::path::PathBuf;
use store::Host;
use store::indexes::{FilterFiles, IndexDb, rebuild_advice, root};
use store::{FaultKind, Layout};

/// One index.
pub(super) struct Part {
    pub(super) db: IndexDb,
    pub(super) root: PathBuf,
    /// Its best block, including waiting events; `None` before genesis.
    best: Option<BlockHash>,
    /// Events that wait for a commit.
    events: Vec<Event>,
    pub(super) state: PartState,
}

/// State of an index besides its records.
pub(super) enum PartState {
    /// Sequence number of the next block, as of the last commit.
    Tx {
        next: u32,
    },
    /// Header of the last filter.
    Filter {
        files: Box<FilterFiles>,
        header: Hash256,
    },
    Spender,
    /// The totals at `best`, and the MuHash as of the last commit.
    Stats {
        totals: Box<Totals>,
        muhash: Box<MuHash>,
    },
    SilentPayments,
}

impl Part {
    /// Opens or creates an index, and adds the data that it needs from blocks to `wanted`.
    pub(super) fn open(host: &Host, layout: &Layout, kind: IndexKind, wanted: &mut Wanted) -> Result<Part, Fault> {
        let db = IndexDb::open(host, layout, kind)?;
        let best = db.best_block()?;
        let state = match kind {
            IndexKind::Tx => {
                let next = db.get(txindex::NEXT_SEQUENCE)?.map_or(Ok(0), |value| {
                    let bytes = value.try_into();
                    bytes
                        .map(u32::from_le_bytes)
                        .map_err(|_| db.bad_record(txindex::NEXT_SEQUENCE, "a number of four bytes", "another length"))
                })?;
                wanted.tx = Some(secret(&db, txindex::SALT, next > 0)?);
                PartState::Tx { next }
            }
            IndexKind::TxoSpender => {
                wanted.spender = Some(secret(&db, spender::SIPHASH_KEY, best.is_some())?);
                PartState::Spender
            }
            IndexKind::BlockFilter => {
                wanted.filter = true;
                let next = decoded(&db, heights::FILTER_POSITION, FilterPos::decode)?.unwrap_or_default();
                let files = Box::new(FilterFiles::new(host.disk.clone(), layout, next));
                PartState::Filter { files, header: Hash256::ZERO }
            }
            IndexKind::CoinStats => {
                wanted.stats = true;
                let muhash = decoded(&db, coinstats::MUHASH, coinstats::decode_muhash)?.unwrap_or_default();
                PartState::Stats { totals: Box::default(), muhash: Box::new(muhash) }
            }
            IndexKind::SilentPayments => {
                wanted.tweaks = true;
                PartState::SilentPayments
            }
        };
        Ok(Part { db, root: root(layout, kind), best, events: Vec::new(), state })
    }

    /// Its best block, including waiting events; `None` before genesis.
    pub(super) fn best(&self) -> Option<BlockHash> {
        self.best
    }

    /// Sets the state to that of the database: best block `best`, of this height.
    ///
    /// # Errors
    ///
    /// A row is missing, or does not match the running state.
    pub(super) fn take_up(&mut self, best: BlockHash, height: Height) -> Result<(), Fault> {
        match self.db.kind() {
            IndexKind::Tx | IndexKind::TxoSpender => {}
            IndexKind::BlockFilter => {
                let row = self.filter_row(best, height)?;
                let PartState::Filter { header, .. } = &mut self.state else { unreachable!("it is the filters'") };
                *header = row.header;
            }
            IndexKind::CoinStats => {
                let row = self.stats_row(best, height)?;
                let PartState::Stats { totals, muhash } = &mut self.state else { unreachable!("it is the totals'") };
                if row.muhash.0 != muhash.finalize() {
                    let wanted = format!("the MuHash {} of its best block", row.muhash);
                    return Err(self.db.bad_record(coinstats::MUHASH, wanted, "another one").into());
                }
                **totals = row.totals;
            }
            // The newest row must exist and decode.
            IndexKind::SilentPayments => drop(self.stored_row(best, height, silentpayments::decode)?),
        }
        Ok(())
    }

    /// Whether the index's best block is `prev`, the parent of the next block; zeros for the parent of genesis.
    pub(super) fn stands_at(&self, prev: BlockHash) -> bool {
        self.best.unwrap_or_default() == prev
    }

    /// Adds the data that it needs from blocks to `wanted`, with the secrets of `all`.
    pub(super) fn want(&self, wanted: &mut Wanted, all: &Wanted) {
        match self.db.kind() {
            IndexKind::Tx => wanted.tx = all.tx,
            IndexKind::TxoSpender => wanted.spender = all.spender,
            IndexKind::BlockFilter => wanted.filter = true,
            IndexKind::CoinStats => wanted.stats = true,
            IndexKind::SilentPayments => wanted.tweaks = true,
        }
    }

    /// Adds a block whose parent is the best block; returns the bytes of memory used.
    pub(super) fn connect(
        &mut self,
        reporter: &Reporter<'_>,
        block: &IndexedBlock,
        records: &mut BlockRecords,
    ) -> Result<usize, Fault> {
        let payload = match &mut self.state {
            PartState::Tx { .. } => Payload::Tx(records.tx.take().expect("it was asked for")),
            PartState::Spender => Payload::Spenders(records.spenders.take().expect("it was asked for")),
            PartState::SilentPayments => Payload::Tweaks(records.tweaks.take().expect("it was asked for")),
            PartState::Filter { files, header } => {
                let made = records.filter.take().expect("it was asked for");
                let pos = reporter.with_room(|| files.append(&block.hash, &made.bytes))?;
                *header = filter::header(&made.hash, header);
                Payload::Filter { row: FilterRow { hash: made.hash, header: *header, pos }, next: files.next() }
            }
            PartState::Stats { totals, .. } => {
                let made = records.stats.take().expect("it was asked for");
                let Some(sums) = totals.with(&made) else {
                    let hash = block.hash;
                    let height = block.height;
                    let found = format!("others in block {hash} at height {height}");
                    return Err(self.mismatch("amounts that go with those of the blocks before", found));
                };
                **totals = sums;
                Payload::Stats { block: made, totals: Box::new(sums) }
            }
        };
        Ok(self.push(Event { block: *block, is_connected: true, payload }, block.hash))
    }

    /// Disconnects the last block; returns the bytes of memory used.
    pub(super) fn disconnect(&mut self, block: &IndexedBlock, records: &mut BlockRecords) -> Result<usize, Fault> {
        let prev = block.prev;
        let below = block.height.to_u32().checked_sub(1).map(Height::new);
        let payload = match self.db.kind() {
            IndexKind::Tx => Payload::Tx(Vec::new()),
            IndexKind::TxoSpender => Payload::Spenders(records.spenders.take().expect("it was asked for")),
            IndexKind::SilentPayments => Payload::TweaksOff,
            IndexKind::BlockFilter => {
                let row = below.map(|height| self.filter_row(prev, height)).transpose()?;
                let PartState::Filter { header, files } = &mut self.state else { unreachable!("it is the filters'") };
                *header = row.map_or(Hash256::ZERO, |row| row.header);
                Payload::FilterOff { next: files.next() }
            }
            IndexKind::CoinStats => {
                let made = records.stats.take().expect("it was asked for");
                let row = below.map(|height| self.stats_row(prev, height)).transpose()?;
                let sums = row.map(|row| row.totals).unwrap_or_default();
                let PartState::Stats { totals, .. } = &mut self.state else { unreachable!("it is the totals'") };
                **totals = sums;
                Payload::Stats { block: made, totals: Box::new(sums) }
            }
        };
        Ok(self.push(Event { block: *block, is_connected: false, payload }, prev))
    }

    fn push(&mut self, event: Event, best: BlockHash) -> usize {
        let bytes = event.memory_bytes();
        self.events.push(event);
        self.best = Some(best);
        bytes
    }

    /// Takes the events up to `tip`; `None` if the index was not at that block after any of them.
    pub(super) fn take_up_to(&mut self, tip: BlockHash) -> Option<Due> {
        let end = self.events.iter().rposition(|event| event.stands_at() == tip)? + 1;
        let rest = self.events.split_off(end);
        Some(Due::new(std::mem::replace(&mut self.events, rest)))
    }

    /// The row of the block with this hash and height, committed or waiting.
    fn filter_row(&self, hash: BlockHash, height: Height) -> Result<FilterRow, Fault> {
        match self.waiting_filter_row(hash) {
            Some(row) => Ok(row),
            None => self.stored_row(hash, height, FilterRow::decode),
        }
    }

    /// The row of a block that waits for a commit.
    pub(super) fn waiting_filter_row(&self, hash: BlockHash) -> Option<FilterRow> {
        let waiting = self.events.iter().rev().find(|event| event.is_connected && event.block.hash == hash);
        match waiting.map(|event| &event.payload) {
            Some(Payload::Filter { row, .. }) => Some(*row),
            _ => None,
        }
    }

    /// Like [`Part::filter_row`], for statistics. The MuHash of a waiting row is not computed yet, and is returned as
    /// zeros.
    fn stats_row(&self, hash: BlockHash, height: Height) -> Result<StatsRow, Fault> {
        let waiting = self.events.iter().rev().find(|event| event.is_connected && event.block.hash == hash);
        if let Some(Event { payload: Payload::Stats { totals, .. }, .. }) = waiting {
            return Ok(StatsRow { muhash: Hash256::ZERO, totals: **totals });
        }
        self.stored_row(hash, height, StatsRow::decode)
    }

    fn stored_row<T>(
        &self,
        hash: BlockHash,
        height: Height,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, Fault> {
        match stored_row(&self.db, hash, height, decode)? {
            Some(row) => Ok(row),
            None => {
                let wanted = format!("a row of block {hash} at height {height}, where the index stands");
                Err(self.mismatch(&wanted, "none".to_owned()))
            }
        }
    }

    /// The fault for an index that does not match the chain.
    pub(super) fn mismatch(&self, wanted: &str, found: String) -> Fault {
        let advice = rebuild_advice(self.db.kind(), &self.root);
        store::Fault::new(FaultKind::Damaged, &self.root, wanted, found, advice).into()
    }
}

/// The row of a block: by height if that row is the block's, else by hash. Source: Core's `LookUpOne`.
pub(crate) fn stored_row<T>(
    db: &IndexDb,
    hash: BlockHash,
    height: Height,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Option<T>, store::Fault> {
    let key = heights::height_key(height);
    let bad = |key: &[u8], why: DecodeError| db.bad_record(key, "a row", why.to_string());
    if let Some(value) = db.get(&key)? {
        let (block, row) = heights::split_value(&value).map_err(|why| bad(&key, why))?;
        if block == hash {
            return decode(row).map(Some).map_err(|why| bad(&key, why));
        }
    }
    let key = heights::hash_key(&hash);
    db.get(&key)?.map(|row| decode(&row).map_err(|why| bad(&key, why))).transpose()
}

/// The decoded record under `key`.
fn decoded<T>(
    db: &IndexDb,
    key: &[u8],
    decode: impl FnOnce(&[u8]) -> Result<T, DecodeError>,
) -> Result<Option<T>, Fault> {
    let Some(value) = db.get(key)? else { return Ok(None) };
    Ok(Some(decode(&value).map_err(|why| db.bad_record(key, "another value", why.to_string()))?))
}

/// The secret key of an index's hashes, from its record; `None` without one. If there is no record although `is_use`
/// says that the index has entries, that is a fault.
///
/// # Errors
///
/// This fault, a record of another length, or an I/O error.
pub(crate) fn stored_secret(db: &IndexDb, key: &[u8], is_use: bool) -> Result<Option<SipKey>, Fault> {
    match db.get(key)? {
        None if is_use => Err(db.bad_record(key, "what keys the hashes", "no record").into()),
        None => Ok(None),
        Some(value) => match value.try_into() {
            Ok(bytes) => Ok(Some(SipKey::from_bytes(&bytes))),
            Err(_) => Err(db.bad_record(key, "a key of 16 bytes", "another length").into()),
        },
    }
}

/// Like [`stored_secret`], but makes a random secret if there is none.
fn secret(db: &IndexDb, key: &[u8], is_use: bool) -> Result<SipKey, Fault> {
    if let Some(secret) = stored_secret(db, key, is_use)? {
        return Ok(secret);
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|why| {
        let why = format!("16 random bytes for {}: the system says {why}", db.kind().name());
        Fault::refused(why, "Use a system with a source of randomness")
    })?;
    db.commit(0, |records| records.put(key, &bytes))?;
    Ok(SipKey::from_bytes(&bytes))
}

/// The record of an index's best block.
pub(super) fn best_block_record(kind: IndexKind, hashes: &[BlockHash]) -> (Vec<u8>, Vec<u8>) {
    let key = if kind == IndexKind::Tx { txindex::BEST_BLOCK } else { heights::BEST_BLOCK };
    (key.to_vec(), locator::encode(hashes))
}
