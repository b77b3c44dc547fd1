//! Memory of the real program: sampled while it runs, on chains whose blocks make 30,000 coins each.

use crate::run::{Ran, run, slow, start};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What a process may take beside `--dbcache`.
const BESIDE_MIB: u64 = 150;

/// Anonymous memory of a process in MiB; 0 where it has ended.
fn anonymous_mib(process: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap_or("0");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) >> 10
}

/// Runs a command to its end: what it left, and the most anonymous memory that it had.
fn watched(directory: &Path, line: &str) -> (Ran, u64) {
    let (mut running, mut most) = (start(directory, line), 0);
    while running.goes_on() {
        most = most.max(anonymous_mib(running.child().id()));
        std::thread::sleep(Duration::from_millis(5));
    }
    (running.ended(), most)
}

#[test]
fn anonymous_memory_stays_within_dbcache() {
    let directory = tempfile::tempdir().unwrap();
    // The wide blocks lie below 2,016 small ones: their scripts are assumed valid.
    let (coins, blocks) = if slow() { (6_000_000, 60) } else { (400_000, 1) };
    let made = run(
        directory.path(),
        &format!("lab chain --out @ --blocks {blocks} --seed 8 --utxos {coins} --tail 2100 --signatures fake --json"),
    )
    .good();
    let tip = made["bestblock"].as_str().unwrap();
    let common = format!("--datadir @ --chain regtest --assumevalid {tip} --hash hash_serialized_3 --json");
    let mut sets = Vec::new();
    for (mib, most_mib, work) in [
        // A small chain takes less than it may: its tables are as fragmented as those of a large one.
        (4, if slow() { 4 + BESIDE_MIB } else { 75 }, ""),
        (4, if slow() { 4 + BESIDE_MIB } else { 75 }, "--chainstate-only"),
        (30, 30 + BESIDE_MIB, "--chainstate-only"),
        (100, 100 + BESIDE_MIB, "--chainstate-only"),
    ] {
        let (ran, most) = watched(directory.path(), &format!("reindex {common} {work} --dbcache {mib}"));
        let set = ran.good();
        assert_eq!(set["txouts"], made["txouts"], "{set}");
        assert!(
            most > 0 && most <= most_mib,
            "--dbcache {mib} {work}: {most} MiB of anonymous memory, at most {most_mib}"
        );
        sets.push(set["hash_serialized_3"].clone());
    }
    assert!(sets.windows(2).all(|two| two[0] == two[1]), "{sets:?}");
}

/// What `--dbcache auto` chose is said, in the log and to the user, and a size that is given is not chosen.
#[test]
fn dbcache_auto_says_what_it_chose() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), "lab chain --out @ --blocks 1 --utxos 1000 --tail 3 --json").good();
    for (given, is_chosen) in [("", true), ("--dbcache auto", true), ("--dbcache 30", false)] {
        let ran = run(directory.path(), &format!("reindex --datadir @ --chain regtest {given} --json"));
        ran.good();
        let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
        let said = log.lines().rev().find(|line| line.contains("dbcache=")).unwrap();
        assert_eq!(said.contains("chosen by the memory that is left"), is_chosen, "{given}: {said}");
        assert_eq!(ran.err.contains("dbcache: "), is_chosen, "{given}: {}", ran.err);
        assert!(is_chosen || said.contains("dbcache=30 MiB"), "{said}");
    }
}
