//! Opcodes that check signatures, before tapscript and in it.

use super::layout::{Cleaned, Layout};
use super::{Machine, Spend, Tapscript, Version};
use crate::check::{Check, Checker, KeyBytes, Pairs};
use crate::encoding::{check_key, check_signature, is_key_shaped, normalize_s, parse_lax};
use crate::error::ScriptError;
use crate::flags::Flags;
use crate::number;
use crate::opcode::*;
use crate::sighash::{
    Cache, Code, Longs, Need, Precomputed, SIGHASH_DEFAULT, SINGLE_WITHOUT_OUTPUT, is_long, legacy_state, message,
    with_hash_type, witness_v0_state,
};
use crate::stack::Element;
use std::borrow::Cow;

/// Maximum number of keys of a CHECKMULTISIG. Source: Bitcoin Core b88bffe, `MAX_PUBKEYS_PER_MULTISIG`.
const MULTISIG_KEYS_MAX: i64 = 20;
/// The weight of one signature check. Source: BIP-0342.
const CHECK_WEIGHT: i64 = 50;

/// The instructions of a script with at least this number of bytes are found once; a shorter script is read again for
/// each check.
const LAYOUT_BYTES_MIN: usize = 512;

/// A script code that may have been copied.
struct OwnedCode<'s> {
    bytes: Cow<'s, [u8]>,
    is_clean: bool,
}

impl OwnedCode<'_> {
    fn code(&self) -> Code<'_> {
        Code { bytes: &self.bytes, is_clean: self.is_clean }
    }
}

/// Removes every push of `signature` from `script_code`, at instruction boundaries. `None` if there is no such push.
///
/// Source: Bitcoin Core b88bffe, `FindAndDelete`.
pub(super) fn find_and_delete(script_code: &[u8], signature: &[u8]) -> Option<Vec<u8>> {
    let (prefix, used) = push_prefix(signature.len());
    let prefix = &prefix[..used];
    let push_bytes = used + signature.len();
    let is_push_at = |at: usize| script_code[at..].strip_prefix(prefix).is_some_and(|rest| rest.starts_with(signature));
    let mut kept: Option<Vec<u8>> = None;
    let mut start = 0;
    let mut at = 0;
    loop {
        if is_push_at(at) {
            let kept = kept.get_or_insert_with(Vec::new);
            kept.extend_from_slice(&script_code[start..at]);
            while is_push_at(at) {
                at += push_bytes;
            }
            start = at;
        }
        let mut instructions = Instructions::at(script_code, at);
        if instructions.next().is_none() {
            break;
        }
        at = instructions.offset();
    }
    if let Some(kept) = &mut kept {
        kept.extend_from_slice(&script_code[start..]);
    }
    kept
}

/// A signature check before tapscript, after all checks that need no curve arithmetic. `None` if it must fail: an empty
/// or unparsable signature, a number that is zero or too large, a key of the wrong length.
///
/// Source: Bitcoin Core b88bffe, `CheckECDSASignature`, `CPubKey::Verify`.
#[inline]
pub(crate) fn ecdsa_check(signature: &[u8], key: &[u8], sighash: impl FnOnce(u8) -> [u8; 32]) -> Option<Check> {
    let (&hash_type, der) = signature.split_last()?;
    if !is_key_shaped(key) {
        return None;
    }
    let mut signature = parse_lax(der)?;
    if signature[..32] == [0; 32] || signature[32..] == [0; 32] {
        return None;
    }
    normalize_s(&mut signature);
    Some(Check::Ecdsa { signature, key: KeyBytes::new(key)?, sighash: sighash(hash_type), odd: None })
}

/// Computes the hash that a signature before tapscript signs, for one input.
struct Hasher<'h, 'a> {
    tx: &'h Precomputed<'a>,
    input: usize,
    cache: &'h mut Cache,
    version: Version,
    script_code: Code<'h>,
}

impl Hasher<'_, '_> {
    /// The hash; an arbitrary value if it is computed later for the check that is recorded next.
    #[inline]
    fn sighash(&mut self, hash_type: u8, longs: Option<&mut Longs>, need: Need) -> [u8; 32] {
        match longs.filter(|_| self.version == Version::Base && is_long(self.tx, self.script_code.bytes)) {
            Some(longs) => {
                let Hasher { tx, input, script_code, .. } = *self;
                longs.sighash(tx, input, script_code, hash_type, need, || self.sighash_now(hash_type))
            }
            None => self.sighash_now(hash_type),
        }
    }

