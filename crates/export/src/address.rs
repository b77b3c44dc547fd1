//! Addresses of output scripts.

use arrow_array::builder::StringBuilder;
use consensus::Chain;
use show::output::{Payee, Prefixes};

/// Writes addresses with a network's prefixes.
#[derive(Clone, Debug)]
pub struct Addresses {
    prefixes: Prefixes,
    text: Vec<u8>,
}

impl Addresses {
    /// The prefixes of a network.
    pub fn of(chain: Chain) -> Addresses {
        Addresses { prefixes: Prefixes::of(chain), text: Vec::new() }
    }

    /// The address of a script; `None` if it has no address, as for bare keys and multisig in Core.
    pub fn of_payee(&mut self, payee: &Payee<'_>) -> Option<&str> {
        self.text.clear();
        let has = self.prefixes.put_address(&mut self.text, payee);
        has.then(|| std::str::from_utf8(&self.text).expect("an address is ASCII"))
    }

    /// Appends the address to a column.
    pub(crate) fn append(&mut self, payee: &Payee<'_>, column: &mut StringBuilder) {
        column.append_option(self.of_payee(payee));
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
            let mut addresses = Addresses::of(chain);
            let found = addresses.of_payee(&Payee::of(&script));
            assert_eq!(found, (!want.is_empty()).then_some(want));
        }
    }
}
