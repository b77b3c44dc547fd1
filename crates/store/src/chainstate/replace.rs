//! Empties a chainstate, and replaces it by a rebuilt one.
//!
//! A chainstate is rebuilt in `ffwd/chainstate`, and one made with hints in `ffwd/chainstate_hints`. Either contains a
//! marker file `ffwd-rebuilt`, which LevelDB ignores. With the marker the rebuild can be continued; without it, the
//! directory is an old chainstate about to be removed. A finished one is swapped with `chainstate/` in one step. If
//! that is impossible (a file system without such a step, a mount point, a link, a lower overlayfs layer), the files of
//! the new one are moved into the old one's directory (`leveldb::install`), and [`finish_swap`] continues this after a
//! crash. At every instant `chainstate/` is either the old set or the new one, for Core too.

use crate::db::empty_database;
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::Layout;
use disk::{Disk, DiskError, remove_tree};
use leveldb::Installed;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Marks a chainstate that is being rebuilt, or has been.
const MARKER: &str = "ffwd-rebuilt";

/// The state of `ffwd/chainstate`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rebuilt {
    /// Empty: a rebuild starts from the genesis block.
    Absent,
    /// An unfinished rebuild: continue it.
    Started,
}

/// Empties the chainstate, even a damaged one. It must not be open.
///
/// # Errors
///
/// Another program holds it, or an I/O error; the call can be repeated.
pub fn empty(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    empty_database(disk, &layout.chainstate_dir())
}

/// A chainstate under construction, the one that it will replace, and a leftover beside them, which is removed.
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

/// Prepares `ffwd/chainstate` and returns its state: completes an interrupted swap, and creates the directory with its
/// marker if it is missing. Then call [`super::Chainstate::open`] on [`Layout::rebuilt_chainstate_dir`].
///
/// # Errors
///
/// The final swap would be impossible: a link without a directory, or no space for a copy on another file system. An
/// I/O error.
pub fn rebuilt(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Rebuilt> {
    begin(disk, layout, &Places::rebuilt(layout))
}

/// [`rebuilt`] for `ffwd/chainstate_hints`, [`Layout::hinted_chainstate_dir`].
///
/// # Errors
///
/// Those of [`rebuilt`].
pub fn hinted(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Rebuilt> {
    begin(disk, layout, &Places::hinted(layout))
}

fn begin(disk: &Arc<dyn Disk>, layout: &Layout, places: &Places) -> Result<Rebuilt> {
    finish_swap(disk, layout)?;
    let disk = &**disk;
    let dir = &places.new;
    if disk.metadata(&dir.join(MARKER))?.is_some() {
        check_place(disk, layout, dir)?;
        return Ok(Rebuilt::Started);
    }
    disk.create_dir_all(dir)?;
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    check_place(disk, layout, dir)?;
    let marker = disk.create(&dir.join(MARKER))?;
    marker.sync().map_err(DiskError::of_last_try)?;
    disk.sync_dir_once(dir)?;
    Ok(Rebuilt::Absent)
}

/// Fails before the work begins if the coins of `from` could not replace those in `chainstate/` at its end: a dangling
/// link, or another file system without space for a copy in addition to the old coins.
///
/// # Errors
///
/// [`FaultKind::Refused`], or an I/O error.
pub fn check_place(disk: &dyn Disk, layout: &Layout, from: &Path) -> Result<()> {
    let dir = layout.chainstate_dir();
    match disk.metadata(&dir)? {
        Some(known) if known.is_dir => {}
        None if is_there(disk, layout)? => {
            let advice = "Is the drive there? Put the directory back that the link leads to, or remove the link";
            return Err(Fault::new(FaultKind::Refused, &dir, "a directory", "a link that leads nowhere", advice));
        }
        None => return Ok(()),
        Some(_) => {
            let advice = "Move the file away";
            return Err(Fault::new(FaultKind::Refused, &dir, "a directory", "a file", advice));
        }
    }
    if leveldb::can_move_files(disk, from, &dir)? {
        return Ok(());
    }
    let mut needed = SPARE_BYTES;
    for entry in disk.list(&dir)?.iter().filter(|entry| !entry.is_dir) {
        needed += disk.metadata(&dir.join(&entry.name))?.map_or(0, |known| known.len);
    }
    let free = disk.free_space_bytes(&dir)?;
    if free >= needed {
        return Ok(());
    }
    let wanted = format!(
        "{needed} bytes free there: it is a mount point, or on another file system than {}, so that the new coins are copied \
         into it before the old ones are removed",
        from.display()
    );
    let advice = "Free disk space there, or put both on one file system. Nothing was changed";
    Err(Fault::new(FaultKind::Refused, &dir, wanted, format!("{free}"), advice))
}

/// Bytes that a copy may need beyond the size of the old coins.
const SPARE_BYTES: u64 = 64 << 20;

/// Whether the chainstate's name exists, even as a dangling link.
fn is_there(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.list(layout.net_dir())?.iter().any(|entry| entry.name == "chainstate"))
}

/// Whether the chainstate's name is a link: a swap would exchange the link, not its target.
pub(super) fn is_link(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.list(layout.net_dir())?.iter().any(|entry| entry.name == "chainstate" && !entry.is_dir))
}

