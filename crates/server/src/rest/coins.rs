//! Transactions and coins over REST. Source: Bitcoin Core b88bffe, rest.cpp; BIP-0064.

use super::blocks::put_output;
use super::{Answer, Format, NO_STORE, Query, Refusal, Reply, bad, integral, missing, no_format, split_format};
use crate::calls::coins::{coin_of, decoded};
use crate::calls::indexed::is_index_ready;
use crate::calls::transaction::{Found, find_transaction};
use crate::context::Context;
use crate::error::RpcError;
use crate::output::Prefixes;
use crate::text::JsonText;
use crate::tx_json::{Details, Show, TxHead, put_parsed, put_script_of_coin};
use indexes::IndexKind;
use node::handle::Live;
use primitives::encode::{DecodeError, Reader, put_compact_size};
use primitives::{OutPoint, Tables, Txid, hex};

/// A transaction, by txindex.
pub(super) fn transaction(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let (text, format) = split_format(query.path);
    let txid = Txid::from_display(text).ok_or_else(|| bad(format!("Invalid hash: {text}")))?;
    if live.has_index(IndexKind::Tx) {
        is_index_ready(context, live, IndexKind::Tx)?;
    }
    let found = find_transaction(context, live, &txid, None)?;
    let Found { bytes, block } = found.ok_or_else(|| missing(format!("{text} not found")))?;
    if format != Format::Json {
        return Reply::bytes(format, NO_STORE, bytes);
    }
    let mut tables = Tables::new();
    let tx = tables.parse_transaction(&bytes).map_err(|why| RpcError::misc(why.to_string()))?;
    let prefixes = Prefixes::of(live.params().chain);
    let show = Show { prefixes: &prefixes, spent: None, details: Details::Plain };
    let mut json = JsonText::new();
    json.open();
    put_parsed(&mut json, &tx, &TxHead::of(&tx), &show).expect("without spent coins there is no fee");
    if let Some(id) = block {
        json.key("blockhash").hash(&live.index.headers().hash(id).to_hash256());
    }
    json.key("hex").hex(&bytes);
    json.close();
    Ok(Reply::json(NO_STORE, json.into_bytes()))
}

/// Maximum number of coins in a request.
const OUTPOINTS_MAX: usize = 15;

/// The request.
#[derive(Debug)]
struct Asked {
    outpoints: Vec<OutPoint>,
    /// Whether outputs of mempool transactions count as coins, and outputs that they spend do not.
    with_mempool: bool,
    format: Format,
}

/// Parses the request from the path, or the body.
fn asked(query: &Query<'_>) -> Result<Asked, Refusal> {
    let (path, format) = split_format(query.path);
    let empty = || bad("Error: empty request");
    let parts: Vec<&str> = if path.len() > 1 { path[1..].split('/').collect() } else { Vec::new() };
    if query.body.is_empty() && parts.is_empty() {
        return Err(empty());
    }
    let mut outpoints = Vec::new();
    let mut with_mempool = parts.first() == Some(&"checkmempool");
    let named = if with_mempool { &parts[1..] } else { &parts[..] };
    for part in named {
        let pieces: Vec<&str> = part.split('-').collect();
        let [txid, vout] = pieces[..] else { return Err(bad("Parse error")) };
        let txid = Txid::from_display(txid);
        let vout = integral::<u32>(vout);
        let (Some(txid), Some(vout)) = (txid, vout) else { return Err(bad("Parse error")) };
        outpoints.push(OutPoint { txid, vout });
    }
    if !parts.is_empty() && outpoints.is_empty() {
        return Err(empty());
    }
    let body = match format {
        Format::Binary => query.body.to_vec(),
        Format::Hex => digits(query.body),
        Format::Json if outpoints.is_empty() => return Err(empty()),
        Format::Json => Vec::new(),
        Format::Unknown => return Err(no_format()),
    };
    if !body.is_empty() {
        if !outpoints.is_empty() {
            return Err(bad("Combination of URI scheme inputs and raw post data is not allowed"));
        }
        // The byte read as the flag is not 0.
        with_mempool = true;
        outpoints = read_outpoints(&body).map_err(|_| bad("Parse error"))?;
    }
    if outpoints.len() > OUTPOINTS_MAX {
        let tried = outpoints.len();
        return Err(bad(format!("Error: max outpoints exceeded (max: {OUTPOINTS_MAX}, tried: {tried})")));
    }
    Ok(Asked { outpoints, with_mempool, format })
}

/// Decodes hexadecimal digits with optional spaces; empty for any other text. Source: Core's `ParseHex`.
fn digits(body: &[u8]) -> Vec<u8> {
    let text: String = body.iter().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| char::from(*byte)).collect();
    hex::decode(&text).unwrap_or_default()
}

