//! The work on a block, stage by stage: each stage uses the result of the one before, and reads no files.
//!
//! `check`: bytes to tables and ids, or the first broken rule that needs no coins. `prepare`: tables and ids to the
//! operations on the UTXO set. `judge`: answers to undo data and totals, or the first broken rule that needs the coins.
//! `scripts`: runs the scripts of some inputs.
//!
//! Absent on purpose: threads, order, files. The pipeline assigns work to workers, and lends its scratch space.

use crate::chain::block::{Bip30, BlockContext, Checked, FoundBits, HeaderContext, Judged, Prepared, Refusal, Spent};
use coins::ops::{NewCoins, group_of};
use coins::{Answers, Ops, SHARD_GROUPS};
use consensus::spend::{Totals, subsidy};
use consensus::{BlockError, BlockSpend, Params, Rule, SpentCoin, bip30, block};
use indexes::block::BlockPlace;
use indexes::{BlockRecords, Wanted};
use kernels::Kernels;
use primitives::coin::{CoinRef, is_unspendable};
use primitives::{Amount, Block, BlockHash, Height, MedianTime, Tables, Wtxid, undo};
use script::{Batch, Flags};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use store::signature_hints::SignatureHints;
use store::undofiles::{UNDO_OVERHEAD_BYTES, undo_record_in_place};
use sys::spill::{Spill, SpillFiles};

/// Prefetch distance, in coins: they are stored with the answers of their shard groups.
const COINS_AHEAD: usize = 8;
/// Approximate bytes of a coin's script.
const SCRIPT_BYTES: usize = 26;

/// Memory for checking blocks, reused for each.
#[derive(Default)]
pub(crate) struct CheckScratch {
    /// Kernels for hashes.
    pub(super) kernels: Kernels,
    block: block::Scratch,
    wtxids: Vec<Wtxid>,
}

/// Memory for running scripts, reused for each batch.
pub(crate) struct ScriptScratch {
    deferred: script::Deferred,
    interpreter: script::Scratch,
}

impl Default for ScriptScratch {
    fn default() -> ScriptScratch {
        ScriptScratch { deferred: script::Deferred::new(), interpreter: script::Scratch::new() }
    }
}

/// Parses a body and checks every rule that needs no coins; those of its place in the chain if requested.
pub(crate) fn check(
    params: &Params,
    header: &HeaderContext,
    bytes: &[u8],
    contextual: bool,
    scratch: &mut CheckScratch,
) -> Result<Checked, Refusal> {
    let mut tables = Tables::with(scratch.kernels);
    let parsed = tables.parse_block(bytes).map_err(Refusal::Unparsable)?;
    if parsed.header() != header.header {
        return Err(Refusal::WrongBody);
    }
    let mut txids = Vec::new();
    parsed.txids_into(&mut txids);
    let mut sigops = Vec::new();
    block::check(params, &parsed, &header.hash, &txids, &mut sigops, &mut scratch.block).map_err(Refusal::Rule)?;
    if contextual {
        let CheckScratch { block, wtxids, .. } = scratch;
        wtxids.clear();
        if block::needs_wtxids(params, &parsed, header.height) {
            parsed.wtxids_into(&txids, wtxids);
        }
        let HeaderContext { height, parent_mtp: median_time_past, cleanup, .. } = *header;
        let context = block::Context { height, median_time_past, cleanup };
        block::check_context(params, &parsed, &context, &txids, wtxids, block).map_err(Refusal::Rule)?;
    }
    Ok(Checked { tables, txids, sigops })
}

/// Like [`check`], for a body from a foreign file: all rules, in the order of Core's `AcceptBlock`.
pub(crate) fn check_from_file(
    params: &Params,
    header: &HeaderContext,
    bytes: &[u8],
    scratch: &mut CheckScratch,
) -> Result<Checked, Refusal> {
    check(params, header, bytes, true, scratch)
}

