//! Obfuscated, plain, packed and foreign block files: all that can be read is read, and what cannot is said.

use crate::data::{REGTEST_MAGIC, blocks_dir, records};
use crate::run::{Ran, command, run};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use tempfile::TempDir;

const KEY: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
const FILES: usize = 4;

/// The records of a chain of 400 blocks.
fn chain() -> Option<Vec<u8>> {
    testkit::data::load("snapshots/regtest_assumeutxo_0_399.blk.xz")
}

fn hidden(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key).collect()
}

/// A data directory with that chain in four block files, those of `plain` plain and the others obfuscated.
fn directory(chain: &[u8], plain: &[usize], stored_key: Option<[u8; 8]>) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(directory.path(), "regtest");
    fs::create_dir_all(&blocks).unwrap();
    let records = records(chain);
    for (number, some) in records.chunks(records.len().div_ceil(FILES)).enumerate() {
        let bytes = some.concat();
        let bytes = if plain.contains(&number) { bytes } else { hidden(&bytes) };
        fs::write(blocks.join(format!("blk{number:05}.dat")), bytes).unwrap();
    }
    if let Some(key) = stored_key {
        fs::write(blocks.join("xor.dat"), key).unwrap();
    }
    directory
}

fn ffwd(datadir: &Path, words: &str) -> Ran {
    run(datadir, &format!("{words} --datadir @ --chain regtest --json"))
}

/// The set's hash.
fn set_of(datadir: &Path) -> Value {
    ffwd(datadir, "coins info --hash hash_serialized_3").good()["hash_serialized_3"].clone()
}

/// The hash of the chain's set, from plain files.
fn want(chain: &[u8]) -> Value {
    let plain = directory(chain, &[0, 1, 2, 3], None);
    assert_eq!(ffwd(plain.path(), "reindex").good()["height"], 399);
    set_of(plain.path())
}

#[test]
fn lost_key_is_worked_out() {
    let Some(chain) = chain() else { return };
    let want = want(&chain);
    for (row, indexes_first) in [("with an index", true), ("block files alone", false)] {
        let dir = directory(&chain, &[], Some(KEY));
        let (datadir, key) = (dir.path(), blocks_dir(dir.path(), "regtest").join("xor.dat"));
        if indexes_first {
            ffwd(datadir, "reindex").good();
        }
        fs::remove_file(&key).unwrap();
        let info = ffwd(datadir, "info");
        assert_eq!(info.good()["lost_xor_key"], "0123456789abcdef", "{row}: {info:?}");
        assert!(!key.exists(), "{row}: info writes nothing");
        let first = blocks_dir(datadir, "regtest").join("blk00000.dat");
        let before = fs::read(&first).unwrap();
        let synced = ffwd(datadir, "sync --connect 0 --stopatheight 399");
        assert_eq!(synced.json()["height"], 399, "{row}: {synced:?}");
        assert_eq!(fs::read(&key).unwrap(), KEY, "{row}");
        assert_eq!(fs::read(&first).unwrap()[..before.len()], before, "{row}: no record is written over");
        fs::remove_file(&key).unwrap();
        if cfg!(feature = "export") {
            ffwd(datadir, "export --from 1 --to 399 --out @/tables").good();
            assert!(!key.exists(), "{row}: an export writes nothing into the data directory");
        }
        fs::remove_dir_all(datadir.join("tables")).ok();
        let reindexed = ffwd(datadir, "reindex");
        assert_eq!(reindexed.good()["height"], 399, "{row}");
        assert!(reindexed.err.contains("xor.dat was missing"), "{row}: {reindexed:?}");
        assert_eq!((fs::read(&key).unwrap().as_slice(), set_of(datadir)), (KEY.as_slice(), want.clone()), "{row}");
    }
}

#[test]
fn lost_key_that_no_file_gives_away_stops_the_program() {
    let Some(chain) = chain() else { return };
    let dir = directory(&chain, &[], None);
    for number in 0..FILES {
        let file = blocks_dir(dir.path(), "regtest").join(format!("blk{number:05}.dat"));
        let mut bytes = fs::read(&file).unwrap();
        bytes[..4].fill(0x77);
        fs::write(&file, bytes).unwrap();
    }
    for words in ["reindex", "sync --connect 0 --stopatheight 399", "info"] {
        let ran = ffwd(dir.path(), words);
        assert_eq!(ran.code, Some(1), "{words}: {ran:?}");
        assert!(
            ran.err.contains("no xor.dat in its directory") && ran.err.contains("Put the xor.dat back"),
            "{words}: {ran:?}"
        );
        assert!(!blocks_dir(dir.path(), "regtest").join("xor.dat").exists(), "{words}: nothing is stored");
    }
}

