//! Options for who runs ffwd as a service, and the commands that serve a person: what is run when something happens, the
//! full screen, man pages.

use super::{Overwrite, chain_parser};
use clap::Args;
use consensus::Chain;
use std::path::PathBuf;

/// Commands that are run when something happens, with Core's names.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Commands that are told")]
pub(crate) struct Notify {
    /// Run this command when the best block changes, after the initial block download; %s is its hash (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) blocknotify: Vec<String>,
    /// Run this command when a warning is given; %s is the message (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) alertnotify: Vec<String>,
    /// Run this command when the program is ready (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) startupnotify: Vec<String>,
    /// Run this command when the program is to end, and wait for it (repeatable)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) shutdownnotify: Vec<String>,
}

/// Files of the program, with Core's names.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Files of the program")]
pub(crate) struct OwnFiles {
    /// Log, relative to the network's directory; 0: write none [default: debug.log]
    #[arg(long, value_name = "FILE")]
    pub(crate) debuglogfile: Option<PathBuf>,
    /// File with the number of the process, relative to the network's directory; 0: write none [default: bitcoind.pid]
    #[arg(long, value_name = "FILE")]
    pub(crate) pid: Option<PathBuf>,
}

/// `ffwd top`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Top {
    /// Host of the server that is asked
    #[arg(long, value_name = "HOST", default_value = "127.0.0.1")]
    pub(crate) rpcconnect: String,
    /// Its port [default: the network's]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rpcport: Option<u16>,
    /// Network [default: main]
    #[arg(long, value_parser = chain_parser())]
    pub(crate) chain: Option<Chain>,
    /// Data directory whose bitcoin.conf and cookie are read [default: Core's]
    #[arg(long, value_name = "DIR")]
    pub(crate) datadir: Option<PathBuf>,
    /// User of --rpcpassword [default: none]
    #[arg(long, value_name = "USER")]
    pub(crate) rpcuser: Option<String>,
    /// Password, sent where the server asks for one; every program of this machine may see it [default: the cookie]
    #[arg(long, value_name = "PASSWORD")]
    pub(crate) rpcpassword: Option<String>,
    /// File of the cookie, relative to the network's directory [default: .cookie]
    #[arg(long, value_name = "FILE")]
    pub(crate) rpccookiefile: Option<String>,
}

/// `ffwd manuals`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Manuals {
    /// Directory for man pages and completions; it is made
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}
