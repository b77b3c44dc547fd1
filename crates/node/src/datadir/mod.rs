//! An open data directory, which the engine reads from and writes to.
//!
//! It combines the block index, its writer, the coins, the feed of blocks and the reporter, each with its own lock; the
//! lock order is documented at the crate root. Data is always made durable in this order: block and undo data, then the
//! index, then the coins. Absent on purpose: formats (`store`), the choice of the chain (`engine`).

mod alerts;
mod backend;
mod catch_up;
pub(crate) mod coins_io;
#[cfg(feature = "regtest-tools")]
mod crash;
pub(crate) mod earlier;
pub(crate) mod feed;
pub(crate) mod kept_hints;
mod load;
pub mod lock;
pub(crate) mod look;
pub(crate) mod mounts;
mod on_snapshot;
pub mod pid_file;
pub(crate) mod prune;
pub(crate) mod refused;
pub(crate) mod scan;
pub(crate) mod seems;
pub mod store_block;
#[cfg(feature = "ablation")]
mod through_map;
mod tip;
pub(crate) mod turn;
pub(crate) mod unindexed;
pub(crate) mod writer;

pub(crate) use load::{apart, start_of};
pub(crate) use on_snapshot::PastTip;

use crate::chain::index::{BlockIndex, Headers, SharedIndex};
use crate::chain::tree::NodeId;
use crate::datadir::coins_io::CoinsIo;
use crate::datadir::feed::BlockFeed;
use crate::datadir::pid_file::PidFile;
use crate::datadir::turn::Turn;
use crate::datadir::writer::{BlockFileSetup, Writer};
use crate::fault::Fault;
use crate::indexing::Indexing;
#[cfg(feature = "regtest-tools")]
use crate::mempool::Mempool;
use crate::options::Options;
use crate::reporting::Reporter;
use crate::utxo_stats::set_totals::TotalsAlong;
use consensus::Params;
use kept_hints::KeptHints;
use lock::Locked;
use primitives::{BlockHash, Height};
use refused::RefusedFile;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use store::blockfiles::{BlockAt, BlockFiles};
use store::locks::DataDirLocks;
use store::private_files::PrivateDir;
use store::undofiles::UndoFiles;
use store::{Chainstate, FileInfos, Host, Layout};

/// Divisor: filters of the coins' tables may use one part in this many of the budget; the others are only in the page
/// cache.
const FILTER_SHARE: usize = 8;

/// Purpose for which a data directory is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// Blocks are added, and all files are written.
    Work,
    /// Only the UTXO set is rebuilt. The index's entries on blocks and undo data are kept, and rules that Core does not
    /// check again in this case are not checked.
    RebuildCoins,
    /// No file may be written: `verify`.
    ReadOnly,
}

/// The missing blocks of a loaded snapshot that is not validated, or of a pruned data directory that becomes archival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Assumed {
    /// The last of these blocks; a snapshot's base block.
    pub(crate) base: NodeId,
    /// Whether the open coins are those of the chain up to the base, instead of those from the snapshot on.
    pub(crate) is_past: bool,
    /// Why blocks up to the base are missing.
    pub(crate) origin: Origin,
}

/// Why blocks below the tip are missing and are connected on a second chainstate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// The coins come from a snapshot that is not validated.
    Snapshot,
    /// The blocks were pruned, and the data directory becomes archival. The coins are the directory's own.
    Pruned,
}

impl Assumed {
    /// Whether the open coins come from a snapshot that is not validated.
    pub(crate) fn is_on_snapshot(self) -> bool {
        !self.is_past && self.origin == Origin::Snapshot
    }
}

/// An open data directory.
pub(crate) struct DataDir<'e> {
    /// The network's rules.
    pub(crate) params: &'e Params,
    /// The options of the job.
    pub(crate) options: &'e Options,
    /// The paths.
    pub(crate) layout: Layout,
    /// Reports events to displays and the log.
    pub(crate) reporter: Reporter<'e>,
    pub(crate) mode: Mode,
    /// The loaded snapshot, while the blocks below it are not validated.
    pub(crate) assumed: Option<Assumed>,
    pub(crate) disk: Arc<dyn disk::Disk>,
    /// Disk, kernels, and spill files.
    pub(crate) host: Host,
    /// Every known block.
    pub(crate) index: Arc<SharedIndex>,
    pub(crate) writer: Arc<Writer>,
    /// Hints about signatures from one run to the next.
    pub(crate) kept_hints: Arc<KeptHints>,
    /// Reasons why blocks are marked as invalid.
    pub(crate) refused: Arc<RefusedFile>,
    pub(crate) coins: CoinsIo,
    /// Number of coins in memory after the last connected block.
    pub(crate) cached_coins: AtomicU64,
    /// Totals of the UTXO set.
    pub(crate) totals: Mutex<TotalsAlong>,
    pub(crate) feed: BlockFeed,
    /// Block files, opened for reading.
    pub(crate) files: Arc<BlockFiles>,
    pub(crate) undo_files: Arc<UndoFiles>,
    pub(crate) pruning: prune::Pruning,
    /// The maintained optional indexes, once they are open.
    pub(crate) indexing: Arc<OnceLock<Indexing>>,
    /// Changes of the chain since the start, for `-checkblockindex`.
    changes: AtomicU32,
    /// Unknown rules that miners activated, with the last block of the period for which they were computed.
    unknown_rules: Mutex<Option<(NodeId, Option<String>)>>,
    /// Declared before the locks, so that it is dropped first.
    _pid: Option<PidFile>,
    pub(crate) locks: Arc<DataDirLocks>,
    /// Decides when requests of other threads are served.
    pub(crate) turn: Arc<Turn>,
    /// Last connected block of the chain below a snapshot.
    pub(crate) past_tip: Arc<PastTip>,
    /// Other work has priority: the run ends between two blocks.
    pub(crate) yields: Arc<AtomicBool>,
    /// Whether blocks wait if their scripts would be verified only because headers have not arrived yet.
    pub(crate) awaits_headers: AtomicBool,
    /// A request is being served, which does not wait for headers.
    pub(crate) is_asked_to_connect: AtomicBool,
    /// Transactions of disconnected blocks, for a job that serves requests.
    #[cfg(feature = "regtest-tools")]
    pub(crate) mempool: Option<Arc<Mempool>>,
}

