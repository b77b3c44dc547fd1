//! The options of the server, with Core's names, and the command that serves a data directory without peers.

use super::{Common, Writing, zero_or_one};
use clap::Args;

/// Who may ask, and where.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server")]
pub(crate) struct Server {
    /// Answer JSON-RPC calls [default: 0; of serve 1]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) server: Option<bool>,
    /// Answer REST requests, which need no password [default: 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) rest: Option<bool>,
    /// Port of the server [default: the network's]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rpcport: Option<u16>,
    /// Address of the server, IP or IP:PORT; takes --rpcallowip too (repeatable) [default: 127.0.0.1 and ::1]
    #[arg(long, value_name = "ADDR")]
    pub(crate) rpcbind: Vec<String>,
    /// Let clients of this network connect: IP, IP/BITS or IP/NETMASK (repeatable) [default: this machine alone]
    #[arg(long, value_name = "NET")]
    pub(crate) rpcallowip: Vec<String>,
    /// User with the hash of a password, USER:SALT$HASH, as Core's share/rpcauth makes it (repeatable)
    #[arg(long, value_name = "LINE")]
    pub(crate) rpcauth: Vec<String>,
    /// User of --rpcpassword [default: none]
    #[arg(long, value_name = "USER")]
    pub(crate) rpcuser: Option<String>,
    /// Password in place of the cookie; every program of this machine may see it [default: none]
    #[arg(long, value_name = "PASSWORD")]
    pub(crate) rpcpassword: Option<String>,
    /// File of the cookie, relative to the network's directory; 0: make none [default: .cookie]
    #[arg(long, value_name = "FILE")]
    pub(crate) rpccookiefile: Option<String>,
    /// Who may read the cookie: owner, group or all [default: owner]
    #[arg(long, value_name = "WHO")]
    pub(crate) rpccookieperms: Option<String>,
    /// What a user may call, USER:CALL,CALL (repeatable) [default: everything]
    #[arg(long, value_name = "LINE")]
    pub(crate) rpcwhitelist: Vec<String>,
    /// Who is in no --rpcwhitelist may call nothing [default: 1 with --rpcwhitelist, else 0]
    #[arg(long, value_name = "0|1", value_parser = zero_or_one)]
    pub(crate) rpcwhitelistdefault: Option<bool>,
    /// Calls at the same time [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) rpcthreads: Option<u16>,
    /// Calls that wait for a thread [default: 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rpcworkqueue: Option<u16>,
    /// Clients that are connected at the same time; more wait until one has gone. Above 128 it is 128 [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rpcmaxconnections: Option<u16>,
    /// Seconds for a client to send a request [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) rpcservertimeout: Option<u16>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) server: Server,
    #[command(flatten)]
    pub(crate) writing: Writing,
    #[command(flatten)]
    pub(crate) common: Common,
}
