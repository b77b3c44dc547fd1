//! LevelDB's bloom filter `leveldb.BuiltinBloomFilter2`, 10 bits a key, bit for bit.
//!
//! Filter:  bits, the least significant of a byte first | probes u8
//! A filter that differs in one bit hides keys from LevelDB's look-ups, so it must match LevelDB bit for bit.
//!
//! Source: Bitcoin Core b88bffe, leveldb/util/bloom.cc and hash.cc.

use std::ops::Range;

use crate::coding::fixed32;
use kernels::Kernels;

/// The metaindex key of a table's filter block.
pub(crate) const FILTER_KEY: &[u8] = b"filter.leveldb.BuiltinBloomFilter2";

const BITS_PER_KEY: usize = 10;
/// floor(10 * 0.69).
const PROBES: u32 = 6;
/// A filter with more probes is of an unknown kind: every key may be in it. Source: LevelDB's `KeyMayMatch`.
const PROBES_MAX: u8 = 30;

/// The hash of a user key from which all probes follow.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u32 {
    const M: u32 = 0xc6a4_a793;
    // LevelDB's lengths are 32 bits wide in this product too.
    #[expect(clippy::cast_possible_truncation, reason = "the hash is defined modulo 2^32")]
    let mut h = 0xbc9f_1d34 ^ (key.len() as u32).wrapping_mul(M);
    let mut words = key.chunks_exact(4);
    for word in &mut words {
        h = h.wrapping_add(fixed32(word)).wrapping_mul(M);
        h ^= h >> 16;
    }
    let tail = words.remainder();
    if !tail.is_empty() {
        for (index, byte) in tail.iter().enumerate() {
            h = h.wrapping_add(u32::from(*byte) << (8 * index));
        }
        h = h.wrapping_mul(M);
        h ^= h >> 24;
    }
    h
}

/// Appends the filter of the keys with these hashes.
pub(crate) fn put_filter(out: &mut Vec<u8>, hashes: &[u32]) {
    let bytes = (hashes.len() * BITS_PER_KEY).max(64).div_ceil(8);
    let start = out.len();
    out.resize(start + bytes, 0);
    let filter = &mut out[start..];
    let bits = bytes as u64 * 8;
    // x % bits without a division (Lemire, Kaser, Kurz 2019): exact for any 32-bit x and bits.
    let magic = u64::MAX / bits + 1;
    for first in hashes {
        let mut h = *first;
        let delta = h.rotate_right(17);
        for _ in 0..PROBES {
            let low = magic.wrapping_mul(u64::from(h));
            let bit = usize::try_from((u128::from(low) * u128::from(bits)) >> 64).expect("below the number of bits");
            filter[bit / 8] |= 1 << (bit % 8);
            h = h.wrapping_add(delta);
        }
    }
    out.push(6);
}

/// Whether the filter may contain a key with this hash; `false` is certain.
#[inline]
pub(crate) fn may_hold(filter: &[u8], first: u32) -> bool {
    let Some((probes, bytes)) = filter.split_last() else {
        return false;
    };
    if bytes.is_empty() {
        return false;
    }
    if *probes > PROBES_MAX {
        return true;
    }
    let Ok(bits) = u32::try_from(bytes.len() * 8) else {
        return true;
    };
    let mut h = first;
    let delta = h.rotate_right(17);
    for _ in 0..*probes {
        let bit = (h % bits) as usize;
        if bytes[bit / 8] & (1 << (bit % 8)) == 0 {
            return false;
        }
        h = h.wrapping_add(delta);
    }
    true
}

/// The filters of one table: one for each 2 KiB of its data.
///
/// Filters | start of each u32 LE | start of those u32 LE | log2 of the bytes a filter covers u8
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterBlock<'a> {
    contents: &'a [u8],
    frame: FilterFrame,
}

/// The frame at the end of a filter block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterFrame {
    /// Offset of the array of starts, which is the end of the filters.
    starts: usize,
    count: usize,
    base_log2: u8,
}

impl FilterFrame {
    /// Reads the frame; `None` if the contents are not a filter block, and then every key may be present.
    pub(crate) fn parse(contents: &[u8]) -> Option<FilterFrame> {
        let (base_log2, rest) = contents.split_last()?;
        let starts = usize::try_from(fixed32(rest.last_chunk::<4>()?)).ok()?;
        let count = rest.len().checked_sub(4)?.checked_sub(starts)? / 4;
        Some(FilterFrame { starts, count, base_log2: *base_log2 })
    }
}

/// log2 of the bytes of data that one filter covers.
pub(crate) const FILTER_BASE_LOG2: u8 = 11;

