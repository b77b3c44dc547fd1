//! Files beside blocks and chainstate belong to Core or the user: no command changes a byte of them.

use crate::run::{Ran, run, start};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Files of Core, of its wallets, indexes and crashes, and of the user. Names of directories of the network, from Core b88bffe.
const FILES: [&str; 28] = [
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
    "banlist.json",
    "fee_estimates.dat",
    "mempool.dat",
    "onion_v3_private_key",
    "i2p_private_key",
    ".cookie",
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
    "unknown directory/deep/file",
    "debug.log.old",
];

/// Every file below `directory` and every empty directory, but for what ffwd writes. Whole contents: more than a checksum says.
fn others(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![directory.to_path_buf()];
    while let Some(dir) = left.pop() {
        let entries: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        if entries.is_empty() {
            found.insert(dir.clone(), Vec::new());
        }
        for path in entries {
            let name = path.strip_prefix(directory).unwrap();
            // Locks are ours while we work, and stay behind empty, as Core's do.
            let ours = [
                "regtest/blocks",
                "regtest/chainstate",
                "regtest/chainstate_snapshot/LOCK",
                "regtest/ffwd",
                "regtest/peers.dat",
                "regtest/debug.log",
                "regtest/.lock",
                // A sync writes it again with its comment, as bitcoind does: `same` looks at its values.
                "regtest/settings.json",
            ];
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

/// What is in one of both alone, or differs.
fn differing(a: &BTreeMap<PathBuf, Vec<u8>>, b: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<PathBuf> {
    a.keys().chain(b.keys()).filter(|path| a.get(*path) != b.get(*path)).cloned().collect()
}

/// Files of blocks/ that must not change: block files, their key, and unknown files.
fn blocks(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = fs::read_dir(directory.join("regtest/blocks")).unwrap().map(|entry| entry.unwrap().path());
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
fn everything(directory: &Path) -> u64 {
    let made = run(directory, "lab chain --out @ --blocks 1 --seed 3 --utxos 1000 --tail 3 --json").good();
    let network = directory.join("regtest");
    for (number, name) in FILES.iter().enumerate() {
        put(network.join(name), format!("not for ffwd: {name}").repeat(1 + number).as_bytes());
    }
    put(network.join("settings.json"), br#"{"wallet": ["one"], "unknown": 1}"#);
    put(network.join("blocks/xor.dat"), &[0; 8]);
    put(network.join("blocks/blk.dat"), b"no block file");
    put(network.join("blocks/notes"), b"unknown");
    put(directory.join("bitcoin.conf"), b"[regtest]\nmaxconnections=7\n");
    fs::create_dir_all(network.join("empty/directory")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("unknown file", network.join("link")).unwrap();
    made["height"].as_u64().unwrap()
}

/// A directory whose files are watched.
struct Watched {
    directory: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
    blocks: BTreeMap<PathBuf, Vec<u8>>,
}

impl Watched {
    fn new(directory: TempDir) -> Watched {
        let (before, blocks) = (others(directory.path()), blocks(directory.path()));
        Watched { directory, before, blocks }
    }

    /// Foreign files are unchanged; block files too, unless blocks are added.
    fn same(&self, row: &str, adds_blocks: bool) {
        let now = others(self.directory.path());
        let differ = self.before.iter().filter(|&(path, bytes)| now.get(path) != Some(bytes)).map(|(path, _)| path);
        let differ: Vec<_> = differ.chain(now.keys().filter(|path| !self.before.contains_key(*path))).collect();
        assert!(differ.is_empty(), "{row}: {differ:?}");
        assert!(adds_blocks || blocks(self.directory.path()) == self.blocks, "{row}: a block file changed");
        let settings = fs::read(self.directory.path().join("regtest/settings.json")).unwrap();
        let settings: serde_json::Value = serde_json::from_slice(&settings).unwrap();
        assert_eq!((&settings["wallet"], &settings["unknown"]), (&serde_json::json!(["one"]), &1.into()), "{row}");
    }

    fn run(&self, line: &str) -> Ran {
        run(self.directory.path(), &format!("{line} --datadir @ --chain regtest --json"))
    }
}

/// More blocks of the same chain, as a file beside the directory's.
fn more_blocks(directory: &Path) {
    let longer = tempfile::tempdir().unwrap();
    run(longer.path(), "lab chain --out @ --blocks 2 --seed 3 --utxos 1000 --tail 0 --json").good();
    fs::copy(longer.path().join("regtest/blocks/blk00000.dat"), directory.join("more.dat")).unwrap();
}

#[test]
fn commands_leave_foreign_files_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let height = everything(directory.path());
    more_blocks(directory.path());
    let mut watched = Watched::new(directory);
    assert!(watched.before.len() > FILES.len() && watched.blocks.len() == 4, "{:?}", watched.blocks.keys());
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
        watched.run(line).good();
        watched.same(line, false);
    }
    // Optional indexes that are not asked for are not opened, as in Core: pruning goes on beside them.
    for line in ["reindex --prune 550", &format!("sync --prune 550 --connect 0 --stopatheight {height}")] {
        watched.run(line).good();
        watched.same(line, false);
    }
    // A sync that waits for peers, listens, and is told to end.
    let path = watched.directory.path();
    let mut child = start(path, "sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:0");
    let mut said = BufReader::new(child.child().stderr.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    child.signal("INT");
    drop(said);
    assert_eq!(child.ended().code, Some(0));
    watched.same("sync until Ctrl-C", false);
    let got = watched.run("import @/more.dat").good();
    watched.same("import", true);
    fs::remove_dir_all(watched.directory.path().join("regtest/indexes")).unwrap();
    watched = Watched::new(watched.directory);
    let top = got["height"].as_u64().unwrap();
    for line in [
        &format!("sync --prune 550 --connect 0 --stopatheight {top}"),
        "import @/more.dat --prune 550",
        "reindex --prune 550",
    ] {
        let ran = watched.run(line);
        assert_eq!(ran.good()["height"], top, "{line}");
        assert!(ran.err.contains("wallets in a data directory that is pruned"), "{line}: {ran:?}");
        watched.same(line, false);
    }
}

#[test]
fn snapshot_chainstate_of_another_chain_is_removed_by_a_reindex() {
    let directory = tempfile::tempdir().unwrap();
    everything(directory.path());
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let snapshot = directory.path().join("regtest/chainstate_snapshot");
    put(snapshot.join("base_blockhash"), &[7; 32]);
    put(snapshot.join("CURRENT"), b"MANIFEST-000004\n");
    let before = others(directory.path());
    let ran = run(directory.path(), "sync --connect 0 --datadir @ --chain regtest");
    assert!(ran.code == Some(1) && ran.err.contains("chainstate_snapshot: the base block of the snapshot"), "{ran:?}");
    assert_eq!(differing(&others(directory.path()), &before), Vec::<PathBuf>::new(), "sync");
    let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
    assert!(info["next_step"].as_str().unwrap().contains("snapshot"), "{info}");
    assert_eq!(differing(&others(directory.path()), &before), Vec::<PathBuf>::new(), "info");
    for (line, words) in [
        ("reindex", "snapshot was removed"),
        ("reindex --chainstate-only", "deleting snapshot chainstate due to reindexing"),
    ] {
        if !snapshot.exists() {
            put(snapshot.join("base_blockhash"), &[7; 32]);
        }
        let ran = run(directory.path(), &format!("{line} --datadir @ --chain regtest --json"));
        ran.good();
        assert!(ran.err.contains(words), "{ran:?}");
        let mut left = before.clone();
        left.retain(|path, _| !path.starts_with(&snapshot));
        assert!(others(directory.path()) == left, "{line}");
    }
}
