//! Runs that are stopped or killed: the next run continues, and ends with the same UTXO set.

use crate::run::{Ran, run, slow, start};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

const REINDEX: &str = "reindex --datadir @ --chain regtest --assumevalid 0 --dbcache 4 --json";

fn chain(directory: &Path, blocks: u32, utxos: u32) -> serde_json::Value {
    run(directory, &format!("lab chain --out @ --blocks {blocks} --seed 5 --utxos {utxos} --json")).good()
}

fn set(directory: &Path) -> serde_json::Value {
    run(directory, "coins info --datadir @ --chain regtest --json").good()["hash_serialized_3"].clone()
}

#[test]
fn ctrl_c_commits_and_the_next_run_continues() {
    let directory = tempfile::tempdir().unwrap();
    let made = chain(directory.path(), 5, 5_000);
    let mut child = start(directory.path(), REINDEX);
    // Once some blocks are connected, and long before all are.
    let log = directory.path().join("regtest/debug.log");
    let connected = || fs::read_to_string(&log).is_ok_and(|text| text.contains("height=60 "));
    for _ in 0..3_000 {
        if connected() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    // Service managers, containers and `timeout` signal more than once.
    ["INT", "TERM", "TERM", "INT"].iter().for_each(|name| child.signal(name));
    let ran = child.ended();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert!(ran.err.contains("stopping: committing the connected blocks first"), "{ran:?}");
    let stopped = ran.json();
    assert_eq!((&stopped["stopped"], stopped["txouts"].is_null()), (&true.into(), true), "{stopped}");
    let height = stopped["height"].as_u64().unwrap();
    assert!(height >= 60 && height < made["height"].as_u64().unwrap(), "{stopped}");
    let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
    assert_eq!((&info["reindexing"], &info["height"]), (&true.into(), &stopped["height"]), "{info}");
    let got = run(directory.path(), REINDEX).good();
    assert_eq!((&got["height_start"], &got["bestblock"]), (&stopped["height"], &made["bestblock"]), "{got}");
    assert_eq!(got["txouts"], made["txouts"], "{got}");
    // The last line counts the transactions of both runs, and genesis.
    let verified = run(directory.path(), "verify --level 1 --blocks 0 --datadir @ --chain regtest --json").good();
    let text = fs::read_to_string(&log).unwrap();
    let last = text.lines().rev().find(|line| line.contains("UpdateTip: ")).unwrap();
    let count = verified["transactions"].as_u64().unwrap() + 1;
    assert!(last.contains(&format!(" tx={count} ")) && last.contains(" progress=0."), "{count}: {last}");
    stop_a_verify(directory.path());
}

/// It writes nothing, so it exits at once, and blocks that it did not reach are no damage.
fn stop_a_verify(directory: &Path) {
    // It is said when blocks begin to be connected again, and all their scripts are still to come.
    let line = "verify --level 4 --blocks 0 --datadir @ --chain regtest";
    let ran = signalled_after(directory, line, "Enabling script verification", "INT");
    assert_eq!((ran.code, ran.out.as_str()), (Some(130), ""), "{ran:?}");
}

/// Runs a command, and signals it after its first line of standard error, which begins with `first`. No error follows.
fn signalled_after(directory: &Path, line: &str, first: &str, signal: &str) -> Ran {
    let mut child = start(directory, line);
    let mut said = BufReader::new(child.child().stderr.take().unwrap());
    let mut begin = String::new();
    said.read_line(&mut begin).unwrap();
    assert!(begin.starts_with(first), "{begin}");
    child.signal(signal);
    let ran = child.ended();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("Error: "), "{line}: {ran:?}\n{rest}");
    ran
}

/// The sync has no end of its own, so that its stop is success; with `--exit-at-tip` it was stopped before its end.
#[test]
fn a_sync_that_waits_for_its_snapshot_can_be_stopped() {
    for (end, code) in [("", 0), ("--exit-at-tip", 130)] {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let line = format!("sync --snapshot @/pipe --datadir @ --chain regtest --connect 127.0.0.1:1 {end}");
        // Said once signals are heeded. Nobody writes to the pipe.
        let ran = signalled_after(directory.path(), &line, "dbcache: ", "TERM");
        assert_eq!(ran.code, Some(code), "{end}: {ran:?}");
    }
}

/// The height from which a run went on, as it said.
fn went_on_from(said: &str) -> Option<u32> {
    let rest = said.split("oing on from height ").nth(1)?;
    rest.split(',').next()?.parse().ok()
}

