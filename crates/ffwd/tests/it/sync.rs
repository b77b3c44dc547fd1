//! Sync from another ffwd.

use crate::data;
use crate::run::{Running, run, start};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;

/// A server on a directory; it listens when this returns.
pub(crate) fn serve(directory: &Path) -> (Running, u16) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = start(directory, &format!("sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:{port}"));
    for _ in 0..1_000 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return (server, port);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("the server listens within ten seconds");
}

#[test]
fn sync_from_ffwd_ends_at_its_tip() {
    let Some(source) = data::real("regtest", "regtest_1_206") else { return };
    let want = run(source.path(), "reindex --datadir @ --chain regtest --hash hash_serialized_3 --json").good();
    let (mut server, port) = serve(source.path());
    for (row, first) in [("from nothing", None), ("from half way", Some(100))] {
        for transport in [1, 0] {
            let target = tempfile::tempdir().unwrap();
            let line = |more: &str| {
                format!(
                    "sync --datadir @ --chain regtest --connect 127.0.0.1:{port} --v2transport {transport} --json {more}"
                )
            };
            if let Some(height) = first {
                let got = run(target.path(), &line(&format!("--stopatheight {height}"))).good();
                assert_eq!(got["height"], height, "{row}: {got}");
            }
            let got = run(target.path(), &line("--exit-at-tip")).good();
            assert_eq!(got["bestblock"], want["bestblock"], "{row}, v2 {transport}: {got}");
            assert_eq!(got["height_start"], first.unwrap_or(0), "{row}: {got}");
            let coins = run(target.path(), "coins info --datadir @ --chain regtest --json").good();
            assert_eq!(coins["hash_serialized_3"], want["hash_serialized_3"], "{row}, v2 {transport}");
        }
    }
    server.signal("TERM");
    assert_eq!(server.ended().code, Some(0));
}

#[test]
fn exit_at_tip_without_reachable_peer_waits() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = start(directory.path(), "sync --datadir @ --chain regtest --connect 127.0.0.1:1 --exit-at-tip");
    std::thread::sleep(Duration::from_secs(2));
    assert!(child.goes_on(), "it waits for a peer");
    child.signal("INT");
    assert_eq!(child.ended().code, Some(130));
}

#[test]
fn sync_with_a_clock_behind_the_chain_exits_with_1() {
    let Some(source) = data::real("regtest", "regtest_1_206") else { return };
    run(source.path(), "reindex --datadir @ --chain regtest --json").good();
    let (mut server, port) = serve(source.path());
    let target = tempfile::tempdir().unwrap();
    let line = format!("sync -datadir=@ -regtest -connect=127.0.0.1:{port} -mocktime=1300000000 --exit-at-tip --json");
    let mut child = start(target.path(), &line);
    let begin = std::time::Instant::now();
    while child.goes_on() {
        assert!(begin.elapsed() < Duration::from_secs(150), "it ends");
        std::thread::sleep(Duration::from_millis(50));
    }
    let ran = child.ended();
    let got = ran.json();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(got["end_reason"].as_str().unwrap().contains("time-too-new"), "{got}");
    server.signal("TERM");
    assert_eq!(server.ended().code, Some(0));
}
