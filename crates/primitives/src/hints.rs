//! Hints of SwiftSync (BIP 456): which outputs of each block are unspent at the end.
//!
//! ```text
//! 55 54 58 4f | version u8 = 0 | height u32 LE | for each height from 1 on one list
//! list:  CompactSize N | if N is not 0: CompactSize M, the greatest index | low bits | high bits
//! ```
//!
//! An index counts the outputs of a block in order, without the provably unspendable ones. Encoding: Elias-Fano. The
//! lowest `l` bits of each index are stored verbatim, `l = floor(log2((M + 1) / N))`. The rest `r` of the `j`th index
//! is a one bit at place `r + j` of the high bits, whose number is `N + floor(M / 2^l)`. Both parts are rounded up to
//! bytes, the lowest bit of a byte first, as crate `hintsfile` 0.2.1 writes it; the vectors in the BIP's directory have
//! the highest first. A list is accepted only in the form that [`put_list`] writes. Absent on purpose: the choice of
//! outputs, and files.

use crate::encode::{DecodeError, Reader, put_compact_size};
use crate::height::Height;

/// First bytes of the file.
pub const MAGIC: [u8; 4] = *b"UTXO";
/// The version.
pub const VERSION: u8 = 0;
/// Bytes before the first list.
pub const HEADER_BYTES: usize = 9;
/// Greater heights are refused: three hundred years of blocks.
pub const HEIGHT_MAX: u32 = 1 << 24;
/// More outputs than fit in a block: each takes 9 of its 1,000,000 bytes without witnesses.
pub const OUTPUTS_MAX: usize = 1_000_000 / 9;
/// More bytes than a list can have: two CompactSizes, then `N * l + N + M / 2^l` bits, rounded up twice. `N` is at most
/// `(M + 1) / 2^l`, and `(l + 1) / 2^l` at most 1, so these are at most three bits for each output of a block.
pub const LIST_BYTES_MAX: usize = 64 << 10;

const _: () = assert!(2 * 5 + 3 * OUTPUTS_MAX.div_ceil(8) + 2 < LIST_BYTES_MAX);

/// The header of a file for the blocks up to `height`.
pub fn header(height: Height) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    out[..4].copy_from_slice(&MAGIC);
    out[4] = VERSION;
    out[5..].copy_from_slice(&height.to_u32().to_le_bytes());
    out
}

/// Reads the header; returns the height.
///
/// # Errors
///
/// Other bytes, or too few.
pub fn read_header(reader: &mut Reader<'_>) -> Result<Height, DecodeError> {
    let offset = reader.offset();
    if *reader.array::<4>()? != MAGIC || reader.u8()? != VERSION {
        return Err(DecodeError::Value { offset, what: "hints begin with UTXO and version 0" });
    }
    let offset = reader.offset();
    match reader.u32()? {
        height if height <= HEIGHT_MAX => Ok(Height::new(height)),
        _ => Err(DecodeError::Value { offset, what: "no chain is as high as the hints say" }),
    }
}

/// Number of bits of each index that are stored verbatim.
fn low_bits(count: usize, greatest: usize) -> usize {
    ((greatest + 1) / count).ilog2() as usize
}

/// Appends the list of one block: the indices of its unspent outputs, in rising order, below [`OUTPUTS_MAX`].
///
/// # Panics
///
/// If they do not rise.
pub fn put_list(out: &mut Vec<u8>, indices: &[u32]) {
    put_compact_size(out, indices.len() as u64);
    let Some(&greatest) = indices.last() else { return };
    assert!(indices.windows(2).all(|two| two[0] < two[1]), "indices rise");
    put_compact_size(out, greatest.into());
    let low = low_bits(indices.len(), greatest as usize);
    let mut bits = Bits::new(indices.len() * low);
    for (place, index) in indices.iter().enumerate() {
        (0..low).filter(|bit| index >> bit & 1 == 1).for_each(|bit| bits.set(place * low + bit));
    }
    out.extend_from_slice(&bits.0);
    let mut bits = Bits::new(indices.len() + (greatest >> low) as usize);
    for (place, index) in indices.iter().enumerate() {
        bits.set((index >> low) as usize + place);
    }
    out.extend_from_slice(&bits.0);
}