/// Like [`check`], for a body from a peer. A failure reports first whether the body can match its header at all, as in
/// Core ([`block::mutation`]); a body that passes the checks matches.
pub(crate) fn check_arrived(
    params: &Params,
    header: &HeaderContext,
    bytes: &[u8],
    scratch: &mut CheckScratch,
) -> Result<Checked, Refusal> {
    let first = match check(params, header, bytes, true, scratch) {
        Err(Refusal::Rule(error)) => error,
        other => return other,
    };
    let mut tables = Tables::with(scratch.kernels);
    let parsed = tables.parse_block(bytes).map_err(Refusal::Unparsable)?;
    let mut txids = Vec::new();
    let mut wtxids = Vec::new();
    parsed.txids_into(&mut txids);
    if block::needs_wtxids(params, &parsed, header.height) {
        parsed.wtxids_into(&txids, &mut wtxids);
    }
    let segwit = header.height >= params.segwit_height;
    let mutation = block::mutation(&parsed, segwit, &txids, &wtxids, &mut scratch.block);
    Err(Refusal::Rule(mutation.unwrap_or(first)))
}

/// Derives the operations of a checked block on the UTXO set.
///
/// A block that was checked on arrival was checked with its own copy of the header, which must be the chain's.
pub(crate) fn prepare(
    context: &BlockContext,
    bytes: &[u8],
    checked: Arc<Checked>,
    scratch: &mut NewCoins,
) -> Result<Prepared, Refusal> {
    let block = checked.block(bytes);
    if block.header() != context.header {
        return Err(Refusal::WrongBody);
    }
    let ops = Ops::build(scratch, &block, &checked.txids, context.height);
    Ok(Prepared { checked, ops })
}

/// Coins from memory and tables for the outpoints of a block.
pub(crate) struct CoinAnswers<'a> {
    /// Answers to its spends, by shard group.
    pub(crate) spends: [&'a Answers; SHARD_GROUPS],
    /// Whether one of its outputs has the outpoint of an unspent coin, if that was looked up.
    pub(crate) exists: bool,
}

/// Input for judging a block, in addition to the block and its coins.
#[derive(Clone, Copy)]
pub(crate) struct Judging<'a> {
    /// Median times past by height along the block's chain.
    pub(crate) times: &'a [MedianTime],
    /// The magic of undo records, if one is to be made for a valid block.
    pub(crate) undo: Option<[u8; 4]>,
    /// Data that the optional indexes need from a valid block.
    pub(crate) indexes: Option<&'a Wanted>,
    /// Temporary files for data that is too large for memory.
    pub(crate) spill: &'a SpillFiles,
    /// Hints about signatures, if there are some and scripts run.
    pub(crate) hints: Option<&'a SignatureHints>,
    /// Whether hints about signatures are to be found when scripts run.
    pub(crate) finds: bool,
}

/// Gathers the coins that a block spends and checks every rule that needs them, except scripts.
pub(crate) fn judge(
    params: &Params,
    context: &BlockContext,
    prepared: &Prepared,
    block: &Block<'_>,
    answers: &CoinAnswers<'_>,
    judging: Judging<'_>,
) -> Result<Judged, BlockError> {
    let Judging { times, spill, .. } = judging;
    bip30::check(context.bip30 == Bip30::Enforced, answers.exists)?;
    let runs = context.scripts().is_some();
    // Each answer is looked up once, because answers are scattered in memory.
    let coins: Vec<Option<&[u8]>> =
        (1..block.input_count()).map(|input| answer(prepared, block, input, answers)).collect();
    let coin_bytes: usize = coins.iter().flatten().map(|coin| coin.len()).sum();
    // BIP-0054 counts the signature operations of every script.
    let gathers = runs || context.cleanup.is_on();
    let script_bytes = (coins.len() * SCRIPT_BYTES).max(if gathers { coin_bytes } else { 0 });
    let mut spent = Vec::with_capacity(coins.len());
    let mut scripts = spill.with_capacity(script_bytes);
    let mut taken = coins::Totals::default();
    for (at, coin) in coins.iter().enumerate() {
        if let Some(Some(ahead)) = coins.get(at + COINS_AHEAD) {
            block.kernels().prefetch(ahead, 0);
        }
        spent.push(gather(*coin, gathers, &mut scripts, &mut taken));
    }
    let time_at = |height: Height| times[height.to_usize()];
    let totals = spend(params, context, prepared, block, &spent, &scripts, time_at)?;
    let undo = judging.undo.map(|magic| undo_of(magic, block, &coins, coin_bytes, spill));
    if !runs {
        scripts = Spill::new();
    }
    let change = made(context, prepared, block).minus(taken);
    let records = judging.indexes.map(|wanted| records(params, context, prepared, block, &coins, wanted, spill));
    let bits = judging.hints.and_then(|hints| hints.of_block(context.height, &context.hash, spent.len()));
    let found = judging.finds.then(|| FoundBits::new(spent.len()));
    Ok(Judged { spent, scripts, undo, change, totals, records: Mutex::new(records), bits, found })
}

