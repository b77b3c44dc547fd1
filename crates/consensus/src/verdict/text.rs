//! The texts of verdicts: Core's debug message if there is one, and the values.

use super::Rule;
use primitives::Amount;
use std::fmt;

impl fmt::Display for Rule {
    /// The required and the actual value, or Core's debug message if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::DuplicateInvalid => f.write_str("block was previously marked invalid"),
            Rule::HighHash { bits } => {
                write!(
                    f,
                    "proof of work failed: the hash does not meet bits {bits:08x}, or no block of this chain may have them"
                )
            }
            Rule::PrevBlkNotFound => f.write_str("its parent is not known"),
            Rule::BadPrevblk => f.write_str("its parent is invalid"),
            Rule::BadDiffbits { have, want } => {
                write!(f, "incorrect proof of work: bits are {have:08x}, the chain requires {want:08x}")
            }
            Rule::TimeTooOld { time, median_time_past } => write!(
                f,
                "block's timestamp is too early: {time} is not above its parent's median time past, {median_time_past}"
            ),
            Rule::TimeTimewarpAttack { time, parent_time, most_s } => write!(
                f,
                "block's timestamp is too early on diff adjustment block: {time} is more than {most_s} s before its parent's {parent_time}"
            ),
            Rule::TimeNegativeInterval { time, first_time } => write!(
                f,
                "block's timestamp is too early on the last block of a difficulty period: {time} is before the {first_time} of the period's first block"
            ),
            Rule::TimeTooNew { time, now } => write!(
                f,
                "block timestamp too far in the future: it says {time}, this machine's clock {now}, two hours ahead are allowed: is the clock right?"
            ),
            Rule::BadVersion { have, want } => {
                write!(f, "rejected nVersion=0x{have:08x} block: at least {want} is required at its height")
            }
            Rule::TooLittleChainwork => f.write_str("its chain has less work than is asked for"),
            Rule::BadSignetBlksig { why } => write!(f, "signet block signature validation failure: {why}"),
            Rule::BadTxnmrklroot { want, have } => {
                write!(f, "hashMerkleRoot mismatch: the header says {want}, the transactions give {have}")
            }
            Rule::BadTxnsDuplicate => f.write_str("duplicate transaction"),
            Rule::Mutated64 => {
                f.write_str("no coinbase, and a transaction of 64 bytes that may be a node of the merkle tree")
            }
            Rule::BadBlkLength { transactions, stripped_bytes } => write!(
                f,
                "size limits failed: {transactions} transactions in {stripped_bytes} bytes without witnesses, 1 to 1000000 in 1000000 are allowed"
            ),
            Rule::BadCbMissing => f.write_str("first tx is not coinbase"),
            Rule::BadCbMultiple => f.write_str("more than one coinbase"),
            _ => self.fmt_transaction(f),
        }
    }
}

impl Rule {
    fn fmt_transaction(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rule::BadTxnsVinEmpty => f.write_str("no inputs"),
            Rule::BadTxnsVoutEmpty => f.write_str("no outputs"),
            Rule::BadTxnsOversize { stripped_bytes } => {
                write!(f, "{stripped_bytes} bytes without witnesses, 1000000 are allowed")
            }
            Rule::BadTxnsVoutNegative { value } => write!(f, "an output of {} satoshi", value.0),
            Rule::BadTxnsVoutToolarge { value } => {
                write!(f, "an output of {}, {} are allowed", Money(value), Money(Amount::MAX))
            }
            Rule::BadTxnsTxouttotalToolarge => write!(f, "outputs above {} together", Money(Amount::MAX)),
            Rule::BadTxnsInputsDuplicate => f.write_str("two inputs spend the same coin"),
            Rule::BadCbLength { bytes } => write!(f, "a coinbase script of {bytes} bytes, 2 to 100 are allowed"),
            Rule::BadTxnsPrevoutNull => f.write_str("an input that names no coin"),
            Rule::BadBlkSigops { sigops } => {
                write!(f, "out-of-bounds SigOpCount: {sigops} legacy ones, 20000 are allowed")
            }
            Rule::BadTxnsNonfinal { lock_time } => write!(f, "non-final transaction: its locktime is {lock_time}"),
            Rule::BadTxnsSize => f.write_str("64 bytes without witnesses, as a node of the merkle tree has"),
            Rule::BadCbLocktime { have, want } => {
                write!(f, "the coinbase's locktime is {have}, expected {want}, the height below the block's")
            }
            Rule::BadCbSequence => f.write_str("the sequence of the coinbase makes its locktime void"),
            Rule::BadCbHeight { want } => write!(f, "block height mismatch in coinbase: it must start with {want}"),
            Rule::BadWitnessNonceSize => {
                f.write_str("invalid witness reserved value size: expected one item of 32 bytes")
            }
            Rule::BadWitnessMerkleMatch => f.write_str("witness merkle commitment mismatch"),
            Rule::UnexpectedWitness => f.write_str("unexpected witness data found"),
            Rule::BadBlkWeight { weight } => write!(f, "weight limit failed: {weight}, 4000000 are allowed"),
            Rule::BadTxnsBip30 => f.write_str("tried to overwrite transaction"),
            Rule::BadTxnsInputsMissingorspent => f.write_str("CheckTxInputs: inputs missing/spent"),
            Rule::BadTxnsLegacySigops { sigops } => {
                write!(f, "{sigops} legacy signature operations up to this input, 2500 are allowed")
            }
            Rule::BadTxnsPrematureSpendOfCoinbase { depth } => {
                write!(f, "tried to spend coinbase at depth {depth}")
            }
            Rule::BadTxnsInputvaluesOutofrange => write!(f, "inputs above {} together", Money(Amount::MAX)),
            Rule::BadTxnsInBelowout { value_in, value_out } => {
                write!(f, "value in ({}) < value out ({})", Money(value_in), Money(value_out))
            }
            Rule::BadTxnsFeeOutofrange => f.write_str("the fee is out of range"),
            Rule::BadTxnsAccumulatedFeeOutofrange => f.write_str("accumulated fee in the block out of range"),
            Rule::BadTxnsNonfinalBip68 => f.write_str("contains a non-BIP68-final transaction"),
            Rule::BadBlkSigopCost { cost } => write!(f, "too many sigops: they cost {cost}, 80000 are allowed"),
            Rule::BadCbAmount { actual, limit } => {
                write!(f, "coinbase pays too much (actual={} vs limit={})", actual.0, limit.0)
            }
            Rule::BlockScriptVerifyFlagFailed { error } => write!(f, "script: {error}"),
            // The texts of the others are above.
            _ => f.write_str(&self.reject_reason()),
        }
    }
}

/// Bitcoins with at least two decimals. Source: Bitcoin Core b88bffe, `FormatMoney`.
struct Money(Amount);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let satoshis = self.0.0.unsigned_abs();
        let sign = if self.0.0 < 0 { "-" } else { "" };
        let whole = satoshis / 100_000_000;
        let mut part = satoshis % 100_000_000;
        let mut digits = 8;
        while digits > 2 && part.is_multiple_of(10) {
            part /= 10;
            digits -= 1;
        }
        write!(f, "{sign}{whole}.{part:0digits$}")
    }
}
