//! UTXO sets in chunks (BIP 452) in the simulated network: served by another hub, fetched from several, and from peers
//! that lie, stall, cut and flood.

use super::world::*;
use crate::api::{Config, Outbound, PeerId};
use crate::chain::ChainView as _;
use crate::hub::set_download::{ANSWER_TIMEOUT, HEDGE_DELAY, TREE_GRACE};
use crate::permissions::PermittedNet;
use crate::reason::Reason;
use crate::rng::Rng;
use crate::set_exchange::{SetExchange, WINDOW_COUNT};
use crate::sim::{Chain, made_on};
use crate::time::Now;
use crate::utxo_sets::{CHUNK_BYTES, ChunkTree, FEATURE, SetSource, chunk_payload_head};
use crate::wire::{Command, Message, Version, services};
use primitives::{BlockHash, Hash256};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const BASE: BlockHash = BlockHash::from_bytes([4; 32]);
/// Three chunks, the last one short.
const SET_BYTES: usize = 2 * CHUNK_BYTES + 70_001;

/// A set in memory.
#[derive(Debug)]
pub(super) struct Set {
    bytes: Vec<u8>,
    tree: Arc<ChunkTree>,
}

impl Set {
    fn new(salt: u8, bytes: usize) -> Arc<Set> {
        let bytes: Vec<u8> = (0..bytes).map(|at| (at / 4096) as u8 ^ (at as u8) ^ salt).collect();
        let hashes = bytes.chunks(CHUNK_BYTES).map(|chunk| Hash256(kernels::sha256::sha256d(chunk))).collect();
        let tree = Arc::new(ChunkTree { version: 2, bytes: bytes.len() as u64, hashes });
        Arc::new(Set { bytes, tree })
    }

    fn chunk(&self, index: u32) -> &[u8] {
        self.bytes.chunks(CHUNK_BYTES).nth(index as usize).unwrap_or_default()
    }
}

impl SetSource for Set {
    fn bases(&self) -> Vec<BlockHash> {
        vec![BASE]
    }

    fn tree(&self, base: &BlockHash) -> Option<Arc<ChunkTree>> {
        (*base == BASE).then(|| Arc::clone(&self.tree))
    }

    fn read(&self, base: &BlockHash, offset: u64, out: &mut [u8]) -> bool {
        let found = self.bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
        found.filter(|_| *base == BASE).map(|bytes| out.copy_from_slice(bytes)).is_some()
    }
}

/// What a peer does when it is asked for parts of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Good,
    /// Its tree answers nothing.
    NoTree,
    /// Its tree is right, and it never sends a chunk.
    Stalls,
    /// A chunk with one wrong byte.
    FalseChunk,
    /// A chunk of another length.
    ShortChunk,
    /// Another chunk than the one that it was asked for.
    OtherIndex,
    /// A chunk of another block's set.
    OtherBase,
    /// Each chunk twice.
    Twice,
    /// A tree of another block.
    TreeOfOther,
    /// A tree twice.
    TreeTwice,
    /// A tree that does not parse.
    CutTree,
    /// A tree of no chunk.
    EmptyTree,
    /// A tree and a chunk before anything is asked.
    Unasked,
    /// It closes the connection at the second chunk.
    Closes,
    /// It does not offer the feature, and answers.
    NoFeature,
}

const BAD: [Way; 14] = [
    Way::NoTree,
    Way::Stalls,
    Way::FalseChunk,
    Way::ShortChunk,
    Way::OtherIndex,
    Way::OtherBase,
    Way::Twice,
    Way::TreeOfOther,
    Way::TreeTwice,
    Way::CutTree,
    Way::EmptyTree,
    Way::Unasked,
    Way::Closes,
    Way::NoFeature,
];

fn greet(server: &mut Server, way: Way, now: Now) {
    let version = Version { version: 70017, ..server.version(now) };
    server.send(&Message::Version(version));
    if way != Way::NoFeature {
        server.send(&Message::Feature(Some(FEATURE.to_vec())));
    }
    server.send(&Message::Verack);
}

