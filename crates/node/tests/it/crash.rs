//! Whole jobs on a disk that has accidents: whatever is lost, the directory reopens, the same command goes on, and ends with
//! the right set.
//!
//! With SLOW=1 every operation of a run with one commit is a row, and every seventh of one with a commit at every chance;
//! else every one of a first reindex, and some of the others.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::leave_heads;
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::Fault;
use node::jobs;
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const BLOCKS: u32 = 110;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Reindex,
    Rebuild,
    Import,
    /// An import of nothing, where Core left half coins.
    Replay,
}

struct Case {
    name: &'static str,
    job: Job,
    /// Commits at every chance, not only at the end.
    is_eager: bool,
    /// Without SLOW=1 one operation in this number is tried.
    stride: u64,
}

/// Operations that fail on a full disk, unless room is made.
const FULL_FOR: u64 = 20;

struct Bench {
    blocks: Vec<Vec<u8>>,
    set: Hash256,
}

fn is_slow() -> bool {
    testkit::is_slow()
}

impl Bench {
    fn new() -> Bench {
        let blocks = chain(BLOCKS);
        let mut bench = Bench { blocks, set: Hash256::ZERO };
        let disk = bench.disk(Job::Reindex);
        bench.run(Job::Reindex, &disk, false).unwrap();
        bench.set = bench.hash(&disk);
        bench
    }

    /// A disk with what the job starts from.
    fn disk(&self, job: Job) -> SimDisk {
        let disk = SimDisk::new(0);
        let bytes = file(&self.blocks);
        match job {
            Job::Import => put(&disk, Path::new("/foreign.dat"), &bytes),
            Job::Reindex | Job::Rebuild | Job::Replay => {
                put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &bytes);
            }
        }
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        disk
    }

    fn run(&self, job: Job, disk: &SimDisk, is_eager: bool) -> Result<JobReport, Fault> {
        let options = options(disk, is_eager);
        // Who is told that room is wanted makes some.
        let events = |event: Event| match event {
            Event::Warning(text) if text.contains("Waiting for disk space") => {
                let says_how_much = text.contains(" bytes") || text.contains("a few KiB");
                assert!(text.starts_with(DATADIR) && says_how_much, "{text}");
                disk.heal();
            }
            _ => {}
        };
        self.run_with(job, &options, &events)
    }

    fn run_with(&self, job: Job, options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
        match job {
            Job::Reindex => jobs::reindex(options, false, events),
            Job::Rebuild => jobs::reindex(options, true, events),
            Job::Import => jobs::import(options, &[PathBuf::from("/foreign.dat")], events),
            Job::Replay => jobs::import(options, &[], events),
        }
    }

    fn hash(&self, disk: &SimDisk) -> Hash256 {
        let set = jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap();
        assert_eq!(set.height, Height::new(BLOCKS));
        set.hash.unwrap().1
    }

    /// What must hold at any instant: coins that are there stand at a block of this chain.
    fn check_between(&self, disk: &SimDisk, row: &str) {
        let info = jobs::info(&options(disk, false)).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(self.blocks.iter().any(|block| hash_of(block) == info.best), "{row}: {info:?}");
        assert!(info.failed.is_empty(), "{row}: {info:?}");
    }

    /// Runs the job to its end and looks at all that is there then.
    fn check_end(&self, job: Job, disk: &SimDisk, is_eager: bool, row: &str) {
        let report = self.run(job, disk, is_eager).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!((report.height.to_u32(), report.best), (BLOCKS, hash_of(self.blocks.last().unwrap())), "{row}");
        assert_eq!(self.hash(disk), self.set, "{row}");
        let info = jobs::info(&options(disk, false)).unwrap();
        assert!(
            !info.reindexing && info.height == Height::new(BLOCKS) && info.headers == Height::new(BLOCKS),
            "{row}: {info:?}"
        );
        let checked = jobs::verify(&options(disk, false), 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert_eq!((checked.blocks, checked.level), (BLOCKS, 4), "{row}");
    }
}

const CASES: [Case; 7] = [
    Case { name: "a first reindex", job: Job::Reindex, is_eager: false, stride: 1 },
    Case { name: "a reindex with many commits", job: Job::Reindex, is_eager: true, stride: 67 },
    Case { name: "a reindex of a whole directory", job: Job::Reindex, is_eager: false, stride: 5 },
    Case { name: "a rebuild", job: Job::Rebuild, is_eager: false, stride: 5 },
    Case { name: "an import", job: Job::Import, is_eager: false, stride: 11 },
    Case { name: "an import with many commits", job: Job::Import, is_eager: true, stride: 89 },
    Case { name: "a replay", job: Job::Replay, is_eager: false, stride: 5 },
];

/// The disk that a case starts from; a second job finds what a first one left.
fn start(bench: &Bench, case: &Case) -> SimDisk {
    let disk = bench.disk(case.job);
    if case.name.ends_with("whole directory") || matches!(case.job, Job::Rebuild | Job::Replay) {
        bench.run(Job::Reindex, &disk, false).unwrap();
    }
    if case.job == Job::Replay {
        leave_heads(&disk, hash_of(&bench.blocks[BLOCKS as usize]), hash_of(&bench.blocks[100]));
    }
    disk
}

/// A full disk is waited out from the first step to the last, but for syncs whose work is not done again.
fn check_last_try(why: &Fault, row: &str) {
    assert!(why.to_string().contains("in a sync, which is never tried again"), "{row}: {why}");
}

