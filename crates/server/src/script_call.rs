//! `decodescript` and `validateaddress`: describe a script or an address.
//!
//! Source: Bitcoin Core b88bffe, rpc/rawtransaction.cpp, rpc/output_script.cpp, rpc/util.cpp
//! (`DescribeAddressVisitor`).

use crate::descriptor::{Known, hash160, infer, put_descriptor};
use crate::output::{Payee, Prefixes, put_asm};
use crate::text::JsonText;
use crate::tx_decode::has_valid_ops;
use crate::tx_json::put_address_and_type;
use kernels::sha256::sha256;
use primitives::coin::is_unspendable;
use script::opcode::{Instructions, OP_CHECKSIGADD, is_op_success};

/// Describes a script, with its addresses when it is wrapped.
pub fn decode_script(script: &[u8], prefixes: &Prefixes) -> JsonText {
    let mut json = JsonText::new();
    let payee = Payee::of(script);
    json.open();
    json.key("asm").plain(|out| put_asm(out, script, false));
    json.key("desc").plain(|out| put_descriptor(out, script, &payee, prefixes));
    put_address_and_type(&mut json, &payee, prefixes);
    if can_be_wrapped(script, &payee) {
        json.key("p2sh").plain(|out| {
            prefixes.put_address(out, &Payee::ScriptHash(&hash160(script)));
        });
        if let Some((program, known)) = witness_program_of(script, &payee) {
            put_segwit(&mut json, &program, &known, prefixes);
        }
    }
    json.close();
    json
}

/// Whether a P2SH address of the script is useful.
fn can_be_wrapped(script: &[u8], payee: &Payee<'_>) -> bool {
    let of_its_kind = match payee {
        Payee::Multisig(..)
        | Payee::NonStandard
        | Payee::PubKey(_)
        | Payee::PubKeyHash(_)
        | Payee::WitnessV0KeyHash(_)
        | Payee::WitnessV0ScriptHash(_) => true,
        Payee::NullData
        | Payee::ScriptHash(_)
        | Payee::WitnessUnknown(..)
        | Payee::WitnessV1Taproot(_)
        | Payee::Anchor => false,
    };
    let tapscript_only = |opcode: u8| opcode == OP_CHECKSIGADD || is_op_success(opcode);
    of_its_kind
        && has_valid_ops(script)
        && !is_unspendable(script)
        && !Instructions::new(script).any(|instruction| tapscript_only(instruction.opcode))
}

/// The witness program that wraps the script, and its inner keys and scripts; `None` if there must be none.
fn witness_program_of(script: &[u8], payee: &Payee<'_>) -> Option<(Vec<u8>, Known)> {
    let key_hash = |hash: &[u8; 20]| Some(([&[0, 20], &hash[..]].concat(), Known::default()));
    match payee {
        // Witness scripts accept only compressed keys.
        Payee::PubKey(key) if key.len() == 33 => key_hash(&hash160(key)),
        Payee::PubKeyHash(hash) => key_hash(hash),
        Payee::Multisig(_, keys) if keys.iter().any(|key| key.len() != 33) => None,
        Payee::Multisig(..) | Payee::NonStandard => {
            let mut known = Known::default();
            known.add_script(script);
            Some(([&[0, 32], &sha256(script)[..]].concat(), known))
        }
        _ => None,
    }
}

fn put_segwit(json: &mut JsonText, program: &[u8], known: &Known, prefixes: &Prefixes) {
    json.key("segwit").open();
    json.key("asm").plain(|out| put_asm(out, program, false));
    json.key("desc").string(&infer(program, known, prefixes));
    json.key("hex").hex(program);
    put_address_and_type(json, &Payee::of(program), prefixes);
    json.key("p2sh-segwit").plain(|out| {
        prefixes.put_address(out, &Payee::ScriptHash(&hash160(program)));
    });
    json.close();
}

/// Describes an address, or why it is invalid.
pub fn validate_address(address: &str, prefixes: &Prefixes) -> JsonText {
    let mut json = JsonText::new();
    json.open();
    match prefixes.decode(address) {
        Ok(script) => put_described(&mut json, &script, prefixes),
        Err(error) => {
            json.key("isvalid").bool(false);
            json.key("error_locations").open_list();
            error.places.iter().for_each(|place| json.number(*place as u64));
            json.close_list();
            json.key("error").string(&error.why);
        }
    }
    json.close();
    json
}

