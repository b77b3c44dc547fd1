//! Hints of SwiftSync (BIP 456, BIP 457) at work: which outputs of a block they are about, a file of them, and the UTXO
//! set that is made with one without looking a coin up.
//!
//! Absent on purpose: the format of a list (`primitives::hints`), where blocks come from and when hints are taken
//! (`session`), the directory that is made (`store::chainstate`).

pub(crate) mod checkpoint;
pub(crate) mod file;
pub(crate) mod run;
pub(crate) mod sums;
mod survivors;

use consensus::bip30;
use primitives::coin::is_unspendable;
use primitives::{Amount, Block, BlockHash, Height, OutPoint, Txid};

/// An output that hints count.
pub(crate) struct Counted<'b> {
    /// Its name.
    pub(crate) outpoint: OutPoint,
    /// Of a coinbase.
    pub(crate) coinbase: bool,
    /// Its amount.
    pub(crate) value: Amount,
    /// Its script.
    pub(crate) script: &'b [u8],
}

/// The outputs of a block that hints count, in order: all but those that can never be spent, for their script or because
/// another coinbase overwrote them (BIP-0030).
pub(crate) fn counted_outputs<'b>(
    block: &'b Block<'b>,
    txids: &'b [Txid],
    height: Height,
    hash: &BlockHash,
) -> impl Iterator<Item = Counted<'b>> {
    let is_overwritten = bip30::is_overwritten(height, hash);
    block.transactions().zip(txids).enumerate().filter(move |(place, _)| !(is_overwritten && *place == 0)).flat_map(
        |(place, (tx, txid))| {
            (0..).zip(tx.outputs()).filter(|(_, output)| !is_unspendable(output.script())).map(move |(vout, output)| {
                Counted {
                    outpoint: OutPoint { txid: *txid, vout },
                    coinbase: place == 0,
                    value: output.value(),
                    script: output.script(),
                }
            })
        },
    )
}
