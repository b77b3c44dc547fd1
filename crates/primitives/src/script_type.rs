//! The type of an output's script, with the names of Core's RPCs. For statistics about coins; not used by rules.
//!
//! Source: Bitcoin Core b88bffe, script/solver.cpp, `Solver`; the names: `GetTxnOutputType`.

use crate::coin::CompressedScript;

/// Kind of an output.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum ScriptType {
    /// Pays to a key, compressed or not.
    PubKey,
    /// Pays to the hash of a key.
    PubKeyHash,
    /// Pays to the hash of a script.
    ScriptHash,
    /// Pays to some of several keys.
    Multisig,
    /// BIP-0141: the hash of a key.
    WitnessV0KeyHash,
    /// BIP-0141: the hash of a script.
    WitnessV0ScriptHash,
    /// BIP-0341.
    WitnessV1Taproot,
    /// Pay to anchor.
    Anchor,
    /// Any other witness program.
    WitnessUnknown,
    /// Data; never in the set.
    NullData,
    /// Everything else.
    NonStandard,
}

impl ScriptType {
    /// All types, in the order of a table.
    pub const ALL: [ScriptType; 11] = [
        ScriptType::PubKey,
        ScriptType::PubKeyHash,
        ScriptType::ScriptHash,
        ScriptType::Multisig,
        ScriptType::WitnessV0KeyHash,
        ScriptType::WitnessV0ScriptHash,
        ScriptType::WitnessV1Taproot,
        ScriptType::Anchor,
        ScriptType::WitnessUnknown,
        ScriptType::NullData,
        ScriptType::NonStandard,
    ];

    /// Core's name.
    pub const fn name(self) -> &'static str {
        match self {
            ScriptType::PubKey => "pubkey",
            ScriptType::PubKeyHash => "pubkeyhash",
            ScriptType::ScriptHash => "scripthash",
            ScriptType::Multisig => "multisig",
            ScriptType::WitnessV0KeyHash => "witness_v0_keyhash",
            ScriptType::WitnessV0ScriptHash => "witness_v0_scripthash",
            ScriptType::WitnessV1Taproot => "witness_v1_taproot",
            ScriptType::Anchor => "anchor",
            ScriptType::WitnessUnknown => "witness_unknown",
            ScriptType::NullData => "nulldata",
            ScriptType::NonStandard => "nonstandard",
        }
    }

    /// The type of a coin's script.
    pub fn of(script: &CompressedScript<'_>) -> ScriptType {
        match script.raw() {
            Some(raw) => ScriptType::of_script(raw),
            None => match script.template_kind() {
                0 => ScriptType::PubKeyHash,
                1 => ScriptType::ScriptHash,
                2..=5 => ScriptType::PubKey,
                _ => ScriptType::NonStandard,
            },
        }
    }

    /// The type of a script.
    pub fn of_script(script: &[u8]) -> ScriptType {
        match script {
            [0xa9, 0x14, hash @ .., 0x87] if hash.len() == 20 => ScriptType::ScriptHash,
            [0, 20, hash @ ..] if hash.len() == 20 => ScriptType::WitnessV0KeyHash,
            [0, 32, hash @ ..] if hash.len() == 32 => ScriptType::WitnessV0ScriptHash,
            [0x51, 32, key @ ..] if key.len() == 32 => ScriptType::WitnessV1Taproot,
            [0x51, 2, 0x4e, 0x73] => ScriptType::Anchor,
            [0x51..=0x60, size @ 2..=40, program @ ..] if program.len() == usize::from(*size) => {
                ScriptType::WitnessUnknown
            }
            [0x6a, rest @ ..] if is_pushes(rest) => ScriptType::NullData,
            [push, key @ .., 0xac] if usize::from(*push) == key.len() && is_key(key) => ScriptType::PubKey,
            [0x76, 0xa9, 0x14, hash @ .., 0x88, 0xac] if hash.len() == 20 => ScriptType::PubKeyHash,
            script if is_multisig(script) => ScriptType::Multisig,
            _ => ScriptType::NonStandard,
        }
    }
}

/// Whether it has the length that its first byte requires.
fn is_key(key: &[u8]) -> bool {
    matches!((key.first(), key.len()), (Some(2 | 3), 33) | (Some(4 | 6 | 7), 65))
}

