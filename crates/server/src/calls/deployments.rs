//! getdeploymentinfo: which rules hold from which height on.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `DeploymentInfo`; versionbits.cpp; kernel/chainparams.cpp.

use super::view::known_block;
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run};
use consensus::version_bits::{TESTDUMMY_BIT as BIT, TOP_BITS, bits};
use consensus::{Chain, Params, flags};
use node::chain::tree::{NodeId, Tree};
use primitives::Height;

/// These calls.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "getdeploymentinfo",
    about: "Returns an object containing various state info regarding deployments of consensus changes.\n\
            Consensus changes for which the new rules are enforced from genesis are not listed in \"deployments\".",
    args: &[Arg::optional("blockhash", Kind::Hex, "The block hash at which to query deployment state")],
    run: Run::Now(get_deployment_info),
}];

fn get_deployment_info(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let live = context.live()?;
    let id = match args.is_given(0) {
        true => known_block(context, args, 0, "blockhash")?.1,
        false => live.index.read().tip(),
    };
    let index = live.index.read();
    Ok(deployment_info(live.params(), index.headers(), id))
}

/// The answer of getdeploymentinfo about a block.
pub(crate) fn deployment_info(params: &Params, tree: &Tree, id: NodeId) -> Json {
    let hash = tree.hash(id);
    let height = tree.height(id);
    let flags = flags::of_block(params, height, &hash);
    let mut names: Vec<&str> =
        script::Flags::NAMES.iter().filter(|(_, flag)| flags.has_any(*flag)).map(|(name, _)| *name).collect();
    names.sort_unstable();
    let buried = [
        ("bip34", params.bip34_height),
        ("bip66", params.bip66_height),
        ("bip65", params.bip65_height),
        ("csv", params.csv_height),
        ("segwit", params.segwit_height),
    ];
    let deployments = buried.into_iter().fold(Json::object(), |fields, (name, from)| {
        // Active one block before its height, for the next block is judged so.
        let is_active = height + 1 >= from;
        fields.put(name, Json::object().put("type", "buried").put("active", is_active).put("height", from).end())
    });
    let deployments = deployments.put_some("testdummy", test_dummy(params, tree, id));
    let names: Vec<Json> = names.into_iter().map(Json::from).collect();
    Json::object()
        .put("hash", hash)
        .put("height", height)
        .put("script_flags", names)
        .put("deployments", deployments)
        .end()
}

// Core's deployment for tests, of regtest alone; elsewhere it never starts, and is not shown.
const PERIOD: u32 = 144;
const THRESHOLD: u32 = 108;

/// Source: Core's `ThresholdState`. It has no end: it never fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThresholdState {
    Defined,
    Started,
    LockedIn,
    Active,
}

impl ThresholdState {
    fn name(self) -> &'static str {
        match self {
            ThresholdState::Defined => "defined",
            ThresholdState::Started => "started",
            ThresholdState::LockedIn => "locked_in",
            ThresholdState::Active => "active",
        }
    }
}

fn signals(tree: &Tree, id: NodeId) -> bool {
    bits(tree.version(id)).is_some_and(|bits| bits >> BIT & 1 == 1)
}

/// The state of each period of the chain up to `id`, by number: that of its blocks. The last is the one after the period of
/// the block behind `id`.
fn states(tree: &Tree, id: NodeId) -> Vec<ThresholdState> {
    let periods = (tree.height(id).to_u32() + 1) / PERIOD;
    let mut states = vec![ThresholdState::Defined];
    for period in 0..periods {
        let last = tree.ancestor(id, Height::new((period + 1) * PERIOD - 1));
        states.push(match states[period as usize] {
            // It starts at a median time of 0: at once.
            ThresholdState::Defined => ThresholdState::Started,
            ThresholdState::Started => {
                let below = tree.height(last) - (PERIOD - 1);
                let first = tree.ancestor(last, below);
                let count =
                    std::iter::once(first).chain(tree.path(first, last)).filter(|&id| signals(tree, id)).count();
                if count >= THRESHOLD as usize { ThresholdState::LockedIn } else { ThresholdState::Started }
            }
            ThresholdState::LockedIn | ThresholdState::Active => ThresholdState::Active,
        });
    }
    states
}

