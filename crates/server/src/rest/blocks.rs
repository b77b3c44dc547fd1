//! Blocks and headers over REST. Source: Bitcoin Core b88bffe, rest.cpp.

use super::{Answer, Format, IMMUTABLE, NO_STORE, Query, Refusal, Reply, bad, hash, header_count, integral, missing};
use super::{no_format, parameter, split_format};
use crate::calls::block::shown_block;
use crate::calls::block_json::Transactions;
use crate::calls::view::HeaderView;
use crate::context::Context;
use crate::output::Prefixes;
use crate::text::JsonText;
use crate::tx_json::{Details, put_script_of_coin};
use axum::http::StatusCode;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::encode::put_compact_size;
use primitives::undo::UndoReader;
use primitives::{CoinRef, DecodeError};
use sys::spill::Spill;

/// A block with whole transactions and their spent outputs.
pub(super) fn whole(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    block(live, query, Transactions::Whole(Details::Prevouts))
}

/// A block with the ids of its transactions.
pub(super) fn without_details(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    block(live, query, Transactions::Ids)
}

/// The known block with the hash in the path.
fn find(live: &Live, text: &str) -> Result<NodeId, Refusal> {
    let hash = hash(text)?;
    live.index.headers().find(&hash).ok_or_else(|| missing(format!("{text} not found")))
}

fn not_there(live: &Live, id: NodeId, text: &str) -> Refusal {
    let is_pruned = live.index.read().body(id).is_pruned();
    missing(format!("{text} not available ({})", if is_pruned { "pruned data" } else { "not fully downloaded" }))
}

fn unreadable(text: &str) -> Refusal {
    Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message: format!("I/O error reading {text}") }
}

fn block(live: &Live, query: &Query<'_>, transactions: Transactions) -> Answer {
    let (text, format) = split_format(query.path);
    let id = find(live, text)?;
    let bytes = live.block(id).map_err(|_| unreadable(text))?;
    let bytes = bytes.ok_or_else(|| not_there(live, id, text))?;
    match format {
        Format::Json => Ok(Reply::json(NO_STORE, shown_block(live, id, &bytes, transactions)?.into_bytes())),
        format => Reply::bytes(format, IMMUTABLE, bytes),
    }
}

/// A range of a block's bytes.
pub(super) fn part(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let number = |name: &str| {
        let number = integral::<usize>(&parameter(query.target, name).unwrap_or_default());
        number.ok_or_else(|| bad(format!("Block part {name} missing or invalid")))
    };
    let offset = number("offset")?;
    let size = number("size")?;
    let (text, format) = split_format(query.path);
    let id = find(live, text)?;
    let part = live.block_part(id, offset, size).map_err(|_| unreadable(text))?;
    let part = part.ok_or_else(|| not_there(live, id, text))?;
    let part = part.ok_or_else(|| bad(format!("Bad block part offset/size {offset}/{size} for {text}")))?;
    match format {
        Format::Json => Err(bad("JSON output is not supported for this request type")),
        format => Reply::bytes(format, IMMUTABLE, part),
    }
}

/// Headers of the active chain from a block on.
pub(super) fn headers(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (path, format) = split_format(query.path);
    let parts: Vec<&str> = path.split('/').collect();
    let (count, text) = match parts[..] {
        [count, text] => (count.to_owned(), text),
        [text] => (parameter(query.target, "count").unwrap_or_else(|| "5".into()), text),
        _ => return Err(bad("Invalid URI format. Expected /rest/headers/<hash>.<ext>?count=<count>")),
    };
    let count = header_count(&count)?;
    let hash = hash(text)?;
    let views: Vec<HeaderView> = {
        let index = live.index.read();
        let first = index.headers().find(&hash).filter(|id| index.is_active(*id));
        let from = first.map_or(index.active().len(), |id| index.headers().height(id).to_usize());
        index.active()[from..].iter().take(count).map(|id| HeaderView::of(&index, *id)).collect()
    };
    if format == Format::Json {
        let mut json = JsonText::new();
        json.open_list();
        views.iter().for_each(|view| json.raw(&view.fields().end().text()));
        json.close_list();
        return Ok(Reply::json(NO_STORE, json.into_bytes()));
    }
    let bytes = views.iter().flat_map(|view| view.header.0).collect();
    Reply::bytes(format, NO_STORE, bytes)
}

/// The hash of the active block at a height.
pub(super) fn hash_by_height(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (text, format) = split_format(query.path);
    let height = integral::<i32>(text).and_then(|height| usize::try_from(height).ok());
    let height = height.ok_or_else(|| bad(format!("Invalid height: {}", sanitized(text))))?;
    let found = {
        let index = live.index.read();
        index.active().get(height).map(|id| index.headers().hash(*id))
    };
    let hash = found.ok_or_else(|| missing("Block height out of range"))?;
    match format {
        Format::Binary => Ok(Reply::binary(NO_STORE, hash.as_bytes().to_vec())),
        Format::Hex => Ok(Reply::good("text/plain", NO_STORE, format!("{hash}\n").into_bytes())),
        Format::Json => Ok(Reply::json(NO_STORE, format!("{{\"blockhash\":\"{hash}\"}}").into_bytes())),
        Format::Unknown => Err(no_format()),
    }
}

