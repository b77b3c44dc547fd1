//! Addresses of output scripts, and the names of their types.

use bitcoin::{Address, Network, Script};
use consensus::Chain;
use primitives::script_type::ScriptType;
use std::fmt;

/// The network by whose prefixes addresses are written.
#[derive(Clone, Copy, Debug)]
pub struct Addresses(Network);

impl Addresses {
    /// Those of a network.
    pub fn of(chain: Chain) -> Addresses {
        Addresses(match chain {
            Chain::Main => Network::Bitcoin,
            Chain::Test | Chain::Testnet4 | Chain::Signet => Network::Testnet,
            Chain::Regtest => Network::Regtest,
        })
    }

    /// Writes the address of a script of that type; says whether it has one. Bare keys and multisig have none, as in Core.
    ///
    /// # Errors
    ///
    /// What `out` says.
    pub fn write(self, kind: ScriptType, script: &[u8], out: &mut impl fmt::Write) -> Result<bool, fmt::Error> {
        let has_none =
            matches!(kind, ScriptType::PubKey | ScriptType::Multisig | ScriptType::NullData | ScriptType::NonStandard);
        if has_none {
            return Ok(false);
        }
        match Address::from_script(Script::from_bytes(script), self.0) {
            Ok(address) => write!(out, "{address}").map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// From BIP-0173 and BIP-0350, and Core's data/key_io_valid.json.
    #[test]
    fn addresses_are_cores() {
        for (chain, script, want) in [
            (Chain::Main, "0014751e76e8199196d454941c45d1b3a323f1433bd6", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"),
            (
                Chain::Main,
                "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
            ),
            (Chain::Main, "51024e73", "bc1pfeessrawgf"),
            (Chain::Main, "520250ed", "bc1z2rksukkjr8"),
            (Chain::Main, "76a914a31c06bd463e3923bc1aadbde48b16976c08071788ac", "1FsSia9rv4NeEwvJ2GvXrX7LyxYspbN2mo"),
            (Chain::Main, "a914373b819a068f32b7a6b38b6b38729647cfde01c287", "36j4NfKv6Akva9amjWrLG6MuSQym1GuEmm"),
            (
                Chain::Testnet4,
                "76a914ce28b26c57472737f5c3561a1761185bd8589a4388ac",
                "mzK2FFDEhxqHcmrJw1ysqFkVyhUULo45hZ",
            ),
            (Chain::Signet, "a9145e5a35ab44b3efaea5129ba22b88ba3e2976614587", "2N1r7aC69VHeE7yQJPDLi9T1PYq4wnwvjuT"),
            (
                Chain::Regtest,
                "00146f58bac9506f9bfb821d62e69330410bb56f0085",
                "bcrt1qdavt4j2sd7dlhqsavtnfxvzppw6k7qy97tmnu9",
            ),
            (Chain::Main, "21020202020202020202020202020202020202020202020202020202020202020202ac", ""),
            (Chain::Main, "6a", ""),
            (Chain::Main, "", ""),
        ] {
            let script = hex::decode(script).unwrap();
            let mut text = String::new();
            let has = Addresses::of(chain).write(ScriptType::of_script(&script), &script, &mut text).unwrap();
            assert_eq!((&text[..], has), (want, !want.is_empty()));
        }
    }
}
