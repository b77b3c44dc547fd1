//! The kinds of hostile peers: what each does, and what must come of it. docs/peers.md shows the table; `hostile.rs` plays it.
//!
//! Most are after Bitcoin Core b88bffe, test/functional/p2p_*.py: what a node that takes no transactions can be done to.

use super::world::*;
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX, HeaderInfo};
use crate::sim::{BITS, Chain, INVALID, Made, headers_on, made_on, push};
use crate::time::Now;
use crate::wire::{
    AddressEntry, Command, Inventory, Message, NetAddress, PAYLOAD_BYTES_MAX, PeerAddress, Version, frame_v1, limits,
    services,
};
use primitives::{BlockHash, Hash256, Header, Target};
use std::sync::OnceLock;
use std::time::Duration;

/// Blocks of the honest chain.
pub(super) const HONEST_COUNT: usize = 60;

/// The peer is kept.
pub(super) const KEPT: &str = "";
/// Core disconnects who asks for bloom filters, which it does not offer by default.
pub(super) const BLOOM: &str = "bloom filters are not offered";

/// How a peer greets; whether it says verack then.
type Hello = fn(&mut Server, Now) -> bool;

/// A kind of peer.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// Parts of the reasons for which it may be disconnected when we connected to it, with `|` between; none where it is kept.
    pub(super) outbound: &'static str,
    /// And when it connected to us.
    pub(super) inbound: &'static str,
    /// Seconds within which the honest peer's chain is whole.
    pub(super) within_s: u64,
    /// Bytes that may wait in send queues, unfinished messages and blocks held, at most.
    pub(super) bytes_max: usize,
    /// The transports in which it makes sense: v1, v2.
    pub(super) transports: [bool; 2],
    pub(super) hello: Hello,
    pub(super) bend: fn() -> Bend,
}

pub(super) const fn row(name: &'static str, outbound: &'static str, inbound: &'static str, bend: fn() -> Bend) -> Row {
    Row { name, outbound, inbound, within_s: 5, bytes_max: 400_000, transports: [true; 2], hello: greets, bend }
}

/// A kind that is peculiar in how it greets.
pub(super) const fn hello(name: &'static str, outbound: &'static str, inbound: &'static str, hello: Hello) -> Row {
    Row { hello, ..row(name, outbound, inbound, || Box::new(|_, _, _| false)) }
}

impl Row {
    pub(super) const fn within(self, within_s: u64) -> Row {
        Row { within_s, ..self }
    }
    pub(super) const fn bytes(self, bytes_max: usize) -> Row {
        Row { bytes_max, ..self }
    }
    /// What it does with each message: to our version message it greets, unless it did before, and `said` whether it says
    /// verack; the rest is what is peculiar to it.
    pub(super) fn answers(self, said: Option<bool>) -> Bend {
        let (mut bend, mut is_greeted) = ((self.bend)(), false);
        Box::new(move |server, message, now| {
            if !matches!(message, Message::Version(_)) || std::mem::replace(&mut is_greeted, true) {
                return bend(server, message, now);
            }
            if said.unwrap_or_else(|| (self.hello)(server, now)) {
                server.send(&Message::Verack);
            }
            true
        })
    }
    /// With bytes of v1: in v2 whether and when they fail to decrypt is a matter of chance.
    pub(super) const fn v1(self) -> Row {
        Row { transports: [true, false], ..self }
    }
    const fn v2(self) -> Row {
        Row { transports: [false, true], ..self }
    }
}

fn greets(server: &mut Server, now: Now) -> bool {
    server.greet(now);
    true
}

/// Greets with another version message.
pub(super) fn version(server: &mut Server, now: Now, change: impl Fn(&mut Version)) {
    let mut version = server.version(now);
    change(&mut version);
    server.send(&Message::Version(version));
}

/// Does something when it is asked for blocks the first time, and answers as the rest does.
fn once_asked_for_blocks(act: impl Fn(&mut Server, &[Inventory]) + 'static) -> Bend {
    let mut done = false;
    Box::new(move |server, message, _| {
        if let Message::GetData(list) = message
            && !std::mem::replace(&mut done, true)
        {
            act(server, list);
            return true;
        }
        false
    })
}

