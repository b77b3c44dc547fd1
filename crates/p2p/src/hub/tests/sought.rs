//! Peers that are sought: addresses from seeds and gossip, network groups, replacement, and memory.

use super::world::*;
use crate::addresses::Addresses;
use crate::api::{Config, Event, PeerId, Reachable};
use crate::chain::ChainView as _;
use crate::hub::outbound::{NAMED_PATIENCE, RETRY_MIN};
use crate::hub::{Action, Hub, NodeMessage};
use crate::peer::Kind;
use crate::reason::Reason;
use crate::sim::{Chain, made_on};
use crate::time::Now;
use crate::trouble::{DialError, TroubleKind};
use crate::wire::{AddressEntry, Command, Message, NetAddress, PeerAddress, services};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);

fn address(a: u8, b: u8) -> PeerAddress {
    PeerAddress { address: NetAddress::V4([a, b, 7, 7]), port: 18444 }
}

fn memory(peers: &[PeerAddress]) -> Addresses {
    let mut book = Addresses::plain(&mut crate::rng::Rng::Seeded(5));
    for (i, peer) in peers.iter().enumerate() {
        let entry = AddressEntry {
            peer: *peer,
            services: services::NETWORK | services::WITNESS,
            time: START_UNIX as u32 - 1000,
        };
        book.add(&[entry], NetAddress::V4([1 + i as u8, 1, 0, 0]), 0, START_UNIX);
    }
    book
}

/// Peers for everything alone.
fn automatic(addresses: impl Into<Option<Addresses>>) -> Config {
    Config { addresses: addresses.into(), block_relay_count: 0, v2transport: false, ..Config::new(NETWORK) }
}

fn served() -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 60, 1, 3000)))
}

fn outbound(world: &World) -> Vec<PeerAddress> {
    let peers = world.hub.context.peers.values().filter(|peer| peer.kind == Kind::Automatic);
    peers
        .map(|peer| match &peer.target {
            crate::wire::Target::Peer(address) => *address,
            crate::wire::Target::Name(name, _) => panic!("{name} was not looked for"),
        })
        .collect()
}

#[test]
fn automatic_peers_are_eight_in_distinct_groups() {
    // Twenty groups of five addresses each.
    let in_group = |i: u8| PeerAddress { address: NetAddress::V4([20 + i / 5, 1, i % 5, 9]), port: 18444 };
    let grouped: Vec<_> = (0..100).map(in_group).collect();
    let served = served();
    // Only peers that the user named have the permissions of `out`.
    let whitelist = vec![crate::permissions::PermittedNet::parse("all,out@0.0.0.0/0").unwrap()];
    let mut world = World::with_config(Chain::new(), Config { whitelist, ..automatic(memory(&grouped)) });
    for peer in &grouped {
        world.honest(&peer.to_string(), &served);
    }
    world.sync_to(served.tip().hash, 20 * S);
    world.run(20 * S);
    let have = outbound(&world);
    assert_eq!(have.len(), 8);
    let groups: HashSet<_> = have.iter().map(|peer| peer.address.group()).collect();
    assert_eq!(groups.len(), 8, "{have:?}");
    assert!(!world.hub.context.peers.values().any(|peer| peer.is_noban()));
    assert_eq!(world.gone, []);
}