fn send_chunk(server: &mut Server, base: &BlockHash, index: u32, chunk: &[u8]) {
    let payload = [&chunk_payload_head(base, index, chunk.len())[..], chunk].concat();
    server.transport.send(Command::UtxoSet, &payload);
}

/// A peer that serves a set in its way; it counts the requests for its tree in `trees_asked`.
fn peer(chain: &Arc<Chain>, set: &Arc<Set>, way: Way, trees_asked: &Rc<Cell<usize>>) -> Box<dyn Far> {
    let set = Arc::clone(set);
    let trees_asked = Rc::clone(trees_asked);
    let mut sent = 0;
    let bend = move |server: &mut Server, message: &Message, now: Now| {
        match message {
            Message::Version(_) => greet(server, way, now),
            Message::Verack if way == Way::Unasked => {
                send_chunk(server, &BASE, 0, set.chunk(0));
            }
            Message::GetUtxoTree(base) => {
                trees_asked.set(trees_asked.get() + 1);
                let mut tree = (*set.tree).clone();
                let mut of = *base;
                match way {
                    Way::NoTree => return true,
                    Way::TreeOfOther => of = BlockHash::from_bytes([5; 32]),
                    Way::EmptyTree => tree = ChunkTree { version: 2, bytes: 0, hashes: Vec::new() },
                    _ => {}
                }
                let mut payload = Message::UtxoTree(of, tree).encode().1;
                if way == Way::CutTree {
                    payload.pop();
                }
                server.transport.send(Command::UtxoTree, &payload);
                if way == Way::TreeTwice {
                    server.transport.send(Command::UtxoTree, &payload);
                }
            }
            Message::GetUtxoSet(base, index) => {
                sent += 1;
                let mut chunk = set.chunk(*index).to_vec();
                let mut of = *base;
                let mut at = *index;
                match way {
                    Way::Stalls => return true,
                    Way::FalseChunk => chunk[77] ^= 1,
                    Way::ShortChunk => _ = chunk.pop(),
                    Way::OtherIndex => at += 9,
                    Way::OtherBase => of = BlockHash::from_bytes([5; 32]),
                    Way::Closes if sent > 1 => {
                        server.closed = true;
                        return true;
                    }
                    _ => {}
                }
                send_chunk(server, &of, at, &chunk);
                if way == Way::Twice {
                    send_chunk(server, &of, at, &chunk);
                }
            }
            _ => return false,
        }
        true
    };
    Box::new(Server::bent(Arc::clone(chain), Box::new(bend)))
}

fn address(place: usize) -> String {
    format!("{}.1.1.1:18444", 20 + place)
}

/// A world that wants the set of [`BASE`] from peers of these ways and sets.
fn world(ways: &[(Way, Arc<Set>)]) -> (World, Arc<SetExchange>) {
    let Asking { world, exchange, .. } = asking(ways, Vec::new());
    (world, exchange)
}

/// A world, and how many requests for its tree each peer has had.
struct Asking {
    world: World,
    exchange: Arc<SetExchange>,
    trees_asked: Vec<Rc<Cell<usize>>>,
}

/// Like [`world`], with `-whitelist`.
fn asking(ways: &[(Way, Arc<Set>)], whitelist: Vec<PermittedNet>) -> Asking {
    let exchange = Arc::new(SetExchange::default());
    exchange.want(BASE);
    let connect = (0..ways.len()).map(address).collect();
    let config = Config {
        outbound: Outbound::Only(connect),
        v2transport: false,
        set_exchange: Some(Arc::clone(&exchange)),
        whitelist,
        ..Config::new(NETWORK)
    };
    let made = made_on(&Chain::new().best_header(), 3, 1, 100);
    let far = Arc::new(Chain::having(&made));
    let mut world = World::with_config(Chain::having(&made), config);
    let mut trees_asked = Vec::new();
    for (place, (way, set)) in ways.iter().enumerate() {
        let far = Arc::clone(&far);
        let set = Arc::clone(set);
        let way = *way;
        let asked = Rc::default();
        trees_asked.push(Rc::clone(&asked));
        world.place(&address(place), move || peer(&far, &set, way, &asked));
    }
    Asking { world, exchange, trees_asked }
}

