//! Addresses: from an output's script, and back.
//!
//! Source: Bitcoin Core b88bffe, key_io.cpp (`EncodeDestination`, `DecodeDestination` and its error texts),
//! kernel/chainparams.cpp.

use super::base58::{self, put_base58_check};
use super::bech32::{self, Encoding, put_segwit_address};
use super::solver::Payee;
use consensus::Chain;

/// Prefixes of addresses and keys on a network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefixes {
    /// First byte of a P2PKH address.
    pub key_hash: u8,
    /// First byte of a P2SH address.
    pub script_hash: u8,
    /// First byte of a private key.
    pub secret: u8,
    /// First bytes of a public extended key.
    pub xpub: [u8; 4],
    /// First bytes of a private extended key.
    pub xprv: [u8; 4],
    /// Human-readable part of a segwit address.
    pub hrp: &'static str,
}

impl Prefixes {
    /// The prefixes of a network.
    pub const fn of(chain: Chain) -> Prefixes {
        let hrp = match chain {
            Chain::Main => "bc",
            Chain::Test | Chain::Testnet4 | Chain::Signet => "tb",
            Chain::Regtest => "bcrt",
        };
        let xpub = [0x04, 0x35, 0x87, 0xcf];
        let xprv = [0x04, 0x35, 0x83, 0x94];
        match chain {
            Chain::Main => {
                let xpub = [0x04, 0x88, 0xb2, 0x1e];
                let xprv = [0x04, 0x88, 0xad, 0xe4];
                Prefixes { key_hash: 0, script_hash: 5, secret: 128, xpub, xprv, hrp }
            }
            _ => Prefixes { key_hash: 111, script_hash: 196, secret: 239, xpub, xprv, hrp },
        }
    }

    /// Appends the address of an output; returns whether there is one. A bare key has no address.
    pub fn put_address(&self, out: &mut Vec<u8>, payee: &Payee<'_>) -> bool {
        let base58 = |out: &mut Vec<u8>, prefix: u8, hash: &[u8; 20]| {
            let mut payload = [prefix; 21];
            payload[1..].copy_from_slice(hash);
            put_base58_check(out, &payload);
        };
        match payee {
            Payee::PubKeyHash(hash) => base58(out, self.key_hash, hash),
            Payee::ScriptHash(hash) => base58(out, self.script_hash, hash),
            Payee::WitnessV0KeyHash(hash) => put_segwit_address(out, self.hrp, 0, *hash),
            Payee::WitnessV0ScriptHash(hash) => put_segwit_address(out, self.hrp, 0, *hash),
            Payee::WitnessV1Taproot(key) => put_segwit_address(out, self.hrp, 1, *key),
            Payee::Anchor => put_segwit_address(out, self.hrp, 1, &ANCHOR_PROGRAM),
            Payee::WitnessUnknown(version, program) => put_segwit_address(out, self.hrp, *version, program),
            Payee::PubKey(_) | Payee::Multisig(..) | Payee::NullData | Payee::NonStandard => return false,
        }
        true
    }

    /// The address of an output, if there is one.
    pub fn address(&self, payee: &Payee<'_>) -> Option<String> {
        let mut out = Vec::new();
        self.put_address(&mut out, payee).then(|| String::from_utf8(out).expect("an address is ASCII"))
    }

    /// The output script of an address.
    ///
    /// # Errors
    ///
    /// Why it is not an address of this network, in Core's words.
    pub fn decode(&self, address: &str) -> Result<Vec<u8>, AddressError> {
        // Decided only by the first characters: it may belong to another network whose prefix begins alike.
        let is_segwit =
            address.as_bytes().get(..self.hrp.len()).is_some_and(|a| a.eq_ignore_ascii_case(self.hrp.as_bytes()));
        if is_segwit { self.decode_segwit(address) } else { self.decode_base58(address) }
    }

