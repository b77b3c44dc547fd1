//! The options of `ffwd hints`.

use super::Common;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Subcommand, Clone, Debug)]
pub(crate) enum Hints {
    /// Write which outputs of each block are unspent at the tip (BIP 456)
    Make(HintsMake),
}

#[derive(Args, Clone, Debug)]
pub(crate) struct HintsMake {
    /// File to write, which must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) common: Common,
}