    #[inline]
    fn sighash_now(&mut self, hash_type: u8) -> [u8; 32] {
        let tx = self.tx;
        let input = self.input;
        let script_code = self.script_code;
        let kind = u32::from(hash_type);
        let state = self.cache.state(script_code.bytes, hash_type, || match self.version {
            Version::WitnessV0 => Some(witness_v0_state(tx, input, script_code.bytes, kind)),
            _ => legacy_state(tx, input, script_code, kind),
        });
        state.map_or(SINGLE_WITHOUT_OUTPUT, |state| with_hash_type(state, kind))
    }
}

/// Checks a Schnorr signature of 64 or 65 bytes; the 65th is its hash type.
///
/// Source: Bitcoin Core b88bffe, `CheckSchnorrSignature`.
pub(crate) fn check_schnorr(
    spend: &mut Spend<'_, '_>,
    tapscript: &mut Tapscript,
    signature: &[u8],
    key: &[u8; 32],
) -> Result<(), ScriptError> {
    let (signature, hash_type) = match signature.split_first_chunk::<64>() {
        Some((signature, [])) => (signature, SIGHASH_DEFAULT),
        Some((signature, &[hash_type])) => {
            if hash_type == SIGHASH_DEFAULT {
                return Err(ScriptError::SchnorrSigHashtype);
            }
            (signature, hash_type)
        }
        _ => return Err(ScriptError::SchnorrSigSize),
    };
    let sighash =
        message(spend.tx, spend.input, hash_type, &mut tapscript.extension).ok_or(ScriptError::SchnorrSigHashtype)?;
    let check = Check::Schnorr { signature: *signature, key: *key, sighash };
    if spend.checker.holds(check) { Ok(()) } else { Err(ScriptError::SchnorrSig) }
}

impl<'a, 's> Machine<'_, '_, 'a, 's> {
    pub(super) fn check_sig(&mut self, opcode: u8) -> Result<(), ScriptError> {
        let signature = *self.stack.peek(1)?;
        let key = *self.stack.peek(0)?;
        let good = self.signature_holds(signature.bytes(), key.bytes())?;
        self.stack.drop(2)?;
        self.conclude(good, opcode == OP_CHECKSIGVERIFY, ScriptError::CheckSigVerify)
    }

    pub(super) fn check_sig_add(&mut self) -> Result<(), ScriptError> {
        if self.version != Version::Tapscript {
            return Err(ScriptError::BadOpcode);
        }
        self.stack.need(3)?;
        let signature = *self.stack.peek(2)?;
        let key = *self.stack.peek(0)?;
        let sum = self.operand(1)?;
        let good = self.signature_holds(signature.bytes(), key.bytes())?;
        self.stack.drop(3)?;
        self.stack.push(number::encode(sum + i64::from(good)));
        Ok(())
    }

    /// Whether one signature is valid. An error ends the script.
    fn signature_holds(&mut self, signature: &[u8], key: &[u8]) -> Result<bool, ScriptError> {
        if self.version == Version::Tapscript { self.schnorr(signature, key) } else { self.ecdsa(signature, key) }
    }

