//! LevelDB's format on disk: folders of sorted tables, a manifest, a log.
//!
//! What goes in: sorted runs of puts and deletes. What comes out: values by key, singly, in sorted
//! batches, or in order. What it must never know: what the keys and values mean.
//!
//! All reading and writing of files goes through [`fs`].

pub mod fs;

mod block;
mod bloom;
mod build;
mod coding;
mod edit;
mod error;
mod log;
mod names;
mod table;
