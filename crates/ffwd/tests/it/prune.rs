//! Pruned directories to and from bitcoind; and the real sizes, which take minutes.

use crate::bitcoind::{Bitcoind, CHECKS, copy, core_set, is_there, set};
use crate::run::{run, slow, start};
use consensus::{Chain, Params};
use node::jobs::{self, SyncOptions};
use node::options::{Options, Prune, Sizes, real_disk};
use primitives::{BlockHash, Height, Work};
use serde_json::Value;
use std::net::TcpListener;
use std::path::Path;
use store::index::IndexChanges;
use store::{BlockTreeDb, Layout};

const BLOCKS: u32 = 900;
/// What bitcoind needs on a pruned directory.
const PRUNED: &str = "-prune=550";
/// Core's words.
const REFUSED: &str = "You need to rebuild the database using -reindex to go back to unpruned mode.";

/// Files of 16 KiB and a target of 120 KiB: the command itself takes nothing so small.
fn small(datadir: &Path) -> Options {
    let mut params = Params::new(Chain::Regtest);
    params.prune_after_height = Height::new(100);
    let mut sizes = Sizes::default();
    (sizes.limits.file_bytes_max, sizes.limits.chunk_bytes, sizes.prune_buffer_bytes) = (16 << 10, 4 << 10, 4 << 10);
    Options {
        dbcache_bytes: 16 << 20,
        par: 2,
        assumevalid: BlockHash::ZERO,
        minimum_chain_work: Work::ZERO,
        prune: Prune::Target { bytes: 120 << 10 },
        sizes,
        ..Options::new(datadir.to_path_buf(), params, std::time::SystemTime::now)
    }
}

fn call(core: &Bitcoind, words: &[&str]) -> Value {
    serde_json::from_str(&core.rpc(words)).unwrap()
}

/// A chain that bitcoind made, in files as large as `options` has them.
fn made(options: &Options) -> Value {
    let whole = tempfile::tempdir().unwrap();
    let core = Bitcoind::start(whole.path(), &[]);
    core.generate(BLOCKS);
    let want = core_set(&core);
    core.stop();
    let blocks = whole.path().join("regtest/blocks");
    let key = std::fs::read(blocks.join("xor.dat")).unwrap();
    let mut bytes = std::fs::read(blocks.join("blk00000.dat")).unwrap();
    bytes.iter_mut().zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
    let foreign = options.datadir.join("all.dat");
    std::fs::write(&foreign, bytes).unwrap();
    jobs::import(&Options { prune: Prune::Off, ..options.clone() }, &[foreign], &|_| {}).unwrap();
    want
}

fn set_reindexing(directory: &Path) {
    let index = BlockTreeDb::open(real_disk(), &Layout::new(directory, "regtest", None)).unwrap();
    index.write(&IndexChanges { reindexing: Some(true), ..IndexChanges::default() }).unwrap();
}

#[test]
fn bitcoind_continues_from_our_pruned_directory() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (directory, pruned) = (dir.path(), small(dir.path()));
    let want = made(&pruned);
    jobs::reindex(&pruned, false, &|_| {}).unwrap();
    let lowest = jobs::info(&pruned).unwrap().prune_height.expect("it is pruned").to_u32();
    assert!((100..BLOCKS - 288).contains(&lowest), "{lowest}");
    assert_eq!(set(directory), want);
    assert!(!Bitcoind::spawn(directory, &[]).is_ready(), "without -prune it does not start");
    let with_checks = [CHECKS, &[PRUNED]].concat();
    for (row, reindexing) in [("done", false), ("its reindex not marked as done", true)] {
        if reindexing {
            set_reindexing(directory);
            assert_eq!(
                jobs::reindex(&pruned, false, &|_| {}).unwrap().height_start,
                Height::new(BLOCKS),
                "ffwd ends it"
            );
            set_reindexing(directory);
        }
        let core = Bitcoind::start(directory, &with_checks);
        assert_eq!(core_set(&core), want, "{row}");
        let info = call(&core, &["getblockchaininfo"]);
        assert_eq!((&info["pruned"], &info["pruneheight"]), (&true.into(), &lowest.into()), "{row}: {info}");
        assert_eq!(core.rpc(&["verifychain", "4", "288"]), "true", "{row}");
        core.stop();
    }
    // Extended there, killed, and gone on with here.
    let core = Bitcoind::start(directory, &[PRUNED]);
    core.generate(20);
    core.kill();
    jobs::import(&pruned, &[], &|_| {}).unwrap();
    assert!(jobs::verify(&pruned, 4, 0, &|_| {}).unwrap().blocks >= 288);
    let want = set(directory);
    let core = Bitcoind::start(directory, &with_checks);
    assert_eq!(core_set(&core), want);
    core.stop();
}

