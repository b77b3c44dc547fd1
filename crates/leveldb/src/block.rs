//! One block of a table: entries in key order, each sharing a prefix with the one before.
//!
//! Block:  entries | restart offsets u32 LE | their count u32 LE
//! Entry:  shared varint | rest varint | value bytes varint | rest of the key | value
//! The entry at a restart offset shares nothing with the one before, so that a search can begin there.
//!
//! In this module every `None` means that the bytes are not a valid block. No input panics.

use crate::coding::{
    KIND_DELETED, KIND_VALUE, Reader, TAG_BYTES, fixed32, fixed64, prefix_of, shared_prefix, split_key,
};
use kernels::Kernels;

/// Cache lines of entries that a search prefetches: half of those between two restarts. The processor's own prefetcher
/// follows from there.
const PREFETCH_LINES: usize = 8;

/// The contents of a block whose frame is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<'a> {
    entries: &'a [u8],
    restarts: &'a [u8],
}

/// One entry. Its key still lacks the prefix shared with the entry before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockEntry<'a> {
    pub(crate) shared: usize,
    pub(crate) rest: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Offset of the next entry.
    pub(crate) next: usize,
}

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The newest record of the key is this value.
    Value(&'a [u8]),
    /// The newest record of the key is a tombstone.
    Deleted,
    /// No record of the key.
    Absent,
}

impl<'a> Found<'a> {
    fn of(tag: u64, value: &'a [u8]) -> Option<Found<'a>> {
        match tag & 0xff {
            KIND_VALUE => Some(Found::Value(value)),
            KIND_DELETED => Some(Found::Deleted),
            _ => None,
        }
    }
}

impl<'a> Block<'a> {
    #[inline]
    pub(crate) fn parse(contents: &'a [u8]) -> Option<Block<'a>> {
        let (rest, count) = contents.split_last_chunk::<4>()?;
        let bytes = usize::try_from(u32::from_le_bytes(*count)).ok()?.checked_mul(4)?;
        let (entries, restarts) = rest.split_at(rest.len().checked_sub(bytes)?);
        Some(Block { entries, restarts })
    }

    /// A block without restarts, for reading entries in order without a search.
    #[inline]
    pub(crate) fn of_entries(entries: &'a [u8]) -> Block<'a> {
        Block { entries, restarts: &[] }
    }

    /// Number of restart offsets.
    pub(crate) fn restart_count(&self) -> usize {
        self.restarts.len() / 4
    }

    /// Offset of restart `index`, where a search may begin; at or past the end if the block is damaged.
    #[inline]
    pub(crate) fn restart(&self, index: usize) -> usize {
        let place = self.restarts.get(index * 4..index * 4 + 4);
        place.map_or(usize::MAX, |bytes| fixed32(bytes) as usize)
    }

    /// Prefetches the first entries at `offset`.
    #[inline]
    pub(crate) fn prefetch(&self, kernels: Kernels, offset: usize) {
        for line in 0..PREFETCH_LINES {
            kernels.prefetch(self.entries, offset.saturating_add(line * 64));
        }
    }

    /// Bytes of all entries.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The entry that begins at `offset`.
    #[inline]
    pub(crate) fn entry(&self, offset: usize) -> Option<BlockEntry<'a>> {
        let bytes = self.entries.get(offset..)?;
        let (shared, rest, value, head) = match bytes {
            [a, b, c, ..] if (a | b | c) & 0x80 == 0 => (usize::from(*a), usize::from(*b), usize::from(*c), 3),
            _ => {
                let mut reader = Reader(bytes);
                let lengths = (reader.length()?, reader.length()?, reader.length()?);
                (lengths.0, lengths.1, lengths.2, bytes.len() - reader.0.len())
            }
        };
        let key_end = head + rest;
        let end = key_end + value;
        let entry = bytes.get(..end)?;
        let key = &entry[head..key_end];
        let value = &entry[key_end..];
        Some(BlockEntry { shared, rest: key, value, next: offset + end })
    }

    /// The user key at a restart.
    #[inline]
    fn restart_key(&self, index: usize) -> Option<&'a [u8]> {
        let entry = self.entry(self.restart(index)).filter(|entry| entry.shared == 0)?;
        split_key(entry.rest).map(|(user, _)| user)
    }

    /// Looks for the newest record of a user key among internal keys.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<Found<'a>> {
        self.scan(self.seek(key)?, key)
    }

    /// The offset at which [`Block::scan`] must begin to find `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> Option<usize> {
        let mut low = 0;
        let mut high = self.restart_count();
        let prefix = prefix_of(key);
        while low < high {
            let middle = low.midpoint(high);
            let here = self.restart_key(middle)?;
            let here_prefix = prefix_of(here);
            if here_prefix < prefix || (here_prefix == prefix && here < key) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Some(self.restart(low.saturating_sub(1)))
    }

