//! A repair that is stopped goes on: the set is right, no block is fetched that can be read, and none is copied.
//!
//! With `SLOW=1` every operation of a repair is a row, and more seeds are played; `DOCTOR_STOPS=1000` plays as many,
//! from the one that `DOCTOR_FROM` names. A run that fails says its seed.

use crate::chain::{file, hash_of};
use crate::doctor::{Known, check_whole, damage, hidden, hurt, may_fetch, net, options, peer, read, row_of, seeds};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::Fault;
use node::jobs::{self, Depth, Kind};
use node::reporting::Event;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::Rng;

/// Seeds that are played where none are asked for.
const RUNS: u64 = 6;

#[test]
fn a_repair_that_is_stopped_at_any_operation_goes_on() {
    let known = Known::new();
    stopped_at_any_operation(&known, "index whole", &[(1, 0), (2, 3), (3, 10), (4, 7)]);
    stopped_at_any_operation(&known, "index gone", &[(1, 16), (2, 3), (3, 11), (4, 0)]);
}

fn stopped_at_any_operation(known: &Known, what: &str, damages: &[(usize, usize)]) {
    let hurt = || {
        let disk = known.whole();
        let mut random = Rng::new(3);
        for &(number, which) in damages {
            damage(&disk, known, which, number, &mut random);
        }
        disk.sync_dir(&net("blocks")).unwrap();
        disk
    };
    let (sync, asked) = peer(known);
    let disk = hurt();
    let before = disk.operations();
    jobs::repair(&options(&disk), &sync, &|_| ()).unwrap();
    let operations = disk.operations() - before;
    check_whole(&disk, known, "never stopped");
    let fetched = asked.lock().unwrap().clone();
    let are_fetched = |heights: &[usize]| heights.iter().all(|&at| fetched.contains(&hash_of(&known.blocks[at])));
    assert!(are_fetched(&twice(&disk, known)), "never stopped");
    let stride = if testkit::is_slow() { 1 } else { (operations / 12).max(1) };
    for at in (0..operations).step_by(stride as usize) {
        let disk = hurt();
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
        let stopped = jobs::repair(&options(&disk), &sync, &|_| ());
        for loss in [Loss::Nothing, Loss::Unsynced] {
            let row = format!("{what}, stopped at operation {at} of {operations}, {loss:?}, {:?}", stopped.is_ok());
            let disk = disk.reopen(loss);
            jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            check_whole(&disk, known, &row);
            assert_eq!(*asked.lock().unwrap(), fetched, "{row}: more was fetched");
            let copied = twice(&disk, known);
            assert!(are_fetched(&copied), "{row}: copied {copied:?}");
        }
    }
}

/// Any damages, and up to three stops at any operations, after which the disk may have lost what was not synced.
#[test]
fn a_repair_of_any_damages_goes_on_after_each_stop() {
    let known = Known::new();
    for seed in seeds("DOCTOR_STOPS", "DOCTOR_FROM", RUNS) {
        let mut random = Rng::new(seed);
        let (hurt, damages) = hurt(&known, 1000 + seed);
        let (sync, asked) = peer(&known);
        let disk = hurt.reopen(Loss::Nothing);
        let before = disk.operations();
        jobs::repair(&options(&disk), &sync, &|_| ()).unwrap();
        let operations = disk.operations() - before;
        let mut disk = hurt.reopen(Loss::Nothing);
        let mut row = row_of(seed, &damages);
        for _ in 0..1 + random.below(3) {
            let at = random.below(operations as usize) as u64;
            let loss = if random.below(2) == 0 { Loss::Nothing } else { Loss::Unsynced };
            row += &format!(", stopped at {at} of {operations} with {loss:?}");
            disk.fail_at(disk.operations() + at, 1, Accident::Stop);
            let _ = jobs::repair(&options(&disk), &sync, &|_| ());
            disk = disk.reopen(loss);
        }
        jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        check_whole(&disk, &known, &row);
        let may = may_fetch(&damages);
        let did: BTreeSet<usize> = asked.lock().unwrap().iter().map(|hash| known.heights[hash]).collect();
        assert!(did.is_subset(&may), "{row}: fetched {:?}", did.difference(&may).collect::<Vec<_>>());
        if damages.iter().all(|damage| damage.name != "twice") {
            let copied = twice(&disk, &known);
            assert!(copied.iter().all(|height| may.contains(height)), "{row}: copied {copied:?}");
        }
    }
}

/// Stopped at each of its notes, it says nothing that is not so, and goes on.
#[test]
fn a_repair_that_the_user_stops_is_no_fault() {
    let known = Known::new();
    let (sync, _) = peer(&known);
    let reindexed = known.whole();
    let before = reindexed.operations();
    jobs::reindex(&options(&reindexed), false, &|_| ()).unwrap();
    let operations = reindexed.operations() - before;
    let unfinished = known.whole();
    unfinished.fail_at(unfinished.operations() + operations / 2, 1, Accident::Stop);
    jobs::reindex(&options(&unfinished), false, &|_| ()).unwrap_err();
    let unfinished = unfinished.reopen(Loss::Nothing);
    let no_coins = known.whole();
    for entry in no_coins.list(&net("chainstate")).unwrap() {
        no_coins.remove_file(&net("chainstate").join(entry.name)).unwrap();
    }
    for (row, kind, hurt) in
        [("a reindex", Kind::ReindexUnfinished, unfinished), ("the coins", Kind::CoinsMissing, no_coins)]
    {
        let found = jobs::doctor(&options(&hurt), Depth::Quick, &|_| ()).unwrap().findings;
        assert!(found.iter().any(|finding| finding.kind == kind), "{row}: {found:?}");
        let mut stops = 0;
        for at in 0.. {
            let row = format!("{row}, stopped at note {at}");
            let disk = hurt.reopen(Loss::Nothing);
            let stopped = options(&disk);
            let notes = AtomicUsize::new(0);
            let done = jobs::repair(&stopped, &sync, &|event| {
                if matches!(event, Event::Note(_)) && notes.fetch_add(1, Ordering::Relaxed) == at {
                    stopped.stop.store(true, Ordering::Relaxed);
                }
            });
            assert!(matches!(done, Ok(_) | Err(Fault::Stopped)), "{row}: {done:?}");
            stops += u32::from(done.is_err());
            jobs::repair(&options(&disk), &sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            check_whole(&disk, &known, &row);
            if notes.into_inner() <= at {
                break;
            }
        }
        assert!(stops > 1, "{row}: {stops} stops");
    }
}

/// Heights of blocks of which the block files have more than one whole record.
pub(crate) fn twice(disk: &SimDisk, known: &Known) -> Vec<usize> {
    let magic = file(&known.blocks[..1])[..4].to_vec();
    let mut counts = BTreeMap::new();
    for entry in disk.list(&net("blocks")).unwrap() {
        if entry.name.to_string_lossy().starts_with("blk") {
            let bytes = hidden(read(disk, &net("blocks").join(&entry.name)));
            for (at, record) in bytes.windows(88).enumerate().filter(|(_, record)| record.starts_with(&magic)) {
                let height = known.heights.get(&hash_of(&record[8..]));
                if let Some(height) = height.filter(|height| bytes[at + 8..].starts_with(&known.blocks[**height])) {
                    *counts.entry(*height).or_insert(0) += 1;
                }
            }
        }
    }
    counts.into_iter().filter(|&(_, count)| count > 1).map(|(height, _)| height).collect()
}
