//! getsilentpaymentblockdata, for receivers of silent payments (BIP 352). Core has no such call: its name, its first
//! argument and the name of its result are those of bitcoin/bitcoin#28241, which was closed; the other arguments are
//! those that clients of its last form send.

use super::indexed::is_index_ready;
use super::view::known_block;
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use crate::text::JsonText;
use indexes::IndexKind;
use indexes::silentpayments::Entry;
use node::chain::index::Validity;
use node::chain::tree::NodeId;
use node::handle::Live;
use node::jobs::{SilentTx, without_dust};

/// These calls.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "getsilentpaymentblockdata",
    about: "Returns the tweaked sums of public keys (BIP 352) of the transactions of a block that may pay silently.",
    args: &[
        Arg::needed("blockhash", Kind::Hex, "The hash of the block"),
        Arg::optional("dust_limit", Kind::Num, "Omit transactions whose taproot outputs are all below this value")
            .unchecked(),
        Arg::optional("filter_spent", Kind::Bool, "Leave out transactions whose taproot outputs are all spent")
            .unchecked(),
    ],
    run: Run::Now(get_silent_payment_block_data),
}];

fn get_silent_payment_block_data(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    args.block_hash(0, "blockhash")?;
    let dust_limit = dust_limit(args.get(1))?;
    let only_unspent = only_unspent(args.get(2))?;
    let live = context.live()?;
    let (_, id) = known_block(context, args, 0, "blockhash")?;
    let entries = chosen_entries(context, &live, id, dust_limit, only_unspent)?;
    let mut json = JsonText::new();
    json.open();
    json.key("bip352_tweaks");
    json.open_list();
    entries.iter().for_each(|entry| {
        json.hex(&entry.tweak);
    });
    json.close_list();
    json.close();
    Ok(json.into_json())
}

/// A number of satoshis; also as text, which is how bitcoin-cli sends arguments of a call that it does not know.
fn dust_limit(value: &Json) -> Result<u64, RpcError> {
    match value {
        Json::Null => Ok(0),
        Json::Str(text) => {
            let number = text.parse().ok().filter(|_| text.bytes().all(|digit| digit.is_ascii_digit()));
            number.ok_or_else(|| RpcError::parameter(format!("dust_limit is a number of satoshi, not {text:?}")))
        }
        value => crate::args::int(value),
    }
}

/// True or false; also as text, see [`dust_limit`].
fn only_unspent(value: &Json) -> Result<bool, RpcError> {
    match value {
        Json::Null => Ok(false),
        Json::Bool(wanted) => Ok(*wanted),
        Json::Str(text) if text == "true" => Ok(true),
        Json::Str(text) if text == "false" => Ok(false),
        _ => Err(RpcError::parameter("filter_spent is true or false")),
    }
}

/// The index entries of a block.
///
/// # Errors
///
/// The index is not enabled, or does not have the block; a damaged index.
pub(crate) fn entries(context: &Context, live: &Live, id: NodeId) -> Result<Vec<Entry>, RpcError> {
    if !live.has_index(IndexKind::SilentPayments) {
        return Err(RpcError::misc("Index is not enabled: start with -silentpaymentindex=1"));
    }
    let is_ready = is_index_ready(context, live, IndexKind::SilentPayments)?;
    match live.silent_entries(id)? {
        Some(entries) => Ok(entries),
        None if live.index.read().body(id).validity() < Validity::Scripts => {
            Err(RpcError::not_found("Tweaks not found. Block was not connected to active chain."))
        }
        None if !is_ready => {
            Err(RpcError::misc("Tweaks not found. Silent payments are still in the process of being indexed."))
        }
        None => Err(RpcError::misc("Tweaks not found. This error is unexpected and indicates index corruption.")),
    }
}

/// The index entries of a block with an output of at least `dust_limit`, or also with an unspent output.
///
/// # Errors
///
/// Those of [`entries`] and [`looked_up`].
pub(crate) fn chosen_entries(
    context: &Context,
    live: &Live,
    id: NodeId,
    dust_limit: u64,
    only_unspent: bool,
) -> Result<Vec<Entry>, RpcError> {
    let mut entries = entries(context, live, id)?;
    without_dust(&mut entries, dust_limit);
    if only_unspent {
        let found = looked_up(context, live, id, &entries)?;
        entries = found.iter().filter(|tx| tx.has_unspent()).map(|tx| tx.entry).collect();
    }
    Ok(entries)
}

/// The transactions of a block's entries, without checking whether their outputs are unspent.
///
/// # Errors
///
/// The block is pruned; a damaged index or block.
pub(crate) fn transactions(live: &Live, id: NodeId, entries: &[Entry]) -> Result<Vec<SilentTx>, RpcError> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    live.silent_transactions(id, entries)?.ok_or_else(|| RpcError::misc("Block not available (pruned data)"))
}

/// The transactions of a block's entries, and which of their outputs are unspent.
///
/// # Errors
///
/// Those of [`transactions`].
pub(crate) fn looked_up(
    context: &Context,
    live: &Live,
    id: NodeId,
    entries: &[Entry],
) -> Result<Vec<SilentTx>, RpcError> {
    let mut found = transactions(live, id, entries)?;
    if found.is_empty() {
        return Ok(found);
    }
    context.ask(move |quiet| {
        for transaction in &mut found {
            transaction.look_up(|outpoint| Ok::<_, node::Fault>(quiet.coin(outpoint)?.is_some()))?;
        }
        Ok(found)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_be_texts() {
        let text = |text: &str| Json::Str(text.into());
        assert_eq!(dust_limit(&text("546")).ok(), Some(546));
        assert_eq!((dust_limit(&Json::Null).ok(), only_unspent(&Json::Null).ok()), (Some(0), Some(false)));
        assert_eq!((only_unspent(&text("true")).ok(), only_unspent(&text("false")).ok()), (Some(true), Some(false)));
        for bad in ["", "-1", "+1", "1.5", "x"] {
            assert!(dust_limit(&text(bad)).is_err() && only_unspent(&text(bad)).is_err(), "{bad}");
        }
    }
}
