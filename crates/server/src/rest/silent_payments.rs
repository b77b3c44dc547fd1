//! Index server for light clients of silent payments (BIP 352): `/rest/silentpayments/..`, only in JSON.
//!
//! There is no standard protocol. These are the paths, parameters and answers of version 1 of blindbit-oracle, which
//! wallets use over HTTP: set `http://HOST:PORT/rest/silentpayments/` as a client's server. docs/silent-payments.md
//! lists the differences. Core has nothing similar.

use super::{Answer, NO_STORE, Query, Refusal, Reply, bad, integral, missing, parameter};
use crate::calls::silent_payments::{chosen_entries, entries, looked_up, transactions};
use crate::context::Context;
use crate::error::RpcError;
use crate::text::JsonText;
use indexes::silentpayments::taproot_key;
use indexes::{IndexKind, filter};
use kernels::sha256::sha256;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::undo::spent_coins;
use primitives::{BlockHash, Height, Tables, hex};

/// Length of the hash prefix that identifies a spent output.
const SHORT_BYTES: usize = 8;

/// All paths.
pub(super) fn answer(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let path = query.path.split('?').next().unwrap_or_default();
    match path.split('/').collect::<Vec<_>>()[..] {
        ["info"] => info(live),
        ["block-height"] => Ok(object(|json| put_number(json, "block_height", indexed_height(live)?))?),
        ["tweaks" | "tweak-index", height] => tweaks(context, live, query, height),
        ["utxos", height] => utxos(context, live, height),
        ["filter", "new-utxos", height] => new_outputs_filter(context, live, height),
        ["filter", "spent", height] => spent_filter(context, live, height),
        ["spent-index", height] => spent_index(context, live, height),
        _ => Err(missing(
            "Unknown path. Expected info, block-height, tweaks/<height>, tweak-index/<height>, utxos/<height>, \
             filter/new-utxos/<height>, filter/spent/<height> or spent-index/<height>",
        )),
    }
}

fn object(put: impl FnOnce(&mut JsonText) -> Result<(), Refusal>) -> Result<Reply, Refusal> {
    let mut json = JsonText::new();
    json.open();
    put(&mut json)?;
    json.close();
    Ok(Reply::json(NO_STORE, json.into_bytes()))
}

fn put_number(json: &mut JsonText, name: &'static str, number: u64) -> Result<(), Refusal> {
    json.key(name).number(number);
    Ok(())
}

/// The height that the index has reached.
fn indexed_height(live: &Live) -> Result<u64, Refusal> {
    if !live.has_index(IndexKind::SilentPayments) {
        return Err(bad("Index is not enabled: start with -silentpaymentindex=1"));
    }
    let best = live.indexed_tip(IndexKind::SilentPayments)?;
    Ok(best.map_or(0, |best| u64::from(live.index.headers().height(best).to_u32())))
}

fn info(live: &Live) -> Answer {
    let height = indexed_height(live)?;
    object(|json| {
        json.key("network").string(live.params().chain.name());
        json.key("height").number(height);
        json.key("tweaks_only").bool(false);
        json.key("tweaks_full_basic").bool(true);
        json.key("tweaks_full_with_dust_filter").bool(true);
        json.key("tweaks_cut_through_with_dust_filter").bool(true);
        Ok(())
    })
}

/// A block of the active chain.
fn block_at(live: &Live, text: &str) -> Result<(NodeId, BlockHash, Height), Refusal> {
    let height = integral::<u32>(text).ok_or_else(|| bad(format!("Invalid height: {text:?}")))?;
    let index = live.index.read();
    let id = index.active().get(height as usize).copied();
    let id = id.ok_or_else(|| missing("Block height out of range"))?;
    Ok((id, index.headers().hash(id), index.headers().height(id)))
}

/// The tweaks of a block: all, unless the client requests fewer.
fn tweaks(context: &Context, live: &Live, query: &Query<'_>, height: &str) -> Answer {
    let (id, ..) = block_at(live, height)?;
    let dust_limit = match parameter(query.target, "dustLimit") {
        Some(text) => integral::<u64>(&text).ok_or_else(|| bad(format!("Invalid dustLimit: {text:?}")))?,
        None => 0,
    };
    let only_unspent = matches!(parameter(query.target, "filterSpent").as_deref(), Some("1" | "true"));
    let found = chosen_entries(context, live, id, dust_limit, only_unspent)?;
    let mut json = JsonText::new();
    json.open_list();
    found.iter().for_each(|entry| json.hex(&entry.tweak));
    json.close_list();
    Ok(Reply::json(NO_STORE, json.into_bytes()))
}

