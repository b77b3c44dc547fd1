//! What the engine's jobs are told: options. Plain values. What they tell is in `reporting`.

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

/// Time from the begin of one commit to that of the next: ten minutes of work at most would be lost, and writing a
/// commit takes its part of them.
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(480);

/// Cache of a job that sets none. Source: Bitcoin Core b88bffe, kernel/caches.h, `DEFAULT_KERNEL_CACHE`.
pub const DBCACHE_BYTES: usize = 450 << 20;

/// How long the pipeline waits for a block before it lets the run end, so that other things are looked at; and how long
/// who brings a block waits for room while nothing is taken.
pub(crate) const ARRIVAL_PATIENCE: Duration = Duration::from_millis(200);
/// Blocks that a sync plans for one run of the pipeline: what is planned costs memory and time for each.
pub(crate) const RUN_BLOCKS_MAX: u32 = 16_384;

/// Where the time comes from: the program gives the machine's clock, tests any other.
pub type Clock = fn() -> SystemTime;

/// Whole seconds since 1970; 0 before.
pub fn unix_seconds(clock: Clock) -> u64 {
    clock().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The machine's own file system.
pub fn real_disk() -> Arc<dyn Disk> {
    RealDisk::shared()
}

/// A disk whose files below `root` the program reads that listens on a Unix socket: `disk::ServedDisk`. It is only read.
pub fn served_disk(socket: &std::path::Path, root: &std::path::Path) -> Arc<dyn Disk> {
    disk::ServedDisk::new(socket, root).shared()
}

/// What all jobs have in common. Names are Core's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything lies: [`real_disk`], or a simulated one.
    pub disk: Arc<dyn Disk>,
    /// The data directory; the network's directory lies in it.
    pub datadir: PathBuf,
    /// `-blocksdir`, where block files lie elsewhere.
    pub blocksdir: Option<PathBuf>,
    /// The network.
    pub params: Params,
    /// `-dbcache`, in bytes: the budget for coins, blocks in flight, table indexes.
    pub dbcache_bytes: usize,
    /// `-par`: workers.
    pub par: usize,
    /// `--cpu`: what hashes, undoes obfuscation, and checks signatures.
    pub kernels: Kernels,
    /// `-assumevalid`: zero for none.
    pub assumevalid: BlockHash,
    /// `-minimumchainwork`.
    pub minimum_chain_work: Work,
    /// `-stopatheight`.
    pub stop_at_height: Option<Height>,
    /// `-prune`.
    pub prune: Prune,
    /// Time after which what is connected is committed: [`COMMIT_INTERVAL`].
    pub commit_interval: Duration,
    /// The machine's clock, [`SystemTime::now`], by which headers are judged; or another.
    pub clock: Clock,
    /// `-blocksxor`.
    pub blocksxor: bool,
    /// `-txindex`, `-blockfilterindex`, `-txospenderindex`, `-coinstatsindex`: the indexes that are kept with the chain.
    pub indexes: Vec<IndexKind>,
    /// `--debug bench`: a line a stage and block in debug.log.
    pub debug_bench: bool,
    /// `-logtimemicros`: times of debug.log in microseconds.
    pub log_time_micros: bool,
    /// Where the program's own files lie.
    pub own_files: OwnFiles,
    /// What the user is to know of the settings: written to debug.log.
    pub warnings: Vec<String>,
    /// Commit and compiler of the program, for the first line of debug.log.
    pub build: &'static str,
    /// Set by the first Ctrl-C: commit what is connected and stop.
    pub stop: Arc<AtomicBool>,
    /// How files grow.
    pub sizes: Sizes,
}

/// Asks a job to open its debug.log again, after a log rotation renamed the file. A clone asks the same job.
#[derive(Clone, Debug, Default)]
pub struct ReopenLog(Arc<AtomicU32>);