/// Runs every case with the accident at every operation, or at some.
fn every_operation(accident: Accident, strides: u64) {
    let bench = Bench::new();
    for case in &CASES {
        let begin = std::time::Instant::now();
        let (first, mut at, mut tried) = (start(&bench, case), 0, 0);
        loop {
            let disk = first.reopen(Loss::Random(at));
            let from = disk.operations() + at;
            let times = if accident == Accident::NoSpace { FULL_FOR } else { 1 };
            disk.fail_at(from, times, accident);
            let result = bench.run(case.job, &disk, case.is_eager);
            let was_met = disk.operations() > from;
            if let (Accident::NoSpace, Err(why)) = (accident, &result) {
                check_last_try(why, &format!("{}, no space at {at}", case.name));
            }
            assert!(was_met || result.is_ok(), "{}: {result:?}", case.name);
            // Only the end of the log can be lost by a run that ends well: all else is durable then.
            let is_log = disk.stopped_at().is_some_and(|path| path.ends_with("debug.log"));
            assert!(result.is_err() || !disk.is_stopped() || is_log, "{}: it stopped at {at}", case.name);
            let losses = [Loss::Nothing, Loss::Unsynced, Loss::Random(at)];
            // Each row has one of them, in turn, but for runs of few operations with SLOW=1.
            let chosen = if is_slow() && !case.is_eager { &losses[..] } else { &losses[tried % 3..][..1] };
            for &loss in chosen {
                let row = format!("{}, {accident:?} at {at}, {loss:?}", case.name);
                let left = disk.reopen(loss);
                bench.check_between(&left, &row);
                bench.check_end(case.job, &left, case.is_eager, &row);
            }
            tried += 1;
            if !was_met {
                break;
            }
            at += match accident {
                // Where the run waits for room it takes a second.
                Accident::NoSpace => case.stride * strides,
                _ if !is_slow() => case.stride * strides,
                _ if case.is_eager => 7,
                _ => 1,
            };
        }
        assert!(tried > 3, "{}: {tried} operations", case.name);
        println!("{}: {tried} of {at} operations, {:.1?}", case.name, begin.elapsed());
    }
}

#[test]
fn job_stopped_at_any_operation_resumes() {
    every_operation(Accident::Stop, 1);
}

/// The run ends with a fault, or does without; the next one goes on.
#[test]
fn failing_disk_is_a_fault_and_loses_nothing_committed() {
    every_operation(Accident::Io, 3);
}

/// The run waits for room and goes on; after a sync that may not be repeated it ends, and the next one goes on.
#[test]
fn full_disk_pauses_the_job_until_there_is_space() {
    every_operation(Accident::NoSpace, if is_slow() { 1 } else { 3 });
}

/// Wherever it is that there is no room once, the same run ends with the right tip and the right set.
#[test]
fn job_that_found_no_space_once_ends_as_any_other() {
    let bench = Bench::new();
    for case in &CASES {
        let (first, mut at, mut waited) = (start(&bench, case), 0, 0);
        loop {
            let row = format!("{}, no space at {at}", case.name);
            let disk = first.reopen(Loss::Nothing);
            let from = disk.operations() + at;
            disk.fail_at(from, 1, Accident::NoSpace);
            let result = bench.run(case.job, &disk, case.is_eager);
            let was_met = disk.operations() > from;
            disk.heal();
            match result {
                Ok(report) => {
                    let tip = (BLOCKS, hash_of(bench.blocks.last().unwrap()));
                    assert_eq!((report.height.to_u32(), report.best), tip, "{row}");
                    assert_eq!(bench.hash(&disk), bench.set, "{row}");
                    waited += 1;
                }
                Err(why) => check_last_try(&why, &row),
            }
            if !was_met {
                break;
            }
            at += if is_slow() { 1 } else { case.stride };
        }
        assert!(waited > 3, "{}: {waited} runs", case.name);
    }
}

/// From the first step on; what was there stays as it was.
#[test]
fn stop_ends_the_wait_for_disk_space() {
    let bench = Bench::new();
    for case in CASES.iter().filter(|case| !case.is_eager) {
        let first = start(&bench, case);
        for at in [0, 10, 40] {
            let row = format!("{}, no space from {at}", case.name);
            let disk = first.reopen(Loss::Nothing);
            let options = options(&disk, false);
            disk.fail_at(disk.operations() + at, u64::MAX, Accident::NoSpace);
            let events = |event: Event| {
                if matches!(event, Event::Warning(text) if text.contains("Waiting for disk space")) {
                    options.stop.store(true, Ordering::Relaxed);
                }
            };
            let why = bench.run_with(case.job, &options, &events).unwrap_err();
            assert!(why.is_no_space() || why.to_string().contains("never tried again"), "{row}: {why}");
            disk.heal();
            bench.check_end(case.job, &disk, false, &row);
        }
    }
}

/// `R` in an index beside coins: they are those of the run that set it, unless that run was still at its first steps.
#[test]
fn reindex_does_not_continue_from_old_coins() {
    let bench = Bench::new();
    let layout = store::Layout::new(Path::new(DATADIR), "regtest", None);
    for (begins, want) in [(false, BLOCKS), (true, 0)] {
        let disk = bench.disk(Job::Reindex);
        bench.run(Job::Reindex, &disk, false).unwrap();
        let index = store::BlockTreeDb::open(disk.shared(), &layout).unwrap();
        index.write(&store::index::IndexChanges { reindexing: Some(true), ..Default::default() }).unwrap();
        drop(index);
        if begins {
            put(&disk, &layout.private_dir().join("reindex-begins"), b"");
        }
        let report = bench.run(Job::Reindex, &disk, false).unwrap();
        assert_eq!(report.height_start, Height::new(want), "first steps: {begins}");
        bench.check_end(Job::Reindex, &disk, false, "after that");
    }
}
