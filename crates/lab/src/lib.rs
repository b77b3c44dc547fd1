//! The lab: runs whole programs by a plan, measures, compares.
//!
//! - `commit`: writes a UTXO set again.
//! - `cores`: measures how much faster a reindex is with more workers.
//! - `estimate`: estimates how long mainnet would take on this machine.
//! - `run`: runs whole programs by a plan.
//!
//! Crate `demo` makes the chains that programs run on, and draws the report.
//! Absent on purpose: anything that the engine needs, and the small experiments, which are crate `micro`.

pub mod commit;
pub mod cores;
pub mod estimate;
mod machine;
pub mod run;
