//! Compact block filters for peers: the cases of Core's p2p_blockfilters.py that concern messages, and the bounds.
//!
//! | Core's case | row |
//! |---|---|
//! | NODE_COMPACT_FILTERS is signalled by who serves them | `filters_are_served_in_cores_order`, `requests_that_core_disconnects_for` |
//! | cfcheckpt on the chain that is reorganised away, on the active one, on the stale one | `filters_are_served_in_cores_order` |
//! | cfheaders on the active chain, on the stale one | the same |
//! | cfilters of ten blocks, of a stale block | the same |
//! | requests to a node without the service | `requests_that_core_disconnects_for` |
//! | too many filters, too many filter hashes, unknown type, unknown block, start above stop | the same |
//! | -peerblockfilters without -blockfilterindex; an unknown -blockfilterindex | `crates/ffwd/src/sync_settings.rs`, `crates/ffwd/src/args/indexes.rs` |

use super::world::*;
use crate::api::{Config, Outbound};
use crate::chain::{ChainView as _, HeaderInfo};
use crate::peer::{SEND_PAUSE_BYTES, SILENCE_TIMEOUT};
use crate::reason::Reason;
use crate::sim::{Chain, made_on};
use crate::time::Now;
use crate::transport::Transport;
use crate::wire::{Command, FilterRange, Inventory, Message, Version, services};
use primitives::{BlockHash, Hash256, Height, Reader};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const S: Duration = Duration::from_secs(1);
const ADDRESS: &str = "7.7.7.7:1";

type Heard = Rc<RefCell<Vec<(Command, Vec<u8>)>>>;

/// Greets, asks, keeps what it hears, and reads only while it may.
struct Client {
    transport: Transport,
    ask: Vec<Message>,
    heard: Heard,
    reads: Rc<Cell<bool>>,
}

impl Far for Client {
    fn receive(&mut self, mut bytes: &[u8], _: Now) {
        while !bytes.is_empty() {
            let taken = self.transport.feed(bytes);
            bytes = &bytes[taken..];
            while let Some(received) = self.transport.next().unwrap() {
                self.heard.borrow_mut().push((received.command, received.payload().to_vec()));
                if received.command == Command::Verack {
                    self.send(&Message::Verack);
                    std::mem::take(&mut self.ask).iter().for_each(|message| self.send(message));
                }
            }
        }
    }
    fn take(&mut self, _: Now) -> Vec<u8> {
        let bytes = self.transport.to_send().to_vec();
        self.transport.sent(bytes.len());
        bytes
    }
    fn is_reading(&self, _: Now) -> bool {
        self.reads.get()
    }
}

impl Client {
    fn send(&mut self, message: &Message) {
        let (command, payload) = message.encode();
        self.transport.send(command, &payload);
    }
}

fn world(chain: Chain, compact_filters: bool) -> World {
    let config =
        Config { outbound: Outbound::Only(vec![]), v2transport: false, compact_filters, ..Config::new(NETWORK) };
    World::with_config(chain, config)
}

/// Connects a peer that asks for this once it has shaken hands.
fn connect(world: &mut World, ask: &[Message]) -> (Heard, Rc<Cell<bool>>) {
    let (heard, reads) = (Heard::default(), Rc::new(Cell::new(true)));
    let mut client = Client {
        transport: Transport::v1(NETWORK.magic),
        ask: ask.to_vec(),
        heard: Rc::clone(&heard),
        reads: Rc::clone(&reads),
    };
    let version = Version {
        version: 70016,
        services: 0,
        time: START_UNIX as i64,
        nonce: 1,
        agent: Vec::new(),
        height: 0,
        relay: false,
    };
    client.send(&Message::Version(version));
    world.connect_inbound(ADDRESS, Box::new(client)).unwrap();
    (heard, reads)
}

/// What a peer hears when it asks for this.
fn ask(world: &mut World, messages: &[Message]) -> Vec<(Command, Vec<u8>)> {
    let (heard, _) = connect(world, &[messages, &[Message::Ping(Some(99))]].concat());
    world.run(S);
    let all = heard.borrow();
    let is_last =
        |(command, payload): &(Command, Vec<u8>)| *command == Command::Pong && payload[..] == 99u64.to_le_bytes();
    let end = all.iter().position(is_last).expect("what is said next is answered next");
    let is_answer =
        |command| matches!(command, Command::CFilter | Command::CFHeaders | Command::CFCheckpt | Command::Block);
    assert!(all[end..].iter().all(|(command, _)| !is_answer(*command)), "nothing comes behind it");
    all[..end].iter().filter(|(command, _)| is_answer(*command)).cloned().collect()
}

fn hash_at(chain: &Chain, of: &HeaderInfo, height: u32) -> BlockHash {
    chain.ancestor(&of.hash, Height::new(height)).unwrap()
}

fn filters(start: u32, stop: BlockHash) -> Message {
    Message::GetCFilters(FilterRange { kind: 0, start, stop })
}

