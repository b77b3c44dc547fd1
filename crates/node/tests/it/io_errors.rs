//! Every job on a disk that answers with errors: an I/O error at any read and at any write, once or from there on; a file
//! system that becomes read-only; a disk that is full; a machine that stops.
//!
//! The job ends with a fault that names path and operation, waits where room is missing, or does without; nothing is
//! marked. What is left, with what was not synced or without, opens and keeps the order of durability, and the same
//! command on a healthy disk ends with the right UTXO set.
//!
//! A few positions of each run are tried, others for each error; with SLOW=1 many, of the short runs all.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use crate::existing::{everything, layout, leave_heads};
use crate::peers::{Far, Until, sync_options};
use crate::prune;
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::Fault;
use node::jobs;
use node::options::{IndexKind, Options, Prune};
use node::reporting::JobReport;
use node::reporting::{Event, Events};
use node::utxo_stats::SetHash;
use primitives::{Hash256, Height};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use store::{BlockTreeDb, FaultKind};

const BLOCKS: u32 = 110;
const FOREIGN: &str = "/foreign.dat";
/// Operations that find no room before there is some.
const FULL_FOR: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    /// Index, undo data, and UTXO set from block files alone.
    Reindex,
    /// The same over a whole data directory.
    ReindexAgain,
    /// The same with pruning, and a commit at every chance.
    Prune,
    Rebuild,
    /// The four optional indexes, from the files.
    Index,
    Import,
    /// An import of nothing, where Core left half a flush.
    Replay,
    Sync,
    /// The same, and it keeps the four optional indexes.
    SyncIndexed,
    Verify,
    Info,
    CoinsInfo,
}

struct Case {
    job: Job,
    /// Commits at every chance, not only at the end.
    is_eager: bool,
    /// Positions that are tried of each error, without SLOW=1 and with it.
    tries: [u64; 2],
}

const CASES: [Case; 17] = [
    Case { job: Job::Reindex, is_eager: false, tries: [2, 200] },
    Case { job: Job::Reindex, is_eager: true, tries: [1, 100] },
    Case { job: Job::ReindexAgain, is_eager: false, tries: [1, 200] },
    Case { job: Job::Prune, is_eager: true, tries: [0, 12] },
    Case { job: Job::Rebuild, is_eager: false, tries: [2, 200] },
    Case { job: Job::Rebuild, is_eager: true, tries: [1, 60] },
    Case { job: Job::Index, is_eager: false, tries: [2, 200] },
    Case { job: Job::Import, is_eager: false, tries: [1, 120] },
    Case { job: Job::Import, is_eager: true, tries: [1, 60] },
    Case { job: Job::Replay, is_eager: false, tries: [2, 400] },
    Case { job: Job::Sync, is_eager: false, tries: [0, 40] },
    Case { job: Job::Sync, is_eager: true, tries: [0, 20] },
    Case { job: Job::SyncIndexed, is_eager: false, tries: [1, 400] },
    Case { job: Job::SyncIndexed, is_eager: true, tries: [1, 200] },
    Case { job: Job::Verify, is_eager: false, tries: [2, 400] },
    Case { job: Job::Info, is_eager: false, tries: [8, 400] },
    Case { job: Job::CoinsInfo, is_eager: false, tries: [8, 400] },
];

/// What the disk does, from a read or a write on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Error {
    ReadOnce,
    ReadsFromThere,
    WriteOnce(Accident),
    WritesFromThere(Accident),
    /// There is room after [`FULL_FOR`] operations, or when the job says that it waits.
    Full,
}

const ERRORS: [Error; 7] = [
    Error::ReadOnce,
    Error::ReadsFromThere,
    Error::WriteOnce(Accident::Io),
    Error::WritesFromThere(Accident::Io),
    Error::WritesFromThere(Accident::ReadOnly),
    Error::Full,
    // The machine stops.
    Error::WriteOnce(Accident::Stop),
];