/// The address that its name leads to counts as any other's, unless a proxy looks the name up.
#[test]
fn a_peer_named_by_its_host_has_an_address() {
    const NAME: &str = "node.example:18444";
    let at = |address: [u8; 4]| PeerAddress { address: NetAddress::V4(address), port: 18444 };
    let own = at([8, 9, 1, 1]);
    let near = at([8, 9, 2, 2]);
    let elsewhere = at([20, 1, 1, 1]);
    for is_proxied in [false, true] {
        let whitelist = vec![crate::permissions::PermittedNet::parse("noban,out@8.9.1.1").unwrap()];
        let proxy = is_proxied.then(|| "127.0.0.1:9050".to_owned());
        let config = Config { whitelist, proxy, ..automatic(None) };
        let served = served();
        let mut world = World::with_config(Chain::new(), Config { add_nodes: vec![NAME.to_owned()], ..config });
        world.honest(NAME, &served);
        world.sync_to(served.tip().hash, 20 * S);
        let id = world.hub.context.peers.values().find(|peer| peer.target.to_string() == NAME).unwrap().id;
        world.hub.note_remote(id, "8.9.1.1:18444".parse().unwrap());
        let now = world.now();
        let peer = &world.hub.context.peers[&id];
        let network = if is_proxied { "not_publicly_routable" } else { "ipv4" };
        assert_eq!((peer.is_noban(), peer.stats(now).network), (!is_proxied, network));
        for peer in [own, near, elsewhere] {
            world.honest(&peer.to_string(), &served);
            world.hub.add_address(peer, false, now);
        }
        world.run(60 * S);
        let mut have = outbound(&world);
        have.sort_by_key(|peer| peer.address);
        assert!(have.contains(&elsewhere), "{have:?}");
        assert_eq!(have.len(), if is_proxied { 2 } else { 1 }, "one in a network group: {have:?}");
        let now = world.now();
        world.hub.disconnect_subnet(&crate::bans::Subnet::parse("8.9.1.1").unwrap(), now);
        assert_eq!(world.hub.context.peers.contains_key(&id), is_proxied);
    }
}

#[test]
fn addresses_come_from_seeds_and_peers_and_are_saved() {
    let (seeded, told) = (address(30, 1), address(40, 1));
    let mut config = automatic(None);
    config.network.dns_seeds = &["seed.example."];
    let served = served();
    let mut world = World::with_config(Chain::new(), config);
    let chain = Arc::clone(&served);
    world.place(&seeded.to_string(), move || {
        Box::new(Server::bent(
            Arc::clone(&chain),
            Box::new(move |server, message, now| {
                if let Message::GetAddr = message {
                    let entry = AddressEntry {
                        peer: told,
                        services: services::NETWORK | services::WITNESS,
                        time: now.unix as u32,
                    };
                    server.send(&Message::AddrV2(vec![entry]));
                }
                false
            }),
        ))
    });
    world.honest(&told.to_string(), &served);
    let now = world.now();
    world.hub.tick(now);
    let asked = std::iter::from_fn(|| world.hub.next_action())
        .find_map(|action| if let Action::Resolve { name, port } = action { Some((name, port)) } else { None });
    assert_eq!(asked, Some(("x9.seed.example".to_owned(), NETWORK.port)));
    world.hub.resolved("x9.seed.example", &["30.1.7.7:18444".parse().unwrap()], now);
    world.sync_to(served.tip().hash, 10 * S);
    world.run(10 * S);
    assert_eq!(outbound(&world).len(), 2);
    let now = world.now();
    world.hub.stop(now);
    let bytes = std::iter::from_fn(|| world.hub.next_action())
        .find_map(|action| if let Action::Event(Event::Addresses(bytes)) = action { Some(bytes) } else { None });
    let read = Addresses::plain(&mut crate::rng::Rng::Seeded(1)).read(&bytes.unwrap(), NETWORK.magic);
    assert_eq!(read.unwrap().count(), 2);
}

/// A seed may bring peers with a better chain: until it has answered, this is not the tip that all have.
#[test]
fn headers_done_waits_for_pending_lookup() {
    let (near, served) = (address(40, 1), served());
    let mut config = Config { add_nodes: vec![near.to_string()], ..automatic(None) };
    config.network.dns_seeds = &["seed.example."];
    let mut world = World::with_config(Chain::new(), config);
    world.resolving = Some(Vec::new());
    world.honest(&near.to_string(), &served);
    world.sync_to(served.tip().hash, 10 * S);
    // Longer than anything else is waited for.
    world.run(2 * NAMED_PATIENCE);
    assert_eq!(world.resolving.take().as_deref(), Some(&["x9.seed.example".to_owned()][..]));
    assert_eq!((world.done_count, world.hub.progress().headers_done), (0, false));
    let now = world.now();
    world.hub.resolved("x9.seed.example", &[], now);
    world.run(S);
    assert_eq!((world.done_count, world.hub.progress().headers_done), (1, true));
}

