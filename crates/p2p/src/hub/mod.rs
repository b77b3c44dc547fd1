//! All peers together: what comes from a connection is led to header sync, download or serving,
//! and who is kept and who is sought is decided here. Without I/O: [`crate::net`] has the sockets.
//!
//! In: bytes (through [`Hub::peer_mut`] and [`Hub::received`]), connections made and lost, commands, the time.
//! Out: bytes (in each peer's transport), and [`Action`]s.

mod announced;
mod asked;
pub mod blocks;
pub mod delivery;
pub mod dispatch;
pub mod eviction;
mod facts;
mod filters;
mod fixed_seeds;
pub mod future_headers;
pub mod header_quota;
pub mod header_schedule;
pub mod headers;
pub mod lagging;
pub mod memory;
pub mod outbound;
pub mod patience;
pub mod seeds;
pub mod serve;
pub mod settled;
pub mod targets;

pub use asked::Purpose;
pub use serve::{ReadRequest, Served};

use crate::address_answers::AddressAnswers;
use crate::addresses::Addresses;
use crate::api::{BlockVerdict, Config, Event, PeerId, Progress, Want};
use crate::budget::InFlightBudget;
use crate::chain::ChainView;
use crate::download::{Download, Source, Turn};
use crate::journal::{self, Journal};
use crate::peer::{Greeting, Kind, Peer};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::time::Now;
use crate::transport::Transport;
use crate::trouble::DialError;
use crate::wire::{AddressEntry, Group, NetAddress, PeerAddress, Target, TargetError, services};
use fixed_seeds::FixedSeeds;
use primitives::BlockHash;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Greatest [`Config::outbound_count`].
pub const OUTBOUND_COUNT_MAX: usize = 12;
/// How often the address memory is given out.
pub const SAVE_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// What the world is asked to do.
#[derive(Debug)]
pub enum Action {
    /// Connect, and say [`Hub::connected`] or [`Hub::not_connected`].
    Dial {
        /// The connection's name.
        peer: PeerId,
        /// Where to.
        target: Target,
    },
    /// The connection is over: close its socket.
    Close {
        /// The connection.
        peer: PeerId,
    },
    /// Do [`ReadRequest::read`] for a peer, and say [`Hub::served`].
    Read {
        /// Who asked.
        peer: PeerId,
        /// For what.
        request: ReadRequest,
    },
    /// Look up a name, and say [`Hub::resolved`].
    Resolve {
        /// The name.
        name: String,
        /// The port of the addresses.
        port: u16,
    },
    /// Tell the node.
    Event(Event),
}

/// What the node says.
#[derive(Debug)]
pub enum NodeMessage {
    /// See [`crate::Network::want`].
    Want(Vec<Vec<Want>>),
    /// See [`crate::Network::verdict`].
    Verdict(BlockHash, BlockVerdict),
    /// See [`crate::Network::new_tip`].
    NewTip,
    /// See [`crate::Network::echo`].
    Echo,
}

