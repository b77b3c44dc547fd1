//! Core's script_tests.json: every row, with the exact error.

use crate::assembler::script;
use crate::data;
use kernels::sha256::sha256;
use primitives::{Amount, OutPoint, Tables};
use script::lanes::Compared;
use script::sighash::leaf_hash;
use script::{Batch, Deferred, Flags, Immediate, OneByOne, Precomputed, Scratch, SpentOutput, verify, verify_all};
use secp256k1::{Parity, Scalar, XOnlyPublicKey};
use serde_json::Value;
use testkit::Rng;
use testkit::blocks::{In, transaction, txid_of};

/// One row, ready to run.
struct Case {
    spending: Vec<u8>,
    value: i64,
    script: Vec<u8>,
}

/// The x coordinate of the generator, whose secret is 1: the internal key of the rows that leave it out.
fn internal_key() -> [u8; 32] {
    primitives::hex::literal("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
}

/// The output key and its parity for one leaf under the internal key. Source: BIP-0341.
fn taproot_output(leaf: &[u8]) -> ([u8; 32], u8) {
    let tag = sha256(b"TapTweak");
    let tweak = sha256(&[&tag[..], &tag, &internal_key(), &leaf_hash(0xc0, leaf)].concat());
    let internal = XOnlyPublicKey::from_byte_array(internal_key()).unwrap();
    let (key, parity) = internal.add_tweak(&Scalar::from_be_bytes(tweak).unwrap()).unwrap();
    (key.to_byte_array(), u8::from(parity == Parity::Odd))
}

/// The witness of a row, and the script of its leaf if it names one.
fn witness(items: &[Value]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut witness, mut leaf) = (Vec::new(), Vec::new());
    for item in items {
        let item = item.as_str().unwrap();
        if let Some(text) = item.strip_prefix("#SCRIPT#") {
            leaf = script(text);
            witness.push(leaf.clone());
        } else if item == "#CONTROLBLOCK#" {
            let (_, odd) = taproot_output(&leaf);
            witness.push([&[0xc0 | odd][..], &internal_key()].concat());
        } else {
            witness.push(primitives::hex::decode(item).unwrap());
        }
    }
    (witness, leaf)
}

/// The spending transaction of a row. Source: Bitcoin Core b88bffe, `BuildCreditingTransaction`,
/// `BuildSpendingTransaction`.
fn case(with: Option<&[Value]>, script_sig: &str, spent: &str) -> Case {
    let (value, (witness, leaf)) = match with {
        None => (0, (Vec::new(), Vec::new())),
        Some(list) => {
            let (amount, items) = list.split_last().unwrap();
            ((amount.as_f64().unwrap() * 1e8).round() as i64, witness(items))
        }
    };
    let spent = match spent {
        "0x51 0x20 #TAPROOTOUTPUT#" => [&[0x51, 0x20][..], &taproot_output(&leaf).0].concat(),
        text => script(text),
    };
    let coinbase = In { prevout: OutPoint::NULL, script_sig: vec![0, 0], sequence: u32::MAX, witness: Vec::new() };
    let credit = transaction(1, &[coinbase], &[(value, spent.clone())], 0);
    let prevout = OutPoint { txid: txid_of(&credit), vout: 0 };
    let input = In { prevout, script_sig: script(script_sig), sequence: u32::MAX, witness };
    Case { spending: transaction(1, &[input], &[(value, Vec::new())], 0), value, script: spent }
}

/// The verdict by every way there is, which must all be the same: "OK" or the error's name.
fn run(case: &Case, flags: Flags, scratch: &mut Scratch) -> &'static str {
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&case.spending).unwrap();
    let spent = [SpentOutput { value: Amount(case.value), script: &case.script }];
    let precomputed = Precomputed::new(tx, &spent);
    let name = |verdict: Result<(), script::ScriptError>| verdict.map_or_else(|why| why.name(), |()| "OK");
    let now = name(verify(&precomputed, 0, flags, &mut Immediate, scratch));
    for batch in [&OneByOne as &dyn Batch, &Compared] {
        for mut deferred in [Deferred::new(), Deferred::with_pairs()] {
            let later = verify_all([(&precomputed, 0)], flags, batch, &mut deferred, scratch);
            assert_eq!(name(later.map_err(|(_, why)| why)), now, "deferred, {flags:?}");
        }
    }
    now
}

#[test]
fn every_row_of_script_tests() {
    let Some(rows) = data::json("scripts/script_tests.json") else { return };
    let (mut scratch, mut rng) = (Scratch::new(), Rng::new(1));
    let (mut count, mut combinations) = (0, 0);
    for row in rows.as_array().unwrap() {
        let row = row.as_array().unwrap();
        if row.len() == 1 {
            continue; // A comment.
        }
        let (with, rest) = match &row[0] {
            Value::Array(list) => (Some(&list[..]), &row[1..]),
            _ => (None, &row[..]),
        };
        let text = |at: usize| rest[at].as_str().unwrap();
        let case = case(with, text(0), text(1));
        let mut flags = data::flags(text(2));
        if flags.has(Flags::CLEANSTACK) {
            flags = data::filled(flags);
        }
        assert_eq!(run(&case, flags, &mut scratch), text(3), "{row:?}");
        count += 1;
        // Fewer flags never turn a good script bad, more never a bad one good.
        for _ in 0..if testkit::is_slow() { 256 } else { 8 } {
            let extra = data::random_flags(&mut rng);
            let other = if text(3) == "OK" { flags & !extra } else { flags | extra };
            if other.is_consistent() {
                assert_eq!(run(&case, other, &mut scratch) == "OK", text(3) == "OK", "{other:?}: {row:?}");
                combinations += 1;
            }
        }
    }
    assert_eq!(count, ROWS, "rows");
    println!("{count} rows, {combinations} other combinations of flags");
}

/// Rows of the file of commit b88bffe that are no comments.
const ROWS: usize = 1233;
