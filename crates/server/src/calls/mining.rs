//! Calls about mining and fees.
//!
//! Source: Bitcoin Core b88bffe, rpc/mining.cpp, rpc/fees.cpp.

use super::info::warnings;
use super::view::{difficulty, target};
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::header::{Ancestor, Parent, required_bits};
use consensus::{Cleanup, Params};
use node::chain::index::BlockIndex;
use node::chain::tree::{NodeId, Tree};
use primitives::{Height, hex};

/// These calls.
pub(super) const CALLS: &[Call] = &[
    Call {
        category: "mining",
        name: "getmininginfo",
        about: "Returns a json object containing mining-related information.",
        args: &[],
        run: Run::Now(get_mining_info),
    },
    Call {
        category: "mining",
        name: "getnetworkhashps",
        about: "Returns the estimated network hashes per second based on the last n blocks.\n\
                Pass in [blocks] to override # of blocks, -1 specifies since last difficulty change.\n\
                Pass in [height] to estimate the network speed at the time when a certain block was found.",
        args: &[
            Arg::optional(
                "nblocks",
                Kind::Num,
                "The number of previous blocks to calculate estimate from, or -1 for blocks since last difficulty change.",
            ),
            Arg::optional("height", Kind::Num, "To estimate at the time of the given height."),
        ],
        run: Run::Now(get_network_hash_ps),
    },
    Call {
        category: "util",
        name: "estimatesmartfee",
        about: "Estimates the approximate fee per kilobyte needed for a transaction to begin\n\
                confirmation within conf_target blocks if possible. ffwd sees no transactions outside of blocks: it has no estimate.",
        args: &[
            Arg::needed("conf_target", Kind::Num, "Confirmation target in blocks (1 - 1008)"),
            Arg::optional("estimate_mode", Kind::Str, "The fee estimate mode."),
            // Core 32.0 has this argument. The help is that of b88bffe, which does not.
            Arg::optional(
                "options",
                Kind::NamedParams(&[
                    Arg::optional("fee_rate_estimator", Kind::Str, "auto, block_policy or mempool_policy"),
                    Arg::optional("verbosity", Kind::Num, "2 or more: also data of the mempool"),
                ]),
                "",
            )
            .hidden(),
        ],
        run: Run::Now(estimate_smart_fee),
    },
    Call {
        category: "hidden",
        name: "estimaterawfee",
        about: "Estimates the approximate fee per kilobyte needed for a transaction to begin\n\
                confirmation within conf_target blocks if possible, by time horizon. ffwd sees no transactions outside of blocks: it has no estimate.",
        args: &[
            Arg::needed("conf_target", Kind::Num, "Confirmation target in blocks (1 - 1008)"),
            Arg::optional(
                "threshold",
                Kind::Num,
                "The proportion of transactions that must have been confirmed (default: 0.95)",
            ),
        ],
        run: Run::Now(estimate_raw_fee),
    },
];

/// Core's time horizons: name, decay, scale, and the maximum target in blocks. Source: Bitcoin Core b88bffe,
/// policy/fees/block_policy_estimator.h.
const FEE_HORIZONS: [(&str, f64, i64, i64); 3] =
    [("short", 0.962, 1, 12), ("medium", 0.9952, 2, 48), ("long", 0.99931, 24, TARGET_MAX)];

/// Core's `-blockmintxfee` by default, in satoshis for 1,000 vbytes.
pub(super) const BLOCK_MIN_FEE: i64 = 1;
/// Source: BIP-0094; Core's `MAX_TIMEWARP`.
const TIMEWARP_MAX_S: u64 = 600;
/// Names of Core's estimators. Source: release notes of 32.0.
const FEE_ESTIMATORS: [&str; 3] = ["auto", "block_policy", "mempool_policy"];
/// Maximum target of Core's estimates, in blocks.
const TARGET_MAX: i64 = 1008;

/// The minimum time of a block on top of `tip`, in seconds since 1970: one second after the median time past, and in
/// the first block of a difficulty period at most 600 seconds before `tip`, on every network. Source: Core's
/// `GetMinimumTime`.
pub(crate) fn least_time(params: &Params, tree: &Tree, tip: NodeId) -> u64 {
    let least = u64::from(tree.median_time_past(tip).to_u32()) + 1;
    if !(tree.height(tip) + 1).is_multiple_of(params.difficulty_adjustment_interval()) {
        return least;
    }
    least.max(u64::from(tree.time(tip)).saturating_sub(TIMEWARP_MAX_S))
}

/// The bits of a block on top of `tip` with this time.
pub(crate) fn bits_at(params: &Params, tree: &Tree, tip: NodeId, time: u32) -> u32 {
    let parent = Parent {
        height: tree.height(tip),
        time: tree.time(tip),
        bits: tree.bits(tip),
        median_time_past: tree.median_time_past(tip),
        real_bits: None,
        // It does not affect the bits.
        cleanup: Cleanup::Off,
    };
    let ancestor = |height: Height| {
        let at = tree.ancestor(tip, height);
        Ancestor { time: tree.time(at), bits: tree.bits(at) }
    };
    required_bits(params, &parent, time, ancestor)
}

