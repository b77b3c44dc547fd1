//! Options of the engine's jobs, as plain values. Results and progress are in `reporting`.

use consensus::Params;
use disk::{Disk, RealDisk};
pub use indexes::IndexKind;
pub use kernels::Kernels;
use primitives::{BlockHash, Height, Work};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use store::Host;
pub use store::blockfiles::Limits;
pub use store::signature_hints::SignatureHints;

/// Time between the starts of two commits. A crash loses at most ten minutes of work; this is less because writing a
/// commit also takes time.
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(480);

/// Cache of a job that sets no size. Source: Bitcoin Core b88bffe, kernel/caches.h, `DEFAULT_KERNEL_CACHE`.
pub const DBCACHE_BYTES: usize = 450 << 20;

/// How long the pipeline waits for a block before it ends the run, so that the job can attend to other work. The block
/// source waits equally long for free space while the pipeline accepts no blocks.
pub(crate) const ARRIVAL_PATIENCE: Duration = Duration::from_millis(200);
/// Maximum number of blocks that a sync plans for one run of the pipeline: each planned block costs memory and time.
pub(crate) const RUN_BLOCKS_MAX: u32 = 16_384;

/// Source of the current time: the machine's clock in the program, a fixed or simulated one in tests.
pub type Clock = fn() -> SystemTime;

/// Seconds since 1970; 0 for a time before that.
pub fn unix_seconds(clock: Clock) -> u64 {
    clock().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The machine's own file system.
pub fn real_disk() -> Arc<dyn Disk> {
    RealDisk::shared()
}

/// A read-only disk whose files below `root` are read by the program that listens on the Unix socket:
/// `disk::ServedDisk`.
pub fn served_disk(socket: &std::path::Path, root: &std::path::Path) -> Arc<dyn Disk> {
    disk::ServedDisk::new(socket, root).shared()
}

/// Options that all jobs share, named after Core's.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file system: [`real_disk`], or a simulated one.
    pub disk: Arc<dyn Disk>,
    /// The data directory, which contains the network's directory.
    pub datadir: PathBuf,
    /// `-blocksdir`: the directory of the block files, if it is not the data directory.
    pub blocksdir: Option<PathBuf>,
    /// The network.
    pub params: Params,
    /// `-dbcache`, in bytes: the budget for coins, blocks in flight, table indexes.
    pub dbcache_bytes: usize,
    /// `-par`: workers.
    pub par: usize,
    /// `--cpu`: implementations of hashing, XOR of block files, and signature checks.
    pub kernels: Kernels,
    /// `-assumevalid`: zero for none.
    pub assumevalid: BlockHash,
    /// `--signature-hints`: makes the signatures of blocks whose scripts run faster to verify; not trusted. `None` for those
    /// that earlier runs kept in the data directory: then this run keeps some too.
    pub signature_hints: Option<Arc<SignatureHints>>,
    /// `-minimumchainwork`.
    pub minimum_chain_work: Work,
    /// `-stopatheight`.
    pub stop_at_height: Option<Height>,
    /// `-prune`.
    pub prune: Prune,
    /// Time between commits of connected blocks: [`COMMIT_INTERVAL`].
    pub commit_interval: Duration,
    /// The clock with which header timestamps are compared: [`SystemTime::now`], or another one.
    pub clock: Clock,
    /// `-blocksxor`.
    pub blocksxor: bool,
    /// `-txindex`, `-blockfilterindex`, `-txospenderindex`, `-coinstatsindex`: the optional indexes to maintain.
    pub indexes: Vec<IndexKind>,
    /// `--debug bench`: writes one line per stage and block to debug.log.
    pub debug_bench: bool,
    /// `-logtimemicros`: timestamps of debug.log in microseconds.
    pub log_time_micros: bool,
    /// Locations of debug.log and the PID file.
    pub own_files: OwnFiles,
    /// Warnings about the settings, written to debug.log.
    pub warnings: Vec<String>,
    /// Commit and compiler of the program, for the first line of debug.log.
    pub build: &'static str,
    /// Set by the first Ctrl-C: commit the connected blocks and stop.
    pub stop: Arc<AtomicBool>,
    /// File sizes, and other limits that tests change.
    pub sizes: Sizes,
}

/// Asks a job to reopen its debug.log after log rotation renamed the file. Clones address the same job.
#[derive(Clone, Debug, Default)]
pub struct ReopenLog(Arc<AtomicU32>);

