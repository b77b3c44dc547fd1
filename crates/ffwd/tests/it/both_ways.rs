//! ffwd and bitcoind on one data directory: each opens what the other left, checks it at level 4, and continues.

use crate::bitcoind::{Bitcoind, CHECKS, copy, core_set, is_there, set, tables};
use crate::run::run;
use serde_json::Value;
use std::path::Path;

const ON: &str = "--datadir @ --chain regtest --assumevalid 0 --json";

fn ffwd(directory: &Path, command: &str) -> Value {
    run(directory, &format!("{command} {ON}")).good()
}

/// A chain of the lab in a directory; gives its height.
fn chain(directory: &Path, blocks: u32, utxos: u32, tail: u32) -> u64 {
    let line = format!("lab chain --out @ --blocks {blocks} --seed 21 --utxos {utxos} --tail {tail} --json");
    run(directory, &line).good()["height"].as_u64().unwrap()
}

/// Starts bitcoind with all its checks, looks whether it finds this set, and ends it.
fn core_finds(directory: &Path, want: &Value, row: &str) {
    let core = Bitcoind::start(directory, CHECKS);
    assert_eq!(core_set(&core), *want, "{row}");
    core.stop();
}

/// Every command of ours on a directory that bitcoind left, ending where it stands.
fn ours_finds(directory: &Path, want: &Value, row: &str) {
    assert_eq!(set(directory), *want, "{row}: as it lies");
    let height = want["height"].as_u64().unwrap();
    let verified = ffwd(directory, "verify --level 4 --blocks 0");
    assert_eq!((verified["blocks"].as_u64(), &verified["level"]), (Some(height), &4.into()), "{row}: {verified}");
    for line in [&format!("sync --connect 0 --stopatheight {height}"), "reindex --chainstate-only", "reindex"] {
        let got = ffwd(directory, line);
        assert_eq!(got["bestblock"], want["bestblock"], "{row}, {line}: {got}");
        assert_eq!(set(directory), *want, "{row}, {line}");
    }
}

#[test]
fn ffwd_and_bitcoind_continue_from_each_other() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (ours, peers) = (dir.path().join("ours"), dir.path().join("peers"));
    chain(&ours, 2, 2_000, 3);
    ffwd(&ours, "reindex");
    let want = set(&ours);
    let core = Bitcoind::start(&ours, CHECKS);
    assert_eq!(core_set(&core), want, "a directory of ours");
    core.generate(12);
    let want = core_set(&core);
    core.stop();
    ours_finds(&ours, &want, "after a clean stop");
    core_finds(&ours, &want, "after our reindex");

    // A peer goes on from here; the directory itself is killed on a branch of its own.
    copy(&ours, &peers);
    let core = Bitcoind::start(&ours, &[]);
    core.generate(5);
    core.kill();
    let left = set(&ours);
    assert!(left["height"].as_u64() >= want["height"].as_u64(), "{left}");
    ffwd(&ours, "verify --level 4 --blocks 0");
    let peer = Bitcoind::start(&peers, &[]);
    peer.generate(20);
    let want = core_set(&peer);
    let got = ffwd(&ours, &format!("sync --connect 127.0.0.1:{} --exit-at-tip", peer.port));
    assert_eq!((&got["bestblock"], &got["height_start"]), (&want["bestblock"], &left["height"]), "{got}");
    assert_eq!(set(&ours), want, "after kill -9 and sync");
    core_finds(&ours, &want, "after kill -9 and our sync");

    // Killed again, and reindexed: blocks that the index never heard of are found in the files.
    let core = Bitcoind::start(&ours, &[]);
    core.generate(7);
    let want = core_set(&core);
    core.kill();
    let got = ffwd(&ours, "reindex");
    assert_eq!(got["bestblock"], want["bestblock"], "{got}");
    core_finds(&ours, &want, "after kill -9 and our reindex");
    peer.stop();
}

