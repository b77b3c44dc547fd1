//! Experiment: how much of a generation to commit at a time, by how large the generation is, and in which order coins come.
//!
//! The plain way is a hash table's: coins in no order, in batches that are each sorted for themselves. Every batch is then a
//! run of tables that covers all keys, and runs have to be merged. Sorted, the batches follow one another; ffwd commits the
//! whole generation as one run, a table writer for each range of txids. Bytes are what is held at the peak: the batch,
//! and what the table writers hold; the generation itself is not counted, it is the same for all.
//!
//! A commit is durable: its time includes the drive's. A batch as large as the budget is one batch, and so is a larger one.
//! 256 MiB of coins are only committed sorted: unsorted they take longer than an experiment may.

use crate::bench::Bench;
use crate::input::{self, Digest, Inputs, Mix, Rng};
use crate::{Error, Experiment};
use primitives::{BlockHash, CoinKey};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use store::Chainstate;
use store::chainstate::CoinsCommit;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &TABLES, run };

/// Each is one budget, in one order of the coins.
const TABLES: [&str; 5] = [
    "flush: 16 MiB of coins, unsorted",
    "flush: 16 MiB of coins, sorted",
    "flush: 64 MiB of coins, unsorted",
    "flush: 64 MiB of coins, sorted",
    "flush: 256 MiB of coins, sorted",
];
/// What a generation may hold when it is committed, and whether its coins come in order.
const BUDGETS_MIB: [(usize, bool); 5] = [(16, false), (16, true), (64, false), (64, true), (256, true)];
const BATCHES_MIB: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
const MIB: usize = 1024 * 1024;
/// What a record costs a batch beside its bytes: two vectors' heads, and what glibc adds to two small blocks.
const RECORD_BYTES: usize = 2 * size_of::<Vec<u8>>() + 2 * 16;
const BEST_BLOCK: BlockHash = BlockHash::from_bytes([9; 32]);
/// Ranges of txids with a table writer of their own.
const PARTS: u64 = 4;

/// A record of the chainstate, plain.
type Record = (Vec<u8>, Vec<u8>);

struct Done {
    chainstate: Chainstate,
    /// Held at the peak.
    bytes: usize,
}

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let dir = inputs.folder("flush")?.join("chainstate");
    for (name, (budget_mib, is_sorted)) in TABLES.into_iter().zip(BUDGETS_MIB) {
        if !bench.wants(name) {
            continue;
        }
        let budget = bench.size(budget_mib * MIB / 64, budget_mib * MIB);
        let records = generation(budget, is_sorted);
        batches(bench, name, budget_mib, &records, &dir)?;
    }
    Ok(())
}

/// Coins that take `budget` bytes.
fn generation(budget: usize, is_sorted: bool) -> Vec<Record> {
    let (mut records, mut bytes): (Vec<Record>, _) = (Vec::new(), 0);
    for seed in 0.. {
        for coin in input::coins(2_000, Mix::In2025, 3_000 + seed) {
            let key = CoinKey::new(&coin.outpoint).as_bytes().to_vec();
            let record = (key, coin.coin);
            bytes += bytes_of(&record);
            if bytes > budget {
                break;
            }
            records.push(record);
        }
        if bytes > budget {
            break;
        }
    }
    if is_sorted {
        records.sort_unstable();
    } else {
        Rng(4).shuffle(&mut records);
    }
    records
}

fn batches(
    bench: &mut Bench<'_>,
    name: &'static str,
    budget_mib: usize,
    records: &[Record],
    dir: &Path,
) -> Result<(), Error> {
    let (count, scale) = (records.len(), bench.size(64, 1));
    let Some(mut table) = bench.table(name, "coin", count) else { return Ok(()) };
    table.waits();
    for mib in BATCHES_MIB.into_iter().filter(|&mib| mib <= budget_mib) {
        let batches = budget_mib.div_ceil(mib);
        let way = match batches {
            1 => format!("{mib} MiB{}: one batch", if mib == BATCHES_MIB[6] { "" } else { " or more" }),
            _ => format!("{mib} MiB: {batches} batches"),
        };
        let commit = move || in_batches(records, mib * MIB / scale, dir);
        let start = Instant::now();
        let done = commit()?;
        let time = start.elapsed();
        table.add(way, digest(&done.chainstate)?, commit).memory(done.bytes as f64 / count as f64, None).took(time);
    }
    let start = Instant::now();
    let done = whole(records, dir)?;
    let time = start.elapsed();
    table.add(format!("one run, {PARTS} writers"), digest(&done.chainstate)?, move || whole(records, dir)).shipped();
    table.memory(done.bytes as f64 / count as f64, None).took(time);
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
    while let Some(merge) = chainstate.plan_compaction()? {
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

/// As ffwd: the generation is sorted where it lies, and its ranges are written side by side.
fn whole(records: &[Record], dir: &Path) -> Result<Done, Error> {
    let chainstate = fresh(dir)?;
    let bytes: usize = records.iter().map(|(key, coin)| key.len() + coin.len()).sum();
    let commit = chainstate
        .begin_commit(BEST_BLOCK, records.len() as u64, bytes as u64)?
        .ok_or_else(|| Error::Broken("an empty chainstate has no room".to_owned()))?;
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let next = AtomicU64::new(0);
    let held = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers.min(PARTS))
            .map(|_| {
                scope.spawn(|| {
                    let mut held = 0;
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= PARTS {
                            return Ok::<usize, Error>(held);
                        }
                        held = held.max(write_part(&commit, records, number)?);
                    }
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("writers do not panic")).sum::<Result<usize, Error>>()
    })?;
    commit.finish()?;
    Ok(Done { chainstate, bytes: held })
}

/// One range of txids; returns what was held.
fn write_part(commit: &CoinsCommit, records: &[Record], number: u64) -> Result<usize, Error> {
    let prefix = |(key, _): &Record| u64::from_be_bytes(*key[1..].first_chunk().expect("a key has a txid"));
    let mut order: Vec<(u64, u32)> = records
        .iter()
        .zip(0..)
        .map(|(record, at)| (prefix(record), at))
        .filter(|(prefix, _)| prefix >> 62 == number)
        .collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| records[a.1 as usize].0.cmp(&records[b.1 as usize].0)));
    let mut part = if number == 0 { commit.first_part()? } else { commit.part() };
    let mut held = 0;
    for &(_, at) in &order {
        let (key, coin) = &records[at as usize];
        part.put(key, coin)?;
        held = held.max(part.memory_bytes());
    }
    part.finish()?;
    Ok(held + order.capacity() * size_of::<(u64, u32)>())
}

/// Of all coins that the chainstate holds, in order.
fn digest(chainstate: &Chainstate) -> Result<Digest, Error> {
    let view = chainstate.view();
    let mut coins = view.coins()?;
    let mut digest = Digest::default();
    while let Some((outpoint, coin)) = coins.next_coin()? {
        digest.add(outpoint.txid.as_bytes());
        digest.add_u64(outpoint.vout.into());
        digest.add(coin);
    }
    Ok(digest)
}
