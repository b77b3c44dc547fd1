//! Options of `ffwd demo`.

use crate::options::values::PAR_MAX;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Clone, Debug)]
pub(crate) struct Demo {
    /// Directory for chain and report, empty or absent; everything in it is kept [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Keep the chain and the UTXO set as well as the report
    #[arg(long)]
    pub(crate) keep: bool,
    /// Number of full blocks
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) blocks: u32,
    /// Seed of the random numbers that the chain is made of
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Worker threads; 0: one per core, -N: all cores but N [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-PAR_MAX..=PAR_MAX))]
    pub(crate) par: Option<i64>,
    /// Print the result as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}
