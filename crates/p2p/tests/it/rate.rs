//! A limit of the download rate, which peers share.

use super::{S, chain_of, config};
use crate::node::Node;
use p2p::wire::{Command, Message, Version, frame_named, frame_v1};
use p2p::{Config, params};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

fn hello(nonce: u64) -> Vec<u8> {
    let version = Version { version: 70016, services: 9, time: 0, nonce, agent: Vec::new(), height: 0, relay: false };
    frame_v1(params::REGTEST.magic, Command::Version, &Message::Version(version).encode().1)
}

/// Otherwise the peer with the lowest id takes everything that the limit allows.
#[test]
fn flood_of_one_peer_leaves_the_others_their_share_of_the_rate() {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let config = Config { listen, v2transport: false, download_rate_max: Some(20_000), ..config() };
    let node = Node::start(config, chain_of(1, 100));
    let address = node.network.listening()[0];
    let mut flood = TcpStream::connect(address).unwrap();
    flood.write_all(&hello(1)).unwrap();
    flood.read_exact(&mut [0; 24]).unwrap();
    flood.set_nonblocking(true).unwrap();
    let noise = frame_named(params::REGTEST.magic, *b"noise\0\0\0\0\0\0\0", &[0; 100_000]);
    let mut sent = 0;
    // Its socket is never empty.
    let mut send_on = || loop {
        match flood.write(&noise[sent..]) {
            Ok(count) => sent = (sent + count) % noise.len(),
            Err(why) if why.kind() == ErrorKind::WouldBlock => return,
            Err(why) => panic!("{why}"),
        }
    };
    send_on();
    std::thread::sleep(S);
    send_on();
    let mut other = TcpStream::connect(address).unwrap();
    other.set_nonblocking(true).unwrap();
    other.write_all(&hello(2)).unwrap();
    let begun = Instant::now();
    let mut heard = [0; 24];
    while begun.elapsed() < 10 * S {
        send_on();
        match other.read(&mut heard) {
            Ok(count) => return assert!(count > 0, "it stays connected"),
            Err(why) if why.kind() == ErrorKind::WouldBlock => std::thread::sleep(S / 100),
            Err(why) => panic!("{why}"),
        }
    }
    panic!("the other peer's version is not read: {}", node.state());
}
