//! What the engine's jobs are told, and what they tell: options, events, results. Plain values.

use crate::fault::Message;
use crate::pipeline::stats::Snapshot;
use crate::reporting::state::{Limit, SessionState};
pub use crate::utxo_stats::setstats::{SetStats, Tally};
use coins::Totals;
use consensus::Params;
use disk::{Disk, RealDisk};
pub use indexes::IndexKind;
use primitives::{BlockHash, Hash256, Height, Work};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
pub use store::blockfiles::Limits;

/// Time from the begin of one commit to that of the next: ten minutes of work at most would be lost, and writing a
/// commit takes its part of them.
pub const COMMIT_INTERVAL: Duration = Duration::from_secs(480);

/// Cache of a job that sets none. Source: Bitcoin Core b88bffe, kernel/caches.h, `DEFAULT_KERNEL_CACHE`.
pub const DBCACHE_BYTES: usize = 450 << 20;

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

/// Files of the program, beside those of the chain. Names are relative to the network's directory.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    /// `-debuglogfile`; empty: none is written. None: debug.log.
    pub log: Option<PathBuf>,
    /// `-pid`; with `None` no file is written.
    pub pid: Option<PathBuf>,
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
        /// Bytes; Core takes 550 MiB and more.
        bytes: u64,
    },
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
            arrival_patience: crate::session::inbox::PATIENCE,
            dbcache_follows: false,
            check_block_index: 0,
            tip_age_max_s: crate::chain::headers::TIP_AGE_MAX_S,
        }
    }
}

/// Which hash of the set is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetHash {
    /// None: only counts.
    #[default]
    None,
    /// Core's `hash_serialized_3`.
    Serialized,
    /// Core's `muhash`.
    Muhash,
}

/// Bytes of a coin beside its script, in gettxoutsetinfo's `bogosize`.
pub(crate) const BOGO_BYTES: u64 = 50;

/// What gettxoutsetinfo says of a set.
#[derive(Clone, Debug, Default)]
pub struct SetInfo {
    /// Height of the set's block.
    pub height: Height,
    /// Hash of it.
    pub best: BlockHash,
    /// Transactions that have coins in the set, where the coins were counted.
    pub transactions: Option<u64>,
    /// Coins.
    pub txouts: u64,
    /// Sum over coins of 50 + script length.
    pub bogosize: u64,
    /// Sum of amounts, in satoshis.
    pub total_amount: i64,
    /// The hash that was asked for.
    pub hash: Option<(&'static str, Hash256)>,
    /// Bytes of the chainstate on disk.
    pub disk_size: u64,
    /// What the set is made of, where that was asked for.
    pub stats: Option<SetStats>,
}

impl SetInfo {
    /// A set whose coins add up to this; height, best block and bytes on disk are the caller's to fill in.
    pub(crate) fn of(totals: Totals) -> SetInfo {
        SetInfo {
            txouts: totals.coins,
            bogosize: totals.coins.wrapping_mul(BOGO_BYTES).wrapping_add(totals.script_bytes),
            total_amount: totals.amount as i64,
            ..SetInfo::default()
        }
    }

    /// What its coins add up to.
    pub(crate) fn totals(&self) -> Totals {
        let script_bytes = self.bogosize.wrapping_sub(self.txouts.wrapping_mul(BOGO_BYTES));
        Totals { coins: self.txouts, script_bytes, amount: self.total_amount as u64 }
    }
}

/// What a reindex, rebuild, import or sync did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Height of the last block that is connected and durable.
    pub height: Height,
    /// Its hash.
    pub best: BlockHash,
    /// Height at which the work was taken up.
    pub height_start: Height,
    /// Blocks refused because they break a rule.
    pub blocks_invalid: u64,
    /// Blocks connected.
    pub blocks: u64,
    /// Transactions of them.
    pub transactions: u64,
    /// Bytes of them; of a job that only reads, of the blocks that it read.
    pub bytes: u64,
    /// Seconds from the start to the last commit durable.
    pub seconds: f64,
    /// It was stopped before its end.
    pub stopped: bool,
    /// Height and hash of blocks that peers announced and none gave: their chains were not followed.
    pub undelivered: Vec<(Height, BlockHash)>,
    /// Height of the best header that is not refused.
    pub headers: Height,
    /// Records of block files that are damaged, of many the first ones.
    pub damaged: Vec<DamagedRecord>,
    /// Why the chain ends below the best one; `None` where that is reached, or was not to be.
    pub end_reason: Option<Message>,
    /// What the session did or waited for when it ended.
    pub state: SessionState,
    /// Where the time went.
    pub stats: Snapshot,
}

/// A record of a block file that is no block, or whose body is not its header's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DamagedRecord {
    /// The file.
    pub path: PathBuf,
    /// Where in it the damage begins: a record with its magic, or a body.
    pub offset: u64,
}

/// What a job says while it works.
#[derive(Clone, Debug)]
pub enum Event {
    /// A line for the user and the log: what begins, what was found.
    Note(String),
    /// Something that is not as it should be, and what it costs.
    Warning(String),
    /// A block was refused, or a body lost.
    Refused {
        /// Where it would have stood.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Core's reason, and where.
        why: String,
        /// Whether people are to see it: not where peers cause too many such lines.
        is_shown: bool,
    },
    /// A sync has its peers' thread, and follows the chain from here on.
    Ready,
    /// The chain has come to rest at another block.
    Tip {
        /// Its height.
        height: Height,
        /// Its hash.
        hash: BlockHash,
        /// Whether the initial block download goes on.
        initial_download: bool,
    },
    /// How far it is; a few times a second.
    Progress(Box<Progress>),
}

/// How far a job is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Height of the last connected block.
    pub height: Height,
    /// Height where it ends, as far as is known.
    pub height_end: Height,
    /// Bytes of blocks that are done, and that there are: the measure of work.
    pub bytes: u64,
    /// See `bytes`.
    pub bytes_end: u64,
    /// Seconds since the start.
    pub seconds: f64,
    /// The counters.
    pub stats: Snapshot,
    /// Peers, of a job that has to do with them.
    pub peers: Option<u32>,
    /// Height of the best header, while there are peers.
    pub headers: Height,
    /// Height up to which a header chain was looked at whose work is not known to be enough; none of it is kept yet.
    pub presync: Option<Height>,
    /// The last blocks connected, the newest last.
    pub recent: Vec<RecentBlock>,
    /// What this part of the work does.
    pub phase: &'static str,
    /// Whether the initial block download is over, of a job that follows the chain.
    pub is_current: bool,
    /// What limits the work, once measured.
    pub limit: Option<Limit>,
    /// What the session does, or waits for: what everybody is shown.
    pub state: SessionState,
    /// Bytes a second that the download budget allows in the mean; any number without.
    pub download_rate_max: Option<f64>,
    /// Whether this part of the work has ended: what comes before the next one may take long, and says nothing.
    pub is_last: bool,
}

/// A block that was connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentBlock {
    /// Its height.
    pub height: Height,
    /// Its hash.
    pub hash: BlockHash,
    /// Its time, seconds since 1970.
    pub time: u32,
    /// Its transactions.
    pub transactions: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Who is told.
pub type Events<'a> = &'a (dyn Fn(Event) + Sync);
