//! `ffwd doctor` and `ffwd repair`, as a user meets them: exit codes, text, JSON.

use crate::data;
use crate::run::run;
use std::fs;

#[test]
fn doctor_names_what_repair_mends() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    let go = |line: &str| run(directory.path(), &format!("{line} --datadir @ --chain regtest --json"));
    go("reindex").good();
    for line in ["doctor", "doctor --deep"] {
        let ran = go(line);
        assert_eq!(ran.good()["findings"], serde_json::json!([]), "{line}: {ran:?}");
    }
    assert_eq!(go("repair --connect 0").good()["left"], serde_json::json!([]));
    let set = go("coins info").good();

    // An undo file that is gone is made again from the blocks.
    let lost = directory.path().join("regtest/blocks/rev00000.dat");
    let before = fs::read(&lost).unwrap();
    fs::remove_file(&lost).unwrap();
    let ran = go("doctor");
    let findings = ran.json()["findings"].clone();
    let named = findings.as_array().unwrap().iter().any(|one| one["path"].as_str().unwrap().contains("rev00000.dat"));
    assert!(ran.code == Some(1) && named, "{ran:?}");
    let text = run(directory.path(), "doctor --datadir @ --chain regtest");
    assert!(text.code == Some(1) && text.out.contains("rev00000.dat") && text.out.contains("repair"), "{text:?}");
    let ran = go("repair --connect 0");
    assert!(ran.code == Some(0) && ran.json()["blocks_fetched"] == 0, "{ran:?}");
    assert!(fs::read(&lost).unwrap().starts_with(&before[..8]), "the undo file is there again");
    assert_eq!(go("doctor --deep").good()["findings"], serde_json::json!([]));
    assert_eq!(go("coins info").good(), set);
    assert_eq!(go("verify --level 4 --blocks 0").good()["height"], 206);
}

#[test]
fn doctor_without_a_directory_is_wrong_use_or_a_fault() {
    let directory = tempfile::tempdir().unwrap();
    for (line, code) in [("doctor --no-such-option", 2), ("doctor --datadir @/absent --chain regtest", 1)] {
        let ran = run(directory.path(), line);
        assert_eq!(ran.code, Some(code), "{line}: {ran:?}");
        assert!(!directory.path().join("absent").exists(), "{line}: nothing was made");
    }
}
