//! Hostile peers of every kind beside an honest one: inbound and outbound, v1 and v2. What must come of each is in its row
//! (`kinds.rs`); docs/peers.md shows the table.

use super::kinds::*;
use super::more_kinds::MORE;
use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::ChainView as _;
use crate::hub::header_sync::quota::{AHEAD_COUNT_MAX, Holder};
use crate::rng::Rng;
use crate::sim::{Chain, Made, made_on, mine};
use crate::transport::Transport;
use crate::wire::{Message, NetAddress, Target, services};
use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const BAD: &str = "1.1.1.1:18444";
const GOOD: &str = "2.2.2.2:18444";

/// One peer of a row beside an honest one; what came of it. Gives seconds until the honest chain was whole, and bytes held.
fn play(row: &Row, inbound: bool, v2: bool) -> (f64, usize) {
    let name = row.name;
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
    let (chain, row) = (Arc::clone(&served), *row);
    if inbound {
        let mut server = Server::new(chain);
        if v2 {
            server.transport = Transport::v2_initiator(NETWORK.magic, &mut Rng::Seeded(6));
        }
        let said = (row.hello)(&mut server, world.now());
        server.bend = row.answers(Some(said));
        world.connect_inbound(BAD, Box::new(server)).unwrap();
    } else {
        world.place(BAD, move || {
            let mut server = Server::bent(Arc::clone(&chain), row.answers(None));
            server.transport = responder();
            Box::new(server)
        });
    }
    let tip = served.tip().hash;
    let is_whole = |world: &World| world.chain.header(&tip).is_some() && has_all(world, &served);
    let whole = world.run_until(Duration::from_secs(row.within_s), is_whole);
    assert!(whole, "{label}: at height {}; {:?}", world.chain.tip().height, world.gone);
    let time = world.time.as_secs_f64();
    let want = if inbound { row.inbound } else { row.outbound };
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
    let bytes = world.queued_max + world.unfinished_max + world.held_max;
    assert!(bytes <= row.bytes_max, "{label}: {bytes} bytes were held");
    assert!(!world.chain.header(&tip).unwrap().invalid, "{label}");
    (time, bytes)
}

/// Whether every block of the honest chain came.
fn has_all(world: &World, served: &Chain) -> bool {
    world.chain.wanted_up_to(&served.tip().hash, 1).is_empty()
}

fn all_rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(MORE)
}

