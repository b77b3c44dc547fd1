//! Calls about coins: a single coin, or statistics of all. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.
//!
//! As in Core, connected blocks are committed first, and a snapshot of the database is read. The job continues
//! meanwhile.

use super::indexed::is_index_ready;
use super::view::by_hash_or_height;
use crate::args::{self, Args};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use crate::text::JsonText;
use crate::tx_json::put_script_of_coin;
use indexes::IndexKind;
use indexes::coinstats::{StatsRow, Totals};
use node::Fault;
use node::chain::tree::NodeId;
use node::handle::{Live, Quiet, set_info};
use node::mempool::Mempool;
use node::utxo_stats::SetHash;
use primitives::coin::{code, put_coin};
use primitives::{BlockHash, CoinRef, Hash256, Height, OutPoint};
use store::chainstate::CoinsView;

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "gettxout",
        about: "Returns details about an unspent transaction output.",
        args: &[
            Arg::needed("txid", Kind::Str, "The transaction id"),
            Arg::needed("n", Kind::Num, "vout number"),
            Arg::optional(
                "include_mempool",
                Kind::Bool,
                "Whether to include the mempool. Note that an unspent output that is spent in the mempool won't appear.",
            ),
        ],
        run: Run::Now(get_tx_out),
    },
    Call {
        category: "blockchain",
        name: "gettxoutsetinfo",
        about: "Returns statistics about the unspent transaction output set.\n\
                Note this call may take some time if you are not using coinstatsindex.",
        args: &[
            Arg::optional("hash_type", Kind::Str, "'hash_serialized_3' (the default), 'muhash' or 'none'"),
            Arg::optional("hash_or_height", Kind::Num, "The block hash or height (only available with coinstatsindex)")
                .unchecked(),
            Arg::optional("use_index", Kind::Bool, "Use coinstatsindex, if available"),
        ],
        run: Run::Now(get_tx_out_set_info),
    },
];

/// Height of a coin of an unconfirmed transaction. Source: Core's `MEMPOOL_HEIGHT`.
pub(crate) const WAITING_HEIGHT: Height = Height::new(0x7fff_ffff);

/// The stored bytes of a coin at the tip; with a mempool, as if its transactions were mined.
///
/// # Errors
///
/// A damaged table, or another I/O error.
///
/// Source: Core's `CCoinsViewMemPool`.
pub(crate) fn coin_of(
    quiet: &Quiet<'_, '_, '_>,
    outpoint: &OutPoint,
    mempool: Option<&Mempool>,
) -> Result<Option<Vec<u8>>, Fault> {
    let Some(mempool) = mempool else { return quiet.coin(outpoint) };
    if mempool.spender(outpoint).is_some() {
        return Ok(None);
    }
    let Some(entry) = mempool.get(&outpoint.txid) else { return quiet.coin(outpoint) };
    Ok(entry.output(outpoint.vout).map(|(value, script)| {
        let mut stored = Vec::new();
        put_coin(&mut stored, code(WAITING_HEIGHT, false), value, &script);
        stored
    }))
}

fn get_tx_out(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let txid = args.txid(0, "txid")?;
    let vout = args::int::<u32>(args.get(1))?;
    let with_mempool = args.bool_or(2, true)?;
    let live = context.live()?;
    let mempool = context.handle.mempool().clone();
    let (stored, tip) = context.ask(move |quiet| {
        let mempool = with_mempool.then_some(&*mempool);
        Ok((coin_of(quiet, &OutPoint { txid, vout }, mempool)?, quiet.tip()))
    })?;
    let Some(stored) = stored else { return Ok(Json::Null) };
    let coin = decoded(&stored)?;
    let height = live.index.headers().height(tip.0);
    let confirmations = match coin.height {
        WAITING_HEIGHT => 0,
        made => u64::from(height.blocks_above(made)) + 1,
    };
    let mut json = JsonText::new();
    json.open();
    json.key("bestblock").hash(&tip.1.to_hash256());
    json.key("confirmations").number(confirmations);
    json.key("value").amount(coin.value);
    put_script_of_coin(&mut json, &coin, &Prefixes::of(live.params().chain), &mut Vec::new());
    json.key("coinbase").bool(coin.coinbase);
    json.close();
    Ok(json.into_json())
}

/// Decodes a stored coin.
///
/// # Errors
///
/// The stored bytes are not a coin.
pub(crate) fn decoded(stored: &[u8]) -> Result<CoinRef<'_>, RpcError> {
    CoinRef::decode(stored)
        .map_err(|why| RpcError::new(Code::Internal, format!("a stored coin does not deserialize: {why}")))
}

/// The coins at the tip when it was taken, and that tip.
pub(super) struct Snapshot {
    pub(super) coins: CoinsView,
    #[cfg(feature = "descriptors")]
    pub(super) tip: NodeId,
    pub(super) best: BlockHash,
    pub(super) height: Height,
}

pub(super) fn snapshot(context: &Context, live: &Live) -> Result<Snapshot, RpcError> {
    let (coins, (tip, best)) = context.ask(|quiet| Ok((quiet.coins()?, quiet.tip())))?;
    Ok(Snapshot {
        coins,
        #[cfg(feature = "descriptors")]
        tip,
        best,
        height: live.index.headers().height(tip),
    })
}