fn put_described(json: &mut JsonText, script: &[u8], prefixes: &Prefixes) {
    let payee = Payee::of(script);
    json.key("isvalid").bool(true);
    json.key("address").plain(|out| {
        prefixes.put_address(out, &payee);
    });
    json.key("scriptPubKey").hex(script);
    let is_script = match payee {
        Payee::PubKeyHash(_) | Payee::WitnessV0KeyHash(_) => Some(false),
        Payee::WitnessUnknown(..) => None,
        _ => Some(true),
    };
    if let Some(is_script) = is_script {
        json.key("isscript").bool(is_script);
    }
    let witness = match &payee {
        Payee::WitnessV0KeyHash(hash) => Some((0, &hash[..])),
        Payee::WitnessV0ScriptHash(hash) => Some((0, &hash[..])),
        Payee::WitnessV1Taproot(key) => Some((1, &key[..])),
        Payee::WitnessUnknown(version, program) => Some((*version, *program)),
        _ => None,
    };
    json.key("iswitness").bool(witness.is_some() || payee == Payee::Anchor);
    if let Some((version, program)) = witness {
        json.key("witness_version").number(u64::from(version));
        json.key("witness_program").hex(program);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use primitives::hex;

    fn decode(script: &str) -> String {
        decode_script(&hex::decode(script).unwrap(), &Prefixes::of(Chain::Regtest)).into_string()
    }

    #[test]
    fn wrapping_follows_the_kind() {
        let key = "03b0da749730dc9b4b1f4a14d6902877a92541f5368778853d9c4a0cb7802dcfb2";
        let long = "04b0da749730dc9b4b1f4a14d6902877a92541f5368778853d9c4a0cb7802dcfb25e01fc8fde47c96c98a4f3a8123e33a38a50cf9025cc8c4494a518f991792bb7";
        let hash = "5dd1d3a048119c27b28293056724d9522f26d945";
        let multi = format!("52{}53ae", format!("21{key}").repeat(3));
        for (script, p2sh, segwit) in [
            (format!("21{key}ac"), true, Some(format!("0 {hash}"))),
            (format!("76a914{hash}88ac"), true, Some(format!("0 {hash}"))),
            (multi.clone(), true, Some(format!("0 {}", hex::encode(&sha256(&hex::decode(&multi).unwrap()))))),
            (format!("a914{hash}87"), false, None),
            (format!("6a14{hash}"), false, None),
            (format!("41{long}ac"), true, None),
            (format!("5221{key}41{long}52ae"), true, None),
            (format!("0014{hash}"), true, None),
            (format!("0020{}", "11".repeat(32)), true, None),
            (format!("5120{}", "01".repeat(32)), false, None),
            ("51024e73".into(), false, None),
            ("5100".into(), true, Some(format!("0 {}", hex::encode(&sha256(&[0x51, 0]))))),
            ("ba".into(), false, None),
            ("50".into(), false, None),
            ("02".into(), false, None),
        ] {
            let got = decode(&script);
            assert_eq!(got.contains("\"p2sh\":"), p2sh, "{script}: {got}");
            let part = segwit.map(|asm| format!("\"segwit\":{{\"asm\":\"{asm}\",\"desc\":"));
            assert_eq!(got.contains("\"segwit\":"), part.is_some(), "{script}: {got}");
            assert!(part.is_none_or(|part| got.contains(&part)), "{script}: {got}");
        }
    }

    #[test]
    fn addresses_are_described() {
        let describe = |address: &str| validate_address(address, &Prefixes::of(Chain::Main)).into_string();
        for (address, want) in [
            ("1BShJZ8A5q53oJJfMJoEF1gfZCWdZqZwwD", None),
            (
                "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",
                Some(concat!(
                    r#"{"isvalid":true,"address":"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4","#,
                    r#""scriptPubKey":"0014751e76e8199196d454941c45d1b3a323f1433bd6","isscript":false,"iswitness":true,"#,
                    r#""witness_version":0,"witness_program":"751e76e8199196d454941c45d1b3a323f1433bd6"}"#
                )),
            ),
            (
                "bc1pfeessrawgf",
                Some(
                    r#"{"isvalid":true,"address":"bc1pfeessrawgf","scriptPubKey":"51024e73","isscript":true,"iswitness":true}"#,
                ),
            ),
            (
                "BC1SW50QGDZ25J",
                Some(concat!(
                    r#"{"isvalid":true,"address":"bc1sw50qgdz25j","scriptPubKey":"6002751e","iswitness":true,"#,
                    r#""witness_version":16,"witness_program":"751e"}"#
                )),
            ),
            (
                "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5",
                Some(r#"{"isvalid":false,"error_locations":[41],"error":"Invalid Bech32 checksum"}"#),
            ),
        ] {
            let got = describe(address);
            assert!(want.is_none_or(|want| got == want), "{got}");
        }
    }
}
