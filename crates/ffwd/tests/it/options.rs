//! Exit codes, configuration files, and the messages about them.

use crate::data;
use crate::run::run;
use std::fs;

#[test]
fn wrong_use_exits_with_2() {
    let directory = tempfile::tempdir().unwrap();
    for (line, want) in [
        ("", "Usage"),
        ("reindex --no-such-option", "--no-such-option"),
        ("reindex --prune 549", "Prune configured below the minimum of 550 MiB."),
        ("reindex --signetchallenge 51", "for signet"),
        ("reindex --chain main --test bip94", "for regtest"),
        ("coins empty x", "empty"),
        ("sync --listen here", "IP or IP:PORT"),
        ("lab chain --out @/new --blocks 1 --utxos 5", "--utxos"),
        ("lab micro no-such-experiment", "--list"),
    ] {
        let ran = run(directory.path(), line);
        assert_eq!(ran.code, Some(2), "{line}: {ran:?}");
        assert!(ran.err.contains(want) && ran.out.is_empty(), "{line}: {ran:?}");
    }
    for line in ["--version", "--help", "help reindex", "lab --help"] {
        let ran = run(directory.path(), line);
        assert!(ran.code == Some(0) && ran.err.is_empty() && ran.out.contains("ffwd"), "{line}: {ran:?}");
    }
}

#[test]
fn settings_of_files_are_used_and_printed() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let conf = directory.path().join("bitcoin.conf");
    fs::write(&conf, "regtest=1\nserver=1\n[regtest]\nstopatheight=100\ndbcache=50\n").unwrap();
    let ran = run(directory.path(), "reindex --datadir @ --json");
    assert_eq!(ran.good()["height"], 100, "{ran:?}");
    let want = format!("settings from files: dbcache=50 ({0} line 5), stopatheight=100 ({0} line 4)", conf.display());
    assert!(ran.err.contains(&want), "{want} in {ran:?}");
    let ran = run(directory.path(), "reindex --datadir @ --stopatheight 0 --json");
    assert_eq!(ran.good()["height"], 206, "the command line is above the file: {ran:?}");
    fs::write(directory.path().join("regtest/settings.json"), "{\"stopatheight\": \"150\"}").unwrap();
    let ran = run(directory.path(), "reindex --datadir @ --json");
    assert_eq!(ran.good()["height"], 150, "settings.json is above bitcoin.conf: {ran:?}");
    assert!(ran.err.contains("settings.json") && ran.err.contains("stopatheight=150"), "{ran:?}");
}

#[test]
fn bitcoin_conf_with_refused_settings_exits_with_1() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    for (row, conf, want) in [
        ("reindex", "reindex=1", "line 2: reindex=1 changes the data directory"),
        ("loadblock", "loadblock=x", "ffwd import"),
        ("a broken line", "what is this", "line 2: \"what is this\" is neither"),
        ("a broken value", "dbcache=4G", "line 2: dbcache=4G: expected a number"),
    ] {
        fs::write(directory.path().join("bitcoin.conf"), format!("regtest=1\n{conf}\n")).unwrap();
        let ran = run(directory.path(), "reindex --datadir @ --json");
        assert!(ran.code == Some(1) && ran.err.contains(want) && ran.out.is_empty(), "{row}: {ran:?}");
        assert!(!directory.path().join("regtest/chainstate").exists(), "{row}: nothing was started");
    }
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\nnetworkactive=0\n").unwrap();
    let ran = run(directory.path(), "sync --datadir @ --connect 0");
    assert!(ran.code == Some(1) && ran.err.contains("line 2: networkactive=0"), "{ran:?}");
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\ntxindex=1\n").unwrap();
    let ran = run(directory.path(), "reindex --datadir @ --json");
    assert_eq!(ran.good()["height"], 206);
    assert!(
        ran.err.contains("txindex=1 (") && directory.path().join("regtest/indexes/txindex/CURRENT").exists(),
        "{ran:?}"
    );
}

#[test]
fn results_without_json_are_lines() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let ran = run(directory.path(), "reindex --datadir @ --chain regtest --hash muhash");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for want in ["reindex of regtest to height 206", "206 connected", "BTC", "muhash ", "blocks,"] {
        assert!(ran.out.contains(want), "{want} in {}", ran.out);
    }
    for (line, want) in [
        ("info --datadir @ --chain regtest", "next"),
        ("coins info --datadir @ --chain regtest", "hash_serialized_3"),
        ("verify --datadir @ --chain regtest", "are valid at level 3"),
    ] {
        let ran = run(directory.path(), line);
        assert!(ran.code == Some(0) && ran.out.contains(want), "{line}: {ran:?}");
    }
}
