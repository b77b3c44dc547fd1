//! The jobs on a data directory. Each is a builder with defaults, and a method `run`.

use crate::error::{Error, ErrorKind};
use crate::events::{Event, Stop};
use crate::ids::BlockHash;
use node::jobs::{self, SyncOptions};
use node::machine_memory::MachineMemory;
use node::options::{IndexKind, Options, Prune};
use node::reporting::{Event as Told, JobReport as Report};
use primitives::Height;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Outbound connections of a sync, as in Core. Source: Bitcoin Core b88bffe, net.h, `MAX_OUTBOUND_FULL_RELAY_CONNECTIONS`.
const OUTBOUND_CONNECTIONS: usize = 8;
/// Level and number of blocks of Core's verifychain. Source: Bitcoin Core b88bffe, validation.h, `DEFAULT_CHECKLEVEL`,
/// `DEFAULT_CHECKBLOCKS`.
const CHECK_LEVEL: u8 = 3;
const CHECK_BLOCKS: u32 = 6;

/// An optional index, built and kept up to date with the chain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Index {
    /// `-txindex`: transactions by their ids.
    Transactions,
    /// `-blockfilterindex`: basic block filters. Source: BIP-0158.
    BlockFilters,
    /// `-coinstatsindex`: statistics of the UTXO set at each block.
    CoinStats,
    /// `-txospenderindex`: the transaction that spends an output.
    Spenders,
    /// `--silentpaymentindex`, which Core does not have: tweaks for receivers of silent payments. Source: BIP 352.
    SilentPayments,
}

impl Index {
    fn kind(self) -> IndexKind {
        match self {
            Index::Transactions => IndexKind::Tx,
            Index::BlockFilters => IndexKind::BlockFilter,
            Index::CoinStats => IndexKind::CoinStats,
            Index::Spenders => IndexKind::TxoSpender,
            Index::SilentPayments => IndexKind::SilentPayments,
        }
    }
}

/// How a successful job ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// The work is complete.
    Complete,
    /// A [`Stop`] ended it. All connected blocks are committed; the next job continues from there.
    Stopped,
    /// The chain ends below the best known one: the reason, and advice.
    Incomplete(String),
}

/// A record of a block file that does not contain a block, or whose body does not match its header.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DamagedRecord {
    /// The file.
    pub path: PathBuf,
    /// Offset in the file at which the damage begins: a record with its magic, or a body.
    pub offset: u64,
}

/// The result of a reindex or a sync.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct JobReport {
    /// How it ended.
    pub ended: Ended,
    /// Height of the last block that is connected and durable on disk.
    pub height: u32,
    /// Its hash.
    pub best_block: BlockHash,
    /// Height of the chain at the start of the job.
    pub height_start: u32,
    /// Number of connected blocks.
    pub blocks: u64,
    /// Number of their transactions.
    pub transactions: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of blocks that were rejected because they break a rule.
    pub blocks_invalid: u64,
    /// Damaged records of block files; if there are many, the first ones.
    pub damaged: Vec<DamagedRecord>,
    /// Duration in seconds.
    pub seconds: f64,
}

impl JobReport {
    fn of(report: Report) -> JobReport {
        let ended = match report.end_reason {
            _ if report.stopped => Ended::Stopped,
            Some(why) => Ended::Incomplete(why.to_string()),
            None => Ended::Complete,
        };
        let damaged = report.damaged.into_iter();
        let damaged = damaged.map(|record| DamagedRecord { path: record.path, offset: record.offset });
        JobReport {
            ended,
            height: report.height.to_u32(),
            best_block: report.best.into(),
            height_start: report.height_start.to_u32(),
            blocks: report.blocks,
            transactions: report.transactions,
            bytes: report.bytes,
            blocks_invalid: report.blocks_invalid,
            damaged: damaged.collect(),
            seconds: report.seconds,
        }
    }
}

/// The event callback of a job.
type Callback<'a> = Box<dyn Fn(Event) + Send + Sync + 'a>;

/// The state that all jobs share: options, callback, stop token.
struct Job<'a> {
    options: Options,
    on_event: Option<Callback<'a>>,
}

