//! The command `lab estimate`: estimates the time of mainnet's initial block download on this machine, after measuring
//! for about a minute.
//!
//! - `eras`: the amount of work, counted from real blocks and cited. `measure`: the rates of this machine.   `model`:
//!   the time that follows from both.
//!
//! Absent on purpose: a guarantee. The error covers the known uncertainties. [`EstimateOptions::made`] estimates the
//! time of a generated chain, which can be reindexed on the same machine to check the estimate.

mod eras;
mod measure;
mod model;

use crate::machine;
use demo::result::Machine;
use model::{Settings, Time};
use primitives::human;
use serde::Serialize;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Highest block whose scripts are assumed valid by default. Source: Bitcoin Core 32.1, chainparams.cpp, defaultAssumeValid.
const ASSUMED_TO: u32 = 966_143;

/// Options: the estimated sync, and where to measure.
#[derive(Clone, Debug)]
pub struct EstimateOptions {
    /// A directory on the disk of the future data directory; some hundred MB are written there, and removed.
    pub directory: PathBuf,
    /// Workers.
    pub threads: usize,
    /// Budget of the coin set and of blocks in flight, in bytes.
    pub dbcache_bytes: u64,
    /// Download rate in bytes a second; `None` if the block files exist.
    pub download: Option<f64>,
    /// A generated chain instead of mainnet: its number of full blocks, and of coins before them.
    pub made: Option<(u32, u64)>,
    /// Uses small chains, once each, only to test that the command works.
    pub quick: bool,
    /// Set from outside to stop.
    pub stop: Arc<AtomicBool>,
}

impl EstimateOptions {
    fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Stopped) } else { Ok(()) }
    }
}

/// Why there is no estimate.
#[derive(Debug)]
pub enum Error {
    /// A file or directory.
    Io {
        /// The path.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A small chain could not be made.
    Chain(String),
    /// A small chain could not be reindexed.
    Engine(String),
    /// Stopped from outside.
    Stopped,
}

impl Error {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |error| Error::Io { path, error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Error::Chain(why) => write!(f, "a chain to measure with could not be made: {why}"),
            Error::Engine(why) => write!(f, "a chain to measure with could not be reindexed: {why}"),
            Error::Stopped => f.write_str("stopped while measuring"),
        }
    }
}

impl std::error::Error for Error {}

/// A figure, and its variation between repeated measurements in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The mean.
    pub value: f64,
    /// Half of the range between minimum and maximum.
    pub error_percent: f64,
}

impl From<model::Rate> for Figure {
    fn from(rate: model::Rate) -> Figure {
        Figure { value: rate.value, error_percent: rate.error * 100.0 }
    }
}

/// The rates of the machine for blocks of one era.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EraFigures {
    /// The profile of `lab chain`.
    pub profile: &'static str,
    /// Processor time for the scripts of an input, in microseconds.
    pub scripts_us: Figure,
    /// Processor time for parsing and hashing a byte, in nanoseconds.
    pub decode_ns: Figure,
    /// Of a thousand inputs of its real blocks, the number of each type.
    pub spends_per_mille: Vec<(&'static str, u64)>,
}

/// The time for a part of the chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PartTime {
    /// The profile of its blocks.
    pub profile: &'static str,
    /// Number of blocks; the next fields count transactions, inputs, outputs and bytes.
    pub blocks: u64,
    /// See `blocks`.
    pub transactions: u64,
    /// See `blocks`.
    pub inputs: u64,
    /// See `blocks`.
    pub outputs: u64,
    /// See `blocks`.
    pub bytes: u64,
    /// Seconds.
    pub seconds: f64,
    /// The bottleneck.
    pub bound: &'static str,
    /// Processor seconds of each stage.
    pub stages: Vec<(&'static str, f64)>,
}

/// The result for one kind of sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Way {
    /// The scripts that are verified, and the source of blocks.
    pub way: String,
    /// Seconds.
    pub seconds: f64,
    /// The error of the estimate in percent.
    pub error_percent: f64,
    /// `seconds` less the error.
    pub low_seconds: f64,
    /// `seconds` plus the error.
    pub high_seconds: f64,
    /// Era by era.
    pub parts: Vec<PartTime>,
}

/// The measurements, and the estimates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Mainnet up to a height, or a made chain.
    pub chain: String,
    /// The machine.
    pub machine: Machine,
    /// Workers.
    pub threads: usize,
    /// Budget, in bytes.
    pub dbcache_bytes: u64,
    /// Bytes a second that are written and synced.
    pub disk_bytes_per_second: Figure,
    /// Reads of 4 KiB a second, four at a time.
    pub disk_reads_per_second: Figure,
    /// Nanoseconds of a load from memory.
    pub memory_ns: f64,
    /// Nanoseconds of spending or creating a coin.
    pub coin_ns: Figure,
    /// Microseconds of looking a coin up in the tables.
    pub look_up_us: Figure,
    /// Figures of each era.
    pub eras: Vec<EraFigures>,
    /// The times.
    pub ways: Vec<Way>,
    /// Seconds that measuring took.
    pub seconds: f64,
}

