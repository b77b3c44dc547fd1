//! Verification of an input's scripts, and types of scripts.

use crate::ids::BlockHash;
use crate::network::Network;
use primitives::{Amount, Height, Tables};
use script::{Flags, Immediate, Precomputed, Scratch};
use std::error;
use std::fmt;
use std::ops::BitOr;
use std::str::FromStr;

/// The output that an input spends, for [`verify_script`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpentOutput<'a> {
    value: i64,
    script: &'a [u8],
}

impl<'a> SpentOutput<'a> {
    /// An output of `value` satoshi with this script.
    pub fn new(value: i64, script: &'a [u8]) -> SpentOutput<'a> {
        SpentOutput { value, script }
    }
}

/// Checks that the scripts of input number `input` of a transaction accept it: Core's `VerifyScript`.
///
/// `spent` are the outputs that all inputs of the transaction spend, in order: a taproot signature covers all of them.
///
/// ```
/// use ffwd_engine::{ScriptError, ScriptFlags, SpentOutput, verify_script};
///
/// # fn bytes(text: &str) -> Vec<u8> { (0..text.len() / 2).map(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap()).collect() }
/// // The signed transaction of BIP-0143, "P2SH-P2WPKH".
/// let tx = bytes("01000000000101db6b1b20aa0fd7b23880be2ecbd4a98130974cf4748fb66092ac4d3ceb1a5477010000001716001479091972186c449eb1ded22b78e40d009bdf0089feffffff02b8b4eb0b000000001976a914a457b684d7f0d539a46a45bbc043f35b59d0d96388ac0008af2f000000001976a914fd270b1ee6abcaea97fea7ad0402e8bd8ad6d77c88ac02473044022047ac8e878352d3ebbde1c94ce3a10d057c24175747116f8288e5d794d12d482f0220217f36a485cae903c713331d877c1f64677e3622ad4010726870540656fe9dcb012103ad1d8e89212f0b92c74d23bb710c00662ad1470198ac48c43f7d6f93a2a2687392040000");
/// let script = bytes("a9144733f37cf4db86fbc2efed2500b4f4e49f31202387");
///
/// verify_script(&tx, 0, &[SpentOutput::new(1_000_000_000, &script)], ScriptFlags::CONSENSUS)?;
///
/// // The signature commits to the amount.
/// let why = verify_script(&tx, 0, &[SpentOutput::new(999_999_999, &script)], ScriptFlags::CONSENSUS).unwrap_err();
/// assert!(matches!(why, ScriptError::Failed { name: "EVAL_FALSE", .. }), "{why}");
/// # Ok::<(), ScriptError>(())
/// ```
///
/// # Errors
///
/// [`ScriptError::Failed`] with Core's reason; another variant if the arguments are inconsistent.
///
/// Source: Bitcoin Core b88bffe, script/interpreter.cpp, `VerifyScript`.
pub fn verify_script(
    tx: &[u8],
    input: usize,
    spent: &[SpentOutput<'_>],
    flags: ScriptFlags,
) -> Result<(), ScriptError> {
    if !flags.0.is_consistent() {
        return Err(ScriptError::Flags);
    }
    let mut tables = Tables::new();
    let parsed = tables.parse_transaction(tx).map_err(|why| ScriptError::Transaction(why.to_string()))?;
    if parsed.bytes().len() != tx.len() {
        let rest = tx.len() - parsed.bytes().len();
        return Err(ScriptError::Transaction(format!("{rest} bytes follow it")));
    }
    let inputs = parsed.input_count();
    if spent.len() != inputs {
        return Err(ScriptError::SpentOutputs { inputs, spent: spent.len() });
    }
    if input >= inputs {
        return Err(ScriptError::Input { inputs, input });
    }
    let coins: Vec<script::SpentOutput<'_>> =
        spent.iter().map(|spent| script::SpentOutput { value: Amount(spent.value), script: spent.script }).collect();
    let verified =
        script::verify(&Precomputed::new(parsed, &coins), input, flags.0, &mut Immediate, &mut Scratch::new());
    verified.map_err(|why| ScriptError::Failed { name: why.name(), text: why.text() })
}

/// Why [`verify_script`] failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScriptError {
    /// The scripts reject the input.
    #[non_exhaustive]
    Failed {
        /// Core's name of the reason, without `SCRIPT_ERR_`: `EVAL_FALSE`.
        name: &'static str,
        /// Core's text of it.
        text: &'static str,
    },
    /// The bytes are not a valid transaction: the reason.
    Transaction(String),
    /// The number of spent outputs differs from the number of inputs.
    #[non_exhaustive]
    SpentOutputs {
        /// Inputs of the transaction.
        inputs: usize,
        /// Number of spent outputs in the arguments.
        spent: usize,
    },
    /// The transaction has no input with this number.
    #[non_exhaustive]
    Input {
        /// Inputs of the transaction.
        inputs: usize,
        /// The number in the arguments.
        input: usize,
    },
    /// A flag lacks another that it requires: WITNESS needs P2SH.
    Flags,
    /// The text contains an unknown flag.
    UnknownFlags(String),
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScriptError::Failed { name, text } => write!(f, "{text} ({name})"),
            ScriptError::Transaction(why) => write!(f, "the transaction does not deserialize: {why}"),
            ScriptError::SpentOutputs { inputs, spent } => {
                write!(f, "{spent} spent outputs for {inputs} inputs: give one for each input")
            }
            ScriptError::Input { inputs, input } => {
                write!(f, "there is no input {input}: the transaction has {inputs}")
            }
            ScriptError::UnknownFlags(text) => {
                write!(f, "{text:?} names no flags: use those of ScriptFlags, with commas between")
            }
            ScriptError::Flags => f.write_str("the flags do not go together: WITNESS needs P2SH"),
        }
    }
}

