//! The UTXO set on disk: look-ups, commits, and compaction in parallel with validation.
//!
//! Its lock is held while a commit or a compaction starts or ends, and never together with another lock.
//!
//! Absent on purpose: coins in memory (`coins`), when to commit (`pipeline`).

use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::reporting::bench_lines::Flushed;
use crate::reporting::disk_space::SpaceWait;
use crate::threads::locks::lock;
use coins::table::Change;
use coins::{COIN_BYTES_MAX, Generation};
use disk::Disk;
#[cfg(feature = "ablation")]
use kernels::ideas::Idea;
use primitives::coin::{COIN_KEY_BYTES_MAX, COIN_KEY_PREFIX, CoinRef};
use primitives::{BlockHash, CoinKey};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use store::chainstate::{Chainstate, CoinsCommit, CoinsCompaction, CoinsView};

/// Advice for damaged coins.
const REBUILD: &str = "Rebuild the coins: ffwd reindex --chainstate-only";
/// Free space required in addition to the data to be written: as much as Core requires.
const SPARE_BYTES: u64 = 50 << 20;

/// The chainstate of a data directory, and its operations.
#[derive(Debug)]
pub(crate) struct CoinsIo {
    disk: Arc<dyn Disk>,
    chainstate: Chainstate,
    state: Mutex<CommitState>,
    /// A commit waits for compaction.
    compaction_is_needed: AtomicBool,
    space: SpaceWait,
    start: Instant,
    /// Start of the last commit, in milliseconds after `start`.
    last_commit_ms: AtomicU64,
}

#[derive(Debug, Default)]
struct CommitState {
    commit: Option<Arc<CoinsCommit>>,
    /// Record count and start time of the commit; kept when the commit is retried after a full disk.
    begun: Option<(u64, Instant)>,
    compaction: Option<Arc<CoinsCompaction>>,
}

impl CoinsIo {
    /// Keeps at most `filter_bytes_max` of the tables' filters in memory.
    pub(crate) fn new(disk: Arc<dyn Disk>, chainstate: Chainstate, filter_bytes_max: usize) -> CoinsIo {
        chainstate.set_filter_bytes_max(filter_bytes_max as u64);
        CoinsIo {
            disk,
            chainstate,
            state: Mutex::default(),
            compaction_is_needed: AtomicBool::new(false),
            space: SpaceWait::default(),
            start: Instant::now(),
            last_commit_ms: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CommitState> {
        lock(&self.state)
    }

    /// The coins as the last commit left them.
    pub(crate) fn view(&self) -> CoinsView {
        self.chainstate.view()
    }

    /// Bytes of memory that the tables' indexes use.
    pub(crate) fn index_bytes(&self) -> usize {
        self.chainstate.index_bytes() as usize
    }

    /// Whether look-ups wait for the disk: see [`crate::pipeline::Backend::wants_read_ahead`].
    pub(crate) fn wants_read_ahead(&self) -> bool {
        self.chainstate.view().wants_read_ahead()
    }

    /// Looks up coins that are probably not in memory: see [`crate::pipeline::Backend::look_up_from_disk`].
    ///
    /// # Errors
    ///
    /// Those of [`CoinsIo::look_up`].
    pub(crate) fn look_up_from_disk(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        let mut damaged = None;
        self.chainstate.view().look_up_from_disk(keys, |index, coin| take(index, coin, found, &mut damaged))?;
        self.check(keys, damaged)
    }

    /// Looks up coins in the tables: see [`crate::pipeline::Backend::look_up`].
    ///
    /// # Errors
    ///
    /// A damaged table or coin, or an I/O error.
    pub(crate) fn look_up(&self, keys: &[CoinKey], found: &mut dyn FnMut(usize, &[u8])) -> Result<(), Fault> {
        let mut damaged = None;
        let view = self.chainstate.view();
        #[cfg(feature = "ablation")]
        if view.kernels().lacks(Idea::BatchLookUps) {
            for (at, key) in keys.iter().enumerate() {
                view.look_up(std::slice::from_ref(key), |_, coin| take(at, coin, found, &mut damaged))?;
            }
            return self.check(keys, damaged);
        }
        view.look_up(keys, |index, coin| take(index, coin, found, &mut damaged))?;
        self.check(keys, damaged)
    }

    /// Whether any of these coins is in the tables: see [`crate::pipeline::Backend::has_any_coin`].
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub(crate) fn has_any(&self, keys: &[CoinKey]) -> Result<bool, Fault> {
        Ok(self.chainstate.view().has_any(keys)?)
    }

    /// Fails if a look-up found something other than a coin under its key.
    fn check(&self, keys: &[CoinKey], damaged: Option<usize>) -> Result<(), Fault> {
        match damaged {
            None => Ok(()),
            Some(index) => {
                let found = format!("bytes that do not deserialize as a coin under {}", keys[index].outpoint());
                let path = self.chainstate.path();
                Err(store::Fault::new(store::FaultKind::Damaged, path, "coins", found, REBUILD).into())
            }
        }
    }

    /// Changes from now on belong to the next commit.
    pub(crate) fn mark_commit(&self) {
        self.last_commit_ms.store(self.start.elapsed().as_millis() as u64, Relaxed);
    }

    /// Whether the last commit is older than `interval`.
    pub(crate) fn is_commit_late(&self, interval: Duration) -> bool {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.last_commit_ms.load(Relaxed))) > interval
    }

