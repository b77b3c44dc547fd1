//! The engine: where headers, blocks, coins, files, rules and peers meet.
//!
//! In: block files, or headers and blocks of peers, and a data directory of bitcoind or ffwd. Out: the same directory
//! with the best chain connected, and events for the user. It must never know: formats of files (`store`), rules
//! (`consensus`), messages (`p2p`), the terminal (`ffwd`).
//!
//! # Entry points
//!
//! [`jobs`] has a function for each command: options in, report out. Below it, where to begin reading:
//! - [`engine::Engine::activate`]: which chain to connect, what to disconnect, what happens to a bad block.
//! - [`pipeline::Pipeline::run`]: how the blocks of one chain are connected by all cores, in order.
//! - [`index::BlockIndex`]: what is known of every block; `best_chain::CandidateSet`: which one should be the tip.
//! - `writer::Writer::commit` and `coins_io::CoinsIo`: what is made durable before what.
//! - [`files`]: a chain read and judged from files alone, for audits and exports.
//! - `session::driver::SyncDriver`: what a sync does next: what is requested from peers, which chain is connected, when it ends.
//!
//! # Threads
//!
//! - The thread that calls a job runs the engine. In [`pipeline::Pipeline::run`] it reads blocks, and sleeps while the disk
//!   or peers bring the next one.
//! - The pipeline's workers, `-par` of them, live for one run. They do the work on blocks, and in the background what
//!   makes coins durable: sync, writing parts of a commit, compaction.
//! - A sync has besides: the network's thread (`p2p`), `arrive` (takes what it says; with many processors `arrive.NN` check
//!   and store blocks for it), and `tell` (progress). `session::threads` starts them; each gives what happened to the sync
//!   driver, and does what it answers.
//! - Optional indexes are brought up from the files by `index.NN`; a commit of several is written by one thread for each.
//!
//! # Lock order
//!
//! A thread that holds one of these takes only locks further down:
//! 1. the feed of blocks, of the thread that runs the pipeline alone, which may sleep with it;
//! 2. a shard group of the coins in memory;
//! 3. the pipeline's scheduler (with it locked, shard groups are locked only where that needs no waiting);
//! 4. the optional indexes (`indexing`): the one that lets one commit of them happen at a time, then that of each index;
//! 5. `writer`: what is appended to, and the file infos;
//! 6. [`index::SharedIndex`]: the block index, which no thread asks for twice at a time;
//! 7. those of one file that take no other: the session's inbox, reporter, log, `mempool`.
//!
//! The sync driver's lock comes before that of the index, and is held for one decision.
//!
//! The coins' lock is taken with no other held, and takes none but what LevelDB's files need. But for the feed's and the turn
//! of a run of coins that hints give no lock is held while a job waits for disk space, nor `writer` or the index while the
//! disk syncs.

#![warn(clippy::missing_errors_doc)]

pub mod alerts;
mod atomic_height;
mod bench_lines;
mod best_chain;
#[doc(hidden)]
pub mod block;
mod chain_files;
mod chain_plan;
mod chain_rules;
mod chain_source;
mod coins_io;
#[doc(hidden)]
pub mod datadir;
mod disk_space;
#[doc(hidden)]
pub mod engine;
mod fault;
mod feed;
pub mod files;
pub mod handle;
mod hashed;
#[doc(hidden)]
pub mod headers;
mod hints;
pub mod histogram;
#[doc(hidden)]
pub mod index;
mod indexing;
pub mod jobs;
mod locks;
mod log;
pub mod machine_memory;
pub mod mempool;
pub mod options;
mod peer_lines;
pub mod pid_file;
#[doc(hidden)]
pub mod pipeline;
mod read_only;
mod recheck;
mod report;
mod scratch;
pub mod session;
mod set_files;
mod set_totals;
mod setinfo;
mod setstats;
mod shares;
mod shortfall;
mod snapshot;
mod stages;
pub mod stats;
mod threads;
#[doc(hidden)]
pub mod tree;
mod undo_judge;
mod writer;

pub use fault::{Fault, Message, REBUILD_ADVICE};
pub use log::{LOG_CATEGORIES, reopen_logs};
pub use report::{Counted, Figures};
