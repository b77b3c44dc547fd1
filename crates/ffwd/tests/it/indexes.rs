//! Core's optional indexes, from ffwd to bitcoind and back: bitcoind finds them synced at once, and says what ffwd says.

use crate::bitcoind::{Bitcoind, is_there};
use crate::run::run;
use serde_json::Value;
use std::path::Path;

const ON: &str = "--datadir @ --chain regtest --json";
const FLAGS: &str = "--txindex --blockfilterindex --txospenderindex --coinstatsindex";
const CORE: &[&str] = &["-txindex=1", "-blockfilterindex=1", "-txospenderindex=1", "-coinstatsindex=1"];
const STATISTICS: [&str; 6] = ["height", "bestblock", "txouts", "bogosize", "total_amount", "total_unspendable_amount"];

fn ffwd(directory: &Path, command: &str) -> Value {
    run(directory, &format!("{command} {ON}")).good()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

/// All four stand at `height` and say so.
fn check_synced(core: &Bitcoind, height: u64, row: &str) {
    let info = json(&core.rpc(&["getindexinfo"]));
    let info = info.as_object().unwrap();
    assert_eq!(info.len(), 4, "{row}: {info:?}");
    for (name, index) in info {
        assert_eq!(
            (index["synced"].as_bool(), index["best_block_height"].as_u64()),
            (Some(true), Some(height)),
            "{row}: {name}"
        );
    }
}

/// What bitcoind says of these heights, and of the last transaction of each block.
fn core_says(core: &Bitcoind, heights: &[u64]) -> Vec<Value> {
    let mut said = Vec::new();
    for height in heights {
        let hash = core.rpc(&["getblockhash", &height.to_string()]);
        let filter = json(&core.rpc(&["getblockfilter", &hash]));
        let set = json(&core.rpc(&["gettxoutsetinfo", "muhash", &height.to_string()]));
        let block = json(&core.rpc(&["getblock", &hash, "2"]));
        let txid = block["tx"].as_array().unwrap().last().unwrap()["txid"].as_str().unwrap();
        let tx = json(&core.rpc(&["getrawtransaction", txid, "2"]));
        said.push(serde_json::json!({ "filter": filter, "set": set, "tx": tx, "hash": hash }));
    }
    said
}

/// ffwd says the same.
fn check_same(directory: &Path, heights: &[u64], said: &[Value], row: &str) {
    for (height, said) in heights.iter().zip(said) {
        let filter = ffwd(directory, &format!("filter {height}"));
        assert_eq!(
            (&filter["filter"], &filter["header"]),
            (&said["filter"]["filter"], &said["filter"]["header"]),
            "{row}: {height}"
        );
        let set = ffwd(directory, &format!("coins info --height {height}"));
        for name in STATISTICS.iter().chain(&["muhash"]) {
            assert_eq!(set[name], said["set"][name], "{row}: {name} at height {height}");
        }
        assert_eq!(set["block_info"], said["set"]["block_info"], "{row}: height {height}");
        let txid = said["tx"]["txid"].as_str().unwrap();
        let tx = ffwd(directory, &format!("tx {txid}"));
        assert_eq!(tx["blockhash"], said["hash"], "{row}: {txid}");
        let (mut tx, mut core) = (tx, said["tx"].clone());
        // The chain may have grown since.
        for said in [&mut tx, &mut core] {
            said.as_object_mut().unwrap().remove("confirmations");
        }
        assert_eq!(tx, core, "{row}: {txid}");
        let input = &said["tx"]["vin"][0];
        if let (Some(spent), Some(vout)) = (input["txid"].as_str(), input["vout"].as_u64()) {
            let found = ffwd(directory, &format!("spender {spent}:{vout}"));
            assert_eq!(
                (&found["spendingtxid"], &found["blockhash"]),
                (&said["tx"]["txid"], &said["hash"]),
                "{row}: {spent}"
            );
        }
    }
}

#[test]
fn bitcoind_finds_indexes_of_ffwd_synced_and_ffwd_reads_bitcoinds() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (with, after) = (dir.path().join("with"), dir.path().join("after"));
    let made = run(&with, "lab chain --out @ --blocks 2 --seed 5 --utxos 2000 --tail 3 --json").good();
    let height = made["height"].as_u64().unwrap();
    crate::bitcoind::copy(&with, &after);
    ffwd(&with, &format!("reindex --assumevalid 0 {FLAGS}"));
    ffwd(&after, "reindex --assumevalid 0");
    let only = "--only txindex --only blockfilterindex --only txospenderindex --only coinstatsindex";
    let report = ffwd(&after, &format!("index {only}"));
    assert_eq!((report["height"].as_u64(), report["indexes"].as_array().map(Vec::len)), (Some(height), Some(4)));
    let heights: Vec<u64> = vec![1, height - 3, height];
    for (row, directory) in [("with the blocks", &with), ("from the files", &after)] {
        let core = Bitcoind::start(directory, CORE);
        check_synced(&core, height, row);
        let said = core_says(&core, &heights);
        core.stop();
        check_same(directory, &heights, &said, row);
    }
    // bitcoind goes on, with a branch that becomes stale; ffwd reads what it left, and goes on from there.
    let core = Bitcoind::start(&with, CORE);
    core.generate(4);
    let stale = core.rpc(&["getbestblockhash"]);
    core.rpc(&["invalidateblock", &core.rpc(&["getblockhash", &(height + 3).to_string()])]);
    // To another script: a block that was invalidated is not made again.
    core.rpc(&["generatetodescriptor", "3", "raw(52)"]);
    let tip = core.rpc(&["getblockcount"]).parse::<u64>().unwrap();
    while json(&core.rpc(&["getindexinfo"]))
        .as_object()
        .unwrap()
        .values()
        .any(|index| index["best_block_height"] != tip)
    {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let heights = [height, height + 2, height + 3, tip];
    let said = core_says(&core, &heights);
    let kept = json(&core.rpc(&["getblockfilter", &stale]));
    core.stop();
    check_same(&with, &heights, &said, "as bitcoind left it");
    assert_eq!(ffwd(&with, &format!("filter {stale}"))["filter"], kept["filter"], "of a stale block");
    let report = ffwd(&with, "index");
    assert_eq!((report["height"].as_u64(), report["bytes"].as_u64()), (Some(tip), Some(0)), "nothing is left to do");
}

/// Whether bitcoind's indexes are as far as a round of the next test wants them when it is killed.
fn is_far_enough(core: &Bitcoind, round: usize) -> bool {
    let info = json(&core.rpc(&["getindexinfo"]));
    let mut indexes = info.as_object().unwrap().values();
    match round {
        0 => true,
        1 => indexes.any(|index| index["best_block_height"].as_u64() > Some(0)),
        _ => indexes.any(|index| index["synced"] == true),
    }
}

/// Killed as soon as it answers, when an index has begun, and when one of them is done; ffwd goes on from what is there.
#[test]
fn ffwd_goes_on_with_indexes_that_bitcoind_was_killed_in() {
    if !is_there() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let made_in = dir.path().join("made");
    let made = run(&made_in, "lab chain --out @ --blocks 2 --seed 8 --utxos 3000 --tail 300 --json").good();
    let height = made["height"].as_u64().unwrap();
    ffwd(&made_in, "reindex --assumevalid 0");
    let heights = [1, height / 2, height];
    for round in 0..3 {
        let (directory, row) = (dir.path().join(format!("round{round}")), format!("round {round}"));
        crate::bitcoind::copy(&made_in, &directory);
        let core = Bitcoind::start(&directory, CORE);
        while !is_far_enough(&core, round) {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        core.kill();
        let only = "--only txindex --only blockfilterindex --only txospenderindex --only coinstatsindex";
        let report = ffwd(&directory, &format!("index {only}"));
        assert_eq!(report["height"].as_u64(), Some(height), "{row}: {report}");
        let core = Bitcoind::start(&directory, CORE);
        check_synced(&core, height, &row);
        let said = core_says(&core, &heights);
        core.stop();
        check_same(&directory, &heights, &said, &row);
    }
}
