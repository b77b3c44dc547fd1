//! Snapshots of the UTXO set: written, loaded, looked into, compared; and hints of what is in it.

mod dump;
mod fill;
mod hints;
pub(crate) mod load;
mod look;
pub(crate) mod validate;

pub use dump::{DumpOut, DumpReport, DumpTarget, dump, dump_live};
pub use hints::{HintsReport, make_hints};
pub use load::{LoadReport, check_snapshot, load};
pub use look::{DiffReport, Difference, FileInfo, diff, file_info};

/// What helps where a snapshot is not loaded.
const LOAD_ADVICE: &str = "Nothing was changed: give the snapshot that this reason asks for, or sync without one";
