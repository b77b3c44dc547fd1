//! Calls about the program. Source: Bitcoin Core b88bffe, rpc/node.cpp.

use crate::args::{Args, text};
use crate::context::Context;
use crate::error::RpcError;
use crate::json::{Fields, Json};
use crate::registry::{Arg, Call, Kind, Run};
use node::LOG_CATEGORIES;
use node::options::IndexKind;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "util",
        name: "getindexinfo",
        about: "Returns the status of one or all available indices currently running in the node.",
        args: &[Arg::optional("index_name", Kind::Str, "Filter results for an index with a specific name.")],
        run: Run::Now(get_index_info),
    },
    Call {
        category: "control",
        name: "getmemoryinfo",
        about: "Returns an object containing information about memory usage.",
        args: &[Arg::optional("mode", Kind::Str, "determines what kind of information is returned: \"stats\".")],
        run: Run::Now(get_memory_info),
    },
    Call {
        category: "control",
        name: "logging",
        about: "Gets and sets the logging configuration.\n\
                When called without an argument, returns the list of categories with status that are currently being debug logged or not. \
                ffwd takes them as Core does, and writes lines of the categories bench and net alone, where it was started with them.\n\
                The valid logging categories are: addrman, bench, blockstorage, cmpctblock, coindb, estimatefee, http, i2p, ipc, kernel, leveldb, \
                mempool, mempoolrej, net, privatebroadcast, proxy, prune, qt, rand, reindex, rpc, scan, selectcoins, tor, txpackages, \
                txreconciliation, validation, walletdb, zmq",
        args: &[
            Arg::optional("include", Kind::Arr, "The categories to add to debug logging")
                .shown_as("[\"include_category\",...]"),
            Arg::optional("exclude", Kind::Arr, "The categories to remove from debug logging")
                .shown_as("[\"exclude_category\",...]"),
        ],
        run: Run::Now(logging),
    },
    Call {
        category: "hidden",
        name: "setmocktime",
        about: "Set the local time to given timestamp (-regtest only)",
        args: &[Arg::needed("timestamp", Kind::Num, "Unix epoch time; 0 to go back to using the system time.")],
        run: Run::Now(set_mock_time),
    },
];

fn get_index_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let wanted = args.maybe_text(0)?.unwrap_or_default();
    let live = context.live()?;
    let positions = live.index_positions();
    let index = live.index.read();
    let tree = index.headers();
    let tip = index.headers().hash(index.tip());
    let one = |fields: Fields, kind: IndexKind| {
        let name = if kind == IndexKind::BlockFilter { "basic block filter index" } else { kind.name() };
        let Some((_, best)) = positions.iter().find(|(of, _)| *of == kind) else { return fields };
        if !wanted.is_empty() && wanted != name {
            return fields;
        }
        let height = best.and_then(|best| tree.find(&best)).map_or(0, |id| tree.height(id).to_u32());
        let is_synced = context.has_synced(kind, *best == Some(tip));
        let entry = Json::object().put("synced", is_synced).put("best_block_height", height).end();
        fields.put(name, entry)
    };
    // In Core's order; the last is ffwd's own.
    let kinds =
        [IndexKind::Tx, IndexKind::CoinStats, IndexKind::TxoSpender, IndexKind::BlockFilter, IndexKind::SilentPayments];
    Ok(kinds.into_iter().fold(Json::object(), one).end())
}

fn get_memory_info(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    match args.maybe_text(0)?.unwrap_or("stats") {
        "stats" => {
            // In Core, locked memory holds keys of wallets. ffwd has no wallet.
            let names = ["used", "free", "total", "locked", "chunks_used", "chunks_free"];
            let locked = names.into_iter().fold(Json::object(), |fields, name| fields.put(name, 0));
            Ok(Json::object().put("locked", locked).end())
        }
        "mallocinfo" => Err(RpcError::parameter("mallocinfo mode not available")),
        mode => Err(RpcError::parameter(format!("unknown mode {mode}"))),
    }
}

fn logging(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    context.live()?;
    for (at, include) in [(0, true), (1, false)] {
        let Json::Arr(names) = args.get(at) else { continue };
        for name in names {
            let name = text(name)?;
            let is_all = matches!(name, "" | "1" | "all");
            let mut found = LOG_CATEGORIES.into_iter().filter(|one| is_all || *one == name).peekable();
            if found.peek().is_none() && name != "libevent" {
                return Err(RpcError::parameter(format!("unknown logging category {name}")));
            }
            found.for_each(|one| context.set_logging(one, include));
        }
    }
    let fields = LOG_CATEGORIES.into_iter().fold(Json::object(), |fields, name| {
        let is_on = context.is_logging(name).unwrap_or(false);
        fields.put(name, is_on)
    });
    Ok(fields.end())
}

fn set_mock_time(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let Some(set) = context.program.set_mock_time else {
        return Err(RpcError::misc("setmocktime is for regression testing (-regtest mode) only"));
    };
    let time = args.int64(0)?;
    match u32::try_from(time) {
        Ok(time) => set(u64::from(time)),
        Err(_) => {
            let why = format!("Mocktime must be in the range [0, {}], not {time}.", u32::MAX);
            return Err(RpcError::parameter(why));
        }
    }
    Ok(Json::Null)
}
