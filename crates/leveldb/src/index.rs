//! The in-memory index of a table: finds the data block of a key, and the block's place.
//!
//! For each block it stores four bytes of the index key (those after the prefix that all index keys share) and the
//! block's place. The last four-byte prefix of each segment (16 neighbouring blocks) is stored once more. So a search
//! misses the processor's caches twice, and the second line is prefetched while other keys are searched.

use crate::block::{Block, extend_key};
use crate::coding::{Reader, put_varint, shared_prefix, split_key, user_key};
use crate::error::Damage;
use crate::format::Handle;
use kernels::Kernels;

/// Blocks of a segment: their prefixes fill one cache line.
const SEGMENT: usize = 16;

/// Index keys and places of a table's blocks.
#[derive(Debug)]
pub(crate) struct TableIndex {
    /// The prefix that all index keys but the last share, in front of each of `prefixes`.
    common: Box<[u8]>,
    /// The four bytes of each index key after `common`, as a big-endian number. The last block has no entry: it is the
    /// answer for all greater keys.
    prefixes: Vec<u32>,
    /// The last prefix of each whole segment.
    segment_ends: Vec<u32>,
    handles: Vec<u64>,
}

/// A search in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexSearch {
    wanted: u32,
    segment: usize,
}

impl TableIndex {
    fn set_segment_ends(&mut self) {
        self.segment_ends = self.prefixes.chunks_exact(SEGMENT).map(|segment| segment[SEGMENT - 1]).collect();
    }

