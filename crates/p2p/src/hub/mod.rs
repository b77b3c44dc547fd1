//! All peers together: the parts of the network logic, and the calls between them. Without I/O: [`crate::net`] has
//! the sockets.
//!
//! In: bytes (through [`Hub::peer_mut`] and [`Hub::received`]), connections made and lost, commands, the time.
//! Out: bytes (in each peer's transport), and [`Action`]s.
//!
//! | part | state that it owns |
//! |---|---|
//! | [`crate::addresses`] | known addresses of peers |
//! | [`address_relay`] | relay of addresses to peers, ours included |
//! | [`outbound`] | outbound connections, seeds, errors of connection attempts |
//! | [`header_sync`] | each peer's chain, requests for headers, the end of header sync |
//! | [`block_download`] | requests for blocks, withheld blocks of each peer |
//! | [`set_download`] | requests for chunks of a UTXO set |
//! | [`serving`] | requests of each peer, and the memory of their answers |
//! | [`eviction`] | inbound slots |
//!
//! A part is a struct with private fields, in its own file or directory; it keeps its state for each peer by the
//! peer's id.
//! Its methods get the context (connections, chain, settings, actions) and read access to parts above it in this
//! table. A part never ends a connection: it returns the connection to end and the reason, and [`Hub`] ends it and
//! informs every part.
//! `impl Hub` is in this file, in [`dispatch`] (messages of peers, those with addresses included), in `asked` (commands
//! of the user), in `bounds` (memory of all peers) and in `wake` (after a suspension).

mod action;
pub mod address_relay;
mod asked;
pub mod block_download;
mod bounds;
mod context;
pub mod dispatch;
pub mod eviction;
mod facts;
mod greeting;
pub mod header_sync;
pub mod outbound;
pub mod own;
mod read;
pub mod serving;
pub mod set_download;
mod wake;

pub use action::{Action, NodeMessage};
pub use asked::{Added, AddressCounts, AddressTables, Purpose};
pub use read::{ReadRequest, Served};

use crate::address_answers::AddressAnswers;
use crate::addresses::Addresses;
use crate::api::{BlockVerdict, Config, Event, PeerId, Progress};
use crate::budget::{BufferPool, InFlightBudget};
use crate::chain::ChainView;
use crate::journal;
use crate::peer::{Kind, Peer};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::transport::Transport;
use crate::trouble::DialError;
use crate::wire::{NetAddress, PeerAddress, Target, TargetError};
use address_relay::AddressRelay;
use block_download::BlockDownload;
use context::Context;
use eviction::{InboundPlace, Places};
use facts::Known;
use header_sync::HeaderSync;
use outbound::{Dialed, OUTBOUND_COUNT_MAX, Outbound};
use primitives::BlockHash;
use serving::Serving;
use serving::room::may_answer;
use set_download::SetDownload;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Interval between two copies of the address memory for the node.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// All peers.
pub struct Hub {
    context: Context,
    blocks: BlockDownload,
    buffers: BufferPool,
    headers: HeaderSync,
    sets: SetDownload,
    serving: Serving,
    outbound: Outbound,
    places: Places,
    addresses: Addresses,
    address_relay: AddressRelay,
    /// Cached answers to `getaddr`.
    answers: AddressAnswers,
    received_bytes: u64,
    sent_bytes: u64,
    /// Connections ended because of a timeout, and because the peer misbehaved.
    stalled_count: u64,
    misbehaved_count: u64,
    saved_at: Duration,
    /// Time of the last tick.
    ticked_at: Duration,
    /// Since the last tick the user's pause held back what peers send.
    reads_little: bool,
}

