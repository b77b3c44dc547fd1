//! Peers that ask and do not read: what waits for them is bounded, and nothing of it is lost.

use super::world::*;
use crate::api::{Config, Outbound, PeerId};
use crate::chain::{ChainView as _, HEADERS_COUNT_MAX};
use crate::hub::serving::memory::{UNFINISHED_BYTES_MAX, UNREAD_TIMEOUT};
use crate::hub::serving::room::{SEND_TOTAL_BYTES_MAX, SERVE_BYTES_MAX};
use crate::hub::{Action, ReadRequest};
use crate::peer::SEND_PAUSE_BYTES;
use crate::reason::Reason;
use crate::sim::{Chain, made_on};
use crate::time::Now;
use crate::wire::{Command, Inventory, Message, PAYLOAD_BYTES_MAX, Version, frame_v1, services};
use primitives::BlockHash;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
/// An answer of 2,000 headers.
const ANSWER_BYTES: usize = HEADERS_COUNT_MAX * 81 + 27;
const ASKED_COUNT: usize = 40;

/// Asks for headers again and again, and reads nothing until `reads` is set.
struct Greedy {
    server: Server,
    greeted: bool,
    genesis: BlockHash,
    reads: Rc<Cell<bool>>,
}

impl Far for Greedy {
    fn receive(&mut self, bytes: &[u8], now: Now) {
        self.server.receive(bytes, now);
    }
    fn take(&mut self, now: Now) -> Vec<u8> {
        if !std::mem::replace(&mut self.greeted, true) {
            let version = Version {
                version: 70016,
                services: services::NETWORK | services::WITNESS,
                time: now.unix as i64,
                nonce: 1,
                agent: Vec::new(),
                height: 0,
                relay: false,
            };
            self.server.send(&Message::Version(version));
            self.server.send(&Message::Verack);
            for _ in 0..ASKED_COUNT {
                self.server.send(&Message::GetHeaders(vec![self.genesis], BlockHash::ZERO));
            }
        }
        self.server.take(now)
    }
    fn is_reading(&self, now: Now) -> bool {
        self.reads.get() || now.since_start < S / 10
    }
}

#[test]
fn send_queues_of_peers_that_do_not_read_are_bounded() {
    for (row, inbound, count, limit) in [
        ("outbound", false, 2, 2 * (SEND_PAUSE_BYTES + ANSWER_BYTES)),
        ("inbound", true, 24, 24 * (SEND_PAUSE_BYTES + ANSWER_BYTES)),
        ("more than all queues may hold", true, 60, SEND_TOTAL_BYTES_MAX + 60 * ANSWER_BYTES),
    ] {
        let made = made_on(&Chain::new().best_header(), HEADERS_COUNT_MAX, 1, 0);
        let names: Vec<String> = (0..count).map(|i| format!("1.{i}.1.1:18444")).collect();
        let outbound = if inbound { Vec::new() } else { names.clone() };
        let config = Config {
            outbound: Outbound::Only(outbound),
            inbound_count_max: 100,
            v2transport: false,
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::having(&made), config);
        let genesis = Chain::new().best_header().hash;
        let (reads, answers) = (Rc::new(Cell::new(false)), Rc::new(RefCell::new(0)));
        let (reads_too, answers_too) = (Rc::clone(&reads), Rc::clone(&answers));
        let make = move || -> Box<dyn Far> {
            let log = Rc::clone(&answers_too);
            let bend: Bend = Box::new(move |_, message, _| {
                if let Message::Headers(headers) = message {
                    assert_eq!(headers.len(), HEADERS_COUNT_MAX);
                    *log.borrow_mut() += 1;
                }
                matches!(message, Message::Version(_))
            });
            let server = Server::bent(std::sync::Arc::new(Chain::new()), bend);
            Box::new(Greedy { server, greeted: false, genesis, reads: Rc::clone(&reads_too) })
        };
        for name in &names {
            if inbound {
                world.connect_inbound(name, make()).unwrap();
            } else {
                let make = make.clone();
                world.place(name, make);
            }
        }
        world.run(5 * S);
        assert_eq!(world.gone, [], "{row}");
        assert!((count * SEND_PAUSE_BYTES / 2..limit).contains(&world.queued_max), "{row}: {}", world.queued_max);
        // Nothing is lost: who reads at last gets every answer, and what was queued is freed.
        if count < 24 {
            let before = *answers.borrow();
            reads.set(true);
            world.run(S);
            assert_eq!(*answers.borrow(), count * ASKED_COUNT, "{row}: {before} before");
            assert_eq!(world.queued_bytes(), 0, "{row}");
        }
        assert_eq!(world.chain.tip().height.to_usize(), HEADERS_COUNT_MAX);
    }
}

