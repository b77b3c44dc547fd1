//! Benchmarks of the rules on real blocks: `cargo bench -p consensus`. Small, and only checked, without `--bench`.
//!
//! A row is the least and the median of 41 runs of some milliseconds, on one thread, in microseconds a block
//! (`us/block`). Parsing and ids are not in it; without the folder of test data there is no row.

use consensus::block::{self, Context, Scratch};
use consensus::{BlockSpend, Chain, Params, SpentCoin};
use primitives::{Amount, Height, Reader, Tables};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

const GENESIS_TIME: u32 = 1_231_006_505;

fn main() {
    let full = std::env::args().any(|word| word == "--bench");
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data");
    let folder = std::env::var_os("FFWD_TEST_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    if !folder.is_dir() {
        println!("skipped: no test data in {} (set FFWD_TEST_DATA)", folder.display());
        return;
    }
    for (name, height, sigop_cost) in
        [("main_367891_872592b29970", 367_891, 3408), ("main_866342_b101d3c8f1f1", 866_342, 5666)]
    {
        rows(&folder.join("blocks").join(name), height, sigop_cost, full);
    }
}

/// The rows of one block; checked by the cost of its signature operations.
fn rows(path: &Path, height: Height, sigop_cost: u64, full: bool) {
    let bytes = std::fs::read(path.with_extension("blk")).expect("a block of the test data");
    let spent = xz(&path.with_extension("spent.xz"));
    let params = Params::new(Chain::Main);
    let mut tables = Tables::new();
    let block = tables.parse_block(&bytes).expect("a real block");
    let hash = block.header().hash();
    let (mut txids, mut wtxids, mut sigops) = (Vec::new(), Vec::new(), Vec::new());
    block.txids_into(&mut txids);
    block.wtxids_into(&txids, &mut wtxids);
    let mut scratch = Scratch::default();
    let context = Context { height, median_time_past: GENESIS_TIME };
    let about = format!("{height} ({} transactions, {} inputs)", block.transaction_count(), block.input_count());
    time(&format!("check, block {about}"), full, || {
        block::check(&params, &block, &hash, &txids, &mut sigops, &mut scratch).expect("a good block");
    });
    time(&format!("check_context, block {about}"), full, || {
        block::check_context(&params, &block, &context, &txids, &wtxids, &mut scratch).expect("a good block");
    });
    let coins = coins(&spent);
    time(&format!("spend, block {about}"), full, || {
        let mut spend = BlockSpend::new(&params, height, &hash, GENESIS_TIME);
        let mut next = coins.iter();
        for (index, tx) in block.transactions().enumerate() {
            let coin = |_| next.next().copied();
            spend.transaction(&tx, &txids[index], sigops[index], coin, |_| 0).expect("a good block");
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
        coins.push(SpentCoin { height: 0, coinbase: false, value, script });
    }
    coins
}

fn xz(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).expect("spent outputs of the test data");
    liblzma::read::XzDecoder::new(file).read_to_end(&mut bytes).expect("xz");
    bytes
}

fn time(row: &str, full: bool, mut work: impl FnMut()) {
    work();
    if !full {
        return;
    }
    let mut run = |repeats: u32| {
        let start = Instant::now();
        (0..repeats).for_each(|_| work());
        start.elapsed().as_secs_f64() / f64::from(repeats)
    };
    let repeats = (0.004 / run(1)).ceil().max(1.0) as u32;
    let mut runs: Vec<f64> = (0..41).map(|_| run(repeats)).collect();
    runs.sort_by(f64::total_cmp);
    println!("{row}: least {:.1}, median {:.1} us/block", runs[0] * 1e6, runs[20] * 1e6);
}
