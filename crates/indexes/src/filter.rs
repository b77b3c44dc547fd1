//! Basic block filters: Golomb-coded sets of the scripts that a block creates and spends.
//!
//! ```text
//! CompactSize N | N differences of rising numbers, each: quotient by 2^19 in unary, 0, remainder in 19 bits; zero bits
//! number of a script: SipHash-2-4 of it, keyed by the block's hash, scaled to N * 784931
//! filter header: double SHA-256 of (double SHA-256 of the filter | header of the block before)
//! ```
//!
//! Elements: the scripts of all outputs that are not empty and do not begin with OP_RETURN, and of all spent coins that
//! are not empty; each once. Source: BIP-0158; Bitcoin Core b88bffe, blockfilter.cpp.

use crate::siphash::{SipKey, siphash24, siphash24_many};
use primitives::encode::{DecodeError, Reader, put_compact_size};
use primitives::{BlockHash, Hash256};

/// Bits of a remainder.
const P: u32 = 19;
/// The false positive rate is one in this number.
const M: u64 = 784_931;
const OP_RETURN: u8 = 0x6a;

/// Whether the script of an output is an element.
#[inline]
pub fn is_element_of_output(script: &[u8]) -> bool {
    !script.is_empty() && script[0] != OP_RETURN
}

/// The SipHash key of a block's scripts.
pub fn key(block: &BlockHash) -> SipKey {
    SipKey::from_bytes(block.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}

/// The filter of a block with these scripts, at most `count` of them, in any order, duplicates allowed.
pub fn encode<'a>(block: &BlockHash, count: usize, scripts: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let scripts: Vec<&[u8]> = scripts.collect();
    assert!(scripts.len() <= count, "at most as many scripts as were announced");
    let mut hashes = vec![0; scripts.len()];
    siphash24_many(key(block), &scripts, &mut hashes);
    let hashes = Distinct::new(scripts.len()).in_order(&scripts, &hashes);
    let range = hashes.len() as u64 * M;
    let mut out = Vec::with_capacity(hashes.len() * 3 + 8);
    put_compact_size(&mut out, hashes.len() as u64);
    let mut bits = BitWriter { out, held: 0, count: 0 };
    let mut last = 0;
    for hash in hashes {
        let value = scaled(hash, range);
        bits.put_golomb(value - last);
        last = value;
    }
    bits.end()
}

/// `hash` of 64 bits scaled to a number below `range`, with the same order. Source: Core's `FastRange64`.
#[inline]
fn scaled(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// Removes duplicate scripts by their hashes: a table with linear probing, indexed by the highest bits of the hash.
/// Many blocks spend and pay to one script many times. The key is the block's hash, so scripts cannot be chosen to
/// collide: the hash depends on them.
struct Distinct {
    /// Number of the script, from 1; 0 in a free place. After the last index there are additional places for all
    /// scripts, so that probing continues past the end and never wraps.
    places: Vec<u32>,
    shift: u32,
}

impl Distinct {
    fn new(count: usize) -> Distinct {
        let bits = (2 * count).next_power_of_two().ilog2().max(1);
        Distinct { places: vec![0; (1 << bits) + count], shift: u64::BITS - bits }
    }

    /// The hashes of the distinct scripts, in rising order. Two scripts with the same hash are two elements: that
    /// practically never happens, but must be right.
    fn in_order(mut self, scripts: &[&[u8]], hashes: &[u64]) -> Vec<u64> {
        let mut count = 0;
        'scripts: for (number, (script, hash)) in scripts.iter().zip(hashes).enumerate() {
            let mut at = (hash >> self.shift) as usize;
            while self.places[at] != 0 {
                let known = self.places[at] as usize - 1;
                if hashes[known] == *hash && scripts[known] == *script {
                    continue 'scripts;
                }
                at += 1;
            }
            self.places[at] = number as u32 + 1;
            count += 1;
        }
        // Places are in the order of the highest bits, so only neighbours need to be exchanged.
        let mut sorted = Vec::with_capacity(count);
        sorted.extend(self.places.iter().filter(|place| **place != 0).map(|place| hashes[*place as usize - 1]));
        sort_neighbours(&mut sorted);
        sorted
    }
}

/// Sorts numbers that are nearly in order.
fn sort_neighbours(numbers: &mut [u64]) {
    // Maximum number of exchanges for each number; if more are needed the numbers are not nearly in order.
    const EXCHANGES_MAX: usize = 16;
    let mut left = numbers.len() * EXCHANGES_MAX;
    for next in 1..numbers.len() {
        let number = numbers[next];
        let mut at = next;
        while at > 0 && numbers[at - 1] > number {
            numbers[at] = numbers[at - 1];
            at -= 1;
        }
        numbers[at] = number;
        left = left.saturating_sub(next - at);
        if left == 0 {
            return numbers.sort_unstable();
        }
    }
}

