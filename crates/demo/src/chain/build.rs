//! Serializes planned transactions, and the coinbase that commits to them.
//!
//! Absent on purpose: headers, which need the previous block (`files`).

use super::Signatures;
use super::coin::{Coin, Out};
use super::ids::Ids;
use super::keys::{Key, Keys, MULTISIG_BYTES, MULTISIG_KEYS, p2pkh_script, redeem_script};
use super::plan::{BlockPlan, TxPlan};
use super::profile::Kind;
use super::rng::Rng;
use super::sign::{Signer, Spending};
use consensus::block::height_push;
use kernels::Kernels;
use kernels::sha256::sha256d;
use primitives::encode::put_compact_size;
use primitives::{Hash256, Height, Txid, Wtxid, merkle};
use std::ops::Range;

/// Marker and flag of a transaction with witness. Source: BIP-0144.
const SEGWIT: [u8; 2] = [0, 1];
const OP_PUSHDATA1: u8 = 0x4c;
/// Prefix of the witness commitment output of a coinbase. Source: BIP-0141.
const COMMITMENT: [u8; 6] = [0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed];
/// Text in the coinbase script.
const COINBASE_TEXT: &[u8] = b"ffwd lab";

/// Some transactions of a block, and their wtxids.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) wtxids: Vec<Wtxid>,
}

/// Makes transactions; reuses buffers.
#[derive(Debug)]
pub(super) struct Builder<'a> {
    keys: &'a Keys,
    ids: &'a Ids,
    signer: Signer<'a>,
    seed: u64,
    outpoints: Vec<u8>,
    outputs: Vec<u8>,
    stripped: Vec<u8>,
    witness: Vec<u8>,
}

impl<'a> Builder<'a> {
    pub(super) fn new(keys: &'a Keys, ids: &'a Ids, signatures: Signatures, seed: u64) -> Builder<'a> {
        Builder {
            keys,
            ids,
            signer: Signer::new(keys, signatures),
            seed,
            outpoints: Vec::new(),
            outputs: Vec::new(),
            stripped: Vec::new(),
            witness: Vec::new(),
        }
    }

    /// Builds these transactions of a block, and publishes their txids. Blocks until the txids that they need are
    /// available.
    pub(super) fn chunk(&mut self, plan: &BlockPlan, range: Range<usize>) -> Chunk {
        let mut chunk = Chunk::default();
        let mut ends = Vec::with_capacity(range.len());
        for index in range {
            let number = plan.first_tx + 1 + index as u32;
            let before = index.checked_sub(1).map(|i| plan.txs[i]);
            let (inputs, outputs) = before.map_or((0, 0), |tx| (tx.inputs_end as usize, tx.outputs_end as usize));
            let tx = &plan.txs[index];
            // The random data of this transaction depends only on its number.
            self.signer.rng = Rng::new(self.seed, 1 << 32 | u64::from(number));
            self.put_outputs(plan, outputs..tx.outputs_end as usize);
            let txid = self.transaction(tx, &plan.inputs[inputs..tx.inputs_end as usize], &mut chunk.bytes);
            self.ids.set(number, txid);
            ends.push(chunk.bytes.len());
        }
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let messages: Vec<_> = starts.zip(&ends).map(|(start, &end)| [&chunk.bytes[start..end], &[], &[]]).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        Kernels::AUTO.sha256d_many(&messages, &mut hashes);
        chunk.wtxids = hashes.into_iter().map(Wtxid::from_bytes).collect();
        chunk
    }

    fn put_outputs(&mut self, plan: &BlockPlan, range: Range<usize>) {
        self.outputs.clear();
        put_compact_size(&mut self.outputs, range.len() as u64);
        for out in &plan.outputs[range] {
            self.outputs.extend_from_slice(&out.value().to_le_bytes());
            if out.kind() == Kind::OpReturn {
                let data = &mut [0; 75][..usize::from(out.key())];
                self.signer.rng.fill(data);
                self.outputs.extend_from_slice(&[data.len() as u8 + 2, 0x6a, data.len() as u8]);
                self.outputs.extend_from_slice(data);
            } else {
                self.keys.get(out.key()).locking(out.kind()).put(&mut self.outputs);
            }
        }
    }

    /// Appends a transaction whose outputs are in `self.outputs`, and returns its txid.
    fn transaction(&mut self, tx: &TxPlan, coins: &[Coin], out: &mut Vec<u8>) -> Txid {
        self.outpoints.clear();
        for coin in coins {
            self.outpoints.extend_from_slice(self.ids.wait(coin.tx).as_bytes());
            self.outpoints.extend_from_slice(&coin.vout.to_le_bytes());
        }
        let spending = Spending {
            version: tx.version,
            lock_time: tx.lock_time,
            sequence: tx.sequence,
            outpoints: &self.outpoints,
            coins,
            outputs: &self.outputs,
            outputs_count_bytes: if self.outputs[0] < 253 { 1 } else { 3 },
        };
        self.signer.begin(&spending);
        let stripped = &mut self.stripped;
        stripped.clear();
        stripped.extend_from_slice(&tx.version.to_le_bytes());
        put_compact_size(stripped, coins.len() as u64);
        self.witness.clear();
        for (index, outpoint) in self.outpoints.chunks_exact(36).enumerate() {
            stripped.extend_from_slice(outpoint);
            put_input(&mut self.signer, self.keys, &spending, index, stripped, &mut self.witness);
            stripped.extend_from_slice(&tx.sequence.to_le_bytes());
        }
        stripped.extend_from_slice(&self.outputs);
        stripped.extend_from_slice(&tx.lock_time.to_le_bytes());
        // If any input has a witness, an input without one has a single zero as its stack.
        let end = stripped.len() - 4;
        if self.witness.iter().all(|&byte| byte == 0) {
            out.extend_from_slice(stripped);
        } else {
            out.extend_from_slice(&stripped[..4]);
            out.extend_from_slice(&SEGWIT);
            out.extend_from_slice(&stripped[4..end]);
            out.extend_from_slice(&self.witness);
            out.extend_from_slice(&stripped[end..]);
        }
        Txid::from_bytes(sha256d(stripped))
    }
}

