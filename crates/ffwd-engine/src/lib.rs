//! Reads, rebuilds, verifies and downloads the data directories of Bitcoin Core.
//!
//! In: the path of a data directory and its network. Out: blocks with the coins that they spend, the UTXO set and its
//! hash, and a data directory that Bitcoin Core can use. [`DataDir`] is the entry point. All files have Core's
//! formats.
//!
//! ```
//! # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/chain/folder.in"));
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = Folder::new("lib"); let path = folder.path();
//! use ffwd_engine::{DataDir, Network};
//!
//! let dir = DataDir::open(path, Network::Regtest)?;
//! let report = dir.reindex().run()?; // Block index, undo files and UTXO set, from the block files.
//! assert_eq!((report.height, report.blocks), (107, 107));
//!
//! let hash = dir.coins()?.hash_serialized_3()?; // As bitcoin-cli gettxoutsetinfo prints it.
//! assert_eq!(hash.to_string(), "be8a56a52755a51d2a607ab1a23990223c5fa0cc4a9b8a814817039410fc35b9");
//!
//! for block in dir.blocks(100..)? {
//!     let block = block?;
//!     for input in block.transactions().flat_map(|tx| tx.inputs()) {
//!         if let Some(prevout) = input.prevout() {
//!             println!("{}: {} spends {} satoshi of height {}", block.height(), input.outpoint(), prevout.value, prevout.height);
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Effects on the process
//!
//! - The library has no global state: any number of data directories can be open at a time, and several threads may
//!   use one. Only one job at a time changes a data directory; Core's lock files keep other programs out.
//! - A job runs on the calling thread and starts its own threads, which end with it. [`Stop`] ends a job early.
//! - It prints nothing. Jobs that write append to `debug.log` in the data directory, as bitcoind does. Jobs send
//!   [events](ReindexJob::on_event).
//! - Tables are memory-mapped. If the drive fails during an access, the system ends the process with SIGBUS.
//! - New files have the permissions of the process's umask; bitcoind sets 077.
//!
//! # Stability
//!
//! Types that may grow are `#[non_exhaustive]`. Apart from the standard library, the interface uses no types of other
//! crates.

#![warn(clippy::missing_errors_doc, missing_docs)]

mod block;
mod coins;
mod datadir;
mod error;
mod events;
mod ids;
mod jobs;
mod network;
mod script;

pub use block::{Block, Blocks, Header, Input, Output, Prevout, Transaction};
pub use coins::{Coin, Coins, CoinsInfo, CoinsIter};
pub use datadir::{DataDir, DataDirBuilder};
pub use error::{Error, ErrorKind};
pub use events::{Event, Progress, Stop};
pub use ids::{BlockHash, OutPoint, ParseHashError, SetHash, Txid};
pub use jobs::{DamagedRecord, Ended, Index, JobReport, ReindexJob, SyncJob, VerifyJob, VerifyReport};
pub use network::{Network, ParseNetworkError};
pub use script::{ScriptError, ScriptFlags, ScriptType, SpentOutput, verify_script};