impl Error {
    fn is_read(self) -> bool {
        matches!(self, Error::ReadOnce | Error::ReadsFromThere)
    }

    /// Operations of its kind so far.
    fn count(self, disk: &SimDisk) -> u64 {
        if self.is_read() { disk.reads() } else { disk.operations() }
    }

    fn plan(self, disk: &SimDisk, from: u64) {
        match self {
            Error::ReadOnce => disk.fail_reads_at(from, 1),
            Error::ReadsFromThere => disk.fail_reads_at(from, u64::MAX),
            Error::WriteOnce(accident) => disk.fail_at(from, 1, accident),
            Error::WritesFromThere(accident) => disk.fail_at(from, u64::MAX, accident),
            Error::Full => disk.fail_at(from, FULL_FOR, Accident::NoSpace),
        }
    }
}

/// Chains, what they come to, and a peer that has one of them.
struct Bench {
    blocks: Vec<Vec<u8>>,
    peer: String,
    /// A longer chain, for pruning.
    long: Vec<Vec<u8>>,
    set: Hash256,
    long_set: Hash256,
}

impl Bench {
    /// The longer chain only where pruning is wanted.
    fn new(prunes: bool) -> Bench {
        let (blocks, long) = (chain(BLOCKS), if prunes { chain(prune::BLOCKS) } else { Vec::new() });
        let peer = Far::new(&blocks).listen_at("127.0.0.1:0");
        let mut bench = Bench { blocks, peer, long, set: Hash256::ZERO, long_set: Hash256::ZERO };
        let case = |job| Case { job, is_eager: true, tries: [0, 0] };
        let run = |bench: &Bench, case: &Case| {
            let disk = bench.start(case);
            bench.run(case, &disk, &|_| ()).unwrap();
            hash(&disk)
        };
        bench.set = run(&bench, &case(Job::Reindex));
        if prunes {
            bench.long_set = run(&bench, &case(Job::Prune));
        }
        bench
    }

    fn blocks(&self, case: &Case) -> &[Vec<u8>] {
        if case.job == Job::Prune { &self.long } else { &self.blocks }
    }

    fn options(&self, case: &Case, disk: &SimDisk) -> Options {
        match case.job {
            Job::Prune => Options {
                commit_interval: std::time::Duration::ZERO,
                par: 1,
                ..prune::options(Path::new(DATADIR), disk.shared(), Prune::Target { bytes: prune::TARGET_BYTES })
            },
            Job::SyncIndexed => Options { indexes: IndexKind::ALL.to_vec(), ..options(disk, case.is_eager) },
            _ => options(disk, case.is_eager),
        }
    }

    /// What the job starts from.
    fn start(&self, case: &Case) -> SimDisk {
        let disk = SimDisk::new(0);
        let bytes = file(&self.blocks);
        match case.job {
            Job::Import => put(&disk, Path::new(FOREIGN), &bytes),
            Job::Sync | Job::SyncIndexed => {}
            Job::Prune => prune::write_files(&self.options(case, &disk), &self.long),
            _ => put(&disk, &Path::new(DATADIR).join("regtest/blocks/blk00000.dat"), &bytes),
        }
        disk.create_dir_all(Path::new(DATADIR)).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        if !matches!(case.job, Job::Reindex | Job::Prune | Job::Import | Job::Sync | Job::SyncIndexed) {
            jobs::reindex(&options(&disk, false), false, &|_| ()).unwrap();
        }
        if case.job == Job::Replay {
            leave_heads(&disk, hash_of(&self.blocks[BLOCKS as usize]), hash_of(&self.blocks[100]));
        }
        disk.reopen(Loss::Nothing)
    }

