//! BIP-0054 by its own vectors (bitcoin/bips 7fe0b034, bip-0054/test_vectors), and at its limits.

use crate::ledger::{Ledger, Refused};
use consensus::deployments::VersionBits;
use consensus::{BlockError, Chain, Deployment, Params, Rule, block, cleanup};
use primitives::{Header, Height, Tables, hex};
use serde_json::Value;

/// Mainnet's parameters, with BIP-0054 from block 1 on.
fn with_cleanup() -> Params {
    let mut params = Params::new(Chain::Main);
    params.deployments[Deployment::ConsensusCleanup as usize].start_time = VersionBits::ALWAYS_ACTIVE;
    params
}

fn vectors(name: &str) -> Option<Value> {
    Some(serde_json::from_slice(&testkit::data::load(&format!("suites/{name}"))?).unwrap())
}

fn bytes_of(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}

fn list<'v>(value: &'v Value, field: &str) -> &'v [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether headers that follow each other are good, and the rule that the first bad one breaks.
fn push_headers(ledger: &mut Ledger, headers: &[Value]) -> Result<(), BlockError> {
    for header in headers {
        let header = Header(*bytes_of(header).first_chunk().unwrap());
        if header.hash() == ledger.params.genesis_hash {
            continue;
        }
        ledger.check_header(&header)?;
        ledger.push(&header);
    }
    Ok(())
}

/// Counts the cases below a node of the tree of vectors.
fn check_times(on: &Ledger, off: &Ledger, node: &Value, seen: &mut [u32; 2]) {
    let mut with = on.clone();
    let mut without = off.clone();
    let headers = list(node, "block_headers");
    push_headers(&mut without, headers).expect("every chain is good by the rules of today");
    let got = push_headers(&mut with, headers);
    match node.get("valid").and_then(Value::as_bool) {
        None => got.expect("what others extend is good"),
        Some(valid) => {
            let comment = &node["comment"];
            seen[usize::from(valid)] += 1;
            let rule = got.err().map(|error| error.rule);
            assert_eq!(rule.is_none(), valid, "{comment}: {rule:?}");
            let is_its = |rule| matches!(rule, Rule::TimeTimewarpAttack { .. } | Rule::TimeNegativeInterval { .. });
            assert!(rule.is_none_or(is_its), "{comment}: {rule:?}");
        }
    }
    for child in list(node, "extensions") {
        check_times(&with, &without, child, seen);
    }
}

#[test]
fn timestamp_vectors() {
    let Some(root) = vectors("bip54_timestamps.json.xz") else { return };
    let mut seen = [0, 0];
    check_times(&Ledger::new(with_cleanup()), &Ledger::new(Params::new(Chain::Main)), &root, &mut seen);
    assert!(seen.iter().all(|&count| count > 1), "bad and good cases: {seen:?}");
}

#[test]
fn coinbase_vectors() {
    let Some(cases) = vectors("bip54_coinbases.json.xz") else { return };
    let cases = cases.as_array().unwrap();
    assert!(!cases.is_empty());
    for case in cases {
        let judge = |params: Params| {
            let mut ledger = Ledger::new(params);
            let genesis = ledger.params.genesis.clone();
            let mut blocks = list(case, "block_chain").iter().map(bytes_of).filter(|bytes| *bytes != genesis);
            let outcome = blocks.try_for_each(|bytes| {
                ledger.connect(&bytes).map(|_| ()).map_err(|refused| match refused {
                    Refused::Verdict(error) => error.reject_reason().into_owned(),
                    Refused::Unparsable | Refused::Elsewhere => panic!("{}: {refused:?}", case["comment"]),
                })
            });
            (outcome, ledger.height())
        };
        let (got, height) = judge(with_cleanup());
        assert_eq!(got.is_ok(), case["valid"].as_bool().unwrap(), "{}: {got:?} at {height}", case["comment"]);
        let known = ["bad-cb-locktime", "bad-cb-sequence", "bad-txns-nonfinal"];
        assert!(got.as_ref().err().is_none_or(|why| known.contains(&&**why)), "{}: {got:?}", case["comment"]);
        let (today, _) = judge(Params::new(Chain::Main));
        assert!(today.is_ok() || today == got, "{}: {today:?}", case["comment"]);
    }
}

