//! Fuzz input as a sequence of peer actions: one byte for the action, some bytes for its arguments, and the rest for
//! the next step.
//!
//! The hub is the real one; sockets, clock and chain are simulated here. The first byte is the mode, see [`Play::new`].

use super::NETWORK;
use crate::addresses::Addresses;
use crate::api::{BlockVerdict, Config, Event, LogLines, Outbound, PeerId};
use crate::bans::Subnet;
use crate::budget::InFlightBudget;
use crate::chain::{ChainView, HEADERS_COUNT_MAX};
use crate::hub::{Action, Hub, NodeMessage, Purpose, Served};
use crate::permissions::Permissions;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::sim::{Chain, INVALID, Made, made_on, mine, push};
use crate::time::Now;
use crate::transport::Transport;
use crate::trouble::{DialError, TroubleKind};
use crate::wire::{
    AddressEntry, Command, FilterRange, Inventory, Message, NetAddress, PeerAddress, Target, Version, frame_v1,
    services,
};
use primitives::{BlockHash, Header};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time of day at the start.
const START: u64 = 1_700_000_000;
/// Inbound slots in the mode with eviction by usefulness, and in the other modes.
const MANY_PLACES: usize = 40;
const PLACES: usize = 4;

/// The address with this number, as in gossip.
fn entry(number: usize) -> AddressEntry {
    let [a, b, ..] = number.to_le_bytes();
    let address = match number % 5 {
        0 => NetAddress::TorV3([a; 32]),
        1 => NetAddress::I2p([b; 32]),
        2 => NetAddress::V6([0x20, 1, a, b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a]),
        _ => NetAddress::V4([9, b, a, 1]),
    };
    let services = services::NETWORK | services::WITNESS;
    AddressEntry { time: 1_699_999_000, services, peer: PeerAddress { address, port: 8333 } }
}

/// An address memory of an earlier run: for some of its addresses the services are known.
fn known_addresses() -> Addresses {
    let mut addresses = Addresses::plain(&mut Rng::Seeded(9));
    let entries: Vec<AddressEntry> = (0..60).map(entry).collect();
    addresses.add(&entries, NetAddress::of_name("before"), 0, START);
    for known in entries.iter().step_by(3) {
        addresses.set_services(&known.peer, services::NETWORK | services::WITNESS | services::P2P_V2);
        addresses.good(&known.peer, START);
    }
    addresses
}

/// Runs the peer actions of `data`.
pub fn fuzz_peer(data: &[u8]) {
    play(data);
}

fn play(data: &[u8]) -> Play {
    let mut script = Script(data);
    let mut play = Play::new(script.byte().unwrap_or(0));
    while let Some(what) = script.byte() {
        play.step(what, &mut script);
    }
    play.hub.stop(play.now());
    play.act();
    play
}

struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> usize {
        usize::from(self.byte().unwrap_or(0)) << 8 | usize::from(self.byte().unwrap_or(0))
    }

    fn bytes(&mut self) -> Vec<u8> {
        let count = self.number().min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken.to_vec()
    }
}

/// Blocks that peers may have: a chain of 40, a fork of 50 from its 20th, and one from there whose third block is
/// invalid.
fn known() -> &'static [Made; 3] {
    static KNOWN: OnceLock<[Made; 3]> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let genesis = Chain::new().best_header();
        let main = made_on(&genesis, 40, 1, 30);
        let mut start = Made::default();
        start.headers.extend_from_slice(&main.headers[..20]);
        start.bodies.extend_from_slice(&main.bodies[..20]);
        let branch = Chain::having(&start).best_header();
        let fork = made_on(&branch, 50, 2, 30);
        let mut invalid = Made::default();
        let mut at = branch;
        for number in 0..60 {
            let body = if number == 2 { INVALID.to_vec() } else { vec![number; 30] };
            at = push(&mut invalid, &at, body);
        }
        [main, fork, invalid]
    })
}

/// A chain with more headers than two messages hold: until its last part is known, it has less work than the minimum
/// of a play that uses it.
fn long() -> &'static Made {
    static LONG: OnceLock<Made> = OnceLock::new();
    LONG.get_or_init(|| made_on(&Chain::new().best_header(), 2 * HEADERS_COUNT_MAX + 100, 3, 0))
}

