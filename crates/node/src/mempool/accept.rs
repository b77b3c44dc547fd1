//! Whether a transaction may wait for the next block: Core's rules for a transaction from a disconnected block, and for
//! one from an RPC call.
//!
//! The former may have any fee, and any number of ancestors that fits in a cluster (`bypass_limits`). Replacement is
//! not supported: transactions that a block conflicts with are removed when it is connected, and one from a call that
//! conflicts with a waiting one is refused. Rules about version 3 (TRUC) are absent. Source: Bitcoin Core b88bffe,
//! `MemPoolAccept::PreChecks`, `PolicyScriptChecks`, `AcceptSingleTransactionInternal`.

use super::entry::{MIN_FEE_RATE, PoolEntry, fee_at};
use super::policy;
use super::pool::Pool;
use consensus::spend::{SequenceLocks, add_value_in, check_maturity, fee};
use consensus::transaction::{self, is_final, value_out};
use consensus::{Rule, SpentCoin};
use primitives::{Amount, CoinRef, Height, MedianTime, OutPoint, Tables, Transaction};
use script::{Immediate, Precomputed, Scratch, ScriptError, SpentOutput};
use std::borrow::Cow;

/// Source of a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin<'k> {
    /// A disconnected block.
    Disconnected,
    /// The mempool: its scripts are not verified again.
    Waiting(&'k PoolEntry),
    /// An RPC call.
    Given,
}

/// Whether a transaction must be standard. Source: Core's `-acceptnonstdtxn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standard {
    Required,
    NotRequired,
}

/// Why a transaction is refused, in Core's words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The broken rule.
    pub reason: Cow<'static, str>,
    /// Details; may be empty.
    pub details: String,
}

impl Refusal {
    /// The reason if a coin that it spends is unknown. Source: Core's `TX_MISSING_INPUTS`.
    const MISSING: &'static str = "bad-txns-inputs-missingorspent";

    fn new(reason: impl Into<Cow<'static, str>>) -> Refusal {
        Refusal { reason: reason.into(), details: String::new() }
    }

    fn with(reason: impl Into<Cow<'static, str>>, details: impl Into<String>) -> Refusal {
        Refusal { reason: reason.into(), details: details.into() }
    }

    /// The mempool is full.
    pub(super) fn full() -> Refusal {
        Refusal::new("mempool full")
    }

    /// Whether a coin that it spends is unknown: another transaction may create it.
    pub fn is_missing_input(&self) -> bool {
        self.reason == Refusal::MISSING
    }

    /// Reason and details on one line. Source: Core's `ValidationState::ToString`.
    pub fn line(&self) -> String {
        match self.details.is_empty() {
            true => self.reason.to_string(),
            false => format!("{}, {}", self.reason, self.details),
        }
    }
}

impl From<Rule> for Refusal {
    fn from(rule: Rule) -> Refusal {
        // Core has details only for these.
        match rule {
            Rule::BadTxnsPrematureSpendOfCoinbase { .. } | Rule::BadTxnsInBelowout { .. } => {
                Refusal::with(rule.reject_reason(), rule.to_string())
            }
            _ => Refusal::new(rule.reject_reason()),
        }
    }
}

/// The next block, and the time at which a transaction arrives.
pub(crate) struct Next<'a> {
    /// Its height.
    pub(crate) height: Height,
    /// Median time past of the tip.
    pub(crate) median_time_past: MedianTime,
    /// Median time past of the blocks below, by height.
    pub(crate) median_times: &'a dyn Fn(Height) -> MedianTime,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// A coin that a transaction spends.
struct Coin {
    height: Height,
    coinbase: bool,
    value: Amount,
    script: Vec<u8>,
}

impl Coin {
    fn of_stored(stored: &[u8]) -> Option<Coin> {
        let coin = CoinRef::decode(stored).ok()?;
        Some(Coin { height: coin.height, coinbase: coin.coinbase, value: coin.value, script: coin.script.to_vec() })
    }

