//! Options that limit the download.

use clap::Args;
use node::jobs::Hours;

/// How much may be downloaded, and when.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Download limits")]
pub(crate) struct Download {
    /// Bytes a second from all peers together, at least 1000 [default: no limit]. SIGUSR1 pauses the download of blocks, SIGUSR2 resumes it
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1000..))]
    pub(crate) maxdownload: Option<u64>,
    /// MiB of blocks a day, counted over restarts; a tenth is kept for new blocks at the tip [default: no limit]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub(crate) maxdownloadtarget: Option<u64>,
    /// Hours of the day, local time, in which blocks are downloaded, as 22-7; new blocks at the tip and headers always are [default: all]
    #[arg(long, value_name = "FROM-TO", value_parser = Hours::parse)]
    pub(crate) download_hours: Option<Hours>,
}
