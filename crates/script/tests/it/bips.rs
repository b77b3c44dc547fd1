//! Vectors of BIP-0340 (Schnorr signatures) and BIP-0341 (taproot outputs and hashes). BIP-0143's stand in Core's
//! files.

use crate::data;
use kernels::sha256::sha256;
use primitives::{Amount, Tables, hex};
use script::sighash::{leaf_hash, taproot};
use script::{Check, Flags, Immediate, Lanes, Precomputed, Scratch, SpentOutput, verify};
use serde_json::Value;

/// libsecp256k1 is asked through [`Check`], whose messages have 32 bytes; the rows with other lengths are asked
/// directly.
#[test]
fn bip_0340() {
    let Some(bytes) = testkit::data::load("scripts/bip-0340_test-vectors.csv") else { return };
    let text = String::from_utf8(bytes).unwrap();
    let (mut of_32, mut of_others) = (0, 0);
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |at: usize| hex::decode(fields[at]).unwrap();
        let key: [u8; 32] = field(2).try_into().unwrap();
        let signature: [u8; 64] = field(5).try_into().unwrap();
        let want = fields[6] == "TRUE";
        if let Ok(sighash) = field(4).try_into() {
            let check = Check::Schnorr { signature, key, sighash };
            assert_eq!(check.holds(), want, "{line}");
            if let Some(lanes) = Lanes::of(kernels::Kernels::AUTO) {
                assert_eq!(lanes.prove(&[check]), [want], "in lanes: {line}");
            }
            of_32 += 1;
        } else {
            let key = secp256k1::XOnlyPublicKey::from_byte_array(key).unwrap();
            let signature = secp256k1::schnorr::Signature::from_byte_array(signature);
            assert_eq!(secp256k1::schnorr::verify(&signature, &field(4), &key).is_ok(), want, "{line}");
            of_others += 1;
        }
    }
    assert_eq!((of_32, of_others), (15, 4), "rows");
}

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    sha256(&[&[&tag[..], &tag], parts].concat().concat())
}

/// The root of a tree of scripts, and its leaves' hashes, in order.
fn tree(node: &Value, leaves: &mut Vec<[u8; 32]>) -> [u8; 32] {
    if let Some(children) = node.as_array() {
        let (left, right) = (tree(&children[0], leaves), tree(&children[1], leaves));
        return tagged("TapBranch", &[&left.min(right), &left.max(right)]);
    }
    let leaf = leaf_hash(node["leafVersion"].as_u64().unwrap() as u8, &data::unhex(&node["script"]));
    leaves.push(leaf);
    leaf
}

/// Output keys: leaves, root, tweak, and the control blocks that lead back to them.
#[test]
fn bip_0341_outputs() {
    let Some(vectors) = data::json("scripts/bip-0341_wallet-test-vectors.json") else { return };
    let rows = vectors["scriptPubKey"].as_array().unwrap();
    for row in rows {
        let (given, middle, expected) = (&row["given"], &row["intermediary"], &row["expected"]);
        let internal: [u8; 32] = data::unhex(&given["internalPubkey"]).try_into().unwrap();
        let output: [u8; 32] = data::unhex(&middle["tweakedPubkey"]).try_into().unwrap();
        let mut leaves = Vec::new();
        let root = (!given["scriptTree"].is_null()).then(|| tree(&given["scriptTree"], &mut leaves));
        let tweak = tagged("TapTweak", &[&internal, root.as_ref().map_or(&[][..], |root| root)]);
        assert_eq!(hex::encode(&tweak), middle["tweak"].as_str().unwrap());
        if let Some(root) = root {
            let hashes: Vec<String> = leaves.iter().map(|leaf| hex::encode(leaf)).collect();
            assert_eq!(Value::from(hashes), middle["leafHashes"]);
            assert_eq!(hex::encode(&root), middle["merkleRoot"].as_str().unwrap());
        }
        let holds = |odd| {
            let check = Check::Tweak { output, odd, internal, tweak };
            assert!(
                Lanes::of(kernels::Kernels::AUTO).is_none_or(|lanes| lanes.prove(&[check]) == [check.holds()]),
                "in lanes: {check:?}"
            );
            check.holds()
        };
        assert!(holds(false) != holds(true), "one parity fits");
        for block in expected["scriptPathControlBlocks"].as_array().into_iter().flatten() {
            assert!(holds(data::unhex(block)[0] & 1 == 1), "{block}");
        }
    }
    assert_eq!(rows.len(), 7, "rows");
}

/// Hashes and signatures of the key path, and the transaction that they make.
#[test]
fn bip_0341_key_path() {
    let Some(vectors) = data::json("scripts/bip-0341_wallet-test-vectors.json") else { return };
    let spendings = vectors["keyPathSpending"].as_array().unwrap();
    let mut signed = 0;
    for spending in spendings {
        let unsigned = data::unhex(&spending["given"]["rawUnsignedTx"]);
        let full = data::unhex(&spending["auxiliary"]["fullySignedTx"]);
        let coins: Vec<(i64, Vec<u8>)> = spending["given"]["utxosSpent"]
            .as_array()
            .unwrap()
            .iter()
            .map(|coin| (coin["amountSats"].as_i64().unwrap(), data::unhex(&coin["scriptPubKey"])))
            .collect();
        let spent: Vec<SpentOutput<'_>> =
            coins.iter().map(|(value, script)| SpentOutput { value: Amount(*value), script }).collect();
        let (mut tables, mut full_tables) = (Tables::new(), Tables::new());
        let precomputed = Precomputed::new(tables.parse_transaction(&unsigned).unwrap(), &spent);
        for row in spending["inputSpending"].as_array().unwrap() {
            let input = row["given"]["txinIndex"].as_u64().unwrap() as usize;
            let hash_type = row["given"]["hashType"].as_u64().unwrap() as u8;
            let sighash = taproot(&precomputed, input, hash_type, None, None).unwrap();
            assert_eq!(hex::encode(&sighash), row["intermediary"]["sigHash"].as_str().unwrap(), "input {input}");
            signed += 1;
        }
        let tx = full_tables.parse_transaction(&full).unwrap();
        let precomputed = Precomputed::new(tx, &spent);
        let mut scratch = Scratch::new();
        for input in 0..tx.input_count() {
            let verdict = verify(&precomputed, input, Flags::CONSENSUS, &mut Immediate, &mut scratch);
            assert_eq!(verdict, Ok(()), "input {input}");
        }
    }
    assert_eq!((spendings.len(), signed), (1, 7), "transactions, inputs");
}