/// Its name, too, may take longer to look up than it is waited for: then it has its turn again, and not before.
#[test]
fn named_peer_is_not_dialed_twice_at_a_time() {
    let config = Config { add_nodes: vec!["peer.example:18444".to_owned()], ..automatic(None) };
    let mut hub = World::with_config(Chain::new(), config).hub;
    let now = |seconds: u64| Now { since_start: Duration::from_secs(seconds), unix: START_UNIX + seconds };
    let dials = |hub: &mut Hub| -> Vec<PeerId> {
        let actions = std::iter::from_fn(|| hub.next_action());
        actions.filter_map(|action| if let Action::Dial { peer, .. } = action { Some(peer) } else { None }).collect()
    };
    (0..600).for_each(|seconds| hub.tick(now(seconds)));
    let begun = dials(&mut hub);
    assert_eq!(begun.len(), 1, "one at a time");
    let error = DialError::of(TroubleKind::Lookup, "peer.example", "no such name");
    hub.not_connected(begun[0], &error, now(600));
    hub.tick(now(600));
    assert_eq!(dials(&mut hub), [], "not at once");
    hub.tick(now(600 + RETRY_MIN.as_secs()));
    let again = dials(&mut hub);
    assert!(again.len() == 1 && again != begun, "{again:?}");
    // The first one's answer, once more: it is not waited for.
    hub.not_connected(begun[0], &error, now(602));
    (602..1200).for_each(|seconds| hub.tick(now(seconds)));
    assert_eq!(dials(&mut hub), []);
}

#[test]
fn connection_made_after_the_network_was_turned_off_is_closed() {
    let config = Config { add_nodes: vec!["5.5.5.5:18444".to_owned()], ..automatic(None) };
    let mut hub = World::with_config(Chain::new(), config).hub;
    let now = |seconds: u64| Now { since_start: Duration::from_secs(seconds), unix: START_UNIX + seconds };
    let dialed = |hub: &mut Hub| {
        let actions = std::iter::from_fn(|| hub.next_action());
        actions.filter_map(|action| if let Action::Dial { peer, .. } = action { Some(peer) } else { None }).last()
    };
    hub.tick(now(0));
    let first = dialed(&mut hub).expect("it is named");
    hub.set_active(false, now(1));
    hub.connected(first, now(2));
    let closed: Vec<_> = std::iter::from_fn(|| hub.next_action()).collect();
    assert!(matches!(closed[..], [Action::Close { peer }] if peer == first), "{closed:?}");
    assert_eq!(hub.peer_ids(), []);
    hub.tick(now(100));
    assert_eq!(dialed(&mut hub), None, "it is off");
    hub.set_active(true, now(101));
    hub.tick(now(101));
    let again = dialed(&mut hub).expect("its turn has come again");
    hub.connected(again, now(102));
    assert_eq!(hub.peer_ids(), [again]);
}