    /// Starts a commit: see [`crate::pipeline::Backend::begin_commit`].
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn begin_commit(
        &self,
        reporter: &Reporter<'_>,
        best: BlockHash,
        records: u64,
        bytes: u64,
    ) -> Result<bool, Fault> {
        self.lock().begun.get_or_insert_with(|| (records, Instant::now()));
        // Compaction then runs piece by piece, in parallel with validation, instead of blocking here.
        let is_blocked = !self.chainstate.has_room(records, bytes) && self.chainstate.wants_compaction();
        self.compaction_is_needed.store(is_blocked, Relaxed);
        if is_blocked {
            return Ok(false);
        }
        let commit = reporter.with_room(|| {
            self.check_room(bytes)?;
            self.chainstate.begin_commit(best, records, bytes)
        })?;
        let has_begun = commit.is_some();
        self.lock().commit = commit.map(Arc::new);
        Ok(has_begun)
    }

    /// Writes a part of the commit: see [`crate::pipeline::Backend::write_part`].
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn write_part(&self, first_group: usize, groups: &[Generation]) -> Result<(), Fault> {
        let commit = self.lock().commit.clone().expect("a commit was begun");
        let first_shard = first_group * coins::ops::SHARDS_PER_GROUP;
        let mut part = if first_group == 0 { commit.first_part()? } else { commit.part() };
        #[cfg(feature = "ablation")]
        if self.chainstate.view().kernels().lacks(Idea::SortedRuns) {
            return Ok(super::through_map::write(first_shard, groups, part)?);
        }
        let mut key = Vec::with_capacity(COIN_KEY_BYTES_MAX);
        for (within, table) in groups.iter().flat_map(|group| &group.tables).enumerate() {
            for (tail, change) in table.sorted() {
                key.clear();
                key.extend_from_slice(&[COIN_KEY_PREFIX, (first_shard + within) as u8]);
                key.extend_from_slice(tail);
                match change {
                    Change::Put(coin) => part.put(&key, coin)?,
                    Change::Delete => part.delete(&key)?,
                }
            }
        }
        Ok(part.finish()?)
    }

    /// Makes the commit durable.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn finish_commit(&self, reporter: &Reporter<'_>) -> Result<Flushed, Fault> {
        let commit = self.lock().commit.take().expect("a commit was begun");
        let commit = Arc::into_inner(commit).expect("every part was written before");
        commit.finish()?;
        self.space.end(reporter);
        let (records, begun) = self.lock().begun.take().expect("a commit was begun");
        Ok(Flushed { records, took: begun.elapsed() })
    }

    /// Drops a commit that found the disk full, and waits for space.
    ///
    /// # Errors
    ///
    /// The fault of the full disk, if the job must stop.
    pub(crate) fn drop_commit(&self, reporter: &Reporter<'_>, fault: Fault) -> Result<(), Fault> {
        let dropped = self.lock().commit.take();
        drop(dropped); // Not under the lock.
        self.space.wait(reporter, fault)
    }

    /// Compacts a piece, possibly in parallel with other threads, or finishes the compaction; returns whether more work
    /// may follow.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn compact(&self, reporter: &Reporter<'_>) -> Result<bool, Fault> {
        match self.compact_some(reporter) {
            Err(fault) if fault.is_no_space() => {
                // The compaction left no files, and is planned again. It is required now only if a commit waits for it.
                if !self.compaction_is_needed.load(Relaxed) {
                    return Ok(false);
                }
                self.space.wait(reporter, fault).map(|()| true)
            }
            done => done,
        }
    }

    fn compact_some(&self, reporter: &Reporter<'_>) -> Result<bool, Fault> {
        let compaction = {
            let mut state = self.lock();
            if state.compaction.is_none()
                && let Some(planned) = self.chainstate.plan_compaction()?
            {
                self.check_room(planned.bytes())?;
                state.compaction = Some(Arc::new(planned));
            }
            let Some(running) = &state.compaction else { return Ok(false) };
            Arc::clone(running)
        };
        match compaction.step() {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(why) => {
                // The compaction cannot be finished; dropping the last handle removes its files.
                self.lock().compaction.take_if(|running| Arc::ptr_eq(running, &compaction));
                return Err(why.into());
            }
        }
        // The last thread to return finishes it. Handles are created only under the lock: if only this one remains, no
        // other thread has one.
        let mut state = self.lock();
        if !state.compaction.as_ref().is_some_and(|running| Arc::ptr_eq(running, &compaction)) {
            return Ok(true); // Another thread found no space.
        }
        drop(compaction);
        let done = state.compaction.take().expect("just seen");
        match Arc::try_unwrap(done) {
            Ok(done) => done.finish()?,
            Err(busy) => {
                state.compaction = Some(busy);
                return Ok(false);
            }
        }
        drop(state);
        self.space.end(reporter);
        Ok(true)
    }

    /// Fails if the disk has less than `bytes` plus a reserve free.
    fn check_room(&self, bytes: u64) -> Result<(), store::Fault> {
        let free = self.disk.free_space_bytes(self.chainstate.path())?;
        let wanted = bytes.saturating_add(SPARE_BYTES);
        if free >= wanted {
            return Ok(());
        }
        let wanted = format!("{wanted} bytes of free space for coins");
        let found = format!("{free} bytes free");
        let advice = "Free disk space; work resumes automatically";
        Err(store::Fault::new(store::FaultKind::NoSpace, self.chainstate.path(), wanted, found, advice))
    }

    /// Completes pending LevelDB work.
    ///
    /// # Errors
    ///
    /// An I/O error, a full disk included.
    pub(crate) fn settle(&self) -> store::Result<()> {
        self.chainstate.settle()
    }
}

