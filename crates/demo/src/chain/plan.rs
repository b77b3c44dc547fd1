//! Plans a chain block by block: the coins that each transaction spends and creates.
//!
//! There are three phases. The first has blocks without transactions until the first coinbase matures, and then blocks
//! that split coinbases into the requested number of coins. Then full blocks. The last is a tail of empty blocks.
//!
//! A single thread makes the plan, because it is cheap: it needs amounts, kinds and weights, but neither txids nor
//! signatures.
//! Absent on purpose: bytes (`build`) and time.

use super::Signatures;
use super::coin::{Coin, Out};
use super::coins::Coins;
use super::keys::Keys;
use super::profile::{Kind, Model};
use super::rng::Rng;
use super::split::{self, Split, TX_COINS};
use consensus::{COINBASE_MATURITY, MAX_BLOCK_SIGOPS_COST, Params, WITNESS_SCALE_FACTOR, spend};
use primitives::Height;
use primitives::encode::compact_size_bytes;
use std::collections::VecDeque;

/// Number of coins that a block of the first phase creates: they fill two thirds of its weight.
const FAN_OUT_COINS: u64 = 17_700;
/// Fee that a transaction of the first phase pays for each output: about a satoshi per virtual byte.
const FAN_OUT_FEE: u64 = 40;
/// Weight reserved for header, count and coinbase.
const BLOCK_OVERHEAD_WEIGHT: u32 = 2_000;
/// Signature operations reserved for the coinbase.
const COINBASE_SIGOPS_COST: u64 = 100;
/// Coinbases below this value are spent like any other old coin.
const PAYOUT_MIN: u64 = 1_000_000;
/// Maximum mean value of the coins that the first phase creates, in satoshi.
const COIN_MEAN_MAX: u64 = 300_000;

/// One transaction: the ends of its inputs and outputs, which begin where those of the previous transaction end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TxPlan {
    pub(super) inputs_end: u32,
    pub(super) outputs_end: u32,
    pub(super) version: u32,
    /// The sequence of each of its inputs.
    pub(super) sequence: u32,
    pub(super) lock_time: u32,
}

/// One block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct BlockPlan {
    pub(super) height: Height,
    /// Number of the coinbase in the chain; transaction `i` of `txs` has the number `first_tx + 1 + i`.
    pub(super) first_tx: u32,
    /// The output of the coinbase that is a coin.
    pub(super) coinbase: Out,
    /// All but the coinbase.
    pub(super) txs: Vec<TxPlan>,
    pub(super) inputs: Vec<Coin>,
    pub(super) outputs: Vec<Out>,
}

/// Number of blocks in each phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Number of blocks up to the last one that splits coins.
    pub(super) fan_out: u32,
    pub(super) full: u32,
    pub(super) tail: u32,
}

impl Shape {
    /// `None` if the number of blocks exceeds 32 bits.
    pub(super) fn new(coins: u64, full: u32, tail: u32) -> Option<Shape> {
        let fan_out = u32::try_from(coins.div_ceil(FAN_OUT_COINS) + COINBASE_MATURITY as u64).ok()?;
        fan_out.checked_add(full)?.checked_add(tail)?;
        Some(Shape { fan_out, full, tail })
    }

    /// Height of the last block.
    pub(super) fn height(&self) -> Height {
        Height::new(self.fan_out + self.full + self.tail)
    }

    /// Share of the work that is done after the block at this height, from 0 to 1; `None` before the expensive part
    /// begins.
    pub(super) fn share_done(&self, height: Height, signatures: Signatures) -> Option<f64> {
        // Measured cost of a block. That of a full block depends on its bytes or its signatures.
        let [split, full, empty] = match signatures {
            Signatures::Fake => [5.0, 10.0, 0.05],
            Signatures::Real => [1.0, 10.0, 0.005],
        };
        let first_split = COINBASE_MATURITY as u32;
        let work = |height: Height| {
            let height = height.to_u32();
            let splits = height.min(self.fan_out).saturating_sub(first_split);
            let fulls = height.min(self.fan_out + self.full).saturating_sub(self.fan_out);
            let empties = height - splits - fulls;
            split * f64::from(splits) + full * f64::from(fulls) + empty * f64::from(empties)
        };
        let share = work(height) / work(self.height());
        (share > 0.01 && height > Height::new(first_split)).then_some(share)
    }
}

