//! The second check: one block, separately, by the reference implementations.
//!
//! Marking a block invalid is permanent, so the block is checked a second time before it is marked. Here nothing is
//! shared with the pipeline except the rules: one thread, hashes computed singly, every look-up made (BIP30's too),
//! scripts by the interpreter, which checks each signature at once. If this check accepts a block that the pipeline
//! refused, the machine or this program is at fault, and nothing is marked.

use crate::chain::block::{Bip30, BlockContext, HeaderContext};
use crate::fault::Fault;
use crate::pipeline::stages::transaction_of;
use consensus::{BlockError, BlockSpend, Params, Place, Rule, SpentCoin, block};
use kernels::Kernels;
use kernels::sha256::{Sha256, sha256};
use primitives::coin::{CoinRef, code, is_unspendable, put_coin};
use primitives::{Amount, Block, BlockHash, Height, MedianTime, OutPoint, Tables, Txid, Wtxid};
use script::{Flags, Immediate, Precomputed, Scratch, SpentOutput};
use std::collections::HashMap;
use std::ops::Range;
use sys::spill::{Spill, SpillFiles};

/// Input of the second check.
pub(crate) struct Question<'a> {
    /// The network's rules.
    pub params: &'a Params,
    /// The block's place in its chain.
    pub context: &'a BlockContext,
    /// The block, read again.
    pub bytes: &'a [u8],
    /// Median times past by height along its chain.
    pub times: &'a [MedianTime],
    /// Temporary files for the scripts that it spends, if they are too many for memory.
    pub spill: &'a SpillFiles,
    /// Whether to check the rules that need no coins.
    pub alone: Alone,
    /// The input whose scripts failed in the first check, if that is why the block was refused.
    pub suspect: Option<Suspect>,
}

/// An input whose scripts are run before all others: if they fail, no other input matters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Suspect {
    transaction: usize,
    input: usize,
}

impl Suspect {
    /// The input that the error of the first check names, if its scripts failed.
    pub(crate) fn of(first: &BlockError) -> Option<Suspect> {
        let Place::Transaction { index, input: Some(input), .. } = first.place else { return None };
        let is_script = matches!(first.rule, Rule::BlockScriptVerifyFlagFailed { .. });
        is_script.then_some(Suspect { transaction: index as usize, input: input as usize })
    }
}

/// How to treat the rules of a block that need no coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alone {
    /// Check them too.
    Judge,
    /// The caller has checked them.
    Judged,
}

/// Result of the second check.
#[derive(Debug)]
pub(crate) enum Answer {
    /// It breaks no rule.
    Good,
    /// A rule is broken.
    Refused {
        /// Which one.
        error: BlockError,
        /// Transactions of the block, if it passes the rules that need no coins: it was refused for its coins or
        /// scripts.
        transactions: Option<u32>,
    },
    /// The bytes do not deserialize as a block, or are another block.
    WrongBody,
}

/// Which of Core's functions refuses a block by a rule that needs no coins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Check {
    /// `CheckBlock`: whatever its place in the chain.
    CheckBlock,
    /// `ContextualCheckBlock`: at its place in the chain.
    ContextualCheckBlock,
}

/// Checks a block that was refused for `first` again by the rules that need no coins; returns the rule that it breaks.
///
/// # Errors
///
/// A fault of the machine or of ffwd if this check gives another result.
pub(crate) fn confirm(
    params: &Params,
    header: &HeaderContext,
    bytes: &[u8],
    first: &BlockError,
) -> Result<(BlockError, Check), Fault> {
    let mut tables = Tables::with(Kernels::PLAIN);
    match tables.parse_block(bytes) {
        Ok(parsed) if parsed.header() == header.header => {
            let again = alone(params, header, &parsed, &plain_txids(&parsed));
            again.ok_or_else(|| disagreement(header.hash, header.height, first, "it was found valid"))
        }
        _ => Err(disagreement(header.hash, header.height, first, "its bytes were those of another block")),
    }
}

/// The first broken rule that needs no coins, and which of Core's functions checks it.
pub(crate) fn alone_of(params: &Params, header: &HeaderContext, bytes: &[u8]) -> Option<(BlockError, Check)> {
    let mut tables = Tables::with(Kernels::PLAIN);
    let parsed = tables.parse_block(bytes).ok()?;
    alone(params, header, &parsed, &plain_txids(&parsed))
}