    fn run(&self, case: &Case, disk: &SimDisk, events: Events<'_>) -> Result<(), Fault> {
        let options = self.options(case, disk);
        let at_tip = |report: JobReport| {
            let tip = self.blocks(case).last().unwrap();
            assert_eq!(report.best, hash_of(tip), "{:?}: {report:?}", case.job);
        };
        match case.job {
            Job::Reindex | Job::ReindexAgain | Job::Prune => jobs::reindex(&options, false, events).map(at_tip),
            Job::Rebuild => jobs::reindex(&options, true, events).map(at_tip),
            Job::Index => jobs::index(&options, &IndexKind::ALL, events)
                .map(|report| assert_eq!(report.best, hash_of(self.blocks.last().unwrap()))),
            Job::Import => jobs::import(&options, &[PathBuf::from(FOREIGN)], events).map(at_tip),
            Job::Replay => jobs::import(&options, &[], events).map(at_tip),
            Job::Sync | Job::SyncIndexed => {
                let peers = sync_options(std::slice::from_ref(&self.peer), Until::Tip);
                jobs::sync(&options, &peers, events).map(at_tip)
            }
            Job::Verify => jobs::verify(&options, 4, 0, events).map(|report| assert_eq!(report.blocks, BLOCKS)),
            Job::Info => jobs::info(&options).map(|info| assert_eq!(info.height, Height::new(BLOCKS))),
            Job::CoinsInfo => jobs::set_info(&options, SetHash::Serialized, events)
                .map(|set| assert_eq!(set.hash.unwrap().1, self.set)),
        }
    }

    /// What must hold of a disk that a run was ended on.
    fn check_between(&self, case: &Case, disk: &SimDisk, row: &str) {
        let options = self.options(case, disk);
        let info = jobs::info(&options).unwrap_or_else(|why| panic!("{row}: {why}"));
        assert!(self.blocks(case).iter().any(|block| hash_of(block) == info.best), "{row}: {info:?}");
        assert!(info.failed.is_empty(), "{row}: {info:?}");
        check_order(&options, disk, row);
    }

