//! Counts and hashes of the UTXO set, as in gettxoutsetinfo, computed from the tables on all cores.
//!
//! `hash_serialized_3` is one hash over all coins in order, so threads prepare the bytes and one hashes them. MuHash is
//! a product, so every thread computes a part of it.

use crate::fault::Fault;
use crate::threads::shares::{Shares, in_order};
use crate::utxo_stats::hashed::{self, HashedCoins};
use crate::utxo_stats::setstats::SetStats;
use coins::Totals;
use kernels::Kernels;
use kernels::sha256::Sha256;
use primitives::coin::{CoinRef, put_coin_hashed};
use primitives::muhash::{MuHash, Product};
use primitives::{BlockHash, Hash256, Height, OutPoint, Txid};
use store::chainstate::CoinsView;

/// Which hash of the set to compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SetHash {
    /// No hash, only counts.
    #[default]
    None,
    /// Core's `hash_serialized_3`.
    Serialized,
    /// Core's `muhash`.
    Muhash,
}

/// Bytes of a coin besides its script, in gettxoutsetinfo's `bogosize`.
pub(crate) const BOGO_BYTES: u64 = 50;

/// The results of gettxoutsetinfo.
#[derive(Clone, Debug, Default)]
pub struct SetInfo {
    /// Height of the set's block.
    pub height: Height,
    /// Hash of that block.
    pub best: BlockHash,
    /// Transactions with coins in the set, if the coins were counted.
    pub transactions: Option<u64>,
    /// Coins.
    pub txouts: u64,
    /// Sum over coins of 50 + script length.
    pub bogosize: u64,
    /// Sum of amounts, in satoshis.
    pub total_amount: i64,
    /// Name and value of the requested hash.
    pub hash: Option<(&'static str, Hash256)>,
    /// Bytes of the chainstate on disk.
    pub disk_size: u64,
    /// Counts by script and age, if requested.
    pub stats: Option<SetStats>,
}

impl SetInfo {
    /// A set with these totals; the caller fills in height, best block and bytes on disk.
    pub(crate) fn of(totals: Totals) -> SetInfo {
        SetInfo {
            txouts: totals.coins,
            bogosize: totals.coins.wrapping_mul(BOGO_BYTES).wrapping_add(totals.script_bytes),
            total_amount: totals.amount as i64,
            ..SetInfo::default()
        }
    }

    /// Totals of its coins.
    pub(crate) fn totals(&self) -> Totals {
        let script_bytes = self.bogosize.wrapping_sub(self.txouts.wrapping_mul(BOGO_BYTES));
        Totals { coins: self.txouts, script_bytes, amount: self.total_amount as u64 }
    }
}

/// Statistics of a range of coins.
pub(crate) struct Part {
    transactions: u64,
    last: Option<Txid>,
    txouts: u64,
    bogosize: u64,
    total: i64,
    hashed: HashedCoins,
    product: Option<Product>,
    stats: Option<SetStats>,
    hash: SetHash,
}

impl Part {
    /// No coins.
    pub(crate) fn new(hash: SetHash, wants_stats: bool, kernels: Kernels) -> Part {
        let product = (hash == SetHash::Muhash).then(|| Product::new(kernels));
        let stats = wants_stats.then(SetStats::default);
        let hashed = HashedCoins::default();
        Part { transactions: 0, last: None, txouts: 0, bogosize: 0, total: 0, hashed, product, stats, hash }
    }

    /// Counts a coin; coins must come in the order of their keys.
    #[inline]
    pub(crate) fn count(&mut self, outpoint: &OutPoint, coin: &CoinRef<'_>) {
        self.transactions += u64::from(self.last != Some(outpoint.txid));
        self.last = Some(outpoint.txid);
        self.txouts += 1;
        self.bogosize += BOGO_BYTES + coin.script.script_bytes() as u64;
        self.total = self.total.saturating_add(coin.value.0);
        match self.hash {
            SetHash::None => {}
            SetHash::Muhash => {
                let product = self.product.as_mut().expect("it is wanted");
                product.push_with(|waiting| put_coin_hashed(waiting, outpoint, coin));
            }
            SetHash::Serialized => self.hashed.push(outpoint, coin),
        }
        if let Some(stats) = &mut self.stats {
            stats.count(coin);
        }
    }

