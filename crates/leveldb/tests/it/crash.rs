//! A small series of commits and compactions, with an accident at every operation of the disk: whatever
//! is found after it is what was committed last, or what was being committed.

use std::sync::Arc;

use disk::{Disk, Fault, Loss, SimDisk};
use leveldb::{Db, Error, Options};

use testkit::Rng;

use crate::support::{Model, Record, apply, check, commit, commit_in_parts, contents, dir};

const KEYS: u64 = 60;
const TINY: Options =
    Options { table_bytes: 1 << 10, level1_bytes: 2 << 10, has_filters: true, kernels: kernels::Kernels::AUTO };

/// The states that a reader may find: the first was acknowledged, the others might have come after.
struct States {
    acknowledged: Model,
    possible: Vec<Model>,
}

/// The commits of the series, the same each time.
fn commits() -> Vec<Vec<Record>> {
    let mut rng = Rng::new(11);
    [40, 30, 30, 25, 20, 15, 10, 40, 5, 5, 30, 5].map(|count| commit(&mut rng, KEYS, count)).into()
}

/// Makes, fills, compacts, reopens, until the first error.
fn series(disk: &Arc<dyn Disk>, states: &mut States) -> leveldb::Result<()> {
    let mut db = Db::create(disk.clone(), &dir(), TINY)?;
    for (index, records) in commits().iter().enumerate() {
        let mut next = states.acknowledged.clone();
        apply(&mut next, records);
        states.possible = vec![next.clone()];
        commit_in_parts(&db, records, 1 + index % 3)?;
        states.acknowledged = next;
        states.possible.clear();
        match index {
            3 => drop(db.plan_full_compaction()?.expect("several runs").step()?),
            5 => db.plan_full_compaction()?.expect("several runs").run()?,
            7 => {
                drop(db);
                db = Db::open(disk.clone(), &dir(), TINY)?;
            }
            _ => {}
        }
    }
    db.settle()
}

fn first() -> States {
    States { acknowledged: Model::new(), possible: Vec::new() }
}

/// How many operations the series has without an accident.
fn operations() -> u64 {
    let disk = SimDisk::new(0);
    disk.create_dir_all(&dir()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    let begun = disk.operations();
    series(&disk.shared(), &mut first()).unwrap();
    disk.operations() - begun
}

fn prepared(seed: u64) -> (SimDisk, u64) {
    let disk = SimDisk::new(seed);
    disk.create_dir_all(&dir()).unwrap();
    disk.sync_dir("/".as_ref()).unwrap();
    let begun = disk.operations();
    (disk, begun)
}

/// Opens what is left, checks it, and goes on working with it.
fn check_left(left: &SimDisk, states: &States, what: &str) {
    if !Db::exists(left, &dir()).unwrap() {
        assert!(states.acknowledged.is_empty(), "{what}: gone");
        drop(Db::create(left.shared(), &dir(), TINY).unwrap());
        return;
    }
    let read_only = Db::open_read_only(left.shared(), &dir()).unwrap();
    let found = contents(&read_only.snapshot());
    let is_known = found == states.acknowledged || states.possible.contains(&found);
    assert!(is_known, "{what}: neither what was committed nor what was being committed");
    let mut model = found;
    check(&read_only.snapshot(), &model, KEYS);
    drop(read_only);
    let db = Db::open(left.shared(), &dir(), TINY).unwrap();
    check(&db.snapshot(), &model, KEYS);
    let records = commit(&mut Rng::new(99), KEYS, 30);
    commit_in_parts(&db, &records, 2).unwrap();
    apply(&mut model, &records);
    while db.compact_now().unwrap() {}
    check(&db.snapshot(), &model, KEYS);
    drop(db);
    let names = crate::support::names(left, &dir());
    let manifests = names.iter().filter(|name| name.starts_with("MANIFEST")).count();
    assert_eq!(manifests, 1, "{what}: {names:?}");
    assert!(!names.iter().any(|name| name.ends_with("dbtmp")), "{what}: {names:?}");
}

#[test]
fn stop_at_any_operation_loses_nothing_committed() {
    let seeds = if testkit::is_slow() { 40 } else { 2 };
    for operation in 0..operations() {
        for seed in 0..seeds {
            let (disk, begun) = prepared(seed);
            disk.fail_at(begun + operation, 1, Fault::Stop);
            let mut states = first();
            assert!(series(&disk.shared(), &mut states).is_err());
            assert!(disk.is_stopped());
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(seed), Loss::Random(seed + 1000)] {
                let what = format!("stopped at {operation}, seed {seed}, {loss:?}");
                check_left(&disk.reopen(loss), &states, &what);
            }
        }
    }
}