/// Passes a found coin on after checking its length and that it decodes: later code relies on both. Of a script that is
/// longer than any in the set Core reads only that it cannot be spent, and nothing writes such a coin.
fn take(index: usize, coin: Option<&[u8]>, found: &mut dyn FnMut(usize, &[u8]), damaged: &mut Option<usize>) {
    match coin {
        Some(coin) if coin.len() > COIN_BYTES_MAX || CoinRef::decode(coin).is_err() => *damaged = Some(index),
        Some(coin) => found(index, coin),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use primitives::coin::{code, put_coin};
    use primitives::{Amount, Height, OutPoint, Txid};
    use std::path::Path;

    /// Records with right checksums, which only a crafted chainstate has.
    #[test]
    fn a_coin_that_is_too_long_or_none_is_damaged() {
        let sim = SimDisk::new(0);
        let chainstate = Chainstate::open_with(sim.shared(), Path::new("/d/chainstate"), [1; 8]).unwrap();
        let coin = |script_bytes: usize| {
            let mut coin = Vec::new();
            put_coin(&mut coin, code(Height::new(1), false), Amount(0), &vec![0x51; script_bytes]);
            coin
        };
        // One byte each for code and amount, three for a script's length.
        let rows = [
            ("short", coin(30), false),
            ("the longest script of the set", coin(10_000), false),
            ("the longest", coin(COIN_BYTES_MAX - 5), false),
            ("a byte longer", coin(COIN_BYTES_MAX - 4), true),
            ("twice as long", coin(2 * COIN_BYTES_MAX), true),
            ("cut", coin(30)[..20].to_vec(), true),
        ];
        let key = |row: usize| CoinKey::new(&OutPoint { txid: Txid::from_bytes([row as u8; 32]), vout: 0 });
        let commit = chainstate.begin_commit(BlockHash::from_bytes([1; 32]), 6, 1 << 20).unwrap().unwrap();
        let mut part = commit.first_part().unwrap();
        for (row, (_, coin, _)) in rows.iter().enumerate() {
            part.put(key(row).as_bytes(), coin).unwrap();
        }
        part.finish().unwrap();
        commit.finish().unwrap();
        let coins = CoinsIo::new(sim.shared(), chainstate, 1 << 20);
        for (row, (name, coin, is_damaged)) in rows.iter().enumerate() {
            for from_disk in [false, true] {
                let mut got = Vec::new();
                let mut found = |_: usize, coin: &[u8]| got.push(coin.to_vec());
                let keys = [key(row)];
                let done = match from_disk {
                    true => coins.look_up_from_disk(&keys, &mut found),
                    false => coins.look_up(&keys, &mut found),
                };
                let why = done.err().map(|why| why.to_string());
                assert_eq!(why.is_some(), *is_damaged, "{name}: {why:?}");
                assert!(why.is_none_or(|why| why.contains("do not deserialize as a coin under")), "{name}");
                assert_eq!(got, if *is_damaged { Vec::new() } else { vec![coin.clone()] }, "{name}");
            }
        }
    }
}