/// Only characters that a URL may have. Source: Core's `SanitizeString` with `SAFE_CHARS_URI`.
fn sanitized(text: &str) -> String {
    text.chars().filter(|char| char.is_ascii_alphanumeric() || "!*'();:@&=+$,/?#[]-_.~%".contains(*char)).collect()
}

/// The outputs that a block spent, by transaction.
pub(super) fn spent_outputs(_context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (text, format) = split_format(query.path);
    if text.contains('/') {
        return Err(bad("Invalid URI format. Expected /rest/spenttxouts/<hash>.<ext>"));
    }
    let id = find(live, text)?;
    let is_genesis = live.index.headers().parent(id).is_none();
    // Genesis has no undo data.
    let undo = if is_genesis { Some(Spill::from(&[0][..])) } else { live.undo(id).ok().flatten() };
    let unavailable = || missing(format!("{text} undo not available"));
    let undo = undo.ok_or_else(unavailable)?;
    if format == Format::Json {
        let prefixes = Prefixes::of(live.params().chain);
        let json = spent_json(&undo, &prefixes).map_err(|_| unavailable())?;
        return Ok(Reply::json(IMMUTABLE, json.into_bytes()));
    }
    Reply::bytes(format, IMMUTABLE, spent_bytes(&undo).map_err(|_| unavailable())?)
}

/// The spent outputs as bytes: counts, and outputs as in transactions. Source: Core's `SerializeBlockUndo`.
fn spent_bytes(undo: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let mut out = Vec::with_capacity(2 * undo.len());
    let mut reader = UndoReader::new(undo);
    let mut script = Vec::new();
    let transactions = reader.count()?;
    put_compact_size(&mut out, transactions as u64 + 1);
    // The coinbase spends nothing.
    out.push(0);
    for _ in 0..transactions {
        let inputs = reader.count()?;
        put_compact_size(&mut out, inputs as u64);
        for _ in 0..inputs {
            put_output(&mut out, &reader.entry()?, &mut script);
        }
    }
    reader.finish()?;
    Ok(out)
}

/// Appends a coin's output: amount, length of the script, script. `script` is a reused buffer.
pub(super) fn put_output(out: &mut Vec<u8>, coin: &CoinRef<'_>, script: &mut Vec<u8>) {
    script.clear();
    coin.script.append_to(script);
    out.extend_from_slice(&coin.value.0.to_le_bytes());
    put_compact_size(out, script.len() as u64);
    out.extend_from_slice(script);
}

/// Source: Core's `BlockUndoToJSON`.
fn spent_json(undo: &[u8], prefixes: &Prefixes) -> Result<JsonText, DecodeError> {
    let mut reader = UndoReader::new(undo);
    let mut script = Vec::new();
    let mut json = JsonText::new();
    let transactions = reader.count()?;
    json.open_list();
    json.open_list();
    json.close_list();
    for _ in 0..transactions {
        json.open_list();
        for _ in 0..reader.count()? {
            let coin = reader.entry()?;
            json.open();
            json.key("value").amount(coin.value);
            put_script_of_coin(&mut json, &coin, prefixes, &mut script);
            json.close();
        }
        json.close_list();
    }
    json.close_list();
    reader.finish()?;
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::Chain;
    use primitives::hex;

    /// Undo data of a block with one transaction that spends the coinbase of mainnet's block 1.
    #[test]
    fn spent_outputs_are_shown_in_each_form() {
        let undo = hex::decode("01010300320496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52").unwrap();
        let key = "0496b538e853519c726a2c91e61ec11600ae1390813a627c66fb8be7947be63c52da7589379515d4e0a604f8141781e62294721166bf621e73a82cbf2342c858ee";
        let bytes = spent_bytes(&undo).unwrap();
        assert_eq!(hex::encode(&bytes), format!("02000100f2052a010000004341{key}ac"));
        let json = spent_json(&undo, &Prefixes::of(Chain::Main)).unwrap().into_string();
        assert!(
            json.starts_with(&format!("[[],[{{\"value\":50.00000000,\"scriptPubKey\":{{\"asm\":\"{key} OP_CHECKSIG\"")),
            "{json}"
        );
        assert_eq!(spent_bytes(&[0]).unwrap(), [1, 0]);
        assert_eq!(spent_json(&[0], &Prefixes::of(Chain::Main)).unwrap().into_string(), "[[]]");
        for cut in 0..undo.len() {
            assert!(
                spent_bytes(&undo[..cut]).is_err() && spent_json(&undo[..cut], &Prefixes::of(Chain::Main)).is_err()
            );
        }
    }
}
