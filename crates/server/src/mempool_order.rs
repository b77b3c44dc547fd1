//! The mempool's transaction graph: dependencies, and mining order.
//!
//! Connected transactions form a cluster. A cluster is ordered by ancestor fee rate: repeatedly, the transaction with
//! the best fee rate together with its unmined ancestors comes next. That order is cut into chunks of non-increasing
//! fee rate; a block takes the best chunks of all clusters.
//! Core searches for a better order (`txgraph`). For a chain of transactions this order is optimal; a parent with
//! several children that pay for it only together may come later here.
//!
//! Source: Bitcoin Core b88bffe, cluster_linearize.h, `ChunkLinearization`; node/miner.cpp, `addChunks`.

use node::mempool::{CLUSTER_MAX, PoolEntry};
use primitives::Txid;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

// Members of a cluster are bits of a word.
const _: () = assert!(CLUSTER_MAX == u64::BITS as usize);

/// Fees and weight of some transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FeeRate {
    /// Satoshis, including the fee deltas of RPC calls.
    pub(crate) fee: i64,
    /// Adjusted weight.
    pub(crate) weight: u64,
}

impl FeeRate {
    fn plus(self, other: FeeRate) -> FeeRate {
        FeeRate { fee: self.fee.saturating_add(other.fee), weight: self.weight + other.weight }
    }

    /// Compares fee rates: satoshis for a unit of weight.
    fn compare(&self, other: &FeeRate) -> Ordering {
        (i128::from(self.fee) * i128::from(other.weight)).cmp(&(i128::from(other.fee) * i128::from(self.weight)))
    }
}

/// Transactions that are mined together.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its transactions, in a valid mining order: numbers of [`Graph::entries`].
    pub(crate) members: Vec<usize>,
    /// Their fees and weight.
    pub(crate) rate: FeeRate,
    /// Its cluster.
    pub(crate) cluster: usize,
}

/// Transactions and their dependencies.
#[derive(Debug)]
pub(crate) struct Graph {
    entries: Vec<Arc<PoolEntry>>,
    places: HashMap<Txid, usize>,
    clusters: Vec<Cluster>,
    /// The cluster of each transaction, and its index in the cluster.
    at: Vec<(usize, usize)>,
    chunks: Vec<Chunk>,
    /// The chunk of each.
    chunk_of: Vec<usize>,
}

/// Up to 64 transactions; bit n of a word is number n of `members`.
#[derive(Debug, Default)]
struct Cluster {
    members: Vec<usize>,
    /// For each member, all transactions that must be mined before it.
    ancestors: Vec<u64>,
}

fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            at
        })
    })
}

/// The representative of a transaction's cluster.
fn root(first: &mut [usize], mut at: usize) -> usize {
    while first[at] != at {
        first[at] = first[first[at]];
        at = first[at];
    }
    at
}

impl Graph {
    /// The graph of transactions that are ordered parents first, with clusters of at most [`CLUSTER_MAX`].
    pub(crate) fn new(entries: Vec<Arc<PoolEntry>>) -> Graph {
        let places: HashMap<Txid, usize> = entries.iter().enumerate().map(|(at, entry)| (entry.txid, at)).collect();
        let parents = |entry: &PoolEntry| -> Vec<usize> {
            entry.inputs.iter().filter_map(|outpoint| places.get(&outpoint.txid).copied()).collect()
        };
        // The first transaction of a cluster represents it.
        let mut first: Vec<usize> = (0..entries.len()).collect();
        for (at, entry) in entries.iter().enumerate() {
            for parent in parents(entry) {
                let a = root(&mut first, at);
                let b = root(&mut first, parent);
                first[a.max(b)] = a.min(b);
            }
        }
        let (mut clusters, mut number, mut at): (Vec<Cluster>, HashMap<usize, usize>, Vec<_>) = Default::default();
        for (index, entry) in entries.iter().enumerate() {
            let id = *number.entry(root(&mut first, index)).or_insert_with(|| {
                clusters.push(Cluster::default());
                clusters.len() - 1
            });
            let cluster = &mut clusters[id];
            let own = 1 << cluster.members.len();
            let before = parents(entry).into_iter().fold(own, |all, parent| {
                let (_, bit): (usize, usize) = at[parent];
                all | cluster.ancestors[bit]
            });
            at.push((id, cluster.members.len()));
            cluster.members.push(index);
            cluster.ancestors.push(before);
        }
        let mut graph = Graph { entries, places, clusters, at, chunks: Vec::new(), chunk_of: Vec::new() };
        graph.cut();
        graph
    }

