//! Options about where addresses of peers come from, with Core's names.

use super::zero_or_one;
use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Seeds {
    /// Connect to this node for addresses of others, and leave it (repeatable)
    #[arg(long, value_name = "ADDR")]
    pub(crate) seednode: Vec<String>,
    /// Query DNS seeds for peers [default: 1, with --connect 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) dnsseed: Option<bool>,
    /// Query them all at once, whatever addresses are known [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) forcednsseed: Option<bool>,
    /// Use fixed seeds where DNS seeds bring no peers [default: 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) fixedseeds: Option<bool>,
}
