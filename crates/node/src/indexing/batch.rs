//! What one commit of one index writes: the few records in a map, the many sorted by their keys.

use super::event::{Due, IndexedBlock, Payload};
use super::part::{Part, PartState, best_block_record};
use crate::fault::Fault;
use crate::locks::lock;
use crate::report::Reporter;
use crate::threads;
use indexes::coinstats::{self, StatsRow, finalize_all};
use indexes::heights;
use indexes::txindex::DiskTxPos;
use indexes::{spender, txindex};
use primitives::BlockHash;
use primitives::muhash::MuHash;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use store::indexes::{IndexDb, IndexWriter, RECORD_OVERHEAD_BYTES};

/// Bytes of a key of the many, at most.
const KEY_BYTES: usize = 24;

/// The records of one commit.
#[derive(Default)]
struct Batch {
    /// `None`: the record goes.
    few: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    many: Many,
    /// The state behind it.
    next_sequence: u32,
    muhash: Option<MuHash>,
}

/// Keys without values, sorted.
#[derive(Default)]
enum Many {
    #[default]
    None,
    /// Place, and sequence number of the block.
    Tx(Vec<(u64, u32)>),
    /// Order of the outpoint, place of its transaction, and whether the entry comes.
    Spenders(Vec<(u64, DiskTxPos, bool)>),
}

/// Commits what is due, and where the index stands with it; waits while the disk is full.
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
    // Not under the lock: more blocks come meanwhile.
    let batch = Batch::new(&db, &start, due, locator)?;
    // The filters are durable before rows name them.
    if let Some(flush) = flush {
        flush.run()?;
    }
    let bytes = batch.bytes();
    while !db.has_room(bytes) {
        if !reporter.with_room(|| compact(&db, par))? {
            break;
        }
    }
    reporter.with_room(|| db.commit(bytes, |records| batch.put(records)))?;
    match &mut lock(part).state {
        PartState::Tx { next } => *next = batch.next_sequence,
        PartState::Stats { muhash, .. } => **muhash = batch.muhash.unwrap_or_default(),
        PartState::Filter { .. } | PartState::Spender => {}
    }
    Ok(())
}

/// The compaction that is wanted most, by several threads; `false` if none is wanted.
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

/// What a commit starts from: the state as of the last one.
enum Start {
    Tx(u32),
    Spender,
    Filter,
    Stats(Box<MuHash>),
}

impl Part {
    fn start(&self) -> Start {
        match &self.state {
            PartState::Tx { next } => Start::Tx(*next),
            PartState::Spender => Start::Spender,
            PartState::Filter { .. } => Start::Filter,
            PartState::Stats { muhash, .. } => Start::Stats(muhash.clone()),
        }
    }
}

fn tx_batch(db: &IndexDb, due: &Due, mut next: u32) -> Result<Batch, Fault> {
    let mut batch = Batch::default();
    let mut blocks: Vec<(&[u64], u32)> = Vec::new();
    for event in due.events.iter().filter(|event| event.is_connected && event.block.height.to_u32() > 0) {
        let Payload::Tx(places) = &event.payload else { continue };
        // A block that was indexed before keeps its number and its entries.
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
    let entries = || blocks.iter().flat_map(|&(places, next)| places.iter().map(move |&place| (place, next)));
    let mut many = sorted_by_parts(entries, |&(place, _)| place, <[_]>::sort_unstable);
    // Of one prefix the numbers of blocks come before the offsets, in the order of their VARINT bytes.
    let bytes = |&(place, sequence): &(u64, u32)| {
        let mut key = Vec::with_capacity(KEY_BYTES);
        txindex::put_key(&mut key, place, sequence);
        key
    };
    sort_equal(&mut many, |a, b| a.0 >> 24 == b.0 >> 24, bytes);
    if next > 0 {
        batch.few.insert(txindex::NEXT_SEQUENCE.to_vec(), Some(next.to_le_bytes().to_vec()));
    }
    (batch.many, batch.next_sequence) = (Many::Tx(many), next);
    Ok(batch)
}

fn spender_batch(due: &Due) -> Batch {
    let entries = || {
        due.events.iter().flat_map(|event| {
            let entries = if let Payload::Spenders(entries) = &event.payload { &entries[..] } else { &[] };
            let (pos, comes) = (event.block.pos, event.is_connected);
            let place = move |tx| DiskTxPos { file: pos.file, block: pos.offset, tx };
            entries.iter().map(move |&(order, tx)| (order, place(tx), comes))
        })
    };
    // Stable: of one entry that comes and goes the last word is last.
    let order = |&(order, _, _): &(u64, DiskTxPos, bool)| order;
    let mut many = sorted_by_parts(entries, order, |part| part.sort_by_key(order));
    sort_equal(&mut many, |a, b| a.0 == b.0, spender_key);
    many.dedup_by(|later, kept| {
        let is_same = (later.0, later.1) == (kept.0, kept.1);
        if is_same {
            *kept = *later;
        }
        is_same
    });
    Batch { many: Many::Spenders(many), ..Batch::default() }
}

/// Sorts entries whose orders are evenly spread hashes: first into 256 parts by their highest bits, in the order in which
/// they come, then each part, which finds room in the processor's caches.
fn sorted_by_parts<T: Copy, I: Iterator<Item = T>>(
    entries: impl Fn() -> I,
    order: impl Fn(&T) -> u64,
    sort: impl Fn(&mut [T]),
) -> Vec<T> {
    let Some(first) = entries().next() else { return Vec::new() };
    let part = |entry: &T| (order(entry) >> 56) as usize;
    let mut starts = [0; 257];
    entries().for_each(|entry| starts[part(&entry) + 1] += 1);
    for at in 1..starts.len() {
        starts[at] += starts[at - 1];
    }
    let (mut sorted, mut next) = (vec![first; starts[256]], starts);
    for entry in entries() {
        let place = &mut next[part(&entry)];
        sorted[*place] = entry;
        *place += 1;
    }
    starts.windows(2).for_each(|ends| sort(&mut sorted[ends[0]..ends[1]]));
    sorted
}

fn spender_key(&(order, pos, _): &(u64, DiskTxPos, bool)) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    spender::put_key(&mut key, order, pos);
    key
}

