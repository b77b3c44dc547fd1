//! Core's locks on a data directory, which keep two programs from using it at the same time.
//!
//! This takes `.lock` in the network's directory and in blocks/; each LevelDB's own LOCK is taken when that LevelDB is
//! opened. All of them are fcntl record locks: see `disk::lock_file`. Source: facts of Bitcoin Core b88bffe,
//! `LockDirectories` in init.cpp.

use crate::fault::Result;
use crate::indexes;
use crate::layout::Layout;
use ::indexes::IndexKind;
use disk::{Disk, LockError, LockGuard};
use std::path::PathBuf;

/// The locks of one data directory, held until dropped.
#[derive(Debug)]
pub struct DataDirLocks {
    _net: Option<LockGuard>,
    _blocks: Option<LockGuard>,
}

impl DataDirLocks {
    /// Takes both locks; the directories must exist. Call before reading anything.
    ///
    /// # Errors
    ///
    /// [`crate::FaultKind::Locked`] names the process; [`crate::FaultKind::Permission`] if the directory is read-only.
    pub fn take(disk: &dyn Disk, layout: &Layout) -> Result<DataDirLocks> {
        let net = disk.lock(&layout.net_dir().join(".lock"))?;
        let blocks = match disk.metadata(layout.blocks_dir())? {
            Some(_) => Some(disk.lock(&layout.blocks_dir().join(".lock"))?),
            None => None,
        };
        Ok(DataDirLocks { _net: Some(net), _blocks: blocks })
    }

    /// No locks, for readers.
    pub fn none() -> DataDirLocks {
        DataDirLocks { _net: None, _blocks: None }
    }

    /// Takes the locks whose files exist and which this program may take: on a read-only file system, or as another
    /// user than the owner, it takes no lock. Creates nothing.
    ///
    /// # Errors
    ///
    /// [`crate::FaultKind::Locked`] names the process.
    pub fn take_if_possible(disk: &dyn Disk, layout: &Layout) -> Result<DataDirLocks> {
        let take = |path: PathBuf| -> Result<Option<LockGuard>> {
            if disk.metadata(&path)?.is_none() {
                return Ok(None);
            }
            match disk.lock(&path) {
                Ok(guard) => Ok(Some(guard)),
                Err(why) if why.is_held() => Err(why.into()),
                Err(_) => Ok(None),
            }
        };
        Ok(DataDirLocks {
            _net: take(layout.net_dir().join(".lock"))?,
            _blocks: take(layout.blocks_dir().join(".lock"))?,
        })
    }

    /// The program that holds any lock of the data directory or its databases; takes and creates nothing.
    pub fn holder(disk: &dyn Disk, layout: &Layout) -> Option<LockError> {
        let directories = [layout.net_dir(), layout.blocks_dir()].map(|dir| dir.join(".lock"));
        let databases = [layout.index_dir(), layout.chainstate_dir(), layout.snapshot_dir()];
        let databases = databases.into_iter().chain(IndexKind::ALL.map(|kind| indexes::database(layout, kind)));
        let locks = directories.into_iter().chain(databases.map(|dir| dir.join("LOCK")));
        locks.into_iter().find_map(|path| disk.lock_holder(&path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FaultKind;
    use disk::RealDisk;

    #[test]
    fn a_second_lock_names_the_process_that_holds_the_first() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), "regtest", None);
        layout.create(&RealDisk).unwrap();
        let held = DataDirLocks::take(&RealDisk, &layout).unwrap();
        let why = DataDirLocks::take(&RealDisk, &layout).unwrap_err();
        assert_eq!(why.kind(), FaultKind::Locked);
        assert!(why.to_string().contains(&format!("process {}", std::process::id())), "{why}");
        drop(held);
        DataDirLocks::take(&RealDisk, &layout).unwrap();
        assert!(dir.path().join("regtest/blocks/.lock").exists());
    }

    #[test]
    fn locks_are_looked_at_and_taken_where_that_is_possible() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path(), "regtest", None);
        layout.create(&RealDisk).unwrap();
        drop(DataDirLocks::take_if_possible(&RealDisk, &layout).unwrap());
        assert!(!dir.path().join("regtest/.lock").exists(), "nothing is made");
        assert!(DataDirLocks::holder(&RealDisk, &layout).is_none());
        let held = DataDirLocks::take(&RealDisk, &layout).unwrap();
        assert_eq!(DataDirLocks::holder(&RealDisk, &layout).unwrap().pid, Some(std::process::id()));
        assert_eq!(DataDirLocks::take_if_possible(&RealDisk, &layout).unwrap_err().kind(), FaultKind::Locked);
        drop(held);
        let held = DataDirLocks::take_if_possible(&RealDisk, &layout).unwrap();
        assert_eq!(DataDirLocks::take(&RealDisk, &layout).unwrap_err().kind(), FaultKind::Locked);
        drop(held);
        std::fs::create_dir_all(layout.index_dir()).unwrap();
        let _held = RealDisk.lock(&layout.index_dir().join("LOCK")).unwrap();
        let holder = DataDirLocks::holder(&RealDisk, &layout).unwrap();
        assert!(holder.path.ends_with("index/LOCK"), "{holder:?}");
        let sim = disk::SimDisk::new(0);
        layout.create(&sim).unwrap();
        drop(DataDirLocks::take(&sim, &layout).unwrap());
        sim.be(disk::Kind::NoLocks);
        assert_eq!(DataDirLocks::take(&sim, &layout).unwrap_err().kind(), FaultKind::Refused);
        DataDirLocks::take_if_possible(&sim, &layout).unwrap();
    }

    #[test]
    fn lock_of_a_missing_directory_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(&dir.path().join("none"), "", None);
        assert_eq!(DataDirLocks::take(&RealDisk, &layout).unwrap_err().kind(), FaultKind::Missing);
    }
}
