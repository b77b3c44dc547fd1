//! The short way through the commonest inputs: a glance at the bytes, the hash, the signature.
//!
//! A template only ever says yes. Whatever is not exactly its plain form, or fails, goes the long way, and the
//! verdict is found there; so is the verdict under any flag of policy. What must be shown for each template is that
//! the long way would say yes too, and asks the checker for the very same check.
//!
//! CHECKMULTISIG has no template: its script runs in the interpreter, which does not allocate either.

use crate::check::{Check, Checker};
use crate::encoding::is_strict_der;
use crate::flags::Flags;
use crate::interpreter::{ecdsa_check, hash160};
use crate::opcode::{OP_0, OP_1, OP_CHECKSIG, OP_DUP, OP_EQUALVERIFY, OP_HASH160, p2pkh, p2sh};
use crate::sighash::{Extension, Precomputed, SIGHASH_DEFAULT, legacy, message, witness_v0};
use crate::stack::{ELEMENT_BYTES_MAX, is_true};

/// Says yes when the input has the form of a template and is good.
#[inline]
pub(crate) fn accepts(tx: &Precomputed<'_>, input: usize, flags: Flags, checker: &mut dyn Checker) -> bool {
    check(tx, input, flags).is_some_and(|check| checker.holds(check))
}

/// The one check that an input of a template's form hangs on.
#[inline]
fn check(tx: &Precomputed<'_>, input: usize, flags: Flags) -> Option<Check> {
    if flags.has_any(!Flags::CONSENSUS) || !flags.has(Flags::P2SH | Flags::WITNESS) {
        return None;
    }
    let spent = tx.spent()[input].script;
    match *spent {
        [OP_0, 20, ref program @ ..] if program.len() == 20 => {
            tx.transaction().input(input).script_sig().is_empty().then_some(())?;
            key_hash(tx, input, flags, program)
        }
        [OP_1, 32, ref key @ ..] if key.len() == 32 && flags.has(Flags::TAPROOT) => key_path(tx, input, key),
        _ => match (p2pkh(spent), p2sh(spent)) {
            (Some(hash), _) => public_key_hash(tx, input, flags, hash),
            (_, Some(hash)) => wrapped_key_hash(tx, input, flags, hash),
            _ => None,
        },
    }
}

/// P2PKH: scriptSig is two direct pushes, signature and key.
///
/// The signature's own push cannot lie in the script code: the only push there has 20 bytes, so that number is left
/// to the long way.
fn public_key_hash(tx: &Precomputed<'_>, input: usize, flags: Flags, hash: &[u8; 20]) -> Option<Check> {
    let spending = tx.transaction().input(input);
    let (signature, rest) = direct_push(spending.script_sig())?;
    let (key, rest) = direct_push(rest)?;
    let fits = rest.is_empty() && spending.witness().len() == 0 && signature.len() != 20;
    if !fits || !is_admitted(signature, flags) || hash160(key) != *hash {
        return None;
    }
    ecdsa_check(signature, key, |hash_type| legacy(tx, input, tx.spent()[input].script, u32::from(hash_type)))
}

/// P2WPKH: the witness is signature and key. The program itself lies on the stack first and must be true.
fn key_hash(tx: &Precomputed<'_>, input: usize, flags: Flags, program: &[u8]) -> Option<Check> {
    let mut witness = tx.transaction().input(input).witness();
    let (2, Some(signature), Some(key)) = (witness.len(), witness.next(), witness.next()) else { return None };
    let fits = signature.len() <= ELEMENT_BYTES_MAX && key.len() <= ELEMENT_BYTES_MAX && is_true(program);
    if !fits || !is_admitted(signature, flags) || hash160(key) != program {
        return None;
    }
    ecdsa_check(signature, key, |hash_type| {
        let mut script_code = [0; 25];
        script_code[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
        script_code[3..23].copy_from_slice(program);
        script_code[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
        witness_v0(tx, input, &script_code, u32::from(hash_type))
    })
}

/// P2SH-P2WPKH: scriptSig is the one push of the program.
fn wrapped_key_hash(tx: &Precomputed<'_>, input: usize, flags: Flags, hash: &[u8; 20]) -> Option<Check> {
    let script_sig = tx.transaction().input(input).script_sig();
    let &[22, OP_0, 20, ref program @ ..] = script_sig else { return None };
    if program.len() != 20 || hash160(&script_sig[1..]) != *hash {
        return None;
    }
    key_hash(tx, input, flags, program)
}

/// P2TR by key: the witness is one signature, with or without a hash type, and there is no annex.
fn key_path(tx: &Precomputed<'_>, input: usize, key: &[u8]) -> Option<Check> {
    let spending = tx.transaction().input(input);
    let mut witness = spending.witness();
    if witness.len() != 1 || !spending.script_sig().is_empty() || !is_true(key) {
        return None;
    }
    let (signature, rest) = witness.next()?.split_first_chunk::<64>()?;
    let hash_type = match *rest {
        [] => SIGHASH_DEFAULT,
        [hash_type] if hash_type != SIGHASH_DEFAULT => hash_type,
        _ => return None,
    };
    let sighash = message(tx, input, hash_type, &mut Extension::default())?;
    Some(Check::Schnorr { signature: *signature, key: key.try_into().ok()?, sighash })
}

/// Whether a signature may be checked under these flags; an empty one never holds.
#[inline]
fn is_admitted(signature: &[u8], flags: Flags) -> bool {
    !flags.has(Flags::DERSIG) || is_strict_der(signature)
}

/// A push of 1 to 75 bytes, and what follows it.
#[inline]
fn direct_push(script: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&bytes @ 1..=75, rest) = script.split_first()? else { return None };
    rest.split_at_checked(usize::from(bytes))
}
