//! Connections that ffwd makes without a person's word, and addresses that are passed on.

use super::world::*;
use crate::addresses::{Addresses, Table, anchors_file};
use crate::api::{Config, Event};
use crate::chain::ChainView as _;
use crate::hub::Action;
use crate::own_addresses::OwnAddress;
use crate::peer::Kind;
use crate::rng::Rng;
use crate::sim::{Chain, made_on};
use crate::wire::{AddressEntry, Message, NetAddress, PeerAddress, services};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);

fn address(a: u8, b: u8) -> PeerAddress {
    PeerAddress { address: NetAddress::V4([a, b, 7, 7]), port: 18444 }
}

fn entry(peer: PeerAddress) -> AddressEntry {
    let services = services::NETWORK | services::WITNESS;
    AddressEntry { peer, services, time: START_UNIX as u32 - 2 * 24 * 3600 }
}

fn memory(peers: &[PeerAddress]) -> Addresses {
    let mut book = Addresses::plain(&mut Rng::Seeded(5));
    for (i, peer) in peers.iter().enumerate() {
        book.add(&[entry(*peer)], NetAddress::V4([1 + i as u8, 1, 0, 0]), 0, START_UNIX);
    }
    book
}

fn served() -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 60, 1, 3000)))
}

/// A node without a chain that knows these honest peers, and goes to the anchors first.
fn among(peers: &[PeerAddress], served: &Arc<Chain>, anchors: &[AddressEntry]) -> World {
    let anchors = anchors.to_vec();
    let config = Config { addresses: Some(memory(peers)), anchors, v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    for peer in peers {
        world.honest(&peer.to_string(), served);
    }
    world
}

fn of_kind(world: &World, kind: Kind) -> Vec<PeerAddress> {
    let peers = world.hub.context.peers.values().filter(|peer| peer.kind == kind && peer.is_ready());
    let address = |target: &crate::wire::Target| match target {
        crate::wire::Target::Peer(peer) => *peer,
        crate::wire::Target::Name(name, _) => panic!("{name}"),
    };
    peers.map(|peer| address(&peer.target)).collect()
}

#[test]
fn eight_for_everything_two_for_blocks_and_feelers() {
    let peers: Vec<_> = (0..40).map(|i| address(50 + i, 1)).collect();
    let served = served();
    let mut world = among(&peers, &served, &[]);
    world.sync_to(served.tip().hash, 20 * S);
    world.run(20 * S);
    let blocks = of_kind(&world, Kind::BlockRelay);
    let all = [of_kind(&world, Kind::Automatic), blocks.clone()].concat();
    assert_eq!((all.len(), blocks.len()), (10, 2));
    assert_eq!(all.iter().map(|peer| peer.address.group()).collect::<HashSet<_>>().len(), 10);
    assert_eq!(world.hub.addresses.count_in(Table::Tried, None), 10, "who answered is tried");
    // A feeler every two minutes: more addresses are known to answer.
    for _ in 0..30 {
        world.time += 60 * S;
        world.run(S);
    }
    let tried = world.hub.addresses.count_in(Table::Tried, None);
    assert!(tried > 13, "{tried} after half an hour");
    let blocks = of_kind(&world, Kind::BlockRelay);
    let now = world.now();
    world.hub.stop(now);
    let said = std::iter::from_fn(|| world.hub.next_action());
    let anchors = said.filter_map(|action| match action {
        Action::Event(Event::Anchors(count, bytes)) => Some((count, anchors_file::from_bytes(&bytes, NETWORK.magic))),
        _ => None,
    });
    let [(count, anchors)] = &anchors.collect::<Vec<_>>()[..] else { panic!("once") };
    assert_eq!(*count, 2);
    // The next run goes back to them first.
    let mut world = among(&peers, &served, anchors);
    world.run(20 * S);
    let kept: HashSet<_> = anchors.iter().map(|anchor| anchor.peer).collect();
    assert!(kept.iter().all(|peer| blocks.contains(peer)));
    assert_eq!(of_kind(&world, Kind::BlockRelay).into_iter().collect::<HashSet<_>>(), kept);
}

/// As in Core, which begins with them after the first sync and goes on: they find a better chain if all peers hide it.
#[test]
fn extra_peers_for_blocks_go_on_when_the_tip_is_old() {
    let peers: Vec<_> = (0..40).map(|i| address(50 + i, 1)).collect();
    let served = served();
    let mut world = among(&peers, &served, &[]);
    world.chain.is_old.store(true, Relaxed);
    let most = |world: &mut World| {
        let counts = (0..30).map(|_| {
            world.time += 60 * S;
            world.run(2 * S);
            of_kind(world, Kind::BlockRelay).len()
        });
        counts.max()
    };
    world.sync_to(served.tip().hash, 20 * S);
    assert_eq!(most(&mut world), Some(2), "not during the first sync");
    world.chain.is_old.store(false, Relaxed);
    world.run(S);
    world.chain.is_old.store(true, Relaxed);
    assert_eq!(most(&mut world), Some(3));
}

/// What each of some inbound peers heard of addresses.
type Told = Rc<RefCell<HashMap<usize, Vec<Vec<AddressEntry>>>>>;

/// An inbound peer that says `says` after its handshake, and notes what it is told.
fn talker(world: &mut World, number: usize, says: Vec<Message>, told: &Told) {
    let told = Rc::clone(told);
    let mut has_said = false;
    let bend: Bend = Box::new(move |server, message, _| {
        match message {
            Message::Verack if !std::mem::replace(&mut has_said, true) => {
                server.send(&Message::Verack);
                says.iter().for_each(|message| server.send(message));
            }
            Message::Addr(entries) | Message::AddrV2(entries) => {
                told.borrow_mut().entry(number).or_default().push(entries.clone());
            }
            Message::Version(_) => {}
            _ => return false,
        }
        true
    });
    let mut peer = Server::bent(served(), bend);
    peer.greet(world.now());
    world.connect_inbound(&format!("{}.1.1.1", 150 + number), Box::new(peer)).unwrap();
    world.run(S);
}

/// Ten minutes in steps, for what waits for its turn to be told.
fn wait(world: &mut World) {
    for _ in 0..10 {
        world.time += 60 * S;
        world.run(S / 2);
    }
}

#[test]
fn an_address_goes_to_two_peers_that_take_part() {
    let config = Config {
        outbound: crate::api::Outbound::Only(vec![]),
        block_relay_count: 0,
        v2transport: false,
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    let told: Told = Rc::default();
    for number in 0..7 {
        talker(&mut world, number, vec![Message::GetAddr], &told);
    }
    talker(&mut world, 7, vec![], &told);
    told.borrow_mut().clear();
    let fresh = |a: u8| AddressEntry { time: START_UNIX as u32 + 5, ..entry(address(a, 9)) };
    talker(&mut world, 8, vec![Message::Addr(vec![fresh(200)])], &told);
    wait(&mut world);
    let count = |address: PeerAddress| {
        let told = told.borrow();
        let heard = told.iter().filter(|(_, said)| said.iter().flatten().any(|entry| entry.peer == address));
        heard.map(|(number, _)| *number).collect::<Vec<_>>()
    };
    let heard = count(address(200, 9));
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(!heard.contains(&7) && !heard.contains(&8), "not who says nothing of addresses, nor who told it");
    // Old ones, those of large messages and those of no machine are not passed on.
    let large: Vec<_> = (0..11).map(|i| fresh(201 + i)).collect();
    let private = AddressEntry { peer: address(10, 1), ..fresh(1) };
    for (row, number, message) in [
        ("old", 9, Message::Addr(vec![entry(address(220, 9))])),
        ("of a large message", 10, Message::Addr(large)),
        ("of no machine of the network", 11, Message::Addr(vec![private])),
    ] {
        let Message::Addr(entries) = &message else { panic!("{row}") };
        let last = entries.last().unwrap().peer;
        talker(&mut world, number, vec![message], &told);
        wait(&mut world);
        assert_eq!(count(last), Vec::<usize>::new(), "{row}");
    }
}

#[test]
fn our_own_address_is_told_by_core_s_rules() {
    let own = address(42, 42);
    let config = |listen: bool, external: Vec<PeerAddress>| Config {
        outbound: crate::api::Outbound::Only(vec![]),
        v2transport: false,
        listen: if listen { vec!["127.0.0.1:1".parse().unwrap()] } else { vec![] },
        external: external.into_iter().map(|peer| OwnAddress { peer, score: 4 }).collect(),
        ..Config::new(NETWORK)
    };
    let onion = PeerAddress { address: NetAddress::TorV3([7; 32]), port: 8333 };
    let chain = || Chain::having(&made_on(&Chain::new().best_header(), 3, 1, 300));
    for (row, config, want) in [
        ("we listen", config(true, vec![own]), Some(own)),
        ("we do not listen", config(false, vec![own]), None),
        ("no address of ours is known", config(true, vec![]), None),
        ("a hidden one, to a peer that is not", config(true, vec![onion]), None),
    ] {
        let mut world = World::with_config(chain(), config);
        let told: Told = Rc::default();
        talker(&mut world, 0, vec![Message::GetAddr], &told);
        let first = told.borrow().get(&0).and_then(|said| said.first().cloned());
        assert_eq!(first.as_ref().map(|said| said[0].peer), want, "{row}");
        assert!(first.is_none_or(|said| said.len() == 1), "{row}: in a message of its own");
    }
}
