//! ffwd's private files under `ffwd/`: ignored by Core, and lost without harm.
//!
//! A file is replaced as a whole: written under another name, synced, renamed. Only hints about signatures are written in
//! place ([`crate::signature_hints::kept`]).

use crate::fault::{Fault, FaultKind, Result};
use disk::Disk;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The directory of ffwd's private files.
#[derive(Clone, Debug)]
pub struct PrivateDir {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl PrivateDir {
    /// Files in `dir`, usually [`crate::Layout::private_dir`], which is created by the first write.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> PrivateDir {
        PrivateDir { disk, dir }
    }

    /// The whole file `name`, if there is one.
    ///
    /// # Errors
    ///
    /// A file of more than `bytes_max`, or an I/O error.
    pub fn read(&self, name: &str, bytes_max: usize) -> Result<Option<Vec<u8>>> {
        read_small(&*self.disk, &self.dir.join(name), bytes_max)
    }

    /// Replaces the file `name` in one step; it is durable when this returns.
    ///
    /// # Errors
    ///
    /// No space, no permission, or an I/O error; the old file is unchanged then.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.make()?;
        write_whole(&*self.disk, &self.dir.join(name), &self.dir.join(format!("{name}.new")), bytes)?;
        Ok(self.disk.sync_dir(&self.dir)?)
    }

    /// Makes the directory if it is missing; its name is durable when this returns.
    pub(crate) fn make(&self) -> Result<()> {
        if self.disk.metadata(&self.dir)?.is_none() {
            self.disk.create_dir_all(&self.dir)?;
            if let Some(parent) = self.dir.parent() {
                self.disk.sync_dir_once(parent)?;
            }
        }
        Ok(())
    }

    /// The file system.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The path of the file `name`.
    pub(crate) fn path_of(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Removes the file `name`, if there is one.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub fn remove(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        if self.disk.metadata(&path)?.is_some() {
            self.disk.remove_file(&path)?;
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(())
    }
}

/// The whole of a small file; `None` when it is missing.
pub(crate) fn read_small(disk: &dyn Disk, path: &Path, bytes_max: usize) -> Result<Option<Vec<u8>>> {
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(why) if why.is_not_found() => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let len = file.len()?;
    let Some(len) = usize::try_from(len).ok().filter(|&len| len <= bytes_max) else {
        let wanted = format!("at most {bytes_max} bytes");
        return Err(Fault::new(FaultKind::Damaged, path, wanted, format!("{len} bytes"), "Remove it and start again"));
    };
    let mut bytes = vec![0; len];
    file.read_exact_at(0, &mut bytes)?;
    Ok(Some(bytes))
}

/// Writes `bytes` to `path` in one step, through the temporary name `beside` in the same directory, which the caller
/// syncs.
pub(crate) fn write_whole(disk: &dyn Disk, path: &Path, beside: &Path, bytes: &[u8]) -> Result<()> {
    if disk.metadata(beside)?.is_some() {
        disk.remove_file(beside)?;
    }
    let file = disk.create(beside)?;
    file.write_at(0, bytes)?;
    file.sync()?;
    Ok(disk.rename(beside, path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault as Accident, Loss, SimDisk};

    #[test]
    fn private_file_is_old_or_new_after_a_stop_at_any_operation() {
        for at in 0..40 {
            let sim = SimDisk::new(at);
            sim.shared().create_dir_all(Path::new("/n")).unwrap();
            sim.shared().sync_dir(Path::new("/")).unwrap();
            let private = PrivateDir::new(sim.shared(), PathBuf::from("/n/ffwd"));
            assert_eq!(private.read("notes", 10).unwrap(), None);
            private.write("notes", b"old").unwrap();
            sim.fail_at(sim.operations() + at, 1, Accident::Stop);
            let result = private.write("notes", b"newer");
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(at)] {
                let sim = sim.reopen(loss);
                let private = PrivateDir::new(sim.shared(), PathBuf::from("/n/ffwd"));
                let got = private.read("notes", 10).unwrap().unwrap();
                assert!(got == b"newer" || (result.is_err() && got == b"old"), "stopped at {at}, {loss:?}: {got:?}");
                private.write("notes", b"third").unwrap();
                assert_eq!(private.read("notes", 10).unwrap().unwrap(), b"third");
                assert!(private.read("notes", 4).unwrap_err().to_string().contains("at most 4 bytes"));
                private.remove("notes").unwrap();
                private.remove("notes").unwrap();
                assert_eq!(private.read("notes", 10).unwrap(), None);
            }
            if result.is_ok() {
                return;
            }
        }
        panic!("a write has fewer than 40 operations");
    }
}
