//! A fast path for the commonest inputs: compares bytes, computes the hash, checks the signature.
//!
//! A template can only accept. Any input that does not have exactly its plain form, or fails, goes to the interpreter,
//! which gives the verdict; so does every input under a policy flag. Each template must accept only inputs that the
//! interpreter accepts, with the same check for the checker.
//!
//! [`later`] defers the hashes too: they are computed many at a time ([`Ahead`]), and the assumptions about them are
//! checked then.
//!
//! CHECKMULTISIG has no template: its script runs in the interpreter, which does not allocate either.

use crate::check::{Check, Checker};
use crate::encoding::is_strict_der;
use crate::flags::Flags;
use crate::interpreter::{ecdsa_check, hash160};
use crate::opcode::{OP_0, OP_1, OP_CHECKSIG, OP_DUP, OP_EQUALVERIFY, OP_HASH160, p2pkh, p2sh};
use crate::sighash::{
    Ahead, Code, Extension, LATER, Longs, Need, Precomputed, SIGHASH_DEFAULT, is_long, legacy, message, witness_v0,
};
use crate::stack::{ELEMENT_BYTES_MAX, is_true};

/// Computes hashes, immediately or later.
trait Hashes {
    /// Whether the HASH160 of `bytes` is `want`; `true` if that is deferred.
    fn is_hash160(&mut self, bytes: &[u8], want: &[u8; 20]) -> bool;

    /// The hash that a signature before segwit signs; here and below an arbitrary value if it is deferred.
    fn legacy(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32];

    /// The hash that a signature in a version 0 witness script signs.
    fn witness_v0(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32];

    /// The hash that a signature by taproot's key path signs, without an annex; `None` if there is no such hash.
    fn key_path(&mut self, tx: &Precomputed<'_>, input: usize, hash_type: u8) -> Option<[u8; 32]>;
}

/// Computes hashes immediately.
struct Now;

impl Hashes for Now {
    #[inline]
    fn is_hash160(&mut self, bytes: &[u8], want: &[u8; 20]) -> bool {
        hash160(bytes) == *want
    }

    #[inline]
    fn legacy(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
        legacy(tx, input, script_code, u32::from(hash_type))
    }

    #[inline]
    fn witness_v0(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
        witness_v0(tx, input, script_code, u32::from(hash_type))
    }

    #[inline]
    fn key_path(&mut self, tx: &Precomputed<'_>, input: usize, hash_type: u8) -> Option<[u8; 32]> {
        message(tx, input, hash_type, &mut Extension::default())
    }
}

/// Computes hashes later: short messages, and long ones.
pub(crate) struct Later<'l> {
    pub(crate) ahead: &'l mut Ahead,
    pub(crate) longs: &'l mut Longs,
}

impl Hashes for Later<'_> {
    #[inline]
    fn is_hash160(&mut self, bytes: &[u8], want: &[u8; 20]) -> bool {
        self.ahead.want_hash160(bytes, *want);
        true
    }

    #[inline]
    fn legacy(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
        match self.ahead.want_legacy(tx, input, script_code, hash_type) {
            true => LATER,
            false if is_long(tx, script_code) => {
                let compute = || Now.legacy(tx, input, script_code, hash_type);
                self.longs.sighash(tx, input, Code::new(script_code), hash_type, Need::Recorded, compute)
            }
            false => Now.legacy(tx, input, script_code, hash_type),
        }
    }

    #[inline]
    fn witness_v0(&mut self, tx: &Precomputed<'_>, input: usize, script_code: &[u8], hash_type: u8) -> [u8; 32] {
        self.ahead.want_witness_v0(tx, input, script_code, hash_type);
        LATER
    }

    #[inline]
    fn key_path(&mut self, tx: &Precomputed<'_>, input: usize, hash_type: u8) -> Option<[u8; 32]> {
        self.ahead.want_key_path(tx, input, hash_type).map(|()| LATER)
    }
}

/// Whether the input has the form of a template and is valid.
#[inline]
pub(crate) fn accepts(tx: &Precomputed<'_>, input: usize, flags: Flags, checker: &mut dyn Checker) -> bool {
    check(tx, input, flags, &mut Now).is_some_and(|check| checker.holds(check))
}

/// The check of an input that has the form of a template. The input is valid if the check holds and [`Ahead`] finds no
/// wrong hash for it. The check's position is `place`.
#[inline]
pub(crate) fn later(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    mut hashes: Later<'_>,
    place: usize,
) -> Option<Check> {
    let mark = hashes.ahead.begin(place);
    let check = check(tx, input, flags, &mut hashes);
    if check.is_none() {
        hashes.ahead.back_to(mark);
    }
    check
}

