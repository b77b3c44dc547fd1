//! Experiment: filling an ordered map of coins and an ordered set of txids.
//!
//! ffwd has neither: what must be in order is gathered and sorted once.

use super::bench::Bench;
use super::input::{self, Digest, Inputs, Mix, StoredCoin};
use super::{Error, Experiment};
use primitives::{Hash256, OutPoint};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const EXPERIMENT: Experiment = Experiment { tables: &[MAP, SET], run };

const MAP: &str = "ordered map: filling with coins";
const SET: &str = "ordered set: filling with txids";

fn run(bench: &mut Bench<'_>, _: &Inputs) -> Result<(), Error> {
    let count = bench.size(200, 5_000);
    let coins = &input::coins(count, Mix::In2025, 7);
    if let Some(mut table) = bench.table(MAP, "coin", count) {
        table.way("copied in", || {
            let have = own(coins);
            digest_map(have.iter().fold(BTreeMap::new(), |mut map, (name, coin)| {
                map.insert(*name, coin.clone());
                map
            }))
        });
        table.way("moved in", || {
            digest_map(own(coins).into_iter().fold(BTreeMap::new(), |mut map, (name, coin)| {
                map.insert(name, coin);
                map
            }))
        });
        table.way("moved in, sorted first", || {
            let mut have = own(coins);
            have.sort_unstable_by_key(|(name, _)| *name);
            digest_map(have.into_iter().fold(BTreeMap::new(), |mut map, (name, coin)| {
                map.insert(name, coin);
                map
            }))
        });
        table.way("built from all at once", || digest_map(own(coins).into_iter().collect()));
        table.way("no map: sorted vector", || {
            let mut have = own(coins);
            have.sort_unstable_by_key(|(name, _)| *name);
            digest(have.iter().map(|(name, coin)| (name, &coin[..])))
        });
        table.shipped();
        bench.run(table)?;
    }
    let txids: Vec<Hash256> = coins.iter().map(|coin| coin.outpoint.txid).collect();
    let txids = &txids;
    let Some(mut table) = bench.table(SET, "txid", count) else { return Ok(()) };
    let digest_all = |txids: &mut dyn Iterator<Item = Hash256>| {
        let mut digest = Digest::default();
        txids.for_each(|txid| digest.add(&txid.0));
        digest
    };
    table.way("one by one", move || {
        let mut set = BTreeSet::new();
        txids.iter().for_each(|txid| {
            set.insert(*txid);
        });
        digest_all(&mut set.into_iter())
    });
    table.way("built from all at once", move || {
        digest_all(&mut txids.iter().copied().collect::<BTreeSet<_>>().into_iter())
    });
    table.way("no set: sorted vector", move || {
        let mut sorted = txids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        digest_all(&mut sorted.into_iter())
    });
    table.shipped();
    bench.run(table)
}

/// What every way starts with: coins of its own.
fn own(coins: &[StoredCoin]) -> Vec<(OutPoint, Vec<u8>)> {
    coins.iter().map(|coin| (coin.outpoint, coin.coin.clone())).collect()
}

fn digest_map(map: BTreeMap<OutPoint, Vec<u8>>) -> Digest {
    digest(map.iter().map(|(name, coin)| (name, &coin[..])))
}

fn digest<'a>(coins: impl Iterator<Item = (&'a OutPoint, &'a [u8])>) -> Digest {
    let mut digest = Digest::default();
    for (name, coin) in coins {
        digest.add_u64(name.vout.into());
        digest.add(&coin[..4]);
    }
    digest
}
