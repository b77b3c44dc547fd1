//! Honest peers: sync, speed, following, serving, and what is asked of whom.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::ChainView as _;
use crate::reason::Reason;
use crate::sim::{Chain, Made, made_on, mine};
use crate::wire::{Message, services};
use primitives::Height;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);

fn chain_of(count: usize, body_bytes: usize) -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&Chain::new().best_header(), count, 1, body_bytes)))
}

#[test]
fn hub_syncs_from_hub_by_v1_and_v2() {
    for (theirs, ours) in [(false, false), (true, true), (true, false), (false, true)] {
        let served = chain_of(4500, 300);
        let config =
            Config { outbound: Outbound::Only(vec!["1.1.1.1".into()]), v2transport: ours, ..Config::new(NETWORK) };
        let mut world = World::with_config(Chain::new(), config);
        let chain = Arc::clone(&served);
        world.place("1.1.1.1:18444", move || Box::new(OtherHub::new(&chain, theirs)));
        world.sync_to(served.tip().hash, 20 * S);
        assert!(world.run_until(S, |world| world.hub.progress().headers_done), "v2: they {theirs}, we {ours}");
        assert_eq!(world.blocks_count, 4500, "each once");
        let retries = world.gone.iter().filter(|(_, reason)| reason.is_offence()).count();
        assert_eq!(retries, 0, "{:?}", world.gone);
        // A new block is announced, fetched and connected.
        served.extend(&made_on(&served.best_header(), 3, 5, 10));
        world.sync_to(served.tip().hash, 2 * S);
    }
}

#[test]
fn first_headers_are_asked_for_when_the_handshake_ends() {
    let served = chain_of(100, 10);
    let mut world = World::new(Chain::new(), &["1.1.1.1"]);
    world.honest("1.1.1.1:18444", &served);
    // The first tick dials; the next one is at 200 ms.
    let want = served.best_header().hash;
    let is_there = world.run_until(Duration::from_millis(195), |world| world.chain.best_header().hash == want);
    assert!(is_there, "no tick is waited for: {:?}", world.time);
}

#[test]
fn low_work_headers_are_presynced_then_stored() {
    let served = chain_of(4100, 10);
    let mut world = World::new(Chain::with_minimum(4050), &["1.1.1.1"]);
    world.honest("1.1.1.1:18444", &served);
    assert!(world.run_until(10 * S, |world| world.hub.progress().presync_height.is_some()), "presync is seen");
    world.sync_to(served.tip().hash, 20 * S);
    assert_eq!(world.gone, []);
}

#[test]
fn reorg_of_twenty_blocks_is_followed() {
    let common = made_on(&Chain::new().best_header(), 50, 1, 100);
    let served = Arc::new(Chain::having(&common));
    let fork = served.best_header();
    served.extend(&made_on(&fork, 20, 2, 100));
    let mut world = World::new(Chain::new(), &["1.1.1.1"]);
    let chain = Arc::clone(&served);
    world.place("1.1.1.1:18444", move || Box::new(OtherHub::new(&chain, false)));
    world.sync_to(served.tip().hash, 5 * S);
    served.extend(&made_on(&fork, 21, 3, 100));
    world.sync_to(served.tip().hash, 5 * S);
    assert_eq!(world.gone, []);
}

/// Seconds to sync `count` blocks of 20 kB from these peers.
fn seconds(count: usize, peers: &[(Duration, f64)]) -> f64 {
    let served = chain_of(count, 20_000);
    let names: Vec<String> = (0..peers.len()).map(|i| format!("1.{i}.1.1")).collect();
    let connect: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::new(Chain::new(), &connect);
    for (name, (latency, rate)) in names.iter().zip(peers) {
        let place = world.honest(&format!("{name}:18444"), &served);
        (place.latency, place.rate) = (*latency, *rate);
    }
    world.sync_to(served.tip().hash, 300 * S);
    assert_eq!(world.gone, []);
    world.time.as_secs_f64()
}

#[test]
fn four_peers_of_a_quarter_rate_download_at_their_sum() {
    const MS: Duration = Duration::from_millis(1);
    let one = seconds(1500, &[(MS, 4e6)]);
    let four = seconds(1500, &[(MS, 1e6); 4]);
    assert!(four <= one * 1.10, "one of 4 MB/s: {one} s, four of 1 MB/s: {four} s");
}

