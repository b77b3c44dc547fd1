//! Validates one block with its undo data instead of the UTXO set: every rule except that the spent coins exist.
//!
//! The caller must prove that rule by other means: the coins in undo data are assumed here. Only one part is checked
//! here: a coin must be from this or an earlier block, and if it is from this block, from an earlier transaction.

use crate::chain::block::{BlockContext, Checked, Judged, Refusal};
use crate::fault::Fault;
use crate::offline::files::chain_files::ChainFiles;
use crate::pipeline::engine::NO_HEIGHT;
use crate::pipeline::stages::Scripts;
use crate::pipeline::{scratch, stages};
use consensus::spend::Totals;
use consensus::{BlockError, SpentCoin};
use primitives::undo::spent_coins;
use primitives::{Amount, Block, CoinRef, Height, Txid};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use sys::spill::Spill;

/// Why a block is not valid, or cannot be validated.
#[derive(Debug)]
pub enum Wrong {
    /// A file could not be read, or does not match the index.
    Fault(Fault),
    /// A broken rule.
    Rule(BlockError),
    /// The block or its undo data is inconsistent.
    Data(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Fault(fault) => fmt::Display::fmt(fault, f),
            Wrong::Rule(error) => fmt::Display::fmt(error, f),
            Wrong::Data(what) => f.write_str(what),
        }
    }
}

impl From<Fault> for Wrong {
    fn from(fault: Fault) -> Wrong {
        Wrong::Fault(fault)
    }
}

impl From<BlockError> for Wrong {
    fn from(error: BlockError) -> Wrong {
        Wrong::Rule(error)
    }
}

/// A block that is valid except for its scripts, which [`scripts`] runs.
pub struct JudgedBlock {
    context: BlockContext,
    bytes: Vec<u8>,
    checked: Checked,
    judged: Judged,
}

impl JudgedBlock {
    /// Its place in the chain, and the rules that apply there.
    pub fn context(&self) -> &BlockContext {
        &self.context
    }

    /// The block.
    pub fn block(&self) -> Block<'_> {
        self.checked.block(&self.bytes)
    }

    /// Ids of its transactions.
    pub fn txids(&self) -> &[Txid] {
        &self.checked.txids
    }

    /// Inputs, without the coinbase's.
    pub fn inputs(&self) -> usize {
        self.judged.inputs()
    }

    /// The coin that input number `input` spends, the coinbase's not counted, from undo data, with its whole script.
    ///
    /// # Panics
    ///
    /// If the block has no such input.
    pub fn spent(&self, input: usize) -> SpentCoin<'_> {
        let spent = &self.judged.spent[input];
        let script = spent.script_in(&self.judged.scripts);
        SpentCoin { height: spent.height, coinbase: spent.coinbase, value: spent.value, script }
    }

    fn scripts<'b>(&'b self, block: &'b Block<'b>) -> Scripts<'b> {
        Scripts { flags: self.context.flags, checked: &self.checked, block, judged: &self.judged }
    }

    /// Fees and signature operation cost.
    pub fn totals(&self) -> Totals {
        self.judged.totals
    }
}

/// Reads the block at `height` with its undo data and checks everything except its scripts.
///
/// # Errors
///
/// The first fault found.
///
/// # Panics
///
/// If the chain was opened without its rules, or `height` is outside of its range.
pub fn judge(chain: &ChainFiles, height: Height) -> Result<JudgedBlock, Wrong> {
    let params = chain.params();
    let context = chain.context(height);
    let bytes = chain.read_block(height)?;
    let is_genesis = height == Height::GENESIS;
    let checked =
        scratch::with_check(chain.kernels(), |scratch| stages::check(params, &context, &bytes, !is_genesis, scratch));
    let checked = checked.map_err(|refusal| match refusal {
        Refusal::Rule(error) => Wrong::Rule(error),
        Refusal::Unparsable(why) => Wrong::Data(format!("it does not deserialize: {why}")),
        Refusal::WrongBody => Wrong::Data("the block file has a block with another header in its place".to_owned()),
    })?;
    let block = checked.block(&bytes);
    if is_genesis {
        if block.bytes() != params.genesis {
            return Err(Wrong::Data("it is not the genesis block of this network".to_owned()));
        }
        let totals = Totals { fees: Amount(0), sigop_cost: 0 };
        let (change, records) = Default::default();
        let spent = Vec::new();
        let scripts = Spill::new();
        let judged = Judged { spent, scripts, undo: None, change, totals, records, bits: None, found: None };
        return Ok(JudgedBlock { context, bytes, checked, judged });
    }
    let undo = chain.read_undo(height)?;
    let Some(coins) = spent_coins(&undo, &block) else {
        return Err(Wrong::Data("its undo data is that of another block".to_owned()));
    };
    check_heights(height, &block, &checked.txids, &coins)?;
    let times = |height| chain.median_time_past(height);
    let mut judged = stages::judge_coins(params, &context, &checked, &block, &coins, times, &chain.host.spill)?;
    judged.bits = chain.hints.as_deref().and_then(|hints| hints.of_block(height, &context.hash, judged.inputs()));
    Ok(JudgedBlock { context, bytes, checked, judged })
}

/// Checks that coins are older than their spends: from a lower block, or from an earlier transaction of this block.
fn check_heights(height: Height, block: &Block<'_>, txids: &[Txid], coins: &[CoinRef<'_>]) -> Result<(), Wrong> {
    let mut places: Option<HashMap<&Txid, usize>> = None;
    for (index, tx) in block.transactions().enumerate().skip(1) {
        for (input, coin) in tx.inputs().zip(&coins[tx.first_input() - 1..]) {
            if coin.height == Height::GENESIS {
                return Err(Wrong::Data(format!("{NO_HEIGHT} {}: ffwd reindex writes it anew", input.prevout())));
            }
            if coin.height < height {
                continue;
            }
            let places = places.get_or_insert_with(|| txids.iter().enumerate().map(|(at, txid)| (txid, at)).collect());
            let is_earlier = places.get(&input.prevout().txid).is_some_and(|at| *at < index);
            if coin.height > height || !is_earlier {
                let prevout = input.prevout();
                let claimed = coin.height;
                return Err(Wrong::Data(format!(
                    "its undo data says that {prevout} is of block {claimed}, and no transaction before {} made it",
                    txids[index]
                )));
            }
        }
    }
    Ok(())
}

/// Runs the scripts of some inputs of a block, the coinbase's not counted; their signatures in one batch.
///
/// # Errors
///
/// The error of the first input that fails.
pub fn scripts(judged: &JudgedBlock, inputs: Range<usize>) -> Result<(), Wrong> {
    match scratch::with_scripts(|scratch| judged.scripts(&judged.block()).run(inputs, scratch, &|| false))? {
        script::Ended::Whole => Ok(()),
        script::Ended::Stopped => unreachable!("it is never asked to stop"),
    }
}

/// The hints about the signatures of a valid block, see [`SignatureHints`](store::signature_hints::SignatureHints).
/// `None` if this processor has no lanes for signatures.
///
/// # Errors
///
/// The error of an input that fails.
pub(crate) fn hints(judged: &JudgedBlock) -> Result<Option<Vec<bool>>, Wrong> {
    Ok(scratch::with_scripts(|scratch| judged.scripts(&judged.block()).hints(scratch))?)
}
