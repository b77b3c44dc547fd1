//! `--without`: each idea off gives the same set, and the result says what was off. Flushes and times in debug.log.

use crate::data;
use crate::run::run;
use serde_json::json;
use std::fs;

const IDEAS: [&str; 12] = [
    "bulk-reads",
    "wide-xor",
    "hash-lanes",
    "packed-coins",
    "huge-pages",
    "prefetch",
    "batch-look-ups",
    "sorted-runs",
    "signature-lanes",
    "signature-sums",
    "look-ahead",
    "background-commits",
];

/// A chain whose coins need several commits with the least cache.
#[test]
fn every_idea_off_gives_the_same_set() {
    let directory = tempfile::tempdir().unwrap();
    let made =
        run(directory.path(), "lab chain --out @ --blocks 2 --seed 3 --utxos 60000 --signatures real --json").good();
    let reindex = |more: &str| {
        let line = "reindex --datadir @ --chain regtest --assumevalid 0 --dbcache 4 --hash hash_serialized_3 --json";
        run(directory.path(), &format!("{line} {more}"))
    };
    let want = reindex("").good();
    assert_eq!((&want["height"], want.get("without")), (&made["height"], None));
    let all = IDEAS.map(|name| format!("--without {name}")).join(" ");
    for (names, options) in
        IDEAS.iter().map(|name| (vec![*name], format!("--without {name}"))).chain([(IDEAS.to_vec(), all)])
    {
        let got = reindex(&options).good();
        assert_eq!(got["without"], json!(names), "{options}");
        for field in ["hash_serialized_3", "txouts", "scripts_verified", "bestblock"] {
            assert_eq!(got[field], want[field], "{options}: {field}");
        }
    }
    assert_eq!(reindex("--without patience").code, Some(2));
}

#[test]
fn log_has_settings_flushes_and_microseconds() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let log = directory.path().join("regtest/debug.log");
    let got =
        run(directory.path(), "reindex --datadir @ --chain regtest --dbcache 9 --par 1 --debug bench --json").good();
    let first = fs::read_to_string(&log).unwrap();
    let lines = first.lines().filter(|line| line.contains("[bench] BatchWrite: write coins cache to disk (")).count();
    assert_eq!(got["flushes"], json!(lines), "{first}");
    assert!(first.lines().take(5).any(|line| line.contains("Settings: dbcache=9 par=1 ")), "{first}");
    assert!(first.lines().all(|line| line.as_bytes()[19] == b'Z'), "whole seconds: {first}");
    run(directory.path(), "reindex --datadir @ --chain regtest --logtimemicros 1 --json").good();
    let whole = fs::read_to_string(&log).unwrap();
    let last = &whole[first.len()..];
    assert!(last.lines().all(|line| line.as_bytes()[19] == b'.' && line.as_bytes()[26] == b'Z'), "{last}");
}
