//! Sixteen and thirty-two workers, on however few processors: the same blocks in the same order, the same undo data and UTXO
//! set as with one, and memory within the budget.

use crate::chain::{block, coinbase_to, hash_of, id};
use crate::memory_backend::Memory;
use crate::panics::jobs;
use crate::peers::spend;
use coins::table::HashKey;
use consensus::{Chain, Params};
use node::chain::tree::NodeId;
use node::pipeline::{Outcome, Pipeline, Settings};
use primitives::{Amount, CoinKey, Height, MedianTime, OutPoint, Txid, coin};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const BLOCKS: u32 = 90;
const VALUE: u64 = 1_000_000;
const SPENDS: u32 = 8;
const BUDGET_BYTES: usize = 64 << 20;

/// Coins that lie in the tables from the start.
fn old(n: u32) -> Txid {
    Txid::from_bytes(kernels::sha256::sha256(&n.to_le_bytes()))
}

/// Each block makes 900 kB of coins, spends some that lie in the tables, and what it made of these.
fn chain(params: &Params) -> Vec<Vec<u8>> {
    let mut blocks = vec![params.genesis.to_vec()];
    for height in 1..=BLOCKS {
        let outputs = (0..100).map(|n| (n, vec![0x61; 9000])).collect();
        let mut transactions = vec![coinbase_to(height, outputs)];
        for n in 0..SPENDS {
            let first = spend(old(height * SPENDS + n), VALUE, 1);
            let second = spend(id(&first), VALUE - 1, 2);
            transactions.extend([first, second]);
        }
        let prev = hash_of(&blocks[height as usize - 1]);
        blocks.push(block(prev, 1_296_688_602 + 600 * height, &transactions));
    }
    blocks
}

/// Blocks in the order in which they were connected, with their undo data; and the UTXO set.
type End = (Vec<(NodeId, Option<Vec<u8>>)>, BTreeMap<Vec<u8>, Vec<u8>>);

fn run(params: &Params, blocks: &[Vec<u8>], par: usize) -> End {
    let world = Memory::default();
    world.has_slow_disk.store(true, Relaxed);
    let mut stored = Vec::new();
    coin::put_coin(&mut stored, coin::code(Height::new(1), false), Amount(VALUE as i64), &[0x51]);
    for n in 0..(BLOCKS + 1) * SPENDS {
        let key = CoinKey::new(&OutPoint { txid: old(n), vout: 0 }).as_bytes().to_vec();
        world.tables.lock().unwrap().insert(key, stored.clone());
    }
    world.jobs.lock().unwrap().extend(jobs(blocks));
    let settings = Settings { par, window_blocks: 256, budget_bytes: BUDGET_BYTES };
    let pipeline = Pipeline::new(&world, params, settings, HashKey([1; 4]));
    pipeline.set_times(Arc::new((0..=BLOCKS).map(MedianTime::new).collect()));
    assert!(matches!(pipeline.run().unwrap(), Outcome::Done), "{par} workers");
    let tip = pipeline.take_tip().expect("blocks were connected");
    pipeline.flush(tip).unwrap();
    drop(pipeline);
    assert!(world.commits.load(Relaxed) > 1, "{par} workers: memory was short");
    let most = world.coin_bytes_max.load(Relaxed);
    assert!(most <= BUDGET_BYTES + BUDGET_BYTES / 4, "{par} workers: {most} bytes of coins");
    let connected = std::mem::take(&mut *world.connected.lock().unwrap());
    let tables = std::mem::take(&mut *world.tables.lock().unwrap());
    (connected, tables)
}

#[test]
fn many_workers_keep_order_and_memory() {
    let params = Params::new(Chain::Regtest);
    let blocks = chain(&params);
    let one = run(&params, &blocks, 1);
    assert!(one.0.iter().map(|(node, _)| node.index()).eq(1..=BLOCKS as usize), "in the order of the chain");
    for par in [16, 32] {
        assert!(run(&params, &blocks, par) == one, "{par} workers end as one does");
    }
}