fn hashes(start: u32, stop: BlockHash) -> Message {
    Message::GetCFHeaders(FilterRange { kind: 0, start, stop })
}

/// Type and hash at the start of every answer, and the hashes behind them; of `cfheaders` the first is the header before.
fn list(payload: &[u8], stop: BlockHash, has_header_before: bool) -> Vec<Hash256> {
    let mut reader = Reader::new(payload);
    assert_eq!((reader.u8(), reader.array()), (Ok(0), Ok(stop.as_bytes())));
    let hash = |reader: &mut Reader<'_>| Hash256(*reader.array().unwrap());
    let mut out: Vec<Hash256> = has_header_before.then(|| hash(&mut reader)).into_iter().collect();
    let count = reader.compact_size().unwrap();
    out.extend((0..count).map(|_| hash(&mut reader)));
    reader.finish().unwrap();
    out
}

fn header_of(chain: &Chain, hash: BlockHash) -> Hash256 {
    chain.filter_header(&hash).unwrap().header
}

/// A chain of 2,000 blocks, and the block 1,000 that was reorganised away for it.
fn reorganised() -> (Chain, BlockHash) {
    let start = made_on(&Chain::new().best_header(), 999, 1, 100);
    let chain = Chain::having(&start);
    let fork = chain.tip();
    chain.extend(&made_on(&fork, 1, 2, 100));
    let stale = chain.tip().hash;
    chain.extend(&made_on(&fork, 1001, 3, 100));
    (chain, stale)
}

#[test]
fn filters_are_served_in_cores_order() {
    let (chain, stale) = reorganised();
    let tip = chain.tip();
    let (ten, thousand) = (hash_at(&chain, &tip, 10), hash_at(&chain, &tip, 1000));
    assert_eq!((tip.height, chain.shown(&stale)), (Height::new(2000), Some(Height::new(1000))));
    let mut world = world(chain, true);
    let asked = [
        Message::GetCFCheckpt(0, tip.hash),
        Message::GetCFCheckpt(0, stale),
        hashes(1, thousand),
        hashes(1, stale),
        filters(1, ten),
        filters(1000, stale),
        hashes(0, ten),
        Message::GetCFCheckpt(0, ten),
    ];
    let heard = ask(&mut world, &asked);
    assert!(world.gone.is_empty(), "{:?}", world.gone);
    let chain = &*world.chain;
    let commands: Vec<Command> = heard.iter().map(|(command, _)| *command).collect();
    let (point, headers, filter) = (Command::CFCheckpt, Command::CFHeaders, Command::CFilter);
    assert_eq!(commands, [&[point, point, headers, headers][..], &[filter; 11], &[headers, point]].concat());
    let header = |hash| header_of(chain, hash);
    assert_eq!(list(&heard[0].1, tip.hash, false), [header(thousand), header(tip.hash)]);
    assert_eq!(list(&heard[1].1, stale, false), [header(stale)], "of the stale chain");
    for (at, stop) in [(2, thousand), (3, stale)] {
        let got = list(&heard[at].1, stop, true);
        assert_eq!((got.len(), got[0]), (1001, header(hash_at(chain, &tip, 0))));
        let join = |at: Hash256, hash: &Hash256| Hash256(kernels::sha256::sha256d(&[hash.0, at.0].concat()));
        assert_eq!(got[1..].iter().fold(got[0], join), header(stop), "they lead to the last block's header");
    }
    for (at, height) in (4..14).zip(1..) {
        let block = hash_at(chain, &tip, height);
        let want = [&[0][..], block.as_bytes(), &[128], &block.as_bytes().repeat(4)].concat();
        assert_eq!(heard[at].1, want, "filter of height {height}");
    }
    assert_eq!(heard[14].1[1..33], *stale.as_bytes());
    assert_eq!(list(&heard[15].1, ten, true)[0], Hash256::ZERO, "before genesis");
    assert_eq!(list(&heard[16].1, ten, false), [], "no checkpoint yet");
    let version = Message::parse(Command::Version, &connect_and_greet(true)).unwrap();
    let Message::Version(version) = version else { panic!("a version") };
    assert_eq!(version.services & services::COMPACT_FILTERS, services::COMPACT_FILTERS);
}

/// Our version message.
fn connect_and_greet(serves: bool) -> Vec<u8> {
    let mut world = world(Chain::new(), serves);
    let (heard, _) = connect(&mut world, &[]);
    world.run(S);
    let heard = heard.borrow();
    heard.iter().find(|(command, _)| *command == Command::Version).unwrap().1.clone()
}

