//! The second chainstate, from a snapshot, next to the one that validates the past.
//!
//! ```text
//! chainstate/                        fully validated, on its way to the base block; its base_blockhash, that of an
//!                                    earlier snapshot, is not read
//! chainstate_snapshot/               like chainstate/, from the snapshot on
//! chainstate_snapshot/base_blockhash the base block's hash, 32 bytes; without it Core ignores the directory
//! chainstate_snapshot/ffwd-invalid   empty: the snapshot proved invalid, and is about to be moved away
//! chainstate_todelete/               the former chainstate/, while Core replaces it
//! chainstate_snapshot_INVALID/       a snapshot that proved invalid
//! ffwd/chainstate_snapshot/          one that is being written
//! ffwd/chainstate_coming/            one made from a stream in progress: kept when the program ends
//! ffwd/chainstate_snapshot.old/      the former chainstate/, until it is removed
//! ```
//!
//! A snapshot's chainstate is written to a separate directory, and moved to its place when it is complete. Once the
//! base block is validated, the two chainstates are swapped in one step, so that at every instant both Core and ffwd
//! can continue from the directory. If the directories cannot be swapped (see `replace`), base_blockhash is removed
//! first: then only `chainstate/` counts, for Core too, and the files of the other one are moved into it. Source:
//! Bitcoin Core b88bffe, node/utxo_snapshot.cpp, `ChainstateManager::ValidatedSnapshotCleanup`,
//! `Chainstate::InvalidateCoinsDBOnDisk`.

use super::replace::{is_link, remove_if_there};
use crate::fault::{Fault, FaultKind, Result};
use crate::layout::Layout;
use crate::private_files::{read_small, write_whole};
use disk::{Disk, DiskError};
use leveldb::Db;
use primitives::BlockHash;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file with the hash of the base block.
const BASE_BLOCKHASH: &str = "base_blockhash";
/// More bytes than that file has. Core warns about bytes after the hash, and continues.
const BASE_BYTES_MAX: usize = 4096;
/// Marks a snapshot that proved invalid.
const INVALID_MARKER: &str = "ffwd-invalid";

/// The directory that Core moves the former chainstate to. As in Core, it is kept if there is a chainstate.
fn to_delete(layout: &Layout) -> PathBuf {
    layout.net_dir().join("chainstate_todelete")
}

/// The directory that ffwd moves it to.
fn aside(layout: &Layout) -> PathBuf {
    layout.private_dir().join("chainstate_snapshot.old")
}

/// The base block of the chainstate from a snapshot; `None` if there is no such chainstate, if Core would ignore it, or
/// if it is marked as invalid ([`invalid_base`]): then nothing may read its coins.
///
/// # Errors
///
/// A file that is shorter than a hash; an I/O error.
pub fn snapshot_base(disk: &dyn Disk, layout: &Layout) -> Result<Option<BlockHash>> {
    if is_invalid(disk, layout)? { Ok(None) } else { named_base(disk, layout) }
}

/// The base block that the directory names, even if the snapshot is marked as invalid.
///
/// # Errors
///
/// Those of [`snapshot_base`].
pub fn named_base(disk: &dyn Disk, layout: &Layout) -> Result<Option<BlockHash>> {
    let path = layout.snapshot_dir().join(BASE_BLOCKHASH);
    let Some(bytes) = read_small(disk, &path, BASE_BYTES_MAX)? else { return Ok(None) };
    match bytes.first_chunk() {
        Some(hash) => Ok(Some(BlockHash::from_bytes(*hash))),
        None => {
            let advice = "Remove the directory, and load the snapshot again";
            let found = format!("{} bytes", bytes.len());
            Err(Fault::new(FaultKind::Damaged, &path, "the hash of a block, 32 bytes", found, advice))
        }
    }
}

