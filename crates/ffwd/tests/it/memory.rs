//! Memory of the real program: sampled while it runs, on chains whose blocks make 30,000 coins each, or spend the largest.

use crate::run::{Ran, run, slow, start};
use consensus::Chain;
use disk::Disk;
use primitives::OutPoint;
use std::fs;
use std::path::Path;
use std::time::Duration;
use testkit::blocks::{self, In, MATURITY, Tx};

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

/// A script of 10,000 bytes, the most that can be spent, which leaves true: elements that are dropped.
fn largest_script(fill: u8) -> Vec<u8> {
    let longest = [&[0x4d, 0x08, 0x02][..], &[fill; 520], &[0x75]].concat();
    let script = [&longest.repeat(19)[..], &[41], &[fill; 41], &[0x75, 0x51]].concat();
    assert_eq!(script.len(), 10_000);
    script
}

/// Blocks that make coins with the largest scripts, 99 each, then small ones, then one that spends them all; where it is bad,
/// also one whose script fails.
fn write_wide_scripts(path: &Path, wide: u32, is_bad: bool) {
    const COINS: u32 = 99;
    let mut records = Vec::new();
    let genesis = &consensus::Params::new(Chain::Regtest).genesis;
    let (mut prev, mut spends) = (blocks::hash_of(genesis), Vec::new());
    for height in 1..=wide + MATURITY {
        let mut coinbase = Tx::coinbase(height, 0);
        if height <= wide {
            coinbase.outputs = vec![(0, largest_script(height.to_le_bytes()[0])); COINS as usize];
            let is_last = is_bad && height == wide;
            coinbase.outputs.extend(is_last.then(|| (0, vec![0])));
            let txid = coinbase.txid();
            spends.extend((0..COINS + u32::from(is_last)).map(|vout| In::of(OutPoint { txid, vout })));
        }
        let mut transactions = vec![coinbase];
        if height == wide + MATURITY {
            transactions.push(Tx { inputs: std::mem::take(&mut spends), ..Tx::spend(OutPoint::NULL, 0) });
        }
        let block = blocks::block(prev, blocks::GENESIS_TIME + 600 * height, &transactions);
        prev = blocks::hash_of(&block);
        records.extend(blocks::record([0xfa, 0xbf, 0xb5, 0xda], &block));
    }
    fs::write(path, records).unwrap();
}

/// What a block spends is 59 MB here, which answers, undo data, scripts and filters have once each.
#[test]
fn anonymous_memory_stays_within_dbcache_where_a_block_spends_the_largest_scripts() {
    let directory = tempfile::tempdir().unwrap();
    if let Err(why) = disk::RealDisk.unnamed_file(directory.path(), 2 << 30) {
        println!("skipped: it wants files without a name, and 2 GiB of room: {why}");
        return;
    }
    let wide = if slow() { 240 } else { 60 };
    write_wide_scripts(&directory.path().join("wide.dat"), wide, false);
    write_wide_scripts(&directory.path().join("bad.dat"), wide.max(100), true);
    fs::create_dir(directory.path().join("bad")).unwrap();
    // The block is judged twice before it is refused.
    let (refused, most) =
        watched(directory.path(), "import --datadir @/bad --chain regtest --dbcache 4 --json @/bad.dat");
    assert_eq!(refused.good()["blocks_invalid"].as_u64(), Some(1), "{}", refused.err);
    assert!(refused.err.contains("block-script-verify-flag-failed"), "{}", refused.err);
    assert!(most > 0 && most <= 4 + BESIDE_MIB, "a block that is refused: {most} MiB of anonymous memory");
    let common = "--datadir @ --chain regtest --dbcache 4 --json";
    for line in [
        format!("import {common} @/wide.dat"),
        format!("reindex {common} --chainstate-only"),
        format!("reindex {common} --blockfilterindex --coinstatsindex"),
        format!("verify {common} --level 4"),
    ] {
        let (ran, most) = watched(directory.path(), &line);
        let left = ran.good();
        assert_eq!(left["height"].as_u64(), Some(u64::from(wide + MATURITY)), "{left}");
        assert!(most > 0 && most <= 4 + BESIDE_MIB, "{line}: {most} MiB of anonymous memory");
    }
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
