//! The block index: every known header, with the state and place of its block, and an info for each file.
//!
//! ```text
//! 'b' | hash 32               -> an entry (see `record`)
//! 'f' | file number i32 LE    -> a file info (see `fileinfo`)
//! 'l'                         -> last file number i32 LE
//! 'R'                         -> '1' while a reindex is unfinished, else absent
//! 'F' | length | name         -> '1' or '0'; only "prunedblockfiles" is in use
//! ```
//!
//! Everything written is one durable commit. Absent on purpose: chain work, skip pointers, and the best chain. Source:
//! facts of Bitcoin Core b88bffe, `BlockTreeDB` in node/blockstorage.cpp.

mod flat;
mod load;
mod record;

use crate::blockfiles::Numbers;
use crate::db::{KEY_KEY, Obfuscated, empty_database};
use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::FileInfo;
use crate::host::Host;
use crate::layout::{Layout, Network};
use disk::Disk;
use leveldb::Db;
use std::path::Path;

pub use load::LoadedIndex;
pub use record::{IndexEntry, Status};

/// Maximum number of transactions of a block: it has 4,000,000 weight units, and each transaction takes at least 240.
pub const BLOCK_TRANSACTIONS_MAX: u32 = 4_000_000 / 240;

/// Approximate bytes of an entry and of a file info in a table.
const ENTRY_BYTES: usize = 160;
const FILE_BYTES: usize = 64;

const ENTRY: u8 = b'b';
const FILE: u8 = b'f';
const LAST_FILE: &[u8] = b"l";
const REINDEXING: &[u8] = b"R";
const PRUNED: &[u8] = b"F\x10prunedblockfiles";

/// The block index of one data directory.
#[derive(Debug)]
pub struct BlockTreeDb {
    store: Obfuscated,
}

/// The changes of one commit. Empty or `None` fields change nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct IndexChanges<'a> {
    /// New or changed entries, in any order, each hash once.
    pub entries: &'a [IndexEntry],
    /// New or changed file infos: number and info, each number once.
    pub files: &'a [(u32, FileInfo)],
    /// The greatest file number.
    pub last_file: Option<u32>,
    /// Sets or erases the flag `R`: a reindex is unfinished.
    pub reindexing: Option<bool>,
    /// Sets the flag `prunedblockfiles`.
    pub pruned: Option<bool>,
}

impl BlockTreeDb {
    /// Whether there is an index.
    ///
    /// # Errors
    ///
    /// An I/O error. [`FaultKind::OtherForm`] if there is an index that is not LevelDB's.
    pub fn exists(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
        let dir = layout.index_dir();
        check_form(disk, &dir)?;
        Ok(Db::exists(disk, &dir)?)
    }

    /// Reads all records, for a check of every table.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn read_all(&self) -> Result<()> {
        self.store.read(&[], None)
    }

    /// Empties the index, even a damaged one. It must not be open.
    ///
    /// # Errors
    ///
    /// Another program holds it, or an I/O error; the call can be repeated.
    pub fn empty(disk: &dyn Disk, layout: &Layout) -> Result<()> {
        empty_database(disk, &layout.index_dir())
    }

    /// Opens the index, or creates an empty one if it is missing.
    ///
    /// # Errors
    ///
    /// Another program holds it, it is damaged, or an I/O error.
    pub fn open(host: impl Into<Host>, layout: &Layout) -> Result<BlockTreeDb> {
        let host = host.into();
        check_form(&*host.disk, &layout.index_dir())?;
        BlockTreeDb::open_dir(host, &layout.index_dir())
    }

    /// [`BlockTreeDb::open`] for an index in any directory.
    pub(crate) fn open_dir(host: Host, dir: &Path) -> Result<BlockTreeDb> {
        Ok(BlockTreeDb { store: Obfuscated::open_or_create(host, dir)? })
    }

    /// Opens the index for reading only; nothing is written, no lock is taken.
    ///
    /// # Errors
    ///
    /// It is missing, damaged, or an I/O error.
    pub fn open_read_only(host: impl Into<Host>, layout: &Layout) -> Result<BlockTreeDb> {
        Ok(BlockTreeDb { store: Obfuscated::open_read_only(host.into(), &layout.index_dir())? })
    }

    /// Whether the flag `R` is set: a reindex is unfinished.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn is_reindexing(&self) -> Result<bool> {
        Ok(self.store.get(REINDEXING)?.is_some())
    }

    /// Whether block files were ever pruned.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn is_pruned(&self) -> Result<bool> {
        Ok(self.store.get(PRUNED)?.is_some_and(|value| value == b"1"))
    }

    /// Whether it lists no block.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.store.db.snapshot().range(&[ENTRY], Some(&[ENTRY + 1]))?.next_record()?.is_none())
    }

    /// Commits changes; when this returns they are durable.
    ///
    /// # Errors
    ///
    /// No space, or an I/O error. Nothing is changed then, but a crash may still make the changes appear until the next
    /// successful commit.
    pub fn write(&self, changes: &IndexChanges<'_>) -> Result<()> {
        let mut files: Vec<([u8; 5], FileInfo)> = Vec::new();
        for (number, info) in changes.files {
            let [a, b, c, d] = number.to_le_bytes();
            files.push(([FILE, a, b, c, d], *info));
        }
        files.sort_unstable_by_key(|(key, _)| *key);
        let mut order: Vec<&IndexEntry> = changes.entries.iter().collect();
        order.sort_unstable_by_key(|entry| entry.hash);
        let bytes = (changes.entries.len() * ENTRY_BYTES + changes.files.len() * FILE_BYTES + 4096) as u64;
        self.store.commit(bytes, |records| {
            if let Some(is_set) = changes.pruned {
                records.put(PRUNED, |value| value.push(if is_set { b'1' } else { b'0' }))?;
            }
            match changes.reindexing {
                Some(true) => records.put(REINDEXING, |value| value.push(b'1'))?,
                Some(false) => records.delete(REINDEXING)?,
                None => {}
            }
            let mut key = [ENTRY; 33];
            for entry in order {
                key[1..].copy_from_slice(entry.hash.as_bytes());
                records.put(&key, |value| entry.encode(value))?;
            }
            for (key, info) in files {
                records.put(&key, |value| info.encode(value))?;
            }
            match changes.last_file {
                Some(last) => records.put(LAST_FILE, |value| value.extend_from_slice(&last.to_le_bytes())),
                None => Ok(()),
            }
        })
    }

    /// Removes everything except the flag `R`, in one commit, and compacts the rest.
    ///
    /// # Errors
    ///
    /// Those of [`BlockTreeDb::write`].
    pub fn clear_for_reindex(&self) -> Result<()> {
        let mut keys = Vec::new();
        let mut records = self.store.db.iter()?;
        while let Some((key, _)) = records.next_record()? {
            if key != REINDEXING && key != KEY_KEY {
                keys.push(key.to_vec());
            }
        }
        drop(records);
        let bytes = keys.iter().map(|key| key.len() as u64 + 14).sum::<u64>() + 4096;
        self.store.commit(bytes, |records| keys.iter().try_for_each(|key| records.delete(key)))?;
        if let Some(compaction) = self.store.db.plan_full_compaction()? {
            compaction.run()?;
        }
        Ok(())
    }

    /// For a clean shutdown: leaves nothing for LevelDB to compact.
    ///
    /// # Errors
    ///
    /// Those of [`BlockTreeDb::write`].
    pub fn settle(&self) -> Result<()> {
        Ok(self.store.db.settle()?)
    }
}

