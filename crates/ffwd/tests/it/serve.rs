//! `serve` beside bitcoind on a copy of the same data directory: what both answer, letter by letter.

use crate::bitcoind::{self, Bitcoind, copy};
use crate::data;
use crate::run::{run, start};
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Fields that are the program's own.
const OWN: [&str; 6] =
    ["verificationprogress", "size_on_disk", "warnings", "coins_db_cache_bytes", "coins_tip_cache_bytes", "locked"];

/// What bitcoin-cli says of a call to the program on this port.
fn ask(cli: &Path, dir: &Path, port: u16, call: &str) -> String {
    let mut command = Command::new(cli);
    command.args(["-regtest", "-rpcwait=1", "-rpcwaittimeout=60", &format!("-datadir={}", dir.display())]);
    let output = command.arg(format!("-rpcport={port}")).args(call.split_whitespace()).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The same without what is the program's own.
fn comparable(said: &str) -> String {
    let own = |line: &&str| OWN.iter().any(|name| line.trim_start().starts_with(&format!("\"{name}\"")));
    let is_list = |line: &str| line.trim_end().ends_with(['[', '{']);
    let (mut lines, mut inside) = (Vec::new(), false);
    for line in said.lines() {
        if inside {
            inside = !line.trim_start().starts_with([']', '}']);
        } else if own(&line) {
            inside = is_list(line);
        } else {
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[test]
fn serve_answers_as_bitcoind_on_the_same_data_directory() {
    if !bitcoind::is_there() {
        return;
    }
    let Some(directory) = data::real("regtest", "regtest_1_206") else { return };
    run(directory.path(), "reindex --datadir @ --chain regtest --json").good();
    let theirs = tempfile::tempdir().unwrap();
    copy(directory.path(), theirs.path());
    let core = Bitcoind::start(theirs.path(), &["-checkblocks=1"]);
    let cli = PathBuf::from(std::env::var_os("BITCOIND_EXE").unwrap()).with_file_name("bitcoin-cli");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut served = start(directory.path(), &format!("serve --datadir @ --chain regtest --rpcport {port}"));
    let hash = |height: u32| core.rpc(&["getblockhash", &height.to_string()]);
    let (some, last) = (hash(150), hash(206));
    let mut calls: Vec<String> =
        ["getblockcount", "getbestblockhash", "getblockchaininfo", "getchaintips", "getchainstates"]
            .into_iter()
            .chain([
                "getdifficulty",
                "getmempoolinfo",
                "getrawmempool",
                "getmininginfo",
                "getdeploymentinfo",
                "getindexinfo",
            ])
            .chain([
                "getchaintxstats",
                "getmemoryinfo",
                "getnetworkhashps",
                "getnetworkhashps 10 100",
                "estimatesmartfee 2",
            ])
            .chain([
                "getblockhash -1",
                "getblockhash 207",
                "waitforblockheight 206",
                "waitfornewblock 5",
                "verifychain 4 20",
            ])
            .map(str::to_owned)
            .collect();
    for hash in [&hash(0), &hash(1), &some, &last] {
        let about = ["getblockheader", "getblock", "getdeploymentinfo"].map(|call| format!("{call} {hash}"));
        calls.extend(about);
        calls.extend([format!("getblockheader {hash} false"), format!("getblock {hash} 0")]);
    }
    // Then the chain is changed, in both alike.
    calls.extend([format!("getchaintxstats 5 {some}"), format!("invalidateblock {some}"), "getblockcount".to_owned()]);
    calls.extend(["getchaintips".to_owned(), format!("reconsiderblock {some}"), "getbestblockhash".to_owned()]);
    calls.extend([
        format!("preciousblock {last}"),
        format!("invalidateblock {}", "1".repeat(64)),
        "submitblock 00".to_owned(),
    ]);
    for call in &calls {
        let (ours, wanted) = (ask(&cli, directory.path(), port, call), ask(&cli, theirs.path(), core.rpc_port, call));
        assert_eq!(comparable(&ours), comparable(&wanted), "{call}");
    }
    let said = run(directory.path(), &format!("stop --datadir @ --chain regtest --rpcport {port}"));
    assert!(said.code == Some(0) && said.out.contains("ffwd stopping"), "{said:?}");
    let begun = Instant::now();
    while served.goes_on() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.ended().code, Some(0));
    assert!(!directory.path().join("regtest/.cookie").exists());
    let again = run(directory.path(), &format!("stop --datadir @ --chain regtest --rpcport {port}"));
    assert!(again.code == Some(1) && again.err.contains("Is it running"), "{again:?}");
}

#[test]
fn comparable_leaves_out_what_is_the_programs_own() {
    let said = "{\n  \"blocks\": 5,\n  \"warnings\": [\n    \"x\"\n  ],\n  \"verificationprogress\": 1,\n  \"chain\": \"r\"\n}";
    let value: Value = serde_json::from_str(said).unwrap();
    assert!(value.is_object());
    assert_eq!(comparable(said), "{\n  \"blocks\": 5,\n  \"chain\": \"r\"\n}");
}
