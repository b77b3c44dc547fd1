//! Supplies the pipeline with blocks: from memory if they came from peers just now, otherwise from the files.
//!
//! Its lock is used only by the thread that runs the pipeline, which may sleep while holding it. It comes first in the
//! lock order.

use crate::chain::block::{BlockContext, Checked};
use crate::chain::index::SharedIndex;
use crate::chain::tree::NodeId;
use crate::fault::Fault;
use crate::options::Options;
use crate::pipeline::machine_memory::MachineMemory;
use crate::threads::locks::lock;
use primitives::Height;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use store::blockfiles::{BlockAt, BlockBytes, BlockFiles, BulkReader, Pool};

/// Size of the buffers into which blocks are read together, in bytes.
const READ_BYTES: usize = 4 << 20;
/// Divisor: the buffers may use one part in this many of the cache.
const CACHE_SHARE: usize = 16;
/// Number of buffers: a fixed part, and a part for each worker, so that no worker waits for the disk. More buffers cost
/// zeroed pages without benefit, and blocks would leave the processor's caches before they are decoded:
/// `bench/record/2026-11-22-core.md`.
const BUFFERS_AHEAD: usize = 8;
const BUFFERS_PER_WORKER: usize = 2;
const BUFFERS_MIN: usize = 3;
const BUFFERS_MAX: usize = 64;
/// Blocks of a run of fewer bytes are kept in the page cache, even if little memory is free.
const CACHED_BYTES_MIN: u64 = 16 << 20;
/// Maximum number of blocks in one read.
const BLOCKS_PER_READ: usize = 512;

/// The queue of blocks from peers that wait for the pipeline: the inbox of a session.
pub(crate) trait Inbox: Send + Sync {
    /// Waits until `is_there`, which is called again after each arrival. Returns `false` when patience ends or the wait
    /// is aborted.
    fn wait(&self, is_there: &dyn Fn() -> bool) -> bool;

    /// Takes the next block to connect, if it is here: its bytes, and the result of checking them.
    fn take(&self, height: Height, id: NodeId) -> Option<(BlockBytes, Arc<Checked>)>;

    /// Whether a block is in the queue.
    fn has(&self, height: Height, id: NodeId) -> bool;

    /// Reports that a block was stored or other news exists: wakes the waiting thread.
    fn arrived(&self);
}

/// Supplies the pipeline with blocks.
pub(crate) struct BlockFeed {
    /// The queue of blocks that arrive from peers during the run.
    pub(crate) arrivals: Option<Arc<dyn Inbox>>,
    /// The part of the free memory that coins and blocks in flight will use.
    dbcache_bytes: u64,
    /// Buffers for reading.
    pool: Arc<Pool>,
    state: Mutex<FeedState>,
}

struct FeedState {
    planned: VecDeque<BlockContext>,
    /// Bytes of blocks, with the result of checking them if they came from a peer just now.
    ready: VecDeque<(BlockBytes, Option<Arc<Checked>>)>,
    reader: BulkReader,
}

/// The next block.
pub(crate) struct Next {
    pub(crate) context: BlockContext,
    pub(crate) bytes: BlockBytes,
    pub(crate) checked: Option<Arc<Checked>>,
}

impl BlockFeed {
    /// Reads from `files`; the buffers are sized for the workers and the cache of `options`.
    pub(crate) fn new(files: Arc<BlockFiles>, options: &Options) -> BlockFeed {
        let dbcache_bytes = options.dbcache_bytes;
        let useful = (BUFFERS_AHEAD + BUFFERS_PER_WORKER * options.par).min(BUFFERS_MAX);
        let buffers = (dbcache_bytes / CACHE_SHARE / READ_BYTES).clamp(BUFFERS_MIN, useful);
        let pool = Pool::new(READ_BYTES, buffers, options.kernels);
        let reader = BulkReader::new(files, pool.clone());
        let state = FeedState { planned: VecDeque::new(), ready: VecDeque::new(), reader };
        BlockFeed { arrivals: None, dbcache_bytes: dbcache_bytes as u64, pool, state: Mutex::new(state) }
    }

    /// Whether blocks of this many bytes exceed the page cache. If so, they are dropped from it after reading, because
    /// the coin tables need the memory. The blocks of a small run are always kept there.
    fn exceed_memory(&self, bytes: u64) -> bool {
        bytes > CACHED_BYTES_MIN
            && MachineMemory::default().left().is_some_and(|left| bytes > left.saturating_sub(self.dbcache_bytes))
    }

    /// Bytes of the allocated buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pool.made_bytes()
    }

    /// Plans these blocks, and no others; `bytes` of them are in the files.
    pub(crate) fn start(&self, planned: Vec<BlockContext>, bytes: u64) {
        let mut state = lock(&self.state);
        state.reader.drop_behind(self.exceed_memory(bytes));
        (state.planned, state.ready) = (planned.into(), VecDeque::new());
    }

    /// The next planned block.
    pub(crate) fn first(&self) -> Option<NodeId> {
        lock(&self.state).planned.front().map(|block| block.node)
    }

    /// The next block: see [`crate::pipeline::Backend::next`]. `write_out` makes blocks that were just appended to the
    /// files readable. `is_asked` reports that other threads have requests, which ends the wait for a block.
    ///
    /// # Errors
    ///
    /// An I/O error.
    pub(crate) fn next(
        &self,
        index: &SharedIndex,
        write_out: impl FnOnce() -> Result<(), Fault>,
        is_asked: impl Fn() -> bool,
        is_wanted: &dyn Fn() -> bool,
        waited: &mut Duration,
    ) -> Result<Option<Next>, Fault> {
        let mut state = lock(&self.state);
        let state = &mut *state;
        if let Some(arrivals) = &self.arrivals
            && state.ready.is_empty()
        {
            let Some((height, next)) = state.planned.front().map(|block| (block.height, block.node)) else {
                return Ok(None);
            };
            let begun = Instant::now();
            let has_come = arrivals.wait(&|| is_asked() || index.read().place(next).is_some());
            *waited += begun.elapsed();
            if !has_come || is_asked() {
                return Ok(None);
            }
            state.ready.extend(arrivals.take(height, next).map(|(bytes, checked)| (bytes, Some(checked))));
        }
        if state.ready.is_empty() {
            let wanted = self.to_be_read(&state.planned, index);
            if wanted.is_empty() {
                return Ok(None);
            }
            write_out()?;
            let Some(read) = state.reader.read(&wanted, is_wanted, waited) else { return Ok(None) };
            for block in read {
                state.ready.push_back((block?, None));
            }
        }
        let (Some((bytes, checked)), Some(context)) = (state.ready.pop_front(), state.planned.pop_front()) else {
            return Ok(None);
        };
        Ok(Some(Next { context, bytes, checked }))
    }

    /// Places of the next blocks, up to one that is in memory or missing.
    fn to_be_read(&self, planned: &VecDeque<BlockContext>, index: &SharedIndex) -> Vec<BlockAt> {
        let is_kept =
            |block: &BlockContext| self.arrivals.as_ref().is_some_and(|kept| kept.has(block.height, block.node));
        let count = planned.iter().take(BLOCKS_PER_READ).take_while(|block| !is_kept(block)).count();
        let index = index.read();
        planned.iter().take(count).map_while(|block| index.place(block.node)).collect()
    }
}
