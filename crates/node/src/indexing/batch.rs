//! The writes of one commit of one index: a few records in a map, and many entries, which several threads sort by key.

use super::entries::{Entry, KEY_BYTES, Parts, Share, SpenderEntry, TxEntry};
use super::event::{Due, IndexedBlock, Payload};
use super::part::{Part, PartState, best_block_record};
use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::threads;
use crate::threads::locks::lock;
use indexes::coinstats::{self, StatsRow, finalize_all};
use indexes::heights;
use indexes::txindex::DiskTxPos;
use indexes::{spender, txindex};
use primitives::BlockHash;
use primitives::muhash::MuHash;
use std::collections::BTreeMap;
use std::collections::btree_map;
use std::sync::Mutex;
use store::indexes::{IndexCommit, IndexDb, IndexWriter, RECORD_OVERHEAD_BYTES};

/// Keys with their values; `None`: the record is deleted.
type Few = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The records of one commit.
#[derive(Default)]
struct Batch {
    few: Few,
    many: Many,
    /// The sequence number after the commit.
    next_sequence: u32,
    muhash: Option<MuHash>,
}

/// Keys without values.
#[derive(Default)]
enum Many {
    #[default]
    None,
    Tx(Parts<TxEntry>),
    Spenders(Parts<SpenderEntry>),
}

/// Commits the due events, and the index's best block with them; waits while the disk is full.
pub(super) fn write(
    reporter: &Reporter<'_>,
    part: &Mutex<Part>,
    due: &Due,
    locator: &[BlockHash],
    par: usize,
) -> Result<(), Fault> {
    let (db, start, flush) = {
        let mut part = lock(part);
        let flush = match &mut part.state {
            PartState::Filter { files, .. } => Some(reporter.with_room(|| files.begin_flush())?),
            _ => None,
        };
        (part.db.clone(), part.start(), flush)
    };
    // The lock is released meanwhile, so more blocks may arrive.
    let mut batch = Batch::new(&db, &start, due, locator)?;
    // Filters must be durable before rows refer to them.
    if let Some(flush) = flush {
        flush.run()?;
    }
    let bytes = batch.bytes();
    while !db.has_room(bytes) {
        if !reporter.with_room(|| compact(&db, par))? {
            break;
        }
    }
    reporter.with_room(|| batch.commit(&db, par))?;
    match &mut lock(part).state {
        PartState::Tx { next } => *next = batch.next_sequence,
        PartState::Stats { muhash, .. } => **muhash = batch.muhash.unwrap_or_default(),
        PartState::Filter { .. } | PartState::Spender | PartState::SilentPayments => {}
    }
    Ok(())
}

/// Does the most urgent compaction with several threads; `false` if nothing is due.
fn compact(db: &IndexDb, par: usize) -> Result<bool, Fault> {
    let Some(compaction) = db.plan_compaction()? else { return Ok(false) };
    std::thread::scope(|scope| {
        let work = || -> Result<(), store::Fault> {
            while compaction.step()? {}
            Ok(())
        };
        let mut threads = Vec::new();
        for _ in 1..par {
            threads.push(threads::spawn(scope, "compact", work)?);
        }
        let own = work();
        for thread in threads {
            thread.join().expect("a panic is passed on")?;
        }
        Ok::<(), Fault>(own?)
    })?;
    compaction.finish()?;
    Ok(true)
}

/// The state of the last commit, to which this one adds.
enum Start {
    Tx(u32),
    Spender,
    Filter,
    Stats(Box<MuHash>),
    SilentPayments,
}

impl Part {
    fn start(&self) -> Start {
        match &self.state {
            PartState::Tx { next } => Start::Tx(*next),
            PartState::Spender => Start::Spender,
            PartState::Filter { .. } => Start::Filter,
            PartState::Stats { muhash, .. } => Start::Stats(muhash.clone()),
            PartState::SilentPayments => Start::SilentPayments,
        }
    }
}

fn tx_batch(db: &IndexDb, due: &Due, mut next: u32) -> Result<Batch, Fault> {
    let mut batch = Batch::default();
    let mut blocks: Vec<(&[u64], u32)> = Vec::new();
    for event in due.events.iter().filter(|event| event.is_connected && event.block.height.to_u32() > 0) {
        let Payload::Tx(places) = &event.payload else { continue };
        // A block that was indexed before keeps its sequence number and its entries.
        let key = txindex::hash_key(&event.block.hash).to_vec();
        if batch.few.contains_key(&key) || db.get(&key)?.is_some() {
            continue;
        }
        batch.few.insert(key, Some(next.to_le_bytes().to_vec()));
        batch.few.insert(txindex::sequence_key(next), Some(event.block.hash.as_bytes().to_vec()));
        blocks.push((places, next));
        let Some(behind) = next.checked_add(1) else {
            return Err(db.bad_record(txindex::NEXT_SEQUENCE, "a number below 2^32 - 1", "the last one").into());
        };
        next = behind;
    }
    let many = Parts::of(|| {
        blocks.iter().flat_map(|&(places, sequence)| places.iter().map(move |&place| TxEntry { place, sequence }))
    });
    if next > 0 {
        batch.few.insert(txindex::NEXT_SEQUENCE.to_vec(), Some(next.to_le_bytes().to_vec()));
    }
    (batch.many, batch.next_sequence) = (Many::Tx(many), next);
    Ok(batch)
}

