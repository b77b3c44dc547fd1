//! Hints by the command: made of a data directory, used by a pruned sync, whose data directory bitcoind takes up.

use crate::bitcoind::{Bitcoind, copy, core_set, is_there};
use crate::run::{Running, run, start};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

const ON: &str = "--chain regtest --json";
const TAIL: u64 = 2100;

/// Serves `directory`; its address.
fn serving(directory: &Path) -> (Running, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let server = start(directory, &format!("sync --datadir @ --chain regtest --listen {address} --connect 0"));
    let begin = Instant::now();
    while std::net::TcpStream::connect(&address).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, address)
}

#[test]
fn a_pruned_sync_with_hints_leaves_what_bitcoind_goes_on_with() {
    let dir = tempfile::tempdir().unwrap();
    let go = |line: &str| run(dir.path(), line);
    let made =
        go(&format!("lab chain --out @/whole --blocks 4 --seed 3 --utxos 3000 --tail {TAIL} --signatures fake --json"));
    let made = made.good();
    let (tip, hinted) = (made["bestblock"].as_str().unwrap(), made["height"].as_u64().unwrap() - TAIL);
    let assumed = format!("--assumevalid {tip}");
    copy(&dir.path().join("whole/regtest/blocks"), &dir.path().join("below/regtest/blocks"));
    go(&format!("reindex --datadir @/whole {ON} {assumed}")).good();
    go(&format!("reindex --datadir @/below {ON} {assumed} --stopatheight {hinted}")).good();
    let hints = go(&format!("hints make @/hints --datadir @/below {ON}")).good();
    assert_eq!(
        (&hints["height"], hints["bytes"].as_u64()),
        (&hinted.into(), Some(dir.path().join("hints").metadata().unwrap().len()))
    );
    let again = go(&format!("hints make @/hints --datadir @/below {ON}"));
    assert!(again.code == Some(1) && again.err.contains("already exists"), "{again:?}");
    assert!(go("hints make @/other --datadir @/below --chain regtest").out.contains("hints of regtest up to height"));

    let (server, address) = serving(&dir.path().join("whole"));
    for made in ["hinted", "none"] {
        std::fs::create_dir(dir.path().join(made)).unwrap();
    }
    let sync = format!("{ON} {assumed} --connect {address} --exit-at-tip --prune 550");
    let done = go(&format!("sync --datadir @/hinted {sync} --hints @/hints --dbcache 50"));
    assert!(done.code == Some(0), "{done:?}");
    for words in ["amounts, maturity", "The hints are right", "count as pruned"] {
        assert!(done.err.contains(words), "{words}: {}", done.err);
    }
    assert_eq!(done.json()["bestblock"].as_str(), Some(tip));
    let unpruned = go(&format!("sync --datadir @/none {ON} --connect {address} --exit-at-tip --hints @/hints"));
    assert!(unpruned.code == Some(1) && unpruned.err.contains("Give --prune too"), "{unpruned:?}");
    drop(server);
    for directory in ["whole", "hinted"] {
        go(&format!("coins dump @/{directory}.dat --datadir @/{directory} {ON}")).good();
    }
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(read("whole.dat") == read("hinted.dat"), "another set");
    let pruned = go(&format!("hints make @/late --datadir @/hinted {ON}"));
    assert!(pruned.code == Some(1) && pruned.err.contains("is pruned. Make hints"), "{pruned:?}");
    if !is_there() {
        return;
    }
    let core = Bitcoind::start(
        &dir.path().join("hinted"),
        &["-prune=550", "-checkblockindex=1", "-checklevel=4", "-checkblocks=300"],
    );
    assert_eq!(core.tip(), tip);
    let wanted = go(&format!("coins info --datadir @/whole {ON} --hash hash_serialized_3")).good();
    assert_eq!(core_set(&core)["hash_serialized_3"], wanted["hash_serialized_3"]);
    assert_eq!(core.rpc(&["verifychain", "4", "400"]), "true");
    // It goes on, and comes back.
    core.generate(3);
    let (tip, height) = (core.tip(), core.rpc(&["getblockcount"]));
    core.stop();
    let info = go(&format!("info --datadir @/hinted {ON}")).good();
    assert_eq!((info["bestblock"].as_str(), info["height"].to_string()), (Some(tip.as_str()), height));
    go(&format!("verify --datadir @/hinted {ON} --level 4 --blocks 500")).good();
}
