//! Expands a descriptor to its scripts.
//!
//! Source: Bitcoin Core b88bffe, script/descriptor.cpp, `MakeScripts` of each descriptor; rpc/util.cpp,
//! `EvalDescriptorStringOrObject`.

use super::key::{Derived, Key, SECP};
use super::known::{Known, hash160};
use super::parse::{Descriptor, parse};
use super::show::tree_text;
use crate::output::Prefixes;
use bitcoin::ScriptBuf;
use bitcoin::secp256k1::XOnlyPublicKey;
use bitcoin::taproot::TaprootBuilder;
use kernels::sha256::sha256;
use primitives::hex;
use script::opcode::{
    OP_1, OP_CHECKMULTISIG, OP_CHECKSIG, OP_CHECKSIGADD, OP_DUP, OP_EQUAL, OP_EQUALVERIFY, OP_HASH160, OP_NUMEQUAL,
    push_data,
};

/// Positions of a ranged descriptor, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// The first.
    pub first: u32,
    /// The last.
    pub last: u32,
}

impl Default for Range {
    fn default() -> Range {
        Range { first: 0, last: 1000 }
    }
}

/// Scripts, and the keys and scripts in them.
#[derive(Clone, Debug, Default)]
pub struct Expanded {
    /// The scripts.
    pub scripts: Vec<Vec<u8>>,
    /// Their keys and inner scripts.
    pub known: Known,
}

/// A parsed descriptor: several if its keys have multipath steps.
#[derive(Clone, Debug)]
pub struct Descriptors(Vec<Descriptor>);

impl Descriptors {
    /// Parses a descriptor; its checksum may be missing.
    ///
    /// # Errors
    ///
    /// Core's message for a text that is not a descriptor.
    pub fn read(text: &str, prefixes: &Prefixes) -> Result<Descriptors, String> {
        parse(text, prefixes).map(Descriptors)
    }

    /// Parses a descriptor that must have its checksum.
    ///
    /// # Errors
    ///
    /// Core's message for a text that is not a descriptor, or without a checksum.
    pub fn read_checked(text: &str, prefixes: &Prefixes) -> Result<Descriptors, String> {
        if !text.contains('#') {
            return Err("Missing checksum".into());
        }
        Descriptors::read(text, prefixes)
    }

    /// Number of descriptors: at least one.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the scripts differ by position.
    pub fn is_ranged(&self) -> bool {
        self.0.first().is_some_and(Descriptor::is_ranged)
    }

    /// Whether more than the script itself is known.
    pub fn is_solvable(&self) -> bool {
        self.0.first().is_some_and(Descriptor::is_solvable)
    }

    /// Whether private keys were given.
    pub fn has_private_keys(&self) -> bool {
        self.0.iter().any(Descriptor::has_private_keys)
    }

    /// Each as text, in Core's form, without private keys and with its checksum.
    pub fn texts(&self, prefixes: &Prefixes) -> Vec<String> {
        self.0.iter().map(|descriptor| descriptor.text(prefixes)).collect()
    }

    /// Scripts of descriptor `which` at a position; adds their keys and inner scripts to `known`. `None` if a private
    /// key is missing.
    pub fn scripts(&self, which: usize, position: u32, known: &mut Known) -> Option<Vec<Vec<u8>>> {
        self.0.get(which)?.scripts(position, known)
    }
}

/// The scripts of a descriptor, over a range if it is ranged.
///
/// # Errors
///
/// Core's message for a text that is not a descriptor, or for one that needs private keys.
pub fn expand(text: &str, range: Range, prefixes: &Prefixes) -> Result<Expanded, String> {
    let descriptors = Descriptors::read(text, prefixes)?;
    let range = if descriptors.is_ranged() { range } else { Range { first: 0, last: 0 } };
    let mut expanded = Expanded::default();
    for position in range.first..=range.last {
        for which in 0..descriptors.count() {
            let made = descriptors.scripts(which, position, &mut expanded.known);
            let made = made.ok_or_else(|| format!("Cannot derive script without private keys: '{text}'"))?;
            expanded.scripts.extend(made);
        }
    }
    Ok(expanded)
}

impl Descriptor {
    /// Whether its scripts differ by position.
    pub(super) fn is_ranged(&self) -> bool {
        self.has_key(Key::is_ranged)
    }

