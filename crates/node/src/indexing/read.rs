//! Possible positions of a transaction from txindex, or of an output's spender from txospenderindex. The caller must
//! check the transaction at each.

use super::stored_secret;
use crate::fault::Fault;
use indexes::spender;
use indexes::txindex::{self, DiskTxPos};
use primitives::{BlockHash, OutPoint, Txid};
use store::indexes::IndexDb;

/// A possible position of a transaction: different ids may share their first bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TxPlace {
    /// Rises with each block that the index added.
    pub(crate) sequence: u32,
    /// Its block.
    pub(crate) block: BlockHash,
    /// Offset in that block, in bytes.
    pub(crate) offset: usize,
}

/// The positions from entries of the newest format, and that from an entry of the older one.
///
/// # Errors
///
/// A damaged record or table, or an I/O error.
pub(crate) fn tx_places(db: &IndexDb, txid: &Txid) -> Result<(Vec<TxPlace>, Option<DiskTxPos>), Fault> {
    let mut places = Vec::new();
    let is_use = db.get(txindex::NEXT_SEQUENCE)?.is_some();
    if let Some(salt) = stored_secret(db, txindex::SALT, is_use)? {
        let mut records = db.with_prefix(&txindex::key_prefix(salt, txid))?;
        while let Some((key, _)) = records.next_record()? {
            let bad = |why: String| Fault::from(db.bad_record(&key, "the place of a transaction", why));
            let (sequence, offset) = txindex::decode_key(&key).map_err(|why| bad(why.to_string()))?;
            let hash = db.get(&txindex::sequence_key(sequence))?.and_then(|hash| hash.try_into().ok());
            let hash = hash.ok_or_else(|| bad(format!("block number {sequence}, which is not there")))?;
            places.push(TxPlace { sequence, block: BlockHash::from_bytes(hash), offset: offset as usize });
        }
    }
    let key = txindex::legacy_key(txid);
    let legacy = db.get(&key)?.map(|value| {
        DiskTxPos::decode(&value).map_err(|why| db.bad_record(&key, "the place of the transaction", why.to_string()))
    });
    Ok((places, legacy.transpose()?))
}

/// Positions of transactions that may spend an output: the hashes of different outpoints may be equal.
///
/// # Errors
///
/// A damaged record or table, or an I/O error.
pub(crate) fn spender_places(db: &IndexDb, outpoint: &OutPoint) -> Result<Vec<DiskTxPos>, Fault> {
    let mut places = Vec::new();
    if let Some(key) = stored_secret(db, spender::SIPHASH_KEY, db.best_block()?.is_some())? {
        let mut records = db.with_prefix(&spender::key_prefix(key, &outpoint.to_bytes()))?;
        while let Some((key, _)) = records.next_record()? {
            let bad = |why: String| Fault::from(db.bad_record(&key, "the place of a transaction", why));
            places.push(spender::decode_key(&key).map_err(|why| bad(why.to_string()))?);
        }
    }
    Ok(places)
}