/// Commits that lie behind each other, each of several tables, with a new start in the middle.
fn pieces(disk: &Arc<dyn Disk>, states: &mut States) -> leveldb::Result<()> {
    let mut db = Db::create(disk.clone(), &dir(), TINY)?;
    let mut keys: Vec<Vec<u8>> = (0..KEYS).map(crate::support::key).collect();
    keys.sort();
    for (index, some) in keys.chunks(9).enumerate() {
        let mut next = states.acknowledged.clone();
        let run = db.begin_run_behind()?;
        let mut table = run.table();
        for key in some {
            table.put(key, &[index as u8; 200])?;
            next.insert(key.clone(), vec![index as u8; 200]);
        }
        table.finish()?;
        states.possible = vec![next.clone()];
        db.commit(run)?;
        states.acknowledged = next;
        states.possible.clear();
        if index == 3 {
            drop(db);
            db = Db::open(disk.clone(), &dir(), TINY)?;
        }
    }
    db.settle()
}

#[test]
fn commits_behind_each_other_are_one_run_and_lose_nothing() {
    let (disk, begun) = prepared(0);
    let mut states = first();
    pieces(&disk.shared(), &mut states).unwrap();
    let db = Db::open(disk.shared(), &dir(), TINY).unwrap();
    check(&db.snapshot(), &states.acknowledged, KEYS);
    assert!(!db.compact_now().unwrap(), "one run: nothing is compacted");
    drop(db);
    for operation in 0..disk.operations() - begun {
        let (disk, begun) = prepared(operation);
        disk.fail_at(begun + operation, 1, Fault::Stop);
        let mut states = first();
        if pieces(&disk.shared(), &mut states).is_ok() {
            break;
        }
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
            check_left(&disk.reopen(loss), &states, &format!("stopped at {operation}, {loss:?}"));
        }
    }
}

#[test]
fn commit_behind_another_is_refused_where_there_are_more_runs() {
    let (disk, _) = prepared(0);
    let db = Db::create(disk.shared(), &dir(), TINY).unwrap();
    for number in 0..2 {
        db.write(&[(crate::support::key(number), Some(b"x"))]).unwrap();
    }
    assert!(matches!(db.begin_run_behind(), Err(Error::CompactFirst { .. })));
    while db.compact_now().unwrap() {}
    drop(db.begin_run(100).unwrap());
}

/// Does the series; where an operation fails, tries the commit or compaction again on the same database.
fn stubborn(disk: &SimDisk, states: &mut States, losses: &mut impl FnMut(&SimDisk, &States)) {
    let again = |result: leveldb::Result<()>| match result {
        Ok(()) => true,
        Err(Error::Disk(_) | Error::Lock(_)) => false,
        Err(why) => panic!("{why}"),
    };
    let shared = disk.shared();
    let db = loop {
        // What a failed creation began may be whole.
        let made = match Db::exists(disk, &dir()).unwrap() {
            true => Db::open(shared.clone(), &dir(), TINY),
            false => Db::create(shared.clone(), &dir(), TINY),
        };
        match made {
            Ok(db) => break db,
            Err(Error::Disk(_) | Error::Lock(_)) => {}
            Err(why) => panic!("{why}"),
        }
    };
    for (index, records) in commits().iter().enumerate() {
        let mut next = states.acknowledged.clone();
        apply(&mut next, records);
        states.possible.push(next.clone());
        while !again(commit_in_parts(&db, records, 1 + index % 3)) {
            assert!(contents(&db.snapshot()) == states.acknowledged, "a failed commit is not seen");
            losses(disk, states);
        }
        states.acknowledged = next;
        states.possible.clear();
        if index == 5 {
            while !again(db.plan_full_compaction().and_then(|compaction| match compaction {
                Some(compaction) => compaction.run(),
                None => Ok(()),
            })) {
                losses(disk, states);
            }
        }
    }
    assert!(contents(&db.snapshot()) == states.acknowledged);
}

