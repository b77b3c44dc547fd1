//! Blocks from files, in addition to peers (`sync --from`): another node's directory, a USB disk, a damaged directory,
//! packed files.
//!
//! ```text
//! files ─ headers ─> tree    driver ─ want ─┬─ blocks in files ──> source threads ─> checked and stored as from a peer
//!                                           └─ other blocks ─────> the network
//! ```
//!
//! The headers of all blocks are first added to the tree, so that the sync can follow the chain of the files. A
//! requested block is then read from a file if one has it, and otherwise requested from peers. After a bad body the
//! files are not used for that block again. Files of `--from` are not written or locked: the node that owns them may be
//! running.
//!
//! Plain block files are read in place, each with the key from its directory or one computed from its contents. Packed
//! files are unpacked twice, for the headers and for the blocks ([`packed`]). Submodule `files` opens them;
//! `session::bring` has the threads.
//! Absent on purpose: trust. Blocks get all checks of a block from a peer.

mod files;
mod packed;
mod reading;

pub(super) use files::Found;
pub(super) use reading::Reading;

use crate::chain::tree::NodeId;
use crate::datadir::DataDir;
use crate::datadir::lock;
use crate::datadir::scan::Ordered;
use crate::fault::Fault;
use crate::options::Prune;
use crate::threads::locks::{Signal, lock as locked};
use p2p::{Progress, Want};
use packed::Packed;
use primitives::BlockHash;
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;
use store::blockfiles::{BlockAt, BlockFiles, FoundBlock};

/// Maximum wait of a source thread before it checks whether the session ends.
const PATIENCE: Duration = Duration::from_millis(100);
/// Maximum number of chains in the files that are followed, those with the most work first.
const TARGETS_MAX: usize = 16;

/// Block files of `--from`, and the requested blocks among them.
pub(super) struct Sources {
    plain: BlockFiles,
    /// Place of each block in `plain`.
    found: HashMap<BlockHash, BlockAt>,
    packed: Packed,
    /// The tips of the chains in the files.
    ends: Vec<BlockHash>,
    /// No peers are used: a block that no file has cannot be obtained.
    is_alone: bool,
    state: Mutex<SourcesState>,
    changed: Signal,
}

#[derive(Debug, Default)]
struct SourcesState {
    /// Requested blocks that plain files have, in request order.
    wanted: VecDeque<Want>,
    /// The driver is asked for more when this number of requests is left.
    low: Option<usize>,
    under_way: HashSet<BlockHash>,
    /// Blocks whose body in the files is bad.
    useless: HashSet<BlockHash>,
    /// Requested blocks that no file has.
    rest: Vec<Want>,
    /// Requested blocks that packed files have.
    wanted_packed: HashSet<BlockHash>,
    /// A pass over the packed files yielded no block.
    is_packed_over: bool,
    /// The driver knows the chains of the files.
    is_told: bool,
}

impl Sources {
    /// Opens the block files in `paths`, and adds their headers to the tree.
    ///
    /// # Errors
    ///
    /// A path that does not exist or has no blocks, or an I/O error.
    pub(super) fn open(datadir: &DataDir<'_>, paths: &[PathBuf], is_alone: bool) -> Result<Sources, Fault> {
        let Found { plain, places, packed, blocks } = Found::open(Reading::of(datadir), paths)?;
        let ends = take_headers(datadir, blocks)?;
        let state = Mutex::new(SourcesState { is_packed_over: packed.is_empty(), ..SourcesState::default() });
        Ok(Sources { plain, found: places, packed, ends, is_alone, state, changed: Signal::default() })
    }

    /// The tips of the peers' chains, followed by those of the files.
    pub(super) fn with_ends(&self, mut targets: Vec<BlockHash>) -> Vec<BlockHash> {
        let own = self.ends.iter().filter(|end| !targets.contains(end)).copied().collect::<Vec<_>>();
        targets.extend(own);
        targets
    }

    /// The driver knows the chains of the files from now on.
    pub(super) fn told(&self) {
        locked(&self.state).is_told = true;
    }

    fn has(&self, state: &SourcesState, hash: &BlockHash) -> bool {
        !state.useless.contains(hash) && (self.found.contains_key(hash) || self.has_packed(state, hash))
    }

    fn has_packed(&self, state: &SourcesState, hash: &BlockHash) -> bool {
        !state.is_packed_over && !state.useless.contains(hash) && self.packed.has(hash)
    }

    /// Takes the blocks that files have from the lists; returns the others, for the network.
    pub(super) fn want(&self, lists: Vec<Vec<Want>>) -> Vec<Vec<Want>> {
        let mut state = locked(&self.state);
        let mut seen = HashSet::new();
        let mut wanted = VecDeque::new();
        let mut packed = HashSet::new();
        let mut rest = Vec::new();
        for want in lists.iter().flatten().filter(|want| seen.insert(want.hash)) {
            if self.found.contains_key(&want.hash) && !state.useless.contains(&want.hash) {
                if !state.under_way.contains(&want.hash) {
                    wanted.push_back(*want);
                }
            } else if self.has_packed(&state, &want.hash) {
                packed.insert(want.hash);
            } else {
                rest.push(*want);
            }
        }
        let others = lists
            .into_iter()
            .map(|list| list.into_iter().filter(|want| !self.has(&state, &want.hash)).collect::<Vec<Want>>());
        let others = others.collect();
        state.low = (!wanted.is_empty()).then_some(wanted.len() / 2);
        (state.wanted, state.wanted_packed, state.rest) = (wanted, packed, rest);
        drop(state);
        self.changed.notify_all();
        others
    }

