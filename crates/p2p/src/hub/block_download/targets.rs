//! Targets: one best block for each chain of the peers; the node lists the missing blocks up to each.
//!
//! Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: a peer is asked for the blocks of its own best chain, if
//! that has at least our tip's work and minimum work. So a chain whose bodies are withheld or invalid never blocks
//! another.
//!
//! The reach of a peer needs only minimum work: a peer behind our tip has the blocks below a snapshot, those that were
//! pruned, and those that a repair misses. Source: Core's `TryDownloadingHistoricalBlocks`.

use super::super::context::Context;
use super::super::header_sync::HeaderSync;
use super::BlockDownload;
use crate::api::{Event, PeerId};
use crate::chain::HeaderInfo;
use crate::download::{LIMITED_DEPTH_MAX, Reach};
use crate::peer::{Kind, Peer};
use primitives::{BlockHash, Height, Work};

/// Maximum number of chains that are downloaded at a time: each outbound peer may have its own, see
/// [`crate::hub::outbound::OUTBOUND_COUNT_MAX`], and a few inbound ones.
pub const TARGET_COUNT_MAX: usize = 16;

/// The current targets, and the state that they were made from.
#[derive(Debug, Default)]
pub(super) struct Targets {
    list: Vec<BlockHash>,
    made_from: Vec<(PeerId, BlockHash, bool)>,
    /// Whether new targets were sent to the node, and its lists are outstanding.
    pub(super) is_told: bool,
}

impl BlockDownload {
    /// Determines the chains of the peers, and sends changed targets to the node.
    pub(super) fn update_targets(&mut self, cx: &mut Context, headers: &HeaderSync) {
        // One message at a time: peers that change their chains quickly give the node no more work than it can do.
        if self.targets.is_told {
            return;
        }
        let least = least_work(cx);
        let has_blocks = |peer: &&Peer| peer.is_ready() && peer.kind != Kind::AddressFetch && peer.serves_blocks();
        let best = |peer: &Peer| {
            let best = headers.best_known(peer.id).filter(|best| best.work >= least)?;
            Some((peer.id, best, self.withholds(peer.id)))
        };
        let claims: Vec<_> = cx.peers.values().filter(has_blocks).filter_map(best).collect();
        let made_from: Vec<_> = claims.iter().map(|(id, best, withholds)| (*id, best.hash, *withholds)).collect();
        if made_from == self.targets.made_from {
            return;
        }
        self.targets.made_from = made_from;
        let mut claims: Vec<_> = claims
            .into_iter()
            .map(|(id, best, withholds)| (withholds, !cx.peers[&id].is_outbound(), best))
            .filter(|(.., best)| cx.chain.header(&best.hash).is_some_and(|known| !known.invalid))
            .collect();
        claims.sort_by(|a, b| (a.0, a.1, b.2.work).cmp(&(b.0, b.1, a.2.work)));
        let list = distinct(cx, claims.into_iter().map(|(.., best)| best));
        if list != self.targets.list {
            self.targets.list.clone_from(&list);
            self.targets.is_told = true;
            cx.event(Event::Targets(list));
        }
    }

    /// Updates which part of the lists each peer has, if that may have changed.
    pub(super) fn update_reach(&mut self, cx: &Context, headers: &HeaderSync) {
        if self.download.list_count() == 0 {
            return;
        }
        let least = cx.chain.minimum_work();
        let version = self.download.version();
        for id in cx.peer_ids() {
            let peer = &cx.peers[&id];
            if !peer.is_ready() || !peer.serves_blocks() {
                continue;
            }
            let best = headers.best_known(id).filter(|best| best.work >= least);
            let of = (version, best.map(|best| best.hash));
            if self.of(id).reach_of == Some(of) {
                continue;
            }
            let (list, reach) = best.map_or_else(Default::default, |best| self.reach(cx, peer, &best));
            self.download.set_reach(id, list, reach);
            self.of(id).reach_of = Some(of);
        }
    }

    /// The list that a peer has the longest part of, and that part.
    fn reach(&self, cx: &Context, peer: &Peer, best: &HeaderInfo) -> (usize, Reach) {
        let counts = (0..self.download.list_count()).map(|list| (self.count_on(cx, list, best), list));
        let most = counts.max_by_key(|(count, list)| (*count, std::cmp::Reverse(*list)));
        let (count, list) = most.unwrap_or_default();
        let height_min = if peer.is_limited() { pruned_from(best.height) } else { Height::GENESIS };
        (list, Reach { count, height_min })
    }

    /// Number of blocks of a list that are on the chain that ends with `best`.
    fn count_on(&self, cx: &Context, list: usize, best: &HeaderInfo) -> usize {
        let has = |place: usize| {
            let want = self.download.at(list, place);
            want.is_some_and(|want| cx.chain.ancestor(&best.hash, want.height) == Some(want.hash))
        };
        // A list is one chain: a peer has a prefix of it.
        let mut low = 0;
        let mut high = self.download.count(list);
        if high > 0 && has(high - 1) {
            low = high;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if has(middle) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

/// The last block of each chain.
fn distinct(cx: &Context, blocks: impl Iterator<Item = HeaderInfo>) -> Vec<BlockHash> {
    let mut out: Vec<HeaderInfo> = Vec::new();
    for block in blocks {
        let is_on = |low: &HeaderInfo, high: &HeaderInfo| {
            low.height <= high.height && cx.chain.ancestor(&high.hash, low.height) == Some(low.hash)
        };
        if out.iter().any(|known| is_on(&block, known)) {
            continue;
        }
        match out.iter().position(|known| is_on(known, &block)) {
            Some(place) => out[place] = block,
            None if out.len() < TARGET_COUNT_MAX => out.push(block),
            None => {}
        }
    }
    out.into_iter().map(|block| block.hash).collect()
}

/// The greater of our tip's work and minimum work.
fn least_work(cx: &Context) -> Work {
    cx.chain.tip().work.max(cx.chain.minimum_work())
}

/// The lowest height at which a pruned peer with this best block serves blocks.
pub(in super::super) fn pruned_from(best: Height) -> Height {
    best.saturating_sub(LIMITED_DEPTH_MAX - 1)
}
