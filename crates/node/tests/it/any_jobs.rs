//! Jobs in any order on one data directory, each of which may be stopped at any operation.
//!
//! Whatever was stopped, the next job goes on; at the end the set is right, `doctor --deep` finds nothing, no block was
//! stored twice, and none was requested again but after a stop. `JOBS_RUNS=1000` plays as many seeds, from the one that
//! `JOBS_FROM` names; a run that fails says its seed.

use crate::archival::{check_archival, set_of, unpruned};
use crate::chain::{chain, file, put};
use crate::data_directory::DATADIR;
use crate::doctor::{self, KEY, Known, TIP, check_whole, net, read, replace, seeds, write_out};
use crate::doctor_stops::twice;
use crate::indexes::branch;
use crate::peers::{Bend, Blocks, Far, Until, open, sync_options};
use crate::prune::{BLOCKS, TARGET_BYTES, write_files};
use disk::{Disk, Fault as Accident, Loss, SimDisk};
use node::Fault;
use node::jobs::{self, SyncOptions};
use node::options::{IndexKind, Options, Prune, Sizes};
use node::reporting::Event;
use primitives::hex;
use primitives::{BlockHash, Height};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::blockfiles::Limits;
use testkit::Rng;
use testkit::bitcoind::{self, Bitcoind, CHECKS};

/// Seeds that are played where none are asked for.
const RUNS: u64 = 8;
const FOREIGN: &str = "/foreign.dat";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Job {
    Sync,
    SyncToHeight,
    Import,
    Reindex,
    Rebuild,
    Repair,
    Index,
    Verify,
}

const JOBS: [Job; 8] =
    [Job::Sync, Job::SyncToHeight, Job::Import, Job::Reindex, Job::Rebuild, Job::Repair, Job::Index, Job::Verify];

struct Walk<'w> {
    known: &'w Known,
    side: Vec<Vec<u8>>,
    sync: SyncOptions,
    random: Rng,
    row: String,
}

impl Walk<'_> {
    /// Options of a job, drawn; the file that an import reads is written.
    fn prepare(&mut self, disk: &SimDisk, job: Job) -> Options {
        let indexes = IndexKind::ALL.into_iter().filter(|_| self.random.below(4) == 0).collect();
        let limits = Limits { file_bytes_max: 8 << 10, chunk_bytes: 2 << 10 };
        let mut options = Options { indexes, sizes: Sizes { limits, ..Sizes::default() }, ..doctor::options(disk) };
        if job == Job::SyncToHeight {
            let height = self.random.below(TIP + 1) as u32;
            self.row += &format!(" {height}");
            options.stop_at_height = Some(Height::new(height));
        }
        if job == Job::Import {
            let all = if self.random.below(4) == 0 { &self.side } else { &*self.known.blocks };
            let first = self.random.below(all.len());
            let end = (first + 1 + self.random.below(60)).min(all.len());
            self.row += &format!(" {first} to {end}");
            replace(disk, Path::new(FOREIGN), &file(&all[first..end]));
        }
        options
    }

    fn run(&self, options: &Options, job: Job) -> Result<(), Fault> {
        let quiet = &|_: Event| ();
        match job {
            Job::Sync | Job::SyncToHeight => jobs::sync(options, &self.sync, quiet).map(drop),
            Job::Import => jobs::import(options, &[PathBuf::from(FOREIGN)], quiet).map(drop),
            Job::Reindex => jobs::reindex(options, false, quiet).map(drop),
            Job::Rebuild => jobs::reindex(options, true, quiet).map(drop),
            Job::Repair => jobs::repair(options, &self.sync, quiet).map(drop),
            Job::Index => jobs::index(options, &options.indexes, quiet).map(drop),
            Job::Verify => jobs::verify(options, 4, 0, quiet).map(drop),
        }
    }
}

