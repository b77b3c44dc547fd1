//! The engine: it joins headers, blocks, coins, files, rules and peers.
//!
//! In: block files, or headers and blocks of peers, and a data directory of bitcoind or ffwd. Out: the same directory
//! with the best chain connected, and events for the user. It must never know: formats of files (`store`), rules
//! (`consensus`), messages (`p2p`), the terminal (`ffwd`).
//!
//! # Entry points
//!
//! [`jobs`] has a function for each command: options in, report out. Good places to begin reading:
//! - [`pipeline::engine::Engine::activate`]: which chain to connect, what to disconnect, how to treat an invalid block.
//! - [`pipeline::Pipeline::run`]: how all cores connect the blocks of one chain, in order.
//! - [`chain::index::BlockIndex`]: the status of every block; `chain::best_chain::CandidateSet`: which block should be
//!   the tip.
//! - `datadir::writer::Writer::commit` and `datadir::coins_io::CoinsIo`: the order in which data becomes durable.
//! - [`offline::files`]: reads and validates a chain from its files only, for audits and exports.
//! - `session::driver::SyncDriver`: the next step of a sync: what to request from peers, which chain to connect, when
//!   to end.
//!
//! # Rooms
//!
//! A module uses only those below it (`cargo test -p testkit tidy` checks):
//!
//! ```text
//! session     a sync from peers: the driver, its threads, trust, the download budget, a sync in parts
//! snapshot    UTXO sets from elsewhere: snapshots and hints
//! offline     jobs without peers: open, rebuild, import, verify, look up; `files` for audits and exports
//! handle      the state and the requests of a running sync
//! datadir     an open data directory: locks, writer, coins, the feed of blocks, pruning
//! indexing    the optional indexes         mempool     transactions of disconnected blocks
//! reporting   progress, state, log, alerts; write-only for the engine
//! options     options of the jobs          utxo_stats  counts and hashes of a set of coins
//! pipeline    connects blocks of one chain on all cores; the engine that chooses the chain
//! chain       the tree of headers, the index of blocks, the best chain
//! threads     threads and locks            fault       errors
//! ```
//!
//! # Threads
//!
//! - The thread that calls a job runs the engine. In [`pipeline::Pipeline::run`] it reads blocks, and sleeps while the
//!   disk or peers deliver the next one.
//! - The workers of the pipeline (`-par` threads) live for one run. They process blocks, and in the background make
//!   coins durable: sync, writing parts of a commit, compaction.
//! - A sync also has the network thread (`p2p`), `arrive` (handles its events; with many processors `arrive.NN` check
//!   and store blocks for it), `tell` (progress), and at the end of a snapshot's validation `hash` (its coins).
//!   `session::threads` starts them; each passes events to the sync driver and performs the actions that it returns.
//! - The `index.NN` threads build optional indexes from the files. When several indexes are committed, each has a
//!   thread.
//!
//! # Lock order
//!
//! A thread that holds one of these takes only locks further down:
//! 1. the feed of blocks, taken only by the thread that runs the pipeline, which may sleep while it holds it;
//! 2. a shard group of the coins in memory;
//! 3. the pipeline's scheduler (while holding it, shard groups are taken only with `try_lock`);
//! 4. the optional indexes (`indexing`): the lock that serializes their commits, then the lock of each index;
//! 5. `datadir::writer`: the open files to which it appends, and the file infos;
//! 6. [`chain::index::SharedIndex`]: the block index, which a thread must not lock twice at a time;
//! 7. leaf locks, each private to a file: the session's inbox, reporter, log, `mempool`.
//!
//! `datadir::refused`, which one thread writes at a time, comes before the index. The sync driver's lock comes before
//! the index, and is held for one decision.
//!
//! The lock in `datadir::coins_io` is taken while no other is held, and below it only those of LevelDB's files. While a
//! job waits for disk space it holds no lock except the feed and the turn of a run of coins from hints. While the disk
//! syncs, neither `writer` nor the index is locked.

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

/// The engine's jobs: one function per command. Options in, report out, events during the run.
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
        LoadReport, SharedStream, SignatureHintsReport, SnapshotStream, check_snapshot, coins_in_parts, diff, dump,
        dump_live, file_info, load, make_hints, make_signature_hints,
    };
    pub use indexes::silentpayments::Entry as SilentEntry;
}
