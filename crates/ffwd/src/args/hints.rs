//! The options of `ffwd hints`.

use super::Common;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Hints {
    /// Write which outputs of each block are unspent at the tip (BIP 456), or a bit for each signature
    Make(HintsMake),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HintsMake {
    /// File to write, which must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Write hints for --signature-hints: for each input whether the y of the point R of its ECDSA signature is odd. Needs all blocks and their undo data
    #[arg(long)]
    pub(crate) signatures: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}