/// Appends the length and the script of one input to `script`, and its stack to `witness`.
fn put_input(
    signer: &mut Signer<'_>,
    keys: &Keys,
    spending: &Spending<'_>,
    index: usize,
    script: &mut Vec<u8>,
    witness: &mut Vec<u8>,
) {
    let out = spending.coins[index].out;
    let key = keys.get(out.key());
    match out.kind() {
        Kind::P2pkh => {
            let length_at = script.len();
            script.push(0);
            signer.legacy(spending, index, &p2pkh_script(&key.hash), &[key], script);
            put_item(script, &key.public);
            script[length_at] = (script.len() - length_at - 1) as u8;
            return witness.push(0);
        }
        Kind::P2shMultisig => {
            let mut pushes = vec![0];
            signer.legacy(spending, index, &key.multisig, &two_of(keys, out), &mut pushes);
            pushes.extend_from_slice(&[OP_PUSHDATA1, MULTISIG_BYTES as u8]);
            pushes.extend_from_slice(&key.multisig);
            put_item(script, &pushes);
            return witness.push(0);
        }
        Kind::P2shP2wpkh => {
            script.push(23);
            put_item(script, &redeem_script(&key.hash));
        }
        _ => script.push(0),
    }
    match out.kind() {
        Kind::P2wpkh | Kind::P2shP2wpkh => {
            witness.push(2);
            signer.witness_v0(spending, index, &p2pkh_script(&key.hash), &[key], witness);
            put_item(witness, &key.public);
        }
        Kind::P2wsh => {
            witness.extend_from_slice(&[4, 0]);
            signer.witness_v0(spending, index, &key.multisig, &two_of(keys, out), witness);
            put_item(witness, &key.multisig);
        }
        Kind::P2tr => {
            witness.push(1);
            signer.taproot(spending, index, &key.tweaked, None, witness);
        }
        Kind::P2trScript => {
            witness.push(3);
            signer.taproot(spending, index, &key.pair, Some(&key.leaf_hash), witness);
            put_item(witness, &key.leaf);
            put_item(witness, &key.control);
        }
        Kind::P2pkh | Kind::P2shMultisig | Kind::OpReturn => {
            unreachable!("two are handled above, the other is not a coin")
        }
    }
}

