//! Opening what must be a regular file, for files and locks.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opening never waits for another program. For a regular file the flag changes nothing.
pub(crate) const NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// Opens a regular file, and nothing else: a FIFO or a device of that name would be waited for without end.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for what is not a regular file, or what the system says.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(NONBLOCK).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let what = if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}
