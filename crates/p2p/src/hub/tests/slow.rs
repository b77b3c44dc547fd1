//! Peers that hold things up without an offence: what is slow on purpose, what goes on for ever, what is never sent.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX};
use crate::hub::header_sync::schedule::{STREAM_INTERVAL, STREAM_TIMEOUT};
use crate::hub::outbound::NAMED_PATIENCE;
use crate::sim::{Chain, child, made_on, mine};
use crate::wire::{Inventory, Message};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const BAD: [&str; 3] = ["1.1.1.1:18444", "1.2.1.1:18444", "1.3.1.1:18444"];
const GOOD: &str = "2.2.2.2:18444";

fn chain_of(count: usize, body_bytes: usize) -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&Chain::new().best_header(), count, 1, body_bytes)))
}

/// An honest peer beside three places for others, which are connected to first.
fn world(served: &Arc<Chain>, minimum: usize) -> World {
    let mut world = World::new(Chain::with_minimum(minimum), &[BAD[0], BAD[1], BAD[2], GOOD]);
    world.honest(GOOD, served);
    world
}

/// Runs until every header of the chain is there.
fn headers_to(world: &mut World, served: &Chain, limit: Duration) {
    let want = served.best_header().hash;
    let reached = world.run_until(limit, |world| world.chain.best_header().hash == want);
    assert!(reached, "at {} after {limit:?}; {:?}", world.chain.best_header().height, world.gone);
}

/// What a stream may take at most in this simulation: 15 minutes and a millisecond a header, a header each ten minutes.
fn stream_timeout() -> Duration {
    STREAM_TIMEOUT + Duration::from_millis((START_UNIX - u64::from(crate::sim::GENESIS_TIME)) / 600)
}

#[test]
fn header_sync_moves_on_from_three_slow_peers() {
    // 2,000 headers in 108 s: each answer comes in time, and the chain in 37 minutes.
    let served = chain_of(40_500, 0);
    let mut world = world(&served, 40_000);
    for bad in BAD {
        world.honest(bad, &served).rate = 1500.0;
    }
    // The first stream goes on, and the second one, a minute younger, makes room.
    headers_to(&mut world, &served, stream_timeout() + STREAM_INTERVAL + 30 * S);
    assert!(world.time > 2 * STREAM_INTERVAL, "all three were asked first: {:?}", world.time);
    assert_eq!(world.gone, [], "slow is no offence");
}

/// No peer can send its chain in the time of a stream, because all share one line.
#[test]
fn header_sync_ends_on_a_slow_line() {
    let served = chain_of(40_500, 0);
    let mut world = world(&served, 40_000);
    for peer in BAD.into_iter().chain([GOOD]) {
        world.honest(peer, &served).rate = 1500.0;
    }
    headers_to(&mut world, &served, 6 * stream_timeout());
    assert!(world.time > stream_timeout(), "{:?}", world.time);
}

/// The clock is a year behind: headers of the chain's end are too new, and they do not connect to anything yet.
#[test]
fn low_work_chain_ahead_of_the_clock_is_no_offence() {
    let mut made = made_on(&Chain::new().best_header(), 10_000, 1, 0);
    let last = Chain::having(&made).best_header();
    let late = mine(&last, b"late", (START_UNIX + 365 * 86_400) as u32);
    made.headers.push(late);
    made.bodies.push(b"late".to_vec());
    let rest = made_on(&child(&last, late), 10_000, 2, 0);
    made.headers.extend(rest.headers);
    made.bodies.extend(rest.bodies);
    let served = Arc::new(Chain::having(&made));
    let mut world = world(&served, 15_000);
    BAD.iter().for_each(|peer| _ = world.honest(peer, &served));
    let is_doubted = |world: &World| world.hub.progress().headers_too_new;
    world.run(60 * S);
    let received = world.hub.progress().received_bytes;
    assert!(world.run_until(10 * 60 * S, is_doubted), "that is said");
    world.run(60 * 60 * S);
    assert_eq!(world.gone, [], "the clock is wrong");
    assert!(world.hub.progress().received_bytes < received + 10_000, "no chain is sent again and again");
    // The user, or the network's time, sets the clock.
    world.ahead_s = 500 * 86_400;
    headers_to(&mut world, &served, 60 * S);
    assert_eq!((is_doubted(&world), &world.gone[..]), (false, &[][..]));
}

