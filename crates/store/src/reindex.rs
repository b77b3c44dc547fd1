//! The steps of a full reindex around the work itself: in every state between them, bitcoind or ffwd starts on the
//! data directory and finishes.
//!
//! 0. A file is made and removed in blocks/: where that fails, nothing else is touched.
//! 1. `R` is set in the old index, and durable.
//! 2. A snapshot's chainstate goes.
//! 3. The chainstate is emptied.
//! 4. The index is emptied, in one commit that keeps `R`.
//! 5. The undo files go.
//!
//! From before 1 until after 5 there is a file `ffwd/reindex-begins`: with it, a run that was interrupted starts over, and
//! does not take the old coins for its own. Without it, should it be lost, they are continued from, as bitcoind would.
//!
//! The headers that the block files do not have lie in `ffwd/reindex-headers` from before 1 until `R` is erased, for the
//! new index to have them too. (In an index of bare headers bitcoind's own checks would stop it.)
//!
//! Then the work; `R` is erased in the commit that lists every block of the files.
//!
//! Tested with bitcoind: `R` with a full old index and no chainstate, and `R` alone, are started from and finished; `R`
//! in an empty index beside an OLD chainstate is refused, so the chainstate goes first.

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

/// Exists in the private directory while the first steps are done.
const BEGINS: &str = "reindex-begins";
/// Headers of the old index that no block file has, 80 bytes each, parents first.
const HEADERS: &str = "reindex-headers";
/// Bound of that file: 3.3 million headers.
const HEADERS_BYTES_MAX: usize = 1 << 28;

/// What [`begin`] found and did.
#[derive(Debug)]
pub struct Begun {
    /// The index: empty but for `R`.
    pub index: BlockTreeDb,
    /// The old index was damaged and was replaced by a new one.
    pub was_damaged: bool,
    /// A chainstate from a snapshot was removed.
    pub removed_snapshot: bool,
}

/// Does steps 1 to 5, each of which may have been done before. Neither index nor chainstate may be open; block files are
/// not touched. What the files hold should have been compared with the old tip before this.
///
/// `headers`: what [`kept_headers`] is to answer from now on, parents first.
///
/// # Errors
///
/// Another program holds the data directory, or what the system says; can be called again.
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
    let old = match BlockTreeDb::open(&host, layout).and_then(|index| set_reindexing(&index).map(|()| index)) {
        Ok(index) => Some(index),
        Err(why) if matches!(why.kind(), FaultKind::Damaged | FaultKind::OtherForm) => None,
        Err(why) => return Err(why),
    };
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

/// Whether names in blocks/ can be made and removed. Undo files are, after index and chainstate were emptied: to be found
/// out before. The name is hidden, so that a directory that Core never used stays one.
fn check_writable(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let path = layout.blocks_dir().join(".ffwd-write-test");
    if disk.metadata(&path)?.is_some() {
        disk.remove_file(&path)?;
    }
    disk.create(&path)?;
    Ok(disk.remove_file(&path)?)
}

/// Whether the first steps were cut short: [`begin`] is to be called again, whatever else the data directory says.
///
/// # Errors
///
/// What the system says.
pub fn is_beginning(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.metadata(&layout.private_dir().join(BEGINS))?.is_some())
}

/// Headers of the old index that no block file had when this reindex began, parents first. Not checked since.
///
/// # Errors
///
/// What the system says.
pub fn kept_headers(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Vec<Header>> {
    let bytes =
        PrivateDir::new(disk.clone(), layout.private_dir()).read(HEADERS, HEADERS_BYTES_MAX)?.unwrap_or_default();
    Ok(bytes.as_chunks().0.iter().copied().map(Header).collect())
}

/// Removes the private files of a reindex where `R` is gone: the work is done, perhaps by bitcoind, which knows
/// nothing of them.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn forget(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    for name in [BEGINS, HEADERS] {
        if disk.metadata(&layout.private_dir().join(name))?.is_some() {
            PrivateDir::new(disk.clone(), layout.private_dir()).remove(name)?;
        }
    }
    Ok(())
}

/// Opens the index to go on with a reindex that was stopped, and ends the steps that were cut short; `None` when none
/// was stopped. Neither index nor chainstate may be open.
///
/// An index that lists blocks has the undo data that it says, and the chainstate may be behind it or empty.
///
/// # Errors
///
/// Another program holds the data directory, something is damaged, or what the system says; can be called again.
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
/// What the system says; can be called again.
pub fn remove_undo_files(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let entries = disk.list(layout.blocks_dir())?;
    for entry in entries.iter().filter(|entry| !entry.is_dir && layout::undo_file_number(&entry.name).is_some()) {
        disk.remove_file(&layout.blocks_dir().join(&entry.name))?;
    }
    disk.sync_dir_once(layout.blocks_dir())?;
    Ok(())
}

/// A new index with `R` takes the place of one that cannot be read. bitcoind could not start on the old one either.
fn replace_damaged_index(host: &Host, layout: &Layout) -> Result<BlockTreeDb> {
    replace_index(host, layout, &IndexChanges { reindexing: Some(true), ..IndexChanges::default() })
}

/// A new index that says `content` takes the place of the one that is there, if there is one, in one step; the old one goes
/// once that is durable. It may not be open.
///
/// # Errors
///
/// What the system says; the old index is there then, or the new one, whole. Can be called again.
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
        // File by file, then: at every instant there is the old index, or the new one.
        Err(why) if why.is_immovable() => drop(leveldb::install(disk, &new, &dir)?),
        Err(why) => return Err(why.into()),
    }
    finish_index_swap(disk, layout)?;
    BlockTreeDb::open(host, layout)
}

/// Ends a replacement of the index that was cut short. Called by [`begin`]; to be called before an index is opened.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn finish_index_swap(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    let new = new_index_dir(layout);
    let dir = layout.index_dir();
    let aside = old_index_dir(layout);
    if leveldb::is_installing(&**disk, &new)? {
        // Where another program came in between, what it left stands.
        leveldb::install(disk, &new, &dir)?;
    }
    let disk = &**disk;
    let parent = dir.parent().ok_or_else(|| no_parent(&dir))?;
    if disk.metadata(&dir)?.is_none() && disk.metadata(&aside)?.is_some() && Db::exists(disk, &new)? {
        disk.rename(&new, &dir)?;
        disk.sync_dir_once(parent)?;
    }
    for left in [new, aside] {
        if disk.metadata(&left)?.is_some() {
            empty_database(disk, &left)?;
            remove_tree(disk, &left)?;
            disk.sync_dir_once(parent)?;
        }
    }
    Ok(())
}

/// Beside the index, for the two must lie in one file system. Core does not look at it.
fn new_index_dir(layout: &Layout) -> PathBuf {
    layout.index_dir().with_file_name("ffwd-index.new")
}

fn old_index_dir(layout: &Layout) -> PathBuf {
    layout.index_dir().with_file_name("ffwd-index.old")
}

fn no_parent(path: &std::path::Path) -> Fault {
    Fault::new(FaultKind::Refused, path, "a directory inside another", "one without a parent", "Name another --datadir")
}
