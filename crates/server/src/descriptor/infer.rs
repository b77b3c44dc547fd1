//! Infers the descriptor of a script, given the keys and scripts of its hashes.
//!
//! `put_descriptor` of [`show::descriptor`] works without those and covers almost every output of the chain;
//! [`infer`] is the complete rule. Source: Bitcoin Core b88bffe, script/descriptor.cpp, `InferScript`.

use super::known::Known;
#[cfg(feature = "descriptors")]
use super::miniscript_text;
use crate::output::solver::is_plain_key;
use crate::output::{Payee, Prefixes};
use ::show::descriptor::checksum::put_checksum;
use ::show::descriptor::is_on_curve;
use ripemd::{Digest, Ripemd160};

/// Position of a script in a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ScriptPlace {
    Top,
    P2sh,
    P2wsh,
}

/// The descriptor of an output with its checksum, given the known keys and scripts.
pub fn infer(script: &[u8], known: &Known, prefixes: &Prefixes) -> String {
    let body = infer_in(script, ScriptPlace::Top, known).unwrap_or_else(|| {
        let address = prefixes.address(&Payee::of(script));
        address
            .map_or_else(|| format!("raw({})", primitives::hex::encode(script)), |address| format!("addr({address})"))
    });
    let mut out = body.into_bytes();
    put_checksum(&mut out, 0);
    String::from_utf8(out).expect("a descriptor is ASCII")
}

/// Whether a key may appear in a script at this position.
fn may_stand(key: &[u8], place: ScriptPlace) -> bool {
    is_plain_key(key) && (place != ScriptPlace::P2wsh || key.len() == 33)
}

/// The miniscript of a witness script, if it is valid miniscript.
#[cfg(feature = "descriptors")]
fn miniscript_of(script: &[u8], known: &Known) -> Option<String> {
    miniscript_text::of_script(script, |key| known.show(key))
}

/// Always `None`: this build has no miniscript.
#[cfg(not(feature = "descriptors"))]
fn miniscript_of(_script: &[u8], _known: &Known) -> Option<String> {
    None
}

