//! Whether a transaction may wait for the next block: what Core asks of one that comes back from a disconnected block.
//!
//! Its fee may be any, and any number of ancestors fits that a cluster holds (`bypass_limits`). No transaction here ever
//! conflicts with another: what a block spends is taken out when the block is connected, so that nothing is replaced.
//! Source: Bitcoin Core b88bffe, `MemPoolAccept::PreChecks`, `PolicyScriptChecks`, `AcceptSingleTransactionInternal`.

use super::entry::PoolEntry;
use super::policy;
use super::pool::Pool;
use consensus::SpentCoin;
use consensus::spend::{SequenceLocks, add_value_in, check_maturity, fee};
use consensus::transaction::{is_final, value_out};
use primitives::{Amount, CoinRef, Height, MedianTime, OutPoint, Tables, Transaction};
use script::{Immediate, Precomputed, Scratch, SpentOutput};

/// The next block, and when a transaction comes.
pub(crate) struct Next<'a> {
    /// Its height.
    pub(crate) height: Height,
    /// Median time past of the tip.
    pub(crate) median_time_past: MedianTime,
    /// That of the blocks below, by height.
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

/// Judges a transaction that may be mined behind all of `pool`; `None` where it may not. `known` is what it was here before:
/// then its scripts are not verified again. `coin` gives the stored bytes of a coin of the tip's UTXO set.
///
/// # Errors
///
/// What `coin` says.
pub(super) fn judge<E>(
    bytes: &[u8],
    known: Option<&PoolEntry>,
    pool: &Pool,
    next: &Next<'_>,
    coin: impl Fn(&OutPoint) -> Result<Option<Vec<u8>>, E>,
) -> Result<Option<PoolEntry>, E> {
    let mut tables = Tables::new();
    let Ok(tx) = tables.parse_transaction(bytes) else { return Ok(None) };
    let cutoff = next.median_time_past.to_u32();
    if tx.is_coinbase() || !policy::is_standard(&tx) || !is_final(&tx, next.height, cutoff) {
        return Ok(None);
    }
    let txid = tx.txid();
    let inputs = tx.inputs().map(|input| input.prevout()).collect::<Vec<_>>();
    if pool.get(&txid).is_some() || inputs.iter().any(|outpoint| pool.spender(outpoint).is_some()) {
        return Ok(None);
    }
    let mut coins = Vec::with_capacity(inputs.len());
    for outpoint in &inputs {
        let found = match pool.get(&outpoint.txid) {
            // It counts as a coin of the next block.
            Some(parent) => parent.output(outpoint.vout).map(|(value, script)| {
                let height = next.height;
                Coin { height, coinbase: false, value, script }
            }),
            None => coin(outpoint)?.and_then(|stored| Coin::of_stored(&stored)),
        };
        let Some(found) = found else { return Ok(None) };
        coins.push(found);
    }
    let coins: Vec<SpentCoin<'_>> = coins.iter().map(Coin::view).collect();
    let Some(paid) = paid(&tx, &coins, next) else { return Ok(None) };
    let entry = PoolEntry {
        txid,
        wtxid: tx.wtxid(),
        bytes: bytes.to_vec(),
        fee: paid,
        weight: policy::weight(&tx),
        sigop_cost: policy::sigop_cost(&tx, &coins),
        time: known.map_or(next.now, |known| known.time),
        height: known.map_or(next.height - 1, |known| known.height),
        inputs,
    };
    let is_good = entry.sigop_cost <= policy::SIGOP_COST_MAX
        && policy::are_inputs_standard(&tx, &coins)
        && policy::are_witnesses_standard(&tx, &coins)
        && (paid == Amount(0) || policy::dust_outputs(&tx) == 0)
        && pool.has_room_in_cluster(&entry.inputs, entry.adjusted_weight())
        && (known.is_some() || do_scripts_hold(tx, &coins));
    Ok(is_good.then_some(entry))
}

/// The fee, where the coins may be spent in the next block. Source: Core's `CheckSequenceLocksAtTip`, `CheckTxInputs`.
fn paid(tx: &Transaction<'_>, coins: &[SpentCoin<'_>], next: &Next<'_>) -> Option<Amount> {
    if SequenceLocks::apply(tx.version()) {
        let mut locks = SequenceLocks::NONE;
        for (input, coin) in tx.inputs().zip(coins) {
            locks.add(input.sequence(), coin.height, next.median_times);
        }
        locks.check(next.height, next.median_time_past).ok()?;
    }
    let mut value_in = Amount(0);
    for coin in coins {
        check_maturity(coin, next.height).ok()?;
        value_in = add_value_in(value_in, coin).ok()?;
    }
    fee(value_in, value_out(tx).ok()?).ok()
}

fn do_scripts_hold(tx: Transaction<'_>, coins: &[SpentCoin<'_>]) -> bool {
    let outputs: Vec<SpentOutput<'_>> =
        coins.iter().map(|coin| SpentOutput { value: coin.value, script: coin.script }).collect();
    let precomputed = Precomputed::new(tx, &outputs);
    let mut scratch = Scratch::default();
    let mut holds = |input| script::verify(&precomputed, input, policy::flags(), &mut Immediate, &mut scratch).is_ok();
    (0..tx.input_count()).all(&mut holds)
}