impl Walk<'_> {
    /// Runs a job that may be stopped, and returns the disk after it, and whether it was stopped.
    fn step(&mut self, disk: SimDisk, job: Job) -> (SimDisk, bool) {
        self.row += &format!(" {job:?}");
        let options = self.prepare(&disk, job);
        let is_stopped = may_stop(&disk, 3..10, &mut self.random, &mut self.row);
        // It may find nothing to do, as an index does before there are blocks; what it leaves is what counts.
        let _ = self.run(&options, job);
        let disk = if is_stopped { after_stop(&disk, &mut self.random, &mut self.row) } else { disk };
        (disk, is_stopped)
    }

    /// The last sync, after which everything is there.
    fn end(&mut self, disk: &SimDisk) {
        let row = self.row.clone();
        let last = self.prepare(disk, Job::Sync);
        jobs::sync(&last, &self.sync, &|_| ()).unwrap_or_else(|why| panic!("{row}: {why}"));
        check_whole(disk, self.known, &row);
        self.row = row;
    }
}

/// Stops two of three jobs, at an operation below a power of two whose exponent is drawn from `exponents`.
pub(crate) fn may_stop(disk: &SimDisk, exponents: Range<usize>, random: &mut Rng, row: &mut String) -> bool {
    let is_stopped = random.below(3) > 0;
    if is_stopped {
        let below = 1 << (exponents.start + random.below(exponents.len()));
        let at = random.below(below) as u64;
        *row += &format!(" stopped at {at}");
        disk.fail_at(disk.operations() + at, 1, Accident::Stop);
    }
    is_stopped
}

/// The disk after a stop: it has everything, or lost what was not synced.
pub(crate) fn after_stop(disk: &SimDisk, random: &mut Rng, row: &mut String) -> SimDisk {
    let loss = if random.below(2) == 0 { Loss::Nothing } else { Loss::Unsynced };
    *row += &format!(" {loss:?}");
    disk.reopen(loss)
}

/// Removes, cuts or changes one file of the directory. Left alone are the key, whose damage is for the user to mend, and the
/// hash that the user trusts.
pub(crate) fn damage(disk: &SimDisk, random: &mut Rng, row: &mut String) {
    let spared = [".lock", "blocks/.lock", "blocks/xor.dat", "ffwd/snapshot"].map(net);
    let mut files = Vec::new();
    list(disk, &net(""), &mut files);
    files.retain(|path| !spared.contains(path));
    if files.is_empty() {
        return;
    }
    let path = &files[random.below(files.len())];
    let mut bytes = read(disk, path);
    let at = random.below(bytes.len() + 1);
    match random.below(3) {
        0 => {
            *row += &format!(" {} is removed", path.display());
            disk.remove_file(path).unwrap();
        }
        1 => {
            *row += &format!(" {} is cut to {at}", path.display());
            replace(disk, path, &bytes[..at]);
        }
        _ if at == bytes.len() => {}
        _ => {
            *row += &format!(" {} is changed at {at}", path.display());
            bytes[at] ^= 0x40;
            replace(disk, path, &bytes);
        }
    }
}

pub(crate) fn list(disk: &SimDisk, dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in disk.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.is_dir { list(disk, &path, files) } else { files.push(path) }
    }
}

