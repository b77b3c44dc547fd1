//! A chainstate made from a snapshot file: coins become tables as they are read, and become active once their hash is
//! right.
//!
//! One thread reads, checks and hashes; one writes tables; one syncs complete tables. Memory does not grow with the
//! set. A file whose coins are not in the order of the tables, which Core does not write but accepts, is sorted piece
//! by piece.

use crate::fault::Fault;
use crate::pipeline::stats::Snapshot;
use crate::reporting::Reporter;
use crate::reporting::disk_space::SpaceWait;
use crate::reporting::state::Loading;
use crate::snapshot::file::SnapshotFile;
use crate::snapshot::room::{Room, look_at_room};
use crate::threads;
use crate::utxo_stats::SetHash;
use crate::utxo_stats::hashed::{self, HashedCoins};
use crate::utxo_stats::setinfo::set_info;
use kernels::sha256::Sha256;
use primitives::snapshot::SnapshotCoin;
use primitives::{BlockHash, CoinKey, Hash256, Height, human};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use store::Host;
use store::Layout;
use store::chainstate::{Chainstate, CoinsCommit, CoinsPart};

/// Text before the reason when a file is refused, as in Core.
pub(super) const FAILED: &str = "Unable to load UTXO snapshot: Population failed: ";
/// Batches between the reading and the writing thread.
const BATCHES_AHEAD: usize = 4;
/// Maximum bytes of coins that are sorted in memory at a time, for an unsorted file.
const SORTED_BYTES_MAX: usize = 64 << 20;
/// Bytes of a table's record in addition to the coin: its key.
const KEY_BYTES: u64 = 34;
/// Coins between two lines of the log, as in Core.
const TOLD_COINS: u64 = 1_000_000;
/// Time between two checks for tables that can be synced.
const SYNC_INTERVAL: Duration = Duration::from_millis(100);

/// The snapshot to load.
pub(super) struct Wanted<'a> {
    pub(super) host: &'a Host,
    pub(super) layout: &'a Layout,
    pub(super) file: &'a SnapshotFile,
    pub(super) path: &'a Path,
    /// Height of the base block.
    pub(super) height: Height,
    /// The required hash of its coins.
    pub(super) hash: Hash256,
    pub(super) par: usize,
    /// Counters of the earlier parts of the sync, for the displays.
    pub(super) stats: &'a Snapshot,
}

/// Coins for the tables: keys and stored bytes, concatenated.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// End offsets of key and coin.
    ends: Vec<(u32, u32)>,
}

impl Batch {
    pub(super) fn push(&mut self, key: &CoinKey, coin: &SnapshotCoin<'_>) {
        self.bytes.extend_from_slice(key.as_bytes());
        let key_end = self.bytes.len() as u32;
        coin.stored_into(&mut self.bytes);
        self.ends.push((key_end, self.bytes.len() as u32));
    }

    pub(super) fn write(&self, part: &mut CoinsPart) -> Result<(), store::Fault> {
        let mut start = 0;
        for &(key_end, end) in &self.ends {
            let key = &self.bytes[start..key_end as usize];
            let coin = &self.bytes[key_end as usize..end as usize];
            part.put(key, coin)?;
            start = end as usize;
        }
        Ok(())
    }
}

/// Makes the chainstate; its directory is closed and durable, with its best block set and no unfinished flush.
///
/// # Errors
///
/// The file is incomplete, or has another hash; the user stopped it; no space, or an I/O error. Nothing is left.
pub(super) fn fill(wanted: &Wanted<'_>, reporter: &Reporter<'_>) -> Result<(), Fault> {
    look_at_room(wanted.host, wanted.layout, wanted.file.bytes(), reporter)?;
    let mut room = Room::default();
    let wait = SpaceWait::default();
    let done = wait.repeat(reporter, |begun| try_fill(wanted, &mut room, reporter, begun));
    reporter.last_progress(wanted.stats.clone());
    reporter.loading(None);
    if done.is_err() {
        let _ = store::chainstate::begin_snapshot(&*wanted.host.disk, wanted.layout);
    }
    done
}