/// Takes chunks as the node does; what was taken within `limit`.
fn take(world: &mut World, exchange: &SetExchange, limit: Duration) -> Vec<u8> {
    let mut out = Vec::new();
    let mut index = 0;
    let end = world.time + limit;
    while world.time < end {
        world.run(Duration::from_millis(5));
        while let Some(chunk) = exchange.take(index, Duration::ZERO) {
            out.extend_from_slice(chunk.bytes());
            index += 1;
        }
        if exchange.bytes().is_some_and(|bytes| bytes == out.len() as u64) {
            break;
        }
    }
    out
}

fn is_offence(reason: Option<&Reason>) -> bool {
    reason.is_some_and(Reason::is_offence)
}

#[test]
fn a_set_comes_from_another_hub_by_both_transports() {
    let set = Set::new(1, SET_BYTES);
    let made = made_on(&Chain::new().best_header(), 3, 1, 100);
    let far = Arc::new(Chain::having(&made));
    for v2 in [false, true] {
        let exchange = Arc::new(SetExchange::default());
        exchange.want(BASE);
        let config = Config {
            outbound: Outbound::Only(vec![address(0)]),
            v2transport: v2,
            set_exchange: Some(Arc::clone(&exchange)),
            ..Config::new(NETWORK)
        };
        let mut world = World::with_config(Chain::having(&made), config);
        let (source, chain) = (Arc::clone(&set), Arc::clone(&far));
        world.place(&address(0), move || Box::new(OtherHub::serving(&chain, v2, Arc::clone(&source) as _)));
        let got = take(&mut world, &exchange, 30 * S);
        assert!(got == set.bytes, "v2 {v2}: {} of {} bytes", got.len(), set.bytes.len());
        assert_eq!(world.reason(&address(0)), None, "v2 {v2}");
        // What it does not serve is not answered, and no offence.
        exchange.want(BlockHash::from_bytes([6; 32]));
        assert_eq!(take(&mut world, &exchange, 2 * S), [0; 0]);
        assert_eq!(world.reason(&address(0)), None, "v2 {v2}");
    }
}

#[test]
fn chunks_come_from_several_peers() {
    let set = Set::new(1, 6 * CHUNK_BYTES);
    let (mut world, exchange) = world(&[(Way::Good, Arc::clone(&set)), (Way::Good, Arc::clone(&set))]);
    for place in 0..2 {
        world.places.get_mut(&address(place)).unwrap().rate = 4e6;
    }
    assert!(take(&mut world, &exchange, 60 * S) == set.bytes);
    let received: Vec<u64> =
        world.hub.peer_ids().into_iter().map(|id| world.hub.peer(id).unwrap().transport.received_bytes()).collect();
    assert!(received.iter().all(|bytes| *bytes >= 2 * CHUNK_BYTES as u64), "each sends a part: {received:?}");
    assert!(received.iter().sum::<u64>() < 7 * CHUNK_BYTES as u64, "no chunk comes twice: {received:?}");
}

/// Each way alone, then beside a good peer.
#[test]
fn peers_that_do_not_send_the_set_are_found_and_others_used() {
    let set = Set::new(1, SET_BYTES);
    for way in BAD {
        let (mut world, exchange) = world(&[(way, Arc::clone(&set)), (Way::Good, Arc::clone(&set))]);
        // A chunk that came twice is no reason to hurry.
        let limit = TREE_GRACE + ANSWER_TIMEOUT + 20 * S;
        let got = take(&mut world, &exchange, limit);
        assert!(got == set.bytes, "{way:?}: {} bytes, gone: {:?}", got.len(), world.gone);
        world.run(S);
        let is_expected = match way {
            Way::NoTree | Way::Stalls | Way::NoFeature | Way::Good => world.reason(&address(0)).is_none(),
            Way::Closes => world.reason(&address(0)).is_none_or(|reason| *reason == Reason::Closed),
            _ => is_offence(world.reason(&address(0))),
        };
        assert!(is_expected, "{way:?}: {:?}", world.gone);
        assert_eq!(world.reason(&address(1)), None, "{way:?}: {:?}", world.gone);
    }
}