#[test]
fn full_or_failing_disk_at_any_operation_can_be_retried() {
    for fault in [Fault::NoSpace, Fault::Io] {
        let is_slow = testkit::is_slow();
        for times in if is_slow { 1..5 } else { 1..2 } {
            for operation in 0..operations() {
                let (disk, begun) = prepared(operation);
                disk.fail_at(begun + operation, times, fault);
                let mut states = first();
                stubborn(&disk, &mut states, &mut |disk, states| {
                    for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
                        let what = format!("{fault:?} x {times} at {operation}, {loss:?}");
                        let left = disk.reopen(loss);
                        left.heal();
                        check_left(&left, states, &what);
                    }
                });
                for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
                    let what = format!("{fault:?} x {times} at {operation}, end, {loss:?}");
                    check_left(&disk.reopen(loss), &states, &what);
                }
            }
        }
    }
}

#[test]
fn failed_operation_then_exit_loses_nothing_committed() {
    for fault in [Fault::NoSpace, Fault::Io] {
        for operation in 0..operations() {
            let (disk, begun) = prepared(operation);
            disk.fail_at(begun + operation, 1, fault);
            let mut states = first();
            // What cannot be removed is no error: no edit names it.
            let _ = series(&disk.shared(), &mut states);
            for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
                let what = format!("{fault:?} at {operation}, then the end, {loss:?}");
                check_left(&disk.reopen(loss), &states, &what);
            }
        }
    }
}

/// The series alone, and how its reads are counted.
fn reads() -> u64 {
    let (disk, _) = prepared(0);
    let begun = disk.reads();
    series(&disk.shared(), &mut first()).unwrap();
    disk.reads() - begun
}

#[test]
fn io_error_at_any_read_is_a_disk_error_and_loses_nothing_committed() {
    for read in 0..reads() {
        let (disk, _) = prepared(read);
        disk.fail_reads_at(disk.reads() + read, 1);
        let mut states = first();
        // What is only cleaning up does without what it cannot list.
        if let Err(why) = series(&disk.shared(), &mut states) {
            let is_disk = matches!(&why, Error::Disk(_)) || matches!(&why, Error::Lock(why) if !why.is_held());
            assert!(is_disk && why.to_string().contains("/db"), "read {read}: {why}");
        }
        disk.heal();
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(read)] {
            check_left(&disk.reopen(loss), &states, &format!("I/O error at read {read}, {loss:?}"));
        }
    }
}

#[test]
fn disk_read_only_from_any_operation_on_is_a_disk_error_and_loses_nothing_committed() {
    for operation in 0..operations() {
        let (disk, begun) = prepared(operation);
        disk.fail_at(begun + operation, u64::MAX, Fault::ReadOnly);
        let mut states = first();
        match series(&disk.shared(), &mut states) {
            Err(Error::Disk(why)) => assert!(why.to_string().contains("read-only"), "operation {operation}: {why}"),
            Err(Error::Lock(why)) => assert!(!why.is_held(), "operation {operation}: {why}"),
            // The last operations only remove what no version needs.
            Ok(()) => assert!(operation > 0),
            Err(why) => panic!("operation {operation}: {why}"),
        }
        for loss in [Loss::Nothing, Loss::Unsynced, Loss::Random(operation)] {
            check_left(&disk.reopen(loss), &states, &format!("read-only from {operation} on, {loss:?}"));
        }
    }
}

#[test]
fn full_disk_error_is_no_space_and_a_retry_succeeds() {
    let (disk, begun) = prepared(0);
    let db = Db::create(disk.shared(), &dir(), TINY).unwrap();
    assert!(disk.operations() > begun);
    disk.fail_at(disk.operations(), u64::MAX, Fault::NoSpace);
    let records = commit(&mut Rng::new(1), KEYS, 30);
    for _ in 0..3 {
        let why = commit_in_parts(&db, &records, 2).unwrap_err();
        assert!(why.is_no_space() && !why.is_damage(), "{why}");
    }
    disk.heal();
    commit_in_parts(&db, &records, 2).unwrap();
    let mut model = Model::new();
    apply(&mut model, &records);
    check(&db.snapshot(), &model, KEYS);
}
