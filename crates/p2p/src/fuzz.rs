//! Entrances for fuzzing: any bytes at all, as a wire, a file or a peer would give them.
//!
//! Nothing here is part of the interface. What must hold: no panic, no memory beyond what the settings allow.

use crate::addresses::Addresses;
use crate::api::{BlockVerdict, Config, Event, Outbound, PeerId};
use crate::budget::InFlightBudget;
use crate::chain::{ChainView, HEADERS_COUNT_MAX};
use crate::hub::{Action, Hub, NodeMessage, Served};
use crate::params::{NetworkParams, REGTEST};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::sim::{Chain, Made, made_on, mine};
use crate::socks5;
use crate::time::Now;
use crate::transport::Transport;
use crate::v2;
use crate::wire::{
    AddressEntry, Command, FRAME_BYTES, Frame, Inventory, Message, NetAddress, PeerAddress, Target, Version, frame_v1,
    services,
};
use primitives::{BlockHash, Header};
use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const NETWORK: NetworkParams = NetworkParams { commitment_period: 7, redownload_buffer_count: 10, ..REGTEST };

const COMMANDS: [Command; 22] = [
    Command::Addr,
    Command::AddrV2,
    Command::Block,
    Command::GetAddr,
    Command::GetData,
    Command::GetHeaders,
    Command::Headers,
    Command::Inv,
    Command::NotFound,
    Command::Ping,
    Command::Pong,
    Command::SendAddrV2,
    Command::SendHeaders,
    Command::Verack,
    Command::Version,
    Command::Other,
    Command::GetCFilters,
    Command::GetCFHeaders,
    Command::GetCFCheckpt,
    Command::CFilter,
    Command::CFHeaders,
    Command::CFCheckpt,
];

/// Gives `data` to every parser of foreign bytes; what parses must come back the same when written.
pub fn fuzz_codec(data: &[u8]) {
    for command in COMMANDS {
        if let Ok(message) = Message::parse(command, data) {
            let (again, payload) = message.encode();
            if message != Message::Ignored {
                assert_eq!(again, command, "a message keeps its command");
                assert_eq!(Message::parse(again, &payload).as_ref(), Ok(&message), "and its contents");
            }
        }
    }
    if let Some(head) = data.first_chunk::<FRAME_BYTES>() {
        let _ = Frame::parse(head, NETWORK.magic);
    }
    let _ = v2::message_type(data);
    check_addresses(data);
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(target) = Target::parse(text, 1)
    {
        assert_eq!(Target::parse(&target.to_string(), 1), Ok(target), "what is printed is read");
    }
    let host = socks5::Host::Name("host".to_owned());
    let _ = socks5::connect(&mut Says(data), &host, 1, 2);
    let mut rng = Rng::Seeded(1);
    let transports = [
        Transport::v1(NETWORK.magic),
        Transport::v2_initiator(NETWORK.magic, &mut rng),
        Transport::responder(NETWORK.magic, &mut rng),
    ];
    transports.into_iter().for_each(|transport| feed(transport, data));
    // Handshakes take longer than all else: one input in eight has them.
    if let Some((&at, payload)) = data.split_first()
        && at % 8 == 7
    {
        check_v2(usize::from(at), &payload[..payload.len().min(V2_BYTES_MAX)]);
    }
}

/// Payload of an encrypted message; more would only take time.
const V2_BYTES_MAX: usize = 2000;

/// The address memory, as it is and with the checksum made right; addresses as text.
fn check_addresses(data: &[u8]) {
    const NOW: u64 = 1_700_000_000;
    let _ = Addresses::from_bytes(data, NOW);
    if let Ok(addresses) = Addresses::from_bytes(&Addresses::file_of(data), NOW) {
        let again = Addresses::from_bytes(&addresses.to_bytes(), NOW).expect("what is written is read");
        assert_eq!(again.count(), addresses.count(), "and no address is lost");
    }
    let Some((&network, bytes)) = data.split_first() else { return };
    if let Ok(Some(address)) = NetAddress::from_bip155(network % 8, bytes) {
        let peer = PeerAddress { address, port: 1 };
        let _ = address.group();
        match Target::parse(&peer.to_string(), 2) {
            Ok(Target::Peer(read)) => {
                assert_eq!(NetAddress::from_bip155(network % 8, read.address.bytes()), Ok(Some(address)))
            }
            // A name of I2P is one to be looked up.
            Ok(Target::Name(..)) => {}
            Err(why) => panic!("{peer}: {why}"),
        }
    }
}

