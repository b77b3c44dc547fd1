//! Block files with a gap, on a real disk: what lies above it stays, also where bitcoind or a kill comes in between.

use crate::bitcoind::{self, Bitcoind};
use crate::data::{self, REGTEST_MAGIC, blocks_dir, records};
use crate::run::{Running, run, start};
use crate::sync::serve;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const KEY: [u8; 8] = [9, 8, 7, 6, 5, 4, 3, 2];
const REINDEX: &str = "reindex --datadir @ --chain regtest --hash hash_serialized_3 --json";
const COINS: &str = "coins info --datadir @ --chain regtest --hash hash_serialized_3 --json";

fn hidden(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
}

/// The records in four obfuscated files.
fn four_files(all: &[&[u8]]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(directory.path(), "regtest");
    fs::create_dir_all(&blocks).unwrap();
    fs::write(blocks.join("xor.dat"), KEY).unwrap();
    for (number, part) in all.chunks(all.len().div_ceil(4)).enumerate() {
        fs::write(blocks.join(format!("blk{number:05}.dat")), hidden(&part.concat())).unwrap();
    }
    directory
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(blocks_dir(directory, "regtest")).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let blocks = named.filter(|(name, _)| name.starts_with("blk"));
    blocks.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

/// Nothing of what lay there is written over.
fn check_kept(before: &BTreeMap<String, Vec<u8>>, directory: &Path, row: &str) {
    let now = files(directory);
    for (name, bytes) in before {
        let there = now.get(name).unwrap_or_else(|| panic!("{row}: {name} is gone"));
        let differs = bytes.iter().zip(there).position(|(a, b)| a != b);
        assert!(there.len() >= bytes.len() && differs.is_none(), "{row}: {name} at {differs:?}");
    }
}

/// How often each record lies in the files.
fn copies(directory: &Path, all: &[&[u8]]) -> Vec<usize> {
    let mut found: HashMap<Vec<u8>, usize> = HashMap::new();
    for bytes in files(directory).into_values() {
        // Without reserved room; a record may end with zeros that are not hidden by the key, but not with eight.
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 9).min(bytes.len());
        let plain = hidden(&bytes[..used]);
        for at in (0..plain.len().saturating_sub(8)).filter(|&at| plain[at..].starts_with(&REGTEST_MAGIC)) {
            let size = u32::from_le_bytes(plain[at + 4..at + 8].try_into().unwrap()) as usize;
            let record = plain.get(at..at + 8 + size).unwrap_or_default();
            *found.entry(record.to_vec()).or_default() += 1;
        }
    }
    all.iter().map(|record| found.get(*record).copied().unwrap_or(0)).collect()
}

fn sync_line(port: u16) -> String {
    format!("sync --datadir @ --chain regtest --connect 127.0.0.1:{port} --assumevalid 0 --dnsseed 0 --json")
}

/// A server with the whole chain, its tip, and the hash of its set.
fn source(bytes: &[u8]) -> (TempDir, Running, u16, (String, String)) {
    let whole = data::directory("regtest", bytes);
    let got = run(whole.path(), REINDEX).good();
    let text = |field: &str| got[field].as_str().unwrap().to_owned();
    let end = (text("bestblock"), text("hash_serialized_3"));
    let (server, port) = serve(whole.path());
    (whole, server, port, end)
}

fn check_end(directory: &Path, end: &(String, String), row: &str) {
    let coins = run(directory, COINS).good();
    let got = (coins["bestblock"].as_str().unwrap(), coins["hash_serialized_3"].as_str().unwrap());
    assert_eq!(got, (end.0.as_str(), end.1.as_str()), "{row}");
}

/// Also where the program is killed at any moment in between, and started again.
#[test]
fn blocks_above_a_gap_are_kept_and_used() {
    let Some(bytes) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let all = records(&bytes);
    let (_whole, mut server, port, end) = source(&bytes);
    for (row, kills) in [("stopped", 0), ("killed", 4)] {
        let directory = four_files(&all);
        let lost = blocks_dir(directory.path(), "regtest").join("blk00001.dat");
        fs::remove_file(&lost).unwrap();
        let before = files(directory.path());
        let got = run(directory.path(), REINDEX);
        assert!(got.err.contains("are not overwritten"), "{row}: {got:?}");
        let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
        assert_eq!(info["unindexed"]["files"], 2, "{row}: {info}");
        let first = run(directory.path(), &format!("{} --stopatheight 60", sync_line(port))).good();
        assert_eq!(first["height"], 60, "{row}");
        check_kept(&before, directory.path(), row);
        for round in 0..kills {
            let mut child = start(directory.path(), &sync_line(port));
            std::thread::sleep(Duration::from_millis(100 + 150 * round));
            child.signal("KILL");
            child.ended();
            check_kept(&before, directory.path(), row);
        }
        run(directory.path(), &format!("{} --exit-at-tip", sync_line(port))).good();
        check_kept(&before, directory.path(), row);
        check_end(directory.path(), &end, row);
        assert!(copies(directory.path(), &all).iter().all(|&count| count == 1), "{row}: each block lies there once");
        let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
        assert!(info["unindexed"].is_null(), "{row}: {info}");
        run(directory.path(), "verify --datadir @ --chain regtest --level 4 --json").good();
    }
    server.signal("TERM");
    server.ended();
}

/// bitcoind opens what ffwd left, after a reindex and in the middle of a sync: it writes over nothing, and so does ffwd then.
#[test]
fn bitcoind_writes_over_nothing_that_ffwd_left() {
    if !bitcoind::is_there() {
        return;
    }
    let Some(bytes) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let all = records(&bytes);
    let (_whole, mut server, port, end) = source(&bytes);
    let torn = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 40]).unwrap();
    };
    for (row, stops_at, is_torn) in
        [("after a reindex", None, false), ("in a sync", Some(70), false), ("torn", None, true)]
    {
        let directory = four_files(&all);
        let blocks = blocks_dir(directory.path(), "regtest");
        fs::remove_file(blocks.join("blk00001.dat")).unwrap();
        if is_torn {
            torn(&blocks.join("blk00003.dat"));
        }
        let before = files(directory.path());
        run(directory.path(), REINDEX);
        if let Some(height) = stops_at {
            run(directory.path(), &format!("{} --stopatheight {height}", sync_line(port))).good();
        }
        let connect = format!("-connect=127.0.0.1:{port}");
        let core = Bitcoind::start(directory.path(), &["-checkblockindex=1", &connect]);
        core.wait_for(&end.0);
        core.stop();
        check_kept(&before, directory.path(), row);
        check_end(directory.path(), &end, row);
        // And ffwd again: what bitcoind fetched a second time does not confuse it.
        run(directory.path(), REINDEX).good();
        check_kept(&before, directory.path(), row);
        check_end(directory.path(), &end, row);
    }
    server.signal("TERM");
    server.ended();
}