/// The fault for a block on which the two checks disagree.
pub(crate) fn disagreement(hash: BlockHash, height: Height, first: &BlockError, then: &str) -> Fault {
    Fault::internal(format!(
        "block {hash} at height {height} was refused ({first}), and when it was judged again {then}: check memory and disk"
    ))
}

/// Checks a block with its coins. `coin` returns the stored bytes of an unspent coin of the set before the block.
///
/// # Errors
///
/// Errors of `coin`, or a disk that returns other bytes than were written.
pub(crate) fn judge(
    question: &Question<'_>,
    mut coin: impl FnMut(&OutPoint) -> Result<Option<Vec<u8>>, Fault>,
) -> Result<Answer, Fault> {
    let mut tables = Tables::with(Kernels::PLAIN);
    let Ok(parsed) = tables.parse_block(question.bytes) else { return Ok(Answer::WrongBody) };
    if parsed.header() != question.context.header {
        return Ok(Answer::WrongBody);
    }
    let txids = plain_txids(&parsed);
    if question.alone == Alone::Judge
        && let Some((error, _)) = alone(question.params, &question.context.at, &parsed, &txids)
    {
        return Ok(Answer::Refused { error, transactions: None });
    }
    let transactions = Some(txids.len() as u32);
    if question.context.bip30 != Bip30::NotEnforced {
        for (tx, txid) in parsed.transactions().zip(&txids) {
            for vout in 0..tx.output_count() as u32 {
                if coin(&OutPoint { txid: *txid, vout })?.is_some() {
                    return Ok(Answer::Refused { error: Rule::BadTxnsBip30.into(), transactions });
                }
            }
        }
    }
    let mut spent = SpentCoins::new(question.spill);
    let error = with_coins(question, &parsed, &txids, &mut spent, coin)?;
    if !spent.are_unchanged() {
        let hash = question.context.header.hash();
        return Err(Fault::internal(format!(
            "a file with the coins that block {hash} spends returned changed bytes: check memory and disk"
        )));
    }
    Ok(match error {
        Some(error) => Answer::Refused { error, transactions },
        None => Answer::Good,
    })
}

fn plain_txids(parsed: &Block<'_>) -> Vec<Txid> {
    parsed.transactions().map(|tx| Txid::from_bytes(plain_hash(&tx.txid_pieces().concat()))).collect()
}

fn plain_hash(bytes: &[u8]) -> [u8; 32] {
    sha256(&sha256(bytes))
}

/// The first broken rule that needs no coins.
fn alone(params: &Params, header: &HeaderContext, parsed: &Block<'_>, txids: &[Txid]) -> Option<(BlockError, Check)> {
    let mut sigops = Vec::new();
    let mut scratch = block::Scratch::default();
    let hash = header.header.hash();
    if let Err(error) = block::check(params, parsed, &hash, txids, &mut sigops, &mut scratch) {
        return Some((error, Check::CheckBlock));
    }
    let mut wtxids: Vec<Wtxid> = Vec::new();
    if block::needs_wtxids(params, parsed, header.height) {
        wtxids.extend(parsed.transactions().map(|tx| Wtxid::from_bytes(plain_hash(tx.bytes()))));
    }
    let context =
        block::Context { height: header.height, median_time_past: header.parent_mtp, cleanup: header.cleanup };
    let checked = block::check_context(params, parsed, &context, txids, &wtxids, &mut scratch);
    checked.err().map(|error| (error, Check::ContextualCheckBlock))
}