/// How Core's deployment for tests stands for the block on top of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Dummy {
    /// Not begun, or none of this network.
    Absent,
    /// Blocks signal for it, by this bit of their version.
    Signalled(u32),
    /// It holds.
    Active,
}

/// Source: Core's `VersionBitsCache::GBTStatus`.
pub(super) fn next_dummy(params: &Params, tree: &Tree, tip: NodeId) -> Dummy {
    if params.chain != Chain::Regtest {
        return Dummy::Absent;
    }
    match states(tree, tip).last() {
        Some(ThresholdState::Started | ThresholdState::LockedIn) => Dummy::Signalled(BIT),
        Some(ThresholdState::Active) => Dummy::Active,
        Some(ThresholdState::Defined) | None => Dummy::Absent,
    }
}

/// The version of a block that Core makes on top of `tip`: it signals for what is not active yet.
/// Source: Core's `ComputeBlockVersion`.
pub(super) fn next_version(params: &Params, tree: &Tree, tip: NodeId) -> i32 {
    let signal = match next_dummy(params, tree, tip) {
        Dummy::Signalled(bit) => 1 << bit,
        Dummy::Absent | Dummy::Active => 0,
    };
    (TOP_BITS | signal).cast_signed()
}

fn test_dummy(params: &Params, tree: &Tree, id: NodeId) -> Option<Json> {
    if params.chain != Chain::Regtest {
        return None;
    }
    let height = tree.height(id).to_u32();
    let states = states(tree, id);
    // The state of the block itself is that of its period, that of the next block may be another.
    let current = states[(height / PERIOD) as usize];
    let next = states[((height + 1) / PERIOD) as usize];
    let since =
        |state: ThresholdState| states.iter().position(|one| *one == state).map_or(0, |period| period as u32 * PERIOD);
    let has_stats = matches!(current, ThresholdState::Started | ThresholdState::LockedIn);
    let fields = if has_stats { Json::object().put("bit", BIT) } else { Json::object() };
    let fields = fields
        .put("start_time", 0)
        .put("timeout", i64::MAX)
        .put("min_activation_height", 0)
        .put("status", current.name())
        .put("since", since(current))
        .put("status_next", next.name());
    let fields = if has_stats { signalling(tree, id, current, fields) } else { fields };
    let active_since = match (current, next) {
        (ThresholdState::Active, _) => Some(since(ThresholdState::Active)),
        (_, ThresholdState::Active) => Some(height + 1),
        _ => None,
    };
    Some(
        Json::object()
            .put("type", "bip9")
            .put_some("height", active_since)
            .put("active", active_since.is_some())
            .put("bip9", fields.end())
            .end(),
    )
}

/// What the blocks of the period of `id`, up to it, say.
fn signalling(tree: &Tree, id: NodeId, state: ThresholdState, fields: crate::json::Fields) -> crate::json::Fields {
    let height = tree.height(id).to_u32();
    let elapsed = height % PERIOD + 1;
    let first = tree.ancestor(id, Height::new(height + 1 - elapsed));
    let blocks: Vec<bool> = std::iter::once(first).chain(tree.path(first, id)).map(|id| signals(tree, id)).collect();
    let count = blocks.iter().filter(|signal| **signal).count() as u32;
    let stats = Json::object().put("period", PERIOD).put("elapsed", elapsed).put("count", count);
    let stats = if state == ThresholdState::LockedIn {
        // Nothing is counted for any more.
        stats
    } else {
        stats.put("threshold", THRESHOLD).put("possible", PERIOD - THRESHOLD >= elapsed - count)
    };
    let letters: String = blocks.into_iter().map(|signal| if signal { '#' } else { '-' }).collect();
    fields.put("statistics", stats).put("signalling", letters)
}
