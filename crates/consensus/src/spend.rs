//! The rules of spending: what a transaction's inputs are worth, when they may be spent, and what the block takes.
//!
//! [`BlockSpend`] goes through a block transaction by transaction, in order; each input's coin is asked for once.
//! Absent on purpose: looking coins up (a coin that is not there is `None`), and running scripts, which speak last.

use crate::flags;
use crate::params::Params;
use crate::transaction::value_out;
use crate::verdict::{BlockError, Rule};
use crate::{COINBASE_MATURITY, MAX_BLOCK_SIGOPS_COST, WITNESS_SCALE_FACTOR};
use primitives::{Amount, Hash256, Height, Input, Transaction};
use script::{Flags, sigops};

/// An input with this bit has no relative lock. Source: BIP-0068.
const SEQUENCE_LOCKTIME_DISABLE_FLAG: u32 = 1 << 31;
/// An input with this bit is locked for a time, else for a number of blocks. Source: BIP-0068.
const SEQUENCE_LOCKTIME_TYPE_FLAG: u32 = 1 << 22;
/// The bits that say for how long. Source: BIP-0068.
const SEQUENCE_LOCKTIME_MASK: u32 = 0xffff;
/// Times are in units of 2^9 seconds. Source: BIP-0068.
const SEQUENCE_LOCKTIME_GRANULARITY: u32 = 9;
/// Lowest transaction version with relative locks.
const SEQUENCE_LOCK_VERSION: u32 = 2;
/// The subsidy of the first blocks.
const FIRST_SUBSIDY: Amount = Amount(50 * Amount::COIN.0);

/// A coin that an input spends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpentCoin<'a> {
    /// Height of the block that made it; the spending block's own, when that made it.
    pub height: Height,
    /// Whether a coinbase made it.
    pub coinbase: bool,
    /// What it is worth.
    pub value: Amount,
    /// Its script. Here only P2SH and witness programs matter: for any other script an empty slice does as well.
    pub script: &'a [u8],
}

/// Every coin that a transaction spends MUST be there: `bad-txns-inputs-missingorspent`.
#[inline]
pub fn check_available<'a>(coin: Option<SpentCoin<'a>>) -> Result<SpentCoin<'a>, Rule> {
    coin.ok_or(Rule::BadTxnsInputsMissingorspent)
}

/// The coins of a coinbase MUST NOT be spent before 100 blocks lie on top: `bad-txns-premature-spend-of-coinbase`.
#[inline]
pub fn check_maturity(coin: &SpentCoin<'_>, height: Height) -> Result<(), Rule> {
    let depth = i64::from(height) - i64::from(coin.height);
    if coin.coinbase && depth < COINBASE_MATURITY {
        return Err(Rule::BadTxnsPrematureSpendOfCoinbase { depth });
    }
    Ok(())
}

/// The value of each coin, and the sum up to it, MUST be an amount of money: `bad-txns-inputvalues-outofrange`.
///
/// `sum` is in range; the new sum is returned.
#[inline]
pub fn add_value_in(sum: Amount, coin: &SpentCoin<'_>) -> Result<Amount, Rule> {
    sum.plus(coin.value).ok_or(Rule::BadTxnsInputvaluesOutofrange)
}

/// The fee. A transaction MUST NOT pay out more than its coins are worth: `bad-txns-in-belowout`. The rest MUST be an
/// amount of money, which it always is: `bad-txns-fee-outofrange`.
#[inline]
pub fn fee(value_in: Amount, value_out: Amount) -> Result<Amount, Rule> {
    if value_in < value_out {
        return Err(Rule::BadTxnsInBelowout { value_in, value_out });
    }
    let fee = Amount(value_in.0 - value_out.0);
    if fee.in_range() { Ok(fee) } else { Err(Rule::BadTxnsFeeOutofrange) }
}

/// The fees of a block MUST be an amount of money: `bad-txns-accumulated-fee-outofrange`.
#[inline]
pub fn add_fee(fees: Amount, fee: Amount) -> Result<Amount, Rule> {
    fees.plus(fee).ok_or(Rule::BadTxnsAccumulatedFeeOutofrange)
}

