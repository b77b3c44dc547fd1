//! What any thread may read of a job while it works.

use crate::chain::headers;
use crate::chain::index::SharedIndex;
use crate::chain::tree::NodeId;
use crate::datadir::feed::Inbox;
use crate::datadir::writer::Writer;
use crate::datadir::{Assumed, DataDir};
use crate::fault::Fault;
use crate::indexing::Indexing;
use crate::options::{Clock, Options, Prune, unix_seconds};
use crate::pipeline::stats::Stats;
use crate::reporting::Figures;
use crate::reporting::alerts::Alerts;
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

/// A job's shared parts. None of its methods waits for the pipeline; a lock of the index that is taken through [`Live::index`]
/// must not be held while something is formatted or read from a disk.
pub struct Live {
    /// Every known block.
    pub index: Arc<SharedIndex>,
    /// How far the job is.
    pub figures: Figures,
    /// What is wrong with the chain.
    pub alerts: Arc<Alerts>,
    /// Where the time goes.
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
}

impl Live {
    /// The parts of a data directory that is open.
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
        }
    }

    /// The network's rules.
    pub fn params(&self) -> &Params {
        &self.options.params
    }

    /// Where this network's files lie; debug.log is one of them.
    pub fn net_dir(&self) -> &Path {
        &self.net_dir
    }

    /// Where block and undo files lie.
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

    /// The connections, once they are begun.
    pub fn network(&self) -> Option<&Arc<Network>> {
        self.network.get()
    }

    /// The base block of a snapshot whose past is not validated.
    pub fn assumed(&self) -> Option<NodeId> {
        self.assumed.map(|assumed| assumed.base)
    }

    /// Whether block files are removed, or were.
    pub fn is_pruned(&self) -> bool {
        self.options.prune != Prune::Off || self.writer.is_pruned()
    }

    /// Bytes of block and undo files. Source: Bitcoin Core b88bffe, `BlockManager::CalculateCurrentUsage`.
    pub fn usage_bytes(&self) -> u64 {
        self.writer.usage_bytes()
    }

    /// The bytes of a block as they are stored; `None` where they are not there (any more).
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has no record there.
    pub fn block(&self, id: NodeId) -> Result<Option<Vec<u8>>, Fault> {
        let place = self.index.read().place(id);
        let Some((at, size)) = place.and_then(|at| Some((at.file_pos()?, at.size))) else { return Ok(None) };
        // What was stored just now may still be in the writer's buffer.
        self.writer.write_out_blocks()?;
        match self.files.read_block(at) {
            Ok(mut bytes) => {
                bytes.truncate(size as usize);
                Ok(Some(bytes))
            }
            // Unless it was pruned meanwhile.
            Err(_) if self.index.read().place(id).is_none() => Ok(None),
            Err(why) => Err(why.into()),
        }
    }

    /// The undo data of a block that was connected; `None` where it is not there (any more). Genesis has none.
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

    /// The optional indexes that are kept, and the blocks that they stand at; `None` before genesis.
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

    /// Connections are begun.
    pub(crate) fn set_network(&self, network: Arc<Network>) {
        // A job begins them once.
        let _ = self.network.set(network);
    }

    /// Wakes the job's thread, where it waits for a block.
    pub(crate) fn wake(&self) {
        self.inbox.arrived();
    }
}
