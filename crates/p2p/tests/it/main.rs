//! The network over real sockets on loopback: two programs of this kind, by v1 and v2, with and without a proxy.

// What tests share stands outside of test functions, where unwrap is not let through.
#![allow(clippy::unwrap_used)]

mod asked;
mod bitcoind;
mod node;
mod rate;
mod sets;

use node::Node;
use p2p::sim::{Chain, made_on};
use p2p::trouble::{Trouble, TroubleKind};
use p2p::wire::{Command, Message, Version, frame_v1};
use p2p::{ChainView as _, Config, LogLines, Outbound, Reason, params};
use primitives::{BlockHash, Height};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const S: Duration = Duration::from_secs(1);

fn config() -> Config {
    Config { outbound: Outbound::Only(vec![]), ..Config::new(params::REGTEST) }
}

fn server(chain: &Arc<Chain>, v2transport: bool) -> (Node, SocketAddr) {
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let node = Node::start(Config { listen, v2transport, ..config() }, Arc::clone(chain));
    let address = node.network.listening()[0];
    (node, address)
}

fn chain_of(count: usize, body_bytes: usize) -> Arc<Chain> {
    Arc::new(Chain::having(&made_on(&Chain::new().best_header(), count, 1, body_bytes)))
}

fn sync(connect: &[String], v2transport: bool, proxy: Option<String>, want: BlockHash, limit: Duration) -> Node {
    let config = Config { outbound: Outbound::Only(connect.to_vec()), v2transport, proxy, ..config() };
    let node = Node::start(config, Arc::new(Chain::new()));
    assert!(node.wait(limit, |node| node.chain.tip().hash == want), "{}", node.state());
    node
}

#[test]
fn two_nodes_sync_by_each_transport() {
    let chain = chain_of(2200, 5000);
    for (theirs, ours) in [(false, false), (true, true), (true, false), (false, true)] {
        let (server, address) = server(&chain, theirs);
        let node = sync(&[address.to_string()], ours, None, chain.tip().hash, 20 * S);
        assert!(node.wait(5 * S, |node| node.network.progress().headers_done), "v2: they {theirs}, we {ours}");
        let info = node.connected.lock().unwrap().last().cloned().unwrap();
        assert_eq!(info.v2, theirs && ours, "{info:?}");
        assert!(info.agent.starts_with("/ffwd:"), "{info:?}");
        // Both stop when they are told, and say so.
        node.stop();
        server.stop();
    }
}

#[test]
fn new_block_and_reorg_are_followed() {
    let chain = chain_of(30, 500);
    let fork = chain.ancestor(&chain.tip().hash, Height::new(10)).and_then(|hash| chain.header(&hash)).unwrap();
    let (server, address) = server(&chain, true);
    let node = sync(&[address.to_string()], true, None, chain.tip().hash, 10 * S);
    chain.extend(&made_on(&chain.best_header(), 1, 2, 500));
    server.network.new_tip();
    let want = chain.tip().hash;
    assert!(node.wait(10 * S, |node| node.chain.tip().hash == want), "{}", node.state());
    chain.extend(&made_on(&fork, 25, 3, 500));
    server.network.new_tip();
    let want = chain.tip().hash;
    assert!(node.wait(10 * S, |node| node.chain.tip().hash == want), "{}", node.state());
}

#[test]
fn silent_and_closing_peers_do_not_stop_sync() {
    let chain = chain_of(300, 1000);
    let (_server, address) = server(&chain, true);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing = TcpListener::bind("127.0.0.1:0").unwrap();
    let closing_address = closing.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in closing.incoming().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let connect = [silent.local_addr().unwrap(), closing_address, nobody, address].map(|address| address.to_string());
    let node = sync(&connect, true, None, chain.tip().hash, 10 * S);
    // Who was named and cannot be reached is waited for, for a minute, before what the others have is called all.
    assert!(!node.network.progress().headers_done, "{}", node.state());
    let gone = node.gone.lock().unwrap().clone();
    assert!(gone.iter().all(|(_, reason)| !reason.is_offence()), "{gone:?}");
    let is_nobody = |trouble: &Trouble| trouble.kind == TroubleKind::Refused && trouble.subject == nobody.to_string();
    let troubles = || node.network.progress().facts.dials.troubles;
    // The sync may be over before that one was dialed.
    assert!(node.wait(10 * S, |_| troubles().iter().any(is_nobody)), "{:?}", troubles());
}

#[test]
fn ipv6_address_is_dialed() {
    let chain = chain_of(60, 1000);
    if TcpListener::bind("[::1]:0").is_err() {
        return println!("skipped: this machine has no [::1]");
    }
    let listen = vec!["[::1]:0".parse().unwrap()];
    let server = Node::start(Config { listen, ..config() }, Arc::clone(&chain));
    let address = server.network.listening()[0].to_string();
    assert!(address.starts_with("[::1]:"), "{address}");
    let added = Config { add_nodes: vec![address.clone()], ..config() };
    for (row, config) in
        [("--connect", Config { outbound: Outbound::Only(vec![address]), ..config() }), ("--addnode", added)]
    {
        let node = Node::start(config, Arc::new(Chain::new()));
        assert!(node.wait(10 * S, |node| node.chain.tip().hash == chain.tip().hash), "{row}: {}", node.state());
    }
}