/// Puts a whole block on the wire, of which `part` is sent and no more.
fn cut_block(part: usize) -> Bend {
    once_asked_for_blocks(move |server, list| {
        let block = server.chain.block(&list[0].block().unwrap(), true).unwrap();
        server.transport.send(Command::Block, &block);
        server.left = Some(part);
    })
}

/// A payload that counts this many entries and has them.
pub(super) fn counted(count: usize, entry: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    primitives::encode::put_compact_size(&mut payload, count as u64);
    payload.extend(entry.repeat(count));
    payload
}

/// A getheaders with this many hashes.
pub(super) fn locator_of(count: usize) -> Vec<u8> {
    [&70016u32.to_le_bytes()[..], &counted(count, &[7; 32]), &[0; 32]].concat()
}

pub(super) fn genesis() -> HeaderInfo {
    Chain::new().best_header()
}

pub(super) fn honest() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made_on(&genesis(), HONEST_COUNT, 1, 2000))
}

/// Twenty blocks more than the honest chain from genesis on; the fortieth proves invalid.
fn invalid() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| {
        let mut made = made_on(&genesis(), 39, 7, 500);
        let mut at = Chain::having(&made).tip();
        at = push(&mut made, &at, [INVALID, b"40"].concat());
        for i in 0..40 {
            at = push(&mut made, &at, format!("behind {i}").into_bytes());
        }
        made
    })
}

/// A chain with more work than the honest one.
pub(super) fn longer() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made_on(&genesis(), HONEST_COUNT + 20, 9, 300))
}

/// A full message of headers.
fn full() -> &'static [Header] {
    static MADE: OnceLock<Vec<Header>> = OnceLock::new();
    MADE.get_or_init(|| headers_on(&genesis(), HEADERS_COUNT_MAX, 11))
}

/// Does something each time it is asked for headers, and answers nothing.
fn on_get_headers(act: impl Fn(&mut Server) + 'static) -> Bend {
    Box::new(move |server, message, _| {
        let is = matches!(message, Message::GetHeaders(..));
        if is {
            act(server);
        }
        is
    })
}

/// Does something when it is asked for headers the first time, and then serves as an honest peer does.
pub(super) fn once(act: impl Fn(&mut Server) + 'static) -> Bend {
    let mut done = false;
    Box::new(move |server, message, _| {
        if matches!(message, Message::GetHeaders(..)) && !std::mem::replace(&mut done, true) {
            act(server);
        }
        false
    })
}

/// Leaves one kind of message without an answer.
fn swallows(command: Command) -> Bend {
    Box::new(move |_, message, _| message.encode().0 == command)
}

/// Shows the headers of a chain, and gives its blocks below `given`.
pub(super) fn shows(made: &'static Made, given: usize) -> Bend {
    Box::new(move |server, message, _| {
        match message {
            Message::GetHeaders(locator, _) => {
                let known = |hash: &BlockHash| made.headers.iter().position(|header| header.hash() == *hash);
                let from = locator.iter().find_map(known).map_or(0, |place| place + 1);
                server.send(&Message::Headers(made.headers[from..].to_vec()));
            }
            Message::GetData(list) => {
                for hash in list.iter().filter_map(Inventory::block) {
                    let found = made.headers.iter().position(|header| header.hash() == hash);
                    match found.filter(|place| *place < given) {
                        Some(place) => server.transport.send(Command::Block, &made.block(place)),
                        None => server.send(&Message::NotFound(vec![Inventory::WitnessBlock(hash)])),
                    }
                }
            }
            _ => return false,
        }
        true
    })
}

/// Changes every block that it gives.
pub(super) fn gives(change: fn(&mut Vec<u8>)) -> Bend {
    Box::new(move |server, message, _| {
        let Message::GetData(list) = message else { return false };
        for hash in list.iter().filter_map(Inventory::block) {
            if let Some(mut block) = server.chain.block(&hash, true) {
                change(&mut block);
                server.transport.send(Command::Block, &block);
            }
        }
        true
    })
}

/// A header on the honest chain's last, with these bits, that meets its target or does not.
fn header_on_tip(bits: u32, time: u32, is_met: bool) -> Header {
    header_at(bits, honest().headers.last().unwrap().time() + time, is_met)
}