/// Completes steps that a crash interrupted, here or in Core. Call at every start; usually there is nothing to do.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn finish_snapshot(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    let now = layout.chainstate_dir();
    let from_snapshot = layout.snapshot_dir();
    let aside = aside(layout);
    let cores = to_delete(layout);
    if leveldb::is_installing(&**disk, &from_snapshot)? {
        if disk.metadata(&from_snapshot.join(BASE_BLOCKHASH))?.is_some() {
            // The snapshot still counts, and may have changed since.
            leveldb::forget_install(&**disk, &from_snapshot)?;
        } else {
            // If Core opened it meanwhile, Core's result stays.
            leveldb::install(disk, &from_snapshot, &now)?;
        }
    }
    let disk = &**disk;
    if disk.metadata(&now)?.is_none() && disk.metadata(&from_snapshot)?.is_some() {
        let is_cores = disk.metadata(&cores)?.is_some();
        if is_cores || disk.metadata(&aside)?.is_some() {
            disk.rename(&from_snapshot, &now)?;
            disk.sync_dir_once(layout.net_dir())?;
        }
        if is_cores {
            remove_if_there(disk, &cores)?;
        }
    }
    if disk.metadata(&from_snapshot)?.is_some() && disk.metadata(&from_snapshot.join(BASE_BLOCKHASH))?.is_none() {
        // A chainstate that was swapped with a validated one, or one that Core did not finish writing.
        move_aside(disk, layout, &from_snapshot)?;
    }
    remove_if_there(disk, &aside)?;
    remove_if_there(disk, &layout.new_snapshot_dir())
}

/// Moves a directory aside, for later removal; removes it at once if it cannot be moved.
fn move_aside(disk: &dyn Disk, layout: &Layout, dir: &Path) -> Result<()> {
    remove_if_there(disk, &aside(layout))?;
    disk.create_dir_all(&layout.private_dir())?;
    match disk.rename(dir, &aside(layout)) {
        Ok(()) => {}
        Err(why) if why.is_immovable() => return remove_if_there(disk, dir),
        Err(why) => return Err(why.into()),
    }
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    Ok(())
}

/// Removes a chainstate from a snapshot, for a full reindex; returns whether there was one.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn remove_snapshot(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    let dir = layout.snapshot_dir();
    if disk.metadata(&dir)?.is_none() {
        return Ok(false);
    }
    if Db::exists(disk, &dir)? {
        drop(disk.lock(&dir.join("LOCK"))?);
    }
    take_out_of_sight(disk, layout)?;
    Ok(true)
}

/// Removes the chainstate from a snapshot, which must be closed. One step makes Core ignore it.
fn take_out_of_sight(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    forget_base(disk, &layout.snapshot_dir())?;
    move_aside(disk, layout, &layout.snapshot_dir())?;
    remove_if_there(disk, &aside(layout))
}

/// Makes Core and ffwd ignore a chainstate from a snapshot by removing its base block.
fn forget_base(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let base = dir.join(BASE_BLOCKHASH);
    if disk.metadata(&base)?.is_some() {
        disk.remove_file(&base)?;
        disk.sync_dir_once(dir)?;
    }
    Ok(())
}

/// Prepares an empty directory for a chainstate from a snapshot, where Core ignores it, and returns its path.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn begin_snapshot(disk: &dyn Disk, layout: &Layout) -> Result<PathBuf> {
    let dir = layout.new_snapshot_dir();
    remove_if_there(disk, &dir)?;
    Ok(dir)
}

/// Moves the whole, closed chainstate in `dir` into its place: that of [`begin_snapshot`], or that of a streamed
/// snapshot ([`Layout::coming_snapshot_dir`]). After this it is in use.
///
/// # Errors
///
/// An I/O error.
pub fn install_snapshot(disk: &Arc<dyn Disk>, layout: &Layout, dir: &Path, base: BlockHash) -> Result<()> {
    let place = layout.snapshot_dir();
    let write_base = |dir: &Path| -> Result<()> {
        let beside = dir.join("base_blockhash.new");
        write_whole(&**disk, &dir.join(BASE_BLOCKHASH), &beside, base.as_bytes())?;
        Ok(disk.sync_dir_once(dir)?)
    };
    write_base(dir)?;
    match disk.rename(dir, &place) {
        Ok(()) => {}
        Err(why) if why.is_immovable() => {
            leveldb::install(disk, dir, &place)?;
            disk.sync_dir_once(layout.net_dir())?;
            write_base(&place)?;
            return remove_if_there(&**disk, dir);
        }
        Err(why) => return Err(why.into()),
    }
    disk.sync_dir_once(layout.net_dir())?;
    disk.sync_dir_once(&layout.private_dir())?;
    Ok(())
}

