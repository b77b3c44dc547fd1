//! Signature operations, counted without running scripts.
//!
//! Absent on purpose: the cost of a block (each legacy and P2SH operation counts four times there).

use crate::flags::Flags;
use crate::opcode::{
    Instructions, OP_1, OP_16, OP_CHECKMULTISIG, OP_CHECKMULTISIGVERIFY, OP_CHECKSIG, OP_CHECKSIGVERIFY,
    OP_INVALIDOPCODE, is_push_only, p2sh as p2sh_hash, witness_program,
};
use primitives::block::Witness;

/// The count of a CHECKMULTISIG whose number of keys is unknown. Source: `MAX_PUBKEYS_PER_MULTISIG`.
const MULTISIG_KEYS_MAX: u32 = 20;

/// Signature operations of a script, up to the first truncated instruction.
///
/// `accurate`: a CHECKMULTISIG directly after `OP_1` to `OP_16` counts 1 to 16, any other counts 20.
///
/// Source: Bitcoin Core b88bffe, `CScript::GetSigOpCount(bool)`.
pub fn count(script: &[u8], accurate: bool) -> u32 {
    let mut operations = 0u32;
    let mut last = OP_INVALIDOPCODE;
    for instruction in Instructions::new(script) {
        match instruction.opcode {
            OP_CHECKSIG | OP_CHECKSIGVERIFY => operations += 1,
            OP_CHECKMULTISIG | OP_CHECKMULTISIGVERIFY => {
                let told = accurate && (OP_1..=OP_16).contains(&last);
                operations += if told { u32::from(last - (OP_1 - 1)) } else { MULTISIG_KEYS_MAX };
            }
            _ => {}
        }
        last = instruction.opcode;
    }
    operations
}

/// Signature operations of the redeem script in `script_sig`; 0 if `spent_script` is not pay-to-script-hash, or
/// `script_sig` has an opcode above `OP_16` or is truncated.
///
/// Source: Bitcoin Core b88bffe, `GetP2SHSigOpCount`, `CScript::GetSigOpCount(const CScript&)`.
pub fn p2sh(script_sig: &[u8], spent_script: &[u8]) -> u32 {
    if p2sh_hash(spent_script).is_none() || !is_push_only(script_sig) {
        return 0;
    }
    count(last_push(script_sig), true)
}

/// Signature operations of spending an output, without those of `script_sig`: the redeem script's for
/// pay-to-script-hash (see [`p2sh`]), otherwise the output's own, counted accurately.
///
/// Source: Bitcoin Core b88bffe, `CScript::GetSigOpCount(const CScript&)`.
pub fn of_spent(script_sig: &[u8], spent_script: &[u8]) -> u32 {
    match p2sh_hash(spent_script) {
        Some(_) => p2sh(script_sig, spent_script),
        None => count(spent_script, true),
    }
}

/// Signature operations of the witness program that the input spends, bare or in P2SH.
///
/// Source: Bitcoin Core b88bffe, `CountWitnessSigOps`.
pub fn witness(script_sig: &[u8], spent_script: &[u8], witness: Witness<'_>, flags: Flags) -> u32 {
    if !flags.has(Flags::WITNESS) {
        return 0;
    }
    if let Some((version, program)) = witness_program(spent_script) {
        return of_program(version, program, witness);
    }
    if p2sh_hash(spent_script).is_none() || !is_push_only(script_sig) {
        return 0;
    }
    match witness_program(last_push(script_sig)) {
        Some((version, program)) => of_program(version, program, witness),
        None => 0,
    }
}

/// The data of the last push of a push-only script: empty for `OP_1` and similar opcodes, which contain no data.
fn last_push(script_sig: &[u8]) -> &[u8] {
    Instructions::new(script_sig).last().map_or(&[], |instruction| instruction.push)
}

fn of_program(version: u8, program: &[u8], witness: Witness<'_>) -> u32 {
    match (version, program.len()) {
        (0, 20) => 1,
        (0, 32) => witness.last().map_or(0, |script| count(script, true)),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Tables, hex};

    #[test]
    fn sigops_of_scripts() {
        for (hex, rough, accurate) in [
            ("", 0, 0),
            ("ac", 1, 1),
            ("adad", 2, 2),
            ("52ae", 20, 2),
            ("60af", 20, 16),
            ("00ae", 20, 20),
            ("0102ae", 20, 20),
            ("ae", 20, 20),
            ("5261ae", 20, 20),
            ("ba", 0, 0),
            ("ac02ac", 1, 1),
            ("ac01acac", 2, 2),
            ("4facac", 2, 2),
        ] {
            let script = hex::decode(hex).unwrap();
            assert_eq!((count(&script, false), count(&script, true)), (rough, accurate), "{hex}");
        }
    }

    #[test]
    fn sigops_of_redeem_scripts() {
        let script_hash = hex::decode(&format!("a914{}87", "00".repeat(20))).unwrap();
        for (hex, want) in [
            ("", 0),
            ("01ac", 1),
            ("00", 0),
            ("0252ae", 2),
            ("01ac51", 0),
            ("01ac61", 0),
            ("01ac02", 0),
            ("ac", 0),
            ("5001ac", 1),
        ] {
            let script_sig = hex::decode(hex).unwrap();
            assert_eq!(p2sh(&script_sig, &script_hash), want, "{hex}");
            assert_eq!(p2sh(&script_sig, &script_hash[..22]), 0, "{hex}, not P2SH");
        }
    }

    #[test]
    fn sigops_of_witness_programs() {
        let key_hash = format!("0014{}", "11".repeat(20));
        let script_hash = format!("0020{}", "11".repeat(32));
        let p2sh = format!("a914{}87", "22".repeat(20));
        let wrap = |program: &str| format!("{:02x}{program}", program.len() / 2);
        let (on, off) = (Flags::P2SH | Flags::WITNESS, Flags::P2SH);
        for (name, script_sig, spent, flags, want) in [
            ("key hash", String::new(), &key_hash, on, 1),
            ("script hash", String::new(), &script_hash, on, 3),
            ("without the flag", String::new(), &script_hash, off, 0),
            ("wrapped key hash", wrap(&key_hash), &p2sh, on, 1),
            ("wrapped script hash", wrap(&script_hash), &p2sh, on, 3),
            ("wrapped, not only pushes", wrap(&script_hash) + "61", &p2sh, on, 0),
            ("taproot", String::new(), &script_hash.replacen("00", "51", 1), on, 0),
            ("version 0, 21 bytes", String::new(), &format!("0015{}", "11".repeat(21)), on, 0),
            ("P2SH without pushes", String::new(), &p2sh, on, 0),
        ] {
            // One input whose witness has one item: the script 53 ae, three operations.
            let script = hex::decode(&script_sig).unwrap();
            let bytes = format!(
                "010000000001 01{} {:02x}{script_sig} 00000000 00 010253ae 00000000",
                "00".repeat(36),
                script.len()
            );
            let bytes = hex::decode(&bytes.replace(' ', "")).unwrap();
            let mut tables = Tables::new();
            let tx = tables.parse_transaction(&bytes).unwrap();
            let input = tx.input(0);
            let spent = hex::decode(spent).unwrap();
            assert_eq!(witness(input.script_sig(), &spent, input.witness(), flags), want, "{name}");
        }
    }
}
