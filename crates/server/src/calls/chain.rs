//! Calls about blocks and headers. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use super::block;
use super::view::{HeaderView, known_block};
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use primitives::hex;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "getbestblockhash",
        about: "Returns the hash of the best (tip) block in the most-work fully-validated chain.",
        args: &[],
        run: Run::AtOnce(get_best_block_hash),
    },
    Call {
        category: "blockchain",
        name: "getblock",
        about: "If verbosity is 0, returns a string that is serialized, hex-encoded data for block 'hash'.\n\
                If verbosity is 1, returns an Object with information about block <hash>.\n\
                If verbosity is 2, returns an Object with information about block <hash> and information about each transaction.\n\
                If verbosity is 3, returns an Object with information about block <hash> and information about each transaction, including prevout information for inputs (only for unpruned blocks in the current best chain).",
        args: &[
            Arg::needed("blockhash", Kind::Hex, "The block hash"),
            Arg::optional(
                "verbosity|verbose",
                Kind::Num,
                "0 for hex-encoded data, 1 for a JSON object, 2 for JSON object with transaction data, and 3 for JSON object with transaction data including prevout information for inputs",
            )
            .unchecked(),
        ],
        run: Run::Now(block::get_block),
    },
    Call {
        category: "blockchain",
        name: "getblockcount",
        about: "Returns the height of the most-work fully-validated chain.\nThe genesis block has height 0.",
        args: &[],
        run: Run::AtOnce(get_block_count),
    },
    Call {
        category: "blockchain",
        name: "getblockhash",
        about: "Returns hash of block in best-block-chain at height provided.",
        args: &[Arg::needed("height", Kind::Num, "The height index")],
        run: Run::AtOnce(get_block_hash),
    },
    Call {
        category: "blockchain",
        name: "getblockheader",
        about: "If verbose is false, returns a string that is serialized, hex-encoded data for blockheader 'hash'.\n\
                If verbose is true, returns an Object with information about blockheader <hash>.",
        args: &[
            Arg::needed("blockhash", Kind::Hex, "The block hash"),
            Arg::optional("verbose", Kind::Bool, "true for a json object, false for the hex-encoded data"),
        ],
        run: Run::AtOnce(get_block_header),
    },
];

fn get_block_count(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let count = live.index.read().active().len() - 1;
    Ok(count.into())
}

fn get_best_block_hash(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let index = live.index.read();
    Ok(index.headers().hash(index.tip()).into())
}

fn get_block_hash(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let height = args.int(0)?;
    let live = context.live()?;
    let index = live.index.read();
    let id = usize::try_from(height).ok().and_then(|height| index.active().get(height).copied());
    let id = id.ok_or_else(|| RpcError::parameter("Block height out of range"))?;
    Ok(index.headers().hash(id).into())
}

fn get_block_header(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let verbose = args.bool_or(1, true)?;
    let (live, id) = known_block(context, args, 0, "hash")?;
    let view = HeaderView::of(&live.index.read(), id);
    Ok(if verbose { view.fields().end() } else { hex::encode(&view.header.0).into() })
}
