//! Audits one range of blocks: validates it with its undo data, verifies every script, and sums the created and spent
//! coins.
//!
//! Created and spent coins are as in Core: the genesis block and unspendable outputs create no coins, and a coinbase
//! that repeats an earlier one (BIP30's two pairs) removes the earlier coins.

use crate::record::{BlocksRecord, Record, blocks_text, rules_name, weighted};
use crate::sums::{Adder, Salt, Side, Sums};
use crate::workers::{Stopped, judge_all};
use consensus::bip30;
use kernels::Kernels;
use node::Fault;
use node::offline::files::{ChainFiles, JudgedBlock, Needs, Wrong};
use node::options::Options;
use primitives::{BlockHash, Height, OutPoint, Tables, Txid};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use store::FaultKind;

/// The kind of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A block breaks a rule, or files are damaged or false: a retry gives the same result.
    Invalid,
    /// A fault of the system: a retry may succeed.
    Fault,
}

/// Why a range has no record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The range.
    pub range: (u32, u32),
    /// Height of the block, if it concerns one.
    pub height: Option<u32>,
    /// Its kind.
    pub kind: Kind,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", blocks_text(self.range.0, self.range.1), self.why)
    }
}

/// The counts of one thread.
struct Tally {
    adder: Adder,
    transactions: u64,
    inputs: u64,
    outputs: u64,
    fees: u64,
    coinbases: u64,
    made: (u64, u64),
    spent: (u64, u64),
    coinbase_ids: Vec<(Height, BlockHash, Txid)>,
}

impl Tally {
    fn new(salt: &Salt, kernels: Kernels) -> Tally {
        let adder = Adder::new(salt, kernels);
        let made = (0, 0);
        let spent = (0, 0);
        let coinbase_ids = Vec::new();
        Tally { adder, transactions: 0, inputs: 0, outputs: 0, fees: 0, coinbases: 0, made, spent, coinbase_ids }
    }

    /// Counts the coins that a block creates and spends.
    fn count(&mut self, judged: &JudgedBlock) {
        let block = judged.block();
        let context = judged.context();
        let height = context.at.height;
        let overwritten = bip30::overwritten_by(height, &context.at.hash);
        for (index, tx) in block.transactions().enumerate() {
            let txid = judged.txids()[index];
            let coinbase = index == 0;
            for (vout, output) in (0..).zip(tx.outputs()) {
                let value = output.value();
                let script = output.script();
                if coinbase {
                    self.coinbases = self.coinbases.saturating_add(value.0 as u64);
                }
                if !bip30::makes_coin(height, script) {
                    continue;
                }
                let outpoint = OutPoint { txid, vout };
                self.adder.add(Side::Made, &outpoint, height, coinbase, value, script);
                self.made = (self.made.0 + 1, self.made.1.saturating_add(value.0 as u64));
                if let Some(below) = overwritten.filter(|_| coinbase) {
                    // The same transaction created the same coins in an earlier block; they are removed here.
                    self.adder.add(Side::Spent, &outpoint, below, true, value, script);
                    self.spent = (self.spent.0 + 1, self.spent.1.saturating_add(value.0 as u64));
                }
            }
            if !coinbase {
                for (input, number) in tx.inputs().zip(tx.first_input() - 1..) {
                    let coin = judged.spent(number);
                    let outpoint = input.prevout();
                    self.adder.add(Side::Spent, &outpoint, coin.height, coin.coinbase, coin.value, coin.script);
                    self.spent = (self.spent.0 + 1, self.spent.1.saturating_add(coin.value.0 as u64));
                }
            }
        }
        self.transactions += block.transaction_count() as u64;
        self.inputs += judged.inputs() as u64;
        self.outputs += block.output_count() as u64;
        self.fees = self.fees.saturating_add(judged.totals().fees.0 as u64);
        if let Some(txid) = judged.txids().first() {
            self.coinbase_ids.push((height, context.at.hash, *txid));
        }
    }
}

