//! What `ffwd demo` needs: a chain to validate, and a report to look at. The lab (crate `lab`) builds on both.
//!
//! - `chain`: valid regtest chains like mainnet's.
//! - `debug_log`: reads debug.log, Core's and ffwd's.
//! - `plot`: logs, and results of a plan, as pictures.
//! - `worst`: chains whose blocks take long to verify for their size.
//! - `result`: what a plan leaves behind. Its runs write it, `plot` reads it.
//!
//! Absent on purpose: anything that the engine needs, and running programs, which is the lab's.

pub mod chain;
pub mod debug_log;
pub mod plot;
pub mod result;
pub mod worst;
