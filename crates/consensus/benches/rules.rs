//! Benchmarks of the rules on real blocks: `cargo bench -p ffwd-consensus`. Small, and only checked, without `--bench`.
//!
//! A row is as `testkit::bench` says, for one block. Parsing and ids are not in it; without test data there is no row.

use consensus::block::{self, Context, Scratch};
use consensus::{BlockSpend, Chain, Params, SpentCoin};
use primitives::{Amount, Height, MedianTime, Reader, Tables};
use std::hint::black_box;
use std::path::Path;
use testkit::{Bench, Per, data};

const GENESIS_TIME: u32 = 1_231_006_505;

fn main() {
    let bench = Bench::from_args();
    let Some(dir) = data::dir() else { return };
    for (name, height, sigop_cost) in
        [("main_367891_872592b29970", 367_891, 3408), ("main_866342_b101d3c8f1f1", 866_342, 5666)]
    {
        rows(&bench, &dir.join("blocks").join(name), Height::new(height), sigop_cost);
    }
}

/// The rows of one block; checked by the cost of its signature operations.
fn rows(bench: &Bench, path: &Path, height: Height, sigop_cost: u64) {
    let bytes = std::fs::read(path.with_extension("blk")).expect("a block of the test data");
    let spent = data::read(&path.with_extension("spent.xz"));
    let params = Params::new(Chain::Main);
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).expect("a real block");
    let hash = block.header().hash();
    let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    let mut scratch = Scratch::default();
    let context = Context { height, median_time_past: MedianTime::new(GENESIS_TIME), cleanup: consensus::Cleanup::Off };
    let about = format!("{height} ({} transactions, {} inputs)", block.transaction_count(), block.input_count());
    bench.time(&format!("check, block {about}"), Per::of(1, "block"), || {
        block::check(&params, &block, &hash, &txids, &mut sigops, &mut scratch).expect("a good block");
    });
    bench.time(&format!("check_context, block {about}"), Per::of(1, "block"), || {
        block::check_context(&params, &block, &context, &txids, &wtxids, &mut scratch).expect("a good block");
    });
    let coins = coins(&spent);
    bench.time(&format!("spend, block {about}"), Per::of(1, "block"), || {
        let mut spend = BlockSpend::new(&params, height, &hash, MedianTime::new(GENESIS_TIME));
        let mut next = coins.iter();
        for (index, tx) in block.transactions().enumerate() {
            let coin = |_| next.next().copied();
            spend.transaction(&tx, &txids[index], sigops[index], coin, |_| MedianTime::ZERO).expect("a good block");
        }
        let totals = black_box(spend.finish(&block.transaction(0))).expect("a good block");
        assert_eq!(totals.sigop_cost, sigop_cost);
    });
}

/// Value and script of each spent coin, old enough for every rule.
fn coins(spent: &[u8]) -> Vec<SpentCoin<'_>> {
    let (mut reader, mut coins) = (Reader::new(spent), Vec::new());
    while reader.remaining() != 0 {
        let value = Amount(reader.u64().expect("a value").cast_signed());
        let script_bytes = reader.compact_size().expect("a length");
        let script = reader.take(script_bytes).expect("a script");
        coins.push(SpentCoin { height: Height::GENESIS, coinbase: false, value, script });
    }
    coins
}
