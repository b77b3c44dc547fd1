//! Arbitrary bytes as a block, a transaction, a coin, undo data: the tables must agree with a plain reader.
//!
//! Not part of the interface. Checked: no panic, and no memory beyond what the bytes justify.

mod choices;
mod hints;
mod snapshot;

pub use hints::fuzz_hints;
pub use snapshot::fuzz_snapshot;

use crate::coin::{CoinRef, put_coin};
use crate::undo::UndoReader;
use crate::{Block, Tables, Txid, Wtxid};
use kernels::sha256::sha256d;

/// Counts and sizes that Core reads. Source: Bitcoin Core b88bffe, `MAX_SIZE`.
const MAX_SIZE: u64 = 0x0200_0000;

/// Passes `data` to every reader of blocks and coins, and compares with plain ones.
pub fn fuzz_block(data: &[u8]) {
    let mut tables = Tables::new();
    let plain = plain_block(data);
    match (tables.parse_block(data), &plain) {
        (Ok(block), Some(plain)) => compare(&block, plain),
        (Err(_), None) => {}
        (got, want) => panic!("{:?}, and the plain reader says {}", got.map(|_| ()), want.is_some()),
    }
    let plain = plain_transaction(&mut Plain(data));
    match (tables.parse_transaction(data), &plain) {
        (Ok(tx), Some(plain)) => {
            assert_eq!((tx.bytes().len(), tx.has_witness()), (plain.bytes, plain.has_witness));
            assert_eq!((tx.txid(), tx.wtxid()), (plain.txid, plain.wtxid));
        }
        (Err(_), None) => {}
        (got, want) => panic!("{:?}, and the plain reader says {}", got.map(|_| ()), want.is_some()),
    }
    // An amount out of range is decoded, as in Core, but its encoding is not unique.
    if let Ok(coin) = CoinRef::decode(data)
        && coin.value.in_range()
    {
        let mut again = Vec::new();
        put_coin(&mut again, coin.code(), coin.value, &coin.script.to_vec());
        let same = CoinRef::decode(&again).expect("what was written is read");
        assert_eq!((same.code(), same.value), (coin.code(), coin.value));
        assert_eq!(same.script.to_vec(), coin.script.to_vec());
    }
    let mut undo = UndoReader::new(data);
    while undo.count().is_ok() && undo.entry().is_ok() {}
    let _ = undo.finish();
}

/// A transaction as parsed by a plain reader.
struct PlainTransaction {
    bytes: usize,
    inputs: usize,
    outputs: usize,
    has_witness: bool,
    txid: Txid,
    wtxid: Wtxid,
}

struct PlainBlock {
    bytes: usize,
    transactions: Vec<PlainTransaction>,
}

fn compare(block: &Block<'_>, plain: &PlainBlock) {
    assert_eq!(block.bytes().len(), plain.bytes);
    assert_eq!(block.transaction_count(), plain.transactions.len());
    let (mut txids, mut wtxids) = (Vec::new(), Vec::new());
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    for (at, (tx, plain)) in block.transactions().zip(&plain.transactions).enumerate() {
        assert_eq!((tx.bytes().len(), tx.has_witness()), (plain.bytes, plain.has_witness));
        assert_eq!((tx.input_count(), tx.output_count()), (plain.inputs, plain.outputs));
        assert_eq!((txids[at], wtxids[at]), (plain.txid, plain.wtxid));
        assert_eq!(tx.txid_pieces().concat().len(), tx.stripped_bytes());
        assert_eq!(tx.inputs().filter(|input| input.witness().next().is_some()).count() > 0, plain.has_witness);
    }
    let sum: usize = block.transactions().map(|tx| tx.bytes().len() + 3 * tx.stripped_bytes()).sum();
    assert!(block.weight() > sum, "a header weighs something");
}

/// The remaining bytes.
struct Plain<'a>(&'a [u8]);

impl<'a> Plain<'a> {
    fn take(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    /// A count or size, in its shortest form only. Source: Bitcoin Core b88bffe, `ReadCompactSize`.
    fn size(&mut self) -> Option<u64> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let size = match self.take(1)?[0] {
            253 => Some(number(self.take(2)?)).filter(|&size| size >= 253),
            254 => Some(number(self.take(4)?)).filter(|&size| size >= 0x1_0000),
            255 => Some(number(self.take(8)?)).filter(|&size| size >= 0x1_0000_0000),
            small => Some(u64::from(small)),
        };
        size.filter(|&size| size <= MAX_SIZE)
    }

    fn script(&mut self) -> Option<()> {
        let size = self.size()?;
        self.take(size).map(drop)
    }

