//! Selects the files to prune, by Core's rules, from file infos. Only [`remove_files`] removes anything.
//!
//! Order of a prune: coins committed, then index and the flag `prunedblockfiles`, then [`remove_files`]. Source: facts
//! of Bitcoin Core b88bffe, `BlockManager::FindFilesToPrune`, `Chainstate::GetPruneRange`.

use crate::fault::Result;
use crate::fileinfo::FileInfo;
use crate::index::{IndexEntry, LoadedIndex};
use crate::layout::{self, Layout};
use crate::restore::resolved;
use disk::Disk;
use primitives::Height;
use std::path::{Path, PathBuf};

/// Blocks below the tip that are always kept.
pub const BLOCKS_KEPT_MIN: u32 = 288;
/// Room for one more reservation of a block file (16 MiB) and an undo file (1 MiB).
pub const BUFFER_BYTES: u64 = 17 * 1024 * 1024;
/// Core's estimate of the size of each remaining block during the initial download.
const AVERAGE_BLOCK_BYTES: u64 = 1_000_000;

/// The parameters of a prune.
#[derive(Clone, Copy, Debug)]
pub struct Prune {
    /// Target size of the block and undo files in bytes.
    pub target_bytes: u64,
    /// Reserve below the target: [`BUFFER_BYTES`], less if files grow in smaller pieces.
    pub buffer_bytes: u64,
    /// Height of the last block whose coins are durably committed.
    pub tip_height: Height,
    /// Height of the best header.
    pub best_header_height: Height,
    /// Nothing is pruned until the tip is above this height (the network's `nPruneAfterHeight`).
    pub prune_after_height: Height,
    /// The tip is still far from the best header: more is pruned at once.
    pub initial_download: bool,
    /// Blocks up to this height stay, because they validate a snapshot. Without a snapshot: the genesis block's height.
    pub kept_to: Height,
}

/// The files to prune, and the resulting size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Numbers of the files, ascending.
    pub files: Vec<u32>,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of the other files.
    pub left_bytes: u64,
}

/// The files whose blocks are all at or below `height`, and above `kept_to`.
///
/// Source: Bitcoin Core b88bffe, `BlockManager::FindFilesToPruneManual`.
pub fn select_up_to(infos: &[FileInfo], height: Height, kept_to: Height) -> Selection {
    let usage: u64 = infos.iter().map(FileInfo::used_bytes).sum();
    let mut selected = Selection { left_bytes: usage, ..Selection::default() };
    for (file, info) in infos.iter().enumerate() {
        let is_kept = kept_to > Height::GENESIS && info.height_first <= kept_to;
        if info.size > 0 && info.height_last <= height && !is_kept {
            selected.files.push(file as u32);
            selected.bytes += info.used_bytes();
            selected.left_bytes -= info.used_bytes();
        }
    }
    selected
}

/// The files to prune, in the order of their numbers.
///
/// `infos[i]` is file `i`; the last file is never pruned.
pub fn select(infos: &[FileInfo], ask: &Prune) -> Selection {
    let usage: u64 = infos.iter().map(FileInfo::used_bytes).sum();
    let mut selected = Selection { left_bytes: usage, ..Selection::default() };
    if ask.tip_height <= ask.prune_after_height || usage + ask.buffer_bytes < ask.target_bytes {
        return selected;
    }
    let ahead = ask.best_header_height.blocks_above(ask.tip_height);
    let more = if ask.initial_download { AVERAGE_BLOCK_BYTES * u64::from(ahead) } else { 0 };
    let height_max = ask.tip_height.saturating_sub(BLOCKS_KEPT_MIN);
    for (number, info) in (0..).zip(infos.iter().take(infos.len().saturating_sub(1))) {
        let is_kept = ask.kept_to > Height::GENESIS && info.height_first <= ask.kept_to;
        if info.size == 0 || info.height_last > height_max || is_kept {
            continue;
        }
        if selected.left_bytes + ask.buffer_bytes + more < ask.target_bytes {
            break;
        }
        let bytes = info.used_bytes();
        (selected.left_bytes, selected.bytes) = (selected.left_bytes - bytes, selected.bytes + bytes);
        selected.files.push(number);
    }
    selected
}

/// Files that the index lists as pruned, below the last one: after a crash they may still exist. Empty if nothing was
/// ever pruned; never includes files that an entry names. Source: Core's `ScanAndUnlinkAlreadyPrunedFiles`.
pub fn already_pruned(index: &LoadedIndex) -> Vec<u32> {
    if !index.is_pruned {
        return Vec::new();
    }
    let mut is_named = vec![false; index.files.len()];
    for at in index.entries.iter().flat_map(|entry| [entry.data(), entry.undo()]).flatten() {
        if let Some(named) = is_named.get_mut(at.file as usize) {
            *named = true;
        }
    }
    let below_last = index.files.iter().take(index.files.len().saturating_sub(1));
    let listed = (0..).zip(below_last.zip(is_named)).filter(|(_, (info, is_named))| info.size == 0 && !is_named);
    listed.map(|(number, _)| number).collect()
}

