//! `lab cores`: how much faster a reindex is with more workers, and which stage limits it.
//!
//! One chain with real signatures is reindexed with 1, 2, 4, .. workers, with every script and with scripts assumed valid, as a
//! plan of `run`. A bitcoind, if one is given, runs with the greatest number of threads only. The memory bandwidth of each
//! number of threads is measured as well. The result is one [`CoresReport`].
//!
//! A stage is serial if blocks pass it in their order: one at a time (`read`, `commit`), or one at a time in each of the shard
//! groups (`spend_and_create`). The model: a run takes at least as long as each serial stage, and at least the work of all
//! stages divided by the number of workers.
//!
//! Absent on purpose: how a run is made and repeated (`run`).

use crate::run::{self, RunError, RunOptions};
use demo::result::{Cell, Machine, RunRecord};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The value of `format` in a [`CoresReport`]; another number means another layout.
const FORMAT: &str = "ffwd lab cores 1";
/// Empty blocks after the full ones, so that scripts can be assumed valid.
const TAIL: u32 = 2_100;
/// Minutes after which a run is ended.
const RUN_MINUTES: u32 = 5;
/// Bytes that each thread reads to measure memory: more than its share of any cache.
const BANDWIDTH_BYTES: usize = 128 << 20;
/// Number of times that each thread reads them.
const BANDWIDTH_PASSES: usize = 6;
/// Stages that blocks pass in order, and the number of places at which this happens at the same time. Source:
/// `node::pipeline::tasks`; the shard groups are `coins::shard_group`.
const SERIAL: [(&str, usize); 3] = [("read", 1), ("commit", 1), ("spend_and_create", 32)];
/// The stage of an idle worker: not counted as work.
const IDLE: &str = "wait";

/// Options of a measurement.
#[derive(Clone, Debug)]
pub struct CoresOptions {
    /// Directory for the chain and its copies. It must not exist; it is removed at the end.
    pub directory: PathBuf,
    /// Full blocks of the chain.
    pub blocks: u32,
    /// Number of coins before the first full block.
    pub utxos: u64,
    /// Greatest number of workers; 0 for one per processor.
    pub threads: usize,
    /// Number of runs of each kind.
    pub repeats: u32,
    /// Program bitcoind to compare with.
    pub bitcoind: Option<PathBuf>,
    /// Set from outside to stop.
    pub stop: Arc<AtomicBool>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Error {
    /// The plan could not be run.
    Run(RunError),
    /// The directory for the chain exists already.
    Taken(PathBuf),
    /// A file or directory.
    Io(PathBuf, io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // The directory is removed: there is nothing to resume.
            Error::Run(RunError::Io { path, error }) | Error::Io(path, error) => {
                write!(f, "{}: {error}", path.display())
            }
            Error::Run(why) => why.fmt(f),
            Error::Taken(path) => {
                write!(f, "{} is there already: remove it, or name another OUT", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Run(why) => Some(why),
            Error::Io(_, why) => Some(why),
            Error::Taken(_) => None,
        }
    }
}

/// Result of a measurement.
#[derive(Clone, Debug, Serialize)]
pub struct CoresReport {
    /// Always `ffwd lab cores 1`.
    pub format: &'static str,
    /// Version of the program.
    pub version: String,
    /// The machine.
    pub machine: Machine,
    /// Full blocks of the chain.
    pub blocks: u32,
    /// Number of coins before the first full block.
    pub utxos: u64,
    /// Memory bandwidth, by number of threads.
    pub memory_bandwidth: Vec<Bandwidth>,
    /// Every number of workers with every script, then with scripts assumed valid.
    pub rows: Vec<Row>,
    /// Serial stage with the greatest share of the time of the run with the most workers and every script.
    pub first_serial_stage_every_script: String,
    /// Serial stage with the greatest share in the run with the most workers and scripts assumed valid.
    pub first_serial_stage_assumed_valid: String,
    /// Failed runs, and limits that were not in force.
    pub notes: Vec<String>,
}

/// Memory bandwidth.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bandwidth {
    /// Threads that read at the same time.
    pub threads: usize,
    /// Bytes per second of all threads together.
    pub bytes_per_second: f64,
}

/// Runs of one program with one number of workers.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// `ffwd` or `bitcoind`.
    pub program: String,
    /// `every script` or `assumed valid`.
    pub scripts: String,
    /// Number of workers; for bitcoind, of threads that verify scripts.
    pub threads: usize,
    /// Elapsed seconds of the fastest run.
    pub seconds: f64,
    /// Elapsed seconds of each run.
    pub all_seconds: Vec<f64>,
    /// Processor seconds, mean of the runs.
    pub cpu_seconds: Option<f64>,
    /// Seconds of the run with one worker, divided by the seconds of this one.
    pub speedup: Option<f64>,
    /// Seconds that the model expects, from the stages of the run with one worker.
    pub model_seconds: Option<f64>,
    /// Busy seconds of each stage over all workers, in the fastest run.
    pub busy_seconds: BTreeMap<String, f64>,
    /// Shortest time of each serial stage, divided by the seconds of the run.
    pub serial_share: BTreeMap<String, f64>,
}

