//! Direct fetch: near the tip, a peer that announces a chain beside the best one that it has is asked for those blocks at once.
//!
//! The download ([`crate::download`]) follows each peer's chain of most work. Where a body of that chain never comes, a peer
//! may announce another chain that ends with at least our tip's work: its blocks are asked of that peer alone, at most
//! [`DIRECT_COUNT_MAX`], and taken as blocks that were not asked for are. Nothing waits for them. The same is asked of a peer
//! that offers no blocks (`NODE_NETWORK`), of which the download asks nothing.
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

/// Blocks that are asked of a peer so, and not forgotten. Source: Core's `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
const DIRECT_COUNT_MAX: usize = 16;
/// Age of the tip in seconds above which nothing is fetched so: 20 blocks of 10 minutes. Source: Core's `CanDirectFetch`.
const TIP_AGE_MAX_S: u64 = 20 * 600;

impl BlockDownload {
    /// A peer's message of headers ended with `last`.
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
        // The download asks this peer for blocks of its best chain in any case.
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

    /// Asks a peer for a block on a person's wish, whatever is known of its chain. It is taken when it comes.
    ///
    /// # Errors
    ///
    /// Why that cannot be, in Core's words. Source: Bitcoin Core b88bffe, `PeerManagerImpl::FetchBlock`.
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

    /// How many such blocks a peer was asked for.
    #[cfg(any(test, feature = "testing"))]
    pub(in super::super) fn direct_count(&self, id: PeerId) -> usize {
        self.givers.get(&id).map_or(0, |giver| giver.direct.len())
    }

    /// Whether a peer was asked for this block because it announced it, or a person wanted it; it is not from then on.
    pub(super) fn take_direct(&mut self, id: PeerId, hash: &BlockHash) -> bool {
        let direct = &mut self.of(id).direct;
        let place = direct.iter().position(|asked| asked == hash);
        place.is_some_and(|place| direct.remove(place).is_some())
    }

    /// A block is there: no peer that was asked for it owes it any more.
    /// Source: Bitcoin Core b88bffe, `PeerManagerImpl::BlockConnected`, `RemoveBlockRequest`.
    pub(super) fn drop_direct(&mut self, hash: &BlockHash) {
        self.givers.values_mut().for_each(|giver| giver.direct.retain(|asked| asked != hash));
    }

    /// Asks a peer for these blocks, whatever the download wants; of earlier ones the oldest are no longer expected.
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
