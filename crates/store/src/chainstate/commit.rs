//! Commits coins in bulk: sorted parts become tables side by side, then one edit makes them and the best block count.

use super::{BEST_BLOCK, Chainstate, HEAD_BLOCKS};
use crate::fault::Result;
use crate::record::Obfuscation;
use leveldb::{Compaction, Error, Run, TableWriter};
use primitives::BlockHash;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a record in a table beside its key and value, about.
const RECORD_OVERHEAD_BYTES: u64 = 14;

/// A commit under way. Dropped before [`CoinsCommit::finish`], it leaves nothing behind.
#[derive(Debug)]
pub struct CoinsCommit {
    chainstate: Chainstate,
    run: Run,
    best_block: BlockHash,
    /// Core's marker of a half-written flush is there, and goes with this commit.
    has_heads: bool,
    has_first: AtomicBool,
}

/// The records of one range of keys, to be written by one thread.
#[derive(Debug)]
pub struct CoinsPart {
    table: TableWriter,
    obfuscation: Obfuscation,
    plain: Vec<u8>,
}

impl Chainstate {
    /// Begins a commit that makes `best_block` the block that the set stands at. `record_count` and `bytes` (of keys and
    /// values) may be guesses from above; they say where the tables go.
    ///
    /// Compacts here and now when that is needed to free a level. `None` when a compaction that another thread has under way
    /// must be finished first. There is one commit at a time.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or what the system says.
    ///
    /// # Panics
    ///
    /// For a null hash, which Core refuses too; when another commit is under way.
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

    /// Begins a commit of coins that all lie behind those of the set: for a set that is made in the order of its keys, piece
    /// by piece. No byte of the earlier pieces is written again. The first one has `best_block`.
    ///
    /// # Errors
    ///
    /// The set was not made this way; or what the system says.
    ///
    /// # Panics
    ///
    /// As [`Chainstate::begin_commit`].
    pub fn begin_commit_behind(&self, best_block: BlockHash) -> Result<CoinsCommit> {
        assert!(!best_block.is_zero(), "a set has a best block");
        let has_best = self.best_block()?.is_some();
        let run = self.store.db.begin_run_behind()?;
        let has_first = AtomicBool::new(has_best);
        Ok(CoinsCommit { chainstate: self.clone(), run, best_block, has_heads: false, has_first })
    }

    /// Whether a commit of this size finds its level without a compaction.
    pub fn has_room(&self, record_count: u64, bytes: u64) -> bool {
        self.store.db.has_room(bytes + record_count * RECORD_OVERHEAD_BYTES + 1024)
    }

    /// Whether a compaction would keep look-ups short and commits from waiting.
    pub fn wants_compaction(&self) -> bool {
        self.store.db.wants_compaction()
    }

    /// Begins the compaction that is wanted most; `None` if none is wanted, or one is under way.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    pub fn plan_compaction(&self) -> Result<Option<CoinsCompaction>> {
        Ok(self.store.db.plan_compaction()?.map(CoinsCompaction))
    }

    /// Begins a compaction of everything into one run; `None` if there is one only, or a compaction is under way.
    ///
    /// # Errors
    ///
    /// As [`Chainstate::plan_compaction`].
    pub fn plan_full_compaction(&self) -> Result<Option<CoinsCompaction>> {
        Ok(self.store.db.plan_full_compaction()?.map(CoinsCompaction))
    }
}

impl CoinsCommit {
    /// A writer for one range of keys. Ranges of different parts do not overlap; their order in time is free. Each holds
    /// about a MiB, and deeper than level 0 each makes tables of its own, so there should be a few, of many shards each,
    /// and not one for every shard.
    pub fn part(&self) -> CoinsPart {
        CoinsPart {
            table: self.run.table(),
            obfuscation: self.chainstate.store.obfuscation(),
            plain: Vec::with_capacity(128),
        }
    }