fn play(known: &Known, seed: u64, is_damaged: bool) {
    let asked = Arc::new(Mutex::new(BTreeMap::<BlockHash, usize>::new()));
    let noted = asked.clone();
    let bend: Bend = Arc::new(move |hash: &BlockHash| {
        *noted.lock().unwrap().entry(*hash).or_default() += 1;
        None
    });
    let address = Far::listen(&known.blocks, bend, &open());
    let side = branch(&known.blocks, 120, 6, 7);
    let random = Rng::new(seed);
    let sync = sync_options(&[address], Until::Tip);
    let mut walk = Walk { known, side, sync, random, row: format!("seed {seed}:") };
    let mut disk = SimDisk::new(0);
    put(&disk, &net("blocks/xor.dat"), &KEY);
    let mut stops = 0;
    for _ in 0..2 + walk.random.below(6) {
        let job = JOBS[walk.random.below(JOBS.len())];
        let is_stopped;
        (disk, is_stopped) = walk.step(disk, job);
        stops += usize::from(is_stopped);
        walk.row += ";";
    }
    if is_damaged {
        damage(&disk, &mut walk.random, &mut walk.row);
        let options = walk.prepare(&disk, Job::Repair);
        jobs::repair(&options, &walk.sync, &|_| ()).unwrap_or_else(|why| panic!("{}: {why}", walk.row));
    }
    walk.end(&disk);
    let row = walk.row;
    if is_damaged {
        return;
    }
    assert_eq!(twice(&disk, known), [0; 0], "{row}: stored twice");
    // A stop loses what is under way.
    let asked = asked.lock().unwrap();
    let again: Vec<_> =
        asked.iter().filter(|&(_, &count)| count > 1 + stops).map(|(hash, _)| known.heights[hash]).collect();
    assert_eq!(again, [0; 0], "{row}: requested again");
}

#[test]
fn jobs_go_on_after_any_others_and_any_stops() {
    let known = Known::new();
    for seed in seeds("JOBS_RUNS", "JOBS_FROM", RUNS) {
        play(&known, seed, false);
    }
}

#[test]
fn a_repair_mends_any_file_after_any_jobs_and_any_stops() {
    let known = Known::new();
    for seed in seeds("JOBS_RUNS", "JOBS_FROM", RUNS) {
        play(&known, seed, true);
    }
}

/// bitcoind takes the directory over for a while, checks it, and takes some blocks; then it is stopped or killed.
fn hand_over(disk: &SimDisk, known: &Known, random: &mut Rng, row: &mut String) -> SimDisk {
    let dir = tempfile::tempdir().unwrap();
    write_out(disk, Path::new(DATADIR), dir.path());
    let core = Bitcoind::start(dir.path(), CHECKS);
    let height: usize = core.rpc(&["getblockcount"]).parse().unwrap();
    let end = (height + random.below(30)).min(TIP);
    *row += &format!(" bitcoind from {height} to {end}");
    for block in known.blocks.iter().take(end + 1).skip(height + 1) {
        core.rpc(&["submitblock", &hex::encode(block)]);
    }
    if random.below(2) == 0 {
        core.stop()
    } else {
        core.kill()
    }
    let disk = SimDisk::new(0);
    read_in(&disk, Path::new(DATADIR), dir.path());
    disk
}

