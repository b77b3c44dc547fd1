//! Blocks from files beside the peers (`sync --from`): another node's directory, a USB disk, a half-broken folder, packed files.
//!
//! ```text
//! files ─ headers ─> tree        driver ─ want ─┬─ what a file has ──> source threads ─> checked and stored as from a peer
//!                                               └─ the rest ─────────> the network
//! ```
//!
//! The headers of all blocks go into the tree first, so that the chain of the files is one to follow. Then a block that the
//! driver wants comes from a file where one has it, and from peers else. A body that proves bad is not asked of the files
//! again. Nothing is written there, and no lock is taken: the node whose files they are may run.
//!
//! Plain block files are read in place, each with the key beside it or the one that it gives away; packed ones are unpacked
//! twice, for the headers and for the blocks ([`packed`]).
//! `files` below this opens them; `bring` beside this has the threads.
//! Absent on purpose: trust. Every check of a block from a peer is made.

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

/// How long a source thread waits before it looks whether the session ends.
const PATIENCE: Duration = Duration::from_millis(100);
/// Chains of the files that are followed, the one with the most work first.
const TARGETS_MAX: usize = 16;

/// Files with blocks, and what of them is wanted.
pub(super) struct Sources {
    plain: BlockFiles,
    /// Where each block lies in `plain`.
    found: HashMap<BlockHash, BlockAt>,
    packed: Packed,
    /// The ends of the chains in the files.
    ends: Vec<BlockHash>,
    /// No peer is sought: what no file has is not to be had.
    is_alone: bool,
    state: Mutex<SourcesState>,
    changed: Signal,
}

#[derive(Debug, Default)]
struct SourcesState {
    /// What plain files have of what is wanted, in the order in which it is wanted.
    wanted: VecDeque<Want>,
    /// At so many left the driver is asked for more.
    low: Option<usize>,
    under_way: HashSet<BlockHash>,
    /// What proved bad.
    useless: HashSet<BlockHash>,
    /// What is wanted and no file has.
    rest: Vec<Want>,
    /// What packed files have of what is wanted.
    wanted_packed: HashSet<BlockHash>,
    /// Packed files were gone through to no effect.
    is_packed_over: bool,
    /// The driver knows the chains of the files.
    is_told: bool,
}

impl Sources {
    /// Looks for blocks in `paths`, and takes their headers in.
    ///
    /// # Errors
    ///
    /// A path that is not there or has no blocks, or what the system says.
    pub(super) fn open(datadir: &DataDir<'_>, paths: &[PathBuf], is_alone: bool) -> Result<Sources, Fault> {
        let Found { plain, places, packed, blocks } = Found::open(Reading::of(datadir), paths)?;
        let ends = take_headers(datadir, blocks)?;
        let state = Mutex::new(SourcesState { is_packed_over: packed.is_empty(), ..SourcesState::default() });
        Ok(Sources { plain, found: places, packed, ends, is_alone, state, changed: Signal::default() })
    }

    /// The ends of the peers' chains, with those of the files behind them.
    pub(super) fn with_ends(&self, mut targets: Vec<BlockHash>) -> Vec<BlockHash> {
        let own = self.ends.iter().filter(|end| !targets.contains(end)).copied().collect::<Vec<_>>();
        targets.extend(own);
        targets
    }

    /// The driver knows the chains of the files from here on.
    pub(super) fn told(&self) {
        locked(&self.state).is_told = true;
    }

    fn has(&self, state: &SourcesState, hash: &BlockHash) -> bool {
        !state.useless.contains(hash) && (self.found.contains_key(hash) || self.has_packed(state, hash))
    }

    fn has_packed(&self, state: &SourcesState, hash: &BlockHash) -> bool {
        !state.is_packed_over && !state.useless.contains(hash) && self.packed.has(hash)
    }

    /// Takes what the files have out of the lists; gives the rest, for the network.
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

    /// What the network says of itself, with what the files are about.
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

/// Headers of the files into the tree, in whatever order they lie; gives the ends of their chains, that with the most work first.
fn take_headers(datadir: &DataDir<'_>, blocks: Vec<FoundBlock>) -> Result<Vec<BlockHash>, Fault> {
    let now = lock::clock(datadir.options)?;
    let place = |at: &BlockAt| format!("file {} of --from, byte {}", at.file, at.offset);
    // Without a parent they are known once peers have told the headers below.
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

/// What a source thread does next.
pub(super) enum Next {
    /// It brings this block.
    Bring(Want, BlockAt),
    /// The driver is to say what else is wanted.
    AskMore,
    /// There is nothing to do now.
    Wait,
}

impl Sources {
    /// What is to be done next; waits a moment where that is nothing.
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

    /// A block was brought. Says whether it was the last that was wanted.
    pub(super) fn brought(&self, hash: BlockHash, is_good: bool) -> bool {
        let mut state = locked(&self.state);
        state.under_way.remove(&hash);
        if !is_good {
            state.useless.insert(hash);
        }
        state.wanted.is_empty()
    }

    /// A block of a plain file, and the file's name.
    pub(super) fn read(&self, at: BlockAt) -> (PathBuf, Option<store::Result<Vec<u8>>>) {
        (self.plain.path(at.file), at.file_pos().map(|at| self.plain.read_block(at)))
    }

    /// Whether packed files have something that is wanted; `None` once they were gone through to no effect. Waits a moment
    /// where there is nothing.
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

    /// Packed files have nothing more that is wanted.
    pub(super) fn packed_over(&self) {
        locked(&self.state).is_packed_over = true;
    }

    /// The packed files.
    pub(super) fn packed(&self) -> &Packed {
        &self.packed
    }
}

impl Sources {
    /// Whether a block that a pass comes by is stored. Where files are pruned no more than what the driver wants.
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