    /// Number of blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.handles.len()
    }

    /// The place of block `index`.
    #[inline]
    pub(crate) fn handle(&self, index: usize) -> Handle {
        Handle::unpack(self.handles[index])
    }

    /// Memory held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        (self.prefixes.capacity() + self.segment_ends.capacity()) * 4 + self.handles.capacity() * 8 + self.common.len()
    }

    /// Finds the segment of a key and prefetches it.
    #[inline]
    pub(crate) fn begin_search(&self, kernels: Kernels, key: &[u8]) -> IndexSearch {
        let common = key.get(..self.common.len()).unwrap_or(key);
        let wanted = match common.cmp(&self.common) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Equal => prefix(&key[self.common.len()..]),
            std::cmp::Ordering::Greater => u32::MAX,
        };
        let segment = search(&self.segment_ends, wanted);
        kernels.prefetch(&self.prefixes, segment * SEGMENT);
        kernels.prefetch(&self.handles, segment * SEGMENT);
        kernels.prefetch(&self.handles, segment * SEGMENT + SEGMENT / 2);
        IndexSearch { wanted, segment }
    }

    /// The first block whose index key is at least the key; `is_below` compares the whole key of a block. 0 for an
    /// index without blocks.
    #[inline]
    pub(crate) fn end_search(&self, search: IndexSearch, is_below: impl Fn(usize) -> bool) -> usize {
        let IndexSearch { wanted, segment } = search;
        let start = self.prefixes.len().min(segment * SEGMENT);
        let end = self.prefixes.len().min(start + SEGMENT);
        let below = self.prefixes[start..end].iter().filter(|found| **found < wanted).count();
        let start = start + below;
        if self.prefixes.get(start).is_none_or(|found| *found != wanted) {
            return start;
        }
        let mut low = start;
        let mut high = start + self.prefixes[start..].partition_point(|found| *found == wanted);
        while low < high {
            let middle = low.midpoint(high);
            if is_below(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

fn prefix(rest: &[u8]) -> u32 {
    let mut bytes = [0; 4];
    let count = rest.len().min(4);
    bytes[..count].copy_from_slice(&rest[..count]);
    u32::from_be_bytes(bytes)
}

/// The first place that is not below `wanted`. The numbers are usually spread evenly, so an interpolated guess is near;
/// from it the steps double.
fn search(numbers: &[u32], wanted: u32) -> usize {
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return 0;
    };
    if wanted <= *first {
        return 0;
    }
    if wanted > *last {
        return numbers.len();
    }
    let span = (numbers.len() - 1) as u64;
    let guess = u64::from(wanted - first) * span / u64::from(last - first);
    let guess = usize::try_from(guess).map_or(0, |guess| guess.min(numbers.len() - 1));
    let mut step = 4;
    let mut low = guess;
    let mut high = guess;
    if numbers[guess] < wanted {
        while high < numbers.len() && numbers[high] < wanted {
            (low, high) = (high, high + step);
            step *= 2;
        }
    } else {
        while low > 0 && numbers[low] >= wanted {
            (low, high) = (low.saturating_sub(step), low);
            step *= 2;
        }
    }
    let high = high.min(numbers.len());
    low + numbers[low..high].partition_point(|number| *number < wanted)
}

/// Limit for the copy of an index with shared prefixes, in multiples of its size: far above what a table of sound keys
/// needs, and a bound for one that is made to fill the memory.
const COPY_FACTOR_MAX: usize = 64;

/// The parts kept of an index block.
pub(crate) struct IndexEntries {
    pub(crate) index: TableIndex,
    /// A copy of all entries with each a restart, if the file's entries are not all restarts.
    pub(crate) copy: Option<Vec<u8>>,
}

impl IndexEntries {
    /// Reads an index block; the damage's offset counts from its start.
    pub(crate) fn read(contents: &[u8], file: &[u8]) -> std::result::Result<IndexEntries, Damage> {
        let broken = |at| Damage::new(at, "an entry of the index", "malformed bytes");
        let block = Block::parse(contents).ok_or_else(|| broken(0))?;
        let mut handles = Vec::new();
        let mut is_plain = true;
        let mut first = Vec::new();
        let mut common_bytes = usize::MAX;
        let mut with_last = usize::MAX;
        let mut at = 0;
        let mut key = Vec::new();
        while at < block.len() {
            let entry = block.entry(at).ok_or_else(|| broken(at))?;
            extend_key(&mut key, &entry).ok_or_else(|| broken(at))?;
            let (user, _) = split_key(&key).ok_or_else(|| broken(at))?;
            if handles.is_empty() {
                first = user.to_vec();
            }
            common_bytes = with_last;
            with_last = with_last.min(shared_prefix(&first, user));
            is_plain &= entry.shared == 0 && block.restart(handles.len()) == at;
            let handle = Handle::read(&mut Reader(entry.value)).ok_or_else(|| broken(at))?;
            let packed = handle.pack().filter(|_| handle.range(file).is_some());
            handles.push(packed.ok_or_else(|| {
                let Handle { offset, bytes } = handle;
                let wanted = format!("a block within the file's {} bytes", file.len());
                Damage::new(at, wanted, format!("{bytes} bytes at {offset}"))
            })?);
            at = entry.next;
        }
        // An empty index is written with one restart, at 0.
        is_plain &= handles.is_empty() || block.restart_count() == handles.len();
        first.truncate(common_bytes);
        let index = TableIndex {
            prefixes: Vec::with_capacity(handles.len().saturating_sub(1)),
            segment_ends: Vec::new(),
            handles,
            common: first.into(),
        };
        let mut entries = IndexEntries { index, copy: (!is_plain).then(Vec::new) };
        entries.fill(block, contents.len().saturating_mul(COPY_FACTOR_MAX))?;
        entries.index.set_segment_ends();
        Ok(entries)
    }

    /// The second pass, when the shared prefix of all keys is known. A copy has at most `copy_bytes_max`.
    fn fill(&mut self, block: Block<'_>, copy_bytes_max: usize) -> std::result::Result<(), Damage> {
        let mut at = 0;
        let mut key = Vec::new();
        let mut restarts = Vec::new();
        while let Some(entry) = block.entry(at).filter(|_| at < block.len()) {
            extend_key(&mut key, &entry).expect("read before");
            let index = &mut self.index;
            if index.prefixes.len() + 1 < index.handles.len() {
                index.prefixes.push(prefix(&user_key(&key)[index.common.len()..]));
            }
            if let Some(copy) = &mut self.copy {
                restarts.push(u32::try_from(copy.len()).unwrap_or(u32::MAX));
                put_varint(copy, 0);
                put_varint(copy, key.len() as u64);
                put_varint(copy, entry.value.len() as u64);
                copy.extend_from_slice(&key);
                copy.extend_from_slice(entry.value);
                if copy.len() > copy_bytes_max {
                    let wanted = format!("an index that unfolds to {copy_bytes_max} bytes at most");
                    return Err(Damage::new(at, wanted, "a longer one"));
                }
            }
            at = entry.next;
        }
        if let Some(copy) = &mut self.copy {
            let count = u32::try_from(restarts.len()).unwrap_or(u32::MAX);
            copy.extend(restarts.into_iter().chain([count]).flat_map(u32::to_le_bytes));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of blocks around whole segments, keys that differ late, early, and not at all in their prefixes.
    #[test]
    fn search_by_segments_equals_a_plain_search() {
        let mut rng = testkit::Rng::new(4);
        for count in [0, 1, 2, 15, 16, 17, 18, 33, 34, 100, 300] {
            for spread in [1, 5, 1 << 16, 1 << 40] {
                let mut ends: Vec<[u8; 8]> = (0..count).map(|_| (rng.u64() % spread).to_be_bytes()).collect();
                ends.sort_unstable();
                let common_bytes = ends.split_last().map_or(0, |(_, most)| match (most.first(), most.last()) {
                    (Some(first), Some(last)) => shared_prefix(first, last),
                    _ => 0,
                });
                let most = &ends[..ends.len().saturating_sub(1)];
                let mut index = TableIndex {
                    common: ends.first().map_or(&[][..], |first| &first[..common_bytes]).into(),
                    prefixes: most.iter().map(|end| prefix(&end[common_bytes..])).collect(),
                    segment_ends: Vec::new(),
                    handles: vec![0; ends.len()],
                };
                index.set_segment_ends();
                let near = ends.iter().map(|end| u64::from_be_bytes(*end));
                let near = near.flat_map(|end| [end.saturating_sub(1), end, end.saturating_add(1)]);
                for key in near.chain([0, spread / 2, u64::MAX]) {
                    let key = key.to_be_bytes();
                    let plain = most.partition_point(|end| *end < key);
                    let found = index.end_search(index.begin_search(Kernels::AUTO, &key), |block| ends[block] < key);
                    assert_eq!(found, plain, "{key:?} among {count} below {spread}");
                }
            }
        }
    }

    #[test]
    fn interpolation_search_equals_binary_search() {
        let even: Vec<u32> = (0..1000).map(|n| n * 4_000_000).collect();
        let skewed: Vec<u32> = (0..32).map(|n| 1 << n).chain([u32::MAX; 40]).collect();
        let low: Vec<u32> = [vec![0; 50], vec![7; 50], vec![u32::MAX - 1]].concat();
        for numbers in [&even[..], &skewed, &low, &[], &[5], &[5, 5, 5]] {
            let wanted = numbers.iter().flat_map(|n| [n.saturating_sub(1), *n, n.saturating_add(1)]);
            for wanted in wanted.chain([0, 1, u32::MAX / 2, u32::MAX]) {
                let plain = numbers.partition_point(|number| *number < wanted);
                assert_eq!(search(numbers, wanted), plain, "{wanted}");
            }
        }
    }
}
