//! Real chains end in the sets that Core has at the same heights.

use crate::data;
use crate::run::run;
use serde_json::Value;

/// One chain at one height: reindexed from its blocks, hashed both ways.
fn check(chain: &str, name: &str, height: &str, want: &Value) {
    let Some(directory) = data::real(chain, name) else { return };
    let row = format!("{name} at {height}");
    let line = format!("reindex --datadir @ --chain {chain} --stopatheight {height} --hash hash_serialized_3 --json");
    let got = run(directory.path(), &line).good();
    for field in ["bestblock", "txouts", "hash_serialized_3"] {
        assert_eq!(got[field], want[field], "{row}: {field}");
    }
    let satoshi = (got["total_amount"].as_f64().unwrap() * 1e8).round();
    assert_eq!(satoshi, want["total_amount_sat"].as_f64().unwrap(), "{row}: total_amount");
    assert_eq!((&got["chain"], got["height"].to_string().as_str()), (&Value::from(chain), height), "{row}");
    assert_eq!(
        (&got["height_start"], &got["blocks_invalid"], &got["stopped"]),
        (&0.into(), &0.into(), &false.into()),
        "{row}"
    );
    let muhash = run(directory.path(), &format!("coins info --datadir @ --chain {chain} --hash muhash --json")).good();
    for field in ["bestblock", "txouts", "muhash"] {
        assert_eq!(muhash[field], want[field], "{row}: {field} of coins info");
    }
    for field in ["height", "bogosize", "total_amount"] {
        assert_eq!(muhash[field], got[field], "{row}: {field} of both");
    }
}

fn check_all(chain: &str, name: &str, key: &str) {
    let Some(expected) = testkit::data::load("chains/expected_utxo.json") else { return };
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let heights = expected[key].as_object().unwrap();
    assert!(!heights.is_empty());
    for (height, want) in heights {
        check(chain, name, height, want);
    }
}

#[test]
fn utxo_set_hash_of_mainnet_is_cores() {
    check_all("main", "mainnet_0_14131", "mainnet");
}

#[test]
fn utxo_set_hash_of_testnet3_is_cores() {
    check_all("test", "testnet3_1_2100", "testnet3");
}

#[test]
fn utxo_set_hash_of_signet_is_cores() {
    check_all("signet", "signet_0_120", "signet");
}

#[test]
fn utxo_set_hash_of_regtest_is_cores() {
    check_all("regtest", "regtest_1_206", "regtest_kernel");
    check_all("regtest", "regtest_0_150", "regtest_floresta");
}
