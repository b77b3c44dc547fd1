//! What clients ask of a mempool. There is none, so that these answers are those of an empty one; who spent an output in a block
//! is in txospenderindex.
//!
//! Source: Bitcoin Core b88bffe, rpc/mempool.cpp.

use super::indexed::is_index_ready;
use crate::args::{self, Args, boolean, int};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use indexes::IndexKind;
use node::handle::Live;
use primitives::{OutPoint, Tables, Txid, hex};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "getmempoolancestors",
        about: "If txid is in the mempool, returns all in-mempool ancestors. ffwd has no mempool: no transaction is in it.",
        args: FAMILY,
        run: Run::Now(relatives),
    },
    Call {
        category: "blockchain",
        name: "getmempooldescendants",
        about: "If txid is in the mempool, returns all in-mempool descendants. ffwd has no mempool: no transaction is in it.",
        args: FAMILY,
        run: Run::Now(relatives),
    },
    Call {
        category: "blockchain",
        name: "getmempoolentry",
        about: "Returns mempool data for given transaction. ffwd has no mempool: no transaction is in it.",
        args: &[Arg::needed("txid", Kind::Hex, "The transaction id (must be in mempool)")],
        run: Run::Now(entry),
    },
    Call {
        category: "blockchain",
        name: "gettxspendingprevout",
        about: "Scans the txospenderindex, if available, to find transactions spending any of the given outputs. ffwd has no mempool.",
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
                        "If false, use txospenderindex (throws an exception if not available).",
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

fn relatives(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    args.bool_or(1, false)?;
    entry(context, args)
}

fn entry(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    args.txid(0, "txid")?;
    Err(RpcError::not_found("Transaction not in mempool"))
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
    if only_mempool {
        return Ok(outputs.to_vec().into());
    }
    if !has_index || !is_index_ready(context, &live, IndexKind::TxoSpender)? {
        return Err(RpcError::misc("Mempool lacks a relevant spend, and txospenderindex is unavailable."));
    }
    let both = outputs.iter().zip(&outpoints);
    let found: Result<Vec<Json>, RpcError> =
        both.map(|(output, at)| with_spender(&live, output, at, with_tx)).collect();
    Ok(found?.into())
}

/// What was asked of an output, and the transaction that spends it, where one does.
fn with_spender(live: &Live, output: &Json, outpoint: &OutPoint, with_tx: bool) -> Result<Json, RpcError> {
    let Json::Obj(mut fields) = output.clone() else { return Ok(output.clone()) };
    let Some((bytes, id)) = live.spender(outpoint)? else { return Ok(Json::Obj(fields)) };
    let mut tables = Tables::new();
    let tx = super::transaction::stored(&mut tables, &bytes)?;
    let mut put = |name: &'static str, value: Json| fields.push((name.into(), value));
    put("spendingtxid", tx.txid().into());
    if with_tx {
        put("spendingtx", hex::encode(&bytes).into());
    }
    put("blockhash", live.index.headers().hash(id).into());
    Ok(Json::Obj(fields))
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
