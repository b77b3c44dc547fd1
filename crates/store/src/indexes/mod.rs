//! The optional indexes on disk: their databases, and the files of the filters.
//!
//! ```text
//! indexes/txindex/                    database        indexes/txospenderindex/db/    database
//! indexes/blockfilter/basic/db/       database        indexes/coinstatsindex/db/     database
//! indexes/silentpayments/db/          database, which Core does not have
//! indexes/blockfilter/basic/          fltr?????.dat: see [`FilterFiles`]
//! ```
//!
//! Records are plain: these databases have no obfuscation key. Each commit is one run of sorted records and one edit: where
//! the index stands is durable with the records, or neither is. What the records mean: crate `indexes`.
//! Absent on purpose: which block comes next, and what it adds.
//! Source: Bitcoin Core b88bffe, the constructors in index/*.cpp.

mod filter_files;

pub use filter_files::{FilterFiles, read_filter};

use crate::db::{Obfuscated, RecordWriter, empty_database};
use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::layout::Layout;
use ::indexes::{IndexKind, heights, locator, txindex};
use disk::Disk;
use leveldb::{Compaction, Db, Iter, Run};
use primitives::BlockHash;
use std::path::{Path, PathBuf};

/// Bytes of a record in a table beside its key and value, about.
pub const RECORD_OVERHEAD_BYTES: usize = 14;

/// The database of one index.
#[derive(Clone, Debug)]
pub struct IndexDb {
    store: Obfuscated,
    kind: IndexKind,
    root: PathBuf,
}

/// The directory of an index: with its database, and for filters with their files.
pub fn root(layout: &Layout, kind: IndexKind) -> PathBuf {
    let name = match kind {
        IndexKind::BlockFilter => "blockfilter",
        IndexKind::SilentPayments => "silentpayments",
        other => other.name(),
    };
    layout.indexes_dir().join(name)
}

pub(crate) fn database(layout: &Layout, kind: IndexKind) -> PathBuf {
    let root = root(layout, kind);
    match kind {
        IndexKind::Tx => root,
        IndexKind::BlockFilter => root.join("basic").join("db"),
        IndexKind::TxoSpender | IndexKind::CoinStats | IndexKind::SilentPayments => root.join("db"),
    }
}

/// What helps when an index is damaged: it alone is made again.
pub fn rebuild_advice(kind: IndexKind, root: &Path) -> String {
    format!(
        "Remove the directory {} and run ffwd index --only {}, which makes this index again and touches nothing else",
        root.display(),
        kind.name()
    )
}

