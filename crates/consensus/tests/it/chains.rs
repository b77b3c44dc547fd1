//! Whole real chains, and blocks that were made to trap: every rule, the scripts last, one block after the other.

use crate::ledger::{Ledger, Refused};
use consensus::{Chain, Params};
use primitives::{Height, Tables, hex};
use serde_json::Value;
use std::fs::read;
use std::path::Path;

/// Connects every block; compares count and total of the coins wherever `expected_utxo.json` has them.
fn replay(directory: &Path, file: &str, chain: Chain, name: &str, tip: &str) {
    let expected: Value = serde_json::from_slice(&read(directory.join("chains/expected_utxo.json")).unwrap()).unwrap();
    let bytes = testkit::data::read(&directory.join("chains").join(file));
    let mut ledger = Ledger::new(Params::new(chain));
    let mut compared = 0;
    for block in testkit::data::records(&bytes) {
        if *block == ledger.params.genesis {
            continue;
        }
        ledger.connect(block).unwrap_or_else(|why| panic!("{file}, on {}: {why:?}", ledger.height()));
        let Some(want) = expected[name].get(ledger.height().to_string()) else { continue };
        let total: i64 = ledger.coins.values().map(|coin| coin.value).sum();
        assert_eq!(want["bestblock"], ledger.tip().to_string());
        assert_eq!(want["txouts"], ledger.coins.len(), "{file} at {}", ledger.height());
        assert_eq!(want["total_amount_sat"], total, "{file} at {}", ledger.height());
        compared += 1;
    }
    assert_eq!(ledger.tip().to_string(), tip, "{file}");
    assert_eq!(compared, expected[name].as_object().unwrap().len(), "{file}: every expectation was met");
}

#[test]
fn real_chains_give_expected_utxo_set() {
    let Some(directory) = testkit::data::dir() else { return };
    for (file, chain, name, tip) in [
        (
            "mainnet_0_14131.blk.xz",
            Chain::Main,
            "mainnet",
            "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
        ),
        (
            "testnet3_1_2100.blk.xz",
            Chain::Test,
            "testnet3",
            "000000004f1cf82dedcee0f46fcdd6c27eeb6a234cc39d1516e8b64a7e77ad52",
        ),
        (
            "signet_0_120.blk.xz",
            Chain::Signet,
            "signet",
            "0000013673a6d6169418a65dc888b51c10dd666ef0e82785515c2086476066ea",
        ),
        (
            "regtest_1_206.blk.xz",
            Chain::Regtest,
            "regtest_kernel",
            "3de082158b117acd088306c395d09771bb7cbf0b7355796c1b1e0bd748ef9bed",
        ),
        (
            "regtest_0_150.blk.xz",
            Chain::Regtest,
            "regtest_floresta",
            "4ddf4a47b50945bb53f5dc81c3ffb6fc709f363e202a6770cb35cade739b9c78",
        ),
    ] {
        replay(&directory, file, chain, name, tip);
    }
}

/// The cases of consensus_traps.jsonl that stand on one tip.
#[test]
fn consensus_traps_give_core_reasons() {
    let Some(directory) = testkit::data::dir() else { return };
    let text = String::from_utf8(testkit::data::read(&directory.join("suites/consensus_traps.jsonl.xz"))).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let blocks = |case: &Value| -> Vec<String> {
        case["blocks"].as_array().unwrap().iter().map(|block| block.as_str().unwrap().to_owned()).collect()
    };
    let mut base = Ledger::new(Params::new(Chain::Regtest));
    for block in blocks(&lines.next().unwrap()) {
        base.connect(&hex::decode(&block).unwrap()).unwrap();
    }
    assert_eq!(base.height(), Height::new(120));
    let (mut judged, mut elsewhere) = (0, Vec::new());
    for case in lines {
        let (name, want) = (case["name"].as_str().unwrap(), case["core"]["reason"].as_str().unwrap_or(""));
        match run(&base, &blocks(&case)) {
            None => elsewhere.push(name.to_owned()),
            Some((height, reason)) => {
                judged += 1;
                assert_eq!((height, reason.as_str()), (case["want"]["height"].as_u64().unwrap(), want), "{name}");
            }
        }
    }
    println!("{judged} judged; {} need a tree of blocks: {elsewhere:?}", elsewhere.len());
    assert_eq!((judged, elsewhere.len()), (109, 6));
}

