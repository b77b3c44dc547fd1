//! A file that gets its final name only when it is complete and durable.

use node::Fault;
use node::options::real_disk;
use node::snapshot::Claim;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Wraps an I/O error of a file.
pub(crate) fn failed(path: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::refused(
        format!("{}: {why}", path.display()),
        "Give --out a place that this user may write to, with room for it",
    )
}

/// The state of a file: decides whether a drop removes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is incomplete, and is removed.
    Removed,
    /// It already has its final name.
    Kept,
    /// It is a pipe or a device, which is written directly.
    Special,
}

/// Whether a path leads to a pipe or a device.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir())
}

/// Claims the file `path` for this command until the result is dropped, with the temporary files beside it. `None` for a
/// pipe or a device, which has none.
///
/// # Errors
///
/// Another command makes the file, or files cannot be made there; an I/O error.
pub(crate) fn claim(path: &Path) -> Result<Option<Claim>, Fault> {
    if is_special(path) { Ok(None) } else { Claim::take(&real_disk(), path).map(Some) }
}

/// The same name with a suffix.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// The temporary name of an incomplete file; the file is removed unless it is completed.
pub(crate) struct Aside {
    aside: PathBuf,
    path: PathBuf,
    fate: Fate,
}

impl Aside {
    /// Prepares the file `path`, which is named `aside` until it is complete. A leftover of a killed run is removed. No
    /// other command uses the name `aside`: it is this process's own, or `path` is claimed ([`claim`]).
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn new(aside: PathBuf, path: PathBuf) -> Result<Aside, Fault> {
        if is_special(&path) {
            return Ok(Aside { aside: path.clone(), path, fate: Fate::Special });
        }
        match fs::remove_file(&aside) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(failed(&aside, why)),
            _ => Ok(Aside { aside, path, fate: Fate::Removed }),
        }
    }

    /// Its path while it is written.
    pub(crate) fn place(&self) -> &Path {
        &self.aside
    }

    /// Creates the file.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn create(&self) -> Result<File, Fault> {
        File::options()
            .write(true)
            .create(self.fate != Fate::Special)
            .truncate(self.fate != Fate::Special)
            .open(&self.aside)
            .map_err(|why| failed(&self.aside, why))
    }

    /// Whether it is a pipe or a device.
    pub(crate) fn is_special(&self) -> bool {
        self.fate == Fate::Special
    }

    /// Makes the complete file durable and renames it; returns its length, or 0 for a pipe.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn finish(mut self) -> Result<u64, Fault> {
        if self.is_special() {
            return Ok(0);
        }
        let file = File::open(&self.aside).map_err(|why| failed(&self.aside, why))?;
        let bytes = file.sync_all().and_then(|()| file.metadata()).map_err(|why| failed(&self.aside, why))?.len();
        fs::rename(&self.aside, &self.path).map_err(|why| failed(&self.path, why))?;
        self.fate = Fate::Kept;
        Ok(bytes)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if self.fate == Fate::Removed {
            // Removes the incomplete file of a failed task, if possible.
            let _ = fs::remove_file(&self.aside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_export_to_a_file_is_refused_and_leaves_the_first_alone() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("coins.csv");
        let first = claim(&out).unwrap().expect("a file is claimed");
        let aside = Aside::new(with_end(&out, ".incomplete"), out.clone()).unwrap();
        fs::write(aside.place(), "half").unwrap();
        let why = claim(&out).unwrap_err().to_string();
        assert!(why.contains("coins.csv is being made by"), "{why}");
        fs::write(aside.place(), "whole").unwrap();
        assert_eq!(aside.finish().unwrap(), 5);
        drop(first);
        drop(claim(&out).unwrap());
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["coins.csv"]);
        assert!(claim(Path::new("/dev/null")).unwrap().is_none(), "a device is written to as it is");
    }
}
