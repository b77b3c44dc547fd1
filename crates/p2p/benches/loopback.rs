//! How fast blocks come from one peer on loopback: `cargo bench -p ffwd-p2p`. Small, and only checked, without `--bench`.
//!
//! Work: the whole of a sync but the node's: sockets, messages, encryption, scheduling, serving. The serving
//! side copies each block from memory and runs in the same process, so that on two cores each has one.
//! Unit: MB/s (10^6 bytes of blocks a second). Checked: every block arrives once, and in full.

use p2p::sim::{Chain, Made, made_on};
use p2p::{BlockVerdict, ChainView, Config, Event, Network, Outbound, params};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

fn main() {
    let bench = testkit::Bench::from_args();
    for (count, body_bytes) in [(bench.size(20, 600), 1_500_000), (bench.size(500, 40_000), 250)] {
        let made = made_on(&Chain::new().best_header(), count, 1, body_bytes);
        for v2 in [false, true] {
            let mut rates: Vec<f64> = (0..bench.size(1, 5)).map(|_| run(&made, v2)).collect();
            rates.sort_by(f64::total_cmp);
            let bytes = made.bodies[0].len() + 80;
            let per_s = rates[rates.len() / 2];
            println!(
                "{} blocks of {bytes} bytes, {}: median {:.0} MB/s ({:.0} blocks/s), best {:.0} MB/s",
                made.headers.len(),
                if v2 { "v2" } else { "v1" },
                per_s,
                per_s * 1e6 / bytes as f64,
                rates[rates.len() - 1],
            );
        }
    }
}

/// MB/s of one sync, from the first block asked for to the last that came.
fn run(made: &Made, v2transport: bool) -> f64 {
    let serving = Arc::new(Chain::having(made));
    let base = Config { outbound: Outbound::Only(vec![]), v2transport, ..Config::new(params::REGTEST) };
    let (events, _unread) = channel();
    let listen = vec!["127.0.0.1:0".parse().expect("an address")];
    let server = Network::start(Config { listen, ..base.clone() }, serving, events).expect("loopback");

    let chain = Arc::new(Chain::new());
    let (events, inbox) = channel();
    let connect = vec![server.listening()[0].to_string()];
    let view: Arc<dyn ChainView> = Arc::clone(&chain) as Arc<dyn ChainView>;
    let network = Network::start(Config { outbound: Outbound::Only(connect), ..base }, view, events).expect("start");
    // All headers first, then all blocks in one list.
    while chain.best_header().height.to_usize() != made.headers.len() {
        let event = inbox.recv_timeout(Duration::from_secs(20)).expect("headers come");
        assert!(!matches!(event, Event::Block { .. }), "none was asked for");
    }
    let started = Instant::now();
    network.want(vec![chain.wanted(usize::MAX)]);
    let (mut count, mut bytes) = (0, 0);
    while count < made.headers.len() {
        if let Event::Block { hash, bytes: block, .. } =
            inbox.recv_timeout(Duration::from_secs(20)).expect("blocks come")
        {
            count += 1;
            bytes += block.len();
            network.verdict(hash, BlockVerdict::Stored);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(bytes, made.bodies.iter().map(|body| body.len() + 80).sum::<usize>(), "every byte of every block");
    network.stop();
    server.stop();
    bytes as f64 / 1e6 / seconds
}
