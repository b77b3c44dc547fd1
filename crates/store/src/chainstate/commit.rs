//! Bulk commits of coins: sorted parts are written as tables in parallel, then one edit publishes them with the best
//! block.

use super::{BEST_BLOCK, Chainstate, HEAD_BLOCKS};
use crate::fault::Result;
use crate::record::Obfuscation;
use leveldb::{Compaction, Error, Run, TableWriter};
use primitives::BlockHash;
use std::sync::atomic::{AtomicBool, Ordering};

/// Approximate bytes of a record in a table in addition to its key and value.
const RECORD_OVERHEAD_BYTES: u64 = 14;

/// A commit in progress. If it is dropped before [`CoinsCommit::finish`], nothing of it remains.
#[derive(Debug)]
pub struct CoinsCommit {
    chainstate: Chainstate,
    run: Run,
    best_block: BlockHash,
    /// Core's marker of an unfinished flush exists; this commit removes it.
    has_heads: bool,
    has_first: AtomicBool,
}

/// The records of one key range, written by one thread.
#[derive(Debug)]
pub struct CoinsPart {
    table: TableWriter,
    obfuscation: Obfuscation,
    plain: Vec<u8>,
}

impl Chainstate {
    /// Begins a commit that sets the set's best block to `best_block`. `record_count` and `bytes` (of keys and values)
    /// may be estimates from above; they decide the tables' level.
    ///
    /// If a level must be freed, compacts on this thread. Returns `None` if another thread's compaction must finish
    /// first. Only one commit is open at a time.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or an I/O error.
    ///
    /// # Panics
    ///
    /// For a null hash, which Core refuses too; if another commit is open.
    pub fn begin_commit(&self, best_block: BlockHash, record_count: u64, bytes: u64) -> Result<Option<CoinsCommit>> {
        assert!(!best_block.is_zero(), "a set has a best block");
        let bytes = bytes + record_count * RECORD_OVERHEAD_BYTES + 1024;
        let run = loop {
            match self.store.db.begin_run(bytes) {
                Ok(run) => break run,
                Err(Error::CompactFirst { .. }) => {
                    if !self.store.db.compact_now()? {
                        return Ok(None);
                    }
                }
                Err(why) => return Err(why.into()),
            }
        };
        let has_heads = self.store.db.get(HEAD_BLOCKS)?.is_some();
        Ok(Some(CoinsCommit {
            chainstate: self.clone(),
            run,
            best_block,
            has_heads,
            has_first: AtomicBool::new(false),
        }))
    }

    /// Begins a commit of coins whose keys are all above those of the set: for a set that is built in key order, in
    /// pieces. The first piece sets `best_block`. Earlier pieces are not written again.
    ///
    /// # Errors
    ///
    /// The set was not built this way; or an I/O error.
    ///
    /// # Panics
    ///
    /// Those of [`Chainstate::begin_commit`].
    pub fn begin_commit_behind(&self, best_block: BlockHash) -> Result<CoinsCommit> {
        assert!(!best_block.is_zero(), "a set has a best block");
        let has_best = self.best_block()?.is_some();
        let run = self.store.db.begin_run_behind()?;
        let has_first = AtomicBool::new(has_best);
        Ok(CoinsCommit { chainstate: self.clone(), run, best_block, has_heads: false, has_first })
    }

    /// Whether a commit of this size would find its level without a compaction.
    pub fn has_room(&self, record_count: u64, bytes: u64) -> bool {
        self.store.db.has_room(bytes + record_count * RECORD_OVERHEAD_BYTES + 1024)
    }

    /// Whether a compaction would shorten look-ups or keep commits from waiting.
    pub fn wants_compaction(&self) -> bool {
        self.store.db.wants_compaction()
    }

    /// Begins the most urgent compaction; `None` if there is no need for one, or one is in progress.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn plan_compaction(&self) -> Result<Option<CoinsCompaction>> {
        Ok(self.store.db.plan_compaction()?.map(CoinsCompaction))
    }

    /// Begins a compaction of all runs into one; `None` if there is only one, or a compaction is in progress.
    ///
    /// # Errors
    ///
    /// Those of [`Chainstate::plan_compaction`].
    pub fn plan_full_compaction(&self) -> Result<Option<CoinsCompaction>> {
        Ok(self.store.db.plan_full_compaction()?.map(CoinsCompaction))
    }
}