    /// Whether `is` is true for any of its keys.
    pub(super) fn has_key(&self, is: fn(&Key) -> bool) -> bool {
        match self {
            Descriptor::Pk(key)
            | Descriptor::PkX(key)
            | Descriptor::Pkh(key)
            | Descriptor::Combo(key)
            | Descriptor::Wpkh(key)
            | Descriptor::RawTr(key)
            | Descriptor::Unused(key) => is(key),
            Descriptor::Multi { keys, .. } | Descriptor::MultiA { keys, .. } => keys.iter().any(is),
            Descriptor::Sh(inner) | Descriptor::Wsh(inner) => inner.has_key(is),
            Descriptor::Tr(key, leaves) => is(key) || leaves.iter().any(|(_, leaf)| leaf.has_key(is)),
            Descriptor::Miniscript(script) => script.has_key(is),
            Descriptor::Address(_) | Descriptor::Raw(_) => false,
        }
    }

    /// Its scripts at a position; `None` if a private key is missing.
    fn scripts(&self, position: u32, known: &mut Known) -> Option<Vec<Vec<u8>>> {
        let one = |script: Vec<u8>| Some(vec![script]);
        match self {
            Descriptor::Pk(key) => one(checksig(&key.noted(position, known)?)),
            Descriptor::PkX(key) => one(checksig(&key.noted(position, known)?[1..])),
            Descriptor::Pkh(key) => one(pay_to_key_hash(&key.noted(position, known)?)),
            Descriptor::Wpkh(key) => one(witness_key_hash(&key.noted(position, known)?)),
            Descriptor::Combo(key) => {
                let key = key.noted(position, known)?;
                let mut scripts = vec![checksig(&key), pay_to_key_hash(&key)];
                if key.len() == 33 {
                    let inner = witness_key_hash(&key);
                    known.add_script(&inner);
                    scripts.extend([inner.clone(), pay_to_script_hash(&inner)]);
                }
                Some(scripts)
            }
            Descriptor::Multi { threshold, keys, is_sorted } => {
                let keys = noted_all(keys, position, known, *is_sorted, 0)?;
                one(multi(*threshold, &keys))
            }
            Descriptor::MultiA { threshold, keys, is_sorted } => {
                let keys = noted_all(keys, position, known, *is_sorted, 1)?;
                one(multi_a(*threshold, &keys))
            }
            Descriptor::Sh(inner) => {
                let inner = inner.scripts(position, known)?;
                inner.iter().for_each(|inner| known.add_script(inner));
                Some(inner.iter().map(|inner| pay_to_script_hash(inner)).collect())
            }
            Descriptor::Wsh(inner) => {
                let inner = inner.scripts(position, known)?;
                inner.iter().for_each(|inner| known.add_script(inner));
                Some(inner.iter().map(|inner| [&[0, 32], &sha256(inner)[..]].concat()).collect())
            }
            Descriptor::Tr(key, leaves) => one(taproot(key, leaves, position, known)?),
            Descriptor::RawTr(key) => one([&[OP_1, 32], &key.noted(position, known)?[1..33]].concat()),
            Descriptor::Address(script) | Descriptor::Raw(script) => one(script.clone()),
            Descriptor::Unused(_) => Some(Vec::new()),
            Descriptor::Miniscript(script) => one(script.at(position, known)?),
        }
    }

    /// A script of a taproot tree as descriptor text, with the origins of its keys.
    fn leaf_text(&self, position: u32) -> Option<String> {
        let x_only = |key: &Key| key.at(position).map(|derived| shown_x_only(&derived));
        match self {
            Descriptor::PkX(key) => Some(format!("pk({})", x_only(key)?)),
            Descriptor::MultiA { threshold, keys, is_sorted } => {
                let mut derived = keys.iter().map(|key| key.at(position)).collect::<Option<Vec<Derived>>>()?;
                if *is_sorted {
                    derived.sort_by(|a, b| a.key[1..].cmp(&b.key[1..]));
                }
                let keys: Vec<String> = derived.iter().map(shown_x_only).collect();
                Some(format!("multi_a({threshold},{})", keys.join(",")))
            }
            _ => None,
        }
    }
}

fn shown_x_only(derived: &Derived) -> String {
    format!("{}{}", derived.origin, hex::encode(&derived.key[1..33]))
}

/// Keys at a position, each without its first `from` bytes; adds them to `known`.
fn noted_all(keys: &[Key], position: u32, known: &mut Known, is_sorted: bool, from: usize) -> Option<Vec<Vec<u8>>> {
    let keys = keys.iter().map(|key| key.noted(position, known).map(|key| key[from..].to_vec()));
    let mut keys: Vec<Vec<u8>> = keys.collect::<Option<_>>()?;
    if is_sorted {
        keys.sort();
    }
    Some(keys)
}

