//! The rules of spending: the value of a transaction's inputs, when they may be spent, and the block's totals.
//!
//! [`BlockSpend`] processes the transactions of a block in order; it requests each input's coin once. Absent on
//! purpose: looking coins up (a missing coin is `None`), and running scripts, which are checked last.

use crate::cleanup::{self, Cleanup};
use crate::flags;
use crate::params::Params;
use crate::transaction::value_out;
use crate::verdict::{BlockError, Rule};
use crate::{COINBASE_MATURITY, MAX_BLOCK_SIGOPS_COST, WITNESS_SCALE_FACTOR};
use primitives::{Amount, BlockHash, Height, Input, MedianTime, Transaction, Txid};
use script::{Flags, sigops};

/// An input with this bit has no relative lock. Source: BIP-0068.
const SEQUENCE_LOCKTIME_DISABLE_FLAG: u32 = 1 << 31;
/// An input with this bit is locked for a time, otherwise for a number of blocks. Source: BIP-0068.
const SEQUENCE_LOCKTIME_TYPE_FLAG: u32 = 1 << 22;
/// The bits with the length of the lock. Source: BIP-0068.
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
    /// Height of the block that made it; the spending block's own height for a coin of the same block.
    pub height: Height,
    /// Whether a coinbase made it.
    pub coinbase: bool,
    /// Its amount.
    pub value: Amount,
    /// Its script. While BIP-0054 is not active only P2SH and witness programs matter: for any other script an empty
    /// slice is sufficient.
    pub script: &'a [u8],
}

/// Every coin that a transaction spends MUST exist: `bad-txns-inputs-missingorspent`.
#[inline]
pub fn check_available<'a>(coin: Option<SpentCoin<'a>>) -> Result<SpentCoin<'a>, Rule> {
    coin.ok_or(Rule::BadTxnsInputsMissingorspent)
}

/// The coins of a coinbase MUST NOT be spent before it is 100 blocks deep: `bad-txns-premature-spend-of-coinbase`.
#[inline]
pub fn check_maturity(coin: &SpentCoin<'_>, height: Height) -> Result<(), Rule> {
    let depth = i64::from(height.to_u32()) - i64::from(coin.height.to_u32());
    if coin.coinbase && depth < COINBASE_MATURITY {
        return Err(Rule::BadTxnsPrematureSpendOfCoinbase { depth });
    }
    Ok(())
}

/// The value of each coin, and the sum up to it, MUST be a valid amount: `bad-txns-inputvalues-outofrange`.
///
/// `sum` must be valid; returns the new sum.
#[inline]
pub fn add_value_in(sum: Amount, coin: &SpentCoin<'_>) -> Result<Amount, Rule> {
    sum.plus(coin.value).ok_or(Rule::BadTxnsInputvaluesOutofrange)
}

/// The fee. A transaction MUST NOT pay out more than the value of its coins: `bad-txns-in-belowout`. The fee MUST be a
/// valid amount, which it always is: `bad-txns-fee-outofrange`.
#[inline]
pub fn fee(value_in: Amount, value_out: Amount) -> Result<Amount, Rule> {
    if value_in < value_out {
        return Err(Rule::BadTxnsInBelowout { value_in, value_out });
    }
    let fee = Amount(value_in.0 - value_out.0);
    if fee.in_range() { Ok(fee) } else { Err(Rule::BadTxnsFeeOutofrange) }
}

/// The fees of a block MUST be a valid amount: `bad-txns-accumulated-fee-outofrange`.
#[inline]
pub fn add_fee(fees: Amount, fee: Amount) -> Result<Amount, Rule> {
    fees.plus(fee).ok_or(Rule::BadTxnsAccumulatedFeeOutofrange)
}

