//! Bad peers beside an honest one: the honest tip is always reached, the bad peer goes with its reason,
//! and neither memory nor time grows without bound.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX};
use crate::hub::block_download::UNASKED_COUNT_MAX;
use crate::reason::Reason;
use crate::sim::{BITS, Chain, INVALID, Made, made_on, mine, push};
use crate::wire::{
    AddressEntry, Command, FRAME_BYTES, Inventory, Message, NetAddress, PeerAddress, frame_v1, services,
};
use primitives::{BlockHash, Hash256, Header, Height};
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const BAD: &str = "1.1.1.1:18444";
const GOOD: &str = "2.2.2.2:18444";

fn genesis() -> crate::chain::HeaderInfo {
    Chain::new().best_header()
}

fn honest_chain(count: usize, body_bytes: usize) -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&genesis(), count, 1, body_bytes)))
}

/// A world with an honest peer and a place for a bad one, which is connected to first.
fn world(served: &Arc<Chain>) -> World {
    let mut world = World::new(Chain::new(), &[BAD, GOOD]);
    world.honest(GOOD, served);
    world
}

/// A bad peer that serves `served` as `bend` has it.
fn bad<'a>(world: &'a mut World, served: &Arc<Chain>, bend: impl Fn() -> Bend + 'static) -> &'a mut Place {
    let served = Arc::clone(served);
    world.place(BAD, move || Box::new(Server::bent(Arc::clone(&served), bend())))
}

#[test]
fn silent_peer_at_each_stage_does_not_stop_sync() {
    for (row, quiet, limit_s) in [
        ("from the start", Command::Version, 3),
        ("after the handshake", Command::GetHeaders, 30),
        ("when asked for blocks", Command::GetData, 30),
    ] {
        let served = honest_chain(3000, 1000);
        let mut world = world(&served);
        bad(&mut world, &served, move || Box::new(move |_, message, _| message.encode().0 == quiet));
        world.sync_to(served.tip().hash, limit_s * S);
        // Another is asked sooner than the silent one is given up.
        let left = (limit_s + 5) * S - world.time;
        assert!(world.run_until(left, |world| world.hub.progress().headers_done), "{row}");
        if row == "from the start" {
            world.run(60 * S);
            let never = Reason::NeverSpoke { time: 60 * S, has_received: false, has_sent: true };
            assert_eq!(world.reason(BAD), Some(&never));
        }
    }
}

#[test]
fn silent_connection_ends_after_twenty_minutes() {
    let served = honest_chain(10, 10);
    let mut world = world(&served);
    bad(&mut world, &served, || Box::new(|_, message, _| matches!(message, Message::Ping(_))));
    world.sync_to(served.tip().hash, 3 * S);
    world.run(1250 * S);
    let why = world.reason(BAD).unwrap().to_string();
    assert!(why.contains("1200 s"), "{why}");
    assert_eq!(world.reason(GOOD), None, "who answers pings is kept");
}

#[test]
fn slow_peer_does_not_stall_download() {
    let served = honest_chain(600, 20_000);
    let mut world = world(&served);
    world.honest(BAD, &served).rate = 5_000.0;
    world.sync_to(served.tip().hash, 30 * S);
    // 12 MB: with the slow peer alone it would take forty minutes.
    assert!(world.time < 25 * S, "{:?}", world.time);
}

#[test]
fn only_peer_is_kept_although_slow() {
    let served = honest_chain(40, 20_000);
    let mut world = World::new(Chain::new(), &[BAD]);
    world.honest(BAD, &served).rate = 8_000.0;
    world.sync_to(served.tip().hash, 200 * S);
    assert_eq!(world.gone, []);
}

#[test]
fn close_inside_a_block_has_it_asked_of_another() {
    let served = honest_chain(500, 5000);
    let mut world = world(&served);
    bad(&mut world, &served, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            let block = server.chain.block(&list[0].block().unwrap(), true).unwrap();
            let frame = frame_v1(NETWORK.magic, Command::Block, &block);
            server.raw(frame[..frame.len() / 2].to_vec());
            server.closed = true;
            true
        })
    });
    world.sync_to(served.tip().hash, 10 * S);
    assert_eq!(world.reason(BAD), Some(&Reason::Closed));
}