/// Measures; `say` prints progress.
///
/// # Errors
///
/// See [`Error`]. A run that fails is a note of the report.
pub fn measure(options: &CoresOptions, version: &str, say: &mut dyn FnMut(&str)) -> Result<CoresReport, Error> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = doubled(if options.threads == 0 { processors } else { options.threads });
    say("memory: reading it with each number of threads");
    let memory_bandwidth = threads.iter().map(|&threads| bandwidth(threads, BANDWIDTH_BYTES)).collect();
    let io = |path: &Path, why| Error::Io(path.to_owned(), why);
    fs::create_dir(&options.directory).map_err(|why| match why.kind() {
        io::ErrorKind::AlreadyExists => Error::Taken(options.directory.clone()),
        _ => io(&options.directory, why),
    })?;
    let measured = runs(options, &threads);
    let removed = fs::remove_dir_all(&options.directory).map_err(|why| io(&options.directory, why));
    let (done, mut rows) = measured?;
    removed?;
    compare(&mut rows);
    let bound = |scripts| first_serial(&rows, scripts).unwrap_or_else(|| "no run".to_owned());
    Ok(CoresReport {
        format: FORMAT,
        version: version.to_owned(),
        machine: done.machine.clone(),
        blocks: options.blocks,
        utxos: options.utxos,
        memory_bandwidth,
        first_serial_stage_every_script: bound(demo::result::EVERY_SCRIPT),
        first_serial_stage_assumed_valid: bound(demo::result::ASSUMED_VALID),
        rows,
        notes: notes(&done),
    })
}

/// 1, 2, 4, .. and `most`.
fn doubled(most: usize) -> Vec<usize> {
    let mut all: Vec<usize> =
        std::iter::successors(Some(1usize), |n| n.checked_mul(2)).take_while(|&n| n < most).collect();
    all.push(most.max(1));
    all
}

/// Bandwidth of `threads` threads, each of which reads `bytes` bytes of its own memory: the best of several passes.
fn bandwidth(threads: usize, bytes: usize) -> Bandwidth {
    let barrier = std::sync::Barrier::new(threads);
    let passes: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..threads as u64)
            .map(|seed| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let words: Vec<u64> = (0..(bytes / 8) as u64).map(|at| at ^ seed).collect();
                    let pass = || {
                        barrier.wait();
                        let start = Instant::now();
                        std::hint::black_box(words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word)));
                        start.elapsed().as_secs_f64()
                    };
                    (0..BANDWIDTH_PASSES).map(|_| pass()).collect()
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("nothing in it panics")).collect()
    });
    let slowest = |pass: usize| passes.iter().map(|seconds| seconds[pass]).fold(0.0, f64::max);
    let best = (0..BANDWIDTH_PASSES).map(slowest).fold(f64::INFINITY, f64::min);
    Bandwidth { threads, bytes_per_second: (threads * bytes) as f64 / best.max(1e-9) }
}