/// Headers on the first chain that become valid only later, by their time.
fn ahead() -> &'static [Header] {
    static AHEAD: OnceLock<Vec<Header>> = OnceLock::new();
    AHEAD.get_or_init(|| {
        let tip = Chain::having(&known()[0]).best_header();
        [0, 600].map(|more| mine(&tip, b"ahead", 1_700_000_000 + 7_200 + 300 + more)).to_vec()
    })
}

struct Play {
    hub: Hub,
    chain: Arc<Chain>,
    budget: Arc<InFlightBudget>,
    time: Duration,
    peers: Vec<PeerId>,
    /// The other ends of encrypted connections.
    far: HashMap<PeerId, Transport>,
    /// Whether the chain is the long one.
    is_long: bool,
    /// Time of day at the start.
    start: u64,
    rng: Rng,
    /// Counts of messages received over encrypted connections, blocks read for peers, names looked up, and connections
    /// made.
    heard: usize,
    read: usize,
    resolved: usize,
    dialed: usize,
    /// Maximum of blocks in flight from one peer by direct fetch.
    direct: usize,
    /// Number of next connection attempts that fail.
    refusals: usize,
    /// Names of the reasons for which connections ended.
    gone: BTreeSet<String>,
}

impl Play {
    /// Bits of `mode`: 1: encrypted connections are offered; 2: the long chain, with its minimum work; 4: peers are
    /// sought, with DNS seeds; 8: many inbound slots, so that eviction goes by usefulness, and log lines for each
    /// message; 16: an address memory exists at the start; 32: the time is that of the blocks.
    fn new(mode: u8) -> Play {
        let v2transport = mode & 1 == 1;
        let is_long = mode & 2 == 2;
        let minimum = if is_long { long().headers.len() - 50 } else { 15 };
        let chain = Arc::new(Chain::with_minimum(minimum));
        let budget = Arc::new(InFlightBudget::default());
        let is_automatic = mode & 4 == 4;
        let only = vec!["1.1.1.1".to_owned(), "1.1.1.2".to_owned()];
        let config = Config {
            outbound: if is_automatic { Outbound::Automatic } else { Outbound::Only(only) },
            inbound_count_max: if mode & 8 == 8 { MANY_PLACES } else { PLACES },
            debug_net: (mode & 8 == 8).then(LogLines::none),
            log_ips: mode & 8 == 8,
            seed_nodes: if is_automatic { vec!["2.2.2.2".to_owned()] } else { Vec::new() },
            addresses: (mode & 16 == 16).then(known_addresses),
            window_bytes: 100_000,
            v2transport,
            compact_filters: true,
            ..Config::new(NETWORK)
        };
        let last = known()[0].headers.last().expect("blocks");
        let start = if mode & 32 == 32 { u64::from(last.time()) } else { START };
        let now = Now { since_start: Duration::ZERO, unix: start };
        let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
        let hub = Hub::new(config, view, Arc::clone(&budget), Rng::Seeded(3), now).expect("addresses are addresses");
        let peers = Vec::new();
        let far = HashMap::new();
        let gone = BTreeSet::new();
        let time = Duration::ZERO;
        let rng = Rng::Seeded(5);
        let heard = 0;
        let read = 0;
        let resolved = 0;
        let dialed = 0;
        let direct = 0;
        let refusals = 0;
        Play {
            hub,
            chain,
            budget,
            time,
            peers,
            far,
            is_long,
            start,
            rng,
            heard,
            read,
            resolved,
            dialed,
            direct,
            refusals,
            gone,
        }
    }

    fn now(&self) -> Now {
        Now { since_start: self.time, unix: self.start + self.time.as_secs() }
    }

