//! Output files at a path that the user names. An existing file is only overwritten with `--force`.
//!
//! Absent on purpose: a data directory's files, which belong to `store`, and snapshots, which must be new.

use crate::Failure;
use std::fs::{self, FileType};
use std::path::Path;

/// Rejects an existing file, before any work is done.
///
/// # Errors
///
/// [`Failure::Fault`] that names the file.
pub(crate) fn check_free(path: &Path, overwrite: bool) -> Result<(), Failure> {
    let is_regular = |kind: FileType| kind.is_file() || kind.is_dir();
    match fs::metadata(path) {
        Ok(known) if is_regular(known.file_type()) && !overwrite => {
            let advice = "Give --force to overwrite it, or name another file";
            Err(Failure::fault(format!("{}: it is there already", path.display()), advice))
        }
        _ => Ok(()),
    }
}
