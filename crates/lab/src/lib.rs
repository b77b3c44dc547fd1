//! (being written)

pub mod chain;