/// A peer that connects to us, says `then` after its greeting, and reads only if `reads`.
fn inbound(now: Now, chain: &std::sync::Arc<Chain>, reads: bool, then: impl Fn(&mut Server) + 'static) -> Box<dyn Far> {
    let mut done = false;
    let bend: Bend = Box::new(move |server, message, _| {
        if matches!(message, Message::Verack) && !std::mem::replace(&mut done, true) {
            server.send(&Message::Verack);
            then(server);
            server.reads = reads;
        }
        matches!(message, Message::Version(_))
    });
    let mut server = Server::bent(std::sync::Arc::clone(chain), bend);
    server.greet(now);
    Box::new(server)
}

#[test]
fn unfinished_messages_of_inbound_peers_have_one_bound() {
    let served = std::sync::Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 30, 1, 500)));
    let config =
        Config { outbound: Outbound::Only(vec!["9.9.9.9:18444".into()]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    world.honest("9.9.9.9:18444", &served);
    for i in 0..40 {
        // 3.9 of 4 MB of a block that no one asked for.
        let then = |server: &mut Server| {
            let frame = frame_v1(NETWORK.magic, Command::Block, &vec![7; PAYLOAD_BYTES_MAX]);
            server.raw(frame[..PAYLOAD_BYTES_MAX - 100_000].to_vec());
        };
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), inbound(world.now(), &served, true, then)).unwrap();
        world.run(S / 5);
    }
    world.run(S);
    let bound = UNFINISHED_BYTES_MAX + 2 * PAYLOAD_BYTES_MAX;
    assert!((UNFINISHED_BYTES_MAX..bound).contains(&world.unfinished_max), "{} bytes", world.unfinished_max);
    let given_back = world.gone.iter().filter(|(_, why)| matches!(why, Reason::Unfinished(_))).count();
    assert_eq!((given_back, world.gone.len()), (40 - 16, 24), "sixteen blocks of 4 MB have room");
    assert_eq!(world.chain.tip().hash, served.tip().hash);
}

/// Many that begin at the same moment: the bound is looked at where memory is reserved, and the memory is given back.
#[test]
fn unfinished_messages_that_begin_at_once_have_the_same_bound() {
    let served = std::sync::Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 30, 1, 500)));
    let config =
        Config { outbound: Outbound::Only(vec!["9.9.9.9:18444".into()]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    world.honest("9.9.9.9:18444", &served);
    for i in 0..180 {
        let then = |server: &mut Server| {
            let frame = frame_v1(NETWORK.magic, Command::Block, &vec![7; PAYLOAD_BYTES_MAX]);
            server.raw(frame[..PAYLOAD_BYTES_MAX - 100_000].to_vec());
        };
        world
            .connect_inbound(&format!("{}.{}.1.1", 20 + i % 90, i), inbound(world.now(), &served, true, then))
            .unwrap();
    }
    world.run(2 * S);
    let bound = UNFINISHED_BYTES_MAX + 2 * PAYLOAD_BYTES_MAX;
    assert!((UNFINISHED_BYTES_MAX / 2..bound).contains(&world.unfinished_max), "{} bytes", world.unfinished_max);
    assert!(!world.hub.take_freed(), "it is still held");
    assert_eq!(world.chain.tip().hash, served.tip().hash);
    let now = world.now();
    for id in world.hub.peer_ids() {
        world.hub.closed(id, Reason::Closed, now);
    }
    world.run(S);
    assert!(world.hub.take_freed() && !world.hub.take_freed(), "said once");
}

/// Peers that are asked for small blocks, begin with large ones, and do not end them.
#[test]
fn unfinished_blocks_that_were_asked_for_have_the_same_bound() {
    let shown = std::sync::Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 1500, 1, 0)));
    let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    for i in 0..40 {
        let bend: Bend = Box::new(|server, message, _| {
            match message {
                Message::Version(_) => server.send(&Message::Verack),
                Message::GetData(_) if server.left.is_none() => {
                    server.raw(frame_v1(NETWORK.magic, Command::Block, &vec![7; PAYLOAD_BYTES_MAX]));
                    server.left = Some(PAYLOAD_BYTES_MAX - 100_000);
                }
                _ => return false,
            }
            true
        });
        let mut server = Server::bent(std::sync::Arc::clone(&shown), bend);
        server.greet(world.now());
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), Box::new(server)).unwrap();
    }
    world.run(20 * S);
    let given_back = world.gone.iter().filter(|(_, why)| matches!(why, Reason::Unfinished(_))).count();
    assert!(given_back >= 20, "sixteen have room: {:?}", world.gone);
    assert!(world.unfinished_bytes() <= UNFINISHED_BYTES_MAX, "{}", world.unfinished_bytes());
}

