//! Undo data: the coins that a block spent, which are needed to disconnect it.
//!
//! CompactSize transactions without the coinbase | for each: CompactSize inputs | for each input an entry
//! entry: VARINT code | 00 when the height is above 0 | compressed amount | compressed script
//!
//! An entry is a stored coin with one additional byte after its code. Source: Bitcoin Core b88bffe, undo.h.

use crate::block::Block;
use crate::coin::CoinRef;
use crate::encode::{Append, DecodeError, Reader, put_compact_size};

/// Appends the entry for a stored coin, whose bytes must be one.
///
/// # Errors
///
/// If `coin` does not start with a code.
#[inline]
pub fn put_entry(out: &mut impl Append, coin: &[u8]) -> Result<(), DecodeError> {
    let mut reader = Reader::new(coin);
    let code = reader.varint_u32()?;
    let (code_bytes, rest) = coin.split_at(reader.offset());
    out.extend_from_slice(code_bytes);
    if code >= 2 {
        out.push(0);
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// Appends a count: of transactions or of inputs.
#[inline]
pub fn put_count(out: &mut impl Append, count: usize) {
    put_compact_size(out, count as u64);
}

/// Undo data, read entry by entry.
#[derive(Clone, Debug)]
pub struct UndoReader<'a> {
    reader: Reader<'a>,
}

impl<'a> UndoReader<'a> {
    /// Starts at the count of transactions.
    pub fn new(payload: &'a [u8]) -> UndoReader<'a> {
        UndoReader { reader: Reader::new(payload) }
    }

    /// The next count: first of transactions, then of each transaction's inputs.
    pub fn count(&mut self) -> Result<usize, DecodeError> {
        self.reader.compact_size()
    }

    /// The next entry. In old undo data a height of 0 means "not the last spend of its transaction".
    pub fn entry(&mut self) -> Result<CoinRef<'a>, DecodeError> {
        let code = self.reader.varint_u32()?;
        if code >= 2 {
            self.reader.varint_u32()?; // Old files hold a transaction version here.
        }
        CoinRef::read_after_code(code, &mut self.reader)
    }

    /// Offset of the next item.
    pub fn offset(&self) -> usize {
        self.reader.offset()
    }

    /// Fails if bytes remain.
    pub fn finish(&self) -> Result<(), DecodeError> {
        self.reader.finish()
    }
}

/// The coins that a block spent, in the order of its inputs; `None` if the undo data does not match the block.
pub fn spent_coins<'a>(undo: &'a [u8], block: &Block<'_>) -> Option<Vec<CoinRef<'a>>> {
    let mut reader = UndoReader::new(undo);
    if reader.count().ok()? + 1 != block.transaction_count() {
        return None;
    }
    let mut coins = Vec::with_capacity(block.input_count());
    for tx in block.transactions().skip(1) {
        if reader.count().ok()? != tx.input_count() {
            return None;
        }
        for _ in 0..tx.input_count() {
            coins.push(reader.entry().ok()?);
        }
    }
    reader.finish().ok()?;
    Some(coins)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// Undo data of a block with one transaction that spends the coinbase of mainnet's block 1.
    #[test]
    fn undo_of_known_block_round_trips() {
        let coin = hex::literal::<35>("03320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52");
        let mut out = Vec::new();
        put_count(&mut out, 1);
        put_count(&mut out, 1);
        put_entry(&mut out, &coin).unwrap();
        let want = "01010300320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52";
        assert_eq!(hex::encode(&out), want);
        let mut reader = UndoReader::new(&out);
        assert_eq!((reader.count(), reader.count()), (Ok(1), Ok(1)));
        assert_eq!(reader.entry(), CoinRef::decode(&coin));
        assert_eq!(reader.finish(), Ok(()));
        for cut in 0..out.len() {
            let mut reader = UndoReader::new(&out[..cut]);
            let all = reader.count().and_then(|_| reader.count()).and_then(|_| reader.entry());
            assert!(all.is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn undo_entry_at_height_zero_has_no_version_byte() {
        let mut out = Vec::new();
        put_entry(&mut out, &[1, 0, 6]).unwrap();
        assert_eq!(out, [1, 0, 6]);
        put_entry(&mut out, &[2, 0, 6]).unwrap();
        assert_eq!(out[3..], [2, 0, 0, 6]);
    }
}
