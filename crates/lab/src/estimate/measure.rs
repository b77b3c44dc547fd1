//! Measures the machine for about a minute: the disk, the memory, and the engine itself on small chains of every era.
//!
//! The engine's own counters give the cost of a stage. Each chain is reindexed several times; the variation between
//! them is the error of the rate.
//!
//! Absent on purpose: anything about how long a sync takes (`model`).

use super::eras::ERAS;
use super::model::{EraRates, Rate, Rates};
use super::{Error, EstimateOptions};
use consensus::{Chain, Params};
use demo::chain::{self, Profile, Signatures};
use node::jobs;
use node::reporting::JobReport;
use node::stats::{STAGES, Stage};
use primitives::BlockHash;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Full blocks of each era's chain, and the coins that they begin with.
const ERA_BLOCKS: u32 = 8;
const ERA_COINS: u64 = 20_000;
/// Chains of small blocks have more of them, so that a chain takes some tenths of a second.
const SMALL_BLOCKS: u32 = 30;
/// The chain whose coins do not fit in the cache.
const SET_BLOCKS: u32 = 60;
const SET_COINS: u64 = 1_000_000;
const SET_CACHE_BYTES: usize = 64 << 20;
/// Empty blocks that let scripts be assumed valid.
const TAIL: u32 = 2_100;
/// How often each chain is reindexed.
const TIMES: usize = 3;
/// Bytes that are written and synced in total, and at a time.
const DISK_BYTES: usize = 192 << 20;
const DISK_PIECE: usize = 8 << 20;
/// Bytes of a read, number of reading threads, and duration.
const PAGE: usize = 4096;
const READERS: u64 = 4;
const READING: Duration = Duration::from_millis(1_500);
/// Number of entries, of four bytes each, in the table for measuring latency.
const WALKED: u32 = 16 << 20;
const WALK_STEPS: u32 = 2 << 20;

/// The measured rates.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) rates: Rates,
    /// Latency of a random memory access, in nanoseconds.
    pub(super) memory_ns: f64,
}

/// Measures in `directory`, which must be on the disk to measure. Reports each step to `say`.
pub(super) fn measure(
    options: &EstimateOptions,
    directory: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Measured, Error> {
    let mut measured = Measured::default();
    say("disk: writing, syncing, reading at random");
    let shrink = if options.quick { 16 } else { 1 };
    (measured.rates.disk, measured.rates.reads) =
        disk(directory, DISK_BYTES / shrink, READING / shrink as u32).map_err(Error::io(directory))?;
    say("memory: loads at random");
    measured.memory_ns = memory_ns(WALKED / shrink as u32, WALK_STEPS / shrink as u32);
    let lab = Lab { options, directory };
    say("coin set: a chain whose coins do not fit in the cache");
    lab.set(&mut measured.rates)?;
    for (at, era) in ERAS.iter().enumerate() {
        if options.quick && at > 0 {
            let first = measured.rates.eras[0];
            measured.rates.eras.push(first);
            continue;
        }
        say(&format!("scripts and hashing: blocks like {}", era.profile));
        measured.rates.eras.push(lab.era(era.profile)?);
    }
    Ok(measured)
}

/// Bytes written and synced per second, and reads per second.
fn disk(directory: &Path, bytes: usize, reading: Duration) -> io::Result<(Rate, Rate)> {
    let path = directory.join("disk");
    let piece: Vec<u8> =
        (0..DISK_PIECE as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect();
    let pieces = (bytes / DISK_PIECE).max(1);
    let mut writes = Vec::new();
    let mut reads = Vec::new();
    for _ in 0..TIMES {
        let start = Instant::now();
        let mut file = File::create(&path)?;
        (0..pieces).try_for_each(|_| file.write_all(&piece))?;
        file.sync_all()?;
        writes.push((pieces * DISK_PIECE) as f64 / start.elapsed().as_secs_f64());
    }
    let file = File::open(&path)?;
    for time in 0..TIMES as u64 {
        // Pages that cannot be dropped from the cache are read from memory. The rate is then too high; a note of the
        // report states this.
        let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
        let start = Instant::now();
        let done = AtomicU64::new(0);
        let places = (pieces * DISK_PIECE / PAGE) as u64;
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..READERS)
                .map(|reader| {
                    let file = &file;
                    let done = &done;
                    scope.spawn(move || {
                        let mut page = [0; PAGE];
                        let mut at = (time * READERS + reader + 1).wrapping_mul(0x2545_f491_4f6c_dd1d);
                        while start.elapsed() < reading / TIMES as u32 && done.load(Ordering::Relaxed) < places / 2 {
                            at = at.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                            file.read_exact_at(&mut page, (at >> 20) % places * PAGE as u64)?;
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok::<(), io::Error>(())
                    })
                })
                .collect();
            readers.into_iter().try_for_each(|reader| reader.join().expect("nothing in it panics"))
        })?;
        reads.push(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path)?;
    Ok((Rate::of(&writes), Rate::of(&reads)))
}

/// Nanoseconds for a step of a random cycle through `places` entries.
fn memory_ns(places: u32, steps: u32) -> f64 {
    let mut next: Vec<u32> = (0..places).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // One cycle through all entries. Source: Sattolo, "An algorithm to generate a random cyclic permutation", 1986.
    for at in (1..next.len()).rev() {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        next.swap(at, ((u128::from(state) * at as u128) >> 64) as usize);
    }
    let start = Instant::now();
    let mut at = 0;
    for _ in 0..steps {
        at = next[at as usize];
    }
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(at);
    seconds * 1e9 / f64::from(steps)
}

/// Makes chains and reindexes them.
struct Lab<'a> {
    options: &'a EstimateOptions,
    directory: &'a Path,
}

