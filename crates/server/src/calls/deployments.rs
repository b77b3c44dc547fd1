//! getdeploymentinfo: which rules are active from which height on.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `DeploymentInfo`; versionbits.cpp; kernel/chainparams.cpp.

use super::view::known_block;
use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::{Fields, Json};
use crate::registry::{Arg, Call, Kind, Run};
use consensus::deployments::{ThresholdState, VersionBits, fixed_state};
use consensus::{Deployment, Params, flags};
use node::chain::deployments::{signals, since, state_after};
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
    let deployments = params.buried().into_iter().fold(Json::object(), |fields, (name, from)| {
        // A rule is active one block before its height, because the next block is validated with it.
        let is_active = height + 1 >= from;
        fields.put(name, Json::object().put("type", "buried").put("active", is_active).put("height", from).end())
    });
    let by_bits = |fields: Fields, which: Deployment| fields.put_some(which.name(), signalled(params, tree, id, which));
    let deployments = Deployment::ALL.into_iter().fold(deployments, by_bits);
    let names: Vec<Json> = names.into_iter().map(Json::from).collect();
    Json::object()
        .put("hash", hash)
        .put("height", height)
        .put("script_flags", names)
        .put("deployments", deployments)
        .end()
}

/// Data about a deployment; `None` if it is not defined on this network.
fn signalled(params: &Params, tree: &Tree, id: NodeId, which: Deployment) -> Option<Json> {
    let deployment = params.deployment(which);
    if deployment.start_time == VersionBits::NEVER_ACTIVE {
        return None;
    }
    let height = tree.height(id).to_u32();
    // The state of a block is that of its period; the state of the next block may differ.
    let parent = tree.parent(id);
    let current = match fixed_state(deployment) {
        Some(state) => state,
        None => parent.map_or(ThresholdState::Defined, |parent| state_after(tree, params, which, parent)),
    };
    let next = state_after(tree, params, which, id);
    let since_current = parent.map_or(Height::GENESIS, |parent| since(tree, params, which, parent));
    let has_stats = matches!(current, ThresholdState::Started | ThresholdState::LockedIn);
    // Core does not name the bit before the start. If an option changed the deployment, miners need it.
    let names_bit = has_stats || which == Deployment::ConsensusCleanup && current == ThresholdState::Defined;
    let fields = if names_bit { Json::object().put("bit", deployment.bit) } else { Json::object() };
    let fields = fields
        .put("start_time", deployment.start_time)
        .put("timeout", deployment.timeout)
        .put("min_activation_height", deployment.min_activation_height)
        .put("status", current.name())
        .put("since", since_current)
        .put("status_next", next.name());
    let fields = if has_stats { signalling(tree, deployment, id, current, fields) } else { fields };
    let active_since = match (current, next) {
        (ThresholdState::Active, _) => Some(since_current.to_u32()),
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

/// Signals of the blocks in the period of `id`, up to it.
fn signalling(tree: &Tree, deployment: &VersionBits, id: NodeId, state: ThresholdState, fields: Fields) -> Fields {
    let period = deployment.period;
    let threshold = deployment.threshold;
    let mut blocks: Vec<bool> = signals(tree, deployment, id).collect();
    blocks.reverse();
    let elapsed = blocks.len() as u32;
    let count = blocks.iter().filter(|signal| **signal).count() as u32;
    let stats = Json::object().put("period", period).put("elapsed", elapsed).put("count", count);
    let stats = if state == ThresholdState::LockedIn {
        // Nothing is counted any more.
        stats
    } else {
        stats.put("threshold", threshold).put("possible", period - threshold >= elapsed - count)
    };
    let letters: String = blocks.into_iter().map(|signal| if signal { '#' } else { '-' }).collect();
    fields.put("statistics", stats).put("signalling", letters)
}