/// Whether a block was stored once and its file has been pruned. Source: Core's `BlockManager::IsBlockPruned`.
pub fn is_block_pruned(index: &LoadedIndex, entry: &IndexEntry) -> bool {
    index.is_pruned && entry.data().is_none() && entry.tx_count > 0
}

/// A link's target that stays although the link was pruned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stayed {
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// Removes the existing block and undo files with these numbers. If one is a link, its target is removed too; targets
/// that cannot be removed are added to `stayed`.
///
/// Call when coins, index and `prunedblockfiles` are durable; the call can be repeated after a crash.
///
/// # Errors
///
/// An I/O error.
pub fn remove_files(disk: &dyn Disk, layout: &Layout, files: &[u32], stayed: &mut Vec<Stayed>) -> Result<()> {
    for &file in files {
        for path in [layout.block_file(file), layout.undo_file(file)] {
            // The target is removed first: after a crash the link still points to it.
            let target = resolved(disk, &path)?;
            if target != path
                && let Some(why) = remove_target(disk, &target)
            {
                stayed.retain(|other| other.path != target);
                stayed.push(Stayed { path: target, why });
            }
            match disk.remove_file(&path) {
                Ok(()) => {}
                Err(why) if why.is_not_found() => {}
                Err(why) => return Err(why.into()),
            }
        }
    }
    if !files.is_empty() {
        disk.sync_dir_once(layout.blocks_dir())?;
    }
    Ok(())
}

