//! Dispatch of messages: each goes to the part that handles it, one at a time, and only while there is space for its
//! answer ([`super::serving::room`]).
//!
//! A ping is answered after all earlier messages of the peer were handled, in order, as in Core.

use super::Hub;
use super::block_download::Came;
use super::serving::Serving;
use super::serving::room::may_answer;
use crate::api::{Event, PeerId};
use crate::peer::{Hearing, Input, Peer};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::time::Now;
use crate::transport::Received;
use crate::wire::{Message, PeerAddress};
use primitives::Header;

/// Minimum number of blocks in flight that count as a bulk transfer, for which pongs do not wait. Source: Bitcoin
/// Core b88bffe, `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
pub const BULK_COUNT_MIN: usize = 16;

impl Hub {
    /// Accepts an inbound peer, as [`Hub::accepted_with`] does, on a socket for a Tor service.
    pub fn accepted_from_onion(&mut self, remote: PeerAddress, now: Now) -> Option<PeerId> {
        let id = self.accepted_with(Permissions::NONE, remote, now)?;
        self.context.peers.get_mut(&id).into_iter().for_each(Peer::note_onion);
        Some(id)
    }

    /// Handles received messages of a peer, while there is space for answers.
    pub(super) fn dispatch(&mut self, id: PeerId, now: Now) {
        loop {
            let nonces: Vec<u64> = self.own_nonces(id);
            let Some(peer) = self.context.peers.get(&id) else { return };
            let is_heard = self.serving.hearing(id) == Hearing::Heard;
            let may_answer = is_heard && may_answer(&self.context, peer);
            let Some(peer) = self.context.peers.get_mut(&id) else { return };
            peer.set_undispatched(!may_answer);
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
                if !self.context.peers.contains_key(&id) {
                    return;
                }
            }
        }
    }

    /// Nonces of our connections whose other end may be this node: needed only during a handshake.
    fn own_nonces(&self, id: PeerId) -> Vec<u64> {
        let shaking = self.context.peers.get(&id).is_some_and(|peer| !peer.is_ready() && !peer.is_outbound());
        let all = self.context.peers.values().filter(|peer| shaking && peer.is_outbound());
        all.map(Peer::nonce).collect()
    }

    /// Handles messages that waited for space, if there is some now.
    pub(super) fn dispatch_waiting(&mut self, id: PeerId, now: Now) {
        if self.context.peers.get(&id).is_some_and(|peer| peer.has_undispatched()) {
            self.dispatch(id, now);
        }
    }

    /// Handles one message.
    pub(super) fn handle(&mut self, id: PeerId, input: Input, now: Now) -> Result<(), Reason> {
        if matches!(input, Input::Headers(_) | Input::Block(_) | Input::Inv(_) | Input::GetData(_))
            && let Some(peer) = self.context.peers.get_mut(&id)
        {
            peer.pongs.unsettle();
        }
        match input {
            Input::Ready => self.on_ready(id, now),
            Input::Headers(headers) => self.on_headers(id, &headers, now),
            Input::Block(received) => match self.blocks.on_block(&mut self.context, id, received, now)? {
                Came::Asked => Ok(()),
                Came::Unasked(received, header) => self.on_unasked_block(id, received, &header, now),
            },
            Input::GetHeaders(locator, stop) => {
                self.serving.on_get_headers(&mut self.context, id, &locator, &stop);
                Ok(())
            }
            Input::GetBlocks(locator, stop) => {
                Serving::on_get_blocks(&mut self.context, id, &locator, &stop);
                Ok(())
            }
            Input::Inv(list) => {
                self.headers.on_inv(&mut self.context, id, &list, now);
                Ok(())
            }
            Input::GetData(blocks) => {
                self.serving.on_get_data(id, blocks);
                self.serving.serve_next(&mut self.context, id)
            }
            Input::NotFound(list) => {
                self.blocks.on_not_found(id, &list, now);
                Ok(())
            }
            Input::Addresses(entries) => self.on_addresses(id, entries, now),
            Input::GetAddr => {
                self.on_get_addr(id, now);
                Ok(())
            }
            Input::GetFilters(range) => self.serving.on_get_filters(&mut self.context, id, &range),
            Input::GetFilterHashes(range) => self.serving.on_get_filter_hashes(&mut self.context, id, &range),
            Input::GetFilterCheckpoints(kind, stop) => {
                self.serving.on_get_filter_checkpoints(&mut self.context, id, kind, &stop)
            }
            Input::GetSet(request) => self.serving.on_get_set(&mut self.context, id, request),
            Input::SetTree(base, tree) => self.sets.on_tree(&mut self.context, id, base, tree, now),
            Input::SetChunk(received) => self.sets.on_chunk(&mut self.context, id, received, now),
            Input::Ping(nonce) => {
                self.on_ping(id, nonce, now);
                Ok(())
            }
            Input::Answered => Ok(()),
        }
    }

    /// Handles `headers`: the last one counts as announced, even if the connection then ends.
    fn on_headers(&mut self, id: PeerId, headers: &[Header], now: Now) -> Result<(), Reason> {
        let result = self.headers.on_headers(&mut self.context, id, headers, now);
        if let Some(last) = self.headers.take_announced() {
            self.blocks.fetch_announced(&mut self.context, &self.headers, id, &last, now);
        }
        result
    }

    /// Handles an unsolicited block: its header counts as an announcement; then the block is accepted under the same
    /// conditions as in Core.
    fn on_unasked_block(
        &mut self,
        id: PeerId,
        mut received: Received,
        header: &Header,
        now: Now,
    ) -> Result<(), Reason> {
        let hash = header.hash();
        if self.context.chain.header(&hash).is_none() {
            self.blocks.check_unasked(&mut self.context, id, &mut received, header)?;
            self.on_headers(id, std::slice::from_ref(header), now)?;
            if self.context.chain.header(&hash).is_none() {
                let why = "missing anti-dos proof-of-work validation";
                self.context.debug(|| format!("AcceptBlockHeader: not adding new block header {hash}, {why}"));
            }
        }
        self.blocks.take_unasked(&mut self.context, id, received, hash, now);
        Ok(())
    }

    /// Handles a ping.
    pub(super) fn on_ping(&mut self, id: PeerId, nonce: u64, now: Now) {
        // Due messages precede the answer, as in Core, which sends them after each received message.
        self.send_addresses(id, now);
        if let Some(peer) = self.context.peers.get_mut(&id)
            && peer.pongs.ping(nonce, now.since_start)
        {
            peer.send(&Message::Pong(nonce));
        }
    }

    /// Sends the connections' debug lines to the log.
    pub(super) fn tell_journals(&mut self) {
        if self.context.config.debug_net {
            let lines: Vec<String> = self.context.peers.values_mut().flat_map(|peer| peer.journal.take()).collect();
            lines.into_iter().for_each(|line| self.context.event(Event::Debug(line)));
        }
    }

    /// Answers waiting pings.
    pub(super) fn answer_pings(&mut self, now: Now) {
        if self.context.peers.values().all(|peer| !peer.pongs.is_waiting()) {
            return;
        }
        let is_bulk = self.blocks.in_flight_count() > BULK_COUNT_MIN;
        let is_asking = self.blocks.is_asking() || self.context.chain.is_connecting();
        for (id, peer) in &mut self.context.peers {
            if peer.pongs.is_waiting() {
                // What it asked for goes out before the answer, as in Core.
                let is_settled = !self.serving.owes(*id) && (is_bulk || !(is_asking || self.blocks.is_judging(*id)));
                let nonces = peer.pongs.take(is_settled, now.since_start);
                nonces.into_iter().for_each(|nonce| peer.send(&Message::Pong(nonce)));
            }
        }
    }
}