#[test]
fn a_stalled_chunk_is_asked_of_another_peer_before_it_times_out() {
    let set = Set::new(1, SET_BYTES);
    let (mut world, exchange) = world(&[(Way::Stalls, Arc::clone(&set)), (Way::Good, Arc::clone(&set))]);
    let got = take(&mut world, &exchange, TREE_GRACE + 2 * HEDGE_DELAY + 5 * S);
    assert!(got == set.bytes, "{} bytes", got.len());
}

/// The root that most offer is taken; when it proves wrong, those who offered it go, and the other one is taken.
#[test]
fn roots_are_voted_on_and_refuted() {
    let good = Set::new(1, SET_BYTES);
    let bad = Set::new(2, SET_BYTES);
    let ways = [(Way::Good, &bad), (Way::Good, &good), (Way::Good, &bad)].map(|(way, set)| (way, Arc::clone(set)));
    let (mut world, exchange) = world(&ways);
    assert!(take(&mut world, &exchange, 30 * S) == bad.bytes, "the set of the most");
    assert!(exchange.refute(), "there is another one");
    assert!(take(&mut world, &exchange, 30 * S) == good.bytes);
    for (place, is_gone) in [true, false, true].into_iter().enumerate() {
        assert_eq!(is_offence(world.reason(&address(place))), is_gone, "{place}: {:?}", world.gone);
    }
    assert!(!exchange.refute(), "no other is left");
}

/// Any peers in any order, at any rate and pace of the reader: the set, in bounded memory, if one of them is good.
#[test]
fn a_good_peer_among_any_others_is_enough() {
    let set = Set::new(1, SET_BYTES);
    for seed in testkit_seeds() {
        let mut rng = Rng::Seeded(seed);
        let count = 1 + rng.below(4);
        let good = rng.below(count + 1);
        let ways: Vec<(Way, Arc<Set>)> = (0..=count)
            .map(|place| {
                let way = BAD[rng.below(BAD.len())];
                (if place == good { Way::Good } else { way }, Arc::clone(&set))
            })
            .collect();
        let (mut world, exchange) = world(&ways);
        for place in 0..=count {
            let far = world.places.get_mut(&address(place)).unwrap();
            far.rate = 1e6 * (1 + rng.below(50)) as f64;
            far.latency = Duration::from_millis(rng.below(300) as u64);
        }
        let got = take(&mut world, &exchange, 3 * ANSWER_TIMEOUT);
        let named: Vec<Way> = ways.iter().map(|(way, _)| *way).collect();
        assert!(got == set.bytes, "seed {seed}, {named:?}: {} bytes, gone: {:?}", got.len(), world.gone);
    }
}

/// Peers with the permission noban stay connected whatever they send: each is asked once for its tree, and the set
/// comes from the good one.
#[test]
fn noban_peers_that_lied_are_not_asked_again_for_their_tree() {
    let good = Set::new(1, SET_BYTES);
    let others = [Set::new(2, SET_BYTES), Set::new(3, CHUNK_BYTES + 500)];
    for seed in testkit_seeds() {
        let mut rng = Rng::Seeded(seed);
        let lies = [Way::Good, Way::FalseChunk, Way::ShortChunk, Way::EmptyTree];
        let mut ways: Vec<(Way, Arc<Set>)> = (0..2 + rng.below(3))
            .map(|_| (lies[rng.below(lies.len())], Arc::clone(&others[rng.below(others.len())])))
            .collect();
        ways.insert(rng.below(ways.len() + 1), (Way::Good, Arc::clone(&good)));
        let named: Vec<(Way, u64)> = ways.iter().map(|(way, set)| (*way, set.tree.bytes)).collect();
        let permitted = vec![PermittedNet::parse("noban,out@0.0.0.0/0").unwrap()];
        let Asking { mut world, exchange, trees_asked } = asking(&ways, permitted);
        let mut got = Vec::new();
        for _ in 0..=others.len() {
            got = take(&mut world, &exchange, 3 * ANSWER_TIMEOUT);
            if got == good.bytes {
                break;
            }
            exchange.refute();
        }
        assert!(got == good.bytes, "seed {seed}, {named:?}: {} bytes, gone: {:?}", got.len(), world.gone);
        world.run(30 * S);
        assert!(world.gone.is_empty(), "seed {seed}, {named:?}: {:?}", world.gone);
        let asked: Vec<usize> = trees_asked.iter().map(|asked| asked.get()).collect();
        assert!(asked.iter().all(|count| *count == 1), "seed {seed}, {named:?}: {asked:?}");
        let told = world.notes.iter().filter(|note| note.contains("noban")).count();
        assert!(told <= 2 * ways.len(), "seed {seed}, {named:?}: {told} notes");
    }
}

