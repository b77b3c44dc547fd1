//! A simulated network: the hub under test, a node made of [`sim::Chain`], and peers of every kind, joined by
//! links with latency and rate, under a simulated clock.

use crate::Reservation;
use crate::api::{BlockVerdict, Config, Event, Outbound, PeerId, Want};
use crate::budget::InFlightBudget;
use crate::chain::ChainView;
use crate::hub::serving::{memory, room};
use crate::hub::{Action, Hub, NodeMessage};
use crate::params::{NetworkParams, REGTEST};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::sim::Chain;
use crate::time::Now;
use crate::transport::Transport;
use crate::trouble::{DialError, TroubleKind};
use crate::utxo_sets::SetSource;
use crate::wire::{Command, Inventory, Message, PeerAddress, Target, Version, frame_v1, services};
use primitives::BlockHash;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Wall clock at the start, seconds since 1970: after every header of the simulated chains.
pub(super) const START_UNIX: u64 = 1_700_000_000;
/// One step of the clock.
pub(super) const STEP: Duration = Duration::from_millis(5);

/// The network of the simulation: small low-work parameters.
pub(super) const NETWORK: NetworkParams =
    NetworkParams { dns_seeds: &[], commitment_period: 50, redownload_buffer_count: 300, ..REGTEST };

/// The far end of a connection.
pub(super) trait Far {
    /// Bytes came.
    fn receive(&mut self, bytes: &[u8], now: Now);
    /// Bytes to send.
    fn take(&mut self, now: Now) -> Vec<u8>;
    /// Whether it reads: if not, its receive window is closed.
    fn is_reading(&self, _: Now) -> bool {
        true
    }
    /// Whether it closed the connection.
    fn is_closed(&self) -> bool {
        false
    }
}

/// What a peer far away is, and how it is joined to us.
pub(super) struct Place {
    pub(super) make: Box<dyn Fn() -> Box<dyn Far>>,
    pub(super) latency: Duration,
    /// Bytes a second towards us.
    pub(super) rate: f64,
}

struct Link {
    far: Box<dyn Far>,
    latency: Duration,
    rate: f64,
    /// Bytes that may be delivered now.
    credit: f64,
    to_us: VecDeque<(Duration, Vec<u8>)>,
    to_far: VecDeque<(Duration, Vec<u8>)>,
}

/// Everything.
pub(super) struct World {
    pub(super) hub: Hub,
    pub(super) chain: Arc<Chain>,
    pub(super) budget: Arc<InFlightBudget>,
    pub(super) time: Duration,
    /// Seconds by which the clock was set forward.
    pub(super) ahead_s: u64,
    pub(super) places: BTreeMap<String, Place>,
    links: BTreeMap<PeerId, Link>,
    dialing: Vec<(Duration, PeerId, String)>,
    /// How long it takes until an address where there is no peer cannot be connected to.
    pub(super) dead_dial: Duration,
    /// Greatest number of connections being made.
    pub(super) dialing_max: usize,
    /// Reasons for which connections ended, by address.
    pub(super) gone: Vec<(String, Reason)>,
    pub(super) notes: Vec<String>,
    /// Blocks of our own chain that the node misses: while there are any, it wants only these.
    pub(super) past: Vec<Want>,
    /// The chains that the hub wants to download.
    pub(super) targets: Vec<BlockHash>,
    pub(super) done_count: usize,
    pub(super) blocks_count: usize,
    /// Greatest number of bytes held at the end of a step.
    pub(super) held_max: usize,
    /// Greatest number of bytes in all send queues at the end of a step.
    pub(super) queued_max: usize,
    /// Greatest number of bytes in unfinished messages of inbound peers at the end of a step.
    pub(super) unfinished_max: usize,
    /// How long the node keeps the bytes of a block.
    pub(super) keep: Duration,
    kept: VecDeque<(Duration, Reservation)>,
    /// How long the node takes to look at a block.
    pub(super) looks_for: Duration,
    /// What it will have found, and when.
    pub(super) looked_at: VecDeque<(Duration, BlockHash, BlockVerdict)>,
    /// Names that are being looked up, where that takes for ever; else there is nothing under any name.
    pub(super) resolving: Option<Vec<String>>,
}