/// The body of the descriptor, if the script has one with keys; `None` otherwise.
fn infer_in(script: &[u8], place: ScriptPlace, known: &Known) -> Option<String> {
    let key_of = |hash: &[u8; 20]| known.keys.get(hash).map(|(key, _)| &key[..]);
    let found = match Payee::of(script) {
        Payee::PubKey(key) if may_stand(key, place) => Some(format!("pk({})", known.show(key))),
        Payee::PubKeyHash(hash) => {
            key_of(hash).filter(|key| may_stand(key, place)).map(|key| format!("pkh({})", known.show(key)))
        }
        Payee::WitnessV0KeyHash(hash) if place != ScriptPlace::P2wsh => {
            let key = key_of(hash).filter(|key| may_stand(key, ScriptPlace::P2wsh));
            key.map(|key| format!("wpkh({})", known.show(key)))
        }
        Payee::Multisig(required, keys) if keys.iter().all(|key| may_stand(key, place)) => {
            let keys: Vec<String> = keys.iter().map(|key| known.show(key)).collect();
            Some(format!("multi({required},{})", keys.join(",")))
        }
        Payee::ScriptHash(hash) if place == ScriptPlace::Top => {
            let inner = known.scripts.get(hash).and_then(|inner| infer_in(inner, ScriptPlace::P2sh, known));
            inner.map(|inner| format!("sh({inner})"))
        }
        Payee::WitnessV0ScriptHash(hash) if place != ScriptPlace::P2wsh => {
            let hash: [u8; 20] = Ripemd160::digest(hash).into();
            let inner = known.scripts.get(&hash).and_then(|inner| infer_in(inner, ScriptPlace::P2wsh, known));
            inner.map(|inner| format!("wsh({inner})"))
        }
        Payee::WitnessV1Taproot(key) if place == ScriptPlace::Top => match known.taproot.get(key) {
            Some(inner) => Some(format!("tr({inner})")),
            None => is_on_curve(key).then(|| format!("rawtr({})", known.show_x_only(key))),
        },
        _ => None,
    };
    found.or_else(|| if place == ScriptPlace::P2wsh { miniscript_of(script, known) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::{hash160, put_descriptor};
    use consensus::Chain;
    use kernels::sha256::sha256;
    use primitives::hex;

    fn both(script: &str) -> String {
        let (script, prefixes) = (hex::decode(script).unwrap(), Prefixes::of(Chain::Regtest));
        let mut fast = Vec::new();
        put_descriptor(&mut fast, &script, &Payee::of(&script), &prefixes);
        let fast = String::from_utf8(fast).unwrap();
        assert_eq!(fast, infer(&script, &Known::default(), &prefixes), "both ways");
        fast
    }

    /// The bodies are Core's by bitcoind's decodescript; checksums are tested where they are made.
    #[test]
    fn descriptors_without_keys_are_cores() {
        let key = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
        let (h, hybrid, long) = ("ab".repeat(20), format!("06{}", "11".repeat(64)), format!("04{}", "22".repeat(64)));
        for (script, want) in [
            (format!("21{key}ac"), format!("pk({key})")),
            (format!("41{long}ac"), format!("pk({long})")),
            (format!("41{hybrid}ac"), format!("raw(41{hybrid}ac)")),
            (format!("5121{key}41{long}52ae"), format!("multi(1,{key},{long})")),
            (format!("5121{key}41{hybrid}52ae"), format!("raw(5121{key}41{hybrid}52ae)")),
            (format!("5120{}", &key[2..]), format!("rawtr({})", &key[2..])),
            (format!("5120{}", "ff".repeat(32)), "addr(bcrt1p".into()),
            ("51024e73".into(), "addr(bcrt1pfeesnyr2tx)".into()),
            ("6a".into(), "raw(6a)".into()),
            (String::new(), "raw()".into()),
            (format!("76a914{h}88ac"), "addr(m".into()),
        ] {
            let (body, sum) = both(&script).split_once('#').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
            assert_eq!(sum.len(), 8);
            // An address is tested where it is made.
            assert!(body == want || (want.starts_with("addr(") && body.starts_with(&want)), "{script}: {body}");
        }
    }

    #[test]
    fn known_keys_and_scripts_are_named() {
        let prefixes = Prefixes::of(Chain::Regtest);
        let key = hex::literal::<33>("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798");
        let mut known = Known::default();
        known.add_key(&key, Some("[751e76e8/0h]".into()));
        let text = format!("[751e76e8/0h]{}", hex::encode(&key));
        let wpkh = [&[0, 20], &hash160(&key)[..]].concat();
        let sh = [&[0xa9, 20], &hash160(&wpkh)[..], &[0x87]].concat();
        let body = |script: &[u8], known: &Known| infer(script, known, &prefixes).split('#').next().unwrap().to_owned();
        assert_eq!(body(&wpkh, &known), format!("wpkh({text})"));
        assert!(body(&sh, &known).starts_with("addr(2"));
        known.add_script(&wpkh);
        assert_eq!(body(&sh, &known), format!("sh(wpkh({text}))"));
        let pkh = [&[0x76, 0xa9, 20], &hash160(&key)[..], &[0x88, 0xac]].concat();
        assert_eq!(body(&pkh, &known), format!("pkh({text})"));
        known.add_script(&pkh);
        let wsh = [&[0, 32], &sha256(&pkh)[..]].concat();
        assert_eq!(body(&wsh, &known), format!("wsh(pkh({text}))"));
        let rawtr = [&[0x51, 32], &key[1..]].concat();
        assert_eq!(body(&rawtr, &known), format!("rawtr([751e76e8/0h]{})", hex::encode(&key[1..])));
        known.taproot.insert(key[1..].try_into().unwrap(), "K,pk(L)".into());
        assert_eq!(body(&rawtr, &known), "tr(K,pk(L))");
    }
}
