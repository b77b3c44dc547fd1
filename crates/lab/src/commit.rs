//! The command `lab commit`, which runs the work `commit` of a plan: loads a UTXO set into memory and writes it again,
//! as a flush does.
//!
//! The set is the chainstate of a data directory. Coins are collected into generations as large as the cache allows.
//! Each generation is committed as in the engine: sorted shard by shard, ranges of shards written in parallel, one
//! manifest edit. The new chainstate then replaces the old one; tip and coins are equal, so the output can be
//! verified.
//!
//! Absent on purpose: blocks and rules.

use coins::ops::SHARDS;
use coins::table::{Change, HashKey, Key, Table};
use consensus::{Chain, Params};
use disk::{Disk, RealDisk};
use primitives::BlockHash;
use primitives::coin::COIN_KEY_PREFIX;
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use store::chainstate::CoinsCommit;
use store::{Chainstate, Layout};

/// Number of shard ranges written in parallel, as in the engine.
const PARTS: usize = 8;
const _: () = assert!(SHARDS.is_multiple_of(PARTS));
/// Name of the new set's directory below `ffwd`, while it is written.
const MADE: &str = "commit";
/// Number of coins after which memory is measured again.
const MEASURE_EVERY: u64 = 4_096;
/// Keys of the hash tables. They need not be secret: the txids of an existing set cannot be chosen by an attacker any
/// more.
const SECRET: HashKey =
    HashKey([0x5bd1_e995_7b79_c4d1, 0x2545_f491_4f6c_dd1d, 0x9e37_79b9_7f4a_7c15, 0x94d0_49bb_1331_11eb]);

/// Options: the set to write, and how.
#[derive(Clone, Debug)]
pub struct CommitOptions {
    /// The data directory.
    pub datadir: PathBuf,
    /// Its network.
    pub chain: Chain,
    /// Bytes of coins in memory at which a generation is committed.
    pub dbcache_bytes: usize,
    /// Parts that are written in parallel; 0 for one for each core.
    pub threads: usize,
}

/// The result.
#[derive(Clone, Debug, Serialize)]
pub struct CommitReport {
    /// The network.
    pub chain: &'static str,
    /// The best block of the set, unchanged.
    pub bestblock: String,
    /// Number of coins.
    pub txouts: u64,
    /// Number of commits.
    pub generations: u64,
    /// Time to read the old set and fill the tables, in seconds.
    pub read_seconds: f64,
    /// Time of the commits including compactions, in seconds.
    pub commit_seconds: f64,
    /// Total time in seconds.
    pub seconds: f64,
}