impl Job<'_> {
    fn new(mut options: Options) -> Self {
        options.dbcache_bytes = usize::try_from(MachineMemory::default().cache_bytes(0)).unwrap_or(usize::MAX);
        options.sizes.dbcache_follows = true;
        Job { options, on_event: None }
    }

    fn tell(&self, told: Told) {
        if let Some(callback) = &self.on_event {
            callback(Event::of(told));
        }
    }

    /// Warns about missing features of the file system, for a job that writes, and logs the warning to debug.log.
    fn tell_lacking(&mut self) {
        if let Some(lacking) = jobs::file_system_warning(&self.options) {
            self.tell(Told::Warning(lacking.to_string()));
            self.options.warnings.push(lacking.to_string());
        }
    }
}

/// Methods of all jobs.
macro_rules! shared_methods {
    ($job:ident) => {
        impl<'a> $job<'a> {
            /// Calls `callback` with each event, from several threads. A slow callback slows the job down.
            pub fn on_event(mut self, callback: impl Fn(Event) + Send + Sync + 'a) -> Self {
                self.job.on_event = Some(Box::new(callback));
                self
            }

            /// Ends the job early once this token is stopped.
            pub fn stop(mut self, stop: &Stop) -> Self {
                self.job.options.stop = stop.flag();
                self
            }

            /// Memory for coins, blocks in flight and table indexes, in bytes: Core's `-dbcache`. The default is half
            /// of the free memory of the machine and its cgroups, and is adjusted during the job.
            pub fn cache_bytes(mut self, bytes: usize) -> Self {
                self.job.options.dbcache_bytes = bytes;
                self.job.options.sizes.dbcache_follows = false;
                self
            }
        }

        impl fmt::Debug for $job<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($job)).field("path", &self.job.options.datadir).finish_non_exhaustive()
            }
        }
    };
}

/// Methods of jobs that connect blocks.
macro_rules! connecting_methods {
    ($job:ident) => {
        impl<'a> $job<'a> {
            /// Assumes that scripts of this block and its ancestors are valid: Core's `-assumevalid`. The default is
            /// the block that Core assumes valid.
            pub fn assume_valid(mut self, block: BlockHash) -> Self {
                self.job.options.assumevalid = block.inner();
                self
            }

            /// Verifies every script: Core's `-assumevalid=0`.
            pub fn verify_all_scripts(mut self) -> Self {
                self.job.options.assumevalid = primitives::BlockHash::ZERO;
                self
            }

            /// Ends after the block at this height: Core's `-stopatheight`.
            pub fn stop_at_height(mut self, height: u32) -> Self {
                self.job.options.stop_at_height = Some(Height::new(height)).filter(|height| *height > Height::GENESIS);
                self
            }

            /// Removes block files so that about this many bytes of block and undo data remain: Core's `-prune`. The
            /// minimum is 550 MiB.
            pub fn prune_to(mut self, bytes: u64) -> Self {
                self.job.options.prune = Prune::Target { bytes };
                self
            }

            /// Builds an optional index and keeps it up to date.
            pub fn index(mut self, index: Index) -> Self {
                if !self.job.options.indexes.contains(&index.kind()) {
                    self.job.options.indexes.push(index.kind());
                }
                self
            }
        }
    };
}

/// Rejects contradictory options, in Core's words.
fn check(options: &Options) -> Result<(), Error> {
    if matches!(options.prune, Prune::Target { bytes } if bytes < Prune::TARGET_BYTES_MIN) {
        let why = format!("Prune configured below the minimum of {} MiB", Prune::TARGET_BYTES_MIN >> 20);
        return Err(Error::refused(why, "Use a higher number"));
    }
    options.prune_conflict().map_or(Ok(()), |why| Err(Error::refused(why, "Leave one of them out")))
}

/// Rebuilds a data directory from its block files: [`crate::DataDir::reindex`].
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/chain/folder.in"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = Folder::new("reindex"); let path = folder.path();
/// use ffwd_engine::{DataDir, Event, Network};
///
/// let dir = DataDir::open(path, Network::Regtest)?;
/// let report = dir
///     .reindex()
///     .verify_all_scripts()
///     .stop_at_height(50)
///     .on_event(|event| match event {
///         Event::Progress(progress) => eprintln!("height {} of {}", progress.height, progress.height_end),
///         Event::Warning(text) => eprintln!("warning: {text}"),
///         _ => {}
///     })
///     .run()?;
/// assert_eq!(report.height, 50);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done before `run`"]
pub struct ReindexJob<'a> {
    job: Job<'a>,
    coins_only: bool,
}

