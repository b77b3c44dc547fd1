//! What silentpaymentindex says of a block, and what the block itself adds: ids and outputs of the transactions.

use super::stored_row;
use crate::fault::Fault;
use indexes::silentpayments::{self, Entry, taproot_key};
use primitives::{Amount, BlockHash, Height, OutPoint, Tables, Txid};
use store::indexes::IndexDb;

/// A transaction that may pay silently, with what it pays to taproot outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SilentTx {
    /// Its id.
    pub txid: Txid,
    /// Its entry in the index.
    pub entry: Entry,
    /// Its taproot outputs; one or more.
    pub outputs: Vec<SilentOutput>,
}

/// A taproot output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SilentOutput {
    /// Its number in the transaction.
    pub vout: u32,
    /// The x of its key.
    pub key: [u8; 32],
    /// What it is worth.
    pub value: Amount,
    /// It is in the UTXO set; `false` as well before that was looked up.
    pub is_unspent: bool,
}

/// The entries of a block; `None` where the index has none of it.
///
/// # Errors
///
/// A damaged row or table, or what the system says.
pub(crate) fn silent_entries(db: &IndexDb, hash: BlockHash, height: Height) -> Result<Option<Vec<Entry>>, Fault> {
    Ok(stored_row(db, hash, height, silentpayments::decode)?)
}

/// The transactions that entries are of, from the bytes of their block.
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
    /// The names of its taproot outputs.
    pub fn outpoints(&self) -> impl Iterator<Item = OutPoint> + '_ {
        self.outputs.iter().map(|output| OutPoint { txid: self.txid, vout: output.vout })
    }

    /// Whether an output is unspent, as far as that was looked up.
    pub fn has_unspent(&self) -> bool {
        self.outputs.iter().any(|output| output.is_unspent)
    }

    /// Looks up which outputs are unspent.
    ///
    /// # Errors
    ///
    /// Those of `is_unspent`.
    pub fn look_up<E>(&mut self, mut is_unspent: impl FnMut(&OutPoint) -> Result<bool, E>) -> Result<(), E> {
        for output in &mut self.outputs {
            output.is_unspent = is_unspent(&OutPoint { txid: self.txid, vout: output.vout })?;
        }
        Ok(())
    }
}

/// Leaves out what has no taproot output of `dust_limit` satoshi or more.
pub fn without_dust(entries: &mut Vec<Entry>, dust_limit: u64) {
    entries.retain(|entry| entry.value_max >= dust_limit);
}