#[test]
fn garbage_on_a_listening_socket_is_survived() {
    let chain = chain_of(20, 100);
    let (server, address) = server(&chain, true);
    for bytes in [vec![0x33; 5000], b"GET / HTTP/1.1\r\n\r\n".repeat(300), vec![0; 9000]] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(10 * S)).unwrap();
        let _ = stream.write_all(&bytes);
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert!(heard.len() < 70_000, "a key and garbage at most: {}", heard.len());
    }
    let node = sync(&[address.to_string()], true, None, chain.tip().hash, 10 * S);
    drop(node);
    assert!(server.gone.lock().unwrap().iter().any(|(_, reason)| matches!(reason, Reason::Wire(_))));
}

/// A SOCKS5 proxy of one thread a connection, which takes names and addresses for `to`.
fn proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = move |mut near: TcpStream| -> std::io::Result<()> {
        let mut greeting = [0; 4];
        near.read_exact(&mut greeting)?;
        near.write_all(&[5, 0])?;
        let mut head = [0; 5];
        near.read_exact(&mut head)?;
        assert_eq!(head[..4], [5, 1, 0, 3], "by name");
        let mut rest = vec![0; usize::from(head[4]) + 2];
        near.read_exact(&mut rest)?;
        assert!(rest.starts_with(b"pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"));
        near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
        let far = TcpStream::connect(to)?;
        let (mut far_in, mut near_out) = (far.try_clone()?, near.try_clone()?);
        std::thread::spawn(move || std::io::copy(&mut far_in, &mut near_out));
        std::io::copy(&mut near, &mut &far)?;
        Ok(())
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

#[test]
fn onion_address_is_dialed_by_name_through_the_proxy() {
    let chain = chain_of(40, 1000);
    let (_server, address) = server(&chain, true);
    let proxy = proxy(address).to_string();
    let onion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion".to_owned();
    sync(&[onion], true, Some(proxy), chain.tip().hash, 10 * S);
}

/// Core's p2p_addrv2_relay reads the log when a peer has received the message.
#[test]
fn debug_line_of_a_message_is_written_before_the_message_is_sent() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let taken = Arc::clone(&lines);
    let debug_net = Some(LogLines::new(move |line| taken.lock().unwrap().push(line.to_owned())));
    let node =
        Node::start(Config { listen: vec!["127.0.0.1:0".parse().unwrap()], debug_net, ..config() }, chain_of(1, 100));
    let has = |text: &str| lines.lock().unwrap().iter().any(|line: &String| line.starts_with(text));
    for nonce in 1..20 {
        lines.lock().unwrap().clear();
        let mut stream = TcpStream::connect(node.network.listening()[0]).unwrap();
        let version =
            Version { version: 70016, services: 9, time: 0, nonce, agent: Vec::new(), height: 0, relay: false };
        let payload = Message::Version(version).encode().1;
        stream.write_all(&frame_v1(params::REGTEST.magic, Command::Version, &payload)).unwrap();
        stream.read_exact(&mut [0; 24]).unwrap();
        assert!(has("received: version (") && has("sending version ("), "{nonce}: {:?}", lines.lock().unwrap());
    }
}

#[test]
fn invalid_settings_are_reported() {
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    for (row, config, want) in [
        ("connect", Config { outbound: Outbound::Only(vec!["a b".into()]), ..config() }, "\"a b\" is not an address"),
        ("addnode", Config { add_nodes: vec![":".into()], ..config() }, "is not an address"),
        ("proxy", Config { proxy: Some("x:y".into()), ..config() }, "--proxy: \"x:y\""),
        ("listen", Config { listen: vec![busy.local_addr().unwrap()], ..config() }, "Unable to bind to 127.0.0.1:"),
    ] {
        let (events, _inbox) = std::sync::mpsc::channel();
        let why = p2p::Network::start(config, Arc::new(Chain::new()), events).map(|_| ()).unwrap_err().to_string();
        assert!(why.contains(want), "{row}: {why}");
    }
}

#[test]
fn stop_does_not_wait_for_pending_dials() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = vec![silent.local_addr().unwrap().to_string(), "192.0.2.1".to_owned()];
    let node = Node::start(Config { outbound: Outbound::Only(connect), ..config() }, Arc::new(Chain::new()));
    std::thread::sleep(S / 5);
    let before = Instant::now();
    let addresses = node.stop();
    assert!(before.elapsed() < S, "{:?}", before.elapsed());
    assert!(addresses.starts_with(&p2p::params::REGTEST.magic));
}
