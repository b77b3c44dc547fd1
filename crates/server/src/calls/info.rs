//! Calls about the state of the chain as a whole. Source: Bitcoin Core b88bffe, rpc/blockchain.cpp.

use super::view::{HeaderView, difficulty, known_block, number, target};
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::{Fields, Json};
use crate::registry::{Arg, Call, Kind, Run};
use node::chain::index::{BlockIndex, Validity};
use node::chain::tree::{Fate, NodeId, Tree};
use node::handle::Live;
use node::options::Prune;
use primitives::{BlockHash, Height, hex};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "blockchain",
        name: "getblockchaininfo",
        about: "Returns an object containing various state info regarding blockchain processing.",
        args: &[],
        run: Run::AtOnce(get_blockchain_info),
    },
    Call {
        category: "blockchain",
        name: "getchainstates",
        about: "Return information about chainstates.",
        args: &[],
        run: Run::AtOnce(get_chainstates),
    },
    Call {
        category: "blockchain",
        name: "getchaintips",
        about: "Return information about all known tips in the block tree, including the main chain as well as orphaned branches.",
        args: &[],
        run: Run::Now(get_chain_tips),
    },
    Call {
        category: "blockchain",
        name: "getchaintxstats",
        about: "Compute statistics about the total number and rate of transactions in the chain.",
        args: &[
            Arg::optional("nblocks", Kind::Num, "Size of the window in number of blocks"),
            Arg::optional("blockhash", Kind::Hex, "The hash of the block that ends the window."),
        ],
        run: Run::Now(get_chain_tx_stats),
    },
    Call {
        category: "blockchain",
        name: "getdifficulty",
        about: "Returns the proof-of-work difficulty as a multiple of the minimum difficulty.",
        args: &[],
        run: Run::AtOnce(get_difficulty),
    },
];

/// The current alerts, and the pre-release warning of ffwd, as Core has one.
pub(super) fn warnings(live: &Live) -> Vec<Json> {
    let own =
        "This is a pre-release test build - use at your own risk - do not use for mining or merchant applications";
    live.alerts.texts().into_iter().chain([own.to_owned()]).map(Json::from).collect()
}

/// Validation progress: the share of the chain up to `tip`, with which it has this number of transactions.
fn progress(live: &Live, transactions: u64, tip: &HeaderView, best: Height) -> f64 {
    let now = i64::try_from(live.unix_time()).unwrap_or(i64::MAX);
    live.params().progress(transactions, tip.header.time(), best.blocks_above(tip.height), now)
}

fn get_blockchain_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    Ok(blockchain_info(context, &live))
}

/// The answer of getblockchaininfo.
pub(crate) fn blockchain_info(context: &Context, live: &Live) -> Json {
    let (tip, best) = {
        let index = live.index.read();
        (HeaderView::of(&index, index.tip()), index.headers().height(index.headers().best()))
    };
    let params = live.params();
    let done = progress(live, live.figures.counted().transactions, &tip, best);
    let bits = tip.header.bits();
    let is_pruned = live.options.prune != Prune::Off;
    let fields = Json::object()
        .put("chain", params.chain.name())
        .put("blocks", tip.height)
        .put("headers", best)
        .put("bestblockhash", tip.hash)
        .put("bits", format!("{bits:08x}"))
        .put("target", target(bits))
        .put("difficulty", Json::double(difficulty(bits)))
        .put("time", tip.header.time())
        .put("mediantime", tip.median_time.to_u32())
        .put("verificationprogress", Json::double(done))
        .put("initialblockdownload", context.handle.is_initial_download(live))
        .put_some("backgroundvalidation", background(context, live))
        .put("chainwork", number(tip.work.0))
        .put("size_on_disk", live.usage_bytes())
        .put("pruned", is_pruned);
    let fields = if is_pruned { pruned(context, live, fields) } else { fields };
    fields
        .put_some("signet_challenge", params.signet_challenge.as_ref().map(|script| hex::encode(script)))
        .put("warnings", warnings(live))
        .end()
}

fn pruned(context: &Context, live: &Live, fields: Fields) -> Fields {
    let fields = fields.put("pruneheight", context.prune_height(live));
    match live.options.prune {
        Prune::Target { bytes } => fields.put("automatic_pruning", true).put("prune_target_size", bytes),
        _ => fields.put("automatic_pruning", false),
    }
}

/// The chain up to a snapshot's base block, while it is validated.
fn background(context: &Context, live: &Live) -> Option<Json> {
    let base = live.assumed()?;
    let (past, height) = {
        let index = live.index.read();
        let tree = index.headers();
        let id = tree.ancestor(base, context.handle.past_height().min(tree.height(base)));
        (HeaderView::of(&index, id), tree.height(base))
    };
    let transactions = context.transactions_up_to(live, &past.hash);
    let all = live.params().assumeutxo.iter().find(|known| known.height == height).map(|known| known.chain_tx_count);
    let done = all.map_or(0.0, |all| (transactions as f64 / all.max(1) as f64).min(1.0));
    Some(
        Json::object()
            .put("snapshotheight", height)
            .put("blocks", past.height)
            .put("bestblockhash", past.hash)
            .put("mediantime", past.median_time.to_u32())
            .put("chainwork", number(past.work.0))
            .put("verificationprogress", Json::double(done))
            .end(),
    )
}

