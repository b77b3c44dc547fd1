//! Downloads one file from several mirrors over HTTP and HTTPS, in order and in bounded memory: a snapshot for `ffwd
//! sync`.
//!
//! In: URLs, a proxy. Out: the bytes of the file, as a [`node::jobs::SnapshotStream`]. [`plan`] decides which range
//! comes from which mirror, compares samples and drops mirrors that send false data: it has no socket, clock or
//! thread, and is tested by seed. [`http`] and [`url`] parse answers of mirrors; `connect` has the sockets and TLS;
//! `transfer` has the threads, one for each mirror.
//!
//! Absent on purpose: files (the bytes go into tables, and are not stored as a file), and validation of the whole:
//! the reader checks the hash of the coins.

mod connect;
pub mod http;
pub mod plan;
mod transfer;
pub mod url;

pub use transfer::Mirrors;