impl World {
    /// With the `--connect` addresses that [`World::place`] will fill.
    pub(super) fn new(chain: Chain, connect: &[&str]) -> World {
        let config = Config {
            outbound: Outbound::Only(connect.iter().map(|&text| text.to_owned()).collect()),
            v2transport: false,
            ..Config::new(NETWORK)
        };
        World::with_config(chain, config)
    }

    pub(super) fn with_config(chain: Chain, config: Config) -> World {
        let chain = Arc::new(chain);
        let budget = Arc::new(InFlightBudget::default());
        let now = Now { since_start: Duration::ZERO, unix: START_UNIX };
        let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
        let hub = Hub::new(config, view, Arc::clone(&budget), Rng::Seeded(11), now).unwrap();
        World {
            hub,
            chain,
            budget,
            time: Duration::ZERO,
            ahead_s: 0,
            places: BTreeMap::new(),
            links: BTreeMap::new(),
            dialing: Vec::new(),
            dead_dial: STEP,
            dialing_max: 0,
            gone: Vec::new(),
            notes: Vec::new(),
            past: Vec::new(),
            targets: Vec::new(),
            done_count: 0,
            blocks_count: 0,
            held_max: 0,
            queued_max: 0,
            unfinished_max: 0,
            keep: Duration::ZERO,
            kept: VecDeque::new(),
            looks_for: Duration::ZERO,
            looked_at: VecDeque::new(),
            resolving: None,
        }
    }

    /// Puts a peer at an address.
    pub(super) fn place(&mut self, address: &str, make: impl Fn() -> Box<dyn Far> + 'static) -> &mut Place {
        let place = Place { make: Box::new(make), latency: Duration::from_millis(1), rate: 100e6 };
        self.places.insert(address.to_owned(), place);
        self.places.get_mut(address).unwrap()
    }

    /// Puts an honest peer with this chain at an address.
    pub(super) fn honest(&mut self, address: &str, chain: &Arc<Chain>) -> &mut Place {
        let chain = Arc::clone(chain);
        self.place(address, move || Box::new(Server::new(Arc::clone(&chain))))
    }

    /// Connects a peer to us.
    pub(super) fn connect_inbound(&mut self, address: &str, far: Box<dyn Far>) -> Option<PeerId> {
        let Ok(Target::Peer(remote)) = Target::parse(address, 1) else { panic!("{address} is an address") };
        let id = self.hub.accepted(remote, self.now())?;
        let link = Link {
            far,
            latency: Duration::from_millis(1),
            rate: 100e6,
            credit: 0.0,
            to_us: VecDeque::new(),
            to_far: VecDeque::new(),
        };
        self.links.insert(id, link);
        Some(id)
    }

    pub(super) fn now(&self) -> Now {
        Now { since_start: self.time, unix: START_UNIX + self.ahead_s + self.time.as_secs() }
    }

    /// Runs until `until` holds; `false` when it did not within `limit`.
    pub(super) fn run_until(&mut self, limit: Duration, until: impl Fn(&World) -> bool) -> bool {
        let end = self.time + limit;
        while self.time < end {
            self.step();
            if until(self) {
                return true;
            }
        }
        false
    }

    /// Runs until our tip is `hash`; panics when it is not within `limit`.
    pub(super) fn sync_to(&mut self, hash: BlockHash, limit: Duration) {
        if !self.run_until(limit, |world| world.chain.tip().hash == hash) {
            let tip = self.chain.tip();
            panic!("at height {} after {limit:?}; gone: {:?}; {:?}", tip.height, self.gone, self.hub.progress());
        }
    }

