//! Why a server was not started.
//!
//! Absent on purpose: the remedy, which names options of the program.

use std::fmt;
use std::io;

/// Why a server was not started.
#[derive(Debug)]
pub enum NotStarted {
    /// No address is free; the reason for each.
    Unbound(String),
    /// The cookie cannot be written; the error names it.
    Cookie(io::Error),
    /// A line of `-rpcauth` is malformed.
    Auth,
    /// The system has no thread, no event queue or no random bytes for it.
    System(io::Error),
}

impl fmt::Display for NotStarted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotStarted::Unbound(why) => write!(f, "Unable to bind any endpoint for RPC server: {why}"),
            NotStarted::Auth => f.write_str("Invalid -rpcauth argument."),
            NotStarted::Cookie(why) | NotStarted::System(why) => why.fmt(f),
        }
    }
}