#[test]
fn round_trip_of_50_ms_does_not_slow_download() {
    let near = seconds(1500, &[(Duration::from_millis(1), 8e6)]);
    let far = seconds(1500, &[(Duration::from_millis(25), 8e6)]);
    assert!(far <= near * 1.05 + 0.6, "1 ms: {near} s, 25 ms each way: {far} s (of which handshakes)");
}

#[test]
fn tiny_blocks_over_long_round_trip_download_in_bulk() {
    let served = chain_of(6000, 100);
    let mut world = World::new(Chain::new(), &["1.1.1.1"]);
    world.honest("1.1.1.1:18444", &served).latency = Duration::from_millis(25);
    world.sync_to(served.tip().hash, 10 * S);
    // With Core's 16 in flight it would take 6000 / 16 round trips of 50 ms: 19 s.
    assert!(world.time < Duration::from_secs(6), "{:?}", world.time);
}

#[test]
fn held_blocks_stay_within_the_budget() {
    let served = chain_of(400, 50_000);
    let config = Config {
        outbound: Outbound::Only(vec!["1.1.1.1".into(), "1.2.1.1".into()]),
        v2transport: false,
        window_bytes: 1_000_000,
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    world.honest("1.1.1.1:18444", &served);
    world.honest("1.2.1.1:18444", &served);
    // A node that takes its time: 20 MB in all through a window of 1 MB, each block held for 0.2 s.
    world.keep = Duration::from_millis(200);
    world.sync_to(served.tip().hash, 60 * S);
    assert!(world.held_max <= 1_000_000 + 16 * 50_000, "{} bytes were held", world.held_max);
    assert_eq!(world.gone, [], "who waits for us is not blamed");
    assert!(world.time < 8 * S, "the window was kept full: {:?}", world.time);
}

#[test]
fn limited_peer_is_asked_for_its_last_blocks_only() {
    let served = chain_of(800, 10);
    let asked = Rc::new(RefCell::new(Asked::new()));
    let mut world = World::new(Chain::new(), &["1.1.1.1"]);
    let (chain, log) = (Arc::clone(&served), Rc::clone(&asked));
    world.place("1.1.1.1:18444", move || {
        let log = Rc::clone(&log);
        let mut server = Server::bent(
            Arc::clone(&chain),
            Box::new(move |_, message, _| {
                if let Message::GetData(list) = message {
                    list.iter().for_each(|entry| *log.borrow_mut().entry(entry.block().unwrap()).or_default() += 1);
                }
                false
            }),
        );
        server.services = services::NETWORK_LIMITED | services::WITNESS;
        Box::new(server)
    });
    world.run(3 * S);
    assert_eq!(asked.borrow().len(), 286, "of 800 blocks its last 286");
    let lowest = asked.borrow().keys().filter_map(|hash| served.header(hash)).map(|info| info.height).min();
    assert_eq!(lowest, Some(Height::new(515)));
    // With a full peer beside it everything arrives.
    let mut world = World::new(Chain::new(), &["1.2.1.1"]);
    world.honest("1.2.1.1:18444", &served);
    world.sync_to(served.tip().hash, 5 * S);
}

/// A peer that withholds a body of its best chain is asked for what it announces beside it, near the tip alone.
#[test]
fn announced_fork_is_fetched_though_a_better_chain_lacks_a_body() {
    for (row, tip_age_s, is_fetched) in [("near the tip", 0, true), ("far behind", 4 * 3600, false)] {
        let genesis = Chain::new().best_header();
        let header = mine(&genesis, b"recent", START_UNIX as u32 - tip_age_s);
        let base = Made { headers: vec![header], bodies: vec![b"recent".to_vec()] };
        let chain = Chain::having(&base);
        let (better, fork) = (made_on(&chain.tip(), 2, 7, 10), made_on(&chain.tip(), 1, 8, 10));
        let served = Arc::new(Chain::having(&base));
        served.extend(&fork);
        let told = [better.headers, fork.headers.clone(), fork.headers];
        let asked = Rc::new(RefCell::new(Vec::new()));
        let mut world = World::new(chain, &["1.1.1.1"]);
        let (chain, log) = (Arc::clone(&served), Rc::clone(&asked));
        world.place("1.1.1.1:18444", move || {
            let (log, told) = (Rc::clone(&log), told.clone());
            let bend: Bend = Box::new(move |server, message, _| match message {
                Message::GetHeaders(..) => {
                    told.iter().for_each(|headers| server.send(&Message::Headers(headers.clone())));
                    true
                }
                Message::GetData(list) => {
                    log.borrow_mut().extend(list.iter().filter_map(crate::wire::Inventory::block));
                    false
                }
                _ => false,
            });
            Box::new(Server::bent(Arc::clone(&chain), bend))
        });
        world.run(3 * S);
        let tip = served.tip().hash;
        assert_eq!(world.chain.tip().hash == tip, is_fetched, "{row}");
        assert_eq!(asked.borrow().iter().filter(|hash| **hash == tip).count(), usize::from(is_fetched), "{row}: once");
        assert_eq!(world.gone, [], "{row}");
    }
}

/// A block that no chain needs: on a person's wish it is fetched, once, of a peer that can have it.
#[test]
fn block_is_fetched_from_a_peer_on_a_persons_wish() {
    let base = made_on(&Chain::new().best_header(), 3, 1, 10);
    let served = Arc::new(Chain::having(&base));
    let fork = made_on(&Chain::new().best_header(), 1, 9, 10);
    served.extend(&fork);
    let mut world = World::new(Chain::having(&base), &["1.1.1.1"]);
    world.honest("1.1.1.1:18444", &served);
    let hash = fork.headers[0].hash();
    world.chain.accept_headers(&fork.headers, &[hash], START_UNIX);
    world.run(2 * S);
    assert_eq!(world.chain.missing_up_to(&hash, 5), [hash]);
    let (id, now) = (world.hub.peer_ids()[0], world.now());
    assert_eq!(world.hub.fetch_from(crate::api::PeerId(99), hash), Err("Peer does not exist"));
    assert_eq!(world.hub.fetch_from(id, hash), Ok(()));
    assert_eq!(world.hub.fetch_from(id, hash), Err("Already requested from this peer"));
    world.hub.schedule(now);
    world.run(2 * S);
    assert_eq!(world.chain.missing_up_to(&hash, 5), []);
}

/// One of two peers never answers: what the other one gave is not owed any longer, and may be asked for again.
#[test]
fn block_from_another_peer_ends_a_persons_wish() {
    let base = made_on(&Chain::new().best_header(), 3, 1, 10);
    let served = Arc::new(Chain::having(&base));
    let fork = made_on(&Chain::new().best_header(), 1, 9, 10);
    served.extend(&fork);
    let mut world = World::new(Chain::having(&base), &["1.1.1.1", "1.2.1.1"]);
    world.honest("1.1.1.1:18444", &served);
    let chain = Arc::clone(&served);
    world.place("1.2.1.1:18444", move || {
        let mute: Bend = Box::new(|_, message, _| matches!(message, Message::GetData(_)));
        Box::new(Server::bent(Arc::clone(&chain), mute))
    });
    let hash = fork.headers[0].hash();
    world.chain.accept_headers(&fork.headers, &[hash], START_UNIX);
    world.run(2 * S);
    let (ids, now) = (world.hub.peer_ids(), world.now());
    assert_eq!(ids.len(), 2);
    ids.iter().for_each(|&id| assert_eq!(world.hub.fetch_from(id, hash), Ok(())));
    world.hub.schedule(now);
    world.run(2 * S);
    assert_eq!(world.chain.missing_up_to(&hash, 5), []);
    ids.iter().for_each(|&id| assert_eq!(world.hub.fetch_from(id, hash), Ok(()), "{id:?} owes nothing"));
}

#[test]
fn peer_without_witness_service_is_not_asked_for_blocks() {
    let served = chain_of(50, 10);
    let mut world = World::new(Chain::new(), &["1.1.1.1"]);
    let chain = Arc::clone(&served);
    world.place("1.1.1.1:18444", move || {
        let mut server = Server::new(Arc::clone(&chain));
        server.services = services::NETWORK;
        Box::new(server)
    });
    world.run(5 * S);
    assert_eq!((world.chain.best_header().height, world.blocks_count), (Height::new(50), 0), "headers, and no blocks");
}

#[test]
fn inbound_peers_are_served_up_to_their_limit() {
    let made = made_on(&Chain::new().best_header(), 30, 1, 500);
    let chain = Chain::having(&made);
    let tip = chain.tip().hash;
    let config = Config { outbound: Outbound::Only(vec![]), inbound_count_max: 3, ..Config::new(NETWORK) };
    let mut world = World::with_config(chain, config);
    let got = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&got);
    let empty = Arc::new(Chain::new());
    let genesis = empty.tip().hash;
    let bend: Bend = Box::new(move |server, message, _| {
        match message {
            Message::Verack => {
                server.send(&Message::Verack);
                server.send(&Message::GetHeaders(vec![genesis], primitives::BlockHash::ZERO));
            }
            Message::Headers(headers) => {
                let list = headers.iter().map(|header| crate::wire::Inventory::WitnessBlock(header.hash()));
                server.send(&Message::GetData(list.collect()));
                log.borrow_mut().push(format!("{} headers", headers.len()));
            }
            Message::Ignored => log.borrow_mut().push("block".to_owned()),
            Message::NotFound(_) => log.borrow_mut().push("notfound".to_owned()),
            Message::Version(_) => {}
            _ => return false,
        }
        true
    });
    let mut server = Server::bent(empty, bend);
    server.greet(world.now());
    world.connect_inbound("2.2.2.2", Box::new(server)).unwrap();
    world.run(2 * S);
    let want: Vec<_> = ["30 headers"].into_iter().chain(vec!["block"; 30]).collect();
    assert_eq!(*got.borrow(), want);
    assert_eq!(world.hub.progress().inbound_count, 1);
    assert!(world.connect_inbound("3.3.3.3", Box::new(Mute(vec![]))).is_some());
    assert!(world.connect_inbound("4.4.4.4", Box::new(Mute(vec![]))).is_some());
    assert!(world.connect_inbound("5.5.5.5", Box::new(Mute(vec![]))).is_none(), "no fourth while all may shake hands");
    world.run(2 * S);
    assert!(world.connect_inbound("6.6.6.6", Box::new(Mute(vec![]))).is_some(), "in the place of a half-open one");
    world.act();
    assert_eq!(world.gone.iter().filter(|(_, why)| *why == Reason::Evicted).count(), 1);
    assert_eq!(world.chain.tip().hash, tip);
    world.run(61 * S);
    let never_spoke = |why: &Reason| matches!(why, Reason::NeverSpoke { has_received: false, .. });
    assert_eq!(world.gone.iter().filter(|(_, why)| never_spoke(why)).count(), 2);
}

