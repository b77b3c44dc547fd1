//! Several commands on one data directory, each continuing from the one before.

use crate::data::{self, blocks_dir, records};
use crate::run::{run, start};
use std::fs;
use std::io::{BufRead, BufReader};

#[test]
fn commands_agree_on_one_data_directory() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let go = |line: &str| run(directory.path(), &format!("{line} --datadir @ --chain regtest --json"));
    let info = go("info").good();
    assert!(info["next_step"].as_str().unwrap().contains("reindex"), "{info}");
    let first = go("reindex --hash hash_serialized_3").good();
    let info = go("info").good();
    assert_eq!(
        (&info["chain"], &info["height"], &info["bestblock"]),
        (&"regtest".into(), &206.into(), &first["bestblock"])
    );
    assert_eq!(
        (&info["reindexing"], &info["pruned"], &info["failed"]),
        (&false.into(), &false.into(), &serde_json::json!([]))
    );
    for (level, blocks, want) in [(0, 3, 3), (1, 3, 3), (2, 3, 3), (3, 6, 6), (4, 0, 206)] {
        let got = go(&format!("verify --level {level} --blocks {blocks}")).good();
        assert_eq!(
            (&got["blocks"], &got["level"], &got["height"]),
            (&want.into(), &level.into(), &206.into()),
            "{got}"
        );
    }
    let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
    let tips = |log: &str| log.matches("UpdateTip: ").count();
    assert!(tips(&log) == 206 && !log.contains("Disconnect block: "), "a verify moves no tip: {log}");
    let rebuilt = go("reindex --chainstate-only --hash hash_serialized_3").good();
    let again = go("reindex --hash hash_serialized_3").good();
    let coins = go("coins info").good();
    for (row, got) in [("rebuilt", &rebuilt), ("again", &again), ("coins info", &coins)] {
        assert_eq!(got["hash_serialized_3"], first["hash_serialized_3"], "{row}: {got}");
        assert_eq!(got["txouts"], first["txouts"], "{row}: {got}");
    }
    assert_eq!(first["total_amount"], coins["total_amount"]);
    assert!(coins["disk_size"].as_u64().unwrap() > 0);
    let log = fs::read_to_string(directory.path().join("regtest/debug.log")).unwrap();
    assert!(log.contains("UpdateTip: new best=") && log.contains("height=206 "), "{log}");
}

#[test]
fn import_takes_files_in_any_order_and_continues() {
    let Some(good) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let all = records(&good);
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("late.dat"), all[120..].concat()).unwrap();
    fs::write(directory.path().join("early.dat"), all[..130].concat()).unwrap();
    let import = |files: &str| run(directory.path(), &format!("import --datadir @ --chain regtest --json {files}"));
    assert_eq!(import("@/late.dat").good()["height"], 0, "their parents are not there yet");
    let got = import("@/early.dat @/late.dat").good();
    assert_eq!(got["height"], 206, "{got}");
    let got = import("@/late.dat").good();
    assert_eq!((&got["height"], &got["height_start"], &got["blocks"]), (&206.into(), &206.into(), &0.into()), "{got}");
    let ran = import("@/missing.dat");
    assert!(ran.code == Some(1) && ran.err.contains("missing.dat"), "{ran:?}");
    let reindexed = data::directory("regtest", &good);
    let line = "--datadir @ --chain regtest --json --hash hash_serialized_3";
    let want = run(reindexed.path(), &format!("reindex {line}")).good();
    let got = run(directory.path(), &format!("coins info {line}")).good();
    assert_eq!(got["hash_serialized_3"], want["hash_serialized_3"]);
}

#[test]
fn locked_data_directory_is_refused_with_its_holder() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let mut holder = start(directory.path(), "sync --datadir @ --chain regtest --connect 0 --listen 127.0.0.1:0");
    // What it says of its cache comes before it has the data directory, what it says next after.
    let mut said = BufReader::new(holder.child().stderr.take().unwrap());
    let mut line = String::from("dbcache: ");
    while line.starts_with("dbcache: ") {
        line.clear();
        said.read_line(&mut line).unwrap();
    }
    let pid = holder.child().id().to_string();
    for line in ["reindex", "reindex --chainstate-only", "verify", "coins info", "sync --connect 0"] {
        let ran = run(directory.path(), &format!("{line} --datadir @ --chain regtest --json"));
        let names_it = |form: &str| ran.err.contains(&form.replace("PID", &pid));
        assert!(
            ran.code == Some(1) && (names_it("process PID (ffwd)") || names_it("ffwd (process PID)")),
            "{line}: {ran:?}"
        );
        assert!(ran.err.contains("lock") || ran.err.contains("LOCK"), "{line}: {ran:?}");
    }
    let info = run(directory.path(), "info --datadir @ --chain regtest --json").good();
    assert_eq!(info["in_use"]["pid"].to_string(), pid, "{info}");
    holder.signal("INT");
    drop(said);
    assert_eq!(holder.ended().code, Some(0), "a sync that follows the chain ends with 0 when stopped");
    run(directory.path(), "verify --datadir @ --chain regtest --json").good();
}

#[test]
fn reindex_to_a_lower_height_is_refused_first() {
    let Some(good) = testkit::data::load("chains/regtest_1_206.blk.xz") else { return };
    let directory = data::directory("regtest", &good);
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let before = run(directory.path(), "coins info --datadir @ --chain regtest --json").good();
    let file = blocks_dir(directory.path(), "regtest").join("blk00000.dat");
    let whole = fs::read(&file).unwrap();
    let cut: Vec<u8> = records(&good)[..150].concat();
    fs::write(&file, &cut).unwrap();
    let ran = run(directory.path(), "reindex --datadir @ --chain regtest --json");
    assert!(ran.code == Some(1) && ran.err.contains("206") && ran.err.contains("150"), "{ran:?}");
    fs::write(&file, &whole).unwrap();
    assert_eq!(run(directory.path(), "coins info --datadir @ --chain regtest --json").good(), before);
}
