//! Experiment: look up the coins that a block spends in the tables of a chainstate.
//!
//! The chainstate is in the page cache: the experiment measures the search, not the drive.

use crate::bench::Bench;
use crate::input::{self, Digest, Inputs, Mix, Rng};
use crate::{Error, Experiment};
use primitives::{BlockHash, CoinKey, OutPoint};
use std::path::Path;
use store::Chainstate;
use store::chainstate::CoinsView;

pub(crate) const EXPERIMENT: Experiment = Experiment { tables: &[NAME], run };

const NAME: &str = "prevout look-up: 7,000 of a chainstate of 500,000";
/// Number of commits for the coins: as many runs of tables as a chainstate may have in level 0, and one below.
const RUNS: usize = 3;

fn run(bench: &mut Bench<'_>, inputs: &Inputs) -> Result<(), Error> {
    let count = bench.size(3_000, 500_000);
    let wanted_count = bench.size(300, 7_000);
    let mut records: Vec<(Vec<u8>, OutPoint, Vec<u8>)> = input::coins(count, Mix::In2025, 17)
        .into_iter()
        .map(|coin| (key(&coin.outpoint), coin.outpoint, coin.coin))
        .collect();
    let dir = inputs.directory("look-up")?.join("chainstate");
    let chainstate = filled(&dir, &mut records)?;
    let mut rng = Rng(18);
    // One of a hundred coins does not exist.
    let wanted: Vec<OutPoint> = (0..wanted_count)
        .map(|at| match at % 100 {
            0 => OutPoint { txid: rng.txid(), vout: 0 },
            _ => records[rng.below(count as u64) as usize].1,
        })
        .collect();
    drop(records);
    let view = chainstate.view();
    let view = &view;
    let wanted = &wanted[..];
    let Some(mut table) = bench.table(NAME, "look-up", wanted_count) else { return Ok(()) };
    table.waits();
    table.try_way("one by one", move || one_by_one(view, wanted))?;
    table.try_way("one by one, sorted first", move || one_by_one_sorted(view, wanted))?;
    table.try_way("sorted batch", move || batch(view, wanted))?.shipped();
    for threads in [2, 4] {
        table.try_way(format!("sorted batch, {threads} threads"), move || in_threads(view, wanted, threads))?;
    }
    bench.run(table)
}

fn key(name: &OutPoint) -> Vec<u8> {
    CoinKey::new(name).as_bytes().to_vec()
}

fn filled(dir: &Path, records: &mut [(Vec<u8>, OutPoint, Vec<u8>)]) -> Result<Chainstate, Error> {
    let chainstate = Chainstate::open_with(input::disk(), dir, [8, 7, 6, 5, 4, 3, 2, 1])?;
    let share = records.len().div_ceil(RUNS);
    for (number, records) in records.chunks_mut(share).enumerate() {
        records.sort_unstable();
        let bytes: usize = records.iter().map(|(key, _, coin)| key.len() + coin.len()).sum();
        let best = BlockHash::from_bytes([number as u8 + 1; 32]);
        let commit = loop {
            if let Some(commit) = chainstate.begin_commit(best, records.len() as u64, bytes as u64)? {
                break commit;
            }
        };
        let mut part = commit.first_part()?;
        records.iter().try_for_each(|(key, _, coin)| part.put(key, coin))?;
        part.finish()?;
        commit.finish()?;
    }
    Ok(chainstate)
}

/// A digest of each coin, in the order of `wanted`.
type Answers = Vec<Option<Digest>>;

fn one_by_one(view: &CoinsView, wanted: &[OutPoint]) -> Result<Answers, Error> {
    wanted.iter().map(|name| Ok(view.get(name)?.map(|coin| Digest::of(&coin)))).collect()
}

/// Keys in order, each with its index in `wanted`.
fn sorted(wanted: &[OutPoint]) -> (Vec<CoinKey>, Vec<usize>) {
    let mut keys: Vec<(CoinKey, usize)> = wanted.iter().map(CoinKey::new).zip(0..).collect();
    keys.sort_unstable();
    keys.into_iter().unzip()
}

fn one_by_one_sorted(view: &CoinsView, wanted: &[OutPoint]) -> Result<Answers, Error> {
    let mut answers = vec![None; wanted.len()];
    for at in sorted(wanted).1 {
        answers[at] = view.get(&wanted[at])?.map(|coin| Digest::of(&coin));
    }
    Ok(answers)
}

fn batch(view: &CoinsView, wanted: &[OutPoint]) -> Result<Answers, Error> {
    let (keys, places) = sorted(wanted);
    let mut answers = vec![None; wanted.len()];
    view.look_up(&keys, |at, coin| answers[places[at]] = coin.map(Digest::of))?;
    Ok(answers)
}

fn in_threads(view: &CoinsView, wanted: &[OutPoint], threads: usize) -> Result<Answers, Error> {
    let (keys, places) = sorted(wanted);
    let mut answers = vec![None; wanted.len()];
    let found = std::thread::scope(|scope| {
        let share = keys.len().div_ceil(threads);
        let workers: Vec<_> = keys
            .chunks(share)
            .zip(places.chunks(share))
            .map(|(keys, places)| {
                scope.spawn(move || {
                    let mut found = Vec::with_capacity(keys.len());
                    let done = view.look_up(keys, |at, coin| found.push((places[at], coin.map(Digest::of))));
                    done.map(|()| found)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("look-ups do not panic")).collect::<Vec<_>>()
    });
    for found in found {
        found?.into_iter().for_each(|(at, coin)| answers[at] = coin);
    }
    Ok(answers)
}
