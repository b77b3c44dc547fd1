//! The vectors of BIP 352 (`send_and_receive_test_vectors.json`): all their transactions in one block, the tweaks that they name,
//! and a receiver who finds all payments with nothing but tweaks and output keys.

use indexes::silentpayments::{self, Entry};
use kernels::Kernels;
use kernels::sha256::sha256;
use primitives::coin::{CoinRef, put_coin};
use primitives::{Amount, BlockHash, OutPoint, Tables, Txid, hex};
use secp256k1::{PublicKey, Scalar, SecretKey};
use serde_json::Value;
use std::collections::BTreeSet;
use testkit::blocks::{In, Tx, block, coinbase};

fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().expect("it is a text")).expect("it is hexadecimal")
}

/// A CompactSize of one byte, as the vectors have them, or of three.
fn size<'b>(rest: &mut &'b [u8]) -> usize {
    let mut take = |count: usize| -> &'b [u8] {
        let (taken, left) = rest.split_at(count);
        *rest = left;
        taken
    };
    match take(1)[0] {
        0xfd => usize::from(u16::from_le_bytes(take(2).try_into().unwrap())),
        size => usize::from(size),
    }
}

fn witness(serialized: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = serialized;
    if rest.is_empty() {
        return Vec::new();
    }
    let count = size(&mut rest);
    let items = (0..count)
        .map(|_| {
            let bytes = size(&mut rest);
            let (item, left) = rest.split_at(bytes);
            rest = left;
            item.to_vec()
        })
        .collect();
    assert!(rest.is_empty());
    items
}

/// The transaction that a receiver of a vector is given, and the scripts that it spends.
fn transaction(given: &Value) -> (Tx, Vec<Vec<u8>>) {
    let vin = given["vin"].as_array().unwrap();
    let input = |input: &Value| {
        let txid = Txid::from_display(input["txid"].as_str().unwrap()).unwrap();
        let prevout = OutPoint { txid, vout: input["vout"].as_u64().unwrap() as u32 };
        let mut of = In::of(prevout);
        of.script_sig = bytes(&input["scriptSig"]);
        of.witness = witness(&bytes(&input["txinwitness"]));
        of
    };
    let output = |(at, key): (usize, &Value)| (1000 + at as i64, [&[0x51, 0x20][..], &bytes(key)].concat());
    let outputs = given["outputs"].as_array().unwrap().iter().enumerate().map(output).collect();
    let spent = vin.iter().map(|input| bytes(&input["prevout"]["scriptPubKey"]["hex"])).collect();
    (Tx { version: 2, inputs: vin.iter().map(input).collect(), outputs, lock_time: 0 }, spent)
}

/// Every receiving side of the vectors.
fn vectors() -> Option<Vec<(String, Value)>> {
    let file = testkit::data::load("suites/bip352_send_and_receive.json.xz")?;
    let all: Vec<Value> = serde_json::from_slice(&file).unwrap();
    let receiving = |vector: &Value| -> Vec<(String, Value)> {
        let comment = vector["comment"].as_str().unwrap().to_owned();
        vector["receiving"].as_array().unwrap().iter().map(|side| (comment.clone(), side.clone())).collect()
    };
    Some(all.iter().flat_map(receiving).collect())
}

/// What the index has of a block of these transactions.
fn entries_of(transactions: &[(Tx, Vec<Vec<u8>>)], kernels: Kernels) -> Vec<Entry> {
    let txs: Vec<Tx> = [coinbase(7)].into_iter().chain(transactions.iter().map(|(tx, _)| tx.clone())).collect();
    let bytes = block(BlockHash::from_bytes([1; 32]), 1, &txs);
    let mut tables = Tables::with(kernels);
    let block = tables.parse_block(&bytes).unwrap();
    let stored: Vec<Vec<u8>> = transactions
        .iter()
        .flat_map(|(_, scripts)| scripts)
        .map(|script| {
            let mut coin = Vec::new();
            put_coin(&mut coin, 2, Amount(5), script);
            coin
        })
        .collect();
    let spent: Vec<CoinRef<'_>> = stored.iter().map(|coin| CoinRef::decode(coin).unwrap()).collect();
    let entries = silentpayments::entries(&block, &spent);
    assert_eq!(silentpayments::decode(&silentpayments::encode(&entries)), Ok(entries.clone()));
    entries
}