#[test]
fn plain_files_beside_a_key_are_read_and_kept() {
    let Some(chain) = chain() else { return };
    let want = want(&chain);
    for (row, plain, key) in [
        ("all plain", &[0, 1, 2, 3][..], Some(KEY)),
        ("the first two plain", &[0, 1], Some(KEY)),
        ("the last one plain", &[3], Some(KEY)),
        ("the first plain, the key lost", &[0], None),
    ] {
        let dir = directory(&chain, plain, key);
        let datadir = dir.path();
        let files =
            |number: usize| fs::read(blocks_dir(datadir, "regtest").join(format!("blk{number:05}.dat"))).unwrap();
        let before: Vec<_> = (0..FILES).map(files).collect();
        assert_eq!(ffwd(datadir, "reindex").good()["height"], 399, "{row}");
        assert_eq!(set_of(datadir), want, "{row}");
        assert_eq!(fs::read(blocks_dir(datadir, "regtest").join("xor.dat")).unwrap(), KEY, "{row}");
        assert_eq!(ffwd(datadir, "verify --level 4 --blocks 0").code, Some(0), "{row}");
        assert_eq!((0..FILES).map(files).collect::<Vec<_>>(), before, "{row}: no file is rewritten");
    }
}

fn packed(tool: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut child =
        std::process::Command::new(tool).arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&bytes).unwrap());
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Some(out.stdout)
}

#[test]
fn import_takes_packed_and_obfuscated_files_and_pipes() {
    let Some(chain) = chain() else { return };
    let want = want(&chain);
    let source = directory(&chain, &[], Some(KEY));
    let target = tempfile::tempdir().unwrap();
    let from: Vec<String> = (0..FILES)
        .map(|n| blocks_dir(source.path(), "regtest").join(format!("blk{n:05}.dat")).display().to_string())
        .collect();
    assert_eq!(ffwd(target.path(), &format!("import {}", from.join(" "))).good()["height"], 399);
    assert_eq!(set_of(target.path()), want, "another node's obfuscated files");

    for tool in ["gzip", "xz", "zstd"] {
        let Some(bytes) = packed(tool, &chain) else {
            println!("skipped: no {tool} here");
            continue;
        };
        let target = tempfile::tempdir().unwrap();
        let file = target.path().join("bootstrap");
        fs::write(&file, &bytes).unwrap();
        let ran = ffwd(target.path(), &format!("import {}", file.display()));
        assert_eq!((ran.good()["height"].clone(), set_of(target.path())), (399.into(), want.clone()), "{tool}");
        let cut = tempfile::tempdir().unwrap();
        fs::write(cut.path().join("bootstrap"), &bytes[..bytes.len() / 2]).unwrap();
        let ran = ffwd(cut.path(), &format!("import {}", cut.path().join("bootstrap").display()));
        assert_eq!(ran.code, Some(1), "{tool}, cut: {ran:?}");
        assert!(ran.err.contains("cannot be unpacked further"), "{tool}, cut: {ran:?}");
    }

    let target = tempfile::tempdir().unwrap();
    let line = "import - --datadir @ --chain regtest --json";
    let mut child = command(target.path(), line).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The last blocks first: their parents come behind them.
    let mut records = records(&chain);
    records.rotate_right(50);
    let mut stdin = child.stdin.take().unwrap();
    for some in records.chunks(7) {
        stdin.write_all(&some.concat()).unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
    assert_eq!(set_of(target.path()), want, "a pipe, out of order");
}

#[test]
fn nothing_readable_is_a_failure() {
    let Some(signet) = testkit::data::load("chains/signet_0_120.blk.xz") else { return };
    let noise: Vec<u8> = testkit::Rng::new(1).bytes(100_000);
    for (row, bytes, says) in [
        ("another network's", signet.as_slice(), "blocks of signet"),
        ("noise", &noise, "no block of regtest could be read"),
        ("a header alone", &[REGTEST_MAGIC.as_slice(), &[80, 0, 0, 0], &[0; 80]].concat(), "its records are damaged"),
        ("nothing", b"", "no block is in what was given to import"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), bytes).unwrap();
        let ran = ffwd(dir.path(), &format!("import {}", dir.path().join("file").display()));
        assert_eq!(ran.code, Some(1), "{row}: {ran:?}");
        assert!(ran.err.contains(says), "{row}: {ran:?}");
        assert!(ran.json()["end_reason"].as_str().unwrap().contains(says), "{row}: {ran:?}");
    }

    let dir = tempfile::tempdir().unwrap();
    let blocks = blocks_dir(dir.path(), "regtest");
    fs::create_dir_all(&blocks).unwrap();
    fs::write(blocks.join("blk00000.dat"), &signet).unwrap();
    fs::write(blocks.join("xor.dat"), [0; 8]).unwrap();
    let ran = ffwd(dir.path(), "reindex");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("signet"), "{ran:?}");
}