/// Counts of a chain, updated while it is planned. Genesis is not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    /// Coinbases included.
    pub(super) transactions: u64,
    /// Inputs, without those of coinbases.
    pub(super) inputs: u64,
    /// All outputs, including those without a coin.
    pub(super) outputs: u64,
    /// Coins at the tip.
    pub(super) txouts: u64,
}

/// See the head of this file. An iterator over all blocks.
#[derive(Debug)]
pub(super) struct Planner {
    model: &'static Model,
    params: Params,
    shape: Shape,
    keys: u64,
    rng: Rng,
    coins: Coins,
    /// Coinbases that may not be spent yet, the oldest first.
    coinbases: VecDeque<(Height, Coin)>,
    /// The remaining value of the coinbases while the first phase splits them.
    treasury: Option<Coin>,
    /// Number of coins that the first phase still has to create.
    coins_left: u64,
    /// Mean value of these coins.
    coin_mean: u64,
    next_tx: u32,
    totals: Totals,
    // The block that is being planned.
    block: BlockPlan,
    fees: u64,
    weight: u32,
    sigops_cost: u64,
}

impl Iterator for Planner {
    type Item = BlockPlan;

    fn next(&mut self) -> Option<BlockPlan> {
        let height = self.block.height + 1;
        if height > self.shape.height() {
            return None;
        }
        self.begin_block(height);
        if height <= Height::new(self.shape.fan_out) {
            self.fan_out();
        } else if height <= Height::new(self.shape.fan_out + self.shape.full) {
            self.fill();
        }
        Some(self.end_block())
    }
}

impl Planner {
    /// A planner of a chain of this shape, whose first phase creates `coins` coins.
    pub(super) fn new(
        model: &'static Model,
        params: Params,
        shape: Shape,
        coins: u64,
        keys: &Keys,
        seed: u64,
    ) -> Planner {
        let split = 1..=shape.fan_out - COINBASE_MATURITY as u32;
        let money: u64 = split.map(|height| subsidy(&params, Height::new(height))).sum();
        Planner {
            model,
            params,
            shape,
            keys: keys.len() as u64,
            rng: Rng::new(seed, 0),
            coins: Coins::default(),
            coinbases: VecDeque::new(),
            treasury: None,
            coins_left: coins,
            coin_mean: (money / 10 * 9 / coins.max(1)).min(COIN_MEAN_MAX),
            next_tx: 1,
            totals: Totals::default(),
            block: BlockPlan {
                height: Height::GENESIS,
                first_tx: 0,
                coinbase: Out::new(0, Kind::P2wpkh, 0),
                txs: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
            },
            fees: 0,
            weight: 0,
            sigops_cost: 0,
        }
    }

    /// Counts of the chain planned so far.
    pub(super) fn totals(&self) -> Totals {
        let txouts = self.coins.count() + self.coinbases.len() + usize::from(self.treasury.is_some());
        Totals { txouts: txouts as u64, ..self.totals }
    }

    fn begin_block(&mut self, height: Height) {
        self.block.height = height;
        self.block.first_tx = self.next_tx;
        self.next_tx += 1;
        (self.fees, self.weight, self.sigops_cost) = (0, BLOCK_OVERHEAD_WEIGHT, COINBASE_SIGOPS_COST);
    }

    fn end_block(&mut self) -> BlockPlan {
        let value = subsidy(&self.params, self.block.height) + self.fees;
        self.block.coinbase = self.draw_output(value);
        let coin = Coin { tx: self.block.first_tx, vout: 0, out: self.block.coinbase };
        self.coinbases.push_back((self.block.height, coin));
        self.coins.end_block();
        self.totals.transactions += self.block.txs.len() as u64 + 1;
        self.totals.inputs += self.block.inputs.len() as u64;
        self.totals.outputs += self.block.outputs.len() as u64 + 2;
        let block = self.block.clone();
        self.block.txs.clear();
        self.block.inputs.clear();
        self.block.outputs.clear();
        block
    }