fn checksig(key: &[u8]) -> Vec<u8> {
    let mut script = Vec::new();
    push_data(&mut script, key);
    script.push(OP_CHECKSIG);
    script
}

fn pay_to_key_hash(key: &[u8]) -> Vec<u8> {
    [&[OP_DUP, OP_HASH160, 20], &hash160(key)[..], &[OP_EQUALVERIFY, OP_CHECKSIG]].concat()
}

/// The output script of P2SH.
pub(crate) fn pay_to_script_hash(script: &[u8]) -> Vec<u8> {
    [&[OP_HASH160, 20], &hash160(script)[..], &[OP_EQUAL]].concat()
}

fn witness_key_hash(key: &[u8]) -> Vec<u8> {
    [&[0, 20], &hash160(key)[..]].concat()
}

/// Pushes a number as a script does.
fn push_number(script: &mut Vec<u8>, number: u32) {
    match number {
        0 => script.push(0),
        1..=16 => script.push(OP_1 - 1 + number as u8),
        _ => {
            let mut bytes = number.to_le_bytes().to_vec();
            while bytes.pop_if(|last| *last == 0).is_some() {}
            // The highest bit is the sign.
            if bytes.last().is_some_and(|last| last & 0x80 != 0) {
                bytes.push(0);
            }
            push_data(script, &bytes);
        }
    }
}

/// The script that needs `threshold` signatures of these keys.
pub(crate) fn multi(threshold: u32, keys: &[Vec<u8>]) -> Vec<u8> {
    let mut script = Vec::new();
    push_number(&mut script, threshold);
    keys.iter().for_each(|key| push_data(&mut script, key));
    push_number(&mut script, keys.len() as u32);
    script.push(OP_CHECKMULTISIG);
    script
}

fn multi_a(threshold: u32, keys: &[Vec<u8>]) -> Vec<u8> {
    let mut script = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        push_data(&mut script, key);
        script.push(if at == 0 { OP_CHECKSIG } else { OP_CHECKSIGADD });
    }
    push_number(&mut script, threshold);
    script.push(OP_NUMEQUAL);
    script
}