    pub(super) fn run(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Why the connection to an address ended last.
    pub(super) fn reason(&self, address: &str) -> Option<&Reason> {
        self.gone.iter().rev().find(|(gone, _)| gone == address).map(|(_, reason)| reason)
    }

    fn step(&mut self) {
        self.time += STEP;
        let now = self.now();
        while self.kept.front().is_some_and(|(until, _)| *until <= self.time) {
            self.kept.pop_front();
        }
        while let Some((_, hash, verdict)) = self.looked_at.pop_front_if(|(at, ..)| *at <= self.time) {
            self.hub.from_node(NodeMessage::Verdict(hash, verdict), now);
        }
        if self.time.as_millis().is_multiple_of(100) {
            self.hub.tick(now);
        }
        self.dial_due();
        for id in self.links.keys().copied().collect::<Vec<_>>() {
            self.carry(id);
        }
        self.hub.schedule(now);
        self.act();
        self.hub.will_wait();
        self.held_max = self.held_max.max(self.budget.held_bytes());
        self.queued_max = self.queued_max.max(self.queued_bytes());
        self.unfinished_max = self.unfinished_max.max(self.unfinished_bytes());
    }

    /// Bytes in all send queues.
    pub(super) fn queued_bytes(&self) -> usize {
        room::queued_bytes(&self.hub.context)
    }

    /// Bytes in unfinished messages of inbound peers.
    pub(super) fn unfinished_bytes(&self) -> usize {
        memory::unfinished_bytes(&self.hub.context, self.hub.blocks.mean_block_bytes())
    }

    fn dial_due(&mut self) {
        let time = self.time;
        for (_, id, address) in self.dialing.extract_if(.., |(at, ..)| *at <= time).collect::<Vec<_>>() {
            match self.places.get(&address) {
                Some(place) => {
                    let link = Link {
                        far: (place.make)(),
                        latency: place.latency,
                        rate: place.rate,
                        credit: 0.0,
                        to_us: VecDeque::new(),
                        to_far: VecDeque::new(),
                    };
                    self.links.insert(id, link);
                    self.hub.connected(id, self.now());
                }
                None => self.hub.not_connected(id, &nobody(&address), self.now()),
            }
        }
    }

    /// Moves bytes over one link.
    fn carry(&mut self, id: PeerId) {
        let now = self.now();
        let Some(link) = self.links.get_mut(&id) else { return };
        // To the far end.
        while link.far.is_reading(now) {
            let bytes = self.hub.peer(id).map_or_else(Vec::new, |peer| peer.transport.to_send().to_vec());
            if bytes.is_empty() {
                break;
            }
            link.to_far.push_back((self.time + link.latency, bytes.clone()));
            self.hub.sent(id, bytes.len(), now);
        }
        while link.to_far.front().is_some_and(|(at, _)| *at <= self.time) {
            let (_, bytes) = link.to_far.pop_front().unwrap();
            link.far.receive(&bytes, now);
        }
        // To us.
        let bytes = link.far.take(now);
        if !bytes.is_empty() {
            link.to_us.push_back((self.time + link.latency, bytes));
        }
        link.credit = (link.credit + link.rate * STEP.as_secs_f64()).min(link.rate * 0.1);
        while self.hub.may_read(id) {
            let Some(link) = self.links.get_mut(&id) else { return };
            let Some((_, bytes)) = link.to_us.front_mut().filter(|(at, _)| *at <= self.time) else { break };
            let credit = link.credit as usize;
            if credit == 0 {
                break;
            }
            let Some(space) = self.hub.space(id, now) else { break };
            let count = bytes.len().min(credit).min(space.len());
            space[..count].copy_from_slice(&bytes[..count]);
            bytes.drain(..count);
            if bytes.is_empty() {
                link.to_us.pop_front();
            }
            link.credit -= count as f64;
            self.hub.received(id, count, now);
            self.act();
        }
        let closed = self.links.get(&id).is_some_and(|link| link.far.is_closed() && link.to_us.is_empty());
        if closed {
            self.hub.closed(id, Reason::Closed, now);
            self.act();
        }
    }

    /// Does what the hub asks for, and answers as a node does.
    pub(super) fn act(&mut self) {
        while let Some(action) = self.hub.next_action() {
            match action {
                Action::Dial { peer, target } => {
                    let address = target.to_string();
                    let takes = if self.places.contains_key(&address) { STEP } else { self.dead_dial };
                    self.dialing.push((self.time + takes, peer, address));
                    self.dialing_max = self.dialing_max.max(self.dialing.len());
                }
                Action::Close { peer } => {
                    self.links.remove(&peer);
                }
                Action::Read { peer, request } => {
                    let served = request.read(&*self.chain);
                    self.hub.read_ahead(peer, &served);
                    self.hub.served(peer, served, self.now());
                }
                Action::Resolve { name, .. } => match &mut self.resolving {
                    Some(names) => names.push(name),
                    None => self.hub.resolved(&name, &[], self.now()),
                },
                Action::Event(event) => self.node(event),
            }
        }
    }

    fn node(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Block { peer, hash, bytes, .. } => {
                self.blocks_count += 1;
                self.past.retain(|want| want.hash != hash);
                let verdict = self.chain.store(peer, &bytes);
                let (_, _, held) = bytes.into_parts();
                self.kept.push_back((self.time + self.keep, held));
                if self.looks_for.is_zero() {
                    self.hub.from_node(NodeMessage::Verdict(hash, verdict), now);
                } else {
                    self.looked_at.push_back((self.time + self.looks_for, hash, verdict));
                }
                let before = self.chain.tip().hash;
                for refused in self.chain.connect() {
                    let verdict = BlockVerdict::Invalid("bad-blk".to_owned());
                    self.hub.from_node(NodeMessage::Verdict(refused, verdict), now);
                    self.want();
                }
                if self.chain.tip().hash != before {
                    self.hub.from_node(NodeMessage::NewTip, now);
                }
            }
            Event::Targets(targets) => {
                self.targets = targets;
                self.want();
            }
            Event::WantMore => self.want(),
            Event::PeerGone { address, reason, .. } => self.gone.push((address, reason)),
            Event::HeadersDone => self.done_count += 1,
            Event::Note(note) | Event::PeerNote { text: note, .. } => self.notes.push(note),
            Event::Headers { .. }
            | Event::PeerConnected { .. }
            | Event::Addresses(_)
            | Event::Anchors(..)
            | Event::Echo => {}
        }
    }