    /// The coinbase that may be spent from this block on.
    fn matured(&mut self) -> Option<Coin> {
        let (height, coin) = *self.coinbases.front()?;
        let mature = i64::from(self.block.height.to_u32()) >= i64::from(height.to_u32()) + COINBASE_MATURITY;
        mature.then(|| self.coinbases.pop_front())?;
        Some(coin)
    }

    fn draw_output(&mut self, value: u64) -> Out {
        split::draw_output(&mut self.rng, self.model, self.keys, value)
    }

    /// Splits the matured coinbase and the rest of earlier ones: one transaction creates an input for each of the
    /// transactions that create the coins.
    fn fan_out(&mut self) {
        let Some(matured) = self.matured() else { return };
        self.block.inputs.push(matured);
        self.block.inputs.extend(self.treasury.take());
        let money: u64 = self.block.inputs.iter().map(|coin| coin.out.value()).sum();
        let count = self.coins_left.min(FAN_OUT_COINS);
        self.coins_left -= count;
        let rng = self.rng.clone();
        let (values, halvings) = self.draw_values(count as usize, money);
        let groups: Vec<&[u64]> = values.chunks(TX_COINS).collect();
        let mut left = money;
        for group in &groups {
            let value = group.iter().sum::<u64>() + group.len() as u64 * FAN_OUT_FEE;
            left -= value;
            let out = self.draw_output(value);
            self.block.outputs.push(out);
        }
        let fee = groups.len() as u64 * FAN_OUT_FEE;
        let treasury = self.draw_output(left - fee);
        self.block.outputs.push(treasury);
        let first = self.next_tx;
        self.end_transaction(fee, 0);
        let model = self.model;
        let keys = self.keys;
        let unit = self.unit();
        let count = count as usize;
        self.coins.begin_split(Split { model, keys, unit, count, first_tx: first, halvings, rng });
        // The remaining value is an output for the next block of this phase; after the last one it is an old coin like
        // any other.
        let coin = Coin { tx: first, vout: groups.len() as u32, out: treasury };
        if self.coins_left > 0 {
            self.treasury = Some(coin)
        } else {
            self.coins.add_old(coin)
        }
        for (vout, group) in groups.into_iter().enumerate() {
            let out = self.block.outputs[vout];
            self.block.inputs.push(Coin { tx: first, vout: vout as u32, out });
            for &value in group {
                let out = self.draw_output(value);
                self.block.outputs.push(out);
            }
            let tx = self.next_tx;
            let made = self.block.outputs.len() - group.len();
            for (vout, &out) in self.block.outputs[made..].iter().enumerate() {
                self.coins.add_fresh(Coin { tx, vout: vout as u32, out });
            }
            self.end_transaction(out.value() - group.iter().sum::<u64>(), 0);
        }
    }

    /// The unit that [`split::draw_value`] doubles up to nine times: the mean is 5.5 units.
    fn unit(&self) -> u64 {
        self.coin_mean * 2 / 11 + 1
    }

    /// Values of `count` coins around the target mean, few of them large; halved repeatedly if `money` does not
    /// suffice. Also returns the number of halvings.
    fn draw_values(&mut self, count: usize, money: u64) -> (Vec<u64>, u32) {
        let unit = self.unit();
        let mut values: Vec<u64> = (0..count).map(|_| split::draw_value(&mut self.rng, unit)).collect();
        let outputs = (count + count.div_ceil(TX_COINS)) as u64;
        let mut halvings = 0;
        while values.iter().sum::<u64>() + FAN_OUT_FEE * outputs > money {
            values.iter_mut().for_each(|value| *value = split::halved(*value));
            halvings += 1;
        }
        (values, halvings)
    }