/// Number of threads for a pass over all coins: during initial sync, the sync keeps the processors.
fn threads(context: &Context, live: &Live) -> usize {
    let is_busy = !context.program.is_served && context.handle.is_initial_download(live);
    if is_busy { 1 } else { live.options.par }
}

fn get_tx_out_set_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let hash = match args.maybe_text(0)?.unwrap_or("hash_serialized_3") {
        "hash_serialized_3" => SetHash::Serialized,
        "muhash" => SetHash::Muhash,
        "none" => SetHash::None,
        other => return Err(RpcError::parameter(format!("'{other}' is not a valid hash_type"))),
    };
    let use_index = args.bool_or(2, true)?;
    let live = context.live()?;
    let has_index = live.has_index(IndexKind::CoinStats);
    let mut wanted = None;
    if args.is_given(1) {
        if !has_index {
            return Err(RpcError::parameter("Querying specific block heights requires coinstatsindex"));
        }
        if hash == SetHash::Serialized {
            let why = "hash_serialized_3 hash type cannot be queried for a specific block";
            return Err(RpcError::parameter(why));
        }
        if !use_index {
            return Err(RpcError::parameter("Cannot set use_index to false when querying for a specific block"));
        }
        wanted = Some(by_hash_or_height(&live, args.get(1))?);
    }
    if use_index && has_index && hash != SetHash::Serialized {
        let id = match wanted {
            Some(id) => {
                if !is_index_ready(context, &live, IndexKind::CoinStats)? {
                    check_reached(&live, id)?;
                }
                id
            }
            // The tip has a row once it is committed.
            None => context.committed_tip()?,
        };
        return set_at(&live, id, hash);
    }
    let at = snapshot(context, &live)?;
    let info = set_info(&at.coins, hash, threads(context, &live))?;
    let fields = Json::object()
        .put("height", at.height)
        .put("bestblock", at.best)
        .put("txouts", info.txouts)
        .put("bogosize", info.bogosize);
    let fields = fields.put_some(info.hash.map_or("", |(name, _)| name), info.hash.map(|(_, hash)| hash));
    Ok(fields
        .put("total_amount", Json::amount(info.total_amount))
        .put_some("transactions", info.transactions)
        .put("disk_size", info.disk_size)
        .end())
}

/// Refuses a block that an index under construction has not reached yet.
fn check_reached(live: &Live, id: NodeId) -> Result<(), RpcError> {
    let best = live.indexed_tip(IndexKind::CoinStats)?;
    let tree = live.index.headers();
    let reached = best.map_or(0, |best| tree.height(best).to_u32());
    if best.is_none() || tree.height(id).to_u32() > reached {
        let why = format!("Unable to get data because coinstatsindex is still syncing. Current height: {reached}");
        return Err(RpcError::new(Code::Internal, why));
    }
    Ok(())
}

/// The UTXO set at a block, from coinstatsindex, and the changes by that block.
fn set_at(live: &Live, id: NodeId, hash: SetHash) -> Result<Json, RpcError> {
    let unreadable = || RpcError::new(Code::Internal, "Unable to read UTXO set");
    let (height, best, parent) = {
        let tree = live.index.headers();
        (tree.height(id), tree.hash(id), tree.parent(id))
    };
    let row = live.set_stats(id)?.ok_or_else(unreadable)?;
    let before = match parent {
        Some(parent) => live.set_stats(parent)?.ok_or_else(unreadable)?,
        None => StatsRow { muhash: Hash256::ZERO, totals: Totals::default() },
    };
    let now = &row.totals;
    let before = &before.totals;
    // The changes of a block, differences of two rows of a valid index, are below the total of money.
    let grown = |now: u128, before: u128| Json::amount(now.wrapping_sub(before) as u64 as i64);
    let more = |now: i64, before: i64| Json::amount(now.wrapping_sub(before));
    let unspendables = Json::object()
        .put("genesis_block", more(now.genesis, before.genesis))
        .put("bip30", more(now.repeated, before.repeated))
        .put("scripts", more(now.scripts, before.scripts))
        .put("unclaimed_rewards", more(now.unclaimed, before.unclaimed));
    let block_info = Json::object()
        .put("prevout_spent", grown(now.prevouts, before.prevouts))
        .put("coinbase", grown(now.coinbase, before.coinbase))
        .put("new_outputs_ex_coinbase", grown(now.new_outputs, before.new_outputs))
        .put("unspendable", more(now.unspendable(), before.unspendable()))
        .put("unspendables", unspendables.end());
    Ok(Json::object()
        .put("height", height)
        .put("bestblock", best)
        .put("txouts", now.outputs)
        .put("bogosize", now.bogosize)
        .put_some("muhash", (hash == SetHash::Muhash).then_some(row.muhash))
        .put("total_amount", Json::amount(now.amount))
        .put("total_unspendable_amount", Json::amount(now.unspendable()))
        .put("block_info", block_info.end())
        .end())
}
