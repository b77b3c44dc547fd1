//! Random commits, compactions and reopenings, against a map in memory.

use disk::SimDisk;
use leveldb::Db;

use testkit::Rng;

use crate::support::{Model, SMALL, apply, check, commit, commit_in_parts, dir};

#[derive(Clone, Debug)]
enum Step {
    Commit { count: usize, parts: usize },
    Write { count: usize },
    Compaction,
    FullCompaction,
    Settle,
    Reopen,
}

impl Step {
    fn any(rng: &mut Rng) -> Step {
        match rng.below(12) {
            0..4 => Step::Commit { count: 1 + rng.below(1499), parts: 1 + rng.below(3) },
            4..7 => Step::Write { count: rng.below(30) },
            7..9 => Step::Compaction,
            9 => Step::FullCompaction,
            10 => Step::Settle,
            _ => Step::Reopen,
        }
    }
}

fn run(seed: u64, steps: &[Step]) {
    const KEYS: u64 = 900;
    let disk = SimDisk::new(seed).shared();
    let mut rng = Rng::new(seed);
    let mut db = Db::create(disk.clone(), &dir(), SMALL).unwrap();
    let mut model = Model::new();
    let mut old = Vec::new();
    for step in steps {
        old.push((db.snapshot(), model.clone()));
        match step {
            Step::Commit { count, parts } => {
                let records = commit(&mut rng, KEYS, *count);
                commit_in_parts(&db, &records, *parts).unwrap();
                apply(&mut model, &records);
            }
            Step::Write { count } => {
                let records = commit(&mut rng, KEYS, *count);
                db.write(&records).unwrap();
                apply(&mut model, &records);
            }
            Step::Compaction => {
                db.compact_now().unwrap();
            }
            Step::FullCompaction => {
                if let Some(compaction) = db.plan_full_compaction().unwrap() {
                    compaction.run().unwrap();
                    assert_eq!(db.snapshot().run_count(), usize::from(!model.is_empty()));
                }
            }
            Step::Settle => db.settle().unwrap(),
            Step::Reopen => {
                old.clear();
                drop(db);
                db = Db::open(disk.clone(), &dir(), SMALL).unwrap();
            }
        }
        check(&db.snapshot(), &model, KEYS);
    }
    for (snapshot, model) in &old {
        assert!(crate::support::contents(snapshot) == *model, "an old snapshot has not changed");
    }
    old.clear();
    db.settle().unwrap();
    let runs = db.snapshot().runs();
    assert!(runs.iter().filter(|run| run.level == 0).count() < 4, "{runs:?}");
    for run in runs.iter().filter(|run| (1..6).contains(&run.level)) {
        let limit = SMALL.level1_bytes * 10_u64.pow(u32::try_from(run.level).unwrap() - 1);
        assert!(run.bytes < limit, "{runs:?}");
    }
    drop(db);
    let read_only = Db::open_read_only(disk.clone(), &dir()).unwrap();
    check(&read_only.snapshot(), &model, KEYS);
    let tables = crate::support::names(&*disk, &dir()).iter().filter(|name| name.ends_with(".ldb")).count();
    let live: usize = read_only.snapshot().runs().iter().map(|run| run.file_count).sum();
    assert_eq!(tables, live, "nothing lies about");
}

#[test]
fn database_behaves_like_a_map() {
    for seed in testkit::seeds(if testkit::is_slow() { 500 } else { 24 }) {
        let mut rng = Rng::new(seed);
        let steps: Vec<Step> = (0..1 + rng.below(19)).map(|_| Step::any(&mut rng)).collect();
        let fails = |steps: &[Step]| std::panic::catch_unwind(|| run(seed, steps)).is_err();
        if fails(&steps) {
            panic!("seed {seed} fails, and still with {:?}", testkit::shrunk(&steps, fails));
        }
    }
}

#[test]
fn many_commits_use_every_level() {
    let steps: Vec<Step> =
        (0..60).map(|index| Step::Commit { count: 1 + index * 37 % 400, parts: 1 + index % 3 }).collect();
    run(1, &steps);
}

#[test]
fn threads_read_while_one_writes_and_another_compacts() {
    const KEYS: u64 = 3000;
    let dir = tempfile::tempdir().unwrap();
    let db = Db::create(disk::RealDisk::shared(), &dir.path().join("db"), SMALL).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let latest = std::sync::Mutex::new((db.snapshot(), Model::new()));
    let is_done = || done.load(std::sync::atomic::Ordering::Acquire);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_done() {
                    let (snapshot, model) = latest.lock().unwrap().clone();
                    check(&snapshot, &model, KEYS);
                }
            });
        }
        scope.spawn(|| {
            while !is_done() {
                if let Some(compaction) = db.plan_full_compaction().unwrap() {
                    std::thread::scope(|slices| {
                        slices.spawn(|| while compaction.step().unwrap() {});
                        slices.spawn(|| while compaction.step().unwrap() {});
                    });
                    compaction.finish().unwrap();
                }
            }
        });
        let mut model = Model::new();
        let mut rng = Rng::new(5);
        for _ in 0..40 {
            let records = commit(&mut rng, KEYS, 400);
            let bytes = 400 * 100;
            while !db.has_room(bytes) {
                std::thread::yield_now();
            }
            let run = db.begin_run(bytes).unwrap();
            std::thread::scope(|parts| {
                for part in records.chunks(100) {
                    let mut table = run.table();
                    parts.spawn(move || {
                        for (key, value) in part {
                            match value {
                                Some(value) => table.put(key, value).unwrap(),
                                None => table.delete(key).unwrap(),
                            }
                        }
                        table.finish().unwrap();
                    });
                }
            });
            db.commit(run).unwrap();
            apply(&mut model, &records);
            *latest.lock().unwrap() = (db.snapshot(), model.clone());
        }
        done.store(true, std::sync::atomic::Ordering::Release);
    });
}