shared_methods!(ReindexJob);
connecting_methods!(ReindexJob);

impl ReindexJob<'_> {
    pub(crate) fn new(options: Options) -> Self {
        ReindexJob { job: Job::new(options), coins_only: false }
    }

    /// Rebuilds only the UTXO set: Core's `-reindex-chainstate`. The old one stays until the new one is complete.
    pub fn coins_only(mut self) -> Self {
        self.coins_only = true;
        self
    }

    /// Runs the job on the calling thread.
    ///
    /// # Errors
    ///
    /// The data directory is in use, it has no block files, its block files end below its UTXO set, or an I/O error. A
    /// block that breaks a rule does not cause an error: [`JobReport::blocks_invalid`].
    ///
    /// Source: Bitcoin Core b88bffe, node/blockstorage.cpp, `ImportBlocks`.
    pub fn run(mut self) -> Result<JobReport, Error> {
        check(&self.job.options)?;
        self.job.tell_lacking();
        let done = jobs::reindex(&self.job.options, self.coins_only, &|told| self.job.tell(told));
        Ok(JobReport::of(done?))
    }
}

/// Downloads blocks and connects them: [`crate::DataDir::sync`].
///
/// By default it finds peers as bitcoind does, and ends at the tip of their best chain.
///
/// ```no_run
/// use ffwd_engine::{DataDir, Network};
///
/// let dir = DataDir::open("/home/me/.bitcoin", Network::Signet)?;
/// let report = dir.sync().connect(["127.0.0.1:38333"]).run()?;
/// println!("{} blocks, up to height {}", report.blocks, report.height);
/// # Ok::<(), ffwd_engine::Error>(())
/// ```
#[must_use = "nothing is done before `run`"]
pub struct SyncJob<'a> {
    job: Job<'a>,
    sync: SyncOptions,
    snapshot: Option<PathBuf>,
}

shared_methods!(SyncJob);
connecting_methods!(SyncJob);

impl SyncJob<'_> {
    pub(crate) fn new(options: Options) -> Self {
        let sync = SyncOptions {
            connect: None,
            exit_at_tip: true,
            dnsseed: true,
            outbound: OUTBOUND_CONNECTIONS,
            ..SyncOptions::alone()
        };
        SyncJob { job: Job::new(options), sync, snapshot: None }
    }

    /// Connects only to these peers, each `HOST` or `HOST:PORT`; an empty list disables connections: Core's
    /// `-connect`.
    pub fn connect(mut self, peers: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.sync.connect = Some(peers.into_iter().map(Into::into).collect());
        self.sync.dnsseed = false;
        self
    }

    /// Also connects to this peer: Core's `-addnode`.
    pub fn add_node(mut self, peer: impl Into<String>) -> Self {
        self.sync.addnode.push(peer.into());
        self
    }

    /// Accepts connections from peers at this address: Core's `-bind`.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.sync.listen.push(address);
        self
    }

    /// Connects through this SOCKS5 proxy: Core's `-proxy`.
    pub fn proxy(mut self, address: impl Into<String>) -> Self {
        self.sync.proxy = Some(address.into());
        self
    }

    /// Disables DNS seeds: Core's `-dnsseed=0`.
    pub fn without_dns_seeds(mut self) -> Self {
        self.sync.dnsseed = false;
        self
    }

    /// Follows the chain after it reached the tip, until the job is stopped.
    pub fn follow(mut self) -> Self {
        self.sync.exit_at_tip = false;
        self
    }

    /// Starts from this snapshot of the UTXO set, a file of Core's `dumptxoutset`: syncs from there to the tip, then
    /// validates the past. Core's `loadtxoutset`; the file's hash must be one that Core has in its source.
    pub fn snapshot(mut self, file: impl AsRef<Path>) -> Self {
        self.snapshot = Some(file.as_ref().to_path_buf());
        self
    }

    /// Runs the job on the calling thread.
    ///
    /// # Errors
    ///
    /// The data directory is unusable, an address is malformed, a snapshot is rejected, or an I/O error. Peers cause
    /// no error.
    pub fn run(mut self) -> Result<JobReport, Error> {
        check(&self.job.options)?;
        self.check_peers()?;
        self.job.tell_lacking();
        let from = jobs::FromSnapshot { file: self.snapshot.clone(), ..jobs::FromSnapshot::default() };
        let done = jobs::sync_from(&self.job.options, &self.sync, &from, &|told| self.job.tell(told));
        Ok(JobReport::of(done?))
    }

    fn check_peers(&self) -> Result<(), Error> {
        let port = self.job.options.params.default_port;
        let all = self.sync.connect.iter().flatten().chain(&self.sync.addnode).chain(&self.sync.proxy);
        for address in all {
            let refused = |why: String| Error::refused(format!("{address}: {why}"), "Name a peer as HOST or HOST:PORT");
            jobs::check_peer_address(address, port).map_err(refused)?;
        }
        if self.sync.exit_at_tip && self.sync.seeks_none() && self.job.options.stop_at_height.is_none() {
            let why = "a sync without peers never reaches the tip of their chain";
            return Err(Error::refused(why, "Name a peer, or follow the chain until the sync is stopped"));
        }
        Ok(())
    }
}

