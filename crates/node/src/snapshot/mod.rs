//! Snapshot files on the disk, and the UTXO set of an earlier block.
//!
//! Absent on purpose: the format (`primitives::snapshot`), the directory of a loaded snapshot (`store::chainstate`), and
//! which file and which block (`jobs`).

pub(crate) mod file;
pub(crate) mod rollback;
mod runs;