    /// The network's progress. Without peers, blocks that no file has are reported as undelivered.
    pub(super) fn progress(&self, network: Progress) -> Progress {
        let state = locked(&self.state);
        let has_packed = !state.is_packed_over && !state.wanted_packed.is_empty();
        let is_used_up = state.is_told && state.wanted.is_empty() && state.under_way.is_empty() && !has_packed;
        if !self.is_alone {
            return network;
        }
        let undelivered = if is_used_up { state.rest.clone() } else { Vec::new() };
        Progress { headers_done: is_used_up, headers_settled: true, undelivered, ..network }
    }
}

/// Adds the headers of the files to the tree, in any file order; returns the tips of their chains, the one with the
/// most work first.
fn take_headers(datadir: &DataDir<'_>, blocks: Vec<FoundBlock>) -> Result<Vec<BlockHash>, Fault> {
    let now = lock::clock(datadir.options)?;
    let place = |at: &BlockAt| format!("file {} of --from, byte {}", at.file, at.offset);
    // Headers without a known parent are added once peers have sent the headers below.
    let Ordered { order, .. } = datadir.order(blocks, now, &place);
    let tree = datadir.headers();
    let mut ends: HashSet<NodeId> = order.iter().map(|&(id, _)| id).collect();
    for parent in order.iter().filter_map(|&(id, _)| tree.parent(id)) {
        ends.remove(&parent);
    }
    let mut ends: Vec<NodeId> = ends.into_iter().collect();
    ends.sort_unstable_by_key(|&id| std::cmp::Reverse(tree.work(id)));
    Ok(ends.into_iter().take(TARGETS_MAX).map(|id| tree.hash(id)).collect())
}

/// The next task of a source thread.
pub(super) enum Next {
    /// Read this block.
    Bring(Want, BlockAt),
    /// Ask the driver for more requests.
    AskMore,
    /// There is no task at present.
    Wait,
}

impl Sources {
    /// The next task; waits briefly if there is no task.
    pub(super) fn next(&self) -> Next {
        let mut state = locked(&self.state);
        if state.low.is_some_and(|low| state.wanted.len() <= low) {
            state.low = None;
            return Next::AskMore;
        }
        while let Some(want) = state.wanted.pop_front() {
            if let Some(&at) = self.found.get(&want.hash)
                && state.under_way.insert(want.hash)
            {
                return Next::Bring(want, at);
            }
        }
        drop(self.changed.wait_for(state, PATIENCE));
        Next::Wait
    }

    /// Reports that a block was read. Returns whether it was the last requested one.
    pub(super) fn brought(&self, hash: BlockHash, is_good: bool) -> bool {
        let mut state = locked(&self.state);
        state.under_way.remove(&hash);
        if !is_good {
            state.useless.insert(hash);
        }
        state.wanted.is_empty()
    }

    /// Reads a block from a plain file; returns it with the file's name.
    pub(super) fn read(&self, at: BlockAt) -> (PathBuf, Option<store::Result<Vec<u8>>>) {
        (self.plain.path(at.file), at.file_pos().map(|at| self.plain.read_block(at)))
    }

    /// Whether packed files have a requested block; `None` after a pass that yielded no block. Waits briefly if there
    /// is no such block.
    pub(super) fn wants_packed(&self) -> Option<bool> {
        let state = locked(&self.state);
        if state.is_packed_over {
            return None;
        }
        let is_wanted = !state.wanted_packed.is_empty();
        if !is_wanted {
            drop(self.changed.wait_for(state, PATIENCE));
        }
        Some(is_wanted)
    }

    /// Packed files have no more requested blocks.
    pub(super) fn packed_over(&self) {
        locked(&self.state).is_packed_over = true;
    }

    /// The packed files.
    pub(super) fn packed(&self) -> &Packed {
        &self.packed
    }
}

impl Sources {
    /// Whether a block found in a pass is stored. With a pruning target only requested blocks are.
    pub(super) fn is_for_pass(&self, datadir: &DataDir<'_>, hash: &BlockHash) -> bool {
        let Some(id) = datadir.headers().find(hash) else { return false };
        if matches!(datadir.options.prune, Prune::Target { .. }) {
            return locked(&self.state).wanted_packed.contains(hash);
        }
        let index = datadir.index.read();
        let stop = datadir.options.stop_at_height;
        let is_missing = index.place(id).is_none() && !index.is_active(id) && !index.body(id).is_pruned();
        is_missing && stop.is_none_or(|stop| index.headers().height(id) <= stop)
    }
}
