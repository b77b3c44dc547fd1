//! The options of `ffwd export`.

use super::audit::Files;
use super::{Common, Overwrite};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Formats of an export.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// Apache Parquet, compressed with zstd.
    #[default]
    Parquet,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Export {
    /// Directory to write to: in it one for each table, and in that one for every thousand blocks
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    /// Height of the first block
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(crate) from: u32,
    /// Height of the last block [default: the tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: Option<u32>,
    /// Format of the files
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// Tables, of blocks, transactions, inputs, outputs [default: all; with --nested the first two]
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) tables: Vec<String>,
    /// Columns, such as value or outputs.value [default: all]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    pub(crate) columns: Vec<String>,
    /// Put inputs and outputs into lists of their transaction
    #[arg(long)]
    pub(crate) nested: bool,
    /// Plan of the chain (ffwd audit plan --out), which spares reading the block index [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) common: Common,
}
