//! The blocks that the pipeline takes next: from memory where they came from peers just now, else read from the files.
//!
//! Its lock is that of one thread, the one that runs the pipeline, which may sleep with it; it comes before all others.

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

/// Bytes of the buffers in which blocks are read together.
const READ_BYTES: usize = 4 << 20;
/// Part of the cache that they may take.
const CACHE_SHARE: usize = 16;
/// Buffers beside those of the workers, and for each worker: enough that no worker waits for the disk. More of them are
/// pages that the system zeroes for nothing, and blocks that leave the processor's caches before they are decoded:
/// `bench/record/2026-11-22-core.md`.
const BUFFERS_AHEAD: usize = 8;
const BUFFERS_PER_WORKER: usize = 2;
const BUFFERS_MIN: usize = 3;
const BUFFERS_MAX: usize = 64;
/// A run of fewer bytes stays in the page cache, whatever memory is left.
const CACHED_BYTES_MIN: u64 = 16 << 20;
/// Most blocks that are considered for one read.
const BLOCKS_PER_READ: usize = 512;

/// Where blocks from peers are kept until the pipeline takes them: the inbox of a session.
pub(crate) trait Inbox: Send + Sync {
    /// Waits until `is_there`, asked again after each arrival; says no when patience or the occasion ends.
    fn wait(&self, is_there: &dyn Fn() -> bool) -> bool;

    /// Takes the block that is connected next, if it is here: its bytes, and what checking them gave.
    fn take(&self, height: Height, id: NodeId) -> Option<(BlockBytes, Arc<Checked>)>;

    /// Whether a block is here.
    fn has(&self, height: Height, id: NodeId) -> bool;

    /// A block is stored, or something else is new: the thread that waits looks again.
    fn arrived(&self);
}

/// Blocks on their way to the pipeline.
pub(crate) struct BlockFeed {
    /// Blocks that come from peers while they are connected.
    pub(crate) arrivals: Option<Arc<dyn Inbox>>,
    /// What coins and blocks in flight will take of the memory that is left.
    dbcache_bytes: u64,
    /// Buffers of what is read.
    pool: Arc<Pool>,
    state: Mutex<FeedState>,
}

struct FeedState {
    planned: VecDeque<BlockContext>,
    /// Bytes, and what checking them gave where they came from a peer just now.
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
    /// Reads from `files` for the workers of a job, with buffers of a part of its cache.
    pub(crate) fn new(files: Arc<BlockFiles>, options: &Options) -> BlockFeed {
        let dbcache_bytes = options.dbcache_bytes;
        let useful = (BUFFERS_AHEAD + BUFFERS_PER_WORKER * options.par).min(BUFFERS_MAX);
        let buffers = (dbcache_bytes / CACHE_SHARE / READ_BYTES).clamp(BUFFERS_MIN, useful);
        let pool = Pool::new(READ_BYTES, buffers, options.kernels);
        let reader = BulkReader::new(files, pool.clone());
        let state = FeedState { planned: VecDeque::new(), ready: VecDeque::new(), reader };
        BlockFeed { arrivals: None, dbcache_bytes: dbcache_bytes as u64, pool, state: Mutex::new(state) }
    }

    /// Whether blocks of this many bytes are more than the page cache has room for. Then they do not stay there after they
    /// were read: the tables of coins need the room. A small run always stays.
    fn exceed_memory(&self, bytes: u64) -> bool {
        bytes > CACHED_BYTES_MIN
            && MachineMemory::default().left().is_some_and(|left| bytes > left.saturating_sub(self.dbcache_bytes))
    }

    /// Bytes of the buffers that were made.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.pool.made_bytes()
    }

    /// These blocks come next, and no others; the files have this many bytes of them.
    pub(crate) fn start(&self, planned: Vec<BlockContext>, bytes: u64) {
        let mut state = lock(&self.state);
        state.reader.drop_behind(self.exceed_memory(bytes));
        (state.planned, state.ready) = (planned.into(), VecDeque::new());
    }

    /// The block that comes next.
    pub(crate) fn first(&self) -> Option<NodeId> {
        lock(&self.state).planned.front().map(|block| block.node)
    }

    /// The next block: see [`crate::pipeline::Backend::next`]. `write_out` lets readers see what was appended to the block
    /// files just now; `is_asked` says that others wait, for whom waiting for a block ends.
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

    /// Places of the next blocks up to one that is in memory or absent.
    fn to_be_read(&self, planned: &VecDeque<BlockContext>, index: &SharedIndex) -> Vec<BlockAt> {
        let is_kept =
            |block: &BlockContext| self.arrivals.as_ref().is_some_and(|kept| kept.has(block.height, block.node));
        let count = planned.iter().take(BLOCKS_PER_READ).take_while(|block| !is_kept(block)).count();
        let index = index.read();
        planned.iter().take(count).map_while(|block| index.place(block.node)).collect()
    }
}
