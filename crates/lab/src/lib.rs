//! The lab: makes chains, runs whole programs by a plan, draws what came of them.
//!
//! - `chain`: valid regtest chains like mainnet's.
//! - `commit`: a UTXO set written again.
//! - `run`: whole programs, by a plan.
//! - `plot`: logs and results as pictures.
//!
//! Absent on purpose: anything that the engine needs, and the small experiments, which are crate `micro`.

pub mod chain;
pub mod commit;
pub mod plot;
pub mod run;