/// The last height and the last time at which the relative locks of a transaction still hold; -1 for none.
///
/// Source: BIP-0068; Bitcoin Core b88bffe, `CalculateSequenceLocks`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequenceLocks {
    height: i64,
    time: i64,
}

impl SequenceLocks {
    /// No lock.
    pub const NONE: SequenceLocks = SequenceLocks { height: -1, time: -1 };

    /// Whether transactions of this version have locks. The version has no sign here.
    #[inline]
    pub fn apply(version: u32) -> bool {
        version >= SEQUENCE_LOCK_VERSION
    }

    /// Adds the lock of one input, whose coin was made at `coin_height`.
    ///
    /// `median_time_past` is asked for a block of the chain, for time locks only: the one before the coin's.
    #[inline]
    pub fn add(&mut self, sequence: u32, coin_height: Height, median_time_past: impl FnOnce(Height) -> u32) {
        if sequence & SEQUENCE_LOCKTIME_DISABLE_FLAG != 0 {
            return;
        }
        let units = i64::from(sequence & SEQUENCE_LOCKTIME_MASK);
        if sequence & SEQUENCE_LOCKTIME_TYPE_FLAG != 0 {
            let start = i64::from(median_time_past(coin_height.saturating_sub(1)));
            self.time = self.time.max(start + (units << SEQUENCE_LOCKTIME_GRANULARITY) - 1);
        } else {
            self.height = self.height.max(i64::from(coin_height) + units - 1);
        }
    }

    /// The height of the block and the median time past of its parent MUST lie above all locks: `bad-txns-nonfinal`.
    #[inline]
    pub fn check(&self, height: Height, median_time_past: u32) -> Result<(), Rule> {
        if self.height >= i64::from(height) || self.time >= i64::from(median_time_past) {
            return Err(Rule::BadTxnsNonfinalBip68);
        }
        Ok(())
    }
}

/// What the signature operations of one input cost beyond the legacy ones of its transaction.
///
/// Source: BIP-0141; Bitcoin Core b88bffe, `GetTransactionSigOpCost`.
#[inline]
pub fn input_sigop_cost(input: &Input<'_>, spent_script: &[u8], flags: Flags) -> u64 {
    let (script_sig, mut cost) = (input.script_sig(), 0);
    if flags.has(Flags::P2SH) {
        cost += u64::from(sigops::p2sh(script_sig, spent_script)) * WITNESS_SCALE_FACTOR as u64;
    }
    cost + u64::from(sigops::witness(script_sig, spent_script, input.witness(), flags))
}

/// The signature operations of a block MUST NOT cost more than 80,000: `bad-blk-sigops`.
#[inline]
pub fn add_sigop_cost(sum: u64, cost: u64) -> Result<u64, Rule> {
    let cost = sum.saturating_add(cost);
    if cost > MAX_BLOCK_SIGOPS_COST { Err(Rule::BadBlkSigopCost { cost }) } else { Ok(cost) }
}

/// The coinbase MUST NOT pay out more than subsidy and fees: `bad-cb-amount`.
pub fn check_coinbase_value(actual: Amount, fees: Amount, subsidy: Amount) -> Result<(), Rule> {
    let limit = Amount(fees.0 + subsidy.0);
    if actual > limit { Err(Rule::BadCbAmount { actual, limit }) } else { Ok(()) }
}

/// The new coins of a block of this height.
///
/// Source: Bitcoin Core b88bffe, `GetBlockSubsidy`.
pub fn subsidy(params: &Params, height: Height) -> Amount {
    let halvings = height / params.subsidy_halving_interval;
    Amount(FIRST_SUBSIDY.0.checked_shr(halvings).unwrap_or(0))
}

/// What a block takes, once all its transactions are through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Sum of the fees.
    pub fees: Amount,
    /// Cost of all signature operations.
    pub sigop_cost: u64,
}

/// Goes through the transactions of one block and checks what they spend.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ConnectBlock`, `CheckTxInputs`.
#[derive(Clone, Debug)]
pub struct BlockSpend {
    height: Height,
    median_time_past: u32,
    flags: Flags,
    sequence_locks: bool,
    subsidy: Amount,
    totals: Totals,
    index: usize,
}

/// What one pass over the inputs of a transaction finds.
struct Inputs {
    value: Result<Amount, (Rule, usize)>,
    locks: SequenceLocks,
    sigop_cost: u64,
}