    /// The node says what it wants.
    pub(super) fn want(&mut self) {
        let lists = match &self.past[..] {
            [] => self.targets.iter().map(|target| self.chain.wanted_up_to(target, 2000)).collect(),
            past => vec![past.to_vec()],
        };
        self.hub.from_node(NodeMessage::Want(lists), self.now());
    }
}

/// Why nobody can be connected to there.
fn nobody(address: &str) -> DialError {
    match address.split_once(".example:") {
        Some((name, _)) => DialError::of(TroubleKind::Lookup, &format!("{name}.example"), "no such name"),
        None => DialError::of_peer(TroubleKind::Refused, "no peer there"),
    }
}

/// A peer that serves a chain. What it does with a message can be bent.
pub(super) struct Server {
    pub(super) transport: Transport,
    pub(super) chain: Arc<Chain>,
    pub(super) services: u64,
    pub(super) closed: bool,
    pub(super) bend: Bend,
    /// Messages by command, to be looked at by tests.
    pub(super) ready: bool,
    /// Sends one byte in this time, where it is set.
    pub(super) drip: Option<Duration>,
    /// Sends this many bytes more, and nothing then.
    pub(super) left: Option<usize>,
    /// Closes when it has nothing more to send.
    pub(super) closes_when_sent: bool,
    /// Whether it takes what is sent to it.
    pub(super) reads: bool,
    /// What of its bytes waits because of that.
    held: VecDeque<u8>,
    dripped_at: Duration,
}

