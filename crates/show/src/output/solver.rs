//! Type of an output's script, and its parts.
//!
//! `primitives::script_type` determines the type; this module extracts the parts, whose offsets follow from the type.
//! Source: Bitcoin Core b88bffe, script/solver.cpp, `Solver`.

use primitives::script_type::ScriptType;

/// The type of an output and its parts, borrowed from the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Payee<'a> {
    /// A key: 33 or 65 bytes.
    PubKey(&'a [u8]),
    /// The hash of a key.
    PubKeyHash(&'a [u8; 20]),
    /// The hash of a script.
    ScriptHash(&'a [u8; 20]),
    /// Number of required signatures, and the keys.
    Multisig(u8, Vec<&'a [u8]>),
    /// BIP-0141: the hash of a key.
    WitnessV0KeyHash(&'a [u8; 20]),
    /// BIP-0141: the hash of a script.
    WitnessV0ScriptHash(&'a [u8; 32]),
    /// BIP-0341: the output key.
    WitnessV1Taproot(&'a [u8; 32]),
    /// Pay to anchor.
    Anchor,
    /// Another witness program: version 1 to 16, 2 to 40 bytes.
    WitnessUnknown(u8, &'a [u8]),
    /// Data.
    NullData,
    /// Everything else.
    NonStandard,
}

impl<'a> Payee<'a> {
    /// The type and parts of an output's script.
    #[inline]
    pub fn of(script: &'a [u8]) -> Payee<'a> {
        let hash = |at: usize| script[at..].first_chunk::<20>().expect("the template has a hash there");
        let program = || script[2..].first_chunk::<32>().expect("the template has 32 bytes there");
        match ScriptType::of_script(script) {
            ScriptType::PubKey => Payee::PubKey(&script[1..script.len() - 1]),
            ScriptType::PubKeyHash => Payee::PubKeyHash(hash(3)),
            ScriptType::ScriptHash => Payee::ScriptHash(hash(2)),
            ScriptType::Multisig => {
                let (required, keys) = multisig(script);
                Payee::Multisig(required, keys)
            }
            ScriptType::WitnessV0KeyHash => Payee::WitnessV0KeyHash(hash(2)),
            ScriptType::WitnessV0ScriptHash => Payee::WitnessV0ScriptHash(program()),
            ScriptType::WitnessV1Taproot => Payee::WitnessV1Taproot(program()),
            ScriptType::Anchor => Payee::Anchor,
            ScriptType::WitnessUnknown => Payee::WitnessUnknown(script[0] - 0x50, &script[2..]),
            ScriptType::NullData => Payee::NullData,
            ScriptType::NonStandard => Payee::NonStandard,
        }
    }

    /// Core's name of the type.
    pub fn name(&self) -> &'static str {
        match self {
            Payee::PubKey(_) => ScriptType::PubKey,
            Payee::PubKeyHash(_) => ScriptType::PubKeyHash,
            Payee::ScriptHash(_) => ScriptType::ScriptHash,
            Payee::Multisig(..) => ScriptType::Multisig,
            Payee::WitnessV0KeyHash(_) => ScriptType::WitnessV0KeyHash,
            Payee::WitnessV0ScriptHash(_) => ScriptType::WitnessV0ScriptHash,
            Payee::WitnessV1Taproot(_) => ScriptType::WitnessV1Taproot,
            Payee::Anchor => ScriptType::Anchor,
            Payee::WitnessUnknown(..) => ScriptType::WitnessUnknown,
            Payee::NullData => ScriptType::NullData,
            Payee::NonStandard => ScriptType::NonStandard,
        }
        .name()
    }
}

/// The parts of a script that is known to be a multisig: `m <key>.. n CHECKMULTISIG`.
fn multisig(script: &[u8]) -> (u8, Vec<&[u8]>) {
    // Above 16 a number is a push of one byte.
    let (required, mut rest) = match script {
        [1, number, rest @ ..] => (*number, rest),
        [opcode, rest @ ..] => (opcode - 0x50, rest),
        [] => unreachable!("a multisig is not empty"),
    };
    let mut keys = Vec::new();
    while let [bytes @ (33 | 65), after @ ..] = rest {
        let (key, after) = after.split_at(usize::from(*bytes));
        keys.push(key);
        rest = after;
    }
    (required, keys)
}

/// Whether a key of a script may appear in a descriptor: its first byte fits its length, and it is not of the hybrid
/// form.
///
/// Source: Bitcoin Core b88bffe, `CPubKey::IsValidNonHybrid`.
pub fn is_plain_key(key: &[u8]) -> bool {
    matches!((key.first(), key.len()), (Some(2 | 3), 33) | (Some(4), 65))
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    #[test]
    fn parts_are_found() {
        let script = |text: &str| hex::decode(text).unwrap();
        let (h20, h32) = ("ab".repeat(20), "cd".repeat(32));
        let (k, u) = ([2; 33], [4; 65]);
        let key = hex::encode(&k);
        assert_eq!(Payee::of(&script(&format!("21{key}ac"))), Payee::PubKey(&k));
        assert_eq!(Payee::of(&script(&format!("76a914{h20}88ac"))), Payee::PubKeyHash(&[0xab; 20]));
        assert_eq!(Payee::of(&script(&format!("a914{h20}87"))), Payee::ScriptHash(&[0xab; 20]));
        assert_eq!(Payee::of(&script(&format!("0014{h20}"))), Payee::WitnessV0KeyHash(&[0xab; 20]));
        assert_eq!(Payee::of(&script(&format!("0020{h32}"))), Payee::WitnessV0ScriptHash(&[0xcd; 32]));
        assert_eq!(Payee::of(&script(&format!("5120{h32}"))), Payee::WitnessV1Taproot(&[0xcd; 32]));
        assert_eq!(Payee::of(&script("51024e73")), Payee::Anchor);
        assert_eq!(Payee::of(&script("60024e73")), Payee::WitnessUnknown(16, b"Ns"));
        assert_eq!(Payee::of(&script("6a0101")), Payee::NullData);
        assert_eq!(Payee::of(&[]), Payee::NonStandard);
        let two = script(&format!("5121{key}41{}52ae", hex::encode(&u)));
        assert_eq!(Payee::of(&two), Payee::Multisig(1, vec![&k, &u]));
        let many = script(&format!("0111{}0112ae", format!("21{key}").repeat(18)));
        assert_eq!(Payee::of(&many), Payee::Multisig(17, vec![&k; 18]));
        assert_eq!(Payee::of(&many).name(), "multisig");
        assert!(is_plain_key(&k) && is_plain_key(&u) && !is_plain_key(&[6; 65]) && !is_plain_key(&[]));
    }
}
