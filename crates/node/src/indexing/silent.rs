//! The entries of a block in silentpaymentindex, completed with ids and outputs of the transactions from the block.

use super::stored_row;
use crate::fault::Fault;
use indexes::silentpayments::{self, Entry, taproot_key};
use primitives::{Amount, BlockHash, Height, OutPoint, Tables, Txid};
use store::indexes::IndexDb;

/// A transaction that may be a silent payment, with its taproot outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentTx {
    /// Its id.
    pub txid: Txid,
    /// Its entry in the index.
    pub entry: Entry,
    /// Its taproot outputs; at least one.
    pub outputs: Vec<SilentOutput>,
}

/// A taproot output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilentOutput {
    /// Its output index.
    pub vout: u32,
    /// The x coordinate of its key.
    pub key: [u8; 32],
    /// Its amount.
    pub value: Amount,
    /// Whether it is in the UTXO set; `false` before that was looked up.
    pub is_unspent: bool,
}

/// The entries of a block; `None` if the index does not have the block.
///
/// # Errors
///
/// A damaged row or table, or an I/O error.
pub(crate) fn silent_entries(db: &IndexDb, hash: BlockHash, height: Height) -> Result<Option<Vec<Entry>>, Fault> {
    Ok(stored_row(db, hash, height, silentpayments::decode)?)
}

/// The transactions of these entries, from the bytes of their block.
///
/// # Errors
///
/// The block has no such transactions: the index is damaged, or of another block.
pub(crate) fn silent_transactions(
    db: &IndexDb,
    hash: BlockHash,
    bytes: &[u8],
    entries: &[Entry],
) -> Result<Vec<SilentTx>, Fault> {
    let bad = |found: String| {
        Fault::from(db.bad_record(b"t", format!("places of transactions of block {hash} that pay to taproot"), found))
    };
    let mut tables = Tables::new();
    let block = tables.parse_block(bytes).map_err(|why| bad(format!("a block that does not parse: {why}")))?;
    if block.header().hash() != hash {
        return Err(bad(format!("block {}", block.header().hash())));
    }
    let transaction = |entry: &Entry| {
        let index = entry.tx_index as usize;
        let tx = (index < block.transaction_count()).then(|| block.transaction(index))?;
        let outputs = tx.outputs().enumerate().filter_map(|(vout, output)| {
            let key = *taproot_key(output.script())?;
            Some(SilentOutput { vout: vout as u32, key, value: output.value(), is_unspent: false })
        });
        let outputs: Vec<SilentOutput> = outputs.collect();
        let value_max = outputs.iter().map(|output| output.value.0.cast_unsigned()).max();
        (value_max == Some(entry.value_max)).then(|| SilentTx { txid: tx.txid(), entry: *entry, outputs })
    };
    let transactions = entries.iter().map(|entry| {
        transaction(entry).ok_or_else(|| bad(format!("transaction {}, which has no such output", entry.tx_index)))
    });
    transactions.collect()
}

impl SilentTx {
    /// Whether an output is unspent, after [`SilentTx::look_up`].
    pub fn has_unspent(&self) -> bool {
        self.outputs.iter().any(|output| output.is_unspent)
    }

    /// Looks up which outputs are unspent.
    ///
    /// # Errors
    ///
    /// Errors of `is_unspent`.
    pub fn look_up<E>(&mut self, mut is_unspent: impl FnMut(&OutPoint) -> Result<bool, E>) -> Result<(), E> {
        for output in &mut self.outputs {
            output.is_unspent = is_unspent(&OutPoint { txid: self.txid, vout: output.vout })?;
        }
        Ok(())
    }
}

/// Removes entries without a taproot output of at least `dust_limit` satoshi.
pub fn without_dust(entries: &mut Vec<Entry>, dust_limit: u64) {
    entries.retain(|entry| entry.value_max >= dust_limit);
}
