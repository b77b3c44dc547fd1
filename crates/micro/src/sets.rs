//! Experiment: filling an ordered map of coins and an ordered set of scripts.
//!
//! ffwd has neither: items that must be in order are collected and sorted once. Rust's maps accept no hint for the
//! position of an item. Instead, one variant inserts items in order, the case for which hints exist.

use crate::bench::Bench;
use crate::input::{self, Digest, Inputs, Mix, Rng, StoredCoin};
use crate::{Error, Experiment};
use primitives::OutPoint;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[MAP, SET], run };

const MAP: &str = "ordered map: filling with coins";
const SET: &str = "ordered set: filling with scripts";

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
        table.way("moved in, in order, as with a hint", || {
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
    let mut rng = Rng(19);
    let scripts: Vec<Vec<u8>> = (0..count).map(|_| Mix::In2025.script(&mut rng)).collect();
    let scripts = &scripts;
    let Some(mut table) = bench.table(SET, "script", count) else { return Ok(()) };
    let filled = |scripts: Vec<Vec<u8>>| {
        scripts.into_iter().fold(BTreeSet::new(), |mut set, script| {
            set.insert(script);
            set
        })
    };
    table.way("copied in", move || {
        let have = scripts.clone();
        digest_set(have.iter().fold(BTreeSet::new(), |mut set, script| {
            set.insert(script.clone());
            set
        }))
    });
    table.way("moved in", move || digest_set(filled(scripts.clone())));
    table.way("moved in, in order, as with a hint", move || {
        let mut have = scripts.clone();
        have.sort_unstable();
        digest_set(filled(have))
    });
    table.way("built from all at once", move || digest_set(BTreeSet::from_iter(scripts.clone())));
    table.way("no set: sorted vector", move || {
        let mut sorted = scripts.clone();
        sorted.sort_unstable();
        sorted.dedup();
        digest_set(sorted)
    });
    table.shipped();
    bench.run(table)
}

fn digest_set(scripts: impl IntoIterator<Item = Vec<u8>>) -> Digest {
    let mut digest = Digest::default();
    for script in scripts {
        digest.add_u64(script.len() as u64);
        digest.add(&script[..2]);
    }
    digest
}

/// The start of every variant: its own copy of the coins.
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
