//! Files that a user names: each gets its name when it is complete and durable, and one command at a time makes it.
//!
//! ```text
//! PATH.incomplete        the file while it is written
//! PATH.incomplete.lock   empty; locked while a command makes PATH
//! ```
//!
//! Both are removed at the end. Those that a killed run left are replaced by the next command that makes PATH.

use crate::datadir::look;
use crate::fault::Fault;
use disk::{Disk, DiskFile, LockError, LockGuard};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Attempts to take a lock. One is in vain if another command ends, and removes the locked file, at that moment.
const LOCK_ATTEMPTS_MAX: u32 = 16;

/// The path with more characters at its end.
pub(super) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// The absolute path of a file that does not exist yet.
///
/// # Errors
///
/// It exists; an I/O error.
pub(super) fn new_file(disk: &dyn Disk, path: &Path) -> Result<PathBuf, Fault> {
    let path = std::path::absolute(path)
        .map_err(|why| Fault::system(format!("{}: {why}", path.display()), "Name a file that can be made", why))?;
    if disk.metadata(&path).map_err(store::Fault::from)?.is_some() {
        let why = format!("{} already exists.", path.display());
        return Err(Fault::refused(why, "If you are sure this is what you want, move it out of the way first"));
    }
    Ok(path)
}

fn unopened(path: &Path, source: io::Error) -> Fault {
    let text = format!("Couldn't open file {} for writing. ({source})", path.display());
    Fault::system(text, "Name a file in a directory that this user may write to", source)
}

/// The right to make a file and its temporary files beside it, which one command at a time has.
#[derive(Debug)]
pub struct Claim {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    incomplete: PathBuf,
    lock: PathBuf,
    /// Absent on a file system without locks.
    _guard: Option<LockGuard>,
}

impl Claim {
    /// Claims the file `path` until the result is dropped.
    ///
    /// # Errors
    ///
    /// Another command makes the file, or files cannot be made there; an I/O error.
    pub fn take(disk: &Arc<dyn Disk>, path: &Path) -> Result<Claim, Fault> {
        let incomplete = with_end(path, ".incomplete");
        let lock = with_end(path, ".incomplete.lock");
        let guard = match locked(&**disk, &lock) {
            Ok(guard) => Some(guard),
            Err(LockError { source: Some(why), .. }) if why.kind() == io::ErrorKind::Unsupported => None,
            Err(LockError { source: Some(why), .. }) if disk.metadata(&lock).is_ok_and(|there| there.is_some()) => {
                let text = format!("Couldn't open file {} for writing. ({why})", lock.display());
                return Err(Fault::system(text, "Remove it if no other command is making that file", why));
            }
            Err(LockError { source: Some(why), .. }) => return Err(unopened(&incomplete, why)),
            Err(holder) => {
                let why = format!("{} is being made by {}", path.display(), look::named(&holder));
                return Err(Fault::refused(why, "Let that program end, or name another file"));
            }
        };
        Ok(Claim { disk: disk.clone(), path: path.to_path_buf(), incomplete, lock, _guard: guard })
    }

    /// The name of the complete file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the unfinished file; replaces one that a killed run left.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(super) fn create(&self) -> Result<Unfinished<'_>, Fault> {
        let path = &self.incomplete;
        if self.disk.metadata(path).map_err(store::Fault::from)?.is_some() {
            self.disk.remove_file(path).map_err(store::Fault::from)?;
        }
        let file = self.disk.create(path).map_err(|why| unopened(path, why.source))?;
        Ok(Unfinished { claim: self, file, is_finished: false })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Removed while it is locked. A command that opened it before finds no file of that name, and tries again.
        let _ = self.disk.remove_file(&self.lock);
    }
}

