//! The facts of this moment: what the hub knows of its connections, put together.

use super::Hub;
use crate::download::LIMITED_DEPTH_MAX;
use crate::facts::{BlockWait, ChainEnd, DialFacts, NetworkFacts, PeerFacts};
use crate::peer::{Kind, Peer};
use primitives::Height;

impl Hub {
    pub(super) fn facts(&self) -> NetworkFacts {
        NetworkFacts {
            is_off: self.context.is_off,
            dials: DialFacts { known_count: self.addresses.count(), ..self.outbound.facts(self.ticked_at) },
            peers: self.peer_facts(),
            waits_for: self.block_wait(),
        }
    }

    fn peer_facts(&self) -> PeerFacts {
        let ready = || self.context.peers.values().filter(|peer| peer.ready && peer.kind != Kind::Feeler);
        let serving = || ready().filter(|peer| peer.kind != Kind::AddressFetch && peer.serves_blocks());
        let serves_from = |peer: &Peer| Some(pruned_from(self.headers.best_known(peer.id)?.height));
        PeerFacts {
            connected_count: self.context.peers.len(),
            handshaked_count: self.context.peers.values().filter(|peer| peer.ready).count(),
            headers_count: ready().filter(|peer| self.headers.is_heard(peer.id)).count(),
            serving_count: serving().count(),
            pruned_count: serving().filter(|peer| peer.is_limited()).count(),
            pruned_from: serving().filter(|peer| peer.is_limited()).filter_map(serves_from).min(),
            best: ready().filter_map(|peer| self.chain_end(peer)).max_by_key(|end| end.work),
        }
    }

    /// The end of what a peer told of its chain: of what is stored, or of what has too little work for that.
    fn chain_end(&self, peer: &Peer) -> Option<ChainEnd> {
        let (height, work) = self.headers.chain_end(peer.id)?;
        Some(ChainEnd { peer: peer.id, height, work, is_below_minimum: work < self.context.chain.minimum_work() })
    }

    fn block_wait(&self) -> Option<BlockWait> {
        let (want, peer, time) = self.download.waits_for(self.ticked_at)?;
        let address = |id| self.context.peers.get(&id).map_or_else(String::new, |peer| peer.target.to_string());
        Some(BlockWait { want, peer: peer.map(|id| (id, address(id))), time })
    }
}

/// The lowest height of which a peer with this best block gives blocks, if it keeps its last ones alone.
pub(super) fn pruned_from(best: Height) -> Height {
    best.saturating_sub(LIMITED_DEPTH_MAX - 1)
}