fn get_chainstates(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let (past, tip, best, base) = {
        let index = live.index.read();
        let tree = index.headers();
        let tip = index.tip();
        let past_of = |base| tree.ancestor(base, context.handle.past_height().min(tree.height(base)));
        let past = live.assumed().map(past_of);
        let base = live.assumed().map(|base| tree.hash(base));
        (past.map(|past| HeaderView::of(&index, past)), HeaderView::of(&index, tip), tree.height(tree.best()), base)
    };
    let past = past.map(|past| {
        let done = progress(&live, context.transactions_up_to(&live, &past.hash), &past, best);
        chainstate(&live, &past, done, None)
    });
    let done = progress(&live, live.figures.counted().transactions, &tip, best);
    let states: Vec<Json> = past.into_iter().chain([chainstate(&live, &tip, done, base)]).collect();
    Ok(Json::object().put("headers", best).put("chainstates", states).end())
}

/// A chainstate; with `base`, the one from the snapshot with this base block.
fn chainstate(live: &Live, tip: &HeaderView, progress: f64, base: Option<BlockHash>) -> Json {
    let bits = tip.header.bits();
    let cache = live.options.dbcache_bytes as u64;
    // Core's share of the cache for the coins database. Source: kernel/caches.h.
    let tables = (cache / 2).min(8 << 20);
    Json::object()
        .put("blocks", tip.height)
        .put("bestblockhash", tip.hash)
        .put("bits", format!("{bits:08x}"))
        .put("target", target(bits))
        .put("difficulty", Json::double(difficulty(bits)))
        .put("verificationprogress", Json::double(progress))
        .put("coins_db_cache_bytes", tables)
        .put("coins_tip_cache_bytes", cache - tables)
        .put_some("snapshot_blockhash", base)
        .put("validated", base.is_none())
        .end()
}

/// The tip of the connected chain, and the tips of all branches off it: the highest first, as in Core.
fn get_chain_tips(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let mut leaves = Leaves::default();
    while leaves.look(live.index.read().headers()) == LOOK_HEADERS {}
    let tips = {
        let index = live.index.read();
        while leaves.look(index.headers()) > 0 {}
        chain_tips(&index, &leaves)
    };
    let tips = tips.into_iter().map(|tip| {
        Json::object()
            .put("height", tip.height)
            .put("hash", tip.hash)
            .put("branchlen", tip.branch_length)
            .put("status", tip.status)
            .end()
    });
    Ok(tips.collect::<Vec<_>>().into())
}

/// Number of headers scanned under one lock of the index, so that a sync is not delayed longer.
const LOOK_HEADERS: usize = 1 << 14;

/// Headers without children. They are found independently of the connected chain, which may change meanwhile: a
/// header comes after its parent, and is never removed.
#[derive(Default)]
struct Leaves {
    /// One bit for each node id: whether the header has a child.
    parents: Vec<u64>,
    count: usize,
}

impl Leaves {
    /// Scans the next [`LOOK_HEADERS`] headers, or the remaining ones; returns how many.
    fn look(&mut self, tree: &Tree) -> usize {
        let end = tree.len().min(self.count + LOOK_HEADERS);
        self.parents.resize(end.div_ceil(64), 0);
        for parent in (self.count..end).filter_map(|at| tree.parent(NodeId::new(at))) {
            self.parents[parent.index() / 64] |= 1 << (parent.index() % 64);
        }
        let looked = end - self.count;
        self.count = end;
        looked
    }

    fn ids(&self) -> impl Iterator<Item = NodeId> + '_ {
        let is_leaf = |at: &usize| self.parents[at / 64] >> (at % 64) & 1 == 0;
        (0..self.count).filter(is_leaf).map(NodeId::new)
    }
}

struct Tip {
    height: Height,
    hash: BlockHash,
    branch_length: u32,
    status: &'static str,
}

/// The last connected block, and the tips of all branches: descendants of a block off the chain are off it too.
fn chain_tips(index: &BlockIndex, leaves: &Leaves) -> Vec<Tip> {
    let tree = index.headers();
    let mut tips: Vec<NodeId> = leaves.ids().filter(|&id| !index.is_active(id)).collect();
    tips.push(index.tip());
    // At equal heights Core's order is that of memory addresses; here it is that of arrival.
    tips.sort_by_key(|&id| (std::cmp::Reverse(tree.height(id)), id));
    let tip = |id: NodeId| Tip {
        height: tree.height(id),
        hash: tree.hash(id),
        branch_length: tree.height(id).blocks_above(tree.height(tree.fork(id, index.tip()))),
        status: status(index, id),
    };
    tips.into_iter().map(tip).collect()
}

