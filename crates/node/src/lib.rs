//! The engine: where headers, blocks, coins, files, rules and peers meet.
//!
//! In: block files, or headers and blocks of peers, and a data directory of bitcoind or ffwd. Out: the same directory
//! with the best chain connected, and events for the user. It must never know: formats of files (`store`), rules
//! (`consensus`), messages (`p2p`), the terminal (`ffwd`).
//!
//! # Entry points
//!
//! [`jobs`] has a function for each command: options in, report out. Below it, where to begin reading:
//! - [`pipeline::engine::Engine::activate`]: which chain to connect, what to disconnect, what happens to a bad block.
//! - [`pipeline::Pipeline::run`]: how the blocks of one chain are connected by all cores, in order.
//! - [`chain::index::BlockIndex`]: what is known of every block; `chain::best_chain::CandidateSet`: which one should be the tip.
//! - `datadir::writer::Writer::commit` and `datadir::coins_io::CoinsIo`: what is made durable before what.
//! - [`offline::files`]: a chain read and judged from files alone, for audits and exports.
//! - `session::driver::SyncDriver`: what a sync does next: what is requested from peers, which chain is connected, when it ends.
//!
//! # Rooms
//!
//! Each takes from those below it alone (`cargo test -p testkit tidy`):
//!
//! ```text
//! session     a sync from peers: the driver, its threads, trust, the download budget, a sync in parts
//! snapshot    UTXO sets from elsewhere: snapshots and hints
//! offline     jobs without peers: open, rebuild, import, verify, look up; `files` for audits and exports
//! handle      what a running sync shows, and does for others
//! datadir     a data directory at work: locks, writer, coins, the feed of blocks, pruning
//! indexing    the optional indexes         mempool     transactions of disconnected blocks
//! reporting   progress, state, log, alerts; write-only for the engine
//! options     what jobs are told           utxo_stats  counts and hashes of a set of coins
//! pipeline    blocks of one chain, connected by all cores; the engine that chooses the chain
//! chain       the tree of headers, the index of blocks, the best chain
//! threads     threads and locks            fault       what can go wrong
//! ```
//!
//! # Threads
//!
//! - The thread that calls a job runs the engine. In [`pipeline::Pipeline::run`] it reads blocks, and sleeps while the disk
//!   or peers bring the next one.
//! - The pipeline's workers, `-par` of them, live for one run. They do the work on blocks, and in the background what
//!   makes coins durable: sync, writing parts of a commit, compaction.
//! - A sync has besides: the network's thread (`p2p`), `arrive` (takes what it says; with many processors `arrive.NN` check
//!   and store blocks for it), `tell` (progress), and at the end of a snapshot's validation `hash` (its coins).
//!   `session::threads` starts them; each gives what happened to the sync driver, and does what it answers.
//! - Optional indexes are brought up from the files by `index.NN`; a commit of several is written by one thread for each.
//!
//! # Lock order
//!
//! A thread that holds one of these takes only locks further down:
//! 1. the feed of blocks, of the thread that runs the pipeline alone, which may sleep with it;
//! 2. a shard group of the coins in memory;
//! 3. the pipeline's scheduler (with it locked, shard groups are locked only where that needs no waiting);
//! 4. the optional indexes (`indexing`): the one that lets one commit of them happen at a time, then that of each index;
//! 5. `datadir::writer`: what is appended to, and the file infos;
//! 6. [`chain::index::SharedIndex`]: the block index, which no thread asks for twice at a time;
//! 7. those of one file that take no other: the session's inbox, reporter, log, `mempool`.
//!
//! `datadir::refused`, which one thread writes at a time, comes before the index.
//! The sync driver's lock comes before that of the index, and is held for one decision.
//!
//! The coins' lock is taken with no other held, and takes none but what LevelDB's files need. But for the feed's and the turn
//! of a run of coins that hints give no lock is held while a job waits for disk space, nor `writer` or the index while the
//! disk syncs.

#![warn(clippy::missing_errors_doc)]

#[doc(hidden)]
pub mod chain;
#[doc(hidden)]
pub mod datadir;
mod fault;
pub mod handle;
mod indexing;
pub mod mempool;
pub mod offline;
pub mod options;
#[doc(hidden)]
pub mod pipeline;
pub mod reporting;
pub mod session;
pub mod snapshot;
mod threads;
pub mod utxo_stats;

pub use fault::{Ended, Fault, Message, REBUILD_ADVICE};
pub use options::ReopenLog;
pub use pipeline::{histogram, machine_memory, stats};
pub use reporting::log::LOG_CATEGORIES;
pub use reporting::{Counted, Figures};

/// The engine's jobs: one function a command. Options in, report out, events on the way.
pub mod jobs {
    pub use crate::indexing::{SilentOutput, SilentTx, without_dust};
    pub use crate::offline::doctor::{Depth, Examination, Finding, Kind, Texts, doctor};
    pub use crate::offline::{
        BlockId, DataDirInfo, Failed, Filter, Forecast, FoundTx, InUse, IndexReport, SetAt, Share, SilentPayments,
        SilentQuestion, Spender, Unindexed, VerifyReport, check_free, check_index_form, each_silent_block,
        file_system_warning, filter, import, index, info, reindex, reindex_before_sync, set_after, set_details,
        set_info, set_info_at, silent_payments, spender, tx, verify,
    };
    pub use crate::session::options::{
        BLOCK_RELAY_COUNT_MAX, Download, DownloadLimits, DownloadSwitch, Hours, OUTBOUND_RESERVED, PeerAddress,
        PeerSettings, Permissions, PermittedNet, Reachable, SyncOptions, check_peer_address, parse_whitebind,
        peer_address,
    };
    pub use crate::session::phases::{FromSnapshot, sync, sync_from};
    pub use crate::session::repair::{RepairReport, repair};
    pub use crate::snapshot::{
        CoinParts, CoinsOf, DiffReport, Difference, DumpOut, DumpReport, DumpTarget, FileInfo, Got, HintsReport,
        LoadReport, SharedStream, SnapshotStream, check_snapshot, coins_in_parts, diff, dump, dump_live, file_info,
        load, make_hints,
    };
    pub use indexes::silentpayments::Entry as SilentEntry;
}