/// After the past is validated: replaces the other chainstate, which is removed, by the one from the snapshot. Both
/// must be closed.
///
/// # Errors
///
/// An I/O error; the call can be repeated. [`finish_snapshot`] completes an interrupted call.
pub fn validated_snapshot(disk: &Arc<dyn Disk>, layout: &Layout) -> Result<()> {
    let now = layout.chainstate_dir();
    let from_snapshot = layout.snapshot_dir();
    if disk.metadata(&from_snapshot.join(BASE_BLOCKHASH))?.is_none() {
        return finish_snapshot(disk, layout); // They were swapped before: another swap would restore the old one.
    }
    // The old set may have been a snapshot itself once: with that file it would count as one after the swap.
    forget_base(&**disk, &now)?;
    let swapped = match is_link(&**disk, layout)? {
        true => Err(DiskError::new("exchange", &now, std::io::ErrorKind::Unsupported)),
        false => disk.exchange(&now, &from_snapshot),
    };
    match swapped {
        Ok(()) => disk.sync_dir_once(layout.net_dir())?,
        Err(why) if why.is_immovable() => {
            leveldb::begin_install(disk, &from_snapshot, &now)?;
            forget_base(&**disk, &from_snapshot)?;
        }
        Err(why) => return Err(why.into()),
    }
    finish_snapshot(disk, layout)
}

/// Marks the snapshot as invalid, until [`invalid_snapshot`] moves it away. Call it before the block index forgets what
/// was connected on the snapshot's coins: in between the two do not belong together, and the next start must finish both
/// steps ([`invalid_base`]).
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn mark_invalid(disk: &dyn Disk, layout: &Layout) -> Result<()> {
    let dir = layout.snapshot_dir();
    write_whole(disk, &dir.join(INVALID_MARKER), &dir.join("ffwd-invalid.new"), b"")?;
    Ok(disk.sync_dir(&dir)?)
}

/// The base block of a snapshot that is marked as invalid and still in its place.
///
/// # Errors
///
/// Those of [`snapshot_base`].
pub fn invalid_base(disk: &dyn Disk, layout: &Layout) -> Result<Option<BlockHash>> {
    if is_invalid(disk, layout)? { named_base(disk, layout) } else { Ok(None) }
}

fn is_invalid(disk: &dyn Disk, layout: &Layout) -> Result<bool> {
    Ok(disk.metadata(&layout.snapshot_dir().join(INVALID_MARKER))?.is_some())
}