fn status(index: &BlockIndex, id: NodeId) -> &'static str {
    if index.is_active(id) {
        "active"
    } else if index.headers().fate(id) != Fate::Open {
        "invalid"
    } else if !index.is_complete(id) {
        "headers-only"
    } else if index.body(id).validity() >= Validity::Scripts {
        "valid-fork"
    } else {
        "valid-headers"
    }
}

fn get_difficulty(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let index = live.index.read();
    Ok(Json::double(difficulty(index.headers().bits(index.tip()))))
}

fn get_chain_tx_stats(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let last = match args.is_given(1) {
        false => live.index.read().tip(),
        true => known_block(context, args, 1, "blockhash")?.1,
    };
    let index = live.index.read();
    if !index.is_active(last) {
        return Err(RpcError::parameter("Block is not in main chain"));
    }
    let tree = index.headers();
    let height = i64::from(tree.height(last).to_u32());
    let count = if args.is_given(0) {
        let count = i64::from(args.int(0)?);
        if count < 0 || count > 0 && count >= height {
            let why = "Invalid block count: should be between 0 and the block's height - 1";
            return Err(RpcError::parameter(why));
        }
        count
    } else {
        // A month.
        (30 * 24 * 60 * 60 / i64::from(live.params().pow_target_spacing)).min(height - 1).max(0)
    };
    let count = u32::try_from(count).unwrap_or(0);
    let first = tree.ancestor(last, tree.height(last) - count);
    let median = tree.median_time_past(last).to_u32();
    let median_first = tree.median_time_past(first).to_u32();
    let seconds = i64::from(median) - i64::from(median_first);
    let all = known_transactions(&live, &index, last);
    let window = all.zip(known_transactions(&live, &index, first)).map(|(all, first)| all - first);
    let time = tree.time(last);
    let hash = tree.hash(last);
    drop(index);
    let fields = Json::object()
        .put("time", time)
        .put_some("txcount", all)
        .put("window_final_block_hash", hash)
        .put("window_final_block_height", height)
        .put("window_block_count", count);
    if count == 0 {
        return Ok(fields.end());
    }
    let rate = window.filter(|_| seconds > 0).map(|count| Json::double(count as f64 / seconds as f64));
    Ok(fields.put("window_interval", seconds).put_some("window_tx_count", window).put_some("txrate", rate).end())
}

/// Number of transactions up to a block, if known: below a snapshot's base block only once all earlier blocks are
/// stored.
pub(super) fn known_transactions(live: &Live, index: &BlockIndex, id: NodeId) -> Option<u64> {
    let Some(base) = live.assumed() else { return Some(index.transactions_up_to(id)) };
    let tree = index.headers();
    let of_base = live.params().assumeutxo_for(&tree.hash(base)).map(|known| known.chain_tx_count);
    if tree.is_ancestor(base, id) {
        let above: u64 = tree.path(base, id).iter().map(|&id| u64::from(index.body(id).transactions())).sum();
        return of_base.map(|count| count + above);
    }
    let is_whole = tree.path(node::chain::tree::GENESIS, id).iter().all(|&id| index.body(id).transactions() > 0);
    is_whole.then(|| index.transactions_up_to(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use consensus::{Chain, Params};
    use primitives::{Hash256, Header};
    use std::collections::BTreeSet;
    use testkit::Rng;

    /// A tree that grows between the looks; beside it the plain definition.
    #[test]
    fn leaves_are_the_headers_on_which_no_other_stands() {
        let mut tree = node::chain::headers::genesis_tree(&Params::new(Chain::Regtest));
        let (mut rng, mut leaves) = (Rng::new(21), Leaves::default());
        let mut parents = BTreeSet::new();
        for at in 1..3 * LOOK_HEADERS as u32 {
            // Most headers stand on the last ones.
            let reach = if rng.one_in(10) { 500 } else { 3 };
            let back = rng.below(reach);
            let parent = NodeId::new(tree.len() - 1 - back.min(tree.len() - 1));
            parents.insert(parent);
            let header = Header::new(1, tree.hash(parent), Hash256::ZERO, at, 0x207f_ffff, at);
            tree.insert(&header, header.hash(), parent);
            if at % 10_007 == 0 {
                leaves.look(&tree);
            }
        }
        while leaves.look(&tree) > 0 {}
        let want: Vec<NodeId> = tree.ids().filter(|id| !parents.contains(id)).collect();
        assert_eq!(leaves.ids().collect::<Vec<_>>(), want);
        assert!(want.len() > 100, "{}", want.len());
    }
}