    /// The hasher, and the checker that decides about its hash.
    fn hasher<'h>(&'h mut self, script_code: Code<'h>) -> (Hasher<'h, 'a>, &'h mut dyn Checker) {
        let Spend { tx, input, cache, checker, .. } = &mut *self.spend;
        (Hasher { tx, input: *input, cache, version: self.version, script_code }, &mut **checker)
    }

    /// Source: Bitcoin Core b88bffe, `EvalChecksigPreTapscript`.
    fn ecdsa(&mut self, signature: &[u8], key: &[u8]) -> Result<bool, ScriptError> {
        let script_code = self.script_code([signature].into_iter())?;
        let version = self.version;
        let flags = self.spend.flags;
        check_signature(signature, flags)?;
        check_key(key, flags, version == Version::WitnessV0)?;
        let (mut hasher, checker) = self.hasher(script_code.code());
        let check = ecdsa_check(signature, key, |hash_type| hasher.sighash(hash_type, checker.longs(), Need::Recorded));
        let good = check.is_some_and(|check| checker.holds(check));
        if !good && flags.has(Flags::NULLFAIL) && !signature.is_empty() {
            return Err(ScriptError::SigNullFail);
        }
        Ok(good)
    }

    /// Source: BIP-0342; Bitcoin Core b88bffe, `EvalChecksigTapscript`.
    fn schnorr(&mut self, signature: &[u8], key: &[u8]) -> Result<bool, ScriptError> {
        let given = !signature.is_empty();
        if given {
            self.tapscript.weight_left -= CHECK_WEIGHT;
            if self.tapscript.weight_left < 0 {
                return Err(ScriptError::TapscriptValidationWeight);
            }
        }
        if key.is_empty() {
            return Err(ScriptError::TapscriptEmptyPubkey);
        }
        if let Ok(key) = <&[u8; 32]>::try_from(key) {
            if given {
                check_schnorr(self.spend, self.tapscript, signature, key)?;
            }
        } else if self.spend.flags.has(Flags::DISCOURAGE_UPGRADABLE_PUBKEYTYPE) {
            return Err(ScriptError::DiscourageUpgradablePubkeyType);
        }
        Ok(given)
    }

    /// The script after the last CODESEPARATOR; before segwit, without the pushes of the signatures themselves.
    fn script_code<'b>(
        &mut self,
        signatures: impl Iterator<Item = &'b [u8]> + Clone,
    ) -> Result<OwnedCode<'s>, ScriptError> {
        let script = self.script;
        let mut code = OwnedCode { bytes: Cow::Borrowed(&script[self.code_start..]), is_clean: false };
        if self.version != Version::Base {
            return Ok(code);
        }
        let is_const = self.spend.flags.has(Flags::CONST_SCRIPTCODE);
        if script.len() >= LAYOUT_BYTES_MIN
            && let Some(layout) = self.layout.get_or_insert_with(|| Layout::of(script))
        {
            let Cleaned { bytes, has_deleted } = layout.clean(script, self.code_start, signatures);
            if has_deleted && is_const {
                return Err(ScriptError::SigFindAndDelete);
            }
            return Ok(OwnedCode { bytes: Cow::Owned(bytes), is_clean: true });
        }
        for signature in signatures {
            if let Some(rest) = find_and_delete(&code.bytes, signature) {
                if is_const {
                    return Err(ScriptError::SigFindAndDelete);
                }
                code.bytes = Cow::Owned(rest);
            }
        }
        Ok(code)
    }

    /// The stack is `dummy, signatures.., their number, keys.., their number`.
    pub(super) fn check_multisig(&mut self, opcode: u8) -> Result<(), ScriptError> {
        if self.version == Version::Tapscript {
            return Err(ScriptError::TapscriptCheckMultisig);
        }
        let keys = self.operand(0)?;
        if !(0..=MULTISIG_KEYS_MAX).contains(&keys) {
            return Err(ScriptError::PubkeyCount);
        }
        self.count(keys as u32)?;
        let keys = keys as usize;
        let signatures = self.operand(keys + 1)?;
        if !(0..=keys as i64).contains(&signatures) {
            return Err(ScriptError::SigCount);
        }
        let signatures = signatures as usize;
        let places = keys + signatures + 3;
        self.stack.need(places)?;
        // Copied, because the stack cannot be borrowed while the script calls the checker.
        let mut held = [Element::boolean(false); 2 * MULTISIG_KEYS_MAX as usize + 2];
        let lowest = self.stack.len() - places + 1;
        held[..places - 2].copy_from_slice(&self.stack.elements()[lowest..lowest + places - 2]);
        let group = Group { elements: &held[..places - 2], keys, signatures };
        let good = self.multisig_holds(&group)?;
        let any_signature = (0..signatures).any(|i| !group.signature(i).is_empty());
        if !good && self.spend.flags.has(Flags::NULLFAIL) && any_signature {
            return Err(ScriptError::SigNullFail);
        }
        self.stack.drop(places - 1)?;
        let dummy = self.stack.pop()?;
        if self.spend.flags.has(Flags::NULLDUMMY) && !dummy.bytes().is_empty() {
            return Err(ScriptError::SigNullDummy);
        }
        self.conclude(good, opcode == OP_CHECKMULTISIGVERIFY, ScriptError::CheckMultisigVerify)
    }

    /// Whether all signatures match keys in order.
    fn multisig_holds(&mut self, group: &Group<'_, '_>) -> Result<bool, ScriptError> {
        let version = self.version;
        let flags = self.spend.flags;
        let script_code = self.script_code((0..group.signatures).map(|i| group.signature(i)))?;
        if let Some(good) = self.multisig_asked(group, script_code.code()) {
            return Ok(good);
        }
        let (mut hasher, checker) = self.hasher(script_code.code());
        let mut signature = 0;
        let mut key = 0;
        while signature < group.signatures {
            check_signature(group.signature(signature), flags)?;
            check_key(group.key(key), flags, version == Version::WitnessV0)?;
            let check = ecdsa_check(group.signature(signature), group.key(key), |hash_type| {
                hasher.sighash(hash_type, checker.longs(), Need::Now)
            });
            if check.is_some_and(|check| checker.holds_now(check)) {
                signature += 1;
            }
            key += 1;
            if group.signatures - signature > group.keys - key {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Passes all pairs to the checker at once. This is possible only if no pair can end the script by its encoding, so
    /// that the selection of tried pairs does not matter.
    fn multisig_asked(&mut self, group: &Group<'_, '_>, script_code: Code<'_>) -> Option<bool> {
        let version = self.version;
        let flags = self.spend.flags;
        let clean = (0..group.signatures).all(|i| check_signature(group.signature(i), flags).is_ok())
            && (0..group.keys).all(|j| check_key(group.key(j), flags, version == Version::WitnessV0).is_ok());
        if group.signatures == 0 || !clean || !self.spend.checker.takes_pairs() {
            return None;
        }
        let (mut hasher, checker) = self.hasher(script_code);
        let mut pair = |i: usize, j: usize, longs: Option<&mut Longs>| {
            let hash = |hash_type| hasher.sighash(hash_type, longs, Need::Recorded);
            ecdsa_check(group.signature(i), group.key(j), hash)
        };
        checker.multisig(Pairs { signatures: group.signatures, keys: group.keys, pair: &mut pair })
    }
}

/// The elements of a CHECKMULTISIG without the dummy and the number on top: `signatures.., their number, keys..`.
struct Group<'g, 's> {
    elements: &'g [Element<'s>],
    keys: usize,
    signatures: usize,
}

impl<'g> Group<'g, '_> {
    /// Signature number `i` from the top.
    fn signature(&self, i: usize) -> &'g [u8] {
        self.elements[self.signatures - 1 - i].bytes()
    }

    /// Key number `j` from the top.
    fn key(&self, j: usize) -> &'g [u8] {
        self.elements[self.elements.len() - 1 - j].bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// From Core's script_tests.cpp, `script_FindAndDelete`, as far as one push is looked for.
    #[test]
    fn find_and_delete_matches_core() {
        for (name, script, signature, want) in [
            ("nothing there", "5152", "aabb", None),
            ("once", "02aabb51", "aabb", Some("51")),
            ("twice in a row", "02aabb02aabb51", "aabb", Some("51")),
            ("apart, and at the end", "5102aabb5202aabb", "aabb", Some("5152")),
            ("inside another push", "0302aabb51", "aabb", None),
            ("by another opcode", "4c02aabb51", "aabb", None),
            ("reached after a deletion only", "02aabb5102aabb", "aabb", Some("51")),
            ("before a cut push", "02aabb05aa", "aabb", Some("05aa")),
            ("behind a cut push", "5102aa", "aa", None),
            ("the empty signature is OP_0", "00510052", "", Some("5152")),
            ("one byte is pushed as itself", "51010152", "01", Some("5152")),
            ("empty script", "", "aabb", None),
        ] {
            let (script, signature) = (hex::decode(script).unwrap(), hex::decode(signature).unwrap());
            assert_eq!(
                find_and_delete(&script, &signature).map(|rest| hex::encode(&rest)),
                want.map(str::to_owned),
                "{name}"
            );
        }
    }
}
