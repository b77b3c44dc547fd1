//! The optional indexes on disk: their databases, and the filters' files.
//!
//! ```text
//! indexes/txindex/                    database        indexes/txospenderindex/db/    database
//! indexes/blockfilter/basic/db/       database        indexes/coinstatsindex/db/     database
//! indexes/silentpayments/db/          database, which Core does not have
//! indexes/blockfilter/basic/          fltr?????.dat: see [`FilterFiles`]
//! ```
//!
//! Records are plain: these databases have no obfuscation key. Each commit is one run of sorted records and one edit:
//! the index's best block becomes durable together with the records. The format of the records is in crate `indexes`.
//! Absent on purpose: which block comes next, and its records. Source: Bitcoin Core b88bffe, the constructors in
//! index/*.cpp.

mod filter_files;

pub use filter_files::{FilterFiles, filter_file, read_filter};

use crate::db::{Obfuscated, RecordWriter, empty_database};
use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::layout::Layout;
use ::indexes::{IndexKind, heights, locator, txindex};
use disk::{Disk, DiskError};
use leveldb::{Compaction, Db, Iter, Run};
use primitives::BlockHash;
use std::path::{Path, PathBuf};

/// Approximate bytes of a record in a table in addition to its key and value.
pub const RECORD_OVERHEAD_BYTES: usize = 14;

/// The database of one index.
#[derive(Clone, Debug)]
pub struct IndexDb {
    store: Obfuscated,
    kind: IndexKind,
    root: PathBuf,
}

/// The directory of an index, which contains its database and, for filters, their files.
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

/// Path of the file that exists while an index is removed.
fn removal_mark(layout: &Layout, kind: IndexKind) -> PathBuf {
    layout.private_dir().join(format!("removing-{}", kind.name()))
}

/// Removes that file, if it is there.
fn forget_removal(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<()> {
    let mark = removal_mark(layout, kind);
    if disk.metadata(&mark)?.is_some() {
        disk.remove_file(&mark)?;
        disk.sync_dir_once(&layout.private_dir())?;
    }
    Ok(())
}

/// The advice for a damaged index: rebuild only this one.
pub fn rebuild_advice(kind: IndexKind, root: &Path) -> String {
    format!(
        "Remove the directory {} and run ffwd index --only {}, which makes this index again and touches nothing else",
        root.display(),
        kind.name()
    )
}

impl IndexDb {
    /// Whether the index exists.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn exists(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<bool> {
        Ok(Db::exists(disk, &database(layout, kind))?)
    }

    /// Whether the index lost its database's file CURRENT. One that is being removed does not count.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn lacks_current(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<bool> {
        Ok(Db::lacks_current(disk, &database(layout, kind))? && disk.metadata(&removal_mark(layout, kind))?.is_none())
    }

    /// Opens the index, or creates an empty one.
    ///
    /// # Errors
    ///
    /// Another program holds it, it is damaged, or an I/O error.
    pub fn open(host: impl Into<Host>, layout: &Layout, kind: IndexKind) -> Result<IndexDb> {
        let host = host.into();
        let disk = &host.disk;
        let dir = database(layout, kind);
        let root = root(layout, kind);
        if disk.metadata(&removal_mark(layout, kind))?.is_some() {
            // An index that is there was not removed yet, or was built since, perhaps by bitcoind.
            match Db::exists(&**disk, &dir)? {
                true => forget_removal(&**disk, layout, kind)?,
                false => IndexDb::remove(&**disk, layout, kind)?,
            }
        }
        if disk.metadata(&dir)?.is_none() {
            disk.create_dir_all(&dir)?;
            // All directory names below the network's directory.
            for above in dir.ancestors().skip(1).take_while(|above| above.starts_with(layout.net_dir())) {
                disk.sync_dir_once(above)?;
            }
        }
        // As in Core: filters do not help look-ups by prefix, but they help entries of the older format.
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

    /// Opens the index for reading only; `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// It is damaged, or an I/O error.
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

    /// Removes all of an index: first the database, then its other files. A file in `ffwd` says so meanwhile: if this is
    /// interrupted, the remains do not count as a damaged index, and [`IndexDb::open`] removes them.
    ///
    /// # Errors
    ///
    /// Another program holds it, or an I/O error; the call can be repeated.
    pub fn remove(disk: &dyn Disk, layout: &Layout, kind: IndexKind) -> Result<()> {
        let root = root(layout, kind);
        let mark = removal_mark(layout, kind);
        let own = layout.private_dir();
        if disk.metadata(&root)?.is_some() {
            if disk.metadata(&mark)?.is_none() {
                disk.create_dir_all(&own)?;
                disk.sync_dir_once(layout.net_dir())?;
                disk.create(&mark)?.sync().map_err(DiskError::of_last_try)?;
            }
            disk.sync_dir_once(&own)?;
            empty_database(disk, &database(layout, kind))?;
            disk::remove_tree(disk, &root)?;
            disk.sync_dir_once(&layout.indexes_dir())?;
        }
        forget_removal(disk, layout, kind)
    }

    /// The kind of this index.
    pub fn kind(&self) -> IndexKind {
        self.kind
    }

    /// The value of a key.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.store.get(key).map_err(|fault| self.advised(fault))
    }

    /// The records whose keys begin with `prefix`, in key order.
    ///
    /// # Errors
    ///
    /// Those of [`IndexDb::get`].
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

    /// The last block that is indexed; `None` if nothing is.
    ///
    /// # Errors
    ///
    /// A damaged table or record, or an I/O error.
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
    /// Those of [`IndexDb::get`].
    pub fn has_legacy(&self) -> Result<bool> {
        Ok(self.kind == IndexKind::Tx && self.with_prefix(&[txindex::LEGACY])?.next_record()?.is_some())
    }

    /// Whether a commit of about `bytes` of records would find its level without a compaction.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.store.db.has_room(bytes)
    }

    /// Commits the records that `fill` writes in rising order of keys, about `bytes` of them. They are durable when
    /// this returns.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error: nothing is changed then, and the commit can be repeated.
    pub fn commit(&self, bytes: u64, fill: impl FnOnce(&mut IndexWriter) -> Result<()>) -> Result<()> {
        let commit = self.begin_commit(bytes)?;
        let mut records = commit.writer();
        fill(&mut records).map_err(|fault| self.advised(fault))?;
        records.finish().map_err(|fault| self.advised(fault))?;
        commit.finish()
    }

    /// Begins a commit of about `bytes` of records, which several threads may write. Only one is open at a time. If it
    /// is dropped before [`IndexCommit::finish`], nothing of it remains.
    ///
    /// # Errors
    ///
    /// Those of [`IndexDb::commit`].
    ///
    /// # Panics
    ///
    /// If another commit is open.
    pub fn begin_commit(&self, bytes: u64) -> Result<IndexCommit> {
        let run = self.store.begin(bytes + 4096).map_err(|fault| self.advised(fault))?;
        Ok(IndexCommit { db: self.clone(), run })
    }

    /// Begins the most urgent compaction; `None` if there is no need for one.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn plan_compaction(&self) -> Result<Option<IndexCompaction>> {
        let planned = self.store.db.plan_compaction().map_err(|why| self.advised(why.into()))?;
        Ok(planned.map(|compaction| IndexCompaction { compaction, kind: self.kind, root: self.root.clone() }))
    }

    /// For a clean shutdown: leaves nothing for LevelDB to compact.
    ///
    /// # Errors
    ///
    /// Those of [`IndexDb::commit`].
    pub fn settle(&self) -> Result<()> {
        self.store.db.settle().map_err(|why| self.advised(why.into()))
    }

    /// The fault of a record that Core would not have written.
    pub fn bad_record(&self, key: &[u8], wanted: impl Into<String>, found: impl Into<String>) -> Fault {
        self.advised(self.store.bad_record(key, wanted, found))
    }

    fn advised(&self, fault: Fault) -> Fault {
        advised(fault, self.kind, &self.root)
    }
}