fn spender_batch(due: &Due) -> Batch {
    let many = Parts::of(|| {
        due.events.iter().flat_map(|event| {
            let entries = if let Payload::Spenders(entries) = &event.payload { &entries[..] } else { &[] };
            let pos = event.block.pos;
            let comes = event.is_connected;
            let place = move |tx| DiskTxPos { file: pos.file, block: pos.offset, tx };
            entries.iter().map(move |&(order, tx)| SpenderEntry { order, pos: place(tx), comes })
        })
    });
    Batch { many: Many::Spenders(many), ..Batch::default() }
}

fn filter_batch(db: &IndexDb, due: &Due) -> Result<Batch, Fault> {
    let mut batch = Batch::default();
    for event in &due.events {
        let next = match &event.payload {
            Payload::Filter { row, next } => {
                put_row(&mut batch, &event.block, &row.encode());
                next
            }
            Payload::FilterOff { next } => {
                move_row(&mut batch, db, &event.block)?;
                next
            }
            _ => continue,
        };
        batch.few.insert(heights::FILTER_POSITION.to_vec(), Some(next.encode()));
    }
    Ok(batch)
}

fn tweaks_batch(db: &IndexDb, due: &Due) -> Result<Batch, Fault> {
    let mut batch = Batch::default();
    for event in &due.events {
        match &event.payload {
            Payload::Tweaks(row) => put_row(&mut batch, &event.block, row),
            Payload::TweaksOff => move_row(&mut batch, db, &event.block)?,
            _ => {}
        }
    }
    Ok(batch)
}

fn stats_batch(db: &IndexDb, due: &Due, start: &MuHash) -> Result<Batch, Fault> {
    let mut batch = Batch::default();
    let steps: Vec<(&MuHash, &MuHash)> = due
        .events
        .iter()
        .filter_map(|event| match (&event.payload, event.is_connected) {
            (Payload::Stats { block, .. }, true) => Some((&block.created, &block.spent)),
            (Payload::Stats { block, .. }, false) => Some((&block.spent, &block.created)),
            _ => None,
        })
        .collect();
    let (hashes, end) = finalize_all(start, &steps);
    for (event, muhash) in due.events.iter().zip(hashes) {
        let Payload::Stats { totals, .. } = &event.payload else { continue };
        if event.is_connected {
            put_row(&mut batch, &event.block, &StatsRow { muhash, totals: **totals }.encode());
        } else {
            move_row(&mut batch, db, &event.block)?;
        }
    }
    batch.few.insert(coinstats::MUHASH.to_vec(), Some(coinstats::encode_muhash(&end)));
    batch.muhash = Some(end);
    Ok(batch)
}

fn put_row(batch: &mut Batch, block: &IndexedBlock, row: &[u8]) {
    let value = heights::join_value(&block.hash, row);
    batch.few.insert(heights::height_key(block.height).to_vec(), Some(value));
}

/// Copies the row of a disconnected block to its hash. Source: Core's `CopyHeightIndexToHashIndex`. After a kill of
/// bitcoind it may be there already, and the row of another block at its height.
fn move_row(batch: &mut Batch, db: &IndexDb, block: &IndexedBlock) -> Result<(), Fault> {
    let key = heights::height_key(block.height).to_vec();
    let value = match batch.few.entry(key.clone()) {
        btree_map::Entry::Occupied(there) => there.get().clone(),
        btree_map::Entry::Vacant(_) => db.get(&key)?,
    };
    let value = value.unwrap_or_default();
    match heights::split_value(&value) {
        Ok((hash, row)) if hash == block.hash => {
            batch.few.insert(heights::hash_key(&hash).to_vec(), Some(row.to_vec()));
            Ok(())
        }
        _ if db.get(&heights::hash_key(&block.hash))?.is_some() => Ok(()),
        _ => Err(db.bad_record(&key, format!("the row of block {}", block.hash), "another one").into()),
    }
}

impl Batch {
    /// The records of the due events.
    fn new(db: &IndexDb, start: &Start, due: &Due, locator: &[BlockHash]) -> Result<Batch, Fault> {
        let mut batch = match start {
            Start::Tx(next) => tx_batch(db, due, *next)?,
            Start::Spender => spender_batch(due),
            Start::Filter => filter_batch(db, due)?,
            Start::Stats(muhash) => stats_batch(db, due, muhash)?,
            Start::SilentPayments => tweaks_batch(db, due)?,
        };
        let (key, value) = best_block_record(db.kind(), locator);
        batch.few.insert(key, Some(value));
        Ok(batch)
    }