/// The plan, as TOML.
fn plan(options: &CoresOptions, threads: &[usize]) -> String {
    let make = format!(
        "make = [\"--blocks\", \"{}\", \"--seed\", \"1\", \"--utxos\", \"{}\", \"--tail\", \"{TAIL}\", \"--signatures\", \"real\"]",
        options.blocks, options.utxos
    );
    let mut text = format!(
        "title = \"Cores\"\nrepeats = {}\ncheck = \"first\"\ntimeout_minutes = {RUN_MINUTES}\n\n[[program]]\nlabel = \"ffwd\"\n\n\
         [[chain]]\nlabel = \"made\"\n{make}\n\n[[work]]\nkind = \"reindex\"\nprograms = [\"ffwd\"]\n",
        options.repeats
    );
    let scripts = [("every script", "0"), ("assumed valid", "tip")];
    if let Some(path) = &options.bitcoind {
        let most = threads.last().copied().unwrap_or(1);
        let settings: Vec<String> = scripts.iter().map(|(label, _)| format!("{:?}", name(label, most))).collect();
        text += &format!(
            "\n[[program]]\nlabel = \"bitcoind\"\nkind = \"bitcoind\"\npath = {}\nargs = [\"-blocksonly\"]\n\n\
             [[work]]\nkind = \"reindex\"\nprograms = [\"bitcoind\"]\nsettings = [{}]\n",
            toml::Value::from(path.display().to_string()),
            settings.join(", ")
        );
    }
    for (label, assumed) in scripts {
        for &par in threads {
            text += &format!(
                "\n[[settings]]\nlabel = {:?}\ndbcache_mib = 4000\npar = {par}\nassumevalid = \"{assumed}\"\n",
                name(label, par)
            );
        }
    }
    text
}

fn name(scripts: &str, threads: usize) -> String {
    format!("{scripts} by {threads}")
}

fn runs(options: &CoresOptions, threads: &[usize]) -> Result<(demo::result::Report, Vec<Row>), Error> {
    let path = options.directory.join("plan.toml");
    let out = options.directory.join("results");
    fs::write(&path, plan(options, threads)).map_err(|why| Error::Io(path.clone(), why))?;
    let mut run = RunOptions::new(&path, &out);
    run.stop = options.stop.clone();
    let done = run::run(&run).map_err(Error::Run)?;
    let rows = done.cells.iter().filter_map(|cell| row(cell, &done.runs, &out)).collect();
    Ok((done, rows))
}

/// A cell of the plan as a row; `None` if every run of it failed.
fn row(cell: &Cell, runs: &[RunRecord], out: &Path) -> Option<Row> {
    let of_cell = runs.iter().filter(|run| run.cell == cell.cell && run.outcome == demo::result::Outcome::Done);
    let fastest = of_cell.min_by(|a, b| a.seconds.total_cmp(&b.seconds))?;
    let said = run::object_in(&out.join(&fastest.directory).join("stdout.txt"));
    let stages = said.as_ref().and_then(|said| said.get("stages")).and_then(Value::as_object);
    let busy = |stage: &Value| stage.get("busy_seconds").and_then(Value::as_f64);
    let busy_seconds = stages.into_iter().flatten();
    let busy_seconds: BTreeMap<_, _> =
        busy_seconds.filter_map(|(name, stage)| Some((name.clone(), busy(stage)?))).collect();
    let serial_share = serial(&busy_seconds).map(|(name, least)| (name.to_owned(), least / fastest.seconds)).collect();
    Some(Row {
        program: cell.program.clone(),
        scripts: cell.trust.clone(),
        threads: cell.settings.par.and_then(|par| usize::try_from(par).ok())?,
        seconds: fastest.seconds,
        all_seconds: cell.seconds.clone(),
        cpu_seconds: cell.cpu_seconds,
        speedup: None,
        model_seconds: None,
        busy_seconds,
        serial_share,
    })
}

/// The serial stages, each with the shortest time that its work takes.
fn serial(busy: &BTreeMap<String, f64>) -> impl Iterator<Item = (&'static str, f64)> {
    SERIAL.iter().filter_map(|&(name, places)| Some((name, busy.get(name)? / places as f64)))
}

/// Sets the fields that compare a row with the run with one worker.
fn compare(rows: &mut [Row]) {
    let ones: Vec<Row> = rows.iter().filter(|row| row.threads == 1).cloned().collect();
    for row in rows {
        let same = |one: &&Row| one.program == row.program && one.scripts == row.scripts;
        let Some(one) = ones.iter().find(same) else { continue };
        row.speedup = Some(one.seconds / row.seconds);
        row.model_seconds = (!one.busy_seconds.is_empty()).then(|| model(&one.busy_seconds, row.threads));
    }
}

