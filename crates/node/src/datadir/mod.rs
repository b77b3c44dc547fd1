//! A data directory at work: what the engine reads from and writes to.
//!
//! Order of durability, always: block and undo data, then the index, then the coins.
//! Absent on purpose: formats (`store`), which chain (`engine`).

mod backend;
mod bench;
mod compaction;
mod index_writer;
pub mod open;
pub(crate) mod prune;
mod room;

use crate::atomic_height::AtomicHeight;
use crate::block::Checked;
use crate::fault::Fault;
use crate::index::{Headers, SharedIndex};
use crate::log::Log;
use crate::options::{Event, Options, Progress};
use crate::stats::Snapshot;
use crate::tree::NodeId;
use consensus::{BlockError, Params};
use primitives::{BlockHash, Height};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};
use store::blockfiles::{BlockAt, BlockBytes, BlockFiles, BlockWriter, BulkReader, Pool};
use store::chainstate::{Chainstate, CoinsCommit, CoinsCompaction};
use store::index::BlockIndex as IndexDb;
use store::locks::FolderLocks;
use store::undofiles::{UndoFiles, UndoWriter};
use store::{FileInfos, Layout};

use crate::block::BlockContext;

/// Progress is told so often.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of the buffers in which blocks are read together.
const READ_BYTES: usize = 4 << 20;

/// What a data directory is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Blocks are added, and everything is written.
    Work,
    /// The UTXO set alone is rebuilt: what the index says of blocks and undo data stands, as far as it goes, and rules
    /// that Core does not check again then are not checked.
    RebuildCoins,
    /// Nothing may be written: `verify`.
    ReadOnly,
}

/// A data directory that is open for work.
pub struct Folder<'e> {
    /// The network's rules.
    pub params: &'e Params,
    /// What was asked for.
    pub options: &'e Options,
    /// Where things lie.
    pub layout: Layout,
    /// Every known block.
    pub index: Arc<SharedIndex>,
    /// Block files, for reading.
    pub files: Arc<BlockFiles>,
    /// What happened, and who is told.
    pub teller: Teller<'e>,
    pub(crate) disk: Arc<dyn disk::Disk>,
    pub(crate) key: store::xor::Key,
    pub(crate) coins: Chainstate,
    pub(crate) index_db: IndexDb,
    /// Held while the index is written, so that older entries never follow newer ones.
    pub(crate) index_write: Mutex<()>,
    pub(crate) merge: Mutex<Option<Arc<CoinsCompaction>>>,
    /// A commit waits for it.
    pub(crate) merge_is_needed: AtomicBool,
    pub(crate) waits: room::Waits,
    pub(crate) undo_files: UndoFiles,
    pub(crate) writers: Arc<Mutex<Writers>>,
    pub(crate) source: Mutex<Source>,
    /// Buffers of what is read.
    pub(crate) pool: Arc<Pool>,
    pub(crate) commit: RwLock<Option<CoinsCommit>>,
    pub(crate) last_flush: Mutex<Instant>,
    pub(crate) bench: Mutex<bench::Bench>,
    pub(crate) mode: Mode,
    /// Blocks refused since this was looked at, for peers.
    pub(crate) newly_refused: Mutex<Vec<(BlockHash, String)>>,
    pub(crate) pruning: prune::Pruning,
    /// Blocks that come from peers while they are connected.
    pub(crate) arrivals: Option<Arc<crate::arrivals::Arrivals>>,
    pub(crate) _locks: FolderLocks,
}

/// What is appended to.
pub(crate) struct Writers {
    pub(crate) infos: FileInfos,
    pub(crate) undo: UndoWriter,
    pub(crate) blocks: Option<BlockWriter>,
    /// The index says that block files were pruned, or is about to.
    pub(crate) is_pruned: bool,
}

/// Blocks on their way from the files to the pipeline.
pub(crate) struct Source {
    pub(crate) plans: VecDeque<BlockContext>,
    /// Bytes, and what checking them gave where they came from a peer just now.
    pub(crate) ready: VecDeque<(BlockBytes, Option<Arc<Checked>>)>,
    pub(crate) reader: BulkReader,
}

/// Stands for the number of peers where nobody is connected to.
const NO_NETWORK: u32 = u32::MAX;

/// Tells the user and the log what happens.
pub struct Teller<'e> {
    events: crate::options::Events<'e>,
    log: Log,
    start: Instant,
    last: Mutex<Instant>,
    /// Height of the last connected block.
    pub height: AtomicHeight,
    /// Height where the work ends.
    pub height_end: AtomicHeight,
    /// Bytes of blocks done.
    pub bytes: AtomicU64,
    /// Bytes of blocks there are to do.
    pub bytes_end: AtomicU64,
    /// Blocks connected.
    pub blocks: AtomicU64,
    /// Blocks refused.
    pub invalid: AtomicU64,
    /// Transactions up to the last connected block, genesis included.
    pub transactions: AtomicU64,
    /// Bodies that proved to be none, of which there is no other copy.
    pub lost: AtomicU64,
    /// Peers; `NO_NETWORK` for a job without them.
    pub peers: AtomicU32,
    /// Height of the best header.
    pub headers: AtomicHeight,
    /// Height that the furthest presync has reached; 0 while there is none.
    pub presync: AtomicHeight,
    /// Set once stopping has been said.
    said_stop: AtomicBool,
}

