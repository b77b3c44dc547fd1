//! `getblockstats`: statistics of one block.
//!
//! All of them are computed in one pass; Core skips those not requested, with the same results.
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `getblockstats`, `CalculatePercentilesByWeight`,
//! `CalculateTruncatedMedian`.

use crate::json::Json;
use primitives::coin::is_unspendable;
use primitives::encode::compact_size_bytes;
use primitives::{Amount, Block, CoinRef, Transaction};
use std::borrow::Cow;

/// Bytes of an output in the UTXO set in addition to its own: outpoint, height and coinbase flag.
const OUTPUT_OVERHEAD: i64 = 36 + 4;
/// Weight units of a byte that is not witness. Source: BIP-0141.
const WITNESS_SCALE: i64 = 4;
/// Percentiles of fee rates.
const PERCENTILES: usize = 5;

/// Data about the block from the block index, and from the rules at its height.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its hash, as text.
    pub hash: &'a str,
    /// Its height.
    pub height: i64,
    /// Median of the times of it and the ten blocks before it.
    pub median_time: i64,
    /// Its time.
    pub time: i64,
    /// The subsidy, which its coinbase may create in addition to the fees.
    pub subsidy: Amount,
    /// Whether its coinbase creates the same coins as another block's. Source: Core's `IsBIP30Repeat`.
    pub is_repeat: bool,
}

/// A fee outside the range of money: the undo data belongs to another block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FeeOutOfRange;

/// Sums of a block.
#[derive(Default)]
struct Sums {
    outputs: i64,
    inputs: i64,
    utxos: i64,
    utxo_size_inc: i64,
    utxo_size_inc_actual: i64,
    total_out: i64,
    total_fee: i64,
    total_size: i64,
    total_weight: i64,
    sw_txs: i64,
    sw_size: i64,
    sw_weight: i64,
    fees: Vec<i64>,
    sizes: Vec<i64>,
    /// Fee rate and weight.
    rates: Vec<(i64, i64)>,
}

