//! Builds transactions, blocks and chains for tests: serialization, Merkle root, BIP34 height, nonce.
//!
//! Heights are plain numbers, and only ids, headers and hashes come from the crates under test. Blocks are regtest's:
//! every second hash meets its target.

use kernels::sha256::sha256d;
use primitives::{BlockHash, Hash256, Header, OutPoint, Txid, Wtxid};

/// OP_TRUE: an output that can be spent without a signature.
pub const ANYONE: &[u8] = &[0x51];
/// Satoshis.
pub const COIN: i64 = 100_000_000;
/// Regtest's target.
pub const EASIEST: u32 = 0x207f_ffff;
/// The time of regtest's genesis block.
pub const GENESIS_TIME: u32 = 1_296_688_602;
/// Depth at which a coinbase becomes spendable, in blocks.
pub const MATURITY: u32 = 100;

/// An input.
#[derive(Clone, Debug)]
pub struct In {
    /// The output that it spends.
    pub prevout: OutPoint,
    /// Its scriptSig.
    pub script_sig: Vec<u8>,
    /// Its sequence.
    pub sequence: u32,
    /// The items of its witness.
    pub witness: Vec<Vec<u8>>,
}

impl In {
    /// An input whose coin needs no signature.
    #[must_use]
    pub fn of(prevout: OutPoint) -> In {
        In { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() }
    }
}

/// A transaction as separate fields.
#[derive(Clone, Debug)]
pub struct Tx {
    /// Its version.
    pub version: u32,
    /// Its inputs.
    pub inputs: Vec<In>,
    /// Value and scriptPubKey of its outputs.
    pub outputs: Vec<(i64, Vec<u8>)>,
    /// Its lock time.
    pub lock_time: u32,
}

impl Tx {
    /// One input and one output.
    #[must_use]
    pub fn spend(prevout: OutPoint, value: i64) -> Tx {
        Tx { version: 2, inputs: vec![In::of(prevout)], outputs: vec![(value, ANYONE.to_vec())], lock_time: 0 }
    }

    /// A coinbase with one output.
    #[must_use]
    pub fn coinbase(height: u32, value: i64) -> Tx {
        let mut tx = Tx::spend(OutPoint::NULL, value);
        tx.inputs[0].script_sig = [&height_push(height)[..], &[0]].concat();
        tx
    }

    /// Serialized with witnesses if there are any.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.serialize(self.inputs.iter().any(|input| !input.witness.is_empty()))
    }

    fn serialize(&self, witness: bool) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        if witness {
            out.extend_from_slice(&[0, 1]);
        }
        put_compact_size(&mut out, self.inputs.len());
        if self.inputs.is_empty() {
            // Core's parser treats the byte after an empty input list as a flag.
            out.push(0);
            out.extend_from_slice(&self.lock_time.to_le_bytes());
            return out;
        }
        for input in &self.inputs {
            out.extend_from_slice(&input.prevout.to_bytes());
            put_bytes(&mut out, &input.script_sig);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len());
        for (value, script) in &self.outputs {
            out.extend_from_slice(&value.to_le_bytes());
            put_bytes(&mut out, script);
        }
        for input in self.inputs.iter().filter(|_| witness) {
            put_compact_size(&mut out, input.witness.len());
            input.witness.iter().for_each(|item| put_bytes(&mut out, item));
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
        out
    }

    /// Its id.
    #[must_use]
    pub fn txid(&self) -> Txid {
        // A transaction without inputs is parsed from ten bytes and hashed as it is.
        txid_of(&self.serialize(false))
    }

    /// Its witness id.
    #[must_use]
    pub fn wtxid(&self) -> Wtxid {
        Wtxid::from_bytes(sha256d(&self.bytes()))
    }

    /// One of its outputs.
    #[must_use]
    pub fn out(&self, vout: u32) -> OutPoint {
        OutPoint { txid: self.txid(), vout }
    }
}

/// Serializes a transaction with these fields; see [`Tx::bytes`].
#[must_use]
pub fn transaction(version: u32, inputs: &[In], outputs: &[(i64, Vec<u8>)], lock_time: u32) -> Vec<u8> {
    Tx { version, inputs: inputs.to_vec(), outputs: outputs.to_vec(), lock_time }.bytes()
}