#[test]
fn useless_peers_are_replaced_and_liars_discouraged() {
    let served = served();
    // Eight peers of no use, and eight good ones.
    let peers: Vec<_> = (0..16).map(|i| address(50 + i, 1)).collect();
    let mut world = World::with_config(Chain::new(), automatic(memory(&peers)));
    for (i, peer) in peers.iter().enumerate() {
        let chain = Arc::clone(&served);
        world.place(&peer.to_string(), move || {
            let bend: Bend = match i {
                0..4 => Box::new(|server, message, _| {
                    let Message::GetData(list) = message else { return false };
                    let mut block = server.chain.block(&list[0].block().unwrap(), true).unwrap();
                    *block.last_mut().unwrap() ^= 1;
                    server.transport.send(Command::Block, &block);
                    true
                }),
                _ => Box::new(|_, _, _| false),
            };
            let mut server = Server::bent(Arc::clone(&chain), bend);
            if (4..8).contains(&i) {
                server.services = services::NETWORK;
            }
            Box::new(server)
        });
    }
    world.sync_to(served.tip().hash, 120 * S);
    world.run(60 * S);
    let have = outbound(&world);
    let useless = |peer: &PeerAddress| peers[4..8].contains(peer);
    assert!(have.iter().filter(|peer| useless(peer)).count() == 0, "{have:?}");
    assert!(have.len() >= 8, "{} peers", have.len());
    for (gone, reason) in &world.gone {
        let named = matches!(reason, Reason::BadBody { .. } | Reason::MissingServices { offered: 1, .. });
        assert!(named, "{gone}: {reason}");
    }
    for liar in &peers[..4] {
        let times = world.gone.iter().filter(|(gone, _)| *gone == liar.to_string()).count();
        assert!(times <= 1, "{liar} was taken back");
    }
}

#[test]
fn slow_peers_are_replaced() {
    let served = Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 2500, 1, 20_000)));
    let peers: Vec<_> = (0..12).map(|i| address(50 + i, 1)).collect();
    let mut config = automatic(memory(&peers));
    config.outbound_count = 4;
    let mut world = World::with_config(Chain::new(), config);
    for (i, peer) in peers.iter().enumerate() {
        // The first half can give a tenth of what the others can.
        world.honest(&peer.to_string(), &served).rate = if i < 6 { 20_000.0 } else { 200_000.0 };
    }
    world.run(200 * S);
    let slow = |peer: &PeerAddress| peers[..6].contains(peer);
    let went = world.gone.iter().filter(|(_, why)| matches!(why, Reason::Slow { .. } | Reason::BlockStalled(_)));
    let went: Vec<_> = went.collect();
    for (address, reason) in &went {
        assert!(peers[..6].iter().any(|peer| peer.to_string() == *address), "{address}: {reason}");
    }
    let have = outbound(&world);
    let left = have.iter().filter(|peer| slow(peer)).count();
    assert!(!went.is_empty() && left <= 1, "{left} slow peers are left; went: {went:?}");
}

#[test]
fn address_fetch_connection_ends_after_its_timeout() {
    let mut config = automatic(None);
    config.network.dns_seeds = &["seed.example."];
    // Names are not looked up then: the seed is asked as a peer.
    config.proxy = Some("127.0.0.1:9050".to_owned());
    let mut world = World::with_config(Chain::new(), config);
    let (name, served) = (format!("seed.example:{}", NETWORK.port), served());
    // It answers pings, and gives no address.
    world.honest(&name, &served);
    world.run(299 * S);
    assert_eq!(world.reason(&name), None);
    world.run(3 * S);
    assert_eq!(world.reason(&name), Some(&Reason::AddressesFetched));
}

#[test]
fn fixed_seeds_wait_a_minute_for_other_sources() {
    // 30.1.7.7, port 18444.
    const SEEDS: &[u8] = &[1, 4, 30, 1, 7, 7, 0x48, 0x0c];
    let (seed, known, served) = (address(30, 1), address(40, 1), served());
    for (row, dns_seed, fixed_seeds, addresses, early, late) in [
        ("no DNS seed answers", true, true, None, 0, 1),
        ("DNS seeds are not asked", false, true, None, 1, 1),
        ("an address of the network is known", true, true, Some(memory(&[known])), 0, 0),
        ("they are switched off", false, false, None, 0, 0),
    ] {
        let mut config = Config { dns_seed, fixed_seeds, ..automatic(addresses) };
        (config.network.dns_seeds, config.network.fixed_seeds) = (&["seed.example."], SEEDS);
        let mut world = World::with_config(Chain::new(), config);
        world.honest(&seed.to_string(), &served);
        world.run(55 * S);
        assert_eq!(outbound(&world).len(), early, "{row}");
        world.run(25 * S);
        assert_eq!(outbound(&world).len(), late, "{row}");
    }
}

