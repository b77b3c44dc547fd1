//! What lies beside blocks and chainstate is somebody else's: no command changes a byte of it.

use crate::run::{run, start};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Files of Core, of its wallets, indexes and crashes, and of the user. Names of folders of the network, from Core b88bffe.
const FILES: [&str; 31] = [
    "indexes/txindex/CURRENT",
    "indexes/txindex/MANIFEST-000004",
    "indexes/txindex/000005.ldb",
    "indexes/txospenderindex/db/000003.log",
    "indexes/coinstatsindex/db/000005.ldb",
    "indexes/blockfilter/basic/fltr00000.dat",
    "indexes/blockfilter/basic/db/CURRENT",
    "wallets/one/wallet.dat",
    "wallets/one/wallet.dat-journal",
    "wallet.dat",
    "peers.dat",
    "anchors.dat",
    "banlist.json",
    "fee_estimates.dat",
    "mempool.dat",
    "onion_v3_private_key",
    "i2p_private_key",
    ".cookie",
    "bitcoind.pid",
    "chainstate_todelete/CURRENT",
    "chainstate_todelete/000007.ldb",
    "temp_utxo_100/CURRENT",
    "temp_utxo_100/000004.log",
    "database/log.0000000001",
    "db.log",
    "ffwd.notes",
    "chainstate.bak/CURRENT",
    "blocks.bak/blk00000.dat",
    "unknown file",
    "unknown folder/deep/file",
    "debug.log.old",
];

/// Every file below `folder` and every empty folder, but for what ffwd writes. Whole contents: more than a checksum says.
fn others(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_path_buf()];
    while let Some(dir) = left.pop() {
        let entries: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        if entries.is_empty() {
            found.insert(dir.clone(), Vec::new());
        }
        for path in entries {
            let name = path.strip_prefix(folder).unwrap();
            // The lock is ours while we work, and stays behind empty, as Core's does.
            let ours = ["regtest/blocks", "regtest/chainstate", "regtest/ffwd", "regtest/debug.log", "regtest/.lock"];
            if ours.iter().any(|ours| name == Path::new(ours)) {
                continue;
            }
            if path.is_dir() {
                left.push(path);
            } else {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// What must not change in blocks/: block files, their key, and what nobody knows.
fn blocks(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(folder.join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path());
    let is_kept = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        path.is_file() && !name.starts_with("rev") && name != ".lock"
    };
    files.filter(is_kept).map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

fn put(path: PathBuf, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A small chain with everything beside it; gives its height.
fn everything(folder: &Path) -> u64 {
    let made = run(folder, "lab chain --out @ --blocks 1 --seed 3 --utxos 1000 --tail 3 --json").good();
    let network = folder.join("regtest");
    for (number, name) in FILES.iter().enumerate() {
        put(network.join(name), format!("not for ffwd: {name}").repeat(1 + number).as_bytes());
    }
    put(network.join("settings.json"), br#"{"wallet": ["one"], "unknown": 1}"#);
    put(network.join("blocks/xor.dat"), &[0; 8]);
    put(network.join("blocks/blk.dat"), b"no block file");
    put(network.join("blocks/notes"), b"unknown");
    put(folder.join("bitcoin.conf"), b"[regtest]\nmaxconnections=7\n");
    fs::create_dir_all(network.join("empty/folder")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("unknown file", network.join("link")).unwrap();
    made["height"].as_u64().unwrap()
}

#[test]
fn no_command_touches_what_is_not_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let height = everything(folder.path());
    let (before, block_files) = (others(folder.path()), blocks(folder.path()));
    assert!(before.len() > FILES.len() && block_files.len() == 4, "{:?}", block_files.keys());
    let same = |row: &str| {
        let now = others(folder.path());
        let differ = before.iter().filter(|&(path, bytes)| now.get(path) != Some(bytes)).map(|(path, _)| path);
        let differ: Vec<_> = differ.chain(now.keys().filter(|path| !before.contains_key(*path))).collect();
        assert!(differ.is_empty(), "{row}: {differ:?}");
        assert!(blocks(folder.path()) == block_files, "{row}: a block file changed");
    };
    let stop = height - 2;
    for line in [
        &format!("reindex --stopatheight {stop}"),
        "sync --connect 0 --stopatheight 50",
        &format!("sync --connect 0 --stopatheight {height}"),
        "reindex --chainstate-only",
        "verify --level 4 --blocks 0",
        "info",
        "coins info",
        "reindex",
    ] {
        run(folder.path(), &format!("{line} --datadir @ --chain regtest --json")).good();
        same(line);
    }
    // A sync that waits for peers, listens, and is told to end.
    let mut child = start(folder.path(), "sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:0");
    let mut said = BufReader::new(child.child().stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    child.signal("INT");
    drop(said);
    assert_eq!(child.ended().code, Some(0));
    same("sync until Ctrl-C");
}

#[test]
fn a_snapshot_is_named_and_only_a_full_reindex_removes_it() {
    let folder = tempfile::tempdir().unwrap();
    everything(folder.path());
    run(folder.path(), "reindex --datadir @ --chain regtest --json").good();
    let snapshot = folder.path().join("regtest/chainstate_snapshot");
    put(snapshot.join("base_blockhash"), &[7; 32]);
    put(snapshot.join("CURRENT"), b"MANIFEST-000004\n");
    let before = others(folder.path());
    for line in ["sync --connect 0 --exit-at-tip", "reindex --chainstate-only"] {
        let ran = run(folder.path(), &format!("{line} --datadir @ --chain regtest"));
        assert!(ran.code == Some(1) && ran.err.contains("chainstate_snapshot"), "{line}: {ran:?}");
        assert!(others(folder.path()) == before, "{line}");
    }
    let info = run(folder.path(), "info --datadir @ --chain regtest --json").good();
    assert!(info["next_step"].as_str().unwrap().contains("snapshot"), "{info}");
    assert!(others(folder.path()) == before, "info");
    let ran = run(folder.path(), "reindex --datadir @ --chain regtest --json");
    ran.good();
    assert!(ran.err.contains("snapshot was removed"), "{ran:?}");
    let mut left = before;
    left.retain(|path, _| !path.starts_with(&snapshot));
    assert!(others(folder.path()) == left);
}