/// Removes a link's target, or returns why it stays. A target without the name of a block or undo file may be anything,
/// so it stays.
fn remove_target(disk: &dyn Disk, target: &Path) -> Option<String> {
    let name = target.file_name().unwrap_or_default();
    let is_ours = layout::block_file_number(name).is_some() || layout::undo_file_number(name).is_some();
    match disk.metadata(target) {
        Ok(None) => None,
        Ok(Some(known)) if known.is_dir || !is_ours => Some("its name is not that of a block or undo file".to_owned()),
        Ok(Some(_)) => disk.remove_file(target).err().filter(|why| !why.is_not_found()).map(|why| why.to_string()),
        Err(why) => Some(why.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;
    use disk::SimDisk;
    use primitives::{BlockHash, Header};

    const MIB: u32 = 1024 * 1024;

    /// Files of 128 MiB and 20 MiB of undo data, a hundred heights each.
    fn infos(count: u32) -> Vec<FileInfo> {
        let info = |i: u32| FileInfo {
            blocks: 100,
            size: 128 * MIB,
            undo_size: 20 * MIB,
            height_first: Height::new(i * 100),
            height_last: Height::new(i * 100 + 99),
            time_first: 0,
            time_last: 0,
        };
        (0..count).map(info).collect()
    }

    #[test]
    fn select_chooses_the_files_that_core_prunes() {
        let ask = Prune {
            target_bytes: 600 << 20,
            buffer_bytes: BUFFER_BYTES,
            tip_height: Height::new(999),
            best_header_height: Height::new(999),
            prune_after_height: Height::new(100),
            initial_download: false,
            kept_to: Height::GENESIS,
        };
        let pruned_before = {
            let mut infos = infos(10);
            infos[0] = FileInfo::default();
            infos
        };
        let out_of_order = {
            let mut infos = infos(10);
            infos[1].height_last = Height::new(950);
            infos
        };
        for (row, infos, ask, want) in [
            ("3 * 148 + 17 MiB stay below 600", infos(10), ask, vec![0, 1, 2, 3, 4, 5, 6]),
            (
                "within the last 288 blocks",
                infos(10),
                Prune { tip_height: Height::new(800), ..ask },
                vec![0, 1, 2, 3, 4],
            ),
            ("as much as is wanted and no more", infos(10), Prune { target_bytes: 1400 << 20, ..ask }, vec![0]),
            ("enough room", infos(10), Prune { target_bytes: 1498 << 20, ..ask }, vec![]),
            ("exactly the target", infos(10), Prune { target_bytes: 1497 << 20, ..ask }, vec![0]),
            ("less room", infos(10), Prune { target_bytes: 1497 << 20, buffer_bytes: 0, ..ask }, vec![]),
            ("not yet", infos(10), Prune { prune_after_height: Height::new(999), ..ask }, vec![]),
            ("what a snapshot needs stays", infos(10), Prune { kept_to: Height::new(150), ..ask }, vec![2, 3, 4, 5, 6]),
            ("the last file stays", infos(1), Prune { tip_height: Height::new(10_000), ..ask }, vec![]),
            ("pruned before", pruned_before, Prune { target_bytes: 1300 << 20, ..ask }, vec![1]),
            ("a file with a late block stays", out_of_order, Prune { target_bytes: 1300 << 20, ..ask }, vec![0, 2]),
            (
                "far from the tip more goes at once",
                infos(10),
                Prune {
                    target_bytes: 1400 << 20,
                    best_header_height: Height::new(1199),
                    initial_download: true,
                    ..ask
                },
                vec![0, 1],
            ),
            ("no files", vec![], ask, vec![]),
        ] {
            let got = select(&infos, &ask);
            let bytes: u64 = want.iter().map(|&file: &u32| infos[file as usize].used_bytes()).sum();
            let left_bytes = infos.iter().map(FileInfo::used_bytes).sum::<u64>() - bytes;
            assert_eq!(got, Selection { files: want, bytes, left_bytes }, "{row}");
        }
    }

    #[test]
    fn prune_removal_is_repeatable_and_optional_indexes_refuse_it() {
        let sim = SimDisk::new(0);
        let disk = sim.shared();
        let layout = Layout::new(Path::new("/d"), "", None);
        layout.create(&*disk).unwrap();
        for path in [layout.block_file(1), layout.undo_file(1), layout.block_file(2)] {
            disk.create(&path).unwrap();
        }
        let mut stayed = Vec::new();
        remove_files(&*disk, &layout, &[1, 7], &mut stayed).unwrap();
        remove_files(&*disk, &layout, &[1], &mut stayed).unwrap();
        assert!(stayed.is_empty());
        assert_eq!(disk.list(layout.blocks_dir()).unwrap().len(), 1);
    }

    #[test]
    fn select_skips_files_already_pruned() {
        let status = Status::SCRIPTS.with(Status::HAVE_DATA);
        let header = IndexEntry::header_only(Header([0; 80]), BlockHash::ZERO, Height::new(7));
        let stored = IndexEntry { status, tx_count: 1, file: 2, data_offset: 8, ..header };
        let gone = IndexEntry { status: Status::SCRIPTS, tx_count: 1, ..header };
        let full = infos(1)[0];
        let none = FileInfo::default();
        let files = vec![none, full, none, full, none, none];
        let index = LoadedIndex { entries: vec![header, stored, gone], files, is_pruned: true, ..Default::default() };
        assert_eq!(already_pruned(&index), [0, 4], "an entry names file 2, and the last file stays");
        assert_eq!(
            index.entries.iter().map(|entry| is_block_pruned(&index, entry)).collect::<Vec<_>>(),
            [false, false, true]
        );
        let never = LoadedIndex { is_pruned: false, ..index };
        assert!(already_pruned(&never).is_empty() && !is_block_pruned(&never, &gone));
    }

    /// The space of a linked file is freed where it lies, unless it may be something else.
    #[cfg(unix)]
    #[test]
    fn files_that_links_lead_to_go_with_the_links_or_are_named() {
        use std::os::unix::fs::symlink;
        let top = tempfile::tempdir().unwrap();
        let far = top.path().join("far");
        let layout = Layout::new(&top.path().join("d"), "", None);
        let disk = disk::RealDisk;
        layout.create(&disk).unwrap();
        std::fs::create_dir(&far).unwrap();
        for name in ["blk00001.dat", "rev00001.dat", "notes"] {
            std::fs::write(far.join(name), b"bytes").unwrap();
        }
        symlink(far.join("blk00001.dat"), far.join("hop")).unwrap();
        symlink(far.join("hop"), layout.block_file(1)).unwrap();
        symlink(far.join("rev00001.dat"), layout.undo_file(1)).unwrap();
        symlink(far.join("notes"), layout.block_file(2)).unwrap();
        symlink(far.join("gone"), layout.block_file(3)).unwrap();
        let mut stayed = Vec::new();
        remove_files(&disk, &layout, &[1, 2, 3], &mut stayed).unwrap();
        remove_files(&disk, &layout, &[1, 2, 3], &mut stayed).unwrap();
        let why = "its name is not that of a block or undo file".to_owned();
        assert_eq!(stayed, [Stayed { path: far.join("notes"), why }]);
        for name in ["blk00001.dat", "rev00001.dat"] {
            assert!(!far.join(name).exists(), "{name}");
        }
        assert!(far.join("notes").exists());
        for path in [layout.block_file(1), layout.undo_file(1), layout.block_file(2), layout.block_file(3)] {
            assert!(path.symlink_metadata().is_err(), "{}", path.display());
        }
    }
}
