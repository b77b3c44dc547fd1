//! `silentpaymentindex`: by block, the tweak of each transaction that may be a silent payment (BIP 352).
//!
//! ```text
//! row (see [`crate::heights`] for its keys): VARINT entries | entry ...
//! entry: VARINT transactions since the entry before | VARINT greatest taproot output, compressed | tweak 33
//! 'B' -> locator
//! ```
//!
//! A tweak is the input hash times the sum of public keys, compressed: BIP 352's public data of a transaction. An entry
//! gives the index of its transaction in the block; the id and outputs are in the block. Every block has a row, even an
//! empty one: a missing row is damage, and never means a block without payments.
//!
//! The format is ffwd's own. Core has no such index: bitcoin/bitcoin#28241 was closed. It had one value for each block
//! hash: the tweaks, each with a byte for the amount.
//!
//! Absent on purpose: scanning (keys of receivers), and which outputs are spent.

use crate::tweaks::{self, Group};
use inputs::Keys;
use primitives::Block;
use primitives::amount;
use primitives::coin::CoinRef;
use primitives::encode::{DecodeError, Reader, put_varint};

mod inputs;

/// Bytes of a tweak.
pub const TWEAK_BYTES: usize = 33;
/// Minimum bytes of an entry.
const ENTRY_BYTES_MIN: usize = 2 + TWEAK_BYTES;

/// A transaction that may be a silent payment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its index in the block; the coinbase has 0.
    pub tx_index: u32,
    /// The amount of its greatest taproot output, in satoshi.
    pub value_max: u64,
    /// Input hash times sum of public keys, compressed.
    pub tweak: [u8; TWEAK_BYTES],
}

/// The output key of a pay-to-taproot script; `None` for other scripts. Source: BIP 341.
#[inline]
pub fn taproot_key(script: &[u8]) -> Option<&[u8; 32]> {
    match script {
        [0x51, 0x20, key @ ..] => key.try_into().ok(),
        _ => None,
    }
}

/// The entries of a block whose inputs, without the coinbase's, spend these coins, in order.
///
/// MUST be those of BIP 352, "Scanning silent payment eligible transactions": transactions with a taproot output,
/// without an input that spends a witness program of version 2 or more, and whose inputs' keys do not sum to infinity.
///
/// # Panics
///
/// If the number of coins does not match the block.
pub fn entries(block: &Block<'_>, spent: &[CoinRef<'_>]) -> Vec<Entry> {
    let mut keys = Keys::default();
    let mut groups: Vec<Group> = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    for (index, tx) in block.transactions().enumerate().skip(1) {
        let taproot = tx.outputs().filter(|output| taproot_key(output.script()).is_some());
        let Some(value_max) = taproot.map(|output| output.value().0.cast_unsigned()).max() else { continue };
        let first = tx.first_input() - 1;
        let Some(outpoint) = keys.add(&tx, &spent[first..first + tx.input_count()]) else { continue };
        groups.push(Group { outpoint, keys: 0 });
        entries.push(Entry { tx_index: index as u32, value_max, tweak: [0; TWEAK_BYTES] });
    }
    let (keys, counts) = keys.finish(block.kernels());
    groups.iter_mut().zip(counts).for_each(|(group, count)| group.keys = count);
    let tweaks = tweaks::tweaks(block.kernels(), &keys, &groups);
    let with_tweak = |(entry, tweak): (Entry, Option<_>)| Some(Entry { tweak: tweak?, ..entry });
    entries.into_iter().zip(tweaks).filter_map(with_tweak).collect()
}

/// The row of a block.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + entries.len() * (ENTRY_BYTES_MIN + 4));
    put_varint(&mut out, entries.len() as u64);
    let mut last = 0;
    for entry in entries {
        put_varint(&mut out, u64::from(entry.tx_index - last));
        put_varint(&mut out, amount::compress(entry.value_max));
        out.extend_from_slice(&entry.tweak);
        last = entry.tx_index;
    }
    out
}

/// Decodes exactly one row.
///
/// # Errors
///
/// Malformed bytes.
pub fn decode(row: &[u8]) -> Result<Vec<Entry>, DecodeError> {
    let mut reader = Reader::new(row);
    let count = reader.varint()?;
    if count > (reader.remaining() / ENTRY_BYTES_MIN) as u64 {
        return Err(DecodeError::Value { offset: 0, what: "more entries than there are bytes for" });
    }
    let mut entries = Vec::with_capacity(count as usize);
    let mut last = 0u32;
    for _ in 0..count {
        let offset = reader.offset();
        let bad = |what| DecodeError::Value { offset, what };
        let more = reader.varint_u32()?;
        let tx_index = last.checked_add(more).filter(|_| more > 0);
        let tx_index = tx_index.ok_or_else(|| bad("transactions of a row go up from the first behind the coinbase"))?;
        let value_max = amount::decompress(reader.varint()?);
        let tweak = *reader.array()?;
        if !matches!(tweak[0], 2 | 3) {
            return Err(bad("a tweak is a compressed key"));
        }
        entries.push(Entry { tx_index, value_max, tweak });
        last = tx_index;
    }
    reader.finish()?;
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_and_cuts_and_flips_are_seen() {
        let entry = |tx_index, value_max, first| Entry { tx_index, value_max, tweak: [first; TWEAK_BYTES] };
        let entries = [entry(1, 546, 2), entry(2, 0, 3), entry(4000, 21_000_000 * 100_000_000, 2)];
        let row = encode(&entries);
        assert_eq!(decode(&row), Ok(entries.to_vec()));
        assert_eq!((encode(&[]), decode(&[0])), (vec![0], Ok(Vec::new())));
        (0..row.len()).for_each(|cut| assert!(decode(&row[..cut]).is_err(), "cut at {cut}"));
        assert!(decode(&[&row[..], &[0]].concat()).is_err());
        for (why, bytes) in [
            ("more entries than bytes", &[0xfe, 0xff, 0xff, 0x7f, 1][..]),
            ("an entry of the coinbase", &[&[1, 0, 0][..], &[2; 33]].concat()),
            ("a tweak that is no key", &[&[1, 1, 0][..], &[4; 33]].concat()),
            ("a place above 2^32", &[&[2, 1, 0][..], &[2; 33], &[0x8e, 0xfe, 0xfe, 0xfe, 0x7f, 0], &[2; 33]].concat()),
        ] {
            assert!(decode(bytes).is_err(), "{why}");
        }
    }
}
