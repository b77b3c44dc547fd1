//! The state of a running job that any thread may read.

use crate::chain::headers;
use crate::chain::index::SharedIndex;
use crate::chain::tree::NodeId;
use crate::datadir::feed::Inbox;
use crate::datadir::writer::Writer;
use crate::datadir::{Assumed, DataDir, Origin};
use crate::fault::Fault;
use crate::indexing::Indexing;
use crate::options::{Clock, Options, Prune, unix_seconds};
use crate::pipeline::stats::Stats;
use crate::reporting::Figures;
use crate::reporting::alerts::Alerts;
use crate::reporting::log::Log;
use consensus::Params;
use disk::Disk;
use indexes::IndexKind;
use p2p::Network;
use primitives::BlockHash;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use store::Layout;
use store::blockfiles::BlockFiles;
use store::undofiles::UndoFiles;
use sys::spill::Spill;

/// Shared parts of a job. No method waits for the pipeline. Do not hold a lock from [`Live::index`] while formatting or
/// reading from disk.
pub struct Live {
    /// Every known block.
    pub index: Arc<SharedIndex>,
    /// Progress of the job.
    pub figures: Figures,
    /// Warnings about the chain.
    pub alerts: Arc<Alerts>,
    /// Time spent in each stage.
    pub stats: Arc<Stats>,
    /// The options of the job.
    pub options: Options,
    net_dir: PathBuf,
    blocks_dir: PathBuf,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) layout: Layout,
    pub(super) files: Arc<BlockFiles>,
    undo_files: Arc<UndoFiles>,
    pub(super) writer: Arc<Writer>,
    pub(super) indexing: Arc<OnceLock<Indexing>>,
    inbox: Arc<dyn Inbox>,
    assumed: Option<Assumed>,
    network: OnceLock<Arc<Network>>,
    log: Arc<Log>,
}

impl Live {
    /// The shared parts of an open data directory.
    pub(crate) fn of(datadir: &DataDir<'_>, stats: Arc<Stats>, inbox: Arc<dyn Inbox>) -> Live {
        Live {
            index: datadir.index.clone(),
            figures: datadir.reporter.figures(),
            alerts: datadir.reporter.alerts(),
            stats,
            options: datadir.options.clone(),
            net_dir: datadir.layout.net_dir().to_path_buf(),
            blocks_dir: datadir.layout.blocks_dir().to_path_buf(),
            disk: datadir.disk.clone(),
            layout: datadir.layout.clone(),
            files: Arc::new(datadir.files.seeing_names()),
            undo_files: Arc::new(datadir.undo_files.seeing_names()),
            writer: datadir.writer.clone(),
            indexing: datadir.indexing.clone(),
            inbox,
            assumed: datadir.assumed,
            network: OnceLock::new(),
            log: datadir.reporter.shared_log(),
        }
    }

    /// The network's rules.
    pub fn params(&self) -> &Params {
        &self.options.params
    }

    /// The network's directory, which contains debug.log.
    pub fn net_dir(&self) -> &Path {
        &self.net_dir
    }

    /// The directory of block and undo files.
    pub fn blocks_dir(&self) -> &Path {
        &self.blocks_dir
    }

    /// The clock of the job.
    pub fn clock(&self) -> Clock {
        self.options.clock
    }

    /// Seconds since 1970, by the clock of the job.
    pub fn unix_time(&self) -> u64 {
        unix_seconds(self.options.clock)
    }

    /// Writes a line to debug.log.
    pub fn log(&self, line: &str) {
        self.log.line(line);
    }

    /// The peer-to-peer network; `None` until it is started.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.get()
    }

    /// The base block of a snapshot while the blocks below it are not validated.
    pub fn assumed(&self) -> Option<NodeId> {
        self.assumed.filter(|assumed| assumed.origin == Origin::Snapshot).map(|assumed| assumed.base)
    }

    /// Whether pruned blocks are downloaded again, with which the directory becomes archival.
    pub fn is_archiving(&self) -> bool {
        self.assumed.is_some_and(|assumed| assumed.origin == Origin::Pruned)
    }

    /// Whether block files are removed now, or were earlier.
    pub fn is_pruned(&self) -> bool {
        self.options.prune != Prune::Off || self.writer.is_pruned()
    }

    /// Size of block and undo files in bytes. Source: Bitcoin Core b88bffe, `BlockManager::CalculateCurrentUsage`.
    pub fn usage_bytes(&self) -> u64 {
        self.writer.usage_bytes()
    }

    /// The stored bytes of a block; `None` if it was not stored or is pruned.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no record there.
    pub fn block(&self, id: NodeId) -> Result<Option<Vec<u8>>, Fault> {
        let place = self.index.read().place(id);
        let Some((at, size)) = place.and_then(|at| Some((at.file_pos()?, at.size))) else { return Ok(None) };
        // The block may still be in the writer's buffer.
        self.writer.write_out_blocks()?;
        match self.files.read_block(at) {
            Ok(mut bytes) => {
                bytes.truncate(size as usize);
                Ok(Some(bytes))
            }
            // The block may have been pruned meanwhile.
            Err(_) if self.index.read().place(id).is_none() => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The undo data of a connected block; `None` if it is missing or pruned. Genesis has no undo data.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no record there.
    pub fn undo(&self, id: NodeId) -> Result<Option<Spill>, Fault> {
        let place = || {
            let index = self.index.read();
            let parent = index.headers().parent(id)?;
            Some((index.body(id).undo()?, index.headers().hash(parent)))
        };
        let Some((at, prev)) = place() else { return Ok(None) };
        self.writer.write_out_undo()?;
        match self.undo_files.read(at, &prev) {
            Ok(undo) => Ok(Some(undo)),
            Err(_) if place().is_none() => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The optional indexes, each with its best block; `None` if it has no block yet.
    pub fn index_positions(&self) -> Vec<(IndexKind, Option<BlockHash>)> {
        let positions = self.indexing.get().map(Indexing::positions).unwrap_or_default();
        positions.into_iter().map(|(kind, _, best)| (kind, best)).collect()
    }

    /// Whether the tip has minimum work and is recent.
    /// Source: Bitcoin Core b88bffe, `CChain::IsTipRecent`.
    pub(crate) fn is_tip_current(&self) -> bool {
        let (work, time) = {
            let index = self.index.read();
            let tip = index.tip();
            (index.headers().work(tip), index.headers().time(tip))
        };
        let age = self.options.sizes.tip_age_max_s;
        !headers::is_initial(work, time, self.options.minimum_chain_work, age, self.unix_time())
    }

    /// Stores the network once it is started.
    pub(crate) fn set_network(&self, network: Arc<Network>) {
        // A job starts it once.
        let _ = self.network.set(network);
    }

    /// Wakes the job's thread if it waits for a block.
    pub(crate) fn wake(&self) {
        self.inbox.arrived();
    }
}