    fn rate(&self, index: usize) -> FeeRate {
        let entry = &self.entries[index];
        FeeRate { fee: entry.modified_fee(), weight: entry.adjusted_weight() }
    }

    fn rate_of(&self, cluster: &Cluster, some: u64) -> FeeRate {
        bits(some).map(|bit| self.rate(cluster.members[bit])).fold(FeeRate::default(), FeeRate::plus)
    }

    /// The members of a cluster in mining order.
    fn ordered(&self, cluster: &Cluster) -> Vec<usize> {
        let all = u64::MAX >> (u64::BITS as usize - cluster.members.len());
        let mut left = all;
        let mut ordered = Vec::with_capacity(cluster.members.len());
        while left != 0 {
            let sets = bits(left).map(|bit| cluster.ancestors[bit] & left);
            let best = sets.map(|set| (self.rate_of(cluster, set), set));
            // The first of several equal ones.
            let best = best.reduce(|best, next| if next.0.compare(&best.0).is_gt() { next } else { best });
            let (_, set) = best.expect("some are left");
            ordered.extend(bits(set).map(|bit| cluster.members[bit]));
            left &= !set;
        }
        ordered
    }

    /// Cuts all clusters into chunks, the best first.
    fn cut(&mut self) {
        let mut chunks: Vec<Chunk> = Vec::new();
        for (number, cluster) in self.clusters.iter().enumerate() {
            let begin = chunks.len();
            for index in self.ordered(cluster) {
                let mut last = Chunk { members: vec![index], rate: self.rate(index), cluster: number };
                while chunks.len() > begin && last.rate.compare(&chunks[chunks.len() - 1].rate).is_gt() {
                    let mut before = chunks.pop().expect("there is one");
                    before.members.append(&mut last.members);
                    last = Chunk { rate: before.rate.plus(last.rate), ..before };
                }
                chunks.push(last);
            }
        }
        // Chunks of one cluster are in order already, and a stable sort keeps them so.
        chunks.sort_by(|a, b| b.rate.compare(&a.rate));
        self.chunk_of = vec![0; self.entries.len()];
        for (number, chunk) in chunks.iter().enumerate() {
            chunk.members.iter().for_each(|&index| self.chunk_of[index] = number);
        }
        self.chunks = chunks;
    }

    /// All chunks, the best first.
    pub(crate) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The transactions, by number.
    pub(crate) fn entries(&self) -> &[Arc<PoolEntry>] {
        &self.entries
    }

