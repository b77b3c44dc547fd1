//! Calls about snapshots of the UTXO set. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use super::info::known_transactions;
use super::view::by_hash_or_height;
use crate::args::Args;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use node::Fault;
use node::handle::NotLoaded;
use node::jobs::{check_snapshot, dump_live};
use std::path::{Path, PathBuf};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "dumptxoutset",
        about: "Write the serialized UTXO set to a file or a named pipe. This can be used in loadtxoutset afterwards if this snapshot height is supported in the chainparams as well.",
        args: &[
            Arg::needed("path", Kind::Str, "Path to the output file. If relative, will be prefixed by datadir."),
            Arg::optional(
                "type",
                Kind::Str,
                "The type of snapshot to create: \"latest\" for the current UTXO set or \"rollback\" for that of a historical block.",
            ),
            Arg::optional(
                "options",
                Kind::NamedParams(&[
                    Arg::optional("rollback", Kind::Num, "Height or hash of the block").unchecked(),
                    Arg::optional(
                        "in_memory",
                        Kind::Bool,
                        "Accepted for compatibility: memory is used while there is some",
                    ),
                ]),
                "",
            )
            .shown_as("{\"rollback\":n,\"in_memory\":bool,...}"),
        ],
        run: Run::Now(dump_tx_out_set),
    },
    Call {
        category: "blockchain",
        name: "loadtxoutset",
        about: "Load the serialized UTXO set from a file.\n\
                Once this snapshot is loaded, its contents will be deserialized into a second chainstate data structure, which is then used to sync to the network's tip.",
        args: &[Arg::needed("path", Kind::Str, "path to the snapshot file. If relative, will be prefixed by datadir.")],
        run: Run::Now(load_tx_out_set),
    },
];

fn dump_tx_out_set(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let kind = args.maybe_text(1)?.unwrap_or_default();
    let rollback = args.get(2).field("rollback").filter(|given| !given.is_null()).cloned();
    let live = context.live()?;
    let wanted = match (rollback, kind) {
        (Some(given), "" | "rollback") => Some(by_hash_or_height(&live, &given)?),
        (Some(_), kind) => {
            let why = format!("Invalid snapshot type \"{kind}\" specified with rollback option");
            return Err(RpcError::parameter(why));
        }
        (None, "rollback") => {
            let heights = live.params().assumeutxo.iter().map(|known| known.height.to_u32());
            let highest = heights.max().ok_or_else(|| RpcError::parameter("No snapshot height is known"))?;
            Some(by_hash_or_height(&live, &highest.into())?)
        }
        (None, "latest") => None,
        (None, kind) => {
            let why = format!("Invalid snapshot type \"{kind}\" specified. Please specify \"rollback\" or \"latest\"");
            return Err(RpcError::parameter(why));
        }
    };
    let path = live.net_dir().join(args.text(0)?);
    let is_pipe = is_named_pipe(&path);
    if path.exists() && !is_pipe {
        let why = "already exists. If you are sure this is what you want, move it out of the way first";
        return Err(RpcError::parameter(format!("{} {why}", path.display())));
    }
    let incomplete = PathBuf::from(format!("{}.incomplete", path.display()));
    if !path.parent().is_some_and(|dir| dir.is_dir()) {
        return Err(RpcError::parameter(format!("Couldn't open file {} for writing.", incomplete.display())));
    }
    let kind = if is_pipe { "pipe" } else { "file" };
    let busy = || RpcError::misc(format!("Another dump to a {kind} is in progress. Call again when it has ended"));
    let _turn = context.begin_dump(is_pipe).ok_or_else(busy)?;
    let (view, tip) = context.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0)))?;
    let (target, transactions) = {
        let index = live.index.read();
        let target = wanted.unwrap_or(tip);
        if !index.headers().is_ancestor(target, tip) {
            return Err(RpcError::misc("Block is not in main chain"));
        }
        (target, known_transactions(&live, &index, target).unwrap_or(0))
    };
    let report = dump_live(&live, view, tip, target, transactions, &path);
    let report = report.map_err(|why| match why {
        Fault::Stopped => RpcError::from(why),
        why => RpcError::misc(why.what()),
    })?;
    Ok(Json::object()
        .put("coins_written", report.coins_written)
        .put("base_hash", report.base_hash)
        .put("base_height", report.base_height)
        .put("path", path.to_string_lossy().into_owned())
        .put("txoutset_hash", report.txoutset_hash)
        .put("nchaintx", report.nchaintx)
        .end())
}

/// Whether the path is a named pipe, which is written to directly.
#[cfg(unix)]
fn is_named_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|known| known.file_type().is_fifo())
}

/// This system has no named pipes in the file system.
#[cfg(not(unix))]
fn is_named_pipe(_path: &Path) -> bool {
    false
}

fn load_tx_out_set(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let path = live.net_dir().join(args.text(0)?);
    let not_loaded = |why: NotLoaded| match why {
        NotLoaded::Unopened => RpcError::parameter(format!("Couldn't open file {} for reading.", path.display())),
        NotLoaded::Metadata(why) => RpcError::new(Code::Deserialization, format!("Unable to parse metadata: {why}")),
        NotLoaded::Refused(why) => RpcError::new(Code::Internal, why),
    };
    check_snapshot(&live, context.handle.mempool(), &path).map_err(not_loaded)?;
    let loaded = context.handle.load_snapshot(live, path.clone())?.map_err(not_loaded)?;
    Ok(Json::object()
        .put("coins_loaded", loaded.coins)
        .put("tip_hash", loaded.base)
        .put("base_height", loaded.height)
        .put("path", path.to_string_lossy().into_owned())
        .end())
}
