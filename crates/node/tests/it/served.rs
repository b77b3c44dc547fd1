//! What `sync --listen` gives to who asks: headers and blocks of the chain, of a recent stale one, and nothing else.

use crate::chain::{block, hash_of};
use crate::data_directory::DATADIR;
use crate::following::{Running, blocks, fresh, listening};
use crate::peers::{Blocks, Far, coinbase, committed, extend, headers_of, send, subsidy, time_of};
use node::jobs;
use node::options::Options;
use node::reporting::Event;
use primitives::{BlockHash, Height, Work};
use std::io::Read;
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A peer that connects and asks.
struct Client {
    input: TcpStream,
    output: Mutex<TcpStream>,
}

impl Client {
    fn new(address: &str) -> Client {
        let input = TcpStream::connect(address).unwrap();
        input.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let client = Client { output: Mutex::new(input.try_clone().unwrap()), input };
        let mut version = 70016i32.to_le_bytes().to_vec();
        version.extend([0; 8 + 8 + 26 + 26]);
        version.extend(77u64.to_le_bytes());
        version.extend([0, 0, 0, 0, 0, 0]);
        client.say("version", &version);
        client.say("verack", &[]);
        client
    }

    fn say(&self, command: &str, payload: &[u8]) {
        send(&self.output, command, payload).unwrap();
    }

    fn hear(&mut self) -> (String, Vec<u8>) {
        let mut head = [0; 24];
        self.input.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_le_bytes(head[16..20].try_into().unwrap()) as usize];
        self.input.read_exact(&mut payload).unwrap();
        (std::str::from_utf8(&head[4..16]).unwrap().trim_end_matches('\0').to_owned(), payload)
    }

    /// What one of these commands brings, up to the answer to a ping behind the question.
    fn ask(&mut self, command: &str, payload: &[u8], answers: &[&str]) -> Vec<(String, Vec<u8>)> {
        self.say(command, payload);
        // Blocks are read beside: what was asked for comes before the answer to this second question, or long after.
        self.say("ping", b"question");
        let (mut out, mut ponged) = (Vec::new(), false);
        while !ponged || (out.is_empty() && !answers.contains(&"pong")) {
            let (command, payload) = self.hear();
            ponged |= command == "pong" && payload == b"question";
            if answers.contains(&&*command) && command != "pong" {
                out.push((command, payload));
            }
        }
        out
    }

    /// The headers that follow a locator, or none where no message comes.
    fn headers(&mut self, locator: &[BlockHash], stop: BlockHash, is_answered: bool) -> Option<Vec<u8>> {
        let mut payload = 70016i32.to_le_bytes().to_vec();
        payload.push(locator.len() as u8);
        locator.iter().for_each(|hash| payload.extend(hash.to_bytes()));
        payload.extend(stop.to_bytes());
        let answers: &[&str] = if is_answered { &["headers"] } else { &["headers", "pong"] };
        self.ask("getheaders", &payload, answers).pop().map(|(_, payload)| payload)
    }

    /// A block, or none where it is not given.
    fn block(&mut self, kind: u32, hash: BlockHash) -> Option<Vec<u8>> {
        let payload = [&[1][..], &kind.to_le_bytes(), hash.as_bytes()].concat();
        let (command, payload) = self.ask("getdata", &payload, &["block", "notfound"]).pop().unwrap();
        (command == "block").then_some(payload)
    }
}

const WITNESS_BLOCK: u32 = 0x4000_0002;
const BLOCK: u32 = 2;

fn hashes(blocks: &Blocks) -> Vec<BlockHash> {
    blocks.iter().map(|block| hash_of(block)).collect()
}

#[test]
fn peer_is_served_the_chain_and_stale_blocks() {
    let mut chain = blocks(20);
    let [with, without, _] = committed(hash_of(&chain[20]), 21);
    chain.push(with.clone());
    extend(&mut chain, 30, 0);
    let far = Far::new(&chain);
    let shared = Arc::clone(&far.shared);
    let server = Running::start(fresh(), listening(&[far.listen_at("127.0.0.1:0")]));
    server.is_at(30);
    let mut client = Client::new(&server.address());
    let (of, none) = (hashes(&chain), BlockHash::ZERO);
    for (row, locator, stop, want) in [
        ("from the start", vec![of[0]], none, &chain[1..]),
        ("from the middle", vec![of[12]], none, &chain[13..]),
        ("the first that is known counts", vec![BlockHash::from_bytes([9; 32]), of[25], of[3]], none, &chain[26..]),
        ("nothing known", vec![BlockHash::from_bytes([9; 32])], none, &chain[1..]),
        ("up to a block", vec![of[12]], of[15], &chain[13..=15]),
        ("the tip", vec![of[30]], none, &[]),
        ("one alone", vec![], of[7], &chain[7..8]),
    ] {
        assert_eq!(client.headers(&locator, stop, true), Some(headers_of(want)), "{row}");
    }
    assert_eq!(client.headers(&[], BlockHash::from_bytes([9; 32]), false), None, "an unknown one alone");
    assert_eq!(client.block(WITNESS_BLOCK, of[21]), Some(with), "as it is");
    assert_eq!(client.block(BLOCK, of[21]), Some(without), "without witness");
    assert_eq!(client.block(BLOCK, of[30]), Some(chain[30].clone()));
    assert_eq!(client.block(WITNESS_BLOCK, BlockHash::from_bytes([9; 32])), None, "an unknown one");

    // The header of a block that no peer has.
    let mut fork = chain[..=5].to_vec();
    extend(&mut fork, 6, 7);
    client.say("headers", &headers_of(&fork[6..]));
    let of_fork = hash_of(&fork[6]);
    assert_eq!(client.headers(&[], of_fork, false), None, "known and never found good");
    assert_eq!(client.block(WITNESS_BLOCK, of_fork), None);
    assert_eq!(client.headers(&[of_fork], none, true), Some(headers_of(&chain[1..])), "nor part of the chain");

    // A better chain: what was the chain is shown for a while.
    let mut other = chain[..=11].to_vec();
    extend(&mut other, 33, 1);
    shared.switch(&other, 22);
    server.is_at(33);
    assert_eq!(client.headers(&[of[20], of[11]], none, true), Some(headers_of(&other[12..])), "from the fork on");
    assert_eq!(client.headers(&[], of[30], true), Some(headers_of(&chain[30..])), "a stale one alone");
    assert_eq!(client.block(WITNESS_BLOCK, of[30]), Some(chain[30].clone()), "and its block");
    server.stop();
}

