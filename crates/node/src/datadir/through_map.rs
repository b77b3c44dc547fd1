//! Writes a part of a commit through an ordered map, like a memtable: the variant without sorted runs.
//!
//! Compiled only with the feature `ablation`, to measure the benefit of sorted runs.

use coins::Generation;
use coins::table::Change;
use primitives::coin::COIN_KEY_PREFIX;
use std::collections::BTreeMap;
use store::chainstate::CoinsPart;

/// Writes the changes of neighbouring shard groups that start with shard `first_shard`.
///
/// # Errors
///
/// An I/O error.
pub(super) fn write(first_shard: usize, groups: &[Generation], mut part: CoinsPart) -> store::Result<()> {
    let mut records: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    for (within, table) in groups.iter().flat_map(|group| &group.tables).enumerate() {
        table.for_each(|tail, change| {
            let mut key = vec![COIN_KEY_PREFIX, (first_shard + within) as u8];
            key.extend_from_slice(tail);
            match change {
                Change::Put(coin) => drop(records.insert(key, Some(coin.to_vec()))),
                // If an outpoint has several records, the unspent coin takes precedence.
                Change::Delete => drop(records.entry(key).or_insert(None)),
            }
        });
    }
    for (key, coin) in records {
        match coin {
            Some(coin) => part.put(&key, &coin)?,
            None => part.delete(&key)?,
        }
    }
    part.finish()
}
