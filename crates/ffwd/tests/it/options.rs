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

/// As bitcoind does, a sync writes settings.json with its comment; the values in it stay.
#[test]
fn sync_writes_settings_json_as_bitcoind_does() {
    let directory = tempfile::tempdir().unwrap();
    let sync = |more: &str| {
        let line = "sync --datadir @ --chain regtest --connect 0 --stopatheight 0 --exit-at-tip --from @";
        run(directory.path(), &format!("{line} {more}"))
    };
    let path = directory.path().join("regtest/settings.json");
    let read = || serde_json::from_slice::<serde_json::Value>(&fs::read(&path).unwrap()).unwrap();
    sync("--settings 0");
    assert!(!path.exists(), "none is wanted");
    sync("");
    let comment = read()["_warning_"].clone();
    assert!(comment.as_str().unwrap().contains("automatically generated"), "{comment}");
    fs::write(&path, "{\"wallet\": [\"one\"]}").unwrap();
    sync("");
    assert_eq!(read(), serde_json::json!({"_warning_": comment, "wallet": ["one"]}));
    let whole = fs::read(&path).unwrap();
    sync("");
    assert_eq!(fs::read(&path).unwrap(), whole, "a whole file is left alone");
}

#[test]
fn bitcoin_conf_with_refused_settings_exits_with_1() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    for (row, conf, want) in [
        ("reindex", "reindex=1", "line 2: reindex=1 changes the data directory"),
        ("loadblock", "loadblock=x", "ffwd import"),
        ("a broken line", "what is this", "parse error on line 2: what is this"),
        ("a broken value", "prune=549", "line 2: prune=549: Prune configured below the minimum"),
    ] {
        fs::write(directory.path().join("bitcoin.conf"), format!("regtest=1\n{conf}\n")).unwrap();
        let ran = run(directory.path(), "reindex --datadir @ --json");
        assert!(ran.code == Some(1) && ran.err.contains(want) && ran.out.is_empty(), "{row}: {ran:?}");
        assert!(!directory.path().join("regtest/chainstate").exists(), "{row}: nothing was started");
    }
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\nnetworkactive=0\n").unwrap();
    let ran = run(directory.path(), "sync --datadir @ --connect 0");
    assert!(ran.code == Some(1) && ran.err.contains("line 2: networkactive=0"), "{ran:?}");
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\nport=18999\n").unwrap();
    let ran = run(directory.path(), "sync --datadir @ --connect 0");
    let want = "Error: Config setting for -port only applied on regtest network when in [regtest] section.";
    assert!(ran.code == Some(1) && ran.err.contains(want), "{ran:?}");
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

/// Said on standard error and in debug.log; the value that bitcoind reads is used.
#[test]
fn lines_without_effect_are_named_and_a_byte_order_mark_hides_none() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let conf = "\u{feff}regtest=1\r\nprun=550\r\ndbcache=50MB\r\ndaemon=1\r\nmaxmempool=300\r\n[regtets]\r\npar=1\r\n";
    fs::write(directory.path().join("bitcoin.conf"), conf).unwrap();
    let ran = run(directory.path(), "sync --datadir @ --connect 0 --stopatheight 206 --json");
    assert_eq!(ran.good()["height"], 206, "{ran:?}");
    let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
    for want in [
        "line 1: a byte order mark stands before the line: the line is used without it",
        "line 2: Ignoring unknown configuration value prun: did you mean prune?",
        "line 3: dbcache=50MB is read as 50, as bitcoind reads it",
        "line 4: daemon is not used: ffwd runs in the foreground",
        "not used: maxmempool (",
        "bitcoin.conf:6 Section [regtets] is not recognized.",
    ] {
        assert!(ran.err.contains(want) && log.contains(want), "{want} in {}\n{log}", ran.err);
    }
}

#[test]
fn configuration_is_checked_without_a_start() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\nprun=550\ndbcache=50\n").unwrap();
    let ran = run(directory.path(), "sync --datadir @ --check-configuration");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for want in ["network regtest", "line 3: dbcache=50: used", "warning: ", "ffwd can start on this configuration"] {
        assert!(ran.out.contains(want), "{want} in {}", ran.out);
    }
    let conf = "regtest=1\ndbcache=50\nserver=1\nblocknotify=true\nreindex=1\ndebuglogfile=other.log\nbantime=60\n";
    fs::write(directory.path().join("bitcoin.conf"), conf).unwrap();
    let ran = run(directory.path(), "repair --datadir @ --check-configuration");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for want in [
        "line 2: dbcache=50: used",
        "line 3: server=1: no effect on this command",
        "line 4: blocknotify=true: no effect on this command",
        "line 5: reindex=1: no effect on this command",
        "line 6: debuglogfile=other.log: no effect on this command",
        "line 7: bantime=60: no effect on this command",
        "ffwd can start on this configuration",
    ] {
        assert!(ran.out.contains(want), "{want} in {}", ran.out);
    }
    assert!(ran.err.is_empty(), "{}", ran.err);
    fs::write(directory.path().join("bitcoin.conf"), "regtest=1\nmaxmempool=1\n").unwrap();
    let ran = run(directory.path(), "sync --datadir @ --check-configuration");
    assert!(ran.code == Some(1) && ran.err.contains("Error: -maxmempool must be at least 5 MB ("), "{ran:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn configuration_of_another_place_is_found_as_bitcoind_finds_it() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("home/.bitcoin");
    for dir in [&home, &directory.path().join("one"), &directory.path().join("two")] {
        fs::create_dir_all(dir).unwrap();
    }
    let at = directory.path().display();
    let ask = |conf: &str| {
        fs::write(home.join("bitcoin.conf"), conf).unwrap();
        let mut command = crate::run::command(directory.path(), "sync --check-configuration --json");
        let output = command.env("HOME", directory.path().join("home")).output().unwrap();
        let text = String::from_utf8(if output.status.success() { output.stdout } else { output.stderr }).unwrap();
        (output.status.code(), text)
    };
    for (conf, want) in [
        (format!("regtest=1\n[regtest]\ndatadir={at}/one\n"), "/one\""),
        (format!("regtest=1\ndatadir={at}/two\n[main]\ndatadir={at}/one\n"), "/two\""),
        ("regtest=1\n".to_owned(), "home/.bitcoin\""),
    ] {
        let (code, text) = ask(&conf);
        assert!(code == Some(0) && text.contains(want), "{conf}: {text}");
    }
    let (code, text) = ask("regtest=1\ndatadir=/media/not-mounted/bitcoin\n");
    assert!(
        code == Some(1) && text.contains("specified data directory \"/media/not-mounted/bitcoin\" does not exist."),
        "{text}"
    );
    fs::write(directory.path().join("one/bitcoin.conf"), "prune=550\n").unwrap();
    let (code, text) = ask(&format!("regtest=1\ndatadir={at}/one\n"));
    assert!(code == Some(1) && text.contains("contains a \"bitcoin.conf\" file which is ignored"), "{text}");
    let (code, text) = ask(&format!("regtest=1\ndatadir={at}/one\nallowignoredconf=1\n"));
    assert!(code == Some(0) && text.contains("file which is ignored"), "{text}");
}