#[test]
fn tweaks_are_those_of_the_vectors() {
    let Some(vectors) = vectors() else { return };
    let transactions: Vec<(Tx, Vec<Vec<u8>>)> = vectors.iter().map(|(_, side)| transaction(&side["given"])).collect();
    for cpu in kernels::cpu::Cpu::ALL {
        let Ok(kernels) = Kernels::of(cpu) else { continue };
        let entries = entries_of(&transactions, kernels);
        for (at, (comment, side)) in vectors.iter().enumerate() {
            let found = entries.iter().find(|entry| entry.tx_index as usize == at + 1);
            let tweak = found.map(|entry| hex::encode(&entry.tweak));
            assert_eq!(tweak.as_deref(), side["expected"]["tweak"].as_str(), "{cpu:?}: {comment}");
            let most = 1000 + transactions[at].0.outputs.len() as u64 - 1;
            assert!(found.is_none_or(|entry| entry.value_max == most), "{comment}");
        }
        let without = vectors.iter().filter(|(_, side)| side["expected"]["tweak"].is_null()).count();
        assert_eq!((entries.len() + without, without), (vectors.len(), 2), "{cpu:?}");
    }
}

/// Rows that the vectors lack. Each spends a P2WPKH output whose key makes it eligible, and another one.
#[test]
fn other_rules_of_eligibility() {
    let Some(vectors) = vectors() else { return };
    let (of_vector, scripts) = transaction(&vectors[6].1["given"]);
    let key_path = || of_vector.inputs[0].clone();
    let taproot = scripts[0].clone();
    let nums = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";
    let with = |more: In, script: Vec<u8>, outputs: &[Vec<u8>]| {
        let mut tx = of_vector.clone();
        tx.inputs = vec![key_path(), more];
        tx.outputs = outputs.iter().map(|script| (546, script.clone())).collect();
        (tx, vec![taproot.clone(), script])
    };
    let other = |witness: Vec<Vec<u8>>| In { witness, ..In::of(OutPoint { txid: Txid::from_bytes([9; 32]), vout: 1 }) };
    let program = |version: u8, bytes: usize| [vec![version, bytes as u8], vec![7; bytes]].concat();
    let pays = [program(0x51, 32)];
    let control = |internal: Vec<u8>| [vec![0xc0], internal].concat();
    let script_path =
        |internal: Vec<u8>, annex: &[Vec<u8>]| other([&[vec![0x51], control(internal)][..], annex].concat());
    let alone = entries_of(&[with(other(Vec::new()), vec![0x51], &pays)], Kernels::AUTO)[0].tweak;
    let x_of_g = hex::decode("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798").unwrap();
    let to_g = [vec![0x51, 0x20], x_of_g.clone()].concat();
    let nums = hex::decode(nums).unwrap();
    // Nothing: not eligible. Some(true): the other input has no part in it.
    let rows = [
        ("a program of version 2", with(other(Vec::new()), program(0x52, 32), &pays), None),
        ("a program of version 16 and 2 bytes", with(other(Vec::new()), program(0x60, 2), &pays), None),
        ("no program: 41 bytes", with(other(Vec::new()), program(0x52, 41), &pays), Some(true)),
        ("no program: one byte", with(other(Vec::new()), program(0x52, 1), &pays), Some(true)),
        ("version 1, not of 32 bytes", with(other(Vec::new()), program(0x51, 33), &pays), Some(true)),
        ("no taproot output", with(other(Vec::new()), vec![0x51], &[program(0x51, 33), program(0, 32)]), None),
        ("P2WSH", with(other(vec![vec![2; 33]]), program(0, 32), &pays), Some(true)),
        ("a script, internal key H", with(script_path(nums.clone(), &[]), to_g.clone(), &pays), Some(true)),
        ("the same with an annex", with(script_path(nums.clone(), &[vec![0x50, 1]]), to_g.clone(), &pays), Some(true)),
        ("a script, another internal key", with(script_path(vec![3; 32], &[]), to_g.clone(), &pays), Some(false)),
        ("an annex of one byte", with(other(vec![vec![1; 64], vec![0x50]]), to_g.clone(), &pays), Some(false)),
        ("no witness", with(other(Vec::new()), to_g.clone(), &pays), Some(true)),
        (
            "an output key that is no point",
            with(other(vec![vec![1; 64]]), [&[0x51, 0x20][..], &[0xff; 32]].concat(), &pays),
            Some(true),
        ),
        (
            "P2WPKH without a compressed key",
            with(other(vec![vec![1; 9], [vec![5], x_of_g].concat()]), program(0, 20), &pays),
            Some(true),
        ),
        ("a bare key", with(other(Vec::new()), [&[0x21, 2][..], &[3; 32], &[0xac]].concat(), &pays), Some(true)),
    ];
    let transactions: Vec<_> = rows.iter().map(|(_, transaction, _)| transaction.clone()).collect();
    let entries = entries_of(&transactions, Kernels::AUTO);
    let plain = entries_of(&transactions, Kernels::PLAIN);
    assert_eq!(entries, plain, "lanes and libsecp256k1");
    for (at, (row, _, want)) in rows.iter().enumerate() {
        let found = entries.iter().find(|entry| entry.tx_index as usize == at + 1);
        // The smallest outpoint is the same in all rows; only another key changes the tweak.
        assert_eq!(found.map(|entry| entry.tweak == alone), *want, "{row}");
    }
}