    /// Adds transactions until the block has its drawn weight.
    fn fill(&mut self) {
        let end = self.rng.within(self.model.block_weight.from, self.model.block_weight.to);
        if let Some(coinbase) = self.matured() {
            if coinbase.out.value() >= PAYOUT_MIN {
                let outputs = 2 + self.model.draw_inputs(&mut self.rng).min(40);
                self.block.inputs.push(coinbase);
                self.transaction(outputs);
            } else {
                self.coins.add_old(coinbase);
            }
        }
        let smallest = tx_weight_max(self.model, 1, 2);
        while self.weight + smallest <= end && self.sigops_cost + 2_000 < MAX_BLOCK_SIGOPS_COST {
            let mut inputs = self.model.draw_inputs(&mut self.rng);
            let mut outputs = self.model.draw_outputs(&mut self.rng);
            if self.weight + tx_weight_max(self.model, inputs, outputs) > end {
                (inputs, outputs) = (1, 2);
            }
            for _ in 0..inputs {
                let age = Coins::draw_age(self.model, &mut self.rng);
                let chained = self.rng.below(1_000) < u64::from(self.model.chained_per_mille);
                self.block.inputs.extend(self.coins.take(age, chained, &mut self.rng));
            }
            if !self.transaction(outputs) {
                return;
            }
        }
    }

    /// Makes a transaction of the added inputs, with `outputs` outputs; returns whether there was an input.
    fn transaction(&mut self, outputs: u32) -> bool {
        let spent = self.open_inputs();
        let inputs = spent.len() as u32;
        let money = spent.iter().map(|coin| coin.out.value()).sum::<u64>();
        if inputs == 0 {
            return false;
        }
        let data = outputs >= 2 && self.rng.below(1_000) < u64::from(self.model.op_return_per_mille);
        let rate = self.rng.within(self.model.fee_rate.from, self.model.fee_rate.to);
        let bytes = tx_weight_max(self.model, inputs, outputs) / WITNESS_SCALE_FACTOR as u32;
        let fee = u64::from(rate * bytes / 2).min(money / 8);
        let made = self.block.outputs.len();
        for value in self.draw_shares(outputs as usize - usize::from(data), money - fee) {
            let out = self.draw_output(value);
            self.block.outputs.push(out);
        }
        if data {
            let bytes = self.rng.within(self.model.op_return_bytes.from, self.model.op_return_bytes.to);
            self.block.outputs.push(Out::new(0, Kind::OpReturn, bytes as u16));
            // Its position among the outputs is random.
            let at = made + self.rng.index(outputs as usize);
            let last = self.block.outputs.len() - 1;
            self.block.outputs.swap(at, last);
        }
        for (vout, &out) in self.block.outputs[made..].iter().enumerate() {
            if out.kind() != Kind::OpReturn {
                self.coins.add_fresh(Coin { tx: self.next_tx, vout: vout as u32, out });
            }
        }
        let lock_time = if self.rng.below(5) == 0 { self.block.height.to_u32() - 1 } else { 0 };
        self.end_transaction(fee, lock_time);
        true
    }

    /// Divides `money`. The first of two shares is often a round number, like payments.
    fn draw_shares(&mut self, count: usize, money: u64) -> Vec<u64> {
        let weights: Vec<u64> = (0..count).map(|_| 1 + self.rng.below(1 << 16)).collect();
        let sum: u64 = weights.iter().sum();
        let mut shares: Vec<u64> = weights.iter().map(|weight| money * weight / sum).collect();
        if count == 2 && self.rng.below(3) == 0 && shares[0] > 20_000 {
            shares[0] -= shares[0] % 10_000;
        }
        shares[count - 1] = money - shares[..count - 1].iter().sum::<u64>();
        shares
    }

    /// Inputs that were added since the last transaction ended.
    fn open_inputs(&self) -> &[Coin] {
        &self.block.inputs[self.block.txs.last().map_or(0, |tx| tx.inputs_end as usize)..]
    }

    /// Ends a transaction with the inputs and outputs added since the last one.
    fn end_transaction(&mut self, fee: u64, lock_time: u32) {
        let made = self.block.txs.last().map_or(0, |tx| tx.outputs_end as usize);
        let (weight, sigops_cost) = cost(self.open_inputs(), &self.block.outputs[made..]);
        self.weight += weight;
        self.sigops_cost += sigops_cost;
        self.fees += fee;
        self.next_tx += 1;
        let at = self.rng.below(10);
        self.block.txs.push(TxPlan {
            inputs_end: self.block.inputs.len() as u32,
            outputs_end: self.block.outputs.len() as u32,
            version: if at < 2 { 1 } else { 2 },
            // A lock time needs a sequence that is not final; none of these sequences sets a relative lock (BIP-0068).
            sequence: match at {
                0..5 => 0xffff_fffd,
                5..8 => 0xffff_fffe,
                _ if lock_time != 0 => 0xffff_fffe,
                _ => 0xffff_ffff,
            },
            lock_time,
        });
    }
}