/// Sees a message before it is answered; `true` when it dealt with it.
pub(super) type Bend = Box<dyn FnMut(&mut Server, &Message, Now) -> bool>;

impl Server {
    pub(super) fn new(chain: Arc<Chain>) -> Server {
        Server::bent(chain, Box::new(|_, _, _| false))
    }

    pub(super) fn bent(chain: Arc<Chain>, bend: Bend) -> Server {
        Server {
            transport: Transport::v1(NETWORK.magic),
            chain,
            services: services::NETWORK | services::WITNESS,
            closed: false,
            bend,
            ready: false,
            drip: None,
            left: None,
            closes_when_sent: false,
            reads: true,
            held: VecDeque::new(),
            dripped_at: Duration::ZERO,
        }
    }

    pub(super) fn send(&mut self, message: &Message) {
        let (command, payload) = message.encode();
        self.transport.send(command, &payload);
    }

    /// Sends any bytes, after what waits to be sent.
    pub(super) fn raw(&mut self, bytes: Vec<u8>) {
        self.transport.push_raw(bytes);
    }

    /// Sends a message of any command.
    pub(super) fn say(&mut self, command: &str, payload: &[u8]) {
        let mut name = [0; 12];
        name[..command.len()].copy_from_slice(command.as_bytes());
        if self.transport.is_v2() {
            return self.transport.push_packet(&[&[0][..], &name, payload].concat(), false, false);
        }
        let mut frame = frame_v1(NETWORK.magic, Command::Ping, payload);
        frame[4..16].copy_from_slice(&name);
        self.raw(frame);
    }

    /// The first message of one that connects.
    pub(super) fn greet(&mut self, now: Now) {
        let version = self.version(now);
        self.send(&Message::Version(version));
    }

    /// What it says of itself.
    pub(super) fn version(&self, now: Now) -> Version {
        Version {
            version: 70016,
            services: self.services,
            time: now.unix as i64,
            nonce: 4711,
            agent: b"/sim:1/".to_vec(),
            height: self.chain.tip().height.to_u32() as i32,
            relay: false,
        }
    }

    fn answer(&mut self, message: Message, now: Now) {
        match message {
            Message::Version(_) => {
                self.greet(now);
                self.send(&Message::Verack);
            }
            Message::Verack => self.ready = true,
            Message::Ping(Some(nonce)) => self.send(&Message::Pong(nonce)),
            Message::GetHeaders(locator, stop) => {
                let headers = self.chain.headers_after(&locator, &stop);
                self.send(&Message::Headers(headers));
            }
            Message::GetData(list) => {
                for hash in list.iter().filter_map(Inventory::block) {
                    if let Some(block) = self.chain.block(&hash, true) {
                        self.transport.send(Command::Block, &block);
                    }
                }
            }
            _ => {}
        }
    }
}

impl Far for Server {
    fn receive(&mut self, mut bytes: &[u8], now: Now) {
        while !bytes.is_empty() && !self.closed {
            let taken = self.transport.feed(bytes);
            bytes = &bytes[taken..];
            while let Some(received) = self.transport.next().expect("we send sound bytes") {
                let message = Message::parse(received.command, received.payload()).expect("and sound messages");
                let mut bend = std::mem::replace(&mut self.bend, Box::new(|_, _, _| false));
                let done = bend(self, &message, now);
                self.bend = bend;
                if !done {
                    self.answer(message, now);
                }
            }
        }
    }

