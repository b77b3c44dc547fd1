//! A clock that is wrong: it is named, with both times, and no block is called invalid for it.

use crate::chain::{chain, file, hash_of, put};
use crate::data_directory::{DATADIR, options};
use disk::{Disk, SimDisk};
use node::Fault;
use node::jobs::{self, SyncOptions};
use node::options::Options;
use node::reporting::{Event, Events, JobReport};
use primitives::Height;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const BLOCKS: u32 = 110;
const BLOCK_FILE: &str = "regtest/blocks/blk00000.dat";
const FOREIGN: &str = "/foreign.dat";

type Clock = fn() -> SystemTime;
type Job = fn(&Options, Events<'_>) -> Result<JobReport, Fault>;

const UNREADABLE: Clock = || UNIX_EPOCH - Duration::from_secs(1);
const BEFORE_ALL: Clock = || UNIX_EPOCH + Duration::from_secs(946_684_800);
const YEARS_BEHIND: Clock = || UNIX_EPOCH + Duration::from_secs(1_262_304_000);
/// Two hours before the time of block 60: that one is right, the next is not.
const IN_THE_MIDDLE: Clock = || UNIX_EPOCH + Duration::from_secs(1_296_688_602 + 600 * 60 - 7200);

/// What a job said, and how it ended.
fn run(job: Job, options: &Options) -> (Result<JobReport, String>, Vec<Event>) {
    let events = Mutex::new(Vec::new());
    let result = job(options, &|event| events.lock().unwrap().push(event));
    (result.map_err(|fault| fault.to_string()), events.into_inner().unwrap())
}

fn reindex(options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
    jobs::reindex(options, false, events)
}

fn import(options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
    jobs::import(options, &[PathBuf::from(FOREIGN)], events)
}

fn sync(options: &Options, events: Events<'_>) -> Result<JobReport, Fault> {
    let sync = SyncOptions { exit_at_tip: true, outbound: 8, ..SyncOptions::alone() };
    jobs::sync(options, &sync, events)
}

/// A disk with a chain in this file.
fn disk(path: &Path) -> (SimDisk, Vec<Vec<u8>>) {
    let (disk, blocks) = (SimDisk::new(0), chain(BLOCKS));
    disk.create_dir_all(Path::new(DATADIR)).unwrap();
    put(&disk, path, &file(&blocks));
    (disk, blocks)
}

/// As Core refuses it: the tip was checked by a clock that was right, and this one is behind.
#[test]
fn tip_from_the_future_is_refused_and_changes_nothing() {
    let (disk, _) = disk(&Path::new(DATADIR).join(BLOCK_FILE));
    reindex(&options(&disk, false), &|_| ()).unwrap();
    let (result, _) = run(sync, &Options { clock: IN_THE_MIDDLE, ..options(&disk, false) });
    let why = result.unwrap_err();
    assert!(why.contains("appears to be from the future") && why.ends_with(node::REBUILD_ADVICE), "{why}");
    assert!(jobs::info(&options(&disk, false)).unwrap().failed.is_empty(), "nothing is marked");
    let (again, _) = run(reindex, &options(&disk, false));
    assert_eq!(again.unwrap().height, Height::new(BLOCKS));
}

#[test]
fn impossible_clock_is_refused_by_every_job() {
    for (row, clock, want) in
        [("unreadable", UNREADABLE, "before 1970"), ("before the first block", BEFORE_ALL, "2000-01-01T00:00:00Z")]
    {
        for job in [reindex as Job, import, sync] {
            let (disk, _) = disk(&Path::new(DATADIR).join(BLOCK_FILE));
            let options = Options { clock, ..options(&disk, false) };
            let (result, events) = run(job, &options);
            let why = result.unwrap_err();
            assert!(why.contains("clock") && why.contains(want) && why.contains("2009-01-03"), "{row}: {why}");
            assert!(!events.iter().any(|event| matches!(event, Event::Refused { .. })), "{row}: {events:?}");
        }
    }
}

#[test]
fn clock_in_the_past_is_reported_and_marks_no_block_invalid() {
    for (row, clock, height, ahead, shown) in [
        ("years behind", YEARS_BEHIND, 0, 1, "2010-01-01T00:00:00Z"),
        ("in the middle", IN_THE_MIDDLE, 60, 61, "2011-02-03T07:16:42Z"),
    ] {
        for (job, path) in [(reindex as Job, Path::new(DATADIR).join(BLOCK_FILE)), (import, PathBuf::from(FOREIGN))] {
            let (disk, blocks) = disk(&path);
            let options = Options { clock, ..options(&disk, false) };
            let (result, events) = run(job, &options);
            let report = result.unwrap();
            assert_eq!((report.height.to_u32(), report.blocks_invalid), (height, 0), "{row}: {events:?}");
            assert!(!events.iter().any(|event| matches!(event, Event::Refused { .. })), "{row}: {events:?}");
            let said: Vec<&String> = events
                .iter()
                .filter_map(|event| if let Event::Warning(text) = event { Some(text) } else { None })
                .filter(|text| text.contains("ahead of this machine's clock"))
                .collect();
            let [said] = said[..] else { panic!("{row}: once in {events:?}") };
            let first = &blocks[ahead];
            let time = i64::from(primitives::Header(*first.first_chunk().unwrap()).time());
            let place = format!("{} byte ", path.display());
            for want in [hash_of(first).to_string(), time.to_string(), shown.to_owned(), place] {
                assert!(said.contains(&want), "{row}: {want} in {said}");
            }
            let rest = BLOCKS as usize - ahead;
            assert!(
                said.contains("time-too-new") && said.contains(&format!("{rest} more descend from them")),
                "{said}"
            );
            assert!(
                !events.iter().any(|e| matches!(e, Event::Warning(text) if text.contains("no parent"))),
                "{events:?}"
            );
            let options = Options { clock: SystemTime::now, ..options };
            assert!(jobs::info(&options).unwrap().failed.is_empty(), "{row}: nothing is marked");
            // With the clock set right, the same command ends where it should.
            let (result, _) = run(job, &options);
            assert_eq!(result.unwrap().height, Height::new(BLOCKS), "{row}");
        }
    }
}

/// Old coins are not given up for a clock, and the block files are not called damaged.
#[test]
fn reindex_with_clock_in_the_past_changes_nothing() {
    let (disk, blocks) = disk(&Path::new(DATADIR).join(BLOCK_FILE));
    let good = options(&disk, false);
    assert_eq!(run(reindex, &good).0.unwrap().height, Height::new(BLOCKS));
    let why = run(reindex, &Options { clock: IN_THE_MIDDLE, ..good.clone() }).0.unwrap_err();
    assert!(why.contains("clock, 2011-02-03T07:16:42Z") && why.contains("after height 60"), "{why}");
    assert!(!why.contains("damaged"), "{why}");
    let info = jobs::info(&good).unwrap();
    assert_eq!((info.height.to_u32(), info.best, info.reindexing), (BLOCKS, hash_of(&blocks[BLOCKS as usize]), false));
}
