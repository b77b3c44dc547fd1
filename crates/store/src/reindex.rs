//! The preparatory steps of a full reindex. After a crash between any two of them, bitcoind or ffwd can start on the
//! data directory and finish.
//!
//! 0. A file is created and removed in blocks/: if that fails, nothing else is changed.
//! 1. `R` is set in the old index, durably.
//! 2. The chainstate of a snapshot is removed.
//! 3. The chainstate is emptied.
//! 4. The index is emptied, in one commit that keeps `R`.
//! 5. The undo files are removed.
//!
//! A file `ffwd/reindex-begins` exists from before step 1 until after step 5. With it, an interrupted run starts over,
//! and does not use the old coins as its own. If the file is lost, the run continues from the old coins, as bitcoind
//! would.
//!
//! The headers that the block files lack are kept in `ffwd/reindex-headers` from before step 1 until `R` is erased, so
//! that they can be added to the new index. (bitcoind's own checks would fail on an index that has only headers.)
//!
//! Then the blocks are read; `R` is erased in the commit that lists every block of the files.
//!
//! Tested with bitcoind: it starts and finishes from `R` with a full old index and no chainstate, and from an index
//! with only `R`. It refuses `R` in an empty index with an OLD chainstate, so the chainstate is removed first.

use crate::chainstate;
use crate::db::empty_database;
use crate::fault::{Fault, FaultKind, Result};
use crate::host::Host;
use crate::index::{BlockTreeDb, IndexChanges};
use crate::layout::{self, Layout};
use crate::private_files::PrivateDir;
use disk::{Disk, remove_tree};
use leveldb::Db;
use primitives::Header;
use std::path::PathBuf;
use std::sync::Arc;

/// Exists in the private directory during the preparatory steps.
const BEGINS: &str = "reindex-begins";
/// Headers of the old index that no block file has, 80 bytes each, parents first.
const HEADERS: &str = "reindex-headers";
/// Maximum size of that file: 3.3 million headers.
const HEADERS_BYTES_MAX: usize = 1 << 28;

/// The result of [`begin`].
#[derive(Debug)]
pub struct Begun {
    /// The index, which has only `R`.
    pub index: BlockTreeDb,
    /// The old index was damaged and was replaced by a new one.
    pub was_damaged: bool,
    /// A chainstate from a snapshot was removed.
    pub removed_snapshot: bool,
}

/// Runs steps 1 to 5; each may have been done before. Neither index nor chainstate may be open. Block files are not
/// changed; compare their contents with the old tip before this.
///
/// `headers`: the headers that [`kept_headers`] returns from now on, parents first.
///
/// # Errors
///
/// Another program holds the data directory, or an I/O error; the call can be repeated.
pub fn begin(host: impl Into<Host>, layout: &Layout, headers: &[Header]) -> Result<Begun> {
    let host = host.into();
    let disk = &host.disk;
    check_writable(&**disk, layout)?;
    finish_index_swap(disk, layout)?;
    let private = PrivateDir::new(disk.clone(), layout.private_dir());
    if !headers.is_empty() {
        private.write(HEADERS, &headers.iter().flat_map(|header| header.0).collect::<Vec<u8>>())?;
    }
    private.write(BEGINS, b"")?;
    let old = open_reindexing(&host, layout)?;
    let removed_snapshot = chainstate::remove_snapshot(&**disk, layout)?;
    chainstate::empty(&**disk, layout)?;
    let cleared = old.map(|index| index.clear_for_reindex().map(|()| index)).transpose();
    let (index, was_damaged) = match cleared {
        Ok(Some(index)) => (index, false),
        Ok(None) => (replace_damaged_index(&host, layout)?, true),
        Err(why) if why.kind() == FaultKind::Damaged => (replace_damaged_index(&host, layout)?, true),
        Err(why) => return Err(why),
    };
    remove_undo_files(&**disk, layout)?;
    private.remove(BEGINS)?;
    Ok(Begun { index, was_damaged, removed_snapshot })
}

/// Stores that a reindex begins: [`is_beginning`] is true until [`begin`] has ended, and the index has Core's flag; a
/// damaged one is replaced. Call it before block files are removed.
///
/// # Errors
///
/// Those of [`begin`].
pub fn announce(host: impl Into<Host>, layout: &Layout) -> Result<()> {
    let host = host.into();
    check_writable(&*host.disk, layout)?;
    finish_index_swap(&host.disk, layout)?;
    PrivateDir::new(host.disk.clone(), layout.private_dir()).write(BEGINS, b"")?;
    match open_reindexing(&host, layout)? {
        Some(_) => Ok(()),
        None => replace_damaged_index(&host, layout).map(drop),
    }
}

/// Opens the index with the flag `R` set; `None` if it is damaged.
fn open_reindexing(host: &Host, layout: &Layout) -> Result<Option<BlockTreeDb>> {
    match BlockTreeDb::open(host, layout).and_then(|index| set_reindexing(&index).map(|()| index)) {
        Ok(index) => Ok(Some(index)),
        Err(why) if matches!(why.kind(), FaultKind::Damaged | FaultKind::OtherForm) => Ok(None),
        Err(why) => Err(why),
    }
}

/// Checks that names in blocks/ can be created and removed. Undo files are removed only after index and chainstate were
/// emptied, so this must be known before. The name is hidden, so that a directory that Core never used stays one.
fn check_writable(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let path = layout.blocks_dir().join(".ffwd-write-test");
    if disk.metadata(&path)?.is_some() {
        disk.remove_file(&path)?;
    }
    disk.create(&path)?;
    Ok(disk.remove_file(&path)?)
}

