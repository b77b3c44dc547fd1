//! The lab: makes chains, runs whole programs by a plan, draws what came of them.
//!
//! - `debug_log`: reads debug.log, Core's and ffwd's. `result`: what a plan leaves behind. `run` and `plot` meet in these alone.
//! - `chain`: valid regtest chains like mainnet's.
//! - `commit`: a UTXO set written again.
//! - `estimate`: how long mainnet would take on this machine.
//! - `run`: whole programs, by a plan.
//! - `plot`: logs and results as pictures.
//!
//! Absent on purpose: anything that the engine needs, and the small experiments, which are crate `micro`.

pub mod chain;
pub mod commit;
mod debug_log;
pub mod estimate;
mod machine;
pub mod plot;
pub mod result;
pub mod run;
