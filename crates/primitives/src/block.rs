//! Blocks and transactions as views of their bytes, through the tables of offsets in `tables.rs`.
//!
//! A view borrows the bytes and the tables; it copies nothing and cannot fail.
//!
//! Absent on purpose: rules, owned transactions.

use crate::amount::Amount;
use crate::encode::{DecodeError, Reader, compact_size_bytes};
use crate::header::{HEADER_BYTES, Header};
use crate::ids::{OutPoint, Txid, Wtxid};
use crate::merkle;
use crate::tables::{InputAt, OutputAt, Tables, TransactionAt, offset_fits};
use kernels::Kernels;
use kernels::sha256::{Pieces, Sha256, sha256};

impl Tables {
    /// Fills the tables from the block at the start of `bytes`. Bytes after the block are ignored, as in Core.
    ///
    /// # Errors
    ///
    /// For exactly the inputs for which Core's parser throws. The tables are then empty.
    ///
    /// Source: Bitcoin Core b88bffe, `CBlock::SERIALIZE_METHODS`, `UnserializeTransaction`.
    pub fn parse_block<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Block<'a>, DecodeError> {
        self.clear();
        match self.fill_block(bytes) {
            Ok(end) => self.bytes = end,
            Err(why) => {
                self.clear();
                return Err(why);
            }
        }
        Ok(self.block(bytes))
    }

    /// Fills the tables from the transaction at the start of `bytes`; its length is that of `Transaction::bytes`.
    ///
    /// # Errors
    ///
    /// Those of [`Tables::parse_block`].
    pub fn parse_transaction<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Transaction<'a>, DecodeError> {
        self.clear();
        let mut reader = Reader::new(bytes);
        match offset_fits(bytes).and_then(|()| self.fill_transaction(&mut reader)) {
            Ok(()) => self.bytes = reader.offset(),
            Err(why) => {
                self.clear();
                return Err(why);
            }
        }
        Ok(Transaction { bytes, tables: self, index: 0 })
    }

    /// The block from which these tables were filled.
    ///
    /// # Panics
    ///
    /// If `bytes` is shorter than that block.
    pub fn block<'a>(&'a self, bytes: &'a [u8]) -> Block<'a> {
        Block { bytes: &bytes[..self.bytes], tables: self }
    }
}

/// A parsed block: its bytes and the offsets of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    bytes: &'a [u8],
    tables: &'a Tables,
}

impl<'a> Block<'a> {
    /// The bytes of exactly the block.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The kernels that hash it.
    pub fn kernels(&self) -> Kernels {
        self.tables.kernels
    }

    /// The header.
    pub fn header(&self) -> Header {
        Header(*self.bytes.first_chunk().expect("a parsed block has a header"))
    }

    /// Number of transactions; a block without transactions parses.
    #[inline]
    pub fn transaction_count(&self) -> usize {
        self.tables.transactions.len()
    }

    /// Number of inputs, the coinbase's included.
    pub fn input_count(&self) -> usize {
        self.tables.inputs.len()
    }

    /// Number of outputs.
    pub fn output_count(&self) -> usize {
        self.tables.outputs.len()
    }

