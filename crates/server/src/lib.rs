//! The server: JSON-RPC, REST and pages over HTTP, with bitcoind's answers, from a running sync or a served data
//! directory.
//!
//! In: a handle to the job (`node::handle`), settings with Core's names. Out: answers in Core's form. It must never
//! know: how blocks are connected, file formats, command line options.
//!
//! # Where to begin
//!
//! - [`registry`] is the table of calls; each is one [`registry::Call`] in a file of `calls`.
//! - [`context::Context`] is the state for calls: [`context::Context::live`] reads the job, [`context::Context::ask`]
//!   runs an action in it.
//! - `execute` parses and executes a body; `routes` has the paths; [`http::Server`] the connections.
//!
//! # Threads
//!
//! `ffwd-http` polls all connections. `ffwd-rpc`, at most `-rpcthreads` threads, run calls; two more make metrics and
//! look up users. The job never waits for any of them, and none of its locks is held while an answer is formatted.

mod app;
pub mod args;
mod auth;
pub mod ban_file;
pub mod block_stats;
mod body;
pub mod calls;
pub mod client;
mod client_lines;
mod connections;
pub mod context;
pub mod descriptor;
pub mod error;
mod execute;
mod guard;
pub mod http;
mod long_bodies;
#[cfg(feature = "regtest-tools")]
mod mempool_order;
pub mod merkle_block;
pub mod not_started;
mod openrpc;
mod owner;
mod pages;
mod plain;
mod publisher;
mod rest;
mod routes;
#[cfg(feature = "descriptors")]
pub mod scan;
pub mod script_call;
mod sent_body;
pub mod settings;
pub mod tx_decode;

pub use context::registry;
pub use show::{json, output, text, tx_json};
