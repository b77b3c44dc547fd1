//! Output files at a path that the user names, which appear only once complete.
//!
//! A pipe or a device (`/dev/stdout`, a shell's `>(..)`) is written directly.

use crate::Failure;
use crate::out_file::check_free;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Advice printed when a file cannot be written.
const UNWRITABLE: &str = "Name a file in a directory that this user may write to";

/// Writes a file under a temporary name, then renames it, so that a file with this name is complete.
///
/// # Errors
///
/// [`Failure::Fault`] that names the file, also if it exists and `overwrite` is false.
pub(crate) fn write(path: &Path, bytes: &[u8], overwrite: bool) -> Result<(), Failure> {
    check_free(path, overwrite)?;
    let failed = |why: io::Error| Failure::fault(format!("{}: {why}", path.display()), UNWRITABLE);
    if fs::metadata(path).is_ok_and(|known| !known.is_file() && !known.is_dir()) {
        return File::options().write(true).open(path).and_then(|mut out| out.write_all(bytes)).map_err(failed);
    }
    let aside = aside(path)?;
    let written = File::create(&aside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&aside, path)
    });
    written.map_err(|why| {
        let _ = fs::remove_file(&aside);
        failed(why)
    })
}

/// A hidden temporary name in the directory of `path`, unique to this process.
fn aside(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().ok_or_else(|| Failure::Usage(format!("{}: no name of a file", path.display())))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    Ok(path.with_file_name(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_that_is_there_is_replaced_by_force_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        write(&path, b"first", false).unwrap();
        let why = write(&path, b"second", false).unwrap_err().to_string();
        assert!(why.contains("mine") && why.contains("--force"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write(&path, b"third", true).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"third");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
        assert!(write(dir.path(), b"x", true).is_err(), "a directory is no file");
        let none = dir.path().join("none/mine");
        assert!(write(&none, b"x", false).unwrap_err().to_string().contains("none/mine"));
    }

    /// A rename onto /dev/null would take the device's place.
    #[test]
    fn device_or_pipe_is_written_to_as_it_is() {
        use std::os::unix::fs::FileTypeExt as _;
        write(Path::new("/dev/null"), b"gone", false).unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || fs::read(pipe).unwrap())
        };
        write(&pipe, b"through", false).unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }
}