    /// Transaction number `index`.
    ///
    /// # Panics
    ///
    /// If `index` is out of range.
    #[inline]
    pub fn transaction(&self, index: usize) -> Transaction<'a> {
        assert!(index < self.tables.transactions.len(), "transaction index out of range");
        Transaction { bytes: self.bytes, tables: self.tables, index }
    }

    /// The transactions in order.
    pub fn transactions(&self) -> impl ExactSizeIterator<Item = Transaction<'a>> + use<'a> {
        let block = *self;
        (0..self.transaction_count()).map(move |index| block.transaction(index))
    }

    /// Input number `index`, counted over the whole block.
    #[inline]
    pub fn input(&self, index: usize) -> Input<'a> {
        Input { bytes: self.bytes, at: self.tables.inputs[index] }
    }

    /// Output number `index`, counted over the whole block.
    #[inline]
    pub fn output(&self, index: usize) -> Output<'a> {
        Output { bytes: self.bytes, at: self.tables.outputs[index] }
    }

    /// Whether any transaction is serialized with witness.
    pub fn has_witness(&self) -> bool {
        self.tables.transactions.iter().any(|at| at.body == 6)
    }

    /// Bytes without witnesses, including header and count.
    pub fn stripped_bytes(&self) -> usize {
        HEADER_BYTES + compact_size_bytes(self.transaction_count() as u64) + self.tables.stripped_bytes
    }

    /// Weight: three times the stripped size plus the total size. Source: BIP-0141.
    pub fn weight(&self) -> usize {
        3 * self.stripped_bytes() + self.bytes.len()
    }

    /// Ids of all transactions, in order; `out` is cleared first. Hashed in lanes over the whole block.
    pub fn txids_into(&self, out: &mut Vec<Txid>) {
        let pieces: Vec<Pieces<'_>> = self.transactions().map(|tx| tx.txid_pieces()).collect();
        let mut hashes = vec![[0; 32]; pieces.len()];
        self.kernels().sha256d_many(&pieces, &mut hashes);
        out.clear();
        out.extend(hashes.into_iter().map(Txid::from_bytes));
    }

    /// Ids of all transactions, in order, if they match the header; `None` if the body is that of another header, or a
    /// modified one with the same merkle root (CVE-2012-2459).
    pub fn txids_of_header(&self) -> Option<Vec<Txid>> {
        let mut txids = Vec::new();
        self.txids_into(&mut txids);
        let mut leaves = txids.iter().map(|txid| txid.to_hash256()).collect();
        let is_its = merkle::root(self.kernels(), &mut leaves) == (self.header().merkle_root(), false);
        is_its.then_some(txids)
    }

    /// Witness ids of all transactions, in order, including the coinbase's real one; `out` is cleared first. For
    /// transactions without witness the ids in `txids` are copied.
    pub fn wtxids_into(&self, txids: &[Txid], out: &mut Vec<Wtxid>) {
        out.clear();
        out.extend(txids.iter().map(|&txid| Wtxid::without_witness(txid)));
        let with: Vec<usize> = (0..self.transaction_count()).filter(|&i| self.transaction(i).has_witness()).collect();
        let pieces: Vec<Pieces<'_>> = with.iter().map(|&i| [self.transaction(i).bytes(), &[], &[]]).collect();
        let mut hashes = vec![[0; 32]; pieces.len()];
        self.kernels().sha256d_many(&pieces, &mut hashes);
        for (&index, hash) in with.iter().zip(hashes) {
            out[index] = Wtxid::from_bytes(hash);
        }
    }
}

/// One transaction of a parsed block, or a parsed transaction.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    bytes: &'a [u8],
    tables: &'a Tables,
    index: usize,
}

impl<'a> Transaction<'a> {
    #[inline]
    fn at(&self) -> TransactionAt {
        self.tables.transactions[self.index]
    }