/// Why the set could not be written again.
#[derive(Debug)]
pub enum Error {
    /// The set is missing.
    NoSet(PathBuf),
    /// The set is incomplete or empty.
    NotWhole(PathBuf),
    /// An obsolete directory of this program could not be removed.
    Remove(PathBuf, std::io::Error),
    /// An error of the data directory.
    Store(store::Fault),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSet(path) => {
                write!(f, "no UTXO set in {}: `ffwd reindex` on this data directory makes one", path.display())
            }
            Error::NotWhole(path) => {
                let path = path.display();
                write!(f, "the set in {path} has no best block: `ffwd reindex --chainstate-only` makes it whole")
            }
            Error::Remove(path, error) => write!(f, "{} cannot be removed: {error}", path.display()),
            Error::Store(fault) => write!(f, "{fault}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<store::Fault> for Error {
    fn from(fault: store::Fault) -> Error {
        Error::Store(fault)
    }
}

impl From<disk::DiskError> for Error {
    fn from(why: disk::DiskError) -> Error {
        Error::Store(why.into())
    }
}

/// Writes the set of `options.datadir` again.
///
/// # Errors
///
/// See [`Error`]. The old set stays until the new one is complete.
pub fn commit(options: &CommitOptions) -> Result<CommitReport, Error> {
    let start = Instant::now();
    let params = Params::new(options.chain);
    let layout = Layout::new(&options.datadir, params.chain.net_dir(), None);
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let dir = layout.chainstate_dir();
    if !Chainstate::exists(&*disk, &dir)? {
        return Err(Error::NoSet(dir));
    }
    let old = Chainstate::open(disk.clone(), &dir)?;
    let best_block = old.best_block()?.ok_or_else(|| Error::NotWhole(dir.clone()))?;
    layout.create(&*disk)?;
    // A rebuild must not read this path: until the new set is complete, it lacks coins of its best block.
    let made = layout.private_dir().join(MADE);
    remove(&made)?;
    let new = Chainstate::open_with(disk.clone(), &made, old.key())?;
    let mut writer =
        Writer { new: &new, best_block, threads: threads(options.threads), generations: 0, took: Duration::ZERO };
    let txouts = writer.all(&old, options.dbcache_bytes)?;
    new.settle()?;
    let generations = writer.generations;
    let commit_seconds = writer.took.as_secs_f64();
    drop(new);
    put_in_place(&*disk, &made, &dir)?;
    drop(old);
    remove(&made)?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(CommitReport {
        chain: options.chain.name(),
        bestblock: best_block.to_string(),
        txouts,
        generations,
        read_seconds: seconds - commit_seconds,
        commit_seconds,
        seconds,
    })
}

/// Exchanges `new` and `old`, atomically if the system supports it.
fn put_in_place(disk: &dyn Disk, new: &Path, old: &Path) -> Result<(), Error> {
    match disk.exchange(new, old) {
        Err(why) if why.is_unsupported() => {
            let aside = new.with_extension("old");
            disk.rename(old, &aside)?;
            disk.rename(new, old)?;
            disk.rename(&aside, new)?;
        }
        done => done?,
    }
    for directory in [old.parent(), new.parent()].into_iter().flatten() {
        disk.sync_dir(directory)?;
    }
    Ok(())
}

/// Removes a directory of this program, if it exists.
fn remove(directory: &Path) -> Result<(), Error> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::Remove(directory.to_owned(), error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn threads(asked: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if asked == 0 { cores() } else { asked }.min(PARTS)
}

/// Commits generations.
struct Writer<'a> {
    new: &'a Chainstate,
    best_block: BlockHash,
    threads: usize,
    generations: u64,
    took: Duration,
}

impl Writer<'_> {
    /// Writes every coin of `old`; returns their number.
    fn all(&mut self, old: &Chainstate, budget_bytes: usize) -> Result<u64, Error> {
        let view = old.view();
        let mut coins = view.coins()?;
        let mut tables = empty();
        let mut txouts = 0u64;
        while let Some((outpoint, coin)) = coins.next_coin()? {
            let key = Key::new(&SECRET, outpoint.txid.as_bytes(), outpoint.vout);
            tables[usize::from(outpoint.txid.as_bytes()[0])].insert_stored(&SECRET, &key, coin);
            txouts += 1;
            if txouts.is_multiple_of(MEASURE_EVERY)
                && tables.iter().map(Table::memory_bytes).sum::<usize>() >= budget_bytes
            {
                self.generation(&tables)?;
                tables = empty();
            }
        }
        self.generation(&tables)?;
        Ok(txouts)
    }

    fn generation(&mut self, tables: &[Table]) -> Result<(), Error> {
        let start = Instant::now();
        let records: usize = tables.iter().map(Table::len).sum();
        let bytes: usize = tables.iter().map(Table::memory_bytes).sum();
        let commit = loop {
            if let Some(commit) = self.new.begin_commit(self.best_block, records as u64, bytes as u64)? {
                break commit;
            }
        };
        self.write(&commit, tables)?;
        commit.finish()?;
        while let Some(compaction) = self.new.plan_compaction()? {
            while compaction.step()? {}
            compaction.finish()?;
        }
        self.generations += 1;
        self.took += start.elapsed();
        Ok(())
    }