    fn decode_base58(&self, address: &str) -> Result<Vec<u8>, AddressError> {
        let error = |why: &str| Err(AddressError { why: why.into(), places: Vec::new() });
        let Some(payload) = decode_base58_check(address, ADDRESS_PAYLOAD_BYTES) else {
            return match decode_base58(address, UNCHECKED_BYTES_MAX) {
                Some(_) => error("Invalid checksum or length of Base58 address (P2PKH or P2SH)"),
                None => error("Invalid or unsupported Segwit (Bech32) or Base58 encoding."),
            };
        };
        match *payload {
            [prefix, ref hash @ ..] if prefix == self.key_hash && hash.len() == 20 => {
                Ok([&[0x76, 0xa9, 0x14], hash, &[0x88, 0xac]].concat())
            }
            [prefix, ref hash @ ..] if prefix == self.script_hash && hash.len() == 20 => {
                Ok([&[0xa9, 0x14], hash, &[0x87]].concat())
            }
            [prefix, ..] if prefix == self.key_hash || prefix == self.script_hash => {
                error("Invalid length for Base58 address (P2PKH or P2SH)")
            }
            _ => error("Invalid or unsupported Base58-encoded address."),
        }
    }

    fn decode_segwit(&self, address: &str) -> Result<Vec<u8>, AddressError> {
        let error = |why: String| AddressError { why, places: Vec::new() };
        let Some(decoded) = bech32::decode(address) else {
            let (why, places) = bech32::locate_errors(address);
            return Err(AddressError { why: why.into(), places });
        };
        let Some((&version, symbols)) = decoded.symbols.split_first() else {
            return Err(error("Empty Bech32 data section".into()));
        };
        if decoded.hrp != self.hrp {
            return Err(error(format!(
                "Invalid or unsupported prefix for Segwit (Bech32) address (expected {}, got {}).",
                self.hrp, decoded.hrp
            )));
        }
        match (version, decoded.encoding) {
            (0, Encoding::Bech32m) => return Err(error("Version 0 witness address must use Bech32 checksum".into())),
            (1.., Encoding::Bech32) => {
                return Err(error("Version 1+ witness address must use Bech32m checksum".into()));
            }
            _ => {}
        }
        let program = bech32::symbols_to_bytes(symbols);
        let program = program.ok_or_else(|| error("Invalid padding in Bech32 data section".into()))?;
        let bytes = program.len();
        let unit = if bytes == 1 { "byte" } else { "bytes" };
        match (version, bytes) {
            (0, 20 | 32) | (1..=16, 2..=40) => {
                let opcode = if version == 0 { 0 } else { 0x50 + version };
                Ok([&[opcode, bytes as u8], &program[..]].concat())
            }
            (0, _) => Err(error(format!("Invalid Bech32 v0 address program size ({bytes} {unit}), per BIP141"))),
            (17.., _) => Err(error("Invalid Bech32 address witness version".into())),
            _ => Err(error(format!("Invalid Bech32 address program size ({bytes} {unit})"))),
        }
    }
}

/// Pay to anchor.
const ANCHOR_PROGRAM: [u8; 2] = [0x4e, 0x73];
/// Prefix and hash.
const ADDRESS_PAYLOAD_BYTES: usize = 21;
/// Core's bound for a second attempt to decode an invalid address.
const UNCHECKED_BYTES_MAX: usize = 100;

/// Why a text is not an address of this network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressError {
    /// Core's message; empty for a valid text of another kind, as in Core.
    pub why: String,
    /// Offsets of bytes that are likely wrong.
    pub places: Vec<usize>,
}

/// Decodes base58 to at most `bytes_max` bytes, ignoring white space around it. Source: Core's `DecodeBase58`.
fn decode_base58(text: &str, bytes_max: usize) -> Option<Vec<u8>> {
    let text = text.trim_matches([' ', '\x0c', '\n', '\r', '\t', '\x0b']);
    // Two characters encode more than one byte, and the time is quadratic.
    if text.len() > 2 * bytes_max {
        return None;
    }
    base58::decode(text).filter(|bytes| bytes.len() <= bytes_max)
}

