//! The coins of a data directory, read only from its tables, by range of keys.
//!
//! Like [`crate::utxo_stats::setinfo`], but without locks, and with a sum over the same coins that the caller defines.

use crate::datadir::apart;
use crate::datadir::lock;
use crate::fault::Fault;
use crate::offline::read_only::{chainstate_dir, entry};
use crate::options::Options;
use crate::threads::shares::{Shares, in_order};
use crate::utxo_stats::setinfo::{Part, Whole, decode};
use crate::utxo_stats::{SetHash, SetInfo};
use primitives::muhash::MuHash;
use primitives::{BlockHash, CoinKey, CoinRef, Height, OutPoint};
use std::ops::RangeInclusive;
use std::path::Path;
use store::FaultKind;
use store::chainstate::{Chainstate, CoinsIter, CoinsView};

/// A UTXO set, and its block.
pub struct SetFiles {
    coins: Chainstate,
    /// Hash of that block.
    pub best: BlockHash,
    /// Its height.
    pub height: Height,
}

/// Totals of a part of a set.
pub struct SetSums {
    /// Counts, and the requested hash.
    pub info: SetInfo,
    /// The product of which MuHash is the hash, if requested.
    pub muhash: Option<MuHash>,
}

impl SetFiles {
    /// Opens the chainstate. If there are two sets, because a snapshot is not validated, opens the one from the
    /// snapshot, as in Core's RPCs.
    ///
    /// # Errors
    ///
    /// There is no complete chainstate, it is damaged or of another chain; an I/O error.
    pub fn open(options: &Options) -> Result<SetFiles, Fault> {
        let Some(dir) = chainstate_dir(options)? else {
            let dir = lock::layout(options).chainstate_dir();
            let advice = "Make one: ffwd sync, or ffwd repair where block files are";
            return Err(store::Fault::new(FaultKind::Missing, &dir, "a chainstate", "none", advice).into());
        };
        let coins = Chainstate::open_read_only(options.host(), &dir)?;
        if coins.head_blocks()?.is_some() {
            let advice = "Let bitcoind or ffwd finish it: start one of them on this data directory";
            let found = "one whose last flush bitcoind did not finish";
            return Err(store::Fault::new(FaultKind::Refused, &dir, "a complete UTXO set", found, advice).into());
        }
        let best = coins.best_block()?.unwrap_or(options.params.genesis_hash);
        let entry = entry(options, &best)?.ok_or_else(|| apart(best))?;
        Ok(SetFiles { height: entry.height, coins, best })
    }

    /// Applies `take` to a coin; `None` if the coin is not in the set.
    ///
    /// # Errors
    ///
    /// A damaged table or coin, or an I/O error.
    pub fn get<T>(&self, outpoint: &OutPoint, take: impl FnOnce(&CoinRef<'_>) -> T) -> Result<Option<T>, Fault> {
        let view = self.coins.view();
        let Some(stored) = view.get(outpoint)? else { return Ok(None) };
        Ok(Some(take(&decode(&view, outpoint, &stored)?)))
    }

    /// All coins, for one thread.
    ///
    /// # Errors
    ///
    /// A damaged table, or an I/O error.
    pub fn coins(&self) -> Result<SetCoins, Fault> {
        let view = self.coins.view();
        Ok(SetCoins { coins: view.coins()?, view, before: None })
    }

    /// Counts and hashes the whole set by `par` threads.
    ///
    /// # Errors
    ///
    /// Those of [`SetFiles::sum`].
    pub fn info(&self, hash: SetHash, par: usize) -> Result<SetInfo, Fault> {
        Ok(self.sum(hash, par, 0..=u16::MAX, || (), |(), _, _| Ok(()), |()| ())?.info)
    }

    /// Reads the coins whose txids begin with one of `keys` (their first two bytes, big endian) with `par` threads.
    /// Each share of the coins is counted into a value made by `new`; `done` gets these values in order of the keys.
    ///
    /// # Errors
    ///
    /// A damaged table or coin, errors of `count`, or an I/O error.
    pub fn sum<T: Send>(
        &self,
        hash: SetHash,
        par: usize,
        keys: RangeInclusive<u16>,
        new: impl Fn() -> T + Sync,
        count: impl Fn(&mut T, &OutPoint, &CoinRef<'_>) -> Result<(), Fault> + Sync,
        mut done: impl FnMut(T),
    ) -> Result<SetSums, Fault> {
        let view = self.coins.view();
        let shares = Shares::of(view.table_bytes());
        let mut whole = Whole::new(hash);
        let work = |share| {
            let mut part = Part::new(hash, false, view.kernels());
            let mut own = new();
            let range = shares.range(share);
            let first = *range.start().max(keys.start());
            let last = *range.end().min(keys.end());
            if first <= last {
                let mut coins = view.coins_between(first, last)?;
                let mut before: Option<CoinKey> = None;
                while let Some((outpoint, stored)) = coins.next_coin()? {
                    check_order(&mut before, &outpoint, view.path())?;
                    let coin = decode(&view, &outpoint, stored)?;
                    part.count(&outpoint, &coin);
                    count(&mut own, &outpoint, &coin)?;
                }
            }
            Ok((part, own))
        };
        in_order(par, shares.count(), work, |(part, own)| {
            whole.add(part);
            done(own);
            Ok(())
        })?;
        let muhash = (hash == SetHash::Muhash).then(|| whole.muhash());
        let info = SetInfo { best: self.best, height: self.height, disk_size: view.table_bytes(), ..whole.finish() };
        Ok(SetSums { info, muhash })
    }
}

/// Iterates over the coins of a set, in the order of their keys.
pub struct SetCoins {
    view: CoinsView,
    coins: CoinsIter,
    before: Option<CoinKey>,
}

impl SetCoins {
    /// The next coin; `None` after the last.
    ///
    /// # Errors
    ///
    /// A damaged table or coin, or an I/O error.
    pub fn next_coin(&mut self) -> Result<Option<(OutPoint, CoinRef<'_>)>, Fault> {
        let Some((outpoint, stored)) = self.coins.next_coin()? else { return Ok(None) };
        check_order(&mut self.before, &outpoint, self.view.path())?;
        Ok(Some((outpoint, decode(&self.view, &outpoint, stored)?)))
    }
}

/// Checks that keys ascend: then no coin is counted twice.
fn check_order(before: &mut Option<CoinKey>, outpoint: &OutPoint, dir: &Path) -> Result<(), Fault> {
    let key = CoinKey::new(outpoint);
    if before.replace(key).is_some_and(|before| before >= key) {
        let found = format!("{outpoint} behind one that is not below it");
        let advice = "Rebuild the coins: ffwd reindex --chainstate-only";
        return Err(store::Fault::new(FaultKind::Damaged, dir, "coins in order of their keys", found, advice).into());
    }
    Ok(())
}
