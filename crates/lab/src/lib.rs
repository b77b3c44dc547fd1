//! The lab: makes chains, runs experiments small and large, draws what came of them.
//!
//! `chain`: valid regtest chains like mainnet's. `commit`: a set of coins written again. `micro`: one idea at a time, its variants side by side. `run`: whole programs,
//! by a plan. `plot`: logs and results as pictures.
//! Absent on purpose: anything that the engine needs. Nothing but the command uses this crate.

pub mod chain;
pub mod commit;
pub mod micro;
pub mod plot;
pub mod run;
