//! Stopped in order, and killed: the next run goes on, and ends with the same set.

use crate::run::{run, slow, start};
use std::fs;
use std::path::Path;
use std::time::Duration;

const REINDEX: &str = "reindex --datadir @ --chain regtest --assumevalid 0 --dbcache 4 --json";

fn chain(folder: &Path, blocks: u32) -> serde_json::Value {
    run(folder, &format!("lab chain --out @ --blocks {blocks} --seed 5 --utxos 5000 --json")).good()
}

fn set(folder: &Path) -> serde_json::Value {
    run(folder, "coins info --datadir @ --chain regtest --json").good()["hash_serialized_3"].clone()
}

#[test]
fn ctrl_c_commits_and_the_next_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let made = chain(folder.path(), 5);
    let mut child = start(folder.path(), REINDEX);
    // Once some blocks are connected, and long before all are.
    let log = folder.path().join("regtest/debug.log");
    let connected = || fs::read_to_string(&log).is_ok_and(|text| text.contains("height=60 "));
    for _ in 0..3_000 {
        if connected() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.signal("INT");
    let ran = child.ended();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.err.contains("stopping: what is connected is committed first"), "{ran:?}");
    let stopped = ran.json();
    assert_eq!((&stopped["stopped"], stopped["txouts"].is_null()), (&true.into(), true), "{stopped}");
    let height = stopped["height"].as_u64().unwrap();
    assert!(height >= 60 && height < made["height"].as_u64().unwrap(), "{stopped}");
    let info = run(folder.path(), "info --datadir @ --chain regtest --json").good();
    assert_eq!((&info["reindexing"], &info["height"]), (&true.into(), &stopped["height"]), "{info}");
    let got = run(folder.path(), REINDEX).good();
    assert_eq!((&got["height_start"], &got["bestblock"]), (&stopped["height"], &made["bestblock"]), "{got}");
    assert_eq!(got["txouts"], made["txouts"], "{got}");
}

/// Kills runs at instants spread over the time that a whole one takes.
fn kill_often(line: &str, kills: u32) {
    let (folder, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = chain(folder.path(), 1);
    chain(whole.path(), 1);
    run(whole.path(), REINDEX).good();
    if line.contains("--chainstate-only") {
        run(folder.path(), REINDEX).good();
    }
    let begin = std::time::Instant::now();
    run(whole.path(), line).good();
    let seconds = begin.elapsed().as_secs_f64();
    let mut killed = 0;
    for step in 1..=kills {
        let mut child = start(folder.path(), line);
        // The golden ratio spreads the instants evenly, in whatever number.
        let share = (f64::from(step) * 0.618_033_988_749_895).fract();
        std::thread::sleep(Duration::from_secs_f64(share * seconds));
        if child.goes_on() {
            child.child().kill().unwrap();
            killed += 1;
        }
        child.ended();
    }
    assert!(killed > 0, "{line}: never killed");
    let got = run(folder.path(), line).good();
    assert_eq!((&got["bestblock"], &got["txouts"]), (&made["bestblock"], &made["txouts"]), "{line}: {got}");
    assert_eq!(set(folder.path()), set(whole.path()), "{line}: after {killed} kills");
    run(folder.path(), "verify --datadir @ --chain regtest --level 4 --blocks 0 --json").good();
}

#[test]
fn a_killed_reindex_goes_on() {
    kill_often(REINDEX, if slow() { 200 } else { 6 });
}

#[test]
fn a_killed_rebuild_goes_on() {
    kill_often(
        "reindex --chainstate-only --datadir @ --chain regtest --assumevalid 0 --dbcache 4 --json",
        if slow() { 100 } else { 4 },
    );
}
