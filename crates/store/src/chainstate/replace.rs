//! Emptying a chainstate, and putting a rebuilt one in the place of the old one.
//!
//! A chainstate that is being rebuilt lies in `ffwd/chainstate` and has a file `ffwd-rebuilt` in it, which LevelDB does
//! not look at. With it, it can be gone on with; without it, it is an old one that waits to be removed. The two are
//! swapped in one step. Where that cannot be (a file system without such a step, a mount point, a link, a lower layer of
//! an overlayfs), the files of the new one are moved into the old one's directory (`leveldb::install`), and [`finish_swap`]
//! goes on with that after a crash. At every instant `chainstate/` is the old set or the new one, for Core too.
//! One that is made with hints lies in `ffwd/chainstate_hints`, and all of this holds for it too.

use crate::db::empty_database;
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::Layout;
use disk::{Disk, DiskError, remove_tree};
use leveldb::Installed;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// A chainstate in the making, the one whose place it takes, and where earlier versions moved that meanwhile.
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
/// The swap at the end could not be made: a link without a directory, no room to copy to another file system. What the
/// system says.
pub fn rebuilt(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<Rebuilt> {
    begin(disk, layout, &Places::rebuilt(layout))
}

/// The same for `ffwd/chainstate_hints`, [`Layout::hinted_chainstate_dir`].
///
/// # Errors
///
/// As [`rebuilt`].
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

/// Says no before the work where the coins of `from` cannot take the place of those in `chainstate/` at its end: a link that
/// leads nowhere, or another file system without room for a copy beside the old ones.
///
/// # Errors
///
/// [`FaultKind::Refused`], or what the system says.
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

/// What a copy may need beyond what the old coins take.
const SPARE_BYTES: u64 = 64 << 20;

/// Whether there is anything of the chainstate's name, if only a link to nothing.
fn is_there(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.list(layout.net_dir())?.iter().any(|entry| entry.name == "chainstate"))
}

/// Whether the chainstate's name is a link: it would be swapped, and not what it leads to.
pub(super) fn is_link(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.list(layout.net_dir())?.iter().any(|entry| entry.name == "chainstate" && !entry.is_dir))
}

/// Removes a chainstate that was begun with hints, if there is one. It is closed.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn remove_hinted(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    retire(disk, &layout.hinted_chainstate_dir())
}

/// Puts the whole and closed chainstate of `ffwd/chainstate` in the place of the old one, and removes the old one. The old
/// one's LOCK is held by the caller until then.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn swap_rebuilt(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::rebuilt(layout))
}

/// The same for the one of `ffwd/chainstate_hints`. Both are closed.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn swap_hinted(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    swap(disk, layout, &Places::hinted(layout))
}

fn swap(disk: &Arc<dyn Disk>, layout: &Layout, places: &Places) -> Result<()> {
    let Places { new, old, .. } = places;
    if disk.metadata(&new.join(MARKER))?.is_none() || leveldb::is_installing(&**disk, new)? {
        return finish_swap(disk, layout); // It was swapped before, or was being.
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

/// File by file.
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

/// Ends a swap that was cut short, and removes what is left of an old chainstate. To be called at every start; does
/// nothing most of the time.
///
/// # Errors
///
/// What the system says; can be called again.
pub fn finish_swap(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    for places in [Places::rebuilt(layout), Places::hinted(layout)] {
        let Places { new, old, aside } = &places;
        if leveldb::is_installing(&**disk, new)? {
            // Where another program came in between, what it left stands, and the new coins are not whole any more.
            leveldb::install(disk, new, old)?;
            retire(&**disk, new)?;
        }
        let disk = &**disk;
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

/// Removes a chainstate in the making. First its mark, durable: what is left of it after a crash is not gone on with.
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

/// What is still open stays until it is removed the next time.
pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    if disk.metadata(path)?.is_some() {
        remove_tree(disk, path)?;
        if let Some(parent) = path.parent() {
            disk.sync_dir_once(parent)?;
        }
    }
    Ok(())
}
