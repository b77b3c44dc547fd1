//! A reindex that is stopped, between its first steps or half-way, opens in bitcoind, which ends where ffwd would have.
//!
//! The reindex runs on a simulated disk that stops at one operation after another; each directory that is left is given to
//! bitcoind. With SLOW=1 at every operation, else at some.

use crate::bitcoind::{Bitcoind, CHECKS, copy, core_set, is_there};
use crate::run::{run, slow, start};
use consensus::{Chain, Params};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::jobs;
use node::options::{Options, real_disk};
use primitives::{BlockHash, Work};
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The directory on the simulated disk.
const DIRECTORY: &str = "/no-such-directory";
/// The first steps take fewer operations.
const FIRST_OPERATIONS: u64 = 60;

fn options(disk: &SimDisk) -> Options {
    Options {
        disk: disk.shared(),
        // Commits at every chance, so that half-way has commits.
        commit_interval: Duration::ZERO,
        minimum_chain_work: Work::ZERO,
        dbcache_bytes: 16 << 20,
        par: 1,
        assumevalid: BlockHash::ZERO,
        ..Options::new(PathBuf::from(DIRECTORY), Params::new(Chain::Regtest), std::time::SystemTime::now)
    }
}

/// Every file below `path` of a disk.
fn files(disk: &dyn Disk, path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in disk.list(path).unwrap() {
        let path = path.join(entry.name);
        if entry.is_dir { found.extend(files(disk, &path)) } else { found.push(path) }
    }
    found
}

/// Copies all files from one disk to another, to the same names below other directories; durable.
fn carry(from: &dyn Disk, at: &Path, to: &dyn Disk, there: &Path) {
    to.create_dir_all(there).unwrap();
    for path in files(from, at) {
        let file = from.open(&path).unwrap();
        let target = there.join(path.strip_prefix(at).unwrap());
        to.create_dir_all(target.parent().unwrap()).unwrap();
        let copy = to.create(&target).unwrap();
        copy.write_at(0, &file.bytes().unwrap()).unwrap();
        copy.sync().unwrap();
        for directory in target.ancestors().skip(1).filter(|directory| directory.starts_with(there)) {
            to.sync_dir(directory).unwrap();
        }
    }
}

fn digest(disk: &dyn Disk) -> u64 {
    let mut hasher = DefaultHasher::new();
    for path in files(disk, Path::new(DIRECTORY)) {
        (&path, &*disk.open(&path).unwrap().bytes().unwrap()).hash(&mut hasher);
    }
    hasher.finish()
}

#[test]
fn reindex_stopped_at_any_write_is_finished_by_bitcoind() {
    if !is_there() {
        return;
    }
    let made = tempfile::tempdir().unwrap();
    let core = Bitcoind::start(made.path(), &["-blocksxor=1"]);
    core.generate(110);
    let want = core_set(&core);
    core.stop();
    let first = SimDisk::new(0);
    carry(&*real_disk(), made.path(), &first, Path::new(DIRECTORY));
    first.sync_dir(Path::new("/")).unwrap();
    let (mut at, mut seen) = (0, HashSet::new());
    loop {
        let disk = first.reopen(Loss::Random(at));
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let done = jobs::reindex(&options(&disk), false, &|_| ()).is_ok();
        let losses = [Loss::Unsynced, Loss::Nothing, Loss::Random(at)];
        let chosen = if slow() { &losses[..] } else { &losses[seen.len() % 3..][..1] };
        for &loss in chosen {
            let row = format!("stopped at {at}, {loss:?}");
            let left = disk.reopen(loss);
            if !seen.insert(digest(&left)) {
                continue;
            }
            let directory = tempfile::tempdir().unwrap();
            carry(&left, Path::new(DIRECTORY), &*real_disk(), directory.path());
            let core = Bitcoind::start(directory.path(), &[]);
            core.wait_for(want["bestblock"].as_str().unwrap());
            assert_eq!(core_set(&core), want, "{row}");
            core.stop();
        }
        if done {
            break;
        }
        at += match at {
            _ if slow() => 1,
            ..FIRST_OPERATIONS => 3,
            _ => 200,
        };
    }
    println!("{} directories of a reindex of {at} operations", seen.len());
    assert!(seen.len() > 20, "{} directories", seen.len());
}

#[test]
fn killed_reindex_opens_in_bitcoind() {
    if !is_there() {
        return;
    }
    let made = tempfile::tempdir().unwrap();
    let (whole, begun) = (made.path().join("whole"), made.path().join("begun"));
    let line = "lab chain --out @ --blocks 2 --seed 8 --utxos 2000 --tail 3 --json";
    let tip = run(&whole, line).good()["bestblock"].as_str().unwrap().to_owned();
    copy(&whole, &begun);
    let reindex = "reindex --datadir @ --chain regtest --assumevalid 0 --json";
    let begin = std::time::Instant::now();
    run(&whole, reindex).good();
    let seconds = begin.elapsed().as_secs_f64();
    let want = crate::bitcoind::set(&whole);
    // A first reindex, and one of a directory that was whole.
    for (row, from) in [("first", &begun), ("again", &whole)] {
        let mut tried = 0;
        for step in 0..if slow() { 50 } else { 3 } {
            let directory = made.path().join(format!("{row} {step}"));
            copy(from, &directory);
            let mut child = start(&directory, reindex);
            std::thread::sleep(Duration::from_secs_f64(seconds * f64::from(step * 7 % 10 + 3) / 13.0));
            child.signal("KILL");
            child.ended();
            let info = run(&directory, "info --datadir @ --chain regtest --json").good();
            if info["next_step"].as_str().unwrap().contains("there are block files and no index") {
                continue; // As it was before: bitcoind would take it for an empty directory.
            }
            tried += 1;
            let core = Bitcoind::start(&directory, if step == 0 { CHECKS } else { &[] });
            core.wait_for(&tip);
            assert_eq!(core_set(&core), want, "{row}, kill {step}");
            core.stop();
        }
        assert!(tried > 0, "{row}: no reindex had begun");
    }
    for height in [1, 60, 101] {
        let directory = made.path().join(format!("stop {height}"));
        copy(&begun, &directory);
        let got = run(&directory, &format!("{reindex} --stopatheight {height}")).good();
        assert_eq!(got["height"], height, "{got}");
        let core = Bitcoind::start(&directory, CHECKS);
        core.wait_for(&tip);
        assert_eq!(core_set(&core), want, "stopped at {height}");
        core.stop();
    }
}