/// Bits into bytes, the highest first.
struct BitWriter {
    out: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of `bits`, at most 32; the others must be zero.
    #[inline]
    fn put(&mut self, bits: u64, count: u32) {
        // Fewer than 32 bits are buffered before, fewer than 64 with these.
        self.held = self.held << count | bits;
        self.count += count;
        if self.count >= 32 {
            self.count -= 32;
            self.out.extend_from_slice(&((self.held >> self.count) as u32).to_be_bytes());
        }
    }

    #[inline]
    fn put_golomb(&mut self, value: u64) {
        let mut quotient = value >> P;
        let remainder = value & ((1 << P) - 1);
        while quotient > 32 - u64::from(P + 1) {
            let ones = quotient.min(32);
            self.put((1 << ones) - 1, ones as u32);
            quotient -= ones;
        }
        // The ones, the 0 after them, and the remainder.
        self.put(((1 << quotient) - 1) << (P + 1) | remainder, quotient as u32 + P + 1);
    }

    fn end(mut self) -> Vec<u8> {
        let bytes = self.count.div_ceil(8);
        self.held <<= 8 * bytes - self.count;
        self.out.extend_from_slice(&self.held.to_be_bytes()[8 - bytes as usize..]);
        self.out
    }
}

/// The numbers in a filter, in order.
///
/// # Errors
///
/// Bytes that are not a filter: truncated, with trailing bytes, or with more elements than fit in the bytes.
pub fn decode(filter: &[u8]) -> Result<Vec<u64>, DecodeError> {
    let mut reader = Reader::new(filter);
    let count = reader.compact_size()?;
    let start = reader.offset();
    let bytes = &filter[start..];
    let cut = DecodeError::Value { offset: start, what: "the elements of a filter have 20 bits and more each" };
    if count > bytes.len() * 8 / (P as usize + 1) {
        return Err(cut);
    }
    let bit = |at: usize| Some(bytes.get(at / 8)? >> (7 - at % 8) & 1);
    let mut values = Vec::with_capacity(count);
    let mut last = 0u64;
    let mut at = 0;
    for _ in 0..count {
        let mut delta = 0u64;
        while bit(at).ok_or(cut)? == 1 {
            delta += 1 << P;
            at += 1;
        }
        at += 1;
        for shift in (0..P).rev() {
            delta |= u64::from(bit(at).ok_or(cut)?) << shift;
            at += 1;
        }
        last = last.saturating_add(delta);
        values.push(last);
    }
    if at.div_ceil(8) != bytes.len() {
        return Err(DecodeError::Value { offset: start, what: "no bytes follow a filter" });
    }
    Ok(values)
}

/// Whether the filter of a block may contain one of these scripts; no false negatives.
///
/// # Errors
///
/// Those of [`decode`].
pub fn matches_any(filter: &[u8], block: &BlockHash, scripts: &[&[u8]]) -> Result<bool, DecodeError> {
    let values = decode(filter)?;
    let range = values.len() as u64 * M;
    Ok(scripts.iter().any(|script| values.binary_search(&scaled(siphash24(key(block), script), range)).is_ok()))
}

/// Double SHA-256 of a filter.
pub fn hash(filter: &[u8]) -> Hash256 {
    Hash256(kernels::sha256::sha256d(filter))
}