/// Both ends of an encrypted connection.
fn shaken_hands() -> (Transport, Transport) {
    let mut rng = Rng::Seeded(7);
    let (mut near, mut far) =
        (Transport::v2_initiator(NETWORK.magic, &mut rng), Transport::responder(NETWORK.magic, &mut rng));
    for _ in 0..4 {
        pass(&mut near, &mut far, None).expect("honest ends");
        pass(&mut far, &mut near, None).expect("honest ends");
    }
    (near, far)
}

/// What one end has to send goes to the other, the byte at `bent` changed; what arrives there, or that it ends.
fn pass(from: &mut Transport, to: &mut Transport, bent: Option<usize>) -> Result<Vec<Vec<u8>>, ()> {
    let (mut arrived, mut done) = (Vec::new(), 0);
    loop {
        let mut bytes = from.to_send().to_vec();
        if bytes.is_empty() {
            return Ok(arrived);
        }
        if let Some(byte) = bent.and_then(|bent| bytes.get_mut(bent.checked_sub(done)?)) {
            *byte ^= 0x20;
        }
        from.sent(bytes.len());
        done += bytes.len();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[to.feed(rest)..];
            while let Some(message) = to.next().map_err(drop)? {
                arrived.push(message.payload().to_vec());
            }
        }
    }
}

/// An encrypted message comes as it was sent; one of which a byte is another ends the connection, or never ends.
fn check_v2(bent: usize, payload: &[u8]) {
    let (mut near, mut far) = shaken_hands();
    near.send(Command::Pong, payload);
    assert_eq!(pass(&mut near, &mut far, None), Ok(vec![payload.to_vec()]), "as it was sent");
    far.send(Command::Ping, payload);
    let got = pass(&mut far, &mut near, Some(bent % (payload.len() + 20)));
    assert!(got.is_err() || got == Ok(Vec::new()), "a changed byte is seen");
}

struct Says<'a>(&'a [u8]);

impl Read for Says<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.0.read(out)
    }
}

impl Write for Says<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn feed(mut transport: Transport, mut data: &[u8]) {
    while !data.is_empty() {
        let taken = transport.feed(data);
        assert!(taken > 0, "there is always room");
        data = &data[taken..];
        loop {
            match transport.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// The address with this number, as a peer may tell it.
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

/// Lets peers say and do whatever `data` says, by a small language: each step is one byte for what,
/// some for how, and the rest for the next.
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

/// Blocks that peers may have: 40 in a chain, and a fork of 50 from its 20th.
fn known() -> &'static (Made, Made) {
    static KNOWN: OnceLock<(Made, Made)> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let genesis = Chain::new().best_header();
        let main = made_on(&genesis, 40, 1, 30);
        let mut start = Made::default();
        start.headers.extend_from_slice(&main.headers[..20]);
        start.bodies.extend_from_slice(&main.bodies[..20]);
        let fork = made_on(&Chain::having(&start).best_header(), 50, 2, 30);
        (main, fork)
    })
}

/// A chain of as many headers as two messages hold, and then some: less work than the minimum of a play with it until
/// its last part is known.
fn long() -> &'static Made {
    static LONG: OnceLock<Made> = OnceLock::new();
    LONG.get_or_init(|| made_on(&Chain::new().best_header(), 2 * HEADERS_COUNT_MAX + 100, 3, 0))
}