#[test]
fn requests_that_core_disconnects_for() {
    let (chain, stale) = reorganised();
    let tip = chain.tip();
    let at = |height| hash_at(&chain, &tip, height);
    let (thousand, below) = (at(1000), at(999));
    let unknown = BlockHash::from_bytes([9; 32]);
    let range = |kind, start, stop| FilterRange { kind, start, stop };
    let mut rows = vec![
        ("1,000 filters", true, filters(1, thousand), None),
        ("1,001 filters", true, filters(0, thousand), Some(Reason::FilterCount { count: 1001, max: 1000 })),
        ("2,000 hashes", true, hashes(1, tip.hash), None),
        ("2,001 hashes", true, hashes(0, tip.hash), Some(Reason::FilterCount { count: 2001, max: 2000 })),
        ("an unknown type", true, Message::GetCFCheckpt(255, thousand), Some(Reason::FilterType(255))),
        ("of filters too", true, Message::GetCFilters(range(1, 1, stale)), Some(Reason::FilterType(1))),
        ("an unknown block", true, Message::GetCFCheckpt(0, unknown), Some(Reason::FilterStop(unknown))),
        ("start above stop", true, hashes(1000, below), Some(Reason::FilterRange { start: 1000, stop: 999 })),
        (
            "start at the greatest height",
            true,
            filters(u32::MAX, below),
            Some(Reason::FilterRange { start: u32::MAX, stop: 999 }),
        ),
    ];
    for message in [Message::GetCFCheckpt(0, thousand), hashes(1000, thousand), filters(1000, thousand)] {
        rows.push(("without the service", false, message, Some(Reason::FilterType(0))));
    }
    for (row, serves, message, want) in rows {
        let mut world = world(reorganised().0, serves);
        let (heard, _) = connect(&mut world, &[message]);
        world.run(S / 5);
        assert_eq!(world.reason(ADDRESS), want.as_ref(), "{row}");
        assert!(want.as_ref().is_none_or(|why| !why.is_offence()), "{row}: Core does not discourage for it");
        let is_answer = |command| matches!(command, Command::CFilter | Command::CFHeaders | Command::CFCheckpt);
        let answered = heard.borrow().iter().any(|(command, _)| is_answer(*command));
        assert_eq!(answered, want.is_none(), "{row}");
    }
    let Ok(Message::Version(version)) = Message::parse(Command::Version, &connect_and_greet(false)) else {
        panic!("a version")
    };
    assert_eq!(version.services & services::COMPACT_FILTERS, 0);
}

/// As in Core nothing is said where the index lacks a block, and the connection stays.
#[test]
fn an_index_that_is_behind_gives_nothing() {
    let made = made_on(&Chain::new().best_header(), 1100, 1, 0);
    let mut chain = Chain::having(&made);
    chain.filtered = Height::new(1050);
    let tip = chain.tip();
    let (low, high) = (hash_at(&chain, &tip, 1050), hash_at(&chain, &tip, 1051));
    let mut world = world(chain, true);
    let asked = [
        filters(1050, high),
        hashes(1051, high),
        hashes(1050, high),
        filters(1049, low),
        Message::GetCFCheckpt(0, low),
    ];
    let heard = ask(&mut world, &asked);
    assert_eq!(heard.len(), 3, "two filters and a checkpoint");
    let heard = ask(&mut world, &[Message::GetCFCheckpt(0, high)]);
    assert_eq!(heard.len(), 1, "the checkpoint is there");
    assert!(world.gone.is_empty(), "{:?}", world.gone);
}

/// A thousand filters are read in pieces, as they are taken; blocks asked for before come before them.
#[test]
fn filters_wait_for_room_in_the_send_queue() {
    let filter_bytes = 30_016;
    let made = made_on(&Chain::new().best_header(), 1000, 1, filter_bytes - 16);
    let mut world = world(Chain::having(&made), true);
    let tip = world.chain.tip();
    let blocks: Vec<Inventory> =
        (1..=100).map(|height| Inventory::WitnessBlock(hash_at(&world.chain, &tip, height))).collect();
    let (heard, reads) = connect(&mut world, &[Message::GetData(blocks), filters(1, tip.hash), Message::Ping(Some(7))]);
    world.run(S / 50);
    reads.set(false);
    world.run(SILENCE_TIMEOUT / 2);
    let waiting = world.queued_bytes();
    assert!((1..SEND_PAUSE_BYTES * 2 + 2 * filter_bytes).contains(&waiting), "{waiting} bytes wait");
    reads.set(true);
    world.run(5 * S);
    let mut runs: Vec<(Command, usize)> = Vec::new();
    for (command, _) in heard.borrow().iter().skip_while(|(command, _)| *command != Command::Block) {
        match runs.last_mut() {
            // What we ask of it has its own time.
            _ if *command == Command::GetHeaders => {}
            Some((last, count)) if last == command => *count += 1,
            _ => runs.push((*command, 1)),
        }
    }
    assert_eq!(runs, [(Command::Block, 100), (Command::CFilter, 1000), (Command::Pong, 1)]);
    assert!(world.queued_max < SEND_PAUSE_BYTES * 2 + 2 * filter_bytes, "{}", world.queued_max);
    assert!(world.gone.is_empty(), "{:?}", world.gone);
}
