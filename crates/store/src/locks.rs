//! Core's locks on a data directory, so that two programs never use one at a time.
//!
//! `.lock` in the network's directory and in blocks/ are taken here; each LevelDB's own LOCK is taken when that LevelDB
//! is opened. All of them are fcntl record locks: see `disk::lock_file`.
//! Source: facts of Bitcoin Core b88bffe, `LockDirectories` in init.cpp.

use crate::fault::Result;
use crate::layout::Layout;
use disk::{Disk, LockGuard};

/// The locks of one data directory, held until dropped.
#[derive(Debug)]
pub struct DataDirLocks {
    _net: LockGuard,
    _blocks: Option<LockGuard>,
}

impl DataDirLocks {
    /// Takes both locks; the directories must exist. To be called before anything is read.
    ///
    /// # Errors
    ///
    /// [`crate::FaultKind::Locked`] names the process; [`crate::FaultKind::Permission`] where the directory is read-only.
    pub fn take(disk: &dyn Disk, layout: &Layout) -> Result<DataDirLocks> {
        let net = disk.lock(&layout.net_dir().join(".lock"))?;
        let blocks = match disk.metadata(layout.blocks_dir())? {
            Some(_) => Some(disk.lock(&layout.blocks_dir().join(".lock"))?),
            None => None,
        };
        Ok(DataDirLocks { _net: net, _blocks: blocks })
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
    fn lock_of_a_missing_directory_is_a_fault() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(&dir.path().join("none"), "", None);
        assert_eq!(DataDirLocks::take(&RealDisk, &layout).unwrap_err().kind(), FaultKind::Missing);
    }
}
