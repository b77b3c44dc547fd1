//! Calls that change the chain. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, rpc/mining.cpp.

use super::view::{known_block, not_found};
use crate::args::Args;
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::{Params, block};
use node::chain::tree::NodeId;
use node::handle::{Quiet, Submitted, Verified};
use node::options::Prune;
use primitives::{Header, Height, Tables};

const BLOCK_HASH: Arg = Arg::needed("blockhash", Kind::Hex, "the hash of the block");

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "mining",
        name: "submitblock",
        about: "Attempts to submit new block to network.\nSee https://en.bitcoin.it/wiki/BIP_0022 for full specification.",
        args: &[
            Arg::needed("hexdata", Kind::Hex, "the hex-encoded block data to submit"),
            Arg::optional("dummy", Kind::Str, "dummy value, for compatibility with BIP22. This value is ignored."),
        ],
        run: Run::Now(submit_block),
    },
    Call {
        category: "mining",
        name: "submitheader",
        about: "Decode the given hexdata as a header and submit it as a candidate chain tip if valid.\nThrows when the header is invalid.",
        args: &[Arg::needed("hexdata", Kind::Hex, "the hex-encoded block header data")],
        run: Run::Now(submit_header),
    },
    Call {
        category: "hidden",
        name: "invalidateblock",
        about: "Permanently marks a block as invalid, as if it violated a consensus rule.",
        args: &[BLOCK_HASH],
        run: Run::Now(invalidate_block),
    },
    Call {
        category: "hidden",
        name: "reconsiderblock",
        about: "Removes invalidity status of a block, its ancestors and its descendants, reconsider them for activation.\n\
                This can be used to undo the effects of invalidateblock.",
        args: &[BLOCK_HASH],
        run: Run::Now(reconsider_block),
    },
    Call {
        category: "blockchain",
        name: "preciousblock",
        about: "Treats a block as if it were received before others with the same work.\n\n\
                A later preciousblock call can override the effect of an earlier one.\n\n\
                The effects of preciousblock are not retained across restarts.",
        args: &[BLOCK_HASH],
        run: Run::Now(precious_block),
    },
    Call {
        category: "blockchain",
        name: "pruneblockchain",
        about: "Attempts to delete block and undo data up to a specified height or timestamp, if eligible for pruning.\n\
                Requires `-prune` to be enabled at startup.",
        args: &[Arg::needed(
            "height",
            Kind::Num,
            "The block height to prune up to. May be set to a discrete height, or to a UNIX epoch time to prune blocks whose block time is at least 2 hours older than the provided timestamp.",
        )],
        run: Run::Now(prune_blockchain),
    },
    Call {
        category: "blockchain",
        name: "verifychain",
        about: "Verifies blockchain database.",
        args: &[
            Arg::optional("checklevel", Kind::Num, "How thorough the block verification is: 0 to 4"),
            Arg::optional("nblocks", Kind::Num, "The number of blocks to check; 0=all"),
        ],
        run: Run::Now(verify_chain),
    },
];

/// Core's `-checklevel` and `-checkblocks` by default.
const CHECK_LEVEL: i32 = 3;
const CHECK_BLOCKS: i32 = 6;
/// Numbers of this size and above are times, not heights.
const HEIGHT_MAX: i32 = 1_000_000_000;
/// Tolerance for block times, in seconds. Source: Core's `TIMESTAMP_WINDOW`.
const TIMESTAMP_WINDOW: u32 = 2 * 60 * 60;
/// Source: Core's `MIN_BLOCKS_TO_KEEP`.
const BLOCKS_KEPT: u32 = 288;

fn submit_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let undecoded = || RpcError::new(Code::Deserialization, "Block decode failed");
    let mut raw = primitives::hex::decode(args.text(0)?).ok_or_else(undecoded)?;
    let mut tables = Tables::new();
    let length = tables.parse_block(&raw).map_err(|_| undecoded())?.bytes().len();
    raw.truncate(length);
    let live = context.live()?;
    let raw = with_reserved_value(live.params(), &live.index.headers(), raw);
    let submitted = context.ask(move |quiet| quiet.submit_block(&raw))?;
    Ok(match submitted {
        Submitted::Connected => Json::Null,
        Submitted::Duplicate => "duplicate".into(),
        Submitted::Inconclusive => "inconclusive".into(),
        Submitted::Refused(why) => why.into(),
    })
}

