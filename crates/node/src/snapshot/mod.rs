//! UTXO sets from elsewhere: writes, loads, inspects and compares snapshots; `hints` builds a set with hints.
//!
//! Absent on purpose: the formats (`primitives::snapshot`, `primitives::hints`), the directory of a loaded snapshot
//! (`store::chainstate`).

pub(crate) mod coming;
mod dump;
pub(crate) mod file;
mod fill;
pub(crate) mod from_peers;
pub(crate) mod given;
pub(crate) mod hints;
pub(crate) mod load;
mod look;
mod make_hints;
mod make_signature_hints;
mod parts;
mod rollback;
mod room;
mod runs;
pub(crate) mod served_sets;
pub(crate) mod stream;
mod unfinished;
pub(crate) mod validate;

pub use dump::{DumpOut, DumpReport, DumpTarget, dump, dump_live};
pub use load::{LoadReport, check_snapshot, load};
pub use look::{DiffReport, Difference, FileInfo, diff, file_info};
pub use make_hints::{HintsReport, make_hints};
pub use make_signature_hints::{SignatureHintsReport, make_signature_hints};
pub use parts::{CoinParts, CoinsOf, coins_in_parts};
pub use stream::{Got, SharedStream, SnapshotStream};
pub use unfinished::Claim;

/// Advice if a snapshot is not loaded.
const LOAD_ADVICE: &str = "Nothing was changed: give the snapshot that this reason asks for, or sync without one";
