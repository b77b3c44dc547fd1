//! The whole chain audited in parts that know nothing of each other.
//!
//! [`part()`] judges a range of blocks with its undo data, every script run, and gives a small [`Record`]; [`coins()`] sums the
//! UTXO set; [`join()`] puts records together to one verdict. Undo data says what inputs spend; that it said the truth
//! follows from sums of what was made, spent and is left, which agree only when the coins do: docs/audit.md has the proof.
//!
//! In: a data directory through [`node::offline::files`], a [`Salt`]. Out: records and verdicts. Absent on purpose: scheduling, that
//! is to say which machine does which part; the terminal.

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