fn header_at(bits: u32, time: u32, is_met: bool) -> Header {
    let last = honest().headers.last().unwrap();
    let target = Target::from_compact(bits).unwrap();
    let made = (0..).map(|nonce| Header::new(4, last.hash(), Hash256::ZERO, time, bits, nonce));
    made.into_iter().find(|header| target.is_met_by(&header.hash()) == is_met).unwrap()
}

fn with_tip(header: Header) -> Bend {
    on_get_headers(move |server| server.send(&Message::Headers([&honest().headers[..], &[header]].concat())))
}

fn unknown_blocks(count: usize) -> Vec<Inventory> {
    (0..count).map(|i| Inventory::WitnessBlock(BlockHash::from_bytes([i as u8 | 1; 32]))).collect()
}

fn unknown_transactions(count: usize) -> Vec<Inventory> {
    (0..count).map(|i| Inventory::Other { kind: 1, hash: Hash256([i as u8 | 1; 32]) }).collect()
}

fn addresses() -> Vec<AddressEntry> {
    let address = |i: u32| NetAddress::V4([60, (i >> 8) as u8, i as u8, 1]);
    let peer = |i: u32| PeerAddress { address: address(i), port: 8333 };
    (0..1000).map(|i| AddressEntry { peer: peer(i), services: services::NETWORK, time: START_UNIX as u32 }).collect()
}

fn stray_blocks() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made_on(&genesis(), 120, 55, 10))
}

/// A chain with the work of the honest one.
fn equal() -> &'static Made {
    static MADE: OnceLock<Made> = OnceLock::new();
    MADE.get_or_init(|| made_on(&genesis(), HONEST_COUNT, 13, 300))
}

/// The first blocks of the honest chain.
fn prefix(count: usize) -> Made {
    Made { headers: honest().headers[..count].to_vec(), bodies: honest().bodies[..count].to_vec() }
}

/// Like [`on_get_headers`], with a memory.
pub(super) fn on_get_headers_mut(mut act: impl FnMut(&mut Server) + 'static) -> Bend {
    Box::new(move |server, message, _| {
        let is = matches!(message, Message::GetHeaders(..));
        if is {
            act(server);
        }
        is
    })
}

