//! What is done to a block: each stage a function from values to values.
//!
//! `prepare`: bytes to tables, ids, operations, or the first rule of the block alone that is broken.
//! `judge`: answers to undo data and totals, or the first rule that needs the coins that is broken.
//! `scripts`: runs the scripts of some inputs.
//!
//! Absent on purpose: threads, order, files. The pipeline decides who does what when.

use crate::pipeline::{Flight, Job, Refusal};
use coins::{Answers, LANES, Ops, ops::lane_of};
use consensus::{BlockError, BlockSpend, Params, Rule, SpentCoin, bip30, block};
use primitives::coin::CoinRef;
use primitives::{Amount, Block, Hash256, Header, Height, Tables, undo};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Arc, RwLockReadGuard};

/// A body that was taken apart, and found good as far as it can be alone.
pub struct Checked {
    pub(crate) tables: Tables,
    /// Ids of its transactions.
    pub txids: Vec<Hash256>,
    /// Legacy signature operations of each transaction.
    pub sigops: Vec<u32>,
}

/// A block that is ready to spend and create.
pub struct Prepared {
    checked: Arc<Checked>,
    /// What it does to the set.
    pub ops: Ops,
}

impl std::ops::Deref for Prepared {
    type Target = Checked;

    #[inline]
    fn deref(&self) -> &Checked {
        &self.checked
    }
}

impl Checked {
    /// The block; `bytes` must be those that were checked.
    #[inline]
    pub fn block<'a>(&'a self, bytes: &'a [u8]) -> Block<'a> {
        self.tables.block(bytes)
    }

    /// Bytes of the block without anything that follows it in its record.
    pub fn block_bytes(&self, bytes: &[u8]) -> usize {
        self.tables.block(bytes).bytes().len()
    }
}

/// A coin that an input of a block in flight spends.
#[derive(Clone, Copy, Debug)]
pub struct Spent {
    value: Amount,
    height: Height,
    script: u32,
    script_bytes: u32,
    coinbase: bool,
    found: bool,
}

/// A block whose coins are there and allowed; only its scripts may still speak.
pub struct Judged {
    /// What its inputs spend, in order, without the coinbase's.
    spent: Vec<Spent>,
    scripts: Vec<u8>,
    /// The whole undo record (see `store::undofiles`), where it is wanted.
    pub undo: Option<Vec<u8>>,
    /// Fees and cost of signature operations.
    pub totals: consensus::spend::Totals,
}

impl Judged {
    /// Inputs, without the coinbase's.
    pub fn inputs(&self) -> usize {
        self.spent.len()
    }
}

thread_local! {
    static SCRATCH: RefCell<(block::Scratch, Vec<Hash256>)> = RefCell::default();
    static SCRIPTS: RefCell<(script::Deferred, script::Scratch)> =
        RefCell::new((script::Deferred::for_batch(script::lanes::best()), script::Scratch::new()));
}

/// Takes a block apart and checks every rule that needs no coins; a body that was checked when it arrived is not again.
pub(crate) fn prepare(params: &Params, job: &Job) -> Result<Prepared, Refusal> {
    let checked = match &job.checked {
        Some(checked) => Arc::clone(checked),
        None => {
            let Job { header, hash, height, parent_mtp, .. } = *job;
            Arc::new(check(params, &Subject { header, hash, height, parent_mtp }, &job.bytes, job.contextual)?)
        }
    };
    let block = checked.block(&job.bytes);
    if block.header() != job.header {
        return Err(Refusal::WrongBody);
    }
    let ops = Ops::build(&block, &checked.txids);
    Ok(Prepared { checked, ops })
}

/// Whose body it is that is checked, and where it stands.
pub(crate) struct Subject {
    pub(crate) header: Header,
    pub(crate) hash: Hash256,
    pub(crate) height: Height,
    pub(crate) parent_mtp: u32,
}

