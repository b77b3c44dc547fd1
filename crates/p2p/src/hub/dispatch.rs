//! Dispatch of messages: each goes to the part that handles it, one at a time, and only while there is space for its
//! answer ([`super::serving::room`]).
//!
//! The exchange of addresses is here too: it joins the address memory, the answers and the peers.
//!
//! A ping is answered after all earlier messages of the peer were handled, in order, as in Core.

use super::address_relay::has_own_answer;
use super::block_download::Came;
use super::serving::Serving;
use super::serving::room::may_answer;
use super::{Hub, outbound};
use crate::addresses::{GOSSIP_PENALTY_S, TOLD_PERCENT, anchors_file};
use crate::api::{Event, Outbound, PeerId};
use crate::peer::{Hearing, Input, Kind, Peer};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::time::Now;
use crate::transport::Received;
use crate::wire::{AddressEntry, Message, NetAddress, PeerAddress, Target, limits};
use primitives::Header;
use std::net::SocketAddr;

/// Minimum number of blocks in flight that count as a bulk transfer, for which pongs do not wait. Source: Bitcoin
/// Core b88bffe, `MAX_BLOCKS_IN_TRANSIT_PER_PEER`.
pub const BULK_COUNT_MIN: usize = 16;

impl Hub {
    /// Accepts an inbound peer on a socket for a Tor service. Its address is that of the service's local end, so the
    /// whitelist does not apply. Source: Bitcoin Core b88bffe, `CConnman::CreateNodeFromAcceptedSocket`.
    pub fn accepted_from_onion(&mut self, remote: PeerAddress, now: Now) -> Option<PeerId> {
        let id = self.accept(Permissions::NONE, remote, now)?;
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

    /// Nonces of our connections whose other end may be this node. Both ends are in their handshake then; afterwards
    /// the peer knows the nonce. Source: Bitcoin Core b88bffe, `CheckIncomingNonce`.
    fn own_nonces(&self, id: PeerId) -> Vec<u64> {
        let is_inbound = self.context.peers.get(&id).is_some_and(|peer| !peer.is_ready() && !peer.is_outbound());
        let shaking = self.context.peers.values().filter(|peer| is_inbound && peer.is_outbound() && !peer.is_ready());
        shaking.map(Peer::nonce).collect()
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
        let Some(lines) = &self.context.config.debug_net else { return };
        for peer in self.context.peers.values_mut() {
            peer.journal.take().iter().for_each(|line| lines.write(line));
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
                // The data that it requested is sent before this answer, as in Core.
                let is_settled = !self.serving.owes(*id) && (is_bulk || !(is_asking || self.blocks.is_judging(*id)));
                let nonces = peer.pongs.take(is_settled, now.since_start);
                nonces.into_iter().for_each(|nonce| peer.send(&Message::Pong(nonce)));
            }
        }
    }

    // Addresses.

    /// Result of [`super::Action::Resolve`]: the addresses of a name; empty if the name has no address.
    pub fn resolved(&mut self, name: &str, found: &[SocketAddr], now: Now) {
        self.outbound.resolved(&mut self.context, &mut self.addresses, name, found, now);
    }

    /// Failure of [`super::Action::Resolve`].
    pub fn not_resolved(&mut self, name: &str, why: &str, now: Now) {
        self.outbound.not_resolved(&mut self.context, &mut self.addresses, name, why, now);
    }

    /// Sends the block-relay-only peers to the node, if peers are sought. Source: Bitcoin Core b88bffe,
    /// `CConnman::StopNodes`.
    pub(super) fn give_anchors(&mut self) {
        if self.context.config.outbound != Outbound::Automatic {
            return;
        }
        let of = |peer: &Peer| {
            let remote = peer.remote()?;
            let known = self.addresses.entry(remote);
            let services = known.map_or_else(|| peer.services(), |entry| entry.services);
            Some(AddressEntry { peer: *remote, services, time: known.map_or(0, |entry| entry.time) })
        };
        let peers = self.context.peers.values().filter(|peer| peer.kind == Kind::BlockRelay);
        let anchors: Vec<_> = peers.filter_map(of).take(anchors_file::ANCHOR_COUNT_MAX).collect();
        let bytes = anchors_file::to_bytes(&anchors, self.context.config.network.magic);
        self.context.event(Event::Anchors(anchors.len(), bytes));
    }