/// The taproot outputs of transactions that may contain silent payments.
fn utxos(context: &Context, live: &Live, height: &str) -> Answer {
    let (id, hash, height) = block_at(live, height)?;
    let found = entries(context, live, id)?;
    let found = looked_up(context, live, id, &found)?;
    let time = live.index.headers().header(id).time();
    let mut json = JsonText::new();
    json.open_list();
    for transaction in &found {
        for output in &transaction.outputs {
            json.open();
            json.key("txid").hash(&transaction.txid.to_hash256());
            json.key("vout").number(output.vout.into());
            json.key("value").number(output.value.0.cast_unsigned());
            json.key("scriptpubkey").string(&format!("5120{}", hex::encode(&output.key)));
            json.key("block_height").number(height.to_u32().into());
            json.key("block_hash").hash(&hash.to_hash256());
            json.key("timestamp").number(time.into());
            json.key("spent").bool(!output.is_unspent);
            json.close();
        }
    }
    json.close_list();
    Ok(Reply::json(NO_STORE, json.into_bytes()))
}

/// A BIP 158 filter over other elements.
fn put_filter(hash: BlockHash, height: Height, kind: i64, elements: &[&[u8]]) -> Answer {
    let bytes = filter::encode(&hash, elements.len(), elements.iter().copied());
    object(|json| {
        json.key("filter_type").signed(kind);
        json.key("block_height").number(height.to_u32().into());
        json.key("block_hash").hash(&hash.to_hash256());
        json.key("data").hex(&bytes);
        Ok(())
    })
}

/// A filter over the output keys, 32 bytes each, of transactions that may contain silent payments.
fn new_outputs_filter(context: &Context, live: &Live, height: &str) -> Answer {
    let (id, hash, height) = block_at(live, height)?;
    let found = transactions(live, id, &entries(context, live, id)?)?;
    let keys: Vec<&[u8]> = found.iter().flat_map(|tx| &tx.outputs).map(|output| &output.key[..]).collect();
    put_filter(hash, height, 4, &keys)
}

/// The taproot outputs that a block spends, each as a prefix of SHA-256 over outpoint and block hash.
fn spent(context: &Context, live: &Live, id: NodeId, hash: &BlockHash) -> Result<Vec<[u8; SHORT_BYTES]>, Refusal> {
    // Requires the index here, too: a client must not mistake its absence for an empty result.
    entries(context, live, id)?;
    let pruned = || Refusal::from(RpcError::misc("Block not available (pruned data)"));
    if live.index.headers().parent(id).is_none() {
        return Ok(Vec::new());
    }
    let bytes = live.block(id)?.ok_or_else(pruned)?;
    let undo = live.undo(id)?.ok_or_else(pruned)?;
    let damaged = |what: &str| Refusal::from(RpcError::misc(format!("block {hash}: {what}")));
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).map_err(|why| damaged(&why.to_string()))?;
    let coins = spent_coins(&undo, &block).ok_or_else(|| damaged("its undo data is that of another block"))?;
    let short = |(at, _): (usize, _)| {
        let outpoint = block.input(at + 1).prevout_bytes();
        let digest = sha256(&[&outpoint[..], hash.as_bytes()].concat());
        *digest.first_chunk().expect("a digest has more")
    };
    let taproot = coins.iter().enumerate();
    Ok(taproot.filter(|(_, coin)| coin.script.raw().is_some_and(|raw| taproot_key(raw).is_some())).map(short).collect())
}

fn spent_filter(context: &Context, live: &Live, height: &str) -> Answer {
    let (id, hash, height) = block_at(live, height)?;
    let spent = spent(context, live, id, &hash)?;
    put_filter(hash, height, 5, &spent.iter().map(|short| &short[..]).collect::<Vec<_>>())
}

fn spent_index(context: &Context, live: &Live, height: &str) -> Answer {
    let (id, hash, _) = block_at(live, height)?;
    let spent = spent(context, live, id, &hash)?;
    object(|json| {
        json.key("block_hash").hash(&hash.to_hash256());
        json.key("data");
        json.open_list();
        spent.iter().for_each(|short| json.hex(short));
        json.close_list();
        Ok(())
    })
}