impl<'e> Teller<'e> {
    /// A teller that writes the log, too.
    pub fn new(events: crate::options::Events<'e>, log: Log) -> Teller<'e> {
        Teller {
            events,
            log,
            start: Instant::now(),
            last: Mutex::new(Instant::now()),
            height: AtomicHeight::default(),
            height_end: AtomicHeight::default(),
            bytes: AtomicU64::new(0),
            bytes_end: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            invalid: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            peers: AtomicU32::new(NO_NETWORK),
            headers: AtomicHeight::default(),
            presync: AtomicHeight::default(),
            said_stop: AtomicBool::new(false),
        }
    }

    /// Something that happens.
    pub fn note(&self, text: impl Into<String>) {
        let text = text.into();
        self.log.line(&text);
        (self.events)(Event::Note(text));
    }

    /// Something that is not as it should be.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        self.log.line(&format!("[warning] {text}"));
        (self.events)(Event::Warning(text));
    }

    /// A block that is not taken; `counts` says that the block is refused, and not this body of it alone.
    pub fn refused(&self, height: Height, hash: BlockHash, error: &dyn std::fmt::Display, counts: bool) {
        let why = error.to_string();
        self.log.line(&format!("[error] Block validation error: {why}"));
        if counts {
            self.log.line(&format!("InvalidChainFound: invalid block={hash} height={height}"));
            self.invalid.fetch_add(1, Relaxed);
        }
        (self.events)(Event::Refused { height, hash, why });
    }

    /// The log alone.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Tells how far it is, if that was not told just now.
    pub fn progress(&self, stats: impl FnOnce() -> Snapshot) {
        let mut last = self.last.lock().expect("nobody panics with it");
        if last.elapsed() >= PROGRESS_INTERVAL {
            *last = Instant::now();
            (self.events)(Event::Progress(Box::new(Progress {
                height: self.height.load(Relaxed),
                height_end: self.height_end.load(Relaxed),
                bytes: self.bytes.load(Relaxed),
                bytes_end: self.bytes_end.load(Relaxed),
                seconds: self.seconds(),
                stats: stats(),
                peers: Some(self.peers.load(Relaxed)).filter(|&peers| peers != NO_NETWORK),
                headers: self.headers.load(Relaxed),
                presync: Some(self.presync.load(Relaxed)).filter(|&height| height > Height::GENESIS),
            })));
        }
    }
}

impl Folder<'_> {
    /// The headers, to be read: see [`SharedIndex::read`].
    pub(crate) fn headers(&self) -> Headers<'_> {
        self.index.headers()
    }

    pub(crate) fn height_and_hash(&self, id: NodeId) -> (Height, BlockHash) {
        let tree = self.headers();
        (tree.height(id), tree.hash(id))
    }

    pub(crate) fn height_and_time(&self, id: NodeId) -> (Height, u32) {
        let tree = self.headers();
        (tree.height(id), tree.time(id))
    }

    pub(crate) fn writers(&self) -> MutexGuard<'_, Writers> {
        self.writers.lock().expect("nobody panics with it")
    }

    /// Where a block lies.
    pub fn place(&self, id: NodeId) -> Option<BlockAt> {
        self.index.read().place(id)
    }

    /// Says once that it stops on demand, in the log; the person who asked for it was told by whom he asked.
    pub(crate) fn is_stopping(&self) -> bool {
        let stop = self.options.stop.load(Relaxed);
        if stop && !self.teller.said_stop.swap(true, Relaxed) {
            self.teller.log().line("Stopping: what is connected is committed first");
        }
        stop
    }

    /// The chain up to `tip` is connected, and counts as complete: its bodies there or pruned.
    pub(crate) fn set_active(&self, tip: NodeId) {
        let is_pruned = self.writers().is_pruned;
        let mut index = self.index.write();
        index.set_active(tip);
        if is_pruned {
            index.complete_active();
        }
        self.teller.height.store(index.headers().height(tip), Relaxed);
    }

    pub(crate) fn say_refused(&self, id: NodeId, error: &BlockError) {
        let (height, hash) = self.height_and_hash(id);
        self.teller.refused(height, hash, error, true);
        self.newly_refused.lock().expect("nobody panics with it").push((hash, error.to_string()));
    }

    /// Commits what is in memory when that is due by time or memory, or makes room on the disk.
    pub(crate) fn commit_if_due(&self, engine: &mut crate::engine::Engine<'_>) -> Result<(), Fault> {
        let late = self.last_flush.lock().expect("nobody panics with it").elapsed() > self.options.commit_interval;
        let is_wanted = late || engine.pipeline.is_full();
        if (is_wanted && engine.pipeline.has_changes()) || self.prune_is_due() {
            engine.pipeline.flush(engine.tip_and_hash())?;
        }
        Ok(())
    }
}
