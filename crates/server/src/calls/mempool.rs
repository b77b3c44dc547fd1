//! Calls about the mempool, which has only transactions of disconnected blocks; and which block spends an output,
//! from txospenderindex.
//!
//! Source: Bitcoin Core b88bffe, rpc/mempool.cpp. Relay settings are Core's defaults: ffwd relays no transactions.

use super::indexed::is_index_ready;
#[cfg(not(feature = "regtest-tools"))]
use super::mempool_empty as shown;
#[cfg(feature = "regtest-tools")]
use super::mempool_shown as shown;
use crate::args::{self, Args, boolean, int};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use indexes::IndexKind;
use node::handle::Live;
use node::mempool::{CLUSTER_MAX, MIN_FEE_RATE};
use primitives::{BlockHash, OutPoint, Tables, Txid, hex};

/// Core's `-maxmempool` by default.
const MEMPOOL_BYTES: u64 = 300_000_000;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "getmempoolancestors",
        about: "If txid is in the mempool, returns all in-mempool ancestors.",
        args: FAMILY,
        run: Run::Now(shown::ancestors),
    },
    Call {
        category: "blockchain",
        name: "getmempooldescendants",
        about: "If txid is in the mempool, returns all in-mempool descendants.",
        args: FAMILY,
        run: Run::Now(shown::descendants),
    },
    Call {
        category: "blockchain",
        name: "getmempoolentry",
        about: "Returns mempool data for given transaction.",
        args: &[Arg::needed("txid", Kind::Hex, "The transaction id (must be in mempool)")],
        run: Run::Now(shown::entry),
    },
    Call {
        category: "blockchain",
        name: "getmempoolinfo",
        about: "Returns details on the active state of the TX memory pool.\n\
                ffwd relays no transactions: those of blocks that a reorg took off the chain, and those that calls gave on regtest.",
        args: &[],
        run: Run::Now(get_mempool_info),
    },
    Call {
        category: "blockchain",
        name: "getrawmempool",
        about: "Returns all transaction ids in memory pool as a json array of string transaction ids.\n\
                ffwd relays no transactions: those of blocks that a reorg took off the chain, and those that calls gave on regtest.",
        args: &[
            Arg::optional("verbose", Kind::Bool, "True for a json object, false for array of transaction ids"),
            Arg::optional(
                "mempool_sequence",
                Kind::Bool,
                "If verbose=false, returns a json object with transaction list and mempool sequence number attached.",
            ),
        ],
        run: Run::Now(get_raw_mempool),
    },
    Call {
        category: "blockchain",
        name: "gettxspendingprevout",
        about: "Scans the mempool (and the txospenderindex, if available) to find transactions spending any of the given outputs",
        args: &[
            Arg::needed(
                "outputs",
                Kind::Arr,
                "The transaction outputs that we want to check, and within each, the txid (string) vout (numeric).",
            )
            .shown_as("[{\"txid\":\"hex\",\"vout\":n},...]"),
            Arg::optional(
                "options",
                Kind::NamedParams(&[
                    Arg::optional(
                        "mempool_only",
                        Kind::Bool,
                        "If false and mempool lacks a relevant spend, use txospenderindex (throws an exception if not available).",
                    ),
                    Arg::optional("return_spending_tx", Kind::Bool, "If true, return the full spending tx."),
                ]),
                "",
            )
            .shown_as("{\"mempool_only\":bool,\"return_spending_tx\":bool,...}"),
        ],
        run: Run::Now(get_tx_spending_prevout),
    },
];

const FAMILY: &[Arg] = &[
    Arg::needed("txid", Kind::Hex, "The transaction id (must be in mempool)"),
    Arg::optional("verbose", Kind::Bool, "True for a json object, false for array of transaction ids"),
];

fn get_mempool_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.live()?;
    let mempool = context.handle.mempool();
    let entries = mempool.entries();
    Ok(Json::object()
        .put("loaded", true)
        .put("size", entries.len())
        .put("bytes", entries.iter().map(|entry| entry.vsize()).sum::<u64>())
        .put("usage", mempool.memory_bytes())
        .put("total_fee", Json::amount(entries.iter().map(|entry| entry.fee.0).sum()))
        .put("maxmempool", MEMPOOL_BYTES)
        .put("mempoolminfee", Json::amount(MIN_FEE_RATE))
        .put("minrelaytxfee", Json::amount(MIN_FEE_RATE))
        .put("incrementalrelayfee", Json::amount(MIN_FEE_RATE))
        .put("unbroadcastcount", 0)
        .put("permitbaremultisig", true)
        .put("maxdatacarriersize", 100_000)
        .put("limitclustercount", CLUSTER_MAX)
        .put("limitclustersize", 101_000)
        .put("optimal", true)
        .end())
}

fn get_raw_mempool(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let verbose = args.bool_or(0, false)?;
    let with_sequence = args.bool_or(1, false)?;
    context.live()?;
    if verbose && with_sequence {
        return Err(RpcError::parameter("Verbose results cannot contain mempool sequence values."));
    }
    let sequence = context.handle.mempool().sequence();
    if verbose {
        return Ok(shown::all_detailed(context));
    }
    let txids = shown::all(context);
    Ok(if with_sequence { Json::object().put("txids", txids).put("mempool_sequence", sequence).end() } else { txids })
}

