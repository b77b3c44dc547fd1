//! Entrances for fuzzing: any bytes at all, as a wire, a file or a peer would give them.
//!
//! Nothing here is part of the interface. What must hold: no panic, no memory beyond what the settings allow.

use crate::addresses::Addresses;
use crate::api::{BlockVerdict, Config, Event, Outbound, PeerId};
use crate::budget::InFlightBudget;
use crate::chain::ChainView;
use crate::hub::{Action, Hub, NodeMessage, ServedBlock};
use crate::params::{NetworkParams, REGTEST};
use crate::reason::Reason;
use crate::rng::Rng;
use crate::sim::{Chain, Made, made_on};
use crate::socks5;
use crate::time::Now;
use crate::transport::Transport;
use crate::v2;
use crate::wire::{Command, FRAME_BYTES, Frame, Message, NetAddress, PeerAddress, Target, Version, frame_v1, services};
use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const NETWORK: NetworkParams = NetworkParams { commitment_period: 7, redownload_buffer_count: 10, ..REGTEST };

const COMMANDS: [Command; 16] = [
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
];

/// Gives `data` to every parser of foreign bytes; what parses must come back the same when written.
pub fn fuzz_codec(data: &[u8]) {
    for command in COMMANDS {
        if let Ok(message) = Message::parse(command, data) {
            let (again, payload) = message.encode();
            if command != Command::Block && command != Command::Other {
                assert_eq!(again, command, "a message keeps its command");
                assert_eq!(Message::parse(again, &payload).as_ref(), Ok(&message), "and its contents");
            }
        }
    }
    if let Some(head) = data.first_chunk::<FRAME_BYTES>() {
        let _ = Frame::parse(head, NETWORK.magic);
    }
    let _ = v2::message_type(data);
    let _ = Addresses::from_bytes(data, 1_700_000_000);
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

/// Lets peers say and do whatever `data` says, by a small language: each step is one byte for what,
/// some for how, and the rest for the next.
pub fn fuzz_peer(data: &[u8]) {
    play(data);
}

fn play(data: &[u8]) -> Play {
    let mut script = Script(data);
    let mut play = Play::new(script.byte().is_some_and(|byte| byte & 1 == 1));
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

struct Play {
    hub: Hub,
    chain: Arc<Chain>,
    budget: Arc<InFlightBudget>,
    time: Duration,
    peers: Vec<PeerId>,
    /// Kinds of reasons for which connections ended.
    gone: HashSet<std::mem::Discriminant<Reason>>,
}

impl Play {
    fn new(v2transport: bool) -> Play {
        let chain = Arc::new(Chain::with_minimum(15));
        let budget = Arc::new(InFlightBudget::default());
        let config = Config {
            outbound: Outbound::Only(vec!["1.1.1.1".to_owned(), "1.1.1.2".to_owned()]),
            inbound_count_max: 4,
            window_bytes: 100_000,
            v2transport,
            ..Config::new(NETWORK)
        };
        let now = Now { since_start: Duration::ZERO, unix: 1_700_000_000 };
        let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
        let hub = Hub::new(config, view, Arc::clone(&budget), Rng::Seeded(3), now).expect("addresses are addresses");
        Play { hub, chain, budget, time: Duration::ZERO, peers: Vec::new(), gone: HashSet::new() }
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
        self.say(peer, &frame_v1(NETWORK.magic, command, &payload));
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
        let (main, fork) = known();
        let all = if script.number() & 1 == 0 { &main.headers } else { &fork.headers };
        // Often what is asked for: from genesis on.
        let from = if script.number() & 3 != 0 { 0 } else { script.number() % all.len() };
        let to = (from + 1 + script.number() % 64).min(all.len());
        self.say_message(peer, &Message::Headers(all[from..to].to_vec()));
    }

    fn say_block(&mut self, peer: PeerId, script: &mut Script<'_>) {
        let (main, fork) = known();
        let made = if script.number() & 1 == 0 { main } else { fork };
        let mut block = made.block(script.number() % made.headers.len());
        if script.number().is_multiple_of(4) {
            *block.last_mut().expect("a block has bytes") ^= 1;
        }
        self.say(peer, &frame_v1(NETWORK.magic, Command::Block, &block));
    }

    /// The lowest block that is wanted, whether this peer was asked for it or not.
    fn say_wanted(&mut self, peer: PeerId) {
        let Some(want) = self.chain.wanted(1).first().copied() else { return };
        let (main, fork) = known();
        for made in [main, fork] {
            if let Some(at) = made.headers.iter().position(|header| header.hash() == want.hash) {
                self.say(peer, &frame_v1(NETWORK.magic, Command::Block, &made.block(at)));
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
                Action::Read { peer, blocks, v2 } => {
                    let blocks = ServedBlock::read(&*self.chain, &blocks, v2);
                    self.hub.served(peer, blocks, now);
                }
                Action::Close { peer } => self.peers.retain(|known| *known != peer),
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
