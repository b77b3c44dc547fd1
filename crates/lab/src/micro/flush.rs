//! Experiment: how much of a generation to commit at a time, and in which order the coins come.
//!
//! The plain way is a hash table's: coins in no order, in batches that are each sorted for themselves. Every batch is then a
//! run of tables that covers all keys, and runs have to be merged. Sorted, the batches follow one another; ffwd commits the
//! whole generation as one run, a table writer for each range of txids. Bytes are what is held at the peak: the batch,
//! and what the table writers hold.
//!
//! A commit is durable: its time includes the drive's.

use super::bench::Bench;
use super::input::{self, Digest, Inputs, Mix, Rng};
use super::{Error, Experiment};
use primitives::Hash256;
use primitives::coin::put_coin_key;
use std::path::Path;
use store::Chainstate;

pub(super) const EXPERIMENT: Experiment = Experiment { tables: &[UNSORTED, SORTED], run };

const UNSORTED: &str = "flush: batches of unsorted coins";
const SORTED: &str = "flush: batches of sorted coins";
const BATCHES_MIB: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
/// What a record costs a batch beside its bytes: two vectors' heads.
const RECORD_BYTES: usize = 2 * size_of::<Vec<u8>>();
const BEST_BLOCK: Hash256 = Hash256([9; 32]);
/// Ranges of txids with a table writer of their own.
const PARTS: u32 = 4;

/// A record of the chainstate, plain.
type Record = (Vec<u8>, Vec<u8>);

struct Done {
    chainstate: Chainstate,
    /// Held at the peak.
    bytes: usize,
}

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let coins = input::coins(bench.size(2_000, 120_000), Mix::In2025, 3);
    let mut records: Vec<Record> = coins
        .into_iter()
        .map(|coin| {
            let mut key = Vec::new();
            put_coin_key(&mut key, &coin.outpoint);
            (key, coin.coin)
        })
        .collect();
    Rng(4).shuffle(&mut records);
    let dir = inputs.folder("flush")?.join("chainstate");
    batches(bench, UNSORTED, &records, &dir)?;
    records.sort_unstable();
    batches(bench, SORTED, &records, &dir)
}

fn batches(bench: &mut Bench<'_>, name: &'static str, records: &[Record], dir: &Path) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "coin", records.len()) else { return Ok(()) };
    table.waits();
    let total: usize = records.iter().map(bytes_of).sum();
    let mut is_whole = false;
    for mib in BATCHES_MIB {
        if is_whole {
            break; // A greater batch would be the same one again.
        }
        let bytes = mib * 1024 * 1024;
        let count = total.div_ceil(bytes);
        is_whole = count == 1;
        let way =
            if is_whole { format!("{mib} MiB or more: one batch") } else { format!("{mib} MiB: {count} batches") };
        let commit = move || in_batches(records, bytes, dir);
        let done = commit()?;
        table.add(way, digest(&done.chainstate)?, commit).memory(done.bytes as f64 / records.len() as f64, None);
    }
    let done = whole(records, dir)?;
    table.add("one run, four writers", digest(&done.chainstate)?, move || whole(records, dir)).shipped();
    table.memory(done.bytes as f64 / records.len() as f64, None);
    bench.run(table)
}

fn bytes_of((key, coin): &Record) -> usize {
    key.len() + coin.len() + RECORD_BYTES
}

fn fresh(dir: &Path) -> Result<Chainstate, Error> {
    if dir.is_dir() {
        std::fs::remove_dir_all(dir).map_err(Error::io("remove", dir))?;
    }
    Ok(Chainstate::open_with(input::disk(), dir, [1, 2, 3, 4, 5, 6, 7, 8])?)
}

fn in_batches(records: &[Record], batch_bytes: usize, dir: &Path) -> Result<Done, Error> {
    let chainstate = fresh(dir)?;
    let mut peak = 0;
    let mut batch: Vec<Record> = Vec::new();
    let mut bytes = 0;
    for record in records {
        bytes += bytes_of(record);
        batch.push(record.clone());
        if bytes >= batch_bytes {
            peak = peak.max(bytes + commit(&chainstate, &mut batch)?);
            bytes = 0;
        }
    }
    if !batch.is_empty() {
        peak = peak.max(bytes + commit(&chainstate, &mut batch)?);
    }
    while let Some(merge) = chainstate.plan_merge()? {
        while merge.step()? {}
        merge.finish()?;
    }
    Ok(Done { chainstate, bytes: peak })
}

/// Sorts and commits a batch and empties it; returns what the writer held.
fn commit(chainstate: &Chainstate, batch: &mut Vec<Record>) -> Result<usize, Error> {
    batch.sort_unstable();
    let bytes: usize = batch.iter().map(bytes_of).sum();
    let commit = loop {
        if let Some(commit) = chainstate.begin_commit(BEST_BLOCK, batch.len() as u64, bytes as u64)? {
            break commit;
        }
    };
    let mut part = commit.first_part()?;
    let mut held = 0;
    for (key, coin) in batch.iter() {
        part.put(key, coin)?;
        held = held.max(part.memory_bytes());
    }
    part.finish()?;
    commit.finish()?;
    batch.clear();
    Ok(held)
}

/// As ffwd: the generation is sorted where it lies, and its ranges are written by writers of their own.
fn whole(records: &[Record], dir: &Path) -> Result<Done, Error> {
    let chainstate = fresh(dir)?;
    let mut order: Vec<(u64, u32)> = records
        .iter()
        .enumerate()
        .map(|(at, (key, _))| (u64::from_be_bytes(*key[1..].first_chunk().expect("a key has a txid")), at as u32))
        .collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| records[a.1 as usize].0.cmp(&records[b.1 as usize].0)));
    let bytes: usize = records.iter().map(|(key, coin)| key.len() + coin.len()).sum();
    let commit = chainstate
        .begin_commit(BEST_BLOCK, records.len() as u64, bytes as u64)?
        .ok_or_else(|| Error::Broken("an empty chainstate has no room".to_owned()))?;
    let mut held = 0;
    let mut rest = &order[..];
    for number in 0..PARTS {
        let end = u64::from(number + 1) << 62;
        let count = if number + 1 == PARTS { rest.len() } else { rest.partition_point(|&(prefix, _)| prefix < end) };
        let (now, later) = rest.split_at(count);
        rest = later;
        let mut part = if number == 0 { commit.first_part()? } else { commit.part() };
        for &(_, at) in now {
            let (key, coin) = &records[at as usize];
            part.put(key, coin)?;
            held = held.max(part.memory_bytes());
        }
        part.finish()?;
    }
    commit.finish()?;
    let bytes = held + order.len() * size_of::<(u64, u32)>();
    Ok(Done { chainstate, bytes })
}

/// Of all coins that the chainstate holds, in order.
fn digest(chainstate: &Chainstate) -> Result<Digest, Error> {
    let view = chainstate.view();
    let mut coins = view.coins()?;
    let mut digest = Digest::default();
    while let Some((outpoint, coin)) = coins.next_coin()? {
        digest.add(&outpoint.txid.0);
        digest.add_u64(outpoint.vout.into());
        digest.add(coin);
    }
    Ok(digest)
}
