//! One block waits for the tables while a commit passes it and later blocks have their answers: a double spend is refused.
//!
//! By design one commit at most can pass a block that waits in its look-up: the mark of the next one lies behind a block
//! that no shard group has begun, hence behind the one that waits, and that has to be committed first.

use crate::chain::block;
use crate::memory_backend::Memory;
use crate::panics::jobs;
use crate::peers::{coinbase, spend};
use coins::table::HashKey;
use consensus::{Chain, Params};
use node::pipeline::{Choose, Outcome, Pipeline, Runnable, Seq, Settings};
use node::stats::Stage;
use primitives::{Amount, CoinKey, Header, Height, MedianTime, OutPoint, Txid, coin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use testkit::Rng;

/// Blocks 1 to 40, of which this one waits.
const STALLED: u32 = 20;
const LAST: u32 = 40;
/// From this block on work for the disk is held until the other one waits, so that a commit is left to pass it.
const HELD_FROM: u32 = 17;
const VALUE: u64 = 1_000_000;

/// Coins that lie in the tables from the start.
fn old(n: u8) -> Txid {
    Txid::from_bytes([n; 32])
}

/// What happened while the block waited.
#[derive(Default)]
struct Passed {
    commits: AtomicU32,
    later_look_ups: AtomicU32,
}

/// The block's number in the pipeline.
fn seq_of(height: u32) -> Seq {
    Seq::new(u64::from(height - 1))
}

/// Any order in which the block's look-up comes when nothing else can be done.
fn stalling(mut random: Rng, world: Arc<Memory>, passed: Arc<Passed>) -> Choose {
    const WAITING: Runnable = Runnable::Block { seq: Seq::new(STALLED as u64 - 1), stage: Stage::LookUp };
    let (mut is_held, mut was_waiting, mut commits_before) = (false, false, 0);
    Box::new(move |choices| {
        let waits = choices.contains(&WAITING);
        if waits && !was_waiting {
            (was_waiting, commits_before) = (true, world.commits.load(Relaxed));
        }
        is_held |=
            choices.iter().any(|choice| matches!(choice, Runnable::Block { seq, .. } if *seq >= seq_of(HELD_FROM)));
        let is_free = |choice: &Runnable| match choice {
            Runnable::Disk { .. } => !is_held || was_waiting,
            choice => *choice != WAITING,
        };
        let free: Vec<usize> = (0..choices.len()).filter(|&at| is_free(&choices[at])).collect();
        let chosen = if free.iter().any(|&at| choices[at] != Runnable::Memory) {
            free[random.below(free.len())]
        } else {
            // What is held goes on before the block that waits does.
            let held = choices.iter().position(|choice| matches!(choice, Runnable::Disk { .. }));
            held.or_else(|| choices.iter().position(|choice| *choice == WAITING)).unwrap_or(0)
        };
        match choices[chosen] {
            WAITING => passed.commits.store(world.commits.load(Relaxed) - commits_before, Relaxed),
            Runnable::Block { seq, stage: Stage::LookUp } if waits && seq > seq_of(STALLED) => {
                passed.later_look_ups.fetch_add(1, Relaxed);
            }
            _ => {}
        }
        chosen
    })
}

/// A chain in which each of `spends` (height, coin) is a block's, and the tables that it begins with.
fn world(params: &Params, spends: &[(u32, Txid)]) -> Memory {
    let mut blocks = vec![params.genesis.to_vec()];
    for height in 1..=LAST {
        let prev = Header(*blocks[height as usize - 1].first_chunk().unwrap()).hash();
        let mut transactions = vec![coinbase(height, 0, 5_000_000_000)];
        let own = spends.iter().filter(|(at, _)| *at == height);
        transactions.extend(own.map(|(_, coin)| spend(*coin, VALUE, height)));
        blocks.push(block(prev, 1_296_688_602 + 600 * height, &transactions));
    }
    let world = Memory::default();
    world.eager.store(true, Relaxed);
    for n in 1..=LAST as u8 {
        let key = CoinKey::new(&OutPoint { txid: old(n), vout: 0 }).as_bytes().to_vec();
        let mut value = Vec::new();
        coin::put_coin(&mut value, coin::code(Height::new(1), false), Amount(VALUE as i64), &[0x51]);
        world.tables.lock().unwrap().insert(key, value);
    }
    world.jobs.lock().unwrap().extend(jobs(&blocks));
    world
}

/// Runs such a chain: how it ended, and how many coins the tables have then.
fn run(spends: &[(u32, Txid)], budget_bytes: usize, random: Rng, passed: &Arc<Passed>) -> (Outcome, u32) {
    let params = Params::new(Chain::Regtest);
    let world = Arc::new(world(&params, spends));
    world.has_slow_disk.store(budget_bytes == 0, Relaxed);
    let settings = Settings { par: 1, window_blocks: 64, budget_bytes };
    let mut pipeline = Pipeline::new(&*world, &params, settings, HashKey([1; 4]));
    pipeline.set_times(Arc::new((0..=LAST).map(MedianTime::new).collect()));
    pipeline.set_deterministic(stalling(random, Arc::clone(&world), Arc::clone(passed)));
    let outcome = pipeline.run().unwrap();
    let tip = pipeline.take_tip().expect("blocks were connected");
    pipeline.flush(tip).unwrap();
    let left = world.tables.lock().unwrap().len();
    (outcome, left as u32)
}

#[test]
fn double_spend_across_a_stalled_block_is_refused() {
    // Each block from 3 on spends a coin of its own, so that all of them ask the tables.
    let good: Vec<(u32, Txid)> = (3..=LAST).map(|height| (height, old(height as u8))).collect();
    let rows = [
        ("no coin is spent twice", None),
        ("of the block that waits", Some((24, 20))),
        ("of a block just above it", Some((25, 21))),
        ("of a block that was committed before", Some((23, 5))),
        ("of a block whose commit is under way", Some((26, 18))),
        ("far above", Some((39, 20))),
    ];
    for budget_bytes in [0, 64 << 20] {
        let (mut runs, mut commits, mut early) = (0, 0, 0);
        for seed in testkit::seeds(20) {
            for (row, bad) in rows {
                let mut spends = good.clone();
                if let Some((height, coin)) = bad {
                    spends[height as usize - 3].1 = old(coin);
                }
                let passed = Arc::new(Passed::default());
                let (outcome, left) = run(&spends, budget_bytes, Rng::new(seed), &passed);
                let (passing, later) = (passed.commits.load(Relaxed), passed.later_look_ups.load(Relaxed));
                assert!(passing <= 1, "{row}: {passing} commits passed the block");
                runs += 1;
                commits += passing;
                early += u32::from(passing > 0 && later > 0);
                // What was in flight above a refused block is as it was: its coins are there, and none of its own.
                let end = bad.map_or(LAST, |(height, _)| height - 1);
                assert_eq!(left, (LAST - end + 2) + end + (end - 2), "{row}: old coins, coinbases, one of each spend");
                match (&outcome, bad) {
                    (Outcome::Done, None) => {}
                    (Outcome::Refused { node, error, .. }, Some((height, _))) => {
                        let why = error.reject_reason();
                        assert_eq!(
                            (node.index(), why.as_ref()),
                            (height as usize, "bad-txns-inputs-missingorspent"),
                            "{row}"
                        );
                    }
                    other => panic!("{row}: {other:?}"),
                }
            }
        }
        println!(
            "budget {budget_bytes}: a commit passed the block in {commits} of {runs} runs, in {early} beside early answers"
        );
        assert!(
            budget_bytes == 0 || runs < 120 || early > runs / 2,
            "commits pass, and later blocks have answers before"
        );
    }
}

/// The disk keeps one block's coins until those of thirty later blocks were looked up: no worker waits for it.
#[test]
fn workers_go_on_while_a_block_waits_for_the_disk() {
    let params = Params::new(Chain::Regtest);
    let spends: Vec<(u32, Txid)> = (3..=LAST).map(|height| (height, old(height as u8))).collect();
    for par in [1, 2, 5] {
        let world = world(&params, &spends);
        world.first_read_waits_for.store(60, Relaxed);
        let settings = Settings { par, window_blocks: 64, budget_bytes: 64 << 20 };
        let pipeline = Pipeline::new(&world, &params, settings, HashKey([1; 4]));
        pipeline.set_times(Arc::new((0..=LAST).map(MedianTime::new).collect()));
        assert!(matches!(pipeline.run().unwrap(), Outcome::Done), "{par} workers");
        // For the names that it makes, and from the third on for the coin that it spends.
        assert_eq!(world.look_ups.load(Relaxed), LAST + LAST - 2, "each block asks once for each");
    }
}