/// The last height and the last time at which a transaction's relative locks still prevent its inclusion; -1 without a
/// lock.
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

    /// Whether transactions of this version have relative locks. The version is unsigned here.
    #[inline]
    pub fn apply(version: u32) -> bool {
        version >= SEQUENCE_LOCK_VERSION
    }

    /// Adds the lock of one input, whose coin was made at `coin_height`.
    ///
    /// `median_time_past` returns that of a block of the chain by height: for time locks only, the block before the
    /// coin's.
    #[inline]
    pub fn add(&mut self, sequence: u32, coin_height: Height, median_time_past: impl FnOnce(Height) -> MedianTime) {
        if sequence & SEQUENCE_LOCKTIME_DISABLE_FLAG != 0 {
            return;
        }
        let units = i64::from(sequence & SEQUENCE_LOCKTIME_MASK);
        if sequence & SEQUENCE_LOCKTIME_TYPE_FLAG != 0 {
            let start = i64::from(median_time_past(coin_height.saturating_sub(1)).to_u32());
            self.time = self.time.max(start + (units << SEQUENCE_LOCKTIME_GRANULARITY) - 1);
        } else {
            self.height = self.height.max(i64::from(coin_height.to_u32()) + units - 1);
        }
    }

    /// The height of the block and the median time past of its parent MUST be above all locks: `bad-txns-nonfinal`.
    #[inline]
    pub fn check(&self, height: Height, median_time_past: MedianTime) -> Result<(), Rule> {
        if self.height >= i64::from(height.to_u32()) || self.time >= i64::from(median_time_past.to_u32()) {
            return Err(Rule::BadTxnsNonfinalBip68);
        }
        Ok(())
    }
}

/// The signature operation cost of one input in addition to the legacy operations of its transaction.
///
/// Source: BIP-0141; Bitcoin Core b88bffe, `GetTransactionSigOpCost`.
#[inline]
pub fn input_sigop_cost(input: &Input<'_>, spent_script: &[u8], flags: Flags) -> u64 {
    let script_sig = input.script_sig();
    let mut cost = 0;
    if flags.has(Flags::P2SH) {
        cost += u64::from(sigops::p2sh(script_sig, spent_script)) * WITNESS_SCALE_FACTOR as u64;
    }
    cost + u64::from(sigops::witness(script_sig, spent_script, input.witness(), flags))
}

/// The signature operation cost of a block MUST NOT exceed 80,000: `bad-blk-sigops`.
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

/// The subsidy of a block at this height.
///
/// Source: Bitcoin Core b88bffe, `GetBlockSubsidy`.
pub fn subsidy(params: &Params, height: Height) -> Amount {
    let halvings = height.to_u32() / params.subsidy_halving_interval;
    Amount(FIRST_SUBSIDY.0.checked_shr(halvings).unwrap_or(0))
}

/// The totals of a block, after all its transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Totals {
    /// Sum of the fees.
    pub fees: Amount,
    /// Cost of all signature operations.
    pub sigop_cost: u64,
}

/// Checks the spends of one block's transactions, in order.
///
/// Source: Bitcoin Core b88bffe, `Chainstate::ConnectBlock`, `CheckTxInputs`.
#[derive(Clone, Debug)]
pub struct BlockSpend {
    height: Height,
    median_time_past: MedianTime,
    flags: Flags,
    cleanup: Cleanup,
    sequence_locks: bool,
    subsidy: Amount,
    totals: Totals,
    index: usize,
}

/// The result of one pass over the inputs of a transaction.
struct Inputs {
    value: Result<Amount, (Rule, usize)>,
    locks: SequenceLocks,
    sigop_cost: u64,
    /// The count for BIP-0054, or the rule and the input that broke it.
    cleanup_sigops: Result<u32, (Rule, usize)>,
}

impl BlockSpend {
    /// Begins before the first transaction of the block. `median_time_past` is its parent's.
    pub fn new(params: &Params, height: Height, hash: &BlockHash, median_time_past: MedianTime) -> BlockSpend {
        BlockSpend {
            height,
            median_time_past,
            flags: flags::of_block(params, height, hash),
            cleanup: Cleanup::Off,
            sequence_locks: height >= params.csv_height,
            subsidy: subsidy(params, height),
            totals: Totals { fees: Amount(0), sigop_cost: 0 },
            index: 0,
        }
    }

    /// Also enforces BIP-0054 if it is active.
    pub fn with_cleanup(self, cleanup: Cleanup) -> BlockSpend {
        BlockSpend { cleanup, ..self }
    }

    /// The script verification flags of this block.
    pub fn flags(&self) -> Flags {
        self.flags
    }

