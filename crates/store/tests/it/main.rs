//! Tests of the whole crate from outside, in one binary.

#![allow(clippy::unwrap_used)]

mod append;
mod chainstate;
mod common;
mod core;
mod crash;
mod index;
mod reindex;
mod scan;
mod slow;
mod undo;
