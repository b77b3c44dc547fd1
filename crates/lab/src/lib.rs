//! (being written)

pub mod chain;
pub mod micro;
pub mod plot;
pub mod run;
