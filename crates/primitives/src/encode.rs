//! Core's two variable-length integers and a reader over borrowed bytes.
//!
//! CompactSize: one byte below 253, otherwise a marker and 2, 4 or 8 bytes little endian. Used for counts and lengths
//! in P2P messages and blocks. VARINT: base 128, most significant digit first, with one subtracted from every digit but
//! the last. Used in undo data, coins and the block index.
//!
//! LevelDB's varint is a third encoding, in crate `leveldb`.

use std::fmt;
use sys::spill::Spill;

/// Core's limit for every CompactSize that is a count or length (32 MiB). Source: Bitcoin Core b88bffe, `MAX_SIZE` in
/// serialize.h.
pub const COMPACT_SIZE_MAX: u64 = 0x0200_0000;

/// Why bytes do not decode, and at which offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The bytes end inside an item.
    Cut {
        /// Offset of the item, in bytes.
        offset: usize,
        /// Bytes that the item needs.
        want: usize,
        /// Available bytes.
        have: usize,
    },
    /// A CompactSize in more bytes than needed. Core's text: "non-canonical ReadCompactSize()".
    NonMinimal {
        /// Offset of its first byte.
        offset: usize,
    },
    /// A CompactSize above [`COMPACT_SIZE_MAX`]. Core's text: "ReadCompactSize(): size too large".
    TooLarge {
        /// Offset of its first byte.
        offset: usize,
        /// Its value.
        value: u64,
    },
    /// A VARINT that does not fit in its type.
    VarintOverflow {
        /// Offset of its first byte.
        offset: usize,
    },
    /// A transaction serialized with witness whose witnesses are all empty. Core's text: "Superfluous witness record".
    SuperfluousWitness {
        /// Offset of the transaction.
        offset: usize,
    },
    /// A transaction with a flag other than 1. Core's text: "Unknown transaction optional data".
    UnknownFlag {
        /// Offset of the transaction.
        offset: usize,
        /// The flag.
        flag: u8,
    },
    /// Trailing bytes.
    Trailing {
        /// Offset of the first of them.
        offset: usize,
        /// Their number.
        bytes: usize,
    },
    /// A value that is invalid for its field.
    Value {
        /// Offset of the field.
        offset: usize,
        /// The field, and its valid values.
        what: &'static str,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DecodeError::Cut { offset, want, have } => {
                write!(f, "the item at byte {offset} needs {want} bytes, {have} are there: cut short?")
            }
            DecodeError::NonMinimal { offset } => write!(f, "the CompactSize at byte {offset} is longer than needed"),
            DecodeError::TooLarge { offset, value } => {
                write!(f, "the CompactSize at byte {offset} says {value}, at most {COMPACT_SIZE_MAX} is allowed")
            }
            DecodeError::VarintOverflow { offset } => write!(f, "the VARINT at byte {offset} does not fit its type"),
            DecodeError::SuperfluousWitness { offset } => {
                write!(f, "the transaction at byte {offset} has the witness form and no witness")
            }
            DecodeError::UnknownFlag { offset, flag } => {
                write!(f, "the transaction at byte {offset} has flag {flag}, only 0 and 1 are known")
            }
            DecodeError::Trailing { offset, bytes } => write!(f, "{bytes} bytes follow the end at byte {offset}"),
            DecodeError::Value { offset, what } => write!(f, "byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A position in borrowed bytes that only moves forward.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    /// Starts at `offset`, which may be at most the length.
    pub fn at(bytes: &'a [u8], offset: usize) -> Reader<'a> {
        Reader { bytes, offset: offset.min(bytes.len()) }
    }

    /// Offset of the next byte.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The bytes read since the offset `start`.
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.offset]
    }

    /// Number of remaining bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// Takes `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some(taken) = self.bytes.get(self.offset..).and_then(|rest| rest.get(..count)) else {
            return Err(DecodeError::Cut { offset: self.offset, want: count, have: self.remaining() });
        };
        self.offset += count;
        Ok(taken)
    }

    /// Takes `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let Some(taken) = self.bytes.get(self.offset..).and_then(|rest| rest.first_chunk::<N>()) else {
            return Err(DecodeError::Cut { offset: self.offset, want: N, have: self.remaining() });
        };
        self.offset += N;
        Ok(taken)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(*self.array()?))
    }

    /// Four bytes, little endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(*self.array()?))
    }

    /// Eight bytes, little endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(*self.array()?))
    }

    /// A CompactSize: minimal, and at most [`COMPACT_SIZE_MAX`].
    ///
    /// Source: Bitcoin Core b88bffe, `ReadCompactSize`.
    #[inline]
    pub fn compact_size(&mut self) -> Result<usize, DecodeError> {
        match self.u8()? {
            small @ 0..=252 => Ok(usize::from(small)),
            marker => self.compact_size_long(marker),
        }
    }

    /// The forms of more than one byte: rare, so they are kept apart from the common form.
    fn compact_size_long(&mut self, marker: u8) -> Result<usize, DecodeError> {
        let offset = self.offset - 1;
        let (value, least) = match marker {
            253 => (u64::from(self.u16()?), 253),
            254 => (u64::from(self.u32()?), 0x1_0000),
            _ => (self.u64()?, 0x1_0000_0000),
        };
        if value < least {
            return Err(DecodeError::NonMinimal { offset });
        }
        if value > COMPACT_SIZE_MAX {
            return Err(DecodeError::TooLarge { offset, value });
        }
        Ok(value as usize)
    }

    /// A VARINT of at most 64 bits. Source: Bitcoin Core b88bffe, `ReadVarInt`.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let offset = self.offset;
        let mut n: u64 = 0;
        loop {
            let byte = self.u8()?;
            if n > u64::MAX >> 7 {
                return Err(DecodeError::VarintOverflow { offset });
            }
            n = n << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(n);
            }
            n = n.checked_add(1).ok_or(DecodeError::VarintOverflow { offset })?;
        }
    }

    /// A VARINT of at most 32 bits.
    #[inline]
    pub fn varint_u32(&mut self) -> Result<u32, DecodeError> {
        let offset = self.offset;
        u32::try_from(self.varint()?).map_err(|_| DecodeError::VarintOverflow { offset })
    }

    /// Fails if bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { offset: self.offset, bytes }),
        }
    }
}