impl BlockSpend {
    /// Starts with the first transaction of the block. `median_time_past` is its parent's.
    pub fn new(params: &Params, height: Height, hash: &Hash256, median_time_past: u32) -> BlockSpend {
        BlockSpend {
            height,
            median_time_past,
            flags: flags::of_block(params, height, hash),
            sequence_locks: height >= params.csv_height,
            subsidy: subsidy(params, height),
            totals: Totals { fees: Amount(0), sigop_cost: 0 },
            index: 0,
        }
    }

    /// The flags that the scripts of this block run with.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// The next transaction, which must have passed [`crate::transaction::check`]; the coinbase is the first. Returns its
    /// fee.
    ///
    /// `legacy_sigops` are the ones of its own scripts: see [`crate::transaction::legacy_sigops`].
    /// `coin` is asked once for each input, in order, and not at all for the coinbase; `None` says that it is not there.
    /// `median_time_past` is asked for a block of this chain, by height, where an input has a time lock.
    ///
    /// # Errors
    ///
    /// The first rule that is broken, in Core's order.
    pub fn transaction<'c>(
        &mut self,
        tx: &Transaction<'_>,
        txid: &Hash256,
        legacy_sigops: u32,
        coin: impl FnMut(usize) -> Option<SpentCoin<'c>>,
        median_time_past: impl FnMut(Height) -> u32,
    ) -> Result<Amount, BlockError> {
        let index = self.index;
        self.index += 1;
        let in_transaction = |rule| BlockError::in_transaction(rule, index, *txid);
        let mut cost = u64::from(legacy_sigops) * WITNESS_SCALE_FACTOR as u64;
        let mut fee = Amount(0);
        if index != 0 {
            let in_input = |(rule, input)| BlockError::in_input(rule, index, *txid, input);
            let inputs = self.inputs(tx, coin, median_time_past).map_err(in_input)?;
            let value_in = inputs.value.map_err(in_input)?;
            fee = self.judge(tx, value_in, inputs.locks).map_err(in_transaction)?;
            cost += inputs.sigop_cost;
        }
        self.totals.sigop_cost = add_sigop_cost(self.totals.sigop_cost, cost).map_err(in_transaction)?;
        Ok(fee)
    }

    /// Fails at once for a coin that is not there, which Core looks for before anything else.
    fn inputs<'c>(
        &self,
        tx: &Transaction<'_>,
        mut coin: impl FnMut(usize) -> Option<SpentCoin<'c>>,
        mut median_time_past: impl FnMut(Height) -> u32,
    ) -> Result<Inputs, (Rule, usize)> {
        let locked = self.sequence_locks && SequenceLocks::apply(tx.version());
        let mut inputs = Inputs { value: Ok(Amount(0)), locks: SequenceLocks::NONE, sigop_cost: 0 };
        for (number, input) in tx.inputs().enumerate() {
            let coin = check_available(coin(number)).map_err(|rule| (rule, number))?;
            if let Ok(sum) = inputs.value {
                let value = check_maturity(&coin, self.height).and_then(|()| add_value_in(sum, &coin));
                inputs.value = value.map_err(|rule| (rule, number));
            }
            if locked {
                inputs.locks.add(input.sequence(), coin.height, &mut median_time_past);
            }
            inputs.sigop_cost += input_sigop_cost(&input, coin.script, self.flags);
        }
        Ok(inputs)
    }

    fn judge(&mut self, tx: &Transaction<'_>, value_in: Amount, locks: SequenceLocks) -> Result<Amount, Rule> {
        let fee = fee(value_in, value_out(tx)?)?;
        self.totals.fees = add_fee(self.totals.fees, fee)?;
        locks.check(self.height, self.median_time_past)?;
        Ok(fee)
    }

    /// After the last transaction: whether the coinbase takes what it may, and what the block took.
    ///
    /// # Errors
    ///
    /// [`Rule::BadCbAmount`].
    pub fn finish(self, coinbase: &Transaction<'_>) -> Result<Totals, BlockError> {
        check_coinbase_value(value_out(coinbase)?, self.totals.fees, self.subsidy)?;
        Ok(self.totals)
    }
}