/// Calls `begun` when there is space.
fn try_fill(wanted: &Wanted<'_>, room: &mut Room, reporter: &Reporter<'_>, begun: &dyn Fn()) -> Result<(), Fault> {
    // The tables of a failed try count as free space.
    store::chainstate::begin_snapshot(&*wanted.host.disk, wanted.layout)?;
    room.begin_try(wanted.host, wanted.layout, 0, reporter)?;
    begun();
    let base = wanted.file.header.base;
    reporter.log().line(&format!("[snapshot] loading {} coins from snapshot {base}", wanted.file.header.coins));
    let coins = new_chainstate(wanted)?;
    if fill_sorted(wanted, &coins, reporter)?.is_none() {
        drop(coins);
        // Sorting takes long, without reports.
        reporter.last_progress(wanted.stats.clone());
        let coins = new_chainstate(wanted)?;
        fill_unsorted(wanted, &coins, reporter)?;
        return Ok(coins.settle()?);
    }
    Ok(coins.settle()?)
}

fn new_chainstate(wanted: &Wanted<'_>) -> Result<Chainstate, Fault> {
    let dir = store::chainstate::begin_snapshot(&*wanted.host.disk, wanted.layout)?;
    Ok(Chainstate::open(wanted.host, &dir)?)
}

fn table_bytes(wanted: &Wanted<'_>) -> u64 {
    // A wrong count is harmless: no file has more coins than a fifth of its bytes.
    wanted.file.bytes() + KEY_BYTES * wanted.file.header.coins.min(wanted.file.bytes() / 5)
}

fn refused(wanted: &Wanted<'_>, why: impl std::fmt::Display) -> Fault {
    Fault::refused(format!("{FAILED}{why}. ({})", wanted.path.display()), super::LOAD_ADVICE)
}

fn check_hash(wanted: &Wanted<'_>, got: Hash256) -> Result<(), Fault> {
    if got == wanted.hash {
        return Ok(());
    }
    Err(refused(wanted, format!("Bad snapshot content hash: expected {}, got {got}", wanted.hash)))
}

fn check_stop(reporter: &Reporter<'_>) -> Result<(), Fault> {
    if reporter.is_stopping() {
        reporter.note("[snapshot] stopped; nothing was loaded: the same command begins again");
        Err(Fault::Stopped)
    } else {
        Ok(())
    }
}

