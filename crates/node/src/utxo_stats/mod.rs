//! Statistics of a UTXO set: Core's gettxoutsetinfo, its hashes, and counts by script type and age.

pub(crate) mod hashed;
pub(crate) mod set_totals;
pub(crate) mod setinfo;
pub(crate) mod setstats;

pub use setinfo::{SetHash, SetInfo};
pub use setstats::{SetStats, Tally};
