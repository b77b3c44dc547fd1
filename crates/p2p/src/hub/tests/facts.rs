//! What the network knows of itself: each state that a sync names, and no more lines than kinds of trouble.

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::ChainView as _;
use crate::facts::NetworkFacts;
use crate::hub::asked::Added;
use crate::sim::{Chain, Made, made_on};
use crate::trouble::TroubleKind;
use crate::wire::{Message, NetAddress, PeerAddress, services};
use primitives::Height;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const NAMED: &str = "5.5.5.5:18444";

fn facts(world: &World) -> NetworkFacts {
    world.hub.progress().facts
}

fn made(count: usize) -> Made {
    made_on(&Chain::new().best_header(), count, 1, 300)
}

fn served(count: usize) -> Arc<Chain> {
    Arc::new(Chain::having(&made(count)))
}

#[test]
fn nothing_is_said_of_nobody() {
    let mut world = World::new(Chain::new(), &[]);
    world.run(S);
    assert_eq!(facts(&world), NetworkFacts::default(), "--connect 0");
    let now = world.now();
    world.hub.set_active(false, now);
    world.run(S);
    assert!(facts(&world).is_off);
}

#[test]
fn dials_that_fail_are_one_line_a_kind_and_counted() {
    let gone = ["6.6.6.6:18444", "7.7.7.7:18444", "peer.example:18444"];
    let mut world = World::new(Chain::new(), &gone);
    world.run(120 * S);
    let dials = facts(&world).dials;
    let seen: Vec<_> = dials.troubles.iter().map(|t| (t.kind, t.subject.as_str())).collect();
    assert_eq!(seen, [(TroubleKind::Refused, gone[1]), (TroubleKind::Lookup, "peer.example")]);
    let counts: Vec<u64> = dials.troubles.iter().map(|trouble| trouble.count).collect();
    assert!(counts[0] == 2 * counts[1] && counts[1] >= 6, "{counts:?}");
    assert_eq!((dials.has_connected(), dials.named_count, dials.begun_count), (false, 3, counts[0] + counts[1]));
    assert_eq!((world.notes.len(), world.gone.len()), (2, 0), "{:?}", world.notes);
    assert!(world.notes[0].starts_with("connection to 6.6.6.6:18444 failed: no peer there"), "{:?}", world.notes);
    // They come up: nothing is left of it.
    let served = served(5);
    for address in gone {
        world.honest(address, &served);
    }
    world.sync_to(served.tip().hash, 120 * S);
    world.run(70 * S);
    let dials = facts(&world).dials;
    assert!(dials.has_connected() && dials.made_count == 3, "{dials:?}");
    assert_eq!(dials.troubles.iter().map(|t| t.subject.as_str()).collect::<Vec<_>>(), [] as [&str; 0]);
}

#[test]
fn names_that_cannot_be_looked_up_are_named() {
    let mut config = Config { v2transport: false, fixed_seeds: false, ..Config::new(NETWORK) };
    config.network.dns_seeds = &["a.example.", "b.example."];
    let mut world = World::with_config(Chain::new(), config);
    world.resolving = Some(Vec::new());
    world.run(S);
    assert_eq!((facts(&world).dials.lookup_count, facts(&world).dials.is_automatic), (2, true));
    let now = world.now();
    for name in world.resolving.replace(Vec::new()).unwrap() {
        world.hub.not_resolved(&name, "Temporary failure in name resolution", now);
    }
    // The seeds are then connected to as nodes, whose names are not there either.
    world.run(2 * S);
    let dials = facts(&world).dials;
    let mut names: Vec<_> = dials.troubles.iter().map(|t| (t.kind, t.subject.as_str())).collect();
    names.sort_unstable();
    let want = ["a.example", "b.example", "x9.a.example", "x9.b.example"].map(|n| (TroubleKind::Lookup, n));
    assert_eq!(names, want);
    assert_eq!((dials.known_count, world.notes.len()), (0, 1), "one line for all: {:?}", world.notes);
    world.hub.resolved("x9.a.example", &["30.1.7.7:18444".parse().unwrap()], now);
    assert!(facts(&world).dials.troubles.iter().all(|trouble| trouble.subject != "x9.a.example"), "it has one now");
}

#[test]
fn peers_are_counted_by_what_they_gave() {
    let chain = served(400);
    let mut world = World::new(Chain::new(), &["5.5.5.5:18444", "6.6.6.6:18444", "7.7.7.7:18444"]);
    world.honest("5.5.5.5:18444", &chain);
    // One never answers getheaders, one not even the version message.
    let chain_too = Arc::clone(&chain);
    world.place("6.6.6.6:18444", move || {
        let bend: Bend = Box::new(|_, message, _| matches!(message, Message::GetHeaders(..)));
        Box::new(Server::bent(Arc::clone(&chain_too), bend))
    });
    world.place("7.7.7.7:18444", || Box::new(Mute(Vec::new())));
    world.sync_to(chain.tip().hash, 20 * S);
    world.run(S);
    let peers = facts(&world).peers;
    assert_eq!((peers.connected_count, peers.handshaked_count, peers.headers_count), (3, 2, 1));
    assert_eq!((peers.serving_count, peers.pruned_count, peers.are_all_pruned()), (2, 0, false));
    let best = peers.best.expect("one told its chain");
    assert_eq!((best.height, best.work, best.is_below_minimum), (Height::new(400), chain.tip().work, false));
    assert_eq!(facts(&world).waits_for, None, "all is there");
}

