//! getblocktemplate: data for mining the next block, which has no transactions here.
//!
//! It follows entirely from headers: the job is not involved, and a client that waits for a new tip (BIP-0022, long
//! polling) occupies no thread.
//! Source: BIP-0022, BIP-0023, BIP-0145; Bitcoin Core b88bffe, rpc/mining.cpp.

use super::mining::{bits_at, least_time};
use super::view::target;
use super::witness_commitment::empty_commitment;
use crate::args::{Args, text};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::registry::{Arg, Call, Kind, Run, Wait};
use consensus::deployments::TOP_BITS;
use consensus::deployments::ThresholdState;
use consensus::{Chain, Deployment, Params, spend};
use node::chain::deployments::state_after;
use node::chain::tree::{NodeId, Tree};
use node::handle::Live;
use primitives::{BlockHash, hex};

/// These calls.
pub(super) const CALLS: &[Call] = &[Call {
    category: "mining",
    name: "getblocktemplate",
    about: "If the request parameters include a 'mode' key, that is used to explicitly select between the default 'template' request or a 'proposal'.\n\
            It returns data needed to construct a block to work on. The block has a coinbase alone.\n\
            For full specification, see BIPs 22, 23, 9, and 145.",
    args: &[Arg::needed("template_request", Kind::Obj, "Format of the template").shown_as(
        "{\"mode\":\"str\",\"capabilities\":[\"str\",...],\"rules\":[\"segwit\",\"str\",...],\"longpollid\":\"str\",\"data\":\"hex\"}",
    )],
    run: Run::Later(get_block_template),
}];

/// Limits of a block. Source: Core's consensus/consensus.h.
const SIGOPS_COST_MAX: u32 = 80_000;
const BLOCK_BYTES_MAX: u32 = 4_000_000;
const WEIGHT_MAX: u32 = 4_000_000;
/// Weight that Core reserves for header and coinbase. Source: Core's `DEFAULT_BLOCK_RESERVED_WEIGHT`.
pub(super) const RESERVED_WEIGHT: u64 = 8000;
/// Weight units of a byte without witness.
const WITNESS_SCALE: u32 = 4;

fn get_block_template(context: &Context, args: &Args<'_>) -> Result<Wait, RpcError> {
    let request = args.get(0);
    let live = context.live()?;
    let mode = match request.field("mode") {
        None | Some(Json::Null) => "template",
        Some(Json::Str(mode)) => mode,
        Some(_) => return Err(RpcError::parameter("Invalid mode")),
    };
    if mode == "proposal" {
        return Err(RpcError::parameter("ffwd judges no proposals: submit the block"));
    }
    let rules = match request.field("rules") {
        Some(Json::Arr(rules)) => rules.iter().map(|rule| text(rule).map(str::to_owned)).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    if mode != "template" {
        return Err(RpcError::parameter("Invalid mode"));
    }
    check_ready(context, &live)?;
    let tip = |live: &Live| {
        let index = live.index.read();
        index.headers().hash(index.tip())
    };
    let known = match request.field("longpollid") {
        None | Some(Json::Null) => None,
        Some(Json::Str(id)) => {
            let hash = Json::from(id.get(..64).unwrap_or(id));
            Some(BlockHash::from_bytes(*crate::args::hash(&hash, "longpollid")?.as_bytes()))
        }
        Some(_) => Some(tip(&live)),
    };
    Ok(Wait {
        until: Box::new(move |context| {
            let live = match context.live() {
                Ok(live) => live,
                // The job opens the data directory anew, or ends.
                Err(_) if known.is_some() => return Ok(None),
                Err(why) => return Err(why),
            };
            let is_new = known.is_none_or(|known| tip(&live) != known);
            let made = is_new.then(|| template(&live, &rules)).transpose()?;
            if made.is_some() {
                // It has no transactions besides its coinbase.
                context.handle.set_last_made(RESERVED_WEIGHT, 0);
            }
            Ok(made)
        }),
        deadline: None,
        outlasts_stop: false,
        otherwise: Box::new(|_| Err(RpcError::new(Code::NotConnected, "Shutting down"))),
    })
}

/// Except on test networks, a template on an old tip is refused.
fn check_ready(context: &Context, live: &Live) -> Result<(), RpcError> {
    if live.params().chain != Chain::Main {
        return Ok(());
    }
    if context.program.peers.peers().is_empty() {
        return Err(RpcError::new(Code::NotConnected, "ffwd is not connected!"));
    }
    if context.handle.is_initial_download(live) {
        return Err(RpcError::new(Code::InInitialDownload, "ffwd is in initial sync and waiting for blocks..."));
    }
    Ok(())
}

/// State of a deployment for the block after the tip. Source: Core's `VersionBitsCache::GBTStatus`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pending {
    /// Not started, failed, or not defined on this network.
    Absent,
    /// Blocks signal for it, with this bit of their version.
    Signalled(u8),
    /// Active.
    Active,
}