    fn step(&mut self, what: u8, script: &mut Script<'_>) {
        let now = self.now();
        let peer = self.peers.get(usize::from(what >> 4) % self.peers.len().max(1)).copied();
        match (what & 15, peer) {
            (0, _) => {
                let last = script.byte().unwrap_or(0);
                let remote = PeerAddress { address: NetAddress::V4([7, 7, 7, last]), port: 1 };
                self.peers.extend(self.hub.accepted(remote, now));
            }
            (15, _) => self.step_of_many(script),
            (1, Some(peer)) => self.say(peer, &script.bytes()),
            (2, Some(peer)) => {
                let all = Command::ALL;
                let command = all.get(script.number() % (all.len() + 1)).copied().unwrap_or(Command::Other);
                let payload = script.bytes();
                self.say(peer, &frame_v1(NETWORK.magic, command, &payload));
            }
            (3, Some(peer)) => self.shake_hands(peer, script.number()),
            (4, Some(peer)) => self.say_headers(peer, script),
            (5, Some(peer)) => self.say_block(peer, script),
            (6, Some(peer)) => self.hub.closed(peer, Reason::Closed, now),
            (7, _) => {
                let list = self.chain.wanted(script.number() % 64);
                self.hub.from_node(NodeMessage::Want(vec![list]), now);
            }
            (8, _) => self.hub.from_node(NodeMessage::NewTip, now),
            (9, _) => self.time += Duration::from_millis(script.number() as u64 * 50),
            (10, Some(peer)) => {
                if let Some(waits) = self.hub.peer(peer).map(|p| p.transport.to_send().len()) {
                    self.hub.sent(peer, waits, now);
                }
            }
            (11, Some(peer)) => self.say_wanted(peer),
            (12, Some(peer)) => self.ask(peer, script),
            (13, Some(peer)) => self.encrypt(peer),
            _ => self.hub.tick(now),
        }
        self.hub.schedule(self.now());
        self.act();
        self.hub.will_wait();
        self.check();
    }

    /// Steps with many peers, or from outside a peer.
    fn step_of_many(&mut self, script: &mut Script<'_>) {
        let what = script.byte().unwrap_or(0);
        let number = script.number();
        let now = self.now();
        match what % 16 {
            // Peers of several networks connect, some with permissions, and complete the handshake.
            0 | 1 => {
                let given =
                    [Permissions::NONE, Permissions::NONE, Permissions::NOBAN, Permissions::ALL][number >> 6 & 3];
                for at in 0..number % 64 {
                    let address = entry(3 + 5 * (number % 251 + at * (1 + (number >> 8)))).peer.address;
                    let Some(id) = self.hub.accepted_with(given, PeerAddress { address, port: 1 }, now) else {
                        continue;
                    };
                    self.peers.push(id);
                    self.shake_hands(id, number >> 8);
                }
            }
            2 if !self.peers.is_empty() => {
                let count = number % self.peers.len();
                self.peers.rotate_left(count);
            }
            3 => self.refusals = number % 32,
            4 => self.hub.set_active(number.is_multiple_of(2), now),
            5 => self.hub.ping_all(now),
            6 => drop(self.hub.known_addresses(number % 64, None, now)),
            7 => drop(self.hub.peer_stats(now)),
            _ => self.obey(what % 16, number),
        }
    }

    /// RPC calls of the user.
    fn obey(&mut self, what: u8, number: usize) {
        let now = self.now();
        let entry = entry(3 + 5 * (number % 8));
        let target = Target::Peer(entry.peer);
        let Some(&peer) = self.peers.get(number % self.peers.len().max(1)) else { return };
        match what {
            8 => self.hub.add_named(target, now),
            9 => self.hub.remove_named(&target),
            10 => self.hub.try_once(target, number & 8 == 8, now),
            11 => {
                let all = [Purpose::Everything, Purpose::Blocks, Purpose::Addresses, Purpose::Feeler];
                let _ = self.hub.connect_for(all[number >> 4 & 3], target, number & 8 == 8, now);
            }
            12 => {
                let _ = self.hub.disconnect_id(peer, now);
            }
            13 => self.hub.disconnect_subnet(&Subnet::single(entry.peer.address), now),
            14 => {
                let headers = &self.chains()[0].headers;
                let _ = self.hub.fetch_from(peer, headers[number % headers.len()].hash());
            }
            _ => {
                let _ = self.hub.send_to(peer, "anything", &[7; 9]);
            }
        }
    }

    fn say(&mut self, peer: PeerId, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.hub.may_read(peer) {
            let Some(far) = self.hub.peer_mut(peer) else { return };
            let space = far.transport.space();
            let count = bytes.len().min(space.len());
            assert!(count > 0, "there is always room");
            space[..count].copy_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            self.hub.received(peer, count, self.now());
        }
    }