#[test]
fn peers_that_read_nothing_give_full_queues_back() {
    let made = made_on(&Chain::new().best_header(), HEADERS_COUNT_MAX, 1, 0);
    let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::having(&made), config);
    let (genesis, empty) = (Chain::new().best_header().hash, std::sync::Arc::new(Chain::new()));
    let asks = move |server: &mut Server| {
        (0..ASKED_COUNT).for_each(|_| server.send(&Message::GetHeaders(vec![genesis], BlockHash::ZERO)));
    };
    for i in 0..60 {
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), inbound(world.now(), &empty, false, asks)).unwrap();
    }
    world.run(S);
    assert!(world.queued_bytes() >= SEND_TOTAL_BYTES_MAX, "{} bytes", world.queued_bytes());
    // One that reads is answered all the same.
    world.connect_inbound("99.1.1.1", inbound(world.now(), &empty, true, asks)).unwrap();
    world.run(UNREAD_TIMEOUT - 3 * S);
    assert_eq!(world.gone, [], "they may be slow");
    world.run(5 * S);
    assert!(world.queued_bytes() < SEND_TOTAL_BYTES_MAX, "{} bytes", world.queued_bytes());
    assert!(world.gone.iter().all(|(_, why)| *why == Reason::SendTimeout(UNREAD_TIMEOUT)), "{:?}", world.gone);
    assert!((20..40).contains(&world.gone.len()), "as many as it takes: {}", world.gone.len());
    assert_eq!(world.reason("99.1.1.1:1"), None);
}

/// Counts what it is sent; one that `sips` takes one write of it each four seconds.
struct Taker {
    server: Server,
    sips: bool,
    received_bytes: Rc<Cell<usize>>,
}

impl Far for Taker {
    fn receive(&mut self, bytes: &[u8], now: Now) {
        self.received_bytes.set(self.received_bytes.get() + bytes.len());
        self.server.receive(bytes, now);
    }
    fn take(&mut self, now: Now) -> Vec<u8> {
        self.server.take(now)
    }
    fn is_reading(&self, now: Now) -> bool {
        !self.sips || now.since_start.as_millis() % 4000 < STEP.as_millis()
    }
}

/// Blocks are larger than what waits before a peer is answered no more: they have a bound of their own, and who takes next to
/// nothing does not keep them from others for long.
#[test]
fn blocks_for_peers_that_read_little_have_one_bound() {
    const BLOCK_BYTES: usize = 3_900_000;
    let made = made_on(&Chain::new().best_header(), 8, 1, BLOCK_BYTES);
    let config = Config { outbound: Outbound::Only(vec![]), v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::having(&made), config);
    let empty = std::sync::Arc::new(Chain::new());
    let hashes: Vec<_> = made.headers.iter().map(|header| Inventory::WitnessBlock(header.hash())).collect();
    let taker = |now: Now, sips: bool, received_bytes: &Rc<Cell<usize>>| -> Box<dyn Far> {
        let (hashes, mut has_asked) = (hashes.clone(), false);
        let bend: Bend = Box::new(move |server, message, _| {
            if matches!(message, Message::Verack) && !std::mem::replace(&mut has_asked, true) {
                server.send(&Message::Verack);
                server.send(&Message::GetData(hashes.clone()));
            }
            matches!(message, Message::Version(_))
        });
        let mut server = Server::bent(std::sync::Arc::clone(&empty), bend);
        server.greet(now);
        Box::new(Taker { server, sips, received_bytes: Rc::clone(received_bytes) })
    };
    for i in 0..60 {
        world.connect_inbound(&format!("{}.1.1.1", 20 + i), taker(world.now(), true, &Rc::default())).unwrap();
    }
    world.run(10 * S);
    let bounds = SERVE_BYTES_MAX / 2..SERVE_BYTES_MAX + 61 * 100;
    assert!(bounds.contains(&world.queued_max), "{} bytes", world.queued_max);
    let received_bytes = Rc::default();
    world.connect_inbound("99.1.1.1", taker(world.now(), false, &received_bytes)).unwrap();
    let is_given = world.run_until(60 * S, |_| received_bytes.get() > hashes.len() * BLOCK_BYTES);
    assert!(is_given, "{} bytes; {:?}", received_bytes.get(), world.gone);
    assert!(bounds.contains(&world.queued_max), "{} bytes", world.queued_max);
    assert!(!world.gone.is_empty() && world.reason("99.1.1.1:1").is_none());
    assert!(world.gone.iter().all(|(_, why)| matches!(why, Reason::TakesLeast { .. })), "{:?}", world.gone);
}