impl<'a> FilterBlock<'a> {
    /// A filter block whose frame has been read.
    #[inline]
    pub(crate) fn new(contents: &'a [u8], frame: FilterFrame) -> FilterBlock<'a> {
        FilterBlock { contents, frame }
    }

    /// Offset of the start entry of the filter for the data block at `offset`.
    #[inline]
    fn place(&self, offset: u64) -> Option<usize> {
        let index = usize::try_from(offset.checked_shr(u32::from(self.frame.base_log2))?).ok()?;
        (index < self.frame.count).then(|| self.frame.starts + index * 4)
    }

    /// Prefetches that start entry.
    #[inline]
    pub(crate) fn prefetch_place(&self, kernels: Kernels, offset: u64) {
        if let Some(place) = self.place(offset) {
            kernels.prefetch(self.contents, place);
        }
    }

    /// The range of the filter for the data block at `offset`; `None` if no filter covers it.
    #[inline]
    fn range(&self, offset: u64) -> Option<Range<usize>> {
        let place = self.place(offset)?;
        let start = usize::try_from(fixed32(self.contents.get(place..place + 4)?)).ok()?;
        let end = usize::try_from(fixed32(self.contents.get(place + 4..place + 8)?)).ok()?;
        (start <= end && end <= self.frame.starts).then_some(start..end)
    }

    /// The bytes of the filter for the data block at `offset`; `None` if no filter covers it.
    #[inline]
    pub(crate) fn filter(&self, offset: u64) -> Option<&'a [u8]> {
        self.contents.get(self.range(offset)?)
    }

    /// Whether the data block at `offset` may contain a key with this hash; `false` is certain.
    #[inline]
    pub(crate) fn may_hold(&self, offset: u64, hash: u32) -> bool {
        self.filter(offset).is_none_or(|filter| may_hold(filter, hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LevelDB's own vectors: leveldb/util/hash_test.cc has seed 0xbc9f1d34 in each row.
    #[test]
    fn hash_matches_leveldbs_vectors() {
        for (row, key, want) in [
            ("empty", &b""[..], 0xbc9f_1d34),
            ("one byte", &[0x62], 0xef13_45c4),
            ("two bytes", &[0xc3, 0x97], 0x5b66_3814),
            ("three bytes", &[0xe2, 0x99, 0xa5], 0x323c_078f),
            ("four bytes", &[0xe1, 0x80, 0xb9, 0x32], 0xed21_633a),
        ] {
            assert_eq!(hash(key), want, "{row}");
        }
    }

    /// The plain twin: set bits with a division, as the text of the format says it.
    fn plain_filter(hashes: &[u32]) -> Vec<u8> {
        let bytes = (hashes.len() * 10).max(64).div_ceil(8);
        let bits = u32::try_from(bytes * 8).unwrap();
        let mut filter = vec![0; bytes + 1];
        for first in hashes {
            for probe in 0..6_u32 {
                let bit = first.wrapping_add(first.rotate_right(17).wrapping_mul(probe)) % bits;
                filter[bit as usize / 8] |= 1 << (bit % 8);
            }
        }
        filter[bytes] = 6;
        filter
    }

    #[test]
    fn filter_holds_all_its_keys_and_few_others() {
        for count in [0, 1, 6, 7, 50, 100, 10_000] {
            let of = |n: u64| hash(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
            let hashes: Vec<u32> = (0..count).map(of).collect();
            let mut filter = Vec::new();
            put_filter(&mut filter, &hashes);
            assert_eq!(filter, plain_filter(&hashes), "{count} keys");
            assert!(hashes.iter().all(|hash| may_hold(&filter, *hash)));
            let wrong = (0..10_000).filter(|n| may_hold(&filter, of(n | 1 << 40))).count();
            assert!(wrong < 250, "{count} keys: {wrong} of 10,000 wrong");
        }
        assert!(!may_hold(&[], 1) && !may_hold(&[6], 1), "an empty filter holds nothing");
        assert!(may_hold(&[0, 31], 1), "an unknown kind may hold anything");
    }

    #[test]
    fn damaged_filter_block_frame_never_hides_a_key() {
        let parse = |contents: &'static [u8]| Some(FilterBlock::new(contents, FilterFrame::parse(contents)?));
        assert!(parse(&[]).is_none());
        assert!(parse(&[11]).is_none());
        assert!(parse(&[9, 0, 0, 0, 11]).is_none(), "starts behind the end");
        let block = parse(&[0, 0, 0, 0, 11]).unwrap();
        assert!(block.may_hold(0, 1), "no filter covers it");
        let block = parse(&[7, 0, 0, 0, 0, 0, 0, 0, 200]).unwrap();
        assert!(block.may_hold(u64::MAX, 1));
    }
}