    /// Writes the parts, on all threads.
    fn write(&self, commit: &CoinsCommit, tables: &[Table]) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<(), Error> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(tables) = tables.chunks(SHARDS / PARTS).nth(number) else { return Ok(()) };
                let mut part = if number == 0 { commit.first_part()? } else { commit.part() };
                let mut key = Vec::with_capacity(40);
                for (shard, table) in (number * SHARDS / PARTS..).zip(tables) {
                    for (tail, change) in table.sorted() {
                        let Change::Put(coin) = change else { continue };
                        key.clear();
                        key.extend_from_slice(&[COIN_KEY_PREFIX, shard as u8]);
                        key.extend_from_slice(tail);
                        part.put(&key, coin)?;
                    }
                }
                part.finish()?;
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("writers do not panic"))
        })
    }
}

fn empty() -> Vec<Table> {
    (0..SHARDS).map(Table::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{CoinKey, OutPoint, Txid};

    /// A UTXO set of any coins: nothing here looks into them.
    fn set(dir: &Path, count: u32) {
        let chainstate = Chainstate::open(RealDisk::shared(), dir).unwrap();
        let mut records: Vec<(Vec<u8>, Vec<u8>)> = (0..count)
            .map(|number| {
                let txid = Txid::from_bytes(kernels::sha256::sha256(&(number / 3).to_le_bytes()));
                let key = CoinKey::new(&OutPoint { txid, vout: number % 3 }).as_bytes().to_vec();
                (key, vec![number as u8; 3 + number as usize % 50])
            })
            .collect();
        records.sort_unstable();
        let best = BlockHash::from_bytes([5; 32]);
        let commit = chainstate.begin_commit(best, u64::from(count), 100 * u64::from(count)).unwrap().unwrap();
        let mut part = commit.first_part().unwrap();
        records.iter().for_each(|(key, coin)| part.put(key, coin).unwrap());
        part.finish().unwrap();
        commit.finish().unwrap();
    }

    fn read(dir: &Path) -> (Option<BlockHash>, Vec<(OutPoint, Vec<u8>)>) {
        let chainstate = Chainstate::open_read_only(RealDisk::shared(), dir).unwrap();
        let view = chainstate.view();
        let mut coins = view.coins().unwrap();
        let mut found = Vec::new();
        while let Some((outpoint, coin)) = coins.next_coin().unwrap() {
            found.push((outpoint, coin.to_vec()));
        }
        (chainstate.best_block().unwrap(), found)
    }

    #[test]
    fn commit_keeps_every_coin() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("regtest/chainstate");
        std::fs::create_dir_all(&dir).unwrap();
        set(&dir, 20_000);
        let before = read(&dir);
        assert_eq!((before.0, before.1.len()), (Some(BlockHash::from_bytes([5; 32])), 20_000));
        // What a run before left half done is not taken for anything.
        std::fs::create_dir_all(scratch.path().join("regtest/ffwd/commit/rest")).unwrap();
        for (dbcache_bytes, threads, generations) in [(1 << 30, 0, 1), (1, 3, 5)] {
            let datadir = scratch.path().to_owned();
            let report = commit(&CommitOptions { datadir, chain: Chain::Regtest, dbcache_bytes, threads }).unwrap();
            assert_eq!((report.txouts, report.generations), (20_000, generations));
            assert!(read(&dir) == before, "{threads} threads");
            assert!(!scratch.path().join("regtest/ffwd/commit").exists());
        }
    }

    #[test]
    fn commit_refuses_missing_or_partial_chainstate() {
        let scratch = tempfile::tempdir().unwrap();
        let options =
            CommitOptions { datadir: scratch.path().to_owned(), chain: Chain::Regtest, dbcache_bytes: 1, threads: 1 };
        assert!(commit(&options).unwrap_err().to_string().contains("no UTXO set in"));
        let dir = scratch.path().join("regtest/chainstate");
        std::fs::create_dir_all(&dir).unwrap();
        drop(Chainstate::open(RealDisk::shared(), &dir).unwrap());
        assert!(commit(&options).unwrap_err().to_string().contains("has no best block"));
    }
}
