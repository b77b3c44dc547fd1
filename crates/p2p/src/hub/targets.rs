//! Targets: the blocks up to which the node is asked what is missing, one for each chain that peers have.
//!
//! Source: Bitcoin Core b88bffe, `FindNextBlocksToDownload`: a peer is asked for the blocks of its own best chain, if that has
//! at least our tip's work and minimum work. So no chain whose bodies are withheld, or prove bad, stands before another.

use super::Hub;
use super::facts::pruned_from;
use crate::api::{Event, PeerId};
use crate::chain::HeaderInfo;
use crate::download::Reach;
use crate::peer::{Kind, Peer};
use primitives::{BlockHash, Height, Work};

/// Chains that are downloaded at a time: each peer that we connect to may have its own, see
/// [`super::OUTBOUND_COUNT_MAX`], and there is room for a few of others.
pub const TARGET_COUNT_MAX: usize = 16;

/// The present targets, and what they were made from.
#[derive(Debug, Default)]
pub(super) struct Targets {
    list: Vec<BlockHash>,
    made_from: Vec<(PeerId, BlockHash, bool)>,
    /// Whether the node was told of others, and has not yet said what it wants of them.
    pub(super) is_told: bool,
}

impl Hub {
    /// Sees which chains the peers have, and tells the node when they are others.
    pub(super) fn update_targets(&mut self) {
        // One question at a time: peers that change their minds give the node no more work than it answers.
        if self.targets.is_told {
            return;
        }
        let least = self.least_work();
        let has_blocks = |peer: &&Peer| peer.ready && peer.kind != Kind::AddressFetch && peer.serves_blocks();
        let best = |peer: &Peer| {
            Some((peer.id, self.headers.best_known(peer.id).filter(|best| best.work >= least)?, peer.withholds))
        };
        let claims: Vec<_> = self.context.peers.values().filter(has_blocks).filter_map(best).collect();
        let made_from: Vec<_> = claims.iter().map(|(id, best, withholds)| (*id, best.hash, *withholds)).collect();
        if made_from == self.targets.made_from {
            return;
        }
        self.targets.made_from = made_from;
        let mut claims: Vec<_> = claims
            .into_iter()
            .map(|(id, best, withholds)| (withholds, !self.context.peers[&id].is_outbound(), best))
            .filter(|(.., best)| self.context.chain.header(&best.hash).is_some_and(|known| !known.invalid))
            .collect();
        claims.sort_by(|a, b| (a.0, a.1, b.2.work).cmp(&(b.0, b.1, a.2.work)));
        let list = self.distinct(claims.into_iter().map(|(.., best)| best));
        if list != self.targets.list {
            self.targets.list.clone_from(&list);
            self.targets.is_told = true;
            self.context.event(Event::Targets(list));
        }
    }

    /// Of blocks of one chain the last.
    fn distinct(&self, blocks: impl Iterator<Item = HeaderInfo>) -> Vec<BlockHash> {
        let mut out: Vec<HeaderInfo> = Vec::new();
        for block in blocks {
            let is_on = |low: &HeaderInfo, high: &HeaderInfo| {
                low.height <= high.height && self.context.chain.ancestor(&high.hash, low.height) == Some(low.hash)
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

    /// At least our tip's work, and minimum work.
    fn least_work(&self) -> Work {
        self.context.chain.tip().work.max(self.context.chain.minimum_work())
    }

    /// Sees what of the lists each peer has, where that may have changed.
    pub(super) fn update_reach(&mut self) {
        if self.download.list_count() == 0 {
            return;
        }
        let least = self.least_work();
        let version = self.download.version();
        for id in self.context.peer_ids() {
            let peer = &self.context.peers[&id];
            if !peer.ready || !peer.serves_blocks() {
                continue;
            }
            let best = self.headers.best_known(id).filter(|best| best.work >= least);
            let of = (version, best.map(|best| best.hash));
            if peer.reach_of == Some(of) {
                continue;
            }
            let (list, reach) = best.map_or_else(Default::default, |best| self.reach(peer, &best));
            self.download.set_reach(id, list, reach);
            self.context.peers.get_mut(&id).expect("listed").reach_of = Some(of);
        }
    }

    /// The list of which a peer has most, and what of it.
    fn reach(&self, peer: &Peer, best: &HeaderInfo) -> (usize, Reach) {
        let counts = (0..self.download.list_count()).map(|list| (self.count_on(list, best), list));
        let most = counts.max_by_key(|(count, list)| (*count, std::cmp::Reverse(*list)));
        let (count, list) = most.unwrap_or_default();
        let height_min = if peer.is_limited() { pruned_from(best.height) } else { Height::GENESIS };
        (list, Reach { count, height_min })
    }

    /// How many blocks of a list are on the chain that ends with `best`.
    fn count_on(&self, list: usize, best: &HeaderInfo) -> usize {
        let has = |place: usize| {
            let want = self.download.at(list, place);
            want.is_some_and(|want| self.context.chain.ancestor(&best.hash, want.height) == Some(want.hash))
        };
        // A list is one chain: what a peer has of it is its start.
        let (mut low, mut high) = (0, self.download.count(list));
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
