//! Core's spelling and Core's options, given to the real program.

use crate::data;
use crate::run::{command, run};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn cores_spelling_is_taken_by_every_command() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let got = run(
        directory.path(),
        "reindex -datadir=@ -regtest -dbcache=4 -par=-1 -stopatheight=100 -checkblockindex -json",
    )
    .good();
    assert_eq!(got["height"], 100, "{got}");
    let got = run(directory.path(), "-regtest -datadir=@ reindex -nostopatheight -blocksxor -debug --json").good();
    assert_eq!(got["height"], 206, "{got}");
    for line in [
        "info -regtest -datadir=@ --json",
        "verify -chain=regtest -datadir=@ --json",
        "coins -regtest info -datadir=@ --json",
        "sync -regtest -datadir=@ -noconnect -nolisten -nodnsseed -v2transport=0 -stopatheight=206 -json",
        "import -regtest -datadir=@ -prune=0 --json @/regtest/blocks/blk00000.dat",
    ] {
        let got = run(directory.path(), line).good();
        assert_eq!(got["height"], 206, "{line}: {got}");
    }
}

#[test]
fn last_value_of_the_command_line_counts() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let line = "reindex -datadir=@ -chain=main -chain=regtest -stopatheight=5 -stopatheight=50 --json";
    assert_eq!(run(directory.path(), line).good()["height"], 50);
}

#[test]
fn options_without_cores_meaning_exit_with_2_by_name() {
    let directory = tempfile::tempdir().unwrap();
    for (line, want) in [
        ("sync -datadir=@ -regtest -signet", "Can use at most one."),
        ("sync -datadir=@ -regtest=0", "-regtest=0"),
        ("sync -datadir=@ -rpcport=0", "--rpcport"),
        ("sync -datadir=@ -onlynet=i2p", "-onlynet=i2p"),
        ("sync -datadir=@ -whitelist=1.2.3.4/40", "Invalid netmask specified in -whitelist"),
        ("sync -datadir=@ -mocktime=5", "--mocktime is for regtest"),
        ("sync -datadir=@ -vbparams=testdummy:0:1", "may not be used on mainnet"),
        ("sync -datadir=@ -regtest -vbparams=taproot:0:1", "Invalid deployment (taproot)"),
        ("sync -datadir=@ -regtest -vbparams=testdummy:0", "Version bits parameters malformed"),
        ("sync -datadir=@ -regtest -connect=127.0.0.1:0", "no peer listens on port 0"),
        ("sync -datadir=@ -regtest -connect=[::1]:0", "no peer listens on port 0"),
        ("sync -datadir=@ -regtest -addnode=example.org:0", "no peer listens on port 0"),
        ("sync -datadir=@ -regtest -connect=not/an/address", "--connect not/an/address"),
        ("sync -datadir=@ -regtest -proxy=a/b", "Invalid -proxy address or hostname: 'a/b'"),
        ("sync -datadir=@ -regtest -bind=127.0.0.1 -listen=0", "Cannot set -bind"),
        ("sync -datadir=@ -regtest -bind=here", "cannot listen on here"),
        ("sync -datadir=@ -regtest -uacomment=(x)", "unsafe characters"),
        ("sync -datadir=@ -regtest -maxconnections=-1", "maxconnections"),
        ("sync -datadir=@ -regtest -maxmempool=1", "-maxmempool must be at least 5 MB"),
        (
            "sync -datadir=@ -regtest -daemon",
            "start it by systemd (dist/ffwd.service), or behind `nohup ffwd sync ... &`",
        ),
        (
            "sync -datadir=@ -regtest -zmqpubhashblock=tcp://127.0.0.1:1",
            "-blocknotify runs a command, the call waitfornewblock",
        ),
        ("sync -datadir=@ -regtest -stopafterblockimport", "ffwd import FILE and ffwd reindex end"),
        ("sync -nodatadir", "Negating of -datadir is meaningless and therefore forbidden"),
    ] {
        let ran = run(directory.path(), line);
        assert!(ran.code == Some(2) && ran.err.contains(want) && ran.out.is_empty(), "{line}: {ran:?}");
    }
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was created");
}

#[test]
fn bitcoin_conf_that_is_a_fifo_is_refused_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let made = Command::new("mkfifo").arg(directory.path().join("bitcoin.conf")).status();
    assert!(made.expect("there is a mkfifo").success());
    let begin = Instant::now();
    let mut child = command(directory.path(), "info --datadir @").stderr(std::process::Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
            panic!("it waits for a writer");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let ran = child.wait_with_output().unwrap();
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(1) && err.contains("bitcoin.conf: it is a FIFO"), "{err}");
}

#[test]
fn mocktime_is_the_clock_on_regtest() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    // Headers further ahead than two hours are not taken.
    let ran = run(directory.path(), "reindex -datadir=@ -regtest -mocktime=1300000000 --json");
    let got = ran.json();
    assert!(ran.code == Some(1) && got["height"].as_u64().unwrap() < 206, "{ran:?}");
    assert!(got["end_reason"].as_str().unwrap().contains("time-too-new"), "{got}");
    let got = run(directory.path(), "reindex -datadir=@ -regtest -mocktime=0 --json").good();
    assert_eq!(got["height"], 206, "{got}");
}

#[test]
fn fastprune_writes_block_files_of_64_kib() {
    let directory = tempfile::tempdir().unwrap();
    run(directory.path(), "lab chain --out @/from --blocks 1 --seed 3 --utxos 1000 --json").good();
    let line = "import --datadir @ --chain regtest -fastprune --json @/from/regtest/blocks/blk00000.dat";
    run(directory.path(), line).good();
    let files = fs::read_dir(directory.path().join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path());
    let blocks: Vec<_> = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("blk")).collect();
    assert!(blocks.len() > 1, "{blocks:?}");
    run(directory.path(), "verify --datadir @ --chain regtest --level 4 --blocks 0 --json").good();
}