    fn say_message(&mut self, peer: PeerId, message: &Message) {
        let (command, payload) = message.encode();
        self.say_payload(peer, command, &payload);
    }

    fn say_payload(&mut self, peer: PeerId, command: Command, payload: &[u8]) {
        match self.far.get_mut(&peer) {
            None => self.say(peer, &frame_v1(NETWORK.magic, command, payload)),
            Some(far) => {
                far.send(command, payload);
                self.exchange(peer);
            }
        }
    }

    /// Encrypts the other end of this connection; without effect if bytes were already sent.
    fn encrypt(&mut self, peer: PeerId) {
        let Some(near) = self.hub.peer(peer) else { return };
        let far = if near.is_outbound() {
            Transport::responder(NETWORK.magic, &mut self.rng)
        } else {
            Transport::v2_initiator(NETWORK.magic, &mut self.rng)
        };
        self.far.insert(peer, far);
        self.exchange(peer);
    }

    /// Exchanges all pending bytes between both ends of an encrypted connection.
    fn exchange(&mut self, peer: PeerId) {
        for _ in 0..8 {
            let Some(far) = self.far.get_mut(&peer) else { return };
            let there = far.to_send().to_vec();
            far.sent(there.len());
            self.say(peer, &there);
            let Some(near) = self.hub.peer(peer) else { return };
            let back = near.transport.to_send().to_vec();
            if there.is_empty() && back.is_empty() {
                return;
            }
            self.hub.sent(peer, back.len(), self.now());
            let (Some(far), mut rest) = (self.far.get_mut(&peer), &back[..]) else { return };
            while !rest.is_empty() {
                rest = &rest[far.feed(rest)..];
                loop {
                    match far.next() {
                        Ok(Some(_)) => self.heard += 1,
                        Ok(None) => break,
                        Err(_) => return,
                    }
                }
            }
        }
    }

    /// Requests and announcements of a peer.
    fn ask(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let what = script.number();
        let number = script.number();
        let headers = &self.chains()[0].headers;
        let hash = headers[number % headers.len()].hash();
        let range = FilterRange { kind: u8::from(what >= 0x8000), start: (number >> 6) as u32, stop: hash };
        let message = match what % 14 {
            0 => Message::GetHeaders(vec![hash, headers[0].prev()], BlockHash::ZERO),
            1 => Message::GetData(vec![Inventory::WitnessBlock(hash), Inventory::Block(hash)]),
            2 => Message::GetAddr,
            3 => Message::Ping(Some(number as u64)),
            4 => {
                let wanted = self.chain.wanted(16);
                Message::NotFound(wanted.iter().map(|want| Inventory::WitnessBlock(want.hash)).collect())
            }
            5 => Message::SendAddrV2,
            6 => Message::SendHeaders,
            7 => Message::Inv(vec![Inventory::Block(hash)]),
            9 => Message::GetCFilters(range),
            10 => Message::GetCFHeaders(range),
            11 => Message::GetCFCheckpt(range.kind, hash),
            12 => Message::GetBlocks(vec![hash, headers[0].prev()], BlockHash::ZERO),
            13 => Message::Feature((!number.is_multiple_of(8)).then(|| b"a feature".to_vec())),
            _ => Message::AddrV2((0..number % 1100).map(entry).collect()),
        };
        self.say_message(peer, &message);
    }