impl Hub {
    /// A hub without a peer.
    ///
    /// # Errors
    ///
    /// [`TargetError`] for an address in the settings that does not parse.
    pub fn new(
        mut config: Config,
        chain: Arc<dyn ChainView>,
        budget: Arc<InFlightBudget>,
        mut rng: Rng,
        now: Now,
    ) -> Result<Hub, TargetError> {
        config.outbound_count = config.outbound_count.clamp(1, OUTBOUND_COUNT_MAX);
        let outbound = Outbound::new(&config, now, &mut rng)?;
        let remembered = config.addresses.take();
        let addresses = remembered.unwrap_or_else(|| Addresses::new(&mut rng, config.groups.clone()));
        let address_relay = AddressRelay::new(&mut rng);
        let places = Places::new(&mut rng);
        let buffers = budget.buffers();
        let serving = Serving::new(buffers.clone());
        let context = Context::new(config, chain, rng);
        let blocks = BlockDownload::new(budget, context.config.download_rate_max);
        Ok(Hub {
            context,
            blocks,
            buffers,
            headers: HeaderSync::default(),
            sets: SetDownload::default(),
            serving,
            outbound,
            places,
            addresses,
            address_relay,
            answers: AddressAnswers::default(),
            received_bytes: 0,
            sent_bytes: 0,
            stalled_count: 0,
            misbehaved_count: 0,
            saved_at: now.since_start,
            ticked_at: now.since_start,
            reads_little: false,
        })
    }

    /// Removes and returns the next action.
    pub fn next_action(&mut self) -> Option<Action> {
        self.context.next_action()
    }

    /// The ids of the connections.
    pub fn peer_ids(&self) -> Vec<PeerId> {
        self.context.peer_ids()
    }