#[test]
fn peer_is_served_no_headers_below_minimum_work() {
    let chain = blocks(20);
    let one = Work::of_bits(0x207f_ffff);
    let minimum_chain_work = (0..40).fold(one, |sum, _| sum.saturating_add(one));
    // It has blocks already, from a time when they were enough.
    let sync = Running::start(fresh(), listening(&[Far::new(&chain).listen_at("127.0.0.1:0")]));
    sync.is_at(20);
    let poor = Options { minimum_chain_work, stop: Arc::default(), ..sync.options.clone() };
    sync.stop();
    let server = Running::start(poor, listening(&[]));
    let mut client = Client::new(&server.address());
    assert_eq!(client.headers(&[hash_of(&chain[0])], BlockHash::ZERO, true), Some(vec![0]));
    server.stop();
}

#[test]
fn block_that_cannot_be_read_for_a_peer_is_named() {
    let chain = blocks(20);
    let server = Running::start(fresh(), listening(&[Far::new(&chain).listen_at("127.0.0.1:0")]));
    server.is_at(20);
    let dir = Path::new(DATADIR).join("regtest/blocks");
    let (name, aside) = (dir.join("blk00000.dat"), dir.join("aside"));
    let mut client = Client::new(&server.address());
    assert!(client.block(WITNESS_BLOCK, hash_of(&chain[7])).is_some());
    server.options.disk.rename(&name, &aside).unwrap();
    // A file that is open is looked for once in a while.
    while client.block(WITNESS_BLOCK, hash_of(&chain[7])).is_some() {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(client.block(WITNESS_BLOCK, hash_of(&chain[8])), None);
    let said = server.wait("the file is named", |event| match event {
        Event::Warning(text) => text.contains("cannot be read").then(|| text.clone()),
        _ => None,
    });
    assert!(said.contains(&*name.to_string_lossy()) && said.contains("Put the file back"), "{said}");
    server.options.disk.rename(&aside, &name).unwrap();
    assert_eq!(client.block(WITNESS_BLOCK, hash_of(&chain[8])), Some(chain[8].clone()));
    server.stop();
}

/// What stands on a refused block is not even kept.
#[test]
fn header_on_an_invalid_block_is_refused() {
    let mut chain = blocks(4);
    let prev = hash_of(&chain[4]);
    chain.push(block(prev, time_of(5), &[coinbase(5, 0, subsidy(5) + 1)]));
    extend(&mut chain, 8, 0);
    let server = Running::start(fresh(), listening(&[Far::new(&chain).listen_at("127.0.0.1:0")]));
    server.wait("the fifth is refused", |event| match event {
        Event::Refused { height, .. } => (*height == Height::new(5)).then_some(()),
        _ => None,
    });
    let mut longer = chain.clone();
    extend(&mut longer, 9, 0);
    let mut client = Client::new(&server.address());
    // It hears our ping, and then is let go.
    client.headers(&[], BlockHash::from_bytes([9; 32]), false);
    client.say("headers", &headers_of(&longer[9..]));
    let mut rest = Vec::new();
    client.input.read_to_end(&mut rest).unwrap();
    let said = server.wait("it is let go", |event| match event {
        Event::Note(text) => text.contains("bad-prevblk").then(|| text.clone()),
        _ => None,
    });
    assert!(said.contains(&hash_of(&longer[9]).to_string()), "{said}");
    let options = Options { stop: Arc::default(), ..server.options.clone() };
    assert_eq!(server.stop().height, Height::new(4));
    let failed = jobs::info(&options).unwrap().failed;
    assert_eq!((failed.len(), failed[0].height.to_u32(), failed[0].descendants), (1, 5, 3), "the fifth to the eighth");
}