/// Peers are sought in the networks that a person names; a peer that a person names is connected to all the same.
#[test]
fn peers_are_sought_in_the_named_networks_alone() {
    let v6 = |i: u8| {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&[0x2a, i, 1, 1]);
        PeerAddress { address: NetAddress::V6(bytes), port: 18444 }
    };
    let peers: Vec<_> = (0..6).map(|i| address(50 + i, 1)).chain((0..6).map(v6)).collect();
    let named = address(90, 1);
    let served = served();
    for (row, only, want) in [
        ("all", vec![], 8),
        ("IPv4", vec![Reachable::Ipv4], 6),
        ("IPv6", vec![Reachable::Ipv6], 6),
        ("onion services, without a proxy", vec![Reachable::Onion], 0),
    ] {
        let config =
            Config { only_networks: only.clone(), add_nodes: vec![named.to_string()], ..automatic(memory(&peers)) };
        let mut world = World::with_config(Chain::new(), config);
        for peer in peers.iter().chain([&named]) {
            world.honest(&peer.to_string(), &served);
        }
        world.sync_to(served.tip().hash, 20 * S);
        world.run(20 * S);
        let have = outbound(&world);
        assert_eq!(have.len(), want, "{row}: {have:?}");
        if let [only] = only[..] {
            let is_other = |peer: &&PeerAddress| matches!(peer.address, NetAddress::V4(_)) != (only == Reachable::Ipv4);
            assert_eq!(have.iter().filter(is_other).count(), 0, "{row}: {have:?}");
        }
        assert_eq!(world.hub.progress().outbound_count, want + 1, "{row}: the named one too");
    }
}

/// A node with six outbound peers, to which a person gave the next block; the peers never hear of it.
fn ahead_of_six_peers() -> World {
    let served = served();
    let peers: Vec<_> = (0..6).map(|i| address(50 + i, 1)).collect();
    let config = Config { outbound_count: 6, ..automatic(memory(&peers)) };
    let mut world = World::with_config(Chain::new(), config);
    for peer in &peers {
        world.honest(&peer.to_string(), &served);
    }
    world.sync_to(served.tip().hash, 20 * S);
    world.run(20 * S);
    assert_eq!(outbound(&world).len(), 6);
    world.chain.extend(&made_on(&served.tip(), 1, 9, 300));
    assert!(world.chain.connect().is_empty() && world.chain.tip().work > served.tip().work);
    world
}

#[test]
fn peers_that_stay_behind_go_but_for_four_that_were_at_our_tip() {
    let mut world = ahead_of_six_peers();
    for (row, minutes, gone) in [("in time", 19, 0), ("asked once more", 2, 0), ("too late", 2, 2), ("for good", 60, 2)]
    {
        world.run(2 * S);
        // They answer pings at each stop, and are not silent for long.
        for _ in 0..minutes {
            world.time += 60 * S;
            world.run(S / 2);
        }
        // They are connected to again, for there are no others.
        let lagging = world.gone.iter().filter(|(_, reason)| *reason == Reason::Lagging).map(|(address, _)| address);
        assert_eq!(lagging.collect::<HashSet<_>>().len(), gone, "{row}: {:?}", world.gone);
    }
}