    fn take(&mut self, now: Now) -> Vec<u8> {
        let mut out = Vec::new();
        while !self.transport.to_send().is_empty() {
            let bytes = self.transport.to_send().to_vec();
            self.transport.sent(bytes.len());
            out.extend_from_slice(&bytes);
        }
        if self.drip.is_none() && self.left.is_none() && self.held.is_empty() {
            return out;
        }
        self.held.extend(out);
        let is_due = self.drip.is_none_or(|every| now.since_start >= self.dripped_at + every);
        let most = if self.drip.is_some() { usize::from(is_due) } else { usize::MAX };
        if is_due {
            self.dripped_at = now.since_start;
        }
        let count = most.min(self.held.len()).min(self.left.unwrap_or(usize::MAX));
        self.left = self.left.map(|left| left - count);
        self.closed |= self.closes_when_sent && self.left == Some(0);
        self.held.drain(..count).collect()
    }

    fn is_reading(&self, _: Now) -> bool {
        self.reads
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

/// A peer that sends these bytes and nothing else.
pub(super) struct Mute(pub(super) Vec<u8>);

impl Far for Mute {
    fn receive(&mut self, _: &[u8], _: Now) {}
    fn take(&mut self, _: Now) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Another whole hub as a peer, to which we connect: what two of these programs say to each other.
pub(super) struct OtherHub {
    hub: Hub,
    chain: Arc<Chain>,
    id: PeerId,
    closed: bool,
}

impl OtherHub {
    pub(super) fn new(chain: &Arc<Chain>, v2transport: bool) -> OtherHub {
        OtherHub::with(chain, Config { v2transport, ..Config::new(NETWORK) })
    }

    /// One that serves UTXO sets.
    pub(super) fn serving(chain: &Arc<Chain>, v2transport: bool, sets: Arc<dyn SetSource>) -> OtherHub {
        OtherHub::with(chain, Config { v2transport, utxo_sets: Some(sets), ..Config::new(NETWORK) })
    }

    fn with(chain: &Arc<Chain>, config: Config) -> OtherHub {
        let config = Config { outbound: Outbound::Only(vec![]), ..config };
        let now = Now { since_start: Duration::ZERO, unix: START_UNIX };
        let view: Arc<dyn ChainView> = Arc::clone(chain) as Arc<dyn ChainView>;
        let mut hub = Hub::new(config, view, Arc::default(), Rng::Seeded(77), now).unwrap();
        let remote = PeerAddress { address: crate::wire::NetAddress::V4([9, 9, 9, 9]), port: 1 };
        let id = hub.accepted(remote, now).unwrap();
        OtherHub { hub, chain: Arc::clone(chain), id, closed: false }
    }

    fn act(&mut self, now: Now) {
        while let Some(action) = self.hub.next_action() {
            match action {
                Action::Read { peer, request } => {
                    let served = request.read(&*self.chain);
                    self.hub.read_ahead(peer, &served);
                    self.hub.served(peer, served, now);
                }
                Action::Close { .. } => self.closed = true,
                _ => {}
            }
        }
    }
}

impl Far for OtherHub {
    fn receive(&mut self, mut bytes: &[u8], now: Now) {
        while !bytes.is_empty() {
            let Some(peer) = self.hub.peer_mut(self.id) else { return };
            let space = peer.transport.space();
            let count = bytes.len().min(space.len());
            space[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.hub.received(self.id, count, now);
            self.act(now);
        }
    }

    fn take(&mut self, now: Now) -> Vec<u8> {
        if now.since_start.as_millis().is_multiple_of(100) {
            self.hub.tick(now);
            self.hub.from_node(NodeMessage::NewTip, now);
        }
        let mut out = Vec::new();
        // As much as a socket's buffer would take.
        while out.len() < 4 << 20 {
            let Some(bytes) = self.hub.peer(self.id).map(|p| p.transport.to_send().to_vec()) else { break };
            if bytes.is_empty() {
                break;
            }
            self.hub.sent(self.id, bytes.len(), now);
            out.extend_from_slice(&bytes);
            self.act(now);
        }
        out
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Counts what is asked for, by hash.
pub(super) type Asked = HashMap<BlockHash, usize>;