/// Takes a body apart and checks every rule that needs no coins; those of its place in the chain where they are asked for.
pub(crate) fn check(params: &Params, of: &Subject, bytes: &[u8], contextual: bool) -> Result<Checked, Refusal> {
    let mut tables = Tables::new();
    let parsed = tables.parse_block(bytes).map_err(Refusal::Unparsable)?;
    if parsed.header() != of.header {
        return Err(Refusal::WrongBody);
    }
    let mut txids = Vec::new();
    parsed.txids_into(&mut txids);
    let mut sigops = Vec::new();
    SCRATCH
        .with_borrow_mut(|(scratch, wtxids)| {
            block::check(params, &parsed, &of.hash, &txids, &mut sigops, scratch)?;
            if !contextual {
                return Ok(());
            }
            wtxids.clear();
            if block::needs_wtxids(params, &parsed, of.height) {
                parsed.wtxids_into(&txids, wtxids);
            }
            let context = block::Context { height: of.height, median_time_past: of.parent_mtp };
            block::check_context(params, &parsed, &context, &txids, wtxids, scratch)
        })
        .map_err(Refusal::Rule)?;
    Ok(Checked { tables, txids, sigops })
}

/// As [`check`], for a body from a peer. One that cannot be its header's is told so first, as Core does
/// ([`block::mutation`]): none is that passes the checks.
pub(crate) fn check_arrived(params: &Params, of: &Subject, bytes: &[u8]) -> Result<Checked, Refusal> {
    let first = match check(params, of, bytes, true) {
        Err(Refusal::Rule(error)) => error,
        other => return other,
    };
    let mut tables = Tables::new();
    let parsed = tables.parse_block(bytes).map_err(Refusal::Unparsable)?;
    let (mut txids, mut wtxids) = (Vec::new(), Vec::new());
    parsed.txids_into(&mut txids);
    if block::needs_wtxids(params, &parsed, of.height) {
        parsed.wtxids_into(&txids, &mut wtxids);
    }
    let segwit = of.height >= params.segwit_height;
    let mutation = block::mutation(&parsed, segwit, &txids, &wtxids, &mut block::Scratch::default());
    Err(Refusal::Rule(mutation.unwrap_or(first)))
}

/// Gathers the coins that a block spends and checks every rule that needs them, but for scripts.
///
/// `times` are median times past by height along the block's chain.
pub(crate) fn judge(params: &Params, flight: &Flight, times: &[u32]) -> Result<Judged, BlockError> {
    let prepared = flight.prepared.get().expect("a block is prepared before it is judged");
    let block = prepared.block(&flight.job.bytes);
    let answers: [RwLockReadGuard<'_, Answers>; LANES] =
        std::array::from_fn(|lane| flight.answers[lane].read().expect("no worker panics with it"));
    let job = &flight.job;
    let exists = flight.probes.lock().expect("no worker panics with it").exists;
    bip30::check(job.bip30, exists)?;

    let (mut spent, mut scripts) =
        (Vec::with_capacity(block.input_count()), Vec::with_capacity(block.input_count() * 26));
    for index in 1..block.input_count() {
        let coin = answer(prepared, &block, index, &answers);
        spent.push(gather(coin, job.scripts.is_some(), &mut scripts));
    }
    let mut spend = BlockSpend::new(params, job.height, &job.hash, job.parent_mtp);
    for (index, tx) in block.transactions().enumerate() {
        let coin = |input: usize| {
            let spent: &Spent = &spent[tx.first_input() + input - 1];
            spent.found.then(|| SpentCoin {
                height: spent.height,
                coinbase: spent.coinbase,
                value: spent.value,
                script: script_of(&scripts, spent),
            })
        };
        spend
            .transaction(&tx, &prepared.txids[index], prepared.sigops[index], coin, |height| times[height as usize])?;
    }
    let totals = spend.finish(&block.transaction(0))?;
    let undo = job
        .undo
        .map(|magic| store::undofiles::undo_record(magic, &job.header.prev(), &undo_of(prepared, &block, &answers)));
    if job.scripts.is_none() {
        scripts = Vec::new();
    }
    Ok(Judged { spent, scripts, undo, totals })
}

/// Bytes of the coin that an input spends.
#[inline]
fn answer<'a>(
    prepared: &Prepared,
    block: &Block<'_>,
    input: usize,
    answers: &'a [RwLockReadGuard<'_, Answers>; LANES],
) -> Option<&'a [u8]> {
    let lane = lane_of(block.input(input).prevout_bytes()[0]);
    answers[lane].coin(prepared.ops.ordinal(input))
}