fn tagged(tag: &str, message: &[u8]) -> Scalar {
    let tag = sha256(tag.as_bytes());
    Scalar::from_be_bytes(sha256(&[&tag[..], &tag, message].concat())).unwrap()
}

/// Most payments of one transaction to one receiver that are looked for. Source: BIP 352, "K_max".
const PAYMENTS_MAX: u32 = 2323;

/// The output keys of a transaction that pay to a receiver: BIP 352, "Scanning", the tweak from the index.
fn payments(entry: &Entry, outputs: &BTreeSet<[u8; 32]>, side: &Value) -> BTreeSet<[u8; 32]> {
    let material = &side["given"]["key_material"];
    let secret = |name: &str| SecretKey::from_secret_bytes(bytes(&material[name]).try_into().unwrap()).unwrap();
    let scan = secret("scan_priv_key");
    let spend = PublicKey::from_secret_key(&secret("spend_priv_key"));
    let mut spends = vec![spend];
    for label in side["given"]["labels"].as_array().unwrap() {
        let label = (label.as_u64().unwrap() as u32).to_be_bytes();
        let tweak = tagged("BIP0352/Label", &[&scan.to_secret_bytes()[..], &label].concat());
        spends.push(spend.add_exp_tweak(&tweak).unwrap());
    }
    let factor = Scalar::from_be_bytes(scan.to_secret_bytes()).unwrap();
    let shared = PublicKey::from_slice(&entry.tweak).unwrap().mul_tweak(&factor).unwrap();
    let mut found = BTreeSet::new();
    for number in 0..PAYMENTS_MAX {
        let tweak = tagged("BIP0352/SharedSecret", &[&shared.serialize()[..], &number.to_be_bytes()].concat());
        let key = |spend: &PublicKey| spend.add_exp_tweak(&tweak).unwrap().x_only_public_key().0.to_byte_array();
        let paid: Vec<[u8; 32]> = spends.iter().map(key).filter(|key| outputs.contains(key)).collect();
        if paid.is_empty() {
            break;
        }
        found.extend(paid);
    }
    found
}

#[test]
fn a_receiver_finds_its_payments() {
    let Some(vectors) = vectors() else { return };
    let transactions: Vec<(Tx, Vec<Vec<u8>>)> = vectors.iter().map(|(_, side)| transaction(&side["given"])).collect();
    let entries = entries_of(&transactions, Kernels::AUTO);
    let mut all = 0;
    for entry in &entries {
        let at = entry.tx_index as usize - 1;
        let (comment, side) = &vectors[at];
        let outputs = transactions[at].0.outputs.iter();
        let outputs = outputs.map(|(_, script)| *silentpayments::taproot_key(script).unwrap()).collect();
        let found = payments(entry, &outputs, side);
        let expected = &side["expected"];
        match expected["n_outputs"].as_u64() {
            Some(count) => assert_eq!(found.len() as u64, count, "{comment}"),
            None => {
                let want = expected["outputs"].as_array().unwrap().iter();
                let want = want.map(|output| bytes(&output["pub_key"]).try_into().unwrap()).collect();
                assert_eq!(found, want, "{comment}");
            }
        }
        all += found.len();
    }
    assert!(all > 2323 + 20, "{all}");
}