/// Seconds that the model expects of `threads` workers, from the busy seconds of one worker.
fn model(busy: &BTreeMap<String, f64>, threads: usize) -> f64 {
    let work: f64 = busy.iter().filter(|(name, _)| *name != IDLE).map(|(_, seconds)| seconds).sum();
    serial(busy).map(|(_, least)| least).fold(work / threads as f64, f64::max)
}

/// The serial stage with the greatest share of the time in the run with the most workers.
fn first_serial(rows: &[Row], scripts: &str) -> Option<String> {
    let of_kind = rows.iter().filter(|row| row.scripts == scripts && !row.serial_share.is_empty());
    let last = of_kind.max_by_key(|row| row.threads)?;
    let most = last.serial_share.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
    Some(most.0.clone())
}

fn notes(done: &demo::result::Report) -> Vec<String> {
    let failed = done.cells.iter().flat_map(|cell| {
        cell.failures.iter().map(|failure| format!("{}: run {}: {}", cell.cell, failure.run, failure.why))
    });
    done.notes.iter().cloned().chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_threads_double_up_to_the_most() {
        assert_eq!(doubled(1), [1]);
        assert_eq!(doubled(2), [1, 2]);
        assert_eq!(doubled(12), [1, 2, 4, 8, 12]);
        assert_eq!(doubled(16), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn memory_has_a_rate() {
        let two = bandwidth(2, 1 << 20);
        assert!(two.threads == 2 && two.bytes_per_second > 1e6, "{two:?}");
    }

    fn busy(stages: &[(&str, f64)]) -> BTreeMap<String, f64> {
        stages.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect()
    }

    #[test]
    fn model_divides_the_work_until_a_serial_stage_takes_longer() {
        let one =
            busy(&[("read", 1.0), ("scripts", 14.0), ("spend_and_create", 16.0), ("commit", 1.0), ("wait", 100.0)]);
        assert_eq!(model(&one, 1), 32.0);
        assert_eq!(model(&one, 16), 2.0);
        assert_eq!(model(&one, 64), 1.0, "blocks are read one after another");
        let one = busy(&[("spend_and_create", 64.0)]);
        assert_eq!(model(&one, 64), 2.0, "each of 32 groups of shards has its blocks one after another");
    }

    #[test]
    fn rows_are_compared_with_one_worker_of_their_kind() {
        let row = |scripts: &str, threads, seconds, serial: &[(&str, f64)]| Row {
            program: "ffwd".to_owned(),
            scripts: scripts.to_owned(),
            threads,
            seconds,
            all_seconds: vec![seconds],
            cpu_seconds: None,
            speedup: None,
            model_seconds: None,
            busy_seconds: busy(&[("scripts", seconds)]),
            serial_share: busy(serial),
        };
        let mut rows = [
            row("every script", 1, 32.0, &[("read", 0.1), ("commit", 0.2)]),
            row("every script", 16, 4.0, &[("read", 0.6), ("commit", 0.5)]),
            row("assumed valid", 1, 8.0, &[("commit", 0.1)]),
        ];
        compare(&mut rows);
        assert_eq!(rows.each_ref().map(|row| row.speedup), [Some(1.0), Some(8.0), Some(1.0)]);
        assert_eq!(rows[1].model_seconds, Some(2.0));
        assert_eq!(first_serial(&rows, "every script").as_deref(), Some("read"));
        assert_eq!(first_serial(&rows, "assumed valid").as_deref(), Some("commit"));
        assert_eq!(first_serial(&rows, "no script"), None);
    }

    #[test]
    fn plan_is_one_that_can_be_run() {
        let mut options = CoresOptions {
            directory: PathBuf::from("/scratch"),
            blocks: 3,
            utxos: 2_000,
            threads: 4,
            repeats: 2,
            bitcoind: None,
            stop: Arc::default(),
        };
        let cells = |options: &CoresOptions| run::cells_of(&plan(options, &doubled(options.threads))).unwrap();
        assert_eq!(cells(&options).len(), 6);
        options.bitcoind = Some(PathBuf::from("/usr/bin/bitcoind"));
        let cells = cells(&options);
        assert_eq!(cells.iter().filter(|name| name.starts_with("bitcoind")).count(), 2, "{cells:?}");
        assert!(cells.iter().any(|name| name == "bitcoind reindex, every script by 4"), "{cells:?}");
    }
}