pub(super) const ROWS: &[Row] = &[
    // The handshake.
    hello("never answers the version message", "handshake not done", "handshake not done", |_, _| false),
    hello("never says verack", "handshake not done", "handshake not done", |server, now| {
        server.greet(now);
        false
    }),
    hello(
        "has an obsolete protocol version",
        "obsolete protocol version",
        "obsolete protocol version",
        |server, now| {
            version(server, now, |version| version.version = 31_799);
            true
        },
    ),
    hello("disconnects immediately", "closed by the peer", "closed by the peer", |server, _| {
        server.closed = true;
        false
    }),
    hello("sends its handshake at a byte a second", "handshake not done", "handshake not done", |server, now| {
        server.drip = Some(Duration::from_secs(1));
        server.greet(now);
        true
    }),
    hello("sends a truncated version message", "version message", "version message", |server, _| {
        server.transport.send(Command::Version, &[0x80; 30]);
        true
    }),
    hello("has a user agent of 300 bytes", "version message", "version message", |server, now| {
        version(server, now, |version| version.agent = vec![b'a'; 300]);
        true
    }),
    hello("sends its version twice", KEPT, KEPT, |server, now| {
        version(server, now, |_| ());
        version(server, now, |version| version.services = 0);
        true
    }),
    hello("sends messages before its version", KEPT, KEPT, |server, now| {
        server.send(&Message::Verack);
        server.send(&Message::Ping(Some(1)));
        server.send(&Message::Headers(longer().headers.clone()));
        server.send(&Message::GetData(unknown_blocks(50)));
        server.transport.send(Command::Block, &longer().block(0));
        server.send(&Message::GetAddr);
        server.greet(now);
        true
    }),
    hello("sends messages before verack", KEPT, KEPT, |server, now| {
        server.greet(now);
        server.send(&Message::Headers(stray_blocks().headers.clone()));
        server.transport.send(Command::Block, &longer().block(0));
        server.send(&Message::GetHeaders(vec![genesis().hash], BlockHash::ZERO));
        true
    }),
    hello("sends an impossible time and height", KEPT, KEPT, |server, now| {
        version(server, now, |version| (version.time, version.height) = (i64::MIN, i32::MIN));
        true
    }),
    hello("has a protocol version of 2012", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.version = 60_002);
        true
    }),
    hello("offers no service", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.services = 0);
        true
    }),
    hello("offers no witnesses", KEPT, KEPT, |server, now| {
        version(server, now, |version| version.services = services::NETWORK);
        true
    }),
    // Answers.
    row("does not answer getheaders", KEPT, KEPT, || swallows(Command::GetHeaders)).within(8),
    row("does not answer getdata", KEPT, KEPT, || swallows(Command::GetData)),
    row("answers every getdata with notfound", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            server.send(&Message::NotFound(list.clone()));
            true
        })
    }),
    row("always answers getheaders with no headers", KEPT, KEPT, || {
        on_get_headers(|server| server.send(&Message::Headers(Vec::new())))
    }),
    row("disconnects at a request for headers", "closed by the peer", "closed by the peer", || {
        on_get_headers(|server| server.closed = true)
    }),
    row("disconnects at a request for blocks", "closed by the peer", "closed by the peer", || {
        Box::new(|server, message, _| {
            server.closed |= matches!(message, Message::GetData(_));
            server.closed
        })
    }),
    row("sends blocks with a wrong body", "body of block", "body of block", || {
        gives(|block| *block.last_mut().unwrap() ^= 1)
    }),
    row("sends truncated blocks", "body of block", "body of block", || gives(|block| block.truncate(100))),
    row("sends blocks that do not deserialize", "do not deserialize", "do not deserialize", || {
        gives(|block| block.truncate(50))
    }),
    row("sends blocks with trailing bytes", "body of block", "body of block", || gives(|block| block.extend([0; 9]))),
    row("sends each block twice", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            for hash in list.iter().chain(list).filter_map(Inventory::block) {
                if let Some(block) = server.chain.block(&hash, true) {
                    server.transport.send(Command::Block, &block);
                }
            }
            true
        })
    }),
    row("sends blocks in reverse order", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            for hash in list.iter().rev().filter_map(Inventory::block) {
                if let Some(block) = server.chain.block(&hash, true) {
                    server.transport.send(Command::Block, &block);
                }
            }
            true
        })
    }),
    row("has more work, with an invalid block", "refused block|invalid block", "refused block|invalid block", || {
        shows(invalid(), usize::MAX)
    }),
    row("has more work, but sends none of its blocks", KEPT, KEPT, || shows(longer(), 0)),
    row("has more work, but sends only ten blocks", KEPT, KEPT, || shows(longer(), 10)),
    row("has more work, but does not send the last block", KEPT, KEPT, || shows(longer(), HONEST_COUNT - 1)),
    row("has a header without proof of work", "without proof of work", "without proof of work", || {
        with_tip(header_on_tip(BITS, 1, false))
    }),
    row("has a header of the wrong difficulty", "bad-diffbits", "bad-diffbits", || {
        with_tip(header_on_tip(BITS - 1, 1, true))
    }),
    row("has a header that is easier than allowed", "without proof of work", "without proof of work", || {
        let last = honest().headers.last().unwrap();
        with_tip(Header::new(4, last.hash(), Hash256::ZERO, last.time() + 1, 0x2100_ffff, 0))
    }),
    row("has a header years ahead of the clock", KEPT, KEPT, || with_tip(header_on_tip(BITS, 9 * 365 * 86_400, true))),
    row("sends headers with a gap", "not one chain", "not one chain", || {
        on_get_headers(|server| {
            let all = &honest().headers;
            server.send(&Message::Headers([&all[..5], &all[6..]].concat()));
        })
    }),
    row("sends headers in reverse order", "not one chain", "not one chain", || {
        on_get_headers(|server| server.send(&Message::Headers(honest().headers.iter().rev().copied().collect())))
    }),
    row("repeats the same 2,000 headers", "repeats headers", "repeats headers", || {
        on_get_headers(|server| server.send(&Message::Headers(full().to_vec())))
    }),
    row("sends headers that connect to nothing", "unconnecting", "unconnecting", || {
        on_get_headers(|server| {
            for header in &stray_blocks().headers[40..100] {
                server.send(&Message::Headers(vec![*header]));
            }
        })
    }),
    row("sends blocks that connect to nothing", "unrequested", "unrequested", || {
        on_get_headers(|server| {
            (40..80).for_each(|place| server.transport.send(Command::Block, &stray_blocks().block(place)));
        })
    }),
    row("sends its blocks before their headers", KEPT, KEPT, || {
        once(|server| (0..HONEST_COUNT).for_each(|place| server.transport.send(Command::Block, &honest().block(place))))
    }),
    row("announces unknown blocks indefinitely", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            if matches!(message, Message::GetHeaders(..) | Message::Ping(_)) {
                server.send(&Message::Inv(unknown_blocks(500)));
            }
            false
        })
    }),
    row("announces 50,000 transactions", KEPT, KEPT, || {
        once(|server| server.send(&Message::Inv(unknown_transactions(50_000))))
    }),
    row("asks for 50,000 transactions", KEPT, KEPT, || {
        once(|server| server.send(&Message::GetData(unknown_transactions(50_000))))
    })
    .bytes(2_500_000),
    row("asks for 5,000 unknown blocks", KEPT, KEPT, || {
        once(|server| server.send(&Message::GetData(unknown_blocks(5000))))
    }),
    row("sends notfound for 50,000 blocks", KEPT, KEPT, || {
        once(|server| server.send(&Message::NotFound(unknown_blocks(50_000))))
    }),
    row("asks for headers 500 times", KEPT, KEPT, || {
        once(|server| {
            (0..500).for_each(|_| server.send(&Message::GetHeaders(vec![genesis().hash], BlockHash::ZERO)));
        })
    }),
    row("pings 10,000 times", KEPT, KEPT, || {
        once(|server| (0..10_000).for_each(|nonce| server.send(&Message::Ping(Some(nonce)))))
    }),
    row("answers pings that were not sent", KEPT, KEPT, || {
        once(|server| (0..1000).for_each(|nonce| server.send(&Message::Pong(nonce))))
    }),
    row("sends 100,000 addresses", KEPT, KEPT, || {
        once(|server| (0..100).for_each(|_| server.send(&Message::AddrV2(addresses()))))
    }),
    row("asks for addresses 1,000 times", KEPT, KEPT, || {
        once(|server| (0..1000).for_each(|_| server.send(&Message::GetAddr)))
    }),
    row("sends verack repeatedly", KEPT, KEPT, || once(|server| (0..1000).for_each(|_| server.send(&Message::Verack)))),
    row("sends sendaddrv2 after verack", "out of turn", "out of turn", || {
        once(|server| server.send(&Message::SendAddrV2))
    }),
    row("sends bytes that are not a message", "misbehaving", "misbehaving", || {
        once(|server| server.raw(vec![0x5a; 4000]))
    })
    .v1(),
    row("announces a message of 4 GB", "misbehaving", "misbehaving", || {
        once(|server| {
            let mut frame = frame_v1(NETWORK.magic, Command::Headers, &[]);
            frame[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
            server.raw(frame);
        })
    })
    .v1(),
    row("counts more headers than it sends", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &[0xfd, 0xd0, 7, 1, 2, 3]))
    }),
    row("counts 4 billion headers", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &[0xfe, 0xff, 0xff, 0xff, 0xff]))
    }),
    row("sends half of a message, then nothing", KEPT, KEPT, || {
        on_get_headers(|server| {
            let frame = frame_v1(NETWORK.magic, Command::Headers, &[0; 200]);
            if !server.transport.is_v2() {
                server.raw(frame[..100].to_vec());
            }
        })
    })
    .within(8),
    // Messages.
    row("sends a message with a wrong checksum", "wrong checksum", "wrong checksum", || {
        once(|server| {
            let mut frame = frame_v1(NETWORK.magic, Command::Inv, &[0]);
            frame[20] ^= 1;
            server.raw(frame);
        })
    })
    .v1(),
    row("sends a command that is not text", "not text", "not text", || {
        once(|server| {
            let mut frame = frame_v1(NETWORK.magic, Command::Ping, &[0; 8]);
            frame[6] = 0xff;
            server.raw(frame);
        })
    })
    .v1(),
    row("sends a packet with a changed bit", "does not decrypt", "does not decrypt", || {
        once(|server| server.transport.push_packet(&[18, 1, 2, 3, 4, 5, 6, 7, 8], false, true))
    })
    .v2(),
    row("sends an empty packet", "without a message type", "without a message type", || {
        once(|server| server.transport.push_packet(&[], false, false))
    })
    .v2(),
    row("sends 10,000 decoy packets", KEPT, KEPT, || {
        once(|server| (0..10_000).for_each(|_| server.transport.push_packet(&[9; 300], true, false)))
    })
    .v2(),
    row("sends twenty unknown messages of 4 MB", KEPT, KEPT, || {
        once(|server| (0..20).for_each(|_| server.say("junk", &vec![5; PAYLOAD_BYTES_MAX - 13])))
    })
    .bytes(5_000_000),
    row("asks with a locator of 102 hashes", "getheaders message", "getheaders message", || {
        once(|server| server.transport.send(Command::GetHeaders, &locator_of(limits::LOCATOR_COUNT_MAX + 1)))
    }),
    row("asks with a locator of 101 hashes 1,000 times", KEPT, KEPT, || {
        once(|server| {
            let payload = locator_of(limits::LOCATOR_COUNT_MAX);
            (0..1000).for_each(|_| server.transport.send(Command::GetHeaders, &payload));
        })
    }),
    row("announces 50,001 blocks", "inv message", "inv message", || {
        once(|server| server.transport.send(Command::Inv, &counted(limits::INVENTORY_COUNT_MAX + 1, &[2; 36])))
    })
    .bytes(2_300_000),
    row("asks for 50,001 blocks", "getdata message", "getdata message", || {
        once(|server| server.transport.send(Command::GetData, &counted(limits::INVENTORY_COUNT_MAX + 1, &[2; 36])))
    })
    .bytes(2_300_000),
    row("sends 2,001 headers", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &counted(HEADERS_COUNT_MAX + 1, &[0; 81])))
    }),
    row("sends 1,001 addresses", "addr message", "addr message", || {
        once(|server| server.transport.send(Command::Addr, &counted(limits::ADDRESS_COUNT_MAX + 1, &[1; 30])))
    }),
    row("sends an address of a wrong length", KEPT, KEPT, || {
        once(|server| server.transport.send(Command::AddrV2, &[1, 0, 0, 0, 0, 9, 1, 3, 1, 2, 3, 0, 1]))
    }),
    row("sends addresses of unknown networks", KEPT, KEPT, || {
        once(|server| server.transport.send(Command::AddrV2, &counted(1000, &[0, 0, 0, 0, 9, 99, 2, 3, 1, 0, 1])))
    }),
    row("pings without a nonce, answers with one byte", KEPT, KEPT, || {
        once(|server| {
            server.transport.send(Command::Ping, &[]);
            server.transport.send(Command::Pong, &[1]);
        })
    }),
    row("sends messages of services not offered", BLOOM, BLOOM, || {
        once(|server| {
            for command in ["wtxidrelay", "sendtxrcncl", "filterload", "mempool", "getblocktxn", "feature"] {
                server.say(command, &[3; 40]);
            }
        })
    }),
    row("sends unrequested compact blocks", KEPT, KEPT, || {
        once(|server| {
            server.say("sendcmpct", &[9; 9]);
            for place in 0..40 {
                let header = &longer().headers[place].0[..];
                server.say("cmpctblock", &[header, &[0; 9]].concat());
                server.say("blocktxn", &[header, &[0]].concat());
            }
        })
    }),
    row("asks for blocks by getblocks 500 times", KEPT, KEPT, || {
        once(|server| (0..500).for_each(|_| server.say("getblocks", &locator_of(2))))
    }),
    row("asks for filtered blocks", BLOOM, BLOOM, || {
        once(|server| server.send(&Message::GetData(vec![Inventory::Other { kind: 3, hash: Hash256([4; 32]) }; 100])))
    }),
    row("asks for the same block 5,000 times", KEPT, KEPT, || {
        once(|server| server.send(&Message::GetData(vec![Inventory::WitnessBlock(genesis().hash); 5000])))
    }),
    row("asks for 50,000 transactions ten times, but reads nothing", KEPT, KEPT, || {
        once(|server| {
            (0..10).for_each(|_| server.send(&Message::GetData(unknown_transactions(50_000))));
            server.reads = false;
        })
    })
    .within(8)
    .bytes(4_500_000),
    row("asks for headers 20,000 times, but reads nothing", KEPT, KEPT, || {
        once(|server| {
            (0..20_000).for_each(|_| server.send(&Message::GetHeaders(vec![genesis().hash], BlockHash::ZERO)));
            server.reads = false;
        })
    })
    .within(8)
    .bytes(1_600_000),
    // Headers.
    row("sends empty headers 10,000 times", KEPT, KEPT, || {
        on_get_headers(|server| (0..10_000).for_each(|_| server.send(&Message::Headers(Vec::new()))))
    }),
    row("sends headers with transaction counts", KEPT, KEPT, || {
        on_get_headers(|server| {
            let all = honest().headers.iter().flat_map(|header| [&header.0[..], &[0xfd, 0xff, 0xff]].concat());
            let payload = [vec![HONEST_COUNT as u8], all.collect()].concat();
            server.transport.send(Command::Headers, &payload);
        })
    }),
    row("sends its headers one by one", KEPT, KEPT, || {
        on_get_headers(|server| honest().headers.iter().for_each(|h| server.send(&Message::Headers(vec![*h]))))
    }),
    row("sends its headers one by one, the last first", "unconnecting", "unconnecting", || {
        on_get_headers(|server| honest().headers.iter().rev().for_each(|h| server.send(&Message::Headers(vec![*h]))))
    }),
    row("sends a header at a byte a second", KEPT, KEPT, || {
        on_get_headers(|server| {
            server.drip = Some(Duration::from_secs(1));
            server.send(&Message::Headers(longer().headers.clone()));
        })
    })
    .within(8),
    row("has a header older than its parent", "time-too-old", "time-too-old", || {
        with_tip(header_at(BITS, honest().headers.last().unwrap().time() - 1_000_000, true))
    }),
    row("answers getheaders with an inv", KEPT, KEPT, || {
        on_get_headers(|server| {
            let all = honest().headers.iter().map(|header| Inventory::Block(header.hash()));
            server.send(&Message::Inv(all.collect()));
        })
    })
    .within(8),
    row("announces the honest chain, but sends no blocks", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            if matches!(message, Message::Ping(_)) {
                server.send(&Message::Inv(honest().headers.iter().map(|h| Inventory::Block(h.hash())).collect()));
            }
            matches!(message, Message::GetHeaders(..) | Message::GetData(_))
        })
    })
    .within(8),
    row("has a fork of the same work", KEPT, KEPT, || shows(equal(), usize::MAX)),
    row("sends another chain at each request", KEPT, KEPT, || {
        let mut salt = 1000;
        on_get_headers_mut(move |server| {
            salt += 1;
            server.send(&Message::Headers(headers_on(&genesis(), HONEST_COUNT + 5, salt)));
        })
    }),
    row("forks off at each height", KEPT, KEPT, || {
        on_get_headers(|server| {
            let at = |height: usize| Chain::having(&prefix(height)).tip();
            server.send(&Message::Headers(honest().headers.clone()));
            (1..HONEST_COUNT).for_each(|h| server.send(&Message::Headers(headers_on(&at(h), 3, 700 + h as u64))));
        })
    }),
    // Blocks.
    row("sends other blocks than requested", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            list.iter().for_each(|_| server.transport.send(Command::Block, &honest().block(HONEST_COUNT - 1)));
            true
        })
    }),
    row("sends headers as blocks", "body of block", "body of block", || gives(|block| block.truncate(80))),
    row("sends blocks of 4 MB of zeros", "body of block", "body of block", || {
        gives(|block| block.resize(PAYLOAD_BYTES_MAX - 1000, 0))
    })
    .bytes(70_000_000),
    row("sends all blocks repeatedly, unrequested", KEPT, KEPT, || {
        on_get_headers(|server| {
            server.send(&Message::Headers(honest().headers.clone()));
            for _ in 0..20 {
                (0..HONEST_COUNT).for_each(|place| server.transport.send(Command::Block, &honest().block(place)));
            }
        })
    })
    .bytes(600_000),
    row("sends half of a block, then nothing", KEPT, KEPT, || cut_block(1000)),
    row("sends a block at a byte a second", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            if matches!(message, Message::GetData(_)) {
                server.drip = Some(Duration::from_secs(1));
            }
            false
        })
    }),
    row("disconnects within a block", "closed by the peer", "closed by the peer", || {
        let mut cut = cut_block(1000);
        Box::new(move |server, message, now| {
            server.closes_when_sent = true;
            cut(server, message, now)
        })
    }),
];