/// Refuses a block index in Core's newer flat form, which must not be mistaken for an empty one.
///
/// # Errors
///
/// [`FaultKind::OtherForm`]; an I/O error.
pub fn check_form(disk: &dyn Disk, dir: &Path) -> Result<()> {
    if is_flat(disk, dir)? {
        return Err(Fault::new(FaultKind::OtherForm, dir, "a block index of LevelDB", FLAT_FOUND, FLAT_ADVICE));
    }
    Ok(())
}

/// The description of the newer form in messages.
const FLAT_FOUND: &str = "one in Core's newer flat form (headers.dat, blockfiles.dat, log.dat)";
/// The advice for it.
const FLAT_ADVICE: &str = "Use the bitcoind that wrote it. ffwd reindex makes a block index that ffwd and earlier releases \
                               read, from the block files";

fn is_flat(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    for name in flat::FILES {
        if disk.metadata(&dir.join(name))?.is_some() {
            return Ok(!Db::exists(disk, dir)?);
        }
    }
    Ok(false)
}

/// Reads a block index in Core's newer flat form; `None` if it has the other form or does not exist. Never writes.
///
/// # Errors
///
/// [`FaultKind::Damaged`] names the row; [`FaultKind::OtherForm`] an unknown version; an I/O error.
pub fn load_flat(disk: &dyn Disk, layout: &Layout, network: &Network) -> Result<Option<LoadedIndex>> {
    let dir = layout.index_dir();
    if is_flat(disk, &dir)? { flat::load(disk, &dir, network).map(Some) } else { Ok(None) }
}

/// Fails if the index names a block file that does not exist.
///
/// # Errors
///
/// [`FaultKind::Missing`] names the first such file. Core reports "Error loading block database".
pub fn check_files_exist(index: &LoadedIndex, numbers: &Numbers, layout: &Layout) -> Result<()> {
    let stored = index.entries.iter().filter_map(IndexEntry::data);
    let missing = stored.map(|at| at.file).filter(|file| numbers.there.binary_search(file).is_err()).min();
    match missing {
        None => Ok(()),
        Some(file) => {
            let advice = "Put the file back, or name its directory with --blocksdir. Without it run ffwd repair, which fetches only the \
                          blocks that are missing";
            let wanted = "the block file, for the index names blocks in it";
            Err(Fault::new(FaultKind::Missing, &layout.block_file(file), wanted, "nothing", advice))
        }
    }
}

/// Refuses a pruned index, for programs that do not prune, in Core's words.
///
/// # Errors
///
/// [`FaultKind::Refused`] if block files were pruned.
pub fn check_not_pruned(index: &LoadedIndex, layout: &Layout) -> Result<()> {
    if !index.is_pruned {
        return Ok(());
    }
    let core = "You need to rebuild the database using -reindex to go back to unpruned mode.  \
                This will redownload the entire blockchain";
    let advice = "Use --prune, as this data directory was pruned before. ffwd sync --prune 0 downloads the pruned blocks \
                  again, in this directory";
    let wanted = "a data directory that was never pruned";
    Err(Fault::new(FaultKind::Refused, &layout.index_dir(), wanted, format!("prunedblockfiles: {core}"), advice))
}
