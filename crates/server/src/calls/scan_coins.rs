//! scantxoutset: searches all coins for scripts of descriptors. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use super::coins::snapshot;
use crate::args::{self, Args};
use crate::context::Context;
use crate::descriptor::{self, Expanded, Range};
use crate::error::RpcError;
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use crate::scan::{Needles, put_found};
use crate::text::JsonText;
use primitives::BlockHash;

/// This call.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "scantxoutset",
    about: "Scans the unspent transaction output set for entries that match certain output descriptors.\n\
                \"start\" starts a scan, \"abort\" ends one that runs, \"status\" reports its progress.",
    args: &[
        Arg::needed("action", Kind::Str, "start, abort or status"),
        Arg::optional("scanobjects", Kind::Arr, "Descriptors, or objects with desc and range")
            .shown_as("[scanobjects,...]"),
    ],
    run: Run::Now(scan_tx_out_set),
}];

/// The scripts of a descriptor in a request, with its range. Source: Core's `EvalDescriptorStringOrObject`.
pub(super) fn scan_object(value: &Json, prefixes: &Prefixes) -> Result<Expanded, RpcError> {
    let (text, range) = match value {
        Json::Str(text) => (&text[..], Range::default()),
        Json::Obj(_) => {
            let desc = value.field("desc").filter(|desc| !desc.is_null());
            let desc = desc.ok_or_else(|| RpcError::parameter("Descriptor needs to be provided in scan object"))?;
            let range = value.field("range").filter(|range| !range.is_null());
            (args::text(desc)?, range.map(parse_range).transpose()?.unwrap_or_default())
        }
        _ => return Err(RpcError::parameter("Scan object needs to be either a string or an object")),
    };
    descriptor::expand(text, range, prefixes).map_err(RpcError::not_found)
}

/// The end of a range, or both ends. Source: Core's `ParseDescriptorRange`.
pub(super) fn parse_range(value: &Json) -> Result<Range, RpcError> {
    let is_number = |value: &Json| matches!(value, Json::Int(_) | Json::Num(_));
    let (first, last): (i64, i64) = match value {
        Json::Arr(both) if both.len() == 2 && both.iter().all(is_number) => {
            (args::int(&both[0])?, args::int(&both[1])?)
        }
        value if is_number(value) => (0, args::int(value)?),
        _ => return Err(RpcError::parameter("Range must be specified as end or as [begin,end]")),
    };
    if matches!(value, Json::Arr(_)) && first > last {
        return Err(RpcError::parameter("Range specified as [begin,end] must not have begin after end"));
    }
    if first < 0 {
        return Err(RpcError::parameter("Range should be greater or equal than 0"));
    }
    if last >> 31 != 0 {
        return Err(RpcError::parameter("End of range is too high"));
    }
    if last >= first + RANGE_MAX {
        return Err(RpcError::parameter("Range is too large"));
    }
    Ok(Range { first: first as u32, last: last.max(0) as u32 })
}

/// Maximum number of positions in a range. Source: Core's `ParseDescriptorRange`.
const RANGE_MAX: i64 = 1_000_000;

fn scan_tx_out_set(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let scan = &context.scan;
    match args.text(0)? {
        "status" => Ok(match scan.progress() {
            Some(percent) => Json::object().put("progress", percent).end(),
            None => Json::Null,
        }),
        "abort" => Ok(Json::Bool(scan.abort())),
        "start" => {
            let turn = scan
                .begin()
                .ok_or_else(|| RpcError::parameter("Scan already in progress, use action \"abort\" or \"status\""))?;
            if !args.is_given(1) {
                return Err(RpcError::misc("scanobjects argument is required for the start action"));
            }
            let live = context.live()?;
            let prefixes = Prefixes::of(live.params().chain);
            let mut needles = Needles::default();
            for value in args.list(1)? {
                needles.add(scan_object(value, &prefixes)?, &prefixes);
            }
            let at = snapshot(context, &live)?;
            let found = turn.search(&at.coins, &needles, || context.is_stopping())?;
            let blocks: Vec<BlockHash> = {
                let tree = live.index.headers();
                found.coins.iter().map(|coin| tree.hash(tree.ancestor(at.tip, coin.height))).collect()
            };
            let mut json = JsonText::new();
            json.open();
            json.key("success").bool(found.is_complete);
            json.key("txouts").number(found.looked_at);
            json.key("height").number(u64::from(at.height.to_u32()));
            json.key("bestblock").hash(&at.best.to_hash256());
            put_found(&mut json, &found, &blocks, at.height);
            json.close();
            Ok(json.into_json())
        }
        other => Err(RpcError::parameter(format!("Invalid action '{other}'"))),
    }
}