/// Removes a chainstate that was begun with hints, if there is one. It must be closed.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn remove_hinted(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    retire(disk, &layout.hinted_chainstate_dir())
}

/// Replaces the old chainstate by the whole, closed one of `ffwd/chainstate`, and removes the old one. The caller holds
/// the old one's LOCK until then.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn swap_rebuilt(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::rebuilt(layout))
}

/// [`swap_rebuilt`] for `ffwd/chainstate_hints`. Both chainstates are closed.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn swap_hinted(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::hinted(layout))
}

fn swap(disk: &Arc<dyn Disk>, layout: &Layout, places: &Places) -> Result<()> {
    let Places { new, old, .. } = places;
    if disk.metadata(&new.join(MARKER))?.is_none() || leveldb::is_installing(&**disk, new)? {
        return finish_swap(disk, layout); // It was swapped before, or a swap was in progress.
    }
    let moved = match disk.metadata(old)? {
        None => disk.rename(new, old),
        Some(_) if is_link(&**disk, layout)? => Err(DiskError::new("exchange", new, std::io::ErrorKind::Unsupported)),
        Some(_) => disk.exchange(new, old),
    };
    match moved {
        Ok(()) => sync_both(&**disk, layout)?,
        Err(why) if why.is_immovable() => install(disk, new, old)?,
        Err(why) => return Err(why.into()),
    }
    finish_swap(disk, layout)
}

/// Replaces file by file.
fn install(disk: &Arc<dyn Disk>, new: &Path, old: &Path) -> Result<()> {
    match leveldb::install(disk, new, old)? {
        Installed::Done => retire(&**disk, new),
        Installed::Overtaken => {
            retire(&**disk, new)?;
            let found = "another program at work there, while the new coins were put into it";
            let advice = "The old coins are kept. Run the same command again, without another program meanwhile";
            Err(Fault::new(FaultKind::Refused, old, "a chainstate that is not in use", found, advice))
        }
    }
}

/// Completes an interrupted swap, and removes the remains of an old chainstate. Call at every start; usually there is
/// nothing to do.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn finish_swap(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    for places in [Places::rebuilt(layout), Places::hinted(layout)] {
        let Places { new, old, aside } = &places;
        if leveldb::is_installing(&**disk, new)? {
            // If another program opened it meanwhile, its result stays and the new coins are incomplete.
            leveldb::install(disk, new, old)?;
            retire(&**disk, new)?;
        }
        let disk = &**disk;
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

/// Removes a chainstate under construction. Its marker is durably removed first, so that its remains after a crash are
/// not continued.
fn retire(disk: &dyn Disk, new: &Path) -> Result<()> {
    let marker = new.join(MARKER);
    if disk.metadata(&marker)?.is_some() {
        disk.remove_file(&marker)?;
        disk.sync_dir_once(new)?;
    }
    remove_if_there(disk, new)
}

fn sync_both(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    Ok(())
}

/// Removes the directory `path`, if there is one. Files that are still open stay until the next removal.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    if disk.metadata(path)?.is_some() {
        remove_tree(disk, path)?;
        if let Some(parent) = path.parent() {
            disk.sync_dir_once(parent)?;
        }
    }
    Ok(())
}