/// Takes a stored coin apart. Where scripts do not run, only those are put together whose spending costs signature
/// operations: the key of an old output is not decompressed.
#[inline]
fn gather(coin: Option<&[u8]>, runs: bool, scripts: &mut Vec<u8>) -> Spent {
    let start = scripts.len() as u32;
    let missing = Spent { value: Amount(0), height: 0, script: start, script_bytes: 0, coinbase: false, found: false };
    let Some(bytes) = coin else { return missing };
    let coin = CoinRef::decode(bytes).expect("coins are checked where they come from");
    if runs || coin.script.may_hold_program() {
        coin.script.append_to(scripts);
    }
    let script_bytes = scripts.len() as u32 - start;
    Spent { value: coin.value, height: coin.height, script: start, script_bytes, coinbase: coin.coinbase, found: true }
}

#[inline]
fn script_of<'a>(scripts: &'a [u8], spent: &Spent) -> &'a [u8] {
    &scripts[spent.script as usize..][..spent.script_bytes as usize]
}

/// The undo data of a block whose coins were all found.
fn undo_of(prepared: &Prepared, block: &Block<'_>, answers: &[RwLockReadGuard<'_, Answers>; LANES]) -> Vec<u8> {
    let mut out = Vec::with_capacity(block.input_count() * 40);
    undo::put_count(&mut out, block.transaction_count() - 1);
    for tx in block.transactions().skip(1) {
        undo::put_count(&mut out, tx.input_count());
        for input in 0..tx.input_count() {
            let coin = answer(prepared, block, tx.first_input() + input, answers).expect("every coin was found");
            undo::put_entry(&mut out, coin).expect("a stored coin starts with its code");
        }
    }
    out
}

/// A transaction's inputs in a piece of the block.
struct Part {
    /// Number of the transaction.
    index: usize,
    /// Number of its first input in the block, the coinbase's not counted.
    from: usize,
    /// Which of its inputs.
    inputs: Range<usize>,
}

/// The transactions that have the inputs from number `first` up to `end`.
fn parts(block: &Block<'_>, first: usize, end: usize) -> Vec<Part> {
    let (mut parts, mut at) = (Vec::new(), first);
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

/// Runs the scripts of `count` inputs from number `first` on, the coinbase's not counted; their signatures in one batch.
///
/// # Errors
///
/// Of the first of them that fails.
pub(crate) fn scripts(flight: &Flight, first: usize, count: usize) -> Result<usize, BlockError> {
    let prepared = flight.prepared.get().expect("prepared before judged");
    let judged = flight.judged.get().expect("judged before scripts");
    let flags = flight.job.scripts.expect("only where scripts are wanted");
    let block = prepared.block(&flight.job.bytes);
    let end = (first + count).min(judged.spent.len());
    let parts = parts(&block, first, end);
    let spent: Vec<Vec<script::SpentOutput<'_>>> = parts
        .iter()
        .map(|part| {
            let spent = &judged.spent[part.from..][..block.transaction(part.index).input_count()];
            let output = |spent: &'_ Spent| script::SpentOutput {
                value: spent.value,
                script: script_of(&judged.scripts, spent),
            };
            spent.iter().map(output).collect()
        })
        .collect();
    let txs: Vec<script::Precomputed<'_>> = parts
        .iter()
        .zip(&spent)
        .map(|(part, spent)| script::Precomputed::new(block.transaction(part.index), spent))
        .collect();
    let inputs = parts.iter().zip(&txs).flat_map(|(part, tx)| part.inputs.clone().map(move |input| (tx, input)));
    let verdict = SCRIPTS.with_borrow_mut(|(deferred, scratch)| {
        script::verify_all(inputs, flags, script::lanes::best(), deferred, scratch)
    });
    verdict.map(|()| end - first).map_err(|(place, error)| {
        let rule = Rule::BlockScriptVerifyFlagFailed { error };
        let input = first + place;
        let part = parts.iter().rev().find(|part| part.from <= input).expect("parts cover all inputs");
        BlockError::in_input(rule, part.index, prepared.txids[part.index], input - part.from)
    })
}

/// Number of the transaction that has input number `input` of the block.
pub(crate) fn transaction_of(block: &Block<'_>, input: usize) -> usize {
    let (mut low, mut high) = (0, block.transaction_count());
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if block.transaction(middle).first_input() <= input { low = middle } else { high = middle }
    }
    low
}