    /// Updates the address memory at the end of a connection.
    ///
    /// The address of a peer that misbehaved is discouraged for a day. Exceptions: a local address, as for peers
    /// through a Tor service, because others share it; and a peer that the user named. Source: Bitcoin Core b88bffe,
    /// `MaybeDiscourageAndDisconnect`, `FinalizeNode`.
    pub(super) fn note_end(&mut self, remote: &PeerAddress, peer: &Peer, reason: &Reason, now: Now) {
        let is_named = matches!(peer.kind, Kind::Manual(_));
        if reason.is_offence() && !remote.address.is_local() && !is_named {
            self.context.discouraged.add(remote.address, now.unix);
        }
        if *reason == Reason::FeelerDone {
            self.addresses.set_services(remote, peer.services());
            self.addresses.good(remote, now.unix);
        }
        // Core leaves a peer that lacks services before its handshake is finished.
        let is_left = matches!(reason, Reason::MissingServices { .. });
        if peer.is_outbound() && peer.is_ready() && peer.kind != Kind::BlockRelay && !is_left {
            self.addresses.disconnected(remote, now.unix);
        }
    }

    /// Handles `addr` and `addrv2`.
    pub(super) fn on_addresses(&mut self, id: PeerId, entries: Vec<AddressEntry>, now: Now) -> Result<(), Reason> {
        let Some(peer) = self.context.peers.get(&id) else { return Ok(()) };
        if !self.address_relay.set_up(peer) {
            let kind = peer.kind.name();
            self.context.debug(|| format!("ignoring addr message from {kind} peer={id}"));
            return Ok(());
        }
        let source = match (peer.remote(), &peer.target) {
            (Some(remote), _) | (None, Target::Peer(remote)) => remote.address,
            (None, Target::Name(name, _)) => NetAddress::of_name(name.as_str()),
        };
        let is_fetch = peer.kind == Kind::AddressFetch;
        let heard = self.address_relay.hear(&mut self.context, id, entries, now);
        self.addresses.add(&heard.kept, source, GOSSIP_PENALTY_S, now.unix);
        // A single address is the peer's own address: the requested answer has more.
        if is_fetch && heard.told_count > 1 {
            return Err(Reason::AddressesFetched);
        }
        Ok(())
    }

    /// Sends a peer the addresses that are due.
    pub(super) fn send_addresses(&mut self, id: PeerId, now: Now) {
        let offered = self.context.offered();
        self.address_relay.send_due(&mut self.context, id, offered, now);
    }

    /// Handles `getaddr`. A peer with the permission `addr` gets an answer of its own.
    /// Source: Bitcoin Core b88bffe, `ProcessMessage`, `getaddr`.
    pub(super) fn on_get_addr(&mut self, id: PeerId, now: Now) {
        let Some(peer) = self.context.peers.get(&id).filter(|peer| self.address_relay.set_up(peer)) else { return };
        let from = (!has_own_answer(peer)).then_some((peer.network(), peer.local()));
        let cx = &mut self.context;
        let addresses = &mut self.addresses;
        let mut choose = || {
            let mut entries = addresses.get(limits::ADDRESS_COUNT_MAX, TOLD_PERCENT, None, now.unix);
            entries.retain(|entry| !cx.is_shunned(&entry.peer.address, now));
            entries
        };
        let mut rng = cx.rng.clone();
        let entries = match from {
            Some(from) => self.answers.answer(from, now.since_start, &mut rng, |_| choose()),
            None => choose(),
        };
        cx.rng = rng;
        self.address_relay.answer(cx, id, &entries);
        self.send_addresses(id, now);
    }

    /// Ends surplus connections.
    pub(super) fn tick_extra(&mut self, now: Now) {
        let seen = outbound::extra::Seen { headers: &self.headers, blocks: &self.blocks };
        for (id, reason) in self.outbound.look_at_extra(&mut self.context, &seen, now) {
            self.drop_peer(id, reason, now);
        }
        self.tell_said();
    }

    /// Logs the checks of the address memory, with `--debug addrman`.
    pub(super) fn tell_said(&mut self) {
        let said = self.addresses.take_said();
        if let Some(lines) = &self.context.config.debug_addrman {
            said.iter().for_each(|line| lines.write(line));
        }
    }
}
