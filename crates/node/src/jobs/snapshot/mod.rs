//! Snapshots of the UTXO set: written, loaded, looked into, compared.

mod dump;
mod fill;
mod load;
mod look;
pub(super) mod validate;

pub use dump::{DumpOut, DumpReport, DumpTarget, dump};
pub use load::{LoadReport, load};
pub use look::{DiffReport, Difference, FileInfo, diff, file_info};
pub(super) use validate::{has_header, is_beyond};
