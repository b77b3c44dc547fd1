//! The options of `ffwd doctor` and `ffwd repair`.

use super::{Common, WithPeers};
use clap::Args;

#[derive(Args, Clone, Debug)]
pub(crate) struct Doctor {
    /// Read every byte: blocks, undo data, tables; without it the look takes seconds
    #[arg(long)]
    pub(crate) deep: bool,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Repair {
    #[command(flatten)]
    pub(crate) with_peers: WithPeers,
}
