//! The parts of `ffwd demo`: a chain to validate, and a report. The lab (crate `lab`) also uses both.
//!
//! - `chain`: valid regtest chains similar to mainnet's.
//! - `debug_log`: reads debug.log, Core's and ffwd's.
//! - `plot`: charts of logs and of results of a plan.
//! - `worst`: chains whose blocks are slow to verify for their size.
//! - `result`: the results of a plan. Its runs write them, `plot` reads them.
//!
//! Absent on purpose: anything that the engine needs, and running programs, which is the lab's.

pub mod chain;
pub mod debug_log;
pub mod plot;
pub mod result;
pub mod worst;
