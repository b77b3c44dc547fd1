//! Files that a command writes where the user says: none is written over without `--force`.
//!
//! Absent on purpose: a data directory's files, which are `store`'s, and snapshots, which can only be new.

use crate::Failure;
use std::fs::{self, FileType};
use std::path::Path;

/// Says no to a file that is there, before any work is done for it.
///
/// # Errors
///
/// [`Failure::Fault`] with the file.
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