/// The clock may jump before the next tick: Core's p2p_outbound_eviction.py sets it right after a block.
#[test]
fn time_of_peers_that_stay_behind_begins_with_the_new_tip() {
    let mut world = ahead_of_six_peers();
    world.hub.from_node(NodeMessage::NewTip, world.now());
    for (row, minutes, gone) in [("asked once more", 21, 0), ("too late", 1, 2)] {
        for _ in 0..minutes {
            world.time += 60 * S;
            world.run(S / 2);
        }
        let lagging = world.gone.iter().filter(|(_, reason)| *reason == Reason::Lagging).count();
        assert_eq!(lagging, gone, "{row}: {:?}", world.gone);
    }
}

/// A spy with many connections learns a part of the addresses, always the same, and not who is connected.
#[test]
fn getaddr_gives_one_answer_and_no_times_of_connections() {
    let peers: Vec<_> = (0..60).map(|i| address(50 + i, 1)).collect();
    let served = served();
    let mut world = World::with_config(Chain::new(), automatic(memory(&peers)));
    for peer in &peers {
        world.honest(&peer.to_string(), &served);
    }
    world.sync_to(served.tip().hash, 20 * S);
    world.run(20 * S);
    let connected = outbound(&world);
    assert_eq!(connected.len(), 8);
    let told: Rc<RefCell<Vec<Vec<AddressEntry>>>> = Rc::default();
    for i in 0..30 {
        let told = Rc::clone(&told);
        let mut has_asked = false;
        let bend: Bend = Box::new(move |server, message, _| {
            match message {
                Message::Verack if !std::mem::replace(&mut has_asked, true) => {
                    server.send(&Message::Verack);
                    server.send(&Message::GetAddr);
                }
                Message::Addr(entries) => told.borrow_mut().push(entries.clone()),
                Message::Version(_) => {}
                _ => return false,
            }
            true
        });
        let mut spy = Server::bent(Arc::clone(&served), bend);
        spy.greet(world.now());
        world.connect_inbound(&format!("{}.1.1.1", 150 + i), Box::new(spy)).unwrap();
        world.run(S);
    }
    let told = told.take();
    assert_eq!(told.len(), 30);
    assert!(told.iter().all(|answer| *answer == told[0]), "one answer for all");
    assert_eq!(told[0].len(), 60 * 23 / 100);
    let times: HashSet<_> = told[0].iter().map(|entry| entry.time).collect();
    assert_eq!(times.len(), 1, "connected or not: {times:?}");
}

/// Gossip may name any port; those of other services are not connected to.
#[test]
fn ports_of_other_services_are_not_dialed() {
    let at_port = |i: u8, port: u16| PeerAddress { address: NetAddress::V4([50 + i, 1, 7, 7]), port };
    let bad: Vec<_> = [25, 22, 3306, 6667, 9].into_iter().zip(0..).map(|(port, i)| at_port(i, port)).collect();
    let good: Vec<_> = (10..13).map(|i| at_port(i, 80 + u16::from(i))).collect();
    let mut world = World::with_config(Chain::new(), automatic(memory(&[&bad[..], &good].concat())));
    let served = served();
    bad.iter().chain(&good).for_each(|peer| {
        world.honest(&peer.to_string(), &served);
    });
    world.run(120 * S);
    let mut have = outbound(&world);
    have.sort();
    assert_eq!(have, good);
    // Who names one means it.
    let named = bad[0].to_string();
    let mut world = World::new(Chain::new(), &[&named]);
    world.honest(&named, &served);
    world.sync_to(served.tip().hash, 20 * S);
}