    /// Their numbers, in mining order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = usize> {
        self.chunks.iter().flat_map(|chunk| chunk.members.iter().copied())
    }

    /// The number of a transaction.
    pub(crate) fn place(&self, txid: &Txid) -> Option<usize> {
        self.places.get(txid).copied()
    }

    /// The fee rate of a transaction's chunk.
    pub(crate) fn chunk_rate(&self, index: usize) -> FeeRate {
        self.chunks[self.chunk_of[index]].rate
    }

    /// The chunks of a transaction's cluster, in mining order.
    pub(crate) fn cluster(&self, index: usize) -> impl Iterator<Item = &Chunk> {
        let (cluster, _) = self.at[index];
        self.chunks.iter().filter(move |chunk| chunk.cluster == cluster)
    }

    /// A transaction and its ancestors, by txid.
    pub(crate) fn ancestors(&self, index: usize) -> Vec<usize> {
        let (cluster, bit) = self.at[index];
        let cluster = &self.clusters[cluster];
        self.by_txid(bits(cluster.ancestors[bit]).map(|bit| cluster.members[bit]))
    }

    /// A transaction and its descendants, by txid.
    pub(crate) fn descendants(&self, index: usize) -> Vec<usize> {
        let (cluster, bit) = self.at[index];
        let cluster = &self.clusters[cluster];
        let stand_on = cluster.members.iter().zip(&cluster.ancestors).filter(|(_, before)| **before & (1 << bit) != 0);
        self.by_txid(stand_on.map(|(index, _)| *index))
    }

    fn by_txid(&self, indexes: impl Iterator<Item = usize>) -> Vec<usize> {
        let mut indexes: Vec<usize> = indexes.collect();
        indexes.sort_by_key(|&index| self.entries[index].txid);
        indexes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use primitives::{Amount, Height, OutPoint, Wtxid};

    fn txid(number: u8) -> Txid {
        Txid::from_bytes([number; 32])
    }

    /// Transactions of weight 400: number, parents, fee.
    fn graph(txs: &[(u8, &[u8], i64)]) -> Graph {
        let entry = |&(number, parents, fee): &(u8, &[u8], i64)| {
            Arc::new(PoolEntry {
                txid: txid(number),
                wtxid: Wtxid::from_bytes([number; 32]),
                bytes: Vec::new(),
                fee: Amount(fee),
                fee_delta: 0,
                weight: 400,
                sigop_cost: 0,
                time: 0,
                height: Height::new(1),
                inputs: parents.iter().map(|&parent| OutPoint { txid: txid(parent), vout: number.into() }).collect(),
            })
        };
        Graph::new(txs.iter().map(entry).collect())
    }

    fn numbers(graph: &Graph, indexes: impl IntoIterator<Item = usize>) -> Vec<u8> {
        indexes.into_iter().map(|index| graph.entries()[index].txid.as_bytes()[0]).collect()
    }

    /// Transactions; chunks with what they pay.
    type Row = (&'static str, &'static [(u8, &'static [u8], i64)], &'static [(&'static [u8], i64)]);

    #[test]
    fn best_chunks_come_first_and_parents_before_children() {
        let rows: [Row; 8] = [
            ("none", &[], &[]),
            ("alone", &[(1, &[], 5), (2, &[], 9), (3, &[], 7)], &[(&[2], 9), (&[3], 7), (&[1], 5)]),
            (
                "a child that pays for its parent",
                &[(1, &[], 0), (2, &[1], 10), (3, &[], 4)],
                &[(&[1, 2], 10), (&[3], 4)],
            ),
            ("a child that pays less", &[(1, &[], 9), (2, &[1], 3), (3, &[], 5)], &[(&[1], 9), (&[3], 5), (&[2], 3)]),
            (
                "a chain",
                &[(1, &[], 1), (2, &[1], 2), (3, &[2], 9), (4, &[3], 8), (5, &[4], 0)],
                &[(&[1, 2, 3, 4], 20), (&[5], 0)],
            ),
            ("two parents, one poor", &[(1, &[], 20), (2, &[], 0), (3, &[1, 2], 12)], &[(&[1], 20), (&[2, 3], 12)]),
            ("a parent outside", &[(4, &[9], 3), (5, &[4, 9], 2)], &[(&[4], 3), (&[5], 2)]),
            ("equals keep their order", &[(3, &[], 5), (2, &[], 5), (1, &[2], 5)], &[(&[3], 5), (&[2], 5), (&[1], 5)]),
        ];
        for (row, txs, want) in rows {
            let graph = graph(txs);
            let chunks = graph.chunks().iter().map(|chunk| (numbers(&graph, chunk.members.clone()), chunk.rate.fee));
            let chunks: Vec<(Vec<u8>, i64)> = chunks.collect();
            assert_eq!(chunks, want.iter().map(|(ids, fee)| (ids.to_vec(), *fee)).collect::<Vec<_>>(), "{row}");
            assert_eq!(graph.in_order().count(), txs.len(), "{row}");
        }
    }

    #[test]
    fn relatives_are_found() {
        let graph = graph(&[(5, &[], 1), (4, &[5], 1), (3, &[5], 1), (2, &[3, 4], 9), (1, &[], 1)]);
        let at = |number| graph.place(&txid(number)).unwrap();
        for (number, ancestors, descendants) in
            [(5, &[5][..], &[2, 3, 4, 5][..]), (4, &[4, 5], &[2, 4]), (2, &[2, 3, 4, 5], &[2]), (1, &[1], &[1])]
        {
            assert_eq!(numbers(&graph, graph.ancestors(at(number))), ancestors, "{number}");
            assert_eq!(numbers(&graph, graph.descendants(at(number))), descendants, "{number}");
        }
        assert_eq!(graph.chunk_rate(at(3)), FeeRate { fee: 12, weight: 1600 });
        assert_eq!(graph.place(&txid(9)), None);
    }

    /// A chain of as many transactions as a cluster can have; and another cluster.
    #[test]
    fn largest_cluster_is_put_in_order() {
        let parents: Vec<[u8; 1]> = (0..64).map(|number| [number]).collect();
        let mut txs: Vec<(u8, &[u8], i64)> =
            (1..=64).map(|n| (n, &parents[usize::from(n) - 1][..], i64::from(n))).collect();
        txs.push((100, &[], 33));
        let graph = graph(&txs);
        assert_eq!(graph.chunks().len(), 2);
        assert_eq!(numbers(&graph, graph.in_order()), [&[100], &(1..=64).collect::<Vec<u8>>()[..]].concat());
        assert_eq!(graph.ancestors(63).len(), 64);
    }
}
