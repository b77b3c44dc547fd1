//! Messages are dispatched only while the answers have room: the bounds of the send queues.
//!
//! - One peer: nothing is dispatched while its queue holds [`SEND_PAUSE_BYTES`] or more. What came and waits for that
//!   stays in the transport's staging buffer, and the socket is not read. Source: Core's `fPauseSend`. The same while
//!   filters that it asked for are read: one request of a peer at a time, answered before what it says next.
//! - All peers: while their queues hold [`SEND_TOTAL_BYTES_MAX`] or more, only a peer whose queue is empty is answered, so
//!   that peers that read nothing take no answer from those that read.
//!
//! - Blocks and filters are read for nobody while what waits in all queues, and what is being read at its largest, has no room in
//!   [`SERVE_BYTES_MAX`]; then who takes least gives its place up (`memory`).
//!
//! Blocks are read ahead of an answer before it is queued ([`Hub::read_ahead`]), so that the queue of one peer holds two answers
//! more than [`SEND_PAUSE_BYTES`] at most.
//!
//! Memory of the queues: [`SERVE_BYTES_MAX`], and one answer of headers for each peer; at most twice that, because vectors are used
//! again for smaller answers.

use super::Hub;
use crate::api::PeerId;
use crate::peer::{Input, Peer, SEND_PAUSE_BYTES};
use crate::reason::Reason;
use crate::time::Now;
use primitives::BlockHash;

/// While all send queues together hold this many bytes, only peers with an empty one are answered: Core's bound of one
/// peer for 32 of them, which is what a node with the default number of inbound peers holds in Core.
pub const SEND_TOTAL_BYTES_MAX: usize = 32 * SEND_PAUSE_BYTES;

/// No block or filter is read that would have no room in these, though it were of the largest.
pub const SERVE_BYTES_MAX: usize = 4 * SEND_TOTAL_BYTES_MAX;

impl Hub {
    /// Whether an answer to this peer has room.
    pub(super) fn may_answer(&self, peer: &Peer) -> bool {
        match peer.transport.out_bytes() {
            0 => true,
            SEND_PAUSE_BYTES.. => false,
            _ => self.queued_bytes() < SEND_TOTAL_BYTES_MAX,
        }
    }

    /// Bytes that wait in all send queues.
    pub(super) fn queued_bytes(&self) -> usize {
        self.peers.values().map(|peer| peer.transport.out_bytes()).sum()
    }

    /// Deals with the messages of a peer that came, as long as there is room for answers.
    pub(super) fn dispatch(&mut self, id: PeerId, now: Now) {
        loop {
            let nonces: Vec<u64> = self.own_nonces(id);
            let Some(peer) = self.peers.get(&id) else { return };
            let may_answer = peer.filters.is_none() && self.may_answer(peer);
            let Some(peer) = self.peers.get_mut(&id) else { return };
            peer.has_undispatched = !may_answer;
            if !may_answer {
                return;
            }
            let handled = match peer.next(now, |nonce| nonces.contains(&nonce)) {
                Ok(None) => return,
                Ok(Some(Input::Answered)) => Ok(()),
                Ok(Some(input)) => self.handle(id, input, now),
                Err(reason) => Err(reason),
            };
            if let Err(reason) = handled {
                self.punish(id, reason, now);
                if !self.peers.contains_key(&id) {
                    return;
                }
            }
        }
    }

    /// Nonces of connections of ours whose other end may be here: needed during a handshake only.
    fn own_nonces(&self, id: PeerId) -> Vec<u64> {
        let shaking = self.peers.get(&id).is_some_and(|peer| !peer.ready && !peer.is_outbound());
        let all = self.peers.values().filter(|peer| shaking && peer.is_outbound());
        all.map(Peer::nonce).collect()
    }

    /// Goes on with messages that waited for room, where there is some now.
    pub(super) fn dispatch_waiting(&mut self, id: PeerId, now: Now) {
        if self.peers.get(&id).is_some_and(|peer| peer.has_undispatched) {
            self.dispatch(id, now);
        }
    }

    /// One message.
    pub(super) fn handle(&mut self, id: PeerId, input: Input, now: Now) -> Result<(), Reason> {
        if matches!(input, Input::Headers(_) | Input::Block(_) | Input::Inv(_))
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.pongs.unsettle();
        }
        match input {
            Input::Ready => self.on_ready(id, now),
            Input::Headers(headers) => self.on_headers(id, &headers, now),
            Input::Block(received) => self.on_block(id, received, now),
            Input::GetHeaders(locator, stop) => self.on_get_headers(id, &locator, &stop),
            Input::GetBlocks(locator, stop) => {
                self.on_get_blocks(id, &locator, &stop);
                Ok(())
            }
            Input::Inv(list) => self.on_inv(id, &list, now),
            Input::GetData => {
                self.serve_next(id, now);
                Ok(())
            }
            Input::NotFound(list) => {
                list.iter().for_each(|entry| {
                    self.download.not_found(id, &BlockHash::from_hash256(entry.hash()), now.since_start)
                });
                Ok(())
            }
            Input::Addresses(entries) => self.on_addresses(id, &entries, now),
            Input::GetAddr => self.on_get_addr(id, now),
            Input::GetFilters(range) => self.on_get_filters(id, &range, now),
            Input::GetFilterHashes(range) => self.on_get_filter_hashes(id, &range, now),
            Input::GetFilterCheckpoints(kind, stop) => self.on_get_filter_checkpoints(id, kind, &stop, now),
            Input::Ping(nonce) => {
                self.on_ping(id, nonce, now);
                Ok(())
            }
            Input::Answered => Ok(()),
        }
    }
}