impl ReopenLog {
    /// Reopens the file by its name before the next line is written.
    ///
    /// Source: Bitcoin Core b88bffe, `HandleSIGHUP`, `m_reopen_file`.
    pub fn ask(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// Number of requests so far.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Files of the program itself, as opposed to files of the chain. Names are relative to the network's directory.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    /// `-debuglogfile`: debug.log if `None`; an empty path disables the log.
    pub log: Option<PathBuf>,
    /// `-pid`; `None` disables the PID file.
    pub pid: Option<PathBuf>,
    /// `-settings`: the file of settings that are made at run time, and its text, if it must be written at the start.
    pub settings: Option<(PathBuf, String)>,
    /// Requests to reopen the log.
    pub reopen: ReopenLog,
    /// First lines of the log: events that occurred before it was opened.
    pub first_lines: Vec<String>,
}

impl Options {
    /// Core's defaults for a data directory on the machine's own file system, with all processors and a cache of
    /// [`DBCACHE_BYTES`]; `clock` is the machine's, [`SystemTime::now`], or another.
    pub fn new(datadir: PathBuf, params: Params, clock: Clock) -> Options {
        Options {
            disk: real_disk(),
            datadir,
            blocksdir: None,
            assumevalid: params.default_assume_valid,
            signature_hints: None,
            minimum_chain_work: params.minimum_chain_work,
            params,
            dbcache_bytes: DBCACHE_BYTES,
            par: std::thread::available_parallelism().map_or(1, usize::from),
            kernels: Kernels::AUTO,
            stop_at_height: None,
            prune: Prune::Off,
            commit_interval: COMMIT_INTERVAL,
            clock,
            blocksxor: true,
            indexes: Vec::new(),
            debug_bench: false,
            log_time_micros: false,
            own_files: OwnFiles::default(),
            warnings: Vec::new(),
            build: "",
            stop: Arc::default(),
            sizes: Sizes::default(),
        }
    }

    /// Whether the kernels use and find hints about signatures.
    pub(crate) fn uses_hints(&self) -> bool {
        script::lanes::best(self.kernels).finds_hints()
    }

    /// Disk and kernels for code that opens files of the data directory; all bytes stay in memory.
    pub(crate) fn host(&self) -> Host {
        Host::new(self.disk.clone(), self.kernels)
    }

    /// Core's error message if a configured index does not work with `-prune`.
    ///
    /// Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`.
    pub fn prune_conflict(&self) -> Option<String> {
        let lost = self.indexes.iter().filter(|kind| self.prune != Prune::Off && !kind.allows_prune());
        let why: Vec<String> = lost.map(|kind| format!("Prune mode is incompatible with -{}.", kind.name())).collect();
        (!why.is_empty()).then(|| why.join(" "))
    }

    /// Path of debug.log; `None` if the log is disabled.
    pub fn log_path(&self) -> Option<PathBuf> {
        let name = self.own_files.log.clone().unwrap_or_else(|| PathBuf::from("debug.log"));
        let is_wanted = !name.as_os_str().is_empty();
        is_wanted.then(|| self.datadir.join(self.params.chain.net_dir()).join(name))
    }
}

/// `-prune`: whether block files may be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prune {
    /// No file is removed, and a pruned data directory is refused.
    #[default]
    Off,
    /// Core's manual pruning, `-prune=1`: a pruned data directory is accepted, and files are removed only on request.
    Manual,
    /// Files are removed to keep about this much block and undo data.
    Target {
        /// Bytes, at least [`Prune::TARGET_BYTES_MIN`] as in Core.
        bytes: u64,
    },
}

impl Prune {
    /// Core's minimum target. Source: Bitcoin Core b88bffe, validation.h, `MIN_DISK_SPACE_FOR_BLOCK_FILES`.
    pub const TARGET_BYTES_MIN: u64 = 550 << 20;
}

/// File sizes, waiting times of a sync, and whether the cache follows free memory. Values that Core has too are Core's
/// by default; tests set others.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Maximum size of block files.
    pub limits: Limits,
    /// Bytes that pruning leaves free below its target.
    pub prune_buffer_bytes: u64,
    /// Maximum bytes of survivors of hints in memory before they are written as a run, however large the budget is.
    pub hinted_run_bytes_max: usize,
    /// Memory for inputs whose undo data a repair makes again at a time.
    pub undo_bytes_max: usize,
    /// Bytes of a packed file or a pipe that are imported in one piece.
    pub import_piece_bytes: usize,
    /// How long the pipeline waits for a block from peers before it ends the run.
    pub arrival_patience: Duration,
    /// Maximum number of blocks that a sync plans for one run of the pipeline.
    pub run_blocks_max: u32,
    /// Whether [`crate::pipeline::machine_memory`] chose [`Options::dbcache_bytes`] and keeps adjusting it to free
    /// memory.
    pub dbcache_follows: bool,
    /// `-checkblockindex`: checks the block index after this many changes of the chain; 0 disables the check.
    pub check_block_index: u32,
    /// `-dbcrashratio`: coins are committed after each block, and the program ends in one of this number of commits; 0:
    /// never.
    #[cfg(feature = "regtest-tools")]
    pub crash_ratio: u32,
    /// `-maxtipage`: the initial block download lasts while the tip is older than this, in seconds.
    pub tip_age_max_s: u64,
}

impl Sizes {
    /// Whether coins are committed after each block.
    pub(crate) fn commits_each_block(&self) -> bool {
        #[cfg(feature = "regtest-tools")]
        return self.crash_ratio > 0;
        #[cfg(not(feature = "regtest-tools"))]
        return false;
    }
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            limits: Limits::default(),
            prune_buffer_bytes: store::prune::BUFFER_BYTES,
            hinted_run_bytes_max: usize::MAX,
            undo_bytes_max: 256 << 20,
            import_piece_bytes: 32 << 20,
            arrival_patience: ARRIVAL_PATIENCE,
            run_blocks_max: RUN_BLOCKS_MAX,
            dbcache_follows: false,
            check_block_index: 0,
            #[cfg(feature = "regtest-tools")]
            crash_ratio: 0,
            tip_age_max_s: crate::chain::headers::TIP_AGE_MAX_S,
        }
    }
}