/// Height and first reason after these blocks; `None` when one stands elsewhere than on the tip.
fn run(base: &Ledger, blocks: &[String]) -> Option<(u64, String)> {
    let mut ledger = base.clone();
    let mut reason = String::new();
    for block in blocks {
        let bytes = hex::decode(block.strip_prefix("raw:").map_or(block.as_str(), |_| ""))?;
        let refused = match ledger.connect(&bytes) {
            Ok(_) => continue,
            Err(Refused::Elsewhere) => return None,
            Err(Refused::Unparsable) if bytes.is_empty() => return None,
            Err(Refused::Unparsable) => "(does not parse)".to_owned(),
            Err(Refused::Verdict(error)) => {
                assert_eq!(error.mutated(), is_mutated(&bytes, &ledger, &error.reject_reason()), "{error}");
                error.reject_reason().into_owned()
            }
        };
        if reason.is_empty() {
            reason = refused;
        }
    }
    Some((u64::from(ledger.height().to_u32()), reason))
}

/// What the check in front of all others says; it must agree on every body that a rule then calls mutated.
fn is_mutated(bytes: &[u8], ledger: &Ledger, reason: &str) -> bool {
    let mut tables = Tables::new();
    let block = tables.parse_block(bytes).unwrap();
    let (mut txids, mut wtxids) = (Vec::new(), Vec::new());
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    let segwit = ledger.height() + 1 >= ledger.params.segwit_height;
    let found = consensus::block::mutation(&block, segwit, &txids, &wtxids, &mut consensus::block::Scratch::default());
    found.is_some_and(|found| found.reject_reason() == reason)
}

/// One flipped byte of the solution of signet's block 1, and one of its body: the solution speaks first.
#[test]
fn signet_solutions_pass_and_fail_as_in_core() {
    let Some(directory) = testkit::data::dir() else { return };
    let bytes = testkit::data::read(&directory.join("chains/signet_0_120.blk.xz"));
    let good = testkit::data::records(&bytes)[1].to_vec();
    let at = good.windows(4).position(|four| four == [0xec, 0xc7, 0xda, 0xa2]).unwrap();
    for (row, byte, want) in [
        ("the solution", at + 20, "bad-signet-blksig"),
        // Behind the commitment: the locktime, which the solution commits to as well.
        ("the locktime", good.len() - 1, "bad-signet-blksig"),
    ] {
        let mut bytes = good.clone();
        bytes[byte] ^= 1;
        match Ledger::new(Params::new(Chain::Signet)).connect(&bytes) {
            Err(Refused::Verdict(error)) => assert_eq!(error.reject_reason(), want, "{row}"),
            other => panic!("{row}: {other:?}"),
        }
    }
    // A trivially true challenge takes any block; only its own block needs this solution.
    let open = Params::new(Chain::Signet).with_signet_challenge(&[0x51]).unwrap();
    let mut tables = Tables::new();
    let block = tables.parse_block(&good).unwrap();
    let (hash, txids) = (block.header().hash(), [block.transaction(0).txid()]);
    let other = Params::new(Chain::Signet).with_signet_challenge(&[0x00]).unwrap();
    let regtest = Params::new(Chain::Regtest);
    for (params, want) in [(&open, true), (&other, false), (&regtest, true)] {
        let got = consensus::block::check_signet_solution(params, &block, &hash, &txids);
        assert_eq!(got.is_ok(), want, "{:?}", params.signet_challenge);
    }
}
