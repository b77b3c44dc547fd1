//! The server on a real socket, beside a job in the same process, asked by good and bad clients.

#![allow(clippy::unwrap_used, reason = "all of it is test")]

mod blocked;
mod calls;
mod crowds;
mod exact;
mod generate;
mod hostile;
mod mempool;
mod site;
mod snapshots;
mod submit;
mod successes;
