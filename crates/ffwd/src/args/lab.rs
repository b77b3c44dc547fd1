//! Options of `ffwd demo` and `ffwd lab`.

use super::{DBCACHE_MIB_MAX, DBCACHE_MIB_MIN, PAR_MAX, chain_parser};
use clap::{Args, Subcommand};
use consensus::Chain;
use lab::chain::{Profile, Signatures};
use std::num::NonZeroUsize;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub(crate) struct Demo {
    /// The folder for chain, set and report; must be empty or not there. Everything in it is kept
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Keep chain and set, not only the report
    #[arg(long)]
    pub(crate) keep: bool,
    /// Full blocks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) blocks: u32,
    /// Chains of different seeds have nothing in common
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Workers; 0 for one a core, negative to leave that many cores free [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Lab {
    /// Make a valid regtest chain like mainnet's, as block files
    Chain(LabChain),
    /// Run the small experiments, each variant checked and timed
    Micro(LabMicro),
    /// Run the large ones that a plan names, and compare
    Run(LabRun),
    /// Write the set of coins that is there again, as a flush does: the work commit of a plan
    Commit(LabCommit),
    /// Draw debug.log files and results into one report
    Plot(LabPlot),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabChain {
    /// The data directory to make; blocks go to regtest/blocks in it
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Full blocks
    #[arg(long, value_name = "N")]
    pub(crate) blocks: u32,
    /// Chains of different seeds have nothing in common
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Coins made before the first full block
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) utxos: u64,
    /// Empty blocks after the full ones; 2,100 bury them deep enough for --assumevalid
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) tail: u32,
    /// Whether signatures verify
    #[arg(long, value_name = "real|fake", default_value_t)]
    pub(crate) signatures: Signatures,
    /// What full blocks are like
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) profile: Profile,
    /// Threads that make transactions, which changes no byte [default: one a core]
    #[arg(long, value_name = "N")]
    pub(crate) par: Option<NonZeroUsize>,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabMicro {
    /// Only experiments whose name has this in it
    pub(crate) filter: Option<String>,
    /// Name the experiments, run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabRun {
    /// The plan
    #[arg(required_unless_present = "example", value_name = "PLAN.toml")]
    pub(crate) plan: Option<PathBuf>,
    /// The folder for results
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Go on with a plan that was stopped
    #[arg(long)]
    pub(crate) resume: bool,
    /// Run only cells with this in their name; may be given again. The rest waits for --resume
    #[arg(long, value_name = "WORD")]
    pub(crate) only: Vec<String>,
    /// Print a plan to start from
    #[arg(long, conflicts_with_all = ["plan", "resume", "only"])]
    pub(crate) example: bool,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabCommit {
    /// The data directory
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: PathBuf,
    /// The network
    #[arg(long, value_parser = chain_parser(), default_value = "regtest")]
    pub(crate) chain: Chain,
    /// Memory of the coins that are written at a time, at least 4 [default: as for sync]
    #[arg(long, value_name = "MiB", value_parser = clap::value_parser!(u64).range(DBCACHE_MIB_MIN..=DBCACHE_MIB_MAX))]
    pub(crate) dbcache: Option<u64>,
    /// Threads that write; 0 for one a core, negative to leave that many cores free [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct LabPlot {
    /// debug.log files, results of lab run, and folders of them
    #[arg(required = true, value_name = "FILE|DIR")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The report
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    pub(crate) out: PathBuf,
    /// Write an SVG file a chart beside it
    #[arg(long)]
    pub(crate) svg: bool,
    /// Write a CSV file a chart beside it
    #[arg(long)]
    pub(crate) csv: bool,
    /// The run that others are compared with [default: the slowest]
    #[arg(long, value_name = "NAME")]
    pub(crate) baseline: Option<String>,
    /// Print one JSON object on one line of standard output at the end
    #[arg(long)]
    pub(crate) json: bool,
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
            ("lab run", MissingRequiredArgument, "PLAN.toml"),
            ("lab run --example plan.toml", ArgumentConflict, "--example"),
            ("lab plot", MissingRequiredArgument, "FILE|DIR"),
        ] {
            let why = parse(line).expect_err(line);
            assert_eq!(why.kind(), kind, "{line}: {why}");
            assert!(why.to_string().contains(want), "{line}: {why}");
        }
    }
}
