//! Checks that the block and undo files counted in the index still exist: another program may remove one at any time.
//!
//! Each sync checks the files being appended to (`append`), and each opening the files being read (`open_files`). This
//! module checks the rest by name: it is a fault if a counted file existed before and is now missing.
//!
//! Absent on purpose: contents, and files that were already missing: opening the index reports which of those it needs.

use crate::fault::{Fault, FaultKind, Result};
use crate::fileinfo::FileInfos;
use crate::layout;
use disk::Disk;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A block file or an undo file, and its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Name {
    Block(u32),
    Undo(u32),
}

/// The block and undo files of a directory, as last seen.
#[derive(Debug)]
pub struct Presence {
    disk: Arc<dyn Disk>,
    blocks_dir: PathBuf,
    seen: Mutex<BTreeSet<Name>>,
}

/// Files that have disappeared.
#[must_use = "whether one of them is counted on is still to be asked"]
#[derive(Debug)]
pub struct Gone<'p> {
    blocks_dir: &'p Path,
    names: Vec<Name>,
}

impl Presence {
    /// Lists the existing files.
    ///
    /// # Errors
    ///
    /// A missing or unreadable directory.
    pub fn new(disk: Arc<dyn Disk>, blocks_dir: &Path) -> Result<Presence> {
        let presence = Presence { disk, blocks_dir: blocks_dir.to_path_buf(), seen: Mutex::default() };
        let _ = presence.look()?;
        Ok(presence)
    }

    /// Lists the files again and returns those that have disappeared. Call it before reading the infos for
    /// [`Gone::check`]: pruned files are cleared there before they are removed.
    ///
    /// # Errors
    ///
    /// Those of [`Presence::new`].
    pub fn look(&self) -> Result<Gone<'_>> {
        let names = self.disk.list(&self.blocks_dir)?.into_iter().filter(|entry| !entry.is_dir).filter_map(|entry| {
            let block = layout::block_file_number(&entry.name).map(Name::Block);
            block.or_else(|| layout::undo_file_number(&entry.name).map(Name::Undo))
        });
        let now: BTreeSet<Name> = names.collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = seen.difference(&now).copied().collect();
        *seen = now;
        Ok(Gone { blocks_dir: &self.blocks_dir, names: gone })
    }
}

impl Gone<'_> {
    /// Fails if one of these files has data counted in `infos`.
    ///
    /// # Errors
    ///
    /// [`FaultKind::Missing`], with the path of the first.
    pub fn check(self, infos: &FileInfos) -> Result<()> {
        let is_counted = |name: &Name| match *name {
            Name::Block(number) => infos.get(number).size > 0,
            Name::Undo(number) => infos.get(number).undo_size > 0,
        };
        let Some(name) = self.names.into_iter().find(is_counted) else { return Ok(()) };
        let (path, what) = match name {
            Name::Block(number) => (layout::block_file(self.blocks_dir, number), "the block file"),
            Name::Undo(number) => (layout::undo_file(self.blocks_dir, number), "the undo file"),
        };
        let wanted = format!("{what}, which the block index counts on");
        let found = "it removed or moved by another program while this one runs";
        let advice = "Put the file back and start again: what was not committed is done again";
        Err(Fault::new(FaultKind::Missing, &path, wanted, found, advice).or_reindex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;
    use primitives::Height;

    #[test]
    fn file_that_went_is_named_where_it_is_counted_on() {
        let (sim, dir) = (SimDisk::new(0).shared(), Path::new("/blocks"));
        sim.create_dir_all(dir).unwrap();
        for name in ["blk00000.dat", "blk00001.dat", "blk00002.dat", "rev00000.dat", "rev00001.dat", "xor.dat"] {
            drop(sim.create(&dir.join(name)).unwrap());
        }
        let mut infos = FileInfos::default();
        for file in 0..2 {
            infos.add_existing(crate::FilePos { file, offset: 8 }, 100, Height::GENESIS, 0);
        }
        infos.change(1, |info| info.undo_size = 9);
        for (row, name, want) in [
            ("a file of another kind", "xor.dat", None),
            ("a block file that is not counted on", "blk00002.dat", None),
            ("an undo file that is not counted on", "rev00000.dat", None),
            ("an undo file", "rev00001.dat", Some("the undo file")),
            ("a block file", "blk00001.dat", Some("the block file")),
        ] {
            let presence = Presence::new(sim.clone(), dir).unwrap();
            presence.look().unwrap().check(&infos).unwrap();
            sim.remove_file(&dir.join(name)).unwrap();
            let got = presence.look().unwrap().check(&infos);
            match want {
                None => got.unwrap_or_else(|why| panic!("{row}: {why}")),
                Some(want) => {
                    let why = got.unwrap_err();
                    assert_eq!((why.kind(), &why.detail().path), (FaultKind::Missing, &dir.join(name)), "{row}");
                    assert!(why.to_string().contains(want), "{row}: {why}");
                }
            }
        }
        // What is pruned is forgotten before it goes.
        let presence = Presence::new(sim.clone(), dir).unwrap();
        infos.prune(0);
        sim.remove_file(&dir.join("blk00000.dat")).unwrap();
        presence.look().unwrap().check(&infos).unwrap();
        sim.remove_dir_all(dir).unwrap();
        assert_eq!(presence.look().unwrap_err().kind(), FaultKind::Missing, "the directory went");
    }
}
