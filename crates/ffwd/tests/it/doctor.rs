//! `ffwd doctor` and `ffwd repair`, as a user meets them: exit codes, text, JSON.

use crate::data;
use crate::run::{run, start};
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

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
fn a_repair_closes_connections_of_banned_peers() {
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let ban = |address: &str| {
        let entry = format!(r#"{{"version":1,"ban_created":1,"banned_until":9999999999,"address":"{address}"}}"#);
        fs::write(directory.path().join("regtest/banlist.json"), format!(r#"{{"banned_nets":[{entry}]}}"#)).unwrap();
    };
    // No other peer delivers the blocks of this file: the repair waits for one.
    fs::remove_file(directory.path().join("regtest/blocks/blk00000.dat")).unwrap();
    for (banned, want) in [("10.0.0.0/8", false), ("127.0.0.0/8", true)] {
        ban(banned);
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let line = format!("repair --datadir @ --chain regtest --dnsseed=0 --listen --bind 127.0.0.1:{port}");
        let mut running = start(directory.path(), &line);
        let end = Instant::now() + Duration::from_secs(60);
        let mut peer = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(peer) => break peer,
                Err(why) => assert!(running.goes_on() && Instant::now() < end, "{banned}: {why}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        peer.set_read_timeout(Some(Duration::from_secs(if want { 30 } else { 1 }))).unwrap();
        let is_closed = match peer.read(&mut [0; 1]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(why) => why.kind() == ErrorKind::ConnectionReset,
        };
        assert_eq!(is_closed, want, "{banned}");
        running.signal("TERM");
        let ran = running.ended();
        assert_eq!(ran.code, Some(130), "{banned}: {ran:?}");
    }
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
