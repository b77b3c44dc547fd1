//! The thread that tells how far it is: what there is to do, counted in bytes of blocks.

use super::super::cache::FollowingCache;
use super::{Phase, RUN_BLOCKS_MAX, Shared};
use crate::datadir::DataDir;
use crate::fault::Message;
use crate::stats::{Snapshot, Stats};
use crate::tree::NodeId;
use primitives::Height;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Bytes of a transaction on the main network: 735 GB over 1.31 thousand million; and for how many seen ones that counts.
const TRANSACTION_BYTES: f64 = 560.0;
const TRANSACTIONS_KNOWN: f64 = 1e6;
/// Time between two looks at how far it is.
const TELL_INTERVAL: Duration = Duration::from_millis(100);

/// Tells how far it is until the work is done.
pub(super) fn tell(shared: &Shared<'_, '_>, stats: &Stats, mut cache: FollowingCache) {
    let _alarm = shared.alarm("tells how far it is");
    let datadir = shared.datadir;
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
        datadir.reporter.progress(|| stats.snapshot());
    }
    datadir.reporter.last_progress(stats.snapshot());
}

/// What there is to do: the blocks of the best header chain.
fn measure(shared: &Shared<'_, '_>, stats: &Snapshot) {
    let (datadir, reporter) = (shared.datadir, &shared.datadir.reporter);
    let progress = shared.network.progress();
    reporter.peers.store((progress.outbound_count + progress.inbound_count) as u32, Relaxed);
    let (best, work, is_initial) = {
        let index = datadir.index.read();
        let tree = index.headers();
        (tree.height(tree.best()), tree.work(tree.best()), datadir.is_initial(tree, index.tip()))
    };
    reporter.is_current.store(!is_initial, Relaxed);
    reporter.headers.store(best, Relaxed);
    reporter.presync.store(progress.presync_height.unwrap_or(Height::GENESIS), Relaxed);
    if let Some(hinted) = &shared.hinted {
        let (end, done) = (hinted.height(), reporter.bytes.load(Relaxed));
        reporter.height_end.store(end, Relaxed);
        let each = || (end.to_usize() - hinted.done()) as u64 * shared.block_bytes.load(Relaxed);
        let left = bytes_left_by_transactions(datadir, end, stats).unwrap_or_else(each);
        return reporter.bytes_end.store(done + left, Relaxed);
    }
    if work >= datadir.options.minimum_chain_work {
        let end = match (shared.phase, datadir.assumed) {
            (Phase::Past, Some(assumed)) => datadir.headers().height(assumed.base),
            _ => best.min(datadir.options.stop_at_height.unwrap_or(Height::MAX)),
        };
        let done = reporter.bytes.load(Relaxed);
        reporter.height_end.store(end, Relaxed);
        let left = bytes_left_by_transactions(datadir, end, stats).unwrap_or_else(|| bytes_left(shared, end));
        reporter.bytes_end.store(done + left, Relaxed);
    }
}

/// Bytes of the blocks up to `end` that are not connected, by the transactions that the network is known to have had until
/// then: early blocks say nothing of the size of later ones. None near the end, where the blocks of late say more.
fn bytes_left_by_transactions(datadir: &DataDir<'_>, end: Height, stats: &Snapshot) -> Option<u64> {
    let far = datadir.reporter.height.load(Relaxed).saturating_add(RUN_BLOCKS_MAX);
    let time = {
        let tree = datadir.headers();
        (far < end).then(|| tree.time(tree.ancestor(tree.best(), end)))?
    };
    let all = datadir.params.chain_tx_data.transactions_at(i64::from(time))?;
    let left = (all - datadir.reporter.transactions.load(Relaxed) as f64).max(0.0);
    Some(bytes_of_transactions(left, stats.bytes, stats.transactions))
}

/// Bytes of `count` transactions, from the known mean and from the `seen` ones in `seen_bytes` of blocks: weighed, so that
/// the first blocks do not decide.
fn bytes_of_transactions(count: f64, seen_bytes: u64, seen: u64) -> u64 {
    let (bytes, seen) = (seen_bytes as f64, seen as f64);
    (count * (bytes + TRANSACTION_BYTES * TRANSACTIONS_KNOWN) / (seen + TRANSACTIONS_KNOWN)) as u64
}

/// The same, each block that is to come taken to be as large as those of late; of those next, what is stored is known.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_transactions_is_not_decided_by_the_first_blocks() {
        for (row, count, seen_bytes, seen, want) in [
            ("nothing seen", 1.3e9, 0, 0, 728_000_000_000),
            ("blocks without transactions", 1.3e9, 230 * 10_000, 10_000, 723_000_000_000),
            ("half a chain of small ones", 6.5e8, 300 * 650_000_000, 650_000_000, 195_000_000_000),
            ("none left", 0.0, 560, 1, 0),
        ] {
            let got = bytes_of_transactions(count, seen_bytes, seen);
            assert!(got.abs_diff(want) <= want / 200, "{row}: {got} for {want}");
        }
    }
}
