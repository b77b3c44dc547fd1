//! The PID file of a data directory (`-pid`): it exists while the directory's locks are held.
//!
//! Source: Bitcoin Core b88bffe, init.cpp, `CreatePidFile`, `RemovePidFile`.

use disk::Disk;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::private_files::PrivateDir;

/// A PID file that is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl PidFile {
    /// Writes `file`, relative to the network's directory. The caller must hold the directory's locks.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn write(disk: &Arc<dyn Disk>, net_dir: &Path, file: &Path) -> store::Result<PidFile> {
        let path = net_dir.join(file);
        let dir = path.parent().unwrap_or(net_dir).to_owned();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or(FILE);
        let text = format!("{}\n", std::process::id());
        PrivateDir::new(disk.clone(), dir.clone()).write(name, text.as_bytes())?;
        Ok(PidFile { disk: disk.clone(), path: dir.join(name) })
    }
}

/// The file name if the option is not given or is not valid UTF-8. It is bitcoind's, so that tools find it.
pub const FILE: &str = "bitcoind.pid";

impl Drop for PidFile {
    fn drop(&mut self) {
        // A remaining file is harmless: the next run replaces it.
        let _ = self.disk.remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk::SimDisk;

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
}