/// Audits the blocks from height `from` to `to`, both included. With a plan the block index is not read.
///
/// # Errors
///
/// The first problem, with the range.
pub fn part(options: &Options, salt: &Salt, from: u32, to: u32, plan: Option<&Path>) -> Result<Record, Finding> {
    let finding = |height: Option<Height>, kind, why| Finding {
        range: (from, to),
        height: height.map(Height::to_u32),
        kind,
        why,
    };
    let fault = |fault: Fault| finding(None, kind_of(&fault), fault.to_string());
    let chain =
        ChainFiles::open(options, Height::new(from), Some(Height::new(to)), Needs::Rules, plan).map_err(fault)?;
    let mut tallies: Vec<Tally> = Vec::new();
    let judged =
        judge_all(&chain, options.par, || Tally::new(salt, options.kernels), Tally::count, |tally| tallies.push(tally));
    judged.map_err(|stopped| {
        let Stopped { height, wrong } = *stopped;
        let kind = match &wrong {
            Wrong::Fault(fault) => kind_of(fault),
            Wrong::Rule(_) | Wrong::Data(_) => Kind::Invalid,
        };
        let place = height.map(|height| format!("block {} at height {height}: ", chain.hash(height)));
        finding(height, kind, place.unwrap_or_default() + &wrong.to_string())
    })?;
    let ids = tallies.iter_mut().flat_map(|tally| std::mem::take(&mut tally.coinbase_ids)).collect();
    if let Some((height, why)) = repeated_coinbase(&chain, ids).map_err(fault)? {
        return Err(finding(Some(height), Kind::Invalid, why));
    }
    Ok(Record::Blocks(record(&chain, salt, tallies)))
}

fn kind_of(fault: &Fault) -> Kind {
    match fault {
        Fault::Store(fault) if matches!(fault.kind(), FaultKind::Io | FaultKind::NoSpace | FaultKind::Permission) => {
            Kind::Fault
        }
        Fault::Internal(_) => Kind::Fault,
        _ => Kind::Invalid,
    }
}

/// BIP30, if headers do not rule it out: a coinbase that repeats an earlier one. Other transactions cannot repeat,
/// because they would spend the same coins.
fn repeated_coinbase(
    chain: &ChainFiles,
    mut ids: Vec<(Height, BlockHash, Txid)>,
) -> Result<Option<(Height, String)>, Fault> {
    if chain.coinbases_differ() {
        return Ok(None);
    }
    let mut known: HashMap<Txid, Height> = HashMap::new();
    chain.blocks_below(|height, bytes| {
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes);
        let block = block.map_err(|why| {
            let why = format!("block at height {height}: {why}");
            Fault::refused(why, "The block file is damaged: run ffwd repair, which fetches only damaged blocks")
        })?;
        if block.transaction_count() > 0 {
            known.insert(block.transaction(0).txid(), height);
        }
        Ok(())
    })?;
    ids.sort_unstable();
    for (height, hash, txid) in ids {
        let earlier = known.insert(txid, height);
        if let Some(earlier) = earlier.filter(|_| bip30::overwritten_by(height, &hash).is_none()) {
            return Ok(Some((
                height,
                format!(
                    "block {hash} at height {height}: its coinbase {txid} is that of block {earlier} again (bad-txns-BIP30)"
                ),
            )));
        }
    }
    Ok(None)
}

fn record(chain: &ChainFiles, salt: &Salt, tallies: Vec<Tally>) -> BlocksRecord {
    let sum = |of: fn(&Tally) -> u64| tallies.iter().fold(0u64, |sum, tally| sum.saturating_add(of(tally)));
    let first = chain.first();
    let last = chain.last();
    let work = primitives::hex::encode(&chain.work().0.to_le_bytes().into_iter().rev().collect::<Vec<u8>>());
    let [below, through] = chain.digests().map(|digest| primitives::hex::encode(&digest));
    let mut record = BlocksRecord {
        audit: salt.name(),
        chain: chain.params().chain.name().to_owned(),
        rules: rules_name(chain.params()),
        from: first.to_u32(),
        to: last.to_u32(),
        prev: chain.header(first).prev().to_string(),
        first: chain.hash(first).to_string(),
        last: chain.hash(last).to_string(),
        below,
        through,
        bip34: chain.has_known_bip34(),
        work: work.trim_start_matches('0').to_owned(),
        transactions: sum(|tally| tally.transactions),
        inputs: sum(|tally| tally.inputs),
        outputs: sum(|tally| tally.outputs),
        fees: sum(|tally| tally.fees),
        coinbases: sum(|tally| tally.coinbases),
        made_coins: sum(|tally| tally.made.0),
        made_amount: sum(|tally| tally.made.1),
        spent_coins: sum(|tally| tally.spent.0),
        spent_amount: sum(|tally| tally.spent.1),
        made: String::new(),
        spent: String::new(),
        weighted: Vec::new(),
    };
    let mut made = Sums::default();
    let mut spent = Sums::default();
    for tally in tallies {
        let (made_there, spent_there) = tally.adder.finish();
        (made, spent) = (made.plus(&made_there), spent.plus(&spent_there));
    }
    (record.made, record.spent) = (made.0[0].to_hex(), spent.0[0].to_hex());
    record.weighted = weighted(&made.minus(&spent));
    record
}
