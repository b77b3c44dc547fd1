//! Why a header or block is rejected: the rule, Core's reject string for it, and where it was broken.
//!
//! One variant a rule, in the order of Core's checks: the failure with the lowest [`Rank`] is the verdict of a block.
//! Absent on purpose: faults of the machine. A bad disk is never a verdict.

use primitives::{Amount, Hash256, Height, MedianTime, Txid};
use script::ScriptError;
use script::signet::SignetError;
use std::borrow::Cow;
use std::fmt;

mod text;

/// A broken rule, with the required and the actual value.
///
/// The order of the variants is the order of Core's checks (with its defaults: scripts are checked last).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// `duplicate-invalid`: the header is known and marked invalid.
    DuplicateInvalid,
    /// `high-hash`: see [`crate::header::check_proof_of_work`].
    HighHash {
        /// The target in compact form.
        bits: u32,
    },
    /// `prev-blk-not-found`: the parent is not known.
    PrevBlkNotFound,
    /// `bad-prevblk`: the parent is marked invalid.
    BadPrevblk,
    /// `bad-diffbits`: see [`crate::header::check_bits`].
    BadDiffbits {
        /// The header's bits.
        have: u32,
        /// The required bits.
        want: u32,
    },
    /// `time-too-old`: see [`crate::header::check_time_not_too_old`].
    TimeTooOld {
        /// Time of the header.
        time: u32,
        /// Median time past of its parent.
        median_time_past: MedianTime,
    },
    /// `time-timewarp-attack`: see [`crate::header::check_timewarp`] and [`crate::cleanup::check_timewarp`].
    TimeTimewarpAttack {
        /// Time of the header.
        time: u32,
        /// Time of its parent.
        parent_time: u32,
        /// Maximum number of seconds that it may be before its parent.
        most_s: i64,
    },
    /// `time-negative-interval`: see [`crate::cleanup::check_interval`].
    TimeNegativeInterval {
        /// Time of the header.
        time: u32,
        /// Time of the first block of the period.
        first_time: u32,
    },
    /// `time-too-new`: see [`crate::header::check_time_not_too_new`]. Never a permanent verdict.
    TimeTooNew {
        /// Time of the header.
        time: u32,
        /// The current time.
        now: i64,
    },
    /// `bad-version(0x%08x)`: see [`crate::header::check_version`].
    BadVersion {
        /// The header's version.
        have: i32,
        /// The minimum version at this height.
        want: i32,
    },
    /// `too-little-chainwork`: the chain of this header has less work than the minimum.
    TooLittleChainwork,
    /// `bad-signet-blksig`: see [`crate::block::check_signet_solution`].
    BadSignetBlksig {
        /// The error in the solution.
        why: SignetError,
    },
    /// `bad-txnmrklroot`: see [`crate::block::check_merkle_root`].
    BadTxnmrklroot {
        /// Root in the header.
        want: Hash256,
        /// Root of the transactions.
        have: Hash256,
    },
    /// `bad-txns-duplicate`: see [`crate::block::check_merkle_root`].
    BadTxnsDuplicate,
    /// A body without coinbase that has a 64-byte transaction: see [`crate::block::mutation`]. Core has no string for
    /// it.
    Mutated64,
    /// `bad-blk-length`: see [`crate::block::check_length`].
    BadBlkLength {
        /// Number of transactions.
        transactions: usize,
        /// Bytes without witnesses.
        stripped_bytes: usize,
    },
    /// `bad-cb-missing`: see [`crate::block::check_coinbases`].
    BadCbMissing,
    /// `bad-cb-multiple`: see [`crate::block::check_coinbases`].
    BadCbMultiple,
    /// `bad-txns-vin-empty`: see [`crate::transaction::check_not_empty`].
    BadTxnsVinEmpty,
    /// `bad-txns-vout-empty`: see [`crate::transaction::check_not_empty`].
    BadTxnsVoutEmpty,
    /// `bad-txns-oversize`: see [`crate::transaction::check_size`].
    BadTxnsOversize {
        /// Bytes without witnesses.
        stripped_bytes: usize,
    },
    /// `bad-txns-vout-negative`: see [`crate::transaction::value_out`].
    BadTxnsVoutNegative {
        /// Value of the output.
        value: Amount,
    },
    /// `bad-txns-vout-toolarge`: see [`crate::transaction::value_out`].
    BadTxnsVoutToolarge {
        /// Value of the output.
        value: Amount,
    },
    /// `bad-txns-txouttotal-toolarge`: see [`crate::transaction::value_out`].
    BadTxnsTxouttotalToolarge,
    /// `bad-txns-inputs-duplicate`: see [`crate::transaction::check_duplicate_inputs`].
    BadTxnsInputsDuplicate,
    /// `bad-cb-length`: see [`crate::transaction::check_coinbase_length`].
    BadCbLength {
        /// Bytes of the scriptSig.
        bytes: usize,
    },
    /// `bad-txns-prevout-null`: see [`crate::transaction::check_prevouts`].
    BadTxnsPrevoutNull,
    /// `bad-blk-sigops` before the coins are known: see [`crate::block::check_legacy_sigops`].
    BadBlkSigops {
        /// Signature operations of all scripts in the block, each counted once.
        sigops: u64,
    },
    /// `bad-txns-nonfinal` by its locktime: see [`crate::block::check_final`].
    BadTxnsNonfinal {
        /// Lock time of the transaction.
        lock_time: u32,
    },
    /// `bad-txns-size`: see [`crate::cleanup::check_sizes`].
    BadTxnsSize,
    /// `bad-cb-height`: see [`crate::block::check_coinbase_height`].
    BadCbHeight {
        /// Height of the block.
        want: Height,
    },
    /// `bad-cb-locktime`: see [`crate::cleanup::check_coinbase`].
    BadCbLocktime {
        /// The coinbase's lock time.
        have: u32,
        /// The height below the block's.
        want: u32,
    },
    /// `bad-cb-sequence`: see [`crate::cleanup::check_coinbase`].
    BadCbSequence,
    /// `bad-witness-nonce-size`: see [`crate::block::check_witness_commitment`].
    BadWitnessNonceSize,
    /// `bad-witness-merkle-match`: see [`crate::block::check_witness_commitment`].
    BadWitnessMerkleMatch,
    /// `unexpected-witness`: see [`crate::block::check_witness_commitment`].
    UnexpectedWitness,
    /// `bad-blk-weight`: see [`crate::block::check_weight`].
    BadBlkWeight {
        /// Weight of the block.
        weight: usize,
    },
    /// `bad-txns-BIP30`: see [`crate::bip30::check`].
    BadTxnsBip30,
    /// `bad-txns-inputs-missingorspent`: see [`crate::spend::check_available`].
    BadTxnsInputsMissingorspent,
    /// `bad-txns-legacy-sigops`: see [`crate::cleanup::add_sigops`].
    BadTxnsLegacySigops {
        /// The count up to and including the input that exceeds the limit.
        sigops: u32,
    },
    /// `bad-txns-premature-spend-of-coinbase`: see [`crate::spend::check_maturity`].
    BadTxnsPrematureSpendOfCoinbase {
        /// Blocks between the coinbase and its spend.
        depth: i64,
    },
    /// `bad-txns-inputvalues-outofrange`: see [`crate::spend::add_value_in`].
    BadTxnsInputvaluesOutofrange,
    /// `bad-txns-in-belowout`: see [`crate::spend::fee`].
    BadTxnsInBelowout {
        /// Sum of the spent coins.
        value_in: Amount,
        /// Sum of the outputs.
        value_out: Amount,
    },
    /// `bad-txns-fee-outofrange`: see [`crate::spend::fee`]. Cannot happen; Core has it too.
    BadTxnsFeeOutofrange,
    /// `bad-txns-accumulated-fee-outofrange`: see [`crate::spend::add_fee`].
    BadTxnsAccumulatedFeeOutofrange,
    /// `bad-txns-nonfinal` by a relative lock: see [`crate::spend::SequenceLocks::check`].
    BadTxnsNonfinalBip68,
    /// `bad-blk-sigops` once the coins are known: see [`crate::spend::add_sigop_cost`].
    BadBlkSigopCost {
        /// The cost of the block up to and including this transaction.
        cost: u64,
    },
    /// `bad-cb-amount`: see [`crate::spend::check_coinbase_value`].
    BadCbAmount {
        /// The value of the coinbase's outputs.
        actual: Amount,
        /// Subsidy and fees.
        limit: Amount,
    },
    /// `block-script-verify-flag-failed (...)`: a script rejects its input.
    BlockScriptVerifyFlagFailed {
        /// The script's error.
        error: ScriptError,
    },
}

