//! (being written)

pub mod chain;
pub mod plot;
pub mod run;
