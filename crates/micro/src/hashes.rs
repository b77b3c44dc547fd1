//! Experiment: double SHA-256 by every kernel of the processor: 64 bytes, a merkle root, the txids of a block.

use crate::bench::Bench;
use crate::input::{Digest, Inputs, Rng};
use crate::owned;
use crate::{Error, Experiment};
use kernels::Kernels;
use kernels::sha256::{Lanes, Pieces, sha256d_64_with, sha256d_many_with};
use primitives::{Hash256, Txid, merkle};

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[PAIRS, ROOT, TXIDS], run };

const PAIRS: &str = "SHA-256d: 64 bytes, 1,024 at once";
const ROOT: &str = "SHA-256d: merkle root of 4,000 leaves";
const TXIDS: &str = "SHA-256d: txids of a full block";

const SHIPPED: &str = "the widest that fills, then narrower";

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let count = bench.size(100, 1_024);
    let bytes = Rng(15).bytes(count * 64);
    let pairs: &[[u8; 64]] = bytes.as_chunks().0;
    if let Some(mut table) = bench.table(PAIRS, "hash", count) {
        for lanes in Lanes::available() {
            let mut out = vec![[0; 32]; count];
            sha256d_64_with(lanes, pairs, &mut out);
            table.add(lanes.name(), Digest::of(out.as_flattened()), move || {
                sha256d_64_with(lanes, pairs, &mut out);
                Ok(out[0])
            });
        }
        let mut out = vec![[0; 32]; count];
        Kernels::AUTO.sha256d_64(pairs, &mut out);
        table.add(SHIPPED, Digest::of(out.as_flattened()), move || {
            Kernels::AUTO.sha256d_64(pairs, &mut out);
            Ok(out[0])
        });
        table.shipped();
        bench.run(table)?;
    }
    root(bench)?;
    txids(bench, inputs)
}

fn root(bench: &mut Bench<'_>) -> Result<(), Error> {
    let count = bench.size(101, 4_000);
    let mut rng = Rng(16);
    let leaves: Vec<Hash256> = (0..count).map(|_| rng.txid().to_hash256()).collect();
    let leaves = &leaves[..];
    let Some(mut table) = bench.table(ROOT, "leaf", count) else { return Ok(()) };
    for lanes in Lanes::available() {
        table.way(lanes.name(), move || root_by(lanes, leaves.iter().map(|leaf| leaf.0).collect()));
    }
    table.way(SHIPPED, move || merkle::root(kernels::Kernels::AUTO, &mut leaves.to_vec()));
    table.shipped();
    bench.run(table)
}

/// A merkle root by one kernel, and whether a pair of equal hashes occurs: see `primitives::merkle::root`.
pub(crate) fn root_by(lanes: Lanes, mut level: Vec<[u8; 32]>) -> (Hash256, bool) {
    let mut mutated = false;
    while level.len() > 1 {
        mutated |= level.as_chunks::<2>().0.iter().any(|[a, b]| a == b);
        if level.len() % 2 == 1 {
            level.push(level[level.len() - 1]);
        }
        let next = level.len() / 2;
        let mut out = vec![[0; 32]; next];
        sha256d_64_with(lanes, level.as_flattened().as_chunks().0, &mut out);
        level = out;
    }
    (level.first().map_or(Hash256::ZERO, |root| Hash256(*root)), mutated)
}

fn txids(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let sample = inputs.full()?;
    let tables = sample.tables()?;
    let block = tables.block(&sample.bytes);
    let parsed = crate::block_io::parsed(sample)?;
    let Some(mut table) = bench.table(TXIDS, "transaction", block.transaction_count()) else { return Ok(()) };
    table.way("fields into a hasher, one by one", || {
        parsed.transactions.iter().map(owned::Transaction::txid).collect::<Vec<Txid>>()
    });
    for lanes in Lanes::available() {
        table.way(lanes.name(), move || {
            let pieces: Vec<Pieces<'_>> = block.transactions().map(|tx| tx.txid_pieces()).collect();
            let mut out = vec![[0; 32]; pieces.len()];
            sha256d_many_with(lanes, &pieces, &mut out);
            out.into_iter().map(Txid::from_bytes).collect()
        });
    }
    table.way(SHIPPED, move || {
        let mut out = Vec::new();
        block.txids_into(&mut out);
        out
    });
    table.shipped();
    bench.run(table)
}
