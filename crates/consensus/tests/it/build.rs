//! Transactions and blocks for regtest, built by hand.

use primitives::encode::put_compact_size;
use primitives::{BlockHash, Hash256, Header, Height, OutPoint, Txid, Wtxid, merkle};
use simd::sha256::sha256d;

/// OP_TRUE: anybody can spend it.
pub(crate) const ANYONE: &[u8] = &[0x51];
pub(crate) const COIN: i64 = 100_000_000;
const EASIEST: u32 = 0x207f_ffff;

#[derive(Clone)]
pub(crate) struct In {
    pub(crate) prevout: OutPoint,
    pub(crate) script_sig: Vec<u8>,
    pub(crate) sequence: u32,
    pub(crate) witness: Vec<Vec<u8>>,
}

impl In {
    pub(crate) fn of(prevout: OutPoint) -> In {
        In { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() }
    }
}

#[derive(Clone)]
pub(crate) struct Tx {
    pub(crate) version: u32,
    pub(crate) inputs: Vec<In>,
    pub(crate) outputs: Vec<(i64, Vec<u8>)>,
    pub(crate) lock_time: u32,
}

impl Tx {
    /// One input and one output.
    pub(crate) fn spend(prevout: OutPoint, value: i64) -> Tx {
        Tx { version: 2, inputs: vec![In::of(prevout)], outputs: vec![(value, ANYONE.to_vec())], lock_time: 0 }
    }

    pub(crate) fn coinbase(height: u32, value: i64) -> Tx {
        let mut tx = Tx::spend(OutPoint::NULL, value);
        let (push, bytes) = consensus::block::height_push(Height::new(height));
        tx.inputs[0].script_sig = [&push[..bytes], &[0, 0]].concat();
        tx
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.serialize(self.inputs.iter().any(|input| !input.witness.is_empty()))
    }

    fn serialize(&self, witness: bool) -> Vec<u8> {
        let mut out = self.version.to_le_bytes().to_vec();
        if witness {
            out.extend_from_slice(&[0, 1]);
        }
        put_compact_size(&mut out, self.inputs.len() as u64);
        if self.inputs.is_empty() {
            // Core's parser takes the byte behind no inputs for a flag.
            out.push(0);
            out.extend_from_slice(&self.lock_time.to_le_bytes());
            return out;
        }
        for input in &self.inputs {
            out.extend_from_slice(input.prevout.txid.as_bytes());
            out.extend_from_slice(&input.prevout.vout.to_le_bytes());
            put_bytes(&mut out, &input.script_sig);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(&mut out, self.outputs.len() as u64);
        for (value, script) in &self.outputs {
            out.extend_from_slice(&value.to_le_bytes());
            put_bytes(&mut out, script);
        }
        for input in self.inputs.iter().filter(|_| witness) {
            put_compact_size(&mut out, input.witness.len() as u64);
            input.witness.iter().for_each(|item| put_bytes(&mut out, item));
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
        out
    }

    pub(crate) fn txid(&self) -> Txid {
        if self.inputs.is_empty() {
            // An empty transaction is parsed from ten bytes and hashed as it lies there.
            return Txid::from_bytes(sha256d(&self.bytes()));
        }
        Txid::from_bytes(sha256d(&self.serialize(false)))
    }

    pub(crate) fn wtxid(&self) -> Wtxid {
        Wtxid::from_bytes(sha256d(&self.bytes()))
    }

    pub(crate) fn out(&self, vout: u32) -> OutPoint {
        OutPoint { txid: self.txid(), vout }
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A block of these transactions with a right merkle root and enough work.
pub(crate) fn block(prev: BlockHash, time: u32, txs: &[Tx]) -> Vec<u8> {
    let (root, _) = merkle::root(&mut txs.iter().map(|tx| tx.txid().to_hash256()).collect());
    let bodies: Vec<Vec<u8>> = txs.iter().map(Tx::bytes).collect();
    with_body(mine(4, prev, root, time, EASIEST), &bodies)
}

pub(crate) fn with_body(header: Header, transactions: &[Vec<u8>]) -> Vec<u8> {
    let mut out = header.0.to_vec();
    put_compact_size(&mut out, transactions.len() as u64);
    transactions.iter().for_each(|bytes| out.extend_from_slice(bytes));
    out
}

/// The first nonce that meets regtest's easiest target.
pub(crate) fn mine(version: i32, prev: BlockHash, root: Hash256, time: u32, bits: u32) -> Header {
    let headers = (0..).map(|nonce| Header::new(version, prev, root, time, bits, nonce));
    headers.into_iter().find(meets_easiest).expect("half of all hashes do")
}

pub(crate) fn meets_easiest(header: &Header) -> bool {
    header.hash().as_bytes()[31] < 0x80
}

/// Adds the coinbase's reserved value and, as its last output, the commitment to the witnesses of `txs`.
pub(crate) fn commit(txs: &mut [Tx]) {
    let mut leaves: Vec<Hash256> = txs.iter().map(|tx| tx.wtxid().to_hash256()).collect();
    leaves[0] = Hash256::ZERO;
    let (root, _) = merkle::root(&mut leaves);
    let hash = sha256d(&[root.0, [0; 32]].concat());
    txs[0].inputs[0].witness = vec![vec![0; 32]];
    txs[0].outputs.push((0, [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed], &hash[..]].concat()));
}