#[test]
fn announced_block_asks_one_further_peer_for_headers() {
    let served = chain_of(40_500, 0);
    let mut world = world(&served, 40_000);
    for bad in BAD {
        world.honest(bad, &served).rate = 1500.0;
    }
    let chain = Arc::clone(&served);
    world.place(GOOD, move || {
        Box::new(Server::bent(
            Arc::clone(&chain),
            Box::new(|server, message, _| {
                // It is pinged every two minutes, and a block is found then.
                if let Message::Ping(_) = message {
                    let hash = server.chain.tip().hash;
                    server.send(&Message::Inv(vec![Inventory::Block(hash)]));
                }
                false
            }),
        ))
    });
    headers_to(&mut world, &served, 150 * S);
}

/// Makes headers for ever, and counts how many messages of them it was asked for.
fn endless(world: &mut World, address: &str, salt: u64) -> Rc<RefCell<usize>> {
    let count = Rc::new(RefCell::new(0));
    let log = Rc::clone(&count);
    world.place(address, move || {
        let (log, genesis) = (Rc::clone(&log), Chain::new().best_header());
        let (mut at, mut salt) = (genesis, salt);
        Box::new(Server::bent(
            Arc::new(Chain::new()),
            Box::new(move |server, message, _| {
                let Message::GetHeaders(locator, _) = message else { return false };
                *log.borrow_mut() += 1;
                if locator[0] == genesis.hash {
                    // Another chain each time.
                    (at, salt) = (genesis, salt + 1000);
                }
                let made = made_on(&at, HEADERS_COUNT_MAX, salt, 0);
                for header in &made.headers {
                    at = child(&at, *header);
                }
                server.send(&Message::Headers(made.headers));
                true
            }),
        ))
    });
    count
}

#[test]
fn header_sync_moves_on_from_endless_low_work_headers() {
    let served = chain_of(20_500, 0);
    let genesis_count = Chain::new().header_count();
    for (row, rate, limit) in [
        // 26,000 headers in the time that a stream has: never enough work.
        ("for ever", 2000.0, stream_timeout() + STREAM_INTERVAL + 60 * S),
        // In 55 s they have enough work, and then do not give the same headers again.
        ("another chain the second time", 60_000.0, 200 * S),
    ] {
        let minimum = if row == "for ever" { 30_000 } else { 20_000 };
        let served = if row == "for ever" { chain_of(30_500, 0) } else { Arc::clone(&served) };
        let mut world = world(&served, minimum);
        let mut counts = Vec::new();
        for (salt, bad) in BAD.iter().enumerate() {
            counts.push(endless(&mut world, bad, 99 + salt as u64));
            world.places.get_mut(*bad).unwrap().rate = rate;
        }
        headers_to(&mut world, &served, limit);
        let limit = (rate * world.time.as_secs_f64() / 162_000.0) as usize + 3;
        for count in counts {
            assert!(*count.borrow() <= limit.min(60), "{row}: asked {} times", count.borrow());
        }
        let stored = world.chain.header_count() - genesis_count;
        assert_eq!(stored, served.tip().height.to_usize(), "{row}: nothing of the others is kept");
    }
}