#[test]
fn endless_low_work_headers_do_not_stop_sync() {
    // Minimum work is 40,000 blocks; the honest chain has them. The other goes on and on, at 2,000 headers
    // a second and a half: it would be there in half a minute, and starts first.
    let served = honest_chain(40_500, 10);
    let mut world = World::new(Chain::with_minimum(40_000), &[BAD, GOOD]);
    world.honest(GOOD, &served);
    bad(&mut world, &served, || {
        let mut at = genesis();
        Box::new(move |server, message, _| {
            if !matches!(message, Message::GetHeaders(..)) {
                return matches!(message, Message::GetData(_));
            }
            let made = made_on(&at, HEADERS_COUNT_MAX, 99, 0);
            for header in &made.headers {
                at = crate::sim::child(&at, *header);
            }
            server.send(&Message::Headers(made.headers));
            true
        })
    })
    .rate = 30_000.0;
    world.sync_to(served.tip().hash, 120 * S);
    assert_eq!(world.chain.best_header().hash, served.tip().hash);
}

#[test]
fn refused_headers_disconnect_with_their_reason() {
    type Make = fn(&[Header]) -> Vec<Header>;
    let no_work: Make = |headers| {
        let target = primitives::Target::from_compact(BITS).unwrap();
        let last = headers.last().unwrap();
        let bad = (0..).map(|nonce| Header::new(4, last.hash(), Hash256::ZERO, last.time() + 1, BITS, nonce));
        let bad = bad.into_iter().find(|header| !target.is_met_by(&header.hash())).unwrap();
        [headers, &[bad]].concat()
    };
    let wrong_bits: Make = |headers| {
        let target = primitives::Target::from_compact(BITS - 1).unwrap();
        let last = headers.last().unwrap();
        let bad = (0..).map(|nonce| Header::new(4, last.hash(), Hash256::ZERO, last.time() + 1, BITS - 1, nonce));
        let bad = bad.into_iter().find(|header| target.is_met_by(&header.hash())).unwrap();
        [headers, &[bad]].concat()
    };
    let gap: Make = |headers| [&headers[..5], &headers[6..]].concat();
    let too_easy: Make = |headers| {
        let last = headers.last().unwrap();
        [headers, &[Header::new(4, last.hash(), Hash256::ZERO, last.time() + 1, 0x2100_ffff, 0)]].concat()
    };
    for (row, make, want) in [
        ("no work", no_work, "without proof of work"),
        ("an easier target than there is", too_easy, "without proof of work"),
        ("wrong bits", wrong_bits, "bad-diffbits"),
        ("a gap", gap, "not one chain"),
    ] {
        let served = honest_chain(100, 10);
        let mut world = world(&served);
        bad(&mut world, &served, move || {
            Box::new(move |server, message, _| {
                let Message::GetHeaders(locator, stop) = message else { return false };
                let headers = server.chain.headers_after(locator, stop);
                if headers.len() > 10 {
                    server.send(&Message::Headers(make(&headers)));
                }
                true
            })
        });
        world.sync_to(served.tip().hash, 30 * S);
        world.run(S);
        let reason = world.reason(BAD).unwrap_or_else(|| panic!("{row}: still there"));
        assert!(reason.is_offence() && reason.to_string().contains(want), "{row}: {reason}");
        assert_eq!(world.reason(GOOD), None);
    }
}

#[test]
fn future_header_is_accepted_when_its_time_comes() {
    let mut made = made_on(&genesis(), 20, 1, 10);
    let tip = Chain::having(&made).tip();
    // The clock stands at START_UNIX when the header comes: it may be taken three seconds later.
    let header = mine(&tip, b"late", (START_UNIX + 7200 + 3) as u32);
    push_header(&mut made, header);
    let served = Arc::new(Chain::having(&made));
    let mut world = World::new(Chain::new(), &[GOOD]);
    world.honest(GOOD, &served);
    world.sync_to(tip.hash, 2 * S);
    assert!(world.run_until(S, |world| world.hub.progress().headers_done));
    assert!(world.notes.iter().any(|note| note.contains("kept for later")), "{:?}", world.notes);
    world.sync_to(served.tip().hash, 3 * S);
    assert!(world.time >= 3 * S, "not before its time: {:?}", world.time);
    assert_eq!(world.gone, [], "no offence");
}

