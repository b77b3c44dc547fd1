//! Between two bitcoinds: ffwd syncs from one, follows it, and the other syncs from ffwd and follows that.

use crate::bitcoind::{Bitcoind, core_set, is_there, set};
use crate::run::{Running, run, start};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCKS: u32 = 150;
/// Nothing here takes longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sync that follows `source`, and the port on which it listens.
fn follower(directory: &Path, source: &Bitcoind, options: &str) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let peer = source.port;
    let line =
        format!("sync --datadir @ --chain regtest --connect 127.0.0.1:{peer} --listen 127.0.0.1:{port} {options}");
    let follower = start(directory, &line);
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begin.elapsed() < PATIENCE, "it listens");
        std::thread::sleep(Duration::from_millis(20));
    }
    (follower, port)
}

/// What bitcoind says of the connection to us.
fn transport(core: &Bitcoind) -> String {
    let peers: serde_json::Value = serde_json::from_str(&core.rpc(&["getpeerinfo"])).unwrap();
    let ours = peers.as_array().unwrap().iter().find(|peer| peer["subver"].as_str().unwrap().starts_with("/ffwd:"));
    let ours = ours.unwrap_or_else(|| panic!("ffwd is a peer: {peers}"));
    ours["transport_protocol_type"].as_str().unwrap().to_owned()
}

/// From nothing and from half way, a block more, and a reorg of twenty; everything reaches the other bitcoind.
fn between_two(v2: bool, options: &str) {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let flag = format!("-v2transport={}", u8::from(v2));
    let options = format!("{options} --v2transport {}", u8::from(v2));
    let [source_dir, target_dir, ours, half] = ["source", "target", "ours", "half"].map(|name| dir.path().join(name));
    for dir in [&source_dir, &target_dir, &ours, &half] {
        std::fs::create_dir_all(dir).unwrap();
    }
    let source = Bitcoind::start(&source_dir, &[&flag]);
    source.generate(BLOCKS);

    let line = |more: &str| {
        let peer = source.port;
        format!("sync --datadir @ --chain regtest --connect 127.0.0.1:{peer} --json {options} {more}")
    };
    let got = run(&half, &line("--stopatheight 70")).good();
    assert_eq!(got["height"], 70, "{got}");
    let got = run(&half, &line("--exit-at-tip")).good();
    assert_eq!((got["height_start"].as_u64(), got["bestblock"].as_str()), (Some(70), Some(&*source.tip())), "{got}");
    assert_eq!(set(&half), core_set(&source), "from half way");

    let (mut follower, port) = follower(&ours, &source, &options);
    // bitcoind takes no blocks from a pruned peer before its own tip is of late: for this one the genesis block is.
    let target = Bitcoind::start(&target_dir, &[&flag, "-maxtipage=2000000000"]);
    target.rpc(&["addnode", &format!("127.0.0.1:{port}"), "add"]);
    target.wait_for(&source.tip());
    let want = if v2 { "v2" } else { "v1" };
    assert_eq!((transport(&source).as_str(), transport(&target).as_str()), (want, want));
    source.generate(1);
    target.wait_for(&source.tip());
    // The last twenty go, and twenty-two others come.
    let fork = source.rpc(&["getblockhash", &(BLOCKS + 1 - 19).to_string()]);
    source.rpc(&["invalidateblock", &fork]);
    source.rpc(&["generatetodescriptor", "22", "raw(52)"]);
    target.wait_for(&source.tip());
    assert_eq!(target.rpc(&["getblockcount"]), (BLOCKS + 3).to_string());
    assert_eq!(core_set(&target), core_set(&source));

    follower.signal("TERM");
    let ended = follower.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(set(&ours), core_set(&source));
    target.stop();
    source.stop();
}

#[test]
fn sync_between_two_bitcoinds_over_v1() {
    between_two(false, "");
}

#[test]
fn sync_between_two_bitcoinds_over_v2() {
    between_two(true, "");
}

#[test]
fn pruned_sync_between_two_bitcoinds() {
    between_two(true, "--prune 550");
}
