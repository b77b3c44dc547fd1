//! The options of `ffwd audit`.

use super::{Common, HashType, Overwrite, SignatureHintsFile};
use ::audit::Keys;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Audit {
    /// Cut the chain into ranges of about equal bytes, for the parts of an audit or an export
    Plan(AuditPlan),
    /// Judge a range of blocks with its undo data, every script run, and write its record
    Part(AuditPart),
    /// Sum the UTXO set, or a part of it, and write the record
    Coins(AuditCoins),
    /// Join the records of all ranges and of the UTXO set to one verdict
    Join(AuditJoin),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AuditPlan {
    /// Number of ranges
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) parts: u32,
    /// Height of the first block
    #[arg(long, value_name = "HEIGHT", default_value_t = 0)]
    pub(crate) from: u32,
    /// Height of the last block [default: the tip]
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: Option<u32>,
    /// File to write the plan to, which parts and exports take instead of the block index [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Who reads the data directory's files.
#[derive(Args, Clone, Debug)]
pub(crate) struct Files {
    /// Unix socket of a program that reads the data directory's files, for an object store (docs/cluster.md) [default: none]
    #[arg(long, value_name = "SOCKET")]
    pub(crate) files: Option<PathBuf>,
}

/// The audit's secret, and where the record goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Secret {
    /// File of the audit's secret, 64 random hexadecimal digits, the same for all its parts; `-`: standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) salt: PathBuf,
    /// File to write the record to [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AuditPart {
    /// Height of the first block; 0: the genesis block
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) from: u32,
    /// Height of the last block
    #[arg(long, value_name = "HEIGHT")]
    pub(crate) to: u32,
    /// Plan of the chain (ffwd audit plan --out), which spares reading the block index [default: none]
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) signature_hints: SignatureHintsFile,
    #[command(flatten)]
    pub(crate) secret: Secret,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AuditCoins {
    /// Coins whose txids begin with these two bytes, as tables have them, such as 0000-7fff [default: 0000-ffff]
    #[arg(long, value_name = "FIRST-LAST", value_parser = keys)]
    pub(crate) keys: Option<Keys>,
    /// Hash of the UTXO set to compute; hash_serialized_3 needs the whole set
    #[arg(long, value_enum, default_value_t)]
    pub(crate) hash: HashType,
    #[command(flatten)]
    pub(crate) secret: Secret,
    #[command(flatten)]
    pub(crate) files: Files,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct AuditJoin {
    /// Records, in any order
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Print the verdict as one JSON object on one line
    #[arg(long)]
    pub(crate) json: bool,
}

fn keys(text: &str) -> Result<Keys, String> {
    Keys::from_text(text).ok_or_else(|| "expected two bytes in hexadecimal, twice, such as 0000-7fff".to_owned())
}