    /// A connection.
    pub fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.context.peers.get_mut(&id)
    }

    /// A connection.
    pub fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.context.peers.get(&id)
    }

    /// The address memory as bytes.
    pub fn addresses_bytes(&self) -> Vec<u8> {
        self.addresses.to_bytes(self.context.config.network.magic)
    }

    /// Progress of the network.
    pub fn progress(&self) -> Progress {
        let ready =
            |inbound: bool| self.context.peers.values().filter(|p| p.is_ready() && p.is_outbound() != inbound).count();
        Progress {
            outbound_count: ready(false),
            inbound_count: ready(true),
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            stalled_count: self.stalled_count,
            misbehaved_count: self.misbehaved_count,
            presync_height: self.headers.presync_height(),
            headers_done: self.headers.is_done(),
            headers_settled: self.headers.is_settled(),
            headers_too_new: self.headers.headers_too_new(&self.context),
            facts: self.known().facts(self.ticked_at),
            ..self.blocks.progress(&self.context, &self.headers)
        }
    }

    fn known(&self) -> Known<'_> {
        let Hub { context, addresses, outbound, headers, blocks, .. } = self;
        Known { context, addresses, outbound, headers, blocks }
    }

    /// Bytes received and sent.
    pub fn totals(&self) -> (u64, u64) {
        (self.received_bytes, self.sent_bytes)
    }

    // Connections made and lost.

    /// Accepts an inbound peer. `None`: there is no slot for it, and its socket is to be closed.
    pub fn accepted(&mut self, remote: PeerAddress, now: Now) -> Option<PeerId> {
        self.accepted_with(Permissions::NONE, remote, now)
    }

    /// Accepts an inbound peer on a socket with these permissions.
    pub fn accepted_with(&mut self, given: Permissions, remote: PeerAddress, now: Now) -> Option<PeerId> {
        self.accept(given.and(self.permissions_of(&remote.address, true)), remote, now)
    }

    fn accept(&mut self, permissions: Permissions, remote: PeerAddress, now: Now) -> Option<PeerId> {
        if self.context.is_banned(&remote.address, now) && !permissions.has(Permissions::NOBAN) {
            self.context.debug(|| format!("connection from {remote} dropped (banned)"));
            return None;
        }
        if self.context.is_off {
            return None;
        }
        let last_block_at = |id| self.blocks.last_block_at(id);
        let place = self.places.place(&self.context, last_block_at, &remote.address, permissions, now);
        match place {
            InboundPlace::Free => {}
            InboundPlace::Of(id) => self.drop_peer(id, Reason::Evicted, now),
            InboundPlace::None => {
                let why = "failed to find an eviction candidate - connection dropped (full)";
                self.context.debug(|| why.to_owned());
                return None;
            }
        }
        let id = self.context.new_id();
        let magic = self.context.config.network.magic;
        let transport = if self.context.config.v2transport {
            Transport::responder(magic, &mut self.context.rng)
        } else {
            Transport::v1(magic)
        };
        self.insert(id, Kind::Inbound, Target::Peer(remote), transport, permissions, now);
        Some(id)
    }

    /// The whitelist's permissions for a peer at this address.
    fn permissions_of(&self, remote: &NetAddress, is_inbound: bool) -> Permissions {
        let given = self.context.config.whitelist.iter().map(|net| net.of(remote, is_inbound));
        given.fold(Permissions::NONE, Permissions::and)
    }

    /// The whitelist's permissions for an outbound peer at this address: none if the user did not name the peer. Source:
    /// Bitcoin Core b88bffe, `ConnectNode`.
    fn outbound_permissions(&self, kind: Kind, remote: &NetAddress) -> Permissions {
        if let Kind::Manual(_) = kind { self.permissions_of(remote, false) } else { Permissions::NONE }
    }

    /// The connection of [`Action::Dial`] was made.
    pub fn connected(&mut self, id: PeerId, now: Now) {
        let Some(dial) = self.outbound.made(&mut self.context, &mut self.addresses, id, now) else { return };
        let magic = self.context.config.network.magic;
        let transport =
            if dial.v2 { Transport::v2_initiator(magic, &mut self.context.rng) } else { Transport::v1(magic) };
        let permissions = match &dial.target {
            Target::Peer(remote) => self.outbound_permissions(dial.kind, &remote.address),
            Target::Name(..) => Permissions::NONE,
        };
        self.insert(id, dial.kind, dial.target, transport, permissions, now);
        if let Some(peer) = self.context.peers.get_mut(&id).filter(|_| dial.v2) {
            peer.journal.say(|| format!("start sending v2 handshake to peer={id}"));
        }
    }

    /// The name of an outbound peer led to this address. A proxy looks names up itself: then it is the proxy's.
    /// Source: Bitcoin Core b88bffe, `ConnectNode`.
    pub fn note_remote(&mut self, id: PeerId, remote: SocketAddr) {
        let direct = self.context.peers.get(&id).filter(|peer| self.context.config.proxy_of(&peer.target).is_none());
        let Some(Peer { target: Target::Name(..), kind, .. }) = direct else { return };
        let remote = PeerAddress { address: NetAddress::from_ip(remote.ip()), port: remote.port() };
        let permissions = self.outbound_permissions(*kind, &remote.address);
        self.context.peers.get_mut(&id).into_iter().for_each(|peer| peer.set_remote(remote, permissions));
    }

    fn insert(
        &mut self,
        id: PeerId,
        kind: Kind,
        target: Target,
        mut transport: Transport,
        permissions: Permissions,
        now: Now,
    ) {
        transport.set_buffer_pool(self.buffers.clone());
        let greeting = self.context.greeting();
        let peer = Peer::new(id, kind, target, transport, greeting, now, &mut self.context.rng);
        let mut peer = peer.with_settings(permissions, &self.context.config);
        peer.journal.say(|| format!("Added connection peer={id}"));
        self.serving.add_peer(id);
        self.address_relay.add_peer(id);
        self.headers.add_peer(id);
        self.blocks.add_peer(id, kind);
        self.context.peers.insert(id, peer);
    }

    /// The connection of [`Action::Dial`] failed.
    pub fn not_connected(&mut self, id: PeerId, error: &DialError, now: Now) {
        self.outbound.not_made(&mut self.context, &mut self.addresses, id, error, now);
    }

    /// Begins a connection.
    fn dial(&mut self, dialed: Dialed, now: Now) {
        self.outbound.dial(&mut self.context, dialed, now);
    }

    /// The socket of a connection was closed or failed.
    pub fn closed(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(peer) = self.context.peers.get(&id) else { return };
        let retry = peer.is_outbound() && peer.transport.may_retry_v1();
        let kind = peer.kind;
        let target = peer.target.clone();
        self.drop_peer(id, reason, now);
        if retry {
            self.context.debug(|| format!("retrying with v1 transport protocol for peer={id}"));
            self.dial(Dialed::with(kind, target, false), now);
        }
    }

    /// Ends a connection because of a peer's behaviour, unless the peer is exempt from punishment.
    fn punish(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(peer) = self.context.peers.get(&id) else { return };
        if !(peer.is_noban() && reason.is_forgivable()) {
            return self.drop_peer(id, reason, now);
        }
        let text = format!("Peer {id}: not punished, it has the permission noban: {reason}");
        let inbound = !peer.is_outbound();
        self.context.event(Event::PeerNote { peer: Some(id), inbound, text });
    }

    /// Ends a connection.
    fn drop_peer(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(mut peer) = self.context.peers.remove(&id) else { return };
        peer.journal.say(|| journal::of_end(&reason, id));
        peer.journal.say(|| format!("Cleared nodestate for peer={id}"));
        self.context.debug_journal(&mut peer.journal);
        self.blocks.remove_peer(id);
        self.sets.remove_peer(id);
        self.serving.remove_peer(id);
        self.address_relay.remove_peer(id);
        self.headers.remove_peer(id);
        if let Target::Peer(remote) = &peer.target {
            self.note_end(remote, &peer, &reason, now);
        }
        self.stalled_count += u64::from(reason.is_stall());
        self.misbehaved_count += u64::from(reason.is_offence());
        let is_told = self.outbound.ended(&peer, &reason, now);
        self.context.ask(Action::Close { peer: id });
        let address = peer.target.to_string();
        if is_told {
            self.context.event(Event::PeerGone { peer: id, address, inbound: !peer.is_outbound(), reason });
        }
    }

    /// Ends all connections: this node shuts down.
    pub fn stop(&mut self, now: Now) {
        self.give_anchors();
        for id in self.peer_ids() {
            self.drop_peer(id, Reason::Stopping, now);
        }
        let bytes = self.addresses_bytes();
        self.context.event(Event::Addresses(bytes));
    }

    // Bytes.

    /// Whether more may be read from a connection now.
    ///
    /// Nothing is dispatched while the peer does not read its answers. No blocks are read until the node has processed
    /// enough of the arrived ones; while it holds more than the window, blocks are read only from the peer with the
    /// request for the block that the node waits for.
    pub fn may_read(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.context.peers.get(&id) else { return false };
        if peer.has_undispatched() || !may_answer(&self.context, peer) {
            return false;
        }
        self.blocks.may_read(&self.context.config, id)
    }

    /// The user paused the download: no peer is slow because of that.
    pub fn reading_is_paused(&mut self) {
        self.blocks.reading_is_paused();
        self.reads_little = true;
    }

    /// Buffer for the next bytes of a connection: see [`Transport::space`]. Before an unfinished message of an
    /// inbound peer takes more memory, space is made for it; `None` if this peer was evicted for that.
    pub fn space(&mut self, id: PeerId, now: Now) -> Option<&mut [u8]> {
        let peer = self.context.peers.get(&id)?;
        let growth = if peer.is_outbound() { 0 } else { peer.transport.growth() };
        if growth > 0 {
            self.drop_who_holds_most(growth, now);
        }
        self.context.peers.get_mut(&id).map(|peer| peer.transport.space())
    }

    /// Records that `bytes` bytes were put into the buffer of a connection's transport.
    pub fn received(&mut self, id: PeerId, bytes: usize, now: Now) {
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        peer.transport.received(bytes);
        peer.note_received(now);
        self.received_bytes += bytes as u64;
        self.dispatch(id, now);
        self.bound_unfinished(id, now);
    }

    /// Records that `bytes` bytes of a connection's transport were sent.
    pub fn sent(&mut self, id: PeerId, bytes: usize, now: Now) {
        let Some(peer) = self.context.peers.get_mut(&id) else { return };
        peer.transport.sent(bytes);
        peer.note_sent(now);
        let is_felt = peer.is_felt();
        self.sent_bytes += bytes as u64;
        self.context.upload.sent(bytes, now.since_start);
        if is_felt {
            return self.drop_peer(id, Reason::FeelerDone, now);
        }
        self.dispatch_waiting(id, now);
        self.serve_next(id, now);
    }

    /// Begins to read the answer to a peer's next request.
    fn serve_next(&mut self, id: PeerId, now: Now) {
        if let Err(reason) = self.serving.serve_next(&mut self.context, id) {
            self.drop_peer(id, reason, now);
        }
    }

    /// Before [`Hub::served`]: begins to read the next answer while the last one is encrypted and sent.
    pub fn read_ahead(&mut self, id: PeerId, served: &Served) {
        self.serving.read_ahead(&mut self.context, id, served);
    }

    /// The data of [`Action::Read`] was read.
    pub fn served(&mut self, id: PeerId, served: Served, now: Now) {
        if let Err(reason) = self.serving.served(&mut self.context, id, served) {
            self.drop_peer(id, reason, now);
        }
        self.dispatch_waiting(id, now);
    }

    fn tick_headers(&mut self, now: Now) {
        for (id, reason) in self.headers.begin_tick(&mut self.context, now) {
            self.drop_peer(id, reason, now);
        }
        for id in self.peer_ids() {
            if let Err(reason) = self.headers.tick_peer(&mut self.context, id, now) {
                self.drop_peer(id, reason, now);
            }
        }
        self.headers.ask_next(&mut self.context, now);
        let withholds = |id| self.blocks.withholds(id);
        self.headers.tell_done(&mut self.context, &mut self.outbound, withholds, now);
    }

    /// Handles the node's verdict on a block.
    fn on_verdict(&mut self, hash: BlockHash, verdict: BlockVerdict, now: Now) {
        let is_invalid = matches!(verdict, BlockVerdict::Invalid(_));
        if let Some((id, reason)) = self.blocks.judge(&mut self.context, hash, verdict, now) {
            self.punish(id, reason, now);
        }
        if !is_invalid {
            return;
        }
        // Every peer whose best chain has it is disconnected.
        if let Some(refused) = self.context.chain.header(&hash) {
            for id in self.headers.those_on(&self.context, hash, refused.height) {
                self.punish(id, Reason::OnInvalidChain(hash), now);
            }
        }
        self.headers.ask_all_again();
    }

    /// Requests blocks. Call it at the end of a round of messages, commands or ticks.
    pub fn schedule(&mut self, now: Now) {
        self.blocks.schedule(&mut self.context, &self.headers, now);
        self.answer_pings(now);
        self.tell_journals();
    }

    /// Sets the condition on which the node wakes this thread. Call it right before waiting for sockets: sending
    /// after [`Hub::schedule`] may unblock waiting blocks.
    pub fn will_wait(&self) {
        self.blocks.will_wait(&self.context.config);
    }

    fn tick_blocks(&mut self, now: Now) {
        self.blocks.sample(&self.context, now);
        if let Some((id, reason)) = self.blocks.who_has_no_room(&self.context.config) {
            self.drop_peer(id, reason, now);
        }
        let can_replace = self.outbound.can_replace(&self.context, &self.addresses);
        if let Some((id, reason)) = self.blocks.who_holds_up(can_replace, now) {
            self.drop_peer(id, reason, now);
        }
        for (id, reason) in self.blocks.tick_delivery(&self.context, now) {
            self.drop_peer(id, reason, now);
        }
    }

    /// Whether much memory was freed since the last call: an allocator may keep it from the system.
    pub fn take_freed(&mut self) -> bool {
        self.serving.take_freed()
    }

    fn on_ready(&mut self, id: PeerId, now: Now) -> Result<(), Reason> {
        let initial = self.context.chain.initial_download();
        let peer = self.context.peers.get_mut(&id).expect("it just spoke");
        let info = peer.info();
        let offered = peer.services();
        let expected = outbound::expected_services(offered, initial);
        let is_chosen = matches!(peer.kind, Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay);
        let remote = peer.remote().copied().filter(|_| peer.is_outbound());
        if let Some(remote) = &remote {
            self.addresses.set_services(remote, offered);
        }
        if is_chosen && !outbound::offers_enough(offered, initial) {
            return Err(Reason::MissingServices { offered, expected });
        }
        if peer.is_outbound() && self.address_relay.set_up(peer) {
            peer.ask_addresses();
            self.address_relay.note_asked(id);
        }
        if let Some(remote) = &remote {
            self.addresses.good(remote, now.unix);
        }
        self.outbound.succeeded(peer.kind, &info.address);
        self.blocks.on_ready(&self.context, id, now);
        self.context.event(Event::PeerConnected { peer: id, info });
        self.headers.look_at_lag(&mut self.context, id, now)?;
        // With other peers connected, the next tick chooses among them.
        if self.context.peers.len() == 1 && self.context.peers[&id].is_outbound() {
            self.headers.ask_next(&mut self.context, now);
        }
        Ok(())
    }

    // Messages of the node, and the clock.

    /// Handles a message of the node.
    pub fn from_node(&mut self, message: NodeMessage, now: Now) {
        match message {
            NodeMessage::Want(lists) => self.blocks.want(lists),
            NodeMessage::Verdict(hash, verdict) => self.on_verdict(hash, verdict, now),
            NodeMessage::NewTip => {
                self.serving.announce_tip(&mut self.context, &self.headers);
                self.outbound.note_tip(now);
                for (id, reason) in self.headers.look_at_lags(&mut self.context, now) {
                    self.drop_peer(id, reason, now);
                }
            }
            NodeMessage::Echo => self.context.event(Event::Echo),
        }
    }

    /// Runs all timers. Call it about every 100 ms, and before [`Hub::schedule`].
    pub fn tick(&mut self, now: Now) {
        self.ticked_at = now.since_start;
        self.context.upload.tick(now.since_start);
        self.context.has_caught_up();
        for id in self.peer_ids() {
            let Some(peer) = self.context.peers.get_mut(&id) else { continue };
            match peer.tick(self.serving.hearing(id), now, &mut self.context.rng) {
                Ok(()) if outbound::is_fetched(peer, now) => self.drop_peer(id, Reason::AddressesFetched, now),
                Ok(()) => {
                    self.dispatch_waiting(id, now);
                    self.serve_next(id, now);
                    self.send_addresses(id, now);
                }
                Err(reason) => self.drop_peer(id, reason, now),
            }
        }
        self.tick_woken(now);
        self.tick_memory(now);
        self.tick_headers(now);
        self.tick_blocks(now);
        for (id, reason) in self.sets.tick(&mut self.context, now) {
            self.punish(id, reason, now);
        }
        self.tick_extra(now);
        self.outbound.tick(&mut self.context, &mut self.addresses, now);
        if now.since_start.saturating_sub(self.saved_at) > SAVE_INTERVAL {
            self.saved_at = now.since_start;
            let bytes = self.addresses_bytes();
            self.context.event(Event::Addresses(bytes));
        }
    }
}

#[cfg(test)]
mod tests;