/// All peers.
pub struct Hub {
    config: Config,
    chain: Arc<dyn ChainView>,
    rng: Rng,
    peers: BTreeMap<PeerId, Peer>,
    actions: VecDeque<Action>,
    next_id: u64,
    download: Download,
    budget: Arc<InFlightBudget>,
    headers: headers::HeaderSync,
    header_quota: header_quota::HeaderQuota,
    takers: memory::Takers,
    outbound: outbound::Dialer,
    targets: targets::Targets,
    undelivered: Vec<Want>,
    fixed_seeds: FixedSeeds,
    seeds: seeds::Seeds,
    /// Secret of the order in which network groups are protected.
    eviction_key: u64,
    addresses: Addresses,
    address_answers: AddressAnswers,
    progress: Progress,
    saved_at: Duration,
    /// Whether something was not read since speeds were last measured.
    paused: bool,
    /// Some were not read because the node has not looked at enough of those that came.
    is_node_behind: bool,
    /// Verdicts that the node has said and this has taken.
    verdicts_heard: usize,
    /// A person wants no connections at the moment.
    is_off: bool,
    /// When the clock was last looked at.
    ticked_at: Duration,
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
        let outbound = outbound::Dialer::new(&config, now)?;
        let seeds = seeds::Seeds::new(&config, now)?;
        let mut actions = VecDeque::new();
        let addresses = if config.addresses.is_empty() {
            Addresses::new(&mut rng)
        } else {
            Addresses::from_bytes(&std::mem::take(&mut config.addresses), now.unix).unwrap_or_else(|why| {
                actions.push_back(Action::Event(Event::Note(why.to_string())));
                Addresses::new(&mut rng)
            })
        };
        let eviction_key = rng.number();
        Ok(Hub {
            config,
            chain,
            rng,
            peers: BTreeMap::new(),
            actions,
            next_id: 0,
            download: Download::default(),
            budget,
            headers: headers::HeaderSync::default(),
            header_quota: header_quota::HeaderQuota::default(),
            takers: memory::Takers::default(),
            outbound,
            targets: targets::Targets::default(),
            undelivered: Vec::new(),
            fixed_seeds: FixedSeeds::default(),
            seeds,
            eviction_key,
            addresses,
            address_answers: AddressAnswers::default(),
            progress: Progress::default(),
            saved_at: now.since_start,
            paused: false,
            is_node_behind: false,
            verdicts_heard: 0,
            is_off: false,
            ticked_at: now.since_start,
        })
    }

    /// What is to be done next.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The connections, by name.
    pub fn peer_ids(&self) -> Vec<PeerId> {
        self.peers.keys().copied().collect()
    }

    /// A connection.
    pub fn peer_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
    }

    /// A connection.
    pub fn peer(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    /// The address memory as bytes.
    pub fn addresses_bytes(&self) -> Vec<u8> {
        self.addresses.to_bytes()
    }

    /// How far the network is.
    pub fn progress(&self) -> Progress {
        let ready = |inbound: bool| self.peers.values().filter(|p| p.ready && p.is_outbound() != inbound).count();
        Progress {
            outbound_count: ready(false),
            inbound_count: ready(true),
            download_peer_count: self.download.peer_count(),
            in_flight_count: self.download.in_flight_count(),
            held_bytes: self.budget.held_bytes(),
            wanted_count: self.download.open_count(),
            presync_height: self.presync_height(),
            headers_done: self.headers.done,
            headers_settled: self.headers.settled,
            best_claim: self.best_claim(),
            undelivered: self.undelivered(),
            headers_too_new: self.headers_too_new(),
            window_full: self.download.is_window_full(),
            facts: self.facts(),
            ..self.progress.clone()
        }
    }

    /// Bytes received and sent.
    pub fn totals(&self) -> (u64, u64) {
        (self.progress.received_bytes, self.progress.sent_bytes)
    }

    fn event(&mut self, event: Event) {
        self.actions.push_back(Action::Event(event));
    }

    fn new_id(&mut self) -> PeerId {
        let id = PeerId(self.next_id);
        self.next_id += 1;
        id
    }

    fn greeting(&self) -> Greeting {
        let blocks = if self.chain.has_all_blocks() {
            services::NETWORK | services::NETWORK_LIMITED
        } else {
            services::NETWORK_LIMITED
        };
        let filters = if self.config.compact_filters { services::COMPACT_FILTERS } else { 0 };
        let v2 = if self.config.v2transport { services::P2P_V2 } else { 0 };
        Greeting {
            services: blocks | services::WITNESS | filters | v2,
            agent: format!("/ffwd:{}/", self.config.version),
            height: i32::try_from(self.chain.tip().height.to_u32()).unwrap_or(i32::MAX),
        }
    }

    // Connections made and lost.

    /// A peer connected to us. `None`: there is no place for it, and its socket is to be closed.
    pub fn accepted(&mut self, remote: PeerAddress, now: Now) -> Option<PeerId> {
        self.accepted_with(Permissions::NONE, remote, now)
    }

    /// The same, on a socket that gives permissions.
    pub fn accepted_with(&mut self, given: Permissions, remote: PeerAddress, now: Now) -> Option<PeerId> {
        let permissions = given.and(self.permissions_of(&remote.address, true));
        if self.is_banned(&remote.address, now) && !permissions.has(Permissions::NOBAN) {
            if self.config.debug_net {
                self.event(Event::Debug(format!("connection from {remote} dropped (banned)")));
            }
            return None;
        }
        if self.is_off {
            return None;
        }
        if !self.make_place(remote.address, permissions, now) {
            if self.config.debug_net {
                let why = "failed to find an eviction candidate - connection dropped (full)";
                self.event(Event::Debug(why.to_owned()));
            }
            return None;
        }
        let id = self.new_id();
        let magic = self.config.network.magic;
        let transport =
            if self.config.v2transport { Transport::responder(magic, &mut self.rng) } else { Transport::v1(magic) };
        self.insert(id, Kind::Inbound, Target::Peer(remote), transport, permissions, now);
        Some(id)
    }

    /// What the whitelist gives a peer at this address.
    fn permissions_of(&self, remote: &NetAddress, is_inbound: bool) -> Permissions {
        let given = self.config.whitelist.iter().map(|net| net.of(remote, is_inbound));
        given.fold(Permissions::NONE, Permissions::and)
    }

    /// The connection that [`Action::Dial`] asked for is there.
    pub fn connected(&mut self, id: PeerId, now: Now) {
        let Some(dial) = self.outbound.take(id) else { return };
        let is_proxied = self.config.proxy.is_some() && dial.target.is_proxied();
        self.outbound.made(&dial.target, is_proxied);
        let magic = self.config.network.magic;
        let transport = if dial.v2 { Transport::v2_initiator(magic, &mut self.rng) } else { Transport::v1(magic) };
        let permissions = match &dial.target {
            Target::Peer(remote) => self.permissions_of(&remote.address, false),
            Target::Name(..) => Permissions::NONE,
        };
        self.insert(id, dial.kind, dial.target, transport, permissions, now);
        if let Some(peer) = self.peers.get_mut(&id).filter(|_| dial.v2) {
            peer.journal.say(|| format!("start sending v2 handshake to peer={id}"));
        }
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
        transport.set_buffer_pool(self.budget.buffers());
        let greeting = self.greeting();
        let mut peer = Peer::new(id, kind, target, transport, greeting, now, &mut self.rng);
        peer.withholds = self.outbound.withholds(kind);
        peer.permissions = permissions;
        peer.timeout = self.config.peer_timeout;
        peer.journal = Journal::new(self.config.debug_net);
        peer.is_address_logged = self.config.log_ips;
        peer.journal.say(|| format!("Added connection peer={id}"));
        self.peers.insert(id, peer);
    }

    /// The connection that [`Action::Dial`] asked for could not be made: one line for each kind of trouble, then a count.
    pub fn not_connected(&mut self, id: PeerId, error: &DialError, now: Now) {
        let Some(dial) = self.outbound.take(id) else { return };
        self.outbound.failed(dial.kind, false, now);
        let target = dial.target.to_string();
        let line = format!("connection to {target} failed: {error}");
        if self.outbound.troubles.meet(error, &target, now.since_start) {
            self.event(Event::Note(format!("{line}. What repeats is counted, not logged")));
        } else if self.config.debug_net {
            self.event(Event::Debug(line));
        }
    }

    /// The socket of a connection was closed or failed.
    pub fn closed(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(peer) = self.peers.get(&id) else { return };
        let retry = peer.is_outbound() && peer.transport.may_retry_v1();
        let (kind, target) = (peer.kind, peer.target.clone());
        self.drop_peer(id, reason, now);
        if retry {
            if self.config.debug_net {
                self.event(Event::Debug(format!("retrying with v1 transport protocol for peer={id}")));
            }
            self.dial(kind, target, false, now);
        }
    }

    /// Ends a connection because of what the peer did, unless it is one that is not punished.
    fn punish(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(peer) = self.peers.get(&id) else { return };
        if !(peer.is_noban() && reason.is_forgivable()) {
            return self.drop_peer(id, reason, now);
        }
        let text = format!("Peer {id}: not punished, it has the permission noban: {reason}");
        let inbound = !peer.is_outbound();
        self.event(Event::PeerNote { inbound, text });
    }

    /// Ends a connection.
    fn drop_peer(&mut self, id: PeerId, reason: Reason, now: Now) {
        let Some(mut peer) = self.peers.remove(&id) else { return };
        peer.journal.say(|| journal::of_end(&reason, id));
        peer.journal.say(|| format!("Cleared nodestate for peer={id}"));
        peer.journal.take().into_iter().for_each(|line| self.event(Event::Debug(line)));
        self.download.remove_peer(id);
        if let Target::Peer(remote) = &peer.target {
            self.note_end(remote, &peer, &reason, now);
        }
        self.progress.stalled_count += u64::from(reason.is_stall());
        self.progress.misbehaved_count += u64::from(reason.is_offence());
        let offence = reason.is_offence() || matches!(reason, Reason::OnInvalidChain(_));
        self.outbound.failed(peer.kind, offence, now);
        self.actions.push_back(Action::Close { peer: id });
        let address = peer.target.to_string();
        let is_told = match reason {
            Reason::Stopping | Reason::Asked | Reason::Banned | Reason::FeelerDone => true,
            _ if peer.ready || !peer.is_outbound() => true,
            _ => self.outbound.troubles.ended(&address, &reason.to_string(), now.since_start),
        };
        if is_told {
            self.event(Event::PeerGone { peer: id, address, inbound: !peer.is_outbound(), reason });
        }
    }

    /// What the address memory learns of a connection that ends.
    ///
    /// Who misbehaved is left alone for a day, unless it is of this machine, as a Tor service's peers are: that address is of
    /// others too. Nor is who a person named. Source: Bitcoin Core b88bffe, `MaybeDiscourageAndDisconnect`, `FinalizeNode`.
    fn note_end(&mut self, remote: &PeerAddress, peer: &Peer, reason: &Reason, now: Now) {
        let is_named = matches!(peer.kind, Kind::Manual(_));
        if reason.is_offence() && !remote.address.is_local() && !is_named {
            self.addresses.discourage(remote.address, now.unix);
        }
        if peer.is_outbound() && peer.ready && peer.kind != Kind::BlockRelay {
            self.addresses.disconnected(remote, now.unix);
        }
    }

    /// Ends all connections: this node shuts down.
    pub fn stop(&mut self, now: Now) {
        for id in self.peer_ids() {
            self.drop_peer(id, Reason::Stopping, now);
        }
        let bytes = self.addresses.to_bytes();
        self.event(Event::Addresses(bytes));
    }

    // Bytes.

    /// Whether more may be read from a connection now.
    ///
    /// Not while the peer does not take what it asked for; no blocks while the node has not done with those that came; and while
    /// it holds more than the window, only from the peer that owes the block that the node waits for, if it waits for one.
    pub fn may_read(&mut self, id: PeerId) -> bool {
        let Some(peer) = self.peers.get(&id) else { return false };
        if peer.has_undispatched || !self.may_answer(peer) {
            return false;
        }
        if !self.download.owes(id) {
            return true;
        }
        // The node looks at every block as it comes, whichever it waits for: this ends by itself.
        if self.waits_for_verdicts() {
            self.is_node_behind = true;
            return false;
        }
        let held = self.budget.held_bytes();
        if held <= blocks::soft_bytes(&self.config) {
            return true;
        }
        let may = match self.download.turn_of_first(id) {
            // What came and waits for the node's verdict comes first: it may be the slower one.
            Turn::Next => self.download.node_waits(),
            Turn::Queued => held <= blocks::hard_bytes(&self.config),
            Turn::Elsewhere => false,
        };
        self.paused |= !may;
        may
    }

    /// `bytes` bytes were put into the space of a connection's transport.
    pub fn received(&mut self, id: PeerId, bytes: usize, now: Now) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.transport.received(bytes);
        peer.note_received(now);
        self.progress.received_bytes += bytes as u64;
        self.dispatch(id, now);
        self.bound_unfinished(id, now);
    }

    /// `bytes` of a connection's transport were sent.
    pub fn sent(&mut self, id: PeerId, bytes: usize, now: Now) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.transport.sent(bytes);
        peer.note_sent(now);
        self.progress.sent_bytes += bytes as u64;
        self.dispatch_waiting(id, now);
        self.serve_next(id, now);
    }

    fn on_ready(&mut self, id: PeerId, now: Now) -> Result<(), Reason> {
        let initial = self.chain.initial_download();
        let peer = self.peers.get_mut(&id).expect("it just spoke");
        let info = peer.info();
        let offered = peer.services();
        let expected = outbound::expected_services(offered, initial);
        let is_chosen = matches!(peer.kind, Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay);
        if is_chosen && offered & expected != expected {
            return Err(Reason::MissingServices { offered, expected });
        }
        if matches!(peer.kind, Kind::Automatic | Kind::AddressFetch) {
            peer.ask_addresses();
        }
        if peer.is_outbound()
            && let Target::Peer(address) = &peer.target
        {
            self.addresses.succeeded(address, offered, now.unix);
        }
        if peer.serves_blocks() && peer.kind != Kind::AddressFetch {
            let source = match peer.kind {
                Kind::Inbound if peer.is_noban() => Source::Sought,
                Kind::Inbound => Source::Inbound,
                Kind::Manual(_) => Source::Named,
                Kind::Automatic | Kind::AddressFetch | Kind::BlockRelay | Kind::Feeler => Source::Sought,
            };
            self.download.add_peer(id, source, peer.block_bytes(), now.since_start);
        }
        self.outbound.troubles.shaken(&info.address);
        self.outbound.succeeded(peer.kind);
        self.event(Event::PeerConnected { peer: id, info });
        self.look_at_lag(id, now)?;
        // Where others are connected to, the next tick chooses among them.
        if self.peers.len() == 1 && self.peers[&id].is_outbound() {
            self.ask_next(now);
        }
        Ok(())
    }

    fn on_addresses(&mut self, id: PeerId, entries: &[AddressEntry], now: Now) -> Result<(), Reason> {
        let peer = self.peers.get(&id).expect("it just spoke");
        let source = match &peer.target {
            Target::Peer(address) => address.address.group(),
            Target::Name(name, _) => Group::of_name(name),
        };
        self.addresses.add(entries, source, now.unix);
        // One address is the peer's own: the answer that was asked for has more.
        if peer.kind == Kind::AddressFetch && entries.len() > 1 {
            return Err(Reason::AddressesFetched);
        }
        Ok(())
    }

    // What the node says, and the clock.

    /// The node says something.
    pub fn from_node(&mut self, message: NodeMessage, now: Now) {
        match message {
            NodeMessage::Want(lists) => {
                self.targets.is_told = false;
                self.download.want(lists);
            }
            NodeMessage::Verdict(hash, verdict) => {
                self.verdicts_heard += 1;
                self.on_verdict(hash, verdict, now);
            }
            NodeMessage::NewTip => self.announce_tip(),
            NodeMessage::Echo => self.event(Event::Echo),
        }
    }

    /// Looks at the clock. To be called every 100 ms or so, and before [`Hub::schedule`].
    pub fn tick(&mut self, now: Now) {
        self.ticked_at = now.since_start;
        for id in self.peer_ids() {
            let Some(peer) = self.peers.get_mut(&id) else { continue };
            match peer.tick(now, &mut self.rng) {
                Ok(()) if outbound::is_fetched(peer, now) => self.drop_peer(id, Reason::AddressesFetched, now),
                Ok(()) => {
                    self.dispatch_waiting(id, now);
                    self.serve_next(id, now);
                }
                Err(reason) => self.drop_peer(id, reason, now),
            }
        }
        self.tick_memory(now);
        self.tick_headers(now);
        self.tick_download(now);
        self.tick_outbound(now);
        if now.since_start.saturating_sub(self.saved_at) > SAVE_INTERVAL {
            self.saved_at = now.since_start;
            let bytes = self.addresses.to_bytes();
            self.event(Event::Addresses(bytes));
        }
    }

    /// Whether an address is one that we are connected to, or try to be.
    fn is_connected(&self, address: &NetAddress) -> bool {
        self.peers.values().any(|peer| matches!(&peer.target, Target::Peer(p) if p.address == *address))
            || self.outbound.is_dialing(address)
    }
}

#[cfg(test)]
mod tests;
