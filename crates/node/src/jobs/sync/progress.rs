//! The thread that tells how far it is: what there is to do, counted in bytes of blocks.

use super::super::cache::FollowingCache;
use super::{Phase, RUN_BLOCKS_MAX, Shared};
use crate::datadir::DataDir;
use crate::fault::Message;
use crate::session::facts::FactsSeen;
use crate::session::state::{SessionFacts, Stage};
use crate::stats::{Snapshot, Stats};
use crate::tree::NodeId;
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Time between two looks at how far it is.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// Tells how far it is until the work is done.
pub(super) fn tell(shared: &Shared<'_, '_>, stats: &Stats, mut cache: FollowingCache) {
    let _alarm = shared.alarm("tells how far it is");
    let (datadir, mut seen) = (shared.datadir, FactsSeen::default());
    while !shared.done.load(Relaxed) {
        std::thread::park_timeout(TELL_INTERVAL);
        if datadir.reporter.is_stopping() {
            shared.arrivals.hurry();
        }
        for why in shared.unserved.take() {
            let text = format!("A block that a peer asked for cannot be read: {why}");
            datadir.reporter.warn(Message::new(text, "Look at the drive; other blocks are served"));
        }
        cache.look(datadir);
        measure(shared, &stats.snapshot());
        datadir.reporter.session(facts(shared, &mut seen));
        datadir.reporter.progress(|| stats.snapshot());
    }
    datadir.reporter.last_progress(stats.snapshot());
}

/// What the state of the sync is made of.
fn facts(shared: &Shared<'_, '_>, seen: &mut FactsSeen) -> SessionFacts {
    let facts = seen.of_chain(shared.datadir);
    let progress = shared.network.progress();
    let (network, block_wait) = seen.of_network(shared.setup, &progress, facts.height);
    let past = match (shared.phase, shared.datadir.assumed) {
        (Phase::Past, Some(assumed)) => Some((facts.height, shared.datadir.headers().height(assumed.base))),
        _ => None,
    };
    let network = Some(network).filter(|_| !shared.is_alone);
    let stage = if shared.is_alone { Stage::AtRest } else { Stage::Working };
    SessionFacts { stage, block_wait, past, network, ..facts }
}

/// What there is to do: the blocks of the best header chain.
fn measure(shared: &Shared<'_, '_>, stats: &Snapshot) {
    let (datadir, reporter) = (shared.datadir, &shared.datadir.reporter);
    let progress = shared.network.progress();
    reporter.set_peers((progress.outbound_count + progress.inbound_count) as u32);
    let (best, work, is_initial) = {
        let index = datadir.index.read();
        let tree = index.headers();
        (tree.height(tree.best()), tree.work(tree.best()), datadir.is_initial(tree, index.tip()))
    };
    reporter.set_current(!is_initial);
    reporter.set_headers(best, progress.presync_height);
    if let Some(hinted) = &shared.hinted {
        let end = hinted.height();
        let each = || (end.to_usize() - hinted.done()) as u64 * shared.block_bytes.load(Relaxed);
        return set_left(datadir, (Height::from_index(hinted.done()), end), stats, each);
    }
    if work >= datadir.options.minimum_chain_work {
        let end = match (shared.phase, datadir.assumed) {
            (Phase::Past, Some(assumed)) => datadir.headers().height(assumed.base),
            _ => best.min(datadir.options.stop_at_height.unwrap_or(Height::MAX)),
        };
        let height = datadir.tip_height();
        set_left(datadir, (height, end), stats, || bytes_left(shared, end));
    }
}

/// The work goes from one height to another: by the transactions that the network is known to have had until its end, for early
/// blocks say nothing of the size of later ones; near the end by `bytes`, for the blocks of late say more.
fn set_left(datadir: &DataDir<'_>, (height, end): (Height, Height), stats: &Snapshot, bytes: impl FnOnce() -> u64) {
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

/// Bytes of the blocks up to `end` that are not connected, each block that is to come taken to be as large as those of late; of those next, what is stored is known.
fn bytes_left(shared: &Shared<'_, '_>, end: Height) -> u64 {
    let block_bytes = shared.block_bytes.load(Relaxed);
    let index = shared.datadir.index.read();
    let (tree, tip) = (index.headers(), index.tip());
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
