//! The results of a plan: a record for each run, a row for each cell, one report.
//!
//! Directory: `result.json` a [`Report`] | `plan.toml` | `runs/NNN-..`/ with `run.json` a [`RunRecord`], `samples.csv`
//! ([`SAMPLES_HEADER`]), `debug.log`, `stdout.txt`, `stderr.txt`. Every file is written under another name and renamed
//! when it is complete.
//!
//! Absent on purpose: making runs (`run/engine.rs`) and comparing cells (`run/compare.rs`).

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The value of `format` in a [`Report`]; another number means another layout.
pub const FORMAT: &str = "ffwd lab run 1";

/// Name of the report in its directory.
pub const RESULT_FILE: &str = "result.json";

/// Name of a run's record in its directory.
pub const RUN_FILE: &str = "run.json";

/// Name of a run's samples in its directory.
pub const SAMPLES_FILE: &str = "samples.csv";

/// Name of a profiled run's folded stacks in its directory.
pub const STACKS_FILE: &str = "stacks.folded";

/// First line of the samples: seconds since the start; bytes of anonymous memory; CPU seconds, bytes read from and written to
/// storage since the start; height of the last tip in the log, empty before the first.
pub const SAMPLES_HEADER: &str = "seconds,rss_anon_bytes,cpu_seconds,read_bytes,write_bytes,height";

/// Trust level: the script of every input was run.
pub const EVERY_SCRIPT: &str = "every script";

/// Trust level: scripts below an assumed-valid block were not run.
pub const ASSUMED_VALID: &str = "assumed valid";

/// The machine of the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Its family, model and stepping, from /proc/cpuinfo; empty if that lacks them (ARM).
    pub cpu_family: String,
    /// See [`Machine::cpu_family`].
    pub cpu_model: String,
    /// See [`Machine::cpu_family`].
    pub cpu_stepping: String,
    /// Its features from /proc/cpuinfo: `flags`, or `Features` on ARM.
    pub cpu_flags: Vec<String>,
    /// Logical processors that were usable.
    pub cores: usize,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Operating system and kernel.
    pub system: String,
    /// The governor of the processors' clock rate.
    pub clock_rate: String,
    /// File system and disk of the directory in which the programs worked.
    pub disk: String,
}

/// The settings of a cell from the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Name in the plan.
    pub label: String,
    /// `--dbcache`, in MiB.
    pub dbcache_mib: Option<u64>,
    /// `--par`.
    pub par: Option<i64>,
    /// `--assumevalid`: `tip`, `0` or a block hash.
    pub assumevalid: Option<String>,
    /// bitcoind's `-dbbatchsize`, in MiB.
    pub batch_mib: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The work is complete.
    #[default]
    Done,
    /// The program exited with an error, or without completing the work.
    Failed,
    /// A signal ended it: a crash, or a kill from outside.
    Killed,
    /// It took longer than the plan allows, and was ended.
    Timeout,
}

/// One run of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunRecord {
    /// Position in the order of the plan, from 1.
    pub run: usize,
    /// The cell's name: program, work, chain, settings.
    pub cell: String,
    /// Which repeat, from 1.
    pub repeat: usize,
    /// The run's directory, relative to the report's.
    #[serde(alias = "folder")]
    pub directory: String,
    /// The command as given to the system.
    pub command: Vec<String>,
    /// Commit in the program's version, with `-dirty` if its sources were modified.
    pub commit: Option<String>,
    /// When the program was started, in microseconds since 1970.
    pub started_unix_us: i64,
    /// How it ended.
    pub outcome: Outcome,
    /// If it failed, the reason: exit code, signal, missing result.
    pub why: String,
    /// Seconds from the start of the program to its end, its last commit included.
    pub seconds: f64,
    /// Seconds from the first block in the log to the end; `None` without a block in the log, or without a sample
    /// before it.
    pub seconds_from_first_block: Option<f64>,
    /// Number of committed generations of coins, and the seconds of the commits, both as reported by the program.
    pub flushes: Option<u64>,
    /// See [`RunRecord::flushes`].
    pub commit_seconds: Option<f64>,
    /// File of folded stacks in the run's directory, if it was profiled.
    pub stacks: Option<String>,
    /// Seconds of CPU, user and system.
    pub cpu_seconds: f64,
    /// Seconds of CPU in user mode.
    pub user_seconds: f64,
    /// Seconds of CPU in system mode.
    pub system_seconds: f64,
    /// Number of system calls that read, and of those that write, as counted by the system.
    pub read_calls: u64,
    /// See [`RunRecord::read_calls`].
    pub write_calls: u64,
    /// Maximum of anonymous memory in the samples.
    pub peak_rss_anon_bytes: u64,
    /// Maximum resident memory, mapped files included, as measured by the system.
    pub peak_rss_bytes: u64,
    /// Bytes read from storage.
    pub bytes_read: u64,
    /// Bytes written to storage.
    pub bytes_written: u64,
    /// Share of one core that the sampling itself used.
    pub sampling_share: f64,
    /// Height of the tip at the end.
    pub height: Option<u32>,
    /// Hash of the tip at the end.
    pub bestblock: Option<String>,
    /// Hash of the UTXO set at the end; `None` if the plan did not request it.
    pub hash_serialized_3: Option<String>,
    /// Number of coins at the end.
    pub txouts: Option<u64>,
    /// Which scripts were run: [`EVERY_SCRIPT`] or [`ASSUMED_VALID`].
    pub trust: String,
    /// Whether `trust` was read from the log, not only from the settings.
    pub trust_from_log: bool,
    /// How the chain came into the directory of the work: `copied` or `reflinked`.
    pub chain_by: String,
    /// The limits in force, and those that could not be set.
    pub limits: Vec<String>,
    /// The last lines of the log and of standard error, if the run failed.
    pub last_lines: Vec<String>,
}