/// The consequence of a failure. Source: Bitcoin Core b88bffe, `BlockValidationResult`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// The block breaks a rule: it and its descendants may be marked invalid.
    Consensus,
    /// The header breaks a rule: it never enters the index.
    InvalidHeader,
    /// The body is not the one of this header: another body may be valid. Never marked invalid.
    Mutated,
    /// The header's time is ahead of the clock: it may be valid later. Not a final verdict.
    TimeFuture,
    /// It is already known to be invalid.
    CachedInvalid,
    /// Its parent is known to be invalid.
    InvalidPrev,
    /// Its parent is unknown.
    MissingPrev,
    /// Its chain has too little work to be kept.
    HeaderLowWork,
}

/// The place in a block where a rule was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the block as a whole, or in its header.
    Block,
    /// In a transaction.
    Transaction {
        /// Its number in the block, from 0.
        index: u32,
        /// Its id.
        txid: Txid,
        /// Number of the input that broke the rule, if one did.
        input: Option<u32>,
    },
}

/// A verdict against a header or block (or, for time-too-new, the lack of one).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockError {
    /// The broken rule.
    pub rule: Rule,
    /// The place.
    pub place: Place,
}

/// The order of failures within one block: of several, Core reports the lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rank {
    step: u8,
    transaction: u32,
    rule: u8,
    input: u32,
}