/// Totals of the coins that a block adds to the set. Coins of a coinbase that repeats an earlier one replace the equal
/// existing coins.
fn made(context: &BlockContext, prepared: &Prepared, block: &Block<'_>) -> coins::Totals {
    let mut repeated = coins::Totals::default();
    if context.overwrites {
        let outputs = block.transaction(0).outputs().filter(|output| !is_unspendable(output.script()));
        outputs.for_each(|output| repeated.count(output.script().len(), output.value().0));
    }
    prepared.ops.made().minus(repeated)
}

/// Like `judge`, with coins from undo data: `coins`, in the order of the inputs, without the coinbase's. Whether such a
/// coin existed at all is not checked. `time_at` returns median times past along the block's chain.
pub(crate) fn judge_coins(
    params: &Params,
    context: &BlockContext,
    checked: &Checked,
    block: &Block<'_>,
    coins: &[CoinRef<'_>],
    time_at: impl Fn(Height) -> MedianTime,
    spill: &SpillFiles,
) -> Result<Judged, BlockError> {
    let script_bytes = coins.iter().map(|coin| coin.script.script_bytes()).sum();
    let mut scripts = spill.with_capacity(script_bytes);
    let spent: Vec<Spent> = coins.iter().map(|coin| gather_coin(coin, true, &mut scripts)).collect();
    let totals = spend(params, context, checked, block, &spent, &scripts, time_at)?;
    let change = coins::Totals::default();
    Ok(Judged { spent, scripts, undo: None, change, totals, records: Default::default(), bits: None, found: None })
}

/// Every rule that needs the coins, except scripts.
fn spend(
    params: &Params,
    context: &BlockContext,
    checked: &Checked,
    block: &Block<'_>,
    spent: &[Spent],
    scripts: &[u8],
    time_at: impl Fn(Height) -> MedianTime,
) -> Result<Totals, BlockError> {
    let mut spend =
        BlockSpend::new(params, context.height, &context.hash, context.parent_mtp).with_cleanup(context.cleanup);
    for (index, tx) in block.transactions().enumerate() {
        let coin = |input: usize| {
            let spent: &Spent = &spent[tx.first_input() + input - 1];
            spent.found.then(|| SpentCoin {
                height: spent.height,
                coinbase: spent.coinbase,
                value: spent.value,
                script: spent.script_in(scripts),
            })
        };
        spend.transaction(&tx, &checked.txids[index], checked.sigops[index], coin, &time_at)?;
    }
    spend.finish(&block.transaction(0))
}

/// The entries of a valid block, which spends these coins, for the optional indexes.
fn records(
    params: &Params,
    context: &BlockContext,
    prepared: &Prepared,
    block: &Block<'_>,
    coins: &[Option<&[u8]>],
    wanted: &Wanted,
    spill: &SpillFiles,
) -> BlockRecords {
    // The other indexes do not need the coins.
    let coins = if wanted.needs_coins() { coins } else { &[] };
    let coin = |stored| CoinRef::decode(stored).expect("coins are checked where they come from");
    let spent: Vec<CoinRef<'_>> = coins.iter().map(|stored| coin(stored.expect("every coin was found"))).collect();
    let place = block_place(params, context.height, context.hash);
    BlockRecords::build(wanted, &place, block, &prepared.txids, &spent, spill)
}

/// A block's place in its chain, as the optional indexes need it.
pub(crate) fn block_place(params: &Params, height: Height, hash: BlockHash) -> BlockPlace {
    let coinbase_is_repeated = bip30::is_overwritten(height, &hash);
    BlockPlace { hash, height, subsidy: subsidy(params, height), coinbase_is_repeated }
}

/// Bytes of the coin that an input spends.
#[inline]
fn answer<'a>(prepared: &Prepared, block: &Block<'_>, input: usize, answers: &CoinAnswers<'a>) -> Option<&'a [u8]> {
    let group = group_of(block.input(input).prevout_bytes()[0]);
    answers.spends[group].coin(prepared.ops.ordinal(input))
}

/// Decodes a stored coin. Unless all scripts are needed, only those are built whose spending costs signature
/// operations: the key of an old output is not decompressed.
#[inline]
fn gather(coin: Option<&[u8]>, every: bool, scripts: &mut Spill, taken: &mut coins::Totals) -> Spent {
    let start = scripts.len() as u32;
    let missing = Spent {
        value: Amount(0),
        height: Height::GENESIS,
        script: start,
        script_bytes: 0,
        coinbase: false,
        found: false,
    };
    let Some(bytes) = coin else { return missing };
    let coin = CoinRef::decode(bytes).expect("coins are checked where they come from");
    taken.count(coin.script.script_bytes(), coin.value.0);
    gather_coin(&coin, every, scripts)
}

/// Like [`gather`], for a coin that exists.
#[inline]
fn gather_coin(coin: &CoinRef<'_>, every: bool, scripts: &mut Spill) -> Spent {
    let start = scripts.len() as u32;
    if every || coin.script.may_hold_program() {
        coin.script.append_to(scripts);
    }
    let script_bytes = scripts.len() as u32 - start;
    Spent { value: coin.value, height: coin.height, script: start, script_bytes, coinbase: coin.coinbase, found: true }
}

/// The undo record of a block. The coins of all inputs except the coinbase's were found; they have `coin_bytes`.
fn undo_of(magic: [u8; 4], block: &Block<'_>, coins: &[Option<&[u8]>], coin_bytes: usize, spill: &SpillFiles) -> Spill {
    // An entry has one byte more than its coin, each count up to three.
    let bytes = coin_bytes + coins.len() + block.transaction_count() * 3;
    undo_record_in_place(magic, &block.header().prev(), spill.with_capacity(bytes + UNDO_OVERHEAD_BYTES), |out| {
        undo::put_count(out, block.transaction_count() - 1);
        for tx in block.transactions().skip(1) {
            undo::put_count(out, tx.input_count());
            for coin in &coins[tx.first_input() - 1..][..tx.input_count()] {
                let coin = coin.expect("every coin was found");
                undo::put_entry(out, coin).expect("a stored coin starts with its code");
            }
        }
    })
}

/// A transaction's inputs within a range of the block's inputs.
struct Part {
    /// Index of the transaction.
    index: usize,
    /// Index of its first input in the block, the coinbase's not counted.
    from: usize,
    /// The range of its inputs.
    inputs: Range<usize>,
}

/// The transactions that have the inputs from number `first` up to `end`.
fn parts(block: &Block<'_>, first: usize, end: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = first;
    let mut index = transaction_of(block, first + 1);
    while at < end {
        let tx = block.transaction(index);
        let from = tx.first_input() - 1;
        let high = (end - from).min(tx.input_count());
        parts.push(Part { index, from, inputs: at - from..high });
        (at, index) = (from + high, index + 1);
    }
    parts
}

/// The scripts of a block, whose inputs are numbered through the block, the coinbase's not counted.
#[derive(Clone, Copy)]
pub(crate) struct Scripts<'b> {
    pub(crate) flags: Flags,
    pub(crate) checked: &'b Checked,
    pub(crate) block: &'b Block<'b>,
    pub(crate) judged: &'b Judged,
}