/// The filter header of a block whose filter has this hash; `before` is the previous block's filter header, zeros for
/// genesis.
pub fn header(hash: &Hash256, before: &Hash256) -> Hash256 {
    let mut pair = [0; 64];
    pair[..32].copy_from_slice(&hash.0);
    pair[32..].copy_from_slice(&before.0);
    Hash256(kernels::sha256::sha256d(&pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    /// The format bit by bit, as the BIP writes it down.
    fn plain(block: &BlockHash, scripts: &[Vec<u8>]) -> Vec<u8> {
        let set: std::collections::BTreeSet<&Vec<u8>> = scripts.iter().collect();
        let range = set.len() as u128 * 784_931;
        let mut values: Vec<u64> =
            set.iter().map(|script| ((u128::from(siphash24(key(block), script)) * range) >> 64) as u64).collect();
        values.sort_unstable();
        let (mut bits, mut last) = (String::new(), 0);
        for value in values {
            let delta = value - last;
            bits += &"1".repeat((delta >> 19) as usize);
            bits += "0";
            bits += &format!("{:019b}", delta & 0x7ffff);
            last = value;
        }
        while bits.len() % 8 > 0 {
            bits += "0";
        }
        let mut out = Vec::new();
        put_compact_size(&mut out, set.len() as u64);
        out.extend(bits.as_bytes().chunks(8).map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | (bit - b'0'))));
        out
    }

    #[test]
    fn encode_is_the_plain_encoding_of_any_scripts() {
        let mut rng = Rng::new(158);
        for round in 0..200 {
            let block = BlockHash::from_bytes(rng.array());
            let count = if round < 20 { round } else { rng.below(400) };
            let scripts: Vec<Vec<u8>> = (0..count).map(|_| vec![rng.byte() / 2; 1 + rng.below(3)]).collect();
            let filter = encode(&block, scripts.len(), scripts.iter().map(Vec::as_slice));
            assert_eq!(filter, plain(&block, &scripts), "{count} scripts");
            let values = decode(&filter).unwrap();
            assert!(values.is_sorted());
            for script in &scripts {
                assert!(matches_any(&filter, &block, &[script]).unwrap());
            }
            for cut in 0..filter.len() {
                assert!(decode(&filter[..cut]).is_err(), "cut at {cut}");
            }
            assert!(decode(&[&filter[..], &[0]].concat()).is_err());
        }
    }

    /// Hashes that collide, in all bits or in the highest: each script that differs is one element.
    #[test]
    fn scripts_with_one_hash_are_all_elements() {
        let mut rng = Rng::new(64);
        for round in 0..300 {
            let scripts: Vec<Vec<u8>> = (0..rng.below(60)).map(|_| vec![rng.byte() % 4; 1 + rng.below(6)]).collect();
            let weak = |script: &[u8]| match round % 3 {
                0 => u64::MAX,
                1 => script.len() as u64,
                _ => (u64::from(script[0]) << 62) | (script.len() as u64 % 2),
            };
            let refs: Vec<&[u8]> = scripts.iter().map(Vec::as_slice).collect();
            let hashes: Vec<u64> = refs.iter().map(|script| weak(script)).collect();
            let got = Distinct::new(refs.len()).in_order(&refs, &hashes);
            let set: std::collections::BTreeSet<&Vec<u8>> = scripts.iter().collect();
            let mut want: Vec<u64> = set.iter().map(|script| weak(script)).collect();
            want.sort_unstable();
            assert_eq!(got, want, "round {round}");
        }
    }

    #[test]
    fn neighbours_are_sorted_and_so_is_what_is_in_no_order() {
        let mut rng = Rng::new(31);
        for count in [0, 1, 2, 50, 3000] {
            for far in [1, 3, 40, count.max(1)] {
                let mut numbers: Vec<u64> = (0..count as u64).map(|at| at + rng.below(far) as u64).collect();
                let mut want = numbers.clone();
                want.sort_unstable();
                sort_neighbours(&mut numbers);
                assert_eq!(numbers, want, "{count} numbers, {far} off");
            }
        }
        let mut falling: Vec<u64> = (0..5000).rev().collect();
        sort_neighbours(&mut falling);
        assert!(falling.is_sorted());
    }

    /// Every quotient around the words that are written at a time, from every bit of a word.
    #[test]
    fn quotient_of_many_ones_is_written_whole() {
        for quotient in (0..70).chain([95, 96, 97, 300]) {
            for before in 0..9 {
                let mut bits = BitWriter { out: Vec::new(), held: 0, count: 0 };
                let value = quotient << 19 | 5;
                let mut want: Vec<u64> = (0..before).map(|at| at << 19 | at).collect();
                want.push(value);
                want.iter().for_each(|value| bits.put_golomb(*value));
                let sums = want.iter().scan(0, |sum, value| {
                    *sum += value;
                    Some(*sum)
                });
                let sums: Vec<u64> = sums.collect();
                assert_eq!(decode(&[&[want.len() as u8], &bits.end()[..]].concat()), Ok(sums), "{quotient}, {before}");
            }
        }
    }

    #[test]
    fn hostile_filters_are_refused_before_memory_is_taken() {
        for (row, bytes) in [
            ("empty", &[][..]),
            ("a count beyond the bytes", &[0xfe, 0xff, 0xff, 0xff, 1, 0, 0]),
            ("ones to the end", &[1, 0xff, 0xff, 0xff, 0xff]),
        ] {
            assert!(decode(bytes).is_err(), "{row}");
        }
        assert_eq!(decode(&[0]), Ok(Vec::new()));
    }
}