/// Decodes base58 with a checksum, which is checked and removed; `bytes_max` is without it.
pub fn decode_base58_check(text: &str, bytes_max: usize) -> Option<Vec<u8>> {
    let mut bytes = decode_base58(text, bytes_max + 4)?;
    let payload = bytes.len().checked_sub(4)?;
    if kernels::sha256::sha256d(&bytes[..payload])[..4] != bytes[payload..] {
        return None;
    }
    bytes.truncate(payload);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::hex;

    /// From Core's functional test rpc_validateaddress, and of data/key_io_valid.json one of each kind and network.
    #[test]
    fn addresses_are_cores_both_ways() {
        for (chain, address, script) in [
            (Chain::Main, "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4", "0014751e76e8199196d454941c45d1b3a323f1433bd6"),
            (
                Chain::Main,
                "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3",
                "00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
            ),
            (
                Chain::Main,
                "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y",
                "5128751e76e8199196d454941c45d1b3a323f1433bd6751e76e8199196d454941c45d1b3a323f1433bd6",
            ),
            (Chain::Main, "BC1SW50QGDZ25J", "6002751e"),
            (Chain::Main, "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "5210751e76e8199196d454941c45d1b3a323"),
            (
                Chain::Main,
                "bc1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvses5wp4dt",
                "0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
            ),
            (
                Chain::Main,
                "bc1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvses7epu4h",
                "5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
            ),
            (
                Chain::Main,
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
                "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
            ),
            (Chain::Main, "bc1pfeessrawgf", "51024e73"),
            (Chain::Main, "1FsSia9rv4NeEwvJ2GvXrX7LyxYspbN2mo", "76a914a31c06bd463e3923bc1aadbde48b16976c08071788ac"),
            (Chain::Main, "36j4NfKv6Akva9amjWrLG6MuSQym1GuEmm", "a914373b819a068f32b7a6b38b6b38729647cfde01c287"),
            (
                Chain::Testnet4,
                "mzK2FFDEhxqHcmrJw1ysqFkVyhUULo45hZ",
                "76a914ce28b26c57472737f5c3561a1761185bd8589a4388ac",
            ),
            (Chain::Testnet4, "2NC2hEhe28ULKAJkW5MjZ3jtTMJdvXmByvK", "a914ce0bba75891ff9ec60148d4bd4a09ee2dc5c933187"),
            (Chain::Signet, "mww4LvqtTMKvmeQvizPz2EQv26xTneWrbg", "76a914b4110ba93ac54afc14da3bdd19614774a2d55d2988ac"),
            (Chain::Signet, "2N1r7aC69VHeE7yQJPDLi9T1PYq4wnwvjuT", "a9145e5a35ab44b3efaea5129ba22b88ba3e2976614587"),
            (
                Chain::Regtest,
                "n4fajahJrAuKbN7uNsKjLjQkz9Qn5ewJXQ",
                "76a914fdeca3b08e38af53d7c4c60e3ad208ce5066441088ac",
            ),
            (Chain::Regtest, "2MxFajLApXpYk4VodBSZSt7rw8y4ryABkfA", "a91436e9f191e0b75036a77f65e2eaa4752443233fbe87"),
            (Chain::Main, "bc1qvyq0cc6rahyvsazfdje0twl7ez82ndmuac2lhv", "00146100fc6343edc8c874496cb2f5bbfec88ea9b77c"),
            (
                Chain::Main,
                "bc1qyucykdlhp62tezs0hagqury402qwhk589q80tqs5myh3rxq34nwqhkdhv7",
                "002027304b37f70e94bc8a0fbf500e0c957a80ebda87280ef58214d92f119811acdc",
            ),
            (
                Chain::Main,
                "bc1p83n3au0rjylefxq2nc2xh2y4jzz4pm6zxj4mw5pagdjjr2a9f36s6jjnnu",
                "51203c671ef1e3913f94980a9e146ba895908550ef4234abb7503d436521aba54c75",
            ),
            (Chain::Main, "bc1z2rksukkjr8", "520250ed"),
            (
                Chain::Testnet4,
                "tb1qcrh3yqn4nlleplcez2yndq2ry8h9ncg3qh7n54",
                "0014c0ef1202759fff90ff19128936814321ee59e111",
            ),
            (
                Chain::Testnet4,
                "tb1quyl9ujpgwr2chdzdnnalen48sup245vdfnh2jxhsuq3yx80rrwlq5hqfe4",
                "0020e13e5e482870d58bb44d9cfbfccea78702aad18d4ceea91af0e022431de31bbe",
            ),
            (
                Chain::Testnet4,
                "tb1p35n52jy6xkm4wd905tdy8qtagrn73kqdz73xe4zxpvq9t3fp50aqk3s6gz",
                "51208d2745489a35b75734afa2da43817d40e7e8d80d17a26cd4460b0055c521a3fa",
            ),
            (Chain::Testnet4, "tb1rgv5m6uvdk3kc7qsuz0c79v88ycr5w4wa", "53104329bd718db46d8f021c13f1e2b0e726"),
            (
                Chain::Signet,
                "tb1q3vya2h5435jkugq2few7dmktlrwq4ejmfaw7kr",
                "00148b09d55e958d256e200a4e5de6eecbf8dc0ae65b",
            ),
            (
                Chain::Signet,
                "tb1qxkhrl2s6ttrclckldruea0e8anhrehffl8xv7t0pdyrzm08v2hyqy408nf",
                "002035ae3faa1a5ac78fe2df68f99ebf27ecee3cdd29f9cccf2de169062dbcec55c8",
            ),
            (
                Chain::Signet,
                "tb1pae5um27ahn8n73pgexe3kcwlp8dhswpn684h2k2w6t9a7w3eq65qephd5y",
                "5120ee69cdabddbccf3f4428c9b31b61df09db783833d1eb75594ed2cbdf3a3906a8",
            ),
            (
                Chain::Signet,
                "tb1rx9n9g37az8mu236e5jpxdt0m67y4fuq8rhs0ss3djnm0kscfrwvq0ntlyg",
                "532031665447dd11f7c54759a48266adfbd78954f0071de0f8422d94f6fb43091b98",
            ),
            (
                Chain::Regtest,
                "bcrt1qdavt4j2sd7dlhqsavtnfxvzppw6k7qy97tmnu9",
                "00146f58bac9506f9bfb821d62e69330410bb56f0085",
            ),
            (
                Chain::Regtest,
                "bcrt1qan8gntac7z7me2ejt4hpru42ad2f759fmy0m3ejvs98656znv7eqga4uhv",
                "0020ecce89afb8f0bdbcab325d6e11f2aaeb549f50a9d91fb8e64c814faa685367b2",
            ),
            (
                Chain::Regtest,
                "bcrt1pfwxjqvtt4tcxrtdluukfmy2dv7xd2qzdfy6kajv5nwn4yam3wxkq3553uh",
                "51204b8d20316baaf061adbfe72c9d914d678cd5004d49356ec9949ba752777171ac",
            ),
            (
                Chain::Regtest,
                "bcrt1sx6p8njlx7h9mc2agz4yg82dzne23050ncq72cneeecez2pst8mahn8xecsf8g6hzx94420",
                "6028368279cbe6f5cbbc2ba8154883a9a29e5517d1f3c03cac4f39ce3225060b3efb799cd9c412746ae2",
            ),
        ] {
            let prefixes = Prefixes::of(chain);
            let bytes = hex::decode(script).unwrap();
            assert_eq!(prefixes.decode(address), Ok(bytes.clone()), "{address}");
            let shown = prefixes.address(&Payee::of(&bytes)).unwrap();
            let is_bech32 = address.to_ascii_lowercase().starts_with(prefixes.hrp);
            assert_eq!(shown, if is_bech32 { address.to_ascii_lowercase() } else { address.into() });
        }
    }

    /// From Core's functional tests rpc_validateaddress and rpc_invalid_address_message.
    #[test]
    fn errors_are_cores() {
        let long = "1".repeat(10_000);
        let unreadable = "Invalid or unsupported Segwit (Bech32) or Base58 encoding.";
        for (chain, address, why, places) in [
            (
                Chain::Main,
                "tc1qw508d6qejxtdg4y5r3zarvary0c5xw7kg3g4ty",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (Chain::Main, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", "Invalid Bech32 checksum", vec![41]),
            (
                Chain::Main,
                "BC13W508D6QEJXTDG4Y5R3ZARVARY0C5XW7KN40WF2",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (Chain::Main, "bc1rw5uspcuh", "Version 1+ witness address must use Bech32m checksum", vec![]),
            (
                Chain::Main,
                "bc10w508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kw5rljs90",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (
                Chain::Main,
                "BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P",
                "Invalid Bech32 v0 address program size (16 bytes), per BIP141",
                vec![],
            ),
            (
                Chain::Main,
                "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sL5k7",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (Chain::Main, "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3t4", "Invalid character or mixed case", vec![40]),
            (
                Chain::Main,
                "bc1zw508d6qejxtdg4y5r3zarvaryvqyzf3du",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (
                Chain::Main,
                "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3pjxtptv",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (Chain::Main, "bc1gmk9yu", "Empty Bech32 data section", vec![]),
            (
                Chain::Main,
                "tc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq5zuyut",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Main,
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (
                Chain::Main,
                "tb1z0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqglt7rf",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Main,
                "BC1S0XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ54WELL",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (
                Chain::Main,
                "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh",
                "Version 0 witness address must use Bech32 checksum",
                vec![],
            ),
            (
                Chain::Main,
                "tb1q0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq24jc47",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Main,
                "bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4",
                "Invalid Base 32 character",
                vec![59],
            ),
            (
                Chain::Main,
                "BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R",
                "Invalid Bech32 address witness version",
                vec![],
            ),
            (Chain::Main, "bc1pw5dgrnzv", "Invalid Bech32 address program size (1 byte)", vec![]),
            (
                Chain::Main,
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav253zgeav",
                "Invalid Bech32 address program size (41 bytes)",
                vec![],
            ),
            (
                Chain::Main,
                "tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vq47Zagq",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Main,
                "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf",
                "Invalid padding in Bech32 data section",
                vec![],
            ),
            (
                Chain::Main,
                "tb1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vpggkg4j",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt1s0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v8n0nx0muaewav25430mtr",
                "Invalid Bech32 address program size (41 bytes)",
                vec![],
            ),
            (
                Chain::Regtest,
                "bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7k7grplx",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqdmchcc",
                "Version 1+ witness address must use Bech32m checksum",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7k35mrzd",
                "Version 0 witness address must use Bech32 checksum",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt130xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqynjegk",
                "Invalid Bech32 address witness version",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kqqq5k3my",
                "Invalid Bech32 v0 address program size (21 bytes), per BIP141",
                vec![],
            ),
            (
                Chain::Regtest,
                "bcrt1q049edschfnwystcqnsvyfpj23mpsg3jcedq9xv049edschfnwystcqnsvyfpj23mpsg3jcedq9xv049edschfnwystcqnsvyfpj23m",
                "Bech32 string too long",
                (90..108).collect(),
            ),
            (Chain::Regtest, "bcrt1q049edschfnwystcqnsvyfpj23mpsg3jcedq9xv", "Invalid Bech32 checksum", vec![9]),
            (Chain::Regtest, "bcrt1qax9suht3qv95sw33xavx8crpxduefdrsvgsklu", "Invalid Bech32 checksum", vec![22, 43]),
            (Chain::Regtest, "BCRT1QPLMTZKC2XHARPPZDLNPAQL78RSHJ68U32RAH7R", "Invalid Bech32 checksum", vec![38]),
            (Chain::Regtest, "bcrtq049ldschfnwystcqnsvyfpj23mpsg3jcedq9xv", "Missing separator", vec![]),
            (Chain::Regtest, "bcrt1q04oldschfnwystcqnsvyfpj23mpsg3jcedq9xv", "Invalid Base 32 character", vec![8]),
            (
                Chain::Regtest,
                "bcrt1qdg3myrgvzw7ml8q0ejxhlkyxn7vl9r56yzkfgvzclrf4hkpx9yfqhpsuks",
                "Invalid Bech32 checksum",
                vec![19, 30],
            ),
            (Chain::Regtest, "bcrt1ptmp74ayg7p24uslctssvjm06q5phz4yrxucgnv", "Invalid Bech32 checksum", vec![5]),
            (
                Chain::Regtest,
                "17VZNX1SN5NtKa8UQFxwQbFeFc3iqRYhem",
                "Invalid or unsupported Base58-encoded address.",
                vec![],
            ),
            (
                Chain::Regtest,
                "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJJfn",
                "Invalid checksum or length of Base58 address (P2PKH or P2SH)",
                vec![],
            ),
            (
                Chain::Regtest,
                "2VKf7XKMrp4bVNVmuRbyCewkP8FhGLP2E54LHDPakr9Sq5mtU2",
                "Invalid checksum or length of Base58 address (P2PKH or P2SH)",
                vec![],
            ),
            (
                Chain::Regtest,
                "asfah14i8fajz0123f",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (
                Chain::Regtest,
                "1q049ldschfnwystcqnsvyfpj23mpsg3jcedq9xv",
                "Invalid or unsupported Segwit (Bech32) or Base58 encoding.",
                vec![],
            ),
            (Chain::Regtest, &long, unreadable, vec![]),
            (Chain::Regtest, "é", unreadable, vec![]),
            (Chain::Regtest, "", "Invalid checksum or length of Base58 address (P2PKH or P2SH)", vec![]),
        ] {
            let error = Prefixes::of(chain).decode(address).unwrap_err();
            assert_eq!((&error.why[..], error.places), (why, places), "{address}");
        }
    }
}
