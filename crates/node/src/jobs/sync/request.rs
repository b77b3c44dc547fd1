//! Which blocks are asked for: those of the chains that peers have and that are not there, as far ahead as may be.

use super::{Phase, Shared};
use crate::locks::lock;
use crate::tree::{Fate, NodeId, Tree};
use p2p::Want;
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks asked for in one list.
const WANTS_MAX: usize = 4096;

/// Asks for the blocks that are not there of each chain that peers have; with hints for those up to their height.
///
/// Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: of each peer's own chain, so that one whose bodies do not come
/// stands before no other.
pub(super) fn want(shared: &Shared<'_, '_>) {
    let datadir = shared.datadir;
    if let Some(hinted) = &shared.hinted {
        let missing = hinted.missing(WANTS_MAX);
        let tree = datadir.headers();
        let list = missing.into_iter().map(|node| Want { hash: tree.hash(node), height: tree.height(node) }).collect();
        drop(tree);
        return shared.network.want(vec![list]);
    }
    let index = datadir.index.read();
    let tree = index.headers();
    let targets = open_targets(shared, tree);
    let tip = index.tip();
    let stop = datadir.options.stop_at_height.unwrap_or(Height::MAX);
    // What is stored ahead of the tip cannot be pruned: there must not be much of it.
    let ahead = datadir.ahead_max(shared.block_bytes.load(Relaxed)).unwrap_or(u32::MAX);
    let mut end = stop.min(tree.height(tip).saturating_add(ahead));
    let highest = targets.iter().map(|&target| tree.height(target)).max();
    // Until a commit has made room, only what was asked for already comes.
    let wanted = shared.wanted_to.load(Relaxed).max(tree.height(tip));
    let is_held_back = datadir.prune_is_due() && highest.is_some_and(|highest| wanted < end.min(highest));
    if is_held_back {
        end = wanted;
    }
    shared.held_back.store(is_held_back, Relaxed);
    shared.wanted_to.store(end.min(highest.unwrap_or(Height::GENESIS)), Relaxed);
    let missing_to = |target: NodeId| {
        let from = tree.fork(tip, target);
        let missing = index.missing_from(from, target, end.clamp(tree.height(from), tree.height(target)), WANTS_MAX);
        missing.into_iter().map(|node| Want { hash: tree.hash(node), height: tree.height(node) }).collect()
    };
    let lists = targets.iter().map(|&target| missing_to(target)).collect();
    if let Some(&first) = targets.first() {
        shared.target_end.store(tree.height(first).min(stop), Relaxed);
        datadir.reporter.set_end(tree.height(first).min(stop));
    }
    drop(index);
    shared.network.want(lists);
}

/// The last blocks of the chains that peers have: those that are not refused and have minimum work, the preferred first.
///
/// While the past of a snapshot is validated, the one chain is that of its base block; for headers alone there is none.
pub(super) fn open_targets(shared: &Shared<'_, '_>, tree: &Tree) -> Vec<NodeId> {
    match (shared.phase, shared.datadir.assumed) {
        (Phase::Headers(_), _) => return Vec::new(),
        (Phase::Past, Some(assumed)) => {
            return Some(assumed.base).filter(|&base| tree.fate(base) == Fate::Open).into_iter().collect();
        }
        _ => {}
    }
    let targets = lock(&shared.targets);
    let known = targets.iter().filter_map(|hash| tree.find(hash));
    let minimum = shared.datadir.options.minimum_chain_work;
    known.filter(|&id| tree.fate(id) == Fate::Open && tree.work(id) >= minimum).collect()
}

/// Where the number of blocks ahead of the tip is limited, more are wanted as it goes up, and as blocks become smaller;
/// and when a commit has made room.
pub(super) fn want_if_ahead(shared: &Shared<'_, '_>) {
    if shared.hinted.is_some() {
        return; // Nothing is stored.
    }
    let Some(ahead) = shared.datadir.ahead_max(shared.block_bytes.load(Relaxed)) else { return };
    if shared.held_back.load(Relaxed) {
        if !shared.datadir.prune_is_due() {
            want(shared);
        }
        return;
    }
    let height = shared.datadir.tip_height();
    let end = shared.wanted_to.load(Relaxed);
    let is_short = end.blocks_above(height) < ahead - ahead / 8;
    if is_short && end < shared.target_end.load(Relaxed) {
        want(shared);
    }
}

/// Ends the wait for the next block of a chain that no peer has any more.
pub(super) fn hurry_if_elsewhere(shared: &Shared<'_, '_>) {
    let run_to = *lock(&shared.run_to);
    let is_elsewhere = run_to.is_some_and(|run_to| {
        let tree = shared.datadir.headers();
        !open_targets(shared, &tree).iter().any(|&target| tree.is_ancestor(run_to, target))
    });
    if is_elsewhere {
        shared.arrivals.hurry();
    }
}