/// The first broken rule among those that need the coins, then among the scripts.
fn with_coins(
    question: &Question<'_>,
    parsed: &Block<'_>,
    txids: &[Txid],
    spent: &mut SpentCoins,
    mut coin: impl FnMut(&OutPoint) -> Result<Option<Vec<u8>>, Fault>,
) -> Result<Option<BlockError>, Fault> {
    // Coins that earlier transactions of the block created or spent.
    let mut here: HashMap<OutPoint, Option<Vec<u8>>> = HashMap::new();
    let hash = question.context.header.hash();
    let at = &question.context.at;
    let mut spend = BlockSpend::new(question.params, at.height, &hash, at.parent_mtp).with_cleanup(at.cleanup);
    for (index, tx) in parsed.transactions().enumerate() {
        let first = spent.coins.len();
        for input in tx.inputs().take(if index == 0 { 0 } else { usize::MAX }) {
            let name = input.prevout();
            let stored = match here.get(&name) {
                Some(known) => known.clone(),
                None => coin(&name)?,
            };
            spent.push(stored.as_deref());
            here.insert(name, None);
        }
        let sigops = consensus::transaction::legacy_sigops(&tx);
        let times = |height: Height| question.times[height.to_usize()];
        if let Err(error) = spend.transaction(&tx, &txids[index], sigops, |input| spent.get(first + input), times) {
            return Ok(Some(error));
        }
        for (vout, output) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
            let mut bytes = Vec::new();
            put_coin(&mut bytes, code(question.context.height, index == 0), output.value(), output.script());
            here.insert(OutPoint { txid: txids[index], vout: vout as u32 }, Some(bytes));
        }
    }
    if let Err(error) = spend.finish(&parsed.transaction(0)) {
        return Ok(Some(error));
    }
    let scripts = question.context.scripts().map(|flags| run_scripts(parsed, txids, spent, flags, question.suspect));
    Ok(scripts.and_then(Result::err))
}

/// The coins that the inputs of a block spend, in order, without the coinbase's.
struct SpentCoins {
    /// `None` if the coin does not exist.
    coins: Vec<Option<Spent>>,
    /// At most 244 MB: in a temporary file if they are too many for memory.
    scripts: Spill,
    /// A hash of all scripts, because a failing disk may return other bytes.
    hash: Sha256,
}

/// A coin, and the position of its script among all scripts.
struct Spent {
    height: Height,
    coinbase: bool,
    value: Amount,
    script: Range<usize>,
}

impl SpentCoins {
    fn new(spill: &SpillFiles) -> SpentCoins {
        SpentCoins { coins: Vec::new(), scripts: spill.empty(), hash: Sha256::new() }
    }

    /// Adds a stored coin, or `None` for one that does not exist.
    fn push(&mut self, stored: Option<&[u8]>) {
        self.coins.push(stored.map(|bytes| {
            let coin = CoinRef::decode(bytes).expect("stored coins were checked");
            let start = self.scripts.len();
            let script = coin.script.to_vec();
            self.hash.update(&script);
            self.scripts.extend_from_slice(&script);
            Spent { height: coin.height, coinbase: coin.coinbase, value: coin.value, script: start..self.scripts.len() }
        }));
    }

    /// Whether the scripts are still those that were added.
    fn are_unchanged(&self) -> bool {
        self.hash.clone().finalize() == sha256(&self.scripts)
    }

    fn get(&self, input: usize) -> Option<SpentCoin<'_>> {
        let Spent { height, coinbase, value, script } = self.coins[input].as_ref()?;
        let script = &self.scripts[script.clone()];
        Some(SpentCoin { height: *height, coinbase: *coinbase, value: *value, script })
    }
}

/// Runs the scripts of the suspect, and if they pass, of all inputs.
fn run_scripts(
    parsed: &Block<'_>,
    txids: &[Txid],
    spent: &SpentCoins,
    flags: Flags,
    suspect: Option<Suspect>,
) -> Result<(), BlockError> {
    let mut scratch = Scratch::default();
    let count = |index: usize| parsed.transaction(index).input_count();
    let is_there = |at: &Suspect| (1..txids.len()).contains(&at.transaction) && at.input < count(at.transaction);
    if let Some(Suspect { transaction, input }) = suspect.filter(is_there) {
        run_inputs(parsed, txids, spent, flags, transaction, input..input + 1, &mut scratch)?;
    }
    for index in 1..txids.len() {
        run_inputs(parsed, txids, spent, flags, index, 0..count(index), &mut scratch)?;
    }
    Ok(())
}