impl error::Error for ScriptError {}

/// Script verification rules: the consensus flags of Core's `SCRIPT_VERIFY_*`.
///
/// ```
/// use ffwd_engine::{Network, ScriptFlags};
///
/// let flags: ScriptFlags = "P2SH,DERSIG".parse()?;
/// assert_eq!(flags, ScriptFlags::P2SH | ScriptFlags::DERSIG);
/// # Ok::<(), ffwd_engine::ScriptError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScriptFlags(Flags);

impl ScriptFlags {
    /// Only the rules of the first version of Bitcoin.
    pub const NONE: ScriptFlags = ScriptFlags(Flags::NONE);
    /// Executes P2SH redeem scripts. Source: BIP-0016.
    pub const P2SH: ScriptFlags = ScriptFlags(Flags::P2SH);
    /// Requires strict DER signatures. Source: BIP-0066.
    pub const DERSIG: ScriptFlags = ScriptFlags(Flags::DERSIG);
    /// Requires the extra element of CHECKMULTISIG to be empty. Source: BIP-0147.
    pub const NULLDUMMY: ScriptFlags = ScriptFlags(Flags::NULLDUMMY);
    /// Enables CHECKLOCKTIMEVERIFY. Source: BIP-0065.
    pub const CHECKLOCKTIMEVERIFY: ScriptFlags = ScriptFlags(Flags::CHECKLOCKTIMEVERIFY);
    /// Enables CHECKSEQUENCEVERIFY. Source: BIP-0112.
    pub const CHECKSEQUENCEVERIFY: ScriptFlags = ScriptFlags(Flags::CHECKSEQUENCEVERIFY);
    /// Executes witness programs. Needs [`ScriptFlags::P2SH`]. Source: BIP-0141.
    pub const WITNESS: ScriptFlags = ScriptFlags(Flags::WITNESS);
    /// Executes taproot programs. Source: BIP-0341, BIP-0342.
    pub const TAPROOT: ScriptFlags = ScriptFlags(Flags::TAPROOT);
    /// All of these: the rules of current blocks.
    pub const CONSENSUS: ScriptFlags = ScriptFlags(Flags::CONSENSUS);

