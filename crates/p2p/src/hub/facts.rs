//! Collects [`NetworkFacts`] from the parts of the hub.

use super::block_download::BlockDownload;
use super::block_download::targets::pruned_from;
use super::context::Context;
use super::header_sync::HeaderSync;
use super::outbound::Outbound;
use crate::addresses::Addresses;
use crate::facts::{BlockWait, ChainEnd, DialFacts, NetworkFacts, PeerFacts};
use crate::peer::{Kind, Peer};
use std::time::Duration;

/// The parts with the facts.
pub(super) struct Known<'a> {
    pub(super) context: &'a Context,
    pub(super) addresses: &'a Addresses,
    pub(super) outbound: &'a Outbound,
    pub(super) headers: &'a HeaderSync,
    pub(super) blocks: &'a BlockDownload,
}

impl Known<'_> {
    /// The facts at this time.
    pub(super) fn facts(&self, at: Duration) -> NetworkFacts {
        NetworkFacts {
            is_off: self.context.is_off,
            dials: DialFacts { known_count: self.addresses.count(), ..self.outbound.facts(at) },
            peers: self.peers(),
            waits_for: self.waits_for(at),
        }
    }

    fn peers(&self) -> PeerFacts {
        let all = || self.context.peers.values();
        let ready = || all().filter(|peer| peer.is_ready() && peer.kind != Kind::Feeler);
        let serving = || ready().filter(|peer| peer.kind != Kind::AddressFetch && peer.serves_blocks());
        let serves_from = |peer: &Peer| Some(pruned_from(self.headers.best_known(peer.id)?.height));
        PeerFacts {
            connected_count: all().count(),
            handshaked_count: all().filter(|peer| peer.is_ready()).count(),
            headers_count: ready().filter(|peer| self.headers.is_heard(peer.id)).count(),
            serving_count: serving().count(),
            pruned_count: serving().filter(|peer| peer.is_limited()).count(),
            pruned_from: serving().filter(|peer| peer.is_limited()).filter_map(serves_from).min(),
            best: ready()
                .filter(|peer| !peer.is_of_other_chain())
                .filter_map(|peer| self.chain_end(peer))
                .max_by_key(|end| end.work),
        }
    }

    /// The end of a peer's chain: of its stored headers, or of a chain with too little work to be stored.
    fn chain_end(&self, peer: &Peer) -> Option<ChainEnd> {
        let (height, work) = self.headers.chain_end(peer.id)?;
        let is_below_minimum = work < self.context.chain.minimum_work();
        Some(ChainEnd { peer: peer.id, height, work, is_below_minimum })
    }

    fn waits_for(&self, at: Duration) -> Option<BlockWait> {
        let (want, peer, time) = self.blocks.waits_for(at)?;
        let address = |id| self.context.peers.get(&id).map_or_else(String::new, |peer| peer.target.to_string());
        Some(BlockWait { want, peer: peer.map(|id| (id, address(id))), time })
    }
}
