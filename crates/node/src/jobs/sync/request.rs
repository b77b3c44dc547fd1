//! Which blocks are asked for: those of the best header chain that are not there, as far ahead as may be.

use super::Shared;
use p2p::Want;
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;

/// Blocks asked for in one list.
const WANTS_MAX: usize = 4096;

/// Asks for the blocks of the best header chain that are not there.
pub(super) fn want(shared: &Shared<'_, '_>) {
    let datadir = shared.datadir;
    let index = datadir.index.read();
    let tree = index.headers();
    let best = tree.best();
    if tree.work(best) < datadir.options.minimum_chain_work {
        return;
    }
    let tip = index.tip();
    let fork = tree.fork(tip, best);
    let stop = datadir.options.stop_at_height.unwrap_or(Height::MAX);
    // What is stored ahead of the tip cannot be pruned: there must not be much of it.
    let ahead = datadir.ahead_max(shared.block_bytes.load(Relaxed)).unwrap_or(u32::MAX);
    let mut end = stop.min(tree.height(tip).saturating_add(ahead)).clamp(tree.height(fork), tree.height(best));
    // Until a commit has made room, only what was asked for already comes.
    let wanted = shared.wanted_to.load(Relaxed).max(tree.height(fork));
    let is_held_back = datadir.prune_is_due() && wanted < end;
    if is_held_back {
        end = wanted;
    }
    shared.held_back.store(is_held_back, Relaxed);
    shared.wanted_to.store(end, Relaxed);
    let missing = index.missing_from(fork, best, end, WANTS_MAX).into_iter();
    let list = missing.map(|node| Want { hash: tree.hash(node), height: tree.height(node) }).collect();
    datadir.reporter.height_end.store(tree.height(best).min(stop), Relaxed);
    drop(index);
    shared.network.want(list);
}

/// Where only so many blocks may be ahead of the tip, more are wanted as it goes up, and as blocks become smaller;
/// and when a commit has made room.
pub(super) fn want_if_ahead(shared: &Shared<'_, '_>) {
    let Some(ahead) = shared.datadir.ahead_max(shared.block_bytes.load(Relaxed)) else { return };
    if shared.held_back.load(Relaxed) {
        if !shared.datadir.prune_is_due() {
            want(shared);
        }
        return;
    }
    let height = shared.datadir.reporter.height.load(Relaxed);
    let end = shared.wanted_to.load(Relaxed);
    let is_short = end.blocks_above(height) < ahead - ahead / 8;
    if is_short && end < shared.datadir.reporter.height_end.load(Relaxed) {
        want(shared);
    }
}

/// Ends the wait for the next block of a chain that is not the best any more.
pub(super) fn hurry_if_elsewhere(shared: &Shared<'_, '_>) {
    let run_to = *shared.run_to.lock().expect("nobody panics with it");
    let is_elsewhere = run_to.is_some_and(|run_to| {
        let tree = shared.datadir.headers();
        !tree.is_ancestor(run_to, tree.best())
    });
    if is_elsewhere {
        shared.arrivals.hurry();
    }
}
