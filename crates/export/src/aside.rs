//! A file that gets its name when it is whole and durable, never before.

use node::Fault;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// What the system says of a file.
pub(crate) fn failed(path: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::refused(
        format!("{}: {why}", path.display()),
        "Give --out a place that this user may write to, with room for it",
    )
}

/// What becomes of a file that is made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is not whole: it is removed.
    Removed,
    /// It has its name.
    Kept,
    /// It is a pipe or a device, which is written to as it is.
    Special,
}

/// The same name with an end.
pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.to_path_buf().into_os_string();
    name.push(end);
    PathBuf::from(name)
}

/// The name of a file that is not whole; the file is removed where it does not become so.
pub(crate) struct Aside {
    aside: PathBuf,
    path: PathBuf,
    fate: Fate,
}

impl Aside {
    /// For the file `path`, which is `aside` until it is whole. What a run left there that was killed is removed.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn new(aside: PathBuf, path: PathBuf) -> Result<Aside, Fault> {
        if fs::metadata(&path).is_ok_and(|known| !known.is_file() && !known.is_dir()) {
            return Ok(Aside { aside: path.clone(), path, fate: Fate::Special });
        }
        match fs::remove_file(&aside) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(failed(&aside, why)),
            _ => Ok(Aside { aside, path, fate: Fate::Removed }),
        }
    }

    /// Where it is while it is made.
    pub(crate) fn place(&self) -> &Path {
        &self.aside
    }

    /// Makes it.
    ///
    /// # Errors
    ///
    /// What the system says.
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

    /// It is whole: makes it durable and gives it its name; says how long it is, or 0 of a pipe.
    ///
    /// # Errors
    ///
    /// What the system says.
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
            // What is left of a task that failed is removed as far as that can be.
            let _ = fs::remove_file(&self.aside);
        }
    }
}
