//! Peers behind us: which part of our chain they have.
//!
//! Our locator begins one below our best header. A peer whose tip is one of the locator's hashes answers with no
//! headers, so that no block would be requested from it, although it may have all those below a snapshot, or those that
//! a repair misses. Its `version` message has the height of its tip: it is asked once more, with a locator that begins
//! one below that height. Only what this answer shows counts, never the height itself.
//!
//! Core asks nothing here, and requests no blocks below a snapshot from such a peer until it announces a block.

use super::super::context::Context;
use super::HeaderSync;
use crate::api::PeerId;
use crate::peer::Peer;
use crate::time::Now;
use primitives::{BlockHash, Height};

impl HeaderSync {
    /// Handles a headers message without headers: the peer has none beyond the locator.
    pub(super) fn on_no_headers(&mut self, cx: &mut Context, id: PeerId, now: Now) {
        let state = self.of(id);
        state.low_work = None;
        state.at_end = true;
        let is_answer = state.asked_at.take().is_some();
        // Once for each connection: a peer that answers the same again causes no further request.
        if !is_answer || state.best_known.is_some() || state.is_asked_below {
            return;
        }
        let Some(below) = cx.peers.get(&id).and_then(|peer| below_tip_of(cx, peer)) else { return };
        self.of(id).is_asked_below = true;
        let locator = cx.chain.locator(&below);
        self.ask_headers(cx, id, locator, now);
    }
}

/// The block of our chain one below the height that a peer has reported, if blocks may be requested from this peer.
fn below_tip_of(cx: &Context, peer: &Peer) -> Option<BlockHash> {
    let height = Height::new(u32::try_from(peer.version()?.height).ok()?);
    if height == Height::GENESIS || !peer.serves_blocks() {
        return None;
    }
    let tip = cx.chain.header(&cx.chain.ancestor(&cx.chain.best_header().hash, height)?)?;
    // Nothing is requested from peers whose chain has less.
    (tip.work >= cx.chain.minimum_work()).then(|| tip.header.prev())
}