#[test]
fn silent_inbound_peers_do_not_slow_block_download() {
    let served = chain_of(250, 20_000);
    let config = Config { outbound: Outbound::Only(vec![GOOD.into()]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    world.honest(GOOD, &served).rate = 500_000.0;
    for i in 0..4 {
        let bend: Bend = Box::new(|_, message, _| matches!(message, Message::GetData(_)));
        let mut server = Server::bent(Arc::clone(&served), bend);
        server.greet(world.now());
        world.connect_inbound(&format!("4.4.4.{i}"), Box::new(server)).unwrap();
    }
    // 5 MB at 0.5 MB/s.
    world.sync_to(served.tip().hash, 13 * S);
    assert_eq!(world.reason(GOOD), None);
}

#[test]
fn one_honest_inbound_peer_completes_block_download() {
    let served = chain_of(200, 2000);
    let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    for i in 0..5 {
        let bend: Bend = Box::new(move |_, message, _| i < 4 && matches!(message, Message::GetData(_)));
        let mut server = Server::bent(Arc::clone(&served), bend);
        server.greet(world.now());
        world.connect_inbound(&format!("4.4.4.{i}"), Box::new(server)).unwrap();
    }
    world.sync_to(served.tip().hash, 120 * S);
    assert_eq!(world.reason("4.4.4.4:1"), None);
}

#[test]
fn headers_done_waits_for_named_but_not_inbound_peers() {
    let served = chain_of(20, 10);
    let quick = |world: &mut World| world.run_until(5 * S, |world| world.hub.progress().headers_done);
    // No peer is at the other address.
    let mut world = World::new(Chain::new(), &[BAD[0], GOOD]);
    world.honest(GOOD, &served);
    assert!(!quick(&mut world));
    world.run(NAMED_PATIENCE - 6 * S);
    assert!(!world.hub.progress().headers_done);
    world.run(2 * S);
    assert!(world.hub.progress().headers_done && world.done_count == 1);
    // It comes at its second try, and ends the wait.
    let mut world = World::new(Chain::new(), &[BAD[0], GOOD]);
    world.honest(GOOD, &served);
    world.run(S / 2);
    world.honest(BAD[0], &served);
    assert!(quick(&mut world));
    // What an inbound peer says is no end, and its silence none either.
    let inbound = |connect: &[&str], says: bool| {
        let mut world = World::new(Chain::new(), connect);
        world.honest(GOOD, &served);
        let bend: Bend = Box::new(move |_, message, _| !says && matches!(message, Message::GetHeaders(..)));
        let mut server = Server::bent(Arc::new(Chain::new()), bend);
        server.greet(world.now());
        world.connect_inbound("4.4.4.4", Box::new(server)).unwrap();
        quick(&mut world)
    };
    assert!(!inbound(&[], true) && inbound(&[GOOD], false));
    // A chain below minimum work does not count.
    let mut world = World::new(Chain::with_minimum(21), &[GOOD]);
    world.honest(GOOD, &served);
    assert!(!quick(&mut world));
}

#[test]
fn sendheaders_goes_to_peers_with_minimum_work() {
    for (minimum, want) in [(19, true), (21, false)] {
        let served = chain_of(20, 10);
        let mut world = World::new(Chain::with_minimum(minimum), &[GOOD]);
        let asked = Rc::new(RefCell::new(Vec::new()));
        let (chain, log) = (Arc::clone(&served), Rc::clone(&asked));
        world.place(GOOD, move || {
            let log = Rc::clone(&log);
            let bend: Bend = Box::new(move |_, message, _| {
                log.borrow_mut().push(message.encode().0);
                false
            });
            Box::new(Server::bent(Arc::clone(&chain), bend))
        });
        world.run(3 * S);
        let said = asked.borrow().iter().filter(|command| **command == crate::wire::Command::SendHeaders).count();
        assert_eq!(said, usize::from(want), "{:?}", asked.borrow());
    }
}

/// Whether the end of the headers is said within this time.
fn is_done_within(world: &mut World, limit: Duration) -> bool {
    world.run_until(limit, |world| world.hub.progress().headers_done)
}

#[test]
fn low_work_headers_without_end_lose_their_say_within_two_minutes() {
    // The second message comes after two minutes, or there is enough work after two, and then another chain each time.
    for (row, rate) in [("presync", 3_000.0), ("another chain the second time", 30_000.0)] {
        let served = chain_of(2_600, 0);
        let mut world = World::new(Chain::with_minimum(2_500), &[BAD[0], GOOD]);
        world.honest(GOOD, &served);
        let count = endless(&mut world, BAD[0], 99);
        world.places.get_mut(BAD[0]).unwrap().rate = rate;
        assert!(is_done_within(&mut world, 122 * S), "{row}: {:?}", world.hub.progress());
        assert_eq!(world.hub.progress().best_claim.map(|claim| claim.hash), Some(served.tip().hash), "{row}");
        assert!(*count.borrow() > 1 && world.gone.is_empty(), "{row}: it is heard still: {:?}", world.gone);
    }
}

/// Presync of an honest peer with a slow line: when another has told a chain with minimum work, the slow one tells what it
/// has beyond that, and the end is not said before.
#[test]
fn slow_honest_presync_is_waited_for_and_not_repeated() {
    let served = chain_of(6_100, 0);
    let shorter = chain_of(6_050, 0);
    let mut world = World::new(Chain::with_minimum(6_000), &[BAD[0], GOOD]);
    // 54 s for a message of headers, of which presync and redownload take eight.
    world.honest(BAD[0], &served).rate = 3_000.0;
    world.honest(GOOD, &shorter);
    headers_to(&mut world, &served, 170 * S);
    assert_eq!(world.done_count, 0, "not before the slow one has told its chain");
    assert!(is_done_within(&mut world, 5 * S));
    assert_eq!(world.gone, []);
}

/// A named peer that comes again and again, and never answers, has its time once.
#[test]
fn two_peers_that_take_turns_do_not_hold_up_the_end() {
    let served = chain_of(20, 10);
    let mut world = World::new(Chain::new(), &[BAD[0], BAD[1], GOOD]);
    world.honest(GOOD, &served);
    for (place, bad) in BAD[..2].iter().enumerate() {
        let chain = Arc::clone(&served);
        world.place(bad, move || {
            let mut asked_at = None;
            // It sends a little now and then, so that it is not silent, and closes before its answer is late.
            let bend: Bend = Box::new(move |server, message, now| {
                let asked = matches!(message, Message::GetHeaders(..));
                let first = *asked_at.get_or_insert(now.since_start);
                server.closed = now.since_start > first + (10 + 5 * u32::try_from(place).unwrap()) * S;
                if asked {
                    (0..100).for_each(|nonce| server.send(&Message::Ping(Some(nonce))));
                    server.drip = Some(S / 4);
                }
                asked
            });
            Box::new(Server::bent(Arc::clone(&chain), bend))
        });
    }
    assert!(!is_done_within(&mut world, 30 * S), "they may still tell");
    assert!(is_done_within(&mut world, 60 * S), "{:?}", world.gone.len());
}

#[test]
fn dead_addresses_are_dialed_a_few_at_a_time_and_do_not_hold_up_the_end() {
    let served = chain_of(20, 10);
    let mut book = crate::addresses::Addresses::plain(&mut crate::rng::Rng::Seeded(5));
    let address = |i: usize| crate::wire::PeerAddress {
        address: crate::wire::NetAddress::V4([11 + (i % 200) as u8, (i / 200) as u8, 1, 1]),
        port: 18444,
    };
    for i in 0..2000 {
        let services = crate::wire::services::NETWORK | crate::wire::services::WITNESS;
        let entry = crate::wire::AddressEntry { peer: address(i), services, time: START_UNIX as u32 - 1000 };
        book.add(&[entry], address(i * 7).address, 0, START_UNIX);
    }
    let config = Config {
        addresses: Some(book),
        add_nodes: [vec![GOOD.to_owned()], (0..50).map(|i| format!("5.5.5.{i}:1")).collect()].concat(),
        v2transport: false,
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    world.dead_dial = 5 * S;
    world.honest(GOOD, &served);
    assert!(is_done_within(&mut world, 150 * S), "{:?}", world.hub.progress());
    assert_eq!(world.dialing_max, crate::hub::outbound::DIAL_COUNT_MAX);
    world.run(60 * S);
    assert_eq!(world.dialing_max, crate::hub::outbound::DIAL_COUNT_MAX, "nor more later");
}

/// Headers years ahead of the clock are the clock's fault where most say so, and a liar's where one does.
#[test]
fn clock_is_doubted_when_half_of_the_peers_are_ahead_of_it() {
    for (row, ahead, behind, want) in [("alone", 1, 0, true), ("one of two", 1, 1, true), ("one of three", 1, 2, false)]
    {
        let served = chain_of(20, 10);
        let tip = served.tip();
        let late = mine(&tip, b"late", (START_UNIX + 9 * 365 * 86_400) as u32);
        let names: Vec<String> = (0..ahead + behind).map(|i| format!("1.{i}.1.1:18444")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut world = World::new(Chain::new(), &names);
        for (place, name) in names.iter().enumerate() {
            let chain = Arc::clone(&served);
            world.place(name, move || {
                let bend: Bend = Box::new(move |server, message, _| {
                    let Message::GetHeaders(locator, stop) = message else { return false };
                    let mut headers = server.chain.headers_after(locator, stop);
                    headers.extend((place < ahead).then_some(late));
                    server.send(&Message::Headers(headers));
                    true
                });
                Box::new(Server::bent(Arc::clone(&chain), bend))
            });
        }
        world.sync_to(tip.hash, 5 * S);
        world.run(2 * S);
        assert_eq!((world.hub.progress().headers_too_new, world.gone.len()), (want, 0), "{row}");
    }
}

/// A hundred peers that connect to us, tell the chain and give no block of it, before the one that we seek is there.
#[test]
fn silent_inbound_peers_do_not_hold_up_a_sought_one() {
    let served = Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 1500, 1, 300)));
    let mut world = World::new(Chain::new(), &["5.5.5.5:18444"]);
    for i in 0..100 {
        let bend: Bend = Box::new(|server, message, _| {
            if matches!(message, Message::Version(_)) {
                server.send(&Message::Verack);
            }
            matches!(message, Message::GetData(_) | Message::Version(_))
        });
        let mut server = Server::bent(Arc::clone(&served), bend);
        server.greet(world.now());
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), Box::new(server)).unwrap();
    }
    world.run(20 * S);
    assert!(world.hub.progress().in_flight_count > 40, "they are asked: {:?}", world.hub.progress());
    world.honest("5.5.5.5:18444", &served);
    // The dial that failed before is repeated within half a minute; from the connection on it is a matter of seconds.
    let is_there = |world: &World| world.hub.progress().facts.dials.has_connected();
    assert!(world.run_until(60 * S, is_there));
    world.sync_to(served.tip().hash, 5 * S);
    assert_eq!(world.reason("5.5.5.5:18444"), None);
}
