//! The optional indexes, updated with the chain: the entries of each block, in order, and when they become durable.
//!
//! A [`Part`] is one index: its database, its best block, and its events since the last commit. Blocks come in the
//! order of the chain, from the pipeline's commit stage or from the files (`datadir::catch_up`); a worker has computed
//! their entries before ([`indexes::BlockRecords`]). A commit writes the events up to the coins' best block, and
//! nothing beyond it: an index is never ahead of the flushed chainstate.
//!
//! After a reorg the data is as in Core: rows of filters and statistics (and tweaks) of disconnected blocks are kept by
//! hash, transactions stay unchanged, spenders are deleted.
//!
//! Absent on purpose: formats (`store::indexes`, crate `indexes`), and the choice of the chain.

mod batch;
mod entries;
mod event;
mod part;
mod read;
mod repair;
mod serve;
mod silent;

use crate::fault::Fault;
use crate::reporting::Reporter;
use crate::threads;
use crate::threads::locks::lock;
pub(crate) use event::IndexedBlock;
use indexes::{BlockRecords, IndexKind, Wanted};
use part::Part;
pub(crate) use part::{stored_row, stored_secret};
use primitives::{BlockHash, Height};
pub(crate) use read::{spender_places, tx_places};
pub use silent::{SilentOutput, SilentTx, without_dust};
pub(crate) use silent::{silent_entries, silent_transactions};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use store::Host;
use store::Layout;
use store::indexes::IndexDb;

/// The enabled indexes.
pub(crate) struct Indexing {
    wanted: Wanted,
    parts: Vec<Mutex<Part>>,
    /// Held during a commit, and while a block is disconnected, because its rows must be found.
    committing: Mutex<()>,
    memory: AtomicUsize,
    memory_max: usize,
}

impl Indexing {
    /// Opens the indexes of these kinds, or creates them.
    ///
    /// # Errors
    ///
    /// One of them is damaged or in use; an I/O error.
    pub(crate) fn open(
        host: &Host,
        layout: &Layout,
        kinds: &[IndexKind],
        budget_bytes: usize,
    ) -> Result<Indexing, Fault> {
        let mut wanted = Wanted::default();
        let mut parts = Vec::new();
        for kind in IndexKind::ALL.into_iter().filter(|kind| kinds.contains(kind)) {
            parts.push(Mutex::new(Part::open(host, layout, kind, &mut wanted)?));
        }
        // A quarter of the budget: waiting events leave less space for coins, which is worse than an early commit.
        let memory_max = (budget_bytes / 4).max(1 << 20);
        Ok(Indexing { wanted, parts, committing: Mutex::new(()), memory: AtomicUsize::new(0), memory_max })
    }

    /// Data that the indexes need from each block.
    pub(crate) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// The indexes, their directories, and their best blocks; `None` before genesis.
    pub(crate) fn positions(&self) -> Vec<(IndexKind, PathBuf, Option<BlockHash>)> {
        let position = |part: &Mutex<Part>| {
            let part = lock(part);
            (part.db.kind(), part.root.clone(), part.best())
        };
        self.parts.iter().map(position).collect()
    }

    /// The database of an index, if it is enabled: its committed data.
    pub(crate) fn db(&self, kind: IndexKind) -> Option<IndexDb> {
        let mut dbs = self.parts.iter().map(|part| lock(part).db.clone());
        dbs.find(|db| db.kind() == kind)
    }

    /// Sets an index to the state of its database: best block `best`, of this height. Returns whether it has entries of
    /// an older format.
    ///
    /// # Errors
    ///
    /// Its rows do not match that block.
    pub(crate) fn take_up(&self, kind: IndexKind, best: BlockHash, height: Height) -> Result<bool, Fault> {
        let part = self.parts.iter().find(|part| lock(part).db.kind() == kind).expect("it is one of these");
        let mut part = lock(part);
        part.take_up(best, height)?;
        Ok(part.db.has_legacy()?)
    }

    /// Data needed to disconnect a block, for the indexes whose best block it is; `None` if nothing is needed.
    pub(crate) fn wanted_off(&self, hash: BlockHash) -> Option<Wanted> {
        let mut wanted = Wanted::default();
        for part in &self.parts {
            let part = lock(part);
            if part.stands_at(hash) {
                part.want(&mut wanted, &self.wanted);
            }
        }
        // Moving a row needs neither the block nor its filter, and transactions do not change.
        (!wanted.is_none()).then_some(Wanted { filter: false, tx: None, tweaks: false, ..wanted })
    }

    /// Bytes of memory of events that wait for a commit.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory.load(Relaxed)
    }

    /// Whether a commit is due because of memory.
    pub(crate) fn is_full(&self) -> bool {
        self.memory_bytes() > self.memory_max
    }

    /// Adds a block that was connected, to those indexes whose best block is its parent.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn connected(
        &self,
        reporter: &Reporter<'_>,
        block: &IndexedBlock,
        mut records: BlockRecords,
    ) -> Result<(), Fault> {
        for part in &self.parts {
            let mut part = lock(part);
            if part.stands_at(block.prev) {
                let more = part.connect(reporter, block, &mut records)?;
                self.memory.fetch_add(more, Relaxed);
            }
        }
        Ok(())
    }

    /// Disconnects the last block from those indexes whose best block it is.
    ///
    /// # Errors
    ///
    /// A row is missing; an I/O error.
    pub(crate) fn disconnected(&self, block: &IndexedBlock, mut records: BlockRecords) -> Result<(), Fault> {
        let _no_commit = lock(&self.committing);
        for part in &self.parts {
            let mut part = lock(part);
            if part.stands_at(block.hash) {
                let more = part.disconnect(block, &mut records)?;
                self.memory.fetch_add(more, Relaxed);
            }
        }
        Ok(())
    }

    /// Commits the events up to `tip`, the coins' best block; `locator` are the hashes of its block locator. An index
    /// that never was at that block is unchanged. Several indexes are committed at the same time.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn commit(
        &self,
        reporter: &Reporter<'_>,
        par: usize,
        tip: BlockHash,
        locator: &[BlockHash],
    ) -> Result<(), Fault> {
        let _commit = lock(&self.committing);
        let mut due: Vec<(&Mutex<Part>, event::Due)> = Vec::new();
        for part in &self.parts {
            if let Some(events) = lock(part).take_up_to(tip) {
                due.push((part, events));
            }
        }
        let freed: usize = due.iter().map(|(_, due)| due.memory_bytes()).sum();
        std::thread::scope(|scope| {
            let write = |part: &Mutex<Part>, due: &event::Due| batch::write(reporter, part, due, locator, par);
            let mut threads = Vec::new();
            let mut results = Vec::new();
            let last = due.len().saturating_sub(1);
            for (place, (part, due)) in due.iter().enumerate() {
                if place == last || par == 1 {
                    results.push(write(part, due));
                } else {
                    threads.push(threads::spawn(scope, "index", move || write(part, due))?);
                }
            }
            results.extend(threads.into_iter().map(|thread| thread.join().expect("a panic is passed on")));
            results.into_iter().collect::<Result<(), Fault>>()
        })?;
        self.memory.fetch_sub(freed, Relaxed);
        Ok(())
    }

    /// For a clean end: finishes LevelDB's pending work.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn settle(&self, reporter: &Reporter<'_>) -> Result<(), Fault> {
        self.parts.iter().try_for_each(|part| reporter.with_room(|| lock(part).db.settle()))
    }
}
