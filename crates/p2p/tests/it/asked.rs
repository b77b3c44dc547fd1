//! What a person asks of the connections, answered by a network that runs, and by none.

use super::{Node, S, chain_of, config, server};
use p2p::bans::Subnet;
use p2p::sim::Chain;
use p2p::{ChainView as _, Config, Outbound, Peers};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const PORT: u16 = 18_444;

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn peers_are_seen_from_both_ends() {
    for v2 in [false, true] {
        let chain = chain_of(300, 2000);
        let theirs = Arc::<Peers>::default();
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let far = Node::start_for(&theirs, Config { listen, v2transport: v2, ..config() }, Arc::clone(&chain));
        let address = far.network.listening()[0].to_string();
        let ours = Arc::<Peers>::default();
        let connect = Config { outbound: Outbound::Only(vec![address.clone()]), v2transport: v2, ..config() };
        let near = Node::start_for(&ours, connect, Arc::new(Chain::new()));
        assert!(near.wait(20 * S, |node| node.chain.tip().hash == chain.tip().hash), "{}", near.state());
        let (a, b) = (ours.peers().remove(0), theirs.peers().remove(0));
        assert_eq!((a.address.as_str(), a.inbound, a.connection_type), (address.as_str(), false, "manual"));
        assert_eq!((b.inbound, b.connection_type, b.network), (true, "inbound", "not_publicly_routable"));
        assert_eq!((a.transport, b.transport), if v2 { ("v2", "v2") } else { ("v1", "v1") });
        assert_eq!((a.local.unwrap().to_string(), b.local.unwrap().to_string()), (b.address.clone(), address.clone()));
        assert_eq!((a.session_id.is_some(), a.session_id), (v2, b.session_id));
        assert_eq!(a.synced_headers.unwrap().to_u32(), 300);
        assert_eq!(a.synced_blocks, a.synced_headers, "its chain is ours");
        let of = |list: &[(&str, u64)], name: &str| list.iter().find(|(of, _)| *of == name).map_or(0, |(_, n)| *n);
        let blocks = of(&a.received_by_type, "block");
        assert!(blocks > 300 * 2000 && blocks == of(&b.sent_by_type, "block"), "{a:?} {b:?}");
        assert!(of(&a.sent_by_type, "getdata") > 300 * 36 && of(&a.sent_by_type, "block") == 0, "{a:?}");
        assert!(a.received_bytes >= a.received_by_type.iter().map(|(_, n)| n).sum(), "{a:?}");
        assert!((now() - a.connected as i64).abs() < 60 && a.last_block >= a.connected && a.time_offset.abs() < 5);
        assert!(a.in_flight.is_empty() && a.agent.starts_with("/ffwd:") && a.version == 70017, "{a:?}");
        assert!(near.wait(5 * S, |_| ours.totals().0 > 300 * 2000), "{:?}", ours.totals());
        let total = ours.totals();
        near.stop();
        assert!(ours.peers().is_empty() && ours.totals().0 >= total.0, "bytes of a network that ended count");
    }
}

#[test]
fn peers_come_and_go_on_request() {
    let chain = chain_of(5, 100);
    let (far, address) = server(&chain, true);
    let address = address.to_string();
    let peers = Arc::<Peers>::default();
    assert!(!peers.disconnect(&address) && peers.peers().is_empty(), "there is no network yet");
    let near = Node::start_for(&peers, Config { outbound: Outbound::Only(vec![]), ..config() }, Arc::new(Chain::new()));
    let count = || peers.peers().iter().filter(|peer| peer.version > 0).count();
    peers.try_once(&address, true);
    assert!(near.wait(10 * S, |_| count() == 1), "{}", near.state());
    let id = peers.peers()[0].id.0;
    peers.ping();
    assert!(near.wait(10 * S, |_| peers.peers()[0].ping.is_some()), "{:?}", peers.peers());
    assert!(!peers.disconnect("127.0.0.1:1") && !peers.disconnect_id(id + 1), "no such peers");
    assert!(peers.disconnect_id(id) && peers.peers().is_empty());
    std::thread::sleep(2 * S);
    assert!(peers.peers().is_empty(), "once is once");
    assert!(peers.add(&address, PORT) && !peers.add(&address, PORT), "it is added once");
    assert!(near.wait(10 * S, |_| count() == 1), "{}", near.state());
    assert_eq!(peers.added()[0].connected, Some((address.clone(), false)));
    assert!(peers.disconnect(&address));
    assert!(near.wait(10 * S, |_| count() == 1), "it is connected to again: {}", near.state());
    assert!(peers.remove(&address) && !peers.remove(&address) && peers.disconnect(&address));
    std::thread::sleep(2 * S);
    assert!(peers.peers().is_empty() && peers.added().is_empty(), "and no more");
    drop(far);
}

#[test]
fn banned_addresses_are_dropped_and_not_taken() {
    let chain = chain_of(5, 100);
    let theirs = Arc::<Peers>::default();
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let far = Node::start_for(&theirs, Config { listen, ..config() }, Arc::clone(&chain));
    let address = far.network.listening()[0].to_string();
    let connect = Config { outbound: Outbound::Only(vec![address]), ..config() };
    let near = Node::start(connect, Arc::new(Chain::new()));
    assert!(near.wait(10 * S, |_| !theirs.peers().is_empty()), "{}", near.state());
    let subnet = Subnet::parse("127.0.0.0/8").unwrap();
    assert!(theirs.bans().ban(subnet, 1000, false, now()));
    theirs.disconnect_subnet(subnet);
    std::thread::sleep(3 * S);
    assert!(theirs.peers().is_empty(), "{:?}", theirs.peers());
    assert!(theirs.bans().unban(&subnet));
    assert!(near.wait(20 * S, |_| !theirs.peers().is_empty()), "it is taken again: {}", near.state());
}
