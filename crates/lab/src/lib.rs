//! The lab: runs whole programs by a plan, measures, compares.
//!
//! - `commit`: a UTXO set written again.
//! - `estimate`: how long mainnet would take on this machine.
//! - `run`: whole programs, by a plan.
//!
//! The chains that it runs them on, and the report that is drawn of them, are crate `demo`'s.
//! Absent on purpose: anything that the engine needs, and the small experiments, which are crate `micro`.

pub mod commit;
pub mod estimate;
mod machine;
pub mod run;