impl ReopenLog {
    /// The file is opened by its name before the next line.
    ///
    /// Source: Bitcoin Core b88bffe, `HandleSIGHUP`, `m_reopen_file`.
    pub fn ask(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// How often that was asked for.
    pub(crate) fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

/// Files of the program, beside those of the chain. Names are relative to the network's directory.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    /// `-debuglogfile`; empty: none is written. None: debug.log.
    pub log: Option<PathBuf>,
    /// `-pid`; with `None` no file is written.
    pub pid: Option<PathBuf>,
    /// Asks for the log to be opened again.
    pub reopen: ReopenLog,
    /// What the log says first: what happened before it was opened.
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

    /// Disk and kernels, for whatever opens files of the data directory; all bytes stay in memory.
    pub(crate) fn host(&self) -> Host {
        Host::new(self.disk.clone(), self.kernels)
    }

    /// Which of the indexes cannot be kept with `-prune`, in Core's words; `None` where all can.
    ///
    /// Source: Bitcoin Core b88bffe, init.cpp, `AppInitParameterInteraction`.
    pub fn prune_conflict(&self) -> Option<String> {
        let lost = self.indexes.iter().filter(|kind| self.prune != Prune::Off && !kind.allows_prune());
        let why: Vec<String> = lost.map(|kind| format!("Prune mode is incompatible with -{}.", kind.name())).collect();
        (!why.is_empty()).then(|| why.join(" "))
    }

    /// Where debug.log lies; `None` where none is written.
    pub fn log_path(&self) -> Option<PathBuf> {
        let name = self.own_files.log.clone().unwrap_or_else(|| PathBuf::from("debug.log"));
        let is_wanted = !name.as_os_str().is_empty();
        is_wanted.then(|| self.datadir.join(self.params.chain.net_dir()).join(name))
    }
}

/// `-prune`: whether block files may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prune {
    /// All files stay, and a data directory that was pruned is refused.
    #[default]
    Off,
    /// Core's manual pruning, `-prune=1`: a data directory that was pruned is taken, and nothing more is removed.
    Manual,
    /// Files are removed so that about this much block and undo data stays.
    Target {
        /// Bytes; Core takes [`Prune::TARGET_BYTES_MIN`] and more.
        bytes: u64,
    },
}

impl Prune {
    /// Least target of Core's. Source: Bitcoin Core b88bffe, validation.h, `MIN_DISK_SPACE_FOR_BLOCK_FILES`.
    pub const TARGET_BYTES_MIN: u64 = 550 << 20;
}

/// How files grow, how long a sync waits, and whether the cache follows the machine. What is Core's is so by default; tests take less, or more.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// How large block files become.
    pub limits: Limits,
    /// Room that pruning leaves below its target, in bytes.
    pub prune_buffer_bytes: u64,
    /// Bytes that survivors of hints may take before they are written as a run, whatever the budget allows.
    pub hinted_run_bytes_max: usize,
    /// Bytes of a packed file or a pipe that are imported at a time.
    pub import_piece_bytes: usize,
    /// How long the pipeline waits for a block from peers before other things are looked at.
    pub arrival_patience: Duration,
    /// Blocks that a sync plans for one run of the pipeline.
    pub run_blocks_max: u32,
    /// Whether [`Options::dbcache_bytes`] was chosen by [`crate::pipeline::machine_memory`], and follows what is left from then on.
    pub dbcache_follows: bool,
    /// `-checkblockindex`: the number of changes of the chain after which the block index is checked; 0: never.
    pub check_block_index: u32,
    /// `-maxtipage`: age of the tip, in seconds, above which the initial block download goes on.
    pub tip_age_max_s: u64,
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes {
            limits: Limits::default(),
            prune_buffer_bytes: store::prune::BUFFER_BYTES,
            hinted_run_bytes_max: usize::MAX,
            import_piece_bytes: 32 << 20,
            arrival_patience: ARRIVAL_PATIENCE,
            run_blocks_max: RUN_BLOCKS_MAX,
            dbcache_follows: false,
            check_block_index: 0,
            tip_age_max_s: crate::chain::headers::TIP_AGE_MAX_S,
        }
    }
}
