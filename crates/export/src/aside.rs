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

/// The name of a file that is not whole; the file is removed where it does not become so.
pub(crate) struct Aside {
    aside: PathBuf,
    path: PathBuf,
    is_done: bool,
}

impl Aside {
    /// For the file `path`, which is `aside` until it is whole. What a run left there that was killed is removed.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn new(aside: PathBuf, path: PathBuf) -> Result<Aside, Fault> {
        match fs::remove_file(&aside) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(failed(&aside, why)),
            _ => Ok(Aside { aside, path, is_done: false }),
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
        File::create(&self.aside).map_err(|why| failed(&self.aside, why))
    }

    /// It is whole: makes it durable and gives it its name; says how long it is.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub(crate) fn finish(mut self) -> Result<u64, Fault> {
        let file = File::open(&self.aside).map_err(|why| failed(&self.aside, why))?;
        let bytes = file.sync_all().and_then(|()| file.metadata()).map_err(|why| failed(&self.aside, why))?.len();
        fs::rename(&self.aside, &self.path).map_err(|why| failed(&self.path, why))?;
        self.is_done = true;
        Ok(bytes)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.is_done {
            // What is left of a task that failed is removed as far as that can be.
            let _ = fs::remove_file(&self.aside);
        }
    }
}