/// Two of the three keys of a 2-of-3 script, in order; the coin determines which one is omitted.
fn two_of(keys: &Keys, out: Out) -> [&Key; 2] {
    let signers: [_; MULTISIG_KEYS] = std::array::from_fn(|i| keys.of_multisig(out.key(), i));
    match out.value() as usize % MULTISIG_KEYS {
        0 => [signers[1], signers[2]],
        1 => [signers[0], signers[2]],
        _ => [signers[0], signers[1]],
    }
}

const _: () = assert!(MULTISIG_BYTES > 75 && MULTISIG_BYTES < 253, "its length is one byte, as the plan has it");

/// Appends length and bytes: an item of a stack, or a push of at most 75 bytes.
fn put_item(out: &mut Vec<u8>, item: &[u8]) {
    put_compact_size(out, item.len() as u64);
    out.extend_from_slice(item);
}

/// The coinbase of a block whose other transactions have these wtxids: its bytes and its txid.
pub(super) fn coinbase(plan: &BlockPlan, keys: &Keys, seed: u64, wtxids: &[Wtxid]) -> (Vec<u8>, Txid) {
    let mut leaves = Vec::with_capacity(wtxids.len() + 1);
    leaves.push(Hash256::ZERO);
    leaves.extend(wtxids.iter().map(|wtxid| wtxid.to_hash256()));
    let (root, _) = merkle::root(kernels::Kernels::AUTO, &mut leaves);
    let reserved = [0; 32];
    let commitment = sha256d(&[root.0, reserved].concat());

    let mut stripped = 2u32.to_le_bytes().to_vec();
    stripped.push(1);
    stripped.extend_from_slice(&[0; 32]);
    stripped.extend_from_slice(&u32::MAX.to_le_bytes());
    put_item(&mut stripped, &coinbase_script(plan.height, seed));
    stripped.extend_from_slice(&u32::MAX.to_le_bytes());
    stripped.push(2);
    stripped.extend_from_slice(&plan.coinbase.value().to_le_bytes());
    keys.get(plan.coinbase.key()).locking(plan.coinbase.kind()).put(&mut stripped);
    stripped.extend_from_slice(&0u64.to_le_bytes());
    put_item(&mut stripped, &[&COMMITMENT[..], &commitment].concat());
    stripped.extend_from_slice(&0u32.to_le_bytes());

    let end = stripped.len() - 4;
    let mut bytes = [&stripped[..4], &SEGWIT, &stripped[4..end]].concat();
    bytes.push(1);
    put_item(&mut bytes, &reserved);
    bytes.extend_from_slice(&stripped[end..]);
    (bytes, Txid::from_bytes(sha256d(&stripped)))
}

/// The coinbase script: the height as in BIP-0034, the seed, and the program's name.
fn coinbase_script(height: Height, seed: u64) -> Vec<u8> {
    let (push, bytes) = height_push(height);
    let mut script = push[..bytes].to_vec();
    put_item(&mut script, &seed.to_le_bytes());
    put_item(&mut script, COINBASE_TEXT);
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heights and pushes as Core's `CScript() << height` writes them.
    #[test]
    fn coinbase_starts_with_the_height() {
        for (height, want) in [
            (1, "51"),
            (16, "60"),
            (17, "0111"),
            (127, "017f"),
            (128, "028000"),
            (255, "02ff00"),
            (256, "020001"),
            (32_767, "02ff7f"),
            (32_768, "03008000"),
            (8_388_608, "0400008000"),
        ] {
            let script = primitives::hex::encode(&coinbase_script(Height::new(height), 0));
            assert!(script.starts_with(want), "{height}: {script}, want {want}");
            assert_eq!(script.len(), want.len() + 2 * (9 + 1 + COINBASE_TEXT.len()), "{height}");
        }
    }
}