    fn inputs(&mut self) -> Option<u64> {
        let count = self.size()?;
        for _ in 0..count {
            self.take(36)?;
            self.script()?;
            self.take(4)?;
        }
        Some(count)
    }

    fn outputs(&mut self) -> Option<u64> {
        let count = self.size()?;
        for _ in 0..count {
            self.take(8)?;
            self.script()?;
        }
        Some(count)
    }
}

/// Source: Bitcoin Core b88bffe, `UnserializeTransaction`.
fn plain_transaction(reader: &mut Plain<'_>) -> Option<PlainTransaction> {
    let all = reader.0;
    let version = reader.take(4)?;
    let mut start = reader.0;
    let mut inputs = reader.inputs()?;
    let (mut flags, mut outputs) = (0, 0);
    let mut is_short = false;
    if inputs == 0 {
        flags = reader.take(1)?[0];
        is_short = flags == 0;
    }
    if flags != 0 {
        start = reader.0;
        inputs = reader.inputs()?;
    }
    if !is_short {
        outputs = reader.outputs()?;
    }
    let body = &start[..start.len() - reader.0.len()];
    let mut has_witness = false;
    if flags & 1 != 0 {
        for _ in 0..inputs {
            let items = reader.size()?;
            has_witness |= items > 0;
            for _ in 0..items {
                reader.script()?;
            }
        }
        if !has_witness {
            return None;
        }
    }
    if flags & !1 != 0 {
        return None;
    }
    let lock_time = reader.take(4)?;
    let bytes = all.len() - reader.0.len();
    let txid = Txid::from_bytes(sha256d(&[version, body, lock_time].concat()));
    let wtxid = Wtxid::from_bytes(sha256d(&all[..bytes]));
    // Without inputs and flags, the byte for that is read again as the count of outputs.
    Some(PlainTransaction { bytes, inputs: inputs as usize, outputs: outputs as usize, has_witness, txid, wtxid })
}

fn plain_block(data: &[u8]) -> Option<PlainBlock> {
    let mut reader = Plain(data);
    reader.take(80)?;
    let count = reader.size()?;
    let mut transactions = Vec::new();
    for _ in 0..count {
        transactions.push(plain_transaction(&mut reader)?);
    }
    Some(PlainBlock { bytes: data.len() - reader.0.len(), transactions })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::Rng;

    #[test]
    fn seeds_of_the_fuzzer_hold() {
        for seed in testkit::fuzz_seeds("block") {
            fuzz_block(&seed);
        }
    }

    /// Blocks of transactions of every form, and each of them bent in some places.
    #[test]
    fn parser_on_any_bytes_agrees_with_plain_reader() {
        let input = [&[1u8][..], &[7; 36], &[2, 0x51, 0x52], &[0xff; 4]].concat();
        let output = [&[1u8][..], &[0; 8], &[1, 0x51]].concat();
        let legacy = [&[2, 0, 0, 0][..], &input, &output, &[0; 4]].concat();
        let segwit = [&[2, 0, 0, 0, 0, 1][..], &input, &output, &[2, 1, 9, 0], &[0; 4]].concat();
        let empty = [&[2, 0, 0, 0, 0, 0][..], &[0; 4]].concat();
        let no_output = [&[2, 0, 0, 0][..], &input, &[0], &[0; 4]].concat();
        let all = [&legacy[..], &segwit, &no_output, &empty];
        let block = |list: &[&[u8]]| [&[5; 80][..], &[list.len() as u8], &list.concat()].concat();
        let mut good = 0;
        let mut rng = Rng::new(1);
        let mut random = |below: usize| rng.below(below);
        let seeds =
            [block(&all), block(&all[..2]), block(&[]), legacy.clone(), segwit, empty.clone(), vec![3, 9, 0, 0x14]];
        for round in 0..if testkit::is_slow() { 3_000_000 } else { 20_000 } {
            let mut data = seeds[round % seeds.len()].clone();
            for _ in 0..random(4) {
                let at = random(data.len().max(1));
                match random(4) {
                    0 if !data.is_empty() => data[at] = [0, 1, 2, 252, 253, 254, 255][random(7)],
                    1 if !data.is_empty() => data[at] ^= 1 << random(8),
                    2 => data.truncate(at),
                    _ => data.insert(at, random(256) as u8),
                }
                if data.is_empty() {
                    break;
                }
            }
            fuzz_block(&data);
            good += usize::from(plain_block(&data).is_some());
        }
        assert!(good > 3000, "{good} of them are blocks");
    }
}