/// Whether it has only pushes and small numbers.
fn is_pushes(mut script: &[u8]) -> bool {
    while let [op, rest @ ..] = script {
        let size = match (op, rest) {
            (0..=75, _) => Some((usize::from(*op), 0)),
            (76, [n, ..]) => Some((usize::from(*n), 1)),
            (77, [a, b, ..]) => Some((usize::from(u16::from_le_bytes([*a, *b])), 2)),
            (78, [a, b, c, d, ..]) => Some((u32::from_le_bytes([*a, *b, *c, *d]) as usize, 4)),
            (79..=96, _) => Some((0, 0)),
            _ => None,
        };
        let Some(rest) = size.and_then(|(size, at)| rest.get(at..)?.get(size..)) else { return false };
        script = rest;
    }
    true
}

/// A number from 1 to 20 in its shortest form, and the rest.
fn number(script: &[u8]) -> Option<(u8, &[u8])> {
    match script {
        [op @ 0x51..=0x60, rest @ ..] => Some((op - 0x50, rest)),
        [1, n @ 17..=20, rest @ ..] => Some((*n, rest)),
        _ => None,
    }
}

fn is_multisig(script: &[u8]) -> bool {
    let Some([inner @ .., 0xae]) = Some(script) else { return false };
    let Some((wanted, mut rest)) = number(inner) else { return false };
    let mut keys = 0;
    while let [push @ (33 | 65), after @ ..] = rest {
        let Some(key) = after.get(..usize::from(*push)).filter(|key| is_key(key)) else { return false };
        (keys, rest) = (keys + 1, &after[key.len()..]);
    }
    number(rest).is_some_and(|(count, end)| end.is_empty() && count == keys && wanted <= count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Amount, CoinRef, coin, hex};

    /// Names as bitcoind's decodescript gives them, at b88bffe.
    #[test]
    fn types_are_cores() {
        let (k, u) = (format!("21{}", "02".repeat(33)), format!("41{}", "04".repeat(65)));
        let h = |size: usize| "ab".repeat(size);
        for (script, want) in [
            (format!("{k}ac"), "pubkey"),
            (format!("{u}ac"), "pubkey"),
            (format!("41{}ac", "06".repeat(65)), "pubkey"),
            (format!("21{}ac", "04".repeat(33)), "nonstandard"),
            (format!("76a914{}88ac", h(20)), "pubkeyhash"),
            (format!("a914{}87", h(20)), "scripthash"),
            (format!("51{k}51ae"), "multisig"),
            (format!("52{k}{u}{k}53ae"), "multisig"),
            (format!("54{k}{u}{k}53ae"), "nonstandard"),
            (format!("51{k}52ae"), "nonstandard"),
            (format!("51{}0111ae", k.repeat(17)), "multisig"),
            (format!("0014{}", h(20)), "witness_v0_keyhash"),
            (format!("0020{}", h(32)), "witness_v0_scripthash"),
            (format!("5120{}", h(32)), "witness_v1_taproot"),
            ("51024e73".into(), "anchor"),
            ("51024e74".into(), "witness_unknown"),
            (format!("6028{}", h(40)), "witness_unknown"),
            (format!("0015{}", h(21)), "nonstandard"),
            (format!("5129{}", h(41)), "nonstandard"),
            ("6a".into(), "nulldata"),
            (format!("6a14{}", h(20)), "nulldata"),
            (format!("6a4c02{}60", h(2)), "nulldata"),
            ("6a05ab".into(), "nonstandard"),
            ("6aac".into(), "nonstandard"),
            (String::new(), "nonstandard"),
            ("51".into(), "nonstandard"),
            ("ae".into(), "nonstandard"),
        ] {
            let script = hex::decode(&script).unwrap();
            assert_eq!(ScriptType::of_script(&script).name(), want, "{}", hex::encode(&script));
            let mut stored = Vec::new();
            coin::put_coin(&mut stored, 2, Amount(1), &script);
            let coin = CoinRef::decode(&stored).unwrap();
            assert_eq!(ScriptType::of(&coin.script).name(), want, "stored {}", hex::encode(&script));
        }
        assert!(ScriptType::ALL.iter().enumerate().all(|(place, kind)| *kind as usize == place));
    }
}