/// Headers on the first chain that the clock makes valid only later.
fn ahead() -> &'static [Header] {
    static AHEAD: OnceLock<Vec<Header>> = OnceLock::new();
    AHEAD.get_or_init(|| {
        let tip = Chain::having(&known().0).best_header();
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
    /// The chain is the long one.
    is_long: bool,
    rng: Rng,
    /// Messages that came back over encrypted connections, and blocks read for peers.
    heard: usize,
    read: usize,
    /// Kinds of reasons for which connections ended.
    gone: HashSet<std::mem::Discriminant<Reason>>,
}

impl Play {
    /// `mode`: 1: encrypted connections are offered; 2: the chain is long, and so is its minimum of work.
    fn new(mode: u8) -> Play {
        let (v2transport, is_long) = (mode & 1 == 1, mode & 2 == 2);
        let minimum = if is_long { long().headers.len() - 50 } else { 15 };
        let chain = Arc::new(Chain::with_minimum(minimum));
        let budget = Arc::new(InFlightBudget::default());
        let config = Config {
            outbound: Outbound::Only(vec!["1.1.1.1".to_owned(), "1.1.1.2".to_owned()]),
            inbound_count_max: 4,
            window_bytes: 100_000,
            v2transport,
            compact_filters: true,
            ..Config::new(NETWORK)
        };
        let now = Now { since_start: Duration::ZERO, unix: 1_700_000_000 };
        let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
        let hub = Hub::new(config, view, Arc::clone(&budget), Rng::Seeded(3), now).expect("addresses are addresses");
        let (peers, far, gone) = (Vec::new(), HashMap::new(), HashSet::new());
        let (time, rng) = (Duration::ZERO, Rng::Seeded(5));
        Play { hub, chain, budget, time, peers, far, is_long, rng, heard: 0, read: 0, gone }
    }

    fn now(&self) -> Now {
        Now { since_start: self.time, unix: 1_700_000_000 + self.time.as_secs() }
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
            (1, Some(peer)) => self.say(peer, &script.bytes()),
            (2, Some(peer)) => {
                let command = COMMANDS[script.number() % COMMANDS.len()];
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
        self.check();
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

    /// From here on the other end of this connection encrypts; where bytes went before, nothing comes of it.
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

    /// Both ends of an encrypted connection say what they have to say.
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

    /// What a peer may want to know, or says of itself.
    fn ask(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let (what, number) = (script.number(), script.number());
        let headers = &self.chains()[0].headers;
        let hash = headers[number % headers.len()].hash();
        let message = match what % 9 {
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
            _ => Message::AddrV2((0..number % 1100).map(entry).collect()),
        };
        self.say_message(peer, &message);
    }

    /// The chains that peers may have.
    fn chains(&self) -> Vec<&'static Made> {
        let (main, fork) = known();
        if self.is_long { vec![long()] } else { vec![main, fork] }
    }

    fn shake_hands(&mut self, peer: PeerId, flags: usize) {
        let limited = if flags & 1 == 0 { services::NETWORK } else { services::NETWORK_LIMITED };
        let version = Version {
            version: 70016,
            services: services::WITNESS | limited,
            time: 0,
            nonce: flags as u64,
            agent: b"/fuzz/".to_vec(),
            height: 9,
            relay: true,
        };
        self.say_message(peer, &Message::Version(version));
        self.say_message(peer, &Message::Verack);
    }

    fn say_headers(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let (chains, which) = (self.chains(), script.number());
        if which & 31 == 31 {
            return self.say_message(peer, &Message::Headers(ahead()[which >> 5 & 1..][..1].to_vec()));
        }
        let all = &chains[which & 1 & (chains.len() - 1)].headers;
        // Often what is asked for: from genesis on, or from where a message before ended.
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
        let made = chains[script.number() & 1 & (chains.len() - 1)];
        let mut block = made.block(script.number() % made.headers.len());
        if script.number().is_multiple_of(4) {
            *block.last_mut().expect("a block has bytes") ^= 1;
        }
        self.say_payload(peer, Command::Block, &block);
    }

    /// The lowest block that is wanted, whether this peer was asked for it or not.
    fn say_wanted(&mut self, peer: PeerId) {
        let Some(want) = self.chain.wanted(1).first().copied() else { return };
        for made in self.chains() {
            // The long one starts at height 1, and to look for a hash in it would take long.
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
                Action::Dial { peer, .. } => {
                    self.hub.connected(peer, now);
                    self.peers.push(peer);
                }
                Action::Read { peer, request } => {
                    let served = request.read(&*self.chain);
                    if let Served::Blocks(blocks) = &served {
                        self.read += blocks.len();
                    }
                    self.hub.served(peer, served, now);
                }
                Action::Close { peer } => {
                    self.peers.retain(|known| *known != peer);
                    self.far.remove(&peer);
                }
                Action::Event(Event::Block { hash, bytes, .. }) => {
                    let verdict = self.chain.store(&bytes);
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
                    self.gone.insert(std::mem::discriminant(&reason));
                }
                Action::Event(_) | Action::Resolve { .. } => {}
            }
        }
    }

    fn check(&mut self) {
        assert!(self.budget.held_bytes() == 0, "every reservation was dropped");
        for id in self.hub.peer_ids() {
            let waits = self.hub.peer(id).map_or(0, |peer| peer.transport.out_bytes());
            assert!(waits < 8 << 20, "{waits} bytes wait for one peer");
        }
        let _ = self.hub.progress();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::Height;

    fn count() -> usize {
        if testkit::is_slow() { 200_000 } else { 1000 }
    }

    #[test]
    fn codec_survives_arbitrary_bytes() {
        let mut rng = Rng::Seeded(21);
        for _ in 0..count() {
            let mut data = vec![0; rng.below(300)];
            rng.fill(&mut data);
            // Small numbers make counts and lengths that can be met.
            if rng.below(2) == 0 {
                data.iter_mut().for_each(|byte| *byte &= 0x1f);
            }
            fuzz_codec(&data);
        }
    }

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
    const FUTURE: &[u8] = &[0x04, 0, 31];
    /// Ten minutes and more.
    const WAIT: &[u8] = &[9, 0x40, 0, 14];

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
        // An outbound connection that encrypts.
        assert!(played(1, &[&[14, 0x0d, 0x03, 0, 0], HEADERS]).heard > 0);
    }

    /// The seeds that random changes do not find: `FUZZ_SEEDS=DIR` writes them there.
    #[test]
    fn seeds_are_written_where_they_are_wanted() {
        let Some(dir) = std::env::var_os("FUZZ_SEEDS") else { return };
        let (dir, questions, [first, second, last]) = (std::path::PathBuf::from(dir), QUESTIONS.concat(), LONG);
        let seeds: [(&str, u8, Vec<&[u8]>); 5] = [
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
    fn seeds_of_the_fuzzer_hold() {
        for (target, run) in [("codec", fuzz_codec as fn(&[u8])), ("peer", fuzz_peer)] {
            let seeds = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
            for seed in std::fs::read_dir(seeds).unwrap() {
                run(&std::fs::read(seed.unwrap().path()).unwrap());
            }
        }
    }

    #[test]
    fn hub_survives_arbitrary_peers() {
        let mut rng = Rng::Seeded(22);
        let (mut connected, mut gone) = (0, HashSet::new());
        for _ in 0..count() {
            let mut data = vec![0; rng.below(600)];
            rng.fill(&mut data);
            // First what opens the way: connections and handshakes, as they would be found by a fuzzer.
            let version = rng.below(2) as u8;
            let mut script = vec![version, 0, 1, 0, 2, 0x03, 0, 0, 0x13, 0, 1, 0x23, 0, 0, 0x33, 0, 0];
            script.extend([0x24, 0, 0, 0, 1, 0, 63, 0x34, 0, 1, 0, 1, 0, 63]);
            script.truncate(rng.below(script.len() + 1));
            for chunk in data.chunks(7) {
                script.push((rng.below(14) + 16 * rng.below(8)) as u8);
                script.extend(chunk.iter().map(|byte| byte & 0x3f & if rng.below(3) == 0 { 0x3f } else { 0 }));
            }
            let play = play(&script);
            connected += usize::from(play.chain.tip().height > Height::GENESIS);
            gone.extend(play.gone);
        }
        assert!(connected > 20 && gone.len() > 6, "{connected} synced, {} reasons", gone.len());
    }
}