#[test]
fn clock_years_behind_is_reported() {
    let mut made = made_on(&genesis(), 20, 1, 10);
    let tip = Chain::having(&made).tip();
    let late = (START_UNIX + 9 * 365 * 86_400) as u32;
    push_header(&mut made, mine(&tip, b"late", late));
    let served = Arc::new(Chain::having(&made));
    let mut world = World::new(Chain::new(), &[GOOD]);
    world.honest(GOOD, &served);
    world.sync_to(tip.hash, 2 * S);
    world.run(60 * S);
    let said: Vec<_> = world.notes.iter().filter(|note| note.contains("is the clock right?")).collect();
    assert!(said.len() == 1 && said[0].contains(&late.to_string()), "{:?}", world.notes);
    assert!(said[0].contains(&START_UNIX.to_string()[..6]), "{said:?}");
    assert_eq!((world.gone.as_slice(), world.chain.tip().hash), (&[][..], tip.hash), "no offence");
}

fn push_header(made: &mut Made, header: Header) {
    made.headers.push(header);
    made.bodies.push(b"late".to_vec());
}

#[test]
fn mutated_block_disconnects_without_marking_the_header() {
    let served = honest_chain(60, 2000);
    let mut world = world(&served);
    bad(&mut world, &served, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            for entry in list {
                let mut block = server.chain.block(&entry.block().unwrap(), true).unwrap();
                *block.last_mut().unwrap() ^= 1;
                server.transport.send(Command::Block, &block);
            }
            true
        })
    });
    world.sync_to(served.tip().hash, 20 * S);
    assert!(matches!(world.reason(BAD), Some(Reason::BadBody { .. })), "{:?}", world.gone);
    assert_eq!(world.reason(GOOD), None);
    assert!(!world.chain.best_header().invalid);
}

#[test]
fn harmless_surprises_do_not_disconnect() {
    let served = honest_chain(60, 2000);
    let mut world = world(&served);
    // Each block twice, an old block that was not asked for, a transaction, an unknown message, empty headers.
    bad(&mut world, &served, || {
        Box::new(|server, message, _| {
            let Message::GetData(list) = message else { return false };
            for entry in list {
                let block = server.chain.block(&entry.block().unwrap(), true).unwrap();
                server.transport.send(Command::Block, &block);
                server.transport.send(Command::Block, &block);
            }
            let old = server.chain.ancestor(&server.chain.tip().hash, Height::new(1)).unwrap();
            let old = server.chain.block(&old, true).unwrap();
            server.transport.send(Command::Block, &old);
            server.raw(named("tx", &[7; 300]));
            server.raw(named("future", &[8; 30_000]));
            server.send(&Message::Headers(vec![]));
            server.send(&Message::Inv(vec![Inventory::Other { kind: 1, hash: Hash256([1; 32]) }; 1000]));
            true
        })
    });
    world.sync_to(served.tip().hash, 20 * S);
    assert_eq!(world.gone, []);
    assert!(world.hub.progress().blocks_dropped_count > 0);
    assert_eq!(world.blocks_count, 60, "the node sees each once");
}

/// A v1 message with any command.
fn named(command: &str, payload: &[u8]) -> Vec<u8> {
    let mut frame = frame_v1(NETWORK.magic, Command::Ping, payload);
    frame[4..16].fill(0);
    frame[4..4 + command.len()].copy_from_slice(command.as_bytes());
    frame
}

#[test]
fn block_announced_by_inv_is_fetched() {
    let served = honest_chain(20, 10);
    let mut world = World::new(Chain::new(), &[GOOD]);
    let (chain, first) = (Arc::clone(&served), served.tip().hash);
    // Announces its tip by inv whenever it is pinged, to a peer that is pinged by us every two minutes.
    world.place(GOOD, move || {
        Box::new(Server::bent(
            Arc::clone(&chain),
            Box::new(|server, message, _| {
                if let Message::Ping(_) = message {
                    let hash = server.chain.tip().hash;
                    server.send(&Message::Inv(vec![Inventory::Block(hash)]));
                }
                false
            }),
        ))
    });
    world.sync_to(first, 3 * S);
    served.extend(&made_on(&served.best_header(), 5, 2, 10));
    world.sync_to(served.tip().hash, 150 * S);
}