/// Reading and sending overlap: what follows is asked of the reader before what was read is encrypted and queued.
#[test]
fn blocks_are_read_ahead_of_an_answer_where_little_waits() {
    let made = made_on(&Chain::new().best_header(), 40, 1, 100_000);
    let config = Config { outbound: Outbound::Only(vec![]), ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::having(&made), config);
    let empty = std::sync::Arc::new(Chain::new());
    let id = world.connect_inbound("4.4.4.4", inbound(world.now(), &empty, false, |_| ())).unwrap();
    world.run(S);
    let asked = made.headers.iter().map(|header| Inventory::WitnessBlock(header.hash()));
    world.hub.serving.on_get_data(id, asked.collect());
    let now = world.now();
    world.hub.tick(now);
    let mut reads = Vec::new();
    for wants_next in [true, false] {
        reads.extend(read_requests(&mut world));
        let request = reads.pop().expect("one is being read");
        assert!(reads.is_empty(), "one at a time");
        let served = request.read(&*world.chain);
        world.hub.read_ahead(id, &served);
        reads.extend(read_requests(&mut world));
        assert_eq!(reads.len(), usize::from(wants_next), "the second answer finds the first one waiting");
        world.hub.served(id, served, now);
    }
    assert!(read_requests(&mut world).is_empty(), "so much waits that nothing more is read");
    let peer = world.hub.peer_mut(id).unwrap();
    assert!((2_000_000..2_200_000).contains(&peer.transport.out_bytes()), "{}", peer.transport.out_bytes());
    let waits = peer.transport.to_send().len();
    assert_eq!(world.hub.serving.waiting(id), (20, false));
    // Who takes them is read for again.
    (0..20).for_each(|_| sent_one(&mut world, id));
    assert!(waits > 0 && world.hub.serving.waiting(id).1);
}

fn read_requests(world: &mut World) -> Vec<ReadRequest> {
    let actions = std::iter::from_fn(|| world.hub.next_action());
    let reads = actions.filter_map(|action| match action {
        Action::Read { request, .. } => Some(request),
        _ => None,
    });
    reads.collect()
}

fn sent_one(world: &mut World, id: PeerId) {
    let now = world.now();
    let bytes = world.hub.peer(id).unwrap().transport.to_send().len();
    world.hub.sent(id, bytes, now);
}

/// What came and was not looked at has a bound of its own, and a node that takes its time is no fault of the peer.
#[test]
fn no_more_blocks_are_read_than_the_node_looks_at() {
    const BLOCK_BYTES: usize = 100_000;
    let served = std::sync::Arc::new(Chain::having(&made_on(&Chain::new().best_header(), 150, 1, BLOCK_BYTES)));
    let window_bytes = 8_000_000;
    let outbound = Outbound::Only(vec!["5.5.5.5:18444".into()]);
    let config = Config { outbound, window_bytes, v2transport: false, ..Config::new(NETWORK) };
    let mut world = World::with_config(Chain::new(), config);
    world.looks_for = 2 * S;
    world.honest("5.5.5.5:18444", &served);
    let most = Cell::new(0);
    let is_done = world.run_until(60 * S, |world| {
        most.set(most.get().max(world.looked_at.len()));
        world.chain.tip().hash == served.tip().hash && world.looked_at.is_empty()
    });
    assert!(is_done, "{:?}", world.hub.progress());
    let bound = window_bytes / 4 / BLOCK_BYTES;
    assert!((bound..bound + 3).contains(&most.get()), "{} blocks were not looked at", most.get());
    assert_eq!(world.gone, []);
}
