//! Mempool transactions as JSON: with ancestors and descendants, in mining order.
//!
//! Source: Bitcoin Core b88bffe, rpc/mempool.cpp.

use crate::args::Args;
use crate::context::Context;
use crate::error::RpcError;
use crate::json::Json;
use crate::mempool_order::{Chunk, Graph};
use crate::registry::{Arg, Call, Kind, Run};
use node::mempool::PoolEntry;
use primitives::Txid;

/// This call.
pub(super) const CALLS: &[Call] = &[Call {
    category: "blockchain",
    name: "getmempoolcluster",
    about: "Returns mempool data for given cluster",
    args: &[Arg::needed("txid", Kind::Hex, "The txid of a transaction in the cluster")],
    run: Run::Now(cluster),
}];

fn graph(context: &Context) -> Graph {
    Graph::new(context.handle.mempool().entries())
}

/// The number of the requested transaction.
fn asked(graph: &Graph, args: &Args<'_>) -> Result<usize, RpcError> {
    graph.place(&args.txid(0, "txid")?).ok_or_else(|| RpcError::not_found("Transaction not in mempool"))
}

pub(super) fn ancestors(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    relatives(context, args, Graph::ancestors)
}

pub(super) fn descendants(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    relatives(context, args, Graph::descendants)
}

/// Ancestors or descendants of the requested transaction, without itself.
fn relatives(context: &Context, args: &Args<'_>, find: fn(&Graph, usize) -> Vec<usize>) -> Result<Json, RpcError> {
    let is_verbose = args.bool_or(1, false)?;
    let graph = graph(context);
    let of = asked(&graph, args)?;
    let found = find(&graph, of).into_iter().filter(|&index| index != of);
    Ok(if is_verbose { detailed(&graph, found) } else { txids(&graph, found) })
}

fn txids(graph: &Graph, indexes: impl Iterator<Item = usize>) -> Json {
    Json::Arr(indexes.map(|index| graph.entries()[index].txid.into()).collect())
}

fn detailed(graph: &Graph, indexes: impl Iterator<Item = usize>) -> Json {
    Json::Obj(indexes.map(|index| (graph.entries()[index].txid.to_string().into(), shown(graph, index))).collect())
}

pub(super) fn entry(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let graph = graph(context);
    let index = asked(&graph, args)?;
    Ok(shown(&graph, index))
}

/// The JSON of a transaction. Source: Core's `entryToJSON`.
fn shown(graph: &Graph, index: usize) -> Json {
    let entry = &graph.entries()[index];
    let of = |indexes: &[usize]| {
        let all = indexes.iter().map(|&index| &graph.entries()[index]);
        let (vsize, fee) = all
            .fold((0, 0_i64), |(vsize, fee), entry| (vsize + entry.vsize(), fee.saturating_add(entry.modified_fee())));
        (indexes.len(), vsize, Json::amount(fee))
    };
    let ancestors = graph.ancestors(index);
    let descendants = graph.descendants(index);
    let (ancestor_count, ancestor_size, ancestor_fees) = of(&ancestors);
    let (descendant_count, descendant_size, descendant_fees) = of(&descendants);
    let chunk = graph.chunk_rate(index);
    let fees = Json::object()
        .put("base", Json::amount(entry.fee.0))
        .put("modified", Json::amount(entry.modified_fee()))
        .put("ancestor", ancestor_fees)
        .put("descendant", descendant_fees)
        .put("chunk", Json::amount(chunk.fee));
    let is_parent = |of: &PoolEntry, txid: Txid| of.inputs.iter().any(|outpoint| outpoint.txid == txid);
    let parents = ancestors.iter().map(|&at| graph.entries()[at].txid).filter(|txid| is_parent(entry, *txid));
    // As in Core, parents are ordered by their text, children by their hashes.
    let mut depends: Vec<String> = parents.map(|txid| txid.to_string()).collect();
    depends.sort();
    let children = descendants.iter().copied().filter(|&at| is_parent(&graph.entries()[at], entry.txid));
    Json::object()
        .put("vsize_adjusted", entry.vsize())
        .put("vsize", entry.vsize())
        .put("vsize_bip141", entry.vsize_bip141())
        .put("weight", entry.weight)
        .put("time", entry.time)
        .put("height", entry.height)
        .put("descendantcount", descendant_count)
        .put("descendantsize", descendant_size)
        .put("ancestorcount", ancestor_count)
        .put("ancestorsize", ancestor_size)
        .put("wtxid", entry.wtxid.to_hash256())
        .put("chunkweight", chunk.weight)
        .put("fees", fees.end())
        .put("depends", Json::Arr(depends.into_iter().map(Json::from).collect()))
        .put("spentby", txids(graph, children))
        .put("unbroadcast", false)
        .end()
}

/// The cluster of the requested transaction, chunk by chunk. Source: Core's `clusterToJSON`.
fn cluster(context: &Context, args: &Args<'_>) -> Result<Json, RpcError> {
    let graph = graph(context);
    let of = asked(&graph, args)?;
    let shown = |chunk: &Chunk| {
        Json::object()
            .put("chunkfee", Json::amount(chunk.rate.fee))
            .put("chunkweight", chunk.rate.weight)
            .put("txs", txids(&graph, chunk.members.iter().copied()))
            .end()
    };
    let chunks: Vec<Json> = graph.cluster(of).map(shown).collect();
    Ok(Json::object()
        .put("clusterweight", graph.cluster(of).map(|chunk| chunk.rate.weight).sum::<u64>())
        .put("txcount", graph.cluster(of).map(|chunk| chunk.members.len()).sum::<usize>())
        .put("chunks", chunks)
        .end())
}

/// The ids of all transactions.
pub(super) fn all(context: &Context) -> Json {
    let graph = graph(context);
    txids(&graph, graph.in_order())
}

/// All transactions with details.
pub(super) fn all_detailed(context: &Context) -> Json {
    let graph = graph(context);
    detailed(&graph, graph.in_order())
}