/// bitcoinknots/bitcoin 29.4.1 advertises service bit 28 since it left Bitcoin's rules at height 961,640.
#[test]
fn peer_of_another_chain_is_asked_for_nothing() {
    let served = served();
    let other = "4.4.4.4:18444";
    let honest = "5.5.5.5:18444";
    let mut world = World::new(Chain::new(), &[other, honest]);
    let asked = Rc::new(RefCell::new(Vec::new()));
    let chain = Arc::clone(&served);
    let seen = Rc::clone(&asked);
    world.place(other, move || {
        let seen = Rc::clone(&seen);
        let bend: Bend = Box::new(move |_, message, _| {
            if matches!(message, Message::GetHeaders(..) | Message::GetData(_)) {
                seen.borrow_mut().push(message.clone());
            }
            false
        });
        let mut server = Server::bent(Arc::clone(&chain), bend);
        server.services |= services::OTHER_CHAIN;
        Box::new(server)
    });
    world.honest(honest, &served);
    world.sync_to(served.tip().hash, 20 * S);
    world.run(5 * S);
    assert!(world.hub.progress().headers_done, "it is not waited for");
    assert_eq!(*asked.borrow(), [], "no header and no block is asked of it");
    assert_eq!(world.gone, [], "who was named stays connected");
}

/// As in Core: what it said of itself is remembered, and it does not count as seen.
#[test]
fn services_of_a_peer_that_lacks_some_are_remembered() {
    let served = served();
    let peer = address(30, 1);
    let before =
        AddressEntry { peer, services: services::NETWORK | services::WITNESS, time: START_UNIX as u32 - 2 * 24 * 3600 };
    let mut book = Addresses::plain(&mut crate::rng::Rng::Seeded(5));
    book.add(std::slice::from_ref(&before), NetAddress::V4([1, 1, 0, 0]), 0, START_UNIX);
    let mut world = World::with_config(Chain::new(), automatic(book));
    let chain = Arc::clone(&served);
    world.place(&peer.to_string(), move || {
        let mut server = Server::new(Arc::clone(&chain));
        server.services = services::NETWORK;
        Box::new(server)
    });
    world.run(20 * S);
    assert!(matches!(world.reason(&peer.to_string()), Some(Reason::MissingServices { offered: 1, .. })));
    let known = world.hub.addresses.entry(&peer).unwrap();
    assert_eq!((known.services, known.time), (services::NETWORK, before.time));
}

/// Gossip adds services to a known address, and takes none away: an attacker may add this bit to every honest one.
#[test]
fn service_bit_of_another_chain_from_gossip_keeps_no_address_out() {
    let served = served();
    let peers: Vec<_> = (0..4).map(|i| address(50 + i, 1)).collect();
    let anchor = peers[0];
    let known = &peers[1..];
    let told = |peer: &PeerAddress| AddressEntry {
        peer: *peer,
        services: services::NETWORK | services::WITNESS | services::OTHER_CHAIN,
        time: START_UNIX as u32 - 100,
    };
    let mut book = memory(known);
    known.iter().for_each(|peer| _ = book.add(&[told(peer)], NetAddress::V4([99, 1, 0, 0]), 0, START_UNIX));
    assert!(known.iter().all(|peer| book.entry(peer).unwrap().services & services::OTHER_CHAIN != 0), "as in Core");
    let config = Config { block_relay_count: 1, anchors: vec![told(&anchor)], ..automatic(book) };
    let mut world = World::with_config(Chain::new(), config);
    for peer in &peers {
        world.honest(&peer.to_string(), &served);
    }
    world.run(20 * S);
    assert_eq!(outbound(&world).len(), known.len());
    let is_anchor = |peer: &crate::peer::Peer| peer.target == crate::wire::Target::Peer(anchor);
    assert!(world.hub.context.peers.values().any(|peer| peer.kind == Kind::BlockRelay && is_anchor(peer)));
    assert_eq!(world.gone, []);
}

#[test]
fn automatic_peer_of_another_chain_is_left() {
    let served = served();
    let peer = address(30, 1);
    let mut world = World::with_config(Chain::new(), automatic(memory(&[peer])));
    let chain = Arc::clone(&served);
    world.place(&peer.to_string(), move || {
        let mut server = Server::new(Arc::clone(&chain));
        server.services |= services::OTHER_CHAIN;
        Box::new(server)
    });
    world.run(20 * S);
    let why = world.reason(&peer.to_string()).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("follows another chain"), "{why}");
}
