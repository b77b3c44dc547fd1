//! The budget of memory and the commits by time hold where blocks come more slowly than they are worked on, too.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::memory_backend::Memory;
use crate::panics::jobs;
use crate::traps::{run_groups, run_groups_on};
use coins::table::HashKey;
use consensus::{Chain, Params};
use disk::SimDisk;
use node::jobs;
use node::options::Options;
use node::pipeline::{Outcome, Pipeline, Runnable, Settings};
use primitives::{BlockHash, MedianTime, OutPoint};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use testkit::blocks::{GENESIS_TIME, In, MATURITY, Tx};

/// Runs `blocks`, genesis first, of which the next comes only when all before it are done; `expected` coins are spoken of.
fn run(blocks: &[Vec<u8>], settings: Settings, eager: bool, threads: bool, expected: usize) -> (u32, usize) {
    let params = Params::new(Chain::Regtest);
    let mut memory = Memory::default();
    memory.delay = threads.then_some(Duration::from_millis(3));
    memory.eager.store(eager, Relaxed);
    memory.jobs.lock().unwrap().extend(jobs(blocks));
    let mut pipeline = Pipeline::new(&memory, &params, settings, HashKey([1; 4]));
    pipeline.expect_coins(expected);
    if !threads {
        pipeline.set_deterministic(Box::new(|choices| {
            let is_work = |choice: &Runnable| matches!(choice, Runnable::Block { .. } | Runnable::Disk { .. });
            let feed = || choices.iter().position(|choice| *choice == Runnable::Feed);
            choices.iter().position(is_work).or_else(feed).unwrap_or(0)
        }));
    }
    pipeline.set_times(Arc::new((0..blocks.len() as u32).map(MedianTime::new).collect()));
    let outcome = pipeline.run().unwrap();
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    (memory.commits.load(Relaxed), memory.coin_bytes_max.load(Relaxed))
}

#[test]
fn commit_happens_with_slow_blocks() {
    let blocks = chain(110);
    for (row, par, threads) in [("one thread plays", 1, false), ("one worker", 1, true), ("three workers", 3, true)] {
        let settings = Settings { par, window_blocks: 64, budget_bytes: 64 << 20 };
        let (commits, _) = run(&blocks, settings, true, threads, 0);
        assert!(commits > 10, "{row}: {commits} commits");
    }
}

#[test]
fn commit_happens_after_the_interval() {
    let blocks = file(&chain(110));
    for (interval, is_often) in [(Duration::from_micros(200), true), (Duration::from_secs(3600), false)] {
        let disk = SimDisk::new(0);
        put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &blocks);
        let options = Options { commit_interval: interval, ..options(&disk, false) };
        let report = jobs::reindex(&options, false, &|_| ()).unwrap();
        assert_eq!(report.stats.flushes > 1, is_often, "{interval:?}: {} commits", report.stats.flushes);
    }
}

#[test]
fn memory_stays_bounded_with_slow_blocks() {
    // 900 kB of coins each.
    let params = Params::new(Chain::Regtest);
    let outputs: Vec<(i64, Vec<u8>)> = (0..100).map(|n| (n, vec![0x61; 9000])).collect();
    let above = branch(params.genesis_hash, 1..=60, |height| {
        vec![Tx { outputs: outputs.clone(), ..testkit::blocks::coinbase(height) }]
    });
    let blocks = [vec![params.genesis.to_vec()], above].concat();
    // Below 4 MiB the budget is the coins' alone; above it they have 24 MiB at least, and a quarter more where nothing else
    // takes it. Coins count before they are made: where there is room for more than a block or two, they never exceed it.
    // With room for less than a block, two may be written while two others are made.
    for (budget_bytes, most_bytes, commits_min) in
        [(100 << 10, 5 << 20, 20), (3 << 20, 4 << 20, 10), (4 << 20, 24 << 20, 3), (24 << 20, 30 << 20, 3)]
    {
        let settings = Settings { par: 2, window_blocks: 64, budget_bytes };
        for (threads, expected) in [(false, 0), (true, 0), (true, usize::MAX)] {
            let (commits, most) = run(&blocks, settings, false, threads, expected);
            let row = format!("budget {budget_bytes}, threads {threads}, {expected}: {commits} commits, {most} bytes");
            assert!(commits >= commits_min && most <= most_bytes, "{row}");
        }
    }
}