/// Locks a file that the holder of the lock removes.
fn locked(disk: &dyn Disk, path: &Path) -> Result<LockGuard, LockError> {
    for _ in 0..LOCK_ATTEMPTS_MAX {
        let guard = disk.lock(path)?;
        if guard.is_at(path) {
            return Ok(guard);
        }
    }
    Err(LockError { path: path.to_path_buf(), pid: None, program: None, source: None })
}

/// An unfinished file; removed on drop unless it is finished.
pub(super) struct Unfinished<'c> {
    claim: &'c Claim,
    pub(super) file: Arc<dyn DiskFile>,
    is_finished: bool,
}

impl Unfinished<'_> {
    /// Renames it to its final name, which must not exist.
    ///
    /// # Errors
    ///
    /// The name exists; an I/O error.
    pub(super) fn finish(mut self) -> Result<(), Fault> {
        let Claim { disk, path, incomplete, .. } = self.claim;
        new_file(&**disk, path)?;
        disk.rename(incomplete, path).map_err(store::Fault::from)?;
        self.is_finished = true;
        let parent = path.parent().unwrap_or(Path::new("/"));
        Ok(disk.sync_dir(parent).map_err(store::Fault::from)?)
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = self.claim.disk.remove_file(&self.claim.incomplete);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Kind, RealDisk, SimDisk};

    fn names(disk: &dyn Disk, dir: &Path) -> Vec<String> {
        disk.list(dir).unwrap().into_iter().map(|entry| entry.name.into_string().unwrap()).collect()
    }

    #[test]
    fn one_command_at_a_time_makes_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::shared();
        let path = dir.path().join("set");
        // Left by a killed run.
        for left in ["set.incomplete", "set.incomplete.lock"] {
            std::fs::write(dir.path().join(left), "old").unwrap();
        }
        let claim = Claim::take(&disk, &path).unwrap();
        let first = claim.create().unwrap();
        first.file.write_at(0, b"half").unwrap();
        let why = Claim::take(&disk, &path).unwrap_err().to_string();
        let named = format!("{} is being made by", path.display());
        assert!(why.starts_with(&named) && why.contains(&format!("process {}", std::process::id())), "{why}");
        drop(Claim::take(&disk, &dir.path().join("other")).unwrap());
        first.file.write_at(4, b"whole").unwrap();
        first.finish().unwrap();
        drop(claim);
        assert_eq!(names(&*disk, dir.path()), ["set"]);
        assert_eq!(std::fs::read(&path).unwrap(), b"halfwhole");
        drop(Claim::take(&disk, &path).unwrap());
        assert_eq!(names(&*disk, dir.path()), ["set"], "it may be claimed again");
    }

    /// A lock on a file that the holder removed meanwhile is no claim.
    #[test]
    fn lock_of_a_removed_file_is_no_claim() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::shared();
        let lock = dir.path().join("set.incomplete.lock");
        let removed = disk.lock(&lock).unwrap();
        assert!(removed.is_at(&lock));
        std::fs::remove_file(&lock).unwrap();
        assert!(!removed.is_at(&lock));
        let claim = Claim::take(&disk, &dir.path().join("set")).unwrap();
        assert!(!removed.is_at(&lock), "the name leads to another file");
        drop(claim);
    }

    #[test]
    fn unfinished_file_goes_with_and_without_locks() {
        for kind in [None, Some(Kind::NoLocks)] {
            let sim = SimDisk::new(0);
            sim.create_dir_all(Path::new("/out")).unwrap();
            kind.into_iter().for_each(|kind| sim.be(kind));
            let path = Path::new("/out/set");
            let claim = Claim::take(&sim.shared(), path).unwrap();
            claim.create().unwrap().file.write_at(0, b"x").unwrap();
            let locks = if kind.is_none() { vec!["set.incomplete.lock"] } else { vec![] };
            assert_eq!(names(&sim, Path::new("/out")), locks, "{kind:?}");
            claim.create().unwrap().finish().unwrap();
            drop(claim);
            assert_eq!(names(&sim, Path::new("/out")), ["set"], "{kind:?}");
        }
    }
}