    fn view(&self) -> SpentCoin<'_> {
        SpentCoin { height: self.height, coinbase: self.coinbase, value: self.value, script: &self.script }
    }
}

/// Checks a transaction that would be mined after all of `pool`. `coin` returns the stored bytes of a coin of the tip's
/// UTXO set.
///
/// # Errors
///
/// Errors of `coin`. The inner error is the reason why the transaction must not be mined.
pub(super) fn judge<E>(
    bytes: &[u8],
    origin: Origin<'_>,
    standard: Standard,
    pool: &Pool,
    next: &Next<'_>,
    coin: impl Fn(&OutPoint) -> Result<Option<Vec<u8>>, E>,
) -> Result<Result<PoolEntry, Refusal>, E> {
    let mut tables = Tables::new();
    let Ok(tx) = tables.parse_transaction(bytes) else { return Ok(Err(Refusal::new("TX decode failed"))) };
    let judge = Judge { tx, origin, standard, pool, next };
    if let Err(refusal) = judge.check_itself() {
        return Ok(Err(refusal));
    }
    let mut coins = Vec::with_capacity(tx.input_count());
    for input in tx.inputs() {
        let outpoint = input.prevout();
        let found = match pool.get(&outpoint.txid) {
            // The output counts as a coin of the next block.
            Some(parent) => parent.output(outpoint.vout).map(|(value, script)| {
                let height = next.height;
                Coin { height, coinbase: false, value, script }
            }),
            None => coin(&outpoint)?.and_then(|stored| Coin::of_stored(&stored)),
        };
        let Some(found) = found else {
            // Core looks for its outputs only among the coins in memory.
            let txid = judge.tx.txid();
            let made: Result<Vec<bool>, E> = (0..judge.tx.output_count())
                .filter_map(|vout| u32::try_from(vout).ok())
                .map(|vout| Ok(coin(&OutPoint { txid, vout })?.is_some()))
                .collect();
            let is_known = made?.contains(&true);
            return Ok(Err(Refusal::new(if is_known { "txn-already-known" } else { Refusal::MISSING })));
        };
        coins.push(found);
    }
    let coins: Vec<SpentCoin<'_>> = coins.iter().map(Coin::view).collect();
    Ok(judge.entry(bytes, &coins))
}

/// A transaction that is being checked.
struct Judge<'a> {
    tx: Transaction<'a>,
    origin: Origin<'a>,
    standard: Standard,
    pool: &'a Pool,
    next: &'a Next<'a>,
}