/// The single check that decides an input with a template's form.
#[inline]
fn check(tx: &Precomputed<'_>, input: usize, flags: Flags, hashes: &mut impl Hashes) -> Option<Check> {
    if flags.has_any(!Flags::CONSENSUS) || !flags.has(Flags::P2SH | Flags::WITNESS) {
        return None;
    }
    let spent = tx.spent()[input].script;
    match *spent {
        [OP_0, 20, ref program @ ..] if program.len() == 20 => {
            tx.transaction().input(input).script_sig().is_empty().then_some(())?;
            key_hash(tx, input, flags, program.try_into().ok()?, hashes)
        }
        [OP_1, 32, ref key @ ..] if key.len() == 32 && flags.has(Flags::TAPROOT) => key_path(tx, input, key, hashes),
        _ => match (p2pkh(spent), p2sh(spent)) {
            (Some(hash), _) => public_key_hash(tx, input, flags, hash, hashes),
            (_, Some(hash)) => wrapped_key_hash(tx, input, flags, hash, hashes),
            _ => None,
        },
    }
}

/// P2PKH: scriptSig is two direct pushes, signature and key.
///
/// The script code cannot contain the signature's own push: its only push has 20 bytes, so signatures of that length
/// are left to the interpreter.
fn public_key_hash(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    hash: &[u8; 20],
    hashes: &mut impl Hashes,
) -> Option<Check> {
    let spending = tx.transaction().input(input);
    let (signature, rest) = direct_push(spending.script_sig())?;
    let (key, rest) = direct_push(rest)?;
    let fits = rest.is_empty() && spending.witness().len() == 0 && signature.len() != 20;
    if !fits || !is_admitted(signature, flags) || !hashes.is_hash160(key, hash) {
        return None;
    }
    ecdsa_check(signature, key, |hash_type| hashes.legacy(tx, input, tx.spent()[input].script, hash_type))
}

/// P2WPKH: the witness is signature and key. The program itself is first on the stack and must be true.
fn key_hash(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    program: &[u8; 20],
    hashes: &mut impl Hashes,
) -> Option<Check> {
    let mut witness = tx.transaction().input(input).witness();
    let (2, Some(signature), Some(key)) = (witness.len(), witness.next(), witness.next()) else { return None };
    let fits = signature.len() <= ELEMENT_BYTES_MAX && key.len() <= ELEMENT_BYTES_MAX && is_true(program);
    if !fits || !is_admitted(signature, flags) || !hashes.is_hash160(key, program) {
        return None;
    }
    ecdsa_check(signature, key, |hash_type| {
        let mut script_code = [0; 25];
        script_code[..3].copy_from_slice(&[OP_DUP, OP_HASH160, 20]);
        script_code[3..23].copy_from_slice(program);
        script_code[23..].copy_from_slice(&[OP_EQUALVERIFY, OP_CHECKSIG]);
        hashes.witness_v0(tx, input, &script_code, hash_type)
    })
}

/// P2SH-P2WPKH: scriptSig is exactly one push of the program.
fn wrapped_key_hash(
    tx: &Precomputed<'_>,
    input: usize,
    flags: Flags,
    hash: &[u8; 20],
    hashes: &mut impl Hashes,
) -> Option<Check> {
    let script_sig = tx.transaction().input(input).script_sig();
    let &[22, OP_0, 20, ref program @ ..] = script_sig else { return None };
    let program = program.try_into().ok()?;
    if !hashes.is_hash160(&script_sig[1..], hash) {
        return None;
    }
    key_hash(tx, input, flags, program, hashes)
}

/// P2TR by key path: the witness is one signature, with or without a hash type, and there is no annex.
fn key_path(tx: &Precomputed<'_>, input: usize, key: &[u8], hashes: &mut impl Hashes) -> Option<Check> {
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
    let sighash = hashes.key_path(tx, input, hash_type)?;
    Some(Check::Schnorr { signature: *signature, key: key.try_into().ok()?, sighash })
}

/// Whether the flags allow the signature to be checked; an empty one is never valid.
#[inline]
fn is_admitted(signature: &[u8], flags: Flags) -> bool {
    !flags.has(Flags::DERSIG) || is_strict_der(signature)
}

/// A push of 1 to 75 bytes, and the rest of the script.
#[inline]
fn direct_push(script: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&bytes @ 1..=75, rest) = script.split_first()? else { return None };
    rest.split_at_checked(usize::from(bytes))
}
