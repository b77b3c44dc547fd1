//! The PID file of a data directory (`-pid`): it exists while the directory's locks are held.
//!
//! Source: Bitcoin Core b88bffe, init.cpp, `CreatePidFile`, `RemovePidFile`.

use disk::{Disk, DiskError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Fault, FaultKind};

/// A PID file that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl PidFile {
    /// Writes `file`, relative to the network's directory. The caller must hold the directory's locks. The file is
    /// written in place: it may be a link, a mount or a device, or the only file that this user may write there.
    ///
    /// # Errors
    ///
    /// The disk is full; the file cannot be written for another reason: its directory is missing, for example.
    pub(crate) fn write(disk: &Arc<dyn Disk>, net_dir: &Path, file: &Path) -> store::Result<PidFile> {
        let path = net_dir.join(file);
        let written = || -> Result<(), DiskError> {
            if is_plain(&**disk, &path) {
                disk.modify(&path).and_then(|old| old.set_len(0))?;
            }
            let text = format!("{}\n", std::process::id());
            let written = disk.append(&path)?.write_all(text.as_bytes());
            written.map_err(|why| DiskError::new("write", &path, why).taking(text.len() as u64))
        };
        written().map_err(|why| {
            if why.is_no_space() {
                return Fault::from(why); // It is waited for.
            }
            let why = why.to_string();
            let advice = "Give --pid a file that this user may write, in a directory that exists; or --pid 0";
            Fault::new(FaultKind::Refused, &path, "a PID file that can be written", why, advice)
        })?;
        Ok(PidFile { disk: disk.clone(), path })
    }
}

/// The file name if the option is not given or is not valid UTF-8. It is bitcoind's, so that tools find it.
pub const FILE: &str = "bitcoind.pid";

impl Drop for PidFile {
    fn drop(&mut self) {
        // A remaining file is harmless: the next run replaces it.
        if is_plain(&*self.disk, &self.path) {
            let _ = self.disk.remove_file(&self.path);
        }
    }
}

/// Whether it is a file, and not a device, a pipe or a directory.
fn is_plain(disk: &dyn Disk, path: &Path) -> bool {
    let is_file = matches!(disk.metadata(path), Ok(Some(known)) if !known.is_dir);
    is_file && matches!(disk.is_pipe(path), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::{Fault as Accident, SimDisk};

    /// Then the start waits: nothing is refused that would succeed later.
    #[test]
    fn full_disk_is_no_refusal() {
        let path = Path::new("/net/bitcoind.pid");
        for (row, is_there, operations) in [("a new file", false, 2), ("a file that is there", true, 2)] {
            for at in 0..operations {
                let sim = SimDisk::new(1);
                sim.create_dir_all(Path::new("/net")).unwrap();
                let disk: Arc<dyn Disk> = Arc::new(sim.clone());
                if is_there {
                    sim.create(path).unwrap();
                }
                let write = || PidFile::write(&disk, Path::new("/net"), Path::new("bitcoind.pid"));
                sim.fail_at(sim.operations() + at, 1, Accident::NoSpace);
                let why = write().unwrap_err();
                assert!(why.is_no_space(), "{row}, operation {at}: {why}");
                let _guard = write().unwrap_or_else(|why| panic!("{row}, operation {at}: {why}"));
                let bytes = sim.open(path).unwrap().bytes().unwrap();
                assert_eq!(*bytes, *format!("{}\n", std::process::id()).as_bytes(), "{row}, operation {at}");
                sim.fail_at(sim.operations(), 1, Accident::Io);
                assert_eq!(write().unwrap_err().kind(), FaultKind::Refused, "{row}: another error");
            }
        }
    }

    #[test]
    fn the_file_names_the_process_and_goes_with_it() {
        let sim = SimDisk::new(1);
        sim.create_dir_all(Path::new("/net")).unwrap();
        sim.create_dir_all(Path::new("/run")).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        for (file, path) in [("bitcoind.pid", "/net/bitcoind.pid"), ("/run/ffwd.pid", "/run/ffwd.pid")] {
            let guard = PidFile::write(&disk, Path::new("/net"), Path::new(file)).unwrap();
            let bytes = sim.open(Path::new(path)).unwrap().bytes().unwrap();
            assert_eq!(*bytes, *format!("{}\n", std::process::id()).as_bytes(), "{file}");
            drop(guard);
            assert!(sim.metadata(Path::new(path)).unwrap().is_none(), "{file}");
        }
    }

    #[test]
    fn what_is_there_is_written_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(disk::RealDisk);
        let write = |name: &str| PidFile::write(&disk, dir.path(), Path::new(name));
        let id = format!("{}\n", std::process::id());
        let [old, link] = ["old", "link"].map(|name| dir.path().join(name));
        std::fs::write(&old, "a longer text than a number\n").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        let guard = write("link").unwrap();
        assert_eq!(std::fs::read_to_string(&old).unwrap(), id, "through the link");
        drop(guard);
        assert!(old.exists() && !link.is_symlink());
        let pipe = dir.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let why = write("pipe").unwrap_err().to_string();
        assert!(why.contains("--pid"), "a pipe that nobody reads: {why}");
        assert!(disk.is_pipe(&pipe).unwrap(), "it stays");
        let why = write("missing/pid").unwrap_err().to_string();
        assert!(why.contains("missing/pid") && !dir.path().join("missing").exists(), "{why}");
    }
}