/// Appends a CompactSize. Source: Bitcoin Core b88bffe, `WriteCompactSize`.
pub fn put_compact_size(out: &mut Vec<u8>, n: usize) {
    let bytes = (n as u64).to_le_bytes();
    match n {
        0..=0xfc => out.push(bytes[0]),
        0xfd..=0xffff => out.extend([&[0xfd], &bytes[..2]].concat()),
        0x1_0000..=0xffff_ffff => out.extend([&[0xfe], &bytes[..4]].concat()),
        _ => out.extend([&[0xff], &bytes[..]].concat()),
    }
}

/// Appends bytes preceded by their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// The start of a coinbase's script since block version 2: `CScript() << height`. Source: BIP-0034.
#[must_use]
pub fn height_push(height: u32) -> Vec<u8> {
    match height {
        0 => vec![0],
        1..=16 => vec![0x50 + height.to_le_bytes()[0]],
        _ => {
            let mut number = height.to_le_bytes().to_vec();
            while number.ends_with(&[0]) {
                number.pop();
            }
            if number[number.len() - 1] & 0x80 != 0 {
                number.push(0);
            }
            [&[number.len().to_le_bytes()[0]][..], &number].concat()
        }
    }
}

/// The id of a transaction without witness.
#[must_use]
pub fn txid_of(transaction: &[u8]) -> Txid {
    Txid::from_bytes(sha256d(transaction))
}

/// The Merkle root of at least one hash. The last hash of an odd level is paired with itself.
#[must_use]
pub fn merkle_root(leaves: impl IntoIterator<Item = Hash256>) -> Hash256 {
    let mut level: Vec<Hash256> = leaves.into_iter().collect();
    while level.len() > 1 {
        let pair = |pair: &[Hash256]| Hash256(sha256d(&[pair[0].0, pair[pair.len() - 1].0].concat()));
        level = level.chunks(2).map(pair).collect();
    }
    level[0]
}

/// A block of these transactions with a correct Merkle root and enough work.
#[must_use]
pub fn block(prev: BlockHash, time: u32, txs: &[Tx]) -> Vec<u8> {
    let bodies: Vec<Vec<u8>> = txs.iter().map(Tx::bytes).collect();
    let root = merkle_root(txs.iter().map(|tx| tx.txid().to_hash256()));
    with_body(mine(4, prev, root, time, EASIEST), &bodies)
}

/// Like [`block`], for serialized transactions without witnesses.
#[must_use]
pub fn block_of_bytes(prev: BlockHash, time: u32, transactions: &[Vec<u8>]) -> Vec<u8> {
    let root = merkle_root(transactions.iter().map(|transaction| txid_of(transaction).to_hash256()));
    with_body(mine(4, prev, root, time, EASIEST), transactions)
}

/// The bytes of a block: a header and its transactions.
#[must_use]
pub fn with_body(header: Header, transactions: &[Vec<u8>]) -> Vec<u8> {
    let mut out = header.0.to_vec();
    put_compact_size(&mut out, transactions.len());
    transactions.iter().for_each(|bytes| out.extend_from_slice(bytes));
    out
}

/// A header with the first nonce that meets regtest's target, whatever its `bits` are.
#[must_use]
pub fn mine(version: i32, prev: BlockHash, root: Hash256, time: u32, bits: u32) -> Header {
    first_header(version, prev, root, time, bits, true)
}

/// A header with the first nonce that does not meet regtest's target.
#[must_use]
pub fn without_work(version: i32, prev: BlockHash, root: Hash256, time: u32, bits: u32) -> Header {
    first_header(version, prev, root, time, bits, false)
}

fn first_header(version: i32, prev: BlockHash, root: Hash256, time: u32, bits: u32, meets: bool) -> Header {
    let mut headers = (0..).map(|nonce| Header::new(version, prev, root, time, bits, nonce));
    headers.find(|header| meets_easiest(header) == meets).expect("half of all hashes do")
}

/// Whether a header meets regtest's target.
#[must_use]
pub fn meets_easiest(header: &Header) -> bool {
    header.hash().as_bytes()[31] < 0x80
}

/// Adds the coinbase's witness reserved value and, as its last output, the commitment to the witnesses of `txs`.
/// Source: BIP-0141.
pub fn commit(txs: &mut [Tx]) {
    let leaves = txs.iter().enumerate().map(|(n, tx)| if n == 0 { Hash256::ZERO } else { tx.wtxid().to_hash256() });
    let hash = sha256d(&[merkle_root(leaves).0, [0; 32]].concat());
    txs[0].inputs[0].witness = vec![vec![0; 32]];
    txs[0].outputs.push((0, [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed], &hash[..]].concat()));
}

