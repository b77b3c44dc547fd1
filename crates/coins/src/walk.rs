//! Walks over all records of a table: in bucket order, or in key order.
//!
//! In either order the records are scattered in memory, so each is prefetched some records ahead. Ids are spread
//! evenly: the first bits of their keys sort the records into small ranges, and each range is then sorted.

use crate::chunks::Chunks;
use crate::record::{TXID_AT, VOUT_AT, is_dead, key_of};
use kernels::bucket::{Bucket, PLACES};

/// Prefetch distance of a walk, in buckets: some dozens of records are in flight at once.
const BUCKETS_AHEAD: usize = 4;
/// Average number of records in a range, small enough for insertion sort.
const RANGE_RECORDS: usize = 8;
/// Leading bytes of a key that are compared as one number.
type Prefix = u64;

/// The addresses of a bucket's records.
#[inline]
fn addresses(bucket: &Bucket) -> impl Iterator<Item = u32> {
    let mut taken = !bucket.match_empty() & ((1 << PLACES) - 1);
    std::iter::from_fn(move || {
        if taken == 0 {
            return None;
        }
        let address = bucket.offsets[taken.trailing_zeros() as usize];
        taken &= taken - 1;
        Some(address)
    })
}

/// Calls `each` with the address of each record, in any order.
#[inline]
pub(crate) fn each(buckets: &[Bucket], chunks: &Chunks, mut each: impl FnMut(u32)) {
    let ahead = buckets.iter().skip(BUCKETS_AHEAD).map(Some).chain(std::iter::repeat(None));
    for (bucket, ahead) in buckets.iter().zip(ahead) {
        for address in ahead.into_iter().flat_map(addresses) {
            chunks.prefetch(address, TXID_AT, VOUT_AT);
        }
        addresses(bucket).for_each(&mut each);
    }
}

/// The addresses of `count` records in key order, each key once: of several records the unspent coin.
pub(crate) fn by_key(buckets: &[Bucket], chunks: &Chunks, count: usize) -> Vec<u32> {
    let mut records: Vec<(Prefix, u32)> = Vec::with_capacity(count);
    each(buckets, chunks, |address| {
        let prefix = chunks.record(address)[TXID_AT..].first_chunk().expect("a record has a txid");
        records.push((Prefix::from_be_bytes(*prefix), address));
    });
    let (mut records, ends) = into_ranges(records);
    let mut start = 0;
    for end in ends {
        records[start..end].sort_unstable_by(|a, b| {
            let by_key = a.0.cmp(&b.0).then_with(|| key_of(chunks.record(a.1)).cmp(key_of(chunks.record(b.1))));
            by_key.then_with(|| is_dead(chunks.record(a.1)).cmp(&is_dead(chunks.record(b.1))))
        });
        start = end;
    }
    records.dedup_by(|b, a| a.0 == b.0 && key_of(chunks.record(a.1)) == key_of(chunks.record(b.1)));
    records.into_iter().map(|(_, address)| address).collect()
}

/// Sorts records into ranges of keys; returns the end of each range.
fn into_ranges(records: Vec<(Prefix, u32)>) -> (Vec<(Prefix, u32)>, Vec<usize>) {
    let bits = (records.len() / RANGE_RECORDS).max(1).ilog2();
    let range_of = |prefix: Prefix| (u128::from(prefix) >> (Prefix::BITS - bits)) as usize;
    let mut places = vec![0; 1 << bits];
    records.iter().for_each(|(prefix, _)| places[range_of(*prefix)] += 1);
    let mut start = 0;
    for place in &mut places {
        start += std::mem::replace(place, start);
    }
    let mut ranged = vec![(0, 0); records.len()];
    for record in records {
        let place = &mut places[range_of(record.0)];
        ranged[*place] = record;
        *place += 1;
    }
    (ranged, places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// Every number of records, keys spread evenly or not at all: ranges in order, nothing lost.
    #[test]
    fn ranges_are_in_order_and_hold_all_records() {
        let mut rng = Rng::new(2);
        for count in (0..40).chain([100, 1000, 5000]) {
            for is_even in [true, false] {
                let records: Vec<(u64, u32)> =
                    (0..count).map(|n| (if is_even { rng.u64() } else { rng.u64() >> 50 }, n)).collect();
                let (mut ranged, ends) = into_ranges(records.clone());
                assert_eq!(ends.last(), Some(&records.len()));
                let mut start = 0;
                for end in ends {
                    ranged[start..end].sort_unstable();
                    start = end;
                }
                let mut want = records;
                want.sort_unstable();
                assert_eq!(ranged, want, "{count} records");
            }
        }
    }
}