#[test]
fn sync_continues_from_bitcoinds_pruned_directory() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (directory, whole) = (dir.path().join("pruned"), dir.path().join("whole"));
    std::fs::create_dir(&directory).unwrap();
    let fast = ["-fastprune", "-prune=1"];
    let core = Bitcoind::start(&directory, &fast);
    core.generate(BLOCKS);
    core.stop();
    copy(&directory, &whole);
    let core = Bitcoind::start(&directory, &fast);
    core.rpc(&["pruneblockchain", "500"]);
    let lowest = call(&core, &["getblockchaininfo"])["pruneheight"].clone();
    assert!(lowest.as_u64().is_some_and(|height| height > 100), "{lowest}");
    core.stop();
    let peer = Bitcoind::start(&whole, &[]);
    peer.generate(30);
    let want = core_set(&peer);
    let sync = format!("sync --datadir @ --chain regtest --connect 127.0.0.1:{} --exit-at-tip --json", peer.port);
    let ran = run(&directory, &sync);
    assert!(ran.code == Some(1) && ran.err.contains(REFUSED), "{ran:?}");
    for prune in [1, 550] {
        let got = run(&directory, &format!("{sync} --prune {prune}")).good();
        assert_eq!(got["bestblock"], want["bestblock"], "{prune}: {got}");
        assert_eq!(set(&directory), want, "{prune}");
        let info = run(&directory, "info --datadir @ --chain regtest --json").good();
        assert_eq!((&info["pruned"], &info["pruneheight"]), (&true.into(), &lowest), "{prune}: {info}");
    }
    let core = Bitcoind::start(&directory, &[CHECKS, &[PRUNED]].concat());
    assert_eq!(core_set(&core), want);
    core.stop();

    // A pruned node says that it is one.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!("sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:{port} --prune 550");
    let mut server = start(&directory, &line);
    for _ in 0..500 {
        if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    peer.rpc(&["addnode", &format!("127.0.0.1:{port}"), "onetry"]);
    let mut services = Value::Null;
    for _ in 0..500 {
        services = call(&peer, &["getpeerinfo"])[0]["servicesnames"].clone();
        if services.as_array().is_some_and(|names| !names.is_empty()) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let names: Vec<&str> = services.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(names.contains(&"NETWORK_LIMITED") && !names.contains(&"NETWORK"), "{names:?}");
    server.signal("INT");
    server.ended();
}

/// Bytes of the block and undo files.
fn blocks_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory.join("regtest/blocks")).into_iter().flatten();
    let files = entries.filter_map(|entry| entry.ok()?.metadata().ok()).filter(|known| known.is_file());
    files.map(|known| known.len()).sum()
}

/// 550 MiB, the least that Core takes, of twice as much: what lies there stays near it while the chain comes in.
#[test]
fn disk_use_stays_near_the_prune_target() {
    if !slow() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (full, new, again) = (dir.path().join("full"), dir.path().join("new"), dir.path().join("again"));
    // Deep enough that Core would not verify the scripts of a block that is assumed valid.
    let line = "lab chain --out @ --blocks 700 --utxos 200000 --tail 2100 --signatures fake --seed 1 --json";
    let tip = run(&full, line).good()["bestblock"].as_str().unwrap().to_owned();
    copy(&full, &again);
    std::fs::create_dir(&new).unwrap();
    let of = |directory: &Path, prune| Options {
        assumevalid: BlockHash::from_display(&tip).unwrap(),
        dbcache_bytes: 200 << 20,
        sizes: Sizes::default(),
        prune,
        ..small(directory)
    };
    let target = Prune::Target { bytes: 550 << 20 };
    let plain = of(&full, Prune::Off);
    assert_eq!(jobs::reindex(&plain, false, &|_| {}).unwrap().best.to_string(), tip);
    let (want, whole) = (set(&full), blocks_bytes(&full));
    assert!(whole > 1100 << 20, "{whole}");

    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let line = format!("sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:{port}");
    let mut server = start(&full, &line);
    let client = SyncOptions {
        connect: Some(vec![format!("127.0.0.1:{port}")]),
        exit_at_tip: true,
        v2transport: false,
        outbound: 8,
        ..SyncOptions::alone()
    };
    let pruned = of(&new, target);
    let most = std::thread::scope(|scope| {
        let working = scope.spawn(|| jobs::sync(&pruned, &client, &|_| {}));
        let mut most = 0;
        while !working.is_finished() {
            most = most.max(blocks_bytes(&new));
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(working.join().unwrap().unwrap().best.to_string(), tip);
        most
    });
    server.signal("INT");
    server.ended();
    println!("at most {} MiB of {}", most >> 20, whole >> 20);
    // 288 blocks stay whatever the target: they and their undo data are not much less than it here.
    assert!(most < 900 << 20, "at most {} MiB of {}", most >> 20, whole >> 20);
    assert_eq!(jobs::reindex(&of(&again, target), false, &|_| {}).unwrap().best.to_string(), tip);
    for directory in [&new, &again] {
        let left = blocks_bytes(directory);
        assert!(left < 570 << 20, "{} MiB", left >> 20);
        assert_eq!(set(directory), want);
        if is_there() {
            let core = Bitcoind::start(directory, &[CHECKS, &[PRUNED, &format!("-assumevalid={tip}")]].concat());
            assert_eq!(core_set(&core), want);
            core.stop();
        }
    }
}