#[test]
fn size_vectors() {
    let Some(cases) = vectors("bip54_txsize.json.xz") else { return };
    for case in cases.as_array().unwrap() {
        // A block of one transaction: the rule does not look at anything else.
        let tx = bytes_of(&case["tx"]);
        let bytes = [&[0; 80][..], &[1], &tx].concat();
        let mut tables = Tables::new();
        let parsed = tables.parse_block(&bytes).unwrap();
        let mut txids = Vec::new();
        parsed.txids_into(&mut txids);
        let got = cleanup::check_sizes(&parsed, &txids).map_err(|error| error.rule);
        let want = if case["valid"] == true { Ok(()) } else { Err(Rule::BadTxnsSize) };
        assert_eq!(got, want, "{}", case["comment"]);
    }
}

/// A transaction with one input, of this script.
fn spending(script_sig: &[u8]) -> Vec<u8> {
    let mut bytes = [&[2, 0, 0, 0, 1][..], &[7; 32], &[0; 4]].concat();
    primitives::encode::put_compact_size(&mut bytes, script_sig.len() as u64);
    bytes.extend_from_slice(script_sig);
    bytes.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// `OP_DUP OP_NOTIF OP_CHECKMULTISIG.. OP_ENDIF`, as Core's feature_bip54.py has it: 20 operations each.
fn many(multisigs: usize) -> Vec<u8> {
    [&[0x76, 0x64][..], &vec![0xae; multisigs], &[0x68]].concat()
}

#[test]
fn signature_operations_are_counted_where_they_may_run() {
    let script_hash = [&[0xa9, 0x14][..], &[5; 20], &[0x87]].concat();
    let pushed = |script: &[u8]| [&[0x4c, u8::try_from(script.len()).unwrap()][..], script].concat();
    let known_keys = [0x51, 0x21, 2].into_iter().chain([3; 32]).chain([0x51, 0xae]).collect::<Vec<u8>>();
    for (row, script_sig, spent, sum, want) in [
        ("none", vec![0x51], vec![0x51], 0, Some(0)),
        ("in the output", vec![0x51], many(125), 0, Some(2500)),
        ("one more in the script", vec![0xac], many(125), 0, None),
        ("one more before", vec![0x51], many(125), 1, None),
        ("accurately", vec![0x51], known_keys, 0, Some(1)),
        ("in a redeem script", pushed(&many(125)), script_hash.clone(), 0, Some(2500)),
        ("one more beside it", [&[0xac][..], &pushed(&many(125))].concat(), script_hash.clone(), 2500, None),
        ("no redeem script behind an opcode", [&pushed(&many(125))[..], &[0x61]].concat(), script_hash, 0, Some(0)),
    ] {
        let bytes = spending(&script_sig);
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&bytes).unwrap();
        let got = cleanup::add_sigops(sum, &tx.input(0), &spent).ok();
        assert_eq!(got, want, "{row}");
    }
}

#[test]
fn nothing_is_asked_where_it_is_off() {
    let context = block::Context {
        height: Height::new(1),
        median_time_past: primitives::MedianTime::ZERO,
        cleanup: consensus::Cleanup::everywhere(&Params::new(Chain::Main)).unwrap(),
    };
    assert!(!context.cleanup.is_on(), "mainnet has not activated it");
    let main = Params::new(Chain::Main);
    let on = with_cleanup();
    for (height, time, parent_time, first_time, want) in [
        (2016, 2_800, 10_000, 0, None),
        (2016, 2_799, 10_000, 0, Some("time-timewarp-attack")),
        (2017, 2_799, 10_000, 0, None),
        (4031, 5_000, 4_000, 5_000, None),
        (4031, 4_999, 4_000, 5_000, Some("time-negative-interval")),
        (4030, 4_999, 4_000, 5_000, None),
    ] {
        let height = Height::new(height);
        let got = cleanup::check_timewarp(&on, height, time, parent_time)
            .and_then(|()| {
                cleanup::check_interval(&on, height, time, |first| {
                    assert_eq!(first, Height::new(2016), "the first block of the period");
                    first_time
                })
            })
            .err();
        assert_eq!(got.map(|rule| rule.reject_reason().into_owned()).as_deref(), want, "{height} {time}");
    }
    assert_ne!(main, on);
}