    /// The whole transaction as serialized, including witnesses.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        let at = self.at();
        &self.bytes[at.start as usize..at.end as usize]
    }

    /// Bytes of the serialization without witness.
    #[inline]
    pub fn stripped_bytes(&self) -> usize {
        self.at().stripped_bytes()
    }

    /// The version, unsigned since Core 28.
    #[inline]
    pub fn version(&self) -> u32 {
        u32_at(self.bytes, self.at().start as usize)
    }

    /// The locktime.
    #[inline]
    pub fn lock_time(&self) -> u32 {
        u32_at(self.bytes, self.at().end as usize - 4)
    }

    /// Whether it is serialized with witness; then some stack has an item.
    #[inline]
    pub fn has_witness(&self) -> bool {
        self.at().body == 6
    }

    /// Inputs and outputs without their counts, marker, flag, witnesses, version, locktime:
    /// `CompactSize inputs .. outputs`.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        let at = self.at();
        &self.bytes[at.start as usize + usize::from(at.body)..at.witness as usize]
    }

    /// The preimage of the txid, in pieces. Source: BIP-0141.
    #[inline]
    pub fn txid_pieces(&self) -> Pieces<'a> {
        let at = self.at();
        if at.body == 4 {
            return [self.bytes(), &[], &[]];
        }
        let start = at.start as usize;
        let end = at.end as usize;
        [&self.bytes[start..start + 4], self.body(), &self.bytes[end - 4..end]]
    }

    /// The id: hash of the serialization without witness. For many, see [`Block::txids_into`].
    pub fn txid(&self) -> Txid {
        let mut hash = Sha256::new();
        self.txid_pieces().into_iter().for_each(|piece| hash.update(piece));
        Txid::from_bytes(sha256(&hash.finalize()))
    }

    /// The hash of the whole serialization, including witnesses.
    pub fn wtxid(&self) -> Wtxid {
        Wtxid::from_bytes(kernels::sha256::sha256d(self.bytes()))
    }

    /// Index of its first input within its block.
    #[inline]
    pub fn first_input(&self) -> usize {
        self.at().inputs as usize
    }

    /// Index of its first output within its block.
    #[inline]
    pub fn first_output(&self) -> usize {
        self.at().outputs as usize
    }

    /// Number of inputs.
    #[inline]
    pub fn input_count(&self) -> usize {
        let end =
            self.tables.transactions.get(self.index + 1).map_or(self.tables.inputs.len(), |next| next.inputs as usize);
        end - self.first_input()
    }

    /// Number of outputs.
    #[inline]
    pub fn output_count(&self) -> usize {
        let end = self
            .tables
            .transactions
            .get(self.index + 1)
            .map_or(self.tables.outputs.len(), |next| next.outputs as usize);
        end - self.first_output()
    }

    /// Input number `index` of this transaction.
    ///
    /// # Panics
    ///
    /// If `index` is out of range.
    #[inline]
    pub fn input(&self, index: usize) -> Input<'a> {
        assert!(index < self.input_count(), "input index out of range");
        Input { bytes: self.bytes, at: self.tables.inputs[self.first_input() + index] }
    }

    /// Output number `index` of this transaction.
    ///
    /// # Panics
    ///
    /// If `index` is out of range.
    #[inline]
    pub fn output(&self, index: usize) -> Output<'a> {
        assert!(index < self.output_count(), "output index out of range");
        Output { bytes: self.bytes, at: self.tables.outputs[self.first_output() + index] }
    }

    /// The inputs in order.
    #[inline]
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = Input<'a>> + use<'a> {
        let first = self.first_input();
        let bytes = self.bytes;
        let tables = self.tables;
        tables.inputs[first..first + self.input_count()].iter().map(move |&at| Input { bytes, at })
    }

    /// The outputs in order.
    #[inline]
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = Output<'a>> + use<'a> {
        let first = self.first_output();
        let bytes = self.bytes;
        let tables = self.tables;
        tables.outputs[first..first + self.output_count()].iter().map(move |&at| Output { bytes, at })
    }

    /// Whether it has one input, with the null prevout. Source: Bitcoin Core b88bffe, `CTransaction::IsCoinBase`.
    #[inline]
    pub fn is_coinbase(&self) -> bool {
        self.input_count() == 1 && self.input(0).prevout().is_null()
    }
}

/// One input.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    at: InputAt,
}

impl<'a> Input<'a> {
    /// The 36 bytes of the spent coin's outpoint.
    #[inline]
    pub fn prevout_bytes(&self) -> &'a [u8; 36] {
        self.bytes[self.at.start as usize..].first_chunk().expect("36 bytes were parsed")
    }

    /// The spent coin's outpoint.
    #[inline]
    pub fn prevout(&self) -> OutPoint {
        OutPoint::from_bytes(self.prevout_bytes())
    }

    /// The scriptSig.
    #[inline]
    pub fn script_sig(&self) -> &'a [u8] {
        &self.bytes[self.at.script as usize..(self.at.script + self.at.script_bytes) as usize]
    }

    /// The sequence number.
    #[inline]
    pub fn sequence(&self) -> u32 {
        u32_at(self.bytes, (self.at.script + self.at.script_bytes) as usize)
    }

    /// The witness stack; empty if the transaction is serialized without witness.
    #[inline]
    pub fn witness(&self) -> Witness<'a> {
        if self.at.witness == 0 {
            return Witness { reader: Reader::new(&[]), items: 0 };
        }
        let mut reader = Reader::at(self.bytes, self.at.witness as usize);
        let items = reader.compact_size().expect("the witness was parsed");
        Witness { reader, items }
    }

    /// The serialized witness stack, count first; one zero byte if the transaction is serialized without witness.
    pub fn witness_bytes(&self) -> &'a [u8] {
        if self.at.witness == 0 {
            return &[0];
        }
        let start = self.at.witness as usize;
        let mut witness = self.witness();
        while witness.next().is_some() {}
        &self.bytes[start..witness.reader.offset()]
    }
}

/// The items of a witness stack, bottom first.
#[derive(Clone, Debug)]
pub struct Witness<'a> {
    reader: Reader<'a>,
    items: usize,
}