impl<'e> DataDir<'e> {
    /// Assembles a data directory from open databases.
    ///
    /// # Errors
    ///
    /// The directory of block files cannot be read.
    pub(crate) fn new(
        options: &'e Options,
        reporter: Reporter<'e>,
        locked: Locked,
        index_db: store::BlockTreeDb,
        chainstate: Chainstate,
        infos: FileInfos,
    ) -> Result<DataDir<'e>, Fault> {
        let Locked { disk, host, layout, locks, key, files, pid, .. } = locked;
        let params = &options.params;
        let network = lock::network(&options.params);
        let blocks_dir = layout.blocks_dir().to_path_buf();
        let limits = options.sizes.limits;
        let index = Arc::new(SharedIndex::new(BlockIndex::new(params)));
        let setup = BlockFileSetup { host: host.clone(), blocks_dir, network, key, limits };
        Ok(DataDir {
            params,
            options,
            reporter,
            mode: Mode::Work,
            assumed: None,
            writer: Arc::new(Writer::new(setup, index_db, index.clone(), infos)?),
            refused: Arc::new(RefusedFile::new(PrivateDir::new(disk.clone(), layout.private_dir()))),
            kept_hints: Arc::new(KeptHints::new(PrivateDir::new(disk.clone(), layout.private_dir()))),
            index,
            coins: CoinsIo::new(disk.clone(), chainstate, options.dbcache_bytes / FILTER_SHARE),
            cached_coins: AtomicU64::new(0),
            totals: Mutex::default(),
            feed: BlockFeed::new(files.clone(), options),
            undo_files: Arc::new(UndoFiles::new(&host, layout.blocks_dir(), &network, key)),
            pruning: prune::Pruning::default(),
            changes: AtomicU32::new(0),
            unknown_rules: Mutex::default(),
            indexing: Arc::default(),
            turn: Arc::default(),
            past_tip: Arc::default(),
            yields: Arc::default(),
            awaits_headers: AtomicBool::new(false),
            is_asked_to_connect: AtomicBool::new(false),
            #[cfg(feature = "regtest-tools")]
            mempool: None,
            files,
            disk,
            host,
            layout,
            _pid: pid,
            locks: Arc::new(locks),
        })
    }

    /// The headers, locked for reading: see [`SharedIndex::read`].
    pub(crate) fn headers(&self) -> Headers<'_> {
        self.index.headers()
    }

    pub(crate) fn height_and_hash(&self, id: NodeId) -> (Height, BlockHash) {
        let headers = self.headers();
        (headers.height(id), headers.hash(id))
    }

    /// Checks the invariants of the block index if `-checkblockindex` is due.
    pub(crate) fn check_index(&self) {
        let every = self.options.sizes.check_block_index;
        if every > 0 && self.changes.fetch_add(1, Relaxed).is_multiple_of(every) {
            self.index.read().invariants();
        }
    }

    /// The place of a block in the files.
    pub(crate) fn place(&self, id: NodeId) -> Option<BlockAt> {
        self.index.read().place(id)
    }

    /// Repeats `work` while the disk is full: see [`Reporter::with_room`].
    ///
    /// # Errors
    ///
    /// Those of [`Reporter::with_room`].
    pub(crate) fn with_room<R>(&self, work: impl FnMut() -> Result<R, store::Fault>) -> Result<R, Fault> {
        self.reporter.with_room(work)
    }

    /// Writes the changes of the index, and `reindexing` to its flag: see [`Writer::commit`].
    ///
    /// # Errors
    ///
    /// Those of [`Writer::commit`].
    pub(crate) fn write_index(&self, reindexing: Option<bool>) -> Result<(), Fault> {
        self.refused.keep(&self.index, &self.reporter)?;
        self.writer.commit(&self.reporter, reindexing)
    }

    /// Whether the job must end.
    pub(crate) fn stopping_now(&self) -> bool {
        self.reporter.is_stopping()
    }
}