    /// The rules for the scripts of a block.
    ///
    /// Source: Bitcoin Core b88bffe, validation.cpp, `GetBlockScriptFlags`.
    pub fn of_block(network: Network, height: u32, hash: &BlockHash) -> ScriptFlags {
        ScriptFlags(consensus::flags::of_block(&network.params(), Height::new(height), &hash.inner()))
    }
}

impl BitOr for ScriptFlags {
    type Output = ScriptFlags;

    fn bitor(self, other: ScriptFlags) -> ScriptFlags {
        ScriptFlags(self.0 | other.0)
    }
}

impl fmt::Debug for ScriptFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for ScriptFlags {
    type Err = ScriptError;

    /// Parses names of flags, without `SCRIPT_VERIFY_` and separated by commas; `NONE` and `CONSENSUS` are also
    /// accepted.
    fn from_str(text: &str) -> Result<ScriptFlags, ScriptError> {
        let flag = |name: &str| match name {
            "NONE" => Some(Flags::NONE),
            "CONSENSUS" => Some(Flags::CONSENSUS),
            name => Flags::from_name(name).filter(|flag| Flags::CONSENSUS.has(*flag)),
        };
        let mut flags = text.split(',').map(|name| flag(name.trim()));
        let all = flags.try_fold(Flags::NONE, |all, flag| Some(all | flag?));
        all.map(ScriptFlags).ok_or(ScriptError::UnknownFlags(text.chars().take(80).collect()))
    }
}

/// The type of an output script, named as in Core's RPCs.
///
/// Source: Bitcoin Core b88bffe, script/solver.cpp, `Solver`, `GetTxnOutputType`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum ScriptType {
    /// `pubkey`: a public key, compressed or not.
    PubKey,
    /// `pubkeyhash`: the hash of a public key.
    PubKeyHash,
    /// `scripthash`: the hash of a redeem script. Source: BIP-0016.
    ScriptHash,
    /// `multisig`: m of n public keys.
    Multisig,
    /// `witness_v0_keyhash`. Source: BIP-0141.
    WitnessV0KeyHash,
    /// `witness_v0_scripthash`. Source: BIP-0141.
    WitnessV0ScriptHash,
    /// `witness_v1_taproot`. Source: BIP-0341.
    WitnessV1Taproot,
    /// `anchor`: pay to anchor.
    Anchor,
    /// `witness_unknown`: any other witness program.
    WitnessUnknown,
    /// `nulldata`: OP_RETURN data, never in the UTXO set.
    NullData,
    /// `nonstandard`: everything else.
    NonStandard,
}

impl ScriptType {
    /// Returns the type of a script.
    ///
    /// ```
    /// use ffwd_engine::ScriptType;
    ///
    /// assert_eq!(ScriptType::of(&[0x51, 0x02, 0x4e, 0x73]).name(), "anchor");
    /// ```
    pub fn of(script: &[u8]) -> ScriptType {
        use primitives::script_type::ScriptType as Known;
        match Known::of_script(script) {
            Known::PubKey => ScriptType::PubKey,
            Known::PubKeyHash => ScriptType::PubKeyHash,
            Known::ScriptHash => ScriptType::ScriptHash,
            Known::Multisig => ScriptType::Multisig,
            Known::WitnessV0KeyHash => ScriptType::WitnessV0KeyHash,
            Known::WitnessV0ScriptHash => ScriptType::WitnessV0ScriptHash,
            Known::WitnessV1Taproot => ScriptType::WitnessV1Taproot,
            Known::Anchor => ScriptType::Anchor,
            Known::WitnessUnknown => ScriptType::WitnessUnknown,
            Known::NullData => ScriptType::NullData,
            Known::NonStandard => ScriptType::NonStandard,
        }
    }

