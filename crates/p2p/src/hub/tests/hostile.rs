//! Hostile peers of every kind beside an honest one: inbound and outbound, v1 and v2. What must come of each is in its row;
//! docs/peers.md shows the table.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX, HeaderInfo};
use crate::rng::Rng;
use crate::sim::{BITS, Chain, INVALID, Made, headers_on, made_on, push};
use crate::transport::Transport;
use crate::wire::{AddressEntry, Command, Inventory, Message, NetAddress, PeerAddress, Version, frame_v1, services};
use primitives::{BlockHash, Hash256, Header, Target};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const BAD: &str = "1.1.1.1:18444";
const GOOD: &str = "2.2.2.2:18444";
/// Blocks of the honest chain.
const HONEST_COUNT: usize = 60;
/// Within this time the honest peer's chain must be connected, whatever the other does.
const HONEST_LIMIT: Duration = Duration::from_secs(30);
/// What may wait in all send queues.
const QUEUED_BYTES_MAX: usize = 2_500_000;

/// Rows with bytes of v1: in v2 whether and when they fail to decrypt is a matter of chance.
const RAW: [&str; 2] = ["sends bytes that are no message", "announces a message of 4 GB"];

/// The peer is kept.
const KEPT: &str = "";

/// A kind of peer: its name, why it is disconnected when we connected to it, and when it connected to us.
struct Row(&'static str, &'static str, &'static str, fn() -> Bend);

fn genesis() -> HeaderInfo {
    Chain::new().best_header()
}

fn honest() -> &'static Made {
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
fn longer() -> &'static Made {
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
fn once(act: impl Fn(&mut Server) + 'static) -> Bend {
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
fn shows(made: &'static Made, given: usize) -> Bend {
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
fn gives(change: fn(&mut Vec<u8>)) -> Bend {
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
    let last = honest().headers.last().unwrap();
    let target = Target::from_compact(bits).unwrap();
    let made = (0..).map(|nonce| Header::new(4, last.hash(), Hash256::ZERO, last.time() + time, bits, nonce));
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

const ROWS: &[Row] = &[
    Row("never answers the version message", "handshake not done", "handshake not done", || swallows(Command::Version)),
    Row("never says verack", "handshake not done", "handshake not done", || {
        Box::new(|server, message, now| {
            if matches!(message, Message::Version(_)) && !server.ready {
                server.greet(now);
                return true;
            }
            false
        })
    }),
    Row("speaks an obsolete version", "obsolete protocol version", "handshake not done", || {
        Box::new(|server, message, now| {
            let Message::Version(ours) = message else { return false };
            server.send(&Message::Version(Version { version: 31_799, time: now.unix as i64, ..ours.clone() }));
            true
        })
    }),
    Row("does not answer getheaders", KEPT, KEPT, || swallows(Command::GetHeaders)),
    Row("does not answer getdata", KEPT, KEPT, || swallows(Command::GetData)),
    Row("answers every getdata with notfound", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            server.send(&Message::NotFound(list.clone()));
            true
        })
    }),
    Row("answers getheaders with none, always", KEPT, KEPT, || {
        on_get_headers(|server| server.send(&Message::Headers(Vec::new())))
    }),
    Row("closes when it is asked for headers", "closed by the peer", "closed by the peer", || {
        on_get_headers(|server| server.closed = true)
    }),
    Row("closes when it is asked for blocks", "closed by the peer", "closed by the peer", || {
        Box::new(|server, message, _| {
            server.closed |= matches!(message, Message::GetData(_));
            server.closed
        })
    }),
    Row("gives blocks with another body", "body of block", "body of block", || {
        gives(|block| *block.last_mut().unwrap() ^= 1)
    }),
    Row("gives blocks cut short", "body of block", "body of block", || gives(|block| block.truncate(100))),
    Row("gives blocks that are no blocks", "do not deserialize", "do not deserialize", || {
        gives(|block| block.truncate(50))
    }),
    Row("gives blocks with bytes behind them", "body of block", "body of block", || {
        gives(|block| block.extend([0; 9]))
    }),
    Row("gives each block twice", KEPT, KEPT, || {
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
    Row("gives blocks in reverse order", KEPT, KEPT, || {
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
    Row(
        "has more work, and a block in it is invalid",
        "refused block|invalid block",
        "refused block|invalid block",
        || shows(invalid(), usize::MAX),
    ),
    Row("has more work, and gives no block of it", KEPT, KEPT, || shows(longer(), 0)),
    Row("has more work, and gives the first ten blocks", KEPT, KEPT, || shows(longer(), 10)),
    Row("has more work, and gives all but the last", KEPT, KEPT, || shows(longer(), HONEST_COUNT - 1)),
    Row("has a header without proof of work", "without proof of work", "without proof of work", || {
        with_tip(header_on_tip(BITS, 1, false))
    }),
    Row("has a header of the wrong difficulty", "bad-diffbits", "bad-diffbits", || {
        with_tip(header_on_tip(BITS - 1, 1, true))
    }),
    Row("has a header that is easier than allowed", "without proof of work", "without proof of work", || {
        let last = honest().headers.last().unwrap();
        with_tip(Header::new(4, last.hash(), Hash256::ZERO, last.time() + 1, 0x2100_ffff, 0))
    }),
    Row("has a header years ahead of the clock", KEPT, KEPT, || with_tip(header_on_tip(BITS, 9 * 365 * 86_400, true))),
    Row("sends headers with a gap", "not one chain", "not one chain", || {
        on_get_headers(|server| {
            let all = &honest().headers;
            server.send(&Message::Headers([&all[..5], &all[6..]].concat()));
        })
    }),
    Row("sends headers in reverse order", "not one chain", "not one chain", || {
        on_get_headers(|server| server.send(&Message::Headers(honest().headers.iter().rev().copied().collect())))
    }),
    Row("repeats the same 2,000 headers", "repeats headers", "repeats headers", || {
        on_get_headers(|server| server.send(&Message::Headers(full().to_vec())))
    }),
    Row("sends headers that connect to nothing", "unconnecting", "unconnecting", || {
        on_get_headers(|server| {
            for header in &stray_blocks().headers[40..100] {
                server.send(&Message::Headers(vec![*header]));
            }
        })
    }),
    Row("sends blocks that connect to nothing", "unrequested", "unrequested", || {
        on_get_headers(|server| {
            (40..80).for_each(|place| server.transport.send(Command::Block, &stray_blocks().block(place)));
        })
    }),
    Row("sends its blocks before their headers", "unrequested", "unrequested", || {
        once(|server| (0..HONEST_COUNT).for_each(|place| server.transport.send(Command::Block, &honest().block(place))))
    }),
    Row("announces unknown blocks without end", KEPT, KEPT, || {
        Box::new(|server, message, _| {
            if matches!(message, Message::GetHeaders(..) | Message::Ping(_)) {
                server.send(&Message::Inv(unknown_blocks(500)));
            }
            false
        })
    }),
    Row("announces 50,000 transactions", KEPT, KEPT, || {
        once(|server| server.send(&Message::Inv(unknown_transactions(50_000))))
    }),
    Row("asks for 50,000 transactions", KEPT, KEPT, || {
        once(|server| server.send(&Message::GetData(unknown_transactions(50_000))))
    }),
    Row("asks for 5,000 unknown blocks", KEPT, KEPT, || {
        once(|server| server.send(&Message::GetData(unknown_blocks(5000))))
    }),
    Row("says that it lacks 50,000 blocks", KEPT, KEPT, || {
        once(|server| server.send(&Message::NotFound(unknown_blocks(50_000))))
    }),
    Row("asks for headers 500 times", KEPT, KEPT, || {
        once(|server| {
            (0..500).for_each(|_| server.send(&Message::GetHeaders(vec![genesis().hash], BlockHash::ZERO)));
        })
    }),
    Row("pings 10,000 times", KEPT, KEPT, || {
        once(|server| (0..10_000).for_each(|nonce| server.send(&Message::Ping(Some(nonce)))))
    }),
    Row("answers pings that were not sent", KEPT, KEPT, || {
        once(|server| (0..1000).for_each(|nonce| server.send(&Message::Pong(nonce))))
    }),
    Row("sends 100,000 addresses", KEPT, KEPT, || {
        once(|server| (0..100).for_each(|_| server.send(&Message::AddrV2(addresses()))))
    }),
    Row("asks for addresses 1,000 times", KEPT, KEPT, || {
        once(|server| (0..1000).for_each(|_| server.send(&Message::GetAddr)))
    }),
    Row("says verack again and again", KEPT, KEPT, || {
        once(|server| (0..1000).for_each(|_| server.send(&Message::Verack)))
    }),
    Row("says sendaddrv2 after verack", "out of turn", "out of turn", || {
        once(|server| server.send(&Message::SendAddrV2))
    }),
    Row(RAW[0], "misbehaving", "misbehaving", || once(|server| server.raw(vec![0x5a; 4000]))),
    Row(RAW[1], "misbehaving", "misbehaving", || {
        once(|server| {
            let mut frame = frame_v1(NETWORK.magic, Command::Headers, &[]);
            frame[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
            server.raw(frame);
        })
    }),
    Row("counts more headers than it sends", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &[0xfd, 0xd0, 7, 1, 2, 3]))
    }),
    Row("counts 4 billion headers", "headers message", "headers message", || {
        once(|server| server.transport.send(Command::Headers, &[0xfe, 0xff, 0xff, 0xff, 0xff]))
    }),
    Row("sends half of a message and no more", KEPT, KEPT, || {
        on_get_headers(|server| {
            let frame = frame_v1(NETWORK.magic, Command::Headers, &[0; 200]);
            if !server.transport.is_v2() {
                server.raw(frame[..100].to_vec());
            }
        })
    }),
    Row("offers no witnesses", KEPT, KEPT, || {
        Box::new(|server, _, _| {
            server.services = services::NETWORK;
            false
        })
    }),
];

/// One peer of a row beside an honest one; what came of it.
fn play(row: &Row, inbound: bool, v2: bool) {
    let Row(name, out, inn, bend) = row;
    let label = format!("{name} ({}, {})", if inbound { "inbound" } else { "outbound" }, if v2 { "v2" } else { "v1" });
    let served = Arc::new(Chain::having(honest()));
    let connect = if inbound { vec![GOOD.to_owned()] } else { vec![BAD.to_owned(), GOOD.to_owned()] };
    let config = Config { outbound: Outbound::Only(connect), v2transport: v2, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    let responder = move || {
        if v2 { Transport::responder(NETWORK.magic, &mut Rng::Seeded(5)) } else { Transport::v1(NETWORK.magic) }
    };
    let chain = Arc::clone(&served);
    world.place(GOOD, move || {
        let mut server = Server::new(Arc::clone(&chain));
        server.transport = responder();
        Box::new(server)
    });
    let (chain, bend) = (Arc::clone(&served), *bend);
    if inbound {
        let mut server = Server::bent(chain, bend());
        if v2 {
            server.transport = Transport::v2_initiator(NETWORK.magic, &mut Rng::Seeded(6));
        }
        if *name != "never answers the version message" {
            server.greet(world.now());
        }
        world.connect_inbound("1.1.1.1:18444", Box::new(server)).unwrap();
    } else {
        world.place(BAD, move || {
            let mut server = Server::bent(Arc::clone(&chain), bend());
            server.transport = responder();
            Box::new(server)
        });
    }
    let tip = served.tip().hash;
    let is_whole = |world: &World| world.chain.header(&tip).is_some() && has_all(world, &served);
    let whole = world.run_until(HONEST_LIMIT, is_whole);
    assert!(whole, "{label}: at height {}; {:?}", world.chain.tip().height, world.gone);
    let want = if inbound { inn } else { out };
    let is_gone = |world: &World| world.gone.iter().any(|(gone, _)| gone == BAD);
    if want.is_empty() {
        world.run(5 * S);
    } else if !is_gone(&world) {
        world.run_until(62 * S, is_gone);
    }
    let first = world.gone.iter().find(|(gone, _)| gone == BAD).map(|(_, reason)| reason.to_string());
    match (&first, want.is_empty()) {
        (None, true) => {}
        (Some(reason), false) => assert!(want.split('|').any(|part| reason.contains(part)), "{label}: {reason}"),
        other => panic!("{label}: {other:?}, wanted {want:?}"),
    }
    assert_eq!(world.reason(GOOD), None, "{label}");
    assert!(world.queued_max < QUEUED_BYTES_MAX, "{label}: {} bytes waited", world.queued_max);
    assert!(!world.chain.header(&tip).unwrap().invalid, "{label}");
}

/// Whether every block of the honest chain came.
fn has_all(world: &World, served: &Chain) -> bool {
    world.chain.wanted_up_to(&served.tip().hash, 1).is_empty()
}

fn play_all(inbound: bool, v2: bool) {
    let rows = ROWS.iter().filter(|row| !(v2 && RAW.contains(&row.0)));
    let failed: Vec<_> = rows.filter(|row| std::panic::catch_unwind(|| play(row, inbound, v2)).is_err()).collect();
    let names: Vec<_> = failed.iter().map(|row| row.0).collect();
    assert!(names.is_empty(), "{names:#?}");
}

#[test]
fn outbound_v1_peers_of_each_kind_are_survived() {
    play_all(false, false);
}

#[test]
fn outbound_v2_peers_of_each_kind_are_survived() {
    play_all(false, true);
}

#[test]
fn inbound_v1_peers_of_each_kind_are_survived() {
    play_all(true, false);
}

#[test]
fn inbound_v2_peers_of_each_kind_are_survived() {
    play_all(true, true);
}

/// Names with what is expected, as docs/peers.md shows them.
#[test]
fn every_kind_of_peer_is_in_the_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.md")).unwrap();
    let missing: Vec<_> = ROWS.iter().map(|row| row.0).filter(|name| !page.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The end of a sync does not wait for a block that one peer announces and does not give, nor is it kept secret.
#[test]
fn withheld_block_does_not_hold_up_the_end_for_two_minutes() {
    for (row, bend) in [
        ("notfound", shows as fn(&'static Made, usize) -> Bend),
        ("silence", |made, given| {
            let mut shown = shows(made, given);
            Box::new(move |server, message, now| matches!(message, Message::GetData(_)) || shown(server, message, now))
        }),
    ] {
        let served = Arc::new(Chain::having(honest()));
        let mut world = World::new(Chain::new(), &[BAD, GOOD]);
        world.honest(GOOD, &served);
        world.place(BAD, move || Box::new(Server::bent(Arc::new(Chain::new()), bend(longer(), 0))));
        let tip = served.tip().hash;
        world.sync_to(tip, 10 * S);
        let is_end = |world: &World| {
            let progress = world.hub.progress();
            progress.headers_done && progress.best_claim.is_some_and(|claim| claim.hash == tip)
        };
        assert!(!is_end(&world), "{row}: it may still come");
        assert!(world.run_until(120 * S, is_end), "{row}: {:?}", world.hub.progress());
        let undelivered = world.hub.progress().undelivered;
        assert_eq!(undelivered.iter().map(|want| want.hash).collect::<Vec<_>>(), [longer().headers[0].hash()], "{row}");
        assert_eq!(world.reason(BAD), None, "{row}: a named peer is kept");
    }
}

/// Half-open connections do not keep honest peers out.
#[test]
fn half_open_connections_give_their_places_up() {
    let served = Arc::new(Chain::having(honest()));
    let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    for i in 0..300 {
        world.connect_inbound(&format!("10.0.{}.{}", i / 200, i % 200), Box::new(Mute(vec![])));
        world.run(Duration::from_millis(100));
    }
    let mut server = Server::new(Arc::clone(&served));
    server.greet(world.now());
    assert!(world.connect_inbound("10.9.9.9", Box::new(server)).is_some(), "there is a place");
    for i in 0..100 {
        world.connect_inbound(&format!("10.1.0.{i}"), Box::new(Mute(vec![])));
        world.run(Duration::from_millis(100));
    }
    assert_eq!(world.chain.tip().hash, served.tip().hash);
    assert_eq!(world.reason("10.9.9.9:1"), None);
}
