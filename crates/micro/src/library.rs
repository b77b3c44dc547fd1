//! Blocks as objects of the `bitcoin` crate: the cost of using the existing library.
//!
//! Checks that the library lacks are written here with its objects and functions.

use super::Error;
use bitcoin::consensus::encode::{Encodable, deserialize, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, Block, OutPoint, Transaction, TxMerkleNode, Txid, merkle_tree};
use std::collections::HashSet;

pub(crate) const OBJECTS: &str = "the bitcoin crate, 0.32";
pub(crate) const ONE_READ: &str = "one read, then the bitcoin crate, 0.32";
pub(crate) const ONE_WRITE: &str = "the bitcoin crate, 0.32, to memory, one write";

pub(crate) fn parse(bytes: &[u8]) -> Result<Block, Error> {
    deserialize(bytes).map_err(|why| Error::Broken(format!("the bitcoin crate: {why}")))
}

pub(crate) fn bytes_of(block: &Block) -> Vec<u8> {
    serialize(block)
}

pub(crate) fn write(block: &Block, to: &mut Vec<u8>) {
    block.consensus_encode(to).expect("memory takes everything");
}

pub(crate) fn ids(block: &Block) -> Vec<primitives::Txid> {
    block.txdata.iter().map(|tx| primitives::Txid::from_bytes(tx.compute_txid().to_byte_array())).collect()
}

/// The id of a single transaction.
pub(crate) fn transaction_id(bytes: &[u8]) -> Result<primitives::Txid, Error> {
    let tx: Transaction = deserialize(bytes).map_err(|why| Error::Broken(format!("the bitcoin crate: {why}")))?;
    Ok(primitives::Txid::from_bytes(tx.compute_txid().to_byte_array()))
}

pub(crate) fn library_ids(ids: &[primitives::Txid]) -> Vec<Txid> {
    ids.iter().map(|id| Txid::from_byte_array(id.to_bytes())).collect()
}

/// Signature operations of a block; `None` if it breaks a context-free rule.
pub(crate) fn check(block: &Block, ids: &[Txid]) -> Option<u32> {
    let root = merkle_tree::calculate_root(ids.iter().map(|id| id.to_raw_hash()))?;
    let stripped = block.txdata.iter().map(Transaction::base_size).sum::<usize>() + block.total_size()
        - block.txdata.iter().map(Transaction::total_size).sum::<usize>();
    let coinbases = block.txdata.iter().position(Transaction::is_coinbase) == Some(0)
        && !block.txdata.iter().skip(1).any(Transaction::is_coinbase);
    let sound = block.txdata.iter().all(check_transaction);
    if stripped > 1_000_000 || TxMerkleNode::from_raw_hash(root) != block.header.merkle_root || !coinbases || !sound {
        return None;
    }
    let count = |tx: &Transaction| -> usize {
        let inputs: usize = tx.input.iter().map(|input| input.script_sig.count_sigops_legacy()).sum();
        inputs + tx.output.iter().map(|output| output.script_pubkey.count_sigops_legacy()).sum::<usize>()
    };
    u32::try_from(block.txdata.iter().map(count).sum::<usize>()).ok().filter(|&sigops| sigops <= 20_000)
}

fn check_transaction(tx: &Transaction) -> bool {
    if tx.base_size() > 1_000_000 || tx.input.is_empty() || tx.output.is_empty() {
        return false;
    }
    let mut sum = Amount::ZERO;
    for output in &tx.output {
        let Some(more) = sum.checked_add(output.value) else { return false };
        sum = more;
        if output.value > Amount::MAX_MONEY || sum > Amount::MAX_MONEY {
            return false;
        }
    }
    let mut seen = HashSet::with_capacity(tx.input.len());
    tx.input.iter().all(|input| seen.insert(input.previous_output))
        && if tx.is_coinbase() {
            (2..=100).contains(&tx.input[0].script_sig.len())
        } else {
            !tx.input.iter().any(|input| input.previous_output == OutPoint::null())
        }
}