    /// Core's name.
    pub fn name(self) -> &'static str {
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
}

impl fmt::Display for ScriptType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_types_have_the_names_of_the_engine() {
        for (script, want) in [
            (&[0x51, 2, 0x4e, 0x73][..], ScriptType::Anchor),
            (&[0x6a, 1, 7], ScriptType::NullData),
            (&[0x52, 2, 1, 2], ScriptType::WitnessUnknown),
            (&[], ScriptType::NonStandard),
        ] {
            assert_eq!(ScriptType::of(script), want);
        }
        let programs = [
            (&[0, 20][..], 20, "witness_v0_keyhash"),
            (&[0, 32], 32, "witness_v0_scripthash"),
            (&[0x51, 32], 32, "witness_v1_taproot"),
        ];
        for (head, bytes, want) in programs {
            let script = [head, &vec![7; bytes]].concat();
            assert_eq!(ScriptType::of(&script).to_string(), want);
            assert_eq!(primitives::script_type::ScriptType::of_script(&script).name(), want);
        }
    }

    #[test]
    fn flags_have_names_and_heights() {
        let all = ["P2SH", "DERSIG", "NULLDUMMY", "CHECKLOCKTIMEVERIFY", "CHECKSEQUENCEVERIFY", "WITNESS", "TAPROOT"];
        assert_eq!(all.join(", ").parse(), Ok(ScriptFlags::CONSENSUS));
        assert_eq!("NONE,P2SH".parse(), Ok(ScriptFlags::P2SH));
        for bad in ["", "p2sh", "P2SH,", "CLEANSTACK", "WITNESS;P2SH"] {
            let why = bad.parse::<ScriptFlags>().unwrap_err();
            assert_eq!(why, ScriptError::UnknownFlags(bad.to_owned()));
        }
        let hash = BlockHash::from_bytes([0; 32]);
        let early = ScriptFlags::of_block(Network::Main, 1, &hash);
        assert_eq!(early, ScriptFlags::P2SH | ScriptFlags::WITNESS | ScriptFlags::TAPROOT);
        assert_eq!(ScriptFlags::of_block(Network::Main, 900_000, &hash), ScriptFlags::CONSENSUS);
        assert_eq!(format!("{early:?}"), "P2SH,WITNESS,TAPROOT");
    }

    #[test]
    fn arguments_that_do_not_fit_are_told_apart() {
        // One input, one output, no witness.
        let tx = [&[2, 0, 0, 0, 1][..], &[9; 36], &[0, 255, 255, 255, 255, 1], &[0; 8], &[0], &[0; 4]].concat();
        let one = [SpentOutput::new(5, &[0x51])];
        assert_eq!(verify_script(&tx, 0, &one, ScriptFlags::CONSENSUS), Ok(()));
        for (row, verdict, want) in [
            ("false", verify_script(&tx, 0, &[SpentOutput::new(5, &[0])], ScriptFlags::NONE), "(EVAL_FALSE)"),
            ("cut", verify_script(&tx[..tx.len() - 1], 0, &one, ScriptFlags::NONE), "does not deserialize"),
            ("longer", verify_script(&[&tx[..], &[0]].concat(), 0, &one, ScriptFlags::NONE), "1 bytes follow it"),
            ("no output", verify_script(&tx, 0, &[], ScriptFlags::NONE), "0 spent outputs for 1 inputs"),
            ("no input", verify_script(&tx, 1, &one, ScriptFlags::NONE), "there is no input 1: the transaction has 1"),
            ("flags", verify_script(&tx, 0, &one, ScriptFlags::WITNESS), "WITNESS needs P2SH"),
        ] {
            let why = verdict.unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        for end in 0..tx.len() {
            assert!(verify_script(&tx[..end], 0, &one, ScriptFlags::CONSENSUS).is_err(), "{end}");
        }
    }
}