/// Every statistic of a block, in Core's order. `spent` are the coins that it spends, in the order of its inputs
/// without the coinbase's.
///
/// # Errors
///
/// [`FeeOutOfRange`].
pub fn block_stats(
    block: &Block<'_>,
    spent: &[CoinRef<'_>],
    about: &About<'_>,
) -> Result<Vec<(&'static str, Json)>, FeeOutOfRange> {
    let mut sums = Sums::default();
    let mut spent = spent.iter();
    for (at, tx) in block.transactions().enumerate() {
        let is_coinbase = tx.is_coinbase();
        let makes_coins = about.height > 0 && !(about.is_repeat && is_coinbase);
        let out = sums.add_outputs(&tx, makes_coins);
        if !is_coinbase {
            // Only the first transaction of a valid block is a coinbase; undo data begins after it.
            debug_assert!(at > 0, "a valid block begins with its coinbase");
            let coins: Vec<&CoinRef<'_>> = spent.by_ref().take(tx.input_count()).collect();
            sums.add_transaction(&tx, out, &coins)?;
        }
    }
    Ok(sums.shown(block.transaction_count() as i64, about))
}

fn output_bytes(script_bytes: usize) -> i64 {
    8 + compact_size_bytes(script_bytes as u64) as i64 + script_bytes as i64 + OUTPUT_OVERHEAD
}

impl Sums {
    /// Adds the outputs of a transaction; returns their total value.
    fn add_outputs(&mut self, tx: &Transaction<'_>, makes_coins: bool) -> i64 {
        self.outputs += tx.output_count() as i64;
        let mut total: i64 = 0;
        for output in tx.outputs() {
            total = total.saturating_add(output.value().0);
            let bytes = output_bytes(output.script().len());
            self.utxo_size_inc += bytes;
            if makes_coins && !is_unspendable(output.script()) {
                self.utxos += 1;
                self.utxo_size_inc_actual += bytes;
            }
        }
        total
    }

    /// Adds a transaction that is not a coinbase.
    fn add_transaction(&mut self, tx: &Transaction<'_>, out: i64, coins: &[&CoinRef<'_>]) -> Result<(), FeeOutOfRange> {
        self.inputs += tx.input_count() as i64;
        self.total_out = self.total_out.saturating_add(out);
        let size = tx.bytes().len() as i64;
        let weight = (WITNESS_SCALE - 1) * tx.stripped_bytes() as i64 + size;
        self.sizes.push(size);
        self.total_size += size;
        self.total_weight += weight;
        if tx.has_witness() {
            self.sw_txs += 1;
            self.sw_size += size;
            self.sw_weight += weight;
        }
        let mut total_in: i64 = 0;
        for coin in coins {
            total_in = total_in.saturating_add(coin.value.0);
            let bytes = output_bytes(coin.script.script_bytes());
            self.utxo_size_inc -= bytes;
            self.utxo_size_inc_actual -= bytes;
        }
        let fee = total_in.saturating_sub(out);
        if !Amount(fee).in_range() {
            return Err(FeeOutOfRange);
        }
        self.fees.push(fee);
        self.total_fee += fee;
        self.rates.push((fee * WITNESS_SCALE / weight, weight));
        Ok(())
    }

    fn shown(mut self, txs: i64, about: &About<'_>) -> Vec<(&'static str, Json)> {
        let per_tx = |total: i64| if txs > 1 { total / (txs - 1) } else { 0 };
        let rate = if self.total_weight > 0 { self.total_fee * WITNESS_SCALE / self.total_weight } else { 0 };
        let percentiles = percentiles_by_weight(&mut self.rates, self.total_weight);
        let least = |values: &[i64]| values.iter().copied().min().unwrap_or(0);
        let most = |values: &[i64]| values.iter().copied().max().unwrap_or(0);
        let rates: Vec<i64> = self.rates.iter().map(|(rate, _)| *rate).collect();
        let fees = &mut self.fees;
        let sizes = &mut self.sizes;
        let number = Json::Int;
        vec![
            ("avgfee", number(per_tx(self.total_fee))),
            ("avgfeerate", number(rate)),
            ("avgtxsize", number(per_tx(self.total_size))),
            ("blockhash", Json::Str(about.hash.to_owned())),
            ("feerate_percentiles", Json::Arr(percentiles.into_iter().map(number).collect())),
            ("height", number(about.height)),
            ("ins", number(self.inputs)),
            ("maxfee", number(most(fees))),
            ("maxfeerate", number(most(&rates))),
            ("maxtxsize", number(most(sizes))),
            ("medianfee", number(truncated_median(fees))),
            ("mediantime", number(about.median_time)),
            ("mediantxsize", number(truncated_median(sizes))),
            ("minfee", number(least(fees))),
            ("minfeerate", number(least(&rates))),
            ("mintxsize", number(least(sizes))),
            ("outs", number(self.outputs)),
            ("subsidy", number(about.subsidy.0)),
            ("swtotal_size", number(self.sw_size)),
            ("swtotal_weight", number(self.sw_weight)),
            ("swtxs", number(self.sw_txs)),
            ("time", number(about.time)),
            ("total_out", number(self.total_out)),
            ("total_size", number(self.total_size)),
            ("total_weight", number(self.total_weight)),
            ("totalfee", number(self.total_fee)),
            ("txs", number(txs)),
            ("utxo_increase", number(self.outputs - self.inputs)),
            ("utxo_size_inc", number(self.utxo_size_inc)),
            ("utxo_increase_actual", number(self.utxos - self.inputs)),
            ("utxo_size_inc_actual", number(self.utxo_size_inc_actual)),
        ]
    }
}