/// The new coins of a block, in satoshi.
fn subsidy(params: &Params, height: Height) -> u64 {
    u64::try_from(spend::subsidy(params, height).0).expect("a subsidy is not negative")
}

/// Weight of a P2WSH or P2TR output, the longest of those that are coins.
const OUTPUT_WEIGHT_MAX: u32 = (8 + 1 + 43) * 4;

/// Maximum weight of an input, with signatures of maximum length.
fn input_weight(kind: Kind) -> u32 {
    // Outpoint, length of the script, sequence, and the count of the stack.
    let base = (36 + 1 + 4) * 4 + 1;
    let ecdsa = 1 + 72;
    base + match kind {
        Kind::P2wpkh => ecdsa + 1 + 33,
        Kind::P2tr => 1 + 64,
        Kind::P2pkh => (ecdsa + 1 + 33) * 4,
        Kind::P2shP2wpkh => 23 * 4 + ecdsa + 1 + 33,
        Kind::P2wsh => 1 + 2 * ecdsa + 1 + 105,
        // The longest leaf, with a sibling.
        Kind::P2trScript => 1 + 64 + 3 + 565 + 1 + 65,
        // The length of the script takes three bytes, not one.
        Kind::P2shMultisig => (2 + 1 + 2 * ecdsa + 2 + 105) * 4,
        Kind::OpReturn => 0,
    }
}

fn output_weight(out: Out) -> u32 {
    4 * (8
        + 1
        + match out.kind() {
            Kind::P2wpkh => 22,
            Kind::P2tr | Kind::P2wsh | Kind::P2trScript => 34,
            Kind::P2pkh => 25,
            Kind::P2shP2wpkh | Kind::P2shMultisig => 23,
            Kind::OpReturn => 2 + u32::from(out.key()),
        })
}

/// Weight of version, lock time, counts, marker and flag.
fn tx_overhead_weight(inputs: u32, outputs: u32) -> u32 {
    let counts = compact_size_bytes(u64::from(inputs)) + compact_size_bytes(u64::from(outputs));
    (4 + 4 + counts as u32) * 4 + 2
}

/// Maximum weight of a transaction of this model with this number of inputs and outputs.
fn tx_weight_max(model: &Model, inputs: u32, outputs: u32) -> u32 {
    let has_p2sh = model.kinds.iter().any(|(kind, _)| *kind == Kind::P2shMultisig);
    let input = input_weight(if has_p2sh { Kind::P2shMultisig } else { Kind::P2trScript });
    tx_overhead_weight(inputs, outputs) + inputs * input + outputs * OUTPUT_WEIGHT_MAX
}

/// Maximum weight, and signature operation cost, of one transaction.
fn cost(inputs: &[Coin], outputs: &[Out]) -> (u32, u64) {
    let weight = inputs.iter().map(|coin| input_weight(coin.out.kind())).sum::<u32>()
        + outputs.iter().map(|&out| output_weight(out)).sum::<u32>()
        + tx_overhead_weight(inputs.len() as u32, outputs.len() as u32);
    let sigops = inputs.iter().map(|coin| match coin.out.kind() {
        Kind::P2wpkh | Kind::P2shP2wpkh => 1,
        Kind::P2wsh => 3,
        // These are not in a witness: each of the three counts as four.
        Kind::P2shMultisig => 3 * WITNESS_SCALE_FACTOR as u64,
        _ => 0,
    });
    let p2pkh = outputs.iter().filter(|out| out.kind() == Kind::P2pkh).count();
    (weight, sigops.sum::<u64>() + (p2pkh * WITNESS_SCALE_FACTOR) as u64)
}