    /// The one part of a commit that lies behind the others ([`Chainstate::begin_commit_behind`]).
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn next_part(&self) -> Result<CoinsPart> {
        if self.has_first.load(Ordering::Acquire) { Ok(self.part()) } else { self.first_part() }
    }

    /// The part with the lowest keys, which holds the best block too. Asked for at most once; without it
    /// [`CoinsCommit::finish`] makes one.
    ///
    /// # Errors
    ///
    /// What the system says.
    ///
    /// # Panics
    ///
    /// When it was asked for before.
    pub fn first_part(&self) -> Result<CoinsPart> {
        let was_made = self.has_first.swap(true, Ordering::AcqRel);
        assert!(!was_made, "there is one first part");
        let mut part = self.part();
        part.put(BEST_BLOCK, self.best_block.as_bytes())?;
        Ok(part)
    }

    /// Makes the tables durable that are whole so far: for a thread that sleeps in the disk while others write.
    ///
    /// # Errors
    ///
    /// What the system says; the commit is to be dropped then, and made again.
    pub fn sync(&self) -> Result<()> {
        Ok(self.run.sync()?)
    }

    /// Bytes of the tables that are whole so far.
    pub fn bytes(&self) -> u64 {
        self.run.bytes()
    }

    /// Makes it count: when this returns, every new view has the coins and the best block, now and after any crash.
    ///
    /// # Errors
    ///
    /// The commit is gone then, and is to be made again; a crash may still find it until the next that goes well.
    ///
    /// # Panics
    ///
    /// When a part is not finished, or two overlap.
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
    /// Adds or replaces a coin: its key (see `CoinKey`) and its stored bytes, plain.
    ///
    /// # Errors
    ///
    /// No space, or what the system says; the whole commit is to be dropped then, and made again.
    ///
    /// # Panics
    ///
    /// When `key` does not lie behind the one before.
    #[inline]
    pub fn put(&mut self, key: &[u8], coin: &[u8]) -> Result<()> {
        self.plain.clear();
        self.plain.extend_from_slice(coin);
        self.obfuscation.apply(&mut self.plain, 0);
        Ok(self.table.put(key, &self.plain)?)
    }

    /// Takes a coin away.
    ///
    /// # Errors
    ///
    /// As [`CoinsPart::put`].
    ///
    /// # Panics
    ///
    /// As [`CoinsPart::put`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        Ok(self.table.delete(key)?)
    }

    /// Writes what is left. A commit with a part that was dropped without it cannot be finished.
    ///
    /// # Errors
    ///
    /// As [`CoinsPart::put`].
    pub fn finish(self) -> Result<()> {
        Ok(self.table.finish()?)
    }

    /// Memory that the part holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

/// A compaction of tables under way, while look-ups and commits go on. Dropped, it leaves nothing behind.
#[derive(Debug)]
pub struct CoinsCompaction(Compaction);

impl CoinsCompaction {
    /// Bytes that the compaction reads, and at most writes.
    pub fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    /// How many steps there are in all.
    pub fn step_count(&self) -> usize {
        self.0.subcompaction_count()
    }

    /// Does the next step; `false` if none is left. Several threads may do this at once; the compaction can be finished when
    /// all of them have come back.
    ///
    /// # Errors
    ///
    /// A damaged table, no space, or what the system says; the compaction is to be dropped then.
    pub fn step(&self) -> Result<bool> {
        Ok(self.0.step()?)
    }

    /// Makes the tables durable that are whole so far.
    ///
    /// # Errors
    ///
    /// What the system says; the compaction is to be dropped then.
    pub fn sync(&self) -> Result<()> {
        Ok(self.0.sync()?)
    }

    /// Puts the new run in the place of the old ones, in one durable edit.
    ///
    /// # Errors
    ///
    /// What was there stays; the compaction may be planned again.
    ///
    /// # Panics
    ///
    /// When a step was not done.
    pub fn finish(self) -> Result<()> {
        Ok(self.0.finish()?)
    }
}