/// Adds the coinbase's witness to a block if the miner left it out. Source: Core's
/// `UpdateUncommittedBlockStructures`.
fn with_reserved_value(params: &Params, tree: &node::chain::tree::Tree, raw: Vec<u8>) -> Vec<u8> {
    let mut tables = Tables::new();
    let Ok(parsed) = tables.parse_block(&raw) else { return raw };
    let parent = tree.find(&parsed.header().prev());
    let is_segwit = parent.is_some_and(|parent| tree.height(parent) + 1 >= params.segwit_height);
    if !is_segwit || parsed.transaction_count() == 0 || block::commitment(&parsed).is_none() {
        return raw;
    }
    let coinbase = parsed.transaction(0);
    // Each input has a stack of witnesses. A transaction with more than one input is no coinbase: it is refused as it is.
    if coinbase.has_witness() || coinbase.input_count() != 1 {
        return raw;
    }
    let old = coinbase.bytes();
    let start = old.as_ptr() as usize - raw.as_ptr() as usize;
    let end = old.len();
    let mut new = raw[..start + 4].to_vec();
    new.extend_from_slice(&[0, 1]);
    new.extend_from_slice(&old[4..end - 4]);
    new.extend_from_slice(&[1, 32]);
    new.extend_from_slice(&[0; 32]);
    new.extend_from_slice(&raw[start + end - 4..]);
    new
}

fn submit_header(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let raw = primitives::hex::decode(args.text(0)?);
    let header = raw.and_then(|raw| raw.first_chunk().copied().map(Header));
    let header = header.ok_or_else(|| RpcError::new(Code::Deserialization, "Block header decode failed"))?;
    let verify = |why: String| RpcError::new(Code::Verify, why);
    if context.live()?.index.headers().find(&header.prev()).is_none() {
        return Err(verify(format!("Must submit previous header ({}) first", header.prev())));
    }
    let taken = context.ask(move |quiet| Ok(quiet.submit_header(&header).map(|_| ())))?;
    taken.map(|()| Json::Null).map_err(verify)
}

/// Runs an action in the job for a known block.
fn about_block<R: Send + 'static>(
    context: &Context,
    args: &Args<'_>,
    work: impl FnOnce(&mut Quiet<'_, '_, '_>, NodeId) -> Result<R, node::Fault> + Send + 'static,
) -> Result<R, RpcError> {
    let hash = args.block_hash(0, "blockhash")?;
    known_block(context, args, 0, "blockhash")?;
    let done = context.ask(move |quiet| {
        // Node ids are valid only for one opening of the data directory.
        let found = quiet.index().headers().find(&hash);
        found.map(|id| work(quiet, id)).transpose()
    })?;
    done.ok_or_else(not_found)
}

fn invalidate_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let done = about_block(context, args, |quiet, id| quiet.invalidate(id))?;
    done.map(|()| Json::Null).map_err(|why| RpcError::new(Code::Database, why))
}

fn reconsider_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    about_block(context, args, |quiet, id| quiet.reconsider(id)).map(|()| Json::Null)
}

fn precious_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    about_block(context, args, |quiet, id| quiet.prefer(id)).map(|()| Json::Null)
}

fn prune_blockchain(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    if live.options.prune == Prune::Off {
        return Err(RpcError::misc("Cannot prune blocks because node is not in prune mode."));
    }
    let given = args.int(0)?;
    if given < 0 {
        return Err(RpcError::parameter("Negative block height."));
    }
    let height = {
        let index = live.index.read();
        let tree = index.headers();
        let tip = tree.height(index.tip()).to_u32();
        let height = if given > HEIGHT_MAX {
            let time = given.unsigned_abs() - TIMESTAMP_WINDOW;
            // The first block for which the maximum of its time and all earlier ones reaches the given time.
            let mut latest = 0;
            let found = index.active().iter().position(|&id| {
                latest = latest.max(tree.time(id));
                latest >= time
            });
            let why = "Could not find block with at least the specified timestamp.";
            found.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| RpcError::parameter(why))?
        } else {
            given.unsigned_abs()
        };
        if tip < live.params().prune_after_height.to_u32() {
            return Err(RpcError::misc("Blockchain is too short for pruning."));
        }
        if height > tip {
            return Err(RpcError::parameter("Blockchain is shorter than the attempted prune height."));
        }
        height.min(tip.saturating_sub(BLOCKS_KEPT))
    };
    let last = context.ask(move |quiet| quiet.prune_to(Height::new(height)))?;
    Ok(last.map_or(Json::Int(-1), Json::from))
}

fn verify_chain(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let level = if args.is_given(0) { args.int(0)? } else { CHECK_LEVEL };
    let depth = if args.is_given(1) { args.int(1)? } else { CHECK_BLOCKS };
    let live = context.live()?;
    let (view, tip) = context.ask(|quiet| Ok((quiet.coins()?, quiet.tip().0)))?;
    let verified = live.verify(view, tip, level.clamp(0, 4), depth, live.options.dbcache_bytes)?;
    let line = match &verified {
        Verified::Whole | Verified::Interrupted => None,
        Verified::MissingBlocks(height) => Some(format!("Block verification stopping at height {height} (no data).")),
        Verified::MissingCoins => Some(
            "Skipped verification of level >=3 (insufficient database cache size). Consider increasing -dbcache."
                .to_owned(),
        ),
        Verified::Wrong(why) => Some(format!("Verification error: {why}")),
    };
    if let Some(line) = line {
        context.ask(move |quiet| {
            quiet.log(&line);
            Ok(())
        })?;
    }
    Ok((verified == Verified::Whole).into())
}