impl Scripts<'_> {
    /// Runs the scripts of some inputs; their signatures in one batch, with the hints of the block if there are some. Finds
    /// the block's hints if they are wanted. They end early if `stop` returns true.
    ///
    /// # Errors
    ///
    /// The error of the first input that fails.
    pub(crate) fn run(
        self,
        inputs: Range<usize>,
        scratch: &mut ScriptScratch,
        stop: script::Stop<'_>,
    ) -> Result<script::Ended, BlockError> {
        let first = inputs.start;
        let hint = |place: usize| self.judged.bits.as_ref()?.bit(first + place);
        let found = self.judged.found.as_ref().map(|found| {
            move |place: usize, odd: bool| {
                if odd {
                    found.set(first + place);
                }
            }
        });
        let found = found.as_ref().map(|found| found as script::Found<'_>);
        self.with(inputs, scratch, |inputs, batch, ScriptScratch { deferred, interpreter }| {
            let options = script::VerifyOptions { flags: self.flags, batch, hints: &hint, found, stop };
            script::verify_all_with(inputs, options, deferred, interpreter)
        })
    }

    /// The hints about the signatures of all inputs, which are valid; `None` if this processor has no lanes for them.
    ///
    /// # Errors
    ///
    /// The error of an input that fails.
    pub(crate) fn hints(self, scratch: &mut ScriptScratch) -> Result<Option<Vec<bool>>, BlockError> {
        let all = 0..self.judged.inputs();
        self.with(all, scratch, |inputs, batch, ScriptScratch { deferred, interpreter }| {
            script::make_hints(inputs, self.flags, batch, deferred, interpreter)
        })
    }

    /// Calls `with` with some inputs, and says of a failing one where it is.
    fn with<T>(
        self,
        inputs: Range<usize>,
        scratch: &mut ScriptScratch,
        with: impl FnOnce(
            Vec<(&script::Precomputed<'_>, usize)>,
            &script::lanes::Best,
            &mut ScriptScratch,
        ) -> Result<T, (usize, script::ScriptError)>,
    ) -> Result<T, BlockError> {
        let Scripts { checked, block, judged, .. } = self;
        let first = inputs.start;
        let parts = parts(block, first, inputs.end);
        // The transactions are consecutive: the coins that they spend are one list.
        let count = |part: &Part| block.transaction(part.index).input_count();
        let start = parts.first().map_or(first, |part| part.from);
        let end = parts.last().map_or(first, |part| part.from + count(part));
        let output =
            |spent: &'_ Spent| script::SpentOutput { value: spent.value, script: spent.script_in(&judged.scripts) };
        let spent: Vec<script::SpentOutput<'_>> = judged.spent[start..end].iter().map(output).collect();
        let txs: Vec<script::Precomputed<'_>> = parts
            .iter()
            .map(|part| {
                let spent = &spent[part.from - start..][..count(part)];
                script::Precomputed::new(block.transaction(part.index), spent)
            })
            .collect();
        let batch = script::lanes::best(block.kernels());
        if batch.takes_hashes() {
            script::sighash::hash_shared(block.kernels(), &txs);
        }
        let inputs = parts.iter().zip(&txs).flat_map(|(part, tx)| part.inputs.clone().map(move |input| (tx, input)));
        scratch.deferred.suit(&batch);
        let done = with(inputs.collect(), &batch, scratch);
        done.map_err(|(place, error)| {
            let rule = Rule::BlockScriptVerifyFlagFailed { error };
            let input = first + place;
            let part = parts.iter().rev().find(|part| part.from <= input).expect("parts cover all inputs");
            BlockError::in_input(rule, part.index, checked.txids[part.index], input - part.from)
        })
    }
}

/// Index of the transaction that has input number `input` of the block.
pub(crate) fn transaction_of(block: &Block<'_>, input: usize) -> usize {
    let mut low = 0;
    let mut high = block.transaction_count();
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if block.transaction(middle).first_input() <= input { low = middle } else { high = middle }
    }
    low
}