/// Fields of an object, with their types. Source: Core's `RPCTypeCheckObj`, strict.
fn check_fields(object: &Json, expected: &[(&str, &str)], allows_null: bool) -> Result<(), RpcError> {
    let of_type = |why: String| Err(RpcError::new(Code::Type, why));
    for (name, wanted) in expected {
        let value = object.field(name).unwrap_or(&Json::Null);
        match value.type_name() {
            "null" if allows_null => {}
            "null" => return of_type(format!("Missing {name}")),
            found if found == *wanted => {}
            found => {
                return of_type(format!(
                    "JSON value of type {found} for field {name} is not of expected type {wanted}"
                ));
            }
        }
    }
    let Json::Obj(fields) = object else { return Ok(()) };
    match fields.iter().find(|(name, _)| !expected.iter().any(|(known, _)| known == name)) {
        Some((name, _)) => of_type(format!("Unexpected key {name}")),
        None => Ok(()),
    }
}

fn outpoint(output: &Json) -> Result<OutPoint, RpcError> {
    if !matches!(output, Json::Obj(_)) {
        return Err(RpcError::of_type(output, "object"));
    }
    check_fields(output, &[("txid", "string"), ("vout", "number")], false)?;
    let field = |name: &str| output.field(name).unwrap_or(&Json::Null);
    let txid = Txid::from_hash256(args::hash(field("txid"), "txid")?);
    let vout: i32 = int(field("vout"))?;
    let vout = u32::try_from(vout).map_err(|_| RpcError::parameter("Invalid parameter, vout cannot be negative"))?;
    Ok(OutPoint { txid, vout })
}

fn get_tx_spending_prevout(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let outputs = args.list(0)?;
    if outputs.is_empty() {
        return Err(RpcError::parameter("Invalid parameter, outputs are missing"));
    }
    let options = args.get(1);
    check_fields(options, &[("mempool_only", "bool"), ("return_spending_tx", "bool")], true)?;
    let live = context.live()?;
    let has_index = live.has_index(IndexKind::TxoSpender);
    let only_mempool = options.field("mempool_only").map_or(Ok(!has_index), boolean)?;
    let with_tx = options.field("return_spending_tx").map_or(Ok(false), boolean)?;
    let outpoints = outputs.iter().map(outpoint).collect::<Result<Vec<_>, _>>()?;
    let mempool = context.handle.mempool();
    let spenders: Vec<_> = outpoints.iter().map(|outpoint| mempool.spender(outpoint)).collect();
    let is_answered = only_mempool || spenders.iter().all(Option::is_some);
    if !is_answered && (!has_index || !is_index_ready(context, &live, IndexKind::TxoSpender)?) {
        return Err(RpcError::misc("Mempool lacks a relevant spend, and txospenderindex is unavailable."));
    }
    let both = outputs.iter().zip(&outpoints).zip(spenders);
    let found: Result<Vec<Json>, RpcError> = both
        .map(|((output, at), waiting)| match waiting {
            Some(entry) => Ok(with_spender(output, &entry.txid, with_tx.then_some(&entry.bytes), None)),
            None if only_mempool => Ok(output.clone()),
            None => spender_in_block(&live, output, at, with_tx),
        })
        .collect();
    Ok(found?.into())
}

/// The requested output, and the transaction of a block that spends it, if there is one.
fn spender_in_block(live: &Live, output: &Json, outpoint: &OutPoint, with_tx: bool) -> Result<Json, RpcError> {
    let Some((bytes, id)) = live.spender(outpoint)? else { return Ok(output.clone()) };
    let mut tables = Tables::new();
    let txid = super::transaction::stored(&mut tables, &bytes)?.txid();
    let hash = live.index.headers().hash(id);
    Ok(with_spender(output, &txid, with_tx.then_some(&bytes), Some(hash)))
}

/// The requested output, and its spender.
fn with_spender(output: &Json, txid: &Txid, bytes: Option<&Vec<u8>>, block: Option<BlockHash>) -> Json {
    let Json::Obj(mut fields) = output.clone() else { return output.clone() };
    let mut put = |name: &'static str, value: Json| fields.push((name.into(), value));
    put("spendingtxid", (*txid).into());
    if let Some(bytes) = bytes {
        put("spendingtx", hex::encode(bytes).into());
    }
    if let Some(hash) = block {
        put("blockhash", hash.into());
    }
    Json::Obj(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_are_read_with_cores_errors() {
        let id = "11".repeat(32);
        for (json, want) in [
            (format!("{{\"txid\":\"{id}\",\"vout\":3}}"), "3".to_owned()),
            (format!("{{\"txid\":\"{id}\"}}"), "-3 Missing vout".to_owned()),
            ("{\"vout\":3}".to_owned(), "-3 Missing txid".to_owned()),
            (
                format!("{{\"txid\":\"{id}\",\"vout\":\"3\"}}"),
                "-3 JSON value of type string for field vout is not of expected type number".to_owned(),
            ),
            (format!("{{\"txid\":\"{id}\",\"vout\":3,\"n\":1}}"), "-3 Unexpected key n".to_owned()),
            (format!("{{\"txid\":\"{id}\",\"vout\":-1}}"), "-8 Invalid parameter, vout cannot be negative".to_owned()),
            (format!("{{\"txid\":\"{id}\",\"vout\":4294967296}}"), "-1 JSON integer out of range".to_owned()),
            ("{\"txid\":\"11\",\"vout\":3}".to_owned(), "-8 txid must be of length 64 (not 2, for '11')".to_owned()),
            ("7".to_owned(), "-3 JSON value of type number is not of expected type object".to_owned()),
        ] {
            let found = outpoint(&Json::parse(json.as_bytes()).unwrap());
            let found =
                found.map_or_else(|why| format!("{} {}", why.code as i32, why.message), |at| at.vout.to_string());
            assert_eq!(found, want, "{json}");
        }
    }
}