/// Whether the preparatory steps were interrupted: then call [`begin`] again, whatever the state of the data directory.
///
/// # Errors
///
/// An I/O error.
pub fn is_beginning(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.metadata(&layout.private_dir().join(BEGINS))?.is_some())
}

/// Headers of the old index that no block file had when this reindex began, parents first. They are not checked again.
///
/// # Errors
///
/// An I/O error.
pub fn kept_headers(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Vec<Header>> {
    let bytes =
        PrivateDir::new(disk.clone(), layout.private_dir()).read(HEADERS, HEADERS_BYTES_MAX)?.unwrap_or_default();
    Ok(bytes.as_chunks().0.iter().copied().map(Header).collect())
}

/// Removes the private files of a reindex if `R` is erased: the work is done, perhaps by bitcoind, which does not know
/// them.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn forget(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    for name in [BEGINS, HEADERS] {
        if disk.metadata(&layout.private_dir().join(name))?.is_some() {
            PrivateDir::new(disk.clone(), layout.private_dir()).remove(name)?;
        }
    }
    Ok(())
}

/// Opens the index to continue an interrupted reindex, and completes its preparatory steps; `None` without an
/// interrupted one. Neither index nor chainstate may be open.
///
/// If the index lists blocks, their undo data exists as listed, and the chainstate may be behind it or empty.
///
/// # Errors
///
/// Another program holds the data directory, a file is damaged, or an I/O error; the call can be repeated.
pub fn resume(host: impl Into<Host>, layout: &Layout) -> Result<Option<BlockTreeDb>> {
    let host = host.into();
    let disk = &host.disk;
    finish_index_swap(disk, layout)?;
    if !BlockTreeDb::exists(&**disk, layout)? {
        return Ok(None);
    }
    let index = BlockTreeDb::open(&host, layout)?;
    if !index.is_reindexing()? {
        return Ok(None);
    }
    if !Db::exists(&**disk, &layout.chainstate_dir())? {
        chainstate::empty(&**disk, layout)?;
    }
    if index.is_empty()? {
        remove_undo_files(&**disk, layout)?;
    }
    Ok(Some(index))
}

fn set_reindexing(index: &BlockTreeDb) -> Result<()> {
    if index.is_reindexing()? {
        return Ok(());
    }
    index.write(&IndexChanges { reindexing: Some(true), ..IndexChanges::default() })
}

/// Removes all undo files, which a reindex rewrites from their first byte.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn remove_undo_files(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let entries = disk.list(layout.blocks_dir())?;
    for entry in entries.iter().filter(|entry| !entry.is_dir && layout::undo_file_number(&entry.name).is_some()) {
        disk.remove_file(&layout.blocks_dir().join(&entry.name))?;
    }
    disk.sync_dir_once(layout.blocks_dir())?;
    Ok(())
}

/// Replaces an unreadable index by a new one with `R`. bitcoind could not start on the old one either.
fn replace_damaged_index(host: &Host, layout: &Layout) -> Result<BlockTreeDb> {
    replace_index(host, layout, &IndexChanges { reindexing: Some(true), ..IndexChanges::default() })
}

/// Replaces the index, if there is one, by a new one with `content`, in one step. The old one is removed once that is
/// durable. The index must not be open.
///
/// # Errors
///
/// An I/O error; then the index is either the old or the new one, whole. The call can be repeated.
pub fn replace_index(host: impl Into<Host>, layout: &Layout, content: &IndexChanges<'_>) -> Result<BlockTreeDb> {
    let host = &host.into();
    let disk = &host.disk;
    finish_index_swap(disk, layout)?;
    let new = new_index_dir(layout);
    let dir = layout.index_dir();
    let index = BlockTreeDb::open_dir(host.clone(), &new)?;
    index.write(content)?;
    drop(index);
    let parent = dir.parent().ok_or_else(|| no_parent(&dir))?;
    if disk.metadata(&dir)?.is_none() && disk.read_link(&dir)?.is_none() {
        disk.rename(&new, &dir)?;
        disk.sync_dir_once(parent)?;
        return BlockTreeDb::open(host, layout);
    }
    match disk.exchange(&new, &dir) {
        Ok(()) => disk.sync_dir_once(parent)?,
        // Otherwise the files are moved one by one: at every instant the index is the old or the new one.
        Err(why) if why.is_immovable() => drop(leveldb::install(disk, &new, &dir)?),
        Err(why) => return Err(why.into()),
    }
    finish_index_swap(disk, layout)?;
    BlockTreeDb::open(host, layout)
}

/// Completes an interrupted replacement of the index. Called by [`begin`]; call it before an index is opened.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn finish_index_swap(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    let new = new_index_dir(layout);
    let dir = layout.index_dir();
    if leveldb::is_installing(&**disk, &new)? {
        // If another program opened it meanwhile, that program's result stays.
        leveldb::install(disk, &new, &dir)?;
    }
    let disk = &**disk;
    let parent = dir.parent().ok_or_else(|| no_parent(&dir))?;
    for left in [new, old_index_dir(layout)] {
        if disk.metadata(&left)?.is_some() {
            empty_database(disk, &left)?;
            remove_tree(disk, &left)?;
            disk.sync_dir_once(parent)?;
        }
    }
    Ok(())
}

/// This directory is next to the index, because both must be on one file system. Core ignores it.
fn new_index_dir(layout: &Layout) -> PathBuf {
    layout.index_dir().with_file_name("ffwd-index.new")
}

/// A leftover, which is removed.
fn old_index_dir(layout: &Layout) -> PathBuf {
    layout.index_dir().with_file_name("ffwd-index.old")
}

fn no_parent(path: &std::path::Path) -> Fault {
    Fault::new(FaultKind::Refused, path, "a directory with a parent", "one without", "Name another --datadir")
}
