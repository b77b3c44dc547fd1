//! Options for who runs ffwd as a service, and the commands that serve a person: what is run when something happens, the
//! full screen, man pages.

use super::Overwrite;
use crate::options::Place;
use crate::options::given::Given;
use crate::options::values::chain_parser;
use clap::Args;
use consensus::Chain;
use std::path::PathBuf;

/// Commands that are run when something happens.
pub(crate) type Notify = Given<{ Place::Notify as u8 }>;

/// Files of the program.
pub(crate) type OwnFiles = Given<{ Place::OwnFiles as u8 }>;

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
    /// Directory for man pages, completions and reference pages; created if missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) overwrite: Overwrite,
}