impl<'a> Iterator for Witness<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.items = self.items.checked_sub(1)?;
        let bytes = self.reader.compact_size().expect("the witness was parsed");
        Some(self.reader.take(bytes).expect("the witness was parsed"))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.items, Some(self.items))
    }
}

impl ExactSizeIterator for Witness<'_> {}

/// One output.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    bytes: &'a [u8],
    at: OutputAt,
}

impl<'a> Output<'a> {
    /// The amount; any 64 bits parse.
    #[inline]
    pub fn value(&self) -> Amount {
        let bytes = self.bytes[self.at.start as usize..].first_chunk().expect("8 bytes were parsed");
        Amount(i64::from_le_bytes(*bytes))
    }

    /// The scriptPubKey.
    #[inline]
    pub fn script(&self) -> &'a [u8] {
        &self.bytes[self.at.script as usize..(self.at.script + self.at.script_bytes) as usize]
    }

    /// Value, length and script as serialized.
    #[inline]
    pub fn serialized(&self) -> &'a [u8] {
        &self.bytes[self.at.start as usize..(self.at.script + self.at.script_bytes) as usize]
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes were parsed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex;

    /// Mainnet's genesis block.
    fn genesis() -> Vec<u8> {
        hex::decode(concat!(
            "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f61",
            "7fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c",
            "0101000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d010445",
            "5468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261",
            "696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909",
            "a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000",
        ))
        .unwrap()
    }

    #[test]
    fn genesis_block_parses_and_hashes() {
        let bytes = genesis();
        assert_eq!(bytes.len(), 285);
        let mut tables = Tables::new();
        let block = tables.parse_block(&bytes).unwrap();
        assert_eq!((block.transaction_count(), block.input_count(), block.output_count()), (1, 1, 1));
        let tx = block.transaction(0);
        assert!(tx.is_coinbase() && !tx.has_witness() && tx.lock_time() == 0 && tx.version() == 1);
        assert_eq!(tx.input(0).script_sig().len(), 0x4d);
        assert_eq!(tx.input(0).sequence(), u32::MAX);
        assert_eq!(tx.output(0).value(), Amount(5_000_000_000));
        assert_eq!(tx.output(0).script().len(), 67);
        let root = block.header().merkle_root();
        assert_eq!(tx.txid(), Txid::from_hash256(root));
        let (mut txids, mut wtxids) = (Vec::new(), Vec::new());
        block.txids_into(&mut txids);
        block.wtxids_into(&txids, &mut wtxids);
        assert_eq!((txids, wtxids), (vec![Txid::from_hash256(root)], vec![Wtxid::from_hash256(root)]));
        assert_eq!((block.stripped_bytes(), block.weight()), (285, 1140));
    }

    #[test]
    fn txids_of_a_header_are_those_of_its_own_body_alone() {
        let good = genesis();
        let coinbase = &good[HEADER_BYTES + 1..];
        let mut other = good.clone();
        other[HEADER_BYTES + 60] ^= 1;
        // Of a block with one transaction, the merkle root is its id.
        let txid = Header(*good.first_chunk().unwrap()).merkle_root();
        let root = merkle::root(Kernels::AUTO, &mut vec![txid; 2]).0;
        let changed = [&good[..36], &root.0, &good[68..HEADER_BYTES], &[2], coinbase, coinbase].concat();
        for (row, bytes, is_its) in [("its own", good, true), ("another", other, false), ("twice", changed, false)] {
            let mut tables = Tables::new();
            let block = tables.parse_block(&bytes).unwrap();
            let mut txids = Vec::new();
            block.txids_into(&mut txids);
            assert_eq!(block.txids_of_header(), is_its.then_some(txids), "{row}");
        }
    }

    #[test]
    fn block_cut_anywhere_is_refused_and_tail_ignored() {
        let mut bytes = genesis();
        for cut in 0..bytes.len() {
            assert!(matches!(Tables::new().parse_block(&bytes[..cut]), Err(DecodeError::Cut { .. })), "cut at {cut}");
        }
        bytes.extend_from_slice(&[1, 2, 3]);
        assert_eq!(Tables::new().parse_block(&bytes).unwrap().bytes().len(), 285);
    }

    /// BIP-0143's P2WPKH example, whose ids stand in the BIP and in every explorer.
    const SEGWIT: &str = concat!(
        "01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450221008b9d1dc26ba6",
        "a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc",
        "618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb20600",
        "0000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0",
        "167faa815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c45183315",
        "61406f90300e8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07ae",
        "ee635711000000"
    );

    #[test]
    fn transaction_with_witness_has_both_ids() {
        let bytes = hex::decode(SEGWIT).unwrap();
        let mut tables = Tables::new();
        let tx = tables.parse_transaction(&bytes).unwrap();
        assert!(tx.has_witness());
        assert_eq!(tx.bytes().len(), bytes.len());
        assert_eq!(tx.input(0).witness().count(), 0);
        let items: Vec<usize> = tx.input(1).witness().map(<[u8]>::len).collect();
        assert_eq!(items, [71, 33]);
        assert_eq!(tx.input(0).witness_bytes(), [0]);
        assert_eq!(tx.input(1).witness_bytes().len(), 1 + 72 + 34);
        assert_eq!(tx.lock_time(), 17);
        let stripped: Vec<u8> = tx.txid_pieces().concat();
        assert_eq!(stripped.len(), tx.stripped_bytes());
        assert_eq!(tx.stripped_bytes(), bytes.len() - 2 - 1 - 107);
        let mut legacy = Tables::new();
        let same = legacy.parse_transaction(&stripped).unwrap();
        assert_eq!((same.txid(), same.wtxid()), (tx.txid(), Wtxid::without_witness(tx.txid())));
        assert_ne!(tx.wtxid(), Wtxid::without_witness(tx.txid()));
    }

    /// What is summed while a block is parsed is what its transactions say; tables that are used again forget.
    #[test]
    fn block_weight_is_sum_of_transactions() {
        let (legacy, witness) = (genesis()[81..].to_vec(), hex::decode(SEGWIT).unwrap());
        let mut tables = Tables::new();
        for (legacies, witnesses) in [(1, 0), (3, 2), (0, 5), (0, 0), (1, 1)] {
            let mut bytes = genesis()[..80].to_vec();
            bytes.push(legacies + witnesses);
            (0..legacies).for_each(|_| bytes.extend_from_slice(&legacy));
            (0..witnesses).for_each(|_| bytes.extend_from_slice(&witness));
            let block = tables.parse_block(&bytes).unwrap();
            let sum: usize = block.transactions().map(|tx| tx.stripped_bytes()).sum();
            assert_eq!(block.stripped_bytes(), 81 + sum, "{legacies} and {witnesses}");
            let stripped = bytes.len() - usize::from(witnesses) * (2 + 1 + 107);
            assert_eq!(block.weight(), 3 * stripped + bytes.len(), "{legacies} and {witnesses}");
        }
    }

    #[test]
    fn block_refused_by_core_is_refused() {
        let empty_body = "0000000000"; // No inputs, flag 0: neither inputs nor outputs follow, only the locktime.
        for (name, hex, want) in [
            ("flag 0: an empty transaction parses", format!("01000000{empty_body}00"), None),
            ("flag 1 without inputs", "0100000000010000".to_owned() + "00000000", Some("no witness")),
            ("flag 2", "0100000000020000".to_owned() + "00000000", Some("flag 2")),
            (
                "flag 1 and empty stacks",
                format!("01000000000101{}00000000000000000000000000", "11".repeat(36)),
                Some("no witness"),
            ),
            ("count in three bytes", "01000000fd0100".to_owned(), Some("longer than needed")),
            ("count beyond the bytes", "01000000fe00000002".to_owned(), Some("cut short")),
            ("count too large", "01000000fe01000002".to_owned(), Some("at most")),
        ] {
            let bytes = hex::decode(&hex).unwrap();
            let mut tables = Tables::new();
            match (tables.parse_transaction(&bytes), want) {
                (Ok(tx), None) => assert_eq!((tx.input_count(), tx.output_count()), (0, 0), "{name}"),
                (Err(why), Some(text)) => assert!(why.to_string().contains(text), "{name}: {why}"),
                (got, want) => panic!("{name}: {got:?}, want {want:?}"),
            }
        }
    }

    #[test]
    fn block_with_flipped_byte_never_panics() {
        let good = hex::decode(SEGWIT).unwrap();
        let mut tables = Tables::new();
        for at in 0..good.len() {
            for value in [0, 1, 2, 0x7f, 0xfc, 0xfd, 0xfe, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = value;
                if let Ok(tx) = tables.parse_transaction(&bytes) {
                    let _ = (tx.txid(), tx.wtxid(), tx.inputs().map(|i| i.witness().count()).sum::<usize>());
                }
            }
        }
    }
}