impl CoinsCommit {
    /// A writer for one range of keys. Ranges of different parts do not overlap; their order in time is free. Each part
    /// uses about 1 MiB, and below level 0 each makes separate tables. So use a few parts of many shards each, not one
    /// for every shard.
    pub fn part(&self) -> CoinsPart {
        CoinsPart {
            table: self.run.table(),
            obfuscation: self.chainstate.store.obfuscation(),
            plain: Vec::with_capacity(128),
        }
    }

    /// The one part of a commit in key order ([`Chainstate::begin_commit_behind`]).
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn next_part(&self) -> Result<CoinsPart> {
        if self.has_first.load(Ordering::Acquire) { Ok(self.part()) } else { self.first_part() }
    }

    /// The part with the lowest keys, which also holds the best block. Call at most once; without it
    /// [`CoinsCommit::finish`] makes one.
    ///
    /// # Errors
    ///
    /// An I/O error.
    ///
    /// # Panics
    ///
    /// If it was called before.
    pub fn first_part(&self) -> Result<CoinsPart> {
        let was_made = self.has_first.swap(true, Ordering::AcqRel);
        assert!(!was_made, "there is one first part");
        let mut part = self.part();
        part.put(BEST_BLOCK, self.best_block.as_bytes())?;
        Ok(part)
    }

    /// Makes the tables finished so far durable, on a thread that waits for the disk while others write.
    ///
    /// # Errors
    ///
    /// An I/O error; drop the commit then, and write it again.
    pub fn sync(&self) -> Result<()> {
        Ok(self.run.sync()?)
    }

    /// Bytes of the finished tables.
    pub fn bytes(&self) -> u64 {
        self.run.bytes()
    }

    /// Commits: when this returns, every new view has the coins and the best block, now and after any crash.
    ///
    /// # Errors
    ///
    /// The commit is lost and must be written again; until the next successful commit it may still reappear after a
    /// crash.
    ///
    /// # Panics
    ///
    /// If a part is not finished, or two overlap.
    pub fn finish(self) -> Result<()> {
        if !self.has_first.load(Ordering::Acquire) {
            self.first_part()?.finish()?;
        }
        if self.has_heads {
            let mut part = self.part();
            part.delete(HEAD_BLOCKS)?;
            part.finish()?;
        }
        Ok(self.chainstate.store.db.commit(self.run)?)
    }
}

impl CoinsPart {
    /// Adds or replaces a coin: its key (see `CoinKey`) and its plain stored bytes.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; drop the whole commit then, and write it again.
    ///
    /// # Panics
    ///
    /// If `key` is not above the previous one.
    #[inline]
    pub fn put(&mut self, key: &[u8], coin: &[u8]) -> Result<()> {
        self.plain.clear();
        self.plain.extend_from_slice(coin);
        self.obfuscation.apply(&mut self.plain, 0);
        Ok(self.table.put(key, &self.plain)?)
    }

    /// Removes a coin.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsPart::put`].
    ///
    /// # Panics
    ///
    /// Those of [`CoinsPart::put`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.table.delete(key)?)
    }

    /// Writes the remaining records. A commit with a part that was dropped without this cannot be finished.
    ///
    /// # Errors
    ///
    /// Those of [`CoinsPart::put`].
    pub fn finish(self) -> Result<()> {
        Ok(self.table.finish()?)
    }

    /// Memory of the part, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// A compaction of tables in progress, during look-ups and commits. If it is dropped, nothing of it remains.
#[derive(Debug)]
pub struct CoinsCompaction(Compaction);

impl CoinsCompaction {
    /// Bytes that the compaction reads, and the maximum that it writes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// Total number of steps.
    pub fn step_count(&self) -> usize {
        self.0.subcompaction_count()
    }

    /// Runs the next step; `false` if all are taken. Several threads may call this at once. The compaction can be
    /// finished when all of them have returned.
    ///
    /// # Errors
    ///
    /// A damaged table, no space, or an I/O error; drop the compaction then.
    pub fn step(&self) -> Result<bool> {
        Ok(self.0.step()?)
    }

    /// Makes the tables finished so far durable.
    ///
    /// # Errors
    ///
    /// An I/O error; drop the compaction then.
    pub fn sync(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    /// Replaces the old runs by the new one, in one durable edit.
    ///
    /// # Errors
    ///
    /// The old runs stay; the compaction may be planned again.
    ///
    /// # Panics
    ///
    /// If a step has not been run.
    pub fn finish(self) -> Result<()> {
        Ok(self.0.finish()?)
    }
}