/// The deployments with their states, ordered by name as in Core.
fn pending(params: &Params, tree: &Tree, tip: NodeId) -> [(&'static str, Pending); Deployment::ALL.len()] {
    let mut all = Deployment::ALL.map(|which| {
        let state = match state_after(tree, params, which, tip) {
            ThresholdState::Started | ThresholdState::LockedIn => Pending::Signalled(params.deployment(which).bit),
            ThresholdState::Active => Pending::Active,
            ThresholdState::Defined | ThresholdState::Failed => Pending::Absent,
        };
        (which.name(), state)
    });
    all.sort_unstable_by_key(|(name, _)| *name);
    all
}

/// The version of a block that Core makes on top of `tip`: it signals for deployments that are not active yet.
/// Source: Core's `ComputeBlockVersion`.
pub(super) fn next_version(params: &Params, tree: &Tree, tip: NodeId) -> i32 {
    let signals = pending(params, tree, tip).into_iter().map(|(_, pending)| match pending {
        Pending::Signalled(bit) => 1 << bit,
        Pending::Absent | Pending::Active => 0,
    });
    (TOP_BITS | signals.fold(0, |all, bit| all | bit)).cast_signed()
}

fn template(live: &Live, rules: &[String]) -> Result<Json, RpcError> {
    let params = live.params();
    let knows = |rule: &str| rules.iter().any(|known| known == rule);
    let is_signet = params.signet_challenge.is_some();
    for (name, is_wanted, all) in [("signet", is_signet, r#""segwit", "signet""#), ("segwit", true, r#""segwit""#)] {
        if is_wanted && !knows(name) {
            let why =
                format!("getblocktemplate must be called with the {name} rule set (call with {{\"rules\": [{all}]}})");
            return Err(RpcError::parameter(why));
        }
    }
    let index = live.index.read();
    let tree = index.headers();
    let tip = index.tip();
    let height = tree.height(tip) + 1;
    let least = least_time(params, tree, tip);
    let time = u32::try_from(live.unix_time().max(least)).unwrap_or(u32::MAX);
    let bits = bits_at(params, tree, tip, time);
    let is_segwit = height >= params.segwit_height;
    let scale = if is_segwit { 1 } else { WITNESS_SCALE };
    let mut in_force: Vec<Json> = vec!["csv".into()];
    in_force.extend(is_segwit.then_some(["!segwit".into(), "taproot".into()]).into_iter().flatten());
    in_force.extend(is_signet.then(|| Json::from("!signet")));
    let mut available = Json::object();
    for (name, deployment) in pending(params, tree, tip) {
        match deployment {
            Pending::Signalled(bit) => available = available.put(name, bit),
            Pending::Active => in_force.push(name.into()),
            Pending::Absent => {}
        }
    }
    let changeable: Vec<Json> = ["time", "transactions", "prevblock"].into_iter().map(Json::from).collect();
    let fields = Json::object()
        // Core has "proposal" here.
        .put("capabilities", Vec::new())
        .put("version", next_version(params, tree, tip))
        .put("rules", in_force)
        .put("vbavailable", available.end())
        .put("vbrequired", 0)
        .put("previousblockhash", tree.hash(tip))
        .put("transactions", Vec::new())
        .put("coinbaseaux", Json::object().end())
        .put("coinbasevalue", spend::subsidy(params, height).0)
        .put("longpollid", format!("{}{}", tree.hash(tip), 1 + live.figures.counted().blocks))
        .put("target", target(bits))
        .put("mintime", least)
        .put("mutable", changeable)
        .put("noncerange", "00000000ffffffff")
        .put("sigoplimit", SIGOPS_COST_MAX / scale)
        .put("sizelimit", BLOCK_BYTES_MAX / scale)
        .put_some("weightlimit", is_segwit.then_some(WEIGHT_MAX))
        .put("curtime", time)
        .put("bits", format!("{bits:08x}"))
        .put("height", height)
        .put_some("signet_challenge", params.signet_challenge.as_ref().map(|script| hex::encode(script)))
        .put("default_witness_commitment", hex::encode(&empty_commitment()));
    Ok(fields.end())
}