/// bitcoind is stopped in the middle of writing coins: `H` stands in the chainstate, `B` does not.
#[test]
fn half_flushed_chainstate_of_core_is_replayed() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (whole, half) = (dir.path().join("whole"), dir.path().join("half"));
    let height = chain(&whole, 2, 2_000, 3);
    copy(&whole, &half);
    ffwd(&whole, "reindex");
    let want = set(&whole);
    ffwd(&half, "reindex --stopatheight 102");
    let mut core = Bitcoind::spawn(&half, &["-dbcache=4", "-dbbatchsize=5000", "-dbcrashratio=1"]);
    if core.is_ready() {
        core.wait_for(want["bestblock"].as_str().unwrap());
    }
    core.stop();
    let info = ffwd(&half, "info");
    assert!(info["next_step"].as_str().unwrap().contains("replayed"), "{info}");
    // What only looks says so, and changes nothing.
    for line in ["coins info", "verify --level 4 --blocks 0"] {
        let ran = run(&half, &format!("{line} --datadir @ --chain regtest"));
        assert!(ran.code == Some(1) && ran.err.contains("last flush bitcoind did not finish"), "{line}: {ran:?}");
    }
    for (row, line) in [
        ("sync", format!("sync --connect 0 --stopatheight {height}")),
        ("reindex", "reindex".to_owned()),
        ("rebuild", "reindex --chainstate-only".to_owned()),
    ] {
        let directory = dir.path().join(row);
        copy(&half, &directory);
        let got = ffwd(&directory, &line);
        assert_eq!(got["bestblock"], want["bestblock"], "{row}: {got}");
        assert_eq!(set(&directory), want, "{row}");
        core_finds(&directory, &want, row);
    }
}

/// bitcoind with little memory writes many small tables on several levels; what we add must leave it nothing to compact.
#[test]
fn extended_chainstate_leaves_bitcoind_no_compaction() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (core_made, longer) = (dir.path().join("core"), dir.path().join("longer"));
    let coins = 80_000;
    let height = chain(&core_made, 4, coins, 0);
    chain(&longer, 8, coins, 0);
    std::fs::copy(longer.join("regtest/blocks/blk00000.dat"), dir.path().join("longer.dat")).unwrap();
    ffwd(&longer, "reindex");
    let want = set(&longer);
    let little = ["-dbcache=4", "-dbbatchsize=100000", "-maxmempool=5", "-reindex"];
    let core = Bitcoind::start(&core_made, &little);
    while core.rpc(&["getblockcount"]) != height.to_string() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    core.stop();
    let chainstate = core_made.join("regtest/chainstate");
    let before = tables(&chainstate);
    let levels = {
        let made = leveldb::Db::open_read_only(node::options::real_disk(), &chainstate).unwrap();
        made.snapshot().runs().iter().map(|run| run.level).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(before.len() > 4 && levels.len() > 1, "bitcoind made {before:?} on levels {levels:?}");
    let line = "import --datadir @/core --chain regtest --assumevalid 0 --json --dbcache 4 @/longer.dat";
    let got = run(dir.path(), line).good();
    assert_eq!((&got["bestblock"], got["height_start"].as_u64()), (&want["bestblock"], Some(height)), "{got}");
    assert_eq!(set(&core_made), want);
    for directory in ["chainstate", "blocks/index"].map(|name| core_made.join("regtest").join(name)) {
        let ours = tables(&directory);
        let core = Bitcoind::start(&core_made, CHECKS);
        assert_eq!(core_set(&core), want);
        // LevelDB compacts in the background as soon as it is open.
        std::thread::sleep(std::time::Duration::from_secs(1));
        let now = tables(&directory);
        assert!(ours.iter().all(|name| now.contains(name)), "{directory:?}: {ours:?}, then {now:?}");
        core.stop();
    }
    ffwd(&core_made, "verify --level 4 --blocks 0");
}