    /// Approximate bytes in tables.
    fn bytes(&self) -> u64 {
        let few = self.few.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        let few = few.map(|bytes| bytes + RECORD_OVERHEAD_BYTES).sum::<usize>();
        let many = match &self.many {
            Many::None => 0,
            Many::Tx(parts) => parts.len(),
            Many::Spenders(parts) => parts.len(),
        };
        (few + many * (KEY_BYTES + RECORD_OVERHEAD_BYTES)) as u64
    }

    /// Writes all records and commits them; the entries are written with up to `par` threads.
    fn commit(&mut self, db: &IndexDb, par: usize) -> Result<(), Fault> {
        let commit = db.begin_commit(self.bytes())?;
        match &mut self.many {
            Many::None => {
                let mut records = commit.writer();
                put_few(&self.few, &mut records, |_| true)?;
                records.finish()?;
            }
            Many::Tx(parts) => put_all(&commit, &self.few, txindex::HASHED, parts.shares(par))?,
            Many::Spenders(parts) => put_all(&commit, &self.few, spender::SPENDER, parts.shares(par))?,
        }
        Ok(commit.finish()?)
    }
}

/// Writes the records and the entries in the order of their keys; the keys of the entries begin with `first`. Each
/// share has a thread.
fn put_all<T: Entry>(commit: &IndexCommit, few: &Few, first: u8, shares: Vec<Share<'_, T>>) -> Result<(), Fault> {
    let last = shares.len() - 1;
    let write = |place: usize, share: Share<'_, T>| -> Result<(), store::Fault> {
        let mut records = commit.writer();
        if place == 0 {
            put_few(few, &mut records, |key| key[0] < first)?;
        }
        let mut key = Vec::with_capacity(KEY_BYTES);
        share.each(|entry| {
            key.clear();
            entry.put_key(&mut key);
            if entry.comes() { records.put(&key, &[]) } else { records.delete(&key) }
        })?;
        if place == last {
            put_few(few, &mut records, |key| key[0] > first)?;
        }
        records.finish()?;
        // Runs on this thread, while others still write.
        if last > 0 { commit.sync() } else { Ok(()) }
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut own = Ok(());
        for (place, share) in shares.into_iter().enumerate() {
            if place == last {
                own = write(place, share);
            } else {
                threads.push(threads::spawn(scope, "index", move || write(place, share))?);
            }
        }
        for thread in threads {
            thread.join().expect("a panic is passed on")?;
        }
        Ok(own?)
    })
}

fn put_few(few: &Few, records: &mut IndexWriter, wanted: impl Fn(&[u8]) -> bool) -> Result<(), store::Fault> {
    for (key, value) in few.iter().filter(|(key, _)| wanted(key)) {
        match value {
            Some(value) => records.put(key, value)?,
            None => records.delete(key)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Disk, SimDisk};
    use indexes::IndexKind;
    use std::path::Path;
    use std::sync::Arc;
    use store::Layout;
    use testkit::Rng;

    /// Many entries, some of which come and go, written by three threads between few records: all are there, in order.
    #[test]
    fn several_threads_write_one_index() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
        let layout = Layout::new(Path::new("/d"), "regtest", None);
        let db = IndexDb::open(disk, &layout, IndexKind::TxoSpender).unwrap();
        let mut rng = Rng::new(9);
        let entries: Vec<SpenderEntry> = (0..200_000)
            .map(|number| {
                let pos = DiskTxPos { file: 0, block: 8, tx: rng.below(2) as u32 };
                SpenderEntry { order: rng.u64() & 0xff00_ff00_0000_01ff, pos, comes: number < 150_000 || rng.one_in(2) }
            })
            .collect();
        let mut want = BTreeMap::new();
        for entry in &entries {
            let mut key = Vec::new();
            entry.put_key(&mut key);
            want.insert(key, entry.comes);
        }
        let few = [(b"B".to_vec(), Some(vec![1])), (b"t".to_vec(), Some(vec![2]))];
        let many = Parts::of(|| entries.iter().copied());
        let mut batch = Batch { few: few.into(), many: Many::Spenders(many), ..Batch::default() };
        batch.commit(&db, 3).unwrap();
        let mut want: Vec<Vec<u8>> = want.into_iter().filter(|(_, comes)| *comes).map(|(key, _)| key).collect();
        want.insert(0, b"B".to_vec());
        want.push(b"t".to_vec());
        let (mut records, mut got) = (db.with_prefix(&[]).unwrap(), Vec::new());
        while let Some((key, _)) = records.next_record().unwrap() {
            got.push(key);
        }
        assert!(got == want, "{} of {} records", got.len(), want.len());
    }
}