/// Kills `kills` runs at instants spread over the time that a whole one takes; each continues from the one before.
fn kill_often(line: &str, kills: u32) {
    let (directory, whole) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // With --dbcache 4 the coins of this chain are committed several times on the way.
    let made = chain(directory.path(), 5, 400_000);
    chain(whole.path(), 5, 400_000);
    run(whole.path(), REINDEX).good();
    if line.contains("--chainstate-only") {
        run(directory.path(), REINDEX).good();
    }
    let begin = std::time::Instant::now();
    let flushes = run(whole.path(), line).good()["flushes"].clone();
    assert!(flushes.as_u64().unwrap() > 2, "{line}: {flushes} commits");
    let seconds = begin.elapsed().as_secs_f64();
    let (mut killed, mut begun, mut heights) = (0, 0, Vec::new());
    while killed < kills {
        begun += 1;
        assert!(begun < kills * 20, "{line}: {killed} of {begun} runs killed");
        let mut child = start(directory.path(), line);
        // The golden ratio spreads the instants evenly, in whatever number.
        let share = (f64::from(begun) * 0.618_033_988_749_895).fract();
        std::thread::sleep(Duration::from_secs_f64(share * seconds));
        if child.goes_on() {
            child.child().kill().unwrap();
            killed += 1;
        }
        heights.extend(went_on_from(&child.ended().err));
    }
    let ran = run(directory.path(), line);
    heights.extend(went_on_from(&ran.err));
    println!("{line}: {killed} of {begun} runs killed; {} went on from {heights:?}", heights.len());
    let got = ran.good();
    assert!(heights.iter().any(|&height| height > 0), "{line}: no run went on from where another was killed");
    assert_eq!((&got["bestblock"], &got["txouts"]), (&made["bestblock"], &made["txouts"]), "{line}: {got}");
    assert_eq!(set(directory.path()), set(whole.path()), "{line}: after {killed} kills");
    run(directory.path(), "verify --datadir @ --chain regtest --level 4 --blocks 0 --json").good();
}

#[test]
fn killed_reindex_continues() {
    kill_often(REINDEX, if slow() { 200 } else { 6 });
}

#[test]
fn killed_rebuild_continues() {
    kill_often(
        "reindex --chainstate-only --datadir @ --chain regtest --assumevalid 0 --dbcache 4 --json",
        if slow() { 100 } else { 4 },
    );
}

#[test]
fn ctrl_c_while_waiting_for_disk_space_exits_with_130() {
    let directory = tempfile::tempdir().unwrap();
    chain(&directory.path().join("from"), 1, 1_000);
    // A file system of two mebibytes, in a name space of its own; block files are reserved in larger pieces.
    let mounted = "mkdir $1/small && mount -t tmpfs -o size=2m none $1/small && exec $2 import --datadir $1/small --chain regtest $1/from/regtest/blocks/blk00000.dat";
    let may_mount = || {
        let mut tried = std::process::Command::new("unshare");
        tried.args(["-rm", "mount", "-t", "tmpfs", "none"]).arg(directory.path());
        tried.output().is_ok_and(|ran| ran.status.success())
    };
    if !may_mount() {
        return println!("skipped: this user may not mount a file system");
    }
    let mut command = std::process::Command::new("unshare");
    command.args(["-rm", "sh", "-c", mounted, "sh"]).arg(directory.path()).arg(env!("CARGO_BIN_EXE_ffwd"));
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("Waiting for disk space") {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it waits for space");
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.unwrap().success());
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest}");
    assert!(rest.contains("stopped: ") && !rest.contains("Error: "), "{rest}");
}

/// `-dbcrashratio`: the program ends between the tables of a commit and their manifest, and the next run continues.
#[cfg(feature = "regtest-tools")]
#[test]
fn simulated_crashes_in_commits_lose_no_coin() {
    let directory = tempfile::tempdir().unwrap();
    let made = chain(directory.path(), 3, 1_000);
    let log = directory.path().join("regtest/debug.log");
    let crashes = || fs::read_to_string(&log).unwrap().matches("Simulating a crash. Goodbye.").count();
    let first = run(directory.path(), &format!("{REINDEX} --dbcrashratio 1"));
    assert_eq!((first.code, first.out.as_str(), crashes()), (Some(0), "", 1), "the first commit ends it: {first:?}");
    let mut last = None;
    for before in 1..200 {
        let ran = run(directory.path(), &format!("{REINDEX} --dbcrashratio 9"));
        if !ran.out.is_empty() {
            last = Some(ran.good());
            break;
        }
        assert_eq!((ran.code, crashes()), (Some(0), before + 1), "{ran:?}");
    }
    let last = last.expect("a run gets through");
    assert_eq!((&last["bestblock"], &last["txouts"]), (&made["bestblock"], &made["txouts"]), "{last}");
    let crashed = set(directory.path());
    run(directory.path(), REINDEX).good();
    assert_eq!(set(directory.path()), crashed, "as without crashes");
}