/// Blocks on top of one, each of a coinbase and maybe another transaction.
fn branch(prev: BlockHash, heights: std::ops::RangeInclusive<u32>, of: impl Fn(u32) -> Vec<Tx>) -> Vec<Vec<u8>> {
    let mut prev = prev;
    let made = heights.map(|height| {
        let made = testkit::blocks::block(prev, GENESIS_TIME + 600 * height, &of(height));
        prev = hash_of(&made);
        made
    });
    made.collect()
}

/// The undo data lacks the heights of the coins: they are those of other coins of the same transactions.
#[test]
fn blocks_with_undo_data_of_old_versions_of_core_are_disconnected() {
    let params = Params::new(Chain::Regtest);
    let two = |height: u32| Tx { outputs: vec![(0, vec![0x51]); 2], ..Tx::coinbase(height, 0) };
    let below = branch(params.genesis_hash, 1..=MATURITY, |height| vec![two(height)]);
    let below = [vec![params.genesis.to_vec()], below].concat();
    let fork = hash_of(&below[MATURITY as usize]);
    let spends = |height: u32| Tx::spend(OutPoint { txid: two(height - MATURITY).txid(), vout: 1 }, 0);
    let spending = branch(fork, MATURITY + 1..=MATURITY + 9, |height| vec![Tx::coinbase(height, 0), spends(height)]);
    let longer = branch(fork, MATURITY + 1..=MATURITY + 10, |height| vec![Tx::coinbase(height, 1)]);
    let settings = Settings { par: 1, window_blocks: 64, budget_bytes: 3 << 20 };
    for eager in [false, true] {
        let straight = run_groups(&[&below, &longer], settings, eager);
        let memory = Memory::new(&params);
        memory.has_old_undo.store(true, Relaxed);
        let after = run_groups_on(&params, memory, &[&below, &spending, &longer], settings, eager);
        assert_eq!(after.set, straight.set);
    }
}

/// Blocks of which each spends 900 kB of coins are disconnected: their coins are written on the way, as Core does.
#[test]
fn reorg_commits_where_what_comes_back_exceeds_the_budget() {
    const WIDE: u32 = 20;
    let params = Params::new(Chain::Regtest);
    let wide = |height: u32| {
        let pushes = [&[0x4d, 0x08, 0x02][..], &[height.to_le_bytes()[0]; 520], &[0x75]].concat();
        let script = [&pushes.repeat(17)[..], &[0x51]].concat();
        Tx { outputs: vec![(0, script); 100], ..Tx::coinbase(height, 0) }
    };
    let spends = |height: u32| {
        let txid = wide(height - MATURITY).txid();
        let inputs = (0..100).map(|vout| In::of(OutPoint { txid, vout })).collect();
        Tx { inputs, ..Tx::spend(OutPoint::NULL, 0) }
    };
    let below = branch(params.genesis_hash, 1..=MATURITY, |height| match height {
        ..=WIDE => vec![wide(height)],
        _ => vec![Tx::coinbase(height, 0)],
    });
    let below = [vec![params.genesis.to_vec()], below].concat();
    let fork = hash_of(&below[MATURITY as usize]);
    let spending = branch(fork, MATURITY + 1..=MATURITY + WIDE, |height| vec![Tx::coinbase(height, 0), spends(height)]);
    let longer = branch(fork, MATURITY + 1..=MATURITY + WIDE + 1, |height| vec![Tx::coinbase(height, 1)]);

    let settings = Settings { par: 1, window_blocks: 64, budget_bytes: 3 << 20 };
    let straight = run_groups(&[&below, &longer], settings, false);
    let before = run_groups(&[&below, &spending], settings, false);
    let after = run_groups(&[&below, &spending, &longer], settings, false);
    assert_eq!(after.set, straight.set);
    let (more, most) = (after.commits - before.commits, after.coin_bytes_max);
    assert!((5..=10).contains(&more), "{WIDE} blocks brought 18 MB of coins back with {more} commits of at most 3 MiB");
    assert!(most <= 5 << 20, "the budget, and what one block brings back: {most} bytes");
}