#[test]
fn malformed_messages_disconnect_with_their_reason() {
    let oversized = {
        let mut frame = frame_v1(NETWORK.magic, Command::Headers, &[]);
        frame[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        frame
    };
    let checksum = {
        let mut frame = frame_v1(NETWORK.magic, Command::Inv, &[0]);
        frame[FRAME_BYTES - 1] ^= 1;
        frame
    };
    let count = frame_v1(NETWORK.magic, Command::Headers, &[0xfe, 0xff, 0xff, 0xff, 1]);
    let short = frame_v1(NETWORK.magic, Command::Block, &[0; 50]);
    let locator = |command| frame_v1(NETWORK.magic, command, &super::kinds::locator_of(102));
    for (row, bytes, want) in [
        ("garbage", vec![0x5a; 4000], "another network"),
        ("gigantic length", oversized, "oversized message: 4294967295"),
        ("checksum", checksum, "wrong checksum"),
        ("gigantic count", count, ", at most 2000"),
        ("a block of 50 bytes", short, "do not deserialize"),
        ("sendaddrv2 too late", frame_v1(NETWORK.magic, Command::SendAddrV2, &[]), "out of turn"),
        ("feature too late", frame_v1(NETWORK.magic, Command::Feature, &[]), "out of turn"),
        ("a long locator of getheaders", locator(Command::GetHeaders), "locator of 102 hashes"),
        ("a long locator of getblocks", locator(Command::GetBlocks), "locator of 102 hashes"),
    ] {
        let served = honest_chain(100, 10);
        let mut world = world(&served);
        bad(&mut world, &served, move || {
            let bytes = bytes.clone();
            Box::new(move |server, message, _| {
                if !matches!(message, Message::GetHeaders(..)) {
                    return false;
                }
                server.raw(bytes.clone());
                true
            })
        });
        world.sync_to(served.tip().hash, 30 * S);
        let reason = world.reason(BAD).unwrap_or_else(|| panic!("{row}: still there"));
        // As in Core, those in the wrong order and long locators only end the connection.
        let is_offence = !(want.contains("out of turn") || want.contains("locator"));
        assert!(reason.is_offence() == is_offence && reason.to_string().contains(want), "{row}: {reason}");
    }
}

#[test]
fn garbage_from_the_first_byte_disconnects() {
    let served = honest_chain(50, 10);
    let mut world = world(&served);
    world.place(BAD, || Box::new(Mute((0..10_000u32).map(|i| (i * i) as u8).collect())));
    world.sync_to(served.tip().hash, 5 * S);
    assert!(matches!(world.reason(BAD), Some(Reason::Wire(_))));
}

#[test]
fn address_flood_is_rate_limited() {
    let served = honest_chain(20, 10);
    let mut world = world(&served);
    bad(&mut world, &served, || {
        let mut next = 0u32;
        let mut last = 0;
        Box::new(move |server, message, now| {
            // Whenever it hears from us, and that is often: the honest blocks are slow to come.
            if now.since_start.as_secs() > last || matches!(message, Message::Ping(_)) {
                last = now.since_start.as_secs();
                for _ in 0..60 {
                    let entries = (0..1000).map(|_| {
                        next += 1;
                        let [_, b, c, d] = next.to_be_bytes();
                        AddressEntry {
                            peer: PeerAddress { address: NetAddress::V4([11 + (d >> 1), b, c, d]), port: 8333 },
                            services: services::NETWORK,
                            time: START_UNIX as u32,
                        }
                    });
                    server.send(&Message::AddrV2(entries.collect()));
                }
            }
            false
        })
    });
    world.sync_to(served.tip().hash, 10 * S);
    world.run(600 * S);
    let count = world.hub.addresses.count();
    // A thousand that it was asked for, one at first, and one each ten seconds: 300,000 and more were sent.
    assert!((1..=1062).contains(&count), "{count} addresses");
    assert_eq!(world.reason(GOOD), None);
}

#[test]
fn longer_invalid_chain_gives_way_to_the_valid_one() {
    let served = honest_chain(340, 500);
    let mut made = made_on(&genesis(), 299, 7, 500);
    let at = Chain::having(&made).tip();
    let mut at = push(&mut made, &at, [INVALID, b"300"].concat());
    let refused = at.hash;
    for i in 0..100 {
        at = push(&mut made, &at, format!("behind {i}").into_bytes());
    }
    let liar = Arc::new(lying(&made));
    let mut world = World::new(Chain::new(), &[BAD, GOOD, "3.3.3.3"]);
    world.honest(GOOD, &served);
    for address in [BAD, "3.3.3.3:18444"] {
        let (liar, made) = (Arc::clone(&liar), made.clone());
        world.place(address, move || {
            let made = made.clone();
            Box::new(Server::bent(Arc::clone(&liar), Box::new(move |server, message, _| lie(&made, server, message))))
        });
    }
    world.sync_to(served.tip().hash, 30 * S);
    for address in [BAD, "3.3.3.3:18444"] {
        let first = world.gone.iter().find(|(gone, _)| gone == address).map(|(_, reason)| reason.clone());
        let named = match first {
            Some(Reason::InvalidBlock { hash, .. } | Reason::OnInvalidChain(hash)) => hash == refused,
            _ => false,
        };
        assert!(named, "{address}: {:?}", world.gone);
    }
    assert_eq!(world.reason(GOOD), None);
    assert!(world.chain.header(&refused).unwrap().invalid);
    // A person named them: they come again, and stay, though they tell of the refused chain once more.
    world.run(200 * S);
    assert_eq!(world.gone.iter().filter(|(gone, _)| gone == BAD).count(), 1, "{:?}", world.gone);
}

/// A chain for the liar, whose headers are all there.
fn lying(made: &Made) -> Chain {
    let chain = Chain::new();
    let hashes: Vec<_> = made.headers.iter().map(Header::hash).collect();
    chain.accept_headers(&made.headers, &hashes, u64::MAX / 2);
    chain
}

/// Serves blocks and headers of `made` without ever judging them.
fn lie(made: &Made, server: &mut Server, message: &Message) -> bool {
    match message {
        Message::GetHeaders(locator, _) => {
            let known = |hash: &BlockHash| made.headers.iter().position(|header| header.hash() == *hash);
            let from = locator.iter().find_map(known).map_or(0, |at| at + 1);
            server.send(&Message::Headers(made.headers[from..].to_vec()));
        }
        Message::GetData(list) => {
            for entry in list {
                if let Some(at) = made.headers.iter().position(|header| Some(header.hash()) == entry.block()) {
                    server.transport.send(Command::Block, &made.block(at));
                }
            }
        }
        _ => return false,
    }
    true
}

#[test]
fn unconnecting_floods_disconnect() {
    let served = honest_chain(20, 10);
    let strange = Arc::new(Chain::having(&made_on(&genesis(), 200, 55, 10)));
    for (row, blocks, want) in [("headers", false, Reason::HeadersUnconnected), ("blocks", true, Reason::UnaskedBlocks)]
    {
        let mut world = world(&served);
        let strange = Arc::clone(&strange);
        bad(&mut world, &served, move || {
            let strange = Arc::clone(&strange);
            Box::new(move |server, message, _| {
                if !matches!(message, Message::GetHeaders(..)) {
                    return false;
                }
                for height in 100..100 + 2 * UNASKED_COUNT_MAX.max(40) {
                    let hash = strange.ancestor(&strange.tip().hash, Height::new(height)).unwrap();
                    let header = strange.header(&hash).unwrap().header;
                    if blocks {
                        server.transport.send(Command::Block, &strange.block(&hash, true).unwrap());
                    } else {
                        server.send(&Message::Headers(vec![header]));
                    }
                }
                true
            })
        });
        world.sync_to(served.tip().hash, 30 * S);
        world.run(S);
        let first = world.gone.iter().find(|(gone, _)| gone == BAD).map(|(_, reason)| reason);
        assert_eq!(first, Some(&want), "{row}");
    }
}

#[test]
fn obsolete_version_is_refused() {
    let served = honest_chain(20, 10);
    let mut world = world(&served);
    bad(&mut world, &served, || {
        Box::new(|server, message, now| {
            let Message::Version(ours) = message else { return false };
            let old = crate::wire::Version { version: 31_799, time: now.unix as i64, ..ours.clone() };
            server.send(&Message::Version(old));
            true
        })
    });
    world.sync_to(served.tip().hash, 5 * S);
    assert_eq!(world.reason(BAD), Some(&Reason::ObsoleteVersion(31_799)));
}

#[test]
fn self_connection_is_refused() {
    // What our outbound connection says is carried to an inbound connection of the same hub.
    let config = Config { outbound: Outbound::Only(vec![BAD.into()]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    let said: std::rc::Rc<std::cell::RefCell<Vec<u8>>> = std::rc::Rc::default();
    let log = std::rc::Rc::clone(&said);
    struct Ear(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);
    impl Far for Ear {
        fn receive(&mut self, bytes: &[u8], _: crate::time::Now) {
            self.0.borrow_mut().extend_from_slice(bytes);
        }
        fn take(&mut self, _: crate::time::Now) -> Vec<u8> {
            Vec::new()
        }
    }
    world.place(BAD, move || Box::new(Ear(std::rc::Rc::clone(&log))));
    world.run(S);
    let bytes = said.borrow().clone();
    assert!(!bytes.is_empty());
    world.connect_inbound("4.4.4.4", Box::new(Mute(bytes))).unwrap();
    world.run(S);
    assert_eq!(world.reason("4.4.4.4:1"), Some(&Reason::SelfConnection));
}

/// Once connected, a peer knows the nonce of our version message: as in Core, it identifies no connection to ourselves any
/// more.
#[test]
fn nonce_that_a_peer_knows_is_no_sign_of_a_self_connection() {
    let served = honest_chain(20, 10);
    let mut world = World::new(Chain::new(), &[GOOD]);
    world.honest(GOOD, &served);
    world.sync_to(served.tip().hash, 5 * S);
    let nonce = world.hub.context.peers.values().find(|peer| peer.is_outbound()).unwrap().nonce();
    let server = Server::new(served);
    let version = crate::wire::Version { nonce, ..server.version(world.now()) };
    let hello = frame_v1(NETWORK.magic, Command::Version, &Message::Version(version).encode().1);
    world.connect_inbound("4.4.4.4", Box::new(Mute(hello))).unwrap();
    world.run(S);
    assert_eq!(world.gone, []);
}

#[test]
fn peer_that_reads_nothing_is_not_read_beyond_its_bound() {
    // It asks for blocks and never reads: what waits for it is bounded.
    let made = made_on(&genesis(), 200, 1, 100_000);
    let chain = Chain::having(&made);
    let first = chain.ancestor(&chain.tip().hash, Height::GENESIS).unwrap();
    let mut world = World::with_config(chain, Config { outbound: Outbound::Only(vec![]), ..Config::new(NETWORK) });
    let mut server = Server::bent(
        Arc::new(Chain::new()),
        Box::new(move |server, message, _| {
            if !matches!(message, Message::Verack) {
                return true;
            }
            server.send(&Message::Verack);
            server.send(&Message::GetHeaders(vec![first], BlockHash::ZERO));
            true
        }),
    );
    server.greet(world.now());
    let list: Vec<_> = made.headers.iter().map(|h| Inventory::WitnessBlock(h.hash())).collect();
    let id = world.connect_inbound("4.4.4.4", Box::new(server)).unwrap();
    world.run(S);
    world.hub.serving.on_get_data(id, list);
    // Without the simulated socket nothing is taken from here on.
    let mut waits_max = 0;
    for _ in 0..300 {
        let now = world.now();
        world.hub.tick(now);
        world.act();
        waits_max = waits_max.max(world.hub.peer(id).unwrap().transport.out_bytes());
    }
    // One answer, and the one that was read while it was queued.
    assert!(waits_max > 1_900_000 && waits_max < 2_200_000, "{waits_max} bytes wait");
    assert!(!world.hub.may_read(id), "and nothing more is taken from it");
}