#[test]
fn a_peer_that_never_shakes_hands_is_one_line_and_a_count() {
    let mut world = World::new(Chain::new(), &[NAMED]);
    let chain = served(5);
    let chain_too = Arc::clone(&chain);
    world.place(NAMED, move || {
        let mut server = Server::new(Arc::clone(&chain_too));
        server.closed = true;
        Box::new(server)
    });
    world.run(300 * S);
    let troubles = facts(&world).dials.troubles;
    let [trouble] = &troubles[..] else { panic!("one: {troubles:?}") };
    assert_eq!((trouble.kind, trouble.subject.as_str()), (TroubleKind::NoHandshake, NAMED));
    assert!(trouble.count >= 6 && trouble.why == "closed by the peer", "{trouble:?}");
    assert_eq!(world.gone.len(), 1, "one line: {:?}", world.gone);
    world.honest(NAMED, &chain);
    world.sync_to(chain.tip().hash, 70 * S);
    assert_eq!(facts(&world).dials.troubles, []);
}

/// A pruned peer and no other: which block nobody has, and from where on the peer has them.
#[test]
fn pruned_peers_say_from_which_height_they_serve() {
    let chain = served(400);
    let mut world = World::new(Chain::new(), &[NAMED]);
    let chain_too = Arc::clone(&chain);
    world.place(NAMED, move || {
        let mut server = Server::new(Arc::clone(&chain_too));
        server.services = services::NETWORK_LIMITED | services::WITNESS;
        Box::new(server)
    });
    world.run(10 * S);
    let facts = facts(&world);
    assert!(facts.peers.are_all_pruned(), "{facts:?}");
    assert_eq!(facts.peers.pruned_from, Some(Height::new(400 - 285)));
    let wait = facts.waits_for.expect("it waits for block 1");
    assert_eq!((wait.want.height, wait.peer), (Height::new(1), None));
    assert!((5 * S..11 * S).contains(&wait.time), "{:?}", wait.time);
}

/// Whether the chain is told in one message, or is long enough for the sync of headers that have little work.
#[test]
fn chains_below_minimum_work_are_told() {
    for count in [30, 2100] {
        let chain = Arc::new(Chain::new());
        let made = made_on(&chain.best_header(), count, 1, 0);
        chain.extend(&made);
        let mut world = World::new(Chain::with_minimum(5000), &[NAMED]);
        world.honest(NAMED, &chain);
        world.run(5 * S);
        let peers = facts(&world).peers;
        let best = peers.best.expect("it told its chain");
        assert_eq!((best.height, best.work), (chain.tip().height, chain.tip().work), "{count}");
        assert!(best.is_below_minimum && peers.headers_count == 1, "{count}");
    }
}

#[test]
fn a_block_that_is_waited_for_has_a_peer_and_a_time() {
    let chain = served(60);
    let config =
        Config { outbound: Outbound::Only(vec![NAMED.to_owned()]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    let chain_too = Arc::clone(&chain);
    world.place(NAMED, move || {
        let bend: Bend = Box::new(|_, message, _| matches!(message, Message::GetData(_)));
        Box::new(Server::bent(Arc::clone(&chain_too), bend))
    });
    world.run(30 * S);
    let wait = facts(&world).waits_for.expect("it waits");
    assert_eq!((wait.want.height, wait.peer.map(|(_, address)| address)), (Height::new(1), Some(NAMED.to_owned())));
    assert!((25 * S..31 * S).contains(&wait.time), "{:?}", wait.time);
}

/// Core's rpc_net.py, which adds addresses with -cjdnsreachable.
#[test]
fn addresses_of_fc00_are_those_of_cjdns_where_that_is_reachable() {
    const CJDNS: Option<u8> = Some(6);
    let peer = PeerAddress { address: NetAddress::parse("fc00:1:2:3:4:5:6:7").unwrap(), port: 8333 };
    for (row, cjdns, want, want_count) in [("with", true, Added::Yes, 1), ("without", false, Added::No, 0)] {
        let mut world = World::with_config(Chain::new(), Config { cjdns, ..Config::new(NETWORK) });
        let now = world.now();
        assert_eq!(world.hub.add_address(peer, false, now), want, "{row}");
        let counts = world.hub.address_counts();
        let new = counts.of.iter().find(|(network, ..)| *network == CJDNS).map(|(_, new, _)| *new);
        assert_eq!(new, Some(want_count), "{row}");
    }
}
