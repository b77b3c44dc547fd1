//! LevelDB's small encodings: varints, fixed integers, internal keys, masked checksums.
//!
//! Internal key:  user key | tag u64 LE;  tag = sequence << 8 | kind
//! Order: user key ascending by bytes, then tag descending: of one key the newest comes first.
//!
//! Source: facts of LevelDB 1.22 as vendored by Bitcoin Core b88bffe (util/coding, db/dbformat).

/// Bytes that a tag adds to a user key.
pub(crate) const TAG_BYTES: usize = 8;
/// The kind of a record that holds a value.
pub(crate) const KIND_VALUE: u64 = 1;
/// The kind of a tombstone.
pub(crate) const KIND_DELETED: u64 = 0;
/// The greatest sequence number that a tag can hold.
pub(crate) const SEQUENCE_MAX: u64 = (1 << 56) - 1;

/// Appends `value` in groups of 7 bits, the least significant first.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// Appends a length and the bytes.
pub(crate) fn put_slice(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads values from the front of a slice. Every `None` means that the slice does not begin with such a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn fixed32(&mut self) -> Option<u32> {
        self.bytes(4).map(fixed32)
    }

    pub(crate) fn fixed64(&mut self) -> Option<u64> {
        self.bytes(8).map(fixed64)
    }

    /// A varint of at most 64 bits.
    pub(crate) fn varint64(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = u64::from(self.byte()?);
            let bits = byte & 0x7f;
            if (bits << shift) >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A varint of at most 32 bits.
    pub(crate) fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint64()?).ok()
    }

    /// A varint that is a length in memory.
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.varint32()?).ok()
    }

    pub(crate) fn slice(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        self.bytes(length)
    }
}

/// A little-endian u32 from exactly four bytes.
pub(crate) fn fixed32(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}

/// A little-endian u64 from exactly eight bytes.
pub(crate) fn fixed64(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

/// Splits an internal key; `None` if it is too short to have a tag.
pub(crate) fn split_key(internal: &[u8]) -> Option<(&[u8], u64)> {
    let (user, tag) = internal.split_last_chunk::<TAG_BYTES>()?;
    Some((user, u64::from_le_bytes(*tag)))
}

/// The user key of an internal key that was checked when it was read.
pub(crate) fn user_key(internal: &[u8]) -> &[u8] {
    split_key(internal).map_or(&[], |(user, _)| user)
}

/// The masked checksum, as it is stored: a checksum over bytes that contain checksums would be weak otherwise.
pub(crate) fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// How many bytes two slices share at their front.
pub(crate) fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let limit = a.len().min(b.len());
    let mut at = 0;
    while at + 8 <= limit {
        let x = fixed64(&a[at..at + 8]);
        let y = fixed64(&b[at..at + 8]);
        if x != y {
            return at + (x ^ y).trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while at < limit && a[at] == b[at] {
        at += 1;
    }
    at
}

/// Leading bytes of a user key that are compared as one number.
const PREFIX_BYTES: usize = 8;

/// The first bytes of a user key as a number, zero-padded. If the numbers of two keys differ, they are in the order of
/// the keys.
#[inline]
pub(crate) fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk::<PREFIX_BYTES>() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let mut first = [0; PREFIX_BYTES];
            first[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(first)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            assert_eq!(Reader(&bytes).varint64(), Some(value));
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).varint64(), None, "cut {value}");
            assert_eq!(Reader(&bytes).varint32(), u32::try_from(value).ok());
        }
        assert_eq!(Reader(&[0xff; 11]).varint64(), None, "no end");
        let too_wide = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(Reader(&too_wide).varint64(), None);
        assert_eq!(Reader(&[5, 1, 2]).slice(), None, "longer than there is");
    }

    #[test]
    fn shared_prefix_counts_bytes() {
        let long = b"0123456789abcdefghij";
        for shared in 0..long.len() {
            let mut other = *long;
            other[shared] ^= 1;
            assert_eq!(shared_prefix(long, &other), shared);
            assert_eq!(shared_prefix(long, &long[..shared]), shared);
        }
        assert_eq!(shared_prefix(long, long), long.len());
    }

    /// The CRC-32C of 32 zero bytes is RFC 3720's (B.4); the mask is LevelDB's definition.
    #[test]
    fn mask_matches_leveldbs_definition() {
        let crc = kernels::crc32c::crc32c(&[0; 32]);
        assert_eq!(crc, 0x8a91_36aa);
        assert_eq!(mask(crc), 0x0fd7_fffa);
    }
}
