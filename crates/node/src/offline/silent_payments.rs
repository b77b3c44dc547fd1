//! Look-ups in silentpaymentindex: a block, or a range of blocks for a table.

use super::look_up::{BlockId, View};
use crate::datadir::look;
use crate::fault::Fault;
use crate::indexing::{SilentTx, silent_entries, silent_transactions, without_dust};
use crate::options::Options;
use crate::reporting::Events;
use indexes::IndexKind;
use indexes::silentpayments::Entry;
use primitives::{BlockHash, Height};
use std::sync::atomic::Ordering::Relaxed;
use store::index::IndexEntry;
use store::indexes::IndexDb;

/// Options of a query of silentpaymentindex.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SilentQuestion {
    /// Leaves out transactions without a taproot output of at least this number of satoshi.
    pub dust_limit: u64,
    /// Leaves out transactions whose taproot outputs are all spent.
    pub only_unspent: bool,
    /// Adds ids and outputs, for which the block is read.
    pub with_outputs: bool,
}

/// The transactions of a block that may be silent payments.
#[derive(Clone, Debug)]
pub struct SilentPayments {
    /// The block.
    pub block: BlockHash,
    /// Its height.
    pub height: Height,
    /// These transactions, in the order of the block.
    pub entries: Vec<Entry>,
    /// Their ids and outputs, if requested.
    pub transactions: Option<Vec<SilentTx>>,
}

/// The transactions of a block that may be silent payments.
///
/// # Errors
///
/// There is no silentpaymentindex, it is damaged or lacks the block; the block is not known; or it is pruned, and
/// outputs are requested.
pub fn silent_payments(
    options: &Options,
    block: &BlockId,
    question: &SilentQuestion,
    _: Events<'_>,
) -> Result<SilentPayments, Fault> {
    let call = format!("getsilentpaymentblockdata {}", block.question());
    look::at_rest(options, &call, || find_silent_payments(options, block, question))
}

fn find_silent_payments(
    options: &Options,
    block: &BlockId,
    question: &SilentQuestion,
) -> Result<SilentPayments, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::SilentPayments)?;
    let entry = view.find(block)?;
    let Some(mut entries) = silent_entries(&db, entry.hash, entry.height)? else {
        view.check_synced(&db)?;
        let why = format!("block {} was not connected: silentpaymentindex has no row of it", entry.hash);
        return Err(Fault::refused(why, "Name a block that is or was on the main chain"));
    };
    without_dust(&mut entries, question.dust_limit);
    let mut found = SilentPayments { block: entry.hash, height: entry.height, entries, transactions: None };
    if question.only_unspent || question.with_outputs {
        let mut transactions = transactions_of(&view, &db, &entry, &found.entries)?;
        if question.only_unspent {
            transactions.retain(SilentTx::has_unspent);
            found.entries = transactions.iter().map(|tx| tx.entry).collect();
        }
        found.transactions = question.with_outputs.then_some(transactions);
    }
    Ok(found)
}

/// Passes each block of a range of the active chain to `give`, with ids and outputs, the lowest first; without an end,
/// up to the tip. Unspent outputs are not looked up. Returns the last height.
///
/// # Errors
///
/// Those of [`silent_payments`] and of `give`; there are no such blocks, or the index does not have them all.
pub fn each_silent_block(
    options: &Options,
    from: Height,
    to: Option<Height>,
    give: &mut dyn FnMut(&SilentPayments) -> Result<(), Fault>,
) -> Result<Height, Fault> {
    look::at_rest(options, "getsilentpaymentblockdata BLOCKHASH", || give_silent_blocks(options, from, to, give))
}

fn give_silent_blocks(
    options: &Options,
    from: Height,
    to: Option<Height>,
    give: &mut dyn FnMut(&SilentPayments) -> Result<(), Fault>,
) -> Result<Height, Fault> {
    let view = View::open(options)?;
    let db = view.db(IndexKind::SilentPayments)?;
    view.check_synced(&db)?;
    let to = to.unwrap_or(view.tip.height);
    if from > to || to > view.tip.height {
        let why = format!("there are no blocks {from} to {to}: the chain ends at height {}", view.tip.height);
        return Err(Fault::refused(why, "Name heights of the chain with --from and --to"));
    }
    for height in from.to_u32()..=to.to_u32() {
        if options.stop.load(Relaxed) {
            return Err(Fault::Stopped);
        }
        let entry = view.find(&BlockId::Height(Height::new(height)))?;
        let entries = silent_entries(&db, entry.hash, entry.height)?;
        let entries = entries.ok_or_else(|| db.bad_record(b"t", format!("a row of block {}", entry.hash), "none"))?;
        let transactions = Some(with_outputs(&view, &db, &entry, &entries)?);
        give(&SilentPayments { block: entry.hash, height: entry.height, entries, transactions })?;
    }
    Ok(to)
}

/// The transactions of a block's entries.
fn with_outputs(view: &View, db: &IndexDb, of: &IndexEntry, entries: &[Entry]) -> Result<Vec<SilentTx>, Fault> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let pos = of.data().ok_or_else(|| {
        let why = format!("Block not available (pruned data): ids and outputs of block {} were requested", of.hash);
        Fault::refused(why, "Request the tweaks without --outputs and --unspent, or choose a newer block")
    })?;
    silent_transactions(db, of.hash, &view.locked.files.read_block(pos)?, entries)
}

/// Like [`with_outputs`], and finds which of their outputs are unspent.
fn transactions_of(view: &View, db: &IndexDb, of: &IndexEntry, entries: &[Entry]) -> Result<Vec<SilentTx>, Fault> {
    let mut transactions = with_outputs(view, db, of, entries)?;
    let coins = view.coins.view();
    for transaction in &mut transactions {
        transaction.look_up(|outpoint| Ok::<_, Fault>(coins.get(outpoint)?.is_some()))?;
    }
    Ok(transactions)
}