    /// The chains that peers may have.
    fn chains(&self) -> Vec<&'static Made> {
        if self.is_long { vec![long()] } else { known().iter().collect() }
    }

    fn shake_hands(&mut self, peer: PeerId, flags: usize) {
        let limited = if flags & 1 == 0 { services::NETWORK } else { services::NETWORK_LIMITED };
        let version = Version {
            version: 70016 + (flags >> 1 & 1) as u32,
            services: services::WITNESS | limited,
            time: 0,
            nonce: flags as u64,
            agent: b"/fuzz/".to_vec(),
            height: 9,
            relay: true,
        };
        self.say_message(peer, &Message::Version(version));
        if flags & 4 != 0 {
            self.say_message(peer, &Message::Feature(Some(b"a feature".to_vec())));
        }
        self.say_message(peer, &Message::Verack);
    }

    fn say_headers(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let chains = self.chains();
        let which = script.number();
        if which & 31 == 31 {
            return self.say_message(peer, &Message::Headers(ahead()[which >> 5 & 1..][..1].to_vec()));
        }
        let all = &chains[which % chains.len()].headers;
        // Starting points that are often used in requests: genesis, or the end of an earlier message.
        let from = match script.number() & 3 {
            0 => script.number() % all.len(),
            place if self.is_long => (place - 1) * HEADERS_COUNT_MAX,
            _ => 0,
        };
        let count = if self.is_long { HEADERS_COUNT_MAX } else { 1 + script.number() % 64 };
        let to = (from + count).min(all.len());
        self.say_message(peer, &Message::Headers(all[from..to].to_vec()));
    }

    fn say_block(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let chains = self.chains();
        let made = chains[script.number() % chains.len()];
        let mut block = made.block(script.number() % made.headers.len());
        if script.number().is_multiple_of(4) {
            *block.last_mut().expect("a block has bytes") ^= 1;
        }
        self.say_payload(peer, Command::Block, &block);
    }

    /// Sends the lowest missing block, whether it was requested from this peer or not.
    fn say_wanted(&mut self, peer: PeerId) {
        let Some(want) = self.chain.wanted(1).first().copied() else { return };
        for made in self.chains() {
            // The long chain starts at height 1, and searching it for a hash would take long.
            let at = match self.is_long {
                true => want.height.to_usize().checked_sub(1).filter(|&at| at < made.headers.len()),
                false => made.headers.iter().position(|header| header.hash() == want.hash),
            };
            if let Some(at) = at {
                self.say_payload(peer, Command::Block, &made.block(at));
            }
        }
    }

    fn act(&mut self) {
        let now = self.now();
        while let Some(action) = self.hub.next_action() {
            match action {
                Action::Dial { peer, .. } if self.refusals > 0 => {
                    self.refusals -= 1;
                    self.hub.not_connected(peer, &DialError::of_peer(TroubleKind::Refused, "refused"), now);
                }
                Action::Dial { peer, .. } => {
                    self.dialed += 1;
                    self.hub.connected(peer, now);
                    self.peers.push(peer);
                }
                Action::Resolve { name, port } => {
                    // A DNS seed without addresses, and one with a few.
                    let count = 3 * (self.resolved % 2) as u8;
                    let found: Vec<SocketAddr> = (0..count).map(|at| ([8, at + 1, 1, 1], port).into()).collect();
                    self.resolved += 1;
                    self.hub.resolved(&name, &found, now);
                }
                Action::Read { peer, request } => {
                    let served = request.read(&*self.chain);
                    if let Served::Blocks(blocks) = &served {
                        self.read += blocks.len();
                    }
                    self.hub.read_ahead(peer, &served);
                    self.hub.served(peer, served, now);
                }
                Action::Close { peer } => {
                    self.peers.retain(|known| *known != peer);
                    self.far.remove(&peer);
                }
                Action::Event(Event::Block { peer, hash, bytes, .. }) => {
                    let verdict = self.chain.store(peer, &bytes);
                    self.hub.from_node(NodeMessage::Verdict(hash, verdict), now);
                    for refused in self.chain.connect() {
                        self.hub.from_node(NodeMessage::Verdict(refused, BlockVerdict::Invalid(String::new())), now);
                    }
                }
                Action::Event(Event::Targets(_) | Event::WantMore) => {
                    let list = self.chain.wanted(1000);
                    self.hub.from_node(NodeMessage::Want(vec![list]), now);
                }
                Action::Event(Event::PeerGone { reason, .. }) => {
                    let text = format!("{reason:?}");
                    self.gone.insert(text.split([' ', '(']).next().unwrap_or("").to_owned());
                }
                Action::Event(_) => {}
            }
        }
    }

    fn check(&mut self) {
        assert!(self.budget.held_bytes() == 0, "every reservation was dropped");
        for id in self.hub.peer_ids() {
            let waits = self.hub.peer(id).map_or(0, |peer| peer.transport.out_bytes());
            assert!(waits < 8 << 20, "{waits} bytes wait for one peer");
            self.direct = self.direct.max(self.hub.direct_count(id));
        }
        let _ = self.hub.progress();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;

    /// Plays the steps of a mode.
    fn played(mode: u8, steps: &[&[u8]]) -> Play {
        play(&[&[mode], &steps.concat()[..]].concat())
    }

    /// An inbound peer, 0, and the first outbound one, 1, say version and verack.
    const OPEN: &[u8] = &[0, 9, 0x03, 0, 0, 0x13, 0, 0];
    /// An inbound peer that encrypts does.
    const ENCRYPTED: &[u8] = &[0, 9, 0x0d, 0x03, 0, 0];
    /// Peer 0 says the headers of the first chain.
    const HEADERS: &[u8] = &[0x04, 0, 0, 0, 1, 0, 63];
    /// It says the lowest block that is wanted, more often than there are.
    const BLOCKS: &[u8] = &[0x0b; 45];
    /// It asks for the headers, for a block in both forms, for addresses; says that it does not have what is wanted.
    const QUESTIONS: [&[u8]; 4] =
        [&[0x0c, 0, 0, 0, 3], &[0x0c, 0, 1, 0, 3, 14, 14], &[0x0c, 0, 2, 0, 0, 14], &[0x0c, 0, 4, 0, 0]];
    const ADDRESSES: &[u8] = &[0x0c, 0, 8, 1, 0];
    /// It says the headers of the chain that has an invalid block.
    const INVALID_CHAIN: &[u8] = &[0x04, 0, 0, 0, 1, 0, 30, 0x04, 0, 2, 0, 1, 0, 63];
    /// It asks for filters, of one kind and of one that there is not.
    const FILTERS: [&[u8]; 4] =
        [&[0x0c, 0, 9, 0, 9, 14], &[0x0c, 0, 10, 0, 9, 14], &[0x0c, 0, 11, 0, 9], &[0x0c, 0x80, 1, 0, 9]];
    const FUTURE: &[u8] = &[0x04, 0, 31];
    /// Ten minutes and more.
    const WAIT: &[u8] = &[9, 0x40, 0, 14];

    const TICK: &[u8] = &[14];
    const SECOND: &[u8] = &[9, 0, 20, 14];
    /// The next connections that we make fail.
    const REFUSED: &[u8] = &[15, 3, 0, 31];
    /// Peers of several networks come: fewer than there are places, and more.
    const MANY: &[u8] = &[15, 0, 1, 40];
    const MORE: &[u8] = &[15, 0, 1, 63];
    /// A person asks for pings and for what is known of peers, ends all connections, and allows them again.
    const PERSON: &[u8] = &[15, 5, 0, 0, 9, 0x40, 0, 14, 15, 7, 0, 0, 15, 4, 0, 1, 15, 4, 0, 0];

    /// A person asks for a peer to be kept connected, for connections of each kind, for a block, and that all ends.
    const ORDERS: &[u8] = &[
        15, 8, 0, 1, 14, 15, 10, 0, 2, 15, 11, 0, 3, 15, 11, 0, 20, 15, 11, 0, 37, 15, 11, 0, 54, 14, 15, 14, 0, 2, 15,
        15, 0, 0, 15, 13, 0, 1, 15, 9, 0, 1, 15, 12, 0, 0, 14,
    ];
    /// Peer 0 says ten headers of the fork; asks for hashes of blocks.
    const FORK: &[u8] = &[0x04, 0, 1, 0, 1, 0, 9];
    const GET_BLOCKS: &[u8] = &[0x0c, 0, 12, 0, 3];
    /// Parts of the long chain, said by the first outbound peer.
    const LONG: [&[u8]; 3] = [&[0x14, 0, 0, 0, 1], &[0x14, 0, 0, 0, 2], &[0x14, 0, 0, 0, 3]];

    #[test]
    fn language_of_peers_reaches_what_it_is_for() {
        // Headers of too little work: looked at, asked for again, and kept.
        let [first, second, last] = LONG;
        let long = played(2, &[OPEN, first, second, last, first, second, last]);
        assert_eq!(long.chain.best_header().height.to_usize(), super::long().headers.len());
        let short = played(2, &[OPEN, first, second, first]);
        assert_eq!(short.chain.best_header().height, Height::GENESIS, "too little work is not kept");

        let is_known = |play: &Play| play.chain.header(&ahead()[0].hash()).is_some();
        assert!(!is_known(&played(0, &[OPEN, HEADERS, BLOCKS, FUTURE])), "a header of later");
        assert!(is_known(&played(0, &[OPEN, HEADERS, BLOCKS, FUTURE, WAIT, FUTURE])), "its time has come");

        for (row, mode, open, questions) in [("plain", 0, OPEN, 1), ("encrypted", 1, ENCRYPTED, 1)] {
            let play = played(mode, &[open, HEADERS, BLOCKS, ADDRESSES, &QUESTIONS.concat()]);
            assert_eq!(play.chain.tip().height, Height::new(40), "{row}");
            assert!(play.read >= questions, "{row}: a block was read for who asked");
            assert!(mode == 0 || play.heard > 2, "{row}: {} messages came", play.heard);
        }
        // Peers are sought: among known addresses, of DNS seeds, and where all are refused, of fixed seeds.
        let (seconds, minutes) = (SECOND.repeat(20), SECOND.repeat(90));
        let (known, unknown) = (played(4 | 16, &[TICK, &seconds]), played(4, &[TICK, &minutes]));
        assert!(known.resolved == 0 && known.dialed > 2, "{} names, {} peers", known.resolved, known.dialed);
        assert!(unknown.resolved > 0 && unknown.dialed > 1, "{} names, {} peers", unknown.resolved, unknown.dialed);
        let refused = played(4, &[REFUSED, TICK, &minutes]);
        let fixed = Addresses::plain(&mut Rng::Seeded(1)).read(&refused.hub.addresses_bytes(), NETWORK.magic).unwrap();
        assert_eq!(fixed.count(), 1, "the fixed seed");

        // More peers than there are places: one that is not protected gives his up.
        let (enough, more) = (played(8, &[MANY]), played(8, &[MANY, WAIT, MORE]));
        assert!(!enough.gone.contains("Evicted") && more.gone.contains("Evicted"), "{:?}", more.gone);

        // Near the tip a peer tells of a branch beside its best chain: its blocks are asked of it at once.
        let direct = |mode| played(mode, &[OPEN, HEADERS, &BLOCKS[..26], INVALID_CHAIN, FORK]).direct;
        assert_eq!((direct(32), direct(0)), (10, 0), "where the tip is of this day, and where it is old");

        // It asks for hashes of blocks, and offers features, as its version allows and not.
        let asked = played(1, &[ENCRYPTED, HEADERS, BLOCKS, GET_BLOCKS]);
        assert_eq!(asked.heard, 1 + played(1, &[ENCRYPTED, HEADERS, BLOCKS]).heard, "an inv");
        for (flags, reason) in [(4, Some("FeatureVersion")), (6, None)] {
            let gone = played(0, &[&[0, 9, 0x03, 0, flags], HEADERS]).gone;
            assert_eq!(gone.iter().find(|reason| *reason != "Stopping").map(String::as_str), reason, "{gone:?}");
        }

        // A person connects to peers and ends that, by all ways.
        let person = played(0, &[OPEN, ORDERS]);
        assert!(person.dialed > 4, "{} connections", person.dialed);

        // An outbound connection that encrypts.
        assert!(played(1, &[&[14, 0x0d, 0x03, 0, 0], HEADERS]).heard > 0);
    }

    /// The reasons for which the peers of the kept inputs are let go. `FUZZ_CORPUS=DIR` looks at another corpus.
    #[test]
    fn seeds_of_the_fuzzer_meet_these_reasons() {
        let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds").to_owned();
        let dir = std::env::var("FUZZ_CORPUS").unwrap_or(kept);
        let mut met = BTreeSet::new();
        for seed in std::fs::read_dir(format!("{dir}/peer")).unwrap() {
            met.extend(play(&std::fs::read(seed.unwrap().path()).unwrap()).gone);
        }
        println!("{dir}: {met:?}");
        for want in MET {
            assert!(met.contains(want), "{want}: {met:?}");
        }
    }

    const MET: [&str; 14] = [
        "AddressesFetched",
        "Asked",
        "BadBody",
        "BadMessage",
        "BlockTimeout",
        "Closed",
        "Evicted",
        "FilterType",
        "MissingServices",
        "NeverSpoke",
        "OnInvalidChain",
        "Silent",
        "UnaskedBlocks",
        "Wire",
    ];

    /// The seeds that random changes do not find: `FUZZ_SEEDS=DIR` writes them there.
    #[test]
    fn seeds_are_written_where_they_are_wanted() {
        let Some(dir) = std::env::var_os("FUZZ_SEEDS") else { return };
        let (dir, questions, [first, second, last]) = (std::path::PathBuf::from(dir), QUESTIONS.concat(), LONG);
        let (seconds, minutes, filters) = (SECOND.repeat(20), SECOND.repeat(90), FILTERS.concat());
        let seeds: [(&str, u8, Vec<&[u8]>); 16] = [
            ("near-tip", 32, vec![OPEN, HEADERS, &BLOCKS[..26], INVALID_CHAIN, FORK, BLOCKS]),
            ("orders", 0, vec![OPEN, ORDERS]),
            ("get-blocks", 1, vec![ENCRYPTED, HEADERS, BLOCKS, GET_BLOCKS]),
            ("feature", 0, vec![&[0, 9, 0x03, 0, 6], HEADERS, BLOCKS]),
            ("sought", 4 | 16, vec![TICK, &seconds, HEADERS, BLOCKS]),
            ("dns-seeds", 4, vec![TICK, &minutes, OPEN, HEADERS, BLOCKS]),
            ("fixed-seeds", 4, vec![REFUSED, TICK, &minutes]),
            ("invalid", 0, vec![OPEN, INVALID_CHAIN, BLOCKS, OPEN, INVALID_CHAIN]),
            ("filters", 0, vec![OPEN, HEADERS, BLOCKS, &filters]),
            ("eviction", 8, vec![MANY, WAIT, MORE, HEADERS, BLOCKS]),
            ("person", 1 | 8, vec![ENCRYPTED, HEADERS, PERSON]),
            ("low-work", 2, vec![OPEN, first, second, last, first, second, last, &[0x1b; 8]]),
            ("future", 0, vec![OPEN, HEADERS, BLOCKS, FUTURE, WAIT, FUTURE]),
            ("serve", 0, vec![OPEN, HEADERS, BLOCKS, ADDRESSES, &questions]),
            ("serve-v2", 1, vec![ENCRYPTED, HEADERS, BLOCKS, ADDRESSES, &questions]),
            ("outbound-v2", 1, vec![&[14, 0x0d, 0x03, 0, 0], HEADERS, BLOCKS]),
        ];
        for (name, mode, steps) in seeds {
            std::fs::write(dir.join(name), [&[mode], &steps.concat()[..]].concat()).unwrap();
        }
    }

    #[test]
    fn hub_survives_arbitrary_peers() {
        let mut rng = Rng::Seeded(22);
        let (mut connected, mut gone) = (0, BTreeSet::new());
        for _ in 0..if testkit::is_slow() { 200_000 } else { 1000 } {
            let mut data = vec![0; rng.below(600)];
            rng.fill(&mut data);
            // First what opens the way: connections and handshakes, as they would be found by a fuzzer.
            let version = (rng.below(2) + 4 * rng.below(8)) as u8;
            let mut script = vec![version, 0, 1, 0, 2, 0x03, 0, 0, 0x13, 0, 1, 0x23, 0, 0, 0x33, 0, 0];
            script.extend([0x24, 0, 0, 0, 1, 0, 63, 0x34, 0, 1, 0, 1, 0, 63]);
            script.truncate(rng.below(script.len() + 1));
            for chunk in data.chunks(7) {
                script.push((rng.below(16) + 16 * rng.below(8)) as u8);
                script.extend(chunk.iter().map(|byte| byte & 0x3f & if rng.below(3) == 0 { 0x3f } else { 0 }));
            }
            let play = play(&script);
            connected += usize::from(play.chain.tip().height > Height::GENESIS);
            gone.extend(play.gone);
        }
        assert!(connected > 20 && gone.len() > 6, "{connected} synced, {} reasons", gone.len());
    }
}