/// A cell that failed once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Failure {
    /// Position in the order of the plan.
    pub run: usize,
    /// How it ended.
    pub outcome: Outcome,
    /// The reason, in words.
    pub why: String,
    /// Its last lines of output.
    pub last_lines: Vec<String>,
}

/// All runs of one program, work, chain and settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cell {
    /// Name: program, work, chain, settings.
    pub cell: String,
    /// Label of the program.
    pub program: String,
    /// Kind of work.
    pub work: String,
    /// Label of the chain.
    pub chain: String,
    /// The settings.
    pub settings: Settings,
    /// Which scripts were run.
    pub trust: String,
    /// Number of runs that did the work, from which the figures below are computed.
    pub runs: usize,
    /// Number of failed runs: see `failures`.
    pub failed: usize,
    /// Mean of the seconds.
    pub mean_seconds: Option<f64>,
    /// Standard deviation of the seconds (n - 1); `None` for one run.
    pub stddev_seconds: Option<f64>,
    /// Least of the seconds.
    pub min_seconds: Option<f64>,
    /// Greatest of the seconds.
    pub max_seconds: Option<f64>,
    /// Half of the 95 % interval around the mean, in percent of the mean; `None` for one run.
    pub interval_percent: Option<f64>,
    /// Mean of the seconds from the first block in the log on.
    pub seconds_from_first_block: Option<f64>,
    /// Number of generations of coins that the program reported as written, in the first run that reports it.
    pub flushes: Option<u64>,
    /// Mean of the seconds that the program reported for its commits.
    pub commit_seconds: Option<f64>,
    /// Smallest memory limit in MiB that sufficed, and the largest that did not; if the plan requests it.
    pub least_memory_mib: Option<(u64, u64)>,
    /// Mean seconds divided by those of `ratio_to`: below 1 is faster.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % confidence interval, if both cells ran at least twice.
    pub ratio_low: Option<f64>,
    /// Upper end of the interval.
    pub ratio_high: Option<f64>,
    /// The cell with which it is compared.
    pub ratio_to: Option<String>,
    /// Why there is no comparison.
    pub not_compared: Option<String>,
    /// Maximum anonymous memory of any run.
    pub peak_rss_anon_bytes: Option<u64>,
    /// Mean of the bytes read from storage.
    pub bytes_read: Option<u64>,
    /// Mean of the bytes written to storage.
    pub bytes_written: Option<u64>,
    /// `bytes_written` divided by the bytes of the chain's block files.
    pub bytes_written_per_chain_byte: Option<f64>,
    /// Mean of the CPU seconds.
    pub cpu_seconds: Option<f64>,
    /// Mean of the CPU seconds in user mode.
    pub user_seconds: Option<f64>,
    /// Mean of the CPU seconds in system mode.
    pub system_seconds: Option<f64>,
    /// Mean number of system calls that read.
    pub read_calls: Option<u64>,
    /// Mean number of system calls that write.
    pub write_calls: Option<u64>,
    /// Disabled optimizations of ffwd (`--without`).
    pub without: Vec<String>,
    /// Height of the tip at the end.
    pub height: Option<u32>,
    /// Hash of the tip at the end.
    pub bestblock: Option<String>,
    /// Hash of the UTXO set at the end.
    pub hash_serialized_3: Option<String>,
    /// Number of coins at the end.
    pub txouts: Option<u64>,
    /// Seconds and bytes of anonymous memory over the run nearest to the mean: a few hundred points.
    pub memory_curve: Vec<(f64, u64)>,
    /// Seconds of each run that did the work.
    pub seconds: Vec<f64>,
    /// Runs that did not do the work.
    pub failures: Vec<Failure>,
}

/// A chain of the works.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainFacts {
    /// Label in the plan.
    pub label: String,
    /// Bytes of its block files.
    pub bytes: u64,
    /// Number of blocks in its block files.
    pub blocks: u64,
    /// Height of its last block.
    pub height: u32,
}

/// All results of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// [`FORMAT`].
    pub format: String,
    /// Title of the plan.
    pub title: String,
    /// Label of the program with which the others are compared.
    pub baseline: String,
    /// Whether all runs of the plan are included.
    pub complete: bool,
    /// The machine.
    pub machine: Machine,
    /// Page cache before a run: `kept` or `dropped`, and how.
    pub page_cache: String,
    /// Important notes: limits that were not in force, runs that were not compared.
    pub notes: Vec<String>,
    /// The chains.
    pub chains: Vec<ChainFacts>,
    /// The cells, in the order of the plan.
    pub cells: Vec<Cell>,
    /// The runs, in order of time, without their lines.
    pub runs: Vec<RunRecord>,
}

/// Writes `bytes` to `path` atomically, also in case of a crash.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("part");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&beside, path)?;
    std::fs::File::open(directory_of(path))?.sync_all()
}

/// The directory of a file: for a name alone, the current one.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `value` as JSON with line ends, for a file.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("strings, numbers and lists of them have a JSON form");
    text.push(b'\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_without_a_directory_is_in_the_current_one() {
        for (path, want) in [("cores.json", "."), ("a/cores.json", "a"), ("./cores.json", "."), ("/cores.json", "/")] {
            assert_eq!(directory_of(Path::new(path)), Path::new(want), "{path}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("cores.json");
        write_whole(&path, b"{}").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"{}");
    }
}