/// Copies a real directory to a simulated disk.
fn read_in(disk: &SimDisk, to: &Path, from: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            read_in(disk, &to, &entry.path());
        } else {
            put(disk, &to, &std::fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn bitcoind_may_take_over_between_any_jobs() {
    if !bitcoind::is_there() {
        return;
    }
    let known = Known::new();
    let address = Far::listen(&known.blocks, Arc::new(|_: &BlockHash| None), &open());
    for seed in seeds("JOBS_RUNS", "JOBS_FROM", 2) {
        let sync = sync_options(std::slice::from_ref(&address), Until::Tip);
        let (random, side) = (Rng::new(seed), branch(&known.blocks, 120, 6, 7));
        let mut walk = Walk { known: &known, side, sync, random, row: format!("seed {seed}:") };
        let mut disk = SimDisk::new(0);
        put(&disk, &net("blocks/xor.dat"), &KEY);
        for _ in 0..2 + walk.random.below(3) {
            // A repair that was stopped is for a repair to go on with.
            let jobs: Vec<Job> = JOBS.into_iter().filter(|&job| job != Job::Repair).collect();
            let job = jobs[walk.random.below(jobs.len())];
            disk = walk.step(disk, job).0;
            println!("{}", walk.row);
            disk = hand_over(&disk, &known, &mut walk.random, &mut walk.row);
            walk.row += ";";
        }
        walk.end(&disk);
    }
}

/// What is done with a directory that is pruned at times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PruneJob {
    Prune,
    Archive,
    Plain,
    Reindex,
    Repair,
    Index,
    Verify,
}

impl PruneJob {
    /// Options of a job, drawn: with pruning if `is_pruned`, which may draw too.
    pub(crate) fn prepare(
        disk: &SimDisk,
        blocks: &Blocks,
        random: &mut Rng,
        row: &mut String,
        is_pruned: impl FnOnce(&mut Rng) -> bool,
    ) -> Options {
        let mut options = unpruned(disk);
        options.indexes = IndexKind::ALL.into_iter().filter(|_| random.below(5) == 0).collect();
        if is_pruned(random) {
            *row += " pruned";
            options.prune = Prune::Target { bytes: TARGET_BYTES };
        }
        if random.below(4) == 0 {
            let height = random.below(blocks.len()) as u32;
            *row += &format!(" to {height}");
            options.stop_at_height = Some(Height::new(height));
        }
        options
    }

    /// It may be refused, as a reindex is where blocks are pruned.
    pub(crate) fn run(self, options: &Options, sync: &SyncOptions, random: &mut Rng) -> Result<(), Fault> {
        let quiet = &|_: Event| ();
        match self {
            PruneJob::Prune | PruneJob::Plain => jobs::sync(options, sync, quiet).map(drop),
            PruneJob::Archive => {
                let options = Options { prune: Prune::Off, ..options.clone() };
                let archive = SyncOptions { to_archival: true, ..sync.clone() };
                jobs::sync(&options, &archive, quiet).map(drop)
            }
            PruneJob::Reindex => jobs::reindex(options, random.below(2) == 0, quiet).map(drop),
            PruneJob::Repair => jobs::repair(options, sync, quiet).map(drop),
            PruneJob::Index => jobs::index(options, &options.indexes, quiet).map(drop),
            PruneJob::Verify => jobs::verify(options, 4, 0, quiet).map(drop),
        }
    }
}

const PRUNE_JOBS: [PruneJob; 9] = [
    PruneJob::Prune,
    PruneJob::Prune,
    PruneJob::Archive,
    PruneJob::Archive,
    PruneJob::Plain,
    PruneJob::Reindex,
    PruneJob::Repair,
    PruneJob::Index,
    PruneJob::Verify,
];

fn play_pruned(blocks: &Blocks, set: &str, seed: u64) {
    let mut random = Rng::new(seed);
    let address = Far::listen(blocks, Arc::new(|_: &BlockHash| None), &open());
    let sync = sync_options(&[address], Until::Tip);
    let archive = SyncOptions { to_archival: true, ..sync.clone() };
    let quiet = &|_: Event| ();
    let mut row = format!("seed {seed}:");
    let mut disk = SimDisk::new(0);
    put(&disk, &net("blocks/xor.dat"), &[0; 8]);
    for _ in 0..2 + random.below(5) {
        let job = PRUNE_JOBS[random.below(PRUNE_JOBS.len())];
        row += &format!(" {job:?}");
        let is_pruned = |random: &mut Rng| job == PruneJob::Prune || random.below(3) == 0;
        let options = PruneJob::prepare(&disk, blocks, &mut random, &mut row, is_pruned);
        let is_stopped = may_stop(&disk, 4..12, &mut random, &mut row);
        let _ = job.run(&options, &sync, &mut random);
        if is_stopped {
            disk = after_stop(&disk, &mut random, &mut row);
        }
        row += ";";
    }
    jobs::sync(&unpruned(&disk), &archive, quiet).unwrap_or_else(|why| panic!("{row}: {why}"));
    check_archival(&disk, set, &row);
}

#[test]
fn pruned_directories_become_archival_after_any_jobs_and_any_stops() {
    let blocks: Blocks = chain(BLOCKS);
    let whole = SimDisk::new(0);
    write_files(&unpruned(&whole), &blocks);
    jobs::reindex(&unpruned(&whole), false, &|_| ()).unwrap();
    let set = set_of(&whole);
    for seed in seeds("JOBS_RUNS", "JOBS_FROM", RUNS / 2) {
        play_pruned(&blocks, &set, seed);
    }
}