    /// Goes on with the job, and looks at all that is there then.
    fn check_end(&self, case: &Case, disk: &SimDisk, row: &str) {
        let (options, tip) = (self.options(case, disk), self.blocks(case).len() as u32 - 1);
        if case.job == Job::Prune {
            prune::go_on(&options, row);
            prune::check_at_tip(&options, &self.long, row);
        } else {
            self.run(case, disk, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            if matches!(case.job, Job::Index | Job::SyncIndexed) {
                crate::indexes::check(disk, &self.blocks, [0, 1, 60, 104, BLOCKS as usize].into_iter(), row);
            }
            let checked = jobs::verify(&options, 4, 0, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
            assert_eq!((checked.blocks, checked.level), (tip, 4), "{row}");
        }
        let want = if case.job == Job::Prune { self.long_set } else { self.set };
        assert_eq!(hash(disk), want, "{row}");
        let info = jobs::info(&options).unwrap();
        assert!(
            !info.reindexing && info.height == Height::new(tip) && info.headers == Height::new(tip),
            "{row}: {info:?}"
        );
    }
}

fn hash(disk: &SimDisk) -> Hash256 {
    jobs::set_info(&options(disk, false), SetHash::Serialized, &|_| ()).unwrap().hash.unwrap().1
}

/// The index names no block and no undo data that cannot be read.
fn check_order(options: &Options, disk: &SimDisk, row: &str) {
    let (layout, network) = (layout(), node::datadir::lock::network(&options.params));
    if !BlockTreeDb::exists(disk, &layout).unwrap() {
        return;
    }
    let loaded = BlockTreeDb::open_read_only(disk.shared(), &layout).unwrap().load(&network).unwrap();
    let key = store::xor::read_key(disk, layout.blocks_dir()).unwrap().unwrap_or_default();
    let blocks = store::blockfiles::BlockFiles::new(disk.shared(), layout.blocks_dir(), &network, key);
    let undo = store::undofiles::UndoFiles::new(disk.shared(), layout.blocks_dir(), &network, key);
    for entry in &loaded.entries {
        if let Some(at) = entry.data() {
            let block = blocks.read_block(at).unwrap_or_else(|why| panic!("{row}, height {}: {why}", entry.height));
            assert_eq!(hash_of(&block), entry.hash, "{row}, height {}", entry.height);
        }
        if let Some(at) = entry.undo() {
            let read = undo.read(at, &entry.header.prev());
            read.unwrap_or_else(|why| panic!("{row}, height {}: {why}", entry.height));
        }
    }
}

/// The fault names a path of this directory, an operation, and what the disk said; it takes no error for damage.
fn check_fault(why: &Fault, error: Error, row: &str) {
    let Fault::Store(fault) = why else { panic!("{row}: {why}") };
    let detail = fault.detail();
    let is_known = detail.path.starts_with(DATADIR) || detail.path == Path::new(FOREIGN);
    assert!(is_known, "{row}: no path: {why}");
    let says_what = detail.wanted.starts_with("to ")
        || detail.wanted.contains("lock")
        || detail.wanted.contains("without another program")
        || detail.wanted.contains("files whose contents are known");
    assert!(says_what, "{row}: no operation: {why}");
    let kinds: &[FaultKind] = match error {
        Error::WritesFromThere(Accident::ReadOnly) => &[FaultKind::Permission],
        // A sync that found no room is not tried again.
        _ => &[FaultKind::Io],
    };
    assert!(kinds.contains(&detail.kind), "{row}: {:?}: {why}", detail.kind);
}

/// The positions that are tried of an error: the first and the last among them with SLOW=1.
fn positions(case: &Case, number: usize, count: u64) -> Vec<u64> {
    let [few, many] = case.tries;
    if testkit::is_slow() {
        let step = count.div_ceil(many).max(1);
        return (0..count).step_by(step as usize).chain([count.saturating_sub(1)]).collect();
    }
    // Of long runs one error each is tried, in turn with others.
    if few == 0 {
        let place = |number: usize| (number as u64 * 2 + 1) * count / (2 * ERRORS.len() as u64);
        return if number.is_multiple_of(3) { vec![place(number)] } else { Vec::new() };
    }
    let within = |n: u64| (n * count + number as u64 * count / ERRORS.len() as u64) / few;
    (0..few).map(within).collect()
}

/// One run that meets the error, and what becomes of what it leaves.
fn check_one(bench: &Bench, case: &Case, first: &SimDisk, error: Error, at: u64) -> bool {
    let row = format!("{:?}, commits at every chance {}, {error:?} at {at}", case.job, case.is_eager);
    let disk = first.reopen(Loss::Nothing);
    let from = error.count(&disk) + at;
    error.plan(&disk, from);
    let said = Mutex::new(Vec::new());
    let events = |event: Event| match event {
        Event::Warning(text) => {
            if text.contains("Waiting for disk space") {
                disk.heal();
            }
            said.lock().unwrap().push(text);
        }
        Event::Refused { why, .. } => panic!("{row}: a block is refused: {why}"),
        _ => {}
    };
    let before = everything(first);
    let result = bench.run(case, &disk, &events);
    let was_met = error.count(&disk) > from;
    disk.heal();
    let said = said.into_inner().unwrap();
    assert!(said.iter().all(|text| !text.contains("damaged")), "{row}: an error is no damage: {said:?}");
    match &result {
        Ok(()) => {}
        Err(why) => {
            assert!(was_met, "{row}: {why}");
            check_fault(why, error, &row);
        }
    }
    if matches!(case.job, Job::Info | Job::CoinsInfo) {
        assert_eq!(everything(&disk.reopen(Loss::Nothing)), before, "{row}: it only looks");
    }
    let loss = [Loss::Nothing, Loss::Unsynced, Loss::Random(at)][(at % 3) as usize];
    let (left, row) =
        (disk.reopen(loss), format!("{row}, {loss:?}, after {:?}", result.as_ref().err().map(ToString::to_string)));
    bench.check_between(case, &left, &row);
    bench.check_end(case, &left, &row);
    result.is_err()
}

fn check_cases(wanted: impl Fn(&Case) -> bool) {
    let bench = Bench::new(CASES.iter().any(|case| wanted(case) && case.job == Job::Prune));
    for case in CASES.iter().filter(|case| wanted(case)) {
        let begin = std::time::Instant::now();
        let first = bench.start(case);
        let whole = first.reopen(Loss::Nothing);
        bench.run(case, &whole, &|_| ()).unwrap();
        let (mut all, mut all_faults) = (0, 0);
        for (number, error) in ERRORS.into_iter().enumerate() {
            let count = error.count(&whole) - error.count(&first.reopen(Loss::Nothing));
            if count == 0 {
                // A job that only looks writes nothing.
                continue;
            }
            let tried = positions(case, number, count);
            let faults = tried.iter().filter(|&&at| check_one(&bench, case, &first, error, at)).count();
            println!(
                "{:?}, eager {}: {error:?}: {} of {count} positions, {faults} ended by a fault, {:.1?}",
                case.job,
                case.is_eager,
                tried.len(),
                begin.elapsed()
            );
            (all, all_faults) = (all + tried.len(), all_faults + faults);
        }
        assert!(all > 0 && 2 * all_faults > all, "{:?}: {all_faults} of {all} errors end the run", case.job);
    }
}

#[test]
fn io_error_in_reindex_or_rebuild_loses_nothing() {
    check_cases(|case| matches!(case.job, Job::Reindex | Job::ReindexAgain | Job::Rebuild));
}

#[test]
fn io_error_in_index_run_loses_nothing() {
    check_cases(|case| case.job == Job::Index);
}

#[test]
fn io_error_in_import_or_replay_loses_nothing() {
    check_cases(|case| matches!(case.job, Job::Import | Job::Replay));
}

#[test]
fn io_error_in_sync_loses_nothing() {
    check_cases(|case| case.job == Job::Sync);
}

#[test]
fn io_error_in_sync_with_indexes_loses_nothing() {
    check_cases(|case| case.job == Job::SyncIndexed);
}

#[test]
fn io_error_while_pruning_loses_nothing() {
    check_cases(|case| case.job == Job::Prune);
}

#[test]
fn io_error_in_a_job_that_looks_changes_nothing() {
    check_cases(|case| matches!(case.job, Job::Verify | Job::Info | Job::CoinsInfo));
}

/// Nothing is written to them, and what is read is open already: the next commit says what is gone.
#[test]
fn file_removed_while_a_job_runs_is_named() {
    let bench = Bench::new(false);
    for (name, job) in [
        ("blk00000.dat", Job::Rebuild),
        ("rev00000.dat", Job::Rebuild),
        ("blk00000.dat", Job::ReindexAgain),
        ("blk00000.dat", Job::Replay),
    ] {
        let case = Case { job, is_eager: true, tries: [0, 0] };
        let disk = bench.start(&case);
        let (path, aside) = (layout().blocks_dir().join(name), Path::new(DATADIR).join("aside"));
        let begins = |text: &str| text.contains("verification at block") || text.contains("Replaying blocks");
        let events = |event: Event| match event {
            Event::Note(text) if begins(&text) => disk.rename(&path, &aside).unwrap(),
            _ => {}
        };
        let why = bench.run(&case, &disk, &events).unwrap_err();
        let Fault::Store(fault) = &why else { panic!("{name}, {job:?}: {why}") };
        assert_eq!((fault.kind(), &fault.detail().path), (FaultKind::Missing, &path), "{name}, {job:?}: {why}");
        disk.rename(&aside, &path).unwrap();
        bench.check_end(&case, &disk, &format!("{name}, {job:?}"));
    }
}
