//! Calls about one block: its contents, its statistics, its filter. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use super::block_json::{Transactions, block_json};
use super::indexed::is_index_ready;
use super::view::{HeaderView, block_bytes, by_hash_or_height, known_block};
use crate::args::Args;
use crate::block_stats::{About, block_stats, select};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use crate::text::JsonText;
use crate::tx_json::Details;
use consensus::bip30;
use indexes::IndexKind;
use node::chain::index::Validity;
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::undo::spent_coins;
use primitives::{Block, CoinRef, Tables, hex};
use sys::spill::Spill;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "getblockfilter",
        about: "Retrieve a BIP 157 content filter for a particular block.",
        args: &[
            Arg::needed("blockhash", Kind::Hex, "The hash of the block"),
            Arg::optional("filtertype", Kind::Str, "The type name of the filter"),
        ],
        run: Run::Now(get_block_filter),
    },
    Call {
        category: "blockchain",
        name: "getblockstats",
        about: "Compute per block statistics for a given window. All amounts are in satoshis.\n\
                It won't work for some heights with pruning.",
        args: &[
            Arg::needed("hash_or_height", Kind::Num, "The block hash or height of the target block").unchecked(),
            Arg::optional("stats", Kind::Arr, "Values to plot; all by default").shown_as("stats"),
        ],
        run: Run::Now(get_block_stats),
    },
];

/// A verbosity: a number, or true for 1. Source: Core's `ParseVerbosity`.
///
/// # Errors
///
/// Another type.
pub(super) fn verbosity(args: &Args<'_>, at: usize, default: i32) -> Result<i32, RpcError> {
    match args.get(at) {
        Json::Null => Ok(default),
        Json::Bool(verbose) => Ok(i32::from(*verbose)),
        value => crate::args::int(value),
    }
}

/// Parses a block of the block files, which was validated when it was stored.
///
/// # Errors
///
/// A damaged file.
pub(crate) fn parsed<'t>(tables: &'t mut Tables, bytes: &'t [u8]) -> Result<Block<'t>, RpcError> {
    tables
        .parse_block(bytes)
        .map_err(|why| RpcError::new(Code::Internal, format!("a stored block does not deserialize: {why}")))
}

/// Core's message for missing undo data.
pub(super) const UNDO_UNREADABLE: &str = "Undo data expected but can't be read. This could be due to disk corruption or a conflict with a \
                               pruning event.";

/// The undo data of a block if there is any, as in Core's `blockToJSON`.
///
/// # Errors
///
/// A damaged file.
pub(crate) fn undo_where_there(live: &Live, id: NodeId) -> Result<Option<Spill>, RpcError> {
    live.undo(id).map_err(|_| RpcError::new(Code::Internal, UNDO_UNREADABLE))
}

/// The coins that a block spends, from its undo data.
///
/// # Errors
///
/// Undo data of another block.
pub(crate) fn spent<'u>(undo: &'u [u8], block: &Block<'_>) -> Result<Vec<CoinRef<'u>>, RpcError> {
    spent_coins(undo, block).ok_or_else(|| RpcError::new(Code::Internal, UNDO_UNREADABLE))
}

/// A fee that no valid block can have.
pub(crate) fn bad_fee() -> RpcError {
    RpcError::new(Code::Internal, "Internal bug detected: MoneyRange(fee)")
}

pub(super) fn get_block(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let hash = args.block_hash(0, "blockhash")?;
    let verbosity = verbosity(args, 1, 1)?;
    let live = context.live()?;
    let id = live.index.headers().find(&hash).ok_or_else(super::view::not_found)?;
    let bytes = block_bytes(&live, id)?;
    let transactions = match verbosity {
        ..=0 => {
            let mut json = JsonText::with_capacity(2 * bytes.len() + 2);
            json.hex(&bytes);
            return Ok(json.into_json());
        }
        1 => Transactions::Ids,
        2 => Transactions::Whole(Details::Plain),
        _ => Transactions::Whole(Details::Prevouts),
    };
    Ok(shown_block(&live, id, &bytes, transactions)?.into_json())
}

