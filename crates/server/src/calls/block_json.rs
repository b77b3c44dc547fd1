//! Blocks as JSON for `getblock` and REST, written in one pass over their bytes.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `blockToJSON`, `coinbaseTxToJSON`.

use super::view::HeaderView;
use crate::output::Prefixes;
use crate::text::JsonText;
use crate::tx_json::{Details, FeeOutOfRange, Show, TxHead, put_parsed};
use primitives::{Block, CoinRef};

/// Which fields of each transaction are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transactions {
    /// Its id.
    Ids,
    /// All of it.
    Whole(Details),
}

/// Approximate bytes of JSON for each byte of a block: the initial capacity, which rarely needs to grow.
const JSON_BYTES_PER_BYTE: usize = 7;

/// A block as an object. `spent`, if known, are the coins that it spends, in the order of its inputs without the
/// coinbase's; they are shown only with whole transactions.
///
/// # Errors
///
/// [`FeeOutOfRange`].
pub(crate) fn block_json(
    view: &HeaderView,
    block: &Block<'_>,
    spent: Option<&[CoinRef<'_>]>,
    transactions: Transactions,
    prefixes: &Prefixes,
) -> Result<JsonText, FeeOutOfRange> {
    let room = match transactions {
        Transactions::Ids => 2048 + 67 * block.transaction_count(),
        Transactions::Whole(Details::Plain) => 2048 + JSON_BYTES_PER_BYTE * block.bytes().len(),
        Transactions::Whole(Details::Prevouts) => 2048 + (JSON_BYTES_PER_BYTE + 3) * block.bytes().len(),
    };
    let mut json = JsonText::with_capacity(room);
    json.open();
    json.members(&view.fields().end().text());
    json.key("strippedsize").number(block.stripped_bytes() as u64);
    json.key("size").number(block.bytes().len() as u64);
    json.key("weight").number(block.weight() as u64);
    put_coinbase(&mut json, block);
    json.key("tx").open_list();
    let mut txids = Vec::new();
    block.txids_into(&mut txids);
    match transactions {
        Transactions::Ids => txids.iter().for_each(|txid| json.hash(&txid.to_hash256())),
        Transactions::Whole(details) => {
            let mut wtxids = Vec::new();
            block.wtxids_into(&txids, &mut wtxids);
            // Undo data begins after the coinbase.
            let first = if block.transaction_count() > 0 { block.transaction(0).input_count() } else { 0 };
            for (at, tx) in block.transactions().enumerate() {
                let coins =
                    spent.filter(|_| at > 0).map(|spent| &spent[tx.first_input() - first..][..tx.input_count()]);
                let show = Show { prefixes, spent: coins, details };
                json.open();
                put_parsed(&mut json, &tx, &TxHead::new(&tx, txids[at], wtxids[at]), &show)?;
                json.key("hex").hex(tx.bytes());
                json.close();
            }
        }
    }
    json.close_list();
    json.close();
    Ok(json)
}

fn put_coinbase(json: &mut JsonText, block: &Block<'_>) {
    let coinbase = block.transactions().next().filter(|tx| tx.input_count() > 0);
    // Every validated block has a coinbase.
    let Some(coinbase) = coinbase else { return };
    let input = coinbase.input(0);
    json.key("coinbase_tx").open();
    json.key("version").number(u64::from(coinbase.version()));
    json.key("locktime").number(u64::from(coinbase.lock_time()));
    json.key("sequence").number(u64::from(input.sequence()));
    json.key("coinbase").hex(input.script_sig());
    if let Some(item) = input.witness().next() {
        json.key("witness").hex(item);
    }
    json.close();
}
