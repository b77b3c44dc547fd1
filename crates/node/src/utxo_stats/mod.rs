//! What a UTXO set adds up to: Core's gettxoutsetinfo, its hashes, and what the set is made of.

pub(crate) mod hashed;
pub(crate) mod set_totals;
pub(crate) mod setinfo;
pub(crate) mod setstats;

pub use setinfo::{SetHash, SetInfo};
pub use setstats::{SetStats, Tally};