/// After the snapshot proved invalid: moves its chainstate to a place that neither program uses, or removes it if it
/// cannot be moved. It must be closed.
///
/// # Errors
///
/// An I/O error; the call can be repeated.
pub fn invalid_snapshot(disk: &dyn Disk, layout: &Layout) -> Result<Option<PathBuf>> {
    let dir = layout.snapshot_dir();
    let invalid = layout.net_dir().join("chainstate_snapshot_INVALID");
    if Db::exists(disk, &dir)? {
        drop(disk.lock(&dir.join("LOCK"))?);
    }
    remove_if_there(disk, &invalid)?;
    match disk.rename(&dir, &invalid) {
        Ok(()) => {}
        Err(why) if why.is_immovable() => return take_out_of_sight(disk, layout).map(|()| None),
        Err(why) => return Err(why.of_last_try().into()),
    }
    disk.sync_dir_once(layout.net_dir())?;
    Ok(Some(invalid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chainstate;
    use disk::{Fault as Accident, Kind, Loss, SimDisk};
    use std::sync::Arc;

    const BASE: BlockHash = BlockHash::from_bytes([7; 32]);
    /// The base block of a later snapshot.
    const LATER_BASE: BlockHash = BlockHash::from_bytes([8; 32]);

    fn layout() -> Layout {
        Layout::new(Path::new("/d"), "regtest", None)
    }

    fn tip(disk: &Arc<dyn Disk>, dir: &Path) -> Option<BlockHash> {
        Chainstate::open_read_only(disk.clone(), dir).unwrap().best_block().unwrap()
    }

    fn make(disk: &Arc<dyn Disk>, dir: &Path, best: u8) {
        let coins = Chainstate::open_with(disk.clone(), dir, [1; 8]).unwrap();
        let commit = coins.begin_commit(BlockHash::from_bytes([best; 32]), 1, 100).unwrap().unwrap();
        commit.finish().unwrap();
    }

    fn prepared(seed: u64) -> SimDisk {
        let sim = SimDisk::new(seed);
        let disk = sim.shared();
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        layout().create(&*disk).unwrap();
        make(&disk, &layout().chainstate_dir(), 1);
        let dir = begin_snapshot(&*disk, &layout()).unwrap();
        make(&disk, &dir, 9);
        sim
    }

    /// A directory with a loaded snapshot: its first one, or a later one after the first was validated. Also the first
    /// byte of the best block of each chainstate, the snapshot's last.
    fn loaded(seed: u64, is_later: bool) -> (SimDisk, [u8; 2]) {
        let sim = prepared(seed);
        let disk = sim.shared();
        install_snapshot(&disk, &layout(), &layout().new_snapshot_dir(), BASE).unwrap();
        if !is_later {
            return (sim, [1, 9]);
        }
        validated_snapshot(&disk, &layout()).unwrap();
        assert!(disk.metadata(&layout().chainstate_dir().join(BASE_BLOCKHASH)).unwrap().is_some(), "as in Core");
        let dir = begin_snapshot(&*disk, &layout()).unwrap();
        make(&disk, &dir, 12);
        install_snapshot(&disk, &layout(), &dir, LATER_BASE).unwrap();
        (sim, [9, 12])
    }

    type Scene = (&'static str, fn(&SimDisk));

    /// What the file system can be, besides one on which two names are swapped in one step.
    const SCENES: [Scene; 5] = [
        ("ordinary", |_| ()),
        ("without a swap in one step", |sim| sim.be(Kind::NoExchange)),
        ("the chainstate a mount point", |sim| sim.mount(&layout().chainstate_dir())),
        ("a lower layer", |sim| sim.be(Kind::Overlay)),
        ("NFS", |sim| [Kind::NoExchange, Kind::NfsNames].into_iter().for_each(|kind| sim.be(kind))),
    ];

    /// Stopped at every operation: the chainstate is the old one or the new one, and the same step leads to the end.
    /// Core, which takes no notice of a snapshot without its base block, finds a whole chainstate each time.
    #[test]
    fn a_validated_snapshot_takes_the_place_of_the_other_at_every_stop() {
        for (scene, be) in SCENES {
            for is_later in [false, true] {
                check_every_stop(&format!("{scene}, a later snapshot {is_later}"), be, is_later);
            }
        }
    }

    fn check_every_stop(scene: &str, be: fn(&SimDisk), is_later: bool) {
        for at in 0.. {
            let (sim, both) = loaded(at, is_later);
            let disk = sim.shared();
            let base = if is_later { LATER_BASE } else { BASE };
            assert_eq!(snapshot_base(&*disk, &layout()).unwrap(), Some(base));
            be(&sim);
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            let done = validated_snapshot(&disk, &layout());
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                check_left(&sim.reopen(loss), both, base, done.is_ok(), &format!("{scene}, {at}, {loss:?}"));
            }
            if done.is_ok() {
                return;
            }
            assert!(at < 200, "{scene}: it has fewer operations");
        }
    }

    /// Checks the files after a stopped or completed validation, and after the next start.
    fn check_left(sim: &SimDisk, [old, new]: [u8; 2], base: BlockHash, is_done: bool, row: &str) {
        let disk = sim.shared();
        let best = |byte: u8| Some(BlockHash::from_bytes([byte; 32]));
        let now = || tip(&disk, &layout().chainstate_dir());
        assert!([best(old), best(new)].contains(&now()), "{row}");
        let is_loaded = || {
            let found = snapshot_base(&*disk, &layout()).unwrap();
            assert!(found.is_none_or(|found| found == base), "{row}: an old set counts as a snapshot");
            found.is_some()
        };
        if is_loaded() {
            assert_eq!(tip(&disk, &layout().snapshot_dir()), best(new), "{row}");
        }
        finish_snapshot(&disk, &layout()).unwrap();
        let is_half = is_loaded();
        assert_eq!(now(), best(if is_half { old } else { new }), "{row}");
        assert!(!is_done || !is_half, "{row}");
        if is_half {
            validated_snapshot(&disk, &layout()).unwrap();
            assert_eq!(now(), best(new), "{row}");
        }
        for gone in ["chainstate_snapshot", "ffwd/chainstate_snapshot.old"] {
            assert!(disk.metadata(&layout().net_dir().join(gone)).unwrap().is_none(), "{row}: {gone}");
        }
    }

    /// Swapped twice, the coins at the base block would stay, under a program that goes on at the tip.
    #[test]
    fn a_swap_that_met_a_full_disk_can_be_tried_again() {
        for (scene, be) in SCENES {
            let mut met = 0;
            for at in 0..150 {
                let sim = prepared(at);
                let disk = sim.shared();
                install_snapshot(&disk, &layout(), &layout().new_snapshot_dir(), BASE).unwrap();
                be(&sim);
                sim.fail_at(sim.operations() + at, 1, Accident::NoSpace);
                if validated_snapshot(&disk, &layout()).is_err_and(|why| why.is_no_space()) {
                    met += 1;
                    sim.heal();
                    validated_snapshot(&disk, &layout()).unwrap();
                    let now = tip(&disk, &layout().chainstate_dir());
                    assert_eq!(now, Some(BlockHash::from_bytes([9; 32])), "{scene}, full at {at}");
                    assert!(disk.metadata(&layout().snapshot_dir()).unwrap().is_none(), "{scene}, full at {at}");
                }
            }
            assert!(met > 0, "{scene}: no operation met a full disk");
        }
    }

    /// Core came in between, after the base block's name was gone: what it left stands.
    #[test]
    fn a_chainstate_that_core_went_on_with_meanwhile_stands() {
        let sim = prepared(0);
        let disk = sim.shared();
        install_snapshot(&disk, &layout(), &layout().new_snapshot_dir(), BASE).unwrap();
        leveldb::begin_install(&disk, &layout().snapshot_dir(), &layout().chainstate_dir()).unwrap();
        // While it counts the plan is nothing.
        finish_snapshot(&disk, &layout()).unwrap();
        assert_eq!(snapshot_base(&*disk, &layout()).unwrap(), Some(BASE));
        assert_eq!(tip(&disk, &layout().chainstate_dir()), Some(BlockHash::from_bytes([1; 32])));
        leveldb::begin_install(&disk, &layout().snapshot_dir(), &layout().chainstate_dir()).unwrap();
        forget_base(&*disk, &layout().snapshot_dir()).unwrap();
        make(&disk, &layout().chainstate_dir(), 5);
        finish_snapshot(&disk, &layout()).unwrap();
        assert_eq!(tip(&disk, &layout().chainstate_dir()), Some(BlockHash::from_bytes([5; 32])));
        assert!(disk.metadata(&layout().snapshot_dir()).unwrap().is_none());
    }

    #[test]
    fn a_false_snapshot_is_out_of_use_wherever_it_lies() {
        for (scene, be) in SCENES {
            let sim = prepared(1);
            let disk = sim.shared();
            install_snapshot(&disk, &layout(), &layout().new_snapshot_dir(), BASE).unwrap();
            be(&sim);
            let kept = invalid_snapshot(&*disk, &layout()).unwrap();
            assert_eq!(kept.is_some(), scene != "a lower layer");
            assert_eq!(snapshot_base(&*disk, &layout()).unwrap(), None, "{scene}");
            assert!(disk.metadata(&layout().snapshot_dir()).unwrap().is_none(), "{scene}");
            finish_snapshot(&disk, &layout()).unwrap();
            assert_eq!(tip(&disk, &layout().chainstate_dir()), Some(BlockHash::from_bytes([1; 32])), "{scene}");
        }
    }

    /// The mark goes with the directory.
    #[test]
    fn a_false_snapshot_is_marked_until_it_is_moved_away() {
        let (sim, _) = loaded(0, false);
        let disk = sim.shared();
        assert_eq!(invalid_base(&*disk, &layout()).unwrap(), None);
        (0..2).for_each(|_| mark_invalid(&*disk, &layout()).unwrap());
        let disk = sim.reopen(Loss::Unsynced).shared();
        finish_snapshot(&disk, &layout()).unwrap();
        assert_eq!(invalid_base(&*disk, &layout()).unwrap(), Some(BASE));
        assert_eq!(named_base(&*disk, &layout()).unwrap(), Some(BASE));
        assert_eq!(snapshot_base(&*disk, &layout()).unwrap(), None, "nothing reads its coins");
        invalid_snapshot(&*disk, &layout()).unwrap();
        assert_eq!(invalid_base(&*disk, &layout()).unwrap(), None);
    }

    #[test]
    fn a_snapshot_counts_whole_or_not_at_all() {
        a_snapshot_counts(|_| ());
        // Where ffwd/ is another file system it is copied.
        a_snapshot_counts(|sim| sim.mount(&layout().private_dir()));
    }

    fn a_snapshot_counts(be: fn(&SimDisk)) {
        for at in 0..150 {
            let sim = prepared(at);
            be(&sim);
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            let done = install_snapshot(&sim.shared(), &layout(), &layout().new_snapshot_dir(), BASE);
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                let sim = sim.reopen(loss);
                let disk = sim.shared();
                finish_snapshot(&disk, &layout()).unwrap();
                let base = snapshot_base(&*disk, &layout()).unwrap();
                assert!(base.is_none() || tip(&disk, &layout().snapshot_dir()) == Some(BlockHash::from_bytes([9; 32])));
                assert!(base.is_some() || done.is_err(), "{at} {loss:?}");
                assert_eq!(tip(&disk, &layout().chainstate_dir()), Some(BlockHash::from_bytes([1; 32])));
            }
            if done.is_ok() {
                return;
            }
        }
        panic!("it has fewer than 150 operations");
    }

    #[test]
    fn leftovers_of_core_are_understood() {
        let sim = prepared(1);
        let disk = sim.shared();
        install_snapshot(&disk, &layout(), &layout().new_snapshot_dir(), BASE).unwrap();
        // Cut between Core's two renames.
        disk.rename(&layout().chainstate_dir(), &to_delete(&layout())).unwrap();
        finish_snapshot(&disk, &layout()).unwrap();
        assert_eq!(tip(&disk, &layout().chainstate_dir()), Some(BlockHash::from_bytes([9; 32])));
        assert!(disk.metadata(&to_delete(&layout())).unwrap().is_none());
        // What lies there beside a chainstate is left alone.
        disk.create_dir_all(&to_delete(&layout())).unwrap();
        finish_snapshot(&disk, &layout()).unwrap();
        assert!(disk.metadata(&to_delete(&layout())).unwrap().is_some());
        // A load of Core's that was cut: no base_blockhash.
        make(&disk, &layout().snapshot_dir(), 5);
        assert_eq!(snapshot_base(&*disk, &layout()).unwrap(), None);
        finish_snapshot(&disk, &layout()).unwrap();
        assert!(disk.metadata(&layout().snapshot_dir()).unwrap().is_none());
        // A file that is cut.
        disk.create_dir_all(&layout().snapshot_dir()).unwrap();
        disk.create(&layout().snapshot_dir().join(BASE_BLOCKHASH)).unwrap().write_at(0, &[1; 31]).unwrap();
        let why = snapshot_base(&*disk, &layout()).unwrap_err().to_string();
        assert!(why.contains("found 31 bytes"), "{why}");
        let aside = invalid_snapshot(&*disk, &layout()).unwrap().unwrap();
        assert!(disk.metadata(&aside).unwrap().is_some() && snapshot_base(&*disk, &layout()).unwrap().is_none());
    }
}
