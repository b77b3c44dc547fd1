//! The options of `ffwd export`.

use super::audit::Files;
use super::{Common, Overwrite};
use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use primitives::Height;
use std::path::PathBuf;

/// Formats of an export.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// Apache Parquet, compressed with zstd
    #[default]
    Parquet,
    /// Text with a line for each coin; only for --coins
    Csv,
    /// A database of SQLite with the table utxos; only for --coins, needs the feature `sqlite`
    Sqlite,
}

/// The UTXO set as a table.
#[derive(Args, Clone, Debug)]
pub(crate) struct CoinsTable {
    /// Export the UTXO set to one file, in place of blocks: txid, vout, height, coinbase, amount, script, type, address
    #[arg(
        long,
        help_heading = "Other tables",
        conflicts_with_all = ["from", "to", "tables", "columns", "nested", "plan", "files"]
    )]
    pub(crate) coins: bool,
    /// With --coins the UTXO set at this height of the chain, computed with undo data; temporary files go next to the file [default: the tip]
    #[arg(long, value_name = "HEIGHT", help_heading = "Other tables", requires = "coins", conflicts_with = "snapshot", value_parser = clap::value_parser!(u32).map(Height::new))]
    pub(crate) height: Option<Height>,
    /// With --coins the UTXO set of this snapshot file, in place of the data directory's [default: none]
    #[arg(long, value_name = "FILE", help_heading = "Other tables", requires = "coins")]
    pub(crate) snapshot: Option<PathBuf>,
}

/// Tweaks of silent payments as a table.
#[derive(Args, Clone, Debug)]
pub(crate) struct TweaksTable {
    /// Export the tweaks of silentpaymentindex to one file, in place of blocks: txid, height, tweak_key, outputs, as Frigate has them
    #[arg(
        long,
        help_heading = "Other tables",
        conflicts_with_all = ["coins", "tables", "columns", "nested", "plan", "files"]
    )]
    pub(crate) tweaks: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Export {
    /// Directory to write to: in it one for each table, and in that one for every thousand blocks. With --coins or --tweaks the file to write
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    #[command(flatten)]
    pub(crate) table: CoinsTable,
    #[command(flatten)]
    pub(crate) tweaks: TweaksTable,
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