/// Measures and estimates; calls `say` with the current step.
///
/// # Errors
///
/// See [`Error`].
pub fn estimate(options: &EstimateOptions, say: &mut dyn FnMut(&str)) -> Result<Report, Error> {
    let start = std::time::Instant::now();
    let directory = options.directory.join(format!("ffwd-lab-estimate-{}", std::process::id()));
    std::fs::create_dir_all(&directory).map_err(Error::io(&directory))?;
    let measured = measure::measure(options, &directory, say);
    // Also removes the files of a failed measurement.
    let removed = std::fs::remove_dir_all(&directory).map_err(Error::io(&directory));
    let measured = measured?;
    removed?;
    let machine = machine::here(&options.directory);
    let (chain, parts) = match options.made {
        None => (format!("mainnet to height {}", human::count(eras::HEIGHT.into())), eras::mainnet(ASSUMED_TO)),
        Some((blocks, utxos)) => {
            let made = format!("{} full blocks on {} coins", human::count(blocks.into()), human::count(utxos));
            (made, eras::made(blocks, utxos))
        }
    };
    let ways = [false, true].map(|every_script| {
        let settings = Settings {
            threads: options.threads as f64,
            dbcache_bytes: options.dbcache_bytes as f64,
            memory_bytes: machine.memory_bytes as f64,
            download: options.download,
            every_script,
        };
        way(&parts, &measured.rates, &settings, options)
    });
    let rates = &measured.rates;
    Ok(Report {
        chain,
        threads: options.threads,
        dbcache_bytes: options.dbcache_bytes,
        disk_bytes_per_second: rates.disk.into(),
        disk_reads_per_second: rates.reads.into(),
        memory_ns: measured.memory_ns,
        coin_ns: scaled(rates.apply, 1e9),
        look_up_us: scaled(rates.look_up, 1e6),
        eras: eras::ERAS.iter().zip(&rates.eras).map(|(era, rates)| figures(era, rates)).collect(),
        machine,
        ways: ways.into(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn scaled(rate: model::Rate, factor: f64) -> Figure {
    model::Rate { value: rate.value * factor, ..rate }.into()
}

fn figures(era: &eras::Era, rates: &model::EraRates) -> EraFigures {
    EraFigures {
        profile: era.profile.name(),
        scripts_us: scaled(rates.scripts, 1e6),
        decode_ns: scaled(rates.decode, 1e9),
        spends_per_mille: eras::SPENDS
            .into_iter()
            .zip(era.spends_per_mille())
            .filter(|(_, share)| *share > 0)
            .collect(),
    }
}

fn way(parts: &[eras::Part], rates: &model::Rates, settings: &Settings, options: &EstimateOptions) -> Way {
    let ages = model::ages(options.made.is_some());
    let times: Vec<Time> = parts.iter().map(|part| model::time(part, rates, settings, &ages)).collect();
    let seconds: f64 = times.iter().map(|time| time.seconds).sum();
    // The errors of the eras are correlated, so they add up.
    let error: f64 = times.iter().map(|time| time.error_seconds).sum();
    let parts = parts.iter().zip(&times).map(|(part, time)| PartTime {
        profile: eras::ERAS[part.era].profile.name(),
        blocks: part.blocks as u64,
        transactions: part.transactions as u64,
        inputs: part.inputs as u64,
        outputs: part.outputs as u64,
        bytes: part.bytes as u64,
        seconds: time.seconds,
        bound: time.bound.words(),
        stages: time.stages.clone(),
    });
    let scripts = if settings.every_script {
        "every script".to_owned()
    } else if options.made.is_some() {
        "scripts assumed valid".to_owned()
    } else {
        format!("scripts assumed valid to height {}", human::count(ASSUMED_TO.into()))
    };
    let from = settings
        .download
        .map_or("from block files".to_owned(), |rate| format!("downloaded at {} a second", human::bytes(rate as u64)));
    Way {
        way: format!("{scripts}, {from}"),
        seconds,
        error_percent: error / seconds.max(1e-9) * 100.0,
        low_seconds: (seconds - error).max(0.0),
        high_seconds: seconds + error,
        parts: parts.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(directory: &Path) -> EstimateOptions {
        EstimateOptions {
            directory: directory.to_owned(),
            threads: 2,
            dbcache_bytes: 450 << 20,
            download: None,
            made: None,
            quick: true,
            stop: Arc::default(),
        }
    }

    /// Quick: whether everything is measured and leads to a time; the figures say nothing.
    #[test]
    fn estimate_measures_and_leaves_nothing_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let mut said = Vec::new();
        let report = estimate(&options(scratch.path()), &mut |line| said.push(line.to_owned())).unwrap();
        assert!(said.len() >= 4, "{said:?}");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        assert!(report.eras.iter().all(|era| era.scripts_us.value > 0.0 && era.decode_ns.value > 0.0), "{report:?}");
        assert!(report.coin_ns.value > 0.0 && report.look_up_us.value >= 0.0 && report.memory_ns > 0.0);
        let [assumed, every] = &report.ways[..] else { panic!("two ways") };
        assert!(assumed.seconds > 0.0 && every.seconds >= assumed.seconds, "{assumed:?} {every:?}");
        for way in &report.ways {
            assert_eq!(way.parts.len(), 5);
            assert!(way.low_seconds < way.seconds && way.seconds < way.high_seconds && way.error_percent >= 6.0);
        }
    }

    #[test]
    fn stopping_ends_the_measurement() {
        let scratch = tempfile::tempdir().unwrap();
        let options = options(scratch.path());
        options.stop.store(true, Ordering::Relaxed);
        assert!(matches!(estimate(&options, &mut |_| {}), Err(Error::Stopped)));
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }
}
