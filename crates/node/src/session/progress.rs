//! Progress of a sync, for the displays: the remaining work in bytes of blocks, and the facts of its state. No decision
//! depends on it.

use super::driver::Doing;
use super::facts::{FactsSeen, assumed_elsewhere};
use super::link::Session;
use crate::chain::tree::NodeId;
use crate::datadir::{Assumed, DataDir, Origin};
use crate::options::RUN_BLOCKS_MAX;
use crate::pipeline::stats::Snapshot;
use crate::reporting::state::{Past, SessionFacts, Stage};
use crate::threads::locks::lock;
use primitives::Height;

/// Minimum number of blocks for a meaningful mean size.
const BLOCKS_OF_MEAN: u64 = 16;

/// The facts of the displayed state.
pub(super) fn facts(session: &Session<'_, '_>, seen: &mut FactsSeen) -> SessionFacts {
    let offered = lock(session.driver).offered().to_vec();
    let facts = seen.of_chain(session.datadir, offered);
    let progress = session.network.progress();
    let (network, block_wait) = seen.of_network(session.setup, &progress, facts.height);
    let (doing, pause) = {
        let driver = lock(session.driver);
        (driver.doing(), driver.budget().allowance().pause())
    };
    let is_past_first = matches!(doing, Doing::ValidatingPast | Doing::AtTip);
    let past = session.past.filter(|_| is_past_first).and_then(|past| {
        let tree = session.datadir.headers();
        let Assumed { base, origin, .. } = past.assumed?;
        let height = tree.height(past.past_tip.get());
        Some(Past { height, end: tree.height(base), were_pruned: origin == Origin::Pruned })
    });
    let network = Some(network).filter(|_| !session.is_alone);
    let assumed_elsewhere = assumed_elsewhere(session.datadir, &progress);
    let pruned_fork = session.datadir.pruned_fork();
    let stage = if session.is_alone { Stage::AtRest } else { Stage::Working };
    SessionFacts { stage, block_wait, past, network, assumed_elsewhere, pruned_fork, pause, ..facts }
}

/// Updates the remaining work: the blocks of the best header chain.
pub(super) fn measure(session: &Session<'_, '_>, stats: &Snapshot) {
    let datadir = session.datadir;
    let reporter = &session.datadir.reporter;
    let progress = session.network.progress();
    reporter.set_peers((progress.outbound_count + progress.inbound_count) as u32);
    let block_bytes = mean_block_bytes(&progress, lock(session.driver).block_bytes());
    let (best, work, is_initial) = {
        let index = datadir.index.read();
        let tree = index.headers();
        (tree.height(tree.best()), tree.work(tree.best()), datadir.is_initial(tree, index.tip()))
    };
    reporter.set_current(!is_initial);
    reporter.set_headers(best, progress.presync_height);
    reporter.set_mean_rate(session.download.limits.mean_rate());
    if let Some(hinted) = &session.hinted {
        let end = hinted.height();
        let each = || (end.to_usize() - hinted.done()) as u64 * block_bytes;
        return set_left(datadir, Height::from_index(hinted.done()), end, stats, each);
    }
    if work >= datadir.options.minimum_chain_work {
        let end = best.min(datadir.options.stop_at_height.unwrap_or(Height::MAX));
        let height = datadir.tip_height();
        set_left(datadir, height, end, stats, || bytes_left(&datadir.index.read(), end, block_bytes));
    }
}

/// Estimated size of a future block: the mean of this run, including received parts of blocks in flight; `of_late`, the
/// recent mean, while there are few blocks. A mean of only the latest blocks would vary too much when sizes are mixed.
fn mean_block_bytes(progress: &p2p::Progress, of_late: u64) -> u64 {
    if progress.blocks_count < BLOCKS_OF_MEAN { of_late } else { progress.received_bytes / progress.blocks_count }
}

/// Sets the remaining work between two heights. Far from the end it is estimated by the known transaction count of the
/// network, because early blocks do not predict the size of later ones. Near the end it is estimated by `bytes`,
/// because recent blocks predict better.
fn set_left(datadir: &DataDir<'_>, height: Height, end: Height, stats: &Snapshot, bytes: impl FnOnce() -> u64) {
    let reporter = &datadir.reporter;
    reporter.set_end(end);
    let time = {
        let tree = datadir.headers();
        (height.saturating_add(RUN_BLOCKS_MAX) < end).then(|| tree.time(tree.ancestor(tree.best(), end)))
    };
    match time.and_then(|time| datadir.params.chain_tx_data.transactions_at(i64::from(time))) {
        Some(all) => reporter.set_transactions_left(all, stats.transactions, stats.bytes),
        None => reporter.set_bytes_left(bytes()),
    }
}

/// Bytes of the unconnected blocks up to `end`. Stored blocks near the tip count with their size, all others with
/// `block_bytes`.
fn bytes_left(index: &crate::chain::index::BlockIndex, end: Height, block_bytes: u64) -> u64 {
    let tree = index.headers();
    let tip = index.tip();
    let best = tree.best();
    let near = end.min(tree.height(best)).min(tree.height(tip).saturating_add(RUN_BLOCKS_MAX));
    let mut bytes = 0;
    if near > tree.height(tip) && tree.is_ancestor(tip, best) {
        let size = |node: NodeId| Some(u64::from(index.body(node).size())).filter(|&size| size > 0);
        let path = tree.path(tip, tree.ancestor(best, near));
        bytes = path.into_iter().map(|node| size(node).unwrap_or(block_bytes)).sum();
    }
    bytes + u64::from(end.blocks_above(near.max(tree.height(tip)))) * block_bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_to_come_is_as_large_as_those_of_this_run() {
        let after = |blocks_count: u64, received_bytes: u64| {
            let progress = p2p::Progress { blocks_count, received_bytes, ..p2p::Progress::default() };
            mean_block_bytes(&progress, 1_000_000)
        };
        assert_eq!(after(0, 300_000), 1_000_000);
        assert_eq!(after(15, 15 * 200), 1_000_000, "too few");
        assert_eq!(after(100, 100 * 300 + 1_500_000), 15_300, "with what came of a large one");
    }
}