/// The hash of a block.
///
/// # Panics
///
/// If it is shorter than a header.
#[must_use]
pub fn hash_of(block: &[u8]) -> BlockHash {
    Header(*block.first_chunk().expect("a block has a header")).hash()
}

/// Wraps a block into a record of a block file.
///
/// # Panics
///
/// If the block is larger than 4 GiB.
#[must_use]
pub fn record(magic: [u8; 4], block: &[u8]) -> Vec<u8> {
    [&magic[..], &u32::try_from(block.len()).expect("blocks are small").to_le_bytes(), block].concat()
}

/// Block subsidy of regtest in satoshis: halved every 150 blocks.
#[must_use]
pub fn subsidy(height: u32) -> i64 {
    (50 * COIN).checked_shr(height / 150).unwrap_or(0)
}

/// The genesis block of regtest followed by `count` blocks. From height 101 on each block has a second transaction,
/// which spends the coinbase of the block 100 below, and creates two coins.
#[must_use]
pub fn chain(genesis: &[u8], count: u32) -> Vec<Vec<u8>> {
    let (mut blocks, mut coinbases) = (vec![genesis.to_vec()], vec![Txid::ZERO]);
    for height in 1..=count {
        let mut transactions = vec![coinbase(height)];
        coinbases.push(transactions[0].txid());
        if height > MATURITY {
            let spent = height - MATURITY;
            transactions.push(split(coinbases[spent as usize], subsidy(spent)));
        }
        let prev = hash_of(&blocks[blocks.len() - 1]);
        blocks.push(block(prev, GENESIS_TIME + 600 * height, &transactions));
    }
    blocks
}

/// The coinbase of a block of [`chain`].
#[must_use]
pub fn coinbase(height: u32) -> Tx {
    Tx { version: 1, ..Tx::coinbase(height, subsidy(height)) }
}

/// A transaction that spends the first output of another, and creates two coins.
#[must_use]
pub fn split(of: Txid, value: i64) -> Tx {
    let half = (value / 2, ANYONE.to_vec());
    Tx { version: 1, outputs: vec![half.clone(), half], ..Tx::spend(OutPoint { txid: of, vout: 0 }, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected: mainnet's genesis block.
    #[test]
    fn coinbase_of_the_genesis_block() {
        let text = b"The Times 03/Jan/2009 Chancellor on brink of second bailout for banks";
        let mut tx = Tx::spend(OutPoint::NULL, 50 * COIN);
        tx.version = 1;
        tx.inputs[0].script_sig = [&[4, 0xff, 0xff, 0, 0x1d, 1, 4, 0x45][..], text].concat();
        let key = "04678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5f";
        tx.outputs[0].1 = [&[0x41][..], &primitives::hex::decode(key).unwrap(), &[0xac]].concat();
        assert_eq!(tx.txid().to_string(), "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b");
        assert_eq!(tx.wtxid().to_hash256(), tx.txid().to_hash256());
        assert_eq!(merkle_root([tx.txid().to_hash256()]), tx.txid().to_hash256());
    }

    #[test]
    fn height_push_is_minimal() {
        for (height, want) in [
            (0, &[0][..]),
            (1, &[0x51]),
            (16, &[0x60]),
            (17, &[1, 17]),
            (127, &[1, 127]),
            (128, &[2, 128, 0]),
            (0x7fff, &[2, 0xff, 0x7f]),
            (0x8000, &[3, 0, 0x80, 0]),
            (227_931, &[3, 0x5b, 0x7a, 3]),
        ] {
            assert_eq!(height_push(height), want, "{height}");
        }
    }

    #[test]
    fn witness_form_has_another_id() {
        let mut tx = Tx::spend(OutPoint::NULL, 1);
        let (txid, bytes) = (tx.txid(), tx.bytes().len());
        tx.inputs[0].witness = vec![vec![1, 2]];
        assert_eq!((tx.txid(), tx.bytes().len()), (txid, bytes + 6));
        assert_ne!(tx.wtxid().to_hash256(), txid.to_hash256());
    }
}
