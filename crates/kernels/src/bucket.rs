//! One cache line of a hash table: twelve one-byte tags, twelve 32-bit offsets, an overflow count.
//!
//! Layout: tags [u8; 12] | overflow u16 | spare u16 | offsets [u32; 12], 64 bytes, aligned to 64.
//!
//! A look-up compares all tags at once and follows the offsets of those that match: one cache miss for the bucket, one
//! for the record. Tag 0 means an empty place, so a zeroed bucket is empty.
//!
//! Absent on purpose: the hash, the records, and the meaning of an overflow, which the table's owner defines.

use sys::memory::{Array, Zeroed};

/// Places in a bucket.
pub const PLACES: usize = 12;

/// The tag of an empty place.
pub const EMPTY: u8 = 0;

/// One cache line of a hash table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Bucket {
    /// One byte of the hash of each item, [`EMPTY`] for an empty place.
    pub tags: [u8; PLACES],
    /// Number of items that belong here but are in a later bucket; the owner maintains it.
    pub overflow: u16,
    /// A number for the owner's use.
    pub spare: u16,
    /// Place of each item, in the owner's units.
    pub offsets: [u32; PLACES],
}

const _: () = assert!(size_of::<Bucket>() == 64 && std::mem::offset_of!(Bucket, offsets) == 16);

// SAFETY: integers only, no padding (12 + 2 + 2 + 48 = 64, asserted above), plain to copy.
unsafe impl Zeroed for Bucket {}

/// The buckets of a table: zeroed (empty), in huge pages if there are enough.
pub type Buckets = Array<Bucket>;

impl Bucket {
    /// The places whose tag is `tag`: bit i for place i.
    #[inline(always)]
    #[must_use]
    pub fn match_tag(&self, tag: u8) -> u16 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return self.match_tag_sse2(tag);
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        self.match_tag_words(tag)
    }

    /// The places that are empty: bit i for place i.
    #[inline(always)]
    #[must_use]
    pub fn match_empty(&self) -> u16 {
        self.match_tag(EMPTY)
    }

    /// [`Bucket::match_tag`] place by place: the reference implementation.
    #[must_use]
    pub fn match_tag_reference(&self, tag: u8) -> u16 {
        let mut places = 0;
        for (place, have) in self.tags.iter().enumerate() {
            places |= u16::from(*have == tag) << place;
        }
        places
    }

    /// [`Bucket::match_tag`] for processors without byte compares: eight tags in a 64-bit number.
    #[inline(always)]
    #[must_use]
    pub fn match_tag_words(&self, tag: u8) -> u16 {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = self.tags;
        let low = zero_bytes(u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ splat(tag));
        // The upper four bytes differ from the tag, so they never match.
        let other = !tag;
        let high = zero_bytes(u64::from_le_bytes([i, j, k, l, other, other, other, other]) ^ splat(tag));
        low | high << 8
    }

    /// [`Bucket::match_tag`] by one vector compare over tags, overflow and spare; the results of the last two are
    /// discarded.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    fn match_tag_sse2(&self, tag: u8) -> u16 {
        use std::arch::x86_64::{__m128i, _mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
        let start: *const Bucket = self;
        // SAFETY: SSE2 is part of every x86-64; the first 16 bytes of a bucket are inside it and aligned, because it is
        // 64 bytes aligned to 64.
        let places = unsafe {
            let tags = _mm_load_si128(start.cast::<__m128i>());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag.cast_signed())))
        };
        (places & 0x0FFF) as u16
    }
}

/// `byte` in all eight bytes.
#[inline(always)]
fn splat(byte: u8) -> u64 {
    u64::from(byte) * 0x0101_0101_0101_0101
}

/// Bit i for each byte i (from the lowest) of `word` that is zero.
#[inline(always)]
fn zero_bytes(word: u64) -> u16 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    // The top bit of each byte that is zero: no carry crosses a byte.
    let tops = !(((word & LOW) + LOW) | word | LOW);
    // Multiplication by powers of two moves each top bit into the top byte, in order.
    u16::from((tops >> 7).wrapping_mul(0x0102_0408_1020_4080).to_be_bytes()[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::{Rng, rounds};

    #[test]
    fn every_match_agrees_with_the_reference() {
        let mut rng = Rng::new(1);
        for round in (0..3000_u32).take(rounds(3000)) {
            let few = round % 3 == 0; // Few different bytes: many matches.
            let mut byte = || rng.u64().to_le_bytes()[2] & if few { 0x81 } else { 0xFF };
            let bucket = Bucket {
                tags: std::array::from_fn(|_| byte()),
                overflow: u16::from_le_bytes([byte(), byte()]),
                spare: u16::from_le_bytes([byte(), byte()]),
                offsets: [round; PLACES],
            };
            for tag in [0, 1, 0x7F, 0x80, 0x81, 0xFF, bucket.tags[3], bucket.tags[11], byte()] {
                let want = bucket.match_tag_reference(tag);
                assert_eq!(bucket.match_tag(tag), want, "{bucket:?} {tag}");
                assert_eq!(bucket.match_tag_words(tag), want, "{bucket:?} {tag} in words");
            }
            assert_eq!(bucket.match_empty(), bucket.match_tag_reference(EMPTY));
        }
    }

    #[test]
    fn buckets_start_empty() {
        let mut buckets = Buckets::new(rounds(50_000));
        let last = buckets.len() - 1;
        assert!(buckets.iter().all(|bucket| bucket.match_empty() == 0x0FFF));
        buckets[last].tags[11] = 5;
        buckets[last].overflow = 0x0505;
        assert_eq!(buckets[last].match_tag(5), 1 << 11, "the overflow count is no tag");
        assert_eq!(buckets[last - 1], Bucket::default());
    }
}
