//! LevelDB's on-disk format: directories of sorted tables, a manifest, a log.
//!
//! Input: sorted runs of puts and deletes. Output: values by key, singly, in sorted batches, or in order. The crate
//! does not interpret keys or values.
//!
//! A [`Db`] is an open directory. Readers take a [`Snapshot`], which never changes. The one writer begins a [`Run`],
//! lets any number of threads fill it, and commits it: without a log or a memtable, with one durable edit of the
//! manifest. [`Compaction`]s keep the number of runs small. All files are read and written through [`disk::Disk`].
//!
//! Absent on purpose: a write-ahead log of our own, compression, repair, several writers.

#![warn(clippy::missing_errors_doc)]

mod block;
mod bloom;
mod build;
mod coding;
mod compaction;
mod cursor;
mod db;
mod disk_look_up;
mod edit;
mod error;
mod format;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fuzz;
mod index;
mod install;
mod levels;
mod log;
mod lookup;
mod manifest;
mod names;
mod options;
mod read_ahead;
mod recover;
mod run;
mod table;
mod version;

pub use compaction::Compaction;
pub use db::Db;
pub use error::{Error, Result};
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use fuzz::{fuzz_history, fuzz_open};
pub use install::{Installed, begin_install, can_move_files, forget_install, install, is_installing};
pub use lookup::{Expected, Iter, RunInfo, Snapshot};
pub use options::Options;
pub use run::{Run, TableWriter};
