//! The usage of the daily download limit, stored in one of ffwd's own files, for the next run of the same day.
//!
//! Absent on purpose: the limit (`budget`).

use super::budget::Budget;
use crate::fault::Fault;
use crate::reporting::Reporter;
use store::private_files::PrivateDir;

const DOWNLOADED: &str = "downloaded";
const DOWNLOADED_BYTES: usize = 16;

/// Reads what [`Budget::to_bytes`] returned.
///
/// # Errors
///
/// An I/O error.
pub(super) fn read(own: &PrivateDir) -> Result<Option<Vec<u8>>, Fault> {
    Ok(own.read(DOWNLOADED, DOWNLOADED_BYTES)?)
}

/// Stores the usage, if there is a daily limit. Does not wait for space on a full disk.
///
/// # Errors
///
/// An I/O error.
pub(super) fn keep(own: &PrivateDir, budget: &Budget, reporter: &Reporter<'_>) -> Result<(), Fault> {
    if !budget.has_target() {
        return Ok(());
    }
    let consequence = "The bytes downloaded today are not kept: the next run counts from zero";
    reporter.if_room(consequence, || own.write(DOWNLOADED, &budget.to_bytes()))
}
