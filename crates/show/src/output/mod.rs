//! Outputs as the RPCs show them: script as text, kind, address.

pub mod address;
pub mod asm;
mod base58;
pub mod bech32;
pub mod solver;

pub use address::{AddressError, Prefixes};
pub use asm::put_asm;
pub use solver::Payee;
