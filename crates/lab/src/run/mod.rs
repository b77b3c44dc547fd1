//! `lab run`.
mod result;
pub use result::*;