/// A block of the index as an object.
///
/// # Errors
///
/// A damaged file.
pub(crate) fn shown_block(
    live: &Live,
    id: NodeId,
    bytes: &[u8],
    transactions: Transactions,
) -> Result<JsonText, RpcError> {
    let view = HeaderView::of(&live.index.read(), id);
    let mut tables = Tables::with(live.options.kernels);
    let block = parsed(&mut tables, bytes)?;
    let undo = if transactions == Transactions::Ids { None } else { undo_where_there(live, id)? };
    let spent = undo.as_deref().map(|undo| spent(undo, &block)).transpose()?;
    let prefixes = Prefixes::of(live.params().chain);
    block_json(&view, &block, spent.as_deref(), transactions, &prefixes).map_err(|_| bad_fee())
}

/// The undo data of a block, or why it is missing. Source: Core's `GetUndoChecked`.
pub(super) fn undo_bytes(live: &Live, id: NodeId) -> Result<Spill, RpcError> {
    let is_pruned = || live.index.read().body(id).is_pruned();
    match live.undo(id) {
        Ok(Some(undo)) => Ok(undo),
        Ok(None) if is_pruned() => Err(RpcError::misc("Undo data not available (pruned data)")),
        Ok(None) => Err(RpcError::misc("Undo data not available")),
        Err(_) => Err(RpcError::misc("Can't read undo data from disk")),
    }
}

fn get_block_stats(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let id = by_hash_or_height(&live, args.get(0))?;
    let wanted = match args.is_given(1) {
        true => args.list(1)?.iter().map(crate::args::text).collect::<Result<Vec<&str>, RpcError>>()?,
        false => Vec::new(),
    };
    let bytes = block_bytes(&live, id)?;
    let view = HeaderView::of(&live.index.read(), id);
    let is_genesis = view.prev.is_none();
    // Genesis has no undo data.
    let undo = if is_genesis { Spill::from(&[0][..]) } else { undo_bytes(&live, id)? };
    let mut tables = Tables::with(live.options.kernels);
    let block = parsed(&mut tables, &bytes)?;
    let spent = if is_genesis { Vec::new() } else { spent(&undo, &block)? };
    let hash = view.hash.to_string();
    let about = About {
        hash: &hash,
        height: i64::from(view.height.to_u32()),
        median_time: i64::from(view.median_time.to_u32()),
        time: i64::from(view.header.time()),
        subsidy: consensus::spend::subsidy(live.params(), view.height),
        is_repeat: bip30::is_repeat(view.height, &view.hash),
    };
    let all = block_stats(&block, &spent, &about).map_err(|_| bad_fee())?;
    select(all, &wanted).map_err(|name| RpcError::parameter(format!("Invalid selected statistic '{name}'")))
}

fn get_block_filter(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    args.block_hash(0, "blockhash")?;
    let kind = args.maybe_text(1)?.unwrap_or("basic");
    if kind != "basic" {
        return Err(RpcError::not_found("Unknown filtertype"));
    }
    let live = context.live()?;
    if !live.has_index(IndexKind::BlockFilter) {
        return Err(RpcError::misc(format!("Index is not enabled for filtertype {kind}")));
    }
    let (_, id) = known_block(context, args, 0, "blockhash")?;
    let was_connected = live.index.read().body(id).validity() >= Validity::Scripts;
    let is_ready = is_index_ready(context, &live, IndexKind::BlockFilter)?;
    match live.block_filter(id)? {
        Some((filter, header)) => Ok(Json::object().put("filter", hex::encode(&filter)).put("header", header).end()),
        None if !was_connected => {
            Err(RpcError::not_found("Filter not found. Block was not connected to active chain."))
        }
        None if !is_ready => {
            Err(RpcError::misc("Filter not found. Block filters are still in the process of being indexed."))
        }
        None => {
            let why = "Filter not found. This error is unexpected and indicates index corruption.";
            Err(RpcError::new(Code::Internal, why))
        }
    }
}