/// The statistics in `all` that `wanted` names, ordered by name; all if `wanted` is empty.
///
/// # Errors
///
/// The first name, in that order, that is not a statistic.
pub fn select(all: Vec<(&'static str, Json)>, wanted: &[&str]) -> Result<Json, String> {
    if wanted.is_empty() {
        return Ok(Json::Obj(all.into_iter().map(|(name, value)| (Cow::Borrowed(name), value)).collect()));
    }
    let names: std::collections::BTreeSet<&str> = wanted.iter().copied().collect();
    let find = |name: &str| all.iter().find(|(known, _)| *known == name).cloned().ok_or_else(|| name.to_owned());
    let fields = names.into_iter().map(|name| find(name).map(|(name, value)| (Cow::Borrowed(name), value)));
    Ok(Json::Obj(fields.collect::<Result<_, String>>()?))
}

/// The middle value; between two, half of their sum, rounded down.
fn truncated_median(values: &mut [i64]) -> i64 {
    values.sort_unstable();
    match values.len() {
        0 => 0,
        size if size % 2 == 0 => (values[size / 2 - 1] + values[size / 2]) / 2,
        size => values[size / 2],
    }
}

/// The fee rates at the 10th, 25th, 50th, 75th and 90th percentile of weight.
fn percentiles_by_weight(rates: &mut [(i64, i64)], total_weight: i64) -> [i64; PERCENTILES] {
    let mut result = [0; PERCENTILES];
    rates.sort_unstable();
    let Some((last, _)) = rates.last() else { return result };
    let total = total_weight as f64;
    let weights = [total / 10.0, total / 4.0, total / 2.0, (total * 3.0) / 4.0, (total * 9.0) / 10.0];
    let mut next = 0;
    let mut sum = 0i64;
    for (rate, weight) in rates.iter() {
        sum += weight;
        while next < PERCENTILES && sum as f64 >= weights[next] {
            result[next] = *rate;
            next += 1;
        }
    }
    result[next..].fill(*last);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From Core's rpc_tests.cpp, `rpc_getblockstats_calculate_percentiles_by_weight`.
    #[test]
    fn percentiles_are_cores() {
        let mut ones: Vec<(i64, i64)> = vec![(1, 1); 100];
        ones.extend([(2, 1); 100]);
        assert_eq!(percentiles_by_weight(&mut ones, 200), [1, 1, 1, 2, 2]);
        let mut steps = vec![(1, 9), (2, 16), (4, 50), (5, 10), (9, 15)];
        assert_eq!(percentiles_by_weight(&mut steps, 100), [2, 2, 4, 4, 9]);
        let mut jumps = vec![(1, 9), (2, 16), (2, 50), (5, 10), (9, 15)];
        assert_eq!(percentiles_by_weight(&mut jumps, 100), [2, 2, 2, 2, 9]);
        let mut one = vec![(1, 100), (2, 1), (3, 1), (3, 1), (999_999, 1)];
        assert_eq!(percentiles_by_weight(&mut one, 104), [1, 1, 1, 1, 1]);
        assert_eq!(percentiles_by_weight(&mut [], 0), [0; 5]);
    }

    #[test]
    fn medians_are_truncated() {
        for (values, want) in [(vec![], 0), (vec![7], 7), (vec![3, 1], 2), (vec![4, 1], 2), (vec![5, 9, 1], 5)] {
            assert_eq!(truncated_median(&mut values.clone()), want, "{values:?}");
        }
    }

    #[test]
    fn selected_figures_come_by_name() {
        let all = || vec![("txs", Json::Int(1)), ("avgfee", Json::Int(2)), ("ins", Json::Int(3))];
        assert_eq!(select(all(), &[]).unwrap().text(), r#"{"txs":1,"avgfee":2,"ins":3}"#);
        assert_eq!(select(all(), &["txs", "avgfee", "txs"]).unwrap().text(), r#"{"avgfee":2,"txs":1}"#);
        assert_eq!(select(all(), &["txs", "zzz", "nosuch"]), Err("nosuch".into()));
    }
}
