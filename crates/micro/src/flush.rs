//! Experiment: the batch size of a commit, by size of the generation and order of its coins.
//!
//! The plain variant writes coins in the order of a hash table, in batches that are sorted separately. Every batch
//! becomes a run of tables; runs with overlapping keys have to be compacted. ffwd commits a generation as one batch,
//! whatever its size. All variants borrow the same coins, sort them with the same code, and write with the same number
//! of threads, a range of txids each; they only differ in the batch size. Bytes are the peak memory in addition to the
//! coins: for sorting the batch, and for the buffers of the table writers.
//!
//! A commit is durable, so its time includes that of the drive. Core's batches, which copy their contents, are measured
//! in whole runs: `plans/batches.toml`.

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

/// Each table has one size of the generation, and one order of the coins.
const TABLES: [&str; 5] = [
    "flush: 16 MiB of coins, unsorted",
    "flush: 16 MiB of coins, sorted",
    "flush: 64 MiB of coins, unsorted",
    "flush: 64 MiB of coins, sorted",
    "flush: 256 MiB of coins, sorted",
];
/// Bytes of a generation, whether its coins are in order, and the batch sizes. The table of 256 MiB has only sorted
/// coins, in three batch sizes: eleven epochs of more would take minutes.
const BUDGETS: [(usize, bool, &[usize]); 5] = [
    (16, false, &[4, 8]),
    (16, true, &[4, 8]),
    (64, false, &[4, 8, 16, 32]),
    (64, true, &[4, 8, 16, 32]),
    (256, true, &[16, 64]),
];
const MIB: usize = 1024 * 1024;
/// Overhead of a record in a batch of Core's, in bytes: two string headers. Batches are cut by this sum.
const RECORD_BYTES: usize = 2 * size_of::<Vec<u8>>() + 2 * 16;
const BEST_BLOCK: BlockHash = BlockHash::from_bytes([9; 32]);
/// Number of txid ranges, each with its own table writer.
const PARTS: u64 = 4;

/// A record of the chainstate, not obfuscated.
type Record = (Vec<u8>, Vec<u8>);

struct Done {
    chainstate: Chainstate,
    /// Peak memory.
    bytes: usize,
}

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let dir = inputs.directory("flush")?.join("chainstate");
    for (name, (budget_mib, is_sorted, batches_mib)) in TABLES.into_iter().zip(BUDGETS) {
        if !bench.wants(name) {
            continue;
        }
        let scale = bench.size(64, 1);
        let records = generation(budget_mib * MIB / scale, is_sorted);
        let sizes: Vec<(String, usize)> = batches_mib
            .iter()
            .map(|&mib| (format!("{mib} MiB: {} batches", budget_mib.div_ceil(mib)), mib * MIB / scale))
            .chain([("one batch".to_owned(), usize::MAX)])
            .collect();
        one(bench, name, &sizes, &records, &dir)?;
    }
    Ok(())
}

/// Coins that take `budget` bytes.
fn generation(budget: usize, is_sorted: bool) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut bytes = 0;
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

/// A table with a variant for each batch size; the last one is ffwd's.
fn one(
    bench: &mut Bench<'_>,
    name: &'static str,
    sizes: &[(String, usize)],
    records: &[Record],
    dir: &Path,
) -> Result<(), Error> {
    let Some(mut table) = bench.table(name, "coin", records.len()) else { return Ok(()) };
    table.waits();
    for (way, batch_bytes) in sizes {
        let commit = move || in_batches(records, *batch_bytes, dir);
        let start = Instant::now();
        let done = commit()?;
        let time = start.elapsed();
        table.add(way.clone(), digest(&done.chainstate)?, commit);
        table.memory(done.bytes as f64 / records.len() as f64, None).took(time);
    }
    table.shipped();
    bench.run(table)
}

fn bytes_of((key, coin): &Record) -> usize {
    key.len() + coin.len() + RECORD_BYTES
}

/// Commits all records, then compacts until nothing is left to compact.
fn in_batches(records: &[Record], batch_bytes: usize, dir: &Path) -> Result<Done, Error> {
    if dir.is_dir() {
        std::fs::remove_dir_all(dir).map_err(Error::io("remove", dir))?;
    }
    let chainstate = Chainstate::open_with(input::disk(), dir, [1, 2, 3, 4, 5, 6, 7, 8])?;
    let mut peak = 0;
    let mut rest = records;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |record: &&Record| {
            bytes += bytes_of(record);
            bytes <= batch_bytes
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (batch, later) = rest.split_at(count);
        peak = peak.max(commit(&chainstate, batch)?);
        rest = later;
    }
    while let Some(compaction) = chainstate.plan_compaction()? {
        while compaction.step()? {}
        compaction.finish()?;
    }
    Ok(Done { chainstate, bytes: peak })
}

/// Commits one batch on all processors; returns the memory used.
fn commit(chainstate: &Chainstate, batch: &[Record]) -> Result<usize, Error> {
    let bytes: usize = batch.iter().map(|(key, coin)| key.len() + coin.len()).sum();
    let commit = loop {
        if let Some(commit) = chainstate.begin_commit(BEST_BLOCK, batch.len() as u64, bytes as u64)? {
            break commit;
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let next = AtomicU64::new(0);
    let held = std::thread::scope(|scope| {
        let work = || {
            let mut held = 0;
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= PARTS {
                    return Ok::<usize, Error>(held);
                }
                held = held.max(write_part(&commit, batch, number)?);
            }
        };
        let workers: Vec<_> = (0..workers.min(PARTS)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("writers do not panic")).sum::<Result<usize, Error>>()
    })?;
    commit.finish()?;
    Ok(held)
}

/// Writes one range of txids; returns the memory used.
fn write_part(commit: &CoinsCommit, batch: &[Record], number: u64) -> Result<usize, Error> {
    let prefix = |(key, _): &Record| u64::from_be_bytes(*key[1..].first_chunk().expect("a key has a txid"));
    let mut order: Vec<(u64, u32)> = batch
        .iter()
        .zip(0..)
        .map(|(record, at)| (prefix(record), at))
        .filter(|(prefix, _)| prefix >> 62 == number)
        .collect();
    order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| batch[a.1 as usize].0.cmp(&batch[b.1 as usize].0)));
    let mut part = if number == 0 { commit.first_part()? } else { commit.part() };
    let mut held = 0;
    for &(_, at) in &order {
        let (key, coin) = &batch[at as usize];
        part.put(key, coin)?;
        held = held.max(part.memory_bytes());
    }
    part.finish()?;
    Ok(held + order.capacity() * size_of::<(u64, u32)>())
}

/// A digest of all coins in the chainstate, in order.
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
