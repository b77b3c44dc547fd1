//! Exchange between the address memory and peers: addresses that peers send and request, results of connections that
//! end, and the peers for the start of the next run.

use super::address_relay::has_own_answer;
use super::{Hub, outbound};
use crate::addresses::{GOSSIP_PENALTY_S, TOLD_PERCENT, anchors_file};
use crate::api::{Event, Outbound, PeerId};
use crate::peer::{Kind, Peer};
use crate::reason::Reason;
use crate::time::Now;
use crate::wire::{AddressEntry, NetAddress, PeerAddress, Target, limits};
use std::net::SocketAddr;

impl Hub {
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
            let Target::Peer(remote) = &peer.target else { return None };
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
        if peer.is_outbound() && peer.is_ready() && peer.kind != Kind::BlockRelay {
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
        let source = match &peer.target {
            Target::Peer(address) => address.address,
            Target::Name(name, _) => NetAddress::of_name(name),
        };
        let is_fetch = peer.kind == Kind::AddressFetch;
        let heard = self.address_relay.hear(&mut self.context, id, entries, now);
        self.addresses.add(&heard.kept, source, GOSSIP_PENALTY_S, now.unix);
        // A single address is the peer's own: the requested answer has more.
        if is_fetch && heard.told_count > 1 {
            return Err(Reason::AddressesFetched);
        }
        Ok(())
    }

    /// Sends a peer the addresses that are due.
    pub(super) fn send_addresses(&mut self, id: PeerId, now: Now) {
        let offered = self.offered();
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
            let is_shunned = |address: &NetAddress| cx.discouraged.has(address, now.unix) || cx.is_banned(address, now);
            entries.retain(|entry| !is_shunned(&entry.peer.address));
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
        for line in self.addresses.take_said() {
            self.context.log(line);
        }
    }
}
