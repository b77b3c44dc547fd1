//! Descriptors as text, in Core's form.
//!
//! Source: Bitcoin Core b88bffe, script/descriptor.cpp, `ToStringHelper` and `IsSolvable` of each descriptor.

use super::checksum::put_checksum;
use super::key::Key;
use super::parse::Descriptor;
use crate::output::{Payee, Prefixes};
use primitives::hex;

impl Descriptor {
    /// Its text without private keys, with its checksum.
    pub(super) fn text(&self, prefixes: &Prefixes) -> String {
        let mut text = self.body(prefixes).into_bytes();
        put_checksum(&mut text, 0);
        String::from_utf8_lossy(&text).into_owned()
    }

    fn body(&self, prefixes: &Prefixes) -> String {
        let multi = |name: &str, threshold: u32, keys: &[Key], is_sorted: bool| {
            let sorted = if is_sorted { "sorted" } else { "" };
            let keys: Vec<String> = keys.iter().map(Key::shown).collect();
            format!("{sorted}{name}({threshold},{})", keys.join(","))
        };
        match self {
            Descriptor::Pk(key) | Descriptor::PkX(key) => format!("pk({})", key.shown()),
            Descriptor::Pkh(key) => format!("pkh({})", key.shown()),
            Descriptor::Combo(key) => format!("combo({})", key.shown()),
            Descriptor::Wpkh(key) => format!("wpkh({})", key.shown()),
            Descriptor::RawTr(key) => format!("rawtr({})", key.shown()),
            Descriptor::Unused(key) => format!("unused({})", key.shown()),
            Descriptor::Multi { threshold, keys, is_sorted } => multi("multi", *threshold, keys, *is_sorted),
            Descriptor::MultiA { threshold, keys, is_sorted } => multi("multi_a", *threshold, keys, *is_sorted),
            Descriptor::Sh(inner) => format!("sh({})", inner.body(prefixes)),
            Descriptor::Wsh(inner) => format!("wsh({})", inner.body(prefixes)),
            Descriptor::Tr(key, leaves) if leaves.is_empty() => format!("tr({})", key.shown()),
            Descriptor::Tr(key, leaves) => {
                let texts: Vec<(u8, String)> =
                    leaves.iter().map(|(depth, leaf)| (*depth, leaf.body(prefixes))).collect();
                format!("tr({},{})", key.shown(), tree_text(&texts))
            }
            Descriptor::Address(script) => {
                format!("addr({})", prefixes.address(&Payee::of(script)).unwrap_or_default())
            }
            Descriptor::Raw(script) => format!("raw({})", hex::encode(script)),
            Descriptor::Miniscript(script) => script.shown(),
        }
    }

    /// Whether more than the script itself is known.
    pub(super) fn is_solvable(&self) -> bool {
        !matches!(self, Descriptor::Address(_) | Descriptor::Raw(_))
    }

    /// Whether private keys were given.
    pub(super) fn has_private_keys(&self) -> bool {
        self.has_key(Key::is_private)
    }
}

/// Leaves from left to right as a tree: a brace opens before a deeper leaf, and closes after a right one.
pub(super) fn tree_text(leaves: &[(u8, String)]) -> String {
    let mut text: String = String::new();
    let mut branches: Vec<bool> = Vec::new();
    for (depth, leaf) in leaves {
        while branches.len() < usize::from(*depth) {
            text.push('{');
            branches.push(false);
        }
        text.push_str(leaf);
        while branches.pop_if(|is_right| *is_right).is_some() {
            text.push('}');
        }
        if let Some(last) = branches.last_mut() {
            text.push(',');
            *last = true;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::descriptor::Descriptors;
    use crate::output::Prefixes;
    use consensus::Chain;

    const TPUB: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQvao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";
    const TPRV: &str = "tprv8ZgxMBicQKsPd7Uf69XL1XwhmjHopUGep8GuEiJDZmbQz6o58LninorQAfcKZWARbtRtfnLcJ5MQ2AtHcQJCCRUcMRvmDUjyEmNUWwx8UbK";
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

    /// `want` is what Core's getdescriptorinfo says (b88bffe): ranged, solvable, with private keys, and the text
    /// where it is another one than was given.
    #[test]
    fn descriptors_are_shown_as_in_core() {
        let x_only = &KEY[2..];
        for (text, flags, want) in [
            ("pk(KEY)", "-s-", ""),
            ("pkh([d34db33f/44h/0h/0h]TPUB/1/*)", "rs-", ""),
            ("pkh([d34db33f/44'/0'/0']TPUB/1/*)", "rs-", ""),
            ("pkh([d34db33f/44'/0h]TPUB/1/*)", "rs-", "pkh([d34db33f/44h/0h]TPUB/1/*)"),
            ("pkh(TPRV/1'/*h)", "rsp", "pkh(TPUB/1'/*')"),
            ("wpkh(TPUB/<0;1>/*)", "rs-", "wpkh(TPUB/0/*) wpkh(TPUB/1/*)"),
            ("sh(wsh(sortedmulti(1,KEY,KEY)))", "-s-", ""),
            ("tr(XONLY,{pk(XONLY),{pk(KEY),multi_a(1,XONLY,KEY)}})", "-s-", ""),
            ("tr(cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA)", "-sp", "tr(XONLY)"),
            ("rawtr(XONLY)", "-s-", ""),
            ("unused(TPUB)", "-s-", ""),
            ("raw(DEADBEEF)", "---", "raw(deadbeef)"),
            ("addr(BCRT1PFEESNYR2TX)", "---", "addr(bcrt1pfeesnyr2tx)"),
            ("wsh(and_v(v:pk(TPUB/0h),older(5)))", "-s-", ""),
        ] {
            let full = |text: &str| {
                text.replace("TPUB", TPUB).replace("TPRV", TPRV).replace("KEY", KEY).replace("XONLY", x_only)
            };
            let prefixes = Prefixes::of(Chain::Regtest);
            let read = Descriptors::read(&full(text), &prefixes).unwrap_or_else(|why| panic!("{text}: {why}"));
            let mark = |is: bool, letter: char| if is { letter } else { '-' };
            let got = [mark(read.is_ranged(), 'r'), mark(read.is_solvable(), 's'), mark(read.has_private_keys(), 'p')];
            assert_eq!(got.iter().collect::<String>(), flags, "{text}");
            let texts = read.texts(&prefixes);
            let bodies: Vec<&str> = texts.iter().filter_map(|text| text.split('#').next()).collect();
            assert_eq!(bodies.join(" "), full(if want.is_empty() { text } else { want }), "{text}");
            // A checksum that is read is the one that was written.
            assert!(texts.iter().all(|text| Descriptors::read_checked(text, &prefixes).is_ok()), "{texts:?}");
        }
        let why = Descriptors::read_checked("raw(00)", &Prefixes::of(Chain::Regtest)).unwrap_err();
        assert_eq!(why, "Missing checksum");
    }
}