    /// Checks the next transaction, which must have passed [`crate::transaction::check`]; the coinbase is the first.
    /// Returns its fee.
    ///
    /// `legacy_sigops` are the ones of its own scripts: see [`crate::transaction::legacy_sigops`]. `coin` is called
    /// once for each input, in order, but not for the coinbase; `None` means that the coin does not exist.
    /// `median_time_past` returns that of a block of this chain by height, for inputs with a time lock.
    ///
    /// # Errors
    ///
    /// The first broken rule, in Core's order.
    pub fn transaction<'c>(
        &mut self,
        tx: &Transaction<'_>,
        txid: &Txid,
        legacy_sigops: u32,
        coin: impl FnMut(usize) -> Option<SpentCoin<'c>>,
        median_time_past: impl FnMut(Height) -> MedianTime,
    ) -> Result<Amount, BlockError> {
        let index = self.index;
        self.index += 1;
        let in_transaction = |rule| BlockError::in_transaction(rule, index, *txid);
        let mut cost = u64::from(legacy_sigops) * WITNESS_SCALE_FACTOR as u64;
        let mut fee = Amount(0);
        if index != 0 {
            let in_input = |(rule, input)| BlockError::in_input(rule, index, *txid, input);
            let inputs = self.inputs(tx, coin, median_time_past).map_err(in_input)?;
            inputs.cleanup_sigops.map_err(in_input)?;
            let value_in = inputs.value.map_err(in_input)?;
            fee = self.judge(tx, value_in, inputs.locks).map_err(in_transaction)?;
            cost += inputs.sigop_cost;
        }
        self.totals.sigop_cost = add_sigop_cost(self.totals.sigop_cost, cost).map_err(in_transaction)?;
        Ok(fee)
    }

    /// Fails at once for a missing coin, which Core checks before anything else.
    fn inputs<'c>(
        &self,
        tx: &Transaction<'_>,
        mut coin: impl FnMut(usize) -> Option<SpentCoin<'c>>,
        mut median_time_past: impl FnMut(Height) -> MedianTime,
    ) -> Result<Inputs, (Rule, usize)> {
        let locked = self.sequence_locks && SequenceLocks::apply(tx.version());
        let mut inputs =
            Inputs { value: Ok(Amount(0)), locks: SequenceLocks::NONE, sigop_cost: 0, cleanup_sigops: Ok(0) };
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
            if self.cleanup.is_on()
                && let Ok(sum) = inputs.cleanup_sigops
            {
                inputs.cleanup_sigops = cleanup::add_sigops(sum, &input, coin.script).map_err(|rule| (rule, number));
            }
        }
        Ok(inputs)
    }

    fn judge(&mut self, tx: &Transaction<'_>, value_in: Amount, locks: SequenceLocks) -> Result<Amount, Rule> {
        let fee = fee(value_in, value_out(tx)?)?;
        self.totals.fees = add_fee(self.totals.fees, fee)?;
        locks.check(self.height, self.median_time_past)?;
        Ok(fee)
    }

    /// Call after the last transaction: checks the value of the coinbase, and returns the block's totals.
    ///
    /// # Errors
    ///
    /// [`Rule::BadCbAmount`].
    pub fn finish(self, coinbase: &Transaction<'_>) -> Result<Totals, BlockError> {
        check_coinbase_value(value_out(coinbase)?, self.totals.fees, self.subsidy)?;
        Ok(self.totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Chain;

    #[test]
    fn subsidy_halves_to_zero() {
        let [main, regtest] = [Chain::Main, Chain::Regtest].map(Params::new);
        for (params, height, want) in [
            (&main, 0, 5_000_000_000),
            (&main, 209_999, 5_000_000_000),
            (&main, 210_000, 2_500_000_000),
            (&main, 840_000, 312_500_000),
            (&main, 32 * 210_000, 1),
            (&main, 33 * 210_000, 0),
            (&main, 64 * 210_000, 0),
            (&main, u32::MAX, 0),
            (&regtest, 149, 5_000_000_000),
            (&regtest, 150, 2_500_000_000),
            (&regtest, 300, 1_250_000_000),
        ] {
            assert_eq!(subsidy(params, Height::new(height)), Amount(want), "{} {height}", params.chain);
        }
        // Core's validation_tests.cpp: all that will ever be, counted in steps of 1000 blocks.
        let sum: i64 = (0..14_000_000).step_by(1000).map(|height| subsidy(&main, Height::new(height)).0 * 1000).sum();
        assert_eq!(sum, 2_099_999_997_690_000);
    }

    /// Locks of one input whose coin is of height 100, in a block of height 110; block h has the median time h * 600.
    #[test]
    fn sequence_locks_by_height_and_time() {
        const TIME: u32 = SEQUENCE_LOCKTIME_TYPE_FLAG;
        const OFF: u32 = SEQUENCE_LOCKTIME_DISABLE_FLAG;
        for (row, sequence, coin_height, holds) in [
            ("none", 0, 100, true),
            ("ten blocks", 10, 100, true),
            ("eleven blocks", 11, 100, false),
            ("higher bits are ignored", 0x0001_0000 | 10, 100, true),
            ("switched off", OFF | 0xffff, 100, true),
            ("no block on a coin of this block", 0, 110, true),
            ("one block on a coin of this block", 1, 110, false),
            // From block 99 (59,400) to block 109 (65,400): 11 units of 512 seconds are 5632, 12 are 6144.
            ("eleven units of time", TIME | 11, 100, true),
            ("twelve units of time", TIME | 12, 100, false),
            ("time, switched off", OFF | TIME | 12, 100, true),
            ("one unit on a coin of this block", TIME | 1, 110, false),
            ("no unit on a coin of this block", TIME, 110, true),
            ("a coin of genesis", TIME | 127, 0, true),
            ("a coin of genesis, one more", TIME | 128, 0, false),
        ] {
            let mut locks = SequenceLocks::NONE;
            locks.add(sequence, Height::new(coin_height), |height| MedianTime::new(height.to_u32() * 600));
            let got = locks.check(Height::new(110), MedianTime::new(109 * 600));
            assert_eq!(got, if holds { Ok(()) } else { Err(Rule::BadTxnsNonfinalBip68) }, "{row}");
        }
        // The strictest input decides, wherever it stands.
        for order in [[11, 0], [0, 11]] {
            let mut locks = SequenceLocks::NONE;
            for sequence in order {
                locks.add(sequence, Height::new(100), |_| MedianTime::ZERO);
            }
            assert!(locks.check(Height::new(110), MedianTime::ZERO).is_err());
        }
        for (version, want) in [(0, false), (1, false), (2, true), (0x8000_0000, true), (u32::MAX, true)] {
            assert_eq!(SequenceLocks::apply(version), want, "version {version:#x}");
        }
    }

    #[test]
    fn input_sum_beyond_max_money_fails() {
        let coin = |value| SpentCoin { height: Height::GENESIS, coinbase: false, value: Amount(value), script: &[] };
        let most = Amount::MAX.0;
        for (sum, value, want) in [
            (0, most, Ok(most)),
            (0, most + 1, Err(Rule::BadTxnsInputvaluesOutofrange)),
            (0, -1, Err(Rule::BadTxnsInputvaluesOutofrange)),
            (0, i64::MIN, Err(Rule::BadTxnsInputvaluesOutofrange)),
            (1, most, Err(Rule::BadTxnsInputvaluesOutofrange)),
            (most, i64::MAX, Err(Rule::BadTxnsInputvaluesOutofrange)),
        ] {
            assert_eq!(add_value_in(Amount(sum), &coin(value)), want.map(Amount), "{sum} + {value}");
        }
        assert_eq!(add_fee(Amount(most), Amount(0)), Ok(Amount(most)));
        assert_eq!(add_fee(Amount(most), Amount(1)), Err(Rule::BadTxnsAccumulatedFeeOutofrange));
        assert_eq!(fee(Amount(5), Amount(5)), Ok(Amount(0)));
        let (value_in, value_out) = (Amount(4), Amount(5));
        assert_eq!(fee(value_in, value_out), Err(Rule::BadTxnsInBelowout { value_in, value_out }));
        // No sums of checked values give this; the rule stands as in Core.
        assert_eq!(fee(Amount(most + 1), Amount(0)), Err(Rule::BadTxnsFeeOutofrange));
        assert_eq!(add_sigop_cost(79_999, 1), Ok(80_000));
        assert_eq!(add_sigop_cost(79_999, 2), Err(Rule::BadBlkSigopCost { cost: 80_001 }));
        assert!(add_sigop_cost(1, u64::MAX).is_err());
    }
}
