//! Audits the whole chain in independent parts.
//!
//! [`part()`] validates a range of blocks with its undo data, verifies every script, and returns a small [`Record`];
//! [`coins()`] sums the UTXO set; [`join()`] combines records to one verdict. Undo data contains the spent coins. Its
//! correctness follows from the sums of created, spent and unspent coins, which only match if the coins do:
//! docs/audit.md has the proof.
//!
//! In: a data directory through [`node::offline::files`], a [`Salt`]. Out: records and verdicts. Absent on purpose:
//! scheduling parts on machines; the terminal.

#![warn(clippy::missing_errors_doc)]

mod coins;
mod field;
mod join;
mod locate;
mod part;
mod plan;
mod record;
mod sums;
mod workers;

pub use coins::{Keys, coins};
pub use join::{Refusal, Verdict, join};
pub use node::offline::files::encode_plan;
pub use part::{Finding, Kind, part};
pub use plan::{Plan, cut, plan};
pub use record::{BadRecord, BlocksRecord, CoinsRecord, Record};
pub use sums::Salt;
