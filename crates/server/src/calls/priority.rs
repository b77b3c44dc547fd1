//! Calls that change when a mempool transaction is mined. Source: Bitcoin Core b88bffe, rpc/mining.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "mining",
        name: "getprioritisedtransactions",
        about: "Returns a map of all user-created (see prioritisetransaction) fee deltas by txid, and whether the tx is present \
                in mempool.",
        args: &[],
        run: Run::Now(get_prioritised_transactions),
    },
    Call {
        category: "mining",
        name: "prioritisetransaction",
        about: "Accepts the transaction into mined blocks at a higher (or lower) priority",
        args: &[
            Arg::needed("txid", Kind::Hex, "The transaction id."),
            Arg::optional("dummy", Kind::Num, "API-Compatibility for previous API. Must be zero or null."),
            Arg::needed(
                "fee_delta",
                Kind::Num,
                "The fee value (in satoshis) to add (or subtract, if negative).\n\
                 The fee is not actually paid, only the algorithm for selecting transactions into a block considers it.",
            ),
        ],
        run: Run::Now(prioritise_transaction),
    },
];

fn get_prioritised_transactions(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    context.live()?;
    let mempool = context.handle.mempool();
    let fields = mempool.fee_deltas().into_iter().fold(Json::object(), |fields, (txid, delta)| {
        let entry = mempool.get(&txid);
        let shown = Json::object()
            .put("fee_delta", delta)
            .put("in_mempool", entry.is_some())
            .put_some("modified_fee", entry.map(|entry| entry.modified_fee()));
        fields.put(txid.to_string(), shown.end())
    });
    Ok(fields.end())
}

/// The obsolete parameter, 0 if it is missing. Source: Core's `UniValue::get_real`.
fn dummy(value: &Json) -> Result<f64, RpcError> {
    let number: f64 = match value {
        Json::Int(number) => *number as f64,
        Json::Num(text) => text.parse().unwrap_or(f64::INFINITY),
        _ => 0.0,
    };
    if number.is_finite() { Ok(number) } else { Err(RpcError::misc("JSON double out of range")) }
}

fn prioritise_transaction(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let txid = args.txid(0, "txid")?;
    let dummy = dummy(args.get(1))?;
    let satoshis = args.int64(2)?;
    if dummy != 0.0 {
        let why = "Priority is no longer supported, dummy argument to prioritisetransaction must be 0.";
        return Err(RpcError::parameter(why));
    }
    let mempool = context.handle.mempool().clone();
    let done = context.ask(move |_| Ok(mempool.prioritise(txid, satoshis)))?;
    done.map_err(|_| RpcError::parameter("Priority is not supported for transactions with dust outputs."))?;
    Ok(Json::Bool(true))
}