impl From<Rule> for BlockError {
    fn from(rule: Rule) -> BlockError {
        BlockError { rule, place: Place::Block }
    }
}

impl BlockError {
    /// An error of a transaction.
    pub fn in_transaction(rule: Rule, index: usize, txid: Txid) -> BlockError {
        let index =
            u32::try_from(index).expect("a block has fewer transactions than bytes, and those are counted in 32 bits");
        BlockError { rule, place: Place::Transaction { index, txid, input: None } }
    }

    /// An error of an input.
    pub fn in_input(rule: Rule, index: usize, txid: Txid, input: usize) -> BlockError {
        let mut error = BlockError::in_transaction(rule, index, txid);
        if let Place::Transaction { input: place, .. } = &mut error.place {
            *place = u32::try_from(input).ok();
        }
        error
    }

    /// Core's reject string, as in its log and RPC.
    pub fn reject_reason(&self) -> Cow<'static, str> {
        self.rule.reject_reason()
    }

    /// The consequence.
    pub fn class(&self) -> Class {
        self.rule.class()
    }

    /// Whether only this body is invalid and the header may have another: such a failure never marks the header.
    pub fn mutated(&self) -> bool {
        self.class() == Class::Mutated
    }

    /// Its place in the order of Core's checks of one block.
    pub fn rank(&self) -> Rank {
        let (transaction, input) = match self.place {
            Place::Block => (0, 0),
            Place::Transaction { index, input, .. } => (index, input.unwrap_or(0)),
        };
        let (step, rule) = self.rule.step();
        Rank { step, transaction, rule, input }
    }

    /// The failure that Core would report, of two in one block.
    pub fn first(self, other: BlockError) -> BlockError {
        if other.rank() < self.rank() { other } else { self }
    }
}

impl fmt::Display for BlockError {
    /// Core's form, "reason, debug message", followed by the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.reject_reason())?;
        match (self.place, self.rule) {
            // Source: Bitcoin Core b88bffe, `CScriptCheck::operator()`, which also prints the wtxid and the coin.
            (Place::Transaction { index, txid, input: Some(input) }, Rule::BlockScriptVerifyFlagFailed { .. }) => {
                write!(f, "input {input} of {txid} (number {index})")
            }
            (Place::Block, rule) => write!(f, "{rule}"),
            (Place::Transaction { index, txid, input: None }, rule) => {
                write!(f, "{rule} in transaction {txid} (number {index})")
            }
            (Place::Transaction { index, txid, input: Some(input) }, rule) => {
                write!(f, "{rule} in transaction {txid} (number {index}, input {input})")
            }
        }
    }
}

impl std::error::Error for BlockError {}

