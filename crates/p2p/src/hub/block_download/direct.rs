//! Direct fetch: near the tip, blocks of an announced chain other than the peer's best one are requested at once.
//!
//! The download ([`crate::download`]) follows each peer's chain with most work. If a body of that chain never arrives,
//! the peer may announce another chain that ends with at least our tip's work: at most [`DIRECT_COUNT_MAX`] of its
//! blocks are requested, only from that peer, and handled like unsolicited blocks. Nothing waits for these blocks.
//! Direct fetch also covers peers that do not offer to serve blocks (`NODE_NETWORK`), from which the download requests
//! nothing.
//!
//! Source: Bitcoin Core b88bffe, `HeadersDirectFetchBlocks`, `CanDirectFetch`.

use super::super::context::Context;
use super::super::header_sync::HeaderSync;
use super::BlockDownload;
use crate::api::PeerId;
use crate::chain::HeaderInfo;
use crate::peer::Peer;
use crate::time::Now;
use crate::wire::{Inventory, Message, services};
use primitives::BlockHash;

/// Maximum number of direct requests that are remembered for a peer. Source: Core's `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
const DIRECT_COUNT_MAX: usize = 16;
/// Maximum age of the tip in seconds for direct fetch: 20 blocks of 10 minutes. Source: Core's `CanDirectFetch`.
const TIP_AGE_MAX_S: u64 = 20 * 600;

impl BlockDownload {
    /// Handles a headers message that ended with `last`.
    pub(in super::super) fn fetch_announced(
        &mut self,
        cx: &mut Context,
        headers: &HeaderSync,
        id: PeerId,
        last: &HeaderInfo,
        now: Now,
    ) {
        let has_witnesses = |peer: &&Peer| peer.is_ready() && peer.services() & services::WITNESS != 0;
        let Some(peer) = cx.peers.get(&id).filter(has_witnesses) else { return };
        let tip = cx.chain.tip();
        let is_fresh = now.unix.saturating_sub(u64::from(tip.header.time())) < TIP_AGE_MAX_S;
        // The download requests blocks of this peer's best chain in any case.
        let is_on = |best: HeaderInfo| cx.chain.ancestor(&best.hash, last.height) == Some(last.hash);
        let is_on_best = peer.serves_blocks() && headers.best_known(id).is_some_and(is_on);
        if last.invalid || last.work < tip.work || !is_fresh || is_on_best {
            return;
        }
        let missing = cx.chain.missing_up_to(&last.hash, DIRECT_COUNT_MAX);
        let is_direct = |hash: &BlockHash| self.givers.values().any(|giver| giver.direct.contains(hash));
        let wanted = missing.into_iter().filter(|hash| !is_direct(hash) && !self.download.is_asked(hash));
        let wanted: Vec<_> = wanted.collect();
        if !wanted.is_empty() {
            self.ask_direct(cx, id, wanted);
        }
    }

    /// Requests a block from a peer for the user, whatever is known of its chain. It is accepted when it arrives.
    ///
    /// # Errors
    ///
    /// Why that is impossible, in Core's words. Source: Bitcoin Core b88bffe, `PeerManagerImpl::FetchBlock`.
    pub(in super::super) fn fetch_from(
        &mut self,
        cx: &mut Context,
        id: PeerId,
        hash: BlockHash,
    ) -> Result<(), &'static str> {
        let Some(peer) = cx.peers.get(&id) else { return Err("Peer does not exist") };
        if peer.services() & services::WITNESS == 0 {
            return Err("Pre-SegWit peer");
        }
        if !peer.is_ready() {
            return Err("Peer not fully connected");
        }
        if self.of(id).direct.contains(&hash) {
            return Err("Already requested from this peer");
        }
        self.ask_direct(cx, id, vec![hash]);
        Ok(())
    }

    /// Number of direct requests of a peer.
    #[cfg(any(test, feature = "testing"))]
    pub(in super::super) fn direct_count(&self, id: PeerId) -> usize {
        self.givers.get(&id).map_or(0, |giver| giver.direct.len())
    }

    /// Removes the request for a block by direct fetch or by the user; returns whether there was one.
    pub(super) fn take_direct(&mut self, id: PeerId, hash: &BlockHash) -> bool {
        let direct = &mut self.of(id).direct;
        let place = direct.iter().position(|asked| asked == hash);
        place.is_some_and(|place| direct.remove(place).is_some())
    }

    /// A block has arrived: removes the requests of all peers for it.
    /// Source: Bitcoin Core b88bffe, `PeerManagerImpl::BlockConnected`, `RemoveBlockRequest`.
    pub(super) fn drop_direct(&mut self, hash: &BlockHash) {
        self.givers.values_mut().for_each(|giver| giver.direct.retain(|asked| asked != hash));
    }

    /// Requests these blocks from a peer, whatever the download does; beyond the maximum, the oldest requests are
    /// forgotten.
    fn ask_direct(&mut self, cx: &mut Context, id: PeerId, hashes: Vec<BlockHash>) {
        let direct = &mut self.of(id).direct;
        direct.extend(hashes.iter().copied());
        let over = direct.len().saturating_sub(DIRECT_COUNT_MAX);
        direct.drain(..over);
        let Some(peer) = cx.peers.get_mut(&id) else { return };
        for hash in &hashes {
            peer.journal.say(|| format!("Requesting block {hash} from peer={id}"));
        }
        peer.send(&Message::GetData(hashes.into_iter().map(Inventory::WitnessBlock).collect()));
    }
}
