//! The UTXO set of an earlier block: the current set merged with changes from undo data of the blocks above.
//!
//! Nothing is looked up. Blocks are undone from the tip down. The lowest block that touches a coin determines its state
//! at the target; the highest one determines which coin must exist at the tip. That is compared, so that undo data of
//! another chain is detected. Changes are kept in memory up to a budget, then in sorted runs next to the output file.
//! Source: Bitcoin Core b88bffe, `CreateRolledBackUTXOSnapshot`, `Chainstate::DisconnectBlock`.

use super::runs::{Change, Merge, Runs};
use crate::fault::Fault;
use crate::pipeline::engine::{NO_HEIGHT, lacks_height, undo_coins};
use crate::threads::shares::Shares;
use kernels::Kernels;
use primitives::coin::{code, is_unspendable};
use primitives::{CoinKey, CoinRef, OutPoint, Tables, Txid};
use std::collections::HashMap;
use std::path::Path;
use store::Host;
use store::IndexEntry;
use store::chainstate::{CoinsIter, CoinsView};

/// Approximate bytes of a change in memory, without its coin.
const CHANGE_BYTES: usize = 96;

/// Differences between the tip and the target.
pub(crate) struct Rollback {
    changes: HashMap<CoinKey, Change>,
    bytes: usize,
    bytes_max: usize,
    runs: Runs,
    kernels: Kernels,
}

impl Rollback {
    /// No differences yet. If `bytes_max` in memory do not suffice, runs are kept in files whose names begin with
    /// `stem`.
    pub(crate) fn new(host: Host, stem: &Path, shares: Shares, bytes_max: usize) -> Rollback {
        let Host { disk, kernels, .. } = host;
        Rollback { changes: HashMap::new(), bytes: 0, bytes_max, runs: Runs::new(disk, stem, shares), kernels }
    }

    /// Undoes a block; blocks must come from the tip down. Undo data without heights, of Bitcoin Core before 0.15, is refused.
    ///
    /// # Errors
    ///
    /// Block or undo data that is damaged, or does not belong to this block; no space for a run.
    pub(crate) fn disconnect(&mut self, entry: &IndexEntry, bytes: &[u8], undo: &[u8]) -> Result<(), Fault> {
        let damaged = |what: &str| {
            let IndexEntry { hash, height, .. } = entry;
            Fault::refused(
                format!("block {hash} at height {height} cannot be rolled back: {what}"),
                "Run ffwd repair, or ffwd reindex if that finds nothing",
            )
        };
        let mut tables = Tables::with(self.kernels);
        let block = tables.parse_block(bytes).map_err(|why| damaged(&why.to_string()))?;
        let txids = block.txids_of_header().filter(|_| block.header().hash() == entry.hash);
        let txids = txids.ok_or_else(|| damaged("its place has another block"))?;
        let spent = undo_coins(undo, &block).ok_or_else(|| damaged("its undo data does not fit it"))?;
        for (index, tx) in block.transactions().enumerate().collect::<Vec<_>>().into_iter().rev() {
            for (vout, _) in tx.outputs().enumerate().filter(|(_, output)| !is_unspendable(output.script())) {
                self.created(txids[index], vout as u32, code(entry.height, index == 0));
            }
            for input in 0..if index == 0 { 0 } else { tx.input_count() } {
                let coin = &spent[tx.first_input() + input - 1];
                let outpoint = tx.input(input).prevout();
                if lacks_height(coin) {
                    return Err(damaged(&format!("{NO_HEIGHT} {outpoint}")));
                }
                self.spent(&outpoint, coin);
            }
        }
        if self.bytes > self.bytes_max {
            self.bytes = 0;
            self.runs.spill(std::mem::take(&mut self.changes))?;
        }
        Ok(())
    }

    fn created(&mut self, txid: Txid, vout: u32, code: u32) {
        let key = CoinKey::new(&OutPoint { txid, vout });
        self.bytes += CHANGE_BYTES;
        let made = || Change { tip: Some(code), target: None };
        self.changes.entry(key).and_modify(|change| change.target = None).or_insert_with(made);
    }

    fn spent(&mut self, outpoint: &OutPoint, coin: &[u8]) {
        self.bytes += CHANGE_BYTES + coin.len();
        let target = Some(coin.into());
        match self.changes.entry(CoinKey::new(outpoint)) {
            std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().target = target,
            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(Change { tip: None, target })),
        }
    }

    /// Ends after the last block was undone.
    ///
    /// # Errors
    ///
    /// No space for the last run.
    pub(crate) fn finish(mut self) -> Result<RolledBack, Fault> {
        self.runs.spill(std::mem::take(&mut self.changes))?;
        Ok(RolledBack { runs: self.runs })
    }
}

/// The differences, ready to be read.
pub(crate) struct RolledBack {
    runs: Runs,
}

impl RolledBack {
    /// Passes each coin that a share of the set has at the target to `each`, in the order of their keys.
    ///
    /// # Errors
    ///
    /// The set is not the one that the blocks left; damaged tables; an I/O error; errors of `each`.
    pub(crate) fn coins(
        &self,
        view: &CoinsView,
        share: usize,
        each: impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let range = self.runs.shares().range(share);
        let coins = view.coins_between(*range.start(), *range.end())?;
        merged(coins, self.runs.merge(share, share)?, each)
    }
}

fn merged(
    mut coins: CoinsIter,
    mut changes: Merge,
    mut each: impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut change = changes.next()?;
    while let Some((outpoint, stored)) = coins.next_coin()? {
        let key = CoinKey::new(&outpoint);
        while let Some((changed, what)) = change.take_if(|(changed, _)| *changed < key) {
            absent_at_tip(&changed, what, &mut each)?;
            change = changes.next()?;
        }
        let Some((_, what)) = change.take_if(|(changed, _)| *changed == key) else {
            each(&outpoint, stored)?;
            continue;
        };
        let found = CoinRef::decode(stored).ok().map(|coin| coin.code());
        if what.tip.is_none() || found != what.tip {
            return Err(apart(
                &outpoint,
                if what.tip.is_none() { "which a block spent, is there" } else { "is not as it was made" },
            ));
        }
        if let Some(coin) = what.target {
            each(&outpoint, &coin)?;
        }
        change = changes.next()?;
    }
    while let Some((changed, what)) = change.take() {
        absent_at_tip(&changed, what, &mut each)?;
        change = changes.next()?;
    }
    Ok(())
}

fn absent_at_tip(
    key: &CoinKey,
    what: Change,
    each: &mut impl FnMut(&OutPoint, &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    match what {
        Change { tip: Some(_), .. } => Err(apart(&key.outpoint(), "which a block made, is not there")),
        Change { target: Some(coin), .. } => each(&key.outpoint(), &coin),
        Change { .. } => Ok(()),
    }
}

fn apart(outpoint: &OutPoint, what: &str) -> Fault {
    let why = format!("coin {outpoint}, {what}: the chainstate does not belong to these blocks and undo files");
    Fault::refused(why, "Run ffwd reindex")
}
