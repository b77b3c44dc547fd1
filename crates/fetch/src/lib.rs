//! One file from several mirrors over HTTP and HTTPS, in order and in bounded memory: a snapshot for `ffwd sync`.
//!
//! In: URLs, a proxy. Out: the bytes of the file, as [`node::jobs::SnapshotStream`] wants them. [`plan`] decides which range
//! comes from which mirror, compares samples and drops mirrors that lie: it has no socket, clock or thread, and is tested by
//! seed. [`http`] and [`url`] read what mirrors say; [`connect`] has the sockets and TLS; [`transfer`] the threads, one a
//! mirror.
//!
//! Absent on purpose: files (what comes is put into tables, never beside them), and whether the bytes are the right ones:
//! the hash of the coins says that, to whoever reads them.

mod connect;
pub mod http;
pub mod plan;
mod transfer;
pub mod url;

pub use transfer::Mirrors;
