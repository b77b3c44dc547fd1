//! The command `lab micro`: microbenchmarks. For each optimization a plain variant, intermediate ones, and the one
//! that ffwd ships.
//!
//! An experiment has one or several tables; a table is one work in several variants. The first variant is the plain
//! one. The result of each variant is compared with that of the plain one before anything is timed. The variants then
//! alternate, epoch by epoch, so that a slowdown of the machine affects all of them; a row is the median epoch.
//!
//! - [`list`] names the tables, [`run`] runs them, [`Report`] is the result.
//! - `bench`: checking and timing; `counters`: instructions and cycles, if the processor counts them. `report`: rows,
//!   Markdown, CSV. `compare`: rows compared with those of another run or program. `input`, `owned`, `library`,
//!   `siphash`: inputs and baselines.
//! - One module for each experiment of the list in `EXPERIMENTS`.
//!
//! Inputs come from seeds, and from block 413567 if the test data exists. Scratch files go to a temporary directory.
//! Absent on purpose: an allocator that counts. Bytes and allocations are computed from capacities, with glibc's
//! rounding.

mod bench;
mod block;
mod block_io;
mod compare;
mod connect;
mod counters;
mod duplicates;
mod flush;
mod hashes;
mod header_hash;
mod input;
mod integers;
mod library;
mod look_up;
mod messages;
mod obfuscation;
mod outpoint_hash;
mod owned;
mod report;
mod scripts;
mod sets;
mod signatures;
mod siphash;
mod sizes;
mod streams;
mod strings;
#[cfg(test)]
mod tests;
mod undo;
mod zeroing;

pub use compare::{Other, run_beside};
pub use counters::Counts;
pub use report::{Compared, Report, Row, Verdict};

use bench::Bench;
use input::Inputs;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only tables whose name contains this, ignoring case.
    pub filter: Option<String>,
    /// Minimum time for each table; default: four seconds or eleven epochs.
    pub min_time: Option<Duration>,
    /// Small inputs and few epochs: every check is made, but the times are meaningless.
    pub quick: bool,
    /// Directory with `blocks/main_413567.blk` and other blocks with their spent coins. Without it a generated block
    /// is used, and its rows state this. See [`default_data`].
    pub data: Option<PathBuf>,
    /// Directory for scratch files; default: the system's temporary directory.
    pub scratch: Option<PathBuf>,
}

/// What runs now.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The table.
    pub experiment: &'a str,
    /// Number of tables that are done.
    pub done: usize,
    /// Number of all tables.
    pub total: usize,
}

/// Why the experiments cannot be run.
#[derive(Debug)]
pub enum Error {
    /// No table has the filter in its name.
    NoSuch {
        /// The filter.
        filter: String,
    },
    /// A scratch file or directory.
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A scratch data directory.
    Store(store::Fault),
    /// The chain from which a block is taken.
    Chain(demo::chain::Error),
    /// A variant did not do its work at all.
    Broken(String),
    /// The run to compare with cannot be read.
    Compare(String),
}

impl Error {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.to_owned();
        move |source| Error::Io { what, path, source }
    }
}

impl From<store::Fault> for Error {
    fn from(fault: store::Fault) -> Error {
        Error::Store(fault)
    }
}

impl From<disk::DiskError> for Error {
    fn from(why: disk::DiskError) -> Error {
        Error::Store(why.into())
    }
}

impl From<demo::chain::Error> for Error {
    fn from(why: demo::chain::Error) -> Error {
        Error::Chain(why)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoSuch { filter } => {
                write!(f, "no experiment has {filter:?} in its name: `ffwd lab micro --list` names them all")
            }
            Error::Io { what, path, source } => write!(f, "cannot {what} {}: {source}", path.display()),
            Error::Store(fault) => write!(f, "{fault}"),
            Error::Chain(why) => write!(f, "{why}"),
            Error::Broken(why) => write!(f, "{why}: this is a bug of the experiment or of ffwd"),
            Error::Compare(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for Error {}

/// One optimization: its tables, and the function that runs them.
struct Experiment {
    /// Each table's name.
    tables: &'static [&'static str],
    run: fn(&mut Bench<'_>, &Inputs) -> Result<(), Error>,
}

/// The experiments, in the order of docs/experiments.md.
const EXPERIMENTS: [Experiment; 20] = [
    block_io::EXPERIMENT,
    undo::EXPERIMENT,
    obfuscation::EXPERIMENT,
    flush::EXPERIMENT,
    sizes::EXPERIMENT,
    integers::EXPERIMENT,
    strings::EXPERIMENT,
    streams::EXPERIMENT,
    sets::EXPERIMENT,
    duplicates::EXPERIMENT,
    outpoint_hash::EXPERIMENT,
    scripts::EXPERIMENT,
    zeroing::EXPERIMENT,
    header_hash::EXPERIMENT,
    hashes::EXPERIMENT,
    signatures::EXPERIMENT,
    look_up::EXPERIMENT,
    block::EXPERIMENT,
    messages::EXPERIMENT,
    connect::EXPERIMENT,
];

/// Names of all tables, in execution order.
#[must_use]
pub fn list() -> Vec<&'static str> {
    EXPERIMENTS.iter().flat_map(|experiment| experiment.tables).copied().collect()
}

/// The test data: the directory in `FFWD_TEST_DATA`, otherwise `../shared/data` below the current directory, otherwise
/// `None`.
#[must_use]
pub fn default_data() -> Option<PathBuf> {
    let named = std::env::var_os("FFWD_TEST_DATA").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from("../shared/data"))).filter(|directory| directory.is_dir())
}

/// Runs the experiments that `options` select, and calls `progress` before each table.
///
/// A variant that disagrees with the plain one also gets a row: see [`Report::disagreements`].
///
/// # Errors
///
/// A filter that matches nothing; a scratch directory that is unusable.
pub fn run(options: &Options, mut progress: impl FnMut(Progress<'_>)) -> Result<Report, Error> {
    let start = Instant::now();
    let filter = options.filter.as_deref().unwrap_or_default().to_lowercase();
    let wanted = |table: &str| table.to_lowercase().contains(&filter);
    let total = list().into_iter().filter(|table| wanted(table)).count();
    if total == 0 {
        return Err(Error::NoSuch { filter });
    }
    let inputs = Inputs::new(options)?;
    let mut bench = Bench::new(options.quick, &wanted, total, &mut progress);
    bench.at_least(options.min_time);
    let no_counters = bench.count();
    for experiment in &EXPERIMENTS {
        if experiment.tables.iter().any(|table| wanted(table)) {
            (experiment.run)(&mut bench, &inputs)?;
        }
    }
    Ok(Report {
        experiments: bench.into_rows(),
        quick: options.quick,
        no_counters,
        seconds: start.elapsed().as_secs_f64(),
    })
}
