//! Core's data directory: block files, undo files, block index, chainstate, locks, obfuscation key.
//!
//! Input: blocks, undo data, index entries, sorted coins. Output: the same, from a data directory that Core opens, and
//! [`Fault`]s with place, expected and actual content, and advice. The crate does not validate blocks; it only checks
//! that a header meets its own nBits.
//!
//! No other crate opens a file of a data directory. All writing goes through [`disk::Disk`]. The caller must make data
//! durable in this order: block and undo data, then index, then coins.

#![warn(clippy::missing_errors_doc)]

mod append;
pub mod blockfiles;
pub mod chainstate;
mod db;
pub mod fault;
pub mod fileinfo;
mod host;
pub mod index;
pub mod indexes;
pub mod layout;
pub mod locks;
mod open_files;
pub mod presence;
pub mod private_files;
pub mod prune;
mod record;
pub mod reindex;
pub mod restore;
pub mod signature_hints;
pub mod survey;
pub mod undo_places;
pub mod undofiles;
pub mod xor;

pub use chainstate::Chainstate;
pub use fault::{Fault, FaultKind, Result};
pub use fileinfo::{FileEnd, FileInfo, FileInfos};
pub use host::Host;
pub use index::{BlockTreeDb, IndexEntry, Status};
pub use layout::{Layout, Network, UsedSpace};

/// A place in Core's block or undo files.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FilePos {
    /// Number of the file: 7 means blk00007.dat and rev00007.dat.
    pub file: u32,
    /// Offset in bytes of the first byte of the block or of the undo payload, after the record's header.
    pub offset: u32,
}