/// Parses the outpoints of a body.
///
/// Core writes the body with its length into a stream and parses that: the first byte of the length is read as the flag
/// of BIP-0064, and the count begins right after that byte. So a short body begins with its count.
fn read_outpoints(body: &[u8]) -> Result<Vec<OutPoint>, DecodeError> {
    let mut stream = Vec::with_capacity(body.len() + 9);
    put_compact_size(&mut stream, body.len() as u64);
    stream.extend_from_slice(body);
    let mut reader = Reader::at(&stream, 1);
    let count = reader.compact_size()?;
    let mut outpoints = Vec::with_capacity(count.min(reader.remaining() / OutPoint::BYTES));
    for _ in 0..count {
        outpoints.push(OutPoint::from_bytes(reader.array()?));
    }
    Ok(outpoints)
}

/// Coins of the tip.
pub(super) fn outputs(context: &Context, live: &Live, query: &Query<'_>) -> Answer {
    let Asked { outpoints, with_mempool, format } = asked(query)?;
    let mempool = context.handle.mempool().clone();
    let (stored, tip) = context.ask(move |quiet| {
        let mempool = with_mempool.then_some(&*mempool);
        let stored =
            outpoints.iter().map(|outpoint| coin_of(quiet, outpoint, mempool)).collect::<Result<Vec<_>, _>>()?;
        Ok((stored, quiet.tip()))
    })?;
    let height = live.index.headers().height(tip.0).to_u32();
    let coins = stored.iter().flatten().map(|stored| decoded(stored)).collect::<Result<Vec<_>, RpcError>>()?;
    let hits: Vec<bool> = stored.iter().map(Option::is_some).collect();
    if format == Format::Json {
        let mut json = JsonText::new();
        let mut script = Vec::new();
        json.open();
        json.key("chainHeight").number(u64::from(height));
        json.key("chaintipHash").hash(&tip.1.to_hash256());
        json.key("bitmap").plain(|out| out.extend(hits.iter().map(|hit| b'0' + u8::from(*hit))));
        json.key("utxos").open_list();
        let prefixes = Prefixes::of(live.params().chain);
        for coin in &coins {
            json.open();
            json.key("height").number(u64::from(coin.height.to_u32()));
            json.key("value").amount(coin.value);
            put_script_of_coin(&mut json, coin, &prefixes, &mut script);
            json.close();
        }
        json.close_list();
        json.close();
        return Ok(Reply::json(NO_STORE, json.into_bytes()));
    }
    let mut out = height.to_le_bytes().to_vec();
    let mut script = Vec::new();
    out.extend_from_slice(tip.1.as_bytes());
    out.push(hits.len().div_ceil(8) as u8);
    out.extend(hits.chunks(8).map(|byte| byte.iter().rev().fold(0, |bits, hit| bits << 1 | u8::from(*hit))));
    out.push(coins.len() as u8);
    for coin in &coins {
        // Core once had the version of the transaction here.
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&coin.height.to_u32().to_le_bytes());
        put_output(&mut out, coin, &mut script);
    }
    Reply::bytes(format, NO_STORE, out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outpoints_are_asked_for_by_path_or_body() {
        let txid = "11".repeat(32);
        let one = [&[1][..], &[0x11; 32], &[3, 0, 0, 0]].concat();
        // Of its length, fd 10 03, the second byte is the count.
        let many = [0; 0x0310];
        let ask = |path: &str, body: &[u8]| match asked(&Query { path, target: path, body }) {
            Ok(found) => Ok(found.outpoints.iter().map(|outpoint| outpoint.vout).collect::<Vec<u32>>()),
            Err(why) => Err(why.message),
        };
        assert_eq!(ask(&format!("/{txid}-3/{txid}-0.json"), &[]), Ok(vec![3, 0]));
        assert_eq!(ask(&format!("/checkmempool/{txid}-7.bin"), &[]), Ok(vec![7]));
        assert_eq!(ask(".bin", &one), Ok(vec![3]));
        assert_eq!(ask("/.hex", format!(" {}\n", hex::encode(&one)).as_bytes()), Ok(vec![3]));
        for (path, body, want) in [
            (".json".to_owned(), &[][..], "Error: empty request"),
            ("/checkmempool.json".to_owned(), &[], "Error: empty request"),
            (".json".to_owned(), &one, "Error: empty request"),
            ("/zz-1.json".to_owned(), &[], "Parse error"),
            (format!("/{txid}.json"), &[], "Parse error"),
            (format!("/{txid}--1.json"), &[], "Parse error"),
            (format!("/{txid}-4294967296.json"), &[], "Parse error"),
            (format!("/{txid}-1.bin"), &one, "Combination of URI scheme inputs and raw post data is not allowed"),
            (".bin".to_owned(), &one[..20], "Parse error"),
            (".bin".to_owned(), &many, "Error: max outpoints exceeded (max: 15, tried: 16)"),
            (format!("/{txid}-1"), &[], "output format not found (available: .bin, .hex, .json)"),
        ] {
            assert_eq!(ask(&path, body), Err(want.to_owned()), "{path}");
        }
    }
}
