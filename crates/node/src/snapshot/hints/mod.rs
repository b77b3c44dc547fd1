//! Using SwiftSync hints (BIP 456, BIP 457): which outputs of a block they cover, a file of them, and a UTXO set that
//! is built with them without looking up coins.
//!
//! Absent on purpose: the format of a list (`primitives::hints`), the source of blocks and the choice to use hints
//! (`session`), the resulting directory (`store::chainstate`).

pub(crate) mod checkpoint;
pub(crate) mod file;
pub(crate) mod run;
pub(crate) mod sums;
mod survivors;

use consensus::bip30;
use primitives::coin::is_unspendable;
use primitives::{Amount, Block, BlockHash, Height, OutPoint, Txid};

/// An output that hints cover.
pub(crate) struct Counted<'b> {
    /// Its outpoint.
    pub(crate) outpoint: OutPoint,
    /// Whether it is of a coinbase.
    pub(crate) coinbase: bool,
    /// Its amount.
    pub(crate) value: Amount,
    /// Its script.
    pub(crate) script: &'b [u8],
}

/// The outputs of a block that hints cover, in order: all except those that can never be spent, because of their script
/// or because another coinbase overwrote them (BIP-0030).
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