fn taproot(key: &Key, leaves: &[(u8, Descriptor)], position: u32, known: &mut Known) -> Option<Vec<u8>> {
    let derived = key.at(position)?;
    known.add_key(&derived.key, Some(derived.origin.clone()));
    let internal = XOnlyPublicKey::from_slice(&derived.key[1..33]).ok()?;
    let mut builder = TaprootBuilder::new();
    let mut texts = Vec::new();
    for (depth, leaf) in leaves {
        let script = leaf.scripts(position, known)?.pop()?;
        builder = builder.add_leaf(*depth, ScriptBuf::from_bytes(script)).ok()?;
        texts.push((*depth, leaf.leaf_text(position)?));
    }
    let spend = builder.finalize(&SECP, internal).ok()?;
    let output = spend.output_key().to_x_only_public_key().serialize();
    let mut text = shown_x_only(&derived);
    if !texts.is_empty() {
        text.push(',');
        text.push_str(&tree_text(&texts));
    }
    known.taproot.insert(output, text);
    Some([&[OP_1, 32], &output[..]].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::infer;
    use consensus::Chain;

    fn expanded(text: &str) -> Expanded {
        expand(text, Range { first: 0, last: 1 }, &Prefixes::of(Chain::Regtest))
            .unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    /// From Core's descriptor_tests.cpp: scripts of its keys, and the descriptors that are inferred from them.
    #[test]
    fn scripts_are_cores() {
        let key = "03a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
        let fpr = "[bd16bee5]";
        for (text, scripts, inferred) in [
            ("pk(K)", vec![format!("21{key}ac")], "pk(OK)"),
            ("pkh(K)", vec!["76a9149a1c78a507689f6f54b847ad1cef1e614ee23f1e88ac".into()], "pkh(OK)"),
            ("wpkh(K)", vec!["00149a1c78a507689f6f54b847ad1cef1e614ee23f1e".into()], "wpkh(OK)"),
            ("sh(wpkh(K))", vec!["a91484ab21b1b2fd065d4504ff693d832434b6108d7b87".into()], "sh(wpkh(OK))"),
            (
                "wsh(pkh(K))",
                vec!["0020338e023079b91c58571b20e602d7805fb808c22473cbc391a41b1bd3a192e75b".into()],
                "wsh(pkh(OK))",
            ),
            ("sh(wsh(pkh(K)))", vec!["a914b61b92e2ca21bac1e72a3ab859a742982bea960a87".into()], "sh(wsh(pkh(OK)))"),
            ("raw(6a01ff)", vec!["6a01ff".into()], "raw(6a01ff)"),
            ("addr(bcrt1pfeesnyr2tx)", vec!["51024e73".into()], "addr(bcrt1pfeesnyr2tx)"),
            ("unused(K)", vec![], ""),
        ] {
            let text = text.replace('K', key);
            let got = expanded(&text);
            let shown: Vec<String> = got.scripts.iter().map(|script| hex::encode(script)).collect();
            assert_eq!(shown, scripts, "{text}");
            let want = inferred.replace("OK", &format!("{fpr}{key}"));
            for script in &got.scripts {
                let body = infer(script, &got.known, &Prefixes::of(Chain::Regtest));
                let body = body.split('#').next().unwrap().to_owned();
                let fingerprint = format!("[{}]", hex::encode(&hash160(&hex::decode(key).unwrap())[..4]));
                assert_eq!(body, want.replace(fpr, &fingerprint), "{text}");
            }
        }
    }

    /// BIP-0386's first vectors, and BIP-0032's first one.
    #[test]
    fn taproot_and_extended_keys_are_derived() {
        let key = "a34b99f22c790c4e36b2b3c2c35a36db06226e41c692fc82b8b56ac1c540c5bd";
        let one = |text: &str| hex::encode(&expanded(text).scripts[0]);
        assert_eq!(one(&format!("tr({key})")), "512077aab6e066f8a7419c5ab714c12c67d25007ed55a43cadcacb4d7a970a093f11");
        assert_eq!(one(&format!("rawtr({key})")), format!("5120{key}"));
        let text = format!("tr({key},{{pk({key}),{{pk({key}),multi_a(1,{key})}}}})");
        let tree = expanded(&text);
        let shown = infer(&tree.scripts[0], &tree.known, &Prefixes::of(Chain::Regtest));
        let fingerprint = hex::encode(&hash160(&hex::decode(&format!("02{key}")).unwrap())[..4]);
        let want = text.replace(key, &format!("[{fingerprint}]{key}"));
        assert_eq!(shown.split('#').next(), Some(&want[..]));
        // From Core's functional test rpc_scantxoutset.
        let tprv = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
        for (text, position, want) in [
            (
                format!("pkh({tprv}/0h/0h/0)"),
                0,
                "pkh([0c5f9a1e/0h/0h/0]026dbd8b2315f296d36e6b6920b1579ca75569464875c7ebe869b536a7d9503c8c)#rthll0rg",
            ),
            (
                format!("pkh({tprv}/0h/0h/*)"),
                1,
                "pkh([0c5f9a1e/0h/0h/1]033e6f25d76c00bedb3a8993c7d5739ee806397f0529b1b31dda31ef890f19a60c)#mcjajulr",
            ),
            (
                format!("pkh({tprv}/1/1/<0;7>)"),
                0,
                "pkh([0c5f9a1e/1/1/0]03e1c5b6e650966971d7e71ef2674f80222752740fc1dfd63bbbd220d2da9bd0fb)#cxmct4w8",
            ),
        ] {
            let got = expanded(&text);
            assert_eq!(got.scripts.len(), if text.contains('*') || text.contains('<') { 2 } else { 1 });
            assert_eq!(infer(&got.scripts[position], &got.known, &Prefixes::of(Chain::Regtest)), want);
        }
        let tpub = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
        let why = expand(&format!("pk({tpub}/1h)"), Range::default(), &Prefixes::of(Chain::Regtest)).unwrap_err();
        assert_eq!(why, format!("Cannot derive script without private keys: 'pk({tpub}/1h)'"));
        let why = expand(&format!("pk({tpub})"), Range::default(), &Prefixes::of(Chain::Main)).unwrap_err();
        assert_eq!(why, format!("pk(): key '{tpub}' is not valid"));
    }

    #[test]
    fn multisigs_are_built_in_order() {
        let (a, b) = (
            "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
            "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
        );
        let one = |text: String| hex::encode(&expanded(&text).scripts[0]);
        assert_eq!(one(format!("multi(1,{b},{a})")), format!("5121{b}21{a}52ae"));
        assert_eq!(one(format!("sortedmulti(2,{b},{a})")), format!("5221{a}21{b}52ae"));
        let mut script = Vec::new();
        [0, 1, 16, 17, 127, 128, 255, 256, 999].into_iter().for_each(|number| push_number(&mut script, number));
        assert_eq!(hex::encode(&script), "0051600111017f02800002ff0002000102e703");
    }
}