impl Judge<'_> {
    /// Checks the rules that need no coin.
    fn check_itself(&self) -> Result<(), Refusal> {
        transaction::check(&self.tx, &mut transaction::Scratch::default())?;
        if self.tx.is_coinbase() {
            return Err(Refusal::new("coinbase"));
        }
        if self.standard == Standard::Required {
            policy::check_standard(&self.tx).map_err(Refusal::new)?;
        }
        if !policy::is_large_enough(&self.tx) {
            return Err(Refusal::new("tx-size-small"));
        }
        if !is_final(&self.tx, self.next.height, self.next.median_time_past.to_u32()) {
            return Err(Refusal::new("non-final"));
        }
        match self.pool.get(&self.tx.txid()) {
            Some(known) if known.wtxid == self.tx.wtxid() => return Err(Refusal::new("txn-already-in-mempool")),
            Some(_) => return Err(Refusal::new("txn-same-nonwitness-data-in-mempool")),
            None => {}
        }
        if self.tx.inputs().any(|input| self.pool.spender(&input.prevout()).is_some()) {
            return Err(Refusal::new("bip125-replacement-disallowed"));
        }
        Ok(())
    }

    /// The mempool entry for the transaction, if it passes all checks with these coins.
    fn entry(&self, bytes: &[u8], coins: &[SpentCoin<'_>]) -> Result<PoolEntry, Refusal> {
        let known = if let Origin::Waiting(known) = self.origin { Some(known) } else { None };
        let paid = self.paid(coins)?;
        let fee_delta = self.pool.fee_delta(&self.tx.txid());
        let is_strict = self.standard == Standard::Required;
        if is_strict {
            let check = policy::check_inputs_standard(&self.tx, coins);
            check.map_err(|details| Refusal::with("bad-txns-nonstandard-inputs", details))?;
            if !policy::are_witnesses_standard(&self.tx, coins) {
                return Err(Refusal::new("bad-witness-nonstandard"));
            }
            let has_fee = paid != Amount(0) || paid.0.saturating_add(fee_delta) != 0;
            if has_fee && policy::dust_outputs(&self.tx) != 0 {
                return Err(Refusal::with("dust", "tx with dust output must be 0-fee"));
            }
        }
        let entry = PoolEntry {
            txid: self.tx.txid(),
            wtxid: self.tx.wtxid(),
            bytes: bytes.to_vec(),
            fee: paid,
            fee_delta,
            weight: policy::weight(&self.tx),
            sigop_cost: policy::sigop_cost(&self.tx, coins),
            time: known.map_or(self.next.now, |known| known.time),
            height: known.map_or(self.next.height - 1, |known| known.height),
            inputs: self.tx.inputs().map(|input| input.prevout()).collect(),
        };
        if entry.sigop_cost > policy::SIGOP_COST_MAX {
            return Err(Refusal::with("bad-txns-too-many-sigops", entry.sigop_cost.to_string()));
        }
        let least = fee_at(MIN_FEE_RATE, entry.vsize());
        let counted = entry.modified_fee();
        if matches!(self.origin, Origin::Given) && counted < least {
            return Err(Refusal::with("min relay fee not met", format!("{counted} < {least}")));
        }
        if !self.pool.has_room_in_cluster(&entry.inputs, entry.adjusted_weight()) {
            return Err(Refusal::new("too-large-cluster"));
        }
        if known.is_none() {
            self.check_scripts(coins)?;
        }
        Ok(entry)
    }

    /// The fee, if the coins may be spent in the next block. Source: Core's `CheckSequenceLocksAtTip`, `CheckTxInputs`.
    fn paid(&self, coins: &[SpentCoin<'_>]) -> Result<Amount, Refusal> {
        if SequenceLocks::apply(self.tx.version()) {
            let mut locks = SequenceLocks::NONE;
            for (input, coin) in self.tx.inputs().zip(coins) {
                locks.add(input.sequence(), coin.height, self.next.median_times);
            }
            let check = locks.check(self.next.height, self.next.median_time_past);
            check.map_err(|_| Refusal::new("non-BIP68-final"))?;
        }
        let mut value_in = Amount(0);
        for coin in coins {
            check_maturity(coin, self.next.height)?;
            value_in = add_value_in(value_in, coin)?;
        }
        Ok(fee(value_in, value_out(&self.tx)?)?)
    }

    fn check_scripts(&self, coins: &[SpentCoin<'_>]) -> Result<(), Refusal> {
        let outputs: Vec<SpentOutput<'_>> =
            coins.iter().map(|coin| SpentOutput { value: coin.value, script: coin.script }).collect();
        let precomputed = Precomputed::new(self.tx, &outputs);
        let mut scratch = Scratch::default();
        let mut verify = |input| script::verify(&precomputed, input, policy::flags(), &mut Immediate, &mut scratch);
        for (index, input) in self.tx.inputs().enumerate() {
            let failed = |error: ScriptError| {
                let OutPoint { txid, vout } = input.prevout();
                let details =
                    format!("input {index} of {} (wtxid {}), spending {txid}:{vout}", self.tx.txid(), self.tx.wtxid());
                Refusal::with(format!("mempool-script-verify-flag-failed ({error})"), details)
            };
            verify(index).map_err(failed)?;
        }
        Ok(())
    }
}
