//! Messages of peers, each led to the part that deals with it, one at a time and only while its answer has room
//! ([`super::serving::room`]).

use super::Hub;
use super::serving::Serving;
use super::serving::room::may_answer;
use crate::api::PeerId;
use crate::peer::{Hearing, Input, Peer};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{Message, Target};
use primitives::{BlockHash, Header};

impl Hub {
    /// Deals with the messages of a peer that came, as long as there is room for answers.
    pub(super) fn dispatch(&mut self, id: PeerId, now: Now) {
        loop {
            let nonces: Vec<u64> = self.own_nonces(id);
            let Some(peer) = self.context.peers.get(&id) else { return };
            let is_heard = self.serving.hearing(id) == Hearing::Heard;
            let may_answer = is_heard && may_answer(&self.context, peer);
            let Some(peer) = self.context.peers.get_mut(&id) else { return };
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
                if !self.context.peers.contains_key(&id) {
                    return;
                }
            }
        }
    }

    /// Nonces of connections of ours whose other end may be here: needed during a handshake only.
    fn own_nonces(&self, id: PeerId) -> Vec<u64> {
        let shaking = self.context.peers.get(&id).is_some_and(|peer| !peer.ready && !peer.is_outbound());
        let all = self.context.peers.values().filter(|peer| shaking && peer.is_outbound());
        all.map(Peer::nonce).collect()
    }

    /// Goes on with messages that waited for room, where there is some now.
    pub(super) fn dispatch_waiting(&mut self, id: PeerId, now: Now) {
        if self.context.peers.get(&id).is_some_and(|peer| peer.has_undispatched) {
            self.dispatch(id, now);
        }
    }

    /// One message.
    pub(super) fn handle(&mut self, id: PeerId, input: Input, now: Now) -> Result<(), Reason> {
        if matches!(input, Input::Headers(_) | Input::Block(_) | Input::Inv(_))
            && let Some(peer) = self.context.peers.get_mut(&id)
        {
            peer.pongs.unsettle();
        }
        match input {
            Input::Ready => self.on_ready(id, now),
            Input::Headers(headers) => self.on_headers(id, &headers, now),
            Input::Block(received) => self.on_block(id, received, now),
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
                list.iter().for_each(|entry| {
                    self.download.not_found(id, &BlockHash::from_hash256(entry.hash()), now.since_start)
                });
                Ok(())
            }
            Input::Addresses(entries) => self.on_addresses(id, &entries, now),
            Input::GetAddr => {
                self.on_get_addr(id, now);
                Ok(())
            }
            Input::GetFilters(range) => self.serving.on_get_filters(&mut self.context, id, &range),
            Input::GetFilterHashes(range) => self.serving.on_get_filter_hashes(&mut self.context, id, &range),
            Input::GetFilterCheckpoints(kind, stop) => {
                self.serving.on_get_filter_checkpoints(&mut self.context, id, kind, &stop)
            }
            Input::Ping(nonce) => {
                self.on_ping(id, nonce, now);
                Ok(())
            }
            Input::Answered => Ok(()),
        }
    }

    /// `headers`: what they end with is announced, also where the connection then ends.
    pub(super) fn on_headers(&mut self, id: PeerId, headers: &[Header], now: Now) -> Result<(), Reason> {
        let result = self.headers.on_headers(&mut self.context, id, headers, now);
        if let Some(last) = self.headers.take_announced() {
            self.fetch_announced(id, &last, now);
        }
        result
    }

    /// `getaddr`. Who may ask for addresses (the permission `addr`) has a choice of its own.
    /// Source: Bitcoin Core b88bffe, `ProcessMessage`, `getaddr`.
    fn on_get_addr(&mut self, id: PeerId, now: Now) {
        let peer = &self.context.peers[&id];
        let network = if let Target::Peer(remote) = &peer.target { remote.address.network() } else { 0 };
        let from = (!peer.permissions.has(Permissions::ADDR)).then_some((network, peer.local));
        let (is_v2, mut rng) = (peer.wants_addrv2, self.context.rng.clone());
        let is_banned = |address: &_| self.context.is_banned(address, now);
        let entries = self.addresses.told(from, is_banned, now, &mut rng);
        self.context.rng = rng;
        if !entries.is_empty() {
            let message = if is_v2 { Message::AddrV2(entries) } else { Message::Addr(entries) };
            self.context.send(id, &message);
        }
    }
}