/// Damage to an index requires a rebuild of that index only.
fn advised(fault: Fault, kind: IndexKind, root: &Path) -> Fault {
    match fault.kind() {
        FaultKind::Damaged | FaultKind::Missing => fault.without_reindex().advise(rebuild_advice(kind, root)),
        _ => fault,
    }
}

/// A commit in progress.
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

    /// Makes the tables finished so far durable, on a thread that waits for the disk while others write.
    ///
    /// # Errors
    ///
    /// An I/O error; drop the commit then, and write it again.
    pub fn sync(&self) -> Result<()> {
        Ok(self.run.sync()?)
    }

    /// Commits: when this returns all records are durable and can be read.
    ///
    /// # Errors
    ///
    /// Those of [`IndexDb::commit`].
    ///
    /// # Panics
    ///
    /// If a writer is not finished, or two overlap.
    pub fn finish(self) -> Result<()> {
        let IndexCommit { db, run } = self;
        db.store.db.commit(run).map_err(|why| db.advised(why.into()))
    }
}

/// Writes records in rising order of their keys.
pub struct IndexWriter(RecordWriter);

impl IndexWriter {
    /// Adds or replaces a record.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error; the commit fails then.
    ///
    /// # Panics
    ///
    /// If `key` is not above the previous one.
    #[inline]
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.0.put(key, |out| out.extend_from_slice(value))
    }

    /// Removes a record.
    ///
    /// # Errors
    ///
    /// Those of [`IndexWriter::put`].
    ///
    /// # Panics
    ///
    /// Those of [`IndexWriter::put`].
    #[inline]
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.0.delete(key)
    }

    /// Writes the remaining records. A commit with a writer that was dropped without this cannot be finished.
    ///
    /// # Errors
    ///
    /// Those of [`IndexWriter::put`].
    pub fn finish(self) -> Result<()> {
        self.0.finish()
    }
}

/// Records in key order.
#[derive(Debug)]
pub struct IndexRecords<'d> {
    records: Iter,
    db: &'d IndexDb,
}

impl IndexRecords<'_> {
    /// The next key and value; `None` after the last.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error; the iteration is over then.
    pub fn next_record(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = self.records.next_record().map_err(|why| self.db.advised(why.into()))?;
        Ok(next.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

/// A compaction in progress; several threads may run its steps. If it is dropped before its end, nothing of it remains.
#[derive(Debug)]
pub struct IndexCompaction {
    compaction: Compaction,
    kind: IndexKind,
    root: PathBuf,
}

impl IndexCompaction {
    /// Runs the next step; `false` if all are taken.
    ///
    /// # Errors
    ///
    /// No space, a damaged table, or an I/O error; drop the compaction then.
    pub fn step(&self) -> Result<bool> {
        self.compaction.step().map_err(|why| advised(why.into(), self.kind, &self.root))
    }

    /// Replaces the inputs by the result, after every step has returned.
    ///
    /// # Errors
    ///
    /// Those of [`IndexCompaction::step`].
    ///
    /// # Panics
    ///
    /// If a step has not been run.
    pub fn finish(self) -> Result<()> {
        self.compaction.finish().map_err(|why| advised(why.into(), self.kind, &self.root))
    }
}