/// A parsed list with indices.
struct List<'a> {
    count: usize,
    greatest: usize,
    /// Bits of each index in `low_part`.
    low: usize,
    low_part: &'a [u8],
    /// Bits in `high_part`.
    high_bits: usize,
    high_part: &'a [u8],
}

impl<'a> List<'a> {
    /// `None` for a list without indices.
    fn read(reader: &mut Reader<'a>) -> Result<Option<List<'a>>, DecodeError> {
        let offset = reader.offset();
        let count = reader.compact_size()?;
        if count == 0 {
            return Ok(None);
        }
        let greatest = reader.compact_size()?;
        if greatest >= OUTPUTS_MAX || count > greatest + 1 {
            let what = "a list of more outputs than a block can hold, or than come before its last";
            return Err(DecodeError::Value { offset, what });
        }
        let low = low_bits(count, greatest);
        let low_part = reader.take((count * low).div_ceil(8))?;
        let high_bits = count + (greatest >> low);
        let high_part = reader.take(high_bits.div_ceil(8))?;
        Ok(Some(List { count, greatest, low, low_part, high_bits, high_part }))
    }
}

/// Skips the list of one block without checking its bits.
///
/// # Errors
///
/// Truncated data, or more outputs than fit in a block.
pub fn skip_list(reader: &mut Reader<'_>) -> Result<(), DecodeError> {
    List::read(reader).map(drop)
}

/// Reads the list of one block.
///
/// # Errors
///
/// Truncated data, more outputs than fit in a block, or bits that are not a list.
pub fn read_list(reader: &mut Reader<'_>) -> Result<Vec<u32>, DecodeError> {
    let offset = reader.offset();
    let bad = |what| DecodeError::Value { offset, what };
    let Some(List { count, greatest, low, low_part, high_bits, high_part }) = List::read(reader)? else {
        return Ok(Vec::new());
    };
    let bit = |bytes: &[u8], place: usize| bytes[place / 8] >> (place % 8) & 1;
    let mut indices = Vec::with_capacity(count);
    for (at, &byte) in high_part.iter().enumerate() {
        let mut left = byte;
        while left != 0 {
            let place = at * 8 + left.trailing_zeros() as usize;
            left &= left - 1;
            let number = indices.len();
            if number == count || place >= high_bits {
                return Err(bad("a list with more indices than it counts"));
            }
            let rest = (0..low).fold(0, |rest, at| rest | usize::from(bit(low_part, number * low + at)) << at);
            let index = ((place - number) << low | rest) as u32;
            if indices.last().is_some_and(|last| *last >= index) {
                return Err(bad("a list whose indices do not rise"));
            }
            indices.push(index);
        }
    }
    let is_padded = (count * low..low_part.len() * 8).all(|place| bit(low_part, place) == 0);
    if !is_padded || indices.len() != count || indices.last() != Some(&(greatest as u32)) {
        return Err(bad("a list with another last index than it says, or bits behind its end"));
    }
    Ok(indices)
}

/// Bits, the lowest of a byte first.
struct Bits(Vec<u8>);

impl Bits {
    fn new(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(8)])
    }

    fn set(&mut self, place: usize) {
        self.0[place / 8] |= 1 << (place % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hintsfile::{EliasFano, Hintsfile};

    /// What crate `hintsfile` writes of a list.
    fn theirs(indices: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        EliasFano::compress(indices).write(&mut out).unwrap();
        out
    }

    fn rows() -> Vec<Vec<u32>> {
        let mut rng = testkit::Rng::new(456);
        let mut rows = vec![
            vec![],
            vec![0],
            vec![1],
            vec![65_000],
            vec![252],
            vec![253],
            (0..300).collect(),
            (0..OUTPUTS_MAX as u32).collect(),
            (0..OUTPUTS_MAX as u32).step_by(2).collect(),
            vec![0, OUTPUTS_MAX as u32 - 1],
        ];
        for _ in 0..300 {
            let (end, one_in) = (1 + rng.below(3000) as u32, 1 + rng.below(40));
            rows.push((0..end).filter(|_| rng.one_in(one_in)).collect());
        }
        rows
    }

    #[test]
    fn lists_are_those_of_crate_hintsfile() {
        let (mut file, rows) = (header(Height::new(rows().len() as u32)).to_vec(), rows());
        for indices in &rows {
            let mut out = Vec::new();
            put_list(&mut out, indices);
            assert_eq!(out, theirs(indices), "{} indices", indices.len());
            assert!(out.len() < LIST_BYTES_MAX);
            let mut reader = Reader::new(&out);
            assert_eq!(&read_list(&mut reader).unwrap(), indices);
            reader.finish().unwrap();
            file.extend(out);
        }
        let read = Hintsfile::from_reader(&mut &file[..]).unwrap();
        assert_eq!(read.stop_height() as usize, rows.len());
        for (height, indices) in (1..).zip(&rows) {
            assert_eq!(read.indices_at_height(height).as_ref(), Some(indices));
        }
        let mut reader = Reader::new(&file);
        assert_eq!(read_header(&mut reader).unwrap().to_usize(), rows.len());
        assert!(rows.iter().all(|indices| read_list(&mut reader).as_ref() == Ok(indices)));
    }

    /// Two indices of five, bit by bit: M = 4, N = 2, l = floor(log2(5 / 2)) = 1.
    #[test]
    fn a_list_written_out_by_hand() {
        let mut out = Vec::new();
        put_list(&mut out, &[1, 4]);
        // Low bits 1, 0; high parts 0 and 2 at places 0 and 3 of 4.
        assert_eq!(out, [2, 4, 0b01, 0b1001]);
    }

    #[test]
    fn other_bytes_are_refused() {
        for (row, bytes, want) in [
            ("cut in the count", &[0xfd, 1][..], "cut short"),
            ("cut before the greatest", &[1], "cut short"),
            ("cut in the bits", &[2, 4, 1], "cut short"),
            ("a count in more bytes than needed", &[0xfd, 2, 0, 4, 1, 9], "longer than needed"),
            ("more than the greatest allows", &[6, 4, 0, 0], "than come before its last"),
            ("a greatest beyond any block", &[1, 0xfe, 8, 0xb2, 1, 0, 0, 0], "than a block can hold"),
            ("a bit too many", &[2, 4, 0b01, 0b1011], "do not rise"),
            ("a bit behind the end", &[2, 4, 0b01, 0b1_0001], "more indices than it counts"),
            ("a bit too few", &[2, 4, 0b01, 0b1000], "another last index"),
            ("another greatest", &[2, 4, 0b01, 0b0101], "another last index"),
            ("a bit behind the low ones", &[2, 4, 0b101, 0b1001], "bits behind its end"),
            ("twice the same", &[2, 4, 0b10, 0b0011], "another last index"),
            ("falling", &[2, 4, 0b01, 0b0011], "do not rise"),
        ] {
            let why = read_list(&mut Reader::new(bytes)).unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        for (row, bytes, want) in [
            ("another magic", b"UTXp\0\0\0\0\0", "begin with UTXO"),
            ("another version", b"UTXO\x01\0\0\0\0", "begin with UTXO"),
            ("a height beyond heights", b"UTXO\0\xff\xff\xff\xff", "no chain"),
        ] {
            let why = read_header(&mut Reader::new(bytes)).unwrap_err().to_string();
            assert!(why.contains(want), "{row}: {why}");
        }
        assert!(read_header(&mut Reader::new(b"UTXO\0\0\0\0")).is_err(), "cut");
    }
}