fn testkit_seeds() -> std::ops::Range<u64> {
    if std::env::var_os("SLOW").is_some() { 0..200 } else { 0..12 }
}

/// A reader that takes nothing leaves no more than a window in memory.
#[test]
fn a_slow_reader_bounds_what_is_fetched() {
    let set = Set::new(1, (WINDOW_COUNT as usize + 3) * CHUNK_BYTES);
    let (mut world, exchange) = world(&[(Way::Good, Arc::clone(&set))]);
    world.run(10 * S);
    let ids: Vec<PeerId> = world.hub.peer_ids();
    let received = world.hub.peer(ids[0]).unwrap().transport.received_bytes();
    let most = (WINDOW_COUNT as usize * (CHUNK_BYTES + 100) + 100_000) as u64;
    assert!((most - 200_000..most).contains(&received), "{received} bytes");
    assert!(take(&mut world, &exchange, 30 * S) == set.bytes);
}

/// Who asks for more than a few parts, or did not offer the feature, is answered within the bounds and no more.
#[test]
fn requests_are_bounded_and_need_the_feature() {
    let set = Set::new(1, 50_000);
    let config = Config {
        outbound: Outbound::Only(vec![]),
        v2transport: false,
        utxo_sets: Some(Arc::clone(&set) as Arc<dyn SetSource>),
        ..Config::new(NETWORK)
    };
    let made = made_on(&Chain::new().best_header(), 3, 1, 100);
    let far = Arc::new(Chain::having(&made));
    for (row, has_feature, want) in [("with", true, 1..=100), ("without", false, 0..=0)] {
        let mut world = World::with_config(Chain::having(&made), config.clone());
        let answers = Rc::new(Cell::new(0_usize));
        let count = Rc::clone(&answers);
        let way = if has_feature { Way::Good } else { Way::NoFeature };
        let bend = move |server: &mut Server, message: &Message, _: Now| {
            match message {
                Message::Version(version) => {
                    assert_eq!(version.services & services::UTXO_SET, 0, "the scheduled sets are not served");
                    if way != Way::NoFeature {
                        server.send(&Message::Feature(Some(FEATURE.to_vec())));
                    }
                    server.send(&Message::Verack);
                }
                Message::Verack => {
                    for index in [0, 1, u32::MAX] {
                        server.send(&Message::GetUtxoSet(BASE, index));
                        server.send(&Message::GetUtxoSet(BlockHash::from_bytes([5; 32]), index));
                    }
                    (0..300).for_each(|_| server.send(&Message::GetUtxoTree(BASE)));
                }
                Message::UtxoTree(base, tree) => {
                    assert_eq!((*base, tree), (BASE, &*set_tree()));
                    count.set(count.get() + 1);
                }
                _ => return false,
            }
            true
        };
        let mut client = Server::bent(Arc::clone(&far), Box::new(bend));
        let version = Version { version: 70017, ..client.version(world.now()) };
        client.send(&Message::Version(version));
        world.connect_inbound("7.7.7.7:1", Box::new(client)).unwrap();
        world.run(2 * S);
        assert!(want.contains(&answers.get()), "{row}: {} answers", answers.get());
        assert_eq!(world.reason("7.7.7.7:1"), None, "{row}");
    }
}

fn set_tree() -> Arc<ChunkTree> {
    Arc::clone(&Set::new(1, 50_000).tree)
}