fn get_mining_info(context: &Context, _args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let params = live.params();
    let (height, bits, hashes, next, last) = {
        let index = live.index.read();
        let tree = index.headers();
        let tip = index.tip();
        let hashes = hash_rate(params, &index, 120, -1)?;
        // Source: Core's `NextEmptyBlockIndex`.
        let time = u32::try_from(live.unix_time().max(least_time(params, tree, tip))).unwrap_or(u32::MAX);
        (tree.height(tip), tree.bits(tip), hashes, bits_at(params, tree, tip, time), context.handle.last_made())
    };
    let next = Json::object()
        .put("height", height + 1)
        .put("bits", format!("{next:08x}"))
        .put("difficulty", Json::double(difficulty(next)))
        .put("target", target(next))
        .end();
    Ok(Json::object()
        .put("blocks", height)
        .put_some("currentblockweight", last.map(|(weight, _)| weight))
        .put_some("currentblocktx", last.map(|(_, transactions)| transactions))
        .put("bits", format!("{bits:08x}"))
        .put("difficulty", Json::double(difficulty(bits)))
        .put("target", target(bits))
        .put("networkhashps", Json::double(hashes))
        .put("pooledtx", context.handle.mempool().entries().len())
        .put("blockmintxfee", Json::amount(BLOCK_MIN_FEE))
        .put("chain", params.chain.name())
        .put("next", next)
        .put_some("signet_challenge", params.signet_challenge.as_ref().map(|script| hex::encode(script)))
        .put("warnings", warnings(&live))
        .end())
}

fn get_network_hash_ps(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let lookup = if args.is_given(0) { args.int(0)? } else { 120 };
    let height = if args.is_given(1) { args.int(1)? } else { -1 };
    let live = context.live()?;
    let index = live.index.read();
    hash_rate(live.params(), &index, lookup, height).map(Json::double)
}

/// Source: Core's `GetNetworkHashPS`.
fn hash_rate(params: &Params, index: &BlockIndex, lookup: i32, height: i32) -> Result<f64, RpcError> {
    if lookup < -1 || lookup == 0 {
        return Err(RpcError::parameter("Invalid nblocks. Must be a positive number or -1."));
    }
    let tree = index.headers();
    let active = index.active();
    let last = match usize::try_from(height) {
        Ok(height) => active.get(height).copied(),
        Err(_) => Some(index.tip()).filter(|_| height == -1),
    };
    let last = last.ok_or_else(|| RpcError::parameter("Block does not exist at specified height"))?;
    let last_height = tree.height(last).to_u32();
    let period = params.pow_target_timespan / params.pow_target_spacing;
    let lookup = u32::try_from(lookup).unwrap_or(last_height % period + 1).min(last_height);
    let first = tree.ancestor(last, tree.height(last) - lookup);
    let times = std::iter::once(first).chain(tree.path(first, last)).map(|id| tree.time(id));
    let (least, most) = times.fold((u32::MAX, 0), |(least, most), time| (least.min(time), most.max(time)));
    if last_height == 0 || least == most {
        return Ok(0.0);
    }
    let work = tree.work(last).saturating_sub(tree.work(first));
    Ok(work.0.to_f64() / f64::from(most - least))
}

/// Source: Core's `ParseConfirmTarget`.
fn confirmation_target(args: &Args<'_>) -> Result<i64, RpcError> {
    let target = i64::from(args.int(0)?);
    match (1..=TARGET_MAX).contains(&target) {
        true => Ok(target),
        false => Err(RpcError::parameter(format!("Invalid conf_target, must be between 1 and {TARGET_MAX}"))),
    }
}

/// The result of Core's estimator if it has seen no transaction.
fn estimate_raw_fee(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let target = confirmation_target(args)?;
    let threshold = match args.get(1) {
        Json::Null => 0.95,
        Json::Int(value) => *value as f64,
        Json::Num(text) => text.parse().unwrap_or(f64::NAN),
        other => return Err(RpcError::of_type(other, "number")),
    };
    if !(0.0..=1.0).contains(&threshold) {
        return Err(RpcError::parameter("Invalid threshold"));
    }
    let horizons = FEE_HORIZONS.into_iter().filter(|(.., ahead)| target <= *ahead);
    let fields = horizons.fold(Json::object(), |fields, (name, decay, scale, _)| {
        let counts = ["withintarget", "totalconfirmed", "inmempool", "leftmempool"];
        let bucket = Json::object().put("startrange", 0).put("endrange", Json::double(1e99));
        let bucket = counts.into_iter().fold(bucket, |bucket, count| bucket.put(count, 0));
        let errors = vec![Json::from("Insufficient data or no feerate found which meets threshold")];
        let horizon = Json::object().put("decay", Json::double(decay)).put("scale", scale);
        fields.put(name, horizon.put("fail", bucket.end()).put("errors", errors).end())
    });
    Ok(fields.end())
}

fn estimate_smart_fee(_context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    confirmation_target(args)?;
    let mode = args.maybe_text(1)?.unwrap_or("economical").to_ascii_lowercase();
    if !matches!(mode.as_str(), "unset" | "economical" | "conservative") {
        let why = "Invalid estimate_mode parameter, must be one of: \"unset\", \"economical\", \"conservative\"";
        return Err(RpcError::parameter(why));
    }
    let given = |name: &str| args.get(2).field(name).filter(|value| !value.is_null());
    let estimator = given("fee_rate_estimator").map_or(Ok("auto"), crate::args::text)?;
    if !FEE_ESTIMATORS.contains(&estimator) {
        let known = FEE_ESTIMATORS.map(|name| format!("\"{name}\"")).join(", ");
        return Err(RpcError::parameter(format!("Invalid fee_rate_estimator parameter, must be one of: {known}")));
    }
    let verbosity: i32 = given("verbosity").map_or(Ok(1), crate::args::int)?;
    let errors = vec![Json::from("Insufficient data or no feerate found")];
    let fields = Json::object().put("errors", errors).put("blocks", 0);
    // No transaction of the last blocks was seen before its block.
    Ok(fields.put_some("mempool_health_statistics", (verbosity >= 2).then(Vec::new)).end())
}