#[test]
fn serving_withholds_low_work_chain_and_pruned_blocks() {
    let made = made_on(&Chain::new().best_header(), 400, 1, 10);
    let pruned = || {
        let mut chain = Chain::having(&made);
        chain.all_blocks = false;
        chain
    };
    let poor = Chain::with_minimum(500);
    poor.extend(&made);
    let deep = Some(made.headers[0].hash());
    for (row, chain, permitted, ask, want, is_kept) in [
        ("below minimum work", poor, "3.3.3.3", None, &["0 headers"][..], true),
        ("deep block of a pruned node", pruned(), "3.3.3.3", deep, &["400 headers"], false),
        ("the same, with noban", pruned(), "2.2.2.2", deep, &["400 headers", "block"], true),
    ] {
        let whitelist = vec![crate::permissions::PermittedNet::parse(permitted).unwrap()];
        let config = Config { outbound: Outbound::Only(vec![]), whitelist, ..Config::new(NETWORK) };
        let genesis = chain.ancestor(&chain.tip().hash, Height::GENESIS).unwrap();
        let mut world = World::with_config(chain, config);
        let got = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&got);
        let bend: Bend = Box::new(move |server, message, _| {
            match message {
                Message::Verack => {
                    server.send(&Message::Verack);
                    server.send(&Message::GetHeaders(vec![genesis], primitives::BlockHash::ZERO));
                }
                Message::Headers(headers) => {
                    log.borrow_mut().push(format!("{} headers", headers.len()));
                    let list = ask.iter().copied().map(crate::wire::Inventory::WitnessBlock).collect();
                    server.send(&Message::GetData(list));
                }
                Message::Version(version) => {
                    let full = version.services & services::NETWORK != 0;
                    assert_eq!(full, ask.is_none(), "NETWORK is offered by who has every block");
                }
                Message::Ignored => log.borrow_mut().push("block".to_owned()),
                _ => return false,
            }
            true
        });
        let mut server = Server::bent(Arc::new(Chain::new()), bend);
        server.greet(world.now());
        world.connect_inbound("2.2.2.2", Box::new(server)).unwrap();
        world.run(S);
        assert_eq!(*got.borrow(), want, "{row}");
        let beyond = matches!(world.reason("2.2.2.2:1"), Some(Reason::BeyondOffer(_)));
        assert_eq!(beyond, !is_kept, "{row}: {:?}", world.gone);
    }
}
