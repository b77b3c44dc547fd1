//! Witness scripts in miniscript: as text, and parsed from text. Uses the crate `miniscript`, with key types from
//! here.
//!
//! Source: BIP-0379; Bitcoin Core b88bffe, script/miniscript.h, `KeyParser` in script/descriptor.cpp.
//! Absent: miniscript in `tr()`, and Core's reasons why a miniscript is not sane.

use super::key::{Key, KeyPlace, parse_key};
use super::known::Known;
use crate::output::Prefixes;
use bitcoin::{PublicKey, Script};
use miniscript::{Miniscript, Segwitv0, Tap, TranslateErr, Translator, hash256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A witness script with key expressions.
#[derive(Clone, Debug)]
pub(super) struct WitnessScript {
    script: Miniscript<String, Segwitv0>,
    keys: Arc<BTreeMap<String, Key>>,
}

/// Translates keys; hashes stay.
struct Keys<F>(F);

macro_rules! hashes_stay {
    ($($name:ident: $hash:ty => $out:ty),*) => {
        $(fn $name(&mut self, hash: &$hash) -> Result<$out, ()> {
            hash.to_string().parse().map_err(|_| ())
        })*
    };
}

impl<F: FnMut(&str) -> Option<PublicKey>> Translator<String> for Keys<F> {
    type TargetPk = PublicKey;
    type Error = ();

    fn pk(&mut self, key: &String) -> Result<PublicKey, ()> {
        (self.0)(key).ok_or(())
    }

    hashes_stay! {
        sha256: String => bitcoin::hashes::sha256::Hash, hash256: String => hash256::Hash,
        ripemd160: String => bitcoin::hashes::ripemd160::Hash, hash160: String => bitcoin::hashes::hash160::Hash
    }
}

/// Translates key names.
struct Renamed<F>(F);

impl<F: Fn(&str) -> Option<String>> Translator<String> for Renamed<F> {
    type TargetPk = String;
    type Error = ();

    fn pk(&mut self, key: &String) -> Result<String, ()> {
        (self.0)(key).ok_or(())
    }

    hashes_stay! { sha256: String => String, hash256: String => String, ripemd160: String => String, hash160: String => String }
}

/// Formats keys as text.
struct Shown<F>(F);

impl<F: Fn(&[u8]) -> String> Translator<PublicKey> for Shown<F> {
    type TargetPk = String;
    type Error = ();

    fn pk(&mut self, key: &PublicKey) -> Result<String, ()> {
        Ok((self.0)(&key.to_bytes()))
    }

    hashes_stay! {
        sha256: bitcoin::hashes::sha256::Hash => String, hash256: hash256::Hash => String,
        ripemd160: bitcoin::hashes::ripemd160::Hash => String, hash160: bitcoin::hashes::hash160::Hash => String
    }
}

/// The text of a script that is sane miniscript; `show` formats a key. A script with only the hash of a key has no
/// text.
pub(super) fn of_script(script: &[u8], show: impl Fn(&[u8]) -> String) -> Option<String> {
    let found = Miniscript::<PublicKey, Segwitv0>::decode(Script::from_bytes(script)).ok()?;
    let shown = found.translate_pk(&mut Shown(show)).ok()?.to_string();
    (!shown.contains("expr_raw_pkh")).then_some(shown)
}

/// Parses a witness script; `None` if the text is not miniscript at all.
pub(super) fn parse(text: &str, place: KeyPlace, prefixes: &Prefixes) -> Option<Result<Vec<WitnessScript>, String>> {
    if place != KeyPlace::P2wsh {
        return None;
    }
    let script = Miniscript::<String, Segwitv0>::from_str_insane(text).ok()?;
    let mut lists = BTreeMap::new();
    for name in script.iter_pk() {
        match parse_key(&name, place, prefixes) {
            Ok(keys) => drop(lists.insert(name, keys)),
            Err(why) => return Some(Err(why)),
        }
    }
    if script.sanity_check().is_err() || has_repeated_key(&lists) {
        return Some(Err(format!("{text} is not sane")));
    }
    let count = lists.values().map(Vec::len).max().unwrap_or(1);
    if lists.values().any(|keys| keys.len() != 1 && keys.len() != count) {
        return Some(Err("Miniscript: Multipath derivation paths have mismatched lengths".into()));
    }
    let choice = |at: usize| {
        let keys = lists.iter().map(|(name, keys)| (name.clone(), keys[at.min(keys.len() - 1)].clone())).collect();
        WitnessScript { script: script.clone(), keys: Arc::new(keys) }
    };
    Some(Ok((0..count).map(choice).collect()))
}

/// Whether two of these keys are one, however they are written: compared at position 0, and equal if neither can be
/// derived. Source: Bitcoin Core b88bffe, script/descriptor.cpp, `PubkeyProvider::operator<`, `KeyParser::KeyCompare`.
fn has_repeated_key(lists: &BTreeMap<String, Vec<Key>>) -> bool {
    let first = |keys: &Vec<Key>| keys.first()?.at(0).map(|derived| derived.key);
    let distinct: BTreeSet<Option<Vec<u8>>> = lists.values().map(first).collect();
    distinct.len() < lists.len()
}

/// Why a text is refused outside `wsh()` and `tr()`, if it is miniscript.
pub(super) fn refusal(text: &str, prefixes: &Prefixes) -> Option<String> {
    // Core parses it as in `tr()`.
    let script = Miniscript::<String, Tap>::from_str_insane(text).ok()?;
    let wrong_key = script.iter_pk().find_map(|name| parse_key(&name, KeyPlace::P2tr, prefixes).err());
    Some(wrong_key.unwrap_or_else(|| "Miniscript expressions can only be used in wsh or tr.".to_owned()))
}

impl WitnessScript {
    /// Whether `is` is true for any of its keys.
    pub(super) fn has_key(&self, is: fn(&Key) -> bool) -> bool {
        self.keys.values().any(is)
    }

    /// Its text without private keys.
    pub(super) fn shown(&self) -> String {
        let named = self.script.translate_pk(&mut Renamed(|key: &str| self.keys.get(key).map(Key::shown)));
        named.map_or_else(|_| self.script.to_string(), |script| script.to_string())
    }

    /// The script at a position; `None` if a private key is missing.
    pub(super) fn at(&self, position: u32, known: &mut Known) -> Option<Vec<u8>> {
        let mut key = |name: &str| {
            let key = self.keys.get(name)?.noted(position, known)?;
            PublicKey::from_slice(&key).ok()
        };
        let script = self.script.translate_pk(&mut Keys(&mut key));
        let script = script.map_err(|why| matches!(why, TranslateErr::TranslatorErr(()))).ok()?;
        Some(script.encode().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use primitives::hex;

    /// What bitcoind answers to getdescriptorinfo.
    #[test]
    fn a_key_that_is_written_in_two_ways_is_one() {
        let plain = "02f9308a019258c31098688f85f89d5229b531c845836f99b08601f113bce036f9";
        let xpub = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
        let of_xpub = |path: &str| format!("{xpub}/{path}");
        let in_capitals = plain.replace("bce0", "bCE0");
        for (first, second, is_sane) in [
            (plain.to_owned(), in_capitals, false),
            (of_xpub("0"), of_xpub("0/*"), true),
            (of_xpub("*"), of_xpub("0"), false),
            (of_xpub("0h"), of_xpub("1h"), false),
            (of_xpub("*h"), of_xpub("1/*h"), false),
            (of_xpub("<0;1>"), of_xpub("<2;1>"), true),
            (of_xpub("<0;1>"), of_xpub("<0;2>"), false),
        ] {
            let text = format!("and_v(v:pk({first}),pk({second}))");
            let parsed = parse(&text, KeyPlace::P2wsh, &Prefixes::of(Chain::Regtest)).unwrap();
            assert_eq!(parsed.is_ok(), is_sane, "{text}: {:?}", parsed.err());
        }
    }

    /// From Core's functional test rpc_decodescript.
    #[test]
    fn scripts_are_shown_as_in_core() {
        let show = |key: &[u8]| hex::encode(key);
        let text = |script: &str| of_script(&hex::decode(script).unwrap(), show);
        let htlc = "82012088a914ffffffffffffffffffffffffffffffffffffffff88210250929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0ad51b2";
        let want = "and_v(and_v(v:hash160(ffffffffffffffffffffffffffffffffffffffff),v:pk(0250929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0)),older(1))";
        assert_eq!(text(htlc).as_deref(), Some(want));
        // Without VERIFY.
        let bad = "82012088a914ffffffffffffffffffffffffffffffffffffffff882102ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffacb2";
        assert_eq!(text(bad), None);
        assert_eq!(text("51"), None);
        let parsed = parse(want, KeyPlace::P2wsh, &Prefixes::of(Chain::Regtest)).unwrap().unwrap();
        assert_eq!(hex::encode(&parsed[0].at(0, &mut Known::default()).unwrap()), htlc);
    }
}