/// One commit of all coins; `None` if they are not in order, and then nothing is committed.
fn fill_sorted(wanted: &Wanted<'_>, coins: &Chainstate, reporter: &Reporter<'_>) -> Result<Option<()>, Fault> {
    let base = wanted.file.header.base;
    let count = wanted.file.header.coins.min(wanted.file.bytes() / 5);
    let Some(commit) = coins.begin_commit(base, count, table_bytes(wanted))? else {
        return Err(Fault::internal("a new chainstate compacts"));
    };
    let done = AtomicBool::new(false);
    let read = std::thread::scope(|scope| {
        let (batches, receiver) = sync_channel::<Batch>(BATCHES_AHEAD);
        let commit = &commit;
        let done = &done;
        let writing = threads::spawn(scope, "coins.write", move || write_batches(commit, receiver))?;
        let syncing = threads::spawn(scope, "coins.sync", move || sync_tables(commit, done));
        // Batches that were sent are written before this fault is returned.
        let read = read_sorted(wanted, batches, reporter);
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        done.store(true, Relaxed);
        let synced = match syncing {
            Ok(syncing) => {
                syncing.thread().unpark();
                syncing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            Err(fault) => return Err(fault),
        };
        written?;
        synced?;
        read
    })?;
    let Some(hash) = read else { return Ok(None) };
    check_hash(wanted, hash)?;
    commit.finish()?;
    Ok(Some(()))
}

fn write_batches(commit: &CoinsCommit, batches: Receiver<Batch>) -> Result<(), store::Fault> {
    let mut part = commit.first_part()?;
    for batch in batches {
        batch.write(&mut part)?;
    }
    part.finish()
}

fn sync_tables(commit: &CoinsCommit, done: &AtomicBool) -> Result<(), store::Fault> {
    while !done.load(Relaxed) {
        commit.sync()?;
        std::thread::park_timeout(SYNC_INTERVAL);
    }
    Ok(())
}

/// The hash of all coins; `None` if they are not in order.
fn read_sorted(
    wanted: &Wanted<'_>,
    batches: SyncSender<Batch>,
    reporter: &Reporter<'_>,
) -> Result<Option<Hash256>, Fault> {
    let mut reader = wanted.file.coins(wanted.height, FAILED);
    let mut sha = Sha256::new();
    let mut hashed = HashedCoins::default();
    let mut last: Option<CoinKey> = None;
    let mut is_sorted = true;
    loop {
        check_stop(reporter)?;
        let before = reader.count();
        let mut batch = Batch::default();
        let goes_on = reader.piece(|coin| {
            let key = CoinKey::new(&coin.outpoint);
            is_sorted &= last.is_none_or(|last| last < key);
            last = Some(key);
            if is_sorted {
                hashed.push(&coin.outpoint, &coin.coin);
                batch.push(&key, coin);
            }
            Ok(())
        })?;
        if !is_sorted {
            return Ok(None);
        }
        sha.update(hashed.ready());
        hashed.ready().clear();
        tell(reporter, before, reader.count(), wanted.file.header.coins);
        let bytes_end = Some(wanted.file.bytes());
        reporter.loading(Some(Loading { bytes: reader.offset(), bytes_end, seconds_left: None }));
        reporter.progress(|| wanted.stats.clone());
        // The writer has ended with a fault, which joining it returns.
        if batches.send(batch).is_err() || !goes_on {
            break;
        }
    }
    sha.update(&hashed.take());
    Ok(Some(hashed::finish(sha)))
}

pub(super) fn tell(reporter: &Reporter<'_>, before: u64, now: u64, all: u64) {
    if before / TOLD_COINS < now / TOLD_COINS {
        let share = now as f64 * 100.0 / all.max(1) as f64;
        reporter.log().line(&format!("[snapshot] {now} coins loaded ({share:.2}%)"));
    }
}

/// Sorted pieces, one commit each; then the hash of the tables' coins, as Core computes it.
fn fill_unsorted(wanted: &Wanted<'_>, coins: &Chainstate, reporter: &Reporter<'_>) -> Result<(), Fault> {
    reporter.note("The coins of the snapshot are not in the order that Core writes: they are sorted first");
    let base = wanted.file.header.base;
    let mut reader = wanted.file.coins(wanted.height, FAILED);
    let mut piece = Vec::new();
    let mut bytes = 0;
    loop {
        check_stop(reporter)?;
        let goes_on = reader.piece(|coin| {
            let mut stored = Vec::with_capacity(coin.bytes.len());
            coin.stored_into(&mut stored);
            bytes += stored.capacity() + size_of::<(CoinKey, Vec<u8>)>();
            piece.push((CoinKey::new(&coin.outpoint), stored));
            Ok(())
        })?;
        if bytes > SORTED_BYTES_MAX || !goes_on {
            commit_piece(coins, base, std::mem::take(&mut piece))?;
            bytes = 0;
        }
        if !goes_on {
            break;
        }
    }
    let set = set_info(&coins.view(), SetHash::Serialized, false, wanted.par)?;
    check_hash(wanted, set.hash.map_or(Hash256::ZERO, |(_, hash)| hash))?;
    reporter.log().line(&format!("[snapshot] sorted {} coins", human::count(set.txouts)));
    Ok(())
}

fn commit_piece(coins: &Chainstate, base: BlockHash, mut piece: Vec<(CoinKey, Vec<u8>)>) -> Result<(), Fault> {
    // Of equal outpoints the first one is used, because Core's cache keeps it.
    piece.sort_by_key(|(key, _)| *key);
    piece.dedup_by_key(|(key, _)| *key);
    let bytes = piece.iter().map(|(key, coin)| (key.as_bytes().len() + coin.len()) as u64).sum();
    let Some(commit) = coins.begin_commit(base, piece.len() as u64, bytes)? else {
        return Err(Fault::internal("a chainstate compacts that no other thread uses"));
    };
    let mut part = commit.first_part()?;
    for (key, coin) in &piece {
        part.put(key.as_bytes(), coin)?;
    }
    part.finish()?;
    Ok(commit.finish()?)
}
