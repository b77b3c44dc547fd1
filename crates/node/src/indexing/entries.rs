//! The many records of an index, keys without values: in parts by the highest bits of their sort order. Each part is
//! sorted when it is written, so that several threads share the work.

use indexes::txindex::DiskTxPos;
use indexes::{spender, txindex};
use std::ops::Range;

/// Maximum bytes of a key.
pub(super) const KEY_BYTES: usize = 24;
/// Number of parts; the entries are ordered by hashes, which are evenly distributed.
const PARTS: usize = 256;
/// Minimum number of entries for another thread.
const SHARE_ENTRIES_MIN: usize = 1 << 15;

/// A record.
pub(super) trait Entry: Copy + Send {
    /// A number that rises with the keys; some keys may share one.
    fn order(&self) -> u64;

    /// Appends the key.
    fn put_key(&self, out: &mut Vec<u8>);

    /// Whether both have the same key.
    fn is_same(&self, other: &Self) -> bool;

    /// Whether the record is added; otherwise it is deleted.
    fn comes(&self) -> bool {
        true
    }
}

/// A transaction: its [`txindex::place`], and the sequence number of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TxEntry {
    pub(super) place: u64,
    pub(super) sequence: u32,
}

impl Entry for TxEntry {
    /// Only the hash: the bytes of a VARINT follow it in the key.
    fn order(&self) -> u64 {
        self.place >> 24 << 24
    }

    fn put_key(&self, out: &mut Vec<u8>) {
        txindex::put_key(out, self.place, self.sequence);
    }

    fn is_same(&self, other: &TxEntry) -> bool {
        self == other
    }
}

/// A spend: order of the outpoint, place of the spending transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpenderEntry {
    pub(super) order: u64,
    pub(super) pos: DiskTxPos,
    pub(super) comes: bool,
}

impl Entry for SpenderEntry {
    fn order(&self) -> u64 {
        self.order
    }

    fn put_key(&self, out: &mut Vec<u8>) {
        spender::put_key(out, self.order, self.pos);
    }

    fn is_same(&self, other: &SpenderEntry) -> bool {
        (self.order, self.pos) == (other.order, other.pos)
    }

    fn comes(&self) -> bool {
        self.comes
    }
}

/// Entries in parts, the parts in order; within a part in order of addition, until it is sorted.
pub(super) struct Parts<T> {
    entries: Vec<T>,
    starts: [usize; PARTS + 1],
}

/// Some neighbouring parts, for one thread.
pub(super) struct Share<'p, T>(Vec<&'p mut [T]>);

impl<T: Entry> Parts<T> {
    /// Divides entries into parts; `entries` must return the same ones twice.
    pub(super) fn of<I: Iterator<Item = T>>(entries: impl Fn() -> I) -> Parts<T> {
        let mut starts = [0; PARTS + 1];
        let Some(first) = entries().next() else { return Parts { entries: Vec::new(), starts } };
        let part = |entry: &T| (entry.order() >> (64 - PARTS.ilog2())) as usize;
        entries().for_each(|entry| starts[part(&entry) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut all = vec![first; starts[PARTS]];
        let mut next = starts;
        for entry in entries() {
            let place = &mut next[part(&entry)];
            all[*place] = entry;
            *place += 1;
        }
        Parts { entries: all, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All parts, for up to `par` threads; at least one share.
    pub(super) fn shares(&mut self, par: usize) -> Vec<Share<'_, T>> {
        let count = (self.len() / SHARE_ENTRIES_MIN).clamp(1, par.max(1));
        self.split((0..count).map(|share| PARTS * share / count..PARTS * (share + 1) / count))
    }

    fn split(&mut self, ranges: impl Iterator<Item = Range<usize>>) -> Vec<Share<'_, T>> {
        let mut rest = &mut self.entries[..];
        let starts = &self.starts;
        let mut next = |part: usize| {
            let (part, behind) = std::mem::take(&mut rest).split_at_mut(starts[part + 1] - starts[part]);
            rest = behind;
            part
        };
        ranges.map(|parts| Share(parts.map(&mut next).collect())).collect()
    }
}

impl<T: Entry> Share<'_, T> {
    /// Sorts the parts and passes the entries to `give` in the order of their keys; of equal keys only the last one
    /// added.
    pub(super) fn each<E>(self, mut give: impl FnMut(&T) -> Result<(), E>) -> Result<(), E> {
        for part in self.0 {
            // Stable: of equal keys the last one added stays last.
            part.sort_by_key(T::order);
            sort_equal(part);
            for (at, entry) in part.iter().enumerate() {
                if part.get(at + 1).is_none_or(|next| !entry.is_same(next)) {
                    give(entry)?;
                }
            }
        }
        Ok(())
    }
}

/// Sorts neighbours with equal order by their keys; equal keys keep their order.
fn sort_equal<T: Entry>(entries: &mut [T]) {
    let mut start = 0;
    for end in 1..=entries.len() {
        if end == entries.len() || entries[start].order() != entries[end].order() {
            if end - start > 1 {
                entries[start..end].sort_by_cached_key(|entry| {
                    let mut key = Vec::with_capacity(KEY_BYTES);
                    entry.put_key(&mut key);
                    key
                });
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use testkit::Rng;

    /// Few orders, so that many are equal; all kinds of highest bits; any number of threads.
    #[test]
    fn shares_are_in_order_and_the_last_word_counts() {
        let mut rng = Rng::new(256);
        for count in [0, 1, 2, 1000, 5000] {
            let entries: Vec<SpenderEntry> = (0..count)
                .map(|_| SpenderEntry {
                    order: rng.u64() & 0xff00_0000_0000_0003,
                    pos: DiskTxPos { file: 0, block: rng.below(300) as u32, tx: rng.below(2) as u32 },
                    comes: rng.one_in(2),
                })
                .collect();
            let key = |entry: &SpenderEntry| {
                let mut key = Vec::new();
                entry.put_key(&mut key);
                key
            };
            let want: BTreeMap<Vec<u8>, bool> = entries.iter().map(|entry| (key(entry), entry.comes)).collect();
            for threads in [1, 2, 3, 300] {
                let mut parts = Parts::of(|| entries.iter().copied());
                assert_eq!(parts.len(), count);
                let shares = parts.split((0..threads).map(|n| PARTS * n / threads..PARTS * (n + 1) / threads));
                let mut got = Vec::new();
                for share in shares {
                    share
                        .each(|entry| {
                            got.push((key(entry), entry.comes));
                            Ok::<(), ()>(())
                        })
                        .unwrap();
                }
                assert!(
                    got.iter().eq(want.iter().map(|(key, comes)| (key.clone(), *comes)).collect::<Vec<_>>().iter())
                );
            }
        }
    }

    /// The bytes of a VARINT are in another order than its numbers.
    #[test]
    fn transactions_of_one_hash_are_in_the_order_of_their_keys() {
        let entries: Vec<TxEntry> = (0..600).map(|sequence| TxEntry { place: 7 << 24 | 5, sequence }).collect();
        let mut parts = Parts::of(|| entries.iter().copied());
        let mut keys = Vec::new();
        for share in parts.shares(2) {
            share
                .each(|entry| {
                    let mut key = Vec::new();
                    entry.put_key(&mut key);
                    keys.push(key);
                    Ok::<(), ()>(())
                })
                .unwrap();
        }
        assert!(keys.len() == 600 && keys.is_sorted());
    }
}