/// Bytes that [`put_compact_size`] writes for `n`.
pub const fn compact_size_bytes(n: u64) -> usize {
    match n {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

/// A destination for appended bytes: a vector, or a buffer that spills to a file.
pub trait Append {
    /// Appends a byte.
    fn push(&mut self, byte: u8);

    /// Appends bytes.
    fn extend_from_slice(&mut self, bytes: &[u8]);
}

impl Append for Vec<u8> {
    #[inline]
    fn push(&mut self, byte: u8) {
        Vec::push(self, byte);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Vec::extend_from_slice(self, bytes);
    }
}

impl<const IN_MEMORY: usize> Append for Spill<IN_MEMORY> {
    #[inline]
    fn push(&mut self, byte: u8) {
        Spill::extend_from_slice(self, &[byte]);
    }

    #[inline]
    fn extend_from_slice(&mut self, bytes: &[u8]) {
        Spill::extend_from_slice(self, bytes);
    }
}

/// Appends `n` as CompactSize.
#[inline]
pub fn put_compact_size(out: &mut impl Append, n: u64) {
    match n {
        0..=252 => out.push(n as u8),
        253..=0xffff => {
            out.push(253);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        0x1_0000..=0xffff_ffff => {
            out.push(254);
            out.extend_from_slice(&(n as u32).to_le_bytes());
        }
        _ => {
            out.push(255);
            out.extend_from_slice(&n.to_le_bytes());
        }
    }
}

/// Maximum bytes of a VARINT of 64 bits.
pub const VARINT_BYTES_MAX: usize = 10;

/// `n` as VARINT, at the end of a small buffer: the first unused index, and the buffer.
#[inline]
fn varint_digits(mut n: u64) -> (usize, [u8; VARINT_BYTES_MAX]) {
    let mut digits = [0; VARINT_BYTES_MAX];
    let mut at = VARINT_BYTES_MAX - 1;
    digits[at] = (n & 0x7f) as u8;
    while n > 0x7f {
        n = (n >> 7) - 1;
        at -= 1;
        digits[at] = (n & 0x7f) as u8 | 0x80;
    }
    (at, digits)
}

/// A lower VARINT has at most 8 digits of 7 bits.
const WORD_END: u64 = 1 << 56;

/// The digits of `n`, which must be less than [`WORD_END`], in one word, the first in its lowest byte; and their
/// number.
///
/// A form without a branch takes 1.6 times as long (`lab micro VARINT`).
#[inline]
fn varint_word(n: u64) -> (u64, usize) {
    let mut word = n & 0x7f;
    let mut rest = n;
    let mut digits = 1;
    while rest > 0x7f {
        rest = (rest >> 7) - 1;
        word = word << 8 | rest & 0x7f | 0x80;
        digits += 1;
    }
    (word, digits)
}

/// Appends `n` as VARINT. Source: Bitcoin Core b88bffe, `WriteVarInt`.
///
/// The digits are assembled in one word and stored with a fixed length; the excess is then removed. Copying the exact
/// number of bytes would be a function call each time (twice as slow; `lab micro VARINT`).
#[inline]
pub fn put_varint(out: &mut Vec<u8>, n: u64) {
    if n < 0x80 {
        out.push(n as u8);
    } else if n < WORD_END {
        let (word, digits) = varint_word(n);
        let end = out.len() + digits;
        out.extend_from_slice(&word.to_le_bytes());
        out.truncate(end);
    } else {
        put_varint_plain(out, n);
    }
}

/// [`put_varint`] digit by digit: the reference implementation.
#[doc(hidden)]
pub fn put_varint_plain(out: &mut Vec<u8>, n: u64) {
    let (at, digits) = varint_digits(n);
    digits[at..].iter().for_each(|&digit| out.push(digit));
}

/// Bytes that [`put_varint`] writes for `n`.
#[inline]
pub fn varint_bytes(n: u64) -> usize {
    match n {
        0..=0x7f => 1,
        0x80..WORD_END => varint_word(n).1,
        _ => VARINT_BYTES_MAX - varint_digits(n).0,
    }
}

/// Writes `n` as VARINT at the start of `out` and returns the bytes used; up to seven bytes after them may become zero.
///
/// # Panics
///
/// If `out` is shorter than that; [`VARINT_BYTES_MAX`] always suffices.
#[inline]
pub fn write_varint(out: &mut [u8], n: u64) -> usize {
    if n < 0x80 {
        out[0] = n as u8;
        return 1;
    }
    match out.first_chunk_mut() {
        Some(word_out) if n < WORD_END => {
            let (word, digits) = varint_word(n);
            *word_out = word.to_le_bytes();
            digits
        }
        _ => write_varint_plain(out, n),
    }
}

#[cold]
fn write_varint_plain(out: &mut [u8], n: u64) -> usize {
    let (at, digits) = varint_digits(n);
    let bytes = VARINT_BYTES_MAX - at;
    out[..bytes].copy_from_slice(&digits[at..]);
    bytes
}

/// Copies `from` to the start of `to`: if possible as two overlapping moves of fixed length, without a call.
///
/// # Panics
///
/// If `to` is shorter.
#[inline]
pub fn copy_short(to: &mut [u8], from: &[u8]) {
    let to = &mut to[..from.len()];
    if !two_moves::<16>(to, from) && !two_moves::<32>(to, from) {
        to.copy_from_slice(from);
    }
}

/// Copies with two moves of `N` bytes if the length permits; returns whether it did.
#[inline]
fn two_moves<const N: usize>(to: &mut [u8], from: &[u8]) -> bool {
    if from.len() > 2 * N {
        return false;
    }
    let (Some(first), Some(last)) = (from.first_chunk::<N>(), from.last_chunk::<N>()) else { return false };
    if let Some(to) = to.first_chunk_mut() {
        *to = *first;
    }
    if let Some(to) = to.last_chunk_mut() {
        *to = *last;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_copies_are_those_of_any_length() {
        let from: Vec<u8> = (1..=100).collect();
        for bytes in 0..=from.len() {
            let mut to = [0; 101];
            copy_short(&mut to, &from[..bytes]);
            assert_eq!(to[..bytes], from[..bytes], "{bytes} bytes");
            assert!(to[bytes..].iter().all(|&byte| byte == 0), "{bytes} bytes, and nothing behind them");
        }
    }

    /// Values and bytes from Core's comment in serialize.h, and 259900 from the block index.
    #[test]
    fn varint_matches_core() {
        for (n, hex) in [
            (0, "00"),
            (127, "7f"),
            (128, "8000"),
            (255, "807f"),
            (256, "8100"),
            (16383, "fe7f"),
            (16384, "ff00"),
            (16511, "ff7f"),
            (16512, "808000"),
            (65535, "82fe7f"),
            (1 << 32, "8efefeff00"),
            (259_900, "8eed3c"),
            (u64::MAX, "80fefefefefefefefe7f"),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, n);
            assert_eq!(crate::hex::encode(&out), hex, "{n}");
            assert_eq!(out.len(), varint_bytes(n), "{n}");
            let mut buffer = [0; VARINT_BYTES_MAX];
            assert_eq!(write_varint(&mut buffer, n), out.len());
            assert_eq!(Reader::new(&out).varint(), Ok(n), "{n}");
            assert!(Reader::new(&out[..out.len() - 1]).varint().is_err(), "{n} cut");
        }
        for hex in ["81fefefefefefefefe7f", "80fefefefefefefeff00", "ffffffffffffffffffffffffff00"] {
            let bytes = crate::hex::decode(hex).unwrap();
            assert!(matches!(Reader::new(&bytes).varint(), Err(DecodeError::VarintOverflow { offset: 0 })), "{hex}");
        }
        let too_big = [0x8e, 0xfe, 0xfe, 0xff, 0x00];
        assert!(Reader::new(&too_big).varint_u32().is_err());
    }

    /// The word against the digits: around every power of two, and at random of every length.
    #[test]
    fn varint_read_by_word_matches_plain_one() {
        let mut rng = testkit::Rng::new(3);
        let edges = (0..64).flat_map(|bit| (0..9).map(move |near| (1u64 << bit).wrapping_add(near).wrapping_sub(4)));
        let random: Vec<u64> = (0..6_400).map(|at| rng.u64() >> (at % 64)).collect();
        for n in edges.chain(random) {
            let (mut fast, mut plain) = (vec![9], vec![9]);
            put_varint(&mut fast, n);
            put_varint_plain(&mut plain, n);
            assert_eq!(fast, plain, "{n}");
        }
    }

    #[test]
    fn compact_size_must_be_minimal_and_bounded() {
        for n in [0, 1, 252, 253, 254, 0xffff, 0x1_0000, 0x0200_0000] {
            let mut out = Vec::new();
            put_compact_size(&mut out, n);
            assert_eq!(out.len(), compact_size_bytes(n));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.compact_size(), Ok(n as usize));
            assert_eq!(reader.finish(), Ok(()));
            for cut in 0..out.len() {
                assert!(
                    matches!(Reader::new(&out[..cut]).compact_size(), Err(DecodeError::Cut { .. })),
                    "{n} cut at {cut}"
                );
            }
        }
        for (name, hex, want) in [
            ("252 in three bytes", "fdfc00", DecodeError::NonMinimal { offset: 0 }),
            ("ffff in five", "feffff0000", DecodeError::NonMinimal { offset: 0 }),
            ("2^32-1 in nine", "ffffffffff00000000", DecodeError::NonMinimal { offset: 0 }),
            ("one above the bound", "fe01000002", DecodeError::TooLarge { offset: 0, value: 0x0200_0001 }),
            ("all ones", "ffffffffffffffffff", DecodeError::TooLarge { offset: 0, value: u64::MAX }),
        ] {
            let bytes = crate::hex::decode(hex).unwrap();
            assert_eq!(Reader::new(&bytes).compact_size(), Err(want), "{name}");
        }
    }
}