impl IndexDb {
    /// Whether the index is there.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn exists(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<bool> {
        Ok(Db::exists(disk, &database(layout, kind))?)
    }

    /// Opens the index, or makes an empty one.
    ///
    /// # Errors
    ///
    /// Another program holds it, it is damaged, or what the system says.
    pub fn open(host: impl Into<Host>, layout: &Layout, kind: IndexKind) -> Result<IndexDb> {
        let host = host.into();
        let disk = &host.disk;
        let dir = database(layout, kind);
        let root = root(layout, kind);
        if disk.metadata(&dir)?.is_none() {
            disk.create_dir_all(&dir)?;
            // All names below the network's directory.
            for above in dir.ancestors().skip(1).take_while(|above| above.starts_with(layout.net_dir())) {
                disk.sync_dir_once(above)?;
            }
        }
        // As Core has it: what is looked up by a prefix finds no use for filters, entries of the older format do.
        let has_filters = match kind {
            IndexKind::BlockFilter | IndexKind::CoinStats | IndexKind::SilentPayments => true,
            IndexKind::TxoSpender => false,
            IndexKind::Tx => {
                let there = IndexDb::open_read_only(host.clone(), layout, kind)?;
                there.is_some_and(|db| db.has_legacy().unwrap_or(false))
            }
        };
        let store = Obfuscated::open_or_create_with(host, &dir, has_filters);
        let store = store.map_err(|fault| advised(fault, kind, &root))?;
        Ok(IndexDb { store, kind, root })
    }

    /// Opens the index to read it only; `None` where there is none.
    ///
    /// # Errors
    ///
    /// It is damaged, or what the system says.
    pub fn open_read_only(host: impl Into<Host>, layout: &Layout, kind: IndexKind) -> Result<Option<IndexDb>> {
        let host = host.into();
        if !IndexDb::exists(&*host.disk, layout, kind)? {
            return Ok(None);
        }
        let root = root(layout, kind);
        let store = Obfuscated::open_read_only(host, &database(layout, kind));
        let store = store.map_err(|fault| advised(fault, kind, &root))?;
        Ok(Some(IndexDb { store, kind, root }))
    }

    /// Removes all of an index: database first, then the files beside it.
    ///
    /// # Errors
    ///
    /// Another program holds it, or what the system says; what is left is no database.
    pub fn remove(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<()> {
        let root = root(layout, kind);
        if disk.metadata(&root)?.is_none() {
            return Ok(());
        }
        empty_database(disk, &database(layout, kind))?;
        disk::remove_tree(disk, &root)?;
        Ok(disk.sync_dir_once(&layout.indexes_dir())?)
    }

    /// Which index it is.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store.get(key).map_err(|fault| self.advised(fault))
    }

    /// The records whose keys begin with `prefix`, in order.
    ///
    /// # Errors
    ///
    /// As [`IndexDb::get`].
    pub fn with_prefix(&self, prefix: &[u8]) -> Result<IndexRecords<'_>> {
        let mut end = prefix.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let end = (!end.is_empty()).then_some(&end[..]);
        let records = self.store.db.snapshot().range(prefix, end).map_err(|why| self.advised(why.into()))?;
        Ok(IndexRecords { records, db: self })
    }

    /// The block that the index stands at; `None` where nothing is indexed.
    ///
    /// # Errors
    ///
    /// A damaged table or record, or what the system says.
    pub fn best_block(&self) -> Result<Option<BlockHash>> {
        let keys: &[&[u8]] = match self.kind {
            IndexKind::Tx => &[txindex::BEST_BLOCK, txindex::LEGACY_BEST_BLOCK],
            _ => &[heights::BEST_BLOCK],
        };
        for key in keys {
            if let Some(value) = self.get(key)? {
                return locator::decode(&value).map_err(|why| self.bad_record(key, "a locator", why.to_string()));
            }
        }
        Ok(None)
    }

    /// Whether a txindex has entries of the older format.
    ///
    /// # Errors
    ///
    /// As [`IndexDb::get`].
    pub fn has_legacy(&self) -> Result<bool> {
        Ok(self.kind == IndexKind::Tx && self.with_prefix(&[txindex::LEGACY])?.next_record()?.is_some())
    }

    /// Whether a commit of about `bytes` of records finds its level without a compaction.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.store.db.has_room(bytes)
    }

    /// Commits what `fill` writes, in rising order of keys, about `bytes` of it. When this returns it is durable.
    ///
    /// # Errors
    ///
    /// No space, or what the system says: nothing is changed then, and the same can be committed again.
    pub fn commit(&self, bytes: u64, fill: impl FnOnce(&mut IndexWriter) -> Result<()>) -> Result<()> {
        let commit = self.begin_commit(bytes)?;
        let mut records = commit.writer();
        fill(&mut records).map_err(|fault| self.advised(fault))?;
        records.finish().map_err(|fault| self.advised(fault))?;
        commit.finish()
    }

    /// Begins a commit of about `bytes` of records, which several threads may write. There is one at a time. Dropped before
    /// [`IndexCommit::finish`], it leaves nothing behind.
    ///
    /// # Errors
    ///
    /// As [`IndexDb::commit`].
    ///
    /// # Panics
    ///
    /// When another commit is under way.
    pub fn begin_commit(&self, bytes: u64) -> Result<IndexCommit> {
        let run = self.store.begin(bytes + 4096).map_err(|fault| self.advised(fault))?;
        Ok(IndexCommit { db: self.clone(), run })
    }

    /// Begins the compaction that is wanted most; `None` if none is wanted.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says.
    pub fn plan_compaction(&self) -> Result<Option<IndexCompaction>> {
        let planned = self.store.db.plan_compaction().map_err(|why| self.advised(why.into()))?;
        Ok(planned.map(|compaction| IndexCompaction { compaction, kind: self.kind, root: self.root.clone() }))
    }

    /// For a clean end: leaves nothing for LevelDB to compact.
    ///
    /// # Errors
    ///
    /// As [`IndexDb::commit`].
    pub fn settle(&self) -> Result<()> {
        self.store.db.settle().map_err(|why| self.advised(why.into()))
    }

    /// A record that is not what Core would have written.
    pub fn bad_record(&self, key: &[u8], wanted: impl Into<String>, found: impl Into<String>) -> Fault {
        self.advised(self.store.bad_record(key, wanted, found))
    }

    fn advised(&self, fault: Fault) -> Fault {
        advised(fault, self.kind, &self.root)
    }
}