/// Checks the last blocks of the chain: [`crate::DataDir::verify`]. Nothing is written.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/chain/folder.in"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = Folder::new("verify"); let path = folder.path();
/// use ffwd_engine::{DataDir, Network};
///
/// let dir = DataDir::open(path, Network::Regtest)?;
/// dir.reindex().run()?;
/// let report = dir.verify().level(4).all_blocks().run()?;
/// assert_eq!((report.blocks, report.level), (107, 4));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is done before `run`"]
pub struct VerifyJob<'a> {
    job: Job<'a>,
    level: u8,
    blocks: u32,
}

shared_methods!(VerifyJob);

/// The blocks that [`VerifyJob::run`] checked.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of blocks checked, from the tip down. Fewer than requested if the chain is shorter or pruned.
    pub blocks: u32,
    /// Level of the checks.
    pub level: u8,
    /// Number of transactions in these blocks.
    pub transactions: u64,
    /// Height of the tip.
    pub height: u32,
    /// Its hash.
    pub best_block: BlockHash,
    /// Duration in seconds.
    pub seconds: f64,
}

impl VerifyJob<'_> {
    pub(crate) fn new(options: Options) -> Self {
        VerifyJob { job: Job::new(options), level: CHECK_LEVEL, blocks: CHECK_BLOCKS }
    }

    /// Thoroughness, as Core's `checklevel` (default 3): 0 reads blocks, 1 checks them without context, 2 reads their
    /// undo data, 3 disconnects them in memory, 4 connects them again, with all scripts that are not assumed valid.
    pub fn level(mut self, level: u8) -> Self {
        self.level = level;
        self
    }

    /// Number of blocks including the tip, as Core's `nblocks` (default 6).
    pub fn blocks(mut self, blocks: u32) -> Self {
        self.blocks = blocks.max(1);
        self
    }

    /// Checks all blocks of the chain.
    pub fn all_blocks(mut self) -> Self {
        self.blocks = 0;
        self
    }

    /// Verifies every script at level 4: Core's `-assumevalid=0`.
    pub fn verify_all_scripts(mut self) -> Self {
        self.job.options.assumevalid = primitives::BlockHash::ZERO;
        self
    }

    /// Runs the job on the calling thread.
    ///
    /// # Errors
    ///
    /// The first defect found; [`ErrorKind::Stopped`] if the job was stopped before its end.
    ///
    /// Source: Bitcoin Core b88bffe, validation.cpp, `CVerifyDB::VerifyDB`.
    pub fn run(self) -> Result<VerifyReport, Error> {
        if self.level > 4 {
            let why = format!("there is no level {} of verification", self.level);
            return Err(Error::refused(why, "Name one from 0 to 4"));
        }
        let done = jobs::verify(&self.job.options, self.level, self.blocks, &|told| self.job.tell(told));
        let report = done.map_err(Error::from).map_err(|why| match why.kind() {
            ErrorKind::Refused if self.job.options.stop.load(Ordering::SeqCst) => why.into_stopped(),
            _ => why,
        })?;
        Ok(VerifyReport {
            blocks: report.blocks,
            level: report.level,
            transactions: report.transactions,
            height: report.height.to_u32(),
            best_block: report.best.into(),
            seconds: report.seconds,
        })
    }
}