fn play_all(inbound: bool, v2: bool) {
    let mut failed = Vec::new();
    for row in all_rows().filter(|row| row.transports[usize::from(v2)]) {
        match std::panic::catch_unwind(|| play(row, inbound, v2)) {
            Ok((time, bytes)) => println!("{time:7.2} s {bytes:>9} bytes  {}", row.name),
            Err(_) => failed.push(row.name),
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
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

/// Names with what is expected, as docs/peers.md shows them; those of `interop/hostile.py` too.
#[test]
fn every_kind_of_peer_is_in_the_page() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/peers.md")).unwrap();
    let missing: Vec<_> =
        all_rows().map(|row| row.name).filter(|name| !page.contains(&format!("| {name} |"))).collect();
    assert!(missing.is_empty(), "{missing:#?}");
    let script = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../interop/hostile.py")).unwrap();
    let played: Vec<_> =
        script.lines().filter_map(|line| line.trim().strip_prefix("Kind(\"")?.split('"').next()).collect();
    let unplayed: Vec<_> = all_rows().map(|row| row.name).filter(|name| !played.contains(name)).collect();
    assert!(unplayed.is_empty(), "not over sockets: {unplayed:#?}");
    let unknown: Vec<_> = played.iter().filter(|name| !page.contains(&format!("| {name} |"))).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    let count = all_rows().count();
    let names: HashSet<_> = all_rows().map(|row| row.name).collect();
    assert_eq!(names.len(), count, "each once");
    let peers: usize = all_rows().map(|row| 2 * row.transports.iter().filter(|plays| **plays).count()).sum();
    assert!(page.contains(&format!("{count} kinds, {peers} peers in all")), "{count} kinds, {peers} peers");
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

/// A chain that no peer can be asked for is no reason to wait: of a peer that serves no blocks, or keeps the last ones alone.
#[test]
fn chain_of_a_peer_that_cannot_give_it_does_not_hold_up_the_end() {
    static FORK: OnceLock<Made> = OnceLock::new();
    let fork = || FORK.get_or_init(|| made_on(&genesis(), 400, 12, 0));
    for (row, offered, within) in [
        ("nothing", 0, 10 * S),
        ("no witnesses", services::NETWORK, 10 * S),
        ("no blocks", services::WITNESS, 10 * S),
        ("the last blocks", services::NETWORK_LIMITED | services::WITNESS, 120 * S),
    ] {
        let served = Arc::new(Chain::having(honest()));
        let mut world = World::new(Chain::new(), &[BAD, GOOD]);
        world.honest(GOOD, &served);
        world.place(BAD, move || {
            let mut server = Server::bent(Arc::new(Chain::new()), shows(fork(), 0));
            server.services = offered;
            Box::new(server)
        });
        let tip = served.tip().hash;
        let is_end = |world: &World| {
            let progress = world.hub.progress();
            let is_claim = progress.best_claim.is_some_and(|claim| claim.hash == tip);
            progress.headers_done && is_claim && world.chain.tip().hash == tip
        };
        assert!(world.run_until(within, is_end), "{row}: {:?}", world.hub.progress());
        assert_eq!(world.reason(BAD), None, "{row}: a named peer is kept");
    }
}

/// Headers that were kept because of their time count for the bound of headers ahead of the tip, as others do.
#[test]
fn future_headers_count_as_headers_ahead() {
    for (row, before, is_taken) in [("room for one", AHEAD_COUNT_MAX - 1, true), ("no room", AHEAD_COUNT_MAX, false)] {
        let served = Arc::new(Chain::having(honest()));
        let header = mine(&served.tip(), b"late", (START_UNIX + 7200 + 30) as u32);
        let mut world = World::new(Chain::new(), &[GOOD]);
        let chain = Arc::clone(&served);
        world.place(GOOD, move || {
            let mut shown = shows(honest(), usize::MAX);
            Box::new(Server::bent(
                Arc::clone(&chain),
                Box::new(move |server, message, now| {
                    let is_dealt_with = shown(server, message, now);
                    if matches!(message, Message::GetHeaders(..)) {
                        server.send(&Message::Headers(vec![header]));
                    }
                    is_dealt_with
                }),
            ))
        });
        world.sync_to(served.tip().hash, 5 * S);
        assert!(
            world.run_until(20 * S, |world| world.notes.iter().any(|note| note.contains("kept for later"))),
            "{row}"
        );
        world.hub.headers.note_new(Holder::Manual(0), before);
        world.run(40 * S);
        assert_eq!(world.chain.header(&header.hash()).is_some(), is_taken, "{row}");
        assert!(world.hub.headers.is_far_ahead(&world.hub.context, Holder::Manual(0)), "{row}");
    }
}

/// Inbound peers of one network group that are as far ahead of the tip as they may be keep no others' headers out.
#[test]
fn headers_of_one_group_keep_no_other_chain_out() {
    for (groups, is_whole) in [(0, true), (1, true), (3, true), (4, false)] {
        let served = Arc::new(Chain::having(honest()));
        let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
        let mut world = World::with_config(Chain::new(), config);
        for number in 0..groups {
            let group = NetAddress::V4([31 + number, 1, 2, 3]).group();
            world.hub.headers.note_new(Holder::Inbound(group), AHEAD_COUNT_MAX / 4);
        }
        let mut server = Server::new(Arc::clone(&served));
        server.greet(world.now());
        world.connect_inbound("77.7.7.7", Box::new(server)).unwrap();
        world.run(5 * S);
        assert_eq!(world.chain.tip().hash == served.tip().hash, is_whole, "{groups} groups");
    }
}

/// A burst of connections of few networks takes no place of peers that are there.
#[test]
fn burst_of_connections_evicts_its_own() {
    let served = Arc::new(Chain::having(honest()));
    let config =
        Config { outbound: Outbound::Only(vec![]), inbound_count_max: 60, v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    for i in 0..40 {
        let mut server = Server::new(Arc::clone(&served));
        server.greet(world.now());
        world.connect_inbound(&format!("{}.2.3.4", 20 + i), Box::new(server)).unwrap();
        world.run(Duration::from_millis(100));
    }
    let taken =
        (0..120).filter(|i| world.connect_inbound(&format!("100.{}.0.{i}", i % 3), Box::new(Mute(vec![]))).is_some());
    assert!(taken.count() > 100);
    let of_peers: Vec<_> = world.gone.iter().filter(|(address, _)| address.contains(".2.3.4:")).collect();
    assert!(of_peers.is_empty(), "{of_peers:?}");
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

/// One address takes a quarter of the places at most, one network group half, and neither keeps others out. Peers of the
/// user's own network, and those with `noban`, are not counted; where these have all places, others find none.
#[test]
fn places_of_an_address_and_of_a_network_group_are_limited() {
    const PLACES: usize = 60;
    type Address = fn(usize) -> String;
    for (row, address, taken, others_may) in [
        ("one address", (|_| "8.1.2.3".to_owned()) as Address, PLACES / 4, true),
        ("one IPv6 address", |_| "[2a01:4f8::1]".to_owned(), PLACES / 4, true),
        ("a /16 of IPv4", |i| format!("8.1.{}.{i}", i % 7), PLACES / 2, true),
        ("a /32 of IPv6", |i| format!("[2a01:4f8:{:x}::{i:x}]", i + 1), PLACES / 2, true),
        ("three addresses of a /16", |i| format!("8.1.0.{}", i % 3), PLACES / 2, true),
        ("three addresses of other groups", |i| format!("8.{}.0.1", i % 3), 3 * PLACES / 4, true),
        ("two network groups", |i| format!("8.{}.0.{i}", i % 2), PLACES, true),
        ("one address of a local network", |_| "192.168.1.5".to_owned(), PLACES, true),
        ("this machine", |_| "127.0.0.1".to_owned(), PLACES, true),
        ("one address with noban", |_| "9.9.9.9".to_owned(), PLACES, false),
    ] {
        let config = Config {
            outbound: Outbound::Only(vec![]),
            inbound_count_max: PLACES,
            v2transport: false,
            whitelist: vec![crate::permissions::PermittedNet::parse("noban,in@9.9.9.9").unwrap()],
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::new(), config);
        let mut connect = |address: &str| world.connect_inbound(address, Box::new(Mute(vec![]))).is_some();
        let places = (0..PLACES).filter(|&i| connect(&address(i))).count();
        assert_eq!(places, taken, "{row}");
        assert_eq!(connect("77.7.7.7"), others_may, "{row}");
        world.act();
        assert_eq!(world.gone.len(), usize::from(taken == PLACES && others_may), "{row}: {:?}", world.gone);
    }
}

/// An address that misbehaved does not get the last place, and no other one's; with `noban` it does.
#[test]
fn who_misbehaved_does_not_get_the_last_place() {
    for (permitted, may) in [("noban,in@9.9.9.8", false), ("noban,in@9.9.9.9", true)] {
        let config = Config {
            outbound: Outbound::Only(vec![]),
            inbound_count_max: 3,
            v2transport: false,
            whitelist: vec![crate::permissions::PermittedNet::parse(permitted).unwrap()],
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::new(), config);
        let unix = world.now().unix;
        world.hub.context.discouraged.add(NetAddress::V4([9, 9, 9, 9]), unix);
        let mut connect = |address: &str| world.connect_inbound(address, Box::new(Mute(vec![]))).is_some();
        assert!(connect("8.1.1.1") && connect("8.2.1.1"));
        assert_eq!(connect("9.9.9.9"), may, "{permitted}: one place is left");
        assert_eq!(connect("8.3.1.1"), !may, "{permitted}: the last place");
        assert!(!connect("9.9.9.7") && !connect("9.9.9.9"), "{permitted}: all may yet shake hands");
    }
}

/// A peer of this machine may be one of many behind a Tor service: its address is not left alone because it misbehaved.
#[test]
fn this_machine_is_not_discouraged() {
    for (address, is_discouraged) in
        [("127.0.0.1", false), ("127.3.2.1", false), ("[::1]", false), ("8.1.1.1", true), ("192.168.1.5", true)]
    {
        let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
        let mut world = World::with_config(Chain::new(), config);
        let noise = Box::new(Mute(b"this is no message of the protocol".to_vec()));
        world.connect_inbound(address, noise).unwrap();
        world.run(S);
        assert!(world.gone.len() == 1 && world.gone[0].1.is_offence(), "{address}: {:?}", world.gone);
        let Ok(Target::Peer(remote)) = Target::parse(address, 1) else { panic!("{address} is an address") };
        let unix = world.now().unix;
        assert_eq!(world.hub.context.discouraged.has(&remote.address, unix), is_discouraged, "{address}");
    }
}

/// All peers of a Tor service have the address of its local end, which a whitelist may name for other programs.
#[test]
fn whitelist_gives_nothing_to_peers_of_a_tor_service() {
    let config = Config {
        outbound: Outbound::Only(vec![]),
        whitelist: vec![crate::permissions::PermittedNet::parse("noban,in@127.0.0.1").unwrap()],
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    let remote = crate::wire::PeerAddress { address: NetAddress::V4([127, 0, 0, 1]), port: 4000 };
    let now = world.now();
    let through_tor = world.hub.accepted_from_onion(remote, now).unwrap();
    let local = world.hub.accepted(remote, now).unwrap();
    let is_noban = |id| world.hub.peer(id).unwrap().is_noban();
    assert_eq!((is_noban(through_tor), is_noban(local)), (false, true));
}

/// What permissions are worth: a misbehaving peer is kept, keeps its place, and is told headers below minimum work.
#[test]
fn noban_peers_are_not_punished_nor_evicted() {
    let row = |name: &str| *ROWS.iter().find(|row| row.name == name).unwrap();
    let given = |text: &str| crate::permissions::PermittedNet::parse(text).unwrap();
    for (name, permitted, is_kept) in [
        ("sends blocks with a wrong body", "noban,out@1.1.1.1", true),
        ("has a header of the wrong difficulty", "noban,out@1.1.1.0/24", true),
        ("sends 2,001 headers", "noban,out@1.1.1.1", true),
        ("sends blocks with a wrong body", "noban,in@1.1.1.1", false),
        ("sends blocks with a wrong body", "addr,download,out@1.1.1.1", false),
        ("sends sendaddrv2 after verack", "noban,out@1.1.1.1", false),
    ] {
        let served = Arc::new(Chain::having(honest()));
        let config = Config {
            outbound: Outbound::Only(vec![BAD.to_owned(), GOOD.to_owned()]),
            v2transport: false,
            whitelist: vec![given(permitted)],
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::new(), config);
        world.honest(GOOD, &served);
        let (chain, bad) = (Arc::clone(&served), row(name));
        world.place(BAD, move || Box::new(Server::bent(Arc::clone(&chain), bad.answers(None))));
        world.sync_to(served.tip().hash, 10 * S);
        world.run(2 * S);
        assert_eq!(world.reason(BAD).is_none(), is_kept, "{name}, {permitted}: {:?}", world.gone);
        assert_eq!(world.notes.iter().any(|note| note.contains("noban")), is_kept, "{name}: {:?}", world.notes);
        assert!(world.notes.len() < 100, "{name}: it is not asked in a loop: {}", world.notes.len());
    }
    // A place of its own: of three, one is kept by noban, half-open though it is.
    let config = Config {
        outbound: Outbound::Only(vec![]),
        inbound_count_max: 3,
        whitelist: vec![given("7.7.7.7")],
        ..Config::new(NETWORK)
    };
    let mut world = World::with_config(Chain::new(), config);
    world.connect_inbound("7.7.7.7", Box::new(Mute(vec![]))).unwrap();
    for i in 0..20 {
        world.run(2 * S);
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), Box::new(Mute(vec![])));
    }
    assert!(world.reason("7.7.7.7:1").is_none() && world.gone.len() > 10, "{:?}", world.gone);
}