/// Busy seconds of a stage.
fn busy(report: &JobReport, stage: Stage) -> f64 {
    let at = STAGES.iter().position(|(one, _)| *one == stage).expect("it has all stages");
    report.stats.busy[at].as_secs_f64()
}

impl Lab<'_> {
    fn era(&self, profile: Profile) -> Result<EraRates, Error> {
        let blocks = match (self.options.quick, profile) {
            (true, _) => 2,
            (false, Profile::Mainnet2012) => SMALL_BLOCKS,
            (false, _) => ERA_BLOCKS,
        };
        let coins = if self.options.quick { chain::UTXOS_MIN } else { ERA_COINS };
        let (datadir, _) = self.chain("era", blocks, coins, profile, Signatures::Real)?;
        let runs = self.times(|| self.reindex(&datadir, BlockHash::ZERO, 1 << 30))?;
        std::fs::remove_dir_all(&datadir).map_err(Error::io(&datadir))?;
        let rate = |stage: Stage, units: fn(&JobReport) -> u64| {
            Rate::of(&runs.iter().map(|run| busy(run, stage) / units(run).max(1) as f64).collect::<Vec<_>>())
        };
        Ok(EraRates {
            scripts: rate(Stage::Scripts, |run| run.stats.inputs),
            decode: rate(Stage::Decode, |run| run.stats.bytes),
            judge: rate(Stage::Judge, |run| run.stats.inputs),
            read: rate(Stage::Read, |run| run.stats.bytes),
            commit: rate(Stage::Commit, |run| run.stats.bytes),
        })
    }

    /// The rates of the coin set, measured with a chain whose scripts are assumed valid.
    fn set(&self, rates: &mut Rates) -> Result<(), Error> {
        let (blocks, coins) = if self.options.quick { (2, 20_000) } else { (SET_BLOCKS, SET_COINS) };
        let (datadir, tip) = self.chain("set", blocks, coins, Profile::Mainnet2025, Signatures::Fake)?;
        let cache = if self.options.quick { 4 << 20 } else { SET_CACHE_BYTES };
        let runs = self.times(|| self.reindex(&datadir, tip, cache))?;
        std::fs::remove_dir_all(&datadir).map_err(Error::io(&datadir))?;
        let rate = |seconds: fn(&JobReport) -> f64, units: fn(&JobReport) -> u64| {
            Rate::of(&runs.iter().map(|run| seconds(run) / units(run).max(1) as f64).collect::<Vec<_>>())
        };
        rates.apply = rate(|run| busy(run, Stage::Apply), |run| run.stats.inputs + run.stats.outputs);
        rates.look_up = rate(|run| busy(run, Stage::LookUp), |run| run.stats.asked);
        rates.write = rate(
            |run| busy(run, Stage::Write) + busy(run, Stage::Compact) + busy(run, Stage::Sync),
            |run| run.stats.outputs,
        );
        let threads = self.options.threads as f64;
        let idle = runs.iter().map(|run| busy(run, Stage::Wait) / (threads * run.seconds.max(1e-9)));
        rates.busy = 1.0 - (idle.sum::<f64>() / runs.len() as f64).clamp(0.0, 0.9);
        Ok(())
    }

    fn times(&self, mut run: impl FnMut() -> Result<JobReport, Error>) -> Result<Vec<JobReport>, Error> {
        (0..if self.options.quick { 1 } else { TIMES }).map(|_| run()).collect()
    }

    fn chain(
        &self,
        name: &str,
        blocks: u32,
        utxos: u64,
        profile: Profile,
        signatures: Signatures,
    ) -> Result<(std::path::PathBuf, BlockHash), Error> {
        self.options.check_stop()?;
        let out = self.directory.join(name);
        let tail = if signatures == Signatures::Fake { TAIL } else { 0 };
        let threads = NonZeroUsize::new(self.options.threads);
        let options =
            chain::Options { blocks, utxos, tail, signatures, profile, threads, ..chain::Options::new(&out, 0, 1) };
        let made = chain::generate(&options, |_| {}).map_err(|why| Error::Chain(why.to_string()))?;
        let tip = BlockHash::from_display(&made.bestblock).expect("it was printed as a hash");
        Ok((out, tip))
    }

    /// A whole reindex: index, undo data and coins.
    fn reindex(&self, datadir: &Path, assumevalid: BlockHash, dbcache_bytes: usize) -> Result<JobReport, Error> {
        self.options.check_stop()?;
        let params = Params::new(Chain::Regtest);
        let options = node::options::Options {
            dbcache_bytes,
            par: self.options.threads,
            assumevalid,
            build: "ffwd lab estimate",
            stop: self.options.stop.clone(),
            ..node::options::Options::new(datadir.to_owned(), params, std::time::SystemTime::now)
        };
        let report = jobs::reindex(&options, false, &|_| {}).map_err(|why| Error::Engine(why.to_string()))?;
        if report.stopped { Err(Error::Stopped) } else { Ok(report) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_and_memory_have_rates() {
        let scratch = tempfile::tempdir().unwrap();
        let (write, reads) = disk(scratch.path(), 1 << 20, Duration::from_millis(30)).unwrap();
        assert!(write.value > 0.0 && reads.value > 0.0, "{write:?} {reads:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "nothing is left");
        let ns = memory_ns(1 << 12, 1 << 12);
        assert!(ns > 0.0 && ns < 1e6, "{ns}");
    }
}