/// What is damaged or missing in an index costs that index alone.
fn advised(fault: Fault, kind: IndexKind, root: &Path) -> Fault {
    match fault.kind() {
        FaultKind::Damaged | FaultKind::Missing => fault.advise(rebuild_advice(kind, root)),
        _ => fault,
    }
}

/// A commit under way.
#[derive(Debug)]
pub struct IndexCommit {
    db: IndexDb,
    run: Run,
}

impl IndexCommit {
    /// A writer for one range of keys. Ranges of different writers do not overlap; their order in time is free.
    pub fn writer(&self) -> IndexWriter {
        IndexWriter(self.db.store.writer(&self.run))
    }

    /// Makes the tables durable that are whole so far: for a thread that sleeps in the disk while others write.
    ///
    /// # Errors
    ///
    /// What the system says; the commit is to be dropped then, and made again.
    pub fn sync(&self) -> Result<()> {
        Ok(self.run.sync()?)
    }

    /// Makes it count: when this returns all records are durable, and found.
    ///
    /// # Errors
    ///
    /// As [`IndexDb::commit`].
    ///
    /// # Panics
    ///
    /// When a writer is not finished, or two overlap.
    pub fn finish(self) -> Result<()> {
        let IndexCommit { db, run } = self;
        db.store.db.commit(run).map_err(|why| db.advised(why.into()))
    }
}

/// Takes records in rising order of their keys.
pub struct IndexWriter(RecordWriter);

impl IndexWriter {
    /// Adds or replaces a record.
    ///
    /// # Errors
    ///
    /// No space, or what the system says; the commit fails then.
    ///
    /// # Panics
    ///
    /// When `key` does not lie behind the one before.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, |out| out.extend_from_slice(value))
    }

    /// Takes a record away.
    ///
    /// # Errors
    ///
    /// As [`IndexWriter::put`].
    ///
    /// # Panics
    ///
    /// As [`IndexWriter::put`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.delete(key)
    }

    /// Writes what is left. A commit with a writer that was dropped without it cannot be finished.
    ///
    /// # Errors
    ///
    /// As [`IndexWriter::put`].
    pub fn finish(self) -> Result<()> {
        self.0.finish()
    }
}

/// Records in the order of their keys.
#[derive(Debug)]
pub struct IndexRecords<'d> {
    records: Iter,
    db: &'d IndexDb,
}

impl IndexRecords<'_> {
    /// The next key and value; `None` behind the last.
    ///
    /// # Errors
    ///
    /// A damaged table, or what the system says; the iteration is over then.
    pub fn next_record(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = self.records.next_record().map_err(|why| self.db.advised(why.into()))?;
        Ok(next.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

/// A compaction that was begun; several threads may take steps. Dropped before its end, it leaves nothing behind.
#[derive(Debug)]
pub struct IndexCompaction {
    compaction: Compaction,
    kind: IndexKind,
    root: PathBuf,
}

impl IndexCompaction {
    /// Does a piece; `false` if none is left.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or what the system says; it is to be dropped then.
    pub fn step(&self) -> Result<bool> {
        self.compaction.step().map_err(|why| advised(why.into(), self.kind, &self.root))
    }

    /// Puts the result in the place of what it was made of, once every step has come back.
    ///
    /// # Errors
    ///
    /// As [`IndexCompaction::step`].
    ///
    /// # Panics
    ///
    /// If a piece was not done.
    pub fn finish(self) -> Result<()> {
        self.compaction.finish().map_err(|why| advised(why.into(), self.kind, &self.root))
    }
}