/// Sorts each stretch of neighbours that are `equal` by their keys; equal keys stay in their order.
fn sort_equal<T>(items: &mut [T], equal: impl Fn(&T, &T) -> bool, key: impl Fn(&T) -> Vec<u8>) {
    let mut start = 0;
    for end in 1..=items.len() {
        if end == items.len() || !equal(&items[start], &items[end]) {
            if end - start > 1 {
                items[start..end].sort_by_cached_key(&key);
            }
            start = end;
        }
    }
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

/// The row of a block that was disconnected goes under its hash, too. Source: Core's `CopyHeightIndexToHashIndex`.
fn move_row(batch: &mut Batch, db: &IndexDb, block: &IndexedBlock) -> Result<(), Fault> {
    let key = heights::height_key(block.height).to_vec();
    let value = match batch.few.entry(key.clone()) {
        Entry::Occupied(there) => there.get().clone(),
        Entry::Vacant(_) => db.get(&key)?,
    };
    let value = value.unwrap_or_default();
    match heights::split_value(&value) {
        Ok((hash, row)) if hash == block.hash => {
            batch.few.insert(heights::hash_key(&hash).to_vec(), Some(row.to_vec()));
            Ok(())
        }
        _ => Err(db.bad_record(&key, format!("the row of block {}", block.hash), "another one").into()),
    }
}

impl Batch {
    /// The records of what is due.
    fn new(db: &IndexDb, start: &Start, due: &Due, locator: &[BlockHash]) -> Result<Batch, Fault> {
        let mut batch = match start {
            Start::Tx(next) => tx_batch(db, due, *next)?,
            Start::Spender => spender_batch(due),
            Start::Filter => filter_batch(db, due)?,
            Start::Stats(muhash) => stats_batch(db, due, muhash)?,
        };
        let (key, value) = best_block_record(db.kind(), locator);
        batch.few.insert(key, Some(value));
        Ok(batch)
    }

    /// Bytes in tables, about.
    fn bytes(&self) -> u64 {
        let few = self.few.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
        let few = few.map(|bytes| bytes + RECORD_OVERHEAD_BYTES).sum::<usize>();
        let many = match &self.many {
            Many::None => 0,
            Many::Tx(entries) => entries.len(),
            Many::Spenders(entries) => entries.len(),
        };
        (few + many * (KEY_BYTES + RECORD_OVERHEAD_BYTES)) as u64
    }

    /// Writes all records in the order of their keys.
    fn put(&self, records: &mut IndexWriter<'_>) -> Result<(), store::Fault> {
        let first = match self.many {
            Many::None => return self.put_few(records, |_| true),
            Many::Tx(_) => txindex::HASHED,
            Many::Spenders(_) => spender::SPENDER,
        };
        self.put_few(records, |key| key[0] < first)?;
        let mut key = Vec::with_capacity(KEY_BYTES);
        match &self.many {
            Many::None => {}
            Many::Tx(entries) => {
                for &(place, sequence) in entries {
                    key.clear();
                    txindex::put_key(&mut key, place, sequence);
                    records.put(&key, &[])?;
                }
            }
            Many::Spenders(entries) => {
                for &(order, pos, comes) in entries {
                    key.clear();
                    spender::put_key(&mut key, order, pos);
                    if comes { records.put(&key, &[])? } else { records.delete(&key)? }
                }
            }
        }
        self.put_few(records, |key| key[0] > first)
    }

    fn put_few(&self, records: &mut IndexWriter<'_>, wanted: impl Fn(&[u8]) -> bool) -> Result<(), store::Fault> {
        for (key, value) in self.few.iter().filter(|(key, _)| wanted(key)) {
            match value {
                Some(value) => records.put(key, value)?,
                None => records.delete(key)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn sorted_by_parts_is_a_stable_sort() {
        let mut rng = Rng::new(256);
        for count in [0, 1, 2, 1000, 5000] {
            // Few orders, so that many are equal; all kinds of highest bits.
            let entries: Vec<(u64, usize)> =
                (0..count).map(|number| (rng.u64() & 0xff00_0000_0000_0003, number)).collect();
            let got =
                sorted_by_parts(|| entries.iter().copied(), |entry| entry.0, |part| part.sort_by_key(|entry| entry.0));
            let mut want = entries;
            want.sort_by_key(|entry| entry.0);
            assert_eq!(got, want, "{count} entries");
        }
    }
}