    /// Hashes the bytes that are complete.
    pub(crate) fn hash_ready(&mut self, sha: &mut Sha256) {
        sha.update(self.hashed.ready());
        self.hashed.ready().clear();
    }
}

/// The parts of a set, merged in order.
pub(crate) struct Whole {
    info: SetInfo,
    sha: Sha256,
    product: MuHash,
    hash: SetHash,
}

impl Whole {
    /// No part yet.
    pub(crate) fn new(hash: SetHash) -> Whole {
        Whole { info: SetInfo::default(), sha: Sha256::new(), product: MuHash::new(), hash }
    }

    /// Adds the next part.
    pub(crate) fn add(&mut self, mut part: Part) {
        // A share never begins within a transaction.
        *self.info.transactions.get_or_insert_default() += part.transactions;
        self.info.txouts += part.txouts;
        self.info.bogosize += part.bogosize;
        self.info.total_amount = self.info.total_amount.saturating_add(part.total);
        self.sha.update(&part.hashed.take());
        part.product.map(Product::finish).iter().for_each(|product| self.product.combine(product));
        if let Some(stats) = &part.stats {
            self.info.stats.get_or_insert_default().merge(stats);
        }
    }

    /// The hash so far, for the bytes of a part that is not complete.
    pub(crate) fn sha(&mut self) -> &mut Sha256 {
        &mut self.sha
    }

    /// The product of all coins so far; the empty product unless MuHash was requested.
    pub(crate) fn muhash(&self) -> MuHash {
        self.product.clone()
    }

    /// The result. The caller fills in height and best block, and bytes on disk.
    pub(crate) fn finish(mut self) -> SetInfo {
        self.info.hash = match self.hash {
            SetHash::None => None,
            SetHash::Serialized => Some(("hash_serialized_3", hashed::finish(self.sha))),
            SetHash::Muhash => Some(("muhash", Hash256(self.product.finalize()))),
        };
        self.info
    }
}

/// Reads all coins with `par` threads. The caller fills in height and best block.
///
/// # Errors
///
/// A damaged table or coin, or an I/O error.
pub(crate) fn set_info(view: &CoinsView, hash: SetHash, wants_stats: bool, par: usize) -> Result<SetInfo, Fault> {
    let info = set_info_while(view, hash, wants_stats, par, &|| true)?;
    Ok(info.expect("it goes on to the end"))
}

/// Like [`set_info`], while `goes_on` returns true; once false, it must stay false. `None` if it ended before all was
/// read.
///
/// # Errors
///
/// Those of [`set_info`].
pub(crate) fn set_info_while(
    view: &CoinsView,
    hash: SetHash,
    wants_stats: bool,
    par: usize,
    goes_on: &(dyn Fn() -> bool + Sync),
) -> Result<Option<SetInfo>, Fault> {
    let shares = Shares::of(view.table_bytes());
    let mut whole = Whole::new(hash);
    let work = |share| {
        let mut part = Part::new(hash, wants_stats, view.kernels());
        if !goes_on() {
            return Ok(part);
        }
        let range = shares.range(share);
        let mut coins = view.coins_between(*range.start(), *range.end())?;
        while let Some((outpoint, stored)) = coins.next_coin()? {
            part.count(&outpoint, &decode(view, &outpoint, stored)?);
        }
        Ok(part)
    };
    in_order(par, shares.count(), work, |part| {
        whole.add(part);
        Ok(())
    })?;
    Ok(goes_on().then(|| SetInfo { disk_size: view.table_bytes(), ..whole.finish() }))
}

/// Decodes a stored coin.
///
/// # Errors
///
/// The table has something else under its key.
#[inline]
pub(crate) fn decode<'c>(view: &CoinsView, outpoint: &OutPoint, stored: &'c [u8]) -> Result<CoinRef<'c>, store::Fault> {
    CoinRef::decode(stored).map_err(|why| {
        let found = format!("{outpoint} with bytes that do not deserialize: {why}");
        let advice = "Rebuild the coins: ffwd reindex --chainstate-only";
        store::Fault::new(store::FaultKind::Damaged, view.path(), "coins", found, advice)
    })
}
