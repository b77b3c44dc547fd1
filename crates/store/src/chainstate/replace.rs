//! Emptying a chainstate, and putting a rebuilt one in the place of the old one.
//!
//! A chainstate that is being rebuilt lies in `ffwd/chainstate` and has a file `ffwd-rebuilt` in it, which LevelDB does
//! not look at. With it, it can be gone on with; without it, it is an old one that waits to be removed. The two are
//! swapped in one step; where the file system has no such step, the old one moves to `ffwd/chainstate.old` first, and
//! [`finish_swap`] ends what a crash in between left.
//! One that is made with hints lies in `ffwd/chainstate_hints`, and all of this holds for it too.

use crate::db::empty_database;
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::Layout;
use disk::{Disk, DiskError};
use leveldb::Db;
use std::path::{Path, PathBuf};

/// Says that a chainstate is being rebuilt, or was.
const MARKER: &str = "ffwd-rebuilt";

/// What lies in `ffwd/chainstate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebuilt {
    /// Nothing: a rebuild starts from the genesis block.
    Absent,
    /// A chainstate that is being rebuilt: go on with it.
    Started,
}

/// Empties the chainstate, also a damaged one. It must not be open.
///
/// # Errors
///
/// Another program holds it, or what the system says; can be called again.
pub fn empty(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    empty_database(disk, &layout.chainstate_dir())
}

/// Removes a chainstate from a snapshot; says whether there was one. For a full reindex.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn remove_snapshot(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    let dir = layout.snapshot_dir();
    if disk.metadata(&dir)?.is_none() {
        return Ok(false);
    }
    if Db::exists(disk, &dir)? {
        drop(disk.lock(&dir.join("LOCK"))?);
    }
    // Out of Core's sight in one step.
    let aside = layout.private_dir().join("chainstate_snapshot.old");
    remove_if_there(disk, &aside)?;
    disk.create_dir_all(&layout.private_dir())?;
    disk.rename(&dir, &aside)?;
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    remove_if_there(disk, &aside)?;
    Ok(true)
}

/// A chainstate in the making, the one whose place it takes, and where that is moved meanwhile.
struct Places {
    new: PathBuf,
    old: PathBuf,
    aside: PathBuf,
}

impl Places {
    fn of(new: PathBuf, layout: &Layout) -> Places {
        let mut aside = new.clone();
        aside.as_mut_os_string().push(".old");
        Places { new, old: layout.chainstate_dir(), aside }
    }

    fn rebuilt(layout: &Layout) -> Places {
        Places::of(layout.rebuilt_chainstate_dir(), layout)
    }

    fn hinted(layout: &Layout) -> Places {
        Places::of(layout.hinted_chainstate_dir(), layout)
    }
}

/// Looks what lies in `ffwd/chainstate`, after ending a swap that was cut short, and makes the directory with its mark
/// where it is missing. Then [`super::Chainstate::open`] opens or makes the database in
/// [`Layout::rebuilt_chainstate_dir`].
///
/// # Errors
///
/// What the system says.
pub fn rebuilt(disk: &dyn Disk, layout: &Layout) -> Result<Rebuilt> {
    begin(disk, layout, &Places::rebuilt(layout))
}

/// The same for `ffwd/chainstate_hints`, [`Layout::hinted_chainstate_dir`].
///
/// # Errors
///
/// What the system says.
pub fn hinted(disk: &dyn Disk, layout: &Layout) -> Result<Rebuilt> {
    begin(disk, layout, &Places::hinted(layout))
}

fn begin(disk: &dyn Disk, layout: &Layout, places: &Places) -> Result<Rebuilt> {
    check_is_directory(disk, layout)?;
    finish_swap(disk, layout)?;
    let dir = &places.new;
    if disk.metadata(&dir.join(MARKER))?.is_some() {
        return Ok(Rebuilt::Started);
    }
    disk.create_dir_all(dir)?;
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    let marker = disk.create(&dir.join(MARKER))?;
    marker.sync().map_err(DiskError::of_last_try)?;
    disk.sync_dir_once(dir)?;
    Ok(Rebuilt::Absent)
}

/// Removes a chainstate that was begun with hints, if there is one. It is closed.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn remove_hinted(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let dir = layout.hinted_chainstate_dir();
    let marker = dir.join(MARKER);
    if disk.metadata(&marker)?.is_some() {
        // What is left of it after a crash is not gone on with.
        disk.remove_file(&marker)?;
        disk.sync_dir_once(&dir)?;
    }
    remove_if_there(disk, &dir)
}

/// Puts the whole and closed chainstate of `ffwd/chainstate` in the place of the old one, in one step where the system
/// has one, and removes the old one. The old one's LOCK is held by the caller until then.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn swap_rebuilt(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::rebuilt(layout))
}

/// The same for the one of `ffwd/chainstate_hints`. Both are closed.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn swap_hinted(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::hinted(layout))
}

fn swap(disk: &dyn Disk, layout: &Layout, places: &Places) -> Result<()> {
    let Places { new, old, aside } = places;
    if disk.metadata(&new.join(MARKER))?.is_none() {
        return finish_swap(disk, layout); // It was swapped before.
    }
    if disk.metadata(old)?.is_none() {
        disk.rename(new, old)?;
        sync_both(disk, layout)?;
        return finish_swap(disk, layout);
    }
    match disk.exchange(new, old) {
        Ok(()) => sync_both(disk, layout)?,
        Err(why) if why.is_unsupported() => {
            disk.rename(old, aside)?;
            sync_both(disk, layout)?;
            disk.rename(new, old)?;
            sync_both(disk, layout)?;
        }
        Err(why) => return Err(why.into()),
    }
    finish_swap(disk, layout)
}

/// Ends a swap that was cut short, and removes what is left of an old chainstate. To be called at every start; does
/// nothing most of the time.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn finish_swap(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    for places in [Places::rebuilt(layout), Places::hinted(layout)] {
        let Places { new, old, aside } = &places;
        let is_cut = disk.metadata(old)?.is_none() && disk.metadata(aside)?.is_some();
        if is_cut && disk.metadata(&new.join(MARKER))?.is_some() {
            disk.rename(new, old)?;
            sync_both(disk, layout)?;
        }
        if disk.metadata(new)?.is_some() && disk.metadata(&new.join(MARKER))?.is_none() {
            remove_if_there(disk, new)?;
        }
        if disk.metadata(old)?.is_some() {
            remove_if_there(disk, aside)?;
        }
    }
    let old = layout.chainstate_dir();
    let marker = old.join(MARKER);
    if disk.metadata(&marker)?.is_some() {
        disk.remove_file(&marker)?;
        disk.sync_dir_once(&old)?;
    }
    Ok(())
}

fn sync_both(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    Ok(())
}

pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    if disk.metadata(path)?.is_some() {
        disk.remove_dir_all(path)?;
        if let Some(parent) = path.parent() {
            disk.sync_dir_once(parent)?;
        }
    }
    Ok(())
}

/// A link would be swapped, and not what it leads to.
fn check_is_directory(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let entries = disk.list(layout.net_dir())?;
    let Some(entry) = entries.iter().find(|entry| entry.name == "chainstate") else { return Ok(()) };
    if entry.is_dir {
        return Ok(());
    }
    let advice =
        "Run a full reindex, which works in the directory that the link leads to, or put that directory itself here";
    let wanted = "a directory that can be swapped with a rebuilt one";
    Err(Fault::new(FaultKind::Refused, &layout.chainstate_dir(), wanted, "a link", advice))
}
