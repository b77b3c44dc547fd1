//! scanblocks: finds blocks that may create or spend outputs with these scripts, by their filters.
//!
//! Source: Bitcoin Core b88bffe, rpc/blockchain.cpp, `scanblocks`, `CheckBlockFilterMatches`.

use super::block::{parsed, spent, undo_bytes};
use super::indexed::is_index_ready;
use super::scan_coins::scan_object;
use super::view::block_bytes;
use crate::args::{Args, boolean};
use crate::context::Context;
use crate::error::{Code, RpcError};
use crate::json::Json;
use crate::output::Prefixes;
use crate::registry::{Arg, Call, Kind, Run};
use crate::scan::ScanTurn;
use indexes::{IndexKind, filter};
use node::chain::tree::NodeId;
use node::handle::Live;
use primitives::{Height, Tables};
use std::collections::HashSet;

/// These calls.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "scanblocks",
    about: "Return relevant blockhashes for given descriptors (requires blockfilterindex).\n\
            \"start\" starts a scan, \"abort\" ends one that runs, \"status\" reports its progress.",
    args: &[
        Arg::needed("action", Kind::Str, "start, abort or status"),
        Arg::optional("scanobjects", Kind::Arr, "Descriptors, or objects with desc and range")
            .shown_as("[scanobjects,...]"),
        Arg::optional("start_height", Kind::Num, "Height to start to scan from"),
        Arg::optional("stop_height", Kind::Num, "Height to stop to scan"),
        Arg::optional("filtertype", Kind::Str, "The type name of the filter"),
        Arg::optional(
            "options",
            Kind::NamedParams(&[Arg::optional(
                "filter_false_positives",
                Kind::Bool,
                "Filter false positives (slower and may fail on pruned nodes). Otherwise they may occur at a rate of 1/M",
            )]),
            "",
        )
        .shown_as("options"),
    ],
    run: Run::Now(scan_blocks),
}];

fn scan_blocks(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let scan = &context.block_scan;
    match args.text(0)? {
        "status" => Ok(match scan.progress() {
            Some(percent) => Json::object().put("progress", percent).put("current_height", scan.height()).end(),
            None => Json::Null,
        }),
        "abort" => Ok(Json::Bool(scan.abort())),
        "start" => {
            let busy = || RpcError::parameter("Scan already in progress, use action \"abort\" or \"status\"");
            let turn = scan.begin().ok_or_else(busy)?;
            start(context, args, &turn)
        }
        other => Err(RpcError::parameter(format!("Invalid action '{other}'"))),
    }
}

fn start(context: &Context, args: &Args<'_>, turn: &ScanTurn<'_>) -> Result<Json, RpcError> {
    if !args.is_given(1) {
        return Err(RpcError::misc("scanobjects argument is required for the start action"));
    }
    let kind = args.maybe_text(4)?.unwrap_or("basic");
    if kind != "basic" {
        return Err(RpcError::not_found("Unknown filtertype"));
    }
    let is_exact = match args.get(5).field("filter_false_positives") {
        None | Some(Json::Null) => false,
        Some(wanted) => boolean(wanted)?,
    };
    let live = context.live()?;
    if !live.has_index(IndexKind::BlockFilter) {
        return Err(RpcError::misc(format!("Index is not enabled for filtertype {kind}")));
    }
    let range = Range::read(args, &live)?;
    let prefixes = Prefixes::of(live.params().chain);
    let mut needles: HashSet<Vec<u8>> = HashSet::new();
    for value in args.list(1)? {
        needles.extend(scan_object(value, &prefixes)?.scripts);
    }
    is_index_ready(context, &live, IndexKind::BlockFilter)?;
    range.search(context, &live, turn, &Wanted { needles: &needles, is_exact })
}

/// The search.
struct Wanted<'n> {
    needles: &'n HashSet<Vec<u8>>,
    /// Whether a block with a matching filter is read and checked itself.
    is_exact: bool,
}

/// A range of blocks of one chain.
struct Range {
    tip: NodeId,
    first: Height,
    last: Height,
}

impl Range {
    fn read(args: &Args<'_>, live: &Live) -> Result<Range, RpcError> {
        let index = live.index.read();
        let tip = index.tip();
        let top = index.headers().height(tip);
        let height = |at: usize, default: Height, what: &str| -> Result<Height, RpcError> {
            if !args.is_given(at) {
                return Ok(default);
            }
            let given = u32::try_from(args.int(at)?).map(Height::new);
            given.ok().filter(|height| *height <= top).ok_or_else(|| RpcError::misc(format!("Invalid {what}")))
        };
        let first = height(2, Height::GENESIS, "start_height")?;
        let last = height(3, top, "stop_height")?;
        if last < first {
            return Err(RpcError::misc("Invalid stop_height"));
        }
        Ok(Range { tip, first, last })
    }

    fn search(
        &self,
        context: &Context,
        live: &Live,
        turn: &ScanTurn<'_>,
        wanted: &Wanted<'_>,
    ) -> Result<Json, RpcError> {
        let count = u64::from(self.last.blocks_above(self.first));
        let scripts: Vec<&[u8]> = wanted.needles.iter().map(Vec::as_slice).collect();
        let mut found = Vec::new();
        // The last block searched; as in Core, the first if no block was searched.
        let mut last = self.first;
        let mut is_complete = true;
        for at in (self.first.to_u32()..=self.last.to_u32()).map(Height::new) {
            let done = u64::from(at.blocks_above(self.first));
            let percent = (done * 100).checked_div(count).unwrap_or(100) as u32;
            if context.is_stopping() {
                return Err(node::handle::Unanswered::Ended.into());
            }
            if !turn.at(at, percent) {
                is_complete = false;
                break;
            }
            let (id, hash) = {
                let tree = live.index.headers();
                let id = tree.ancestor(self.tip, at);
                (id, tree.hash(id))
            };
            let missing =
                || RpcError::misc("Filter not found. Block filters are still in the process of being indexed.");
            let (bytes, _) = live.block_filter(id)?.ok_or_else(missing)?;
            let matches = filter::matches_any(&bytes, &hash, &scripts)
                .map_err(|why| RpcError::new(Code::Internal, format!("the filter of block {hash}: {why}")))?;
            if matches && (!wanted.is_exact || has_script(live, id, wanted.needles)?) {
                found.push(Json::from(hash));
            }
            last = at;
        }
        Ok(Json::object()
            .put("from_height", self.first)
            .put("to_height", last)
            .put("relevant_blocks", found)
            .put("completed", is_complete)
            .end())
    }
}

/// Whether a block creates or spends an output with one of these scripts.
fn has_script(live: &Live, id: NodeId, needles: &HashSet<Vec<u8>>) -> Result<bool, RpcError> {
    let bytes = block_bytes(live, id)?;
    let mut tables = Tables::new();
    let block = parsed(&mut tables, &bytes)?;
    let makes = |script: &[u8]| needles.contains(script);
    if block.transactions().any(|tx| tx.outputs().any(|output| makes(output.script()))) {
        return Ok(true);
    }
    if block.transaction_count() == 1 {
        return Ok(false);
    }
    let undo = undo_bytes(live, id)?;
    Ok(spent(&undo, &block)?.iter().any(|coin| makes(&coin.script.to_vec())))
}