impl Rule {
    /// Core's reject string.
    pub fn reject_reason(&self) -> Cow<'static, str> {
        Cow::Borrowed(match *self {
            Rule::BadVersion { have, .. } => return Cow::Owned(format!("bad-version(0x{have:08x})")),
            Rule::BlockScriptVerifyFlagFailed { error } => {
                return Cow::Owned(format!("block-script-verify-flag-failed ({error})"));
            }
            Rule::DuplicateInvalid => "duplicate-invalid",
            Rule::HighHash { .. } => "high-hash",
            Rule::PrevBlkNotFound => "prev-blk-not-found",
            Rule::BadPrevblk => "bad-prevblk",
            Rule::BadDiffbits { .. } => "bad-diffbits",
            Rule::TimeTooOld { .. } => "time-too-old",
            Rule::TimeTimewarpAttack { .. } => "time-timewarp-attack",
            Rule::TimeNegativeInterval { .. } => "time-negative-interval",
            Rule::TimeTooNew { .. } => "time-too-new",
            Rule::TooLittleChainwork => "too-little-chainwork",
            Rule::BadSignetBlksig { .. } => "bad-signet-blksig",
            Rule::BadTxnmrklroot { .. } => "bad-txnmrklroot",
            Rule::BadTxnsDuplicate => "bad-txns-duplicate",
            Rule::Mutated64 => "mutated",
            Rule::BadBlkLength { .. } => "bad-blk-length",
            Rule::BadCbMissing => "bad-cb-missing",
            Rule::BadCbMultiple => "bad-cb-multiple",
            Rule::BadTxnsVinEmpty => "bad-txns-vin-empty",
            Rule::BadTxnsVoutEmpty => "bad-txns-vout-empty",
            Rule::BadTxnsOversize { .. } => "bad-txns-oversize",
            Rule::BadTxnsVoutNegative { .. } => "bad-txns-vout-negative",
            Rule::BadTxnsVoutToolarge { .. } => "bad-txns-vout-toolarge",
            Rule::BadTxnsTxouttotalToolarge => "bad-txns-txouttotal-toolarge",
            Rule::BadTxnsInputsDuplicate => "bad-txns-inputs-duplicate",
            Rule::BadCbLength { .. } => "bad-cb-length",
            Rule::BadTxnsPrevoutNull => "bad-txns-prevout-null",
            Rule::BadBlkSigops { .. } | Rule::BadBlkSigopCost { .. } => "bad-blk-sigops",
            Rule::BadTxnsNonfinal { .. } | Rule::BadTxnsNonfinalBip68 => "bad-txns-nonfinal",
            Rule::BadTxnsSize => "bad-txns-size",
            Rule::BadCbHeight { .. } => "bad-cb-height",
            Rule::BadCbLocktime { .. } => "bad-cb-locktime",
            Rule::BadCbSequence => "bad-cb-sequence",
            Rule::BadWitnessNonceSize => "bad-witness-nonce-size",
            Rule::BadWitnessMerkleMatch => "bad-witness-merkle-match",
            Rule::UnexpectedWitness => "unexpected-witness",
            Rule::BadBlkWeight { .. } => "bad-blk-weight",
            Rule::BadTxnsBip30 => "bad-txns-BIP30",
            Rule::BadTxnsInputsMissingorspent => "bad-txns-inputs-missingorspent",
            Rule::BadTxnsLegacySigops { .. } => "bad-txns-legacy-sigops",
            Rule::BadTxnsPrematureSpendOfCoinbase { .. } => "bad-txns-premature-spend-of-coinbase",
            Rule::BadTxnsInputvaluesOutofrange => "bad-txns-inputvalues-outofrange",
            Rule::BadTxnsInBelowout { .. } => "bad-txns-in-belowout",
            Rule::BadTxnsFeeOutofrange => "bad-txns-fee-outofrange",
            Rule::BadTxnsAccumulatedFeeOutofrange => "bad-txns-accumulated-fee-outofrange",
            Rule::BadCbAmount { .. } => "bad-cb-amount",
        })
    }

    /// The consequence of breaking it.
    pub fn class(&self) -> Class {
        match self {
            Rule::DuplicateInvalid => Class::CachedInvalid,
            Rule::PrevBlkNotFound => Class::MissingPrev,
            Rule::BadPrevblk => Class::InvalidPrev,
            Rule::TooLittleChainwork => Class::HeaderLowWork,
            Rule::TimeTooNew { .. } => Class::TimeFuture,
            Rule::HighHash { .. }
            | Rule::BadDiffbits { .. }
            | Rule::TimeTooOld { .. }
            | Rule::TimeTimewarpAttack { .. }
            | Rule::TimeNegativeInterval { .. }
            | Rule::BadVersion { .. } => Class::InvalidHeader,
            Rule::BadTxnmrklroot { .. }
            | Rule::BadTxnsDuplicate
            | Rule::Mutated64
            | Rule::BadWitnessNonceSize
            | Rule::BadWitnessMerkleMatch
            | Rule::UnexpectedWitness => Class::Mutated,
            _ => Class::Consensus,
        }
    }

    /// The number of Core's pass over the block that checks it, and its number within one transaction of that pass.
    ///
    /// Rules of one pass over all transactions have the same step: there the lower transaction is reported first.
    fn step(&self) -> (u8, u8) {
        match self {
            Rule::DuplicateInvalid => (0, 0),
            Rule::HighHash { .. } => (1, 0),
            Rule::PrevBlkNotFound => (2, 0),
            Rule::BadPrevblk => (3, 0),
            Rule::BadDiffbits { .. } => (4, 0),
            Rule::TimeTooOld { .. } => (5, 0),
            Rule::TimeTimewarpAttack { .. } => (6, 0),
            Rule::TimeNegativeInterval { .. } => (7, 0),
            Rule::TimeTooNew { .. } => (8, 0),
            Rule::BadVersion { .. } => (9, 0),
            Rule::TooLittleChainwork => (10, 0),
            Rule::BadSignetBlksig { .. } => (11, 0),
            Rule::BadTxnmrklroot { .. } => (12, 0),
            Rule::BadTxnsDuplicate => (13, 0),
            Rule::Mutated64 => (14, 0),
            Rule::BadBlkLength { .. } => (15, 0),
            Rule::BadCbMissing => (16, 0),
            Rule::BadCbMultiple => (17, 0),
            Rule::BadTxnsVinEmpty
            | Rule::BadTxnsVoutEmpty
            | Rule::BadTxnsOversize { .. }
            | Rule::BadTxnsVoutNegative { .. }
            | Rule::BadTxnsVoutToolarge { .. }
            | Rule::BadTxnsTxouttotalToolarge
            | Rule::BadTxnsInputsDuplicate
            | Rule::BadCbLength { .. }
            | Rule::BadTxnsPrevoutNull => (18, self.within_transaction()),
            Rule::BadBlkSigops { .. } => (19, 0),
            Rule::BadTxnsNonfinal { .. } => (20, 0),
            Rule::BadTxnsSize => (21, 0),
            Rule::BadCbHeight { .. } => (22, 0),
            Rule::BadCbLocktime { .. } => (23, 0),
            Rule::BadCbSequence => (24, 0),
            Rule::BadWitnessNonceSize => (25, 0),
            Rule::BadWitnessMerkleMatch => (26, 0),
            Rule::UnexpectedWitness => (27, 0),
            Rule::BadBlkWeight { .. } => (28, 0),
            Rule::BadTxnsBip30 => (29, 0),
            Rule::BadTxnsInputsMissingorspent
            | Rule::BadTxnsLegacySigops { .. }
            | Rule::BadTxnsPrematureSpendOfCoinbase { .. }
            | Rule::BadTxnsInputvaluesOutofrange
            | Rule::BadTxnsInBelowout { .. }
            | Rule::BadTxnsFeeOutofrange
            | Rule::BadTxnsAccumulatedFeeOutofrange
            | Rule::BadTxnsNonfinalBip68
            | Rule::BadBlkSigopCost { .. } => (30, self.within_transaction()),
            Rule::BadCbAmount { .. } => (31, 0),
            Rule::BlockScriptVerifyFlagFailed { .. } => (32, 0),
        }
    }

    fn within_transaction(&self) -> u8 {
        match self {
            Rule::BadTxnsVoutEmpty => 1,
            Rule::BadTxnsOversize { .. } => 2,
            Rule::BadTxnsVoutNegative { .. } | Rule::BadTxnsVoutToolarge { .. } | Rule::BadTxnsTxouttotalToolarge => 3,
            Rule::BadTxnsInputsDuplicate => 4,
            Rule::BadCbLength { .. } | Rule::BadTxnsPrevoutNull => 5,
            Rule::BadTxnsLegacySigops { .. } => 1,
            // One loop over the inputs makes both checks.
            Rule::BadTxnsPrematureSpendOfCoinbase { .. } | Rule::BadTxnsInputvaluesOutofrange => 2,
            Rule::BadTxnsInBelowout { .. } => 3,
            Rule::BadTxnsFeeOutofrange => 4,
            Rule::BadTxnsAccumulatedFeeOutofrange => 5,
            Rule::BadTxnsNonfinalBip68 => 6,
            Rule::BadBlkSigopCost { .. } => 7,
            _ => 0,
        }
    }
}