/// Runs the scripts of some inputs of a transaction.
fn run_inputs(
    parsed: &Block<'_>,
    txids: &[Txid],
    spent: &SpentCoins,
    flags: Flags,
    index: usize,
    inputs: Range<usize>,
    scratch: &mut Scratch,
) -> Result<(), BlockError> {
    let tx = parsed.transaction(index);
    debug_assert_eq!(transaction_of(parsed, tx.first_input()), index);
    let coins = (tx.first_input() - 1..).take(tx.input_count()).map(|input| spent.get(input));
    let outputs: Vec<SpentOutput<'_>> = coins
        .map(|coin| coin.expect("a block with a missing coin was refused"))
        .map(|coin| SpentOutput { value: coin.value, script: coin.script })
        .collect();
    let precomputed = Precomputed::new(tx, &outputs);
    for input in inputs {
        script::verify::verify_by_interpreter(&precomputed, input, flags, &mut Immediate, scratch).map_err(
            |error| BlockError::in_input(Rule::BlockScriptVerifyFlagFailed { error }, index, txids[index], input),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_scripts_are_noticed() {
        let mut spent = SpentCoins::new(&SpillFiles::default());
        for (height, script) in [(7, &[0x51][..]), (9, &[0x52, 0x53])] {
            let mut stored = Vec::new();
            put_coin(&mut stored, code(Height::new(height), height == 9), Amount(5), script);
            spent.push(Some(&stored));
        }
        spent.push(None);
        let coin = spent.get(1).unwrap();
        assert_eq!(
            (coin.height, coin.coinbase, coin.value, coin.script),
            (Height::new(9), true, Amount(5), &[0x52, 0x53][..])
        );
        assert!(spent.get(2).is_none() && spent.are_unchanged());
        spent.scripts[2] ^= 1;
        assert!(!spent.are_unchanged());
    }

    /// A block of a coinbase and a transaction with an input for each script.
    fn block_spending(scripts: &[&[u8]]) -> (Vec<u8>, SpentCoins) {
        let mut bytes = vec![0; 80];
        bytes.extend([2, 1, 0, 0, 0, 1]);
        bytes.extend(
            [[0; 32].as_slice(), &[0xff; 4], &[2, 0x51, 0x51], &[0xff; 4], &[1], &[0; 8], &[0], &[0; 4]].concat(),
        );
        bytes.extend([1, 0, 0, 0, scripts.len() as u8]);
        let mut spent = SpentCoins::new(&SpillFiles::default());
        for (at, script) in scripts.iter().enumerate() {
            bytes.extend([[at as u8 + 1; 36].as_slice(), &[0], &[0xff; 4]].concat());
            let mut stored = Vec::new();
            put_coin(&mut stored, code(Height::new(7), false), Amount(5), script);
            spent.push(Some(&stored));
        }
        bytes.extend([[1].as_slice(), &[0; 8], &[0], &[0; 4]].concat());
        (bytes, spent)
    }

    #[test]
    fn suspect_is_tried_first_and_others_if_it_passes() {
        let (good, bad): (&[u8], &[u8]) = (&[0x51], &[0x00]);
        let at = |transaction, input| Some(Suspect { transaction, input });
        for (name, scripts, suspect, want) in [
            ("nobody", [good, good, good], None, None),
            ("a suspect that passes", [good, good, good], at(1, 2), None),
            ("no suspect", [good, bad, bad], None, Some(1)),
            ("the suspect fails, and no other runs", [good, bad, bad], at(1, 2), Some(2)),
            ("the suspect passes, another fails", [good, bad, good], at(1, 2), Some(1)),
            ("an input that is not there", [good, bad, good], at(1, 3), Some(1)),
            ("a transaction that is not there", [good, bad, good], at(2, 0), Some(1)),
            ("the coinbase", [good, bad, good], at(0, 0), Some(1)),
        ] {
            let (bytes, spent) = block_spending(&scripts);
            let mut tables = Tables::with(Kernels::PLAIN);
            let parsed = tables.parse_block(&bytes).expect("it is a block");
            let txids = plain_txids(&parsed);
            let have = run_scripts(&parsed, &txids, &spent, Flags::CONSENSUS, suspect).err();
            assert_eq!(have.as_ref().and_then(Suspect::of).map(|at| at.input), want, "{name}: {have:?}");
        }
        let elsewhere = BlockError::in_input(Rule::BadTxnsBip30, 1, Txid::from_bytes([0; 32]), 0);
        assert_eq!(Suspect::of(&elsewhere), None, "only scripts have one");
    }
}
