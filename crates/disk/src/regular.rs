//! Opens regular files only, for files and locks.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::system;

/// Opens a file that must be regular: opening a FIFO or a device of that name could wait indefinitely.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for anything but a regular file, or an I/O error.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = system::without_waiting(options).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let what = system::kind(kind);
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}