    /// Continues the search at the offset that [`Block::seek`] returned.
    ///
    /// No key is assembled. `matched` counts the bytes in which the previous entry agrees with `key`. An entry that
    /// shares more than that with the previous entry is below `key` too.
    pub(crate) fn scan(&self, start: usize, key: &[u8]) -> Option<Found<'a>> {
        let mut offset = start;
        let mut matched = 0;
        let mut before_len = 0;
        while offset < self.entries.len() {
            let entry = self.entry(offset)?;
            // Rare and slow: entries share more bytes than a user key has, so tags take part in the comparison.
            if entry.shared > before_len || entry.rest.len() < TAG_BYTES {
                return self.scan_slowly(start, key);
            }
            let (rest, tag) = entry.rest.split_at(entry.rest.len() - TAG_BYTES);
            if entry.shared <= matched {
                let wanted = &key[entry.shared..];
                let same = shared_prefix(rest, wanted);
                matched = entry.shared + same;
                match (rest.get(same), wanted.get(same)) {
                    (None, None) => return Found::of(fixed64(tag), entry.value),
                    (Some(here), Some(there)) if here > there => return Some(Found::Absent),
                    (Some(_), None) => return Some(Found::Absent),
                    _ => {}
                }
            }
            before_len = entry.shared + rest.len();
            offset = entry.next;
        }
        Some(Found::Absent)
    }

    /// [`Block::scan`] for arbitrary keys: each key is assembled.
    fn scan_slowly(&self, start: usize, key: &[u8]) -> Option<Found<'a>> {
        let mut offset = start;
        let mut here = Vec::new();
        while offset < self.entries.len() {
            let entry = self.entry(offset)?;
            extend_key(&mut here, &entry)?;
            let (user, tag) = split_key(&here)?;
            match user.cmp(key) {
                std::cmp::Ordering::Less => offset = entry.next,
                std::cmp::Ordering::Equal => return Found::of(tag, entry.value),
                std::cmp::Ordering::Greater => break,
            }
        }
        Some(Found::Absent)
    }
}

/// Turns the previous entry's key into the key of `entry`.
#[inline]
pub(crate) fn extend_key(key: &mut Vec<u8>, entry: &BlockEntry<'_>) -> Option<()> {
    if entry.shared > key.len() {
        return None;
    }
    key.truncate(entry.shared);
    key.extend_from_slice(entry.rest);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::put_varint;

    /// A block of internal keys, as any writer may make it.
    pub(crate) fn block(keys: &[(&[u8], u64, &[u8])], interval: usize) -> Vec<u8> {
        let (mut out, mut restarts, mut before) = (Vec::new(), vec![0_u32], Vec::new());
        for (index, (user, tag, value)) in keys.iter().enumerate() {
            let key = [user, &tag.to_le_bytes()[..]].concat();
            let mut shared = shared_prefix(&before, &key);
            if index % interval == 0 {
                shared = 0;
                if index > 0 {
                    restarts.push(u32::try_from(out.len()).unwrap());
                }
            }
            put_varint(&mut out, shared as u64);
            put_varint(&mut out, (key.len() - shared) as u64);
            put_varint(&mut out, value.len() as u64);
            out.extend_from_slice(&key[shared..]);
            out.extend_from_slice(value);
            before = key;
        }
        out.extend(restarts.iter().flat_map(|at| at.to_le_bytes()));
        out.extend(u32::try_from(restarts.len()).unwrap().to_le_bytes());
        out
    }

    const VALUE: u64 = 5 << 8 | KIND_VALUE;

    #[test]
    fn block_find_returns_each_key_and_no_other() {
        let long = [b'l'; 300];
        // Keys that are prefixes of each other, tags that look like key bytes, several versions.
        let keys: Vec<(&[u8], u64, &[u8])> = vec![
            (b"", VALUE, b"empty"),
            (b"a", 9 << 8 | KIND_DELETED, b""),
            (b"a", VALUE, b"old"),
            (b"a\x01", VALUE, b"1"),
            (b"a\x01\x05", VALUE, b"2"),
            (b"a\x01\x05\0", VALUE, b"3"),
            (b"ab", 7 << 8 | KIND_VALUE, b"new"),
            (b"ab", 6 << 8 | KIND_DELETED, b""),
            (b"abc", VALUE, &long),
            (&long, VALUE, b"long"),
            (b"m", VALUE, b""),
        ];
        for interval in 1..=keys.len() {
            let bytes = block(&keys, interval);
            let block = Block::parse(&bytes).unwrap();
            for (index, (key, tag, value)) in keys.iter().enumerate() {
                let is_newest = index == 0 || keys[index - 1].0 != *key;
                let want = Found::of(*tag, value).unwrap();
                if is_newest {
                    assert_eq!(block.find(key), Some(want), "{key:?} {interval}");
                }
            }
            for key in [&b"\0"[..], b"a\0", b"a\x01\x04", b"a\x01\x05\x01", b"aa", b"abb", b"z"] {
                assert_eq!(block.find(key), Some(Found::Absent), "{key:?} {interval}");
            }
        }
    }

    #[test]
    fn damaged_block_gives_none_or_an_answer_never_a_panic() {
        let keys: Vec<[u8; 4]> = (0..40_u32).map(|n| (n * 3).to_be_bytes()).collect();
        let keys: Vec<_> = keys.iter().map(|key| (&key[..], VALUE, &key[..])).collect();
        let bytes = block(&keys, 16);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bent = bytes.clone();
                bent[at] ^= 1 << bit;
                if let Some(block) = Block::parse(&bent) {
                    for number in [0, 1, 60, 117, 200_u32] {
                        let _ = block.find(&number.to_be_bytes());
                    }
                }
            }
            if let Some(block) = Block::parse(&bytes[..at]) {
                let _ = block.find(b"any");
            }
        }
        let unknown = block(&[(b"a", 5 << 8 | 2, b"")], 1);
        assert_eq!(Block::parse(&unknown).unwrap().find(b"a"), None, "an unknown kind");
        assert!(Block::parse(&[1, 0, 0, 0]).is_none(), "a restart that is not there");
        assert!(Block::parse(&[]).is_none());
        let empty = [0, 0, 0, 0, 1, 0, 0, 0];
        let none = Block::parse(&empty).unwrap();
        assert_eq!(none.restart_key(0), None);
    }
}
