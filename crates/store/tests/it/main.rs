//! Tests of the whole crate from outside, in one binary.

mod common;
mod scan;
mod undo;
mod writing;
