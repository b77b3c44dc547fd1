//! Options of `ffwd lab`.

use super::Overwrite;
use crate::options::values::{Dbcache, PAR_MAX, chain_parser, dbcache};
use ::demo::chain::{Profile, Signatures};
use ::demo::worst::Kind;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use consensus::Chain;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Lab {
    /// Generate a valid regtest chain like mainnet's, as block files
    Chain(LabChain),
    /// Generate a regtest chain whose last blocks take long to verify for their size, as block files
    Worst(LabWorst),
    /// Run microbenchmarks; every variant is checked and timed
    #[cfg(feature = "micro")]
    Micro(LabMicro),
    /// Run the benchmarks of a plan, and compare
    Run(LabRun),
    /// Write the whole UTXO set again, as flushes do (the work commit of a plan)
    Commit(LabCommit),
    /// Measure how much faster a reindex is with more workers
    Cores(LabCores),
    /// Measure this machine for about a minute; estimate how long a sync would take on it
    Estimate(LabEstimate),
    /// Draw debug.log files and results as one report
    Plot(LabPlot),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabChain {
    /// Data directory to make; blocks go to its regtest/blocks
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Number of full blocks
    #[arg(long, value_name = "N")]
    pub(crate) blocks: u32,
    /// Seed of the random numbers that the chain is made of
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Number of coins before the first full block
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) utxos: u64,
    /// Number of empty blocks after the full ones; --assumevalid takes 2100 [default: 0]
    #[arg(long, value_name = "N", hide_default_value = true, default_value_t = 0)]
    pub(crate) tail: u32,
    /// Signatures that verify, or random bytes in their place
    #[arg(long, value_name = "real|fake", default_value_t)]
    pub(crate) signatures: Signatures,
    /// Mix of transactions in full blocks
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) profile: Profile,
    /// Threads that make transactions; the chain is the same with any number [default: one per core]
    #[arg(long, value_name = "N")]
    pub(crate) par: Option<NonZeroUsize>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabWorst {
    /// Data directory to make; blocks go to its regtest/blocks
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// What makes the blocks slow (docs/lab.md)
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)).try_map(|name| name.parse::<Kind>()))]
    pub(crate) kind: Kind,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabMicro {
    /// Only benchmarks whose name contains this
    pub(crate) filter: Option<String>,
    /// List the benchmarks, run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Least time of each table [default: 4 s, or 11 epochs where those take longer]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) min_time: Option<Duration>,
    /// Small inputs, each variant timed once: all checks are made, but the times mean nothing; for tools that count instructions
    #[arg(long, conflicts_with_all = ["min_time", "compare"])]
    pub(crate) quick: bool,
    /// Compare with a saved run (what --json printed) or with another ffwd, which runs before and after; each row gets a verdict [default: none]
    #[arg(long, value_name = "FILE|PROGRAM")]
    pub(crate) compare: Option<PathBuf>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabRun {
    /// Plan to run
    #[arg(required_unless_present = "example", value_name = "PLAN.toml")]
    pub(crate) plan: Option<PathBuf>,
    /// Directory for results [default: PLAN-results]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Continue a plan that was stopped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Run only cells whose name contains this (repeatable); --resume runs the others
    #[arg(long, value_name = "WORD")]
    pub(crate) only: Vec<String>,
    /// Sample the stacks of every run by perf; lab plot draws them as flame graphs
    #[arg(long)]
    pub(crate) profile: bool,
    /// Print an example of a plan
    #[arg(long, conflicts_with_all = ["plan", "resume", "only"])]
    pub(crate) example: bool,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabCommit {
    /// Data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: PathBuf,
    /// Network
    #[arg(long, value_parser = chain_parser(), default_value = "regtest")]
    pub(crate) chain: Chain,
    /// Memory of the coins of one flush, at least 4 [default: as for sync]
    #[arg(long, value_name = "MiB|auto", value_parser = dbcache)]
    pub(crate) dbcache: Option<Dbcache>,
    /// Threads that write; 0: one per core, -N: all cores but N [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabEstimate {
    /// Directory on the disk to measure; files written there are removed [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// Memory for coins and blocks in flight, at least 4 [default: as for sync]
    #[arg(long, value_name = "MiB|auto", value_parser = dbcache)]
    pub(crate) dbcache: Option<Dbcache>,
    /// Worker threads; 0: one per core, -N: all cores but N [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Rate at which blocks come from peers [default: none, from block files that are there]
    #[arg(long, value_name = "MBIT/S", value_parser = mbit)]
    pub(crate) download: Option<f64>,
    /// Estimate a reindex of a chain of lab chain with this many full blocks, to hold the estimate to [default: mainnet]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) made: Option<u32>,
    /// Coins before the first full block of that chain
    #[arg(long, value_name = "N", default_value_t = 3_200_000, requires = "made", value_parser = clap::value_parser!(u64).range(1_000..=200_000_000))]
    pub(crate) utxos: u64,
    /// Only see whether it works: tiny chains, once each
    #[arg(long)]
    pub(crate) quick: bool,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabPlot {
    /// debug.log files, results of lab run, or directories of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Report to write
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Write each chart as an SVG file as well
    #[arg(long)]
    pub(crate) svg: bool,
    /// Write each chart as a CSV file as well
    #[arg(long)]
    pub(crate) csv: bool,
    /// Run that others are compared with [default: the slowest]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Horizontal axis of the charts of height and time
    #[arg(long, value_enum, default_value_t)]
    pub(crate) x: PlotX,
    /// First height of the charts of ratios
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) from_height: u32,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

/// The x axis of `lab plot`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum PlotX {
    #[default]
    Time,
    Height,
}

/// The longest `--min-time`.
const MIN_TIME_SECONDS_MAX: f64 = 3600.0;

/// Megabits a second.
fn mbit(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.01..=1e6).contains(&rate) => Ok(rate),
        _ => Err("a rate from 0.01 to 1000000 megabits a second was expected".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..=MIN_TIME_SECONDS_MAX).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("a number of seconds from 0 to {MIN_TIME_SECONDS_MAX} was expected")),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::tests::parse;
    use clap::error::ErrorKind::*;

    #[test]
    fn wrong_use_says_why() {
        for (line, kind, want) in [
            ("lab chain --blocks 5", MissingRequiredArgument, "--out"),
            ("lab chain --out x --blocks 5 --signatures good", ValueValidation, "real or fake"),
            ("lab chain --out x --blocks 5 --profile moon", ValueValidation, "mainnet-2025"),
            ("lab chain --out x --blocks 5 --par 0", ValueValidation, "0"),
            ("lab worst --out x --kind slow", InvalidValue, "quadratic-legacy"),
            ("lab micro --min-time=-1", ValueValidation, "seconds"),
            ("lab run", MissingRequiredArgument, "PLAN.toml"),
            ("lab estimate --download 0", ValueValidation, "megabits a second"),
            ("lab estimate --utxos 5000", MissingRequiredArgument, "--made"),
            ("lab run --example plan.toml", ArgumentConflict, "--example"),
            ("lab plot", MissingRequiredArgument, "FILE|DIR"),
        ] {
            let why = parse(line).expect_err(line);
            assert_eq!(why.kind(), kind, "{line}: {why}");
            assert!(why.to_string().contains(want), "{line}: {why}");
        }
    }
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabCores {
    /// JSON file to write the result to; in an existing directory, cores.json
    #[arg(value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Number of full blocks of the chain
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub(crate) blocks: u32,
    /// Number of coins before the first full block
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) utxos: u64,
    /// Number of runs of each kind
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Greatest number of workers [default: one per processor]
    #[arg(long, value_name = "N")]
    pub(crate) par: Option<NonZeroUsize>,
    /// Program bitcoind to compare with; it runs with the greatest number of threads only
    #[arg(long, value_name = "FILE")]
    pub(crate) bitcoind: Option<PathBuf>,
    /// Use a small chain and one run of each kind, to test the command
    #[arg(long)]
    pub(crate) quick: bool,
}
