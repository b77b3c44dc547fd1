//! Scripts as text: `OP_DUP OP_HASH160 89ab.. OP_EQUALVERIFY OP_CHECKSIG`.
//!
//! Source: Bitcoin Core b88bffe, `ScriptToAsmStr` (core_io.cpp), `GetOpName` (script.cpp).

use crate::text::{put_hex, put_number};
use primitives::coin::is_unspendable;
use script::is_strict_der;
use script::opcode::{Instructions, NAMES, OP_0, OP_1, OP_1NEGATE, OP_16, OP_INVALIDOPCODE, OP_PUSHDATA4};

/// Core's name of each opcode.
static OPCODES: [&str; 256] = {
    let mut names = ["OP_UNKNOWN"; 256];
    let mut at = 0;
    while at < NAMES.len() {
        let (name, opcode) = NAMES[at];
        names[opcode as usize] = name;
        at += 1;
    }
    let small = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    let mut number = 0;
    while number < small.len() {
        names[OP_1 as usize + number] = small[number];
        number += 1;
    }
    names[OP_0 as usize] = "0";
    names[OP_1NEGATE as usize] = "-1";
    names
};

const _: () = assert!(OP_16 - OP_1 == 15 && OP_INVALIDOPCODE == 255);

/// Longest push that is shown as a number.
const NUMBER_BYTES_MAX: usize = 4;

/// Appends `script` as text; with `sighashes` the last byte of an apparent signature is written as its hash type.
pub fn put_asm(out: &mut Vec<u8>, script: &[u8], sighashes: bool) {
    let names_sighashes = sighashes && !is_unspendable(script);
    let mut instructions = Instructions::new(script);
    let mut is_first = true;
    let mut space = |out: &mut Vec<u8>| {
        if !std::mem::take(&mut is_first) {
            out.push(b' ');
        }
    };
    for instruction in instructions.by_ref() {
        space(out);
        if instruction.opcode > OP_PUSHDATA4 {
            out.extend_from_slice(OPCODES[usize::from(instruction.opcode)].as_bytes());
        } else if instruction.push.len() <= NUMBER_BYTES_MAX {
            put_script_number(out, instruction.push);
        } else if let Some(name) = sighash_name(instruction.push).filter(|_| names_sighashes) {
            put_hex(out, &instruction.push[..instruction.push.len() - 1]);
            out.extend_from_slice(name.as_bytes());
        } else {
            put_hex(out, instruction.push);
        }
    }
    if instructions.is_cut() {
        space(out);
        out.extend_from_slice(b"[error]");
    }
}

/// The hash type of a signature, if `push` is one. Source: Core's `CheckSignatureEncoding` under STRICTENC.
#[inline]
fn sighash_name(push: &[u8]) -> Option<&'static str> {
    // A cheap check that excludes most other pushes.
    if push.first() != Some(&0x30) {
        return None;
    }
    let name = match push.last()? {
        0x01 => "[ALL]",
        0x02 => "[NONE]",
        0x03 => "[SINGLE]",
        0x81 => "[ALL|ANYONECANPAY]",
        0x82 => "[NONE|ANYONECANPAY]",
        0x83 => "[SINGLE|ANYONECANPAY]",
        _ => return None,
    };
    is_strict_der(push).then_some(name)
}

/// Appends a number: little endian, sign in the highest bit, not necessarily minimal, at most [`NUMBER_BYTES_MAX`]
/// bytes.
fn put_script_number(out: &mut Vec<u8>, bytes: &[u8]) {
    let magnitude = bytes.iter().rev().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
    let sign = bytes.last().map_or(0, |last| u64::from(last & 0x80) << (8 * (bytes.len() - 1)));
    let magnitude = magnitude ^ sign;
    if sign != 0 && magnitude != 0 {
        out.push(b'-');
    }
    put_number(out, magnitude);
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    fn asm(script: &str, sighashes: bool) -> String {
        let mut out = Vec::new();
        put_asm(&mut out, &hex::decode(script).unwrap(), sighashes);
        String::from_utf8(out).unwrap()
    }

    /// From Core's functional test rpc_decodescript and script_tests.cpp, and bitcoind's decodescript at b88bffe.
    #[test]
    fn scripts_are_shown_as_in_core() {
        let signature = concat!(
            "304502207fa7a6d1e0ee81132a269ad84e68d695483745cde8b541e3bf630749894e342a022100c1f7ab20e13e22fb95281a870f3dcf",
            "38d782e53023ee313d741ad0cfbc0c5090"
        );
        let key = "03b0da749730dc9b4b1f4a14d6902877a92541f5368778853d9c4a0cb7802dcfb2";
        for (script, sighashes, want) in [
            (String::new(), true, String::new()),
            ("00".into(), true, "0".into()),
            ("4f".into(), true, "-1".into()),
            ("5160".into(), true, "1 16".into()),
            ("0100".into(), true, "0".into()),
            ("0180".into(), true, "0".into()),
            ("0181".into(), true, "-1".into()),
            ("02ff00".into(), true, "255".into()),
            ("04ffffffff".into(), true, "-2147483647".into()),
            ("04ffffff7f".into(), true, "2147483647".into()),
            ("050000000000".into(), true, "0000000000".into()),
            ("bafffe50".into(), true, "OP_CHECKSIGADD OP_INVALIDOPCODE OP_UNKNOWN OP_RESERVED".into()),
            ("5102aa".into(), true, "1 [error]".into()),
            ("02".into(), true, "[error]".into()),
            (format!("48{signature}01"), true, format!("{signature}[ALL]")),
            (format!("48{signature}82"), true, format!("{signature}[NONE|ANYONECANPAY]")),
            (format!("48{signature}83"), true, format!("{signature}[SINGLE|ANYONECANPAY]")),
            (format!("48{signature}04"), true, format!("{signature}04")),
            (format!("48{signature}01"), false, format!("{signature}01")),
            (format!("6a48{signature}01"), true, format!("OP_RETURN {signature}01")),
            (format!("47{}01", &signature[..140]), true, format!("{}01", &signature[..140])),
            (format!("21{key}ac"), true, format!("{key} OP_CHECKSIG")),
        ] {
            assert_eq!(asm(&script, sighashes), want, "{script}");
        }
    }
}
